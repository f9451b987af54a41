//! Graphs of ONNX that are evaluated with zeros.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use dyno_graph::{Graph, Session, SessionOptions, Value};
use dyno_onnx::{Dim, Model, Port};
use dyno_tensors::Element;
use libfuzzer_sys::fuzz_target;

/// Maximum numbers of an input.
const MOST: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes, Path::new("/nowhere")) else { return };
    let graph = match Graph::new(&model) {
        Ok(graph) => Arc::new(graph),
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let inputs: Option<Vec<Value>> = graph.inputs().iter().map(zeros).collect();
    let Some(inputs) = inputs else { return };
    let mut session = Session::new(graph, &SessionOptions::default());
    match session.run(&inputs) {
        Ok(outputs) => assert_eq!(outputs.len(), session.graph().outputs().len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

/// Returns the value of an input, whose open dimensions are 2; `None` for types and sizes that are not tried.
fn zeros(port: &Port) -> Option<Value> {
    let dims: Vec<usize> =
        port.shape.as_ref()?.iter().map(|dim: &Dim| dim.fixed().unwrap_or(2)).collect();
    let count = dims.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim))?;
    if count > MOST {
        return None;
    }
    match port.element? {
        Element::F32 => Value::new(dims, vec![0.0_f32; count]).ok(),
        Element::I64 => Value::new(dims, vec![0_i64; count]).ok(),
        _ => None,
    }
}
