//! Plans in messages: as the settings from which they were resolved, with a hash of the plan.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::settings::{FIELDS, TestSettings};

use super::wire::Pair;

/// Reason why a worker cannot execute a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The setting is unknown, or its value is invalid.
    #[error("the setting {name}: {expected}")]
    Setting {
        /// Its name.
        name: String,
        /// Expected value.
        expected: String,
    },
    /// The settings are invalid for the worker's library.
    #[error("the settings are invalid on this worker: {0}")]
    Unresolved(String),
    /// The settings resolve to another plan on this worker.
    #[error(
        "the settings give a different plan than on the coordinator; use the same build on both"
    )]
    Other,
}

/// Returns every setting in a spelling that can be parsed.
#[must_use]
pub fn pairs(settings: &TestSettings) -> Vec<Pair> {
    let pair =
        |f: &dyno_loadgen::settings::Field| Pair { name: f.name.into(), value: (f.get)(settings) };
    FIELDS.iter().map(pair).collect()
}

/// Returns the plan of settings with a ramp of this length, ns; 0 without one.
fn resolved(settings: &TestSettings, ramp: Nanos, library: Library) -> Result<Plan, String> {
    let plan = Plan::resolve(settings, library).map_err(|errors| errors.to_string())?;
    if ramp > 0 { plan.with_ramp(ramp) } else { Ok(plan) }
}

/// Returns the load of a plan that a search or a repetition has changed; `None` if it is that of
/// the settings.
#[must_use]
pub fn load(settings: &TestSettings, library: Library, plan: &Plan) -> Option<f64> {
    let is_same = resolved(settings, plan.ramp, library).is_ok_and(|of| of == *plan);
    (!is_same).then(|| plan.peak_load())
}

/// Returns a hash that is equal for equal plans of one build.
#[must_use]
pub fn hash(plan: &Plan) -> Vec<u8> {
    let text = format!("{plan:?}");
    ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

/// Returns the plan that was sent, with a ramp of this length, ns.
///
/// # Errors
/// [`PlanError`].
pub fn plan(
    pairs: &[Pair],
    (load, ramp): (Option<f64>, Nanos),
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
    let plan = resolved(&settings, ramp, library).map_err(PlanError::Unresolved)?;
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
        assert_eq!(plan(&pairs(&settings), (None, 0), library, &hash(&sent)), Ok(sent.clone()));
        let faster = sent.at_load(77.7);
        let at = load(&settings, library, &faster);
        assert_eq!(plan(&pairs(&settings), (at, 0), library, &hash(&faster)), Ok(faster));
        let rising = sent.clone().with_ramp(9).unwrap();
        assert_eq!(load(&settings, library, &rising), None);
        let arrived = |ramp| plan(&pairs(&settings), (None, ramp), library, &hash(&rising));
        assert_eq!((arrived(9), arrived(0)), (Ok(rising.clone()), Err(PlanError::Other)));
        let faster = rising.at_load(77.7);
        let at = load(&settings, library, &faster);
        assert_eq!(plan(&pairs(&settings), (at, 9), library, &hash(&faster)), Ok(faster));
        let smaller = Library { total: 9, performance: 5 };
        let other = plan(&pairs(&settings), (None, 0), smaller, &hash(&sent));
        assert_eq!(other, Err(PlanError::Other));
        let unknown = [Pair { name: "server_target_qqs".into(), value: "1".into() }];
        assert!(plan(&unknown, (None, 0), library, &hash(&sent)).is_err());
    }
}
