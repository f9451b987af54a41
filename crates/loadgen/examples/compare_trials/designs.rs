//! Three ways to find the interval of the change of a percentile between single
//! runs: as if queries were independent, by blocks drawn anew, and by batches,
//! which is what `dyno compare` does.

use dyno_loadgen::compare::{Metric, Options, Pairing, Series, compare};
use dyno_loadgen::rng::Mt19937;

use crate::sessions::{Order, Session, all};

const PERCENTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Confidence of a single interval, not of a family.
const RISK: f64 = 0.05;

/// Number of draws of blocks: enough for the fifth largest to be a limit.
const RESAMPLES: usize = 200;

type Interval = (f64, f64);

/// How often each design's 95 % interval misses the truth, which is no change;
/// and how wide it is in the median.
pub fn tell(trials: u64) {
    eprintln!("Share of {trials} 95 % intervals that miss, in % (median width in %)");
    eprintln!("{:50} {:7} {:>17} {:>17} {:>17}", "", "", "independent", "blocks", "batches");
    let is_single = |session: &&Session| {
        matches!(session.order, Order::OneAfterTheOther(1, 1)) && !session.same_arrivals
    };
    for session in all().iter().filter(is_single) {
        for p in PERCENTILES {
            let mut found = [Vec::new(), Vec::new(), Vec::new()];
            for trial in 0..trials {
                for (all, one) in found.iter_mut().zip(intervals(session, trial, p)) {
                    all.push(one);
                }
            }
            let cells = found.each_ref().map(|intervals| cell(intervals));
            eprintln!("{:50} p{:<6} {}", session.name, p * 100.0, cells.join(" "));
            for (design, intervals) in ["independent", "blocks", "batches"].iter().zip(&found) {
                println!(
                    "{{\"name\": \"compare.miss_percent\", \"design\": \"{design}\", \"case\": \
                     \"{}\", \"percentile\": {p}, \"value\": {:.1}, \"unit\": \"%\", \"trials\": {trials}}}",
                    session.name,
                    misses(intervals)
                );
            }
        }
    }
}

fn misses(intervals: &[Interval]) -> f64 {
    let missed = intervals.iter().filter(|(low, high)| *low > 0.0 || *high < 0.0).count();
    100.0 * missed as f64 / intervals.len() as f64
}

fn cell(intervals: &[Interval]) -> String {
    let mut widths: Vec<f64> = intervals.iter().map(|(low, high)| 100.0 * (high - low)).collect();
    widths.sort_by(f64::total_cmp);
    format!("{:7.1} ({:7.1})", misses(intervals), widths[widths.len() / 2])
}

fn intervals(session: &Session, trial: u64, p: f64) -> [Interval; 3] {
    let [baseline, candidate] = session.play(trial, 1.0);
    let sides = [&baseline[0].latency[..], &candidate[0].latency[..]];
    let mut random = Mt19937::new(trial + 77);
    let headline = Metric::Percentile(Series::Latency, p);
    let options = Options { risk: RISK, ..Options::new(headline, Vec::new(), Pairing::None) };
    let batches = compare(&baseline, &candidate, &options);
    let change = batches.rows[0].change;
    [
        as_independent(sides, p),
        by_blocks(sides, p, &mut random),
        (change.low.ln_1p(), change.high.ln_1p()),
    ]
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn log_at(sorted: &[u64], share: f64) -> f64 {
    let at = (share.clamp(0.0, 1.0) * sorted.len() as f64) as usize;
    (sorted[at.min(sorted.len() - 1)] as f64).ln()
}

/// Ranks of the normal approximation, combined as squares.
fn as_independent(sides: [&[u64]; 2], p: f64) -> Interval {
    const Z: f64 = 1.959_964;
    let [a, b] = sides.map(|side| {
        let mut sorted = side.to_vec();
        sorted.sort_unstable();
        let reach = Z * (p * (1.0 - p) / sorted.len() as f64).sqrt();
        [p, p - reach, p + reach].map(|share| log_at(&sorted, share))
    });
    let change = b[0] - a[0];
    (change - (b[0] - b[1]).hypot(a[2] - a[0]), change + (b[2] - b[0]).hypot(a[0] - a[1]))
}

/// The circular block bootstrap, percentile interval.
fn by_blocks(sides: [&[u64]; 2], p: f64, random: &mut Mt19937) -> Interval {
    let lengths = sides.map(|side| block_length(side, p));
    let mut changes: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let [a, b] = [0, 1].map(|at| redrawn(sides[at], lengths[at], p, random));
            b - a
        })
        .collect();
    changes.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    (changes[tail - 1], changes[RESAMPLES - tail])
}

#[expect(clippy::cast_possible_truncation, reason = "runs are short")]
fn redrawn(values: &[u64], length: usize, p: f64, random: &mut Mt19937) -> f64 {
    let mut drawn = Vec::with_capacity(values.len() + length);
    while drawn.len() < values.len() {
        let begin = random.bounded(values.len() as u32) as usize;
        let end = (begin + length).min(values.len());
        drawn.extend_from_slice(&values[begin..end]);
        drawn.extend_from_slice(&values[..length - (end - begin)]);
    }
    drawn.truncate(values.len());
    let at = (p * values.len() as f64) as usize;
    (*drawn.select_nth_unstable(at).1 as f64).ln()
}

/// From the autocorrelation of being above the percentile.
///
/// Source: Politis and White, "Automatic block-length selection for the
/// dependent bootstrap", 2004, with the correction of Patton, Politis and White,
/// 2009.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
fn block_length(values: &[u64], p: f64) -> usize {
    let count = values.len() as f64;
    let mut sorted = values.to_vec();
    let at = (p * count) as usize;
    let value = *sorted.select_nth_unstable(at).1;
    let over: Vec<f64> = values.iter().map(|&v| f64::from(u8::from(v > value))).collect();
    let mean = over.iter().sum::<f64>() / count;
    let covariance = |lag: usize| -> f64 {
        let products = over.iter().zip(&over[lag..]).map(|(a, b)| (a - mean) * (b - mean));
        products.sum::<f64>() / count
    };
    let of_zero = covariance(0);
    let negligible = 2.0 * (count.log10() / count).sqrt();
    let quiet = (count.log10().sqrt().ceil() as usize).max(5);
    let most = count.sqrt().ceil() as usize + quiet;
    // The first lag after which `quiet` correlations in a row are chance.
    let (mut last, mut in_row) = (most, 0);
    for lag in 1..=most {
        in_row = if covariance(lag).abs() < negligible * of_zero { in_row + 1 } else { 0 };
        if in_row == quiet {
            last = lag - quiet;
            break;
        }
    }
    let window = (2 * last).clamp(1, most) as f64;
    let (mut slope, mut spectrum) = (0.0, of_zero);
    for lag in 1..=(window as usize) {
        let share = lag as f64 / window;
        let weight = if share <= 0.5 { 1.0 } else { 2.0 * (1.0 - share) };
        let term = weight * covariance(lag);
        slope += 2.0 * lag as f64 * term;
        spectrum += 2.0 * term;
    }
    let scale = 4.0 / 3.0 * spectrum * spectrum;
    let length = (2.0 * slope * slope / scale.max(f64::MIN_POSITIVE)).cbrt() * count.cbrt();
    (length.ceil() as usize).clamp(1, (3.0 * count.sqrt()) as usize)
}
