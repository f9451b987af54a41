//! What the built-in engine makes of images: `scores MODEL` reads `f32` and writes `f32`, both in little endian,
//! image after image.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;

use dyno_number::Assignment;
use dyno_number::evaluate::{Evaluator, Samples};
use dyno_onnx::Model;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: scores MODEL")?;
    let model = Model::read(Path::new(&path))?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let values: Vec<f32> =
        bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let shape = model.inputs.first().and_then(|port| port.shape.as_deref());
    let sizes = shape.unwrap_or_default().iter().skip(1);
    let numbers: usize = sizes.map(|size| size.fixed().unwrap_or(1)).product();
    let count = values.len() / numbers.max(1);
    let samples = Samples { values, labels: vec![0; count] };
    let mut evaluator = Evaluator::new(&model, samples, Default::default())?;
    let all: Vec<usize> = (0..count).collect();
    let scores = evaluator.scores(&Assignment::new(Vec::new(), Vec::new()), &all)?;
    let bytes: Vec<u8> = scores.into_iter().flat_map(f32::to_le_bytes).collect();
    Ok(std::io::stdout().write_all(&bytes)?)
}
