//! Conversions of slices, with vector instructions where possible.

use dyno_kernels::Isa;
use dyno_kernels::convert::{self, Grid, Sign};

use crate::codec::{Conversion, NanError, Overflow, Rounding};
use crate::format::{Format, Kind, Special};

impl Format {
    /// Rounds each number to a value of the format, in place. [`Rounding::Stochastic`] draws as
    /// [`Rounding::for_index`] describes.
    ///
    /// ```
    /// use dyno_number::{Conversion, Format};
    /// let mut weights = [0.3, -0.9, 1.7, 0.1];
    /// Format::fixed(3, 0)?.quantise_slice(&mut weights, Conversion::default())?;
    /// assert_eq!(weights, [0.25, -0.75, 0.75, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The format has no NaN, and a number is NaN: the index of the first one. All other numbers
    /// are quantized, and NaN stays.
    pub fn quantise_slice(self, numbers: &mut [f32], how: Conversion) -> Result<(), NanError> {
        if self.changes_nothing(how) {
            return Ok(());
        }
        if let Some(grid) = self.grid(how) {
            let has_nan = convert::quantise(Isa::best(), &grid, numbers);
            return if has_nan { self.found_nan(numbers) } else { Ok(()) };
        }
        let mut first = Ok(());
        for (index, number) in numbers.iter_mut().enumerate() {
            match self.quantise_with(*number, how.for_index(index)) {
                Ok(quantised) => *number = quantised,
                Err(error) if first.is_ok() => first = Err(NanError { index, ..error }),
                Err(_) => {}
            }
        }
        first
    }

    /// Returns the code of each number; see [`Format::encode_with`].
    ///
    /// # Errors
    /// The format has no NaN, and a number is NaN: the index of the first one.
    pub fn encode_slice(self, numbers: &[f32], how: Conversion) -> Result<Vec<u32>, NanError> {
        if self.changes_nothing(how) {
            return Ok(numbers.iter().map(|x| x.to_bits()).collect());
        }
        let mut codes = vec![0; numbers.len()];
        if let Some(grid) = self.grid(how) {
            if convert::encode(Isa::best(), &grid, numbers, &mut codes) {
                self.found_nan(numbers)?;
            }
            return Ok(codes);
        }
        for (index, (code, number)) in codes.iter_mut().zip(numbers).enumerate() {
            let encoded = self.encode_with(f64::from(*number), how.for_index(index));
            *code = encoded.map_err(|error| NanError { index, ..error })?;
        }
        Ok(codes)
    }

    /// Returns the value of each code as the nearest `f32`; see [`Format::decode`].
    pub fn decode_slice(self, codes: &[u32]) -> Vec<f32> {
        if self == Self::F32 {
            return codes.iter().map(|code| f32::from_bits(*code)).collect();
        }
        let Some(grid) = self.grid(Conversion::default()) else {
            return codes.iter().map(|code| self.decode(*code) as f32).collect();
        };
        let mut numbers = vec![0.0; codes.len()];
        convert::decode(Isa::best(), &grid, codes, &mut numbers);
        numbers
    }

    pub(crate) fn found_nan(self, numbers: &[f32]) -> Result<(), NanError> {
        let first = numbers.iter().position(|x| x.is_nan());
        first.map_or(Ok(()), |index| Err(NanError { format: self, index }))
    }

    /// Returns the parameters of the vector kernels. `None` if these cannot convert to this format:
    /// they round to nearest even or toward zero, to values that `f32` holds exactly.
    pub(crate) fn grid(self, how: Conversion) -> Option<Grid> {
        let truncates = match how.rounding {
            Rounding::NearestEven => false,
            Rounding::TowardZero => true,
            Rounding::NearestLog | Rounding::Stochastic { .. } => return None,
        };
        let first = match self.kind() {
            Kind::Binary => return None,
            Kind::Fixed => -self.bias(),
            Kind::Float | Kind::Exp => 1 - self.bias(),
        };
        let sign = match self.special() {
            Special::Powers => return None,
            Special::Complement => Sign::Complement,
            _ if !self.has_sign() => Sign::None,
            Special::Finite | Special::NanForMinusZero => Sign::OneZero,
            Special::SignedZero | Special::Ieee | Special::Nan => Sign::TwoZeros,
        };
        let grid = Grid {
            fraction_bits: self.fraction_bits(),
            first,
            largest: self.max_value() as f32,
            sign,
            bits: self.bits(),
            has_infinity: self.has_infinity(),
            nan: self.has_nan().then(|| self.encode(f64::NAN).unwrap_or(0)),
            saturates: self.saturates(how.overflow),
            truncates,
        };
        (f64::from(grid.largest) == self.max_value() && grid.is_in_reach()).then_some(grid)
    }

    /// Returns whether values beyond the largest finite one saturate.
    fn saturates(self, overflow: Overflow) -> bool {
        match overflow {
            Overflow::Usual => !(self.has_infinity() && self.bits() >= 16),
            Overflow::Saturate => true,
            Overflow::Infinite => !self.has_nan(),
        }
    }
}

#[cfg(test)]
mod tests;
