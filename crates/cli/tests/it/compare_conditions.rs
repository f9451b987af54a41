//! `dyno compare`: loads, tests and answers that differ between the sides, and slices that are judged
//! together.

use serde_json::Value;

use crate::program::Folder;

/// Writes a configuration of a Server run in virtual time.
fn config(folder: &Folder, name: &str, system: &str, further: &str) {
    folder.write(
        name,
        &format!(
            "version = 1\n[run]\nsystem = \"model:{system}\"\nscenario = \"server\"\n\
             mode = \"performance\"\n{further}"
        ),
    );
}

/// Measures a configuration.
fn run(folder: &Folder, config: &str, out: &str, further: &str) {
    let ran = folder.dyno(&format!("run --config {config} --out {out} --quiet {further}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
}

fn tenants(rates: &[(&str, u32)]) -> String {
    let tenant = |(seed, (name, qps)): (usize, &(&str, u32))| {
        format!(
            "[[tenants]]\nname = \"{name}\"\n[tenants.settings]\nserver_target_qps = {qps}\n\
             server_target_latency_ns = \"50ms\"\nschedule_rng_seed = {seed}\n"
        )
    };
    format!("duration = \"20s\"\n{}", rates.iter().enumerate().map(tenant).collect::<String>())
}

#[test]
fn a_missing_or_renamed_tenant_is_another_load() {
    let folder = Folder::new();
    let system = "exponential=2ms,servers=2";
    config(&folder, "two.toml", system, &tenants(&[("chat", 300), ("batch", 400)]));
    config(&folder, "renamed.toml", system, &tenants(&[("chat", 300), ("batch2", 50)]));
    config(&folder, "one.toml", system, &tenants(&[("chat", 300)]));
    for name in ["two", "renamed", "one"] {
        run(&folder, &format!("{name}.toml"), name, "");
    }
    for other in ["one", "renamed"] {
        let ran = folder.dyno(&format!("compare two {other} --strict")).exits(2);
        let expected =
            "tests: Server of tenant batch, Server of tenant chat against Server of tenant";
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: --force"), "{}", ran.stderr);
        folder.dyno(&format!("compare {other} two")).exits(2);
        let forced = folder.dyno(&format!("compare two {other} --force --json")).json();
        assert_eq!(forced["tests"].as_array().unwrap().len(), 1, "what both have: {forced}");
        assert!(forced["remarks"].to_string().contains("forced despite tests: "), "{forced}");
        let played = format!("compare --interleave 2 two.toml {other}.toml --out no-{other}");
        let ran = folder.dyno(&played).exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(
            !folder.0.join(format!("no-{other}")).exists(),
            "rejected before anything is played"
        );
    }
}

#[test]
fn a_missing_scenario_is_rejected() {
    let folder = Folder::new();
    config(&folder, "a.toml", "lognormal=2ms,servers=4", "duration = \"5s\"\nqps = 500\n");
    run(&folder, "a.toml", "both", "--scenario server,single-stream");
    run(&folder, "a.toml", "server", "");
    let ran = folder.dyno("compare both server --strict").exits(2);
    assert!(ran.stderr.contains("against Server"), "{}", ran.stderr);
    let forced = folder.dyno("compare both server --force --json").json();
    let remarks = forced["remarks"].to_string();
    assert!(remarks.contains("SingleStream is not compared: not every run has it"), "{remarks}");
}

#[test]
fn a_ramp_is_a_condition() {
    let folder = Folder::new();
    config(&folder, "a.toml", "lognormal=2ms,servers=4", "duration = \"10s\"\nqps = 200\n");
    config(
        &folder,
        "b.toml",
        "lognormal=2ms,servers=4",
        "duration = \"10s\"\nqps = 200\nramp = \"5s\"\n",
    );
    run(&folder, "a.toml", "a", "");
    run(&folder, "b.toml", "b", "");
    for compared in
        ["a b", "--interleave 2 a.toml b.toml --out no", "--interleave 2 a.toml b.toml --dry-run"]
    {
        let ran = folder.dyno(&format!("compare {compared}")).exits(2);
        assert!(ran.stderr.contains("Server: ramp: none against 5.00 s"), "{}", ran.stderr);
    }
    assert!(!folder.0.join("no").exists());
    run(&folder, "b.toml", "again", "--seed 3");
    // Runs of one system differ by less than 40 %.
    folder.dyno("compare b again --threshold 40%").exits(0);
}

#[test]
fn stages_are_compared_by_their_plan_and_resumed() {
    let folder = Folder::new();
    let system = "exponential=2ms,servers=2";
    config(&folder, "a.toml", system, "stages = \"5s@100,5s@300\"\n");
    config(&folder, "b.toml", system, "stages = \"5s@100,5s@300\"\n");
    config(&folder, "c.toml", system, "stages = \"5s@300,5s@100\"\n");
    // Each pair has a seed of its own, and with it another number of arrivals.
    let played = "compare --interleave 3 a.toml b.toml --out pairs --json";
    let report = folder.dyno(played).exits(0).json();
    assert_eq!(report["tests"][0]["runs"], serde_json::json!([3, 3]), "{report}");
    std::fs::remove_dir_all(folder.0.join("pairs/b-2")).unwrap();
    let resumed = folder.dyno(&format!("{played} --resume")).exits(0);
    assert_eq!(resumed.stderr.matches("\nrun ").count(), 1, "{}", resumed.stderr);
    assert_eq!(resumed.json(), report);
    for (config, out, seed) in [("a", "first", 1), ("b", "second", 2), ("c", "other", 1)] {
        run(&folder, &format!("{config}.toml"), out, &format!("--seed {seed}"));
    }
    let told: serde_json::Value = serde_json::from_str(&folder.read("first/summary.json")).unwrap();
    let result = &told["tests"][0]["result"];
    assert!(result["value"].is_number() && result["interval"].is_null(), "{result}");
    let report = folder.dyno("compare first second --json").json();
    assert_eq!(report["tests"][0]["runs"], serde_json::json!([1, 1]), "{report}");
    let expected = "arrivals: stages 5s@100,5s@300 against stages 5s@300,5s@100";
    for compared in ["first other", "--interleave 2 a.toml c.toml --out no"] {
        let ran = folder.dyno(&format!("compare {compared}")).exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    assert!(!folder.0.join("no").exists(), "rejected before anything is played");
    let sliced = folder.dyno("compare --interleave 2 a.toml b.toml --slices 4").exits(2);
    assert!(sliced.stderr.contains("a part of them is another load"), "{}", sliced.stderr);
}

#[test]
fn plans_know_the_length_of_stages() {
    let folder = Folder::new();
    config(&folder, "a.toml", "fixed=1ms,servers=4", "stages = \"10s@100,20s@50-100\"\n");
    let plan = folder.dyno("run --config a.toml --dry-run").exits(0).stdout;
    let seconds: f64 = plan
        .split_once("Server: performance (at least ")
        .and_then(|(_, rest)| rest.split_once(" s)")?.0.parse().ok())
        .unwrap_or_else(|| panic!("{plan}"));
    // The run ends with its last arrival, at 100/s.
    assert!((29.5..=30.0).contains(&seconds), "{plan}");
    assert!(plan.contains("server_arrivals = stages 10s@100,20s@50-100  ("), "{plan}");
    assert!(plan.lines().all(|line| line.len() < 200), "{plan}");
    let plan = folder.dyno("compare --interleave 2 a.toml a.toml --dry-run").exits(0).stdout;
    assert!(!plan.contains("at least 0 ns"), "{plan}");

    // In real time, the length limits the pairs before anything is measured.
    folder.write(
        "null.toml",
        "version = 1\n[run]\nsystem = \"null\"\nscenario = \"server\"\nstages = \"2s@100,1s@200\"\n",
    );
    for limit in
        ["--interleave 2 --max-time 4s", "--interleave 2 --max-time 7s", "--until-decided 7s"]
    {
        let ran = folder.dyno(&format!("compare null.toml null.toml {limit} --out no")).exits(2);
        assert!(ran.stderr.contains("too short for two pairs; one takes 5."), "{}", ran.stderr);
        let flag = if limit.starts_with("--until") { "--until-decided" } else { "--max-time" };
        assert!(ran.stderr.contains(&format!("hint: raise {flag}")), "{}", ran.stderr);
        assert!(!folder.0.join("no").exists(), "nothing is measured");
    }
    let sweep = "sweep --system null --scenario server --mode performance \
                 --over stages=2s@100;3s@100,2s@50 --dry-run";
    let plan = folder.dyno(sweep).exits(0).stdout;
    assert!(plan.contains("  1.9") && plan.contains("  4.9"), "{plan}");
}

const TOKENS: &str = "duration = \"20s\"\nqps = 200\n[settings]\nuse_token_latencies = true\n\
                      server_ttft_latency = \"1s\"\nserver_tpot_latency = \"1s\"\n";

fn row<'a>(report: &'a Value, metric: &str) -> &'a Value {
    let rows = report["tests"][0]["metrics"].as_array().unwrap();
    rows.iter().find(|row| row["metric"] == metric).unwrap_or_else(|| panic!("{metric}: {report}"))
}

#[test]
fn shorter_answers_are_not_better() {
    let folder = Folder::new();
    let system = |tokens: &str| format!("lognormal=2ms,servers=4,tokens={tokens},per-token=100us");
    config(&folder, "long.toml", &system("18-22"), TOKENS);
    config(&folder, "short.toml", &system("3"), TOKENS);
    run(&folder, "long.toml", "long", "");
    run(&folder, "long.toml", "again", "--seed 3");
    run(&folder, "short.toml", "short", "--seed 3");
    let metrics = "--metric p50,throughput,tpot-p50";
    let report =
        folder.dyno(&format!("compare long short {metrics} --strict --json")).exits(1).json();
    assert_eq!(report["verdict"], "inconclusive", "{report}");
    assert_eq!(row(&report, "p50")["doubt"], "conditions");
    assert_eq!(row(&report, "tpot-p50")["finding"], "equivalent", "a time per token: {report}");
    let tokens = &report["tests"][0]["output_tokens"];
    assert_eq!((&tokens["different"], &tokens["candidate"]), (&true.into(), &3.0.into()));
    assert!((tokens["baseline"].as_f64().unwrap() - 20.0).abs() < 0.2, "{tokens}");
    assert!(tokens["high"].as_f64().unwrap() < -0.8, "{tokens}");
    let text = folder.dyno("compare long short").exits(0).stdout;
    assert!(text.contains("tokens out") && text.contains("different"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let forced =
        folder.dyno(&format!("compare long short {metrics} --force --json")).exits(0).json();
    assert_eq!(forced["verdict"], "better", "{forced}");
    // More tokens take longer: that stays worse.
    assert_eq!(folder.dyno("compare short long --json").exits(1).json()["verdict"], "worse");
    // Answers of equal length change no finding.
    let same = folder.dyno("compare long again --metric p50 --margin 50% --strict --json").exits(0);
    let same = same.json();
    assert_eq!(same["tests"][0]["output_tokens"]["different"], false, "{same}");
    assert_eq!(same["verdict"], "equivalent", "{same}");
}

#[test]
fn failures_are_judged_over_all_slices_of_a_side() {
    let folder = Folder::new();
    let load = "duration = \"8s\"\nqps = 50\n";
    config(&folder, "a.toml", "lognormal=2ms,servers=4", load);
    config(&folder, "b.toml", "lognormal=2ms,servers=4,failed=0.004", load);
    config(&folder, "c.toml", "lognormal=2ms,servers=4,failed=0.1", load);
    let compare = "--slices 8 --metric mean --strict --json";
    // A slice has 50 queries, of which none may fail at p99; the run has 400.
    let played = format!("compare --interleave 2 a.toml b.toml --out few {compare}");
    let report = folder.dyno(&played).exits(0).json();
    let verdict = |slice: &str| -> Value {
        let text = folder.read(&format!("few/{slice}/summary.json"));
        serde_json::from_str::<Value>(&text).unwrap()["verdict"].clone()
    };
    let slices = (1..=2).flat_map(|pair| (1..=8).map(move |slice| format!("b-{pair}/{slice}")));
    assert!(slices.map(|slice| verdict(&slice)).any(|verdict| verdict == "INVALID"));
    assert_eq!(report["verdict"], "equivalent", "{report}");
    assert_eq!(report["tests"][0]["notes"], serde_json::json!([]), "{report}");
    let played = format!("compare --interleave 2 a.toml c.toml --out many {compare}");
    let report = folder.dyno(&played).exits(1).json();
    let notes = report["tests"][0]["notes"].to_string();
    assert!(notes.contains("the candidate is INVALID"), "{notes}");
    assert!(notes.contains("requests in all slices failed, and"), "{notes}");
}

#[test]
fn in_profile_llm_no_request_of_any_slice_may_fail() {
    let folder = Folder::new();
    let load = "profile = \"llm\"\nduration = \"8s\"\nqps = 50\n";
    config(&folder, "a.toml", "lognormal=2ms,servers=4", load);
    config(&folder, "b.toml", "lognormal=2ms,servers=4,failed=0.02", load);
    let played = "compare --interleave 2 a.toml b.toml --slices 8 --metric mean --strict --json";
    let report = folder.dyno(played).exits(1).json();
    let notes = report["tests"][0]["notes"].to_string();
    assert!(notes.contains("the candidate is INVALID"), "{notes}");
    assert!(notes.contains("requests in all slices failed, and 0 may"), "{notes}");
    // A requirement replaces that rule. It is judged over all slices, too: a tenth is more than 3 %.
    config(&folder, "c.toml", "lognormal=2ms,servers=4,failed=0.1", load);
    let required = "a.toml c.toml --require errors<=3% --out required";
    let played = played.replace("a.toml b.toml", required);
    let report = folder.dyno(&played).exits(1).json();
    let notes = report["tests"][0]["notes"].to_string();
    assert!(notes.contains("the requirement errors <= 3 % is missed over all slices: "), "{notes}");
}

#[test]
fn the_reason_of_an_invalid_side_is_shown() {
    let folder = Folder::new();
    let bound = "duration = \"20s\"\nqps = 500\n[settings]\nserver_target_latency_ns = \"3ms\"\n";
    config(&folder, "slow.toml", "lognormal=2.4ms,servers=4", bound);
    run(&folder, "slow.toml", "slow", "");
    run(&folder, "slow.toml", "again", "--seed 3");
    let text = folder.dyno("compare slow again").exits(1).stdout;
    assert!(text.contains("the baseline and the candidate are INVALID"), "{text}");
    assert!(text.contains("answered samples are"), "{text}");
}

/// A cache answers one sample faster than many.
#[test]
fn runs_with_another_selection_of_samples_or_repetition_are_not_compared() {
    let folder = Folder::new();
    config(&folder, "run.toml", "fixed=1ms", "duration = \"20s\"\nqps = 100\n");
    run(&folder, "run.toml", "all", "");
    run(&folder, "run.toml", "few", "--seed 3 --set performance_sample_count_override=8");
    run(&folder, "run.toml", "same", "--seed 3 --set performance_issue_same=true");
    run(&folder, "run.toml", "worst", "--seed 3 --set repetition=minimum:2");
    let few: Value = serde_json::from_str(&folder.read("few/summary.json")).unwrap();
    assert_eq!(few["tests"][0]["data"]["performance"], 8, "{few}");
    for (other, expected) in [
        ("few", "performance set: 1,024 samples against 8 samples"),
        ("same", "selection of samples: random against performance_issue_same=true"),
        ("worst", "repetition: once against minimum:2"),
    ] {
        let ran = folder.dyno(&format!("compare all {other} --strict")).exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        let forced = folder.dyno(&format!("compare all {other} --force --json")).json();
        assert!(forced["remarks"].to_string().contains("forced despite"), "{forced}");
    }
    // Earlier versions wrote the size of the library.
    run(&folder, "run.toml", "again", "--seed 4 --set performance_sample_count_override=8");
    let newer = folder.read("few/summary.json");
    let older = newer.replace("\"performance\": 8", "\"performance\": 1024");
    assert_ne!(older, newer);
    folder.write("few/summary.json", &older);
    let ran = folder.dyno("compare few again --strict");
    assert!(ran.stdout.contains("baseline"), "{}", ran.stderr);
    let flag = "--set performance_issue_same=true";
    folder.write(
        "same.toml",
        &(folder.read("run.toml") + "[settings]\nperformance_issue_same = true\n"),
    );
    let both = folder.dyno("compare --interleave 2 run.toml same.toml --out no").exits(2);
    assert!(both.stderr.contains("selection of samples: random against"), "{}", both.stderr);
    // A flag applies to both sides.
    folder.dyno(&format!("compare --interleave 2 run.toml same.toml {flag} --dry-run")).exits(0);
}
