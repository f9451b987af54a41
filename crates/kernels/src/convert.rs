//! Conversion of slices to number formats of few bits: rounding, encoding and decoding.
//!
//! ```
//! use dyno_kernels::Isa;
//! use dyno_kernels::convert::{Grid, Sign, encode, quantise};
//!
//! // E4M3 with infinity: 3 fraction bits, normal numbers from 2^-6 on.
//! let grid = Grid {
//!     fraction_bits: 3,
//!     first: -6,
//!     largest: 240.0,
//!     sign: Sign::TwoZeros,
//!     bits: 8,
//!     has_infinity: true,
//!     nan: Some(0x7f),
//!     saturates: false,
//!     truncates: false,
//! };
//! let (mut numbers, mut codes) = ([1.06, -0.3], [0; 2]);
//! assert!(!encode(Isa::best(), &grid, &numbers, &mut codes));
//! assert_eq!(codes, [0x38, 0xaa]);
//! assert!(!quantise(Isa::best(), &grid, &mut numbers));
//! assert_eq!(numbers, [1.0, -0.3125]);
//! ```

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};

#[cfg(test)]
mod tests;

/// The values of a format among those of `f32`, and their codes.
///
/// Below 2^`first`, values are equal steps of 2^(`first` - `fraction_bits`). Above, each power of
/// two has 2^`fraction_bits` values. Without its sign, a code counts the values from zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Fraction bits, 0 to 22.
    pub fraction_bits: u32,
    /// Exponent at which equal steps end; the end of the range for fixed-point formats, which have
    /// only equal steps.
    pub first: i32,
    /// Largest finite value.
    pub largest: f32,
    /// Representation of negative values.
    pub sign: Sign,
    /// Bits of a code including the sign, at most 24.
    pub bits: u32,
    /// Whether the code after that of the largest value is infinity.
    pub has_infinity: bool,
    /// Code of NaN, if there is one, without its sign; for [`Sign::OneZero`], the code of minus
    /// zero.
    pub nan: Option<u32>,
    /// Whether values beyond the largest become the largest; otherwise they become infinity, or NaN
    /// without infinity.
    pub saturates: bool,
    /// Whether values round toward zero; otherwise to nearest, ties to even codes.
    pub truncates: bool,
}

/// Representation of negative values in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// No negative values: they become 0.
    None,
    /// Sign in the first bit of the code; zero is never negative.
    OneZero,
    /// Sign in the first bit of the code; zero may be negative.
    TwoZeros,
    /// Two's complement.
    Complement,
}

impl Grid {
    /// Whether the functions of this module support the format: every step and value is a normal
    /// `f32`, or a denormal of the format itself.
    pub fn is_in_reach(&self) -> bool {
        let Self { fraction_bits, first, largest, .. } = *self;
        let shift = 23 - fraction_bits.min(23) as i32;
        (1..=23).contains(&shift)
            && self.bits <= 24
            && (-126..=127).contains(&first)
            && first + shift <= 127
            && largest.is_finite()
            && largest > 0.0
            && (self.saturates || self.nan.is_some())
    }

    /// Code of the largest value without its sign.
    fn largest_code(&self) -> u32 {
        let bits = self.largest.to_bits() >> (23 - self.fraction_bits);
        if self.largest < power_of_two(self.first) {
            (self.largest / self.step()) as u32
        } else {
            bits - self.base()
        }
    }

    /// Size of a step below 2^first.
    fn step(&self) -> f32 {
        let exponent = self.first - self.fraction_bits as i32;
        if exponent >= -126 {
            power_of_two(exponent)
        } else {
            f32::from_bits(1 << (exponent + 149))
        }
    }

    /// Difference between the upper bits of an `f32` above 2^first and its code.
    fn base(&self) -> u32 {
        ((self.first + 126) as u32) << self.fraction_bits
    }
}

/// Returns a power of two that is a normal number.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Rounds numbers to values of the format. Returns whether any number is NaN although the format
/// has no NaN; such numbers stay NaN.
///
/// # Panics
/// The format is not supported (see [`Grid::is_in_reach`]).
#[must_use]
pub fn quantise(isa: Isa, grid: &Grid, numbers: &mut [f32]) -> bool {
    assert!(grid.is_in_reach(), "{grid:?}");
    isa.run(PlainKernel(Quantization { grid, numbers }))
}

