//! Levels and powers by simulation: samples are drawn one by one, and nothing is shared with the
//! tests of margins.

use dyno_loadgen::rng::split_mix;

use super::*;

/// Draws a number from 0 to 1, by SplitMix64.
fn drawn(state: &mut u64) -> f64 {
    split_mix(state) as f64 / u64::MAX as f64
}

/// Draws pairs of answers: FLOAT(32) is right with probability `right`, a right answer breaks with
/// `broken`, and a wrong one is fixed with `fixed`.
fn pairs(state: &mut u64, count: usize, [right, broken, fixed]: [f64; 3]) -> [SampleOutcomes; 2] {
    let (mut base, mut tuned) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let is_right = drawn(state) < right;
        base.push(is_right);
        let changes = drawn(state) < if is_right { broken } else { fixed };
        tuned.push(is_right != changes);
    }
    [SampleOutcomes::from_right(base), SampleOutcomes::from_right(tuned)]
}

fn paired([base, tuned]: &[SampleOutcomes; 2]) -> PairedSamples {
    PairedSamples::new(base, tuned, 0..base.len(), &Metric::default()).unwrap()
}

/// If the loss is the margin, at most a share of the level is confirmed.
#[test]
fn a_loss_at_the_margin_is_confirmed_no_more_often_than_the_level() {
    const DRAWS: u32 = 1_000;
    let mut state = 7;
    let mut most: f64 = 0.0;
    for (count, margin, right, fixed) in [
        (400, 0.01, 1.0, 0.0),
        (400, 0.02, 0.9, 0.05),
        (1_000, 0.01, 0.8, 0.1),
        (300, 0.05, 0.7, 0.02),
    ] {
        // What is broken is the margin and what is fixed.
        let broken = margin + fixed * (1.0 - right) / right;
        let confirmed = (0..DRAWS)
            .filter(|_| {
                paired(&pairs(&mut state, count, [right, broken, fixed])).confirms(margin, 0.05)
            })
            .count();
        let share = confirmed as f64 / f64::from(DRAWS);
        most = most.max(share);
        // Three standard deviations of the simulation above the level.
        assert!(
            share < 0.05 + 3.0 * (0.05_f64 * 0.95 / f64::from(DRAWS)).sqrt(),
            "{count} {margin}: {share}"
        );
    }
    assert!(most > 0.02, "the test uses its level: {most}");
}

/// A score such as F1 may be 1 for each sample in FLOAT(32), and between 0 and 1 in a configuration.
#[test]
fn digits_are_compared_with_other_scores() {
    let base = SampleOutcomes::from_right([true; 1_000]);
    let mut scores = vec![1.0; 1_000];
    scores[..4].fill(0.5);
    let pair = [base, SampleOutcomes::Scores(scores)];
    let [paired, turned] = [[0, 1], [1, 0]].map(|[a, b]| {
        PairedSamples::new(&pair[a], &pair[b], 0..1_000, &Metric::default()).unwrap()
    });
    assert!((paired.loss() - 0.002).abs() < 1e-12, "{}", paired.loss());
    assert!(paired.confirms(0.01, 0.05) && !paired.confirms(0.003, 0.05));
    assert!(turned.loss() < 0.0);
}

/// Without any change, n samples exclude a margin m if (1 - m)^n is at most the level.
#[test]
fn samples_without_change_prove_what_their_number_proves() {
    for (margin, level) in [(0.01, 0.05), (0.01, 0.025), (0.07, 0.05), (0.001, 0.05)] {
        let theory = (f64::ln(level) / f64::ln(1.0 - margin)).ceil();
        let found = fewest_samples(margin, level) as f64;
        assert!(found >= theory && found <= 1.01 * theory + 1.0, "{margin}: {found}, {theory}");
    }
    assert_eq!(fewest_samples(0.0, 0.05), u64::MAX, "no number proves that nothing is lost");
    let unchanged = PairedSamples::Right(PairedCounts { both: 32, ..PairedCounts::default() });
    let proven = unchanged.smallest_margin(0.05);
    assert!((proven - (1.0 - 0.05_f64.powf(1.0 / 32.0))).abs() < 0.003, "{proven}");
}

#[test]
fn the_number_needed_is_enough_and_about_the_least() {
    // 0.4 % are lost of 1 %.
    let counts = PairedCounts { both: 480, broken: 4, fixed: 2, neither: 14 };
    let few = PairedSamples::Right(counts);
    assert!(!few.confirms(0.01, 0.05));
    let needed = few.needed(0.01, 0.05).unwrap();
    assert!((1_000..8_000).contains(&needed), "{needed}");
    assert!(few.scaled(1.3 * needed as f64 / 500.0).confirms(0.01, 0.05));
    assert!(!few.scaled(0.7 * needed as f64 / 500.0).confirms(0.01, 0.05));
    let lost = PairedSamples::Right(PairedCounts { broken: 20, ..counts });
    assert_eq!(lost.needed(0.01, 0.05), None);
    assert!(lost.loss() > 0.03 && few.loss() < 0.01);
    // More than the samples that did not suffice, however strict the level is.
    let counts = PairedCounts { both: 890, broken: 9, fixed: 8, neither: 93 };
    for level in [0.05, 0.025, 0.006, 0.002] {
        let paired = PairedSamples::Right(counts);
        for margin in [0.002, 0.005, 0.01, 0.02] {
            let needed = paired.needed(margin, level).unwrap();
            assert_eq!(paired.confirms(margin, level), needed <= 1_000, "{margin} {level}");
        }
    }
    let worse = PairedSamples::Right(PairedCounts { broken: 15, fixed: 10, ..counts });
    assert_eq!(worse.needed(0.005, 0.025), None, "5 of 905 are more than 0.5 %");
}

