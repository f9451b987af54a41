//! A submission tree of the size of a full round, of logs that the load generator
//! writes for tests in virtual time.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};
use dyno_mlperf::package::{Asked, Availability, Description, Fields, Infer, package};
use dyno_mlperf::round::{Round, Suite};
use dyno_mlperf::submission::entry::Division;

use crate::played::{by_the_rules, play};
use crate::power;

/// How large a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Results of a scenario; a multiple of [`RESULTS_OF_A_SYSTEM`].
    pub results: usize,
    /// Files, those of the results included; the others are code, as in real trees.
    pub files: usize,
}

/// Round v5.1 had 53,911 files and 1,449 folders of a scenario.
pub const FULL: Size = Size { results: 1_440, files: 54_000 };
/// A fortieth of it.
pub const QUICK: Size = Size { results: 36, files: 1_350 };

/// Two benchmarks in three scenarios.
const RESULTS_OF_A_SYSTEM: usize = 6;
const SYSTEMS_OF_A_SUBMITTER: usize = 12;
/// Of so many systems one has measured power: v5.1 had 48 results with it.
const SYSTEMS_FOR_ONE_WITH_POWER: usize = 30;

/// Changes with what is generated, so that a tree of before is made anew.
const GENERATION: &str = "2";

struct Model {
    name: &'static str,
    samples: u64,
    accuracy: &'static str,
    audited_samples: u64,
    is_audited_for_caching: bool,
}

const MODELS: [Model; 2] = [
    Model {
        name: "resnet",
        samples: 50_000,
        accuracy: "accuracy=76.452%, good=38226, total=50000\n",
        audited_samples: 4_096,
        is_audited_for_caching: true,
    },
    Model {
        name: "retinanet",
        samples: 24_781,
        accuracy: "mAP=37.565%\n",
        audited_samples: 256,
        is_audited_for_caching: false,
    },
];

/// What cannot be captured, for all systems.
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

/// Makes the tree of that size in the folder, unless it is there; returns it.
pub fn tree(folder: &Path, round: &Round, size: Size) -> PathBuf {
    let out = folder.join(format!("tree-{}-{}", size.results, size.files));
    let stamp = folder.join(format!("tree-{}-{}.made", size.results, size.files));
    let made = format!("{GENERATION} {}", round.version);
    if fs::read_to_string(&stamp).is_ok_and(|text| text == made) {
        return out;
    }
    eprintln!("makes a tree of {} results and {} files", size.results, size.files);
    for path in [&out, &folder.join("runs")] {
        if path.exists() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let runs = |has_power: bool, model: &Model| {
        folder.join(if has_power { "runs/power" } else { "runs/plain" }).join(model.name)
    };
    for model in &MODELS {
        for has_power in [false, true] {
            run(round, model, has_power, &runs(has_power, model));
        }
    }
    for system in 0..size.results / RESULTS_OF_A_SYSTEM {
        let has_power = system % SYSTEMS_FOR_ONE_WITH_POWER == 0;
        for model in &MODELS {
            let asked = asked(round, model, system, has_power, runs(has_power, model));
            package(&asked, &out).unwrap();
        }
    }
    add_code(&out, size);
    fs::write(stamp, made).unwrap();
    out
}

/// The tests of a model, its audits included.
fn run(round: &Round, model: &Model, has_power: bool, root: &Path) {
    for scenario in [Scenario::SingleStream, Scenario::MultiStream, Scenario::Offline] {
        let folder = root.join(scenario.name());
        let settings = TestSettings {
            min_query_count: match scenario {
                Scenario::Offline => 24_576,
                Scenario::MultiStream => 662,
                _ => 1_024,
            },
            ..by_the_rules(round, scenario)
        };
        play(&settings, model.samples, &folder.join("performance"));
        if has_power {
            power::measure(&folder.join("performance"));
        }
        let accuracy = TestSettings { mode: TestMode::AccuracyOnly, ..settings.clone() };
        play(&accuracy, model.samples, &folder.join("accuracy"));
        fs::write(folder.join("accuracy/accuracy.txt"), model.accuracy).unwrap();

        let audited = TestSettings {
            accuracy_log_rng_seed: 720_381_539_243_781_796,
            accuracy_log_sampling_target: model.audited_samples,
            ..settings.clone()
        };
        let test01 = folder.join("TEST01");
        play(&audited, model.samples, &test01.join("performance/run_1"));
        let (run, log) = (test01.join("performance/run_1"), "mlperf_log_accuracy.json");
        fs::create_dir(test01.join("accuracy")).unwrap();
        fs::rename(run.join(log), test01.join("accuracy").join(log)).unwrap();
        fs::remove_file(run.join("mlperf_log_trace.json")).unwrap();
        let passed = "TEST PASS\n";
        fs::write(test01.join("verify_accuracy.txt"), passed).unwrap();
        fs::write(test01.join("verify_performance.txt"), passed).unwrap();
        if model.is_audited_for_caching {
            let same = TestSettings {
                performance_issue_same: true,
                performance_issue_same_index: 3,
                ..settings
            };
            let test04 = folder.join("TEST04");
            play(&same, model.samples, &test04.join("performance/run_1"));
            for name in [log, "mlperf_log_trace.json"] {
                fs::remove_file(test04.join("performance/run_1").join(name)).unwrap();
            }
            fs::write(test04.join("verify_performance.txt"), passed).unwrap();
        }
    }
}

fn asked<'a>(
    round: &'a Round,
    model: &Model,
    system: usize,
    has_power: bool,
    run: PathBuf,
) -> Asked<'a> {
    let of_power = if has_power { power::DESCRIPTION } else { "" };
    let description = DESCRIPTION.replace("\n[measurement]", &format!("{of_power}\n[measurement]"));
    Asked {
        round,
        division: Division::Closed,
        submitter: format!("submitter-{:02}", system / SYSTEMS_OF_A_SUBMITTER),
        system: format!("system-{system:03}"),
        benchmark: model.name.to_owned(),
        stands_for: None,
        suite: Suite::Edge,
        availability: Availability::Available,
        infer: Infer::Nothing,
        captured: Fields::new(),
        description: Description::read(&description).unwrap(),
        runs: vec![run],
    }
}

/// Fills the tree up to its number of files.
fn add_code(out: &Path, size: Size) {
    let submitters: Vec<PathBuf> =
        fs::read_dir(out.join("closed")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let missing = size.files.saturating_sub(count(out));
    let line = "    answers = batch.run(samples)  # what a harness does\n";
    for at in 0..missing {
        let folder = submitters[at % submitters.len()].join("code/resnet");
        let folder = folder.join(format!("part_{}", at / submitters.len() / 50));
        fs::create_dir_all(&folder).unwrap();
        let text = line.repeat(20 + at % 180);
        fs::write(folder.join(format!("module_{at}.py")), text).unwrap();
    }
}

fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = |entry: fs::DirEntry| {
        if entry.file_type().unwrap().is_dir() { count(&entry.path()) } else { 1 }
    };
    entries.map(files).sum()
}
