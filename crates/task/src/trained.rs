//! Small networks of our own. Some are trained here when a task is first opened; the weights of the
//! others come with Dyno and were trained by the scripts in `training/`.
//!
//! Training gives the same bits on every machine: every sum has a fixed order, and every function
//! consists of additions, multiplications, divisions and roots, which IEEE 754 defines exactly.

pub mod digit_boxes;
pub mod karate;
pub mod movielens;
pub mod shapes3d;

use std::fs::File;
use std::io::{BufWriter, Write as _};

use dyno_loadgen::rng::Mt19937;
use dyno_onnx::{BuildError, Element, Model, Tensor, Values, Weights};
use half::f16;

use crate::files::OpenError;
use crate::weights::safetensors;

/// Writes a network to its cached file.
fn write(graph: Result<Model, BuildError>, file: &mut BufWriter<File>) -> Result<(), OpenError> {
    let bytes = graph.map_err(OpenError::content)?.to_bytes().map_err(OpenError::content)?;
    file.write_all(&bytes).map_err(OpenError::content)
}

/// Reads weights that a script of `training/` wrote, float16 in safetensors.
fn weights(file: &'static [u8]) -> Weights {
    const FORMAT: &str = "the scripts write this format, and a test reads each file";
    let tensor = |(name, tensor): (String, Tensor)| {
        let Values::Bytes(bytes) = &tensor.values else { panic!("{FORMAT}") };
        assert_eq!(tensor.element, Element::F16, "{FORMAT}");
        let halves = bytes.as_chunks().0;
        let values: Vec<f32> = halves.iter().map(|half| f16::from_le_bytes(*half).into()).collect();
        let tensor = Tensor::from_f32(name.clone(), &tensor.shape, &values);
        (name, tensor)
    };
    let read = safetensors(file).expect(FORMAT);
    Weights::from_tensors(read.into_iter().map(tensor).collect())
}

/// Draws uniform numbers between minus and plus `bound`.
fn draw(random: &mut Mt19937, count: usize, bound: f32) -> Vec<f32> {
    (0..count).map(|_| (2.0 * random.canonical() as f32 - 1.0) * bound).collect()
}

/// Number of partial sums of [`dot`]; a machine may compute them in parallel.
const LANES: usize = 8;

/// Returns the dot product of two rows, whose length is a multiple of [`LANES`].
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let one = one.as_chunks::<LANES>().0;
    let other = other.as_chunks::<LANES>().0;
    let mut sums = [0.0_f32; LANES];
    for (a, b) in one.iter().zip(other) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// Adds a multiple of a row to another row.
fn scaled_add(to: &mut [f32], factor: f32, row: &[f32]) {
    to.iter_mut().zip(row).for_each(|(to, value)| *to += factor * value);
}

/// Logistic function: 1 / (1 + e^-x).
fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}
