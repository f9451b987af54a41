//! Valid submissions: tests run by the rules of a round, with the required audits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};
use dyno_rules::{Round, Suite, Version};
use dyno_submission::entry::DivisionFolder;
use dyno_submission::package::{Availability, Description, Fields, Infer, PackageRequest, package};

use super::folder::{Folder, each_file};
use super::played::{STEADY, SteadySystem};
use super::power;

const TRACE: &str = "mlperf_log_trace.json";
const ACCURACY_LOG: &str = "mlperf_log_accuracy.json";
const PASSED: &str = "TEST PASS\n";
const TEST01_SEED: u64 = 720_381_539_243_781_796;

/// A benchmark for which tests are run.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// Name in the round.
    pub name: &'static str,
    /// Number of samples in its data set.
    pub samples: u64,
    /// Output of its accuracy script for sufficient quality.
    pub accuracy: &'static str,
    /// Number of samples whose answers TEST01 logs.
    pub audited_samples: u64,
}

pub const RESNET: Model = Model {
    name: "resnet",
    samples: 50_000,
    accuracy: "accuracy=76.452%, good=38226, total=50000\n",
    audited_samples: 4_096,
};
pub const RETINANET: Model =
    Model { name: "retinanet", samples: 24_781, accuracy: "mAP=37.565%\n", audited_samples: 256 };

/// Scenarios of an edge system.
pub const EDGE: [Scenario; 3] = [Scenario::SingleStream, Scenario::MultiStream, Scenario::Offline];

/// Whether to measure power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    Unmeasured,
    Measured,
}

/// Runs the tests of a model in these scenarios with their audits, and writes a run directory.
pub fn run(
    round: &Round,
    model: &Model,
    scenarios: &[Scenario],
    system: SteadySystem,
    power: Power,
    root: &Path,
) {
    for &scenario in scenarios {
        let folder = root.join(scenario.name());
        let settings = system.settings(round, scenario);
        let performance = folder.join("performance");
        system.play(&settings, model.samples, &performance);
        if power == Power::Measured {
            let round = &round.version.to_string();
            power::PowerFiles { folder: &performance, run: "", round }.make();
        }
        let accuracy = TestSettings { mode: TestMode::AccuracyOnly, ..settings.clone() };
        system.play(&accuracy, model.samples, &folder.join("accuracy"));
        fs::write(folder.join("accuracy/accuracy.txt"), model.accuracy).unwrap();
        let benchmark = round.benchmarks.iter().find(|known| known.name == model.name).unwrap();
        for audit in &benchmark.audits {
            self::audit(round, audit, model, &settings, system, &folder.join(audit));
        }
    }
}

/// Runs an audit with these settings.
fn audit(
    round: &Round,
    name: &str,
    model: &Model,
    run: &TestSettings,
    system: SteadySystem,
    folder: &Path,
) {
    let audited = match name {
        "TEST01" => TestSettings {
            accuracy_log_rng_seed: TEST01_SEED,
            accuracy_log_sampling_target: model.audited_samples,
            ..run.clone()
        },
        "TEST04" => TestSettings {
            performance_issue_same: true,
            performance_issue_same_index: 3,
            ..run.clone()
        },
        "TEST05" => {
            let seeds = round.test05_seeds.unwrap();
            TestSettings {
                qsl_rng_seed: seeds.qsl,
                sample_index_rng_seed: seeds.sample_index,
                schedule_rng_seed: seeds.schedule,
                ..run.clone()
            }
        }
        other => panic!("no {other} is made here: write how it is played"),
    };
    let logs = folder.join("performance/run_1");
    system.play(&audited, model.samples, &logs);
    fs::remove_file(logs.join(TRACE)).unwrap();
    fs::write(folder.join("verify_performance.txt"), PASSED).unwrap();
    if name == "TEST01" {
        fs::create_dir(folder.join("accuracy")).unwrap();
        fs::rename(logs.join(ACCURACY_LOG), folder.join("accuracy").join(ACCURACY_LOG)).unwrap();
        fs::write(folder.join("verify_accuracy.txt"), PASSED).unwrap();
    } else {
        fs::remove_file(logs.join(ACCURACY_LOG)).unwrap();
    }
}

