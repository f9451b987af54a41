//! Findings in machine-readable formats, and trees that cannot be read.

use std::collections::BTreeSet;

use dyno_rules::Round;
use dyno_submission::check::catalogue;
use dyno_submission::check::{CheckReport, Options, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::power;
use dyno_submission::{json, sarif};
use proptest::prelude::*;
use serde_json::Value;

use crate::made::folder::Folder;

fn judged(folder: &Folder) -> (CheckReport, &'static Round) {
    let round = Round::named("v5.1").unwrap();
    (
        check(folder.path(), round, &Options { forensic: true, ..Options::new(Program::Strict) })
            .unwrap(),
        round,
    )
}

fn ids(checked: &CheckReport) -> Vec<&'static str> {
    checked.findings.iter().map(|finding| finding.check).collect()
}

#[test]
fn an_empty_tree_and_a_misspelt_division_are_no_submission() {
    let folder = Folder::new("empty");
    let (checked, _) = judged(&folder);
    assert_eq!(ids(&checked), ["tree.results"]);
    assert!(!checked.is_valid());
    folder.write("Closed/acme/results/box/resnet50/Offline/a", "a");
    folder.write("clsoed/acme/results/box/resnet50/Offline/a", "a");
    folder.write("notes.txt", "a");
    folder.write("README.md", "a");
    let (checked, _) = judged(&folder);
    assert_eq!(
        ids(&checked),
        ["tree.results", "tree.divisions", "tree.divisions", "tree.root_files"]
    );
    for finding in &checked.findings[1..3] {
        assert_eq!(finding.expected.as_deref(), Some("`closed`"), "{finding}");
    }
}

#[test]
fn documents_say_what_was_found_and_where() {
    let folder = Folder::new("documents");
    let result = "closed/acme/results/box/resnet50/Offline";
    folder.write(
        "closed/acme/systems/box.json",
        "{\n\"division\": \"closed\",\n\"status\": \"soon\"\n}",
    );
    folder.write(&format!("{result}/performance/run_1/mlperf_log_detail.txt"), "what?\n");
    folder.write("closed/acme/a b%.txt", "a");
    let (checked, round) = judged(&folder);

    let mut text = Vec::new();
    json::Document::from_check(&checked, round, Program::Strict).write(&mut text).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(document["schema"], json::SCHEMA);
    assert_eq!(document["round"], "v5.1");
    assert_eq!(document["valid"], false);
    assert_eq!(document["results"][0]["path"], result);
    assert_eq!(document["results"][0]["valid"], false);
    let listed = document["findings"].as_array().unwrap();
    assert_eq!(listed.len(), checked.findings.len());
    let errors = checked.findings.iter().filter(|f| f.severity == Severity::Error).count();
    assert_eq!(document["counts"]["error"], errors);
    let status = listed.iter().find(|finding| finding["check"] == "system.status").unwrap();
    assert_eq!(status["path"], "closed/acme/systems/box.json");
    assert_eq!(status["line"], 3);

    let mut text = Vec::new();
    sarif::write(&checked, folder.path(), round, Program::Strict, &mut text).unwrap();
    let log: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let base = run["originalUriBaseIds"]["SUBMISSION"]["uri"].as_str().unwrap();
    assert!(base.starts_with("file:///") && base.ends_with('/'), "{base}");
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), checked.findings.len());
    for result in results {
        let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
    }
    let at = |id: &str| {
        let result = results.iter().find(|result| result["ruleId"] == id).unwrap();
        result["locations"][0]["physicalLocation"].clone()
    };
    assert_eq!(at("system.status")["region"]["startLine"], 3);
    assert_eq!(at("submitter.blanks")["artifactLocation"]["uri"], "closed/acme/a%20b%25.txt");
}

