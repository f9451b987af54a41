//! Files of safetensors and tokenizers: tensors of which networks are made, or not.
#![no_main]

use std::path::Path;

use dyno_task::data::texts::Tokenizer;
use dyno_task::encoder::Encoder;
use dyno_task::weights::{safetensors, torch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match safetensors(bytes) {
        Ok(tensors) => {
            let held: u64 = tensors.values().map(|tensor| tensor.bytes()).sum();
            assert!(held <= bytes.len() as u64);
            let _ = Encoder::new(&tensors, 2).map(|encoder| encoder.vectors(&[vec![0, 1]]));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = torch(bytes);
    match Tokenizer::read(bytes, Path::new("a.zip")) {
        Ok(tokenizer) => assert!(tokenizer.tokens("A caf\u{e9}, 7\u{4e2d}!").len() > 1),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
