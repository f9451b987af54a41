//! A recommender of two towers that is trained on ratings in seconds.
//!
//! Training is stochastic gradient descent on the logistic loss, one rating at a time in one
//! thread. Sums have a fixed order on every machine, so the weights have the same bits everywhere.

use std::path::PathBuf;

use dyno_loadgen::rng::Mt19937;
use dyno_onnx::{BuildError, Builder, Dim, Element, Model, Tensor, Weights};

use super::{dot, draw, logistic, scaled_add, write};
use crate::data::movielens::{Opinion, Ratings};
use crate::files::{CacheKey, Files, OpenError};

/// Size of the vector of a user or an item.
pub const WIDTH: usize = 16;
/// Inputs of the hidden layer: a user, an item, and their products element by element.
pub const FEATURES: usize = 3 * WIDTH;
/// Size of the hidden layer.
pub const HIDDEN: usize = 32;

/// Revision of the weights: increases when they change.
const REVISION: u32 = 1;
const SEED: u64 = 1997;
const EPOCHS: usize = 6;
/// Learning rate of the first epoch; it decreases linearly to a tenth.
const RATE: f32 = 0.03;
/// Weight decay of each step.
const DECAY: f32 = 0.04;

/// Weights of the network, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Towers {
    /// A row of [`WIDTH`] for each user.
    pub users: Vec<f32>,
    /// A row of [`WIDTH`] for each item.
    pub items: Vec<f32>,
    /// A row of [`HIDDEN`] for each feature.
    pub hidden: Vec<f32>,
    /// Biases of the hidden layer.
    pub hidden_bias: Vec<f32>,
    /// Weights of the output, one for each of [`HIDDEN`].
    pub last: Vec<f32>,
    /// Bias of the output.
    pub last_bias: f32,
}

impl Towers {
    /// Trains the network for this many users and items.
    ///
    /// # Panics
    /// Panics if an opinion has a user or an item beyond these.
    pub fn train(opinions: &[Opinion], users: usize, items: usize) -> Self {
        let mut random = Mt19937::new(SEED);
        let mut towers = Self {
            users: draw(&mut random, users * WIDTH, 0.1),
            items: draw(&mut random, items * WIDTH, 0.1),
            hidden: draw(&mut random, FEATURES * HIDDEN, (6.0 / FEATURES as f32).sqrt()),
            hidden_bias: vec![0.0; HIDDEN],
            last: draw(&mut random, HIDDEN, (3.0 / HIDDEN as f32).sqrt()),
            last_bias: 0.0,
        };
        let mut order: Vec<usize> = (0..opinions.len()).collect();
        for epoch in 0..EPOCHS {
            let rate = RATE * (1.0 - 0.9 * epoch as f32 / EPOCHS as f32);
            random.shuffle(&mut order);
            for &at in &order {
                towers.step(opinions[at], rate);
            }
        }
        towers
    }

    /// Returns the probability that a user likes an item, with the intermediate values.
    fn forward(&self, user: &[f32; WIDTH], item: &[f32; WIDTH]) -> Pass {
        let mut features = [0.0; FEATURES];
        features[..WIDTH].copy_from_slice(user);
        features[WIDTH..2 * WIDTH].copy_from_slice(item);
        for (at, feature) in features[2 * WIDTH..].iter_mut().enumerate() {
            *feature = user[at] * item[at];
        }
        let mut hidden: [f32; HIDDEN] = row(&self.hidden_bias, 0);
        for (at, feature) in features.iter().enumerate() {
            scaled_add(&mut hidden, *feature, &self.hidden[at * HIDDEN..][..HIDDEN]);
        }
        hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        let chance = logistic(dot(&hidden, &self.last) + self.last_bias);
        Pass { features, hidden, chance }
    }

    fn step(&mut self, opinion: Opinion, rate: f32) {
        let user: [f32; WIDTH] = row(&self.users, opinion.user);
        let item: [f32; WIDTH] = row(&self.items, opinion.item);
        let Pass { features, hidden, chance } = self.forward(&user, &item);
        let error = chance - f32::from(u8::from(opinion.is_liked));
        let mut of_hidden = [0.0; HIDDEN];
        for (at, gradient) in of_hidden.iter_mut().enumerate() {
            *gradient = if hidden[at] > 0.0 { error * self.last[at] } else { 0.0 };
        }
        let mut of_features = [0.0; FEATURES];
        for (at, gradient) in of_features.iter_mut().enumerate() {
            let weights = &mut self.hidden[at * HIDDEN..][..HIDDEN];
            *gradient = dot(weights, &of_hidden);
            scaled_add(weights, -rate * features[at], &of_hidden);
        }
        scaled_add(&mut self.hidden_bias, -rate, &of_hidden);
        scaled_add(&mut self.last, -rate * error, &hidden);
        self.last_bias -= rate * error;
        for at in 0..WIDTH {
            let of_product = of_features[2 * WIDTH + at];
            let of_user = of_features[at] + of_product * item[at] + DECAY * user[at];
            let of_item = of_features[WIDTH + at] + of_product * user[at] + DECAY * item[at];
            self.users[opinion.user * WIDTH + at] -= rate * of_user;
            self.items[opinion.item * WIDTH + at] -= rate * of_item;
        }
    }

