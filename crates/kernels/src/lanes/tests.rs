//! Comparison of every operation of every instruction set with portable code, or with its
//! definition.

use super::{Kernel, LANES, Lanes};
use crate::isa::Isa;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
const MIN: f32 = f32::MIN_POSITIVE;

/// Zeros, denormals, limits, infinities and NaN among ordinary numbers.
const SPECIAL: [f32; 23] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1.5,
    -2.75,
    0.1,
    1e-45,
    -1e-45,
    MIN,
    -MIN,
    3e-39,
    1e38,
    -1e38,
    f32::MAX,
    f32::MIN,
    INF,
    -INF,
    NAN,
    16_777_217.0,
    -0.333_333_34,
    127.5,
    -128.5,
];

/// Sixteen of these numbers, from each position on.
fn sixteen(from: usize) -> [f32; LANES] {
    std::array::from_fn(|lane| SPECIAL[(from + lane) % SPECIAL.len()])
}

type Lane = [f32; LANES];

/// Arithmetic, one vector per operation.
struct Arithmetic(Lane, Lane, Lane);

impl Kernel for Arithmetic {
    type Output = Vec<Lane>;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Vec<Lane> {
        let load = |lane: &Lane| {
            // SAFETY: a `Lane` has 16 numbers.
            unsafe { s.load(lane.as_ptr()) }
        };
        let [a, b, c] = [&self.0, &self.1, &self.2].map(load);
        let splat = s.splat(self.0[3]);
        let results = [
            s.add(a, b),
            s.sub(a, b),
            s.mul(a, b),
            s.div(a, b),
            s.min(a, b),
            s.max(a, b),
            splat,
            s.fma(a, b, c),
        ];
        results
            .map(|x| {
                let mut lane = [0.0; LANES];
                // SAFETY: a `Lane` has 16 numbers.
                unsafe { s.store(lane.as_mut_ptr(), x) };
                lane
            })
            .into()
    }
}

/// Bits of the numbers; all NaNs are equal.
fn bits(x: f32) -> u32 {
    if x.is_nan() { u32::MAX } else { x.to_bits() }
}

#[test]
fn arithmetic_is_that_of_single_numbers() {
    let count = SPECIAL.len();
    for isa in Isa::all() {
        for at in 0..count * count {
            let (a, b, c) = (sixteen(at % count), sixteen(at / count), sixteen(at * 7 % count));
            let results = isa.run(Arithmetic(a, b, c));
            for lane in 0..LANES {
                let (a, b, c, first) = (a[lane], b[lane], c[lane], a[3]);
                let fused = if isa == Isa::scalar() { a * b + c } else { a.mul_add(b, c) };
                let (less, more) = (if a < b { a } else { b }, if a > b { a } else { b });
                let expected = [a + b, a - b, a * b, a / b, less, more, first, fused];
                for (operation, expected) in expected.iter().enumerate() {
                    let found = results[operation][lane];
                    let what = format!("operation {operation} of {a:e}, {b:e}, {c:e} {isa}");
                    assert_eq!(bits(found), bits(*expected), "{found:e} {expected:e} {what}");
                }
            }
        }
    }
}

/// Loads at one address and stores at another, also of the first lanes and of integers.
struct Moves<'a> {
    from: &'a [u8],
    to: &'a mut [u8],
    count: Option<usize>,
    is_whole: bool,
}

impl Kernel for Moves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (from, to) = (self.from.as_ptr(), self.to.as_mut_ptr());
        // SAFETY: the test passes at least 64 bytes on both sides.
        unsafe {
            match self.count {
                Some(count) => s.store_first(to.cast(), s.load(from.cast()), count),
                None if self.is_whole => s.store_i32(to.cast(), s.load_i32(from.cast())),
                None => s.store(to.cast(), s.load(from.cast())),
            }
        }
    }
}

#[test]
fn moves_touch_their_numbers_at_any_address() {
    let from: Vec<u8> = (0..192_u32).map(|at| (at * 7 % 251) as u8).collect();
    for isa in Isa::all() {
        for offset in 0..=65 {
            let counts = (0..=LANES).map(Some).chain([None]);
            for (count, is_whole) in counts.flat_map(|count| [(count, false), (count, true)]) {
                let mut to = [0xee_u8; 192];
                let other = 65 - offset;
                let from = &from[offset..][..64];
                isa.run(Moves { from, to: &mut to[other..], count, is_whole });
                let bytes = count.unwrap_or(LANES) * 4;
                assert_eq!(to[other..][..bytes], from[..bytes], "{count:?} {offset} {isa}");
                let outside = to[..other].iter().chain(&to[other + bytes..]);
                assert!(outside.into_iter().all(|byte| *byte == 0xee), "{count:?} {offset} {isa}");
            }
        }
    }
}

