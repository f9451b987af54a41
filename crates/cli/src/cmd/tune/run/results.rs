//! Results of `dyno tune run` as files and as an exit code.

use std::path::{Path, PathBuf};

use dyno_experiment::tune::best_file;
use dyno_number::tune::{MarginVerdict, Progress, Speedup, Stop, TuneEnd, TuneOutcome};
use dyno_number::{Network, Objective};
use dyno_results::write::replace;

use super::OPT_CONF;
use crate::exit::Exit;
use crate::output;

/// Returns the exit code of a job.
pub(super) fn exit(network: &Network, outcome: &TuneOutcome) -> Exit {
    let is_smaller = is_smaller(network, outcome);
    let is_confirmed = match (&outcome.confirmation, outcome.confirmed, outcome.baselines[2]) {
        (Some(confirmation), ..) => confirmation.verdict == MarginVerdict::Valid,
        (None, Some(accuracy), Some(baseline)) => {
            network.metric.keeps(accuracy, baseline.threshold)
        }
        _ => true,
    };
    match outcome.end {
        TuneEnd::Stopped(Stop::Interrupted) => Exit::Interrupted,
        TuneEnd::Complete if is_smaller && is_confirmed => Exit::Valid,
        _ => Exit::Invalid,
    }
}

/// Returns whether the answer is smaller than FLOAT 32. Latencies vary, so that a latency must be
/// proven to be smaller.
fn is_smaller(network: &Network, outcome: &TuneOutcome) -> bool {
    let Some(answer) = &outcome.answer else { return false };
    let is_less = match network.objective {
        Objective::Latency => outcome.speedup.is_some_and(Speedup::is_faster),
        _ => answer.objective < outcome.base_objective,
    };
    is_less && answer.assignment != network.base()
}

/// Keeps opt_conf.txt up to date while the job runs.
pub(super) struct ConfigurationWriter<'a> {
    network: &'a Network,
    path: PathBuf,
    text: String,
    has_complained: bool,
}

impl<'a> ConfigurationWriter<'a> {
    pub fn new(network: &'a Network, folder: &Path) -> Self {
        Self { network, path: folder.join(OPT_CONF), text: String::new(), has_complained: false }
    }

    pub fn update(&mut self, progress: &Progress<'_>) {
        let mut complain = |problem: String| {
            if !self.has_complained {
                output::say(format_args!("warning: {problem}; it is tried again"));
            }
            self.has_complained = true;
        };
        if let Some(why) = progress.journal_problem {
            complain(format!("the journal cannot be written: {why}"));
        }
        let Some(best) = progress.best else { return };
        let text = best_file(self.network, best);
        if text != self.text {
            match replace(&self.path, &text) {
                Ok(()) => self.text = text,
                Err(error) => complain(format!("cannot write {}: {error}", self.path.display())),
            }
        }
    }
}

/// Returns a folder as its user would write it.
pub(super) fn display_path(folder: &Path) -> String {
    let here = std::env::current_dir().ok();
    let inside = here.and_then(|here| folder.strip_prefix(here).ok().map(Path::to_path_buf));
    inside.unwrap_or_else(|| folder.to_path_buf()).display().to_string()
}
