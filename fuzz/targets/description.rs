//! What describes a system, as a submitter writes it: TOML of `dyno package`.
#![no_main]

use dyno_submission::package::Description;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = Description::read(&String::from_utf8_lossy(bytes)) {
        assert!(!error.to_string().is_empty());
    }
});
