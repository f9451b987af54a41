//! The files of a result that was measured on an endpoint: whatever they hold, they are
//! read, and both programs that know such results end with an outcome.
//!
//! The input is cut at bytes 255: configuration, summary and scores. A part that is
//! not there is a file that is not there.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use dyno_rules::Round;
use dyno_submission::check::{Options, Program, check};
use dyno_submission::facts::endpoint::{CONFIG, Endpoint, SCORES, SUMMARY};
use dyno_submission::tree::Tree;
use libfuzzer_sys::fuzz_target;

/// The first round that has them.
static ROUND: LazyLock<&Round> =
    LazyLock::new(|| Round::named("v6.1").expect("it is one of the rounds"));

/// A submission but for the three files, and the folder that they belong to.
static MADE: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let root = std::env::temp_dir().join(format!("dyno-fuzz-endpoint-{}", std::process::id()));
    let fields = ROUND.system_fields.required.iter().map(|field| {
        let value = match field.as_str() {
            "division" => "closed",
            "submitter" => "acme",
            "status" => "available",
            "system_type" => "datacenter",
            _ => "1",
        };
        format!("\"{field}\": \"{value}\"")
    });
    let system = format!("{{{}}}", fields.collect::<Vec<_>>().join(", "));
    let result = root.join("closed/acme/results/box/gpt-oss-120b/Server");
    write(&root.join("closed/acme/systems/box.json"), system.as_bytes());
    write(&root.join("closed/acme/src/gpt-oss-120b/README.md"), b"made");
    write(&result.join("measurements.json"), b"{\"retraining\": \"no\"}");
    (root, result)
});

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("it lies below the root")).expect("a folder");
    fs::write(path, bytes).expect("a file in the temporary folder");
}

fuzz_target!(|bytes: &[u8]| {
    let (root, result) = &*MADE;
    let mut parts = bytes.split(|&byte| byte == 255);
    for file in [CONFIG[0], SUMMARY, SCORES] {
        let path = result.join(file);
        match parts.next() {
            Some(part) => write(&path, part),
            None => drop(fs::remove_file(&path)),
        }
    }
    // What does not read is told alike by all checks, which take longer than the reader.
    let tree = Tree::walk(result).expect("the folder is there");
    let endpoints = ROUND.endpoints.expect("the round has them");
    if !Endpoint::read(tree.top(), endpoints).unreadable.is_empty() {
        return;
    }
    for program in [Program::Strict, Program::Modular] {
        let checked = check(root, *ROUND, &Options::new(program)).expect("the root is there");
        assert!(!checked.results.is_empty() || !checked.findings.is_empty(), "{program:?}");
    }
});
