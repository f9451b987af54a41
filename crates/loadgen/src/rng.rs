//! Random numbers: the generators and distributions of libstdc++ (GCC 11 and later), bit for bit,
//! so that traces equal those of the reference. No other module draws random numbers. [`split_mix`]
//! is for draws that the reference does not have.
//!
//! ```
//! use dyno_loadgen::rng::Mt19937;
//!
//! let mut rng = Mt19937::new(Mt19937::DEFAULT_SEED);
//! assert_eq!(rng.next_u32(), 3_499_211_612);
//! assert!(rng.bounded(6) < 6);
//! ```
//!
//! Source: `std::mt19937`, `std::uniform_int_distribution`, `std::shuffle`,
//! `std::generate_canonical` and `std::exponential_distribution` as libstdc++ implements them.
//! Other standard libraries draw differently, so that logs of builds with them cannot be
//! reproduced.

const STATE_WORDS: usize = 624;
const MIDDLE_WORD: usize = 397;

/// Shapes of gamma-distributed gaps between arrivals. Beyond, nearly all gaps are 0, or all are equal.
pub const GAMMA_SHAPES: std::ops::RangeInclusive<f64> = 0.001..=1e6;

/// `std::mt19937`: the 32-bit Mersenne twister.
#[derive(Clone)]
pub struct Mt19937 {
    state: Box<[u32; STATE_WORDS]>,
    /// In `0..=STATE_WORDS`; `STATE_WORDS` means the block is used up.
    used: usize,
}

impl std::fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mt19937").field("used", &self.used).finish_non_exhaustive()
    }
}

impl Mt19937 {
    /// Default seed of `std::mt19937`.
    pub const DEFAULT_SEED: u64 = 5489;

    /// Returns a generator. Only the low 32 bits of the seed count, as on x86-64 Linux.
    #[expect(clippy::cast_possible_truncation, reason = "the seed is taken modulo 2^32")]
    pub fn new(seed: u64) -> Self {
        let mut state = Box::new([0_u32; STATE_WORDS]);
        state[0] = seed as u32;
        for i in 1..STATE_WORDS {
            let previous = state[i - 1];
            state[i] =
                (previous ^ (previous >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, used: STATE_WORDS }
    }

    fn refill(&mut self) {
        let twist = |upper: u32, lower: u32, far: u32| {
            let mixed = (upper & 0x8000_0000) | (lower & 0x7fff_ffff);
            far ^ (mixed >> 1) ^ ((mixed & 1).wrapping_neg() & 0x9908_b0df)
        };
        let state = &mut *self.state;
        for i in 0..STATE_WORDS - MIDDLE_WORD {
            state[i] = twist(state[i], state[i + 1], state[i + MIDDLE_WORD]);
        }
        for i in STATE_WORDS - MIDDLE_WORD..STATE_WORDS - 1 {
            state[i] = twist(state[i], state[i + 1], state[i + MIDDLE_WORD - STATE_WORDS]);
        }
        state[STATE_WORDS - 1] = twist(state[STATE_WORDS - 1], state[0], state[MIDDLE_WORD - 1]);
        self.used = 0;
    }

    /// Returns the next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == STATE_WORDS {
            self.refill();
        }
        let mut y = self.state[self.used];
        self.used += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Skips `draws` draws of 32 bits.
    pub fn discard(&mut self, draws: u64) {
        let mut left = draws;
        loop {
            let in_block = (STATE_WORDS - self.used) as u64;
            if left <= in_block {
                self.used += usize::try_from(left).expect("at most a block");
                return;
            }
            left -= in_block;
            self.refill();
        }
    }

    /// Returns a uniform number in `[0, range)`, `1 <= range < 2^32`. Draws at least once, even for
    /// a range of 1.
    ///
    /// Source: Lemire, "Fast random integer generation in an interval", 2019.
    #[expect(clippy::cast_possible_truncation, reason = "low and high half of a product")]
    #[inline]
    pub fn bounded(&mut self, range: u32) -> u32 {
        let mut product = u64::from(self.next_u32()) * u64::from(range);
        if (product as u32) < range {
            let threshold = range.wrapping_neg() % range;
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(range);
            }
        }
        (product >> 32) as u32
    }

    /// Returns a uniform number in `[0, 1)` from two draws.
    #[inline]
    pub fn canonical(&mut self) -> f64 {
        let low = f64::from(self.next_u32());
        let high = f64::from(self.next_u32());
        // The sum is rounded before the division, and may round up to 2^64.
        let uniform = (low + high * 4_294_967_296.0) / 18_446_744_073_709_551_616.0;
        if uniform < 1.0 { uniform } else { 1.0_f64.next_down() }
    }

    /// Returns an exponential number with this rate: mean `1 / rate`.
    #[inline]
    pub fn exponential(&mut self, rate: f64) -> f64 {
        -(1.0 - self.canonical()).ln() / rate
    }

