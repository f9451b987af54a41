//! Runs models on stored inputs and compares the outputs with stored ones.
//!
//! Each argument is a folder with `model.onnx`, `input_0.npy` and so on, and `output_0.npy` and so
//! on. Prints one line for each: `equal`, `rejected`, `failed` or `differs`, the largest relative
//! difference or the reason, and the folder.

use std::path::Path;
use std::sync::Arc;

use dyno_graph::{Graph, Session, SessionOptions, Value};
use dyno_onnx::Model;
use dyno_tensors::npy::Npy;

/// Largest difference, relative to the largest magnitude of an output.
const TOLERANCE: f64 = 1e-5;

fn arrays(folder: &Path, kind: &str) -> Result<Vec<Npy>, String> {
    let mut all = Vec::new();
    while let Ok(bytes) = std::fs::read(folder.join(format!("{kind}_{}.npy", all.len()))) {
        all.push(Npy::parse(&bytes).map_err(|error| error.to_string())?);
    }
    Ok(all)
}

/// Returns the largest difference relative to the largest magnitude.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    let finite = expected.iter().filter(|x| x.is_finite());
    let scale = finite.fold(1e-3_f64, |most, x| most.max(x.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0.0, |most: f64, (a, b)| {
        if a == b || (a.is_nan() && b.is_nan()) {
            return most;
        }
        let difference = (a - b).abs() / scale;
        most.max(if difference.is_nan() { f64::INFINITY } else { difference })
    })
}

fn check(folder: &Path) -> Result<(&'static str, String), String> {
    let model = Model::read(&folder.join("model.onnx")).map_err(|error| error.to_string())?;
    let graph = match Graph::new(&model) {
        Ok(graph) => Arc::new(graph),
        Err(error) => return Ok(("rejected", error.to_string())),
    };
    let inputs = arrays(folder, "input")?;
    let inputs = inputs.into_iter().map(|array| Value::from_elements(&array.shape, array.elements));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let mut session = Session::new(Arc::clone(&graph), &SessionOptions::default());
    let mut worst = 0.0;
    // The second run must not depend on the first.
    for _ in 0..2 {
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
        let expected = arrays(folder, "output")?;
        if outputs.len() != expected.len() {
            return Ok(("differs", format!("{} outputs", outputs.len())));
        }
        for ((output, expected), port) in outputs.iter().zip(&expected).zip(graph.outputs()) {
            let element = expected.elements.element();
            let Some(elements) =
                output.elements(element).filter(|_| output.dims() == expected.shape)
            else {
                let found = format!("{} {:?}", output.element(), output.dims());
                return Ok((
                    "differs",
                    format!("'{}' is {found}, not {element} {:?}", port.name, expected.shape),
                ));
            };
            worst = difference(&elements.to_f64(), &expected.elements.to_f64()).max(worst);
        }
    }
    Ok((if worst <= TOLERANCE { "equal" } else { "differs" }, format!("{worst:.1e}")))
}

fn main() {
    for folder in std::env::args().skip(1) {
        let (word, text) = check(Path::new(&folder)).unwrap_or_else(|reason| ("failed", reason));
        println!("{word}\t{text}\t{folder}");
    }
}
