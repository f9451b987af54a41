//! An evaluator of ONNX models that shares nothing with our engines, to judge them.
//!
//! Floating-point numbers are f64 throughout, whatever type the graph states, and are not rounded between
//! nodes. `Cast` and quantizing operators round as the standard requires. Integers are i64 and wrap as their
//! type does. Each operator is written from its page of the standard as plain loops, in opsets 7 to 28.
//! Whatever is not known to mean the same is an error that names the node, never a guess.
//!
//! ```no_run
//! use dyno_oracle::{Element, Model, Tensor};
//!
//! let model = Model::read("model.onnx".as_ref())?.with_limit(1_000_000_000);
//! let input = Tensor::floats(Element::Float32, &[1, 3], vec![0.5, 1.0, -1.0])?;
//! for (name, tensor) in model.run(&[("x", input)])? {
//!     println!("{name}: {:?}", tensor.values());
//! }
//! # Ok::<(), dyno_oracle::OracleError>(())
//! ```

#![forbid(unsafe_code)]

mod call;
mod element;
mod evaluate;
mod fault;
mod function;
mod model;
mod operators;
mod proto;
pub mod random;
mod stored;
mod tensor;
#[cfg(test)]
mod tests;

pub use element::Element;
pub use evaluate::Evaluation;
pub use fault::OracleError;
pub use model::{Dimension, Model, Port};
pub use tensor::{Tensor, Values};
