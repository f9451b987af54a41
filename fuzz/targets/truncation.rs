//! An accuracy log that is cut in one pass is what one cuts that has it all in memory.
#![no_main]

use dyno_submission::package::{ELLIPSIS, KEPT_BYTES, LIMIT_BYTES, truncate};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

fuzz_target!(|bytes: &[u8]| {
    let mut cut = Vec::new();
    let hash = truncate(bytes, &mut cut).expect("bytes in memory are read and written");
    let whole: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash.to_string(), whole);
    assert!(cut.len() as u64 <= LIMIT_BYTES);
    if bytes.len() < KEPT_BYTES {
        assert_eq!(cut, bytes);
    } else {
        let at = cut.windows(ELLIPSIS.len()).position(|part| part == ELLIPSIS);
        let at = at.expect("both ends are joined");
        assert!(bytes.starts_with(&cut[..at]));
    }
});
