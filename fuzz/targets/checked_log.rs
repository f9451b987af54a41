//! A detail log as the checker reads it: what it says of a key is a line of the log.
#![no_main]

use dyno_mlperf::submission::facts::detail::scan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let log = scan(&mut &bytes[..]).expect("bytes in memory are read");
    assert!(log.malformed.iter().all(|line| (1..=log.lines).contains(line)));
    assert!(log.errors.count >= log.errors.first.len());
    for (key, held) in log.repeated() {
        let (last, _) = &**held.last.as_ref().expect("it is on more than one line");
        assert!(held.line < *last && *last <= log.lines, "{key}");
    }
});
