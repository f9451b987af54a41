//! Portable code: the reference for the other instruction sets, and the fallback.

use crate::lanes::{Kernel, LANES, Lanes};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalar;

#[inline(always)]
fn each<T: Copy>(a: [T; LANES], b: [T; LANES], f: impl Fn(T, T) -> T) -> [T; LANES] {
    std::array::from_fn(|lane| f(a[lane], b[lane]))
}

/// Widens a bfloat16.
#[inline(always)]
fn widened(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to the nearest bfloat16, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) fn narrowed(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

impl Lanes for Scalar {
    type F = [f32; LANES];
    type I = [i32; LANES];
    const SUMS: usize = 4;
    const WHOLE: bool = true;

    type Plain = Self;
    type Pairs = Self;
    type Fours = Self;

    #[inline(always)]
    fn plain(self) -> Self {
        self
    }
    #[inline(always)]
    fn pairs(self) -> Self {
        self
    }
    #[inline(always)]
    fn fours(self) -> Self {
        self
    }

    #[inline(never)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // `mul_add` would call the mathematics library here.
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn evens(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|lane| if lane < LANES / 2 { a[2 * lane] } else { b[2 * lane - LANES] })
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::F {
        // SAFETY: the caller guarantees that `from` is valid for reads of 16 numbers.
        unsafe { from.cast::<[f32; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::F {
        let mut x = [0.0; LANES];
        for (lane, x) in x.iter_mut().enumerate().take(count) {
            // SAFETY: the caller guarantees that `from` is valid for reads of `count` numbers.
            *x = unsafe { from.add(lane).read_unaligned() };
        }
        x
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: Self::F) {
        // SAFETY: the caller guarantees that `to` is valid for writes of 16 numbers.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(x) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, x: Self::F, count: usize) {
        for (lane, x) in x.into_iter().enumerate().take(count) {
            // SAFETY: the caller guarantees that `to` is valid for writes of `count` numbers.
            unsafe { to.add(lane).write_unaligned(x) }
        }
    }

    #[inline(always)]
    fn zero_i32(self) -> Self::I {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn store_i32(self, to: *mut i32, x: Self::I) {
        // SAFETY: the caller guarantees that `to` is valid for writes of 16 numbers.
        unsafe { to.cast::<[i32; LANES]>().write_unaligned(x) }
    }
    #[inline(always)]
    unsafe fn load_i32(self, from: *const i32) -> Self::I {
        // SAFETY: the caller guarantees that `from` is valid for reads of 16 numbers.
        unsafe { from.cast::<[i32; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    fn to_f32(self, x: Self::I) -> Self::F {
        x.map(|x| x as f32)
    }
    #[inline(always)]
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_i32(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, i32::wrapping_sub)
    }

    #[inline(always)]
    fn splat_i32(self, x: i32) -> Self::I {
        [x; LANES]
    }
    #[inline(always)]
    fn and_i32(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or_i32(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn xor_i32(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn shift_left(self, x: Self::I, count: u32) -> Self::I {
        x.map(|x| x << count)
    }
    #[inline(always)]
    fn shift_right(self, x: Self::I, count: u32) -> Self::I {
        x.map(|x| (x.cast_unsigned() >> count).cast_signed())
    }
    #[inline(always)]
    fn bits(self, x: Self::F) -> Self::I {
        x.map(|x| x.to_bits().cast_signed())
    }
    #[inline(always)]
    fn with_bits(self, x: Self::I) -> Self::F {
        x.map(|x| f32::from_bits(x.cast_unsigned()))
    }
    #[inline(always)]
    fn select_less(self, a: Self::F, b: Self::F, then: Self::F, otherwise: Self::F) -> Self::F {
        std::array::from_fn(|lane| if a[lane] < b[lane] { then[lane] } else { otherwise[lane] })
    }

    #[inline(always)]
    unsafe fn dot_bf16(self, sum: Self::F, a: u32, weights: *const u8) -> Self::F {
        // SAFETY: the caller guarantees that `weights` is valid for reads of 64 bytes.
        let weights = unsafe { weights.cast::<[[u16; 2]; LANES]>().read_unaligned() };
        let [low, high] = [widened(a as u16), widened((a >> 16) as u16)];
        std::array::from_fn(|lane| {
            let [first, second] = weights[lane].map(widened);
            sum[lane] + high * second + low * first
        })
    }
    #[inline(always)]
    unsafe fn dot_i8(self, sum: Self::I, a: u32, weights: *const u8) -> Self::I {
        // SAFETY: the caller guarantees that `weights` is valid for reads of 64 bytes.
        let weights = unsafe { weights.cast::<[i32; LANES]>().read_unaligned() };
        let [a0, a1, a2, a3] = a.to_le_bytes().map(i32::from);
        // Shifts of whole words, which compilers vectorize; they do not vectorize byte accesses.
        std::array::from_fn(|lane| {
            let w = weights[lane];
            let low = a0 * (w << 24 >> 24) + a1 * (w << 16 >> 24);
            sum[lane].wrapping_add(low + a2 * (w << 8 >> 24) + a3 * (w >> 24))
        })
    }
    #[inline(always)]
    unsafe fn dot_i16(self, sum: Self::I, a: u32, weights: *const u8) -> Self::I {
        // SAFETY: the caller guarantees that `weights` is valid for reads of 64 bytes.
        let weights = unsafe { weights.cast::<[i32; LANES]>().read_unaligned() };
        let a = a.cast_signed();
        let (first, second) = (a << 16 >> 16, a >> 16);
        std::array::from_fn(|lane| {
            let w = weights[lane];
            let products = (first * (w << 16 >> 16)).wrapping_add(second * (w >> 16));
            sum[lane].wrapping_add(products)
        })
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16, x: Self::F) {
        // SAFETY: the caller guarantees that `to` is valid for writes of 32 bytes.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(x.map(narrowed)) }
    }
    #[inline(always)]
    unsafe fn store_u8(self, to: *mut u8, x: Self::F) {
        let bytes = x.map(|x| (x.round_ties_even() + 128.0) as u8);
        // SAFETY: the caller guarantees that `to` is valid for writes of 16 bytes.
        unsafe { to.cast::<[u8; LANES]>().write_unaligned(bytes) }
    }
    #[inline(always)]
    unsafe fn store_i16(self, to: *mut i16, x: Self::F) {
        let most = f32::from(i16::MAX);
        let halves = x.map(|x| if x < most { x.round_ties_even() as i16 } else { i16::MAX });
        // SAFETY: the caller guarantees that `to` is valid for writes of 32 bytes.
        unsafe { to.cast::<[i16; LANES]>().write_unaligned(halves) }
    }
}
