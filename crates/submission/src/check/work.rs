//! Judges the models of a tree independently and in parallel.

use std::path::PathBuf;

use super::issues::Issues;
use super::{CheckReport, Options, Outcome, Place, Program};
use crate::entry::{Entry, Model, Submitter, System};
use crate::facts::Facts;
use crate::facts::json::JsonFile;
use crate::layout::Layout;
use crate::table::Row;
use crate::tree::Tree;
use dyno_metrics::parallel;
use dyno_rules::accuracy::Patterns;
use dyno_rules::{Behavior, Round, RuleScenario};

/// A model to judge, with the program's data on its system.
pub struct Work<'a, 't, D> {
    pub round: &'static Round,
    pub options: &'a Options,
    patterns: &'a Patterns,
    pub submitter: &'a Submitter<'t>,
    pub system: &'a System<'t>,
    pub system_info: &'a D,
    pub model: &'a Model<'t>,
}

impl<'a, 't, D> Work<'a, 't, D> {
    /// Returns the place of a result of the model.
    pub fn place<'s>(
        &'s self,
        entry: &'s Entry<'t>,
        scenario: Option<RuleScenario>,
        description: &'s JsonFile,
    ) -> Place<'s, 't> {
        let Self { round, options, submitter, system, model, .. } = *self;
        Place { round, options, submitter, system, description, model, entry, scenario }
    }

    /// Reads the files of a result that its row needs.
    pub fn facts_of_row(&self, entry: &'a Entry<'t>) -> Facts<'t> {
        let (layout, endpoints) = (self.submitter.layout, self.round.endpoints);
        Facts::read_result(layout, self.system, self.model, entry, self.patterns, endpoints)
    }

    /// Reads the files of a result. The single-file checker does not support endpoints.
    pub fn facts(&self, entry: &'a Entry<'t>) -> Facts<'t> {
        let endpoints = self.round.endpoints.filter(|_| self.options.program.one_file().is_none());
        let layout = self.submitter.layout;
        let mut facts =
            Facts::read(layout, self.system, self.model, entry, self.patterns, endpoints);
        if self.options.program != Program::Strict && layout != Layout::Together {
            facts.take_first_listed_measurement(self.system, entry);
        }
        facts
    }
}

/// Outcome of judging models.
pub struct ModelReport {
    pub issues: Issues,
    pub listed: Vec<(PathBuf, Outcome)>,
    pub rows: Vec<Row>,
}

impl ModelReport {
    /// Creates an empty report.
    pub fn new(program: Program) -> Self {
        Self { issues: Issues::new(program), listed: Vec::new(), rows: Vec::new() }
    }
}

/// Judges each model of the systems; returns the results in order.
pub fn each_model<'a, 't: 'a, D: Sync, R: Send>(
    systems: &'a [(&'a Submitter<'t>, &'a System<'t>, D)],
    round: &'static Round,
    options: &'a Options,
    judge: impl Fn(&Work<'_, 't, D>) -> R + Sync,
) -> Vec<R> {
    let is_early = options.program.does(Behavior::UnquotedAccuracy);
    let earlier = Round::before(round.version).filter(|_| is_early).unwrap_or(round);
    let patterns = &Patterns::as_of(round, earlier);
    let models = |(submitter, system, system_info): &'a (&'a Submitter<'t>, &'a System<'t>, D)| {
        let work =
            move |model| Work { round, options, patterns, submitter, system, system_info, model };
        system.models.iter().map(work)
    };
    let work: Vec<Work<'_, 't, D>> = systems.iter().flat_map(models).collect();
    parallel::map(&work, judge)
}

/// Judges each model and adds its report to `report`.
pub fn judge<'t, D: Sync>(
    tree: &Tree,
    systems: &[(&Submitter<'t>, &System<'t>, D)],
    round: &'static Round,
    options: &Options,
    mut report: ModelReport,
    judge: impl Fn(&Work<'_, 't, D>) -> ModelReport + Sync,
) -> CheckReport {
    for model in each_model(systems, round, options, judge) {
        report.issues.append(model.issues);
        report.listed.extend(model.listed);
        report.rows.extend(model.rows);
    }
    let ModelReport { issues, listed, rows } = report;
    let (crashes, results) = (issues.crashes(), listed.into_iter().collect());
    CheckReport { findings: issues.into_findings(), results, rows, crashes, entries: tree.len() }
}
