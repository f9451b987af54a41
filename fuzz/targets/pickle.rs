//! Pickles, and files of `torch.save`: values, or an error at a byte of the file.
#![no_main]

use dyno_tensors::pickle::{read, weights};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for error in [read(bytes).err(), weights(bytes).err()].into_iter().flatten() {
        assert!(error.at <= bytes.len());
        assert!(!error.to_string().is_empty());
    }
});
