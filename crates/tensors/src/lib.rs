//! Tensors: types of elements, arrays of them, and readers of the files that hold them; bounded reading of
//! all files that users name.
//!
//! Bottom of the workspace: it depends on none of our crates. [`Element`] is the type of an element
//! wherever a tensor appears. [`Elements`] are numbers of Rust, of the types that models take.
//!
//! ```
//! use dyno_tensors::{Element, Elements};
//!
//! let halves = Elements::read(Element::F16, &[0x00, 0x3c, 0x00, 0xc0]).unwrap();
//! assert_eq!(&*halves.to_f32(), [1.0, -2.0]);
//! assert_eq!(halves.element().name(), "float16");
//! ```
#![forbid(unsafe_code)]

mod element;
mod elements;
pub mod files;
mod halves;
pub mod npy;
pub mod npz;
pub mod pickle;
pub mod safetensors;

pub use element::Element;
pub use elements::{Elements, Scalar};
pub use halves::{nearest_bf16, nearest_f16};
pub use safetensors::View;
