//! `dyno compare`: verdicts and exit codes on systems with known differences, and rejected input.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{Folder, ProgramResult};
use crate::tuned;

/// A run in virtual time.
fn play(folder: &Folder, out: &str, system: &str, further: &str) {
    let scenario = if further.contains("--scenario") { "" } else { "--scenario server --qps 500" };
    let ran = folder.dyno(&format!(
        "run --system model:{system} {scenario} --mode performance --duration 20s \
         --out {out} --quiet {further}"
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
}

fn config(folder: &Folder, name: &str, service: &str, further: &str) {
    folder.write(
        name,
        &format!(
            "version = 1\n[run]\nsystem = \"model:{service},servers=4\"\nscenario = \"server\"\n\
             duration = \"8s\"\n{further}"
        ),
    );
}

fn finding<'a>(report: &'a Value, metric: &str) -> &'a Value {
    let metrics = report["tests"][0]["metrics"].as_array().unwrap();
    &metrics.iter().find(|row| row["metric"] == metric).unwrap()["finding"]
}

#[test]
fn another_run_of_the_same_system_is_equivalent_within_the_margin_or_inconclusive() {
    let folder = Folder::new();
    play(&folder, "a", "lognormal=2ms,servers=4", "");
    play(&folder, "b", "lognormal=2ms,servers=4", "--seed 3");
    let ran = folder.dyno("compare a b").exits(0);
    assert!(ran.stdout.contains("│ INCONCLUSIVE "), "{}", ran.stdout);
    assert!(ran.stdout.contains("80 of 100 such"), "{}", ran.stdout);
    folder.dyno("compare a b --strict").exits(1);
    let ran = folder.dyno("compare a b --strict --margin 40%").exits(0);
    assert!(ran.stdout.contains("│ EQUIVALENT "), "{}", ran.stdout);
    assert!(ran.stdout.contains("Equivalent: within 40 %"), "{}", ran.stdout);
    assert!(ran.stdout.contains("one run per side"), "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|l| l.chars().count() <= 80), "{}", ran.stdout);
    let report = folder.dyno("compare a b --json").exits(0).json();
    assert_eq!(report["verdict"], "inconclusive");
    assert_eq!(finding(&report, "p99"), "inconclusive");
    assert_eq!(report["tests"][0]["metrics"][0]["doubt"], "wide");
    assert_eq!(folder.dyno("compare a b --json").stdout, folder.dyno("compare a b --json").stdout);
    assert_eq!(folder.dyno("compare a b --quiet").exits(0).stdout, "");
}

#[test]
fn a_slower_system_is_worse_and_the_other_way_round_better() {
    let folder = Folder::new();
    play(&folder, "a", "lognormal=2ms,servers=4", "");
    play(&folder, "b", "lognormal=2.4ms,servers=4", "--seed 3");
    let report = folder.dyno("compare a b --json").exits(1).json();
    assert_eq!((&report["verdict"], finding(&report, "mean")), (&"worse".into(), &"worse".into()));
    let change = report["tests"][0]["metrics"][1]["change"].as_f64().unwrap();
    assert!((0.1..0.3).contains(&change), "20 % slower, found {change}");
    let back = folder.dyno("compare b a").exits(0);
    assert!(back.stdout.contains("BETTER"), "{}", back.stdout);
    let tolerant = folder.dyno("compare a b --threshold 40%").exits(0);
    assert!(tolerant.stdout.contains("│ EQUIVALENT "), "{}", tolerant.stdout);
    let tolerant = folder.dyno("compare a b --margin 40% --strict").exits(0);
    assert!(tolerant.stdout.contains("│ EQUIVALENT "), "{}", tolerant.stdout);
    let one = folder.dyno("compare a b --metric p50 --json").exits(1).json();
    assert_eq!(one["tests"][0]["metrics"].as_array().unwrap().len(), 1);
    assert_eq!(one["tests"][0]["metrics"][0]["confidence"], 0.95);
}

/// A side that fails instead of answering late is not better.
#[test]
fn failures_are_compared_whatever_the_metrics() {
    let folder = Folder::new();
    play(&folder, "a", "lognormal=2ms,servers=4", "");
    // Fewer than the hundredth that the bound on p99 allows.
    play(&folder, "b", "lognormal=1.5ms,servers=4,failed=0.006", "--seed 3");
    let report = folder.dyno("compare a b --metric p50 --json").exits(1).json();
    assert_eq!(finding(&report, "p50"), "better", "{report}");
    assert_eq!(
        (&report["verdict"], finding(&report, "failures")),
        (&"worse".into(), &"worse".into())
    );
    let once = folder.dyno("compare a b --metric failures,p50 --json").exits(1).json();
    assert_eq!(once["tests"][0]["metrics"].as_array().unwrap().len(), 2);
}

/// The perceptron has 519 of 540 images right. In formats in which all inputs are nearly 0, it answers
/// one class for all of them, as fast as before.
#[test]
fn a_proven_loss_of_accuracy_is_worse_whatever_the_speed() {
    let folder = tuned::folder();
    folder.write("ruined.txt", "Gemm.input FIXED 2 20\n");
    let play = |out: &str, formats: &str, mode: &str| {
        let ran = folder.dyno(&format!(
            "run --system tuned:model=digits.onnx{formats} {} --scenario offline --mode {mode} \
             --duration 200ms --out {out} --quiet",
            if mode == "both" { tuned::DATA } else { "--data test.npy" }
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    };
    play("right", "", "both");
    play("wrong", ",formats=ruined.txt", "both");
    let ran = folder.dyno("compare right wrong").exits(1);
    assert!(ran.stdout.contains("│ WORSE "), "{}", ran.stdout);
    assert!(ran.stdout.contains("worse: accuracy (top-1) -"), "{}", ran.stdout);
    let report = folder.dyno("compare right wrong --json").exits(1).json();
    let accuracy = &report["tests"][0]["accuracy"];
    assert_eq!((&accuracy["finding"], &report["verdict"]), (&"worse".into(), &"worse".into()));
    assert_eq!(accuracy["samples"], serde_json::json!([540, 540]));
    assert!((accuracy["baseline"].as_f64().unwrap() - 519.0 / 540.0).abs() < 1e-12);
    // At most a few classes of ten, with an interval of several points.
    assert!(accuracy["high"].as_f64().unwrap() < -0.5, "{accuracy}");
    let ran = folder.dyno("compare right wrong --annotate github").exits(1);
    let line = ran.stdout.lines().find(|line| line.starts_with("::error")).unwrap();
    assert!(line.contains("worse: accuracy (top-1)"), "{line}");
    // The other way round, accuracy is no reason against.
    let report = folder.dyno("compare wrong right --json").json();
    assert_eq!(report["tests"][0]["accuracy"]["finding"], "better");
    // Equal counts prove no change, and change no verdict.
    play("twin", "", "both");
    let report = folder.dyno("compare right twin --json").json();
    let accuracy = &report["tests"][0]["accuracy"];
    assert_eq!((&accuracy["change"], &accuracy["finding"]), (&0.0.into(), &"inconclusive".into()));
    play("quick", "", "performance");
    let ran = folder.dyno("compare right quick").exits(2);
    assert!(ran.stderr.contains("Offline: accuracy test: yes against none"), "{}", ran.stderr);
    let report = folder.dyno("compare right quick --force --json").json();
    assert_eq!(report["tests"][0]["accuracy"], Value::Null);
    assert!(report["remarks"].to_string().contains("accuracy of Offline is not compared"));
}

/// Two runs whose accuracies have different metrics cannot be compared by accuracy.
#[test]
fn accuracies_of_different_metrics_decide_nothing() {
    let folder = tuned::folder();
    for out in ["a", "b"] {
        let ran = folder.dyno(&format!(
            "run --system tuned:model=digits.onnx {} --scenario offline --mode both \
             --duration 200ms --out {out} --quiet",
            tuned::DATA
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    }
    let mut summary: Value = serde_json::from_str(&folder.read("b/summary.json")).unwrap();
    let tests = summary["tests"].as_array_mut().unwrap();
    let of_accuracy = tests.iter_mut().find(|test| test["mode"] == "accuracy").unwrap();
    of_accuracy["accuracy"]["metric"] = "F1".into();
    folder.write("b/summary.json", &summary.to_string());
    let report = folder.dyno("compare a b --json").json();
    let verdict = report["verdict"].as_str().unwrap();
    assert!(matches!(verdict, "inconclusive" | "worse"), "{report}");
    let notes = report["tests"][0]["notes"].to_string();
    assert!(notes.contains("the baseline states top-1 and the candidate F1"), "{notes}");
    let forced = folder.dyno("compare a b --force --json").json();
    assert!(forced["remarks"].to_string().contains("accuracy of Offline is not compared"));
    assert!(!forced["tests"][0]["notes"].to_string().contains("F1"), "{forced}");
}

/// The name of a file does not identify its content.
#[test]
fn samples_and_labels_are_compared_by_their_bytes() {
    let folder = tuned::folder();
    let play = |out: &str, data: &str| {
        let ran = folder.dyno(&format!(
            "run --system tuned:model=digits.onnx {data} --scenario offline --mode both \
             --duration 100ms --out {out} --quiet"
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    };
    let read = |name: &str| std::fs::read(folder.0.join(name)).unwrap();
    let (samples, labels) = (read("test.npy"), read("test-labels.npy"));
    play("first", tuned::DATA);
    tuned::write(&folder, "copy.npy", &samples);
    play("copy", "--data copy.npy --labels test-labels.npy");
    let ran = folder.dyno("compare first copy");
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    // The last bytes are those of the last sample and label.
    let changed = |mut bytes: Vec<u8>| {
        let at = bytes.len() - 8;
        bytes[at] ^= 1;
        bytes
    };
    tuned::write(&folder, "test.npy", &changed(samples.clone()));
    play("other", tuned::DATA);
    let ran = folder.dyno("compare first other --force").exits(2);
    assert!(ran.stderr.contains("Offline: data set: test ("), "{}", ran.stderr);
    tuned::write(&folder, "test.npy", &samples);
    tuned::write(&folder, "test-labels.npy", &changed(labels));
    play("labels", tuned::DATA);
    let ran = folder.dyno("compare first labels").exits(2);
    assert!(ran.stderr.contains("Offline: labels: "), "{}", ran.stderr);
}

#[test]
fn a_workflow_of_github_gets_an_annotation_and_a_table() {
    let folder = Folder::new();
    play(&folder, "a", "lognormal=2ms,servers=4", "");
    play(&folder, "b", "lognormal=2.4ms,servers=4", "--seed 3");
    let with = |arguments: &str| -> ProgramResult {
        let mut command = folder.command(arguments);
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", "summary.md");
        command.output().unwrap().into()
    };
    let ran = with("compare a b").exits(1);
    let line = ran.stdout.lines().find(|line| line.starts_with("::error ")).unwrap();
    assert!(line.starts_with("::error title=dyno compare%3A Server::worse: "), "{line}");
    assert!(line.contains(" %25") && !line.contains(" %,"), "{line}");
    let table = folder.read("summary.md");
    assert!(table.contains("### dyno compare: worse") && table.contains("| p50 |"), "{table}");
    assert!(with("compare a b --json").exits(1).json()["verdict"] == "worse", "stdout stays JSON");
    assert!(!with("compare b a --annotate none").exits(0).stdout.contains("::"));
    let asked = folder.dyno("compare b a --annotate github").exits(0);
    assert!(asked.stdout.contains("::notice title="), "{}", asked.stdout);
    assert!(table.contains("- one run per side: the intervals do not"), "{table}");
}

#[test]
fn the_table_of_github_says_what_the_terminal_says() {
    let folder = Folder::new();
    // The headline takes 500 queries, the p99.9 takes more.
    play(&folder, "a", "lognormal=2ms,servers=4", "--qps 60");
    play(&folder, "b", "lognormal=2ms,servers=4,failed=1", "--qps 60");
    let mut command = folder.command("compare a b");
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", "summary.md");
    let ran = ProgramResult::from(command.output().unwrap()).exits(1);
    let table = folder.read("summary.md");
    // From no failures to all: a difference that is known, in percentage points.
    let row = "| failures | 0.00 % | 100.00 % | +100.00 pp | +";
    assert!(table.contains(row), "{table}");
    assert!(table.contains("- p99 latency is left out: it needs"), "{table}");
    assert!(ran.stdout.contains("+100.00 pp"), "{}", ran.stdout);
    // The baseline, of which all requests failed, is INVALID.
    let back = folder.dyno("compare b a --annotate github").exits(1);
    assert!(back.stdout.contains("::error title="), "{}", back.stdout);
    assert!(back.stdout.contains("-100.00 pp"), "{}", back.stdout);
}

#[test]
fn other_scenarios_data_and_settings_are_refused_with_the_reason() {
    let folder = Folder::new();
    play(&folder, "a", "lognormal=2ms,servers=4", "");
    play(&folder, "single", "lognormal=2ms,servers=4", "--scenario single-stream");
    play(&folder, "data", "lognormal=2ms,servers=4", "--samples 77");
    play(&folder, "rate", "lognormal=2ms,servers=4", "--qps 700");
    let ran = folder.dyno("compare a single --force").exits(2);
    assert!(ran.stderr.contains("a has Server") && ran.stderr.contains("single has SingleStream"));
    let ran = folder.dyno("compare a data --force").exits(2);
    let size = "size of the data set: 1,024 samples against 77 samples";
    assert!(
        ran.stderr.contains(size) && !ran.stderr.contains("--force compares"),
        "{}",
        ran.stderr
    );
    let ran = folder.dyno("compare a rate").exits(2);
    assert!(ran.stderr.contains("Server: arrival rate: 500.0/s against 700.0/s"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: --force"), "{}", ran.stderr);
    let forced = folder.dyno("compare a rate --force");
    assert!(forced.stdout.contains("forced despite Server: arrival rate"), "{}", forced.stdout);
}

#[test]
fn a_search_or_a_sweep_is_answered_with_the_folder_to_pass() {
    let folder = Folder::new();
    for name in ["search", "sweep"] {
        folder.write(&format!("{name}/{name}.json"), "{}");
        folder.write(&format!("other-{name}/{name}.json"), "{}");
        let ran = folder.dyno(&format!("compare {name} other-{name}")).exits(2);
        let hint = "hint: it holds several runs: pass the folder of one, with a summary.json";
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    }
}

#[test]
fn what_is_no_run_or_has_lost_its_records_is_told() {
    let folder = Folder::new();
    play(&folder, "a", "lognormal=2ms,servers=4", "");
    play(&folder, "bare", "lognormal=2ms,servers=4", "--records none");
    play(&folder, "cut", "lognormal=2ms,servers=4", "");
    std::fs::create_dir(folder.0.join("empty")).unwrap();
    let records = folder.0.join("cut/Server/performance/records.bin");
    let bytes = std::fs::read(&records).unwrap();
    std::fs::write(&records, &bytes[..bytes.len() / 2]).unwrap();
    let refused = |arguments: &str, reason: &str| {
        let ran = folder.dyno(&format!("compare {arguments}")).exits(2);
        assert!(ran.stderr.contains(reason), "{arguments}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments}");
    };
    let missing = folder.dyno("compare a nowhere").exits(3).stderr;
    assert!(missing.contains("nowhere does not exist"), "{missing}");
    for servers in ["http://h:1 http://h:2", "--interleave 5 http://h:1 http://h:2"] {
        refused(servers, "dyno compare --interleave 5 A.toml B.toml");
    }
    refused("a empty", "empty is neither a Dyno run nor a result of");
    refused("a bare", "records.bin is missing");
    refused("a cut", "is cut off or damaged");
    refused("a", "a is one run; expected two runs");
    refused("empty", "empty contains 0 complete pairs of runs");
    refused("m.onnx n.onnx", "m.onnx is a model; expected a run or a configuration");
    refused("--interleave 2 m.onnx n.onnx", "dyno compare --interleave 5 A.toml B.toml");
    refused("", "expected two runs, found none");
    refused("a a --qps 3", "--qps has no effect: it configures runs");
    refused("a a --threshold -1%", "expected a share such as 2%");
    refused("a a --threshold 0.5", "write 50% if it is a fraction, 0.5% if not");
    refused("a a --margin 1% --threshold 2%", "--margin 1% is less than --threshold 2%");
    refused("--interleave 2 a.toml b.toml --slices 3", "expected 1 or an even number up to 64");
    refused("--until-decided 1s a.toml", "--until-decided needs two configurations, found 1");
    refused("a a --until-decided 5s", "a is a folder, and a finished run cannot be measured again");
    refused("a a --metric p101", "expected a metric");
    refused("a a --metric p99.999999999", "expected a metric");
    // A run given twice is not a second run, and a missing run has no pair. In virtual time, equal
    // seeds give equal runs.
    refused("--baseline a a --candidate a", "a and a are the same run");
    refused("a a --strict", "a and a are the same run");
    play(&folder, "again", "lognormal=2ms,servers=4", "");
    refused("a again --force", "a and again are the same run");
    refused("--baseline a again --candidate cut", "is cut off");
    refused("--baseline a again --candidate a", "a and again are the same run");
    play(&folder, "other", "lognormal=2ms,servers=4", "--seed 3");
    play(&folder, "third", "lognormal=2ms,servers=4", "--seed 5");
    refused("--paired --baseline a other --candidate third a", "a and a are the same run");
    let unmeasured = "the baseline does not measure the p99 time to first token";
    refused("a other --metric ttft-p99", unmeasured);
    refused("a other --metric p99,p50,p99", "--metric p99 is given twice");
    refused(
        "--paired --baseline a other --candidate third",
        "the same number of runs on both sides, found 2",
    );
    refused(
        "--interleave 1 a.toml b.toml",
        "'1' for '--interleave <N>': expected a number of at least 2",
    );
    refused("--interleave 2 a.toml", "--interleave needs two configurations, found 1");

    let summary = folder.read("other/summary.json").replace("\"complete\"", "\"interrupted\"");
    let bytes = std::fs::read(folder.0.join("other/Server/performance/records.bin")).unwrap();
    std::fs::create_dir_all(folder.0.join("half/Server/performance")).unwrap();
    folder.write("half/summary.json", &summary);
    std::fs::write(folder.0.join("half/Server/performance/records.bin"), &bytes).unwrap();
    refused("a half", "Server of the candidate is INTERRUPTED and has no result");
    let forced = folder.dyno("compare a half --force").exits(0);
    assert!(forced.stdout.contains("is INTERRUPTED"), "{}", forced.stdout);
}

#[test]
fn interleaved_runs_are_planned_played_resumed_and_compared_again() {
    let folder = Folder::new();
    config(&folder, "a.toml", "lognormal=2ms", "qps = 500\n");
    config(&folder, "b.toml", "lognormal=2.1ms", "qps = 500\n");
    config(&folder, "faster.toml", "lognormal=2ms", "qps = 700\n");
    let plan = folder.dyno("compare --interleave 3 a.toml b.toml --dry-run").exits(0);
    assert!(plan.stdout.contains("order a b b a a b: at least 48.0 s in total"), "{}", plan.stdout);

    let ran = folder.dyno("compare --interleave 3 a.toml b.toml --out il --json").exits(1);
    let report = ran.json();
    assert_eq!(
        (&report["tests"][0]["paired"], &report["verdict"]),
        (&true.into(), &"worse".into())
    );
    let row = &report["tests"][0]["metrics"][0];
    assert!((row["change"].as_f64().unwrap() - 0.05).abs() < 0.02, "{row}");
    let files = || std::fs::read_dir(folder.0.join("il")).unwrap().count();
    // Six runs, and how they were played.
    assert_eq!(files(), 7);
    let again = folder.dyno("compare il --json").exits(1).json();
    assert_eq!(again, report, "the folder has all that was compared");
    let taken = folder.dyno("compare --interleave 3 a.toml b.toml --out il").exits(3);
    assert!(taken.stderr.contains("--resume"), "{}", taken.stderr);

    std::fs::remove_dir_all(folder.0.join("il/b-2")).unwrap();
    let resumed = folder.dyno("compare --interleave 3 a.toml b.toml --out il --resume --json");
    assert_eq!(resumed.stderr.matches("\nrun ").count(), 1, "{}", resumed.stderr);
    assert_eq!(resumed.exits(1).json(), report, "the same seeds, the same runs");

    let other = folder.dyno("compare --interleave 3 b.toml a.toml --out il --resume").exits(2);
    assert!(other.stderr.contains("il/a-1 is a run of model:lognormal=2ms"), "{}", other.stderr);

    let runs = "--baseline il/a-1 il/a-2 il/a-3 --candidate il/b-1 il/b-2 il/b-3";
    let apart = folder.dyno(&format!("compare {runs} --json")).json();
    assert_eq!(apart["tests"][0]["paired"], false);
    let refused = folder.dyno("compare --interleave 2 a.toml faster.toml --out no").exits(2);
    assert!(refused.stderr.contains("arrival rate: 500.0/s against 700.0/s"), "{}", refused.stderr);
    assert!(!folder.0.join("no").exists(), "refused before anything is played");
}

fn setting(folder: &Folder, run: &str, key: &str) -> Value {
    let summary: Value =
        serde_json::from_str(&folder.read(&format!("{run}/summary.json"))).unwrap();
    summary["tests"][0]["settings"][key]["value"].clone()
}

#[test]
fn pairs_have_seeds_of_their_own_and_both_sides_the_same() {
    let folder = Folder::new();
    config(&folder, "a.toml", "lognormal=2ms", "qps = 500\nseed = 3\n");
    config(&folder, "b.toml", "lognormal=2ms,seed=5", "qps = 500\nseed = 8\n");
    // The same system with other random numbers: no pair may repeat another's.
    let same = folder.dyno("compare --interleave 4 a.toml b.toml --out il --json");
    assert_ne!(same.json()["verdict"], "worse", "{}", same.stdout);
    for (pair, seed) in ["3", "4", "5", "6"].iter().enumerate() {
        for side in ["a", "b"] {
            let run = format!("il/{side}-{}", pair + 1);
            assert_eq!(setting(&folder, &run, "schedule_rng_seed"), *seed, "{run}");
        }
    }
    let five = folder.dyno("compare --interleave 5 a.toml b.toml --out il --resume --json");
    assert_eq!(five.json()["tests"][0]["runs"], serde_json::json!([5, 5]));
    let three = folder.dyno("compare --interleave 3 a.toml b.toml --out il --resume --json");
    assert_eq!(three.json()["tests"][0]["runs"], serde_json::json!([3, 3]), "as asked for");
    let other = "compare --interleave 4 a.toml b.toml --out il --resume --duration 9s";
    let other = folder.dyno(other).exits(2);
    let difference = "il/a-1 is a run of Server, min_duration_ms 8000, not 9000";
    assert!(other.stderr.contains(difference), "{}", other.stderr);
    let other = "compare --interleave 4 a.toml b.toml --out il --resume --workers 3";
    let other = folder.dyno(other).exits(2);
    let difference = "il/a-1 is a run of another [run] table";
    assert!(other.stderr.contains(difference) && other.stderr.contains("workers = 3"));
}

#[test]
fn failures_of_any_run_are_compared() {
    let folder = Folder::new();
    for (out, failed, seed) in
        [("a1", "", 1), ("a2", "", 2), ("b1", "", 3), ("b2", ",failed=0.3", 4)]
    {
        let system = format!("lognormal=2ms,servers=4{failed}");
        play(&folder, out, &system, &format!("--seed {seed}"));
    }
    let runs = "--baseline a1 a2 --candidate b1 b2 --json";
    let report = folder.dyno(&format!("compare {runs}")).json();
    let metrics = report["tests"][0]["metrics"].as_array().unwrap();
    let row = metrics.iter().find(|row| row["metric"] == "failures").expect("they are compared");
    assert!((row["change"].as_f64().unwrap() - 0.15).abs() < 0.03, "{row}");
}

#[test]
fn interleaved_runs_go_on_after_one_was_interrupted() {
    let folder = Folder::new();
    for name in ["a.toml", "b.toml"] {
        let text = "version = 1\n[run]\nsystem = \"null\"\nscenario = \"server\"\nqps = 100\n\
                    duration = \"1s\"\n";
        folder.write(name, text);
    }
    let interleave =
        "compare --interleave 2 a.toml b.toml --slices 1 --set min_query_count=1 --out il";
    let mut child =
        folder.command(interleave).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("run 2 of 4")), "it plays");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let said: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(said.iter().any(|line| line.contains("--resume --out il")), "{said:?}");
    assert!(folder.read("il/b-1/summary.json").contains("\"interrupted\""));
    let resumed = folder.dyno(&format!("{interleave} --resume --json"));
    assert!(matches!(resumed.code, Some(0 | 1)), "{}", resumed.stderr);
    assert_eq!(resumed.json()["tests"][0]["runs"], serde_json::json!([2, 2]));
    assert!(!resumed.stderr.contains("il/a-1"), "{}", resumed.stderr);
}

#[test]
fn real_time_runs_are_interleaved_under_one_load_and_a_time_cap() {
    let folder = Folder::new();
    for name in ["a.toml", "b.toml"] {
        let text =
            "version = 1\n[run]\nsystem = \"null\"\nscenario = \"server\"\nduration = \"100ms\"\n";
        folder.write(name, text);
    }
    let interleave = "compare --interleave 2 a.toml b.toml --set min_query_count=1";
    // The verdict depends on the machine.
    let report = folder.dyno(&format!("{interleave} --out il --json")).json();
    // All runs have the rate of the probe; otherwise they would have been rejected.
    assert_eq!(report["tests"][0]["runs"], serde_json::json!([2, 2]));
    let late = folder.dyno(&format!("{interleave} --out late --max-time 1ns")).exits(2);
    assert!(late.stderr.contains("too short for two pairs"), "{}", late.stderr);
    assert!(!folder.0.join("late").exists(), "none is begun that would end later");
}

#[test]
fn both_sides_are_labelled_by_what_differs() {
    let folder = Folder::new();
    play(&folder, "runs/before", "lognormal=2ms,servers=4", "");
    play(&folder, "runs/after", "lognormal=2ms,servers=4", "--seed 3");
    play(&folder, "runs/slow", "lognormal=2.4ms,servers=4", "--seed 3");
    let labels = |runs: &str| -> Value {
        let report = folder.dyno(&format!("compare {runs} --json")).json();
        report["labels"].clone()
    };
    let by_service = serde_json::json!(["lognormal=2ms", "lognormal=2.4ms"]);
    assert_eq!(labels("runs/before runs/slow"), by_service);
    let by_folder = serde_json::json!(["before", "after"]);
    assert_eq!(labels("runs/before runs/after"), by_folder);
    let text = folder.dyno("compare runs/before runs/slow").exits(1).stdout;
    assert!(text.contains("baseline   lognormal=2ms: runs/before"), "{text}");
}

#[test]
fn an_invalid_run_is_neither_better_nor_equivalent() {
    let folder = Folder::new();
    let bound = "--set server_target_latency_ns=3000000";
    play(&folder, "slow", "lognormal=2.4ms,servers=4", bound);
    play(&folder, "fast", "lognormal=1ms,servers=4", &format!("--seed 3 {bound}"));
    // The gate fails on an INVALID side, unless its use is forced.
    let better = folder.dyno("compare slow fast --json").exits(1).json();
    assert_eq!(better["verdict"], "inconclusive", "{better}");
    assert_eq!(better["tests"][0]["metrics"][0]["doubt"], "conditions");
    folder.dyno("compare slow fast --strict").exits(1);
    let forced = folder.dyno("compare slow fast --force --json").exits(0).json();
    assert_eq!(forced["verdict"], "better");
    // A run that violates its bound because it is worse stays worse.
    assert_eq!(folder.dyno("compare fast slow --json").exits(1).json()["verdict"], "worse");
}

#[test]
fn pairs_are_added_until_the_headline_is_decided() {
    let folder = Folder::new();
    config(&folder, "a.toml", "lognormal=2ms", "qps = 500\n");
    config(&folder, "b.toml", "lognormal=4ms", "qps = 500\n");
    let until = "compare --until-decided 10m";
    let plan = folder.dyno(&format!("{until} a.toml b.toml --dry-run")).exits(0);
    assert!(plan.stdout.contains("at least 2 pairs until the headline"), "{}", plan.stdout);
    let ran = folder.dyno(&format!("{until} a.toml b.toml --out worse --json")).exits(1);
    let report = ran.json();
    assert_eq!((&report["verdict"], &report["until_decided"]), (&"worse".into(), &true.into()));
    // Fewer than four observations have no interval that holds at every look.
    assert_eq!(report["tests"][0]["runs"], serde_json::json!([4, 4]));
    assert_eq!(folder.dyno("compare worse --json").exits(1).json(), report, "of the same folder");
    config(&folder, "same.toml", "lognormal=2ms,seed=5", "qps = 500\n");
    let equal = "compare --until-decided 10m a.toml same.toml --margin 10% --metric mean --json";
    let equal = folder.dyno(&format!("{equal} --strict --out equal")).exits(0).json();
    assert_eq!(equal["verdict"], "equivalent", "{equal}");
}

#[test]
fn real_time_runs_alternate_in_slices_that_are_resumed_and_read_again() {
    let folder = Folder::new();
    for name in ["a.toml", "b.toml"] {
        let text = "version = 1\n[run]\nsystem = \"null\"\nscenario = \"single-stream\"\n\
                    duration = \"1s\"\n";
        folder.write(name, text);
    }
    let interleave = "compare --interleave 2 a.toml b.toml --out il --json";
    let plan = folder.dyno("compare --interleave 2 a.toml b.toml --dry-run").exits(0).stdout;
    assert!(plan.contains("a run in 4 slices"), "{plan}");
    let report = folder.dyno(interleave).json();
    assert_eq!(report["tests"][0]["runs"], serde_json::json!([2, 2]));
    assert_eq!(report["tests"][0]["observations"], serde_json::json!([4, 4]));
    assert!(folder.0.join("il/b-2/4/summary.json").is_file());
    assert_eq!(setting(&folder, "il/a-1/1", "min_duration_ms"), "250");
    std::fs::remove_dir_all(folder.0.join("il/b-2/4")).unwrap();
    let resumed = folder.dyno(&format!("{interleave} --resume"));
    assert_eq!(resumed.stderr.matches("\nslice ").count(), 1, "{}", resumed.stderr);
    let again = folder.dyno("compare il --json").json();
    assert_eq!(again, resumed.json());
    let other = folder.dyno(&format!("{interleave} --resume --slices 2")).exits(2);
    assert!(other.stderr.contains("runs in 4 slices"), "{}", other.stderr);
    let labels = serde_json::json!(["a.toml", "b.toml"]);
    assert_eq!(again["labels"], labels);
}

#[test]
fn runs_with_other_definitions_of_tokens_are_inconclusive() {
    let folder = Folder::new();
    let system = "lognormal=2ms,servers=4,tokens=4-9,per-token=100us";
    let tokens = "--set use_token_latencies=true --set server_ttft_latency=1s \
                  --set server_tpot_latency=1s";
    play(&folder, "a", system, tokens);
    play(&folder, "b", system, &format!("--seed 3 {tokens}"));
    let tpot = "--metric tpot-p50 --margin 50% --strict --json";
    let same = folder.dyno(&format!("compare a b {tpot}")).exits(0).json();
    assert_eq!(same["verdict"], "equivalent", "{same}");
    // A run of a version before the definitions had a name.
    let summary = folder.read("b/summary.json");
    let earlier = summary.replace("\"definitions\": \"native\"", "\"definitions\": \"\"");
    assert_ne!(earlier, summary);
    folder.write("b/summary.json", &earlier);
    let differ = folder.dyno(&format!("compare a b {tpot}")).exits(1).json();
    assert_eq!(differ["verdict"], "inconclusive", "{differ}");
    assert_eq!(differ["tests"][0]["metrics"][0]["doubt"], "conditions");
    assert!(differ["tests"][0]["notes"][0].as_str().unwrap().contains("an earlier version"));
    let other = folder.dyno("compare a b --metric throughput --margin 50% --strict --json");
    assert_eq!(other.exits(0).json()["verdict"], "equivalent", "throughput is defined alike");
}