/// Converts numbers to integers in multiples of `unit`, with an offset of 128: bytes for
/// [`crate::Words`]. Values outside the range of a byte saturate. Returns whether any number is NaN
/// although the format has no NaN; its byte is arbitrary.
///
/// # Panics
/// The format is not supported, `unit` is not a power of two from 2^-120 to 2^120, or the slices
/// differ in length.
#[must_use]
pub fn bytes(isa: Isa, grid: &Grid, unit: f32, numbers: &[f32], bytes: &mut [u8]) -> bool {
    check_whole(grid, unit);
    assert_eq!(numbers.len(), bytes.len(), "a byte for each number");
    isa.run(PlainKernel(IntegerConversion { grid, unit, numbers, to: bytes }))
}

/// Converts numbers to 16-bit integers in multiples of `unit`, for [`crate::Words`]. Values outside
/// the range saturate. Returns the result of [`bytes`].
///
/// # Panics
/// Under the conditions of [`bytes`].
#[must_use]
pub fn int16(isa: Isa, grid: &Grid, unit: f32, numbers: &[f32], to: &mut [i16]) -> bool {
    check_whole(grid, unit);
    assert_eq!(numbers.len(), to.len(), "an i16 for each number");
    isa.run(PlainKernel(IntegerConversion { grid, unit, numbers, to }))
}

fn check_whole(grid: &Grid, unit: f32) {
    assert!(grid.is_in_reach(), "{grid:?}");
    let exponent = (unit.to_bits() >> 23) as i32 - 127;
    assert!(exponent.abs() <= 120 && unit == power_of_two(exponent), "a power of two, not {unit}");
}

/// Encodes numbers. Returns whether any number is NaN although the format has no NaN; its code is
/// arbitrary.
///
/// # Panics
/// The format is not supported, or the slices differ in length.
#[must_use]
pub fn encode(isa: Isa, grid: &Grid, numbers: &[f32], codes: &mut [u32]) -> bool {
    assert!(grid.is_in_reach(), "{grid:?}");
    assert_eq!(numbers.len(), codes.len(), "a code for each number");
    isa.run(PlainKernel(Encoding { grid, numbers, codes }))
}

/// Decodes codes. Bits above those of the format are ignored.
///
/// # Panics
/// The format is not supported, or the slices differ in length.
pub fn decode(isa: Isa, grid: &Grid, codes: &[u32], numbers: &mut [f32]) {
    assert!(grid.is_in_reach(), "{grid:?}");
    assert_eq!(numbers.len(), codes.len(), "a code for each number");
    isa.run(PlainKernel(Decoding { grid, codes, numbers }));
}

/// Kernel that uses no products in which processor families differ.
struct PlainKernel<K>(K);

impl<K: Kernel> Kernel for PlainKernel<K> {
    type Output = K::Output;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> K::Output {
        s.plain().call(self.0)
    }
}

struct Quantization<'a> {
    grid: &'a Grid,
    numbers: &'a mut [f32],
}

struct IntegerConversion<'a, T> {
    grid: &'a Grid,
    unit: f32,
    numbers: &'a [f32],
    to: &'a mut [T],
}

/// An integer of few bits.
trait SmallInteger: Copy + Default {
    /// Rounds and stores 16 numbers.
    ///
    /// # Safety
    /// `to` is valid for writes of 16 of them.
    unsafe fn store<S: Lanes>(s: S, to: *mut Self, x: S::F);
}

impl SmallInteger for u8 {
    #[inline(always)]
    unsafe fn store<S: Lanes>(s: S, to: *mut Self, x: S::F) {
        // SAFETY: the caller guarantees that `to` is valid for writes of 16 bytes.
        unsafe { s.store_u8(to, x) }
    }
}

impl SmallInteger for i16 {
    #[inline(always)]
    unsafe fn store<S: Lanes>(s: S, to: *mut Self, x: S::F) {
        // SAFETY: the caller guarantees that `to` is valid for writes of 16 numbers.
        unsafe { s.store_i16(to, x) }
    }
}

struct Encoding<'a> {
    grid: &'a Grid,
    numbers: &'a [f32],
    codes: &'a mut [u32],
}

struct Decoding<'a> {
    grid: &'a Grid,
    codes: &'a [u32],
    numbers: &'a mut [f32],
}

