//! What kernels are written in: vectors of sixteen numbers, whatever the processor makes of them.
//!
//! Sixteen on every instruction set, so that packed weights have one layout.

#[cfg(test)]
mod tests;

/// Numbers of one vector.
pub const LANES: usize = 16;

/// A computation that is compiled once for each instruction set. `run` must be
/// `#[inline(always)]`, as must be what it calls with `s`: only then is it compiled inside of
/// [`Lanes::call`], where the instructions are allowed.
pub(crate) trait Kernel {
    type Output;
    fn run<S: Lanes>(self, s: S) -> Self::Output;
}

/// Operations on sixteen lanes. An implementor is a token that exists only where the
/// processor has the instructions.
///
/// The methods with pointers read or write 64 bytes, aligned or not.
pub(crate) trait Lanes: Copy + Send + Sync {
    /// Sixteen `f32`.
    type F: Copy;
    /// Sixteen `i32`.
    type I: Copy;
    /// Vectors that a tile's sums may fill without leaving the registers.
    const SUMS: usize;
    /// Whether a tile of several rows takes all vectors of a panel at once; with few registers it takes
    /// one after the other, of more rows, so that a weight is loaded for more than one product.
    const WHOLE: bool;

    /// The least token with the same operations, save for the two products. What needs neither
    /// is compiled for it, and so once for a family of processors.
    type Plain: Lanes;
    /// The least token with this one's products of bfloat16.
    type Pairs: Lanes;
    /// The least token with this one's products of bytes and of `i16`.
    type Fours: Lanes;

    fn plain(self) -> Self::Plain;
    fn pairs(self) -> Self::Pairs;
    fn fours(self) -> Self::Fours;

    /// Runs `kernel` in a function of its own, compiled with this instruction set.
    fn call<K: Kernel>(self, kernel: K) -> K::Output;

    fn splat(self, x: f32) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once where the processor can.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The lesser; `b` where either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The greater; `b` where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;

    /// # Safety
    /// `from` is valid for reads of 16 numbers.
    unsafe fn load(self, from: *const f32) -> Self::F;
    /// The first `count` lanes, and zeros.
    /// # Safety
    /// `from` is valid for reads of `count` numbers, and `count` at most 16.
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::F;
    /// # Safety
    /// `to` is valid for writes of 16 numbers.
    unsafe fn store(self, to: *mut f32, x: Self::F);
    /// The first `count` lanes.
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
    /// Bits to higher places, zeros below; `count` is at most 31.
    fn shift_left(self, x: Self::I, count: u32) -> Self::I;
    /// Bits to lower places, zeros above; `count` is at most 31.
    fn shift_right(self, x: Self::I, count: u32) -> Self::I;
    /// The same bits.
    fn bits(self, x: Self::F) -> Self::I;
    /// The same bits.
    fn of_bits(self, x: Self::I) -> Self::F;
    /// `then` where `a` is less than `b`; `otherwise` elsewhere, and where either is NaN.
    fn select_less(self, a: Self::F, b: Self::F, then: Self::F, otherwise: Self::F) -> Self::F;

    /// Adds products of pairs: lane `n` gains `a.0 * w[n].0 + a.1 * w[n].1`, where `a` holds two
    /// bfloat16 (the first in the low half) and each lane of the weights two.
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    unsafe fn dot_bf16(self, sum: Self::F, a: u32, weights: *const u8) -> Self::F;
    /// Adds products of fours: `a` holds four `u8`, each lane of the weights four `i8`.
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    unsafe fn dot_i8(self, sum: Self::I, a: u32, weights: *const u8) -> Self::I;
    /// Adds products of pairs: `a` holds two `i16` (the first in the low half), each lane of the weights two.
    /// Of two pairs of -32768, the sum of the products is any.
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    unsafe fn dot_i16(self, sum: Self::I, a: u32, weights: *const u8) -> Self::I;
    /// As [`Lanes::dot_i8`], of weights so small that sums of 16 bits hold the products, two for each lane:
    /// [`Lanes::settle`] adds them. Of several words, no more than [`crate::Panels::few`].
    /// # Safety
    /// `weights` is valid for reads of 64 bytes.
    #[inline(always)]
    unsafe fn dot_few(self, few: Self::I, a: u32, weights: *const u8) -> Self::I {
        // SAFETY: the caller vouches for 64 bytes.
        unsafe { self.dot_i8(few, a, weights) }
    }
    /// `sum`, and what [`Lanes::dot_few`] made.
    #[inline(always)]
    fn settle(self, sum: Self::I, few: Self::I) -> Self::I {
        self.add_i32(sum, few)
    }
    /// Rounds to bfloat16, ties to even, and writes 16 of them.
    /// # Safety
    /// `to` is valid for writes of 32 bytes.
    unsafe fn store_bf16(self, to: *mut u16, x: Self::F);
    /// Rounds `x` to the nearest whole number, ties to even, adds 128 and writes 16 `u8`, saturated;
    /// 0 for NaN.
    /// # Safety
    /// `to` is valid for writes of 16 bytes.
    unsafe fn store_u8(self, to: *mut u8, x: Self::F);
    /// Rounds `x` to the nearest whole number, ties to even, and writes 16 `i16`, saturated; the
    /// greatest for NaN.
    /// # Safety
    /// `to` is valid for writes of 32 bytes.
    unsafe fn store_i16(self, to: *mut i16, x: Self::F);
}