    /// Returns a gamma-distributed number with this shape (> 0) and mean 1. The reference has no
    /// such distribution; equal seeds still give equal draws.
    ///
    /// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; shapes
    /// below 1 by their boost.
    pub fn gamma_of_mean_one(&mut self, shape: f64) -> f64 {
        let boosted = if shape < 1.0 { shape + 1.0 } else { shape };
        let d = boosted - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        let gamma = loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v <= 0.0 {
                continue;
            }
            let u = 1.0 - self.canonical();
            if u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                break d * v;
            }
        };
        let boost = if shape < 1.0 { (1.0 - self.canonical()).powf(1.0 / shape) } else { 1.0 };
        gamma * boost / shape
    }

    /// Returns a standard normal number (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.canonical()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.canonical()).cos()
    }

    /// Shuffles like `std::shuffle`: two positions per draw while the product of two ranges fits in
    /// 32 bits, one per draw for 65,536 elements and more.
    ///
    /// # Panics
    /// If there are 2^32 elements or more.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        let n = u32::try_from(items.len()).expect("fewer than 2^32 elements");
        if n == 0 {
            return;
        }
        if u32::MAX / n < n {
            for i in 1..n {
                items.swap(i as usize, self.bounded(i + 1) as usize);
            }
            return;
        }
        let mut i = 1;
        if n.is_multiple_of(2) {
            items.swap(1, self.bounded(2) as usize);
            i = 2;
        }
        while i < n {
            let range = i + 1;
            let pair = self.bounded(range * (range + 1));
            items.swap(i as usize, (pair / (range + 1)) as usize);
            items.swap(i as usize + 1, (pair % (range + 1)) as usize);
            i += 2;
        }
    }
}

/// Step of [`split_mix`]: 2^64 divided by the golden ratio, as an odd number.
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the next number of SplitMix64.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
#[inline]
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN_RATIO);
    mix(*state)
}

/// Returns the result number `index`, from 0, of [`split_mix`] with state 0. What is observed is drawn with
/// it, and no part of a trace.
#[inline]
pub const fn split_mix_at(index: u64) -> u64 {
    mix(index.wrapping_add(1).wrapping_mul(GOLDEN_RATIO))
}

/// Returns a number whose bits depend on all bits of `x`: the finalizer of [`split_mix`]. Different
/// numbers have different results.
#[inline]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First numbers for the seed 1234567, as the reference implementation prints them.
    #[test]
    fn the_second_generator_is_split_mix() {
        let mut state = 1_234_567;
        let found = [split_mix(&mut state), split_mix(&mut state), split_mix(&mut state)];
        assert_eq!(
            found,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert_eq!(mix(1_234_567_u64.wrapping_add(GOLDEN_RATIO)), found[0]);
        let mut zero = 0;
        for index in 0..3 {
            assert_eq!(split_mix_at(index), split_mix(&mut zero));
        }
    }

    #[test]
    fn ten_thousandth_draw_is_the_one_the_standard_prescribes() {
        // C++ standard, [rand.predef]: the 10000th value of a default mt19937.
        let mut rng = Mt19937::new(Mt19937::DEFAULT_SEED);
        rng.discard(9_999);
        assert_eq!(rng.next_u32(), 4_123_659_995);
    }

    #[test]
    fn only_the_low_half_of_a_seed_counts() {
        let low = Mt19937::new(7).next_u32();
        assert_eq!(Mt19937::new(7 | 9 << 32).next_u32(), low);
    }

    #[test]
    fn discard_equals_drawing() {
        for draws in [0, 1, 623, 624, 625, 5_000] {
            let (mut drawn, mut skipped) = (Mt19937::new(3), Mt19937::new(3));
            for _ in 0..draws {
                drawn.next_u32();
            }
            skipped.discard(draws);
            assert_eq!(drawn.next_u32(), skipped.next_u32(), "{draws}");
        }
    }

    #[test]
    fn moments_of_the_continuous_distributions() {
        let mut rng = Mt19937::new(11);
        let n = 200_000;
        let mut moments = |draw: &mut dyn FnMut(&mut Mt19937) -> f64| {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let x = draw(&mut rng);
                sum += x;
                squares += x * x;
            }
            let mean = sum / f64::from(n);
            (mean, squares / f64::from(n) - mean * mean)
        };
        let close = |got: (f64, f64), want: (f64, f64)| {
            // Five standard errors of the mean, ten of a heavy-tailed variance.
            assert!((got.0 - want.0).abs() < 5.0 * (want.1 / f64::from(n)).sqrt(), "{got:?}");
            assert!((got.1 - want.1).abs() < 0.05 * want.1, "{got:?}");
        };
        close(moments(&mut |r| r.exponential(2.0)), (0.5, 0.25));
        close(moments(&mut Mt19937::normal), (0.0, 1.0));
        close(moments(&mut |r| r.gamma_of_mean_one(0.5)), (1.0, 2.0));
        close(moments(&mut |r| r.gamma_of_mean_one(4.0)), (1.0, 0.25));
    }
}
