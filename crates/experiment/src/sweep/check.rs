//! Checks of all points of a sweep before the first one runs.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use dyno_results::sweep::InputFile;

use super::combinations::Combination;
use super::plan::command_line;
use super::same::SameRuns;
use crate::effect::{self, Common, Facts, Strictness, check_system};
use crate::failure::{Failure, FailureKind};
use crate::inputs;
use crate::options::{CommandLine, Options, RunOptions};
use crate::run::{PreparedRun, variables};
use crate::system::net::without_secrets;
use crate::system::{System, SystemKind, cost, named_files};
use crate::watch::quiet;

/// Checks of all combinations before the first one runs.
#[derive(Default)]
pub struct Check {
    /// Each problem with the first point that has it, and the number of such points.
    problems: Vec<(String, String, usize)>,
    /// Number of points.
    points: usize,
    /// First failure of a point.
    first: Option<Failure>,
    /// Whether the options of a point are wrong, so that its files and servers do not matter.
    has_usage: bool,
    /// Options of the first point, and the files that are missing at every point so far.
    missing: Option<(RunOptions, Vec<PathBuf>)>,
    /// Options without effect at all points.
    common: Common,
    /// Name of the combination for each hash of its options.
    effects: HashMap<u64, String>,
    same: SameRuns,
    /// Files that the points use.
    pub files: Vec<InputFile>,
    /// Operations per sample for each system and model.
    operations: HashMap<(Option<String>, Option<PathBuf>), Option<f64>>,
}

/// Maximum number of problems that are listed.
const MOST_PROBLEMS: usize = 10;

impl Check {
    /// Checks a point. Returns the operations of the model, if known.
    pub fn point(
        &mut self,
        fixed: &CommandLine,
        combination: &Combination,
        name: &str,
        number: u64,
    ) -> Option<f64> {
        let name = format!("{number} ({name})");
        self.points += 1;
        let read = command_line(fixed, combination)
            .map_err(Failure::usage)
            .and_then(|line| Options::read(&line, variables()));
        let options = match read {
            Ok(options) => options,
            Err(failure) => return self.note(failure, &name),
        };
        self.note_files(fixed, &options);
        match self.effects.entry(effect(&options)) {
            Entry::Vacant(free) => _ = free.insert(name.clone()),
            Entry::Occupied(taken) => {
                let problem = format!(
                    "points {} and {name} are the same run: another setting overrides their \
                     difference",
                    taken.get()
                );
                return self.note(Failure::usage(problem), &name);
            }
        }
        let system = without_secrets(options.run.system.as_deref().unwrap_or("digits"));
        let run = options.run.clone();
        let facts = Facts::new(&options, None);
        self.common.add(&facts);
        self.same.add(&facts, combination, &name);
        let gates = effect::check(&facts, Strictness::Point);
        if let Err(failure) = gates.and_then(|_| check_system(&facts, Strictness::Point)) {
            return self.note(failure, &name);
        }
        // Engines take long to load and are loaded when their point is run.
        let quick = SystemKind::of_spec(&system)
            .ok()
            .and_then(|(kind, operand)| Some((kind.check?)(operand, &options.run)));
        if quick.is_some() {
            self.common.add_bounds(&facts);
        }
        let checked = quick.unwrap_or_else(|| {
            let system = System::load(&options.run, &quiet())?;
            let facts = Facts::new(&options, Some(&system));
            check_system(&facts, Strictness::Point)?;
            self.common.add_bounds(&facts);
            PreparedRun::from_system(options, system).tests().map(|_| ())
        });
        if let Err(failure) = checked {
            return self.note(failure, &name);
        }
        self.note_missing(&run);
        self.operations(&run)
    }

    /// Returns the operations of a system per sample, if known. Each model is counted once.
    fn operations(&mut self, run: &RunOptions) -> Option<f64> {
        let model = (run.system.clone(), run.model.clone());
        *self.operations.entry(model).or_insert_with(|| cost::operations(run))
    }

    fn note(&mut self, failure: Failure, name: &str) -> Option<f64> {
        for problem in failure.problems() {
            match self.problems.iter_mut().find(|(known, ..)| known == problem) {
                Some((.., count)) => *count += 1,
                None => self.problems.push((problem.clone(), name.to_string(), 1)),
            }
        }
        self.has_usage |= failure.kind() == FailureKind::Usage;
        self.first.get_or_insert(failure);
        None
    }

    /// Notes which files are missing at every point. A file that only some points use is reported when
    /// they are run.
    fn note_missing(&mut self, run: &RunOptions) {
        let spec = run.system.as_deref().unwrap_or_default();
        let kind = SystemKind::of_spec(spec).ok().filter(|(kind, _)| kind.check.is_some());
        let code = kind.map(|(kind, operand)| (kind.resources)(operand).libraries);
        let named = named_files(run).into_iter().chain(code.into_iter().flatten());
        let missing: Vec<PathBuf> = named.filter(|path| !path.exists()).collect();
        match &mut self.missing {
            Some((_, common)) => common.retain(|path| missing.contains(path)),
            none => *none = Some((run.clone(), missing)),
        }
    }

    fn note_files(&mut self, fixed: &CommandLine, options: &Options) {
        if let Some(config) = &fixed.config {
            inputs::add_file(&mut self.files, config);
        }
        inputs::add_run(&mut self.files, options);
    }

    /// Rejects the sweep if a point cannot run.
    ///
    /// # Errors
    /// All problems. A failure that is not of the options and the same at all points is that of the run.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let Some(first) = self.first.take() else {
            self.common.check()?;
            self.same.check()?;
            return self.check_missing();
        };
        if !self.has_usage {
            let is_everywhere = self.problems.iter().all(|(.., count)| *count == self.points);
            return Err(if is_everywhere {
                first
            } else {
                let hints = first.hints().iter();
                hints.fold(Failure::new(first.kind(), self.listed()), Failure::hint)
            });
        }
        Err(Failure::usages(self.listed())
            .hint("use [[sweep.exclude]] in a file to leave out invalid combinations"))
    }

    /// Returns the problems with their points.
    fn listed(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        for (problem, point, count) in self.problems.iter().take(MOST_PROBLEMS) {
            let others = match count {
                1 => String::new(),
                2 => " and 1 other".into(),
                count => format!(" and {} others", count - 1),
            };
            problems.push(format!("{problem}\n  in point {point}{others}"));
        }
        if let Some(more @ 1..) = self.problems.len().checked_sub(MOST_PROBLEMS) {
            problems.push(format!("and {more} further problems"));
        }
        problems
    }

    /// Loads the system of the first point if every point lacks a file of it. This fails as the run
    /// does, unless the file is not needed.
    fn check_missing(&self) -> Result<(), Failure> {
        match &self.missing {
            Some((run, missing)) if !missing.is_empty() => System::load(run, &quiet()).map(drop),
            _ => Ok(()),
        }
    }
}

/// Returns a hash of all options of a run.
fn effect(options: &Options) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", options.run).hash(&mut hasher);
    for scenario in options.scenarios() {
        for &mode in options.modes() {
            let mut settings = options.settings(scenario, mode, None);
            options.complete(&mut settings);
            for (field, value, _) in settings.rows() {
                (field.name, value).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}
