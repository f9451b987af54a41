//! Greedy and beam search compared with exhaustive search, and over a layer's states.

use std::convert::Infallible;

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::decode::{Beam, Hypothesis, Step, Tokens, beam, greatest, greedy};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};
use proptest::prelude::*;

/// Returns a number in -1..1 derived from a path and a seed.
fn noise(path: &[usize], seed: u64) -> f32 {
    let mix = |hash: u64, with: u64| {
        let hash = (hash ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 29
    };
    let hash = path.iter().fold(mix(7, seed), |hash, token| mix(hash, *token as u64 + 1));
    (mix(hash, 3) >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// A language whose next token depends on all previous ones.
#[derive(Clone, Copy, Debug)]
struct Language {
    tokens: Tokens,
    seed: u64,
    /// Range of the scores.
    spread: f32,
}

impl Language {
    fn logits(&self, path: &[usize]) -> Vec<f32> {
        let one = |token: usize| self.spread * noise(&[path, &[token]].concat(), self.seed);
        (0..self.tokens.vocabulary).map(one).collect()
    }

    /// Logarithms of probabilities, by the definition of softmax.
    fn log_probabilities(&self, path: &[usize]) -> Vec<f64> {
        let logits: Vec<f64> = self.logits(path).into_iter().map(f64::from).collect();
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.iter().map(|x| (x.exp() / sum).ln()).collect()
    }

    /// All sequences, the best first.
    fn all(&self, length_penalty: f64) -> Vec<Hypothesis> {
        let mut found = Vec::new();
        let mut open = vec![(Vec::new(), 0.0)];
        let penalty = |length: usize| ((5.0 + length as f64) / 6.0).powf(length_penalty);
        while let Some((tokens, log_probability)) = open.pop() {
            if tokens.len() == self.tokens.most {
                let score = log_probability / penalty(tokens.len());
                found.push(Hypothesis { tokens, ended: false, log_probability, score });
                continue;
            }
            for (token, more) in self.log_probabilities(&tokens).into_iter().enumerate() {
                let log_probability = log_probability + more;
                if token == self.tokens.end {
                    let score = log_probability / penalty(tokens.len() + 1);
                    let tokens = tokens.clone();
                    found.push(Hypothesis { tokens, ended: true, log_probability, score });
                } else {
                    open.push(([&tokens[..], &[token]].concat(), log_probability));
                }
            }
        }
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found
    }

    /// A step whose states are paths: the state of a row is the sequence of its tokens.
    fn step(self, rows: usize) -> impl FnMut(Step<'_>, &mut [f32]) -> Result<(), Infallible> {
        let mut paths: Vec<Vec<usize>> = vec![Vec::new(); rows];
        let mut is_first = true;
        move |step, logits| {
            for (from, to) in step.moves {
                assert!(step.moves.iter().all(|(_, other)| other != from), "{:?}", step.moves);
                paths[*to] = paths[*from].clone();
            }
            for (row, token) in step.tokens.iter().enumerate() {
                if !is_first {
                    paths[row].push(*token);
                }
                let logits = &mut logits[row * self.tokens.vocabulary..][..self.tokens.vocabulary];
                logits.copy_from_slice(&self.logits(&paths[row]));
            }
            is_first = false;
            Ok(())
        }
    }
}

fn language() -> impl Strategy<Value = Language> {
    (2_usize..5, 1_usize..5, any::<u64>(), 0.5_f32..6.0).prop_map(
        |(vocabulary, most, seed, spread)| {
            let end = seed as usize % vocabulary;
            let tokens = Tokens { vocabulary, begin: (end + 1) % vocabulary, end, most };
            Language { tokens, seed, spread }
        },
    )
}

fn assert_same(found: &[Hypothesis], expected: &[Hypothesis]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        // Sums in another order may swap only sequences of nearly equal probability.
        assert!((found.score - expected.score).abs() < 1e-5, "{found:?} {expected:?}");
        assert!((found.log_probability - expected.log_probability).abs() < 1e-5);
        assert_eq!((&found.tokens, found.ended), (&expected.tokens, expected.ended));
    }
}

proptest! {
    /// A beam with as many rows as there are prefixes misses nothing.
    #[test]
    fn a_wide_beam_finds_the_best_of_all_sequences(
        source in language(), best in 1_usize..6, length_penalty in 0.0_f64..2.0,
    ) {
        let width = (source.tokens.vocabulary - 1).pow(source.tokens.most as u32);
        let found = beam(source.tokens, Beam { width, best, length_penalty }, source.step(width)).unwrap();
        let expected = source.all(length_penalty);
        assert_same(&found, &expected[..best.min(expected.len())]);
    }

    /// A narrow beam finds existing sequences with their true probabilities.
    #[test]
    fn what_a_narrow_beam_finds_is_there(
        source in language(), width in 1_usize..4, best in 1_usize..4, length_penalty in 0.0_f64..2.0,
    ) {
        let found = beam(source.tokens, Beam { width, best, length_penalty }, source.step(width)).unwrap();
        let all = source.all(length_penalty);
        prop_assert!(!found.is_empty() && found.len() <= best);
        prop_assert!(found.is_sorted_by(|a, b| a.score >= b.score));
        for found in &found {
            let same = all.iter().find(|other| other.tokens == found.tokens && other.ended == found.ended);
            assert_same(std::slice::from_ref(found), std::slice::from_ref(same.expect("a sequence")));
        }
    }

    /// A beam of one row follows the most probable token other than the end, so that its result is
    /// never worse than that of greedy search.
    #[test]
    fn one_row_is_at_least_as_good_as_greedy(source in language()) {
        let alone = Beam { width: 1, best: 1, length_penalty: 0.0 };
        let found = beam(source.tokens, alone, source.step(1)).unwrap();
        let greedy = greedy(source.tokens, 1, source.step(1)).unwrap();
        let all = source.all(0.0);
        let ended = greedy[0].len() < source.tokens.most;
        let expected = all.iter().find(|other| other.tokens == greedy[0] && other.ended == ended);
        prop_assert!(found[0].score > expected.expect("a sequence").score - 1e-5);
    }

    #[test]
    fn greedy_takes_the_likeliest_token_of_each_row(source in language()) {
        let found = greedy(source.tokens, 2, source.step(2)).unwrap();
        let mut expected = Vec::new();
        while expected.len() < source.tokens.most {
            let logits = source.log_probabilities(&expected);
            let token = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
            let token = token.expect("there are tokens");
            if token == source.tokens.end {
                break;
            }
            expected.push(token);
        }
        prop_assert_eq!(&found, &vec![expected; 2]);
    }

    #[test]
    fn the_greatest_are_those_of_a_sort(
        numbers in prop::collection::vec((-3_i8..4).prop_map(f32::from), 0..40), count in 0_usize..9,
    ) {
        let mut expected: Vec<(usize, f32)> = numbers.iter().copied().enumerate().collect();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1));
        expected.truncate(count);
        prop_assert_eq!(greatest(&numbers, count), expected);
    }
}

