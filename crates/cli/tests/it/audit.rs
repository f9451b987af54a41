//! `dyno audit`: each audit catches the cheats that it is made for, and honest systems pass.

use serde_json::Value;

use crate::program::{Folder, ProgramResult};

fn reasons(verdict: &Value) -> String {
    let reasons = verdict["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

/// The audit of one scenario, in virtual time.
fn audit(folder: &Folder, test: &str, system: &str, scenario: &str) -> ProgramResult {
    let custom = match test {
        "TEST03" => format!("--custom system={system},data=specked"),
        "TEST06" => "--dtype int32".into(),
        "TEST09" => "--mean-tokens 15,19".into(),
        _ => String::new(),
    };
    let tokens = ["writing", "padding", "curtailing"].iter().any(|of| system.ends_with(of));
    let set = if tokens { "--set use_token_latencies=true" } else { "" };
    folder.dyno(&format!(
        "audit {test} {custom} --json --no-progress -- --system {system} --scenario {scenario} \
         --duration 3s {set} --out {test}-{}",
        system.replace(':', "-")
    ))
}

/// Audits a cheat and the honest system, and returns why the cheat failed by the rules and by
/// the script.
fn both(test: &str, trick: &str, scenario: &str) -> [String; 2] {
    let folder = Folder::new();
    // Each cheat has an honest system with answers of the same form.
    let honest = match trick {
        "padding" | "curtailing" => "cheat:writing",
        "guessing" => "cheat:ranking",
        _ => "cheat:honest",
    };
    let honest = audit(&folder, test, honest, scenario).exits(0).json();
    assert_eq!(honest["passed"], true, "{honest}");
    assert_eq!(honest["scenarios"][0]["official"]["passed"], true, "{honest}");
    let found = audit(&folder, test, &format!("cheat:{trick}"), scenario).exits(1).json();
    assert_eq!(found["passed"], false);
    ["corrected", "official"].map(|by| reasons(&found["scenarios"][0][by]))
}

/// Audits a cheat that the script finds, too.
fn caught(test: &str, trick: &str, scenario: &str) -> String {
    let [corrected, official] = both(test, trick, scenario);
    assert!(!official.is_empty());
    corrected
}

#[test]
fn a_cache_is_caught_by_one_sample_over_and_over() {
    let why = caught("TEST04", "caching", "single-stream");
    assert!(why.contains("the audited run is faster by more than 10 %"), "{why}");
    // As in the first rounds: each sample once, compared with one sample repeated.
    let why = caught("TEST04-A", "caching", "single-stream");
    assert!(why.contains("the audited run is faster by more than 10 %"), "{why}");
}

/// The cheat keeps 64 answers. All queries for 16 samples find theirs, except for 16 of them.
#[test]
fn a_cache_of_the_whole_set_is_named_as_beyond_the_audit() {
    let folder = Folder::new();
    let notes = |samples: &str| {
        let set = format!("--set performance_sample_count_override={samples}");
        let run = format!("-- --system cheat:caching --scenario single-stream --duration 3s {set}");
        let audit = format!("audit TEST04 --json --no-progress {run} --out of-{samples}");
        let found = folder.dyno(&audit).json();
        (found["passed"].as_bool().unwrap(), found.to_string().contains("does not detect it"))
    };
    assert_eq!(notes("16"), (true, true));
    assert_eq!(notes("540"), (false, false));
}

#[test]
fn a_run_without_early_stopping_has_no_score() {
    let folder = Folder::new();
    let run =
        "--system cheat:honest --scenario single-stream --duration 3s --set early_stopping=never";
    let found =
        folder.dyno(&format!("audit TEST04 --json --no-progress -- {run} --out a")).exits(1);
    let why = reasons(&found.json()["scenarios"][0]["corrected"]);
    assert!(why.contains("an estimate of early stopping, which needs the setting"), "{why}");
}

#[test]
fn equal_samples_computed_once_are_caught_by_one_sample_over_and_over() {
    let why = caught("TEST04", "coalescing", "offline");
    assert!(why.contains("the audited run is faster by more than 10 %"), "{why}");
}

#[test]
fn work_that_is_skipped_is_caught_by_the_answers_of_a_performance_run() {
    let why = caught("TEST01", "skipping", "offline");
    assert!(why.contains("answers differ from the accuracy run"), "{why}");
    // Determinism does not matter for made-up answers.
    assert!(why.contains("% apart, at most 1 % allowed"), "{why}");
}

#[test]
fn stale_answers_are_caught_by_the_answers_of_a_performance_run() {
    let [why, official] = both("TEST01", "stale", "single-stream");
    assert!(why.contains("answers differ from the accuracy run"), "{why}");
    // The exception of the script for nondeterministic systems applies: accuracy scripts score the
    // first answer to each sample, which the cheat does compute.
    assert!(why.contains("the quality of every answer"), "{why}");
    assert_eq!(official, "");
}

#[test]
fn known_seeds_are_caught_by_other_seeds() {
    let why = caught("TEST05", "foreseeing", "single-stream");
    assert!(why.contains("the audited run is slower by more than"), "{why}");
}

#[test]
fn a_data_set_known_by_heart_is_caught_by_another_one() {
    let why = caught("TEST03", "memorising", "single-stream");
    assert!(why.contains("the audited run is slower by more than"), "{why}");
}

/// In MultiStream, too, whose queries have eight samples, every answer is logged.
#[test]
fn tokens_that_are_not_there_are_caught_by_their_counts() {
    for scenario in ["single-stream", "multi-stream", "server", "offline"] {
        let why = caught("TEST06", "padding", scenario);
        assert!(why.contains("different numbers of tokens than reported"), "{why}");
    }
}

#[test]
fn answers_cut_short_are_caught_by_their_mean_length() {
    for scenario in ["multi-stream", "offline"] {
        let why = caught("TEST09", "curtailing", scenario);
        assert!(why.contains("have 4.00 tokens on average"), "{why}");
    }
}

#[test]
fn guesses_are_caught_by_the_entropy_of_a_performance_run() {
    for scenario in ["single-stream", "multi-stream"] {
        let why = caught("TEST08", "guessing", scenario);
        assert!(why.contains("answers differ from the accuracy run"), "{why}");
    }
}

#[test]
fn quiet_says_nothing_but_errors() {
    let folder = Folder::new();
    // TEST04-A is over too soon to be VALID.
    let run = "-- --system cheat:caching --scenario single-stream --out quiet --duration 3s";
    let ran = folder.dyno(&format!("audit TEST04-A --quiet {run}")).exits(1);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

/// A run that measures no tokens is no fault of the system.
#[test]
fn answers_whose_tokens_nobody_counted_are_told() {
    let folder = Folder::new();
    let run = "-- --system cheat:writing --scenario offline --out uncounted";
    let ran = folder.dyno(&format!("audit TEST06 --dtype int32 --json {run}")).exits(1).json();
    let notes = ran["scenarios"][0]["notes"].to_string();
    assert!(notes.contains("use_token_latencies"), "{ran}");
}

/// Cheats that each audit misses: no audit replaces another.
#[test]
fn an_audit_finds_what_it_is_made_for_and_no_more() {
    for (test, trick) in [
        ("TEST01", "caching"),
        ("TEST05", "skipping"),
        ("TEST04", "memorising"),
        ("TEST01", "foreseeing"),
        ("TEST06", "curtailing"),
        ("TEST09", "padding"),
    ] {
        let folder = Folder::new();
        let ran = audit(&folder, test, &format!("cheat:{trick}"), "single-stream");
        assert_eq!(ran.json()["passed"], true, "{test} {trick}");
    }
}

#[test]
fn an_audit_leaves_its_runs_and_the_folder_of_a_submission() {
    let folder = Folder::new();
    audit(&folder, "TEST01", "cheat:honest", "offline").exits(0);
    let read = |name: &str| folder.read(&format!("TEST01-cheat-honest/{name}"));
    for run in ["baseline", "audited"] {
        assert!(read(&format!("{run}/summary.json")).contains("\"verdict\": \"VALID\""), "{run}");
    }
    let of_audit = |name: &str| read(&format!("compliance/Offline/TEST01/{name}"));
    assert!(of_audit("verify_accuracy.txt").contains("\nTEST PASS\n"));
    assert!(of_audit("verify_performance.txt").ends_with("TEST PASS\n"));
    assert!(of_audit("accuracy/accuracy.txt").starts_with("hash="));
    assert!(of_audit("performance/run_1/mlperf_log_summary.txt").contains("Result is : VALID"));
    assert!(of_audit("performance/run_1/mlperf_log_detail.txt").contains("dyno audit TEST01"));
    let json: Value = serde_json::from_str(&read("audit.json")).unwrap();
    assert_eq!((&json["audit"], &json["passed"]), (&"TEST01".into(), &true.into()));

    // The logs judged again in place: the runs, and the submission's folder.
    let reference = "--reference TEST01-cheat-honest/baseline/Offline";
    for audited in ["audited/Offline", "compliance/Offline/TEST01"] {
        let verify = format!(
            "audit verify TEST01 {reference} --audit TEST01-cheat-honest/{audited} --dtype int64"
        );
        let ran = folder.dyno(&format!("{verify} --write again --baseline-log baseline.json"));
        assert!(ran.exits(0).stdout.contains("│ PASSED"));
    }
    let again = folder.read("again/TEST01/verify_accuracy.txt");
    assert_eq!(again, of_audit("verify_accuracy.txt"));
    assert_eq!(folder.read("baseline.json").lines().count(), 542, "540 images and two brackets");
    // A log that was truncated for a submission decides nothing.
    let log = "TEST01-cheat-honest/baseline/Offline/accuracy/mlperf_log_accuracy.json";
    let complete = folder.read(log);
    let cut = [&complete[..4096], "\n\n...\n\n", &complete[complete.len() - 4096..]].concat();
    folder.write(log, &cut);
    let ran = folder.dyno(&format!(
        "audit verify TEST01 {reference} --audit TEST01-cheat-honest/audited/Offline --dtype int64"
    ));
    let told = ran.exits(3).stderr;
    assert!(told.contains("is truncated, as submissions require; TEST01 compares"), "{told}");
    folder.write(log, &complete);
    // A run is as fast as itself.
    let same = "--reference TEST01-cheat-honest/audited/Offline --audit \
                TEST01-cheat-honest/audited/Offline/performance";
    let ran = folder.dyno(&format!("audit verify TEST05 --round v4.1 {same}")).exits(2);
    assert!(ran.stderr.contains("--reference and --audit are the same folder"), "{}", ran.stderr);
    // The audited run is not one of TEST04, though its score is equal.
    let wrong =
        format!("audit verify TEST04 {reference} --audit TEST01-cheat-honest/audited/Offline");
    let ran = folder.dyno(&wrong).exits(1);
    assert!(ran.stdout.contains("effective_performance_issue_same"), "{}", ran.stdout);
}

/// A folder of TEST06 in a submission has no log, and names its scenario only in its path.
#[test]
fn answers_of_tokens_are_judged_where_a_submission_has_them() {
    let folder = Folder::new();
    // One token, 5, as 64 bits.
    let entry = |at: u64| {
        format!(
            "{{ \"seq_id\" : {at}, \"qsl_idx\" : {at}, \"data\" : \"0500000000000000\", \
             \"token_data\" : \"0500000000000000\", \"token_count\" : 1 }}"
        )
    };
    let entries: Vec<String> = (0..100).map(entry).collect();
    let log = "compliance/Server/TEST06/accuracy/mlperf_log_accuracy.json";
    folder.write(log, &format!("[\n{}\n]\n", entries.join(",\n")));
    let verify = "audit verify TEST06 --audit compliance/Server/TEST06 --write again";
    let told = folder.dyno(verify).exits(0).stdout;
    assert!(told.contains("│ Server ") && told.contains("Its settings are not"), "{told}");
    let text = folder.read("again/TEST06/verify_accuracy.txt");
    assert!(text.contains("First token check pass: True"), "{text}");
}

/// The seeds of the round are those of the baseline unless flags set others.
#[test]
fn the_baseline_is_a_run_of_the_round() {
    let folder = Folder::new();
    let run = "--system cheat:honest --scenario single-stream --duration 1s";
    folder.dyno(&format!("audit TEST05 --round v0.5 -q -- {run} --out first")).exits(0);
    let seeds = |of: &str, run: &str| {
        let summary: Value =
            serde_json::from_str(&folder.read(&format!("{of}/{run}/summary.json"))).unwrap();
        summary["tests"][0]["plan"]["seeds"].to_string()
    };
    assert_eq!(
        seeds("first", "baseline"),
        "[3133965575612453542,665484352860916858,3622009729038561421]"
    );
    assert_eq!(seeds("first", "audited"), "[195,235,634]");
    folder.dyno(&format!("audit TEST05 --round v0.5 -q -- {run} --seed 4 --out mine")).exits(0);
    // The seed is that of the schedule; the others follow from it.
    let mine: [u64; 3] = serde_json::from_str(&seeds("mine", "baseline")).unwrap();
    assert_eq!(mine[2], 4);
    assert!(mine[0] != mine[1] && !mine[..2].contains(&4), "{mine:?}");
    // The first round keeps its audits in a folder of that name.
    assert!(
        folder.read("first/audit/SingleStream/TEST05/verify_performance.txt").contains("TEST PASS")
    );
}

/// In v0.7 five VALID runs confirm a load, which each failure lowers: the audit runs once, at the
/// load that was confirmed.
#[test]
fn an_audit_bears_the_load_that_repeated_runs_found() {
    let folder = Folder::new();
    let server = "--round v0.7 --benchmark resnet --system model:exponential=1ms --scenario server";
    let ran = folder.dyno(&format!(
        "audit TEST05 --json --no-progress -- {server} --qps 700 --duration 5s --out server"
    ));
    let note = ran.exits(0).json()["scenarios"][0]["notes"][0].as_str().unwrap().to_owned();
    let lines = |log: &str, key: &str| -> Vec<String> {
        let log = folder.read(&format!("server/{log}/mlperf_log_detail.txt"));
        let of_key = |line: &str| line.contains(&format!("\"key\": \"{key}\""));
        let value =
            |line: &str| line.split("\"value\": ").nth(1)?.split(',').next().map(Into::into);
        log.lines().filter(|line| of_key(line)).filter_map(value).collect()
    };
    let borne = lines("baseline/Server/performance/run_5", "effective_target_qps");
    let qps: f64 = borne[0].parse().unwrap();
    assert!(qps < 700.0, "{qps} is the load that was asked for");
    assert!(note.contains(&format!("ran once, at {qps} queries/s")), "{note}");
    let of_audit = "compliance/Server/TEST05/performance/run_1";
    assert_eq!(lines(of_audit, "effective_target_qps"), borne);
    assert_eq!(lines(of_audit, "result_validity"), ["\"VALID\""]);
    assert!(!folder.0.join("server/audited/Server/performance/run_1").exists());

    // The pair has no run of the submission to compare with, but has its load.
    let streams = "--set multi_stream_target_qps=20 --set repetition=confirm:2 --duration 2s";
    let ran = folder.dyno(&format!(
        "audit TEST04-A --round v0.7 --json --no-progress -- --system cheat:caching --scenario \
         multi-stream --set multi_stream_samples_per_query=53 {streams} --out streams"
    ));
    let json = ran.exits(1).json();
    let scenario = &json["scenarios"][0];
    let note = scenario["notes"][0].as_str().unwrap();
    assert!(note.contains("streams, as in the submission"), "{note}");
    // The number of streams is that of both runs. What the cache makes faster is the latency.
    let reason = scenario["corrected"]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("the audited run is faster by more than 10 %"), "{reason}");
    let score = |at: usize| &json["scenarios"][0]["parts"][0]["figures"][at]["value"];
    assert_eq!(score(0), score(1));
    assert!(score(0).as_f64().unwrap() < 53.0, "the search lowered it: {json}");
}

#[test]
fn an_audit_that_makes_no_sense_is_refused_before_anything_is_played() {
    let folder = Folder::new();
    for (arguments, expected) in [
        ("audit TSET04 --", "error: unknown audit `TSET04`; the nearest is TEST04"),
        ("audit TEST04 --round v0.5 --", "error: round v0.5 has no TEST04; it began with v2.1"),
        ("audit TEST04 --round v9.9 --", "error: there is no round `v9.9`"),
        ("audit TEST04 --benchmark resnte --", "no benchmark `resnte`; the nearest is `resnet`"),
        ("audit TEST09 --mean-tokens 5 --", "error: --mean-tokens expects two numbers"),
        ("audit TEST04 --custom data=x --", "error: TEST04 does not accept --custom"),
        ("audit TEST03 --custom out=x --", "error: --custom out=x: expected a flag of dyno run"),
        ("audit TEST07 --least-quality nan --", "error: --least-quality expects a finite number"),
        ("audit TEST04 -- --sistem x", "error: after --: unexpected argument '--sistem' found"),
        ("audit TEST04 -- --mode peak", "error: after --: the audit sets --mode itself"),
        (
            "audit TEST04 -- --scenario server --qps 10 --ramp 1s",
            "error: after --: an audit has no ramp",
        ),
        ("audit TEST03 --", "error: TEST03 needs a custom data set"),
        ("audit TEST03 --custom dat=x --", "error: --custom dat=x: expected a flag of dyno run"),
        ("audit TEST04 -- --system cheat:cacheing", "the nearest is caching"),
        (
            "audit TEST04 -- --system cheat:caching,data=x",
            "expected data=reference or data=specked",
        ),
        (
            "audit TEST03 --custom data=specked -- --system cheat:memorising --virtual",
            "error: --data has no effect on system `cheat`",
        ),
    ] {
        let ran = folder.dyno(arguments).exits(2);
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
        assert!(!ran.stderr.contains("run: "), "{arguments}: {}", ran.stderr);
    }
    let ran = folder.dyno("audit verify TEST04 --audit nothing").exits(3);
    assert!(ran.stderr.contains("cannot read nothing: No such file"), "{}", ran.stderr);
    let run = "run --system model:fixed=1ms --scenario offline --mode performance --duration 1s --out out";
    folder.dyno(run).exits(0);
    let ran = folder.dyno("audit verify TEST04 --audit out").exits(3);
    assert!(ran.stderr.contains("out contains no LoadGen logs of a performance run"));
    assert!(ran.stderr.contains("pass the folder of one scenario: out/Offline\n"));
    let answers = "audit verify TEST01 --reference out/Offline --audit out/Offline";
    let ran = folder.dyno(answers).exits(3);
    assert!(ran.stderr.contains("out/Offline contains no LoadGen logs of an accuracy run"));
}

/// The audit uses the round of the file and shows its system.
#[test]
fn what_the_configuration_says_holds_for_the_audit() {
    let folder = Folder::new();
    folder.write("dyno.toml", "version = 1\n[run]\nround = \"v0.5\"\nbenchmark = \"resnet\"\n");
    let ran = folder.dyno("audit TEST04 -- --config dyno.toml").exits(2);
    assert!(ran.stderr.contains("round v0.5 has no TEST04"), "{}", ran.stderr);
}

#[test]
fn audits_are_told_with_their_rounds_and_whom_they_catch() {
    let told = Folder::new().dyno("info audits").exits(0).stdout;
    assert!(
        told.contains("TEST05\n    other seeds; rounds v0.5 to v4.1\n    cheat:foreseeing"),
        "{told}"
    );
    assert!(
        told.contains("TEST03\n    custom data set; rounds v0.5\n    cheat:memorising"),
        "{told}"
    );
    assert_eq!(told.matches("cheat:").count(), 9, "every trick is caught by an audit");
}

/// The quality of a whole performance run with known labels.
#[test]
fn work_that_is_skipped_is_caught_by_the_quality_of_a_performance_run() {
    let folder = Folder::new();
    for (trick, code) in [("honest", 0), ("skipping", 1)] {
        let run =
            format!("-- --system cheat:{trick} --scenario offline,multi-stream --out {trick}");
        let ran = folder.dyno(&format!("audit TEST07 --least-quality 95 --json {run}")).exits(code);
        for scenario in [0, 1] {
            let verdict = &ran.json()["scenarios"][scenario]["corrected"];
            assert_eq!(verdict["passed"], code == 0, "{verdict}");
        }
    }
    let text = folder.read("honest/compliance/Offline/TEST07/verify_accuracy.txt");
    assert!(text.contains("TEST PASS"), "{text}");
}

/// The file that a LoadGen harness reads from its working directory.
#[test]
fn the_settings_of_an_audit_are_printed_for_a_harness() {
    let folder = Folder::new();
    let ran = folder.dyno("audit config TEST01 --round v5.1 --benchmark retinanet").exits(0);
    assert_eq!(
        ran.stdout,
        "# TEST01 of round v5.1: accuracy in performance mode\n*.*.mode = 2\n\
         *.*.accuracy_log_rng_seed = 720381539243781796\n\
         *.*.accuracy_log_sampling_target = 256\n"
    );
    folder.write("audit.config", &ran.stdout);
    let run =
        "run --system cheat:honest --scenario offline --audit audit.config --duration 1s --json";
    let ran = folder.dyno(run).exits(0).json();
    let settings = &ran["tests"][0]["settings"];
    assert_eq!(settings["accuracy_log_sampling_target"]["value"], "256");
}

/// Three results and their six audits, by the rules of the round, in virtual time.
#[test]
fn what_audits_leave_becomes_a_submission_that_every_program_takes() {
    let folder = Folder::new();
    let run = "--round v5.1 --benchmark resnet --system model:fixed=50ms --samples 50000 \
               --scenario single-stream,multi-stream,offline";
    for test in ["TEST01", "TEST04"] {
        folder.dyno(&format!("audit {test} -q --no-progress -- {run} --out {test}")).exits(0);
    }
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let scored = format!("TEST01/baseline/{scenario}/accuracy/accuracy.txt");
        folder.write(&scored, "accuracy=76.100%, good=38050, total=50000\n");
    }
    folder.write("box.toml", crate::package::BOX);
    let package = "package tree TEST01 TEST04 --division closed --submitter Acme --system box \
                   --suite edge --describe box.toml";
    let told = folder.dyno(package).exits(0).stdout;
    assert!(!told.contains("doubt"), "{told}");
    // The rules warn of each simulated run.
    for (compat, warnings) in [("", 3), (" --compat mono", 0), (" --compat modular", 0)] {
        let told = folder.dyno(&format!("check tree --round v5.1{compat}")).exits(0).stdout;
        let expected = format!("3 valid, 0 not; 0 errors, {warnings} warnings");
        assert!(told.contains(&expected), "{compat}: {told}");
    }

    // The check compares both audits with the run that is submitted.
    let below = "tree/closed/Acme/compliance/box/resnet/Offline/TEST04";
    let log = format!("{below}/performance/run_1/mlperf_log_detail.txt");
    let key = "\"key\": \"effective_performance_issue_same\", \"value\": ";
    let text = folder.read(&log);
    assert!(text.contains(&format!("{key}true")));
    folder.write(&log, &text.replace(&format!("{key}true"), &format!("{key}false")));
    let told = folder.dyno("check tree --round v5.1").exits(1).stdout;
    assert!(told.contains("error[audit.settings]"), "{told}");
}

mod real_time {
    use super::*;

    /// Scores depend on the machine; answers do not.
    #[test]
    fn the_built_in_system_gives_the_same_answers_in_both_modes() {
        let folder = Folder::new();
        let ran = folder.dyno(
            "audit TEST01 --json --no-progress --dtype int64 -- --scenario offline --duration 50ms",
        );
        let part = &ran.json()["scenarios"][0]["parts"][0];
        assert_eq!(part["name"], "answers");
        assert_eq!(part["corrected"]["passed"], true, "{part}");
        assert_eq!(part["official"]["passed"], true, "{part}");
    }

    /// Attempts of an audit: other work on the machine may slow down one of two runs, but not in every
    /// attempt.
    const ATTEMPTS: usize = 4;

    #[test]
    fn an_onnx_model_is_no_cache_and_answers_alike_in_both_modes() {
        let Some(folder) = crate::probe::with_model() else { return };
        for test in ["TEST01 --dtype int64", "TEST04"] {
            let audit = |attempt: usize| {
                let name = &test[..6];
                folder.dyno(&format!(
                    "audit {test} --json --no-progress -- --system onnx:digits.onnx --data ink.npy \
                     --labels labels.npy --threads 1 --scenario single-stream --duration 300ms \
                     --out {name}-{attempt}"
                ))
            };
            let is_passed = |attempt: usize| audit(attempt).json()["passed"] == true;
            assert!((0..ATTEMPTS).any(is_passed), "{test}: {:#}", audit(ATTEMPTS).json());
        }
    }
}
