//! A simulated system with faults, which writes down what it was asked and what it answered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use super::case::{Case, Fault};
use super::law::Source;
use crate::rng::Stream;

/// A call to the system.
#[derive(Debug, Clone)]
pub struct Call {
    /// When it came, ns since the start of the test.
    pub at: Nanos,
    /// Id of its first sample; the others follow.
    pub first: ResponseId,
    /// Positions of its samples in the library.
    pub indices: Vec<SampleIndex>,
}

/// A completion by the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    /// When it is sent, ns since the start of the test.
    pub at: Nanos,
    /// Position among all answers, so that equal times keep their order.
    order: u64,
    /// Id that it names.
    pub id: ResponseId,
    /// Whether it reports a failure.
    pub failed: bool,
}

/// What happened in the last run of a test.
#[derive(Debug, Default)]
pub struct GroundTruth {
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// The answers that were sent, in order.
    pub sent: Vec<Answer>,
    /// Faults injected in all runs of the test, by [`Fault`].
    pub injected: [u64; Fault::ALL.len()],
}

/// A data set that counts how often it was loaded, which marks the start of a run.
#[derive(Debug)]
pub struct CountingLibrary {
    /// Samples in total.
    pub total: usize,
    /// Size of the performance set.
    pub performance: usize,
    /// Number of loads so far.
    pub loads: AtomicU32,
}

impl SampleLibrary for CountingLibrary {
    fn name(&self) -> &str {
        "counting"
    }
    fn total_sample_count(&self) -> usize {
        self.total
    }
    fn performance_sample_count(&self) -> usize {
        self.performance
    }
    fn load(&self, _samples: &[SampleIndex]) {
        self.loads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Random numbers of one fault.
struct Chance {
    rate: f64,
    draw: Stream,
}

impl Chance {
    fn happens(&mut self) -> bool {
        self.rate > 0.0 && self.draw.chance(self.rate)
    }
}

/// The simulated system.
pub struct FaultySystem<'a> {
    case: &'a Case,
    library: &'a CountingLibrary,
    source: Source,
    chances: [Chance; Fault::ALL.len()],
    /// When each server is free; empty without a limit.
    free_at: Vec<Nanos>,
    pending: BinaryHeap<Reverse<Answer>>,
    order: u64,
    crashed: bool,
    stalled_until: Nanos,
    loads: u32,
    truth: GroundTruth,
}

impl<'a> FaultySystem<'a> {
    /// Returns the system of a case.
    pub fn new(case: &'a Case, library: &'a CountingLibrary) -> Self {
        let chance = |fault| Chance { rate: case.rate(fault), draw: case.stream(fault) };
        Self {
            case,
            library,
            source: Source::new(case.service, Stream::new(case.seed, case.index, 2)),
            chances: Fault::ALL.map(chance),
            free_at: vec![0; case.servers],
            pending: BinaryHeap::new(),
            order: 0,
            crashed: false,
            stalled_until: 0,
            loads: 0,
            truth: GroundTruth::default(),
        }
    }

    /// Returns what happened in the last run, and the answers that were not sent before the end.
    #[must_use]
    pub fn into_truth(mut self) -> (GroundTruth, Vec<Answer>) {
        self.begin_run();
        let unsent = self.pending.into_sorted_vec().into_iter().rev().map(|Reverse(answer)| answer);
        (self.truth, unsent.collect())
    }

    /// Forgets an earlier run when the samples of a new one were loaded. Its late answers stay.
    fn begin_run(&mut self) {
        let loads = self.library.loads.load(Ordering::Relaxed);
        if loads != self.loads {
            self.loads = loads;
            self.truth.calls.clear();
            self.truth.sent.clear();
        }
    }

    fn happens(&mut self, fault: Fault) -> bool {
        let happens = self.chances[fault as usize].happens();
        self.truth.injected[fault as usize] += u64::from(happens);
        happens
    }

    fn draw(&mut self, fault: Fault) -> &mut Stream {
        &mut self.chances[fault as usize].draw
    }

    /// Returns a random delay of about `means` mean service times.
    fn delay(&mut self, fault: Fault, means: f64) -> Nanos {
        let mean = self.case.service.mean_ns;
        (self.draw(fault).unit() * means * mean) as Nanos
    }

