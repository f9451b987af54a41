//! Errors of numbers, in the words of other errors of values.

use std::any::Any;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// Returns what a value should be that is not a number of the type; `None` for other errors.
pub(super) fn expected_number(error: &dyn Any) -> Option<String> {
    if error.is::<ParseFloatError>() {
        return Some("expected a number".into());
    }
    let error = error.downcast_ref::<ParseIntError>()?;
    Some(match error.kind() {
        IntErrorKind::Zero => "expected a whole number above 0".into(),
        IntErrorKind::PosOverflow => "expected a smaller number".into(),
        _ => "expected a whole number of at least 0".into(),
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    #[test]
    fn errors_of_numbers_state_what_is_expected() {
        let of = |error: &dyn Any| expected_number(error).unwrap();
        assert!(of(&"-1".parse::<u8>().unwrap_err()).contains("of at least 0"));
        assert!(of(&"0".parse::<NonZero<usize>>().unwrap_err()).contains("above 0"));
        assert!(of(&"999".parse::<u8>().unwrap_err()).contains("smaller"));
        assert_eq!(of(&"x".parse::<f64>().unwrap_err()), "expected a number");
        assert_eq!(expected_number(&String::from("other")), None);
    }
}
