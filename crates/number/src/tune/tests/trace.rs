//! The trace of the thesis' figure III.4: LeNet at 1 %.

use super::*;

fn shapes(asked: &[(Subset, Assignment)]) -> Vec<String> {
    asked.iter().map(|(_, a)| kind_and_bits(a.formats()[0])).collect()
}

/// Iterations 1 to 7: F32, F16, I8, I4, I2 fails, I3, E2 fails. A bias step follows with four
/// neighbors; the first raises the first profiled bias by one (SPEC A1).
#[test]
fn the_coarse_search_goes_as_the_trace() {
    let network = lenet();
    let settings =
        Settings { measures_noise: false, bias_rule: BiasRule::NoWorse, ..Settings::default() };
    let (outcome, asked) = tuned(&network, &settings, |_, a| surface(&network, &LENET_WEIGHTS, a));
    assert_eq!(shapes(&asked[..7]), ["F32", "F16", "I8", "I4", "I2", "I3", "E2"]);
    let coarse: Vec<bool> =
        outcome.steps[..6].iter().map(|step| step.candidates[0].is_accepted).collect();
    assert_eq!(coarse, [true, true, true, false, true, false]);
    assert_eq!(asked[5].1.to_string(), "I3(0)-I3(2) / I3(0)-I3(-3)");
    let biases: Vec<&str> =
        outcome.steps[6].candidates.iter().map(|candidate| candidate.change.as_str()).collect();
    let expected = [
        "conv1.weight I3(0) -> I3(1)",
        "conv2.weight I3(2) -> I3(3)",
        "conv1.input I3(0) -> I3(1)",
        "conv2.input I3(-3) -> I3(-2)",
    ];
    assert_eq!(biases, expected);
    assert_eq!(asked[7].1.to_string(), "I3(1)-I3(2) / I3(0)-I3(-3)");
    assert_eq!(asked[8].1.to_string(), "I3(0)-I3(3) / I3(0)-I3(-3)", "as printed in the trace");
}

/// Iterations 24 to 29, width: three candidates, two, one. Iterations 30 to 32, type: three.
#[test]
fn widths_and_types_have_as_many_candidates_as_the_trace() {
    let network = lenet();
    // Two bits suffice, but not for all slots at once before their biases are tuned.
    let accuracy = |_: Subset, a: &Assignment| {
        let profiled = Space::new(&network, 2).uniform(2, &[Kind::Fixed]);
        let is_exp = a.formats().iter().any(|f| f.kind() == Kind::Exp);
        if *a == profiled || is_exp { 0.9 } else { 0.98 - 1e-4 * f64::from(8 - bits(a).min(8)) }
    };
    let settings = Settings {
        measures_noise: false,
        passes: Passes::SmallOnly,
        bias_rule: BiasRule::NoWorse,
        ..Settings::default()
    };
    let (outcome, _) = tuned(&network, &settings, accuracy);
    let candidates = |phase: Phase| {
        let steps = outcome.steps.iter().filter(|step| step.phase == phase);
        steps.map(|step| step.candidates.len()).collect::<Vec<_>>()
    };
    assert_eq!(candidates(Phase::Width), [3, 2, 1]);
    assert_eq!(candidates(Phase::Type), [3]);
    let answer = outcome.answer.unwrap();
    assert_eq!(answer.objective, 58_328.0, "the minimum of the space");
}

fn bits(assignment: &Assignment) -> u32 {
    assignment.formats().iter().map(|format| format.bits()).sum()
}
