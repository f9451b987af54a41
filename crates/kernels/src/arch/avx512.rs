//! AVX-512 in three levels: the base (F, BW, DQ, VL), with byte products (VNNI), and with bfloat16
//! products.

use std::arch::x86_64::*;

use crate::lanes::{Kernel, Lanes};

/// Products of bfloat16 pairs without a dedicated instruction: both are widened.
#[inline(always)]
fn dot_bf16_widened(sum: __m512, a: u32, weights: __m512i) -> __m512 {
    // SAFETY: called by methods of tokens, which exist only if detected.
    unsafe {
        let first = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(weights));
        let mask = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
        let second = _mm512_castsi512_ps(_mm512_and_si512(weights, mask));
        let high = _mm512_set1_ps(f32::from_bits(a & 0xffff_0000));
        let sum = _mm512_fmadd_ps(high, second, sum);
        _mm512_fmadd_ps(_mm512_set1_ps(f32::from_bits(a << 16)), first, sum)
    }
}

#[inline(always)]
fn dot_bf16(sum: __m512, a: u32, weights: __m512i) -> __m512 {
    // SAFETY: called by methods of the token with bfloat16, which exists only if detected. Both
    // types have 64 bytes, and every bit pattern is valid.
    unsafe {
        let a = std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(a.cast_signed()));
        _mm512_dpbf16_ps(sum, a, std::mem::transmute::<__m512i, __m512bh>(weights))
    }
}

/// Exact products of fours of bytes without VNNI; see `dot_half` in `avx2.rs`.
#[inline(always)]
fn dot_i8_widened(sum: __m512i, a: u32, weights: __m512i) -> __m512i {
    // SAFETY: called by methods of tokens, which exist only if detected.
    unsafe {
        let a = _mm512_set1_epi32(a.cast_signed());
        let even = _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(weights));
        let odd = _mm512_srai_epi16::<8>(weights);
        let even = _mm512_madd_epi16(even, _mm512_and_si512(a, _mm512_set1_epi16(0xff)));
        let odd = _mm512_madd_epi16(odd, _mm512_srli_epi16::<8>(a));
        _mm512_add_epi32(sum, _mm512_add_epi32(even, odd))
    }
}

#[inline(always)]
fn dot_i8(sum: __m512i, a: u32, weights: __m512i) -> __m512i {
    // SAFETY: called by methods of tokens with VNNI, which exist only if detected.
    unsafe { _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(a.cast_signed()), weights) }
}

#[inline(always)]
fn dot_i16_added(sum: __m512i, a: u32, weights: __m512i) -> __m512i {
    // SAFETY: called by methods of tokens, which exist only if detected.
    unsafe {
        let products = _mm512_madd_epi16(_mm512_set1_epi32(a.cast_signed()), weights);
        _mm512_add_epi32(sum, products)
    }
}

#[inline(always)]
fn dot_i16(sum: __m512i, a: u32, weights: __m512i) -> __m512i {
    // SAFETY: called by methods of tokens with VNNI, which exist only if detected.
    unsafe { _mm512_dpwssd_epi32(sum, _mm512_set1_epi32(a.cast_signed()), weights) }
}

