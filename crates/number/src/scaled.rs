//! Formats whose values are multiplied by a scale: of a tensor, a channel, or a block of some values.

use std::fmt;

use crate::codec::{Conversion, NanError, Overflow, Rounding};
use crate::format::{Format, FormatError, Special};

/// Whole numbers with a scale and a zero point, as ONNX quantises: `(code - zero_point) * scale`.
///
/// ```
/// use dyno_number::{Affine, Format};
/// // What DynamicQuantizeLinear of ONNX makes of numbers from -1 to 3.
/// let affine = Affine::covering(Format::UINT8, -1.0, 3.0)?;
/// assert_eq!((affine.scale(), affine.zero_point()), (4.0 / 255.0, 64));
/// assert_eq!(affine.encode(0.0)?, 64);
/// assert_eq!(affine.encode(99.0)?, 255, "saturates");
/// assert_eq!(affine.decode(64), 0.0, "zero is exact");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    format: Format,
    // Finite and above zero.
    scale: f32,
    // A value of the format.
    zero_point: i32,
}

impl Affine {
    /// A format of whole numbers ([`Format::INT8`] and its like), what one of them is worth, and which of
    /// them is worth zero.
    ///
    /// # Errors
    /// The format has fractions or more than 16 bits, the scale is no number above zero, or the zero point is
    /// none of the format.
    pub fn new(format: Format, scale: f32, zero_point: i32) -> Result<Self, ScaleError> {
        let is_whole = format.exponent_bits() == 0
            && format.fraction_bits() as i32 == -format.bias()
            && format.bits() <= 16;
        if !is_whole || format.fraction_bits() == 0 {
            return Err(ScaleError::Format(format));
        }
        if !(scale.is_finite() && scale > 0.0) {
            return Err(ScaleError::Scale(scale));
        }
        let (least, most) = whole_range(format);
        if !(least..=most).contains(&zero_point) {
            return Err(ScaleError::ZeroPoint { least, most, found: zero_point });
        }
        Ok(Self { format, scale, zero_point })
    }

    /// With zero at 0, and `max_abs` at the largest of the format.
    ///
    /// # Errors
    /// As [`Affine::new`]; a `max_abs` of 0 makes a scale of 1.
    pub fn symmetric(format: Format, max_abs: f32) -> Result<Self, ScaleError> {
        let scale = max_abs / format.max_value() as f32;
        Self::new(format, if max_abs == 0.0 { 1.0 } else { scale }, 0)
    }

    /// From the least to the largest of the format, so that numbers from `least` to `most`, and zero, have a
    /// place: DynamicQuantizeLinear of ONNX.
    ///
    /// # Errors
    /// As [`Affine::new`]; a range of nothing but zero makes a scale of 1.
    pub fn covering(format: Format, least: f32, most: f32) -> Result<Self, ScaleError> {
        let (least, most) = (least.min(0.0), most.max(0.0));
        let (first, last) = whole_range(format);
        let scale = (most - least) / (last - first) as f32;
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero_point = (first as f32 - least / scale).round_ties_even();
        Self::new(format, scale, (zero_point as i32).clamp(first, last))
    }

    /// What one whole number is worth.
    #[must_use]
    pub fn scale(self) -> f32 {
        self.scale
    }

    /// The whole number that is worth zero.
    #[must_use]
    pub fn zero_point(self) -> i32 {
        self.zero_point
    }

    /// The code of a number: divided by the scale, rounded to the nearest, ties to even, moved by the zero
    /// point, saturated.
    ///
    /// # Errors
    /// It is NaN.
    pub fn encode(self, x: f32) -> Result<u32, NanError> {
        let whole = f64::from((x / self.scale).round_ties_even()) + f64::from(self.zero_point);
        self.format.encode(whole)
    }

    /// What a code is worth.
    #[must_use]
    pub fn decode(self, code: u32) -> f32 {
        (self.format.decode(code) as f32 - self.zero_point as f32) * self.scale
    }

    /// Puts the format's values in place of numbers.
    ///
    /// # Errors
    /// Where the first NaN is; the numbers before it are quantised.
    pub fn quantise_slice(self, numbers: &mut [f32]) -> Result<(), NanError> {
        for (index, number) in numbers.iter_mut().enumerate() {
            let code = self.encode(*number).map_err(|error| NanError { index, ..error })?;
            *number = self.decode(code);
        }
        Ok(())
    }
}

