//! Results of other tools, as one JSON value or one per line: at least one test whose records are whole, or an error.
#![no_main]

use std::fs;

use dyno_results::foreign::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let name = format!("dyno-fuzz-foreign-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, bytes).expect("a file in the temporary folder");
    match read(&path) {
        Ok(result) => {
            assert!(!result.tests.is_empty());
            for records in result.tests.iter().filter_map(|test| test.records.as_ref()) {
                assert_eq!(records.scheduled_ns.len(), records.latency_ns.len());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
