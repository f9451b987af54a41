//! Families, names and the limits of formats.

use proptest::prelude::*;

use super::*;

/// Any valid format.
fn formats() -> impl Strategy<Value = Format> {
    let special = prop::sample::select(vec![
        Special::Finite,
        Special::SignedZero,
        Special::Ieee,
        Special::Nan,
        Special::NanForMinusZero,
        Special::Powers,
        Special::Complement,
    ]);
    (any::<bool>(), 0_u32..=8, 0_u32..=31, -512..=512, special).prop_filter_map(
        "no such format",
        |(has_sign, exponent, fraction, bias, special)| {
            Format::new(has_sign, exponent, fraction, bias, special).ok()
        },
    )
}

proptest! {
    #[test]
    fn what_is_printed_is_read(format in formats()) {
        prop_assert_eq!(format.to_string().parse(), Ok(format));
        let words = format.words();
        let words: Vec<&str> = words.split(' ').collect();
        prop_assert_eq!(Format::from_words(&words), Ok(format));
    }

    #[test]
    fn no_text_is_read_as_two_formats(text in "[IUEFB<>()0-9,-]{0,8}(fn|ieee)?") {
        if let Ok(format) = text.parse::<Format>() {
            prop_assert_eq!(format.to_string().parse(), Ok(format));
        }
    }
}

#[test]
fn named_formats_have_one_name() {
    for (name, format) in Format::named() {
        assert_eq!(format.name(), Some(name));
        assert_eq!(name.to_uppercase().parse(), Ok(format), "{name}");
    }
    assert_eq!(Format::float(19), Ok(Format::TF32));
    assert_eq!(Format::float(11), Ok(Format::FP11));
    assert_eq!(Format::float(16), Ok(Format::F16));
    assert_eq!(Format::float_with(16, 8, 127), Ok(Format::BF16));
}

#[test]
fn families_print_as_in_the_thesis() {
    let printed = |format: Result<Format, FormatError>| format.unwrap().to_string();
    assert_eq!(printed(Format::fixed(3, -2)), "I3(-2)");
    assert_eq!(printed(Format::exp(4)), "E4(3)");
    assert_eq!(printed(Format::exp(2)), "E2(0)");
    assert_eq!(printed(Format::float(32)), "F32");
    assert_eq!(printed(Format::float(8)), "F8(7)");
    assert_eq!(printed(Format::binary(0)), "BIN(0)");
    assert_eq!(printed(Format::F16.with_bias(14)), "F16(14)");
    assert_eq!(printed(Format::FP8_E4M3FN.with_bias(6)), "<1,4,3,6>fn");
    assert_eq!(printed(Format::new(false, 0, 3, 1, Special::Finite)), "U3(1)");
    assert_eq!(printed(Format::float_with(9, 4, 0)), "<1,4,4,0>");
}

#[test]
fn formats_that_there_are_not_are_refused() {
    let bits = |family, least, most, found| Err(FormatError::Bits { family, least, most, found });
    assert_eq!(Format::fixed(0, 0), bits("FIXED", 1, 32, 0));
    assert_eq!(Format::fixed(33, 0), bits("FIXED", 1, 32, 33));
    assert_eq!(Format::exp(1), bits("EXP", 2, 9, 1));
    assert_eq!(Format::exp(10), bits("EXP", 2, 9, 10));
    assert_eq!(Format::float(3), bits("FLOAT", 4, 32, 3));
    assert_eq!(Format::float_with(8, 7, 0), Err(FormatError::Exponent(7)));
    assert_eq!(Format::float_with(8, u32::MAX, 0), Err(FormatError::Exponent(u32::MAX)));
    assert_eq!(Format::fixed(8, 513), Err(FormatError::Bias(513)));
    assert_eq!(Format::new(true, 9, 3, 0, Special::Finite), Err(FormatError::Exponent(9)));
    let no_room = Format::new(true, 0, 7, 0, Special::Ieee);
    assert_eq!(no_room, Err(FormatError::Special(Special::Ieee)));
    for text in ["", "I", "I3(", "I3(x)", "X3", "I+3", "<1,4,3>", "<2,4,3,7>", "<1,4,3,7>x", "é"] {
        assert_eq!(text.parse::<Format>(), Err(FormatError::Name(text.to_owned())));
    }
}
