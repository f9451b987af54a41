//! Descriptors of networks and platforms for the tuner, objectives, and packed models.
#![no_main]

use dyno_number::evaluate::PackedFile;
use dyno_number::{Network, Objective, Platform};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Network::from_descriptor(&text, None) {
        Ok(network) => assert!(!network.name.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(error) = Platform::from_descriptor(&text, "platform") {
        assert!(!error.to_string().is_empty());
    }
    let _ = text.parse::<Objective>();
    packed(bytes);
});

/// Reads bytes as a packed model, whose length and checksum are made right.
fn packed(bytes: &[u8]) {
    let mut file = bytes.to_vec();
    if file.len() >= 24 {
        let length = (file.len() + 32) as u64;
        file[16..24].copy_from_slice(&length.to_le_bytes());
    }
    let sum = Sha256::digest(&file);
    file.extend(sum);
    match PackedFile::from_bytes(&file) {
        Ok(packed) => assert!(packed.to_bytes().is_ok()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
