//! A generated submission without real runs. Its logs contain only the keys that the official
//! programs read, in any round, so the rules report missing keys.

use std::fmt::Write as _;

use dyno_rules::Round;
use dyno_submission::layout::Layout;

use crate::made::folder::Folder;

/// A line of a detail log.
pub fn line(key: &str, value: &str) -> String {
    format!(
        ":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"time_ms\": 1.0, \"namespace\": \
         \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": {{\"is_error\": \
         false, \"is_warning\": false, \"file\": \"made.rs\", \"line_no\": 1, \"pid\": 1, \
         \"tid\": 1}}}}\n"
    )
}

/// Returns a valid detail log for ResNet-50.
pub fn log(round: &Round, scenario: &str) -> String {
    let seeds = round.seeds;
    let pairs = [
        ("effective_scenario", format!("\"{scenario}\"")),
        // Both an accuracy run and a performance run.
        ("effective_test_mode", "\"SubmissionRun\"".to_owned()),
        ("sut_name", "\"made\"".to_owned()),
        ("effective_qsl_rng_seed", seeds.qsl.to_string()),
        ("effective_sample_index_rng_seed", seeds.sample_index.to_string()),
        ("effective_schedule_rng_seed", seeds.schedule.to_string()),
        ("effective_performance_sample_count", "1024".to_owned()),
        ("effective_min_query_count", "24576".to_owned()),
        ("effective_samples_per_query", "24576".to_owned()),
        ("effective_min_duration_ms", "600000".to_owned()),
        ("qsl_reported_total_count", "50000".to_owned()),
        ("result_validity", "\"VALID\"".to_owned()),
        ("early_stopping_met", "true".to_owned()),
        ("early_stopping_latency_ss", "512000".to_owned()),
        ("early_stopping_latency_ms", "2048000".to_owned()),
        ("result_samples_per_second", "6607.5".to_owned()),
        ("result_99.00_percentile_latency_ns", "1000".to_owned()),
        ("result_mean_latency_ns", "500000".to_owned()),
        ("result_qps_without_loadgen_overhead", "2000".to_owned()),
        ("num_errors", "0".to_owned()),
    ];
    pairs.iter().fold(String::new(), |log, (key, value)| log + &line(key, value))
}

/// Returns a valid system description for the closed division.
pub fn system(round: &Round) -> String {
    let mut text = String::from("{\n");
    for field in &round.system_fields.required {
        let value = match field.as_str() {
            "division" => "closed",
            "submitter" => "acme",
            "status" => "available",
            "system_type" => "edge",
            "number_of_nodes" | "accelerators_per_node" => "1",
            _ => "something",
        };
        let _ = writeln!(text, "  \"{field}\": \"{value}\",");
    }
    text.truncate(text.len() - 2);
    text + "\n}\n"
}

pub const MEASUREMENT: &str = r#"{"input_data_types": "int8", "retraining": "no",
  "starting_weights_filename": "made", "weight_data_types": "int8", "weight_transformations": "no"}"#;
const ACCURACY: &str = "accuracy=76.100%, good=38050, total=50000\nhash=0123456789abcdef\n";

/// ResNet-50 in the closed division, on an edge system.
pub fn submission(round: &Round) -> Folder {
    let folder = Folder::new("made");
    let layout = Layout::for_round(round.version);
    folder.write("closed/acme/systems/box.json", system(round));
    folder.write("closed/acme/documentation/calibration.md", "made");
    folder.write(&format!("closed/acme/{}/resnet50/README.md", layout.code()), "made");
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let of = format!("box/resnet50/{scenario}");
        let result = format!("closed/acme/results/{of}");
        for run in ["performance/run_1", "accuracy"] {
            folder.write(&format!("{result}/{run}/mlperf_log_detail.txt"), log(round, scenario));
            folder.write(&format!("{result}/{run}/mlperf_log_summary.txt"), "made");
        }
        folder.write(&format!("{result}/accuracy/accuracy.txt"), ACCURACY);
        folder.write(&format!("{result}/accuracy/mlperf_log_accuracy.json"), "[]");
        let described = format!("closed/acme/{}/{of}", layout.measurements());
        let json = match layout {
            Layout::First | Layout::Apart => "box.json",
            Layout::Together => "measurements.json",
        };
        folder.write(&format!("{described}/{json}"), MEASUREMENT);
        folder.write(&format!("{described}/user.conf"), "made");
        folder.write(&format!("{described}/README.md"), "made");
        for test in ["TEST01", "TEST04"] {
            let audit = format!("closed/acme/{}/{of}/{test}", layout.compliance());
            let run = format!("{audit}/performance/run_1");
            folder.write(&format!("{run}/mlperf_log_detail.txt"), log(round, scenario));
            folder.write(&format!("{run}/mlperf_log_summary.txt"), "made");
            folder.write(&format!("{audit}/verify_performance.txt"), "TEST PASS\n");
            if test == "TEST01" {
                folder.write(&format!("{audit}/verify_accuracy.txt"), "TEST PASS\n");
                folder.write(&format!("{audit}/accuracy/accuracy.txt"), ACCURACY);
                folder.write(&format!("{audit}/accuracy/mlperf_log_accuracy.json"), "[]");
            }
        }
    }
    folder
}