/// The least and the largest of a format of whole numbers.
fn whole_range(format: Format) -> (i32, i32) {
    let most = format.max_value() as i32;
    let least = match format.special() {
        _ if !format.has_sign() => 0,
        Special::Complement => -most - 1,
        _ => -most,
    };
    (least, most)
}

/// A scale or a zero point that there is not.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScaleError {
    /// A format that has not whole numbers alone, of 16 bits at most.
    Format(Format),
    /// A scale that is no number above zero.
    Scale(f32),
    /// A zero point beyond the format.
    ZeroPoint {
        /// The format's least whole number.
        least: i32,
        /// Its largest.
        most: i32,
        /// What was given.
        found: i32,
    },
}

impl fmt::Display for ScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(found) => {
                write!(f, "expected whole numbers of at most 16 bits, such as int8, found {found}")
            }
            Self::Scale(found) => write!(f, "expected a scale above zero, found {found}"),
            Self::ZeroPoint { least, most, found } => {
                write!(f, "expected a zero point from {least} to {most}, found {found}")
            }
        }
    }
}

impl std::error::Error for ScaleError {}

/// Values of a format with one scale for each block of them: all of a tensor, a channel's row, or the 32 or 16
/// of the formats of the Open Compute Project and NVIDIA.
///
/// ```
/// use dyno_number::{Format, Rounding, Shared};
/// let mxfp4 = Shared::mx(Format::FP4_E2M1);
/// let mut weights = [0.1, -7.0, 0.9, 1.6];
/// mxfp4.quantise_slice(&mut weights, Rounding::NearestEven)?;
/// // 7 is beyond the largest, 6, of the scale 1 that its power of two makes.
/// assert_eq!(weights, [0.0, -6.0, 1.0, 1.5]);
/// assert_eq!(mxfp4.bits_of(64) as f64 / 64.0, 4.25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    element: Format,
    // At least 1.
    block: usize,
    scale: Scale,
}

/// What scales are, and how they are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scale {
    /// A power of two as E8M0: the one of the largest magnitude, over that of the element's largest value
    /// (Open Compute Project, "Microscaling Formats" 1.0, section 6.3). What is beyond the element's largest
    /// saturates.
    PowerOfTwo,
    /// An F32: the largest magnitude becomes the element's largest value.
    Float,
    /// An FP8 of E4M3FN, and one F32 for all, such that the largest scale is 448 (NVFP4).
    Fp8,
}

/// Numbers as codes of elements and of scales.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// One a number.
    pub codes: Vec<u32>,
    /// One a block, in [`Shared::scale_format`].
    pub scales: Vec<u32>,
    /// What all scales are multiplied with.
    pub tensor_scale: f32,
}

impl Shared {
    /// Elements of a format, so many to a block. `usize::MAX` is all of a tensor.
    ///
    /// # Panics
    /// A block of nothing.
    #[must_use]
    pub fn new(element: Format, block: usize, scale: Scale) -> Self {
        assert!(block > 0, "a block of at least one value");
        Self { element, block, scale }
    }

    /// MXFP8, MXFP6, MXFP4 or MXINT8, by the element: blocks of 32.
    #[must_use]
    pub fn mx(element: Format) -> Self {
        Self::new(element, 32, Scale::PowerOfTwo)
    }

    /// NVFP4: blocks of 16 numbers in E2M1.
    #[must_use]
    pub fn nvfp4() -> Self {
        Self::new(Format::FP4_E2M1, 16, Scale::Fp8)
    }

    /// Block floating point: sign and magnitude of so many bits, with one exponent a block.
    ///
    /// # Errors
    /// The width.
    pub fn block_floating_point(bits: u32, block: usize) -> Result<Self, FormatError> {
        Ok(Self::new(Format::fixed(bits, -1)?, block, Scale::PowerOfTwo))
    }

    /// What elements are.
    #[must_use]
    pub fn element(self) -> Format {
        self.element
    }

    /// What scales are.
    #[must_use]
    pub fn scale_format(self) -> Format {
        match self.scale {
            Scale::PowerOfTwo => Format::E8M0,
            Scale::Float => Format::F32,
            Scale::Fp8 => Format::FP8_E4M3FN,
        }
    }

    /// Bits of so many numbers, scales included.
    #[must_use]
    pub fn bits_of(self, count: usize) -> u64 {
        let blocks = count.div_ceil(self.block) as u64;
        let elements = count as u64 * u64::from(self.element.bits());
        let tensor = if self.scale == Scale::Fp8 { 32 } else { 0 };
        elements + blocks * u64::from(self.scale_format().bits()) + tensor
    }

