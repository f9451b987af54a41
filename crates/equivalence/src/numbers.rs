//! The numbers of one weight, each read from the bytes of the file when it is asked for.

use std::borrow::Cow;

use dyno_onnx::{Element, ReadError, Tensor, Values};
use half::{bf16, f16};

use super::grain::{Affine, Grain};
use super::small::Small;

/// A weight's numbers.
#[derive(Debug)]
pub struct Numbers<'a> {
    pub shape: Vec<usize>,
    held: Held<'a>,
}

#[derive(Debug)]
enum Held<'a> {
    Plain(Bytes<'a>),
    /// Each slice along the first dimension times a factor.
    Scaled(Bytes<'a>, &'a [f32]),
    /// Numbers that stand in no file, and the greatest of those that they are the sums of.
    Made(&'a [f32], f32),
    Codes(Codes<'a>),
}

/// Codes and what they stand for.
#[derive(Debug)]
pub struct Codes<'a> {
    bytes: Bytes<'a>,
    packing: Packing,
    pub affine: Affine,
}

/// How codes lie in their tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Each is an element.
    Elements,
    /// They are made of numbers when the graph is executed.
    Rounded,
    /// Several a byte, the first in its lowest bits, as `MatMulNBits` has them.
    Bits { bits: usize, columns: usize, row_bytes: usize },
}

/// The elements of a tensor as they are in the file.
#[derive(Debug)]
pub struct Bytes<'a> {
    tensor: Cow<'a, Tensor>,
}

impl<'a> Bytes<'a> {
    /// Loads them, if they are in a file of their own.
    ///
    /// # Errors
    /// That file cannot be read, or the tensor is cut short.
    pub fn of(tensor: &'a Tensor) -> Result<Self, ReadError> {
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
        let (name, shape) = (bytes.tensor.name.clone(), &bytes.tensor.shape);
        let why = format!("expected {} bytes for the shape {shape:?}", bytes.tensor.bytes());
        Err(ReadError::Tensor { name, why })
    }

    /// Row by row.
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

    /// A whole number.
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
            // The sign is the fourth bit.
            Element::I4 => i64::from((self.nibble(index) << 4).cast_signed() >> 4),
            Element::F32 | Element::F64 | Element::F16 | Element::BF16 | Element::F8E8M0 => {
                self.number(index) as i64
            }
            Element::F4E2M1 => Small::F4E2M1.units(self.nibble(index)),
            Element::F8E4M3 => Small::F8E4M3.units(self.all()[index]),
            Element::F8E4M3Fnuz => Small::F8E4M3Fnuz.units(self.all()[index]),
            Element::F8E5M2 => Small::F8E5M2.units(self.all()[index]),
            Element::F8E5M2Fnuz => Small::F8E5M2Fnuz.units(self.all()[index]),
        }
    }

    fn pair(&self, index: usize) -> u8 {
        self.all()[index / 4] >> (index % 4 * 2) & 3
    }

    fn nibble(&self, index: usize) -> u8 {
        self.all()[index / 2] >> (index % 2 * 4) & 15
    }

    /// A floating-point number, or a whole one as such.
    pub fn number(&self, index: usize) -> f32 {
        match self.tensor.element {
            Element::F32 => f32::from_le_bytes(self.array(index)),
            Element::F64 => f64::from_le_bytes(self.array(index)) as f32,
            Element::F16 => f16::from_le_bytes(self.array(index)).to_f32(),
            Element::BF16 => bf16::from_le_bytes(self.array(index)).to_f32(),
            // A power of two.
            Element::F8E8M0 => (f32::from(self.all()[index]) - 127.0).exp2(),
            element => match Small::of(element) {
                Some(small) => small.value(self.integer(index)),
                None => self.integer(index) as f32,
            },
        }
    }

    /// All as floating-point numbers.
    pub fn numbers(&self) -> Vec<f32> {
        (0..self.len()).map(|index| self.number(index)).collect()
    }

    fn grain(&self) -> Grain {
        match self.tensor.element {
            Element::F16 => Grain::F16,
            Element::BF16 => Grain::Bf16,
            element => Small::of(element).map_or(Grain::F32, Grain::Small),
        }
    }
}

impl Codes<'_> {
    /// The code of an element.
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

