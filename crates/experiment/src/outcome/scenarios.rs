//! Comparison of the accuracies of the scenarios of a run, which answer the same samples.

use dyno_results::summary::{self, Accuracy, QualityUnit, Reason, ReasonKind, State};

/// Least difference of two accuracies, in standard deviations, that chance does not explain.
const DEVIATIONS: f64 = 3.0;

/// Makes accuracy tests UNDECIDED whose accuracies differ between scenarios by more than chance
/// explains: answers must not depend on how queries arrive.
pub fn compare_accuracies(tests: &mut [summary::Test]) {
    let mut reasons = Vec::new();
    for (at, test) in tests.iter().enumerate() {
        // The test that differs most.
        let others = tests.iter().filter(|other| other.tenant == test.tenant);
        let others = others.filter_map(|other| {
            let apart = deviations(accuracy(test)?, accuracy(other)?)?;
            Some((other, apart)).filter(|(_, apart)| *apart > DEVIATIONS)
        });
        if let Some((other, _)) = others.max_by(|a, b| a.1.total_cmp(&b.1)) {
            reasons.push((at, different([test, other])));
        }
    }
    for (at, text) in reasons {
        tests[at].add_reason(Reason::new(ReasonKind::Accuracy, text).undecided());
        tests[at].settle();
    }
}

/// Returns the accuracy of a complete test, if it is a share.
fn accuracy(test: &summary::Test) -> Option<&Accuracy> {
    let accuracy = test.accuracy.as_ref().filter(|_| test.state == State::Complete)?;
    Some(accuracy).filter(|accuracy| accuracy.unit == QualityUnit::Share)
}

/// Returns the difference of two shares of the same metric, in standard deviations of the difference
/// of independent samples. No share of a number of samples varies more than a count of right answers.
fn deviations(a: &Accuracy, b: &Accuracy) -> Option<f64> {
    let number = |accuracy: &Accuracy| {
        let value = accuracy.value.filter(|value| (0.0..=1.0).contains(value))?;
        Some((value, accuracy.scored.filter(|scored| *scored > 0)? as f64))
    };
    let ((a_value, a_count), (b_value, b_count)) = (number(a)?, number(b)?);
    if a.metric != b.metric || a_value == b_value {
        return None;
    }
    let pooled = (a_value * a_count + b_value * b_count) / (a_count + b_count);
    let deviation = (pooled * (1.0 - pooled) * (1.0 / a_count + 1.0 / b_count)).sqrt();
    Some((a_value - b_value).abs() / deviation)
}

fn different(tests: [&summary::Test; 2]) -> String {
    let [own, other] = tests.map(|test| {
        let accuracy = test.accuracy.as_ref();
        let shown = |accuracy: &Accuracy| Some(accuracy.shown(accuracy.value?));
        format!("{} in {}", accuracy.and_then(shown).unwrap_or_default(), test.scenario)
    });
    format!(
        "The accuracy differs between scenarios: {own} and {other}. Chance does not explain this: \
         samples of a query or of a call may influence each other; compare with --batch 1."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(scenario: &str, value: f64) -> summary::Test {
        let accuracy = Accuracy {
            metric: Some("top-1".into()),
            value: Some(value),
            scored: Some(100),
            ..Accuracy::default()
        };
        let test = summary::Test::new(scenario, "accuracy");
        let verdict = "VALID".into();
        summary::Test { accuracy: Some(accuracy), state: State::Complete, verdict, ..test }
    }

    /// In two scenarios 100 and 65 of 100 answers are right: the deviation is the root of 0.825 * 0.175 * 0.02, which is
    /// 0.054, and the difference is 6.5 of them. 80 and 75 differ by 0.85 deviations.
    #[test]
    fn accuracies_that_differ_by_more_than_chance_decide_nothing() {
        let mut tests = [test("SingleStream", 1.0), test("Offline", 0.65)];
        compare_accuracies(&mut tests);
        for test in &tests {
            assert_eq!(test.verdict, "UNDECIDED");
            assert!(test.reasons[0].contains("100.00 %") && test.reasons[0].contains("65.00 %"));
        }
        let mut tests = [test("SingleStream", 0.8), test("Offline", 0.75)];
        compare_accuracies(&mut tests);
        assert!(tests.iter().all(|test| test.reasons.is_empty()));
        let mut tests = [test("SingleStream", 1.0), test("Offline", 0.65)];
        tests[1].tenant = Some("other".into());
        compare_accuracies(&mut tests);
        assert!(tests.iter().all(|test| test.reasons.is_empty()));
    }
}
