//! `mlperf_log_accuracy.json`, entry by entry: it ends, whatever comes.
#![no_main]

use dyno_loadgen::log::read::AccuracyReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // An entry takes at least its braces.
    let entries = AccuracyReader::new(bytes).take(bytes.len() + 2).count();
    assert!(entries <= bytes.len() + 1);
});
