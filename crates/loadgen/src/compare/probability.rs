//! Distribution functions of intervals: Student's t, the normal distribution, and the binomial
//! distribution for any real number of trials.
//!
//! All but the normal distribution are the regularized incomplete beta function, computed by its
//! continued fraction (Abramowitz and Stegun 26.5.8) in Lentz's form.

/// Returns P(X <= `x`) for a beta variable: `I_x(a, b)`, `a` and `b` above 0.
fn beta_at_most(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only on this side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_at_most(1.0 - x, b, a);
    }
    let log_front =
        a * x.ln() + b * (-x).ln_1p() + log_gamma(a + b) - log_gamma(a) - log_gamma(b) - a.ln();
    log_front.exp() / fraction(x, a, b)
}

/// Returns the continued fraction `1 + d_1 / (1 + d_2 / (1 + ...))`.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    /// Enough for parameters up to 10^9: it takes about their square root.
    const TERMS: u32 = 100_000;
    const TINY: f64 = 1e-300;
    let not_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut value, mut c, mut d) = (1.0, 1.0, 0.0);
    for term in 1..TERMS {
        let m = f64::from(term / 2);
        let numerator = if term % 2 == 1 {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        } else {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        };
        d = 1.0 / not_zero(1.0 + numerator * d);
        c = not_zero(1.0 + numerator / c);
        let step = c * d;
        value *= step;
        if (step - 1.0).abs() < 1e-13 {
            break;
        }
    }
    value
}

/// Returns the logarithm of the gamma function for x above 0: Stirling's series from 15 on, and the
/// recurrence below.
fn log_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - product.ln()
}

