//! What a round shows as a whole, as section 6 of the MLPerf Inference paper (Reddi
//! and others, 2020) shows its first: how many results there are of what, frameworks
//! against types of processors, and how far apart systems are. Nothing is summed up
//! to a score, which the paper argues against.

use std::collections::BTreeMap;

use super::Record;
use dyno_rules::{Round, Scenario};

/// Counts by line and column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matrix {
    /// Names of the lines.
    pub lines: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// By line, then by column.
    pub counts: Vec<Vec<usize>>,
}

impl Matrix {
    /// Lines and columns in the order of their first pair.
    fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut matrix = Self::default();
        for (line, column) in pairs {
            let line = place(&mut matrix.lines, line);
            let column = place(&mut matrix.columns, column);
            matrix.counts.resize(matrix.lines.len(), Vec::new());
            for counts in &mut matrix.counts {
                counts.resize(matrix.columns.len(), 0);
            }
            matrix.counts[line][column] += 1;
        }
        matrix
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.iter().flatten().sum()
    }
}

fn place(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// Least, quartiles and greatest of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Box5 {
    /// Least.
    pub least: f64,
    /// First quartile.
    pub first: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub third: f64,
    /// Greatest.
    pub greatest: f64,
}

impl Box5 {
    /// Of values in ascending order, quartiles by linear interpolation.
    fn of(sorted: &[f64]) -> Option<Self> {
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, rest) = (place.floor() as usize, place.fract());
            let above = sorted[(below + 1).min(last)];
            sorted[below] + rest * (above - sorted[below])
        };
        let (first, median, third) = (at(0.25), at(0.5), at(0.75));
        Some(Self { least: sorted[0], first, median, third, greatest: sorted[last] })
    }
}

/// How far apart the systems of a model and scenario are.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// Official model.
    pub model: String,
    /// Scenario.
    pub scenario: Scenario,
    /// Suite: bounds and systems differ. Empty in v0.5, which has no suites.
    pub suite: &'static str,
    /// Unit of the results.
    pub units: String,
    /// How many there are.
    pub results: usize,
    /// The slowest one, in `units`.
    pub slowest: f64,
    /// The fastest one, in `units`.
    pub fastest: f64,
    /// Who has the fastest.
    pub leader: String,
    /// How many times as fast as the slowest.
    pub speeds: Box5,
}

impl Spread {
    /// The best as a multiple of the worst.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.speeds.greatest
    }
}

/// A round as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Results by division and suite.
    pub divisions: Matrix,
    /// Results by model and scenario; all divisions.
    pub scenarios: Matrix,
    /// Systems by framework and type of processor.
    pub frameworks: Matrix,
    /// Of the closed division, where two or more results compare.
    pub spreads: Vec<Spread>,
}

impl Statistics {
    pub(super) fn of(records: &[Record], round: &Round) -> Self {
        let results: Vec<&Record> = records.iter().filter(|record| !record.is_power).collect();
        // A system of both suites is one result.
        let mut once: Vec<&Record> = Vec::new();
        for record in &results {
            if !once.iter().any(|known| known.location == record.location) {
                once.push(record);
            }
        }
        let rank = |record: &&&Record| {
            let model = round.benchmarks.iter().position(|b| b.name == record.model);
            (model, record.scenario)
        };
        let suite = |r: &Record| if r.suite.is_empty() { "no suites" } else { r.suite }.to_owned();
        let divisions = results.iter().map(|r| (r.division.clone(), suite(r))).collect::<Vec<_>>();
        let mut by_model: Vec<&&Record> = once.iter().collect();
        by_model.sort_by_key(rank);
        let mut scenarios =
            Matrix::of(by_model.iter().map(|r| (r.model.clone(), r.scenario.name().to_owned())));
        scenarios
            .sort_columns(|name| Scenario::ALL.iter().position(|scenario| scenario.name() == name));
        let mut systems = BTreeMap::new();
        for record in &once {
            let key = (&record.division, &record.submitter, &record.details);
            systems.entry(key).or_insert_with(|| {
                (framework(&record.software), processor_type(record).to_owned())
            });
        }
        let mut frameworks = Matrix::of(merged(systems.into_values()));
        frameworks.sort_lines();
        Self {
            divisions: Matrix::of(divisions),
            scenarios,
            frameworks,
            spreads: spreads(&results, round),
        }
    }
}

