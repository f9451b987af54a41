//! Tensors of a model: weights and other constants.
//!
//! The elements of a [`Tensor`] are in memory, in another file, or generated from a seed.

use std::path::PathBuf;

use dyno_tensors::Element;

/// Types by their numbers in `TensorProto.DataType`, without strings and complex numbers.
const CODES: [(i32, Element); 23] = [
    (1, Element::F32),
    (2, Element::U8),
    (3, Element::I8),
    (4, Element::U16),
    (5, Element::I16),
    (6, Element::I32),
    (7, Element::I64),
    (9, Element::Bool),
    (10, Element::F16),
    (11, Element::F64),
    (12, Element::U32),
    (13, Element::U64),
    (16, Element::BF16),
    (17, Element::F8E4M3),
    (18, Element::F8E4M3Fnuz),
    (19, Element::F8E5M2),
    (20, Element::F8E5M2Fnuz),
    (21, Element::U4),
    (22, Element::I4),
    (23, Element::F4E2M1),
    (24, Element::F8E8M0),
    (25, Element::U2),
    (26, Element::I2),
];

/// Returns the type with this number in `TensorProto.DataType`, or `None` for strings, complex
/// numbers and unknown numbers.
///
/// ```
/// use dyno_onnx::{Element, code_of, element_of};
///
/// assert_eq!(element_of(10), Some(Element::F16));
/// assert_eq!(code_of(Element::F16), 10);
/// ```
pub fn element_of(code: i32) -> Option<Element> {
    CODES.into_iter().find(|(known, _)| *known == code).map(|(_, element)| element)
}

/// Returns the number of a type in `TensorProto.DataType`.
pub fn code_of(element: Element) -> i32 {
    let code = CODES.into_iter().find(|(_, known)| *known == element).map(|(code, _)| code);
    code.expect("ONNX has every type of elements")
}

/// A weight or another constant of a model.
///
/// ```
/// use dyno_onnx::Tensor;
///
/// let tensor = Tensor::from_f32("bias", &[2], &[0.5, -2.0]);
/// assert_eq!((tensor.elements(), tensor.bytes()), (2, 8));
/// assert_eq!(tensor.floats(), Some(vec![0.5, -2.0]));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Name of its value in the graph; may be empty in an attribute.
    pub name: String,
    /// Type of the elements.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Elements.
    pub values: Values,
}

/// Elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Elements in memory: little-endian, in row-major order.
    Bytes(Vec<u8>),
    /// Elements of float32 that are generated when the model is written: their distribution, and
    /// the initial state of the random numbers.
    Filled(Fill, u64),
    /// Elements in another file. The file is not opened before [`Tensor::load`].
    External {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the first byte in the file.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// Distribution of generated weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fill {
    /// One value for all elements.
    Constant(f32),
    /// Uniform between minus and plus this bound.
    Uniform(f32),
}

impl Fill {
    /// Returns the distribution that keeps the variance of activations through a layer that is
    /// followed by a ReLU. `inputs` is the number of inputs of each output.
    ///
    /// Source: He et al., "Delving Deep into Rectifiers", 2015.
    pub fn he(inputs: usize) -> Self {
        Self::Uniform((6.0 / inputs.max(1) as f32).sqrt())
    }

    /// Returns the distribution that keeps the variance of activations through a layer that no
    /// ReLU follows. `inputs` is the number of inputs of each output.
    ///
    /// Source: LeCun et al., "Efficient BackProp", 1998.
    ///
    /// ```
    /// use dyno_onnx::Fill;
    ///
    /// assert_eq!(Fill::lecun(12), Fill::Uniform(0.5));
    /// ```
    pub fn lecun(inputs: usize) -> Self {
        Self::Uniform((3.0 / inputs.max(1) as f32).sqrt())
    }
}