/// Constants of a grid in vectors, computed once per slice.
struct Constants<S: Lanes> {
    s: S,
    grid: Grid,
    zero: S::F,
    infinity: S::F,
    nan: S::F,
    largest: S::F,
    /// Largest magnitude of negative values.
    lowest: S::F,
    /// 2^first.
    first: S::F,
    step: S::F,
    /// Adding it rounds a value below 2^first to whole steps.
    magic: S::F,
    magnitude: S::I,
    sign: S::I,
    one: S::I,
    /// Rounding increment before bits are dropped: just below half of the last kept bit.
    half: S::I,
    kept: S::I,
    /// 1 if odd codes have even exponents in `f32`.
    flip: S::I,
    base: S::I,
    dropped: u32,
}

/// A value of the grid without its sign, and its code.
struct RoundedValue<S: Lanes> {
    value: S::F,
    code: S::I,
    /// The magnitude of the number after clamping; 0 for negative numbers in a format without sign.
    clamped: S::F,
}

impl<S: Lanes> Constants<S> {
    #[inline(always)]
    fn new(s: S, grid: &Grid) -> Self {
        let dropped = 23 - grid.fraction_bits;
        let kept = u32::MAX << dropped;
        let splat = |bits: u32| s.splat_i32(bits.cast_signed());
        let is_complement = grid.sign == Sign::Complement;
        let lowest = if is_complement { power_of_two(grid.first) } else { grid.largest };
        Self {
            s,
            grid: *grid,
            zero: s.splat(0.0),
            infinity: s.splat(f32::INFINITY),
            nan: s.splat(f32::NAN),
            largest: s.splat(grid.largest),
            lowest: s.splat(lowest),
            first: s.splat(power_of_two(grid.first)),
            step: s.splat(grid.step()),
            magic: s.splat(power_of_two(grid.first + dropped as i32)),
            magnitude: splat(0x7fff_ffff),
            sign: splat(0x8000_0000),
            one: splat(1),
            half: splat(if grid.truncates { 0 } else { (1 << (dropped - 1)) - 1 }),
            kept: splat(kept),
            flip: splat(u32::from(grid.fraction_bits == 0) & (grid.first + 126) as u32 & 1),
            base: splat(grid.base()),
            dropped,
        }
    }

    /// Clamps the magnitude; negative numbers become 0 in a format without sign.
    #[inline(always)]
    fn clamped(&self, x: S::F) -> S::F {
        let s = self.s;
        let x = if self.grid.sign == Sign::None { s.max(self.zero, x) } else { x };
        let a = s.with_bits(s.and_i32(s.bits(x), self.magnitude));
        if self.grid.sign == Sign::Complement {
            s.min(s.select_less(x, self.zero, self.lowest, self.largest), a)
        } else if self.grid.saturates {
            s.min(self.largest, a)
        } else if self.grid.truncates {
            // Finite values stay finite.
            s.select_less(a, self.infinity, s.min(self.largest, a), a)
        } else {
            a
        }
    }

    #[inline(always)]
    fn rounded(&self, x: S::F) -> RoundedValue<S> {
        let s = self.s;
        let clamped = self.clamped(x);
        // Equal steps: the sum has precision for whole steps only.
        let sum = s.add(clamped, self.magic);
        let mut low = s.sub(sum, self.magic);
        let mut low_code = s.sub_i32(s.bits(sum), s.bits(self.magic));
        // Powers of two: the lower bits are dropped, and a carry moves to the next power.
        let mut bits = s.bits(clamped);
        if self.grid.truncates {
            let is_up = |then: S::F| s.select_less(clamped, low, then, self.zero);
            let one = s.bits(is_up(s.with_bits(self.one)));
            low_code = s.sub_i32(low_code, one);
            low = s.sub(low, is_up(self.step));
        } else {
            let odd = s.and_i32(s.shift_right(bits, self.dropped), self.one);
            let odd = s.xor_i32(odd, self.flip);
            bits = s.add_i32(bits, s.add_i32(self.half, odd));
        }
        let high = s.with_bits(s.and_i32(bits, self.kept));
        let high_code = s.sub_i32(s.shift_right(bits, self.dropped), self.base);
        let value = s.select_less(clamped, self.first, low, high);
        let code = self.choose(clamped, self.first, low_code, high_code);
        // Infinity and NaN are not rounded.
        let value = s.select_less(clamped, self.infinity, value, clamped);
        RoundedValue { value, code, clamped }
    }

    /// Selects `then` if `a` < `b`, else `otherwise`.
    #[inline(always)]
    fn choose(&self, a: S::F, b: S::F, then: S::I, otherwise: S::I) -> S::I {
        let s = self.s;
        s.bits(s.select_less(a, b, s.with_bits(then), s.with_bits(otherwise)))
    }

