//! `--round` and `--benchmark`, and what `dyno info rules` prints.

use serde_json::Value;

use crate::program::Folder;

const RUN: &str =
    "run --system model:fixed=1ms --mode performance --round v5.1 --benchmark resnet50";

/// Origin and value of a setting in `effective.toml`'s form of a dry run.
#[track_caller]
fn assert_told(text: &str, line: &str) {
    assert!(text.lines().any(|of| of.trim() == line), "no `{line}` in\n{text}");
}

#[test]
fn a_round_stands_above_the_profile_and_below_all_that_is_said() {
    let folder = Folder::new();
    let plain = folder.dyno(&format!("{RUN} --scenario server --qps 50 --dry-run")).exits(0).stdout;
    assert_told(&plain, "min_duration_ms = 600000  (round v5.1, resnet)");
    assert_told(&plain, "server_target_latency_ns = 15000000  (round v5.1, resnet)");
    assert_told(&plain, "schedule_rng_seed = 18209322760996052031  (round v5.1, resnet)");
    assert_told(&plain, "trace_rules = up-to-5.1  (round v5.1, resnet)");
    assert_told(&plain, "Settings are those of round v5.1 for resnet.");
    assert!(!plain.contains("Departs from round"), "{plain}");
    // The quick profile would be 5 s and 50 ms.
    let quick = folder
        .dyno(&format!("{RUN} --scenario server --qps 50 --profile quick --dry-run"))
        .exits(0);
    assert_told(&quick.stdout, "min_duration_ms = 600000  (round v5.1, resnet)");
    // Rows of LoadGen's name for the model are those of the benchmark.
    folder.write("user.conf", "resnet50.Server.target_qps = 77\n*.Server.min_duration = 700000\n");
    let conf = folder.dyno(&format!("{RUN} --scenario server --conf user.conf --dry-run")).exits(0);
    assert_told(&conf.stdout, "server_target_qps = 77 queries/s  (user.conf:1)");
    assert_told(&conf.stdout, "min_duration_ms = 700000  (user.conf:2)");
    assert!(!conf.stdout.contains("Departs from round"), "longer is allowed: {}", conf.stdout);
    let text = "version = 1\n[run]\nround = \"5.1\"\nbenchmark = \"resnet\"\nscenario = \"Server\"\n\
                qps = 9\nmode = \"performance\"\nsystem = \"null\"\n[settings]\nqsl_rng_seed = 7\n";
    folder.write("dyno.toml", text);
    let file = folder.dyno("run --config dyno.toml --dry-run").exits(0).stdout;
    assert_told(&file, "qsl_rng_seed = 7  (dyno.toml:10)");
    assert!(
        file.contains("Departs from round v5.1: dyno.toml:10 sets qsl_rng_seed to 7"),
        "{file}"
    );
    let flag = folder.dyno("run --config dyno.toml --set qsl_rng_seed=8 --dry-run").exits(0).stdout;
    assert_told(&flag, "qsl_rng_seed = 8  (flag --set)");
}

#[test]
fn departures_of_tenants_and_of_audits_are_told() {
    let folder = Folder::new();
    let run = format!("{RUN} --scenario server --qps 50 --dry-run");
    let plan = folder.dyno(&format!("{run} --set server_arrivals=constant")).exits(0).stdout;
    let plan = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plan.contains("Departs from round v5.1: flag --set sets server_arrivals to"), "{plan}");
    folder.write(
        "dyno.toml",
        "version = 1\n[[tenants]]\nname = \"a\"\n[[tenants]]\nname = \"b\"\nsettings = { min_duration_ms = 7 }\n",
    );
    let plan = folder.dyno(&format!("{run} --config dyno.toml")).exits(0).stdout;
    let plan = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        plan.contains("dyno.toml:6 sets min_duration_ms to 7, but the round requires"),
        "{plan}"
    );
    folder.write("audit.config", "*.*.min_duration = 8\n*.*.performance_issue_same = 1\n");
    let plan = folder.dyno(&format!("{run} --audit audit.config")).exits(0).stdout;
    let plan = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        plan.contains("audit.config:1 sets min_duration_ms to 8, but the round requires"),
        "{plan}"
    );
    assert!(plan.contains("Set by an audit, unlike other runs of round v5.1:"), "{plan}");
    assert!(!plan.contains("Departs from round"), "{plan}");
}