    fn send(&mut self, at: Nanos, id: ResponseId, failed: bool) {
        self.order += 1;
        let at = if at < self.stalled_until { self.stalled_until } else { at };
        self.pending.push(Reverse(Answer { at, order: self.order, id, failed }));
    }

    /// Returns when a sample that comes now is finished.
    fn serve(&mut self, now: Nanos) -> Nanos {
        let takes = self.source.next_ns();
        match self.free_at.iter_mut().min() {
            Some(free) => {
                *free = (*free).max(now) + takes;
                *free
            }
            None => now + takes,
        }
    }

    fn take_sample(&mut self, now: Nanos, id: ResponseId) {
        let mut done = self.serve(now);
        if self.happens(Fault::Late) {
            done += (1_000.0 * self.case.service.mean_ns) as Nanos;
        }
        if self.happens(Fault::Reordered) {
            done += self.delay(Fault::Reordered, 20.0);
        }
        if self.happens(Fault::Unknown) {
            let id = self.foreign_id(id);
            self.send(done, id, false);
        }
        let failed = self.happens(Fault::Failed);
        if self.happens(Fault::Lost) {
            return;
        }
        self.send(done, id, failed);
        if self.happens(Fault::Duplicate) {
            let means = self.draw(Fault::Duplicate).pick(&[0.0, 1.0, 30.0]);
            let at = done + self.delay(Fault::Duplicate, means);
            let as_failure = self.draw(Fault::Duplicate).chance(0.3);
            self.send(at, id, as_failure);
        }
        if self.happens(Fault::AfterEnd) {
            let at = done + self.delay(Fault::AfterEnd, 100_000.0);
            self.send(at, id, false);
        }
    }

    /// Returns an id that no run issues: of another run, of another tenant, too high, or reserved.
    fn foreign_id(&mut self, id: ResponseId) -> ResponseId {
        let draw = self.draw(Fault::Unknown);
        let bits = draw.bits();
        match draw.below(5) {
            // Sequence numbers take 36 bits, tenants 8 and epochs 16 (`loadgen::sut`).
            0 => ResponseId(id.0 ^ (1 << (44 + bits % 16))),
            1 => ResponseId(id.0 | 1 << (36 + bits % 8)),
            2 => ResponseId(id.0 | 1 << 35),
            3 => ResponseId(0),
            _ => ResponseId(bits | 1 << 63),
        }
    }

    /// Stalls or crashes with the probability of the case.
    fn break_down(&mut self, now: Nanos) {
        if self.chances[Fault::Stall as usize].draw.chance(0.2) && self.happens(Fault::Stall) {
            let until = now + self.delay(Fault::Stall, 200.0);
            self.stalled_until = self.stalled_until.max(until);
            let waiting = std::mem::take(&mut self.pending);
            for Reverse(answer) in waiting.into_sorted_vec().into_iter().rev() {
                self.send(answer.at, answer.id, answer.failed);
            }
        }
        let is_struck = self.chances[Fault::Crash as usize].draw.chance(0.05);
        if !self.crashed && is_struck && self.happens(Fault::Crash) {
            self.crashed = true;
            self.pending.clear();
        }
    }
}

impl SimulatedSystem for FaultySystem<'_> {
    fn name(&self) -> &str {
        "faulty"
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.begin_run();
        let indices = query.indices.to_vec();
        self.truth.calls.push(Call { at: now, first: query.first, indices });
        self.break_down(now);
        for sample in 0..query.indices.len() as u64 {
            if !self.crashed {
                self.take_sample(now, ResponseId(query.first.0 + sample));
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.pending.peek().map(|Reverse(answer)| answer.at)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.begin_run();
        while let Some(&Reverse(answer)) = self.pending.peek().filter(|next| next.0.at <= now) {
            self.pending.pop();
            self.truth.sent.push(Answer { at: now, ..answer });
            let outcome = if answer.failed {
                Outcome::Failed(Failure::Internal)
            } else {
                Outcome::Ok { tokens: 0 }
            };
            completions.push(SimulatedCompletion { id: answer.id, first_token_at: None, outcome });
        }
    }
}
