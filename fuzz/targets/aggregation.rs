//! Sizes of aggregated samples, and heads of arrays: every pair is in one sample, or an
//! error.
#![no_main]

use std::path::Path;

use dyno_task::data::aggregation::Aggregation;
use dyno_tensors::npy::{Header, Npy};
use libfuzzer_sys::fuzz_target;

/// Few enough to be put together in a moment, one by one.
const PAIRS: u64 = 1000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(array) = Npy::parse(bytes) {
        let head = Header::parse(bytes).expect("an array has a head");
        assert_eq!(head.held_element(), Ok(array.elements.element()));
        assert_eq!(head.shape, array.shape);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Aggregation::parse(Path::new("trace"), text) {
        Err(error) => assert!(error.to_string().starts_with("trace:")),
        Ok(aggregation) => match aggregation.starts(PAIRS) {
            Err(end) => assert!(end > PAIRS),
            Ok(starts) => {
                assert_eq!(starts[0], 0);
                assert!(starts.is_sorted_by(|a, b| a < b) && starts[starts.len() - 1] <= PAIRS);
            }
        },
    }
});
