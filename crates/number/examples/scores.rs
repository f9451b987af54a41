//! Prints the answers of the built-in engines: `scores MODEL` reads `f32` samples from stdin and
//! writes `f32` answers, both in little endian, sample after sample. A model with several inputs
//! reads all samples of the first input, then all of the second, and so on. `scores MODEL graph`
//! uses the engine of graphs even for a chain.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;

use dyno_number::Assignment;
use dyno_number::evaluate::graph::{
    Agreement, CorrectnessRule, GraphEvaluator, GraphInput, GraphSamples,
};
use dyno_number::evaluate::{ChainEvaluator, Samples};
use dyno_onnx::Model;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: scores MODEL [graph]")?;
    let model = Model::read(Path::new(&path))?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let values: Vec<f32> =
        bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let dims = |port: &dyno_onnx::Port| {
        let shape = port.shape.as_deref().unwrap_or_default();
        shape.iter().skip(1).map(|size| size.fixed().unwrap_or(1)).collect::<Vec<usize>>()
    };
    let sizes: Vec<Vec<usize>> = model.inputs.iter().map(dims).collect();
    let numbers: usize = sizes.iter().map(|dims| dims.iter().product::<usize>()).sum();
    let count = values.len() / numbers.max(1);
    let base = Assignment::new(Vec::new(), Vec::new());
    let all: Vec<usize> = (0..count).collect();
    let samples = Samples { values: values.clone(), labels: vec![0; count] };
    let chain = match std::env::args().nth(2) {
        Some(_) => None,
        None => ChainEvaluator::new(&model, samples, Default::default()).ok(),
    };
    let scores = match chain {
        Some(mut evaluator) => evaluator.scores(&base, &all)?,
        None => {
            let mut rest = &values[..];
            let mut inputs = Vec::new();
            for dims in sizes {
                let (values, others) = rest.split_at(count * dims.iter().product::<usize>());
                inputs.push(GraphInput { dims, values: values.to_vec() });
                rest = others;
            }
            let fed = GraphSamples {
                inputs,
                lengths: None,
                correctness: CorrectnessRule::Agreement(Agreement::Equal),
            };
            let mut graph = GraphEvaluator::new(&model, fed, Default::default())?;
            let answers = graph.answers(&base, &all).map_err(|why| format!("{why:?}"))?;
            answers.concat()
        }
    };
    let bytes: Vec<u8> = scores.into_iter().flat_map(f32::to_le_bytes).collect();
    Ok(std::io::stdout().write_all(&bytes)?)
}
