//! States of sequences between their requests, in memory.
//!
//! Requests of one sequence are computed one after the other, in the order of their arrival: at most
//! one is in the queue of the model, and the others wait in the [lane](Lane) of the sequence.
//! Requests of different sequences share batches. A request that was accepted is computed even if its
//! client no longer waits, because later requests depend on it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_sut::infer::SequenceState;

use super::refusal::{Refusal, RefusalKind};
use crate::oip::{SequenceId, SequenceStep};

/// Limits of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Maximum number of sequences in progress; requests that start further ones are rejected.
    pub most: usize,
    /// How long a sequence may be without requests. Its states are dropped afterwards.
    pub idle: Duration,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self { most: 4_096, idle: Duration::from_secs(60) }
    }
}

/// Sequences in progress. `J` is a request.
#[derive(Debug)]
pub(super) struct Sequences<J> {
    clock: Clock,
    store: Mutex<Store<J>>,
}

#[derive(Debug)]
struct Store<J> {
    limits: SequenceLimits,
    lanes: HashMap<SequenceId, Lane<J>>,
    /// Sequences without requests, by the time of their last answer.
    idle: BTreeSet<(Nanos, SequenceId)>,
    /// Requests in all lanes.
    waiting: usize,
}

/// One sequence.
#[derive(Debug)]
struct Lane<J> {
    /// States after the last request; `None` before the first one and after the last one.
    states: Option<SequenceState>,
    /// Requests behind the one in the queue of the model.
    waiting: VecDeque<J>,
    /// Since when it has no request; `None` if one is in the queue of the model.
    idle_since: Option<Nanos>,
}

/// What becomes of a request that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<J> {
    /// It goes to the queue of the model.
    Next(J),
    /// It waits for others of its sequence.
    Waits,
}

impl<J> Sequences<J> {
    pub fn new(limits: SequenceLimits) -> Self {
        let store = Store { limits, lanes: HashMap::new(), idle: BTreeSet::new(), waiting: 0 };
        Self { clock: Clock::start(), store: Mutex::new(store) }
    }

    /// Every change of the store is complete before its lock is released, and nothing in between
    /// panics, so a poisoned lock is harmless.
    fn lock(&self) -> MutexGuard<'_, Store<J>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of sequences in progress, without those that have expired.
    pub fn count(&self) -> usize {
        let mut store = self.lock();
        store.expire(self.clock.now());
        store.lanes.len()
    }

    /// Returns the maximum number of sequences in progress.
    pub fn most(&self) -> usize {
        self.lock().limits.most
    }

    /// Returns the number of requests that wait for others of their sequences.
    pub fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// Accepts a request. `queued` is the number of requests in the queue of the model, of which at
    /// most `most` may wait in all.
    ///
    /// # Errors
    /// The sequence is not in progress, or there are too many sequences or requests.
    pub fn arrive(
        &self,
        step: &SequenceStep,
        job: J,
        queued: usize,
        most: usize,
    ) -> Result<Arrival<J>, Refusal> {
        self.lock().arrive(step, job, queued, most, self.clock.now())
    }

    /// Returns the states from which the next request of a sequence starts; `None` if it is the
    /// first one.
    ///
    /// # Errors
    /// The sequence is not in progress, because requests before this one have failed or ended it.
    pub fn begin(&self, step: &SequenceStep) -> Result<Option<SequenceState>, Refusal> {
        let mut store = self.lock();
        let idle = store.limits.idle;
        let lane = store.lanes.get_mut(&step.id);
        let states = lane.and_then(|lane| lane.states.take());
        match (step.is_start, states) {
            (true, _) => Ok(None),
            (false, Some(states)) => Ok(Some(states)),
            (false, None) => Err(unknown(&step.id, idle)),
        }
    }

