//! The systems `task:NAME`: a task's model with its samples, its labels and its target.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::settings::similar;
use dyno_rules::{Benchmark, Round};
use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};
use dyno_task::cache::Cache;
use dyno_task::card::{self, Bound, Card, Unit};
use dyno_task::files::{Files, OpenError};
use dyno_task::graphs::Graph;
use dyno_task::judge::{Judge, Target};
use dyno_task::open::PreparedTask;
use dyno_task::{open, shape};

use super::kind::{Drive, OpenedSystem, Resources, SystemKind};
use super::{onnx, rnn};
use crate::cache;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::watch::Watch;

pub(super) const KIND: SystemKind = SystemKind {
    name: "task",
    operand: "NAME",
    help: "a task with its model, its samples and its target: task:mnist, or task:resnet50-shape with random \
     samples (dyno task list)",
    accepts: &["with", "ort-lib", "workers", "threads", "cores", "warm-up", "batch", "batch-wait"],
    resources: Resources::nothing,
    check: Some(|name, _| check(name)),
    open: |request| load(request.operand, request.run, request.watch),
};

/// Tasks whose systems are built in.
const DIGITS: &str = "digits";
const DIGITS_LSTM: &str = "digits-lstm";

/// Checks that a task exists, without its files.
///
/// # Errors
/// The task does not exist.
fn check(name: &str) -> Result<(), Failure> {
    card_of(name).map(drop)
}

fn card_of(name: &str) -> Result<&'static Card, Failure> {
    card::named(name).ok_or_else(|| unknown(name))
}

/// Loads a task from the cache.
///
/// # Errors
/// An unknown name, or missing files, each of which is named.
fn load(name: &str, run: &RunOptions, watch: &Arc<dyn Watch>) -> Result<OpenedSystem, Failure> {
    let card = card_of(name)?;
    let of_percent = |quality: &card::Quality| Some(quality.at_least? / 100.0);
    if card.name == DIGITS_LSTM {
        no_files(card, run)?;
        return Ok(OpenedSystem {
            labels: Some(digits::labels()),
            target: card.quality.as_ref().and_then(of_percent),
            offline_workers: 1,
            ..rnn::load_digits("", run)?.into()
        });
    }
    if card.name == DIGITS {
        no_files(card, run)?;
        let engine = Drive::Engine(Arc::new(DigitsPerceptron::new()));
        return Ok(OpenedSystem {
            labels: Some(digits::labels()),
            target: card.quality.as_ref().and_then(of_percent),
            ..OpenedSystem::new(engine, Arc::new(DigitsLibrary))
        });
    }
    let cache = cache::folder(None)?;
    match shape::graph(name) {
        Some(graph) => {
            no_files(card, run)?;
            shaped(graph, &cache, run)
        }
        None => opened(card, &cache, watch, run),
    }
}

/// Opens a shape task: its graph with random samples.
fn shaped(graph: &Graph, cache: &Cache, run: &RunOptions) -> Result<OpenedSystem, Failure> {
    let path = shape::write(graph, cache).map_err(Failure::set_up)?;
    let samples = NonZero::new(graph.random_samples() as usize);
    let run = RunOptions { samples: run.samples.or(samples), ..run.clone() };
    let fitting = shape::fitting_batch(graph).map_err(Failure::set_up)?;
    let fitting = run.batch.is_none().then_some(fitting);
    let file = path.to_string_lossy();
    let model = onnx::Operand { file: &file, output: None };
    let loaded = onnx::load("onnx", model, &graph.spans(), fitting, &run)?;
    Ok(OpenedSystem {
        tensors: Some(loaded.library.clone()),
        is_synthetic: true,
        offline_workers: loaded.offline_workers,
        ..OpenedSystem::new(Drive::Engine(loaded.engine), loaded.library)
    })
}

/// Returns the judge of a task's answers, for an existing log.
///
/// # Errors
/// As [`load`], or no method judges the answers of the task.
pub fn judge(
    name: &str,
    with: &[(String, PathBuf)],
    watch: &Arc<dyn Watch>,
) -> Result<Judge, Failure> {
    let card = card_of(name)?;
    if card.system.is_none() {
        let problem = format!("task {name} has no method to judge answers");
        return Err(Failure::usage(problem).hint("dyno task methods lists all methods"));
    }
    let ready = ready(card, &cache::folder(None)?, watch, with)?;
    let why = ready.remarks.last().cloned().unwrap_or_default();
    ready.judge.ok_or_else(|| Failure::set_up(format!("task {name}: {why}")))
}

fn ready(
    card: &Card,
    cache: &Cache,
    watch: &Arc<dyn Watch>,
    with: &[(String, PathBuf)],
) -> Result<PreparedTask, Failure> {
    let mut given = BTreeMap::new();
    for (name, path) in with {
        if given.insert(name.clone(), path.clone()).is_some() {
            return Err(Failure::usage(format!("--with {name}=... is given twice")));
        }
    }
    let failed = |error| failed(card, &error);
    let files = Files::new(card, cache, given).map_err(failed)?;
    let say = |what: &str| watch.say(&format!("{what} ..."));
    let files = files.with_progress(&say);
    open::open(&files).map_err(failed)
}

