//! Tails of the binomial distribution and of Student's.

/// Returns the probability that at least `least` of `count` trials succeed, each with this
/// probability.
///
/// ```
/// use dyno_number::confirm::binomial_at_least;
/// assert!((binomial_at_least(2, 2, 0.5) - 0.25).abs() < 1e-12);
/// ```
#[must_use]
pub fn binomial_at_least(least: u64, count: u64, share: f64) -> f64 {
    if least == 0 {
        return 1.0;
    }
    if least > count || share <= 0.0 {
        return 0.0;
    }
    if share >= 1.0 {
        return 1.0;
    }
    incomplete_beta(least as f64, (count - least + 1) as f64, share)
}

/// Returns the probability that exactly `found` of `count` trials succeed.
pub(super) fn binomial_at(found: u64, count: u64, share: f64) -> f64 {
    if share <= 0.0 {
        return if found == 0 { 1.0 } else { 0.0 };
    }
    if share >= 1.0 {
        return if found == count { 1.0 } else { 0.0 };
    }
    let [k, n] = [found as f64, count as f64];
    let ways = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    (ways + k * share.ln() + (n - k) * (-share).ln_1p()).exp()
}

/// Returns the probability that Student's t with this freedom is above a positive `t`; infinite
/// freedom is the normal distribution.
pub(super) fn student_above(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.min(1e8);
    let above = incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t)) / 2.0;
    if t < 0.0 { 1.0 - above } else { above }
}

/// Returns the t that is exceeded with this probability, below one half.
pub(super) fn student_quantile(level: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_above(high, freedom) > level && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if student_above(middle, freedom) > level { low = middle } else { high = middle }
    }
    high
}

/// Lanczos' approximation with g = 7 and nine terms; its relative error is below 1e-14.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let terms = TERMS.iter().zip(1..).map(|(term, at)| term / (x + f64::from(at)));
    let sum = 0.999_999_999_999_809_9 + terms.sum::<f64>();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Regularized incomplete beta function, by Lentz' continued fraction.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let away = |x: f64| if x.abs() < 1e-300 { 1e-300 } else { x };
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut fraction) = (1.0, d);
    for step in 1..10_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-14 {
            break;
        }
    }
    (front.exp() * fraction / a).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of tables: Student's distribution, the normal distribution, and sums of binomials.
    #[test]
    fn tails_are_those_of_tables() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 2e-6 * b.max(1e-3), "{a} {b}");
        near(student_quantile(0.05, f64::INFINITY), 1.644_854);
        near(student_quantile(0.025, 10.0), 2.228_139);
        near(student_quantile(0.05, 1.0), 6.313_752);
        near(student_above(1.959_964, f64::INFINITY), 0.025);
        let binomial = |least: u64, count: u64, share: f64| -> f64 {
            (least..=count)
                .map(|k| {
                    let ways: f64 =
                        (0..k).map(|at| (count - at) as f64 / (k - at) as f64).product();
                    ways * share.powi(k as i32) * (1.0 - share).powi((count - k) as i32)
                })
                .sum()
        };
        for (least, count, share) in [(1, 300, 0.01), (3, 20, 0.4), (20, 20, 0.9), (7, 50, 0.02)] {
            near(binomial_at_least(least, count, share), binomial(least, count, share));
            let at = binomial(least, count, share) - binomial(least + 1, count, share);
            near(binomial_at(least, count, share), at);
        }
    }
}