#[test]
fn what_is_no_number_is_no_token() {
    let numbers = [f32::NAN, 1.0, f32::NEG_INFINITY, 2.0];
    assert_eq!(greatest(&numbers, 4), [(3, 2.0), (1, 1.0)]);
    let tokens = Tokens { vocabulary: 2, begin: 0, end: 1, most: 3 };
    let nothing = |_: Step<'_>, logits: &mut [f32]| -> Result<(), Infallible> {
        logits.fill(f32::NAN);
        Ok(())
    };
    assert_eq!(greedy(tokens, 1, nothing).unwrap(), [Vec::<usize>::new()]);
    let wide = Beam { width: 2, best: 2, length_penalty: 0.0 };
    assert_eq!(beam(tokens, wide, nothing).unwrap(), []);
    let failing = |_: Step<'_>, _: &mut [f32]| Err("no power");
    assert_eq!(beam(tokens, wide, failing), Err("no power"));
}

/// A layer whose units remember their inputs.
fn layer(cell: Cell) -> Layer {
    let (inputs, units) = (3, 5);
    let numbers =
        |count: usize, seed: u64| -> Vec<f32> { (0..count).map(|at| noise(&[at], seed)).collect() };
    let rows = cell.gates() * units;
    let weights = Weights {
        input: numbers(rows * inputs, 1),
        state: numbers(rows * units, 2),
        input_bias: numbers(rows, 3),
        state_bias: numbers(rows, 4),
    };
    Layer::new(cell, inputs, units, Directions::Forward, vec![weights]).expect("weights that fit")
}

/// Rows that copy the states of others continue like those.
#[test]
fn states_follow_their_hypotheses() {
    let batch = 3;
    for (cell, precision, isa) in [
        (Cell::Lstm, Precision::F32, Isa::best()),
        (Cell::Gru, Precision::F32, Isa::best()),
        (Cell::Gru, Precision::Bf16, Isa::best()),
        (Cell::Lstm, Precision::Int8, Isa::best()),
        (Cell::Lstm, Precision::Bf16, Isa::scalar()),
    ] {
        let layer = layer(cell);
        let choice =
            Choice { precision, tanh: Tanh::Fitted98, chunk: 1, sides: 1, rows: 1, units: 1 };
        let mut team = Team::with_workers(1);
        let mut step = |sequence: &mut Sequence, seeds: [u64; 3]| {
            let input: Vec<f32> =
                seeds.iter().flat_map(|seed| [1, 2, 3].map(|at| noise(&[at], *seed))).collect();
            let mut output = vec![0.0; batch * layer.outputs()];
            sequence.run_on(&mut team, &input, &mut output).expect("sizes that fit");
            output
        };
        let new = || Sequence::new(&layer, batch, &choice, isa).expect("a plan");
        // Row 1 becomes a copy of row 2 after the first step, and row 0 too.
        let mut moved = new();
        moved.clear();
        step(&mut moved, [5, 6, 7]);
        moved.copy_rows(&[(2, 0), (2, 1)]);
        let found = step(&mut moved, [8, 8, 8]);
        let mut expected = new();
        expected.clear();
        step(&mut expected, [7, 7, 7]);
        assert_eq!(found, step(&mut expected, [8, 8, 8]), "{cell:?} {precision:?} {}", isa.name());
        assert_eq!(moved.states(), expected.states());
    }
}
