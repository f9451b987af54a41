//! Nodes without packed weights: pooling, attention, pointers and cosine. Workers share work that
//! takes longer than waking them.

use dyno_kernels::{Isa, Rows, Tanh, Team, dots, mix};

use super::shared::shared;
use super::view::View;
use super::{Network, Node, Scope, Score};

/// Scratch memory, reused by the nodes one after the other.
pub(super) struct Scratch {
    /// Scores of pairs of steps.
    scores: Vec<f32>,
    /// A vector per step.
    wide: Vec<f32>,
    /// A vector, or a number per step.
    line: Vec<f32>,
    /// Hash table of word positions, from 1; 0 is free.
    places: Vec<u32>,
}

impl Scratch {
    pub(super) fn new(network: &Network) -> Self {
        let mut scores = 0;
        let mut wide = 0;
        let mut line = 0;
        let mut places = 0;
        for (_, node) in network.nodes() {
            let [one, other] = match node {
                Node::Match { query, keys, .. } => [query, keys],
                Node::Attention { queries, keys, .. } => [queries, keys],
                Node::Mix { weights, values } => [weights, values],
                Node::Trilinear { context, query, .. } => [context, query],
                Node::Pointer { weights, ids, .. } => [weights, ids],
                _ => continue,
            };
            let [one, other] = [one, other].map(|tensor| network.shape(*tensor));
            scores = scores.max(one.steps * other.steps).max(other.steps);
            wide = wide.max(other.steps * other.width).max(other.width);
            line = line.max(one.steps.max(other.steps)).max(one.width.max(other.width));
            if matches!(node, Node::Pointer { .. }) {
                places = places.max((2 * one.steps * one.batch).next_power_of_two());
            }
        }
        let numbers = |count| vec![0.0; count];
        Self {
            scores: numbers(scores),
            wide: numbers(wide),
            line: numbers(line),
            places: vec![0; places],
        }
    }
}

pub(super) fn max_pool(input: View<'_>, output: &mut [f32]) {
    for (row, output) in output.chunks_mut(input.width).enumerate() {
        output.fill(if input.lengths[row] == 0 { 0.0 } else { f32::NEG_INFINITY });
        for step in 0..input.lengths[row] {
            for (most, x) in output.iter_mut().zip(input.at(step, row)) {
                // NaN propagates, as in the definition.
                *most = if *x < *most || most.is_nan() { *most } else { *x };
            }
        }
    }
}

/// Scores of a query against all keys of a row.
fn scores(
    isa: Isa,
    query: &[f32],
    keys: Rows<'_>,
    score: &Score,
    line: &mut [f32],
    output: &mut [f32],
) {
    match score {
        Score::Dot => dots(isa, one(query), keys, output),
        Score::Additive(v) => {
            for (step, output) in output.iter_mut().enumerate() {
                let sums = &mut line[..query.len()];
                for (sum, (q, k)) in sums.iter_mut().zip(query.iter().zip(keys.row(step))) {
                    *sum = q + k;
                }
                Tanh::default().tanh(isa, sums);
                dots(isa, one(v), one(sums), std::slice::from_mut(output));
            }
        }
    }
}

/// A single row.
fn one(row: &[f32]) -> Rows<'_> {
    Rows::new(row, 1, row.len(), row.len())
}

pub(super) fn matched(
    isa: Isa,
    team: &mut Team,
    query: View<'_>,
    keys: View<'_>,
    score: &Score,
    scratch: &mut Scratch,
    output: &mut [f32],
) {
    if matches!(score, Score::Dot) {
        return shared(team, output, keys.batch, keys.numbers.len(), &|first, output| {
            for row in 0..keys.batch {
                products(isa, query.single(row), keys, row, first, output);
            }
        });
    }
    for row in 0..keys.batch {
        let found = &mut scratch.scores[..keys.lengths[row]];
        scores(isa, query.single(row), keys.row(row), score, &mut scratch.line, found);
        for (step, found) in found.iter().enumerate() {
            output[step * keys.batch + row] = *found;
        }
    }
}

