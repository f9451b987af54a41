//! Writes a model in formats as ONNX QDQ, and prints its own answers: `qdq MODEL FORMATS OUT [int4] [exact]`
//! reads `f32` samples from stdin and writes the `f32` answers of the packed network, both in
//! little endian. A model with several inputs reads all samples of the first input, then all of the
//! second, and so on. Without OUT it only answers.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;

use dyno_number::Dictionary;
use dyno_number::evaluate::graph::{QdqModel, QdqOptions};
use dyno_number::evaluate::{PackedNetwork, TensorView, Workspace};
use dyno_onnx::Model;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, formats, rest @ ..] = &arguments[..] else {
        return Err("usage: qdq MODEL FORMATS [OUT [int4] [exact]]".into());
    };
    let model = Model::read(Path::new(path))?;
    let formats: Dictionary = std::fs::read_to_string(formats)?.parse()?;
    if let Some(out) = rest.first() {
        let has = |option: &str| rest[1..].iter().any(|given| given == option);
        let options =
            QdqOptions { int4: has("int4"), exact: has("exact"), ..QdqOptions::default() };
        QdqModel::new(&model, &formats, options)?.model.write(Path::new(out))?;
    }
    let network = PackedNetwork::new(&model, &formats)?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let values: Vec<f32> =
        bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let dims = |port: &dyno_onnx::Port| {
        let shape = port.shape.as_deref().unwrap_or_default();
        shape.iter().skip(1).map(|size| size.fixed().unwrap_or(1)).collect::<Vec<usize>>()
    };
    let sizes: Vec<Vec<usize>> = model.inputs.iter().map(dims).collect();
    let each: Vec<usize> = sizes.iter().map(|dims| dims.iter().product()).collect();
    let count = values.len() / each.iter().sum::<usize>().max(1);
    let mut workspace = Workspace::default();
    for sample in 0..count {
        let mut start = 0;
        let views = sizes.iter().zip(&each).map(|(dims, each)| {
            let own = &values[start + sample * each..][..*each];
            start += count * each;
            ([&[1], &dims[..]].concat(), own)
        });
        let views: Vec<(Vec<usize>, &[f32])> = views.collect();
        let views: Vec<TensorView<'_>> =
            views.iter().map(|(dims, values)| TensorView { dims, values }).collect();
        let answer = network.run(&views, &mut workspace)?;
        let bytes: Vec<u8> = answer.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        std::io::stdout().write_all(&bytes)?;
    }
    Ok(())
}
