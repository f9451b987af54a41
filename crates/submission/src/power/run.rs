//! The two runs of a measurement, from the logs of the load generator and the analyzer.

use std::borrow::Cow;

use dyno_loadgen::log::read::{Detail, read_detail};

use super::clock::Stamp;
use super::recorded::Files;
use super::{PowerChecker, RunLog};

/// Detail log of the run that counts.
pub(super) const TESTING_LOG: &str = "run_1/mlperf_log_detail.txt";

/// The two runs of a measurement.
pub(super) struct Runs {
    pub(super) ranging: Run,
    pub(super) testing: Run,
}

impl Runs {
    pub(super) fn from_files(files: &Files, testing: Option<&RunLog>) -> Self {
        Self {
            ranging: Run::from_files(
                files,
                None,
                "ranging/mlperf_log_detail.txt",
                "ranging/spl.txt",
            ),
            testing: Run::from_files(files, testing, TESTING_LOG, "run_1/spl.txt"),
        }
    }
}

/// One run of a measurement.
pub(super) struct Run {
    /// Path of the detail log below the performance folder.
    pub(super) detail: &'static str,
    /// Path of the analyzer's samples below the performance folder.
    pub(super) spl: &'static str,
    pub(super) is_there: bool,
    pub(super) begin: Option<Stamp>,
    pub(super) end: Option<Stamp>,
    pub(super) queries: Option<u64>,
    pub(super) rate: Option<f64>,
    pub(super) generated: Option<u64>,
    pub(super) scenario: Option<String>,
    pub(super) samples: Vec<Sample>,
    /// Malformed lines in the samples.
    pub(super) broken: Vec<BrokenLine>,
}

/// Reading of the analyzer at one time.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) time: Stamp,
    pub(super) watts: f64,
    is_marked: bool,
}

/// Line of samples from which no reading can be parsed.
pub(super) struct BrokenLine {
    /// Number of the line, from 1.
    pub(super) number: usize,
    /// Whether it begins with `Time`, as every line of PTDaemon does. Only early checkers read others.
    pub(super) is_marked: bool,
    is_blank: bool,
    /// Time, if it can be parsed.
    time: Option<Stamp>,
}

impl Run {
    fn from_files(
        files: &Files,
        known: Option<&RunLog>,
        detail: &'static str,
        spl: &'static str,
    ) -> Self {
        let log = known.map_or_else(|| Cow::Owned(read_log(files, detail)), Cow::Borrowed);
        let stamp = |text: &Option<String>| text.as_deref().and_then(Stamp::parse);
        let (samples, broken) = read_samples(files, spl);
        Self {
            detail,
            spl,
            is_there: files.has(detail),
            begin: stamp(&log.begin),
            end: stamp(&log.end),
            queries: log.queries,
            rate: log.rate,
            generated: log.generated,
            scenario: log.scenario.clone(),
            samples,
            broken,
        }
    }

    /// Returns the start and the end of the measured part.
    pub(super) fn span(&self) -> Option<(Stamp, Stamp)> {
        self.begin.zip(self.end)
    }

    /// Returns the mean of the positive readings between two times, in watts.
    pub(super) fn mean_watts(&self, begin: Stamp, end: Stamp) -> Option<f64> {
        let counts = |sample: &&Sample| sample.is_marked && sample.watts > 0.0;
        mean(self.readings(begin, end).filter(counts).map(|sample| sample.watts))
    }

    /// Returns the mean of all readings between two times, in watts.
    pub(super) fn mean_of_all_watts(&self, begin: Stamp, end: Stamp) -> Option<f64> {
        mean(self.readings(begin, end).map(|sample| sample.watts))
    }

    /// Returns the number of the first line that makes the mean between two times unknown. The
    /// official programs parse the times of all lines and the readings between the times.
    pub(super) fn damage(&self, begin: Stamp, end: Stamp, program: PowerChecker) -> Option<usize> {
        let matters = |line: &&BrokenLine| {
            let is_read = match program {
                PowerChecker::Early(_) => true,
                PowerChecker::Official => line.is_marked,
                PowerChecker::Rules => !line.is_blank,
            };
            is_read && line.time.is_none_or(|time| begin < time && time < end)
        };
        self.broken.iter().find(matters).map(|line| line.number)
    }

    fn readings(&self, begin: Stamp, end: Stamp) -> impl Iterator<Item = &Sample> {
        let inside = move |sample: &&Sample| begin < sample.time && sample.time < end;
        self.samples.iter().filter(inside)
    }
}

fn mean(watts: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = watts.fold((0.0, 0_u32), |(sum, count), one| (sum + one, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Parses the relevant lines of a detail log.
fn read_log(files: &Files, detail: &str) -> RunLog {
    let lines: String = files.lines(detail).flat_map(|(_, line)| [line, "\n"]).collect();
    let (log, _): (Detail, _) = read_detail(&lines);
    let text = |key: &str| log.text(key).map(str::to_owned);
    RunLog {
        sha1: String::new(),
        begin: text("power_begin"),
        end: text("power_end"),
        queries: log.whole("result_query_count"),
        rate: log.number("result_qps_with_loadgen_overhead"),
        generated: log
            .whole("generated_query_count")
            .and_then(|queries| queries.checked_mul(log.whole("generated_samples_per_query")?)),
        scenario: text("effective_scenario"),
    }
}

fn read_samples(files: &Files, spl: &str) -> (Vec<Sample>, Vec<BrokenLine>) {
    let (mut samples, mut broken) = (Vec::new(), Vec::new());
    for (number, line) in files.lines(spl) {
        // Bytes that are not UTF-8 make the official programs fail wherever they are.
        let is_text = !line.contains(char::REPLACEMENT_CHARACTER);
        let is_marked = line.starts_with("Time") || !is_text;
        let mut fields = line.split(',').skip(1);
        let time = fields.next().and_then(Stamp::parse).filter(|_| is_text);
        let watts = fields.nth(1).and_then(|text| text.trim().parse().ok());
        match time.zip(watts) {
            Some((time, watts)) => samples.push(Sample { time, watts, is_marked }),
            None => broken.push(BrokenLine { number, is_marked, is_blank: line.is_empty(), time }),
        }
    }
    (samples, broken)
}