/// Writes products of a query with a row's keys from step `first` on, to every `batch`th number.
fn products(isa: Isa, query: &[f32], keys: View<'_>, row: usize, first: usize, output: &mut [f32]) {
    const SOME: usize = 32;
    for (index, output) in output.chunks_mut(SOME * keys.batch).enumerate() {
        let start = first + index * SOME;
        let some = keys.some(row, start..start + output.len() / keys.batch);
        let mut found = [0.0; SOME];
        dots(isa, one(query), some, &mut found[..some.count()]);
        for (output, found) in
            output[row..].iter_mut().step_by(keys.batch).zip(&found[..some.count()])
        {
            *output = *found;
        }
    }
}

/// Applies softmax to the numbers at `places`.
fn spread(numbers: &mut [f32], places: impl Iterator<Item = usize> + Clone) {
    let most = places.clone().map(|at| numbers[at]).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for at in places.clone() {
        numbers[at] = (numbers[at] - most).exp();
        sum += numbers[at];
    }
    places.for_each(|at| numbers[at] /= sum);
}

pub(super) fn softmax(input: View<'_>, over: Scope, output: &mut [f32]) {
    output.copy_from_slice(input.numbers);
    let batch = input.batch;
    match over {
        Scope::Row => {
            for row in 0..batch {
                spread(output, (0..input.lengths[row]).map(|step| step * batch + row));
            }
        }
        Scope::All => {
            let steps = 0..input.steps;
            let in_use = |at: &usize| at / batch < input.lengths[at % batch];
            spread(output, (0..steps.end * batch).filter(in_use));
        }
    }
}

pub(super) fn mixed(
    isa: Isa,
    weights: View<'_>,
    values: View<'_>,
    scratch: &mut Scratch,
    output: &mut [f32],
) {
    for (row, output) in output.chunks_mut(values.width).enumerate() {
        let of_row = &mut scratch.scores[..values.lengths[row]];
        for (step, weight) in of_row.iter_mut().enumerate() {
            *weight = weights.at(step, row)[0];
        }
        mix(isa, of_row, values.row(row), output);
    }
}

pub(super) fn attention(
    isa: Isa,
    queries: View<'_>,
    keys: View<'_>,
    values: View<'_>,
    score: &Score,
    scratch: &mut Scratch,
    output: &mut [f32],
) {
    for (step, row, place) in queries.places() {
        let found = &mut scratch.scores[..keys.lengths[row]];
        scores(isa, queries.at(step, row), keys.row(row), score, &mut scratch.line, found);
        spread(found, 0..found.len());
        mix(isa, found, values.row(row), &mut output[place * values.width..][..values.width]);
    }
}

pub(super) fn pointer(
    weights: View<'_>,
    ids: View<'_>,
    over: Scope,
    scratch: &mut Scratch,
    output: &mut [f32],
) {
    output.fill(0.0);
    scratch.places.fill(0);
    let mask = scratch.places.len() - 1;
    // Each row has its own table of at least twice its steps.
    for row in 0..if over == Scope::Row { ids.batch } else { 1 } {
        if over == Scope::Row {
            scratch.places.fill(0);
        }
        for (_, own, place) in ids.places() {
            if over == Scope::Row && own != row {
                continue;
            }
            let id = ids.ids[place];
            // Fibonacci hashing spreads consecutive ids.
            let mut slot = (id.wrapping_mul(0x9e37_79b1) >> 8) as usize & mask;
            let first = loop {
                match scratch.places[slot].checked_sub(1) {
                    None => {
                        scratch.places[slot] = place as u32 + 1;
                        break place;
                    }
                    Some(known) if ids.ids[known as usize] == id => break known as usize,
                    Some(_) => slot = (slot + 1) & mask,
                }
            };
            output[first] += weights.numbers[place];
        }
    }
}