/// Loads up to sixteen numbers; the rest are zeros.
struct FirstLanes<'a>(&'a [f32]);

impl Kernel for FirstLanes<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> [f32; LANES] {
        let mut found = [f32::NAN; LANES];
        // SAFETY: no more numbers are loaded than the slice has, and `found` has room for 16.
        unsafe { s.store(found.as_mut_ptr(), s.load_first(self.0.as_ptr(), self.0.len())) };
        found
    }
}

#[test]
fn first_numbers_are_followed_by_zeros() {
    let numbers: Vec<f32> = (1..=20).map(|at| at as f32).collect();
    for isa in Isa::all() {
        for (count, offset) in (0..=LANES).flat_map(|count| [(count, 0), (count, 3)]) {
            let some = &numbers[offset..][..count];
            let found = isa.run(FirstLanes(some));
            assert_eq!(found[..count], *some, "{isa}");
            assert!(found[count..].iter().all(|x| *x == 0.0), "{count} of {found:?} {isa}");
        }
    }
}

/// Integers: sum, difference, and conversion to `f32`.
struct Integers([i32; LANES], [i32; LANES]);

impl Kernel for Integers {
    type Output = ([i32; LANES], [i32; LANES], Lane, [i32; LANES]);

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Self::Output {
        let mut all = ([0; LANES], [0; LANES], [0.0; LANES], [1; LANES]);
        // SAFETY: all arrays have 16 numbers.
        unsafe {
            let (a, b) = (s.load_i32(self.0.as_ptr()), s.load_i32(self.1.as_ptr()));
            s.store_i32(all.0.as_mut_ptr(), s.add_i32(a, b));
            s.store_i32(all.1.as_mut_ptr(), s.sub_i32(a, b));
            s.store(all.2.as_mut_ptr(), s.to_f32(a));
            s.store_i32(all.3.as_mut_ptr(), s.zero_i32());
        }
        all
    }
}

#[test]
fn whole_numbers_wrap_and_round() {
    let some = [0, 1, -1, i32::MAX, i32::MIN, 1 << 24, (1 << 24) + 1, 33_554_435, -77_777_777];
    for (isa, shift) in Isa::all().into_iter().flat_map(|isa| (0..9).map(move |s| (isa, s))) {
        let a: [i32; LANES] = std::array::from_fn(|lane| some[lane % 9]);
        let b: [i32; LANES] = std::array::from_fn(|lane| some[(lane + shift) % 9]);
        let (sum, difference, float, zero) = isa.run(Integers(a, b));
        for lane in 0..LANES {
            let (a, b) = (a[lane], b[lane]);
            assert_eq!(sum[lane], a.wrapping_add(b), "{isa}");
            assert_eq!(difference[lane], a.wrapping_sub(b), "{isa}");
            assert_eq!((float[lane], zero[lane]), (a as f32, 0), "{isa}");
        }
    }
}

/// Bit operations: and, or, xor, shifts; and a selection.
struct Bits([i32; LANES], [i32; LANES], u32);

impl Kernel for Bits {
    type Output = [[i32; LANES]; 7];

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Self::Output {
        let Self(a, b, count) = self;
        // SAFETY: both arrays have 16 numbers.
        let (a, b) = unsafe { (s.load_i32(a.as_ptr()), s.load_i32(b.as_ptr())) };
        let [x, y] = [a, b].map(|whole| s.with_bits(whole));
        [
            s.and_i32(a, b),
            s.or_i32(a, b),
            s.xor_i32(a, b),
            s.shift_left(a, count),
            s.shift_right(a, count),
            s.bits(s.select_less(x, y, s.with_bits(s.splat_i32(3)), y)),
            s.splat_i32(-7),
        ]
        .map(|whole| {
            let mut lanes = [0; LANES];
            // SAFETY: there is room for 16 numbers.
            unsafe { s.store_i32(lanes.as_mut_ptr(), whole) };
            lanes
        })
    }
}

#[test]
fn bits_move_and_numbers_are_chosen() {
    let count = SPECIAL.len();
    for isa in Isa::all() {
        for at in 0..count * count {
            let [x, y] = [at % count, at / count].map(sixteen);
            let [a, b] = [x, y].map(|lane| lane.map(|x| x.to_bits().cast_signed()));
            let by = (at % 32) as u32;
            let found = isa.run(Bits(a, b, by));
            for lane in 0..LANES {
                let (a, b) = (a[lane], b[lane]);
                let chosen = if x[lane] < y[lane] { 3 } else { b };
                let down = (a.cast_unsigned() >> by).cast_signed();
                let expected = [a & b, a | b, a ^ b, a << by, down, chosen, -7];
                assert_eq!(found.map(|lanes| lanes[lane]), expected, "{a:x} {b:x} {by} {isa}");
            }
        }
    }
}