    /// Puts the format's values in place of numbers. The last block may be short; blocks do not know of rows,
    /// whose last one would be short as well: quantise such row by row.
    ///
    /// # Errors
    /// Where the first NaN is; the blocks before it are quantised.
    pub fn quantise_slice(self, numbers: &mut [f32], rounding: Rounding) -> Result<(), NanError> {
        let how = Conversion { rounding, overflow: Overflow::Saturate };
        let tensor_scale = self.tensor_scale(numbers);
        for (at, block) in numbers.chunks_mut(self.block).enumerate() {
            let (_, scale) = self.block_scale(block, tensor_scale);
            divide(block, scale);
            let quantised = self.element.quantise_slice(block, how.at(at));
            multiply(block, scale);
            quantised.map_err(|error| self.placed(error, at))?;
        }
        Ok(())
    }

    /// Codes of numbers, and of their blocks' scales.
    ///
    /// # Errors
    /// Where the first NaN is.
    pub fn encode(self, numbers: &[f32], rounding: Rounding) -> Result<Blocks, NanError> {
        let how = Conversion { rounding, overflow: Overflow::Saturate };
        let tensor_scale = self.tensor_scale(numbers);
        let mut blocks = Blocks { codes: Vec::new(), scales: Vec::new(), tensor_scale };
        for (at, block) in numbers.chunks(self.block).enumerate() {
            let (code, scale) = self.block_scale(block, tensor_scale);
            let mut block = block.to_vec();
            divide(&mut block, scale);
            let codes = self.element.encode_slice(&block, how.at(at));
            blocks.codes.extend(codes.map_err(|error| self.placed(error, at))?);
            blocks.scales.push(code);
        }
        Ok(blocks)
    }

    /// What codes are worth.
    #[must_use]
    pub fn decode(self, blocks: &Blocks) -> Vec<f32> {
        let mut numbers = self.element.decode_slice(&blocks.codes);
        for (block, code) in numbers.chunks_mut(self.block).zip(&blocks.scales) {
            let scale = self.scale_format().decode(*code) as f32 * blocks.tensor_scale;
            multiply(block, scale);
        }
        numbers
    }

    fn placed(self, error: NanError, block: usize) -> NanError {
        NanError { index: block.saturating_mul(self.block) + error.index, ..error }
    }

    /// What all scales are multiplied with.
    fn tensor_scale(self, numbers: &[f32]) -> f32 {
        if self.scale != Scale::Fp8 {
            return 1.0;
        }
        let largest = max_abs(numbers);
        let scale = largest / (Format::FP8_E4M3FN.max_value() * self.element.max_value()) as f32;
        if scale == 0.0 { 1.0 } else { scale }
    }

    /// The code of a block's scale, and what it is worth.
    fn block_scale(self, block: &[f32], tensor_scale: f32) -> (u32, f32) {
        let (largest, most) = (max_abs(block), self.element.max_value());
        let scale = match self.scale {
            Scale::PowerOfTwo => {
                // Of denormals too: as `f64`, they are none. Zeros have the least scale.
                let exponent = |x: f64| (x.to_bits() >> 52) as i32 - 1023;
                let power = exponent(f64::from(largest)) - exponent(most);
                2.0_f64.powi(power.clamp(-127, 127))
            }
            Scale::Float if largest == 0.0 => 1.0,
            // Not 0 of denormals.
            Scale::Float => (f64::from(largest) / most).max(f64::from(f32::MIN_POSITIVE)),
            Scale::Fp8 => f64::from(largest) / most / f64::from(tensor_scale),
        };
        let format = self.scale_format();
        let how = Conversion { overflow: Overflow::Saturate, ..Conversion::default() };
        let code = format.encode_with(scale, how).expect("scales are of numbers");
        (code, format.decode(code) as f32 * tensor_scale)
    }
}

/// Divides by a scale; of a scale of 0, which a block far below the others has, all are 0.
fn divide(block: &mut [f32], scale: f32) {
    for x in block {
        // NaN stays, to be told.
        *x = if scale == 0.0 { *x * 0.0 } else { *x / scale };
    }
}

/// Multiplies by a scale; numbers stay numbers, though a scale was rounded up.
fn multiply(block: &mut [f32], scale: f32) {
    for x in block {
        let y = *x * scale;
        *x = if x.is_finite() { y.clamp(f32::MIN, f32::MAX) } else { y };
    }
}

/// The largest magnitude, of infinity that of the largest number; NaN does not count.
fn max_abs(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs())).min(f32::MAX)
}

#[cfg(test)]
mod tests;
