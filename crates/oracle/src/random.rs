//! Random models with recurrent nodes, to compare engines with the oracle.
//!
//! A seed always gives the same model, byte for byte. LSTM, GRU and RNN nodes with any options form chains and
//! branches. Other operators between them move, convert or combine values. Every model is valid, and its values
//! stay small enough for `f32`. Few models of [`case`] look like exports of training programs: they test that an
//! engine computes what a file states, or rejects it. Those of [`chain`] do.
//!
//! ```
//! let case = dyno_oracle::random::case(7);
//! let model = dyno_oracle::Model::from_bytes(&case.bytes)?;
//! let inputs: Vec<_> = case.inputs.iter().map(|(name, x)| (name.as_str(), x.clone())).collect();
//! assert_eq!(model.run(&inputs)?.len(), model.outputs().len());
//! # Ok::<(), dyno_oracle::OracleError>(())
//! ```

mod recurrent;
mod steps;
mod writer;

use crate::element::Element;
use crate::tensor::Tensor;
use writer::{Value, Writer};

/// A random model, with inputs to compute it on.
#[derive(Debug, Clone)]
pub struct Case {
    /// Seed that makes this case.
    pub seed: u64,
    /// ONNX file.
    pub bytes: Vec<u8>,
    /// Name and value of each input, in the order of the model.
    pub inputs: Vec<(String, Tensor)>,
    /// Operators in the order of the file, to show with a difference.
    pub operators: Vec<String>,
}

/// Returns the random model of a seed.
pub fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let opset = [8, 9, 11, 12, 13, 14, 15, 17, 18, 21][random.below(10)];
    let mut writer = Writer::new(opset, random);
    let mut values = vec![start(&mut writer)];
    let recurrent = 1 + writer.random.below(3);
    for layer in 0..recurrent {
        let count = writer.random.below(4);
        for _ in 0..count {
            steps::add(&mut writer, &mut values);
        }
        // A layer reads the last value, or one of before, which makes a branch.
        let source = if layer > 0 && writer.random.chance(0.15) {
            writer.random.pick(&values).clone()
        } else {
            values[values.len() - 1].clone()
        };
        recurrent::add(&mut writer, &source, &mut values);
    }
    let count = 1 + writer.random.below(4);
    for _ in 0..count {
        steps::add(&mut writer, &mut values);
    }
    // The input comes first; it is no output.
    let last = values.len() - 1;
    let mut outputs = vec![values[last].clone()];
    if last > 1 && writer.random.chance(0.3) {
        let other = &values[1 + writer.random.below(last - 1)];
        outputs.push(other.clone());
    }
    writer.finish(seed, &outputs)
}

/// Returns the random chain of layers of a seed: one input, up to four layers with any options, and the
/// steps of the last one as output.
pub fn chain(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let opset = [8, 9, 11, 12, 13, 14, 15, 17, 18, 21][random.below(10)];
    let mut writer = Writer::new(opset, random);
    writer.is_chain = true;
    let shape = writer.random.shape(3, 6);
    let tensor = writer.random.floats(&shape, 1.0);
    let mut values = vec![Value { name: writer.input("x", tensor), shape }];
    for _ in 0..1 + writer.random.below(4) {
        let source = values[values.len() - 1].clone();
        recurrent::add(&mut writer, &source, &mut values);
    }
    let last = values[values.len() - 1].clone();
    writer.finish(seed, &[last])
}

/// Makes the input of the model: floats, or numbers of words with their embedding.
fn start(writer: &mut Writer) -> Value {
    let shape = writer.random.shape(3, 6);
    if !writer.random.chance(0.15) {
        let tensor = writer.random.floats(&shape, 1.0);
        return Value { name: writer.input("x", tensor), shape };
    }
    let (words, width) = (5, shape[2]);
    let count = shape[0] * shape[1];
    let chosen = (0..count).map(|_| writer.random.below(words) as i64).collect();
    let ids = Tensor::of_integers(Element::Int64, &shape[..2], chosen).expect("counted");
    let ids = writer.input("ids", ids);
    let table = writer.weights(&[words, width], 1.0);
    let name = writer.node("Gather", &[&table, &ids], Vec::new());
    Value { name, shape }
}

/// A generator of random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
struct Random {
    state: u64,
}

impl Random {
    fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `count`, which must not be 0.
    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a number from 0 to below 1, exact in binary32.
    fn unit(&mut self) -> f64 {
        (self.next() >> 40) as f64 / 2f64.powi(24)
    }

    /// Returns a number from `low` to `high` that binary32 holds.
    fn within(&mut self, low: f64, high: f64) -> f64 {
        Element::Float32.round(low + (high - low) * self.unit())
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Returns an order of `count` numbers.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for place in (1..count).rev() {
            order.swap(place, self.below(place + 1));
        }
        order
    }

    /// Returns a shape of sizes from 1 to `largest`.
    fn shape(&mut self, rank: usize, largest: usize) -> Vec<usize> {
        (0..rank).map(|_| 1 + self.below(largest)).collect()
    }

    /// Returns a tensor of `float` between -`reach` and `reach`.
    fn floats(&mut self, shape: &[usize], reach: f64) -> Tensor {
        let count = shape.iter().product();
        let values = (0..count).map(|_| self.within(-reach, reach)).collect();
        Tensor::of_floats(Element::Float32, shape, values).expect("counted")
    }
}
