//! A detail log as the checker reads it: what it says of a key is a line of the log.
#![no_main]

use dyno_submission::facts::detail::scan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let log = scan(&mut &bytes[..]).expect("bytes in memory are read");
    assert!(log.malformed.iter().all(|line| (1..=log.lines).contains(line)));
    assert!(log.errors.count >= log.errors.first.len());
    for (key, held, (line, value)) in log.contradicted() {
        assert!(held.line < *line && *line <= log.lines, "{key}");
        assert!(held.times > 1 && held.value != *value, "{key}");
    }
});
