//! The batcher's promises, and that both adapters keep them alike.

use std::num::NonZero;
use std::sync::{Arc, Mutex};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_sut::batch::{Batcher, Policy, SimulatedBatcher};
use dyno_sut::model::{Cost, Model, ServiceModel, ServiceTime};
use proptest::prelude::*;

pub fn policy(max_size: usize, max_wait: Nanos) -> Policy {
    Policy { max_size: NonZero::new(max_size).unwrap(), max_wait }
}

/// Batches by time of issue.
pub type Batches = Arc<Mutex<Vec<(Nanos, Vec<u32>)>>>;

/// Notes the batches that reach a model.
pub struct Noted {
    pub model: ServiceModel,
    pub batches: Batches,
}

impl SimulatedSystem for Noted {
    fn name(&self) -> &str {
        "noted"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.batches.lock().unwrap().push((now, query.indices.to_vec()));
        self.model.issue(now, query);
    }
    fn next_event(&self) -> Option<Nanos> {
        self.model.next_event()
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.model.advance(now, completions);
    }
    fn flush(&mut self, now: Nanos) {
        self.model.flush(now);
    }
}

/// Plays one-sample queries with index 0, 1, 2... and returns the batches with
/// their times, and the ids that were completed.
fn play(
    arrivals: &[Nanos],
    policy: Policy,
    workers: usize,
    cost: Cost,
) -> (Vec<(Nanos, Vec<u32>)>, Vec<u64>) {
    let workers = NonZero::new(workers).unwrap();
    let service = ServiceTime::Deterministic(cost);
    let model = ServiceModel::new(Model { servers: workers, ..Model::single(service) }).unwrap();
    let batches = Batches::default();
    let mut system =
        SimulatedBatcher::new(Noted { model, batches: Arc::clone(&batches) }, policy, workers);
    let mut done = Vec::new();
    let drain = |system: &mut SimulatedBatcher<Noted>, until: Nanos, done: &mut Vec<_>| {
        while let Some(at) = system.next_event().filter(|&at| at <= until) {
            system.advance(at, done);
        }
    };
    for (number, &at) in arrivals.iter().enumerate() {
        drain(&mut system, at, &mut done);
        let first = ResponseId::new(3, 1, number as u64);
        system.issue(at, &SimulatedQuery { tenant: 1, first, indices: &[number as u32] });
    }
    system.flush(arrivals.last().copied().unwrap_or(0));
    drain(&mut system, Nanos::MAX, &mut done);
    let batches = std::mem::take(&mut *batches.lock().unwrap());
    (batches, done.iter().map(|c| c.id.0).collect())
}

#[test]
fn a_batch_leaves_when_full_when_due_and_when_the_run_is_over() {
    let policy = policy(3, 100);
    let cost = Cost { base: 10, per_sample: 0 };
    let (batches, _) = play(&[0, 1, 2, 50, 60, 500], policy, 1, cost);
    let expected = [(2, vec![0, 1, 2]), (150, vec![3, 4]), (500, vec![5])];
    assert_eq!(batches, expected);
}

#[test]
fn a_batch_grows_while_the_workers_are_busy() {
    let policy = policy(4, 0);
    let cost = Cost { base: 100, per_sample: 0 };
    let (batches, done) = play(&[0, 10, 20, 30, 40, 50], policy, 1, cost);
    assert_eq!(batches, [(0, vec![0]), (100, vec![1, 2, 3, 4]), (200, vec![5])]);
    let ids: Vec<u64> = (0..6).map(|n| ResponseId::new(3, 1, n).0).collect();
    assert_eq!(done, ids);
}

proptest! {
    #[test]
    fn batches_are_bounded_in_order_and_never_late(
        gaps in prop::collection::vec(0_u64..200, 1..200),
        max_size in 1_usize..9,
        max_wait in 0_u64..500,
    ) {
        let mut now = 0;
        let arrivals: Vec<Nanos> = gaps.iter().map(|gap| { now += gap; now }).collect();
        let policy = policy(max_size, max_wait);
        // As many workers as samples: a ready batch never waits for one.
        let cost = Cost { base: 1_000, per_sample: 1 };
        let (batches, done) = play(&arrivals, policy, arrivals.len(), cost);
        let order: Vec<u32> = batches.iter().flat_map(|(_, batch)| batch.clone()).collect();
        prop_assert_eq!(order, (0..arrivals.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!(done.len(), arrivals.len());
        for (left, batch) in &batches {
            prop_assert!((1..=max_size).contains(&batch.len()));
            let oldest = arrivals[batch[0] as usize];
            prop_assert!(*left <= oldest + max_wait);
            // It left no sooner than it had a reason to.
            let over = *left == now;
            prop_assert!(batch.len() == max_size || *left == oldest + max_wait || over);
        }
    }

    #[test]
    fn the_policy_alone_takes_everything_once(
        sizes in prop::collection::vec(0_usize..20, 1..50),
        max_size in 1_usize..9,
    ) {
        let mut batcher = Batcher::new(policy(max_size, 5));
        let (mut pushed, mut taken, mut batch) = (0, Vec::new(), Vec::new());
        for (now, size) in (0_u64..).zip(&sizes) {
            for _ in 0..*size {
                batcher.push(now, pushed);
                pushed += 1;
            }
            while batcher.is_ready(now) {
                batch.clear();
                batcher.take(now, &mut batch);
                prop_assert!((1..=max_size).contains(&batch.len()));
                taken.append(&mut batch);
            }
            prop_assert!(batcher.len() < max_size);
            prop_assert!(batcher.next_deadline().is_none_or(|at| at > now));
        }
        batcher.flush();
        while batcher.is_ready(0) {
            batcher.take(0, &mut taken);
        }
        prop_assert_eq!(taken, (0..pushed).collect::<Vec<_>>());
    }
}
