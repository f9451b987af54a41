//! `mlperf_log_trace.json`, event by event: it ends, whatever comes.
#![no_main]

use dyno_loadgen::log::read::TraceReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let events = TraceReader::new(bytes).take(bytes.len() + 2).count();
    assert!(events <= bytes.len() + 1);
});
