//! `mlperf_log_summary.txt`.
#![no_main]

use dyno_loadgen::log::read::read_summary;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().count();
    let (summary, _) = read_summary(&text);
    assert!(summary.fields.iter().all(|(line, ..)| (1..=lines).contains(line)));
});
