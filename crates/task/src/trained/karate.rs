//! A graph convolutional network of two layers (Kipf, Welling 2017) that learns the sides of a
//! karate club from its two leaders.

use std::path::PathBuf;

use dyno_loadgen::rng::Mt19937;
use dyno_onnx::{BuildError, Builder, Dim, Element, Model, Tensor, Weights};

use super::{draw, logistic, scaled_add, write};
use crate::data::karate::{INSTRUCTOR, MEMBERS, PRESIDENT, pairs};
use crate::files::{CacheKey, Files, OpenError};

/// Size of a member's state between the layers.
pub const HIDDEN: usize = 16;
/// Number of sides.
pub const SIDES: usize = 2;

/// Revision of the weights: increases when they change.
const REVISION: u32 = 1;
const SEED: u64 = 1977;
const STEPS: usize = 200;
const RATE: f32 = 0.5;

/// Weights of the network, row by row. Members have no features except their numbers, so the first
/// layer has a row for each member.
#[derive(Debug, Clone, PartialEq)]
pub struct Convolutions {
    /// A row of [`HIDDEN`] for each member.
    pub first: Vec<f32>,
    /// A row of [`SIDES`] for each of [`HIDDEN`].
    pub second: Vec<f32>,
}

/// Returns the normalized adjacency matrix: for each pair, 1 over the root of the product of both
/// degrees, which include the members themselves.
pub fn reach() -> Vec<f32> {
    let mut met = vec![0.0_f32; MEMBERS * MEMBERS];
    for member in 0..MEMBERS {
        met[member * MEMBERS + member] = 1.0;
    }
    for (one, other) in pairs() {
        met[one * MEMBERS + other] = 1.0;
        met[other * MEMBERS + one] = 1.0;
    }
    let counts: Vec<f32> = met.chunks_exact(MEMBERS).map(|row| row.iter().sum()).collect();
    let share = |at: usize| met[at] / (counts[at / MEMBERS] * counts[at % MEMBERS]).sqrt();
    (0..MEMBERS * MEMBERS).map(share).collect()
}

impl Convolutions {
    /// Trains the network by gradient descent on the cross entropy of the two known members.
    pub fn train() -> Self {
        let mut random = Mt19937::new(SEED);
        let bound = |inputs: usize, outputs: usize| (6.0 / (inputs + outputs) as f32).sqrt();
        let mut net = Self {
            first: draw(&mut random, MEMBERS * HIDDEN, bound(MEMBERS, HIDDEN)),
            second: draw(&mut random, HIDDEN * SIDES, bound(HIDDEN, SIDES)),
        };
        let reach = reach();
        (0..STEPS).for_each(|_| net.step(&reach));
        net
    }

    fn step(&mut self, reach: &[f32]) {
        let (hidden, scores) = self.forward(reach);
        let mut of_scores = vec![0.0; MEMBERS * SIDES];
        for (side, member) in [INSTRUCTOR, PRESIDENT].into_iter().enumerate() {
            let [own, other] = [side, 1 - side].map(|side| scores[member * SIDES + side]);
            // The softmax of two classes is a logistic function of their difference.
            let missing = logistic(other - own) / SIDES as f32;
            of_scores[member * SIDES + side] = -missing;
            of_scores[member * SIDES + 1 - side] = missing;
        }
        // The matrix is symmetric.
        let of_mixed = product(reach, &of_scores, MEMBERS);
        let turned = transpose(&self.second, SIDES);
        let of_second = product(&transpose(&hidden, HIDDEN), &of_mixed, MEMBERS);
        let mut of_hidden = product(&of_mixed, &turned, SIDES);
        for (gradient, value) in of_hidden.iter_mut().zip(&hidden) {
            *gradient = if *value > 0.0 { *gradient } else { 0.0 };
        }
        let of_first = product(reach, &of_hidden, MEMBERS);
        scaled_add(&mut self.first, -RATE, &of_first);
        scaled_add(&mut self.second, -RATE, &of_second);
    }

    /// Returns the states between the layers, and the scores of each member's sides.
    fn forward(&self, reach: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut hidden = product(reach, &self.first, MEMBERS);
        hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        let scores = product(reach, &product(&hidden, &self.second, HIDDEN), MEMBERS);
        (hidden, scores)
    }

    /// Builds the network as a graph that computes all members and outputs the requested ones.
    ///
    /// # Errors
    /// Only if the graph is inconsistent, which is a defect of this program.
    pub fn graph(&self, member: &str) -> Result<Model, BuildError> {
        let mut net = Builder::new("karate", Weights::from_tensors([].into()));
        let member = net.input(member, Element::I64, &[Dim::symbol("N")]);
        let mut add = |name: &str, shape: [usize; 2], values: &[f32]| {
            net.tensor(Tensor::from_f32(name, &shape, values))
        };
        let reach = add("reach", [MEMBERS, MEMBERS], &reach())?;
        let first = add("first.weight", [MEMBERS, HIDDEN], &self.first)?;
        let second = add("second.weight", [HIDDEN, SIDES], &self.second)?;
        let hidden = net.node("MatMul", &[&reach, &first], &[])?;
        let hidden = net.node("Relu", &[&hidden], &[])?;
        let mixed = net.node("MatMul", &[&hidden, &second], &[])?;
        let scores = net.node("MatMul", &[&reach, &mixed], &[])?;
        let asked = net.node("Gather", &[&scores, &member], &[])?;
        net.output("scores", &asked)?;
        Ok(net.finish())
    }

    /// Returns the predicted side of each member.
    pub fn sides(&self) -> Vec<i64> {
        let (_, scores) = self.forward(&reach());
        scores.chunks_exact(SIDES).map(|scores| i64::from(scores[1] > scores[0])).collect()
    }
}

/// Returns the path of the network, which is trained when it is first needed.
pub(crate) fn model(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let input = &files.card().data.inputs[0].name;
    files.derive("convolutions.onnx", REVISION, CacheKey::Card, |file| {
        write(Convolutions::train().graph(input), file)
    })
}

/// Returns the product of two matrices; `inner` is the number of columns of the first and of rows
/// of the second.
fn product(one: &[f32], other: &[f32], inner: usize) -> Vec<f32> {
    let columns = other.len() / inner;
    let mut out = vec![0.0; one.len() / inner * columns];
    for (row, to) in one.chunks_exact(inner).zip(out.chunks_exact_mut(columns)) {
        for (value, from) in row.iter().zip(other.chunks_exact(columns)) {
            scaled_add(to, *value, from);
        }
    }
    out
}

fn transpose(matrix: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|at| matrix.iter().skip(at).step_by(columns)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::karate::sides;

    #[test]
    fn two_known_members_suffice_to_predict_nearly_all_sides() {
        let found = Convolutions::train().sides();
        let right = found.iter().zip(sides()).filter(|(found, side)| **found == *side).count();
        assert_eq!(right, 33, "{found:?}");
    }
}