#[test]
fn what_a_round_leaves_open_is_told() {
    let folder = Folder::new();
    let run = "run --system model:fixed=1ms --round v0.7 --scenario multistream --dry-run";
    let plan = |more: &str| {
        let plan = folder.dyno(&format!("{run} {more}")).exits(0).stdout;
        plan.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let open = plan("--benchmark resnet --mode performance --profile quick");
    assert!(open.contains("The round does not define the number of streams"), "{open}");
    assert!(open.contains("Profile quick does not shorten settings of the round."), "{open}");
    let said = plan("--benchmark resnet --mode performance --set multi_stream_samples_per_query=4");
    assert!(
        !said.contains("does not define the number") && !said.contains("Profile quick"),
        "{said}"
    );
    let peak = plan("--benchmark resnet --mode peak");
    assert!(peak.contains("multi_stream_samples_per_query = 1 samples"), "{peak}");
    // A scenario that the benchmark lacks is reported, and not rejected for its repetition.
    let other = plan("--benchmark 3d-unet-99 --mode performance");
    assert!(other.contains("Round v0.7 has no MultiStream for 3d-unet-99"), "{other}");
}

#[test]
fn a_run_names_its_round_and_what_it_does_otherwise() {
    let folder = Folder::new();
    let run = format!("{RUN} --scenario server --qps 400 --duration 2s --out out");
    let ran = folder.dyno(&run).exits(0);
    assert!(ran.stdout.contains("v5.1 resnet"), "{}", ran.stdout);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    assert_eq!(
        summary["rules"],
        serde_json::json!({"round": "v5.1", "benchmark": "resnet", "interactive": false})
    );
    let said = summary["remarks"].to_string();
    let expected =
        "flag --duration sets min_duration_ms to 2000, but the round requires 600000 or more";
    assert!(said.contains(expected), "{said}");
    let origin = &summary["tests"][0]["settings"]["sample_index_rng_seed"]["origin"];
    assert_eq!(origin, "round v5.1, resnet");
    assert!(folder.read("out/report.html").contains("round v5.1, resnet"));
    // The settings of a run reproduce it with its round.
    let again = folder.dyno("run --config out/effective.toml --out again").exits(0);
    let repeated: Value = serde_json::from_str(&folder.read("again/summary.json")).unwrap();
    assert_eq!(repeated["rules"], summary["rules"], "{}", again.stdout);
    assert_eq!(repeated["tests"][0]["metrics"], summary["tests"][0]["metrics"]);
}

#[test]
fn interactive_is_server_with_bounds_of_its_own() {
    let folder = Folder::new();
    let run = "run --system model:exponential=2ms,tokens=5-20,per-token=50us --mode performance \
               --round v5.1 --benchmark llama2-70b-99 --qps 20 --duration 2s --scenario";
    let plan = folder.dyno(&format!("{run} interactive --dry-run")).exits(0).stdout;
    assert_told(&plan, "server_ttft_latency = 450000000 ns  (round v5.1, llama2-70b-99)");
    assert_told(&plan, "server_tpot_latency = 40000000 ns  (round v5.1, llama2-70b-99)");
    let plan = folder.dyno(&format!("{run} server --dry-run")).exits(0).stdout;
    assert_told(&plan, "server_ttft_latency = 2000000000 ns  (round v5.1, llama2-70b-99)");
    folder.dyno(&format!("{run} interactive --out out")).exits(0);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    assert_eq!(summary["rules"]["interactive"], true);
    let effective = folder.read("out/effective.toml");
    assert!(effective.contains("scenario = [\"Interactive\"]"), "{effective}");
    folder.dyno("run --config out/effective.toml --dry-run").exits(0);
    // It may have a data set of its own.
    let run_of_its_own = "run --system model:fixed=1ms --mode performance --round v6.1 --benchmark \
                          qwen3-vl-235b-a22b --qps 5 --dry-run --scenario interactive";
    let plan = folder.dyno(run_of_its_own).exits(0).stdout;
    assert!(plan.contains("8000 samples"), "{plan}");
    for both in ["server,interactive", "interactive,server"] {
        let ran = folder.dyno(&format!("{run} {both}")).exits(2);
        assert!(ran.stderr.contains("run them separately"), "{}", ran.stderr);
    }
}

#[test]
fn the_first_rounds_have_intervals_and_runs_of_their_own() {
    let folder = Folder::new();
    let run = "run --system model:fixed=1ms --mode performance --round v0.5 --benchmark gnmt \
               --qps 10 --dry-run";
    let plan = folder.dyno(run).exits(0).stdout;
    for line in [
        "multi_stream_target_qps = 10 queries/s  (round v0.5, gnmt)",
        "multi_stream_target_latency_percentile = 0.97 fraction  (round v0.5, gnmt)",
        "repetition = confirm:5  (round v0.5, gnmt)",
        "repetition = minimum:5  (round v0.5, gnmt)",
        "early_stopping = never  (round v0.5, gnmt)",
        "min_query_count = 90112 queries  (round v0.5, gnmt)",
        "server_target_latency_ns = 250000000  (round v0.5, gnmt)",
        "min_query_count = 24576 queries  (round v0.5, gnmt)",
    ] {
        assert_told(&plan, line);
    }
}

#[test]
fn a_run_has_the_scenarios_and_the_samples_of_its_benchmark() {
    let folder = Folder::new();
    let run = "run --system model:fixed=1ms --mode performance --round v5.1 --dry-run --benchmark";
    let plan = folder.dyno(&format!("{run} bert-99")).exits(0).stdout;
    assert!(plan.contains("10833 samples"), "{plan}");
    let scenarios: Vec<&str> = plan.lines().filter(|line| line.contains(": performance")).collect();
    assert_eq!(scenarios.len(), 2, "{scenarios:?}");
    assert!(scenarios[0].starts_with("SingleStream") && scenarios[1].starts_with("Offline"));
    let plan = folder.dyno(&format!("{run} bert-99 --scenario server --qps 5")).exits(0).stdout;
    assert!(plan.contains("Round v5.1 has no Server for bert-99"), "{plan}");
}

#[test]
fn the_accuracy_of_a_round_is_asked_of_systems_with_labels() {
    let folder = Folder::new();
    let run = "run --mode accuracy --scenario offline --round v5.1 --benchmark resnet50 --set \
               performance_sample_count_override=0 --out";
    folder.dyno(&format!("{run} out")).exits(0);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    // 99 % of 76.46 %.
    assert_eq!(summary["tests"][0]["accuracy"]["target"], 0.756_953_999_999_999_9);
    folder.dyno(&format!("{run} own --accuracy-target 0.9")).exits(0);
    let summary: Value = serde_json::from_str(&folder.read("own/summary.json")).unwrap();
    assert_eq!(summary["tests"][0]["accuracy"]["target"], 0.9);
}

#[test]
fn answers_that_a_round_wants_scored_are_undecided_without_labels() {
    let folder = Folder::new();
    let run = "run --system null --mode accuracy --scenario offline --set \
               accuracy_sample_count_override=64 --json --no-progress";
    let without_round = folder.dyno(run).exits(0).json();
    assert_eq!(without_round["verdict"], "VALID");
    let summary = folder.dyno(&format!("{run} --round v5.1 --benchmark resnet50")).exits(1).json();
    assert_eq!(summary["verdict"], "UNDECIDED");
    let reason = summary["tests"][0]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("the answers have no labels"), "{reason}");
}