/// Roundings that go into a product: of both factors, of what one of them is made of.
const STEPS: f32 = 4.0;

/// A number of less than 9 bits; rows begin at a byte.
pub fn packed(bytes: &[u8], bits: usize, columns: usize, row_bytes: usize, index: usize) -> u8 {
    let (row, bit) = (index / columns, index % columns * bits);
    let byte = bytes.get(row * row_bytes + bit / 8).copied().unwrap_or_default();
    let mask = if bits >= 8 { 255 } else { (1_u8 << bits) - 1 };
    byte >> (bit % 8) & mask
}

impl<'a> Numbers<'a> {
    pub fn plain(shape: Vec<usize>, bytes: Bytes<'a>) -> Self {
        Self { shape, held: Held::Plain(bytes) }
    }

    pub fn scaled(shape: Vec<usize>, bytes: Bytes<'a>, factors: &'a [f32]) -> Self {
        Self { shape, held: Held::Scaled(bytes, factors) }
    }

    pub fn made(shape: Vec<usize>, values: &'a [f32], of: f32) -> Self {
        Self { shape, held: Held::Made(values, of) }
    }

    pub fn codes(
        shape: Vec<usize>,
        bytes: Bytes<'a>,
        packing: Packing,
        affine: Affine,
    ) -> Option<Self> {
        let numbers = Self { shape, held: Held::Codes(Codes { bytes, packing, affine }) };
        let Held::Codes(Codes { bytes, packing, affine }) = &numbers.held else { return None };
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

    /// The number at a place, row by row.
    pub fn value(&self, index: usize) -> f32 {
        match &self.held {
            Held::Plain(bytes) => bytes.number(index),
            Held::Scaled(bytes, factors) => {
                let slice = (bytes.len() / factors.len().max(1)).max(1);
                bytes.number(index) * factors.get(index / slice).copied().unwrap_or(1.0)
            }
            Held::Made(values, _) => values[index],
            Held::Codes(codes) => codes.value(index),
        }
    }

    /// The codes, if it has any.
    pub fn as_codes(&self) -> Option<&Codes<'a>> {
        match &self.held {
            Held::Codes(codes) => Some(codes),
            _ => None,
        }
    }

    /// Which numbers it can have, if none are codes.
    pub fn grain(&self) -> Option<Grain> {
        match &self.held {
            Held::Plain(bytes) => Some(bytes.grain()),
            Held::Scaled(..) | Held::Made(..) => Some(Grain::Computed),
            Held::Codes(_) => None,
        }
    }

    /// What rounding to the nearest of its numbers changes at most.
    pub fn half_step(&self, index: usize, value: f32) -> f32 {
        match &self.held {
            Held::Codes(codes) => codes.affine.half_step(index, value),
            _ => self.grain().map_or(0.0, |grain| grain.half_step(value)),
        }
    }

    /// What the calculations that made its numbers leave open, where those of `own` are
    /// the results: each step of them may have rounded.
    pub fn slack(&self, own: &Self, value: f32) -> f32 {
        let of = match &self.held {
            Held::Scaled(..) => value,
            Held::Made(_, greatest) => *greatest,
            _ => return 0.0,
        };
        let computed = Grain::Computed.half_step(of);
        match own.grain() {
            Some(grain @ (Grain::F16 | Grain::Bf16)) => computed + STEPS * grain.half_step(of),
            _ => computed,
        }
    }

    /// Elements that are not 0.
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
            let bytes = Bytes::of(tensor).unwrap();
            (0..bytes.len()).map(|index| bytes.integer(index)).collect::<Vec<_>>()
        };
        // The first of a pair is the lower half; the last byte is half empty.
        assert_eq!(all(&of(Element::I4, vec![0x87, 0x0f], 3)), [7, -8, -1]);
        assert_eq!(all(&of(Element::U4, vec![0x87, 0x0f], 3)), [7, 8, 15]);
        let two = |index| packed(&[0b11_10_01_00, 0b10, 0xff, 0xff], 2, 5, 2, index);
        assert_eq!([0, 1, 2, 3, 4, 5].map(two), [0, 1, 2, 3, 2, 3]);
        assert_eq!(packed(&[7, 200], 8, 2, 2, 1), 200);
        assert!(Bytes::of(&of(Element::I4, vec![0], 3)).is_err());
    }
}
