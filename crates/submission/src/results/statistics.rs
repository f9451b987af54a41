//! Statistics of a round, like section 6 of the MLPerf Inference paper (Reddi et al., 2020):
//! number of results, frameworks by type of processor, and spread between systems. Nothing is
//! aggregated into a score, which the paper argues against.

use std::collections::BTreeMap;

use super::Record;
use dyno_rules::{Round, RuleScenario};

/// Counts by line and column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matrix {
    /// Names of the lines.
    pub lines: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Counts, by line, then by column.
    pub counts: Vec<Vec<usize>>,
}

impl Matrix {
    /// Counts pairs. Lines and columns are in the order of their first pair.
    fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
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

    /// Returns the sum of all counts.
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

/// Five-number summary of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    /// Minimum.
    pub least: f64,
    /// First quartile.
    pub first: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub third: f64,
    /// Maximum.
    pub greatest: f64,
}

impl Quartiles {
    /// Computes the summary of values in ascending order. Quartiles use linear interpolation.
    /// Returns `None` if there are no values.
    fn from_sorted(sorted: &[f64]) -> Option<Self> {
        let last = sorted.len().checked_sub(1)?;
        let quantile = |share: f64| {
            let place = share * last as f64;
            let (below, rest) = (place.floor() as usize, place.fract());
            let above = sorted[(below + 1).min(last)];
            sorted[below] + rest * (above - sorted[below])
        };
        let (first, median, third) = (quantile(0.25), quantile(0.5), quantile(0.75));
        Some(Self { least: sorted[0], first, median, third, greatest: sorted[last] })
    }
}

/// Spread of the results of a model in a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// Official model name.
    pub model: String,
    /// Scenario.
    pub scenario: RuleScenario,
    /// Suite; bounds and systems differ between suites. Empty in v0.5, which has no suites.
    pub suite: &'static str,
    /// Unit of the results.
    pub units: String,
    /// Number of results.
    pub results: usize,
    /// Result of the slowest system, in `units`.
    pub slowest: f64,
    /// Result of the fastest system, in `units`.
    pub fastest: f64,
    /// Submitter and system of the fastest result.
    pub leader: String,
    /// Speeds as multiples of the slowest.
    pub speeds: Quartiles,
}

impl Spread {
    /// Returns the fastest speed as a multiple of the slowest.
    pub fn ratio(&self) -> f64 {
        self.speeds.greatest
    }
}

/// Counts of the closed division, in which results compare.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedDivision {
    /// Number of results, by model and scenario: Table 6 of the paper.
    pub scenarios: Matrix,
    /// Number of systems, by framework and type of processor: Table 7 of the paper.
    pub frameworks: Matrix,
}

/// Statistics of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Number of results, by division and suite.
    pub divisions: Matrix,
    /// Number of results of all divisions, by model and scenario.
    pub scenarios: Matrix,
    /// Number of systems of all divisions, by framework and type of processor.
    pub frameworks: Matrix,
    /// Counts of the closed division alone.
    pub closed: ClosedDivision,
    /// Spreads of the closed division, where there are at least two comparable results.
    pub spreads: Vec<Spread>,
}

impl Statistics {
    pub(super) fn from_records(records: &[Record], round: &Round) -> Self {
        let results: Vec<&Record> = records.iter().filter(|record| !record.is_power).collect();
        // A system in both suites counts as one result.
        let mut once: Vec<&Record> = Vec::new();
        for record in &results {
            if !once.iter().any(|known| known.location == record.location) {
                once.push(record);
            }
        }
        let suite = |r: &Record| if r.suite.is_empty() { "no suites" } else { r.suite }.to_owned();
        let divisions = results.iter().map(|r| (r.division.clone(), suite(r))).collect::<Vec<_>>();
        let closed: Vec<&Record> =
            once.iter().copied().filter(|record| record.division == "closed").collect();
        Self {
            divisions: Matrix::from_pairs(divisions),
            scenarios: scenarios(&once, round),
            frameworks: frameworks(&once),
            closed: ClosedDivision {
                scenarios: scenarios(&closed, round),
                frameworks: frameworks(&closed),
            },
            spreads: spreads(&results, round),
        }
    }
}

/// Counts results by model and scenario, in the order of the round.
fn scenarios(records: &[&Record], round: &Round) -> Matrix {
    let mut records = records.to_vec();
    records.sort_by_key(|record| {
        let model = round.benchmarks.iter().position(|b| b.name == record.model);
        (model, record.scenario)
    });
    let pairs = records.iter().map(|r| (r.model.clone(), r.scenario.name().to_owned()));
    let mut matrix = Matrix::from_pairs(pairs);
    matrix
        .sort_columns(|name| RuleScenario::ALL.iter().position(|scenario| scenario.name() == name));
    matrix
}

/// Counts systems by framework and type of processor, the most frequent framework first.
fn frameworks(records: &[&Record]) -> Matrix {
    let mut systems = BTreeMap::new();
    for record in records {
        let key = (&record.division, &record.submitter, &record.details);
        systems
            .entry(key)
            .or_insert_with(|| (framework(&record.software), processor_type(record).to_owned()));
    }
    let mut matrix = Matrix::from_pairs(merged(systems.into_values()));
    matrix.sort_lines();
    matrix
}