    #[inline(always)]
    fn value(&self, x: S::F, rounded: &RoundedValue<S>) -> S::F {
        let s = self.s;
        let mut y = rounded.value;
        if !self.grid.saturates {
            let beyond = if self.grid.has_infinity { self.infinity } else { self.nan };
            y = s.select_less(self.largest, y, beyond, y);
        }
        if self.grid.sign == Sign::None {
            return y;
        }
        let y = s.with_bits(s.or_i32(s.bits(y), s.and_i32(s.bits(x), self.sign)));
        // Adding plus zero turns minus zero into plus zero and changes nothing else.
        if self.grid.sign == Sign::TwoZeros { y } else { s.add(y, self.zero) }
    }

    #[inline(always)]
    fn code(&self, x: S::F, rounded: &RoundedValue<S>) -> S::I {
        let s = self.s;
        let (value, mut code) = (rounded.value, rounded.code);
        let splat = |code: u32| s.splat_i32(code.cast_signed());
        let nan = splat(self.grid.nan.unwrap_or(0));
        if !self.grid.saturates {
            let infinity = splat(self.grid.largest_code() + 1);
            let beyond = if self.grid.has_infinity { infinity } else { nan };
            code = self.choose(self.largest, value, beyond, code);
        }
        if self.grid.nan.is_some() {
            // `max` returns the second operand if either is NaN.
            let or_minus_one = s.max(value, s.splat(-1.0));
            code = self.choose(or_minus_one, self.zero, nan, code);
        }
        let last = self.grid.bits - 1;
        let negative = s.shift_right(s.bits(x), 31);
        match self.grid.sign {
            Sign::None => code,
            Sign::TwoZeros => s.or_i32(code, s.shift_left(negative, last)),
            Sign::OneZero => {
                let signed = s.or_i32(code, s.shift_left(negative, last));
                self.choose(self.zero, value, signed, code)
            }
            Sign::Complement => {
                let all = s.sub_i32(s.zero_i32(), negative);
                let signed = s.sub_i32(s.xor_i32(code, all), all);
                s.and_i32(signed, splat(u32::MAX >> (31 - last)))
            }
        }
    }

    #[inline(always)]
    fn decoded(&self, code: S::I) -> S::F {
        let s = self.s;
        let splat = |code: u32| s.splat_i32(code.cast_signed());
        let has_sign = self.grid.sign != Sign::None;
        let last = self.grid.bits - 1;
        let width = if has_sign { last } else { self.grid.bits };
        let sign = s.and_i32(s.shift_left(code, 31 - last), self.sign);
        if self.grid.sign == Sign::Complement {
            // The first bit has a negative weight.
            let first = splat(1 << last);
            let digits = s.and_i32(code, splat(u32::MAX >> (31 - last)));
            let whole = s.sub_i32(s.xor_i32(digits, first), first);
            return s.mul(s.to_f32(whole), self.step);
        }
        let magnitude = s.and_i32(code, splat((1 << width) - 1));
        let count = s.to_f32(magnitude);
        let low = s.mul(count, self.step);
        let high = s.with_bits(s.shift_left(s.add_i32(magnitude, self.base), self.dropped));
        let steps = s.splat(power_of_two(self.grid.fraction_bits as i32));
        let mut y = s.select_less(count, steps, low, high);
        let largest = self.grid.largest_code() as f32;
        if self.grid.has_infinity {
            let next = s.splat(largest + 1.0);
            let beyond = s.select_less(next, count, self.nan, self.infinity);
            y = s.select_less(s.splat(largest), count, beyond, y);
        } else if self.grid.nan.is_some() {
            y = s.select_less(s.splat(largest), count, self.nan, y);
        }
        if !has_sign {
            return y;
        }
        let signed = s.with_bits(s.or_i32(s.bits(y), sign));
        if self.grid.sign == Sign::TwoZeros || self.grid.nan.is_none() {
            return signed;
        }
        // Minus zero encodes NaN: its digits are neither less nor greater than its code.
        let digits = s.to_f32(s.and_i32(code, splat(u32::MAX >> (31 - last))));
        let minus_zero = s.splat(power_of_two(last as i32));
        let above = s.select_less(minus_zero, digits, signed, self.nan);
        s.select_less(digits, minus_zero, signed, above)
    }
}

