//! Values of the thesis that the study compares with.
//!
//! They are numbers that the thesis (Layerweaver and Layerweaver+, chapters II, IV and V) states in its text and
//! figures, as they were taken down when it was read for this project; values with "about" were read off bars. Nothing
//! of it was measured here. The gain of V.5 is that of the abstract of Layerweaver+ (IEICE Transactions, E105-D 2).

/// A value of the thesis.
pub struct Stated {
    /// The figure, or the section where no figure shows it.
    pub figure: &'static str,
    /// Which of the two NPUs, in the order of [`super::streams::CASES`]; in chapter V which point.
    pub case: usize,
    /// What of it.
    pub what: &'static str,
    /// The number, in the unit that `what` has.
    pub value: f64,
}

const fn stated(figure: &'static str, case: usize, what: &'static str, value: f64) -> Stated {
    Stated { figure, case, what, value }
}

/// All of them.
const STATED: &[Stated] = &[
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
    // About.
    stated("V.6", 0, "double-buffer, first", 80.0),
    stated("V.6", 0, "double-buffer, second", 50.0),
    stated("V.6", 0, "layerweaver, first", 10.0),
];

/// What the thesis has there.
pub fn value(figure: &str, case: usize, what: &str) -> Option<f64> {
    let is_it = |of: &&Stated| of.figure == figure && of.case == case && of.what == what;
    STATED.iter().find(is_it).map(|of| of.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_and_none_stands_twice() {
        assert_eq!(value("IV.10", 0, "mean gain, %"), Some(60.1));
        assert_eq!(value("IV.10", 2, "mean gain, %"), None);
        for of in STATED {
            assert_eq!(value(of.figure, of.case, of.what), Some(of.value), "{}", of.what);
        }
    }
}
