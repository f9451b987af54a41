//! Tensors of a file: what they hold, or how it is made.

use std::path::PathBuf;

use dyno_tensors::Element;

/// Numbers of `TensorProto.DataType`; strings and complex numbers are left out.
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

/// Returns the type of this number in `TensorProto.DataType`; `None` for strings and complex numbers.
///
/// ```
/// use dyno_onnx::{Element, code_of, element_of};
///
/// assert_eq!(element_of(10), Some(Element::F16));
/// assert_eq!(code_of(Element::F16), 10);
/// ```
#[must_use]
pub fn element_of(code: i32) -> Option<Element> {
    CODES.into_iter().find(|(known, _)| *known == code).map(|(_, element)| element)
}

/// Returns the number of a type in `TensorProto.DataType`.
#[must_use]
pub fn code_of(element: Element) -> i32 {
    let code = CODES.into_iter().find(|(_, known)| *known == element).map(|(code, _)| code);
    code.expect("ONNX has every type of elements")
}

/// A tensor that a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// What nodes call it.
    pub name: String,
    /// Of its elements.
    pub element: Element,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its elements.
    pub values: Values,
}

/// Elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Little-endian, in row-major order.
    Bytes(Vec<u8>),
    /// Of float32, made while the file is written.
    Filled(Fill, u64),
    /// In another file, which has not been looked at.
    External {
        /// The file.
        path: PathBuf,
        /// Of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// How seeded weights are distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fill {
    /// All the same.
    Constant(f32),
    /// Evenly between minus and plus this.
    Uniform(f32),
}

impl Fill {
    /// Keeps the variance of activations through a layer with so many inputs to
    /// each output, followed by a ReLU (He et al. 2015).
    #[must_use]
    pub fn he(inputs: usize) -> Self {
        Self::Uniform((6.0 / inputs.max(1) as f32).sqrt())
    }

    /// Keeps the variance through a layer that no ReLU follows.
    #[must_use]
    pub fn even(inputs: usize) -> Self {
        Self::Uniform((3.0 / inputs.max(1) as f32).sqrt())
    }
}

impl Tensor {
    /// Of whole numbers, such as a shape.
    #[must_use]
    pub fn of_i64(name: impl Into<String>, shape: &[usize], values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, shape) = (name.into(), shape.to_vec());
        Self { name, element: Element::I64, shape, values: Values::Bytes(bytes) }
    }

    /// Of floating-point numbers.
    #[must_use]
    pub fn of_f32(name: impl Into<String>, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, shape) = (name.into(), shape.to_vec());
        Self { name, element: Element::F32, shape, values: Values::Bytes(bytes) }
    }

    /// Number of elements; saturates.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1_u64, |product, &n| product.saturating_mul(n as u64))
    }

    /// Size of all elements.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.element.bytes_of(self.elements())
    }

    /// The elements, if they are few whole numbers and here.
    #[must_use]
    pub fn integers(&self) -> Option<Vec<i64>> {
        const FEW: u64 = 4096;
        let Values::Bytes(bytes) = &self.values else { return None };
        if self.elements() > FEW || bytes.len() as u64 != self.bytes() {
            return None;
        }
        let four = |part: &[u8]| part.try_into().map(i32::from_le_bytes).ok().map(i64::from);
        let eight = |part: &[u8]| part.try_into().map(i64::from_le_bytes).ok();
        match self.element {
            Element::I64 => bytes.chunks_exact(8).map(eight).collect(),
            Element::I32 => bytes.chunks_exact(4).map(four).collect(),
            // Factors of a resize are such numbers.
            Element::F32 => {
                let whole = |value: f32| (value.fract() == 0.0).then_some(value as i64);
                self.floats()?.into_iter().map(whole).collect()
            }
            Element::Bool | Element::U8 => Some(bytes.iter().map(|&byte| byte.into()).collect()),
            _ => None,
        }
    }

    /// The elements, if they are float32 and here.
    #[must_use]
    pub fn floats(&self) -> Option<Vec<f32>> {
        let Values::Bytes(bytes) = &self.values else { return None };
        let float = |part: &[u8]| part.try_into().map(f32::from_le_bytes).ok();
        (self.element == Element::F32).then(|| bytes.chunks_exact(4).map(float).collect())?
    }
}

/// Where the random numbers of one tensor begin: its name and the seed of all.
pub fn seed_of(name: &str, seed: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, mix)
}

/// Elements of a filled tensor from a state on, two of each random number.
pub fn fill(fill: Fill, state: &mut u64, bytes: &mut [u8]) {
    let Fill::Uniform(bound) = fill else {
        let Fill::Constant(value) = fill else { return };
        bytes.chunks_exact_mut(4).for_each(|to| to.copy_from_slice(&value.to_le_bytes()));
        return;
    };
    for pair in bytes.chunks_mut(8) {
        let random = next(state);
        for (to, bits) in pair.chunks_exact_mut(4).zip([random as u32, (random >> 32) as u32]) {
            // 24 bits are what a float32 holds exactly.
            let unit = (bits >> 8) as f32 / (1 << 23) as f32 - 1.0;
            to.copy_from_slice(&(unit * bound).to_le_bytes());
        }
    }
}

/// SplitMix64 of Steele, Lea and Flood.
fn next(state: &mut u64) -> u64 {
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
    fn every_type_of_elements_has_a_number_of_its_own() {
        for element in Element::ALL {
            assert_eq!(element_of(code_of(*element)), Some(*element));
        }
        // Strings and complex numbers.
        assert_eq!([8, 14, 15].map(element_of), [None; 3]);
    }
}
