//! What the load generator and the analyzer say of the two runs.

use dyno_loadgen::log::read::{Detail, read_detail};

use super::clock::Stamp;
use super::recorded::Files;

/// The two runs of a measurement.
pub(super) struct Runs {
    pub(super) ranging: Run,
    pub(super) testing: Run,
}

impl Runs {
    pub(super) fn of(files: &Files) -> Self {
        Self {
            ranging: Run::of(files, "ranging/mlperf_log_detail.txt", "ranging/spl.txt"),
            testing: Run::of(files, "run_1/mlperf_log_detail.txt", "run_1/spl.txt"),
        }
    }
}

/// One run.
pub(super) struct Run {
    /// The detail log, below the performance folder.
    pub(super) detail: &'static str,
    /// The samples of the analyzer, below the performance folder.
    pub(super) spl: &'static str,
    pub(super) is_there: bool,
    pub(super) begin: Option<Stamp>,
    pub(super) end: Option<Stamp>,
    pub(super) queries: Option<u64>,
    pub(super) scenario: Option<String>,
    pub(super) samples: Vec<Sample>,
    /// Lines of the samples that cannot be read.
    pub(super) broken: Vec<usize>,
}

/// What the analyzer read at one time.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) at: Stamp,
    pub(super) watts: f64,
}

impl Run {
    fn of(files: &Files, detail: &'static str, spl: &'static str) -> Self {
        let text: String = files.lines(detail).flat_map(|(_, line)| [line, "\n"]).collect();
        let (log, _): (Detail, _) = read_detail(&text);
        let stamp = |key: &str| log.text(key).and_then(Stamp::parse);
        let (samples, broken) = read_samples(files, spl);
        Self {
            detail,
            spl,
            is_there: files.has(detail),
            begin: stamp("power_begin"),
            end: stamp("power_end"),
            queries: log.whole("result_query_count"),
            scenario: log.text("effective_scenario").map(str::to_owned),
            samples,
            broken,
        }
    }

    /// Begin and end of the measured part.
    pub(super) fn span(&self) -> Option<(Stamp, Stamp)> {
        self.begin.zip(self.end)
    }

    /// Mean of the positive readings between two times, in watts.
    pub(super) fn mean_watts(&self, begin: Stamp, end: Stamp) -> Option<f64> {
        let inside = self.samples.iter().filter(|sample| begin < sample.at && sample.at < end);
        let positive = inside.filter(|sample| sample.watts > 0.0);
        let (sum, count) =
            positive.fold((0.0, 0_u32), |(sum, count), s| (sum + s.watts, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }
}

fn read_samples(files: &Files, spl: &str) -> (Vec<Sample>, Vec<usize>) {
    let (mut samples, mut broken) = (Vec::new(), Vec::new());
    for (number, line) in files.lines(spl).filter(|(_, line)| line.starts_with("Time")) {
        let mut fields = line.split(',').skip(1);
        let at = fields.next().and_then(Stamp::parse);
        let watts = fields.nth(1).and_then(|text| text.trim().parse().ok());
        match at.zip(watts) {
            Some((at, watts)) => samples.push(Sample { at, watts }),
            None => broken.push(number),
        }
    }
    (samples, broken)
}
