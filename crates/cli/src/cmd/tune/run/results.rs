//! Results of `dyno tune run` as files and as an exit code.

use std::path::{Path, PathBuf};

use dyno_experiment::Failure;
use dyno_experiment::tune::{Provenance, ScenarioReport, best_file, document, evaluated, remarks};
use dyno_number::tune::{MarginVerdict, Progress, Speedup, Stop, TuneEnd, TuneOutcome};
use dyno_number::{Network, Objective};
use dyno_results::write::{pretty, replace};
use serde_json::Value;

use super::{JOURNAL, OPT_CONF, Run};
use crate::exit::Exit;
use crate::{output, render};

/// Contents of the results.
pub(super) struct TuneReport<'a> {
    pub network: &'a Network,
    pub about: &'a Value,
    /// Warnings about the samples.
    pub warnings: &'a [String],
    pub outcome: &'a TuneOutcome,
    pub provenance: Option<&'a Provenance>,
    pub scenario: Option<&'a ScenarioReport>,
}

impl Run {
    /// Writes and prints the results.
    pub(super) fn write_results(
        &self,
        folder: &Path,
        report: &TuneReport<'_>,
    ) -> Result<Exit, Failure> {
        let TuneReport { network, about, warnings, outcome, provenance, scenario } = *report;
        let remarks = remarks(network, outcome, provenance);
        let all = [warnings, &remarks[..]].concat();
        let document = document(network, about, &all, outcome, provenance, scenario);
        let remarks = [warnings, &[evaluated(outcome)], &remarks[..]].concat();
        let page = crate::pages::html_of_tuning(&crate::pages::Tuning {
            network,
            outcome,
            about,
            provenance,
            remarks: &remarks,
            descriptor: &self.described.descriptor.display().to_string(),
            folder: &display_path(folder),
            scenario,
        });
        let mut files = vec![("tune.json", pretty(&document)), (dyno_report::FILE, page)];
        files.extend(outcome.answer.as_ref().map(|answer| (OPT_CONF, best_file(network, answer))));
        let mut failures = Vec::new();
        for (name, text) in &files {
            let path = folder.join(name);
            if let Err(error) = replace(&path, text) {
                failures.push(format!("cannot write {}: {error}", path.display()));
                // The answer must not be lost even if other files are.
                if *name == OPT_CONF {
                    output::say(format_args!("the answer, which cannot be written:\n{text}"));
                }
            }
        }
        if let Some((why, journal)) = &outcome.journal_problem {
            let lines = journal.lines().filter(|line| !line.is_empty()).count();
            let lost = match lines {
                1 => "1 evaluation is".to_owned(),
                count => format!("{count} evaluations are"),
            };
            let path = folder.join(JOURNAL);
            failures.push(format!("cannot write {}: {why}; {lost} not in it", path.display()));
        }
        if self.json {
            output::print(pretty(&document))?;
        } else if !self.quiet {
            output::show(render::tune::summary(
                network,
                outcome,
                provenance,
                scenario,
                &display_path(folder),
            ))?;
        }
        if let TuneEnd::Stopped(Stop::Failed(why)) = &outcome.end {
            return Err(Failure::aborted(why).hint(
                "fix the cause, then use --resume: what was evaluated is kept; a changed \
                     program needs a new job (--out DIR)",
            ));
        }
        if failures.is_empty() {
            Ok(exit(network, outcome))
        } else {
            Err(Failure::set_up(failures.join("; "))
                .hint("free some space, then continue with --resume"))
        }
    }
}

/// Returns the exit code of a job.
fn exit(network: &Network, outcome: &TuneOutcome) -> Exit {
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
