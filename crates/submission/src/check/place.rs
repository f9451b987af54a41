//! Place of a result that is judged: its round, submitter, system and model.

use std::borrow::Cow;

use super::Options;
use crate::entry::{Entry, Model, Submitter, System};
use crate::facts::detail::{self, DetailLog};
use crate::facts::json::JsonFile;
use crate::facts::{Facts, ReadError};
use crate::layout::DETAIL;
use dyno_rules::{QualityTarget, Round, RuleScenario};

/// A result in its tree.
#[derive(Clone, Copy)]
pub struct Place<'a, 't> {
    /// The round.
    pub round: &'static Round,
    /// Options of the check.
    pub options: &'a Options,
    /// Submitter.
    pub submitter: &'a Submitter<'t>,
    /// System.
    pub system: &'a System<'t>,
    /// Description of the system.
    pub description: &'a JsonFile,
    /// Model.
    pub model: &'a Model<'t>,
    /// Files of the result.
    pub entry: &'a Entry<'t>,
    /// Scenario of the folder, as the program parses the name.
    pub scenario: Option<RuleScenario>,
}

impl Place<'_, '_> {
    /// Returns the number of required performance runs: five in Server before v1.0, otherwise
    /// one.
    pub fn runs(&self) -> u64 {
        let rules = self.scenario.and_then(|scenario| self.round.scenarios.get(&scenario));
        rules.map_or(1, |rules| rules.runs)
    }

    /// Returns the numbers of optional runs that confirm the first one and were submitted.
    pub fn confirming_runs(&self) -> impl Iterator<Item = u64> {
        let rules = self.scenario.and_then(|scenario| self.round.scenarios.get(&scenario));
        let required = rules
            .and_then(|rules| rules.confirmation.as_ref())
            .map_or(0, |confirmation| confirmation.runs);
        (self.runs() + 1..=required).filter(|number| self.entry.numbered_run(*number).is_some())
    }

    /// Returns the detail log of a performance run. The log of the first run is in `facts`.
    pub fn log_of_run<'f>(
        &self,
        number: u64,
        facts: &'f Facts<'_>,
    ) -> Cow<'f, Result<DetailLog, ReadError>> {
        if number == 1 {
            return Cow::Borrowed(&facts.performance);
        }
        let folder = self.entry.numbered_run(number);
        Cow::Owned(detail::read(folder.and_then(|folder| folder.file(DETAIL))))
    }

    /// Returns the quality targets of the result.
    pub fn targets(&self) -> Vec<&'static QualityTarget> {
        let all = self.model.benchmark.into_iter().flat_map(|benchmark| &benchmark.accuracy);
        all.filter(|target| target.scenario.is_none() || target.scenario == self.scenario).collect()
    }
}