/// Opens a task with files of the user or fetched files.
fn opened(
    card: &Card,
    cache: &Cache,
    watch: &Arc<dyn Watch>,
    run: &RunOptions,
) -> Result<OpenedSystem, Failure> {
    let ready = ready(card, cache, watch, &run.with)?;
    let labels = ready.samples.labels().map(<[i64]>::to_vec);
    let watch = watch.clone();
    let samples = ready.samples.on_broken_samples(move |samples| tell_broken(samples, &*watch));
    let loaded = onnx::load_prepared(ready.model, samples, run)?;
    let judge = ready.judge.map(|judge| of_round(judge, card, run));
    let least = judge.as_ref().and_then(|judge| match (judge.unit, judge.targets.first()?.bound) {
        (Unit::Percent, Bound::AtLeast(least)) => Some(least / 100.0),
        (Unit::Share, Bound::AtLeast(least)) => Some(least),
        _ => None,
    });
    Ok(OpenedSystem {
        tensors: Some(loaded.library.clone()),
        target: labels.as_ref().and(least),
        labels,
        judge,
        remarks: ready.remarks,
        other_data: ready.other_data,
        offline_workers: loaded.offline_workers,
        ..OpenedSystem::new(Drive::Engine(loaded.engine), loaded.library)
    })
}

/// Maximum number of samples that are listed if they cannot be prepared.
const BROKEN_TOLD: usize = 5;

/// Reports samples that cannot be prepared, before the clock starts.
fn tell_broken(samples: &[String], watch: &dyn Watch) {
    for sample in samples.iter().take(BROKEN_TOLD) {
        watch.say(&format!("cannot be prepared and will fail in the run: {sample}"));
    }
    if let more @ 1.. = samples.len().saturating_sub(BROKEN_TOLD) {
        watch.say(&format!("and {more} more"));
    }
}

/// Sets the targets of an official task to those of its benchmark in the round of the run, else in
/// the newest round. The figure of the card comes first.
fn of_round(mut judge: Judge, card: &Card, run: &RunOptions) -> Judge {
    let asked = run.round.as_deref().and_then(|round| Round::named(round).ok());
    let asked =
        asked.and_then(|round| round.benchmark(run.benchmark.as_ref().or(card.rules.as_ref())?));
    let benchmark = asked.or(newest(card).map(|(_, benchmark)| benchmark));
    if let (true, Some(benchmark)) = (judge.targets.is_empty(), benchmark) {
        judge.targets = targets(benchmark, run.is_interactive);
        judge.targets.sort_by_key(|target| target.metric != judge.metric);
    }
    judge
}

/// Returns the targets of a benchmark, with Server played as itself or as Interactive.
fn targets(benchmark: &Benchmark, is_interactive: bool) -> Vec<Target> {
    let other = if is_interactive {
        dyno_rules::RuleScenario::Server
    } else {
        dyno_rules::RuleScenario::Interactive
    };
    let asked = benchmark.accuracy.iter().filter(|target| target.scenario != Some(other));
    let both = asked.flat_map(|target| {
        let bounds = [target.at_least.map(Bound::AtLeast), target.at_most.map(Bound::AtMost)];
        let scenario = target.scenario.map(dyno_rules::RuleScenario::loadgen_scenario);
        let of = move |bound| Target { metric: target.metric.clone(), bound, scenario };
        bounds.into_iter().flatten().map(of)
    });
    both.collect()
}

/// Returns the newest round that has the benchmark of a card.
pub fn newest(card: &Card) -> Option<(&'static Round, &'static Benchmark)> {
    let rules = card.rules.as_deref()?;
    let rounds = Round::names().into_iter().rev();
    rounds
        .filter_map(|name| Round::named(name).ok())
        .find_map(|round| Some((round, round.benchmark(rules)?)))
}

fn no_files(card: &Card, run: &RunOptions) -> Result<(), Failure> {
    match run.with.first() {
        None => Ok(()),
        Some((name, _)) => {
            let problem = format!("task {}: takes no files; remove --with {name}=FILE", card.name);
            Err(Failure::usage(problem))
        }
    }
}

/// Returns the failure of a name that no task has.
pub fn unknown(name: &str) -> Failure {
    let near = similar(name, card::cards().iter().map(|card| card.name.as_str()));
    Failure::usage(format!("unknown task `{name}`")).hint_name(near, ALL_TASKS)
}

/// Where all tasks are listed, as a hint.
pub const ALL_TASKS: &str = "dyno task list shows all tasks";

/// Returns the failure, with advice, of missing or different files.
fn failed(card: &Card, error: &OpenError) -> Failure {
    let name = &card.name;
    let first = match error {
        OpenError::Several(errors) => &errors[0],
        error => error,
    };
    let hint = match first {
        OpenError::NotGiven { name: file, get, .. } => {
            format!("dyno task run {name} --with {file}=FILE; to get the file: {get}")
        }
        OpenError::Fetch { .. } => format!("dyno fetch {name} gets the files"),
        _ => format!("dyno task show {name} lists the required files"),
    };
    let failure = format!("task {name}: {error}");
    match error {
        OpenError::Unknown { .. } => Failure::usage(failure),
        _ => Failure::set_up(failure),
    }
    .hint(hint)
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::settings::Scenario;

    use super::*;

    #[test]
    fn a_scenario_is_held_to_its_own_targets() {
        let round = Round::named("v6.1").unwrap();
        let benchmark = round.benchmark("qwen3-vl-235b-a22b").unwrap();
        let least = |is_interactive, scenario| -> Vec<Bound> {
            let all = targets(benchmark, is_interactive);
            let own = all.iter().filter(|target| target.scenario.is_none_or(|of| of == scenario));
            own.map(|target| target.bound).collect()
        };
        assert_eq!(least(false, Scenario::Offline), [Bound::AtLeast(0.782_397)]);
        assert_eq!(least(false, Scenario::Server), [Bound::AtLeast(0.782_397)]);
        assert_eq!(least(true, Scenario::Server), [Bound::AtLeast(0.779_921_999_999_999_9)]);
    }
}
