//! A driver in virtual time whose client sleeps and whose wall clock jumps. It plays the sessions
//! of Dyno; only the waiting is its own. Without faults it must record what
//! [`dyno_loadgen::drive::sim`] records.

use std::sync::Arc;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::{Driver, Job, Process, RunOutcome, TenantOutcome, ThreadReport};
use dyno_loadgen::early_stopping::{self, Look, Params};
use dyno_loadgen::plan::Plan;
use dyno_loadgen::record::{Misuse, Outcome, Record};
use dyno_loadgen::session::{Issue, IssueSummary, Session, Step};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use super::case::{Case, Fault};
use super::system::FaultySystem;
use crate::rng::Stream;

/// The driver.
pub struct LateClient<'a, 'c> {
    system: &'a mut FaultySystem<'c>,
    elapsed: Nanos,
    pauses: Pauses,
    wall: std::cell::RefCell<Stream>,
    wall_steps: bool,
    /// When the queries of the last run were due, as the session stated it at their issue; the time
    /// of their issue in closed loops.
    pub due: Vec<Nanos>,
    /// When the client continued after the last issue, since the start of the run.
    pub continued_at: Nanos,
}

struct Pauses {
    rate: f64,
    mean_ns: f64,
    draw: Stream,
    /// Pauses so far.
    count: u64,
}

impl Pauses {
    fn next_ns(&mut self) -> Nanos {
        if self.rate <= 0.0 || !self.draw.chance(self.rate) {
            return 0;
        }
        self.count += 1;
        let means = self.draw.log_uniform(0.01, 300.0);
        (self.mean_ns * means) as Nanos
    }
}

impl<'a, 'c> LateClient<'a, 'c> {
    /// Returns the client of a case.
    pub fn new(case: &Case, system: &'a mut FaultySystem<'c>) -> Self {
        let pauses = Pauses {
            rate: case.rate(Fault::ClientPause),
            mean_ns: case.service.mean_ns,
            draw: case.stream(Fault::ClientPause),
            count: 0,
        };
        Self {
            system,
            elapsed: 0,
            pauses,
            wall: case.stream(Fault::WallStep).into(),
            wall_steps: case.rate(Fault::WallStep) > 0.0,
            due: Vec::new(),
            continued_at: 0,
        }
    }

    /// Returns the number of pauses.
    pub fn pauses(&self) -> u64 {
        self.pauses.count
    }
}

impl Driver for LateClient<'_, '_> {
    fn system_name(&self) -> String {
        self.system.name().into()
    }

    fn now(&self) -> Nanos {
        self.elapsed
    }

    fn wall_now(&self) -> WallTime {
        // Years of steps, forward and back.
        let step = if self.wall_steps { self.wall.borrow_mut().bits() >> 4 } else { 0 };
        WallTime { unix_ns: self.elapsed + step }
    }

    fn process(&self) -> Process {
        Process::default()
    }

    fn aborted(&self) -> bool {
        false
    }

    fn play(&mut self, job: &Job<'_>) -> RunOutcome {
        let (started_at, started_wall) = (self.elapsed, self.wall_now());
        let tenants: Vec<_> = job.tenants.iter().map(|t| (t.plan.clone(), t.set)).collect();
        let mut session = Session::new(&tenants, job.accuracy);
        let mut run = Run::new(job.epoch, started_at, self.system);
        let finished = run.play(&mut session, &mut self.pauses);
        self.elapsed += finished;
        self.due = std::mem::take(&mut run.due);
        self.continued_at = run.continued_at;
        let record = run.record;
        let mut issued = session.into_issued();
        let tenant = finish(record, issued.swap_remove(0));
        RunOutcome {
            tenants: vec![tenant],
            generated: (started_at, started_at),
            started_at,
            started_wall,
            finished_at: self.elapsed,
            error: None,
            threads: ThreadReport::default(),
        }
    }
}

fn finish(record: Record, issued: IssueSummary) -> TenantOutcome {
    let lag = |(due, at): (&Nanos, &Nanos)| u32::try_from(at - due).unwrap_or(u32::MAX);
    let record = Record {
        samples_per_query: issued.samples_per_query,
        client_lag: issued.scheduled_at.iter().zip(&record.issued_at).map(lag).collect(),
        scheduled_at: issued.scheduled_at,
        indices: issued.indices,
        ..record
    };
    TenantOutcome { ended: issued.ended, generated: issued.generated, record }
}