    /// Notes that a request of a sequence was computed, with the states after it; `None` if there
    /// are none. Returns the next request of the sequence, which goes to the queue of the model.
    pub fn finish(&self, step: &SequenceStep, states: Option<SequenceState>) -> Option<J> {
        let now = self.clock.now();
        let mut store = self.lock();
        let store = &mut *store;
        let lane = store.lanes.get_mut(&step.id)?;
        lane.states = states.filter(|_| !step.is_end);
        let next = lane.waiting.pop_front();
        match &next {
            Some(_) => store.waiting -= 1,
            None if lane.states.is_none() => _ = store.lanes.remove(&step.id),
            None => {
                lane.idle_since = Some(now);
                store.idle.insert((now, step.id.clone()));
            }
        }
        next
    }
}

impl<J> Store<J> {
    /// Drops sequences that have been idle for too long.
    fn expire(&mut self, now: Nanos) {
        let limit = Nanos::try_from(self.limits.idle.as_nanos()).unwrap_or(Nanos::MAX);
        while let Some((since, _)) = self.idle.first()
            && since.saturating_add(limit) <= now
            && let Some((_, id)) = self.idle.pop_first()
        {
            self.lanes.remove(&id);
        }
    }

    fn arrive(
        &mut self,
        step: &SequenceStep,
        job: J,
        queued: usize,
        most: usize,
        now: Nanos,
    ) -> Result<Arrival<J>, Refusal> {
        self.expire(now);
        let id = &step.id;
        let full = queued + self.waiting >= most;
        let lanes = self.lanes.len();
        match self.lanes.get_mut(id) {
            None if !step.is_start => Err(unknown(id, self.limits.idle)),
            _ if full => Err(RefusalKind::Full
                .because(format!("the queue is full for sequence {id}: {most} requests wait"))),
            None if lanes >= self.limits.most => Err(RefusalKind::Full.because(format!(
                "sequence {id} cannot start: {lanes} sequences are in progress, the maximum; end \
                 one with 'sequence_end'"
            ))),
            None => {
                let lane = Lane { states: None, waiting: VecDeque::new(), idle_since: None };
                self.lanes.insert(id.clone(), lane);
                Ok(Arrival::Next(job))
            }
            Some(lane) => match lane.idle_since.take() {
                Some(since) => {
                    self.idle.remove(&(since, id.clone()));
                    Ok(Arrival::Next(job))
                }
                None => {
                    lane.waiting.push_back(job);
                    self.waiting += 1;
                    Ok(Arrival::Waits)
                }
            },
        }
    }
}

fn unknown(id: &SequenceId, idle: Duration) -> Refusal {
    RefusalKind::Invalid.because(format!(
        "sequence {id} is not in progress: it was not started, has ended or failed, or had no \
         request for {idle:?}; send 'sequence_start' with its first request"
    ))
}

#[cfg(test)]
mod tests {
    use dyno_sut::infer::Value;
    use dyno_sut::tensors::Elements;

    use super::*;

    fn step(id: u64, marks: &str) -> SequenceStep {
        SequenceStep {
            id: SequenceId::Number(id),
            is_start: marks.contains('s'),
            is_end: marks.contains('e'),
        }
    }

    fn states(number: f32) -> Option<SequenceState> {
        Some(vec![Value { shape: vec![1], elements: Elements::F32(vec![number].into()) }])
    }

