//! Place of a result that is judged: its round, submitter, system and model.

use std::borrow::Cow;

use super::{Options, Program};
use crate::entry::{Entry, Model, Submitter, System};
use crate::facts::detail::{self, DetailLog};
use crate::facts::json::JsonFile;
use crate::facts::{Facts, ReadError};
use crate::layout::DETAIL;
use dyno_rules::{Behavior, OneFileChecker, QualityTarget, Round, RuleScenario};

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

    /// Whether the program, or the checker of the round by the rules, reads the texts of audits but
    /// does not judge their runs.
    pub fn reads_audits_as_texts(&self) -> bool {
        self.does(Behavior::AuditTexts)
    }

    /// Returns the names of the audits that the result needs.
    pub fn audits(&self) -> Vec<&'static str> {
        let is_streams = self.scenario == Some(RuleScenario::MultiStream);
        let is_exempt = is_streams && self.does(Behavior::StreamsWithoutTest04);
        let all = self.model.benchmark.into_iter().flat_map(|benchmark| &benchmark.audits);
        let names = all.map(String::as_str);
        names.filter(|name| !(is_exempt && name.starts_with("TEST04"))).collect()
    }

    /// Whether the program, or the checker of the round by the rules, has a behavior.
    pub fn does(&self, behavior: Behavior) -> bool {
        let tag = match self.options.program {
            Program::Strict => Some(OneFileChecker::new(self.round.version)),
            program => program.one_file(),
        };
        tag.is_some_and(|tag| tag.does(behavior))
    }

    /// Returns the quality targets of the result.
    pub fn targets(&self) -> Vec<&'static QualityTarget> {
        let all = self.model.benchmark.into_iter().flat_map(|benchmark| &benchmark.accuracy);
        all.filter(|target| target.scenario.is_none() || target.scenario == self.scenario).collect()
    }
}
