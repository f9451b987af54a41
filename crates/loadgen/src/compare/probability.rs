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
#[must_use]
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_at_most(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the value that Student's t with `freedom` (> 0) degrees exceeds with
/// probability `tail`, in (0, 0.5].
#[must_use]
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
#[must_use]
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

/// Returns the largest count `k`, as a real number, with P(X <= k) <= `tail` for X
/// binomial of `trials` (any number above 0) with `probability`; -1 if not even
/// `k = 0` is that unlikely.
#[must_use]
pub fn binomial_low(trials: f64, probability: f64, tail: f64) -> f64 {
    // P(X <= k) = I_{1-p}(n - k, k + 1); at k = -1 it is 0.
    root(-1.0, trials, |k| at_most(k, trials, probability) - tail)
}

fn at_most(k: f64, trials: f64, probability: f64) -> f64 {
    if k <= -1.0 {
        return 0.0;
    }
    if k >= trials {
        return 1.0;
    }
    beta_at_most(1.0 - probability, trials - k, k + 1.0)
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
        // 0.99^100 = 0.366: with 100 trials not even 0 is unlikely.
        assert!(binomial_low(100.0, 0.01, 0.05) < 0.0);
    }
}
