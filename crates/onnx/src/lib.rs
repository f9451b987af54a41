//! ONNX graphs: a reader, a builder and a writer of models, shape inference, and cost models.
//!
//! Nothing is executed here; engines are in `dyno-sut`. [`Model::read`] reads a file and
//! [`Builder`] builds a model. [`infer`] computes the shapes of its values, [`count`] what it
//! costs, and [`products::products`] its matrix products. [`Constants`] computes values that do
//! not depend on the inputs. [`batch_obstacle`] states why samples must not share a call.
//! [`in_floats`] writes quantized models with products of floats.
//!
//! ```
//! use dyno_onnx::{Builder, Dim, Element, Fill, Weights, count};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut net = Builder::new("scores", Weights::seeded(7));
//! let ink = net.input("ink", Element::F32, &[Dim::symbol("N"), 64.into()]);
//! let weights = net.weight("fc.weight", &[64, 10], Fill::he(64))?;
//! let bias = net.weight("fc.bias", &[10], Fill::Constant(0.0))?;
//! let scores = net.node("Gemm", &[&ink, &weights, &bias], &[])?;
//! net.output("scores", &scores)?;
//! let model = net.finish();
//! let cost = count(&model);
//! assert_eq!((cost.parameters, cost.operations()), (650, 1280));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod batch;
mod build;
mod count;
mod file_bytes;
mod fold;
mod functions;
mod fused;
mod graph;
mod messages;
mod order;
pub mod products;
mod quantized;
mod read;
pub mod shape;
mod tensor;
mod write;

pub use dyno_tensors::Element;

pub use batch::batch_obstacle;
pub use build::{BuildError, Builder, Name, Weights};
pub use count::{Cost, Layer, UncountedNode, count, count_with};
pub use fold::Constants;
pub use graph::{Attribute, Body, Model, Node, Port};
pub use quantized::in_floats;
pub use read::ReadError;
pub use shape::bodies::{FactMap, infer_inside};
pub use shape::einsum::{EquationAxes, equation_axes};
pub use shape::{Dim, Fact, ShapeError, infer};
pub use tensor::{Fill, Tensor, Values, code_of, element_of};
pub use write::{ModelFiles, WriteError};
