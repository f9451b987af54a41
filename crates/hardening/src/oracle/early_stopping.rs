//! Early stopping, from the rules.

/// An expectation that the sources may leave open (None).
pub type Tri = Option<bool>;

/// 1 - c with c = 0.99 as LoadGen computes it; tolerance d = 0 (RES 157-158, RULES 1157-1160). "<" is strict (ES 69).
pub const THRESHOLD: f64 = 1.0 - 0.99;
pub const FUZZ: f64 = 1e-6;

/// Cumulative P(X <= k) for k = 0, 1, ..., X binomial with n trials of probability 1 - p of being over latency
/// (RULES 1084-1113, ES 47-58: odds(h, t, p, 0) = P(at most t over-latency queries in n = h + t)).
/// Calls `f(k, probability)` until it returns false. A plain sum of the terms, kept as logarithms.
fn binomial_cdf(n: u64, p: f64, mut f: impl FnMut(u64, f64) -> bool) {
    let odds = (1.0 - p).ln() - p.ln();
    let (mut term, mut sum, mut carry) = (n as f64 * p.ln(), f64::NEG_INFINITY, 0.0); // Kahan: maybe millions of additions
    for k in 0..=n {
        if k > 0 {
            let y = ((n - k + 1) as f64 / k as f64).ln() + odds - carry;
            carry = ((term + y) - term) - y;
            term += y;
        }
        let (hi, lo) = if sum > term { (sum, term) } else { (term, sum) };
        sum = hi + (lo - hi).exp().ln_1p();
        if !f(k, if k == n { 1.0 } else { sum.exp() }) {
            return;
        }
    }
}

/// SingleStream/MultiStream: the largest t >= 1 with n >= h_min(t) + t, 0 if n < h_min(1) + 1 (RES 166-184, 250-268).
/// As odds falls with h, n >= h_min(t) + t means odds(n - t, t) < 1 - c.
pub fn early_stopping_t(n: u64, p: f64, threshold: f64) -> u64 {
    let mut best = 0;
    binomial_cdf(n, p, |k, prob| {
        if prob < threshold {
            best = k;
        }
        prob < threshold
    });
    best // if only k = 0 passes, best is 0: "if t is zero, continue" (RULES 1153)
}

/// Server: n >= h_min(t) + t (RES 228-246), the same as odds(n - t, t) < 1 - c. None: too close to call.
pub fn server_early_stopping(n: u64, t: u64, p: f64) -> Tri {
    if t >= n {
        return Some(false);
    }
    let mut at_t = 1.0;
    binomial_cdf(n, p, |k, prob| {
        at_t = prob;
        k < t && prob < 2.0 * THRESHOLD
    });
    let (lo, hi) = (at_t < THRESHOLD * (1.0 - FUZZ), at_t < THRESHOLD * (1.0 + FUZZ));
    (lo == hi).then_some(lo)
}
