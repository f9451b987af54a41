//! The catalogue of checks against what is said: each is said of some tree, and nothing
//! is said that is not in it.

use std::collections::BTreeSet;
use std::fs;

use dyno_mlperf::power;
use dyno_mlperf::round::Round;
use dyno_mlperf::submission::check::{Options, Program, catalogue, check};

use super::{endpoint, made};
use crate::made::folder::{Folder, copy};

/// The edits whose findings were reviewed, with the ids of their errors.
const REVIEWED: &str = include_str!("../../../testdata/strict_edits.tsv");
const ACME: &str = "closed/acme";
const SYSTEM: &str = "closed/acme/systems/box.json";
const RESULT: &str = "closed/acme/results/box/resnet50";

struct Tree(Folder);

impl Tree {
    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        self.0.write(path, text);
        self
    }

    fn remove(&self, path: &str) -> &Self {
        let path = self.0.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        self
    }

    fn replace(&self, path: &str, from: &str, to: &str) -> &Self {
        let text = fs::read_to_string(self.0.path().join(path)).unwrap();
        assert!(text.contains(from), "{path} has no {from}");
        self.write(path, text.replace(from, to))
    }

    /// Adds a line to the detail log of a run.
    fn log(&self, run: &str, key: &str, value: &str) -> &Self {
        let path = format!("{RESULT}/{run}/mlperf_log_detail.txt");
        let text = fs::read_to_string(self.0.path().join(&path)).unwrap();
        self.write(&path, text + &made::line(key, value))
    }

    /// Gives the model another name, and its accuracy another text.
    fn model(&self, name: &str, accuracy: &str) -> &Self {
        for kind in ["results", "measurements", "compliance", "code", "src"] {
            let folder = match kind {
                "code" | "src" => format!("{ACME}/{kind}"),
                _ => format!("{ACME}/{kind}/box"),
            };
            let folder = self.0.path().join(folder);
            let _ = fs::rename(folder.join("resnet50"), folder.join(name));
        }
        let of = format!("{ACME}/results/box/{name}/Offline");
        self.write(&format!("{of}/accuracy/accuracy.txt"), accuracy)
    }

    /// A scenario in place of Offline.
    fn scenario(&self, name: &str) -> &Self {
        for kind in ["results", "measurements", "compliance"] {
            let folder = self.0.path().join(format!("{ACME}/{kind}/box/resnet50"));
            fs::rename(folder.join("Offline"), folder.join(name)).unwrap();
        }
        let log = made::log(Round::named("v5.1").unwrap(), name);
        self.write(&format!("{RESULT}/{name}/performance/run_1/mlperf_log_detail.txt"), log)
    }

    fn network(&self, kind: &str) -> &Self {
        fs::rename(self.0.path().join("closed"), self.0.path().join("network")).unwrap();
        let system = SYSTEM.replace("closed", "network");
        let fields = format!("{{\"is_network\": \"true\", \"network_type\": \"{kind}\",");
        self.replace(&system, "\"closed\"", "\"network\"").replace(&system, "{", &fields)
    }

    fn datacenter(&self, field: &str, value: &str) -> &Self {
        let (from, to) =
            (format!("\"{field}\": \"something\""), format!("\"{field}\": \"{value}\""));
        self.replace(SYSTEM, "\"edge\"", "\"datacenter\"").replace(SYSTEM, &from, &to)
    }
}

type Edit = fn(&Tree);