/// Products of fours of bytes, of pairs of halves, and of pairs of bfloat16, at an odd address.
struct Dot<'a> {
    whole: [i32; LANES],
    sum: Lane,
    a: u32,
    weights: &'a [u8],
}

impl Kernel for Dot<'_> {
    type Output = ([i32; LANES], [i32; LANES], Lane);

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Self::Output {
        let (mut whole, mut halves, mut sum) = (self.whole, self.whole, self.sum);
        assert!(self.weights.len() >= 64, "a vector of weights");
        let weights = self.weights.as_ptr();
        // SAFETY: the weights have 64 bytes, the other arrays 16 numbers.
        unsafe {
            s.store_i32(whole.as_mut_ptr(), s.dot_i8(s.load_i32(whole.as_ptr()), self.a, weights));
            let dot = s.dot_i16(s.load_i32(halves.as_ptr()), self.a, weights);
            s.store_i32(halves.as_mut_ptr(), dot);
            s.store(sum.as_mut_ptr(), s.dot_bf16(s.load(sum.as_ptr()), self.a, weights));
        }
        (whole, halves, sum)
    }
}

#[test]
fn products_of_whole_numbers_are_exact_and_wrap() {
    let bytes = [0, 1, 2, 127, 128, 129, 200, 254, 255, 64, 100, 3_u8];
    for isa in Isa::all() {
        for at in 0..bytes.len().pow(3) {
            let pick = |by: usize| bytes[(at / by + at) % bytes.len()];
            let a = [pick(1), pick(12), pick(144), bytes[at % 12]];
            let weights: Vec<u8> =
                (0..67).map(|byte| bytes[(byte * 5 + at) % bytes.len()]).collect();
            let first = [0, i32::MAX, i32::MIN, -5][at % 4];
            let (whole, sum, offset) = ([first; LANES], [0.0; LANES], at % 3);
            let kernel = Dot { whole, sum, a: u32::from_le_bytes(a), weights: &weights[offset..] };
            let (found, halves, _) = isa.run(kernel);
            for (lane, (found, halves)) in found.into_iter().zip(halves).enumerate() {
                let w = &weights[offset + lane * 4..][..4];
                let product = |(a, w): (&u8, &u8)| i32::from(*a) * i32::from(w.cast_signed());
                let expected = first.wrapping_add(a.iter().zip(w).map(product).sum());
                assert_eq!(found, expected, "{a:?} {w:?} {isa}");
                let half =
                    |bytes: &[u8], at| i64::from(i16::from_le_bytes([bytes[at], bytes[at + 1]]));
                let both = half(&a, 0) * half(w, 0) + half(&a, 2) * half(w, 2);
                // The sum of two products of -32768 by itself overflows.
                if let Ok(both) = i32::try_from(both) {
                    assert_eq!(halves, first.wrapping_add(both), "{a:?} {w:?} {isa}");
                }
            }
        }
    }
}

#[test]
fn products_of_bfloat16_round_at_most_twice() {
    let some = [0.0, 1.0, -1.0, 3.2, -0.007, 250.0, 1e15, -1e15, 1e-20, 1e-39, INF, -INF, NAN];
    let narrow = |x: f32| x.to_bits() >> 16;
    // Only the instruction for pairs treats denormals as zeros.
    let wide = |half: u32, flushed: bool| {
        let x = f32::from_bits(half << 16);
        f64::from(if flushed && x.is_subnormal() { 0.0 } else { x })
    };
    for isa in Isa::all() {
        for at in 0..some.len().pow(2) {
            let (low, high) = (narrow(some[at % 13]), narrow(some[at / 13]));
            let half = |index: usize| narrow(some[(index * 3 + at) % 13]);
            let weights: Vec<u8> =
                (0..32).flat_map(|index| (half(index) as u16).to_le_bytes()).collect();
            let first = [0.0, 2.5, -1e14, 1e-39][at % 4];
            let (whole, sum) = ([0; LANES], [first; LANES]);
            let (_, _, found) = isa.run(Dot { whole, sum, a: low | high << 16, weights: &weights });
            for (lane, found) in found.into_iter().map(f64::from).enumerate() {
                let is_right = |flushed: bool| {
                    let one = wide(low, flushed) * wide(half(2 * lane), flushed);
                    let other = wide(high, flushed) * wide(half(2 * lane + 1), flushed);
                    let expected = f64::from(first) + one + other;
                    let all = f64::from(first).abs() + one.abs() + other.abs();
                    let bound = all * 2.0_f64.powi(-22) + f64::from(MIN);
                    let near = (found - expected).abs() <= bound;
                    near || found == expected || found.is_nan() && expected.is_nan()
                };
                let halves = [low, high, half(2 * lane), half(2 * lane + 1)];
                assert!(
                    is_right(false) || is_right(true),
                    "{found:e} of {first} {halves:x?} {isa}"
                );
            }
        }
    }
}

