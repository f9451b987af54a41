//! `accuracy.txt`: what the accuracy script said, and the hash of the accuracy log.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use regex::bytes::{Regex, RegexBuilder};

use crate::{Benchmark, Round};

/// Of a longer line only this many bytes are looked at.
const LONGEST_LINE: u64 = 1 << 20;

/// What a metric looks like.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Name of the metric.
    pub metric: String,
    regex: Regex,
}

/// The patterns of a round, by benchmark.
#[derive(Debug, Clone)]
pub struct Patterns {
    by_benchmark: BTreeMap<String, Vec<Pattern>>,
}

impl Patterns {
    /// Those of a round.
    ///
    /// # Panics
    /// Never: a test compiles the patterns of every round.
    #[must_use]
    pub fn new(round: &Round) -> Self {
        let pattern = |metric: &String| {
            let text = format!("^(?:{})", round.accuracy_patterns.get(metric)?);
            let regex = RegexBuilder::new(&text).unicode(false).build();
            Some(Pattern { metric: metric.clone(), regex: regex.expect("patterns are tested") })
        };
        let of = |benchmark: &Benchmark| {
            let mut metrics: Vec<&String> = Vec::new();
            for target in &benchmark.accuracy {
                if !metrics.contains(&&target.metric) {
                    metrics.push(&target.metric);
                }
            }
            (benchmark.name.clone(), metrics.into_iter().filter_map(pattern).collect())
        };
        Self { by_benchmark: round.benchmarks.iter().map(of).collect() }
    }

    /// Those of a benchmark, in the order of its targets.
    #[must_use]
    pub fn of(&self, benchmark: Option<&Benchmark>) -> &[Pattern] {
        let patterns = benchmark.and_then(|benchmark| self.by_benchmark.get(&benchmark.name));
        patterns.map_or(&[], Vec::as_slice)
    }
}

/// A metric that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Line, from 1.
    pub line: usize,
    /// Name of the metric.
    pub metric: String,
    /// The value as it is written: digits and dots.
    pub value: String,
}

impl Found {
    /// The value; `None` if it has more than one dot.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }
}

/// A line that begins with `hash=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashLine {
    /// Line, from 1.
    pub line: usize,
    /// What follows, to the end of the line.
    pub text: String,
}

impl HashLine {
    /// Whether the official checkers take it: letters, digits and underscores.
    #[must_use]
    pub fn is_word(&self) -> bool {
        !self.text.is_empty() && self.text.chars().all(|c| c.is_alphanumeric() || c == '_')
    }
}

/// What `accuracy.txt` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccuracyText {
    /// Metrics of the benchmark: by line, then in the order of the targets.
    pub found: Vec<Found>,
    /// Lines with a hash.
    pub hashes: Vec<HashLine>,
    /// Whether every line is UTF-8.
    pub is_utf8: bool,
    /// How many lines there are.
    pub lines: usize,
}

/// Reads `accuracy.txt`, or another text of an accuracy script.
///
/// # Errors
/// The reader fails.
pub fn scan(text: &mut impl BufRead, patterns: &[Pattern]) -> std::io::Result<AccuracyText> {
    let mut said = AccuracyText { is_utf8: true, ..AccuracyText::default() };
    let mut line = Vec::new();
    loop {
        line.clear();
        text.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(said);
        }
        if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
            text.skip_until(b'\n')?;
        }
        said.lines += 1;
        said.is_utf8 &= std::str::from_utf8(&line).is_ok();
        while line.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
            line.pop();
        }
        said.line(&line, patterns);
    }
}

impl AccuracyText {
    fn line(&mut self, line: &[u8], patterns: &[Pattern]) {
        for pattern in patterns {
            let value = pattern.regex.captures(line).and_then(|captures| captures.get(1));
            if let Some(value) = value {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                self.found.push(Found { line: self.lines, metric: pattern.metric.clone(), value });
            }
        }
        if let Some(hash) = line.strip_prefix(b"hash=") {
            let text = String::from_utf8_lossy(hash).into_owned();
            self.hashes.push(HashLine { line: self.lines, text });
        }
    }
}
