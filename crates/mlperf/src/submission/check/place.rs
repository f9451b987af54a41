//! Which result is judged, and everything around it.

use super::Options;
use crate::round::{QualityTarget, Round, Scenario};
use crate::submission::entry::{Entry, Model, Submitter, System};
use crate::submission::facts::json::JsonFile;

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
    /// The targets of its quality.
    pub fn targets(&self) -> Vec<&'static QualityTarget> {
        let all = self.model.benchmark.into_iter().flat_map(|benchmark| &benchmark.accuracy);
        all.filter(|target| target.scenario.is_none() || target.scenario == self.scenario).collect()
    }
}