/// Loads up to sixteen numbers; the rest are zeros.
#[inline(always)]
fn load<S: Lanes>(s: S, numbers: &[f32]) -> S::F {
    if let Some(whole) = numbers.first_chunk::<LANES>() {
        // SAFETY: `whole` holds 16 numbers.
        return unsafe { s.load(whole.as_ptr()) };
    }
    let mut lanes = [0.0; LANES];
    lanes[..numbers.len()].copy_from_slice(numbers);
    // SAFETY: `lanes` holds 16 numbers.
    unsafe { s.load(lanes.as_ptr()) }
}

/// Stores up to sixteen numbers, as many as fit.
#[inline(always)]
fn store<S: Lanes>(s: S, to: &mut [f32], x: S::F) {
    if let Some(whole) = to.first_chunk_mut::<LANES>() {
        // SAFETY: `whole` has room for 16 numbers.
        return unsafe { s.store(whole.as_mut_ptr(), x) };
    }
    let mut lanes = [0.0; LANES];
    // SAFETY: `lanes` has room for 16 numbers.
    unsafe { s.store(lanes.as_mut_ptr(), x) };
    to.copy_from_slice(&lanes[..to.len()]);
}

/// Whether a sum of numbers times zero shows a NaN.
#[inline(always)]
fn has_nan<S: Lanes>(s: S, sums: S::F) -> bool {
    let mut lanes = [0.0_f32; LANES];
    store(s, &mut lanes, sums);
    lanes.iter().any(|x| x.is_nan())
}

impl Kernel for Quantization<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> bool {
        let constants = Constants::new(s, self.grid);
        let mut nans = s.splat(0.0);
        for numbers in self.numbers.chunks_mut(LANES) {
            let x = load(s, numbers);
            let rounded = constants.rounded(x);
            nans = s.fma(rounded.clamped, constants.zero, nans);
            store(s, numbers, constants.value(x, &rounded));
        }
        self.grid.nan.is_none() && has_nan(s, nans)
    }
}

impl<T: SmallInteger> Kernel for IntegerConversion<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> bool {
        let constants = Constants::new(s, self.grid);
        // The inverse of a power of two is exact.
        let many = s.splat(self.unit.recip());
        let mut nans = s.splat(0.0);
        for (numbers, to) in self.numbers.chunks(LANES).zip(self.to.chunks_mut(LANES)) {
            let x = load(s, numbers);
            let rounded = constants.rounded(x);
            nans = s.fma(rounded.clamped, constants.zero, nans);
            let whole = s.mul(constants.value(x, &rounded), many);
            if let Some(all) = to.first_chunk_mut::<LANES>() {
                // SAFETY: `all` has room for 16 elements.
                unsafe { T::store(s, all.as_mut_ptr(), whole) };
            } else {
                let mut lanes = [T::default(); LANES];
                // SAFETY: `lanes` has room for 16 elements.
                unsafe { T::store(s, lanes.as_mut_ptr(), whole) };
                to.copy_from_slice(&lanes[..to.len()]);
            }
        }
        self.grid.nan.is_none() && has_nan(s, nans)
    }
}

impl Kernel for Encoding<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> bool {
        let constants = Constants::new(s, self.grid);
        let mut nans = s.splat(0.0);
        for (numbers, codes) in self.numbers.chunks(LANES).zip(self.codes.chunks_mut(LANES)) {
            let x = load(s, numbers);
            let rounded = constants.rounded(x);
            nans = s.fma(rounded.clamped, constants.zero, nans);
            let code = constants.code(x, &rounded);
            if let Some(whole) = codes.first_chunk_mut::<LANES>() {
                // SAFETY: `whole` has room for 16 codes.
                unsafe { s.store_i32(whole.as_mut_ptr().cast(), code) };
            } else {
                let mut lanes = [0_u32; LANES];
                // SAFETY: `lanes` has room for 16 codes.
                unsafe { s.store_i32(lanes.as_mut_ptr().cast(), code) };
                codes.copy_from_slice(&lanes[..codes.len()]);
            }
        }
        self.grid.nan.is_none() && has_nan(s, nans)
    }
}

impl Kernel for Decoding<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let constants = Constants::new(s, self.grid);
        for (codes, numbers) in self.codes.chunks(LANES).zip(self.numbers.chunks_mut(LANES)) {
            let mut lanes = [0_u32; LANES];
            lanes[..codes.len()].copy_from_slice(codes);
            // SAFETY: `lanes` holds 16 codes.
            let code = unsafe { s.load_i32(lanes.as_ptr().cast()) };
            store(s, numbers, constants.decoded(code));
        }
    }
}
