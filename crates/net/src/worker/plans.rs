//! Plans in messages: as the settings from which they were resolved, with a hash of the plan.

use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::plan::{Chain, Library, Plan};
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
        "the settings give a different plan than on the coordinator; use the same build and the \
         same files on both"
    )]
    Other,
}

/// Returns every setting in a spelling that can be parsed.
pub fn pairs(settings: &TestSettings) -> Vec<Pair> {
    let pair =
        |f: &dyno_loadgen::settings::Field| Pair { name: f.name.into(), value: (f.get)(settings) };
    FIELDS.iter().map(pair).collect()
}

/// Sessions that a plan plays.
#[derive(Debug, Clone)]
pub struct PlannedSessions {
    /// The sessions.
    pub chains: Arc<[Chain]>,
    /// Time from when a turn was due to when the next turn of its user is, ns; 0 without users at an
    /// interval.
    pub interval: Nanos,
    /// Turns that each task of a session has at most (>= 1).
    pub steps: u32,
}

/// What a plan has besides its settings.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    /// Length of the ramp, ns; 0 without one.
    pub ramp: Nanos,
    /// Sessions; `None` if queries are independent.
    pub sessions: Option<PlannedSessions>,
}

impl Additions {
    fn from_plan(plan: &Plan) -> Self {
        let Plan { turn_interval: interval, steps, .. } = *plan;
        let sessions =
            plan.sessions.clone().map(|chains| PlannedSessions { chains, interval, steps });
        Self { ramp: plan.ramp, sessions }
    }

    /// Returns the plan of settings with these additions.
    fn plan(&self, settings: &TestSettings, library: Library) -> Result<Plan, String> {
        let mut plan = Plan::resolve(settings, library).map_err(|errors| errors.to_string())?;
        if self.ramp > 0 {
            plan = plan.with_ramp(self.ramp)?;
        }
        let Some(PlannedSessions { chains, interval, steps }) = &self.sessions else {
            return Ok(plan);
        };
        let plan = plan.with_sessions(Arc::clone(chains))?.with_tasks(*steps)?;
        if *interval > 0 { plan.with_turn_interval(*interval) } else { Ok(plan) }
    }
}

/// Returns the load of a plan that a search or a repetition has changed; `None` if it is that of
/// the settings.
pub fn load(settings: &TestSettings, library: Library, plan: &Plan) -> Option<f64> {
    let is_same = Additions::from_plan(plan).plan(settings, library).is_ok_and(|of| of == *plan);
    (!is_same).then(|| plan.peak_load())
}

/// Returns a hash that is equal for equal plans of one build.
pub fn hash(plan: &Plan) -> Vec<u8> {
    let text = format!("{plan:?}");
    ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

/// Returns the plan that was sent, with these additions.
///
/// # Errors
/// [`PlanError`].
pub fn plan(
    pairs: &[Pair],
    load: Option<f64>,
    additions: &Additions,
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
    let plan = additions.plan(&settings, library).map_err(PlanError::Unresolved)?;
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
        let none = Additions::default();
        let sent = Plan::resolve(&settings, library).unwrap();
        assert_eq!(load(&settings, library, &sent), None);
        let arrived = |load, additions: &Additions, expected: &Plan| {
            plan(&pairs(&settings), load, additions, library, &hash(expected))
        };
        assert_eq!(arrived(None, &none, &sent), Ok(sent.clone()));
        let faster = sent.at_load(77.7);
        let at = load(&settings, library, &faster);
        assert_eq!(arrived(at, &none, &faster), Ok(faster.clone()));
        let rising = sent.clone().with_ramp(9).unwrap();
        assert_eq!(load(&settings, library, &rising), None);
        let ramp = Additions { ramp: 9, ..Additions::default() };
        assert_eq!(arrived(None, &ramp, &rising), Ok(rising.clone()));
        assert_eq!(arrived(None, &none, &rising), Err(PlanError::Other));
        let faster = rising.at_load(77.7);
        let at = load(&settings, library, &faster);
        assert_eq!(arrived(at, &ramp, &faster), Ok(faster.clone()));
        let smaller = Library { total: 9, performance: 5 };
        let other = plan(&pairs(&settings), None, &none, smaller, &hash(&sent));
        assert_eq!(other, Err(PlanError::Other));
        let unknown = [Pair { name: "server_target_qqs".into(), value: "1".into() }];
        assert!(plan(&unknown, None, &none, library, &hash(&sent)).is_err());
    }

    #[test]
    fn sessions_of_a_plan_are_those_of_the_worker() {
        let settings = TestSettings {
            scenario: Scenario::Server,
            server_arrivals: Arrivals::Concurrency(2),
            ..TestSettings::default()
        };
        let library = Library { total: 10, performance: 10 };
        let chains = |thinks: [Nanos; 3]| -> Arc<[Chain]> {
            [0, 3].map(|first| Chain { first, thinks: thinks.into() }).into()
        };
        let (own, other) = (chains([0, 5, 5]), chains([0, 5, 6]));
        let plain = Plan::resolve(&settings, library).unwrap();
        let sent = plain.with_sessions(own.clone()).unwrap().with_turn_interval(70).unwrap();
        assert_eq!(load(&settings, library, &sent), None);
        let arrived = |chains: &Arc<[Chain]>, interval, steps, sent: &Plan| {
            let sessions = Some(PlannedSessions { chains: chains.clone(), interval, steps });
            let additions = Additions { ramp: 0, sessions };
            plan(&pairs(&settings), None, &additions, library, &hash(sent))
        };
        assert_eq!(arrived(&own, 70, 1, &sent), Ok(sent.clone()));
        assert_eq!(arrived(&own, 0, 1, &sent), Err(PlanError::Other));
        assert_eq!(arrived(&other, 70, 1, &sent), Err(PlanError::Other));
        let plain = Plan::resolve(&settings, library).unwrap();
        let tasks = plain.with_sessions(own.clone()).unwrap().with_tasks(3).unwrap();
        assert_eq!(load(&settings, library, &tasks), None);
        assert_eq!(arrived(&own, 0, 3, &tasks), Ok(tasks.clone()));
        assert_eq!(arrived(&own, 0, 1, &tasks), Err(PlanError::Other));
    }
}
