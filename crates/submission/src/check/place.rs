//! Which result is judged, and everything around it.

use std::borrow::Cow;

use super::Options;
use crate::entry::{Entry, Model, Submitter, System};
use crate::facts::detail::{self, DetailLog};
use crate::facts::json::JsonFile;
use crate::facts::{Facts, Missing};
use crate::layout::DETAIL;
use dyno_rules::{QualityTarget, Round, Scenario};

/// A result in its tree.
#[derive(Clone, Copy)]
pub struct Place<'a, 't> {
    /// The round.
    pub round: &'static Round,
    /// How to check.
    pub options: &'a Options,
    /// Whose it is.
    pub submitter: &'a Submitter<'t>,
    /// Of which system.
    pub system: &'a System<'t>,
    /// What the system's description says.
    pub description: &'a JsonFile,
    /// Of which model.
    pub model: &'a Model<'t>,
    /// Its files.
    pub entry: &'a Entry<'t>,
    /// The scenario of its folder, as the program reads the name.
    pub scenario: Option<Scenario>,
}

impl Place<'_, '_> {
    /// How many performance runs are submitted: five of Server before v1.0.
    pub fn runs(&self) -> u64 {
        let rules = self.scenario.and_then(|scenario| self.round.scenarios.get(&scenario));
        rules.map_or(1, |rules| rules.runs)
    }

    /// Further runs that confirm the first and need not be submitted: those that are.
    pub fn confirming_runs(&self) -> impl Iterator<Item = u64> {
        let rules = self.scenario.and_then(|scenario| self.round.scenarios.get(&scenario));
        let asked = rules.and_then(|rules| rules.confirmation.as_ref()).map_or(0, |of| of.runs);
        (self.runs() + 1..=asked).filter(|number| self.entry.numbered_run(*number).is_some())
    }

    /// What the log of a performance run says; that of the first is among the facts.
    pub fn log_of_run<'f>(
        &self,
        number: u64,
        facts: &'f Facts<'_>,
    ) -> Cow<'f, Result<DetailLog, Missing>> {
        if number == 1 {
            return Cow::Borrowed(&facts.performance);
        }
        let folder = self.entry.numbered_run(number);
        Cow::Owned(detail::read(folder.and_then(|folder| folder.file(DETAIL))))
    }

    /// The targets of its quality.
    pub fn targets(&self) -> Vec<&'static QualityTarget> {
        let all = self.model.benchmark.into_iter().flat_map(|benchmark| &benchmark.accuracy);
        all.filter(|target| target.scenario.is_none() || target.scenario == self.scenario).collect()
    }
}