/// Returns P(T <= `t`) for Student's t with `freedom` (> 0) degrees.
fn student_at_most(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * beta_at_most(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// Returns the probability that Student's t with `freedom` degrees is at least as far
/// from 0 as `t`, on either side.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_at_most(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the value that Student's t with `freedom` (> 0) degrees exceeds with
/// probability `tail`, in (0, 0.5].
pub fn student(tail: f64, freedom: f64) -> f64 {
    if freedom > FREEDOM_OF_NORMAL {
        return normal(tail);
    }
    // With one degree of freedom it grows as 1 / tail.
    root(0.0, 1.0 / tail, |t| student_at_most(t, freedom) - (1.0 - tail))
}

/// Degrees of freedom above which Student's t equals the normal distribution to five digits.
const FREEDOM_OF_NORMAL: f64 = 1e5;

/// Returns the value that a standard normal variable exceeds with probability `tail`, in (0, 0.5].
pub fn normal(tail: f64) -> f64 {
    root(0.0, 38.0, |x| tail - normal_above(x))
}

/// Returns P(X > `x`) for a standard normal variable and `x >= 0`, absolute error below 1e-15.
///
/// Source: Marsaglia, "Evaluating the normal distribution", 2004.
fn normal_above(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > sum * f64::EPSILON {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    (0.5 - sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()).max(0.0)
}

/// Returns the probability that Student's t with `freedom` (> 0) degrees is above `t`; infinite freedom
/// is the normal distribution.
pub fn student_above(t: f64, freedom: f64) -> f64 {
    if freedom.is_finite() {
        student_at_most(-t, freedom)
    } else if t < 0.0 {
        1.0 - normal_above(-t)
    } else {
        normal_above(t)
    }
}

/// Returns the probability that at least `least` of `trials` succeed, each with this probability.
pub fn binomial_at_least(least: u64, trials: u64, probability: f64) -> f64 {
    match least {
        0 => 1.0,
        _ if least > trials => 0.0,
        _ => beta_at_most(probability, least as f64, (trials - least + 1) as f64),
    }
}

/// Returns the probability that exactly `count` of `trials` succeed, each with this probability.
pub fn binomial_at(count: u64, trials: u64, probability: f64) -> f64 {
    if probability <= 0.0 || probability >= 1.0 {
        let certain = if probability <= 0.0 { 0 } else { trials };
        return f64::from(u8::from(count == certain));
    }
    let [k, n] = [count as f64, trials as f64];
    let ways = log_gamma(n + 1.0) - log_gamma(k + 1.0) - log_gamma(n - k + 1.0);
    (ways + k * probability.ln() + (n - k) * (-probability).ln_1p()).exp()
}

/// Returns the largest count `k`, as a real number, with P(X <= k) <= `tail` for X
/// binomial of `trials` (any number above 0) with `probability`; -1 if not even
/// `k = 0` is that unlikely.
pub fn binomial_low(trials: f64, probability: f64, tail: f64) -> f64 {
    // P(X <= k) = I_{1-p}(n - k, k + 1); at k = -1 it is 0.
    root(-1.0, trials, |k| at_most(k, trials, probability) - tail)
}

/// Returns P(X <= `k`) for X binomial of `trials` (any number above 0) with `probability`, continued to
/// any real `k`.
pub fn at_most(k: f64, trials: f64, probability: f64) -> f64 {
    if k <= -1.0 {
        return 0.0;
    }
    if k >= trials {
        return 1.0;
    }
    beta_at_most(1.0 - probability, trials - k, k + 1.0)
}

/// Returns the Clopper-Pearson limits of a share of `events` in `trials` (any numbers, `events` at most
/// `trials`, `trials` above 0). The true share is below the first with probability `tail` at most, and
/// above the second with the same probability.
///
/// Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of
/// the binomial", 1934.
pub fn share_limits(events: f64, trials: f64, tail: f64) -> [f64; 2] {
    // With these shares the observed events would be that unlikely.
    let low = |share: f64| at_most(trials - events, trials, 1.0 - share) - tail;
    let high = |share: f64| tail - at_most(events, trials, share);
    [
        if events <= 0.0 { 0.0 } else { root(0.0, 1.0, low) },
        if events >= trials { 1.0 } else { root(0.0, 1.0, high) },
    ]
}

/// Returns where a function that increases from `low` to `high` changes its sign.
fn root(low: f64, high: f64, grows: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if high - low <= 1e-12 * high.abs() {
            break;
        }
        if grows(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_student_and_the_normal_agree_with_tables() {
        let table = [
            (0.025, 1.0, 12.706_205),
            (0.025, 4.0, 2.776_445),
            (0.02, 4.0, 2.998_528),
            (0.005, 9.0, 3.249_836),
            (0.2, 19.0, 0.860_951),
        ];
        for (tail, freedom, expected) in table {
            let found = student(tail, freedom);
            assert!((found - expected).abs() < 1e-5, "{tail} {freedom}: {found}");
            assert!((student_two_sided(found, freedom) - 2.0 * tail).abs() < 1e-9);
        }
        assert!((normal(0.025) - 1.959_964).abs() < 1e-5);
    }

    /// Expected values of SciPy 1.17.1: `binom.sf(least - 1, n, p)`, `binom.pmf(least, n, p)`,
    /// `t.sf(t, freedom)`, `norm.sf(t)` and `t.isf(tail, freedom)`.
    #[test]
    fn tails_are_those_of_scipy() {
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-8 * expected, "{found} {expected}");
        };
        for (least, trials, probability, tail, at) in [
            (1, 300, 0.01, 0.950_959_105_928_714_1, 0.148_608_769_912_987_35),
            (20, 20, 0.9, 0.121_576_654_590_569_31, 0.121_576_654_590_569_35),
            (7, 50, 0.02, 6.012_668_178_551_843_6e-5, 5.363_260_474_300_058e-5),
            (130, 10_000, 0.01, 0.002_175_091_348_918_592, 0.000_553_272_903_162_084_5),
            (10_400, 1_000_000, 0.01, 3.293_586_456_054_962e-5, 1.350_905_268_629_739_5e-6),
            (50_500, 1_000_000, 0.05, 0.011_041_122_391_130_916, 0.000_132_198_663_070_654_09),
        ] {
            near(binomial_at_least(least, trials, probability), tail);
            near(binomial_at(least, trials, probability), at);
        }
        for (t, freedom, above) in [
            (1.812_461, 10.0, 0.050_000_010_018_875_03),
            (-0.5, 3.0, 0.674_276_017_575_924_5),
            (4.0, 29.0, 0.000_200_031_972_826_245_87),
            (2.5, 499.0, 0.006_369_609_179_022_429),
            (1.959_964, f64::INFINITY, 0.024_999_999_096_442_398),
            (5.0, f64::INFINITY, 2.866_515_718_791_933e-7),
            (-1.0, f64::INFINITY, 0.841_344_746_068_542_9),
        ] {
            near(student_above(t, freedom), above);
        }
        for (tail, freedom, t) in
            [(0.05, 29.0, 1.699_127_026_533_497_7), (0.0125, 499.0, 2.248_186_929_373_070_5)]
        {
            near(student(tail, freedom), t);
        }
        assert_eq!((binomial_at_least(0, 5, 0.5), binomial_at_least(6, 5, 0.5)), (1.0, 0.0));
        assert_eq!((binomial_at(0, 5, 0.0), binomial_at(4, 5, 1.0)), (1.0, 0.0));
    }

    #[test]
    fn binomial_limits_agree_with_sums() {
        for (trials, probability, k) in [(10_u32, 0.3_f64, 1_u32), (40, 0.9, 33), (200, 0.05, 4)] {
            let (mut term, mut sum) = ((1.0 - probability).powf(f64::from(trials)), 0.0);
            for i in 0..=k {
                sum += term;
                term *=
                    f64::from(trials - i) / f64::from(i + 1) * probability / (1.0 - probability);
            }
            let found = binomial_low(f64::from(trials), probability, sum);
            assert!((found - f64::from(k)).abs() < 1e-6, "{trials} {probability}: {found}");
        }
        // No event in 299 trials, and 1 in 473: at most 1 %. 0.05^(1 / 299) = 0.990.
        for (events, trials) in [(0.0, 299.0), (1.0, 473.0)] {
            let [low, high] = share_limits(events, trials, 0.05);
            assert!(low < 1e-3 && (0.009_9..0.01).contains(&high), "{low} to {high}");
        }
        assert_eq!(share_limits(0.0, 50.0, 0.05)[0], 0.0);
        assert_eq!(share_limits(50.0, 50.0, 0.05)[1], 1.0);
        // 0.99^100 = 0.366: with 100 trials not even 0 is unlikely.
        assert!(binomial_low(100.0, 0.01, 0.05) < 0.0);
    }
}
