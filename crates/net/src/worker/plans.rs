//! Plans on their way to a worker: as the settings that they were resolved from,
//! with a hash of what they come to.

use std::fmt;

use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::settings::{FIELDS, TestSettings};

use super::wire::Pair;

/// Why a worker cannot play a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no such setting, or its value does not read.
    Setting {
        /// Its name.
        name: String,
        /// What was expected.
        expected: String,
    },
    /// The settings make no sense for the worker's library.
    Unresolved(String),
    /// They come to another plan here.
    Other,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, expected } => write!(f, "the setting {name}: {expected}"),
            Self::Unresolved(why) => write!(f, "the settings make no sense here: {why}"),
            Self::Other => f.write_str(
                "the settings come to another plan here than at the coordinator; are both of the \
                 same build?",
            ),
        }
    }
}

impl std::error::Error for PlanError {}

/// Every setting in the spelling that reads back.
#[must_use]
pub fn pairs(settings: &TestSettings) -> Vec<Pair> {
    let pair =
        |f: &dyno_loadgen::settings::Field| Pair { name: f.name.into(), value: (f.get)(settings) };
    FIELDS.iter().map(pair).collect()
}

/// The load of a plan that a search or a repetition has changed; `None` if it is
/// that of the settings.
#[must_use]
pub fn load(settings: &TestSettings, library: Library, plan: &Plan) -> Option<f64> {
    let is_same = Plan::resolve(settings, library).is_ok_and(|of| of == *plan);
    (!is_same).then(|| plan.peak_load())
}

/// Equal for equal plans of one build.
#[must_use]
pub fn hash(plan: &Plan) -> Vec<u8> {
    let text = format!("{plan:?}");
    ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

/// The plan that was sent.
///
/// # Errors
/// [`PlanError`].
pub fn plan(
    pairs: &[Pair],
    load: Option<f64>,
    library: Library,
    expected: &[u8],
) -> Result<Plan, PlanError> {
    let mut settings = TestSettings::default();
    for Pair { name, value } in pairs {
        let unknown = || PlanError::Setting { name: name.clone(), expected: "is unknown".into() };
        let field = FIELDS.iter().find(|field| field.name == name).ok_or_else(unknown)?;
        (field.set)(&mut settings, value)
            .map_err(|expected| PlanError::Setting { name: name.clone(), expected })?;
    }
    let plan = Plan::resolve(&settings, library)
        .map_err(|errors| PlanError::Unresolved(errors.to_string()))?;
    let plan = match load {
        Some(load) => plan.at_load(load),
        None => plan,
    };
    if hash(&plan) == expected { Ok(plan) } else { Err(PlanError::Other) }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::settings::{Arrivals, Scenario};

    use super::*;

    #[test]
    fn a_plan_arrives_as_it_was_or_not_at_all() {
        let settings = TestSettings {
            scenario: Scenario::Server,
            server_target_qps: 1.0 / 3.0,
            server_arrivals: Arrivals::Gamma(0.1 + 0.2),
            ..TestSettings::default()
        };
        let library = Library { total: 10, performance: 5 };
        let sent = Plan::resolve(&settings, library).unwrap();
        assert_eq!(load(&settings, library, &sent), None);
        assert_eq!(plan(&pairs(&settings), None, library, &hash(&sent)), Ok(sent.clone()));
        let faster = sent.at_load(77.7);
        let at = load(&settings, library, &faster);
        assert_eq!(plan(&pairs(&settings), at, library, &hash(&faster)), Ok(faster));
        let smaller = Library { total: 9, performance: 5 };
        let other = plan(&pairs(&settings), None, smaller, &hash(&sent));
        assert_eq!(other, Err(PlanError::Other));
        let unknown = [Pair { name: "server_target_qqs".into(), value: "1".into() }];
        assert!(plan(&unknown, None, library, &hash(&sent)).is_err());
    }
}
