//! Tests of published trees: results without checks, in the logs and the layouts of early rounds.

use dyno_rules::Round;
use dyno_submission::check::{Options, Program, check, published};
use dyno_submission::results::{Ids, Results, Spread};
use dyno_submission::table::Column;

use crate::made::folder::Folder;

/// Returns the summary of a run of LoadGen v0.5.
fn summary(scenario: &str, result: &str, verdict: &str) -> String {
    format!(
        "{line}\nMLPerf Results Summary\n{line}\nSUT name : \nScenario : {scenario}\n\
         Mode     : Performance\n{result}\nResult is : {verdict}\n  Min duration satisfied : Yes\n\n\
         {line}\nTest Parameters Used\n{line}\nsamples_per_query : 1\nmin_query_count : 1024\n\
         qsl_rng_seed : 3133965575612453542\nperformance_sample_count : 1024\n\n\
         No warnings encountered during test.\n\nNo errors encountered during test.\n",
        line = "=".repeat(48)
    )
}

/// Returns the detail log of a run of LoadGen v0.5.
fn detail(scenario: &str) -> String {
    let lines = [
        "LoadgenVersionInfo:",
        "version : .5a1 @ 0123456789",
        "Effective Settings:",
        &format!("Scenario : {scenario}"),
        "Test mode : Performance",
        "qsl_rng_seed : 3133965575612453542",
        "Starting performance mode:",
    ];
    lines.iter().map(|line| format!("\"pid\": 1, \"tid\": 2, \"ts\": 3ns : {line}\n")).collect()
}

const OFFLINE: [&str; 2] = ["Samples per second: 1000.5", "Samples per second: 2.001e+04"];

/// Writes a run with both logs.
fn run(folder: &Folder, path: &str, scenario: &str, result: &str, verdict: &str) {
    folder.write(&format!("{path}/mlperf_log_summary.txt"), summary(scenario, result, verdict));
    folder.write(&format!("{path}/mlperf_log_detail.txt"), detail(scenario));
}

fn describe(folder: &Folder, submitter: &str, system: &str, fields: &str) {
    let json = format!("{{\"status\": \"available\", \"number_of_nodes\": 1, {fields}}}");
    folder.write(&format!("closed/{submitter}/systems/{system}.json"), json);
}

/// Returns a tree of v0.5 in which every name varies as in the published one.
fn tree() -> Folder {
    let folder = Folder::new("published");
    describe(
        &folder,
        "acme",
        "card",
        r#""framework": "TFLite v1", "accelerator_model_name": "-",
        "accelerators_per_node": 0, "host_processor_model_name": "Some CPU""#,
    );
    describe(
        &folder,
        "zenith",
        "tpu",
        r#""framework": "TF at a revision",
        "accelerator_model_name": "tpu-v9", "accelerators_per_node": 8"#,
    );
    let acme = "closed/acme/results/card";
    run(&folder, &format!("{acme}/resnet50/offline/performance"), "Offline", OFFLINE[0], "VALID");
    let latency = "90th percentile latency (ns) : 4000000";
    let single = format!("{acme}/mobilenet/singlestream/Performance/run_1");
    run(&folder, &single, "Single Stream", latency, "VALID");
    let zenith = "closed/zenith/results/tpu";
    // The detail log is not in the snapshot.
    let path = format!("{zenith}/resnet/Offline/performance/run_1/mlperf_log_summary.txt");
    folder.write(&path, summary("Offline", OFFLINE[1], "VALID"));
    for (number, rate) in [300, 250, 100, 280, 290].into_iter().enumerate() {
        let verdict = if rate == 100 { "INVALID" } else { "VALID" };
        let path = format!("{zenith}/resnet/Server/performance/run_{number}");
        let result = format!("Scheduled samples per second : {rate}");
        run(&folder, &path, "Server", &result, verdict);
    }
    let streams = "Samples per query : 25";
    let multi = format!("{zenith}/resnet/MultiStream/performance/run_1");
    run(&folder, &multi, "Multi Stream", streams, "VALID");
    let invalid = format!("{zenith}/mobilenet/Offline/performance/run_1");
    run(&folder, &invalid, "Offline", OFFLINE[0], "INVALID");
    run(
        &folder,
        "open/acme/results/card/x/Offline/performance/run_1",
        "Offline",
        OFFLINE[0],
        "VALID",
    );
    folder
}