/// Few samples that differ are tested exactly, many by the score test: both agree where they meet.
#[test]
fn many_differences_are_judged_as_few_are() {
    let at = |broken: u64, fixed: u64| {
        let both = 40_000 - broken - fixed;
        PairedSamples::Right(PairedCounts { both, broken, fixed, neither: 0 }).smallest_margin(0.05)
    };
    let [few, many] = [at(100, 100), at(101, 101)];
    assert!((few / many - 1.0).abs() < 0.06, "{few} {many}");
}

/// Scores: errors of sentences, some with many.
#[test]
fn scores_are_judged_as_rarely_wrong() {
    const DRAWS: u32 = 600;
    let errors = Metric { direction: Direction::Lower, ..Metric::default() };
    let mut state = 3;
    let mut is_confirmed = |rise: f64| {
        let (mut base, mut tuned) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            let words = 10.0 + (20.0 * drawn(&mut state)).floor();
            let wrong = (words * drawn(&mut state).powi(4)).floor();
            // Words change in half of the sentences; the mean rises by `rise` of itself.
            let change = if drawn(&mut state) < 0.5 { 2.0 * drawn(&mut state) - 1.0 } else { 0.0 };
            base.push(wrong);
            tuned.push((wrong * (1.0 + rise) + change).max(0.0));
        }
        let [base, tuned] = [base, tuned].map(SampleOutcomes::Scores);
        PairedSamples::new(&base, &tuned, 0..500, &errors).unwrap().confirms(0.05, 0.05)
    };
    let wrong = (0..DRAWS).filter(|_| is_confirmed(0.05)).count();
    assert!(wrong as f64 <= 0.08 * f64::from(DRAWS), "{wrong}");
    // A change for the better is confirmed.
    assert!(is_confirmed(-0.5));
    let same = SampleOutcomes::Scores(vec![1.0; 60]);
    let of = |part| PairedSamples::new(&same, &same, part, &Metric::default()).unwrap();
    assert!(!of(0..60).confirms(0.01, 0.05), "60 samples without change prove 5 %, not 1 %");
    assert!(of(0..60).confirms(0.06, 0.05) && !of(0..20).confirms(0.5, 0.05));
}

/// If the loss is the margin, a larger one is claimed no more often than the level.
#[test]
fn a_larger_loss_is_rarely_claimed_wrongly() {
    const DRAWS: u32 = 600;
    let mut state = 11;
    for direction in [Direction::Lower, Direction::Higher] {
        let metric = Metric { direction, ..Metric::default() };
        let mut exceeds = |loss: f64| {
            let change = if direction == Direction::Lower { loss } else { -loss };
            let (mut base, mut tuned) = (Vec::new(), Vec::new());
            for _ in 0..300 {
                let score = 10.0 * drawn(&mut state).powi(2);
                base.push(score);
                tuned.push(score * (0.5 + change + drawn(&mut state)));
            }
            let [base, tuned] = [base, tuned].map(SampleOutcomes::Scores);
            PairedSamples::new(&base, &tuned, 0..300, &metric).unwrap().exceeds(0.1, 0.05)
        };
        let wrong = (0..DRAWS).filter(|_| exceeds(0.1)).count();
        assert!(wrong as f64 <= 0.08 * f64::from(DRAWS), "{wrong}");
        assert!(exceeds(0.5));
    }
    // Too few scores, and scores of which FLOAT(32) has none, claim nothing.
    let errors = Metric { direction: Direction::Lower, ..Metric::default() };
    let of = |base: f64, count: usize| {
        let [base, tuned] = [base, 5.0].map(|score| SampleOutcomes::Scores(vec![score; count]));
        PairedSamples::new(&base, &tuned, 0..count, &errors).unwrap().exceeds(0.1, 0.05)
    };
    assert!(of(1.0, 100) && !of(1.0, 20) && !of(0.0, 100));
}

