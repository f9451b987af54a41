//! Reads `accuracy.txt`, the output of an accuracy script: its metrics and the hash of the
//! accuracy log.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use regex::bytes::{Regex, RegexBuilder};

use crate::{Benchmark, Round};

/// Maximum number of bytes examined per line. No file of a submission may have more than 50 MiB.
const LONGEST_LINE: u64 = 64 << 20;

/// Regular expression of one metric.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Name of the metric.
    pub metric: String,
    regex: Regex,
}

/// Patterns of all metrics of a round, by benchmark.
#[derive(Debug, Clone)]
pub struct Patterns {
    by_benchmark: BTreeMap<String, Vec<Pattern>>,
}

impl Patterns {
    /// Compiles the patterns of a round.
    ///
    /// # Panics
    /// Does not panic for shipped rounds: a test compiles the patterns of each.
    pub fn new(round: &Round) -> Self {
        Self::as_of(round, round)
    }

    /// Compiles the patterns that an earlier round has for the metrics of a round, and those of the
    /// round for its new metrics.
    ///
    /// # Panics
    /// Does not panic for shipped rounds: a test compiles the patterns of each.
    pub fn as_of(round: &Round, earlier: &Round) -> Self {
        let pattern = |metric: &String| {
            let known = earlier.accuracy_patterns.get(metric);
            let text = format!("^(?:{})", known.or_else(|| round.accuracy_patterns.get(metric))?);
            let regex = RegexBuilder::new(&text).unicode(false).build();
            Some(Pattern { metric: metric.clone(), regex: regex.expect("patterns are tested") })
        };
        let by_name = |benchmark: &Benchmark| {
            let mut metrics: Vec<&String> = Vec::new();
            for target in &benchmark.accuracy {
                if !metrics.contains(&&target.metric) {
                    metrics.push(&target.metric);
                }
            }
            (benchmark.name.clone(), metrics.into_iter().filter_map(pattern).collect())
        };
        Self { by_benchmark: round.benchmarks.iter().map(by_name).collect() }
    }

    /// Returns the patterns of a benchmark, in the order of its targets. Returns none for an
    /// unknown benchmark.
    pub fn for_benchmark(&self, benchmark: Option<&Benchmark>) -> &[Pattern] {
        let patterns = benchmark.and_then(|benchmark| self.by_benchmark.get(&benchmark.name));
        patterns.map_or(&[], Vec::as_slice)
    }
}

/// One metric in `accuracy.txt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricValue {
    /// Line number, from 1.
    pub line: usize,
    /// Name of the metric.
    pub metric: String,
    /// Value as written: digits and dots.
    pub value: String,
}

impl MetricValue {
    /// Parses the value. Returns `None` if it has more than one dot.
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }
}

/// A line that starts with `hash=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashLine {
    /// Line number, from 1.
    pub line: usize,
    /// Text after `hash=`, to the end of the line.
    pub text: String,
}

impl HashLine {
    /// Whether the official checkers accept the hash: letters, digits and underscores only.
    pub fn is_word(&self) -> bool {
        !self.text.is_empty() && self.text.chars().all(|c| c.is_alphanumeric() || c == '_')
    }
}

/// Content of `accuracy.txt`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccuracyText {
    /// Metrics of the benchmark, sorted by line, then by the order of the targets.
    pub metrics: Vec<MetricValue>,
    /// Lines that contain a hash.
    pub hashes: Vec<HashLine>,
    /// Whether every line is UTF-8.
    pub is_utf8: bool,
    /// Number of lines.
    pub lines: usize,
}

/// Reads `accuracy.txt` or another output of an accuracy script.
///
/// ```
/// use dyno_rules::Round;
/// use dyno_rules::accuracy::{Patterns, scan};
///
/// let round = Round::named("v5.1").unwrap();
/// let patterns = Patterns::new(round);
/// let text = "accuracy=76.014%, good=38007, total=50000\n";
/// let resnet = patterns.for_benchmark(round.benchmark("resnet"));
/// let content = scan(&mut text.as_bytes(), resnet).unwrap();
/// assert_eq!(content.metrics[0].number(), Some(76.014));
/// ```
///
/// # Errors
/// Fails if the reader fails.
pub fn scan(text: &mut impl BufRead, patterns: &[Pattern]) -> std::io::Result<AccuracyText> {
    let mut content = AccuracyText { is_utf8: true, ..AccuracyText::default() };
    let mut line = Vec::new();
    loop {
        line.clear();
        text.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(content);
        }
        if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
            text.skip_until(b'\n')?;
        }
        content.is_utf8 &= std::str::from_utf8(&line).is_ok();
        while line.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
            line.pop();
        }
        // A carriage return also ends a line, as in the official checkers. Progress bars write them.
        for part in line.split(|byte| *byte == b'\r') {
            content.lines += 1;
            content.line(part, patterns);
        }
    }
}

impl AccuracyText {
    fn line(&mut self, line: &[u8], patterns: &[Pattern]) {
        for pattern in patterns {
            let value = pattern.regex.captures(line).and_then(|captures| captures.get(1));
            if let Some(value) = value {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                self.metrics.push(MetricValue {
                    line: self.lines,
                    metric: pattern.metric.clone(),
                    value,
                });
            }
        }
        if let Some(hash) = line.strip_prefix(b"hash=") {
            let text = String::from_utf8_lossy(hash).into_owned();
            self.hashes.push(HashLine { line: self.lines, text });
        }
    }
}