/// Narrowing, at an odd address.
struct Narrowing<'a>(Lane, [&'a mut [u8; 40]; 3]);

impl Kernel for Narrowing<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let [bf16, bytes, halves] = self.1.map(|to| to.as_mut_ptr().wrapping_add(1));
        // SAFETY: the buffers have 32, 16 and 32 bytes from byte 1 on, and the lane 16 numbers.
        unsafe {
            let x = s.load(self.0.as_ptr());
            s.store_bf16(bf16.cast(), x);
            s.store_u8(bytes, x);
            s.store_i16(halves.cast(), x);
        }
    }
}

/// Definition: the nearer of both neighbors; the even one if both are equally near.
fn nearest(x: f32) -> u16 {
    let down = x.to_bits() & 0xffff_0000;
    let up = down.wrapping_add(0x1_0000);
    // The step after the greatest number is as wide as the last, and leads to infinity.
    let at = |bits: u32| {
        let x = f64::from(f32::from_bits(bits));
        if x.is_infinite() { 2.0_f64.powi(128).copysign(x) } else { x }
    };
    let (below, above) = ((f64::from(x) - at(down)).abs(), (f64::from(x) - at(up)).abs());
    let is_even = down >> 16 & 1 == 0;
    let bits = if below < above || (below == above && is_even) { down } else { up };
    (bits >> 16) as u16
}

#[test]
fn narrowing_rounds_to_nearest_even_and_saturates() {
    let halves = (0..1_u32 << 16).step_by(3).chain(0x7f70..0x7f90).chain(0xff70..0xff90);
    let lows = [0_u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234, 0xfedc];
    let mut numbers: Vec<f32> =
        halves.flat_map(|half| lows.map(|low| f32::from_bits(half << 16 | low))).collect();
    numbers.extend((-1400..1400).map(|eighth| eighth as f32 / 8.0));
    let ends = [-32_769.0_f32, -32_768.5, -32_767.5, 32_766.5, 32_767.0, 32_767.5, 32_768.0, 0.5];
    numbers.extend([ends, ends].concat());
    for isa in Isa::all() {
        for some in numbers.chunks_exact(LANES) {
            let [mut halves, mut bytes, mut whole] = [[0xee; 40]; 3];
            let lane = some.try_into().expect("sixteen");
            isa.run(Narrowing(lane, [&mut halves, &mut bytes, &mut whole]));
            for (at, x) in some.iter().enumerate() {
                let half = u16::from_le_bytes([halves[2 * at + 1], halves[2 * at + 2]]);
                if x.is_nan() {
                    assert!(half & 0x7fff > 0x7f80, "{half:x} of NaN {isa}");
                } else if x.is_infinite() {
                    assert_eq!(u32::from(half), x.to_bits() >> 16, "{isa}");
                } else {
                    assert_eq!(half, nearest(*x), "{x:e} {isa}");
                }
                let byte = (f64::from(*x).round_ties_even() + 128.0).clamp(0.0, 255.0) as u8;
                assert_eq!(bytes[at + 1], byte, "{x:e} {isa}");
                let found = i16::from_le_bytes([whole[2 * at + 1], whole[2 * at + 2]]);
                let half = if x.is_nan() { i16::MAX } else { x.round_ties_even() as i16 };
                assert_eq!(found, half, "{x:e} {isa}");
            }
            let after = halves[33..].iter().chain(&bytes[17..]).chain(&whole[33..]);
            assert!(after.chain([&halves[0], &bytes[0], &whole[0]]).all(|b| *b == 0xee), "{isa}");
        }
    }
}

/// Numbers at even places, in the first half and in the second.
struct Evens(Lane, Lane);

impl Kernel for Evens {
    type Output = Lane;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Lane {
        let mut lanes = [0.0; LANES];
        // SAFETY: a `Lane` has 16 numbers.
        unsafe {
            let (a, b) = (s.load(self.0.as_ptr()), s.load(self.1.as_ptr()));
            s.store(lanes.as_mut_ptr(), s.evens(a, b));
        }
        lanes
    }
}

#[test]
fn even_places_are_joined() {
    let [a, b, expected] =
        [0, 16, 0].map(|first| std::array::from_fn(|lane| (first + lane) as f32));
    let expected: Lane = expected.map(|lane: f32| 2.0 * lane);
    for isa in Isa::all() {
        assert_eq!(isa.run(Evens(a, b)), expected, "{isa}");
    }
}
