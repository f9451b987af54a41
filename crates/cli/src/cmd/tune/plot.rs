//! `dyno tune plot`: plots accuracy against width, and histograms of weights.

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::tune::{self, Engine, Evaluator, Frontier, Histogram, Plot as Document};
use dyno_loadgen::clock::Clock;
use dyno_number::network::Direction;
use dyno_number::tune::{Evaluation, Stop, Subset, Trial, width_trials};
use dyno_number::{Dictionary, Network};
use dyno_results::write::{pretty, to_named};
use serde_json::Value;

use super::trial::check_objects;
use super::{NetworkArgs, read};
use crate::interrupt;
use crate::tune_line::Line;

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Plot {
    #[command(flatten)]
    described: NetworkArgs,
    /// Configuration file, such as opt_conf.txt, whose formats are drawn over the histograms
    #[arg(long, value_name = "FILE")]
    formats: Option<PathBuf>,
    /// Folder of a tuning job, whose formats are drawn over the histograms and whose configurations
    /// are plotted by size and accuracy
    #[arg(long, value_name = "DIR")]
    tuned: Option<PathBuf>,
    /// Page to write
    #[arg(long, value_name = "FILE", default_value = "tune-plot.html", conflicts_with = "json")]
    out: PathBuf,
    /// Use all samples instead of the small set
    #[arg(long)]
    full: bool,
    /// Print the numbers instead of writing a page
    #[arg(long)]
    json: bool,
    /// Do not show the progress line on stderr
    #[arg(long)]
    no_progress: bool,
}

const AFTER_HELP: &str = "\
Plots 1 to 16 bits of FIXED, 2 to 9 of EXP and 4 to 16 of FLOAT: for all objects together, and for the
weights and the activations of each layer while everything else stays FLOAT 32. Histograms need `model`
in the descriptor, because Dyno does not know the weights of a program.
Examples:
  dyno tune plot lenet.toml --formats tune-lenet/opt_conf.txt
  dyno tune plot lenet.toml --tuned tune-lenet";

impl Plot {
    /// Evaluates all widths and writes the plots.
    ///
    /// # Errors
    /// Invalid input, files that cannot be read or written, or a failed evaluation.
    pub fn execute(self) -> Result<Exit, Failure> {
        let network = self.described.network(None)?;
        let chosen = self.chosen()?;
        let frontier = self.frontier(&network)?;
        let interrupt = interrupt::listen()
            .map_err(|error| Failure::set_up(format!("cannot listen to Ctrl-C: {error}")))?;
        let home = self.described.folder()?;
        let has_small = network.external.as_ref().is_none_or(|of| of.small_command.is_some());
        let subset = if self.full || !has_small { Subset::Full } else { Subset::Small };
        let trials = trials(&network, subset);
        let mut evaluator = Evaluator::open(&network, &home, true, None, None)?;
        let histograms = match evaluator.engine() {
            Some(engine) => {
                let place = self.formats_path().unwrap_or_default();
                let objects = chosen.iter().map(|(object, _)| object);
                check_objects(objects, engine, &place.display().to_string())?;
                histograms(&network, engine, &chosen)
            }
            None => Vec::new(),
        };
        let line = Line::new(!self.no_progress);
        let clock = Clock::start();
        let mut found = Vec::new();
        for trial in &trials {
            line.count(found.len(), trials.len(), clock.now());
            match evaluator.evaluate(trial, &interrupt) {
                Ok(evaluation) => found.push(evaluation),
                Err(Stop::Failed(why)) => {
                    line.clear();
                    return Err(Failure::aborted(why));
                }
                Err(Stop::Interrupted | Stop::Limit) => {
                    line.clear();
                    return Ok(Exit::Interrupted);
                }
            }
        }
        line.clear();
        report_failures(&network, &found);
        let mut found = found.into_iter();
        let base = found.next().map_or(0.0, |base| base.accuracy);
        let evaluated: Vec<_> = width_trials(&network).into_iter().zip(found).collect();
        let plot = tune::plot(&network, subset.name(), base, &evaluated, histograms);
        self.print_results(&Document { frontier, ..plot })
    }

    fn formats_path(&self) -> Option<PathBuf> {
        let of_job = self.tuned.as_ref().map(|folder| folder.join("opt_conf.txt"));
        self.formats.clone().or(of_job)
    }

    fn chosen(&self) -> Result<Dictionary, Failure> {
        let Some(path) = self.formats_path() else { return Ok(Dictionary::new()) };
        read(&path)?.parse().map_err(|error: dyno_number::config::ConfigError| {
            Failure::usage(format!("{}: {error}", path.display()))
        })
    }

    fn frontier(&self, network: &Network) -> Result<Option<Frontier>, Failure> {
        let Some(folder) = &self.tuned else { return Ok(None) };
        let path = folder.join("tune.json");
        let problem =
            |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
        let document: Value =
            serde_json::from_str(&read(&path)?).map_err(|error| problem(&error))?;
        let frontier = tune::frontier(&document).map_err(|error| problem(&error))?;
        let tuned = document["job"]["layers"].as_array().into_iter().flatten();
        let tuned = tuned.filter_map(|layer| layer["name"].as_str());
        if !tuned.eq(network.layers.iter().map(|layer| layer.name.as_str())) {
            let found = document["job"]["network"].as_str().unwrap_or_default();
            return Err(problem(&format!(
                "expected a job with the layers of `{}`, found a job of `{found}` with other layers",
                network.name
            )));
        }
        Ok(Some(frontier))
    }

    fn print_results(&self, document: &Document) -> Result<Exit, Failure> {
        if self.json {
            return output::print(pretty(document)).map(|()| Exit::Valid);
        }
        to_named(&self.out, crate::pages::html_of_widths(document))
            .map_err(|error| Failure::unwritable(&self.out, &error))?;
        output::say(format_args!("plot: {}", self.out.display()));
        Ok(Exit::Valid)
    }
}

/// Reports failed widths on stderr, because their curve shows only a missing accuracy.
fn report_failures(network: &Network, found: &[Evaluation]) {
    let mut notes = found.iter().filter_map(|evaluation| evaluation.note.as_ref());
    if let Some(first) = notes.next() {
        let (failed, all) = (1 + notes.count(), found.len());
        let shown = match network.metric.direction {
            Direction::Higher => "have the accuracy 0",
            Direction::Lower => "are left out",
        };
        output::say(format_args!("{failed} of {all} trials failed, and {shown}; {first}"));
    }
}

/// Returns the trials: FLOAT(32), then every width.
fn trials(network: &Network, subset: Subset) -> Vec<Trial> {
    let all = width_trials(network).into_iter().map(|width| width.assignment);
    let all = std::iter::once(network.base()).chain(all).enumerate();
    all.map(|(at, assignment)| Trial { number: at as u64 + 1, subset, assignment, decides: None })
        .collect()
}

fn histograms(network: &Network, engine: &Engine, chosen: &Dictionary) -> Vec<Histogram> {
    let parts = network.layers.iter().flat_map(|layer| &layer.parts);
    parts.filter_map(|part| Some(tune::histogram(part, engine.weights(part)?, chosen))).collect()
}
