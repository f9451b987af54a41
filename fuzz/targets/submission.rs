//! A submission of which some files have other contents, less of them, or are not
//! there, under all three programs: they end with an outcome for whatever they list,
//! and never with a panic.
//!
//! The input is cut at bytes 255. The first part chooses the round, and with it the
//! layout; each other part is the number of a file, what is done to it, where in it,
//! and bytes.
#![no_main]

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use dyno_rules::Round;
use dyno_submission::check::{Options, Program, check};
use dyno_submission::layout::Layout;
use libfuzzer_sys::fuzz_target;

/// A line of a power meter.
const SAMPLE: &str = "Time,07-22-2025 20:05:00.0,Watts,9";

/// A tree on disk: each file with its contents, which an input may replace.
struct Submission {
    round: &'static Round,
    files: Vec<(PathBuf, Vec<u8>)>,
    root: PathBuf,
}

thread_local! {
    /// One of each layout.
    static MADE: OnceCell<[Submission; 2]> = const { OnceCell::new() };
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

fn submission(name: &str) -> Submission {
    let round = Round::named(name).expect("it is one of the rounds");
    let root = std::env::temp_dir().join(format!("dyno-fuzz-{}-{name}", std::process::id()));
    let layout = Layout::for_round(round.version);
    let of = "box/resnet50/SingleStream";
    let result = format!("closed/acme/results/{of}");
    let described = format!("closed/acme/{}/{of}", layout.measurements());
    let audits = format!("closed/acme/{}/{of}", layout.compliance());
    let measurement = match layout {
        Layout::First | Layout::Apart => "box.json",
        Layout::Together => "measurements.json",
    };
    let mut files = vec![
        ("closed/acme/systems/box.json".to_owned(), system(round)),
        ("open/acme/model_mapping.json".into(), r#"{"mine": "resnet"}"#.into()),
        ("closed/acme/documentation/calibration.md".into(), "made".into()),
        (format!("closed/acme/{}/resnet50/README.md", layout.code()), "made".into()),
        (format!("{result}/accuracy/accuracy.txt"), "accuracy=76.1%\nhash=00\n".into()),
        (format!("{result}/accuracy/mlperf_log_accuracy.json"), "[]".into()),
        (format!("{described}/{measurement}"), r#"{"input_data_types": "int8"}"#.into()),
        (format!("{described}/user.conf"), "*.*.mode = 2\n".into()),
        (format!("{described}/README.md"), "made".into()),
        (format!("{audits}/TEST01/verify_accuracy.txt"), "TEST PASS\n".into()),
        (format!("{audits}/TEST01/verify_performance.txt"), "TEST PASS\n".into()),
        (format!("{audits}/TEST04/verify_performance.txt"), "TEST PASS\n".into()),
        (format!("{result}/performance/run_1/spl.txt"), SAMPLE.into()),
    ];
    for run in ["performance/run_1", "performance/ranging", "accuracy"] {
        files.push((format!("{result}/{run}/mlperf_log_detail.txt"), log(round)));
        files
            .push((format!("{result}/{run}/mlperf_log_summary.txt"), "Result is : VALID\n".into()));
    }
    for file in ["client.json", "server.json", "client.log", "server.log", "ptd_logs.txt"] {
        files.push((format!("{result}/performance/power/{file}"), "{\"version\": \"1\"}".into()));
    }
    for test in ["TEST01", "TEST04"] {
        let of = format!("{audits}/{test}/performance/run_1/mlperf_log_detail.txt");
        files.push((of, log(round)));
    }
    let files = files.into_iter().map(|(path, text)| (root.join(path), text.into_bytes()));
    let made = Submission { round, files: files.collect(), root };
    for (path, bytes) in &made.files {
        fs::create_dir_all(path.parent().expect("it lies below the root")).expect("a folder");
        fs::write(path, bytes).expect("a file in the temporary folder");
    }
    made
}

/// A file with something done to it; `None` is no file.
fn changed(right: &[u8], how: u8, at: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let end = right.len().min(at + bytes.len());
    let mut contents = right.to_vec();
    match how % 4 {
        0 => return None,
        1 => contents.truncate(at),
        2 => contents.splice(at.min(end)..end, bytes.iter().copied()).for_each(drop),
        _ => contents.splice(at..at, bytes.iter().copied()).for_each(drop),
    }
    Some(contents)
}

fuzz_target!(|bytes: &[u8]| {
    MADE.with(|made| {
        let made = made.get_or_init(|| ["v5.1", "v6.1"].map(submission));
        let mut parts = bytes.split(|&byte| byte == 255);
        let made = &made[usize::from(parts.next().is_some_and(|part| part.len() % 2 == 1))];
        let mut touched = Vec::new();
        for part in parts {
            let [file, how, at, bytes @ ..] = part else { continue };
            let (path, right) = &made.files[usize::from(*file) % made.files.len()];
            match changed(right, *how, usize::from(*at) * right.len() / 254, bytes) {
                Some(contents) => fs::write(path, contents).expect("a file"),
                None => drop(fs::remove_file(path)),
            }
            touched.push((path, right));
        }
        for program in [Program::Strict, Program::Mono, Program::Modular] {
            let checked = check(&made.root, made.round, &Options::new(program));
            let checked = checked.expect("the root is there");
            assert!(!checked.results.is_empty() || !checked.findings.is_empty(), "{program:?}");
        }
        for (path, right) in touched {
            fs::write(path, right).expect("a file in the temporary folder");
        }
    });
});
