//! Vectors of sixteen numbers, in which kernels are written.
//!
//! They have sixteen lanes on every instruction set, so that packed weights have one layout.

#[cfg(test)]
mod tests;

/// Numbers in a vector.
pub const LANES: usize = 16;

/// A computation that is compiled once for each instruction set. `run` and everything it calls with
/// `s` must be `#[inline(always)]`: only then is it compiled inside of [`Lanes::call`], where the
/// instructions are enabled.
pub(crate) trait Kernel {
    type Output;
    fn run<S: Lanes>(self, s: S) -> Self::Output;
}

/// Operations on sixteen lanes. An implementor is a token that exists only if the processor has the
/// instructions.
///
/// Methods with pointers read or write sixteen elements, aligned or not.
pub(crate) trait Lanes: Copy + Send + Sync {
    /// Sixteen `f32`.
    type F: Copy;
    /// Sixteen `i32`.
    type I: Copy;
    /// Vectors of sums that a tile may hold in registers.
    const SUMS: usize;
    /// Whether a tile of several rows takes all vectors of a panel at once. With few registers it
    /// takes one vector after another with more rows, so that each loaded weight serves several
    /// products.
    const WHOLE: bool;

    /// The smallest token with the same operations except the dot products. Code without these is
    /// compiled for it, hence once per processor family.
    type Plain: Lanes;
    /// The smallest token with the same products of bfloat16.
    type Pairs: Lanes;
    /// The smallest token with the same products of bytes and of `i16`.
    type Fours: Lanes;

    fn plain(self) -> Self::Plain;
    fn pairs(self) -> Self::Pairs;
    fn fours(self) -> Self::Fours;

    /// Runs `kernel` in a separate function, compiled with this instruction set.
    fn call<K: Kernel>(self, kernel: K) -> K::Output;

    fn splat(self, x: f32) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once if the processor can.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The lesser number; `b` if either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The greater number; `b` if either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The numbers at even places of `a`, then those of `b`.
    fn evens(self, a: Self::F, b: Self::F) -> Self::F;

    /// # Safety
    /// `from` is valid for reads of 16 numbers.
    unsafe fn load(self, from: *const f32) -> Self::F;
    /// Loads the first `count` lanes; the others are zeros.
    ///
    /// # Safety
    /// `from` is valid for reads of `count` numbers, and `count` at most 16.
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::F;
    /// # Safety
    /// `to` is valid for writes of 16 numbers.
    unsafe fn store(self, to: *mut f32, x: Self::F);
    /// Stores the first `count` lanes.
    ///
    /// # Safety
    /// `to` is valid for writes of `count` numbers, and `count` at most 16.
    unsafe fn store_first(self, to: *mut f32, x: Self::F, count: usize);

    fn zero_i32(self) -> Self::I;
    /// # Safety
    /// `to` is valid for writes of 16 numbers.
    unsafe fn store_i32(self, to: *mut i32, x: Self::I);
    /// # Safety
    /// `from` is valid for reads of 16 numbers.
    unsafe fn load_i32(self, from: *const i32) -> Self::I;
    fn to_f32(self, x: Self::I) -> Self::F;
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub_i32(self, a: Self::I, b: Self::I) -> Self::I;

    fn splat_i32(self, x: i32) -> Self::I;
    fn and_i32(self, a: Self::I, b: Self::I) -> Self::I;
    fn or_i32(self, a: Self::I, b: Self::I) -> Self::I;
    fn xor_i32(self, a: Self::I, b: Self::I) -> Self::I;
    /// Shifts bits left; `count` is at most 31.
    fn shift_left(self, x: Self::I, count: u32) -> Self::I;
    /// Shifts bits right and fills with zeros; `count` is at most 31.
    fn shift_right(self, x: Self::I, count: u32) -> Self::I;
    /// Reinterprets the bits as integers.
    fn bits(self, x: Self::F) -> Self::I;
    /// Reinterprets the bits as `f32`.
    fn with_bits(self, x: Self::I) -> Self::F;
    /// `then` where `a` < `b`; `otherwise` elsewhere, including NaN.
    fn select_less(self, a: Self::F, b: Self::F, then: Self::F, otherwise: Self::F) -> Self::F;

    /// Adds products of pairs: lane `n` gains `a.0 * w[n].0 + a.1 * w[n].1`, where `a` holds two
    /// bfloat16 (the first in the low half) and each lane of the weights two.
    ///
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    unsafe fn dot_bf16(self, sum: Self::F, a: u32, weights: *const u8) -> Self::F;
    /// Adds products of fours: `a` holds four `u8`, each lane of the weights four `i8`.
    ///
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    unsafe fn dot_i8(self, sum: Self::I, a: u32, weights: *const u8) -> Self::I;
    /// Adds products of pairs: `a` holds two `i16` (the first in the low half), each lane of the
    /// weights two. If all four numbers are -32768, the sum of the products is unspecified.
    ///
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    unsafe fn dot_i16(self, sum: Self::I, a: u32, weights: *const u8) -> Self::I;
    /// Adds products of fours like [`Lanes::dot_i8`], for weights so small that 16-bit sums hold
    /// the products, two sums per lane. [`Lanes::settle`] adds them. At most [`crate::Panels::few`]
    /// words may be added in between.
    ///
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    #[inline(always)]
    unsafe fn dot_few(self, few: Self::I, a: u32, weights: *const u8) -> Self::I {
        // SAFETY: the caller guarantees that `weights` is valid for reads of 64 bytes.
        unsafe { self.dot_i8(few, a, weights) }
    }
    /// Adds the sums of [`Lanes::dot_few`] to `sum`.
    #[inline(always)]
    fn settle(self, sum: Self::I, few: Self::I) -> Self::I {
        self.add_i32(sum, few)
    }
    /// Rounds to bfloat16, ties to even, and stores 16 of them.
    ///
    /// # Safety
    /// `to` is valid for writes of 32 bytes.
    unsafe fn store_bf16(self, to: *mut u16, x: Self::F);
    /// Rounds `x` to the nearest integer, ties to even, adds 128 and stores 16 saturated `u8`; 0
    /// for NaN.
    ///
    /// # Safety
    /// `to` is valid for writes of 16 bytes.
    unsafe fn store_u8(self, to: *mut u8, x: Self::F);
    /// Rounds `x` to the nearest integer, ties to even, and stores 16 saturated `i16`; the greatest
    /// for NaN.
    ///
    /// # Safety
    /// `to` is valid for writes of 32 bytes.
    unsafe fn store_i16(self, to: *mut i16, x: Self::F);
}