    fn sequences(most: usize, idle: Duration) -> Sequences<u32> {
        Sequences::new(SequenceLimits { most, idle })
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn requests_of_one_sequence_follow_each_other_and_others_do_not_wait() {
        let all = sequences(9, LONG);
        assert_eq!(all.arrive(&step(1, "s"), 10, 0, 9), Ok(Arrival::Next(10)));
        assert_eq!(all.arrive(&step(1, ""), 11, 0, 9), Ok(Arrival::Waits));
        assert_eq!(all.arrive(&step(1, "e"), 12, 0, 9), Ok(Arrival::Waits));
        assert_eq!(all.arrive(&step(2, "s"), 20, 0, 9), Ok(Arrival::Next(20)));
        assert_eq!(all.begin(&step(1, "s")), Ok(None));
        assert_eq!(all.finish(&step(1, "s"), states(1.0)), Some(11));
        assert_eq!(all.begin(&step(1, "")), Ok(states(1.0)));
        assert_eq!(all.finish(&step(1, ""), states(2.0)), Some(12));
        assert_eq!(all.begin(&step(1, "e")), Ok(states(2.0)));
        assert_eq!((all.finish(&step(1, "e"), states(3.0)), all.count()), (None, 1));
    }

    #[test]
    fn a_start_forgets_the_states_and_an_end_frees_the_place() {
        let all = sequences(1, LONG);
        assert_eq!(all.arrive(&step(1, "s"), 0, 0, 9), Ok(Arrival::Next(0)));
        assert_eq!(all.finish(&step(1, "s"), states(1.0)), None);
        let full = all.arrive(&step(2, "s"), 0, 0, 9).unwrap_err();
        assert_eq!(full.why, RefusalKind::Full);
        assert!(full.words.contains("sequence 2 cannot start: 1 sequences"), "{}", full.words);
        assert_eq!(all.arrive(&step(1, "s"), 1, 0, 9), Ok(Arrival::Next(1)));
        assert_eq!(all.begin(&step(1, "s")), Ok(None));
        assert_eq!(all.finish(&step(1, "se"), states(1.0)), None);
        assert_eq!(all.arrive(&step(2, "s"), 0, 0, 9), Ok(Arrival::Next(0)));
    }

    #[test]
    fn a_sequence_without_a_start_is_unknown_also_behind_an_end_or_a_failure() {
        let all = sequences(9, LONG);
        let unknown = all.arrive(&step(7, "e"), 0, 0, 9).unwrap_err();
        assert_eq!(unknown.why, RefusalKind::Invalid);
        assert!(unknown.words.contains("sequence 7 is not in progress"), "{}", unknown.words);
        for (marks, after) in [("se", states(1.0)), ("s", None)] {
            assert_eq!(all.arrive(&step(1, marks), 0, 0, 9), Ok(Arrival::Next(0)));
            assert_eq!(all.arrive(&step(1, ""), 1, 0, 9), Ok(Arrival::Waits));
            assert_eq!(all.arrive(&step(1, "s"), 2, 0, 9), Ok(Arrival::Waits));
            assert_eq!(all.finish(&step(1, marks), after), Some(1));
            assert!(all.begin(&step(1, "")).is_err());
            assert_eq!(all.finish(&step(1, ""), None), Some(2));
            assert_eq!(all.begin(&step(1, "s")), Ok(None));
            assert_eq!((all.finish(&step(1, "s"), None), all.count()), (None, 0));
        }
    }

    #[test]
    fn idle_sequences_expire_and_busy_ones_do_not() {
        let all = sequences(2, Duration::ZERO);
        assert_eq!(all.arrive(&step(1, "s"), 0, 0, 9), Ok(Arrival::Next(0)));
        assert_eq!(all.count(), 1, "its request is not answered");
        assert_eq!(all.finish(&step(1, "s"), states(1.0)), None);
        assert_eq!((all.count(), all.lock().idle.len()), (0, 0));
        assert!(all.arrive(&step(1, ""), 0, 0, 9).is_err());
    }

    #[test]
    fn requests_in_lanes_count_as_waiting() {
        let all = sequences(9, LONG);
        assert_eq!(all.arrive(&step(1, "s"), 0, 0, 2), Ok(Arrival::Next(0)));
        assert_eq!(all.arrive(&step(1, ""), 1, 1, 2), Ok(Arrival::Waits));
        let full = all.arrive(&step(1, ""), 2, 1, 2).unwrap_err();
        assert_eq!((full.why, all.waiting()), (RefusalKind::Full, 1));
    }
}