/// Computes `w [h; u; h * u]` as `h (w1 + w3 * u) + w2 u`: one product of all pairs, and one number
/// for each u.
pub(super) fn trilinear(
    isa: Isa,
    team: &mut Team,
    context: View<'_>,
    query: View<'_>,
    weights: &[f32],
    scratch: &mut Scratch,
    output: &mut [f32],
) {
    let width = context.width;
    let ([of_h, of_u], of_both) =
        ([&weights[..width], &weights[width..2 * width]], &weights[2 * width..]);
    for row in 0..context.batch {
        let steps = context.lengths[row];
        let words = query.lengths[row];
        let Scratch { scores, wide, line, .. } = scratch;
        let scores = &mut scores[..steps * words];
        let wide = &mut wide[..words * width];
        for (word, wide) in wide.chunks_mut(width).enumerate() {
            let numbers = query.at(word, row).iter().zip(of_h.iter().zip(of_both));
            wide.iter_mut().zip(numbers).for_each(|(output, (u, (w1, w3)))| *output = w1 + w3 * u);
        }
        let of_words = &mut line[..words];
        dots(isa, one(of_u), query.row(row), of_words);
        let of_words = &*of_words;
        let wide = Rows::new(wide, words, width, width);
        let touched = steps * words * width;
        shared(team, scores, words, touched, &|first, scores| {
            let some = context.some(row, first..first + scores.len() / words.max(1));
            dots(isa, some, wide, scores);
            for scores in scores.chunks_mut(words.max(1)) {
                scores.iter_mut().zip(of_words).for_each(|(score, word)| *score += word);
            }
        });
        // Softmax over the greatest score of each step gives h~, for which `wide` is free now.
        let most = &mut line[..steps];
        most.fill(0.0);
        for (most, scores) in most.iter_mut().zip(scores.chunks(words.max(1))) {
            *most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        }
        spread(most, 0..steps);
        let whole = &mut scratch.wide[..width];
        mix(isa, most, context.row(row), whole);
        for scores in scores.chunks_mut(words.max(1)) {
            spread(scores, 0..words);
        }
        let whole = &*whole;
        let scores = &*scores;
        let output = &mut output[..steps * context.batch * 4 * width];
        shared(team, output, context.batch * 4 * width, touched, &|first, output| {
            for (at, output) in output.chunks_mut(context.batch * 4 * width).enumerate() {
                let of_step = &scores[(first + at) * words..][..words];
                let output = &mut output[row * 4 * width..][..4 * width];
                aware(isa, context.at(first + at, row), of_step, query.row(row), whole, output);
            }
        });
    }
}

/// Writes `[h; u~; h * u~; h * h~]` of a step.
fn aware(isa: Isa, h: &[f32], weights: &[f32], query: Rows<'_>, whole: &[f32], output: &mut [f32]) {
    let width = h.len();
    let (first, rest) = output.split_at_mut(width);
    let (second, rest) = rest.split_at_mut(width);
    let (third, fourth) = rest.split_at_mut(width);
    first.copy_from_slice(h);
    mix(isa, weights, query, second);
    third.iter_mut().zip(h.iter().zip(&*second)).for_each(|(output, (h, u))| *output = h * u);
    fourth.iter_mut().zip(h.iter().zip(whole)).for_each(|(output, (h, all))| *output = h * all);
}

/// Minimum length of a vector in a cosine, as in PyTorch.
pub(super) const SHORTEST: f32 = 1e-8;

pub(super) fn cosine(
    isa: Isa,
    team: &mut Team,
    query: View<'_>,
    others: View<'_>,
    output: &mut [f32],
) {
    let product = |a: &[f32], b: &[f32]| {
        let mut product = [0.0];
        dots(isa, one(a), one(b), &mut product);
        product[0]
    };
    shared(team, output, 1, others.numbers.len(), &|first, output| {
        for (at, output) in output.iter_mut().enumerate() {
            let a = query.single(first + at);
            let b = others.at(0, first + at);
            let length = |x: &[f32]| product(x, x).sqrt().max(SHORTEST);
            *output = product(a, b) / (length(a) * length(b));
        }
    });
}