#[test]
fn a_search_says_what_of_it_is_not_by_the_round() {
    let folder = Folder::new();
    let search = "search --system model:exponential=1ms --round v0.5 --benchmark resnet --from 100 \
                  --limit p50<=2ms --set min_duration_ms=1000 --no-confirm --tolerance 20%";
    let ran = folder.dyno(&format!("{search} --out told")).exits(0);
    let found: Value = serde_json::from_str(&folder.read("told/search.json")).unwrap();
    assert_eq!(found["rules"]["round"], "v0.5");
    let plan = folder.dyno(&format!("{search} --dry-run")).exits(0).stdout;
    let page = folder.read("told/report.html");
    for text in [&ran.stdout, &ran.stderr, &plan, &page, &found["remarks"].to_string()] {
        assert!(text.contains("Settings are those of round v0.5"), "{text}");
        assert_eq!(text.matches("Departs from round v0.5").count(), 2, "{text}");
    }
    // At a rate that is far below the peak five times 270,336 queries take long.
    let far = "search --system model:exponential=1ms --round v0.7 --benchmark resnet \
               --scenario server --qps 96 --max-time 2h --tolerance 10% --dry-run";
    let plan = folder.dyno(far).exits(0).stdout;
    assert!(plan.contains("a try takes 3.9 h at 96.00 queries/s, less at a higher load"), "{plan}");
    assert!(!plan.contains("too short to finish"), "{plan}");
}