/// Defines a token and its operations.
macro_rules! token {
    ($(#[$doc:meta])* $token:ident, $compiled:ident, [$($feature:tt),*], $features:literal,
        $dot_bf16:ident of $pairs:ident, [$dot_i8:ident, $dot_i16:ident] of $fours:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $token(());

        impl $token {
            pub(crate) fn detect() -> Option<Self> {
                (true $(&& is_x86_feature_detected!($feature))*).then_some(Self(()))
            }
        }

        #[target_feature(enable = $features)]
        fn $compiled<K: Kernel>(token: $token, kernel: K) -> K::Output {
            kernel.run(token)
        }

        impl Lanes for $token {
            type F = __m512;
            type I = __m512i;
            const SUMS: usize = 24;
            const WHOLE: bool = true;

            // A processor with this level has the levels that it extends.
            type Plain = Avx512;
            type Pairs = $pairs;
            type Fours = $fours;

            #[inline(always)]
            fn plain(self) -> Avx512 {
                Avx512(())
            }
            #[inline(always)]
            fn pairs(self) -> $pairs {
                $pairs(())
            }
            #[inline(always)]
            fn fours(self) -> $fours {
                $fours(())
            }

            #[inline(always)]
            fn call<K: Kernel>(self, kernel: K) -> K::Output {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { $compiled(self, kernel) }
            }

            #[inline(always)]
            fn splat(self, x: f32) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_set1_ps(x) }
            }
            #[inline(always)]
            fn add(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_add_ps(a, b) }
            }
            #[inline(always)]
            fn sub(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_sub_ps(a, b) }
            }
            #[inline(always)]
            fn mul(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_mul_ps(a, b) }
            }
            #[inline(always)]
            fn div(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_div_ps(a, b) }
            }
            #[inline(always)]
            fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_fmadd_ps(a, b, c) }
            }
            #[inline(always)]
            fn min(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_min_ps(a, b) }
            }
            #[inline(always)]
            fn max(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_max_ps(a, b) }
            }
            #[inline(always)]
            fn evens(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe {
                    let lanes = _mm512_setr_epi32(
                        0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                    );
                    _mm512_permutex2var_ps(a, lanes, b)
                }
            }

            #[inline(always)]
            unsafe fn load(self, from: *const f32) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `from` is valid for reads of 16 numbers.
                unsafe { _mm512_loadu_ps(from) }
            }
            #[inline(always)]
            unsafe fn load_first(self, from: *const f32, count: usize) -> __m512 {
                let mask = ((1_u32 << count) - 1) as u16;
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `from` is valid for reads of `count` numbers.
                unsafe { _mm512_maskz_loadu_ps(mask, from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32, x: __m512) {
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `to` is valid for writes of 16 numbers.
                unsafe { _mm512_storeu_ps(to, x) }
            }
            #[inline(always)]
            unsafe fn store_first(self, to: *mut f32, x: __m512, count: usize) {
                let mask = ((1_u32 << count) - 1) as u16;
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `to` is valid for writes of `count` numbers.
                unsafe { _mm512_mask_storeu_ps(to, mask, x) }
            }

            #[inline(always)]
            fn zero_i32(self) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_setzero_si512() }
            }
            #[inline(always)]
            unsafe fn store_i32(self, to: *mut i32, x: __m512i) {
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `to` is valid for writes of 16 numbers.
                unsafe { _mm512_storeu_si512(to.cast(), x) }
            }
            #[inline(always)]
            unsafe fn load_i32(self, from: *const i32) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `from` is valid for reads of 16 numbers.
                unsafe { _mm512_loadu_si512(from.cast()) }
            }
            #[inline(always)]
            fn to_f32(self, x: __m512i) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_cvtepi32_ps(x) }
            }
            #[inline(always)]
            fn add_i32(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_add_epi32(a, b) }
            }
            #[inline(always)]
            fn sub_i32(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_sub_epi32(a, b) }
            }

            #[inline(always)]
            fn splat_i32(self, x: i32) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_set1_epi32(x) }
            }
            #[inline(always)]
            fn and_i32(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_and_si512(a, b) }
            }
            #[inline(always)]
            fn or_i32(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_or_si512(a, b) }
            }
            #[inline(always)]
            fn xor_i32(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_xor_si512(a, b) }
            }
            #[inline(always)]
            fn shift_left(self, x: __m512i, count: u32) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_sll_epi32(x, _mm_cvtsi32_si128(count.cast_signed())) }
            }
            #[inline(always)]
            fn shift_right(self, x: __m512i, count: u32) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_srl_epi32(x, _mm_cvtsi32_si128(count.cast_signed())) }
            }
            #[inline(always)]
            fn bits(self, x: __m512) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_castps_si512(x) }
            }
            #[inline(always)]
            fn with_bits(self, x: __m512i) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe { _mm512_castsi512_ps(x) }
            }
            #[inline(always)]
            fn select_less(
                self,
                a: __m512,
                b: __m512,
                then: __m512,
                otherwise: __m512,
            ) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected.
                unsafe {
                    let mask = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
                    _mm512_mask_blend_ps(mask, otherwise, then)
                }
            }

            #[inline(always)]
            unsafe fn dot_bf16(self, sum: __m512, a: u32, weights: *const u8) -> __m512 {
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `weights` is valid for reads of 64 bytes.
                $dot_bf16(sum, a, unsafe { _mm512_loadu_si512(weights.cast()) })
            }
            #[inline(always)]
            unsafe fn dot_i8(self, sum: __m512i, a: u32, weights: *const u8) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `weights` is valid for reads of 64 bytes.
                $dot_i8(sum, a, unsafe { _mm512_loadu_si512(weights.cast()) })
            }
            #[inline(always)]
            unsafe fn dot_i16(self, sum: __m512i, a: u32, weights: *const u8) -> __m512i {
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `weights` is valid for reads of 64 bytes.
                $dot_i16(sum, a, unsafe { _mm512_loadu_si512(weights.cast()) })
            }
            #[inline(always)]
            unsafe fn store_bf16(self, to: *mut u16, x: __m512) {
                // Rounds in integers like portable code, including denormals.
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `to` is valid for writes of 32 bytes.
                unsafe {
                    let bits = _mm512_castps_si512(x);
                    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
                    let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
                    let rounded = _mm512_add_epi32(bits, half);
                    let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
                    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                    let rounded = _mm512_mask_mov_epi32(rounded, nan, quiet);
                    let narrow = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded));
                    _mm256_storeu_si256(to.cast(), narrow);
                }
            }
            #[inline(always)]
            unsafe fn store_u8(self, to: *mut u8, x: __m512) {
                let x = self.max(self.splat(-128.0), self.min(self.splat(127.0), x));
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `to` is valid for writes of 16 bytes.
                unsafe {
                    let whole = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(128));
                    let whole = _mm512_max_epi32(whole, _mm512_setzero_si512());
                    _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(whole));
                }
            }
            #[inline(always)]
            unsafe fn store_i16(self, to: *mut i16, x: __m512) {
                let x = self.min(x, self.splat(f32::from(i16::MAX)));
                let x = self.max(self.splat(f32::from(i16::MIN)), x);
                // SAFETY: the token exists only if its instructions were detected, and the caller
                // guarantees that `to` is valid for writes of 32 bytes.
                unsafe {
                    _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)));
                }
            }
        }
    };
}

token!(
    /// Token that exists only if the processor has the base, on which every method relies.
    Avx512, compiled, ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"],
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma",
    dot_bf16_widened of Avx512, [dot_i8_widened, dot_i16_added] of Avx512
);
token!(
    /// Token that exists only if the processor has the base and VNNI, on which every method relies.
    Avx512Vnni, compiled_vnni,
    ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx2", "fma"],
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma",
    dot_bf16_widened of Avx512, [dot_i8, dot_i16] of Avx512Vnni
);
token!(
    /// Token that exists only if the processor has the base, VNNI and bfloat16, on which every
    /// method relies.
    Avx512Bf16, compiled_bf16,
    ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx2", "fma"],
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma",
    dot_bf16 of Avx512Bf16, [dot_i8, dot_i16] of Avx512Vnni
);