/// What is said of a tree of a round after an edit; the edits that were reviewed say the
/// rest of the catalogue.
const SAID: &[(&str, &str, Edit)] = &[
    ("tree.listed", "v5.1", |tree| {
        for name in ["one", "two", "three"] {
            tree.write(&format!("closed/acme/documentation/{name}/made"), "");
        }
        let folder = tree.0.path().join("closed/acme/documentation");
        for (to, at) in [("../two", "one/a"), ("../two", "one/b"), ("../three", "two/to")] {
            std::os::unix::fs::symlink(to, folder.join(at)).unwrap();
        }
    }),
    ("submitter.unused", "v5.1", |tree| _ = tree.write("closed/acme/systems/other.json", "{}")),
    ("submission.to_fill", "v5.1", |tree| _ = tree.replace(SYSTEM, "something", "FILL IN")),
    ("submitter.results", "v5.1", |tree| _ = tree.write("closed/other/systems/a.json", "{}")),
    ("submitter.model_names", "v5.1", |tree| {
        tree.write("open/acme/results/box/a/Offline/a", "");
        tree.write("open/acme/model_mapping.json", "[]");
    }),
    ("system.json", "v5.1", |tree| _ = tree.write(SYSTEM, "{")),
    ("system.unknown_fields", "v5.1", |tree| _ = tree.replace(SYSTEM, "{", "{\"more\": 1,")),
    ("result.endpoint", "v6.1", |tree| {
        for run in ["performance/run_1", "accuracy"] {
            tree.remove(&format!("{RESULT}/Offline/{run}/mlperf_log_detail.txt"));
        }
    }),
    ("measurement.json", "v5.1", |tree| {
        tree.write("closed/acme/measurements/box/resnet50/Offline/box.json", "[");
    }),
    ("measurement.all_code", "v6.0", |tree| _ = tree.remove("closed/acme/src")),
    ("measurement.power_files", "v5.1", power_of_offline),
    ("power.file_list", "v5.1", power_of_offline),
    ("power.metric", "v5.1", power_of_offline),
    ("accuracy.metric", "v5.1", |tree| _ = tree.model("resnet50", "nothing\n")),
    ("accuracy.outputs", "v5.1", |tree| _ = tree.model("stable-diffusion-xl", "")),
    ("performance.latency", "v0.7", |tree| {
        tree.log(
            "MultiStream/performance/run_1",
            "result_99.00_percentile_per_query_latency_ns",
            "50000001",
        );
    }),
    ("performance.zero", "v5.1", |tree| {
        let log = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
        tree.replace(&log, "6607.5", "0");
    }),
    ("performance.estimate", "v5.1", |tree| {
        let log = made::log(Round::named("v5.1").unwrap(), "SingleStream").replace("2048000", "0");
        tree.write(&format!("{RESULT}/MultiStream/performance/run_1/mlperf_log_detail.txt"), log);
    }),
    ("audit.others", "v5.1", |tree| {
        let audit = format!("{ACME}/compliance/box/resnet50/Offline/TEST05");
        tree.write(&format!("{audit}/verify_performance.txt"), "TEST FAIL");
    }),
    ("audit.output_length", "v6.0", |tree| {
        tree.write(&format!("{RESULT}/Offline/TEST09/verify_output_len.txt"), "TEST FAIL");
        tree.model("gpt-oss-120b", "");
    }),
    ("log.error_marks", "v5.1", |tree| {
        let log = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
        tree.replace(&log, "\"is_error\": false, ", "");
    }),
    ("log.mode", "v5.1", |tree| {
        tree.log("Offline/performance/run_1", "effective_test_mode", "\"AccuracyOnly\"");
    }),
    ("log.settings", "v5.1", |tree| {
        tree.log("Offline/performance/run_1", "effective_performance_issue_same", "true");
    }),
    ("accuracy.keys", "v5.1", |_| ()),
    ("log.keys_unknown", "v4.0", |_| ()),
    ("performance.summary_empty", "v5.1", |_| ()),
    ("performance.stopping_derived", "v5.1", |tree| {
        tree.log("SingleStream/performance/run_1", "result_query_count", "10");
    }),
    ("result.twice", "v5.1", |tree| {
        let of = |name: &str| tree.0.path().join(name);
        copy(&of("closed/acme/results/box"), &of("closed/acme/results/second"));
        fs::copy(of(SYSTEM), of("closed/acme/systems/second.json")).unwrap();
    }),
    ("performance.lower_target", "v5.1", |tree| {
        tree.model("3d-unet-99.9", "Accuracy: mean = 0.86200, kidney = 0.93, tumor = 0.79\n");
        let of = |name: &str| tree.0.path().join("closed/acme/results/box").join(name);
        copy(&of("3d-unet-99.9"), &of("3d-unet-99"));
    }),
    ("performance.server_metric", "v5.1", |tree| {
        tree.scenario("Server");
        for rate in ["result_scheduled_samples_per_sec", "result_completed_samples_per_sec"] {
            tree.log("Server/performance/run_1", rate, "10");
        }
    }),
    ("accuracy.hash_format", "v5.1", |_| ()),
    ("accuracy.hash_differs", "v5.1", |tree| {
        let text = format!("accuracy=76.100%\nhash={:064}\n", 0);
        tree.model("resnet50", &text);
    }),
    ("accuracy.unit", "v5.1", |tree| _ = tree.model("rgat", "accuracy: 70.1\n")),
    ("accuracy.placeholder", "v6.0", |tree| {
        tree.model("gpt-oss-120b", "{'exact_match': 90.0, 'tokens_per_sample': 1000.0}\n");
    }),
    ("system.ecc", "v5.1", |tree| {
        tree.datacenter("host_memory_configuration", "DDR5, ECC: disabled");
    }),
    ("system.ecc_unsaid", "v5.1", |tree| _ = tree.datacenter("host_memory_capacity", "1 TB")),
    ("system.bandwidth", "v5.1", |tree| {
        tree.datacenter("host_networking", "1x 10Mbps");
    }),
    ("system.bandwidth_unknown", "v5.1", |tree| {
        tree.datacenter("host_networking", "1x 100GbE, Slingshot 11");
    }),
    ("system.nameplate", "v6.1", |tree| {
        tree.write("closed/acme/systems/box_power.yaml", "- a node\n");
    }),
    ("network.fabric", "v5.1", |tree| _ = tree.network("PCIe")),
    ("network.fabric_unknown", "v5.1", |tree| _ = tree.network("pigeons")),
    ("network.node_names", "v5.1", |tree| {
        tree.network("Ethernet");
        let system = SYSTEM.replace("closed", "network");
        tree.replace(&system, "{", "{\"node_names\": [\"a\", \"a\"],");
    }),
    ("network.diagram", "v5.1", |tree| _ = tree.network("Ethernet")),
    ("program.crash", "v5.1", |tree| _ = tree.write(SYSTEM, "{")),
];