#[test]
fn searches_and_sweeps_take_a_round_too() {
    let folder = Folder::new();
    let options = "--system model:exponential=1ms --round v5.1 --benchmark resnet --from 100";
    let plan = folder.dyno(&format!("search {options} --dry-run")).exits(0).stdout;
    assert!(plan.contains("15.0 ms") || plan.contains("15ms"), "{plan}");
    // A trial of a search is one run, however often the round has a result repeated.
    let search = "search --system model:exponential=1ms --from 100 --no-confirm --tolerance 20% \
                  --limit p99<=15ms";
    let took = [("once", "one"), ("minimum:5", "five")].map(|(repetition, out)| {
        folder.dyno(&format!("{search} --set repetition={repetition} --out {out}")).exits(0);
        let found: Value =
            serde_json::from_str(&folder.read(&format!("{out}/search.json"))).unwrap();
        found["points"][0]["took_ns"].as_u64().unwrap()
    });
    assert_eq!(took[0], took[1]);
    // Five runs confirm, of 270,336 intervals of 50 ms each; four tries are allowed.
    let old = "search --system model:exponential=1ms --round v0.7 --benchmark resnet --dry-run";
    let plan = folder.dyno(&format!("{old} --load samples")).exits(0).stdout;
    for told in [
        "from       1 sample a query",
        "by 5 full runs, each of at least 3.8 h and 270,336 queries; up to 4",
        "at most 123.1 h of virtual time",
    ] {
        assert!(plan.contains(told), "{plan}");
    }
    let short = folder.dyno(&format!("{old} --load samples --max-time 2h")).exits(0).stdout;
    assert!(short.contains("too short to finish"), "{short}");
    // A failure lowers the load of the search, whatever it is.
    let plan = folder.dyno(&format!("{old} --load concurrency")).exits(0).stdout;
    assert!(plan.contains("by 5 full runs, each of at least 60.0 s"), "{plan}");
    // It is not what the round requires, and neither are custom limits.
    let closed = "search --system model:exponential=1ms --round v5.1 --benchmark resnet --to 32 \
                  --load concurrency --limit p90<=20ms --tolerance 9% --out closed";
    folder.dyno(closed).exits(0);
    let summary: Value = serde_json::from_str(&folder.read("closed/confirm/summary.json")).unwrap();
    let remarks = summary["remarks"].to_string();
    for departure in [
        "dyno search sets server_arrivals to concurrency:",
        "dyno search sets server_target_latency_ns to 20000000, but the round requires 15000000",
        "dyno search sets server_target_latency_percentile to 0.9, but the round requires 0.99",
    ] {
        assert!(remarks.contains(&format!("Departs from round v5.1: {departure}")), "{remarks}");
    }
    let sweep = "sweep --over benchmark=resnet,retinanet --system model:fixed=100us --round v5.1 \
                 --scenario server --qps 900 --mode performance --duration 1s --out swept";
    folder.dyno(sweep).exits(0);
    let swept: Value = serde_json::from_str(&folder.read("swept/sweep.json")).unwrap();
    assert_eq!(swept["points"].as_array().unwrap().len(), 2);
    assert!(folder.read("swept/report.html").contains("retinanet"));
}

