//! Every check of the catalogue is reported for some tree, and every reported check is in the
//! catalogue.

use std::collections::BTreeSet;
use std::fs;

use dyno_rules::Round;
use dyno_submission::check::{Options, Program, catalogue, check};
use dyno_submission::power;
use dyno_submission::tree::{self, Node};

use super::{endpoint, made};
use crate::made::folder::{Folder, copy};

/// Reviewed edits, with the ids of their errors.
const REVIEWED: &str = include_str!("../../../testdata/strict_edits.tsv");
const ACME: &str = "closed/acme";
const SYSTEM: &str = "closed/acme/systems/box.json";
const RESULT: &str = "closed/acme/results/box/resnet50";
const TEST01: &str = "closed/acme/compliance/box/resnet50/Offline/TEST01";
const MEASUREMENT: &str = "closed/acme/measurements/box/resnet50/Offline/box.json";

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

    /// Renames the model and replaces its accuracy text.
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

    /// Replaces the scenario Offline.
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

/// Findings for a tree of a round after an edit. The reviewed edits cover the rest of the
/// catalogue.
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
    ("log.error_marks", "v6.0", |tree| {
        let log = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
        tree.replace(&log, "\"is_error\": false, ", "");
    }),
    ("performance.clock", "v5.1", |tree| {
        tree.log("SingleStream/performance/run_1", "result_min_latency_ns", "-1");
    }),
    ("log.mode", "v5.1", |tree| {
        let log = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
        tree.replace(&log, "SubmissionRun", "AccuracyOnly");
    }),
    ("log.settings", "v5.1", |tree| {
        tree.log("Offline/performance/run_1", "effective_performance_issue_same", "true");
    }),
    ("log.simulated", "v5.1", |tree| {
        let run = "Offline/performance/run_1";
        tree.log(run, "loadgen_version", "\"6.0.17 (dyno 0.2.0)\"");
        tree.log(run, "power_begin", "\"01-01-1970 00:00:00.000\"");
    }),
    ("log.system", "v5.1", |tree| {
        let log = format!("{RESULT}/Offline/accuracy/mlperf_log_detail.txt");
        tree.replace(&log, "\"made\"", "\"another\"");
    }),
    ("log.release", "v5.1", |tree| {
        tree.log("Offline/performance/run_1", "loadgen_version", "\"5.1.0 @ a\"");
        tree.log("Offline/accuracy", "loadgen_version", "\"5.0.25 @ b\"");
    }),
    ("log.old_release", "v5.1", |tree| {
        tree.log("Offline/performance/run_1", "loadgen_version", "\"4.1 @ a\"");
    }),
    ("measurement.settings", "v5.1", |tree| {
        let conf = "closed/acme/measurements/box/resnet50/Offline/user.conf";
        tree.write(conf, "*.Offline.target_qps = 10\n");
        tree.log("Offline/performance/run_1", "effective_target_qps", "20");
    }),
    ("accuracy.keys", "v5.1", |_| ()),
    ("tree.results", "v5.1", |tree| _ = tree.remove("closed/acme")),
    ("tree.divisions", "v5.1", |tree| _ = tree.write("close/acme/a", "")),
    ("tree.root_files", "v5.1", |tree| _ = tree.write("more.txt", "")),
    ("tree.division_files", "v5.1", |tree| _ = tree.write("closed/more.txt", "")),
    ("submitter.hidden_names", "v5.1", |tree| _ = tree.write("closed/acme/.more", "")),
    ("submitter.blanks", "v5.1", |tree| _ = tree.write("closed/acme/no more", "")),
    ("submitter.pycache", "v5.1", |tree| _ = tree.write("closed/acme/__pycache__/a", "")),
    ("submitter.empty_folders", "v5.1", |tree| {
        fs::create_dir(tree.0.path().join("closed/acme/empty")).unwrap();
    }),
    ("submitter.links", "v5.1", |tree| {
        std::os::unix::fs::symlink("nowhere", tree.0.path().join("closed/acme/link")).unwrap();
    }),
    ("submitter.file_size", "v5.1", |tree| {
        let file = fs::File::create(tree.0.path().join("closed/acme/large")).unwrap();
        file.set_len(51 << 20).unwrap();
    }),
    ("accuracy.target", "v5.1", |tree| _ = tree.model("resnet50", "accuracy=70%\nhash=00\n")),
    ("accuracy.log_size", "v5.1", |tree| {
        let log = format!("{RESULT}/Offline/accuracy/mlperf_log_accuracy.json");
        tree.write(&log, "x".repeat(10_241));
    }),
    ("accuracy.errors", "v5.1", |tree| {
        let log = format!("{RESULT}/Offline/accuracy/mlperf_log_detail.txt");
        tree.replace(&log, "\"is_error\": false", "\"is_error\": true");
    }),
    ("performance.errors", "v5.1", |tree| {
        let log = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
        tree.replace(&log, "\"is_error\": false", "\"is_error\": true");
    }),
    ("performance.target_latency", "v5.1", |tree| {
        tree.scenario("Server").log(
            "Server/performance/run_1",
            "effective_target_latency_ns",
            "900000000000",
        );
    }),
    ("performance.inferred", "v5.1", |tree| {
        let log = made::log(Round::named("v5.1").unwrap(), "SingleStream");
        tree.write(&format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt"), log);
        tree.datacenter("host_networking", "none");
    }),
    ("performance.token_latencies", "v5.1", |tree| _ = tree.model("llama2-70b-99", "")),
    ("performance.sut_name", "v5.1", |tree| _ = tree.network("Ethernet")),
    ("system.status", "v5.1", |tree| _ = tree.replace(SYSTEM, "available", "planned")),
    ("system.submitter", "v5.1", |tree| _ = tree.replace(SYSTEM, "acme", "other")),
    ("system.division", "v5.1", |tree| _ = tree.replace(SYSTEM, "closed", "open")),
    ("system.division_case", "v5.1", |tree| _ = tree.replace(SYSTEM, "closed", "Closed")),
    ("system.empty_fields", "v5.1", |tree| _ = tree.replace(SYSTEM, "something", "")),
    ("system.network", "v5.1", |tree| {
        tree.replace(SYSTEM, "{", "{\"is_network\": \"true\",");
    }),
    ("measurement.fields", "v5.1", |tree| {
        tree.write(MEASUREMENT, "{}");
    }),
    ("measurement.empty_fields", "v5.1", |tree| {
        tree.write(MEASUREMENT, made::MEASUREMENT.replace("int8", ""));
    }),
    ("accuracy.readable", "v5.1", |tree| _ = tree.model("resnet50", "accuracy=7.6.1%\nhash=00\n")),
    ("accuracy.limit", "v5.1", |tree| {
        tree.datacenter("host_networking", "none");
        tree.model("llama2-70b-99", "{'tokens_per_sample': 9999.0}\nhash=00\n");
    }),
    ("performance.readable", "v5.1", |tree| _ = tree.log("Offline/performance/run_1", "more", "{")),
    ("performance.folder", "v5.1", |tree| {
        let folder = format!("{RESULT}/Offline/performance");
        tree.remove(&folder).write(&format!("{folder}/more"), "");
    }),
    ("performance.inferred", "v5.1", |tree| {
        let log = made::log(Round::named("v5.1").unwrap(), "Offline");
        tree.write(&format!("{RESULT}/SingleStream/performance/run_1/mlperf_log_detail.txt"), log);
    }),
    ("performance.inferred", "v5.1", |tree| {
        tree.datacenter("host_networking", "none").scenario("Interactive");
        let log = made::log(Round::named("v5.1").unwrap(), "Offline");
        tree.write(&format!("{RESULT}/Interactive/performance/run_1/mlperf_log_detail.txt"), log);
        tree.model("llama3.1-8b", "");
    }),
    ("performance.target_latency", "v5.1", |tree| {
        tree.datacenter("host_networking", "none").scenario("Server").log(
            "Server/performance/run_1",
            "effective_target_latency_ns",
            "900000000000",
        );
    }),
    ("performance.token_latencies", "v5.1", |tree| {
        tree.datacenter("host_networking", "none").model("llama2-70b-99", "");
    }),
    ("performance.token_limits", "v5.1", |tree| {
        tree.datacenter("host_networking", "none").scenario("Server");
        for (key, value) in [
            ("requested_use_token_latencies", "true"),
            ("result_first_token_99.00_percentile_latency_ns", "900000000000"),
            ("result_time_per_output_token_99.00_percentile_ns", "900000000000"),
        ] {
            tree.log("Server/performance/run_1", key, value);
        }
        tree.model("llama2-70b-99", "");
    }),
    ("audit.folder", "v5.1", |tree| {
        tree.remove("closed/acme/compliance/box/resnet50/Offline");
    }),
    ("audit.test", "v5.1", |tree| _ = tree.remove(TEST01)),
    ("audit.accuracy_folder", "v5.1", |tree| _ = tree.remove(&format!("{TEST01}/accuracy"))),
    ("audit.accuracy", "v5.1", |tree| {
        tree.remove(&format!("{TEST01}/accuracy"));
        tree.write(&format!("{TEST01}/verify_accuracy.txt"), "TEST FAIL");
    }),
    ("submitter.calibration", "v5.1", |tree| _ = tree.remove("closed/acme/documentation")),
    ("submitter.model_names", "v5.1", |tree| {
        tree.write("open/acme/results/box/a/Offline/a", "");
        tree.write("open/acme/model_mapping.json", "[");
    }),
    ("model.known", "v5.1", |tree| _ = tree.model("nothing", "")),
    ("log.keys_unknown", "v4.1", |_| ()),
    ("performance.summary_empty", "v5.1", |_| ()),
    ("performance.stopping_derived", "v5.1", |tree| {
        tree.log("SingleStream/performance/run_1", "result_query_count", "10");
    }),
    ("performance.run_twice", "v0.7", |tree| {
        tree.scenario("Server");
        let of = |run: &str| tree.0.path().join(RESULT).join("Server/performance").join(run);
        copy(&of("run_1"), &of("run_2"));
    }),
    ("result.twice", "v5.1", |tree| {
        let of = |name: &str| tree.0.path().join(name);
        copy(&of("closed/acme/results/box"), &of("closed/acme/results/second"));
        fs::copy(of(SYSTEM), of("closed/acme/systems/second.json")).unwrap();
        copy(&of("closed"), &of("network"));
    }),
    ("result.copied", "v5.1", |tree| {
        for (key, time) in [("power_begin", "02:30:20.039"), ("power_end", "02:40:21.100")] {
            tree.log("Offline/performance/run_1", key, &format!("\"07-23-2025 {time}\""));
        }
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
    ("accuracy.counts", "v5.1", |tree| {
        tree.model("resnet50", "accuracy=76.100%, good=1, total=50000\n");
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
        power_of_offline(tree);
        let supplies = "- Min PSUs Needed: 1\n  PSUs: [{PowerCapacityWatts: 1 kW}]\n";
        tree.write("closed/acme/systems/box_power.yaml", supplies);
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

/// Edits without a name, for which the official programs report most of their checks.
fn spoilt(mut judge: impl FnMut(&Folder)) {
    let round = Round::named("v5.1").unwrap();
    let files = {
        let tree = tree::Tree::walk(made::submission(round).path()).unwrap();
        let files = tree.top().descendants().filter(|node| node.is_file()).map(Node::path);
        files.filter(|path| !path.to_string_lossy().contains("Stream")).collect::<Vec<_>>()
    };
    for path in files.iter().filter_map(|path| path.to_str()) {
        let tree = Tree(made::submission(round));
        judge(&tree.remove(path).0);
        judge(&tree.write(path, "").0);
        judge(&tree.write(path, "x: 1\nTEST FAIL\n").0);
    }
    for scenario in ["Offline", "SingleStream"] {
        let of = format!("{RESULT}/{scenario}");
        let log = made::log(round, scenario);
        let tree = Tree(made::submission(round));
        for (at, line) in log.lines().enumerate() {
            let (before, after) = line.split_once("\"value\": ").unwrap();
            let (value, after) = after.split_once(", \"time_ms\"").unwrap();
            let others: &[&str] = match value.as_bytes()[0] {
                b't' => &["false"],
                b'"' => &["\"none\""],
                _ => &["0", "900000000000000"],
            };
            for value in others {
                let line = format!("{before}\"value\": {value}, \"time_ms\"{after}");
                let mut lines: Vec<&str> = log.lines().collect();
                lines[at] = &line;
                for run in ["performance/run_1", "accuracy"] {
                    tree.write(&format!("{of}/{run}/mlperf_log_detail.txt"), lines.join("\n"));
                }
                judge(&tree.0);
            }
        }
    }
}

/// Checks that no tree here triggers: on power, options, systems behind a network, bounds of
/// Server, and a rate of 0 in consistent logs. The last checker in one file reports a missing
/// accuracy log as `accuracy.files`; early ones only log that and go on.
const NOT_HERE: &[(Program, &str)] = &[
    (Program::Strict, "performance.zero"),
    (Program::Mono, "accuracy.log"),
    (Program::Mono, "performance.latency"),
    (Program::Mono, "performance.sut_name"),
    (Program::Mono, "performance.target_latency"),
    (Program::Mono, "power.file_list"),
    (Program::Mono, "power.metric"),
    (Program::Modular, "performance.errors"),
];

const PROGRAMS: [Program; 3] = [Program::Strict, Program::Mono, Program::Modular];

/// Returns the findings of each program for a tree.
fn said(folder: &Folder, round: &str, programs: &[Program]) -> BTreeSet<(Program, &'static str)> {
    let round = Round::named(round).unwrap();
    let of = |program: &Program| {
        let program = *program;
        let checked = check(folder.path(), round, &Options::new(program)).unwrap();
        checked.findings.into_iter().map(move |finding| (program, finding.check))
    };
    programs.iter().flat_map(of).collect()
}

#[test]
fn every_check_is_said_of_some_tree_by_each_program_that_makes_it() {
    let of_power: BTreeSet<&str> = power::CHECKS.iter().map(|(id, _)| *id).collect();
    let fields = REVIEWED.lines().skip(1).filter_map(|line| line.split('\t').nth(5));
    let reviewed = fields.flat_map(str::split_whitespace);
    let mut all: BTreeSet<_> = reviewed.map(|id| (Program::Strict, id)).collect();
    let mut not_said = Vec::new();
    for (id, round, edit) in SAID {
        let tree = Tree(made::submission(Round::named(round).unwrap()));
        edit(&tree);
        let said = said(&tree.0, round, &PROGRAMS);
        if !said.iter().any(|(_, said)| said == id) {
            not_said.push(*id);
        }
        all.extend(said);
    }
    all.extend(said(&endpoint::submission(), "v6.1", &PROGRAMS));
    let broken = endpoint::submission();
    broken.write("closed/acme/results/box/gpt-oss-120b/Offline/config.yaml", "[");
    all.extend(said(&broken, "v6.1", &PROGRAMS));
    assert!(not_said.is_empty(), "not said of the tree that is there for it: {not_said:?}");
    spoilt(|folder| all.extend(said(folder, "v5.1", &PROGRAMS[1..])));
    let makes = |check: &catalogue::Check| {
        let id = check.id;
        let programs = PROGRAMS.into_iter().filter(|program| check.severity(*program).is_some());
        programs.map(|program| (program, id)).collect::<Vec<_>>()
    };
    let known: BTreeSet<_> = catalogue::ALL.iter().flat_map(|check| makes(check)).collect();
    let missing: BTreeSet<_> = known.difference(&all).copied().collect();
    assert_eq!(missing, NOT_HERE.iter().copied().collect(), "said of no tree");
    let foreign: Vec<_> =
        all.iter().filter(|said| !known.contains(*said) && !of_power.contains(said.1)).collect();
    assert!(foreign.is_empty(), "not in the catalogue: {foreign:?}");
}