#[test]
fn ids_of_checks_are_unique_and_say_what_to_do() {
    let power = power::CHECKS.iter().map(|(id, _)| *id);
    let all: Vec<&str> = catalogue::ALL.iter().map(|check| check.id).chain(power).collect();
    let unique: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len());
    for check in catalogue::ALL {
        assert!(!check.title.is_empty() && !check.mend.is_empty(), "{}", check.id);
        let programs = [Program::Strict, Program::Mono, Program::Modular];
        assert!(programs.iter().any(|program| check.severity(*program).is_some()), "{}", check.id);
    }
}

/// Files of a result with arbitrary content.
const FILES: [&str; 14] = [
    "closed/acme/systems/box.json",
    "closed/acme/measurements/box/resnet50/Offline/box.json",
    "closed/acme/measurements/box/resnet50/Offline/user.conf",
    "closed/acme/results/box/resnet50/Offline/accuracy/accuracy.txt",
    "closed/acme/results/box/resnet50/Offline/accuracy/mlperf_log_accuracy.json",
    "closed/acme/results/box/resnet50/Offline/accuracy/mlperf_log_detail.txt",
    "closed/acme/results/box/resnet50/Offline/accuracy/mlperf_log_summary.txt",
    "closed/acme/results/box/resnet50/Offline/performance/run_1/mlperf_log_detail.txt",
    "closed/acme/results/box/resnet50/Offline/performance/run_1/mlperf_log_summary.txt",
    "closed/acme/results/box/resnet50/Offline/performance/run_1/spl.txt",
    "closed/acme/results/box/resnet50/Offline/performance/power/client.json",
    "closed/acme/results/box/resnet50/Offline/performance/power/server.json",
    "closed/acme/results/box/resnet50/Offline/performance/power/ptd_logs.txt",
    "closed/acme/compliance/box/resnet50/Offline/TEST01/verify_performance.txt",
];

/// Fragments of such files, and random bytes.
const PIECES: [&[u8]; 16] = [
    b":::MLLOG {\"key\": \"result_query_count\", \"value\": 18446744073709551615, \"metadata\": {}}\n",
    b":::MLLOG {\"key\": \"effective_scenario\", \"value\": \"SingleStream\", \"metadata\": {}}\n",
    b":::MLLOG {\"key\": \"early_stopping_latency_ss\", \"value\": -1e308, \"metadata\": {}}\n",
    b":::MLLOG {\"key\": \"power_begin\", \"value\": \"99-99-9999 99:99:99.9\", \"metadata\": {}}\n",
    b":::MLLOG {\"key\": \"result_99.00_percentile_latency_ns\", \"value\": null, \"metadata\": {\"is_error\": 1}}\n",
    b"{\"system_type\": \"edge\", \"is_network\": {}, \"number_of_nodes\": [",
    b"{\"phases\": {\"ranging\": [[1e999]]}, \"messages\": [7], \"ptd_messages\": \"\"}",
    b"accuracy=1.2.3%\nhash=\xff\nhash=\n",
    b"num_perf_log_data_mismatch = 99999999999999999999\nTEST PASS\n",
    b"Samples per second: nan\n * Processed at least\nResult is : VALID\n",
    b"07-12-2025 23:37:49.402: ERROR:\n: WARNING: Uncertainty %\n",
    b"Time,,Watts,\nTime,07-12-2025 23:43:13.822,Watts,inf\n",
    b"}", b"\n", b"\xf0\x9f", b"\0",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_tree_makes_the_checker_panic(
        files in prop::collection::vec((0..FILES.len(), prop::collection::vec(0..PIECES.len(), 0..6)), 1..10),
        round in 0..Round::names().len(),
    ) {
        let folder = Folder::new("anything");
        for (file, pieces) in files {
            let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| PIECES[piece].to_vec()).collect();
            folder.write(FILES[file], bytes);
        }
        let round = Round::named(Round::names()[round]).unwrap();
        for program in [Program::Strict, Program::Mono, Program::Modular] {
            let checked = check(folder.path(), round, &Options::new(program)).unwrap();
            prop_assert!(!checked.is_valid());
        }
    }
}