struct Run<'s, 'c> {
    epoch: u16,
    base: Nanos,
    now: Nanos,
    system: &'s mut FaultySystem<'c>,
    record: Record,
    completed: u64,
    due: Vec<Nanos>,
    continued_at: Nanos,
}

impl<'s, 'c> Run<'s, 'c> {
    fn new(epoch: u16, base: Nanos, system: &'s mut FaultySystem<'c>) -> Self {
        let (record, due) = (Record::default(), Vec::new());
        Self { epoch, base, now: 0, system, record, completed: 0, due, continued_at: 0 }
    }

    /// Plays the run; returns its end.
    fn play(&mut self, session: &mut Session, pauses: &mut Pauses) -> Nanos {
        loop {
            let last = self.receive_until_now();
            // A client that sleeps learns of completions when it wakes.
            let noticed_at = last.filter(|_| pauses.rate <= 0.0).unwrap_or(self.now);
            session.completed(0, self.completed, noticed_at);
            match session.step(self.now) {
                Step::Issue(issue) => {
                    self.issue(&issue);
                    self.now += pauses.next_ns();
                    self.continued_at = self.now;
                }
                Step::WaitUntil(time) => self.now = time + pauses.next_ns(),
                Step::WaitCompletion { until } => match (self.next_event(), until) {
                    (Some(at), until) if until.is_none_or(|until| at <= until) => {
                        self.now = self.now.max(at) + pauses.next_ns();
                    }
                    (_, Some(until)) => self.now = until.max(self.now) + pauses.next_ns(),
                    (_, None) => session.give_up(),
                },
                Step::Look { .. } => {
                    let found = self.look(session.plan(0), session.scheduled(0));
                    session.looked(0, found, self.now);
                }
                Step::Done => return self.now,
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.system.next_event().map(|at| at.saturating_sub(self.base))
    }

    fn issue(&mut self, issue: &Issue<'_>) {
        let first = self.record.completed_at.len() as u64;
        self.record.issued_at.extend(std::iter::repeat_n(self.now, issue.queries));
        self.record.completed_at.extend(issue.indices.iter().map(|_| 0));
        let due = (0..issue.queries).map(|q| issue.scheduled.get(q).copied().unwrap_or(self.now));
        self.due.extend(due);
        let first = ResponseId::new(self.epoch, 0, first);
        let query = SimulatedQuery { tenant: 0, first, indices: issue.indices };
        self.system.issue(self.base + self.now, &query);
    }

    /// Receives completions; returns the time of the last one.
    fn receive_until_now(&mut self) -> Option<Nanos> {
        let mut last = None;
        while let Some(at) = self.next_event().filter(|&at| at <= self.now) {
            let mut completions = Vec::new();
            self.system.advance(self.base + at, &mut completions);
            completions.iter().for_each(|completion| self.complete(completion, at));
            last = Some(at);
        }
        last
    }

    fn complete(&mut self, completion: &SimulatedCompletion, at: Nanos) {
        let (id, own) = (completion.id, ResponseId::new(self.epoch, 0, 0).run());
        let misuse: &mut Misuse = &mut self.record.misuse;
        if id.run() != own {
            let is_stale = id.run() < own && id.0 != 0;
            *(if is_stale { &mut misuse.stale } else { &mut misuse.unknown }) += 1;
            return;
        }
        match self.record.completed_at.get_mut(id.sequence() as usize) {
            None => misuse.unknown += 1,
            Some(stamp) if *stamp != 0 => misuse.duplicate += 1,
            Some(stamp) => {
                *stamp = at.max(1);
                self.completed += 1;
                if let Outcome::Failed(why) = completion.outcome {
                    self.record.failed.push((id.sequence(), why));
                }
            }
        }
    }

    /// Evaluates early stopping: a sample is decided when it is complete or over its bound.
    fn look(&self, plan: &Arc<Plan>, due: &[Nanos]) -> Look {
        let bound = plan.target_latency();
        let (mut decided, mut over) = (0, 0);
        for (sample, &done) in self.record.completed_at.iter().enumerate() {
            let failed = self.record.failed.iter().any(|(id, _)| *id == sample as u64);
            let due = due.get(sample).copied().unwrap_or(self.record.issued_at[sample]);
            let until = if done == 0 { self.now } else { done };
            let is_over = failed || until.saturating_sub(due) > bound;
            decided += u64::from(is_over || done != 0);
            over += u64::from(is_over);
        }
        early_stopping::look(decided, over, &Params::new(&plan.early_stopping, plan.percentile()))
    }
}
