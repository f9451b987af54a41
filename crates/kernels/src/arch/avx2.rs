//! AVX2 with FMA: sixteen lanes are two registers.

use std::arch::x86_64::*;

use crate::lanes::{Kernel, LANES, Lanes};

/// Token that exists only if the processor has AVX2 and FMA, on which every method relies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }
}

#[target_feature(enable = "avx2,fma")]
fn compiled<K: Kernel>(token: Avx2, kernel: K) -> K::Output {
    kernel.run(token)
}

type F = [__m256; 2];
type I = [__m256i; 2];

/// Applies one instruction to both halves.
macro_rules! both {
    ($instruction:ident, $a:ident $(, $more:ident)*) => {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe { [$instruction($a[0] $(, $more[0])*), $instruction($a[1] $(, $more[1])*)] }
    };
}

/// All ones where `a` < `b`; zeros elsewhere, including NaN.
#[inline(always)]
fn less(a: __m256, b: __m256) -> __m256 {
    // SAFETY: called by methods of the token, which exists only if detected.
    unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
}

/// Adds exact products of fours of bytes, without the saturation of `vpmaddubsw`: even and odd
/// bytes are widened to 16 bits, multiplied, and added in pairs.
#[inline(always)]
fn dot_half(sum: __m256i, a: __m256i, weights: __m256i) -> __m256i {
    // SAFETY: called by methods of the token, which exists only if detected.
    unsafe {
        let bytes = _mm256_set1_epi16(0xff);
        let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(weights));
        let odd = _mm256_srai_epi16::<8>(weights);
        let even = _mm256_madd_epi16(even, _mm256_and_si256(a, bytes));
        let odd = _mm256_madd_epi16(odd, _mm256_srli_epi16::<8>(a));
        _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
    }
}

