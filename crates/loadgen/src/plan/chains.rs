//! Sessions: queries that follow each other, such as the turns of a conversation.

use std::sync::Arc;

use super::{Load, Plan};
use crate::clock::Nanos;
use crate::qsl::SampleIndex;
use crate::settings::{Arrivals, EarlyStopping, Scenario};

/// The turns of one session. Each is a query of one sample, and each but the first is due when the
/// turn before it is complete and its think time has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Sample of the first turn; those of the other turns follow it.
    pub first: SampleIndex,
    /// Per turn (>= 1): the think time before it, ns. That of the first turn is not used.
    pub thinks: Box<[Nanos]>,
}

impl Plan {
    /// Returns the plan of a run that plays sessions instead of independent queries. As many are in
    /// progress as the plan has queries in flight, or they begin at its arrival times. They are
    /// played in order, and again from the first one until the run ends; with
    /// [`Unique`](super::SampleChoice::Unique) samples each is played once.
    ///
    /// # Errors
    /// A load that cannot play these sessions, and a remedy.
    pub fn with_sessions(mut self, chains: Arc<[Chain]>) -> Result<Self, String> {
        if chains.is_empty() || chains.iter().any(|chain| chain.thinks.is_empty()) {
            return Err("expected at least one session, each with at least one turn".into());
        }
        let Load::Server(server) = &mut self.load else {
            let scenario = self.scenario();
            return Err(format!(
                "expected scenario {} for sessions, found {scenario}; use --scenario server",
                Scenario::Server
            ));
        };
        match server.arrivals {
            Arrivals::Concurrency(wanted) if wanted as usize > chains.len() => {
                let sessions = chains.len();
                return Err(format!(
                    "expected at least {wanted} sessions to keep {wanted} in progress, found \
                     {sessions}; a session is never in progress twice: lower --max-concurrency to \
                     {sessions}, or give more sessions"
                ));
            }
            _ => {}
        }
        // Several threads would need to see each other's completions.
        (server.issue_threads, server.coalesce) = (0, false);
        if self.early_stopping.policy == EarlyStopping::Extend {
            self.early_stopping.policy = EarlyStopping::AfterRun;
        }
        self.sessions = Some(chains);
        Ok(self)
    }

    /// Returns the plan of a run whose sessions consist of tasks of up to `steps` turns (>= 1). An
    /// answer that asks for a further turn continues its task. Any other answer ends it, and the next
    /// turn is the first one of the next task. If the last permitted answer of a task asks for a further
    /// turn, the session ends.
    ///
    /// # Errors
    /// Sessions that do not consist of such tasks.
    pub fn with_tasks(mut self, steps: u32) -> Result<Self, String> {
        let has_whole = |chain: &Chain| (chain.thinks.len() as u64).is_multiple_of(steps.into());
        let has_tasks = self.sessions.as_ref().is_some_and(|chains| chains.iter().all(has_whole));
        if !has_tasks {
            return Err(format!("expected sessions of tasks with {steps} turns each"));
        }
        self.steps = steps;
        Ok(self)
    }

    /// Returns the plan of a run whose users send a request each `interval` ns: a turn is due that
    /// long after the turn before it was due, even if the answer comes later. As many users are
    /// active as the plan has queries in flight.
    ///
    /// # Errors
    /// A load without users.
    pub fn with_turn_interval(mut self, interval: Nanos) -> Result<Self, String> {
        let users = matches!(&self.load, Load::Server(server)
            if matches!(server.arrivals, Arrivals::Concurrency(_)));
        if self.sessions.is_none() || !users {
            return Err(
                "expected sessions and a number of users for requests at an interval; use \
                        sessions=live or sequences=N, and --max-concurrency N without a rate"
                    .into(),
            );
        }
        self.turn_interval = interval;
        Ok(self)
    }
}
