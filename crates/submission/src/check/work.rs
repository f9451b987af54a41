//! The models of a tree, each judged by itself, side by side.

use std::path::PathBuf;

use super::issues::Issues;
use super::{Checked, Options, Outcome, Place, Program};
use crate::entry::{Entry, Model, Submitter, System};
use crate::facts::Facts;
use crate::facts::json::JsonFile;
use crate::table::Row;
use crate::tree::Tree;
use dyno_metrics::parallel;
use dyno_rules::accuracy::Patterns;
use dyno_rules::{Round, Scenario};

/// A model to judge, with what the program knows of its system.
pub struct Work<'a, 't, D> {
    pub round: &'static Round,
    pub options: &'a Options,
    patterns: &'a Patterns,
    pub submitter: &'a Submitter<'t>,
    pub system: &'a System<'t>,
    pub described: &'a D,
    pub model: &'a Model<'t>,
}

impl<'a, 't, D> Work<'a, 't, D> {
    /// A result of the model in its tree.
    pub fn place<'s>(
        &'s self,
        entry: &'s Entry<'t>,
        scenario: Option<Scenario>,
        description: &'s JsonFile,
    ) -> Place<'s, 't> {
        let Self { round, options, submitter, system, model, .. } = *self;
        Place { round, options, submitter, system, description, model, entry, scenario }
    }

    /// What the files of a result say. The program in one file knows no endpoints.
    pub fn facts(&self, entry: &'a Entry<'t>) -> Facts<'t> {
        let endpoints = self.round.endpoints.filter(|_| self.options.program != Program::Mono);
        let layout = self.submitter.layout;
        Facts::read(layout, self.system, self.model, entry, self.patterns, endpoints)
    }
}

/// What became of a model.
pub struct Judged {
    pub issues: Issues,
    pub listed: Vec<(PathBuf, Outcome)>,
    pub rows: Vec<Row>,
}

impl Judged {
    /// Nothing so far.
    pub fn new(program: Program) -> Self {
        Self { issues: Issues::new(program), listed: Vec::new(), rows: Vec::new() }
    }
}

/// What is made of each model of these systems, in their order.
pub fn each_model<'a, 't: 'a, D: Sync, R: Send>(
    systems: &'a [(&'a Submitter<'t>, &'a System<'t>, D)],
    round: &'static Round,
    options: &'a Options,
    judge: impl Fn(&Work<'_, 't, D>) -> R + Sync,
) -> Vec<R> {
    let patterns = &Patterns::new(round);
    let models = |(submitter, system, described): &'a (&'a Submitter<'t>, &'a System<'t>, D)| {
        let work =
            move |model| Work { round, options, patterns, submitter, system, described, model };
        system.models.iter().map(work)
    };
    let work: Vec<Work<'_, 't, D>> = systems.iter().flat_map(models).collect();
    parallel::map(&work, judge)
}

/// Judges each model, and adds what became of it to what was found around it.
pub fn judge<'t, D: Sync>(
    tree: &Tree,
    systems: &[(&Submitter<'t>, &System<'t>, D)],
    (round, options): (&'static Round, &Options),
    mut around: Judged,
    judge: impl Fn(&Work<'_, 't, D>) -> Judged + Sync,
) -> Checked {
    for judged in each_model(systems, round, options, judge) {
        around.issues.append(judged.issues);
        around.listed.extend(judged.listed);
        around.rows.extend(judged.rows);
    }
    let Judged { issues, listed, rows } = around;
    let (crashes, results) = (issues.crashes(), listed.into_iter().collect());
    Checked { findings: issues.into_findings(), results, rows, crashes, entries: tree.len() }
}