fn power_of_offline(tree: &Tree) {
    tree.write(&format!("{RESULT}/Offline/performance/power/client.json"), "{}");
}

/// What the programs say of a tree.
fn said(folder: &Folder, round: &str) -> BTreeSet<&'static str> {
    let round = Round::named(round).unwrap();
    let programs = [Program::Strict, Program::Mono, Program::Modular];
    let of = |program| check(folder.path(), round, &Options::new(program)).unwrap().findings;
    programs.into_iter().flat_map(of).map(|finding| finding.check).collect()
}

#[test]
fn every_check_is_said_of_some_tree_and_nothing_else_is() {
    let known: BTreeSet<&str> = catalogue::ALL.iter().map(|check| check.id).collect();
    let of_power: BTreeSet<&str> = power::CHECKS.iter().map(|(id, _)| *id).collect();
    let fields = REVIEWED.lines().skip(1).filter_map(|line| line.split('\t').nth(5));
    let mut all: BTreeSet<&str> = fields.flat_map(str::split_whitespace).collect();
    let mut not_said = Vec::new();
    for (id, round, edit) in SAID {
        let tree = Tree(made::submission(Round::named(round).unwrap()));
        edit(&tree);
        let said = said(&tree.0, round);
        if !said.contains(id) {
            not_said.push(*id);
        }
        all.extend(said);
    }
    all.extend(said(&endpoint::submission(), "v6.1"));
    let broken = endpoint::submission();
    broken.write("closed/acme/results/box/gpt-oss-120b/Offline/config.yaml", "[");
    all.extend(said(&broken, "v6.1"));
    assert!(not_said.is_empty(), "not said of the tree that is there for it: {not_said:?}");
    let missing: Vec<_> = known.difference(&all).collect();
    assert!(missing.is_empty(), "said of no tree: {missing:?}");
    let foreign: Vec<_> =
        all.iter().filter(|id| !known.contains(*id) && !of_power.contains(*id)).collect();
    assert!(foreign.is_empty(), "not in the catalogue: {foreign:?}");
}
