//! Threads that complete samples, with faults.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{Response, ResponseId};

use super::{Case, Fault, SentCompletion};
use crate::rng::Stream;

type Job = (ResponseId, Nanos, Responder);

/// The threads of a run.
pub struct Pool {
    senders: Vec<Sender<Job>>,
    threads: Vec<JoinHandle<Worker>>,
    duplicates: f64,
}

impl Pool {
    /// Starts the threads of a case.
    pub fn start(case: &Case) -> Self {
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for number in 1..=case.threads {
            let (sender, receiver) = channel();
            let worker = Worker::new(case, number as u64);
            senders.push(sender);
            threads.push(std::thread::spawn(move || worker.serve(&receiver)));
        }
        Self { senders, threads, duplicates: case.rate(Fault::Duplicate) }
    }

    /// Returns whether there are no threads.
    pub fn is_inline(&self) -> bool {
        self.senders.is_empty()
    }

    /// Hands a sample to a thread, or to two that then race.
    pub fn send(&self, id: ResponseId, at: Nanos, responder: &Responder) {
        let first = id.sequence() as usize % self.senders.len();
        let mut draw = Stream::new(id.0, 0, 0);
        let is_twice = self.senders.len() > 1 && draw.chance(self.duplicates);
        let last = if is_twice { first + 1 } else { first };
        for number in first..=last {
            let sender = &self.senders[number % self.senders.len()];
            sender.send((id, at, responder.clone())).expect("workers run until the senders drop");
        }
    }

    /// Waits until all threads have sent everything, and returns what they wrote down.
    pub fn join(self) -> Vec<Worker> {
        drop(self.senders);
        self.threads
            .into_iter()
            .map(|thread| thread.join().expect("workers do not panic"))
            .collect()
    }
}

/// A completing thread.
pub struct Worker {
    rates: [f64; Fault::ALL.len()],
    mean_ns: f64,
    draw: Stream,
    /// Answers that are repeated after the run.
    again: Vec<(ResponseId, Responder)>,
    /// What it sent.
    pub sent: Vec<SentCompletion>,
    /// Faults that happened.
    pub injected: [u64; Fault::ALL.len()],
}

impl Worker {
    /// Returns worker `number` of a case.
    pub fn new(case: &Case, number: u64) -> Self {
        let (seed, index) = case.number;
        Self {
            rates: Fault::ALL.map(|fault| case.rate(fault)),
            mean_ns: case.mean_ns,
            draw: Stream::new(seed, index, 200 + number),
            again: Vec::new(),
            sent: Vec::new(),
            injected: [0; Fault::ALL.len()],
        }
    }

    fn serve(mut self, jobs: &Receiver<Job>) -> Self {
        for (id, at, responder) in jobs {
            self.answer(id, at, &responder);
        }
        for (id, responder) in std::mem::take(&mut self.again) {
            self.call(id, None, false, &responder);
        }
        self
    }

    fn happens(&mut self, fault: Fault) -> bool {
        let happens = self.draw.chance(self.rates[fault as usize]);
        self.injected[fault as usize] += u64::from(happens);
        happens
    }

    /// Works on a sample that came at `at`, and completes it.
    pub fn answer(&mut self, id: ResponseId, at: Nanos, responder: &Responder) {
        let due = at + (-self.draw.unit().ln() * self.mean_ns) as Nanos;
        while responder.now() < due {
            std::thread::yield_now();
        }
        if self.happens(Fault::Unknown) {
            let bits = self.draw.bits();
            let foreign = [id.0 | 1 << 35, 0, bits | 1 << 63, id.0 ^ 1 << (44 + bits % 9)];
            let foreign = foreign[self.draw.below(4) as usize];
            self.call(ResponseId(foreign), None, false, responder);
        }
        if self.happens(Fault::Lost) {
            return;
        }
        let failed = self.happens(Fault::Failed);
        let stated = self.happens(Fault::ImpossibleTime).then(|| match self.draw.below(3) {
            0 => 0,
            1 => at.saturating_sub(self.draw.below(100_000)),
            _ => responder.now() + self.draw.below(1_000_000_000),
        });
        self.call(id, stated, failed, responder);
        if self.happens(Fault::Duplicate) {
            let as_failure = self.draw.chance(0.5);
            self.call(id, None, as_failure, responder);
        }
        if self.happens(Fault::AfterEnd) {
            self.again.push((id, responder.clone()));
        }
    }

    fn call(&mut self, id: ResponseId, stated: Option<Nanos>, failed: bool, to: &Responder) {
        let before = to.now();
        match (failed, stated) {
            (true, None) => to.fail(&[id], Failure::Internal),
            (true, Some(at)) => to.fail_at(&[id], Failure::Internal, at),
            (false, None) => to.complete(&[Response::empty(id)]),
            (false, Some(at)) => to.complete_at(&[Response::empty(id)], at),
        }
        self.sent.push(SentCompletion { id: id.0, before, after: to.now(), stated, failed });
    }
}
