//! Values of the thesis that the study compares with.
//!
//! They come from the text and figures of the thesis (Layerweaver and Layerweaver+, chapters II, IV and V) and were
//! copied by hand; none was measured here. Values marked as approximate were read off bars. The gain of V.5 is from the
//! abstract of Layerweaver+ (IEICE Transactions, E105-D 2).

/// A value of the thesis.
struct PaperValue {
    /// Figure, or section if no figure shows the value.
    figure: &'static str,
    /// Index into [`super::streams::CASES`]; in chapter V the index of the load.
    case: usize,
    /// Name of the value, with its unit.
    what: &'static str,
    /// The number, in the unit that `what` names.
    value: f64,
}

const fn stated(figure: &'static str, case: usize, what: &'static str, value: f64) -> PaperValue {
    PaperValue { figure, case, what, value }
}

/// All values.
const VALUES: &[PaperValue] = &[
    stated("IV.10", 0, "mean gain, %", 60.1),
    stated("IV.10", 0, "largest gain, %", 75.2),
    stated("IV.10", 0, "over AI-MT, %", 21.6),
    stated("IV.10", 1, "mean gain, %", 53.9),
    stated("IV.10", 1, "largest gain, %", 90.2),
    stated("IV.10", 1, "over AI-MT, %", 16.3),
    stated("IV.11", 0, "PEs, %", 99.7),
    stated("IV.11", 0, "memory, %", 91.3),
    stated("IV.11", 1, "PEs, %", 99.9),
    stated("IV.11", 1, "memory, %", 70.7),
    stated("IV.12", 0, "Layerweaver", 1.27),
    stated("IV.12", 0, "AI-MT", 1.55),
    stated("IV.12", 1, "Layerweaver", 1.36),
    stated("IV.12", 1, "AI-MT", 1.58),
    stated("IV.5.C", 0, "Layerweaver", 1.40),
    stated("IV.5.C", 0, "AI-MT", 1.89),
    stated("IV.5.C", 1, "Layerweaver", 1.61),
    stated("IV.5.C", 1, "AI-MT", 1.90),
    stated("IV.16", 1, "over AI-MT, %", 27.2),
    stated("V.5", 0, "largest gain, %", 266.7),
    // Approximate.
    stated("V.6", 0, "double-buffer, first", 80.0),
    stated("V.6", 0, "double-buffer, second", 50.0),
    stated("V.6", 0, "layerweaver, first", 10.0),
];

/// Returns the value that the thesis states, if any.
pub fn value(figure: &str, case: usize, what: &str) -> Option<f64> {
    let is_wanted =
        |value: &&PaperValue| value.figure == figure && value.case == case && value.what == what;
    VALUES.iter().find(is_wanted).map(|value| value.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_and_none_stands_twice() {
        assert_eq!(value("IV.10", 0, "mean gain, %"), Some(60.1));
        assert_eq!(value("IV.10", 2, "mean gain, %"), None);
        for stated in VALUES {
            assert_eq!(
                value(stated.figure, stated.case, stated.what),
                Some(stated.value),
                "{}",
                stated.what
            );
        }
    }
}