#[test]
fn a_system_with_too_few_samples_for_a_round_is_one_problem() {
    let folder = Folder::new();
    let run = "run --round v5.1 --benchmark resnet50";
    for (system, hint) in [
        ("", "hint: add the model and the data of the benchmark"),
        ("--system digits", "hint: use the data of the benchmark"),
    ] {
        let ran = folder.dyno(&format!("{run} {system}")).exits(2).stderr;
        let problem = "round v5.1 requires at least 1,024 samples in memory for resnet; digits has";
        assert_eq!(ran.matches(problem).count(), 1, "{ran}");
        assert!(ran.contains(hint) && !ran.contains("lower it"), "{ran}");
    }
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    let folder = Folder::new();
    for (arguments, expected) in [
        ("run --round v5.2 --benchmark resnet", "there is no round `v5.2`; there are v0.5,"),
        ("run --round v5.1 --benchmark resnet51", "the nearest is `resnet50`"),
        ("run --round v5.1", "--round needs a --benchmark: resnet, retinanet,"),
        ("run --benchmark resnet", "--benchmark needs a --round: v0.5,"),
        ("run --scenario interactive", "select one with --round and --benchmark"),
        ("run --round v5.1 --benchmark rgat --scenario interactive", "has no scenario Interactive"),
        ("info rules resnet", "hint: use dyno info rules --round v5.1 resnet"),
        (
            "info rules --round v5.1 resnt",
            "hint: did you mean resnet? dyno info rules --round v5.1",
        ),
        ("info rules --round 9.9", "there is no round `9.9`"),
        ("info settings --round v5.1", "belong to the topic rules"),
        ("info schema sumary", "hint: did you mean summary? dyno info schema lists"),
        ("info schema foo", "hint: dyno info schema lists the schemas\n"),
        (
            "info rules --round v5.1 foo",
            "hint: dyno info rules --round v5.1 lists the benchmarks\n",
        ),
    ] {
        let ran = folder.dyno(arguments).exits(2);
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
        // An unknown round is one problem.
        let is_alone = !expected.contains("v5.2") || !ran.stderr.contains("needs a");
        assert!(is_alone, "{arguments}: {}", ran.stderr);
    }
}

#[test]
fn info_prints_rounds_benchmarks_and_one_of_them() {
    let folder = Folder::new();
    let all = folder.dyno("info rules").exits(0).stdout;
    assert!(
        all.contains("v0.5, 2019-11\n    ssd-small, ssd-large, mobilenet, resnet, gnmt\n"),
        "{all}"
    );
    let round = folder.dyno("info rules --round v2.1").exits(0).stdout;
    assert!(round.contains("permitted: Ethernet, IEEE 802.11, InfiniBand, 3GPP"), "{round}");
    // Each part stands below its heading.
    let headings = ["\nNetwork\n", "permitted: Ethernet", "\nAvailable\n"];
    assert!(headings.map(|heading| round.find(heading).unwrap()).is_sorted(), "{round}");
    let one = folder.dyno("info rules --round v0.5 gnmt").exits(0).stdout;
    for line in [
        "task                machine translation (language)",
        "quality             bleu >= 23.661 (99 % of 23.9)",
        "inference           10 beams",
        "bound: p97 of latency <= 250 ms",
        "min_query_count = 90112 or more",
        "sample_index_rng_seed = 665484352860916858",
    ] {
        assert_told(&one, line);
    }
    for text in [all, round, one] {
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{text}");
    }
    let json = folder.dyno("info rules --round v6.1 qwen3-vl-235b-a22b --json").exits(0).json();
    let round = &json["rounds"][0];
    // As numbers most readers would round them.
    assert_eq!(round["seeds"][0], "2085463073848966840");
    assert!(round["benchmarks"][0].get("min_output_tokens").is_some(), "{round}");
    let settings = round["benchmarks"][0]["settings"]["Interactive"].as_array().unwrap();
    let bound = settings.iter().find(|row| row["key"] == "server_target_latency_ns").unwrap();
    assert_eq!((&bound["value"], &bound["kind"]), (&"1500000000".into(), &"maximum".into()));
    let all = folder.dyno("info rules --json").exits(0).json();
    assert_eq!(all["rounds"].as_array().unwrap().len(), 14);
}