impl Matrix {
    fn sort_columns<K: Ord>(&mut self, by: impl Fn(&str) -> K) {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|&at| by(&self.columns[at]));
        self.columns = order.iter().map(|&at| self.columns[at].clone()).collect();
        for counts in &mut self.counts {
            *counts = order.iter().map(|&at| counts[at]).collect();
        }
    }

    /// The most frequent line first.
    fn sort_lines(&mut self) {
        let mut lines: Vec<(String, Vec<usize>)> =
            self.lines.drain(..).zip(self.counts.drain(..)).collect();
        lines.sort_by_key(|(name, counts)| {
            (std::cmp::Reverse(counts.iter().sum::<usize>()), name.to_lowercase())
        });
        (self.lines, self.counts) = lines.into_iter().unzip();
    }
}

/// One spelling for names that differ in case alone.
fn merged(pairs: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut spelled = BTreeMap::new();
    pairs
        .map(|(framework, processor)| {
            let known = spelled.entry(framework.to_lowercase()).or_insert(framework);
            (known.clone(), processor)
        })
        .collect()
}

/// The name of the framework in a text such as `TensorRT 10.8, CUDA 12.9`.
#[must_use]
pub fn framework(software: &str) -> String {
    let first = software.split([',', ';', '(', '/']).next().unwrap_or_default();
    let is_version = |word: &&str| {
        let word = word.trim_start_matches(['v', 'V', '_']);
        !word.starts_with(|c: char| c.is_ascii_digit()) && word != "version"
    };
    let words: Vec<&str> = first.split_whitespace().take_while(is_version).collect();
    match words.join(" ").trim_end_matches([':', '-']) {
        "" => "not told".to_owned(),
        name => name.to_owned(),
    }
}

/// Words by which an accelerator is known, in lower case.
const KINDS: [(&str, &[&str]); 4] = [
    ("FPGA", &["fpga", "alveo", "stratix", "versal", "zynq"]),
    ("DSP or NPU", &["dsp", "npu", "hexagon", "cloud ai", "ethos"]),
    ("TPU", &["tpu"]),
    (
        "GPU",
        &[
            "gpu", "nvidia", "geforce", "rtx", "tesla", "quadro", "jetson", "instinct", "radeon",
            "mi300", "mi325", "mi355", "arc ", "mali", "adreno", "h100", "h200", "b200", "gb200",
            "a100", "gh200", "l40",
        ],
    ),
];

/// What computes in a system.
#[must_use]
pub fn processor_type(record: &Record) -> &'static str {
    let model = record.accelerator.trim().to_lowercase();
    if record.accelerators.is_empty() || matches!(model.as_str(), "" | "n/a" | "none" | "na") {
        return "CPU";
    }
    let is_it = |words: &&[&str]| words.iter().any(|word| model.contains(word));
    KINDS.iter().find(|(_, words)| is_it(words)).map_or("other accelerator", |(kind, _)| *kind)
}

fn spreads(results: &[&Record], round: &Round) -> Vec<Spread> {
    let mut groups = BTreeMap::<_, Vec<&Record>>::new();
    for record in results.iter().filter(|record| record.division == "closed") {
        let model = round.benchmarks.iter().position(|b| b.name == record.model);
        let key = (model, &record.model, record.scenario, record.suite, &record.units);
        groups.entry(key).or_default().push(record);
    }
    groups.into_values().filter_map(|records| spread(&records)).collect()
}

fn spread(records: &[&Record]) -> Option<Spread> {
    let is_latency = records[0].units.starts_with("Latency");
    let mut speeds: Vec<(f64, &Record)> = Vec::new();
    for &record in records {
        let speed = if is_latency { 1.0 / record.result } else { record.result };
        if speed.is_finite() && speed > 0.0 {
            speeds.push((speed, record));
        }
    }
    speeds.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let (&(least, slowest), &(_, fastest)) = (speeds.first()?, speeds.last()?);
    if speeds.len() < 2 {
        return None;
    }
    let normalised: Vec<f64> = speeds.iter().map(|(speed, _)| speed / least).collect();
    Some(Spread {
        model: fastest.model.clone(),
        scenario: fastest.scenario,
        suite: fastest.suite,
        units: fastest.units.clone(),
        results: speeds.len(),
        slowest: slowest.result,
        fastest: fastest.result,
        leader: format!("{}, {}", fastest.submitter, fastest.system),
        speeds: Box5::of(&normalised)?,
    })
}
