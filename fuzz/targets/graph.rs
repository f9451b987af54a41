//! Files of ONNX: what a graph costs, and the same graph when it was written and read.
#![no_main]

use std::path::Path;

use dyno_onnx::{Model, count};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A folder that is not there: what a model names beside itself is not opened.
    let folder = Path::new("/nowhere");
    match Model::from_bytes(bytes, folder) {
        Ok(model) => {
            let cost = count(&model);
            assert!(cost.uncounted.iter().all(|one| !one.reason.to_string().is_empty()));
            if let Ok(written) = model.to_bytes() {
                let read = Model::from_bytes(&written, folder).expect("it was written by us");
                assert_eq!(read, model);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
