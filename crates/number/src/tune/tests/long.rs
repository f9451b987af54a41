//! A network of thirty layers: number of evaluations by the thesis' rules and by ours.

use super::rules::drawn;
use super::*;

const LAYERS: usize = 30;

/// Returns seeded sizes, ranges and sensitivities; those of weights come first.
fn long(seed: u64) -> (Network, Vec<f64>) {
    let mut state = seed;
    let mut network = lenet();
    network.error_margin = 0.01;
    let layer = network.layers[0].clone();
    let mut of = |at: usize| crate::network::Layer {
        name: format!("layer{at}"),
        parts: vec![format!("layer{at}")],
        weight_size: 100 + (20_000.0 * drawn(&mut state)) as u64,
        activation_size: 100 + (5_000.0 * drawn(&mut state)) as u64,
        weight_max: 0.1 + drawn(&mut state),
        activation_max: 0.5 + 4.0 * drawn(&mut state),
        ..layer.clone()
    };
    network.layers = (0..LAYERS).map(&mut of).collect();
    let weights = (0..2 * LAYERS).map(|_| 0.002 * 20_f64.powf(drawn(&mut state))).collect();
    (network, weights)
}

/// Accuracy on 200 samples of the full set. The small set contains the easier ones.
fn accuracy(network: &Network, weights: &[f64], subset: Subset, of: &Assignment) -> f64 {
    let harder = if subset == Subset::Small { 1.0 } else { 12.0 };
    let weights: Vec<f64> = weights.iter().map(|weight| harder * weight).collect();
    (200.0 * surface(network, &weights, of)).floor() / 200.0
}

/// Counts the evaluations of the thesis' third phase until one passes, at most `most`: it evaluates
/// all neighbors, takes the one that gains most for its cost, and repeats this.
fn asked_by_the_thesis(
    network: &Network,
    from: &Assignment,
    accuracy: impl Fn(&Assignment) -> f64,
    threshold: f64,
    most: usize,
) -> usize {
    let space = Space::new(network, 2);
    let bits = |of: &Assignment| network.objective.value(network, of, None);
    let mut known: HashMap<Vec<Format>, f64> = HashMap::new();
    let mut visited = vec![from.clone()];
    let mut now = from.clone();
    while known.len() < most {
        let groups = 0..space.groups.len();
        let wider = groups.filter_map(|group| space.wider(&now, group));
        let ranges = (0..space.slots.len()).filter_map(|slot| space.bias(&now, slot, -1));
        let mut moves: Vec<Assignment> =
            wider.chain(ranges).map(|found| found.assignment).collect();
        moves.retain(|found| !visited.contains(found));
        let found: Vec<f64> = moves
            .iter()
            .map(|of| *known.entry(of.formats().to_vec()).or_insert_with(|| accuracy(of)))
            .collect();
        if found.iter().any(|accuracy| *accuracy >= threshold) {
            break;
        }
        let before = accuracy(&now);
        let ratio = |at: usize| (found[at] - before) / (bits(&moves[at]) - bits(&now)).max(50.0);
        let rank = |at: &usize| (ratio(*at) > 0.0, bits(&moves[*at]) > bits(&now));
        let order = |a: &usize, b: &usize| {
            rank(a).cmp(&rank(b)).then(ratio(*a).total_cmp(&ratio(*b))).then(b.cmp(a))
        };
        let Some(best) = (0..moves.len()).max_by(order) else { break };
        now = moves.swap_remove(best);
        visited.push(now.clone());
    }
    known.len()
}

#[test]
fn a_long_network_is_recovered_by_few_evaluations() {
    for seed in 0..4 {
        let (network, weights) = long(seed);
        let of = |subset, a: &Assignment| accuracy(&network, &weights, subset, a);
        let (outcome, _) = tuned(&network, &Settings::default(), of);
        let answer = outcome.answer.as_ref().unwrap();
        let threshold = outcome.baselines[Subset::Full as usize].unwrap().threshold;
        assert!(answer.subset == Subset::Full && answer.accuracy >= threshold);

        let recovery = outcome.steps.iter().filter(|step| step.phase == Phase::Recovery);
        let asked: usize = recovery.clone().map(|step| step.candidates.len()).sum();
        let from = &recovery.clone().next().unwrap().candidates[0];
        assert!(!from.is_accepted, "seed {seed}: the answer of the small set fails");
        let full = |a: &Assignment| of(Subset::Full, a);
        let thesis = asked_by_the_thesis(&network, &from.assignment, full, threshold, 2_000);
        assert!(thesis >= 6 * asked, "seed {seed}: {thesis} by the thesis, {asked} by ours");

        let settings = Settings { bias_rule: BiasRule::NoWorse, ..Settings::default() };
        let (other, _) = tuned(&network, &settings, of);
        let all = |outcome: &TuneOutcome| outcome.evaluations.iter().sum::<u64>();
        let bits = |outcome: &TuneOutcome| outcome.answer.as_ref().unwrap().objective;
        let (ours, theirs) = (all(&outcome), all(&other));
        assert!(theirs >= 6 * ours, "seed {seed}: {theirs} with A20, {ours} by ours");
        let (ours, theirs) = (bits(&outcome), bits(&other));
        assert!(ours <= 1.01 * theirs, "seed {seed}: {theirs} bits with A20, {ours} by ours");
    }
}

/// Steps list what was evaluated, and no failing candidate is accepted.
#[test]
fn steps_of_a_recovery_say_what_was_asked() {
    let (network, weights) = long(9);
    let of = |subset, a: &Assignment| accuracy(&network, &weights, subset, a);
    let (outcome, _) = tuned(&network, &Settings::default(), of);
    let threshold = outcome.baselines[Subset::Full as usize].unwrap().threshold;
    let recovery: Vec<&Step> =
        outcome.steps.iter().filter(|step| step.phase == Phase::Recovery).collect();
    for candidate in recovery.iter().flat_map(|step| &step.candidates) {
        let accuracy = of(Subset::Full, &candidate.assignment);
        assert_eq!((candidate.accuracy, candidate.is_bound), (accuracy, false));
        assert_eq!(candidate.is_accepted, accuracy >= threshold, "{}", candidate.why);
        assert_eq!(candidate.why.contains("is below"), accuracy < threshold, "{}", candidate.why);
    }
    assert!(recovery[2].question.contains("together are enough"), "{}", recovery[2].question);
    assert!(recovery[2].candidates[0].change.starts_with("2 in the order of what they gained"));
}

/// Groups that failed are evaluated once more before a pass ends, so no neighbor is smaller.
#[test]
fn no_group_of_the_answer_has_a_bit_to_give() {
    let (network, weights) = long(5);
    let of = |subset, a: &Assignment| accuracy(&network, &weights, subset, a);
    let (outcome, _) = tuned(&network, &Settings::default(), of);
    let answer = outcome.answer.unwrap();
    let threshold = outcome.baselines[Subset::Full as usize].unwrap().threshold;
    let space = Space::new(&network, 2);
    for group in 0..space.groups.len() {
        if let Some(narrower) = space.narrower(&answer.assignment, group) {
            assert!(of(Subset::Full, &narrower.assignment) < threshold, "{}", narrower.change);
        }
    }
}
