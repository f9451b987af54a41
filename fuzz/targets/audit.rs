//! Every audit over the same logs: it ends with a verdict, whatever they hold.
//!
//! The input is cut at bytes 255: the first part chooses round, scenario, element,
//! benchmark and qualities, the others are detail log, summary and accuracy log of the
//! submission, then those of the audit.
#![no_main]

use std::fs;

use dyno_loadgen::settings::Scenario;
use dyno_submission::audit::{Accuracies, DTYPES, Evidence, RunFolder, AuditTest, plan, verify, write_folder};
use dyno_rules::Round;
use libfuzzer_sys::fuzz_target;

const FILES: [&str; 3] =
    ["mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json"];

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.split(|&byte| byte == 255);
    let choice = parts.next().unwrap_or_default();
    let chosen = |at: usize, of: usize| usize::from(choice.get(at).copied().unwrap_or(0)) % of;
    let root = std::env::temp_dir().join(format!("dyno-fuzz-audit-{}", std::process::id()));
    let folders = ["submission", "audited"].map(|name| root.join(name));
    for folder in &folders {
        fs::create_dir_all(folder).expect("a folder");
        for file in FILES {
            let contents = parts.next().unwrap_or_default();
            fs::write(folder.join(file), contents).expect("a file in the temporary folder");
        }
    }
    let played = |folder: &_| RunFolder::new(folder);
    let names = Round::names();
    let round = Round::named(names[chosen(0, names.len())]).expect("it is one of the names");
    let scenario = Scenario::ALL[chosen(1, Scenario::ALL.len())];
    let audited = vec![played(&folders[1]), played(&folders[0])];
    let mut evidence = Evidence::new(audited, DTYPES[chosen(2, DTYPES.len())].1);
    evidence.accuracy = Some(played(&folders[0]));
    evidence.performance = Some(played(&folders[0]));
    let benchmarks = &round.benchmarks;
    let benchmark = benchmarks.get(chosen(3, benchmarks.len() + 1)).map(|of| of.name.as_str());
    if chosen(4, 2) == 1 {
        evidence.quality = Some(chosen(5, 256) as f64);
        let texts = [5, 6].map(|at| format!("accuracy={}%\n", chosen(at, 256)));
        let known = benchmark.and_then(|name| round.benchmark(name));
        evidence.qualities = Some(Accuracies::from_texts(round, known, texts));
    }
    for test in AuditTest::ALL {
        if let Ok(plan) = plan(test, round, benchmark, scenario) {
            let result = verify(&plan, &evidence);
            for part in &result.parts {
                let is_passed = part.corrected.is_passed() && part.official.is_passed();
                let says = part.file.iter().any(|file| file.text.contains("TEST PASS"));
                assert!(is_passed || !says, "{test:?}: {part:?}");
            }
            // What cannot be copied is an error, and never a panic.
            let _ = write_folder(&result, &evidence, &root.join("compliance"));
        }
    }
    fs::remove_dir_all(&root).expect("the temporary folder goes");
});
