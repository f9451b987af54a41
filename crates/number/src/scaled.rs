//! Formats whose values are multiplied by a scale per tensor, channel or block of values.

use thiserror::Error;

use crate::codec::{Conversion, NanError, Overflow, Rounding};
use crate::format::{Format, FormatError, Special};

/// Integers with a scale and a zero point, as ONNX quantizes: `(code - zero_point) * scale`.
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
    /// Creates a format of integers, such as [`Format::INT8`], with the scale of one integer and
    /// the integer that stands for zero.
    ///
    /// # Errors
    /// The format has fractions or more than 16 bits, the scale is not a finite number above zero,
    /// or the format does not contain the zero point.
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

    /// Creates a symmetric range: the zero point is 0, and `max_abs` becomes the largest integer. A
    /// `max_abs` of 0 gives a scale of 1.
    ///
    /// # Errors
    /// As for [`Affine::new`].
    pub fn symmetric(format: Format, max_abs: f32) -> Result<Self, ScaleError> {
        let scale = max_abs / format.max_value() as f32;
        Self::new(format, if max_abs == 0.0 { 1.0 } else { scale }, 0)
    }

    /// Creates the range from `least` to `most`, extended to include zero, as DynamicQuantizeLinear
    /// of ONNX does. A range that contains only zero gets a scale of 1.
    ///
    /// # Errors
    /// As for [`Affine::new`].
    pub fn covering(format: Format, least: f32, most: f32) -> Result<Self, ScaleError> {
        let (least, most) = (least.min(0.0), most.max(0.0));
        let (first, last) = whole_range(format);
        let scale = (most - least) / (last - first) as f32;
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero_point = (first as f32 - least / scale).round_ties_even();
        Self::new(format, scale, (zero_point as i32).clamp(first, last))
    }

    /// Returns the scale, the distance of two adjacent values.
    pub fn scale(self) -> f32 {
        self.scale
    }

    /// Returns the integer that stands for zero.
    pub fn zero_point(self) -> i32 {
        self.zero_point
    }

    /// Returns the code of a number: the quotient by the scale, rounded to the nearest integer with
    /// ties to even, plus the zero point, saturated.
    ///
    /// # Errors
    /// The number is NaN.
    pub fn encode(self, x: f32) -> Result<u32, NanError> {
        let whole = f64::from((x / self.scale).round_ties_even()) + f64::from(self.zero_point);
        self.format.encode(whole)
    }

    /// Returns the value of a code.
    pub fn decode(self, code: u32) -> f32 {
        (self.format.decode(code) as f32 - self.zero_point as f32) * self.scale
    }

    /// Rounds each number to a value of the format, in place.
    ///
    /// # Errors
    /// The index of the first NaN. The numbers before it are quantized.
    pub fn quantise_slice(self, numbers: &mut [f32]) -> Result<(), NanError> {
        for (index, number) in numbers.iter_mut().enumerate() {
            let code = self.encode(*number).map_err(|error| NanError { index, ..error })?;
            *number = self.decode(code);
        }
        Ok(())
    }
}

/// Returns the least and the largest integer of a format of integers.
fn whole_range(format: Format) -> (i32, i32) {
    let most = format.max_value() as i32;
    let least = match format.special() {
        _ if !format.has_sign() => 0,
        Special::Complement => -most - 1,
        _ => -most,
    };
    (least, most)
}

/// Error: the scale, the zero point or the format of integers is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// The format has values other than integers, or more than 16 bits.
    #[error("expected whole numbers of at most 16 bits, such as int8, found {0}")]
    Format(Format),
    /// The scale is not a finite number above zero.
    #[error("expected a scale above zero, found {0}")]
    Scale(f32),
    /// The format does not contain the zero point.
    #[error("expected a zero point from {least} to {most}, found {found}")]
    ZeroPoint {
        /// Least integer of the format.
        least: i32,
        /// Largest integer of the format.
        most: i32,
        /// Zero point that was given.
        found: i32,
    },
}