impl Lanes for Avx2 {
    type F = F;
    type I = I;
    // Each vector takes two of sixteen registers. Six rows of one vector leave four registers;
    // three rows of two vectors would need seventeen, and a spilled sum halves the speed.
    const SUMS: usize = 6;
    const WHOLE: bool = false;

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

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> F {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        both!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        both!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        both!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        both!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        both!(_mm256_fmadd_ps, a, b, c)
    }
    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        both!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        both!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    fn evens(self, a: F, b: F) -> F {
        [a, b].map(|[low, high]| {
            // SAFETY: the token exists only if its instructions were detected.
            unsafe {
                // Pairs of numbers at even places: first and third of them are those of `low`.
                let pairs = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
                _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(pairs))
            }
        })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> F {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `from` is valid for reads of 16 numbers.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> F {
        // SAFETY: the token exists only if its instructions were detected. The caller guarantees
        // that `from` is valid for `count` numbers, and masked lanes are not read.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let low = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
            let high = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32 - 8), lanes);
            let rest = from.wrapping_add(8);
            [_mm256_maskload_ps(from, low), _mm256_maskload_ps(rest, high)]
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: F) {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `to` is valid for writes of 16 numbers.
        unsafe {
            _mm256_storeu_ps(to, x[0]);
            _mm256_storeu_ps(to.add(8), x[1]);
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, x: F, count: usize) {
        let mut numbers = [0.0; LANES];
        // SAFETY: `numbers` holds 16 numbers, and the caller guarantees that `to` is valid for
        // writes of `count` numbers.
        unsafe {
            self.store(numbers.as_mut_ptr(), x);
            // Copied as bytes, which need no alignment.
            let bytes = size_of::<f32>() * count.min(LANES);
            to.cast::<u8>().copy_from_nonoverlapping(numbers.as_ptr().cast(), bytes);
        }
    }

    #[inline(always)]
    fn zero_i32(self) -> I {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    unsafe fn store_i32(self, to: *mut i32, x: I) {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `to` is valid for writes of 16 numbers.
        unsafe {
            _mm256_storeu_si256(to.cast(), x[0]);
            _mm256_storeu_si256(to.add(8).cast(), x[1]);
        }
    }
    #[inline(always)]
    unsafe fn load_i32(self, from: *const i32) -> I {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `from` is valid for reads of 16 numbers.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
    }
    #[inline(always)]
    fn to_f32(self, x: I) -> F {
        both!(_mm256_cvtepi32_ps, x)
    }
    #[inline(always)]
    fn add_i32(self, a: I, b: I) -> I {
        both!(_mm256_add_epi32, a, b)
    }
    #[inline(always)]
    fn sub_i32(self, a: I, b: I) -> I {
        both!(_mm256_sub_epi32, a, b)
    }

    #[inline(always)]
    fn splat_i32(self, x: i32) -> I {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe { [_mm256_set1_epi32(x); 2] }
    }
    #[inline(always)]
    fn and_i32(self, a: I, b: I) -> I {
        both!(_mm256_and_si256, a, b)
    }
    #[inline(always)]
    fn or_i32(self, a: I, b: I) -> I {
        both!(_mm256_or_si256, a, b)
    }
    #[inline(always)]
    fn xor_i32(self, a: I, b: I) -> I {
        both!(_mm256_xor_si256, a, b)
    }
    #[inline(always)]
    fn shift_left(self, x: I, count: u32) -> I {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe { x.map(|x| _mm256_sll_epi32(x, _mm_cvtsi32_si128(count.cast_signed()))) }
    }
    #[inline(always)]
    fn shift_right(self, x: I, count: u32) -> I {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe { x.map(|x| _mm256_srl_epi32(x, _mm_cvtsi32_si128(count.cast_signed()))) }
    }
    #[inline(always)]
    fn bits(self, x: F) -> I {
        both!(_mm256_castps_si256, x)
    }
    #[inline(always)]
    fn with_bits(self, x: I) -> F {
        both!(_mm256_castsi256_ps, x)
    }
    #[inline(always)]
    fn select_less(self, a: F, b: F, then: F, otherwise: F) -> F {
        let mask = [less(a[0], b[0]), less(a[1], b[1])];
        both!(_mm256_blendv_ps, otherwise, then, mask)
    }

    #[inline(always)]
    unsafe fn dot_bf16(self, sum: F, a: u32, weights: *const u8) -> F {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `weights` is valid for reads of 64 bytes.
        unsafe {
            let mask = _mm256_set1_epi32(0xffff_0000_u32.cast_signed());
            let low = |pairs| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs));
            let high = |pairs| _mm256_castsi256_ps(_mm256_and_si256(pairs, mask));
            // Broadcasts first and splits in vector registers: splitting a scalar would need two
            // moves.
            let a = _mm256_set1_epi32(a.cast_signed());
            let pairs = self.load_i32(weights.cast());
            let sum = self.fma([high(a); 2], pairs.map(high), sum);
            self.fma([low(a); 2], pairs.map(low), sum)
        }
    }
    #[inline(always)]
    unsafe fn dot_i8(self, sum: I, a: u32, weights: *const u8) -> I {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `weights` is valid for reads of 64 bytes.
        unsafe {
            let a = _mm256_set1_epi32(a.cast_signed());
            let weights = self.load_i32(weights.cast());
            [dot_half(sum[0], a, weights[0]), dot_half(sum[1], a, weights[1])]
        }
    }
    #[inline(always)]
    unsafe fn dot_i16(self, sum: I, a: u32, weights: *const u8) -> I {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `weights` is valid for reads of 64 bytes.
        unsafe {
            let a = _mm256_set1_epi32(a.cast_signed());
            let weights = self.load_i32(weights.cast());
            self.add_i32(sum, [_mm256_madd_epi16(a, weights[0]), _mm256_madd_epi16(a, weights[1])])
        }
    }
    #[inline(always)]
    unsafe fn dot_few(self, few: I, a: u32, weights: *const u8) -> I {
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `weights` is valid for reads of 64 bytes.
        unsafe {
            let a = _mm256_set1_epi32(a.cast_signed());
            let weights = self.load_i32(weights.cast());
            let low = _mm256_maddubs_epi16(a, weights[0]);
            let high = _mm256_maddubs_epi16(a, weights[1]);
            [_mm256_add_epi16(few[0], low), _mm256_add_epi16(few[1], high)]
        }
    }
    #[inline(always)]
    fn settle(self, sum: I, few: I) -> I {
        // SAFETY: the token exists only if its instructions were detected.
        unsafe {
            let ones = _mm256_set1_epi16(1);
            let wide = [_mm256_madd_epi16(few[0], ones), _mm256_madd_epi16(few[1], ones)];
            self.add_i32(sum, wide)
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16, x: F) {
        let mut numbers = [0.0; LANES];
        // SAFETY: `numbers` holds 16 numbers, and the caller guarantees that `to` is valid for
        // writes of 32 bytes.
        unsafe {
            self.store(numbers.as_mut_ptr(), x);
            to.cast::<[u16; LANES]>().write_unaligned(numbers.map(super::narrowed));
        }
    }
    #[inline(always)]
    unsafe fn store_u8(self, to: *mut u8, x: F) {
        let x = self.max(self.splat(-128.0), self.min(self.splat(127.0), x));
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `to` is valid for writes of 16 bytes.
        unsafe {
            let (more, zero) = (_mm256_set1_epi32(128), _mm256_setzero_si256());
            let low = _mm256_add_epi32(_mm256_cvtps_epi32(x[0]), more);
            let high = _mm256_add_epi32(_mm256_cvtps_epi32(x[1]), more);
            let (low, high) = (_mm256_max_epi32(low, zero), _mm256_max_epi32(high, zero));
            // Packing works within halves of registers; the permutation restores the order.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
            let halves = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.cast(), _mm_packus_epi16(halves.0, halves.1));
        }
    }
    #[inline(always)]
    unsafe fn store_i16(self, to: *mut i16, x: F) {
        let least = self.splat(f32::from(i16::MIN));
        let x = self.max(least, self.min(x, self.splat(f32::from(i16::MAX))));
        // SAFETY: the token exists only if its instructions were detected, and the caller
        // guarantees that `to` is valid for writes of 32 bytes.
        unsafe {
            let (low, high) = (_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
            // Restores the order, as in `store_u8`.
            let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            _mm256_storeu_si256(to.cast(), halves);
        }
    }
}