impl Tensor {
    /// Returns a tensor of int64, such as a shape.
    pub fn from_i64(name: impl Into<String>, shape: &[usize], values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, shape) = (name.into(), shape.to_vec());
        Self { name, element: Element::I64, shape, values: Values::Bytes(bytes) }
    }

    /// Returns a tensor of float32.
    pub fn from_f32(name: impl Into<String>, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, shape) = (name.into(), shape.to_vec());
        Self { name, element: Element::F32, shape, values: Values::Bytes(bytes) }
    }

    /// Returns the number of elements; saturates.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1_u64, |product, &n| product.saturating_mul(n as u64))
    }

    /// Returns the size of all elements in bytes.
    pub fn bytes(&self) -> u64 {
        self.element.bytes_of(self.elements())
    }

    /// Returns the elements if they are integers of at most 32 bits in memory, of 4 bits and more.
    pub fn whole(&self) -> Option<Vec<i64>> {
        let Values::Bytes(bytes) = &self.values else { return None };
        let count = usize::try_from(self.elements()).ok()?;
        if bytes.len() as u64 != self.bytes() {
            return None;
        }
        let half = |at: usize| i64::from(bytes[at / 2] >> (at % 2 * 4) & 15);
        Some(match self.element {
            Element::U4 => (0..count).map(half).collect(),
            Element::I4 => (0..count).map(|at| (half(at) ^ 8) - 8).collect(),
            Element::I8 | Element::U8 | Element::I16 | Element::U16 | Element::I32 => {
                let size = self.element.bits() / 8;
                bytes.chunks_exact(size).map(|part| self.element.whole(part)).collect()
            }
            _ => return None,
        })
    }

    /// Returns the elements if they are at most 4096 integers in memory: int64, bool, those of
    /// [`Tensor::whole`], or float32 without fractions.
    pub fn integers(&self) -> Option<Vec<i64>> {
        const MAX_ELEMENTS: u64 = 4096;
        let Values::Bytes(bytes) = &self.values else { return None };
        if self.elements() > MAX_ELEMENTS || bytes.len() as u64 != self.bytes() {
            return None;
        }
        let eight = |part: &[u8]| part.try_into().map(i64::from_le_bytes).ok();
        match self.element {
            Element::I64 => bytes.chunks_exact(8).map(eight).collect(),
            // The scales of a `Resize` are integers of type float32.
            Element::F32 => {
                let integer = |value: f32| (value.fract() == 0.0).then_some(value as i64);
                self.floats()?.into_iter().map(integer).collect()
            }
            Element::Bool => Some(bytes.iter().map(|&byte| byte.into()).collect()),
            _ => self.whole(),
        }
    }

    /// Returns the elements if they are float32 in memory.
    pub fn floats(&self) -> Option<Vec<f32>> {
        let Values::Bytes(bytes) = &self.values else { return None };
        let float = |part: &[u8]| part.try_into().map(f32::from_le_bytes).ok();
        (self.element == Element::F32).then(|| bytes.chunks_exact(4).map(float).collect())?
    }
}

/// Returns the initial state of the random numbers of one tensor. It depends on the name of the
/// tensor and the seed of the model.
pub fn seed_of(name: &str, seed: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, mix)
}

/// Generates elements of float32 until `bytes` is full, two from each random number. A tensor may be
/// generated in several calls if each but the last one fills a multiple of 8 bytes.
pub fn fill(fill: Fill, state: &mut u64, bytes: &mut [u8]) {
    let Fill::Uniform(bound) = fill else {
        let Fill::Constant(value) = fill else { return };
        bytes.chunks_exact_mut(4).for_each(|to| to.copy_from_slice(&value.to_le_bytes()));
        return;
    };
    for pair in bytes.chunks_mut(8) {
        let random = next_random(state);
        for (to, bits) in pair.chunks_exact_mut(4).zip([random as u32, (random >> 32) as u32]) {
            // A float32 represents integers of 24 bits exactly.
            let unit = (bits >> 8) as f32 / (1 << 23) as f32 - 1.0;
            to.copy_from_slice(&(unit * bound).to_le_bytes());
        }
    }
}

/// Returns the next random number.
///
/// Source: SplitMix64 of Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
/// 2014.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_widths_are_whole() {
        let whole = |element, shape: &[usize], bytes: &[u8]| {
            let values = Values::Bytes(bytes.to_vec());
            Tensor { element, values, ..Tensor::from_f32("x", shape, &[]) }.whole()
        };
        assert_eq!(whole(Element::I4, &[3], &[0x8f, 7]), Some(vec![-1, -8, 7]));
        assert_eq!(whole(Element::U4, &[2], &[0x8f]), Some(vec![15, 8]));
        assert_eq!(whole(Element::I16, &[1], &[0xfe, 0xff]), Some(vec![-2]));
        assert_eq!(whole(Element::I8, &[2], &[1]), None);
        assert_eq!(whole(Element::F16, &[1], &[0, 0]), None);
    }

    #[test]
    fn every_type_of_elements_has_a_number_of_its_own() {
        for element in Element::ALL {
            assert_eq!(element_of(code_of(*element)), Some(*element));
        }
        // Codes of strings and complex numbers.
        assert_eq!([8, 14, 15].map(element_of), [None; 3]);
    }
}