/// If many answers become right, their number is as uncertain as that of the answers that become wrong.
#[test]
fn a_larger_loss_of_right_answers_is_rarely_claimed_wrongly() {
    const DRAWS: u32 = 600;
    let mut state = 13;
    for (right, fixed) in [(0.7, 0.3), (0.5, 0.2)] {
        let broken = 0.01 + fixed * (1.0 - right) / right;
        let wrong = (0..DRAWS)
            .filter(|_| {
                paired(&pairs(&mut state, 2_000, [right, broken, fixed])).exceeds(0.01, 0.05)
            })
            .count();
        assert!(wrong as f64 <= 0.08 * f64::from(DRAWS), "{right} {fixed}: {wrong}");
    }
    let lost = |broken: u64, fixed: u64, margin: f64| {
        let both = 1_000 - broken - fixed;
        PairedSamples::Right(PairedCounts { both, broken, fixed, neither: 0 })
            .exceeds(margin, 0.025)
    };
    assert!(lost(40, 0, 0.02) && !lost(25, 0, 0.02));
    // Of 106 samples that differ, 66 broken ones may be chance; 80 are not.
    assert!(lost(80, 40, 0.01) && !lost(66, 40, 0.01));
    assert!(!lost(0, 0, 0.0) && lost(9, 0, 0.0));
}

#[test]
fn outcomes_of_other_samples_are_rejected() {
    let of = |text: &str| SampleOutcomes::Right(text.into());
    let metric = Metric::default();
    assert!(PairedSamples::new(&of("110"), &of("11"), 0..2, &metric).is_err());
    let two = SampleOutcomes::Scores(vec![1.0; 2]);
    assert!(PairedSamples::new(&of("110"), &two, 0..3, &metric).is_err());
    let nan = SampleOutcomes::Scores(vec![f64::NAN]);
    assert!(PairedSamples::new(&nan, &nan, 0..1, &metric).is_err());
    let found = PairedSamples::new(&of("1101"), &of("1011"), 1..4, &metric).unwrap();
    let expected = PairedCounts { both: 1, broken: 1, fixed: 1, neither: 0 };
    assert_eq!(found, PairedSamples::Right(expected));
}

/// No error was seen, so that any rise of the errors is possible, whatever share of none it is.
#[test]
fn samples_without_an_error_prove_nothing_about_errors() {
    let errors = Metric { direction: Direction::Lower, ..Metric::default() };
    let right = SampleOutcomes::Right("0".repeat(2_000));
    let scores = SampleOutcomes::Scores(vec![0.0; 2_000]);
    for none in [right, scores] {
        let paired = PairedSamples::new(&none, &none, 0..2_000, &errors).unwrap();
        assert!(!paired.confirms(0.5, 0.05));
        assert_eq!((paired.loss(), paired.needed(0.5, 0.05)), (0.0, None));
        assert!(paired.smallest_margin(0.05).is_infinite());
    }
}

/// Errors of sentences have no known limit: a sentence that was not seen may fail as one that another
/// configuration gets wrong.
#[test]
fn errors_may_be_as_many_as_in_another_configuration() {
    let errors = Metric { direction: Direction::Lower, ..Metric::default() };
    let sentences = SampleOutcomes::Scores((0..1_000).map(|at| f64::from(at % 2 * 2)).collect());
    let same = PairedSamples::new(&sentences, &sentences, 0..1_000, &errors).unwrap();
    // 3 of 1,000 sentences may be unseen at 95 %: 6 errors more are 0.6 % of 1,000.
    assert!(same.confirms(0.01, 0.05));
    // With 9 errors each, 27 are 2.7 %.
    let other = same.with_extremes([0.0, 9.0]);
    assert!(!other.confirms(0.01, 0.05) && other.confirms(0.03, 0.05));
}

/// A sentence has at most one error in FLOAT(32), and more in a configuration.
#[test]
fn errors_of_0_and_1_are_compared_with_more() {
    let errors = Metric { direction: Direction::Lower, ..Metric::default() };
    let base = SampleOutcomes::Right("01".repeat(30));
    let tuned = SampleOutcomes::Scores([vec![2.0], vec![0.5; 59]].concat());
    let paired = PairedSamples::new(&base, &tuned, 0..60, &errors).unwrap();
    assert!((paired.loss() - 1.5 / 30.0).abs() < 1e-12, "{}", paired.loss());
}

/// 60 samples may leave 1 - 0.05^(1/60) = 4.9 % unseen at 95 %. If each of them falls from 1 to 0, 5 % are
/// lost; if each falls to -1, 10 %.
#[test]
fn scores_below_0_can_lose_more() {
    let cosines = |last: f64| SampleOutcomes::Scores([vec![1.0; 59], vec![last]].concat());
    let of = |last: f64| {
        let cosines = cosines(last);
        PairedSamples::new(&cosines, &cosines, 0..60, &Metric::default()).unwrap()
    };
    assert!(of(1.0).confirms(0.06, 0.05));
    assert!(!of(-1.0).confirms(0.06, 0.05) && of(-1.0).confirms(0.15, 0.05));
}

#[test]
fn outcomes_have_a_digit_0_or_1_for_each_sample() {
    let read = |text: &str| serde_json::from_str::<SampleOutcomes>(text);
    let right = SampleOutcomes::from_right([true, false, true]);
    assert_eq!(read(r#"{"right":"101"}"#).unwrap(), right);
    assert_eq!(read(r#"{"scores":[0.5]}"#).unwrap(), SampleOutcomes::Scores(vec![0.5]));
    let refused = read(r#"{"right":"1y1"}"#).unwrap_err().to_string();
    assert!(refused.contains("expected a digit 0 or 1"), "{refused}");
}
