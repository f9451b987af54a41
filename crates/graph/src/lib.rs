//! An executor of whole ONNX graphs on CPUs.
//!
//! [`Graph::new`] reads a model: it folds constants, folds batch normalizations into the convolutions
//! before them, packs weights and rejects nodes that it does not implement by name, so that a model
//! runs as a whole or not at all. A [`Session`] runs the graph on values. Recurrent nodes run on the
//! kernels of `dyno-rnn`, and products with constant weights on those of `dyno-kernels`.
//!
//! [`Oracle`] compares a session with `dyno-oracle`, which shares no code with this crate.
//!
//! Numbers of 16 bits are computed in `f32`: values hold `f32`, and `Cast` rounds to the shorter
//! type.
//!
//! ```
//! use std::sync::Arc;
//!
//! use dyno_graph::{Graph, Session, SessionOptions, Value};
//! use dyno_onnx::{Builder, Element, Tensor, Weights};
//!
//! let mut net = Builder::new("net", Weights::seeded(1));
//! let x = net.input("x", Element::F32, &[2.into()]);
//! let w = net.tensor(Tensor::from_f32("w", &[2], &[0.5, -2.0]))?;
//! let product = net.node("Mul", &[&x, &w], &[])?;
//! net.output("y", &product)?;
//!
//! let graph = Arc::new(Graph::new(&net.finish())?);
//! let mut session = Session::new(graph, &SessionOptions::default());
//! let outputs = session.run(&[Value::new(vec![2], vec![4.0_f32, 1.0])?])?;
//! assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [2.0, -2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod buffers;
mod fold;
mod graph;
mod load;
mod node;
mod operator;
mod session;
mod value;
mod verify;

pub use graph::{Graph, GraphError};
pub use session::{RunError, Session, SessionOptions};
pub use value::{MAX_BYTES, Number, Value};
pub use verify::{Judgement, MOST_DIFFERENT, Oracle, Verification};