    /// Builds the network as a graph of two inputs: rows of users and of items.
    ///
    /// # Errors
    /// Only if the graph is inconsistent, which is a defect of this program.
    pub fn graph(&self, user: &str, item: &str) -> Result<Model, BuildError> {
        let mut net = Builder::new("movielens", Weights::from_tensors([].into()));
        let batch = [Dim::symbol("N")];
        let user = net.input(user, Element::I64, &batch);
        let item = net.input(item, Element::I64, &batch);
        let mut add = |name: &str, shape: &[usize], values: &[f32]| {
            net.tensor(Tensor::from_f32(name, shape, values))
        };
        let users = add("users", &[self.users.len() / WIDTH, WIDTH], &self.users)?;
        let items = add("items", &[self.items.len() / WIDTH, WIDTH], &self.items)?;
        let hidden = add("hidden.weight", &[FEATURES, HIDDEN], &self.hidden)?;
        let hidden_bias = add("hidden.bias", &[HIDDEN], &self.hidden_bias)?;
        let last = add("last.weight", &[HIDDEN, 1], &self.last)?;
        let last_bias = add("last.bias", &[1], &[self.last_bias])?;
        let user = net.node("Gather", &[&users, &user], &[])?;
        let item = net.node("Gather", &[&items, &item], &[])?;
        let both = net.node("Mul", &[&user, &item], &[])?;
        let x = net.node("Concat", &[&user, &item, &both], &[("axis", 1.into())])?;
        let x = net.node("Gemm", &[&x, &hidden, &hidden_bias], &[])?;
        let x = net.node("Relu", &[&x], &[])?;
        let x = net.node("Gemm", &[&x, &last, &last_bias], &[])?;
        let chance = net.node("Sigmoid", &[&x], &[])?;
        net.output("chance", &chance)?;
        Ok(net.finish())
    }

    /// Returns the probability that a user likes an item.
    pub fn chance(&self, user: usize, item: usize) -> f32 {
        self.forward(&row(&self.users, user), &row(&self.items, item)).chance
    }
}

/// Returns the path of the network, which is trained on the file `ratings` when it is first needed.
pub(crate) fn model(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let path = files.path("ratings")?;
    files.derive("towers.onnx", REVISION, CacheKey::Card, |file| {
        let ratings = Ratings::read(&path).map_err(OpenError::content)?;
        files.report_progress("training the model, once");
        let towers = Towers::train(&ratings.training, ratings.users, ratings.items);
        let inputs = &files.card().data.inputs;
        write(towers.graph(&inputs[0].name, &inputs[1].name), file)
    })
}

/// Intermediate values of a prediction.
struct Pass {
    features: [f32; FEATURES],
    hidden: [f32; HIDDEN],
    chance: f32,
}

fn row<const N: usize>(table: &[f32], at: usize) -> [f32; N] {
    table[at * N..][..N].try_into().expect("a row is as long as it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users and items of two kinds each: even and odd numbers. Users like items of their own kind.
    /// One opinion of three is omitted.
    fn kinds() -> (Vec<Opinion>, Vec<Opinion>) {
        let all = (0..60 * 60).map(|at| (at / 60, at % 60)).map(|(user, item)| Opinion {
            user,
            item,
            is_liked: user % 2 == item % 2,
        });
        all.partition(|opinion| (opinion.user + 2 * opinion.item) % 3 > 0)
    }

    #[test]
    fn towers_predict_held_out_opinions() {
        let (known, held_out) = kinds();
        let towers = Towers::train(&known, 60, 60);
        let right = |opinion: &&Opinion| {
            (towers.chance(opinion.user, opinion.item) > 0.5) == opinion.is_liked
        };
        let share = held_out.iter().filter(right).count() as f64 / held_out.len() as f64;
        assert!(share > 0.99, "{share}");
    }

    #[test]
    fn weights_have_the_same_bits_on_every_machine() {
        let (known, _) = kinds();
        let towers = Towers::train(&known[..300], 60, 60);
        let all = [&towers.users, &towers.items, &towers.hidden, &towers.last];
        let bits = all.iter().flat_map(|part| part.iter()).map(|value| value.to_bits());
        // FNV-1a over the words; computed on x86-64 with and without optimization.
        let digest = bits.fold(0xcbf2_9ce4_8422_2325_u64, |hash, bits| {
            (hash ^ u64::from(bits)).wrapping_mul(0x100_0000_01b3)
        });
        assert_eq!(digest, 0x7cab7892cdda3679);
    }
}
