//! Every way to score over the same files: references and answers of any kind give a
//! score or say what is wrong.
//!
//! The input is cut at bytes 255: the first part chooses the method, its elements and
//! what it leaves open; then there are the files that it needs, and then answers.
#![no_main]

use std::collections::BTreeMap;
use std::fs;

use dyno_metrics::payload::ELEMENTS;
use dyno_metrics::{Inputs, METHODS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.split(|&byte| byte == 255);
    let choice = parts.next().unwrap_or_default();
    let chosen = |at: usize, of: usize| usize::from(choice.get(at).copied().unwrap_or(0)) % of;
    let method = METHODS[chosen(0, METHODS.len())];
    let root = std::env::temp_dir().join(format!("dyno-fuzz-scores-{}", std::process::id()));
    fs::create_dir_all(&root).expect("a folder");
    let mut files = BTreeMap::new();
    for need in method.needs {
        let contents = parts.next().unwrap_or_default();
        if need.is_required || !contents.is_empty() {
            let path = root.join(need.name);
            fs::write(&path, contents).expect("a file in the temporary folder");
            files.insert(need.name.to_owned(), path);
        }
    }
    let element = chosen(1, ELEMENTS.len() + 1).checked_sub(1).map(|at| ELEMENTS[at]);
    let chosen = method.choices.iter().zip(2..).map(|(choice, at)| {
        let value = choice.values[chosen(at, choice.values.len())];
        (choice.name.to_owned(), value.to_owned())
    });
    let inputs = Inputs { files, element, choices: chosen.collect() };
    match (method.open)(&inputs) {
        Ok(mut scorer) => {
            for (index, answer) in (0..).zip(parts) {
                if let Err(error) = scorer.take(index, answer) {
                    assert!(!error.to_string().is_empty());
                }
            }
            scorer.scores();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    fs::remove_dir_all(&root).expect("the temporary folder goes");
});
