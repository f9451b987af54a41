//! The numbers of one weight, read from the bytes of the file on demand.

use std::borrow::Cow;

use dyno_onnx::{Element, ReadError, Tensor, Values};
use half::{bf16, f16};

use super::grain::{Affine, Grain};
use super::small::SmallFloat;

/// Numbers of a weight.
#[derive(Debug)]
pub struct Numbers<'a> {
    pub shape: Vec<usize>,
    storage: Storage<'a>,
}

#[derive(Debug)]
enum Storage<'a> {
    Plain(Bytes<'a>),
    /// Each slice along the first dimension is multiplied by a factor.
    Scaled(Bytes<'a>, &'a [f32]),
    /// Computed numbers, and the greatest of those that were summed in them.
    Made(&'a [f32], f32),
    Codes(Codes<'a>),
}

/// Codes with their scales and zero points.
#[derive(Debug)]
pub struct Codes<'a> {
    bytes: Bytes<'a>,
    packing: Packing,
    pub affine: Affine,
}

/// How codes are stored in their tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// One code per element.
    Elements,
    /// The graph computes them from numbers during execution.
    Rounded,
    /// Several per byte, the first in the lowest bits, as in `MatMulNBits`.
    Bits { bits: usize, columns: usize, row_bytes: usize },
}

/// Elements of a tensor as stored in the file.
#[derive(Debug)]
pub struct Bytes<'a> {
    tensor: Cow<'a, Tensor>,
}

impl<'a> Bytes<'a> {
    /// Loads the elements if they are in a separate file.
    ///
    /// # Errors
    /// The file cannot be read, or the tensor is truncated.
    pub fn load(tensor: &'a Tensor) -> Result<Self, ReadError> {
        let tensor = match tensor.values {
            Values::Bytes(_) => Cow::Borrowed(tensor),
            _ => {
                let mut loaded = tensor.clone();
                loaded.load()?;
                Cow::Owned(loaded)
            }
        };
        let bytes = Self { tensor };
        if bytes.all().len() as u64 == bytes.tensor.bytes() {
            return Ok(bytes);
        }
        let name = bytes.tensor.name.clone();
        let shape = &bytes.tensor.shape;
        let reason = format!("expected {} bytes for the shape {shape:?}", bytes.tensor.bytes());
        Err(ReadError::Tensor { name, reason })
    }

    /// All bytes, row by row.
    pub fn all(&self) -> &[u8] {
        match &self.tensor.values {
            Values::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    pub fn len(&self) -> usize {
        self.tensor.elements() as usize
    }

    fn array<const N: usize>(&self, index: usize) -> [u8; N] {
        self.all().as_chunks().0[index]
    }

    /// Reads an integer.
    pub fn integer(&self, index: usize) -> i64 {
        match self.tensor.element {
            Element::I8 => self.all()[index].cast_signed().into(),
            Element::U8 | Element::Bool => self.all()[index].into(),
            Element::I16 => i16::from_le_bytes(self.array(index)).into(),
            Element::U16 => u16::from_le_bytes(self.array(index)).into(),
            Element::I32 => i32::from_le_bytes(self.array(index)).into(),
            Element::U32 => u32::from_le_bytes(self.array(index)).into(),
            Element::I64 => i64::from_le_bytes(self.array(index)),
            Element::U64 => u64::from_le_bytes(self.array(index)).cast_signed(),
            Element::U2 => i64::from(self.pair(index)),
            Element::I2 => i64::from((self.pair(index) << 6).cast_signed() >> 6),
            Element::U4 => i64::from(self.nibble(index)),
            // The fourth bit is the sign.
            Element::I4 => i64::from((self.nibble(index) << 4).cast_signed() >> 4),
            Element::F32 | Element::F64 | Element::F16 | Element::BF16 | Element::F8E8M0 => {
                self.number(index) as i64
            }
            Element::F4E2M1 => SmallFloat::F4E2M1.units(self.nibble(index)),
            Element::F8E4M3 => SmallFloat::F8E4M3.units(self.all()[index]),
            Element::F8E4M3Fnuz => SmallFloat::F8E4M3Fnuz.units(self.all()[index]),
            Element::F8E5M2 => SmallFloat::F8E5M2.units(self.all()[index]),
            Element::F8E5M2Fnuz => SmallFloat::F8E5M2Fnuz.units(self.all()[index]),
        }
    }

    fn pair(&self, index: usize) -> u8 {
        self.all()[index / 4] >> (index % 4 * 2) & 3
    }

    fn nibble(&self, index: usize) -> u8 {
        self.all()[index / 2] >> (index % 2 * 4) & 15
    }

    /// Reads a floating-point number; integers are converted.
    pub fn number(&self, index: usize) -> f32 {
        match self.tensor.element {
            Element::F32 => f32::from_le_bytes(self.array(index)),
            Element::F64 => f64::from_le_bytes(self.array(index)) as f32,
            Element::F16 => f16::from_le_bytes(self.array(index)).to_f32(),
            Element::BF16 => bf16::from_le_bytes(self.array(index)).to_f32(),
            // A power of two.
            Element::F8E8M0 => (f32::from(self.all()[index]) - 127.0).exp2(),
            element => match SmallFloat::from_element(element) {
                Some(small) => small.value(self.integer(index)),
                None => self.integer(index) as f32,
            },
        }
    }

    /// Reads all elements as floating-point numbers.
    pub fn numbers(&self) -> Vec<f32> {
        (0..self.len()).map(|index| self.number(index)).collect()
    }

    fn grain(&self) -> Grain {
        match self.tensor.element {
            Element::F16 => Grain::F16,
            Element::BF16 => Grain::Bf16,
            element => SmallFloat::from_element(element).map_or(Grain::F32, Grain::Small),
        }
    }
}

impl Codes<'_> {
    /// Code of an element.
    pub fn code(&self, index: usize) -> i64 {
        match self.packing {
            Packing::Elements => self.bytes.integer(index),
            Packing::Rounded => self.affine.code(index, self.bytes.number(index)),
            Packing::Bits { bits, columns, row_bytes } => {
                packed(self.bytes.all(), bits, columns, row_bytes, index).into()
            }
        }
    }

    fn value(&self, index: usize) -> f32 {
        self.affine.value(index, self.code(index))
    }
}

/// Roundings in a product: those of both factors, and those in the computation of one.
const STEPS: f32 = 4.0;

/// Returns a number of less than 9 bits from rows that begin at byte boundaries.
pub fn packed(bytes: &[u8], bits: usize, columns: usize, row_bytes: usize, index: usize) -> u8 {
    let row = index / columns;
    let bit = index % columns * bits;
    let byte = bytes.get(row * row_bytes + bit / 8).copied().unwrap_or_default();
    let mask = if bits >= 8 { 255 } else { (1_u8 << bits) - 1 };
    byte >> (bit % 8) & mask
}

impl<'a> Numbers<'a> {
    pub fn plain(shape: Vec<usize>, bytes: Bytes<'a>) -> Self {
        Self { shape, storage: Storage::Plain(bytes) }
    }

