//! `mlperf_log_detail.txt`: whatever is read has a line, and every line that is not
//! read is told.
#![no_main]

use dyno_loadgen::log::read::read_detail;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().count();
    let (detail, problems) = read_detail(&text);
    assert!(detail.entries.iter().all(|entry| (1..=lines).contains(&entry.line)));
    assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)));
});