/// A format with one scale per block of values. A block may be a whole tensor, the row of a
/// channel, or the 32 or 16 values of the formats of the Open Compute Project and NVIDIA.
///
/// ```
/// use dyno_number::{BlockFormat, Format, Rounding};
/// let mxfp4 = BlockFormat::mx(Format::FP4_E2M1);
/// let mut weights = [0.1, -7.0, 0.9, 1.6];
/// mxfp4.quantise_slice(&mut weights, Rounding::NearestEven)?;
/// // The scale is 1. 7 saturates at the largest element, 6.
/// assert_eq!(weights, [0.0, -6.0, 1.0, 1.5]);
/// assert_eq!(mxfp4.bits_of(64) as f64 / 64.0, 4.25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockFormat {
    element: Format,
    // At least 1.
    block: usize,
    scale: Scale,
}

/// Format of the scales, and how they are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scale {
    /// A power of two in E8M0: that of the block's largest magnitude, divided by that of the
    /// element's largest value (Open Compute Project, "Microscaling Formats" 1.0, section 6.3).
    /// Larger values saturate.
    PowerOfTwo,
    /// An F32: the block's largest magnitude becomes the element's largest value.
    Float,
    /// An FP8 in E4M3FN per block, and one F32 for the tensor that makes the largest scale 448
    /// (NVFP4).
    Fp8,
}

/// Numbers as codes of elements and of scales; [`BlockFormat::encode`] returns them.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// One code per number.
    pub codes: Vec<u32>,
    /// One code per block, in [`BlockFormat::scale_format`].
    pub scales: Vec<u32>,
    /// Factor of all scales.
    pub tensor_scale: f32,
}

impl BlockFormat {
    /// Creates a format of blocks of `block` elements each. `usize::MAX` means that the whole
    /// tensor is one block.
    ///
    /// # Panics
    /// `block` is 0.
    pub fn new(element: Format, block: usize, scale: Scale) -> Self {
        assert!(block > 0, "a block of at least one value");
        Self { element, block, scale }
    }

    /// Returns MXFP8, MXFP6, MXFP4 or MXINT8, depending on the element: blocks of 32.
    pub fn mx(element: Format) -> Self {
        Self::new(element, 32, Scale::PowerOfTwo)
    }

    /// Returns NVFP4: blocks of 16 elements in E2M1.
    pub fn nvfp4() -> Self {
        Self::new(Format::FP4_E2M1, 16, Scale::Fp8)
    }

    /// Returns block floating point: sign and magnitude of `bits` bits, with one exponent per
    /// block.
    ///
    /// # Errors
    /// The number of bits is not from 1 to 32.
    pub fn block_floating_point(bits: u32, block: usize) -> Result<Self, FormatError> {
        Ok(Self::new(Format::fixed(bits, -1)?, block, Scale::PowerOfTwo))
    }

    /// Returns the format of the elements.
    pub fn element(self) -> Format {
        self.element
    }

    /// Returns the format of the scales.
    pub fn scale_format(self) -> Format {
        match self.scale {
            Scale::PowerOfTwo => Format::E8M0,
            Scale::Float => Format::F32,
            Scale::Fp8 => Format::FP8_E4M3FN,
        }
    }

    /// Returns the bits of `count` numbers including their scales.
    pub fn bits_of(self, count: usize) -> u64 {
        let blocks = count.div_ceil(self.block) as u64;
        let elements = count as u64 * u64::from(self.element.bits());
        let tensor = if self.scale == Scale::Fp8 { 32 } else { 0 };
        elements + blocks * u64::from(self.scale_format().bits()) + tensor
    }

