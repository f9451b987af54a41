//! Aggregation of user-item pairs to samples: by a trace of the reference, or by sizes that are
//! fixed, uniform or drawn from quantiles.
//!
//! Source: `criteo.py` of the reference's recommendation benchmarks, and the FAQ of the rules,
//! which names the trace. The reference draws sizes with Python's generators and publishes the
//! result; other sizes are drawn here with a fixed seed.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use dyno_loadgen::rng::Mt19937;
use thiserror::Error;

/// Seed of drawn sizes; any fixed value will do.
const SEED: u64 = 1;

/// Maximum number of pairs in a sample; no model is fed more at once.
const MOST: usize = 1 << 20;

/// Maximum size of the file in bytes. The reference's trace has 8 MB; a day of click logs, given by
/// mistake, would fill the memory.
const LONGEST: u64 = 1 << 30;

/// Rule by which pairs are aggregated to samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aggregation {
    /// Ends of the samples of a trace; the first sample begins at 0.
    Trace(Vec<u64>),
    /// Samples of one size; the last may be smaller.
    Fixed(usize),
    /// Sizes from the first to the second number, uniformly drawn.
    Uniform(usize, usize),
    /// Sizes that are uniformly drawn from this list.
    Quantiles(Vec<usize>),
}

/// Reason why a file is not an aggregation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{}{}: expected {expected}, found {found}",
    path.display(), line.map(|line| format!(":{line}")).unwrap_or_default()
)]
pub struct AggregationError {
    /// The file.
    pub path: PathBuf,
    /// Line number, from 1; `None` means the file as a whole.
    pub line: Option<usize>,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl Aggregation {
    /// Reads a trace (`begin, end, pairs` on each line), quantiles of sizes (a line of numbers), or
    /// a line `fixed 100` or `uniform 100 700`.
    ///
    /// # Errors
    /// The file has another form, or the samples of a trace are not contiguous.
    pub fn read(path: &Path) -> Result<Self, AggregationError> {
        let refused = |found: String| AggregationError {
            path: path.to_owned(),
            line: None,
            expected: "a trace or sizes".to_owned(),
            found,
        };
        let unreadable = |error: io::Error| refused(error.to_string());
        let file = dyno_tensors::files::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        if bytes > LONGEST {
            return Err(refused(format!("{bytes} bytes")));
        }
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(path, &text)
    }

    /// Parses the text of a file; `path` is for errors.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use dyno_task::data::aggregation::Aggregation;
    ///
    /// let sizes = Aggregation::parse(Path::new("sizes.txt"), "fixed 100").unwrap();
    /// assert_eq!(sizes, Aggregation::Fixed(100));
    /// assert_eq!(sizes.starts(250), Ok(vec![0, 100, 200, 250]));
    /// ```
    ///
    /// # Errors
    /// The text has no form of [`Aggregation::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, AggregationError> {
        let refused = |line, expected: &str, found: &str| AggregationError {
            path: path.to_owned(),
            line: Some(line),
            expected: expected.to_owned(),
            found: format!("'{}'", found.chars().take(60).collect::<String>()),
        };
        const SIZES: &str = "`fixed PAIRS`, `uniform LEAST MOST` with sizes from 1, quantiles, or \
                             a trace";
        let is_size = |size: &usize| (1..=MOST).contains(size);
        let first = text.lines().next().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().collect();
        let sizes = |words: &[&str]| -> Option<Vec<usize>> {
            words.iter().map(|word| word.parse().ok().filter(is_size)).collect()
        };
        match words[..] {
            ["fixed", ref rest @ ..] => match sizes(rest).as_deref() {
                Some(&[pairs]) => return Ok(Self::Fixed(pairs)),
                _ => return Err(refused(1, SIZES, first)),
            },
            ["uniform", ref rest @ ..] => match sizes(rest).as_deref() {
                Some(&[least, most]) if least <= most => return Ok(Self::Uniform(least, most)),
                _ => return Err(refused(1, SIZES, first)),
            },
            _ => {}
        }
        let numbers: Vec<&str> = split(first).collect();
        if numbers.len() != 3 {
            let quantiles = sizes(&numbers).filter(|sizes| !sizes.is_empty());
            return quantiles.map(Self::Quantiles).ok_or_else(|| refused(1, SIZES, first));
        }
        let mut ends = Vec::new();
        let mut begin = 0;
        for (line, number) in text.lines().zip(1..) {
            let numbers: Option<Vec<u64>> = split(line).map(|word| word.parse().ok()).collect();
            let end = match numbers.as_deref() {
                Some(&[from, to, pairs])
                    if from == begin && from.checked_add(pairs) == Some(to) =>
                {
                    usize::try_from(pairs).ok().filter(is_size).map(|_| to)
                }
                _ => None,
            };
            let expected = || format!("`{begin}, END, PAIRS` with 1 to {MOST} pairs");
            begin = end.ok_or_else(|| refused(number, &expected(), line))?;
            ends.push(begin);
        }
        Ok(Self::Trace(ends))
    }