impl Matrix {
    fn sort_columns<K: Ord>(&mut self, key: impl Fn(&str) -> K) {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|&index| key(&self.columns[index]));
        self.columns = order.iter().map(|&index| self.columns[index].clone()).collect();
        for counts in &mut self.counts {
            *counts = order.iter().map(|&index| counts[index]).collect();
        }
    }

    /// Sorts lines by frequency, descending.
    fn sort_lines(&mut self) {
        let mut lines: Vec<(String, Vec<usize>)> =
            self.lines.drain(..).zip(self.counts.drain(..)).collect();
        lines.sort_by_key(|(name, counts)| {
            (std::cmp::Reverse(counts.iter().sum::<usize>()), name.to_lowercase())
        });
        (self.lines, self.counts) = lines.into_iter().unzip();
    }
}

/// Unifies names that differ only in case.
fn merged(pairs: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut spelled = BTreeMap::new();
    pairs
        .map(|(framework, processor)| {
            let known = spelled.entry(framework.to_lowercase()).or_insert(framework);
            (known.clone(), processor)
        })
        .collect()
}

/// Names that texts of submitters begin with, in lower case, and the framework. The first match
/// counts.
const FRAMEWORKS: [(&str, &str); 6] = [
    ("tflite", "TensorFlow Lite"),
    ("tf-nightly", "TensorFlow"),
    ("tf ", "TensorFlow"),
    ("armnn", "Arm NN"),
    ("snapdragon neural processing engine", "SNPE"),
    ("tensorrt", "TensorRT"),
];

/// Bundles of software that are not frameworks; the framework follows.
const BUNDLES: [&str; 1] = ["jetpack"];

/// Texts of descriptions that name no framework, in lower case.
const NOT_STATED: [&str; 6] = ["n/a", "na", "none", "tbd", "todo", "undefined"];

/// Returns the name of the framework in a text such as `TensorRT 10.8, CUDA 12.9`.
pub fn framework(software: &str) -> String {
    if NOT_STATED.contains(&software.trim().to_lowercase().as_str()) {
        return "not stated".to_owned();
    }
    let is_bundle = |part: &&str| {
        let part = part.trim().to_lowercase();
        BUNDLES.iter().any(|bundle| part.starts_with(bundle))
    };
    let first = software.split([',', ';', '(', '/', ':']).find(|part| !is_bundle(part));
    let first = first.unwrap_or_default().trim();
    let lower = first.to_lowercase();
    if let Some((_, name)) = FRAMEWORKS.iter().find(|(start, _)| lower.starts_with(start)) {
        return (*name).to_owned();
    }
    // Versions follow a blank, `==` or `-V`.
    let first = first.split("==").next().unwrap_or_default();
    let first = first.split("-V").next().unwrap_or_default();
    let is_name = |word: &&str| {
        let number = word.trim_start_matches(['v', 'V', '_']);
        !number.starts_with(|c: char| c.is_ascii_digit()) && !["version", "commit"].contains(word)
    };
    let words: Vec<&str> = first.split_whitespace().take_while(is_name).collect();
    match words.join(" ").trim_end_matches('-') {
        "" => "not stated".to_owned(),
        name => name.to_owned(),
    }
}

/// Types of processors, and words in lower case that identify an accelerator of the type. The first
/// match counts.
const KINDS: [(&str, &[&str]); 4] = [
    ("FPGA", &["fpga", "alveo", "stratix", "versal", "zynq"]),
    ("DSP", &["dsp", "hexagon"]),
    (
        "ASIC",
        &[
            "tpu",
            "npu",
            "cloud ai",
            "ethos",
            "hanguang",
            "goya",
            "gaudi",
            "hailo",
            "nervana",
            "neural network processor",
            "coprocessor",
            "sapeon",
            "rbln",
            "recaccel",
            "mlsoc",
            "untether",
            "speedai",
        ],
    ),
    (
        "GPU",
        &[
            "gpu", "nvidia", "geforce", "rtx", "tesla", "quadro", "jetson", "instinct", "radeon",
            "mi300", "mi325", "mi355", "arc ", "mali", "adreno", "h100", "h200", "b200", "gb200",
            "a100", "gh200", "l40", "graphics",
        ],
    ),
];

/// Returns the type of the processor that does the computation.
pub fn processor_type(record: &Record) -> &'static str {
    if record.processor.is_empty() && record.accelerator.is_empty() {
        return "not stated";
    }
    let model = record.accelerator.trim().to_lowercase();
    if record.accelerators.is_empty()
        || matches!(model.as_str(), "" | "n/a" | "none" | "na")
        || record.accelerators == "None"
    {
        return "CPU";
    }
    let kind_in =
        |text: &str| KINDS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word)));
    // The name of an accelerator may not state its type, while that of the system does.
    let kind = kind_in(&model).or_else(|| kind_in(&record.details.to_lowercase()));
    kind.map_or("other accelerator", |(kind, _)| *kind)
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
        speeds: Quartiles::from_sorted(&normalised)?,
    })
}