    /// Rounds each number to a value of the format, in place. The last block may be shorter. Rows
    /// are not considered: if their length is not a multiple of the block, quantize row by row.
    ///
    /// # Errors
    /// The index of the first NaN. The blocks before it are quantized.
    pub fn quantise_slice(self, numbers: &mut [f32], rounding: Rounding) -> Result<(), NanError> {
        let how = Conversion { rounding, overflow: Overflow::Saturate };
        let tensor_scale = self.tensor_scale(numbers);
        for (at, block) in numbers.chunks_mut(self.block).enumerate() {
            let (_, scale) = self.block_scale(block, tensor_scale);
            divide(block, scale);
            let quantised = self.element.quantise_slice(block, how.for_index(at));
            multiply(block, scale);
            quantised.map_err(|error| self.placed(error, at))?;
        }
        Ok(())
    }

    /// Encodes numbers, and the scale of each block.
    ///
    /// # Errors
    /// The index of the first NaN.
    pub fn encode(self, numbers: &[f32], rounding: Rounding) -> Result<Blocks, NanError> {
        let how = Conversion { rounding, overflow: Overflow::Saturate };
        let tensor_scale = self.tensor_scale(numbers);
        let mut blocks = Blocks { codes: Vec::new(), scales: Vec::new(), tensor_scale };
        for (at, block) in numbers.chunks(self.block).enumerate() {
            let (code, scale) = self.block_scale(block, tensor_scale);
            let mut block = block.to_vec();
            divide(&mut block, scale);
            let codes = self.element.encode_slice(&block, how.for_index(at));
            blocks.codes.extend(codes.map_err(|error| self.placed(error, at))?);
            blocks.scales.push(code);
        }
        Ok(blocks)
    }

    /// Returns the values of encoded numbers.
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

    /// Returns the factor of all scales.
    fn tensor_scale(self, numbers: &[f32]) -> f32 {
        if self.scale != Scale::Fp8 {
            return 1.0;
        }
        let largest = max_abs(numbers);
        let scale = largest / (Format::FP8_E4M3FN.max_value() * self.element.max_value()) as f32;
        if scale == 0.0 { 1.0 } else { scale }
    }

    /// Returns the code of a block's scale, and its value including the tensor's factor.
    fn block_scale(self, block: &[f32], tensor_scale: f32) -> (u32, f32) {
        let largest = max_abs(block);
        let most = self.element.max_value();
        let scale = match self.scale {
            Scale::PowerOfTwo => {
                // As `f64`, denormals of `f32` are normal. Zeros get the least scale.
                let exponent = |x: f64| (x.to_bits() >> 52) as i32 - 1023;
                let power = exponent(f64::from(largest)) - exponent(most);
                2.0_f64.powi(power.clamp(-127, 127))
            }
            Scale::Float if largest == 0.0 => 1.0,
            // The scale of denormals must not become 0.
            Scale::Float => (f64::from(largest) / most).max(f64::from(f32::MIN_POSITIVE)),
            Scale::Fp8 => f64::from(largest) / most / f64::from(tensor_scale),
        };
        let format = self.scale_format();
        let how = Conversion { overflow: Overflow::Saturate, ..Conversion::default() };
        let code = format.encode_with(scale, how).expect("scales are of numbers");
        (code, format.decode(code) as f32 * tensor_scale)
    }
}

/// Divides a block by its scale. With a scale of 0, which a block far below the others gets, all
/// values become 0.
fn divide(block: &mut [f32], scale: f32) {
    for x in block {
        // NaN stays NaN, so that it is reported.
        *x = if scale == 0.0 { *x * 0.0 } else { *x / scale };
    }
}

/// Multiplies a block by its scale. Finite numbers stay finite, even if the scale was rounded up.
fn multiply(block: &mut [f32], scale: f32) {
    for x in block {
        let y = *x * scale;
        *x = if x.is_finite() { y.clamp(f32::MIN, f32::MAX) } else { y };
    }
}

/// Returns the largest magnitude. Infinity counts as `f32::MAX`; NaN is ignored.
fn max_abs(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs())).min(f32::MAX)
}

#[cfg(test)]
mod tests;