#[test]
fn results_are_read_from_logs_before_v1_0() {
    let folder = tree();
    let round = Round::named("v0.5").unwrap();
    let found = published(folder.path(), round).unwrap();
    let mut values: Vec<(String, f64, String)> = found
        .rows
        .iter()
        .map(|row| {
            let path = row.get(Column::Location).trim_start_matches("closed/").to_owned();
            (path, row.value, row.get(Column::Units).to_owned())
        })
        .filter(|(path, ..)| !path.starts_with("open"))
        .collect();
    values.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("acme/results/card/mobilenet/singlestream", 4.0, "Latency (ms)"),
        ("acme/results/card/resnet50/offline", 1000.5, "Samples/s"),
        ("zenith/results/tpu/resnet/MultiStream", 25.0, "Streams"),
        ("zenith/results/tpu/resnet/Offline", 20010.0, "Samples/s"),
        // The lowest of the VALID runs.
        ("zenith/results/tpu/resnet/Server", 250.0, "Queries/s"),
    ];
    assert_eq!(values, expected.map(|(path, value, unit)| (path.into(), value, unit.into())));
    let invalid = "closed/zenith/results/tpu/mobilenet/Offline: no VALID performance run";
    assert!(found.notices.iter().any(|notice| notice == invalid), "{:?}", found.notices);
    let undescribed = "open/acme/results/card: no description of the system can be read";
    assert!(found.notices.iter().any(|notice| notice == undescribed), "{:?}", found.notices);
}

/// The tables of section 6 of the paper are of the closed division.
#[test]
fn statistics_are_of_the_closed_division() {
    let folder = tree();
    let round = Round::named("v0.5").unwrap();
    let rows = published(folder.path(), round).unwrap().rows;
    let closed = Results::from_rows(&rows, round, &mut Ids::new()).statistics;
    let scenarios = &closed.closed.scenarios;
    assert_eq!(scenarios.columns, ["SingleStream", "MultiStream", "Server", "Offline"]);
    assert_eq!(scenarios.lines, ["mobilenet", "resnet"]);
    assert_eq!(scenarios.counts, [[1, 0, 0, 0], [0, 1, 1, 2]]);
    let frameworks = &closed.closed.frameworks;
    let cell = |line: &str, column: &str| {
        let line = frameworks.lines.iter().position(|name| name == line).unwrap();
        let column = frameworks.columns.iter().position(|name| name == column).unwrap();
        frameworks.counts[line][column]
    };
    assert_eq!((cell("TensorFlow Lite", "CPU"), cell("TensorFlow", "ASIC")), (1, 1));
    let [spread] = &closed.spreads[..] else { panic!("{:?}", closed.spreads) };
    assert!((Spread::ratio(spread) - 20.0).abs() < 1e-12, "{spread:?}");
}

/// From v1.0 on, LoadGen writes keys, and a log without them is no result.
#[test]
fn logs_of_text_do_not_count_from_v1_0_on() {
    let folder = Folder::new("published");
    let path = "closed/acme/results/box/resnet50/Offline/performance/run_1";
    run(&folder, path, "Offline", OFFLINE[0], "VALID");
    let round = Round::named("v1.0").unwrap();
    assert_eq!(published(folder.path(), round).unwrap().rows, []);
    let checked = check(folder.path(), round, &Options::new(Program::Strict)).unwrap();
    let is_first_line = |check: &str| check == "log.first_line";
    assert!(checked.findings.iter().any(|finding| is_first_line(finding.check)), "{checked:#?}");
}

/// Copies without large files lack the largest detail logs.
#[test]
fn the_summary_suffices_where_the_detail_log_is_missing() {
    let round = Round::named("v5.1").unwrap();
    let folder = Folder::new("published");
    let results = "closed/acme/results/box/resnet50";
    let lines = |result: &str, verdict: &str, rest: &str| {
        format!(
            "SUT name : \nScenario : {result}\nResult is : {verdict}\n  Early stopping satisfied: \
             Yes\n{rest}\nNo errors encountered during test.\n"
        )
    };
    for (scenario, text) in [
        ("Offline", lines("Offline\nSamples per second: 605112", "VALID", "")),
        (
            "SingleStream",
            lines(
                "SingleStream\n90.0th percentile latency (ns) : 2000000",
                "VALID",
                "Early Stopping Result:\n * Early stopping 90.0th percentile estimate: 2500000\n * \
                 Early stopping 99.0th percentile estimate: 3000000\n",
            ),
        ),
        ("MultiStream", lines("MultiStream", "INVALID", "")),
    ] {
        folder
            .write(&format!("{results}/{scenario}/performance/run_1/mlperf_log_summary.txt"), text);
    }
    let found = published(folder.path(), round).unwrap();
    let values: Vec<f64> = found.rows.iter().map(|row| row.value).collect();
    assert_eq!(values, [605_112.0, 2.5], "{:?}", found.notices);
    let invalid = format!("{results}/MultiStream: no VALID performance run");
    assert!(found.notices.contains(&invalid), "{:?}", found.notices);
    // Git LFS puts a pointer in place of a log that it did not fetch.
    for scenario in ["Offline", "SingleStream", "MultiStream"] {
        let log = format!("{results}/{scenario}/performance/run_1/mlperf_log_detail.txt");
        folder.write(&log, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
    }
    assert_eq!(published(folder.path(), round).unwrap(), found);
}
