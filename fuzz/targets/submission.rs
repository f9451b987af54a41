//! A submission of which some files have other contents, under all three programs:
//! they end with an outcome for whatever they list, and never with a panic.
//!
//! The input is cut at bytes 255: each part is the number of a file, the number of
//! the place where its contents are put in, and these.
#![no_main]

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use dyno_mlperf::round::Round;
use dyno_mlperf::submission::check::{Options, Program, check};
use libfuzzer_sys::fuzz_target;

const SYSTEM: &str = "closed/acme/systems/box.json";
const RESULT: &str = "closed/acme/results/box/resnet50/SingleStream";
const DESCRIBED: &str = "closed/acme/measurements/box/resnet50/SingleStream";
const AUDITS: &str = "closed/acme/compliance/box/resnet50/SingleStream";

/// A tree on disk: each file with its contents, which an input may replace.
struct Submission {
    files: Vec<(PathBuf, Vec<u8>)>,
    root: PathBuf,
}

thread_local! {
    static MADE: OnceCell<Submission> = const { OnceCell::new() };
}

fn line(key: &str, value: impl std::fmt::Display) -> String {
    format!(
        ":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"time_ms\": 1.0, \"namespace\": \
         \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": {{\"is_error\": \
         false, \"is_warning\": false, \"file\": \"made.rs\", \"line_no\": 1, \"pid\": 1, \
         \"tid\": 1}}}}\n"
    )
}

fn log(round: &Round) -> String {
    let seeds = round.seeds;
    line("effective_scenario", "\"SingleStream\"")
        + &line("effective_qsl_rng_seed", seeds.qsl)
        + &line("effective_sample_index_rng_seed", seeds.sample_index)
        + &line("effective_schedule_rng_seed", seeds.schedule)
        + &line("effective_performance_sample_count", 1024)
        + &line("effective_min_query_count", 24_576)
        + &line("effective_min_duration_ms", 600_000)
        + &line("qsl_reported_total_count", 50_000)
        + &line("result_validity", "\"VALID\"")
        + &line("early_stopping_met", true)
        + &line("early_stopping_latency_ss", 512_000)
        + &line("power_begin", "\"07-22-2025 20:01:02.123\"")
        + &line("power_end", "\"07-22-2025 20:11:02.123\"")
        + &line("num_errors", 0)
}

fn system(round: &Round) -> String {
    let fields = round.system_fields.required.iter().map(|field| {
        let value = match field.as_str() {
            "division" => "closed",
            "submitter" => "acme",
            "status" => "available",
            "system_type" => "edge",
            _ => "1",
        };
        format!("\"{field}\": \"{value}\"")
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(",\n"))
}

fn submission(round: &Round) -> Submission {
    let root = std::env::temp_dir().join(format!("dyno-fuzz-{}", std::process::id()));
    let mut files = vec![
        (SYSTEM.to_owned(), system(round)),
        ("open/acme/model_mapping.json".into(), r#"{"mine": "resnet"}"#.into()),
        ("closed/acme/documentation/calibration.md".into(), "made".into()),
        ("closed/acme/code/resnet50/README.md".into(), "made".into()),
        (format!("{RESULT}/accuracy/accuracy.txt"), "accuracy=76.1%\nhash=00\n".into()),
        (format!("{RESULT}/accuracy/mlperf_log_accuracy.json"), "[]".into()),
        (format!("{DESCRIBED}/box.json"), r#"{"input_data_types": "int8"}"#.into()),
        (format!("{DESCRIBED}/user.conf"), "*.*.mode = 2\n".into()),
        (format!("{DESCRIBED}/README.md"), "made".into()),
        (format!("{AUDITS}/TEST01/verify_accuracy.txt"), "TEST PASS\n".into()),
        (format!("{AUDITS}/TEST01/verify_performance.txt"), "TEST PASS\n".into()),
        (format!("{AUDITS}/TEST04/verify_performance.txt"), "TEST PASS\n".into()),
        (
            format!("{RESULT}/performance/run_1/spl.txt"),
            "Time,07-22-2025 20:05:00.0,Watts,9".into(),
        ),
    ];
    for run in ["performance/run_1", "performance/ranging", "accuracy"] {
        files.push((format!("{RESULT}/{run}/mlperf_log_detail.txt"), log(round)));
        files
            .push((format!("{RESULT}/{run}/mlperf_log_summary.txt"), "Result is : VALID\n".into()));
    }
    for file in ["client.json", "server.json", "client.log", "server.log", "ptd_logs.txt"] {
        files.push((format!("{RESULT}/performance/power/{file}"), "{\"version\": \"1\"}".into()));
    }
    for test in ["TEST01", "TEST04"] {
        let of = format!("{AUDITS}/{test}/performance/run_1/mlperf_log_detail.txt");
        files.push((of, log(round)));
    }
    let files = files.into_iter().map(|(path, text)| (root.join(path), text.into_bytes()));
    let made = Submission { files: files.collect(), root };
    for (path, bytes) in &made.files {
        fs::create_dir_all(path.parent().expect("it lies below the root")).expect("a folder");
        fs::write(path, bytes).expect("a file in the temporary folder");
    }
    made
}

fuzz_target!(|bytes: &[u8]| {
    let round = Round::named("v5.1").expect("it is one of the rounds");
    MADE.with(|made| {
        let made = made.get_or_init(|| submission(round));
        let mut changed = Vec::new();
        for part in bytes.split(|&byte| byte == 255) {
            let [file, at, contents @ ..] = part else { continue };
            let (path, right) = &made.files[usize::from(*file) % made.files.len()];
            let at = usize::from(*at) * right.len() / 254;
            let end = right.len().min(at + contents.len());
            let mut bytes = right.clone();
            bytes.splice(at.min(end)..end, contents.iter().copied());
            fs::write(path, bytes).expect("a file in the temporary folder");
            changed.push((path, right));
        }
        for program in [Program::Strict, Program::Mono, Program::Modular] {
            let checked = check(&made.root, round, &Options::new(program));
            let checked = checked.expect("the root is there");
            assert!(!checked.results.is_empty() || !checked.findings.is_empty(), "{program:?}");
        }
        for (path, right) in changed {
            fs::write(path, right).expect("a file in the temporary folder");
        }
    });
});