/// Fields that cannot be captured, for a system that is valid in the closed division.
const DESCRIPTION: &str = r#"
[system]
host_processor_model_name = "Some processor"
host_processors_per_node = 2
host_processor_core_count = 32
host_memory_capacity = "512 GB"
host_memory_configuration = "16x 32 GB DDR5 with ECC"
host_storage_capacity = "2 TB"
host_storage_type = "NVMe SSD"
host_networking = "10 Gbit/s Ethernet"
host_networking_topology = "N/A"
host_network_card_count = 1
number_of_nodes = 1
accelerators_per_node = 1
accelerator_model_name = "Some accelerator"
accelerator_memory_capacity = "80 GB"
accelerator_memory_configuration = "HBM3 with ECC"
accelerator_host_interconnect = "PCIe Gen5 x16"
accelerator_interconnect = "N/A"
cooling = "air"
framework = "Some framework"
operating_system = "Some Linux"
other_software_stack = "Some driver"

[measurement]
input_data_types = "int8"
retraining = "no"
starting_weights_filename = "weights.onnx"
weight_data_types = "int8"
weight_transformations = "quantised"

[pages]
calibration = "Per channel, from the calibration set."
code = "Beside this page."
"#;

/// Returns a complete description with some system fields replaced.
pub fn description(fields: &[(&str, &str)]) -> Description {
    let mut description = Description::read(DESCRIPTION).unwrap();
    let other = fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).into()));
    description.system.extend(other);
    description
}

/// Returns the request to package a run directory of a closed edge system.
pub fn asked<'a>(round: &'a Round, model: &Model, run: PathBuf) -> PackageRequest<'a> {
    PackageRequest {
        round,
        division: DivisionFolder::Closed,
        submitter: "acme".to_owned(),
        system: "box".to_owned(),
        benchmark: model.name.to_owned(),
        stands_for: None,
        suite: Suite::Edge,
        availability: Availability::Available,
        infer: Infer::Nothing,
        captured: Fields::new(),
        description: description(&[]),
        runs: vec![run],
    }
}

/// Returns the system description as a file, for trees that are not packaged.
pub fn system(round: &Round, fields: &[(&str, &str)]) -> String {
    let of_tree = [
        ("division", "closed"),
        ("submitter", "acme"),
        ("status", "available"),
        ("system_type", "edge"),
        ("system_name", "box"),
    ];
    let mut system = description(&of_tree).system;
    for field in &round.system_fields.required {
        system.entry(field.clone()).or_insert_with(|| "N/A".into());
    }
    system.extend(description(fields).system);
    serde_json::to_string_pretty(&system).unwrap()
}

/// Content of a submission with one system and one model, by relative path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Returns a submission of ResNet-50 on the closed edge system `box` of `acme`. It is generated
/// once per round and written for each test.
pub fn resnet(round: &'static Round) -> Folder {
    static PLAYED: Mutex<BTreeMap<Version, Arc<Files>>> = Mutex::new(BTreeMap::new());
    let files = {
        let mut played = PLAYED.lock().unwrap();
        let files =
            played.entry(round.version).or_insert_with(|| Arc::new(packaged(round, &RESNET)));
        Arc::clone(files)
    };
    let folder = Folder::new("resnet");
    for (path, bytes) in &*files {
        folder.write(path.to_str().unwrap(), bytes);
    }
    folder
}

fn packaged(round: &Round, model: &Model) -> Files {
    let scratch = Folder::new("played");
    let (runs, tree) = (scratch.path().join("run"), scratch.path().join("tree"));
    run(round, model, &EDGE, STEADY, Power::Unmeasured, &runs);
    package(&asked(round, model, runs), &tree).unwrap();
    let mut files = Files::new();
    each_file(&tree, &mut |file| {
        let path = file.strip_prefix(&tree).unwrap().to_owned();
        let mut bytes = fs::read(file).unwrap();
        if file.ends_with("mlperf_log_detail.txt") {
            bytes = without_lists(&String::from_utf8(bytes).unwrap()).into_bytes();
        }
        files.insert(path, bytes);
    });
    files
}

/// Returns a detail log without the loaded samples, which are most of it and which no check
/// uses.
fn without_lists(log: &str) -> String {
    let kept = log.split_inclusive('\n').filter(|line| !line.contains("\"value\": ["));
    kept.collect()
}