    /// Returns the starts of the samples of `pairs` pairs, and the end of the last sample. A trace
    /// must not reach beyond the pairs.
    ///
    /// # Errors
    /// The end of a trace that reaches beyond them.
    pub fn starts(&self, pairs: u64) -> Result<Vec<u64>, u64> {
        let mut random = Mt19937::new(SEED);
        // Sizes are below 2^53, so that the product is exact enough.
        let mut below = |n: usize| (random.canonical() * n as f64) as usize;
        let mut size: Box<dyn FnMut() -> usize + '_> = match self {
            Self::Trace(ends) => {
                let last = ends.last().copied().unwrap_or(0);
                let starts = || std::iter::once(0).chain(ends.iter().copied()).collect();
                return if last > pairs { Err(last) } else { Ok(starts()) };
            }
            Self::Fixed(size) => Box::new(|| *size),
            Self::Uniform(least, most) => Box::new(move || least + below(most - least + 1)),
            Self::Quantiles(sizes) => Box::new(move || sizes[below(sizes.len())]),
        };
        let mut starts = vec![0];
        let mut end = 0;
        while end < pairs {
            end = pairs.min(end + size() as u64);
            starts.push(end);
        }
        Ok(starts)
    }
}

/// Writes the trace of the samples with these starts, in the reference's format.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_trace(starts: &[u64], to: &mut impl Write) -> io::Result<()> {
    for pair in starts.windows(2) {
        writeln!(to, "{}, {}, {}", pair[0], pair[1], pair[1] - pair[0])?;
    }
    Ok(())
}

fn split(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Aggregation, String> {
        let path =
            std::env::temp_dir().join(format!("dyno-aggregation-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = Aggregation::read(&path);
        std::fs::remove_file(&path).unwrap();
        read.map_err(|error| error.to_string().split_once(name).unwrap().1.to_owned())
    }

    #[test]
    fn sizes_are_a_trace_quantiles_or_explicit() {
        let trace = Aggregation::Trace(vec![100, 350]);
        assert_eq!(read("trace", "0, 100, 100\n100, 350, 250\n"), Ok(trace));
        assert_eq!(read("fixed", "fixed 100\n"), Ok(Aggregation::Fixed(100)));
        assert_eq!(read("uniform", "uniform 100 700\n"), Ok(Aggregation::Uniform(100, 700)));
        let quantiles = Aggregation::Quantiles(vec![100, 100, 200, 700]);
        assert_eq!(read("quantiles", "100, 100, 200, 700\n"), Ok(quantiles));
    }

    #[test]
    fn malformed_sizes_are_rejected_with_their_line() {
        let error = |text| read("sizes", text).unwrap_err();
        let found = error("0, 100, 100\n101, 200, 99\n");
        assert!(found.starts_with(":2: expected `100, END, PAIRS` with 1 to"), "{found}");
        assert!(error("0, 100, 90\n").starts_with(":1: expected `0, END, PAIRS`"));
        assert!(error("0, 0, 0\n").contains("found '0, 0, 0'"));
        for text in ["", "fixed 0\n", "fixed\n", "uniform 700 100\n", "uniform 1\n", "100, -1\n"] {
            let found = error(text);
            assert!(found.starts_with(":1: expected `fixed PAIRS`, `uniform"), "{found}");
        }
    }

    #[test]
    fn a_file_that_is_far_too_long_is_not_read() {
        let path = std::env::temp_dir().join(format!("dyno-long-{}", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(LONGEST + 1).unwrap();
        let error = Aggregation::read(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((error.line, &error.found[..]), (None, "1073741825 bytes"));
    }

    #[test]
    fn every_pair_is_in_one_sample_and_sizes_are_those_asked_for() {
        let sizes = |aggregation: &Aggregation| -> Vec<u64> {
            let starts = aggregation.starts(100_000).unwrap();
            assert_eq!([starts[0], starts[starts.len() - 1]], [0, 100_000]);
            let mut trace = Vec::new();
            write_trace(&starts, &mut trace).unwrap();
            let again = read("again", &String::from_utf8(trace).unwrap()).unwrap();
            assert_eq!(again.starts(100_000).unwrap(), starts);
            let mut sizes: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
            sizes.pop();
            sizes
        };
        assert!(sizes(&Aggregation::Fixed(300)).iter().all(|size| *size == 300));
        // Hoeffding: a mean of n draws is off by 5 standard deviations of the worst case,
        // half of the range over the root of n, with less than one in 200,000.
        let near = |sizes: &[u64], mean: f64, range: f64| {
            let found = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
            let off = 5.0 * range / 2.0 / (sizes.len() as f64).sqrt();
            assert!((found - mean).abs() < off, "{found}");
        };
        let drawn = sizes(&Aggregation::Uniform(1, 9));
        assert!((1..=9).all(|size| drawn.contains(&size)) && drawn.iter().all(|n| *n <= 9));
        near(&drawn, 5.0, 8.0);
        let drawn = sizes(&Aggregation::Quantiles(vec![10, 10, 10, 50]));
        assert!(drawn.iter().all(|size| [10, 50].contains(size)));
        near(&drawn, 20.0, 40.0);
        assert_eq!(Aggregation::Trace(vec![5, 9]).starts(8), Err(9));
        assert_eq!(Aggregation::Trace(vec![5, 9]).starts(10), Ok(vec![0, 5, 9]));
    }
}
