//! Names of formats and Number configuration files: what is read is written and read again, and every format
//! rounds every number to one of its own.
#![no_main]

use dyno_number::{Conversion, Dictionary, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Dictionary>() {
        Ok(read) => {
            assert_eq!(read.to_string().parse(), Ok(read.clone()));
            read.iter().for_each(|(_, format)| rounds(format));
        }
        Err(error) => assert!(error.to_string().starts_with("line ")),
    }
    match text.parse::<Format>() {
        Ok(format) => assert_eq!(format.to_string().parse(), Ok(format)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

fn rounds(format: Format) {
    let mut numbers = [0.0, -0.7, 1e-30, 3e38, f32::NEG_INFINITY];
    let codes = format.encode_slice(&numbers, Conversion::default()).expect("none is NaN");
    assert!(codes.iter().all(|code| u64::from(*code) >> format.bits() == 0));
    format.quantise_slice(&mut numbers, Conversion::default()).expect("none is NaN");
    let again = format.encode_slice(&numbers, Conversion::default());
    // Values beyond f32 were cut to what it holds.
    if format.max_value() < 1e38 && format.min_positive() > 1e-38 {
        assert_eq!(again, Ok(codes), "{format}");
    }
}