    pub fn scaled(shape: Vec<usize>, bytes: Bytes<'a>, factors: &'a [f32]) -> Self {
        Self { shape, storage: Storage::Scaled(bytes, factors) }
    }

    pub fn from_values(shape: Vec<usize>, values: &'a [f32], greatest: f32) -> Self {
        Self { shape, storage: Storage::Made(values, greatest) }
    }

    pub fn codes(
        shape: Vec<usize>,
        bytes: Bytes<'a>,
        packing: Packing,
        affine: Affine,
    ) -> Option<Self> {
        let numbers = Self { shape, storage: Storage::Codes(Codes { bytes, packing, affine }) };
        let Storage::Codes(Codes { bytes, packing, affine }) = &numbers.storage else {
            return None;
        };
        let is_whole = match packing {
            Packing::Elements | Packing::Rounded => bytes.len() == numbers.len(),
            Packing::Bits { columns, row_bytes, .. } => {
                numbers.len() / (*columns).max(1) * row_bytes <= bytes.all().len()
            }
        };
        (is_whole && affine.fits(numbers.len())).then_some(numbers)
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number at a position, row by row.
    pub fn value(&self, index: usize) -> f32 {
        match &self.storage {
            Storage::Plain(bytes) => bytes.number(index),
            Storage::Scaled(bytes, factors) => {
                let slice = (bytes.len() / factors.len().max(1)).max(1);
                bytes.number(index) * factors.get(index / slice).copied().unwrap_or(1.0)
            }
            Storage::Made(values, _) => values[index],
            Storage::Codes(codes) => codes.value(index),
        }
    }

    /// Codes, if there are any.
    pub fn as_codes(&self) -> Option<&Codes<'a>> {
        match &self.storage {
            Storage::Codes(codes) => Some(codes),
            _ => None,
        }
    }

    /// Set of possible numbers, if there are no codes.
    pub fn grain(&self) -> Option<Grain> {
        match &self.storage {
            Storage::Plain(bytes) => Some(bytes.grain()),
            Storage::Scaled(..) | Storage::Made(..) => Some(Grain::Computed),
            Storage::Codes(_) => None,
        }
    }

    /// Largest error of rounding to the nearest possible number.
    pub fn half_step(&self, index: usize, value: f32) -> f32 {
        match &self.storage {
            Storage::Codes(codes) => codes.affine.half_step(index, value),
            _ => self.grain().map_or(0.0, |grain| grain.half_step(value)),
        }
    }

    /// Uncertainty from the computations that produced the numbers, if those of `own` are the
    /// results: each of their steps may have rounded.
    pub fn slack(&self, own: &Self, value: f32) -> f32 {
        let reference = match &self.storage {
            Storage::Scaled(..) => value,
            Storage::Made(_, greatest) => *greatest,
            _ => return 0.0,
        };
        let computed = Grain::Computed.half_step(reference);
        match own.grain() {
            Some(grain @ (Grain::F16 | Grain::Bf16)) => {
                computed + STEPS * grain.half_step(reference)
            }
            _ => computed,
        }
    }

    /// Number of nonzero elements.
    pub fn non_zero(&self) -> u64 {
        (0..self.len()).filter(|&index| self.value(index) != 0.0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_less_than_a_byte_are_read() {
        let of = |element, bytes: Vec<u8>, len| Tensor {
            name: "codes".into(),
            element,
            shape: vec![len],
            values: Values::Bytes(bytes),
        };
        let all = |tensor: &Tensor| {
            let bytes = Bytes::load(tensor).unwrap();
            (0..bytes.len()).map(|index| bytes.integer(index)).collect::<Vec<_>>()
        };
        // The first of a pair is the lower half; the last byte is half empty.
        assert_eq!(all(&of(Element::I4, vec![0x87, 0x0f], 3)), [7, -8, -1]);
        assert_eq!(all(&of(Element::U4, vec![0x87, 0x0f], 3)), [7, 8, 15]);
        let two = |index| packed(&[0b11_10_01_00, 0b10, 0xff, 0xff], 2, 5, 2, index);
        assert_eq!([0, 1, 2, 3, 4, 5].map(two), [0, 1, 2, 3, 2, 3]);
        assert_eq!(packed(&[7, 200], 8, 2, 2, 1), 200);
        assert!(Bytes::load(&of(Element::I4, vec![0], 3)).is_err());
    }
}
