//! Driver of a test whose runs are executed by workers.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, WallTime};
use dyno_loadgen::drive::{
    self, Driver, Job, JobTenant, Process, RunOutcome, TenantOutcome, ThreadReport,
};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::record::Record;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_loadgen::sut::next_epoch;
use dyno_loadgen::trace::TraceSize;

use super::columns::{self, ArrivingRecord};
use super::coordinator::{Coordinator, GLANCE, LAST_SILENCE, LostWorker, WorkerShare, lock};
use super::offset::Offset;
use super::peer::Event;
use super::plans;
use super::wire::{self, Begin, Body, Column, Play, PlayTenant, Samples};
use crate::client::half_of_memory;

/// Data set of the workers, loaded and unloaded by all of them. The coordinator's own copy
/// describes it.
pub struct RemoteLibrary<'a> {
    coordinator: &'a Coordinator,
    like: &'a dyn SampleLibrary,
}

/// Executes the runs of one test on the workers.
pub struct DistributedDriver<'a> {
    coordinator: &'a Coordinator,
    system: String,
    /// Settings by tenant.
    settings: Vec<TestSettings>,
    library: Library,
}

impl Coordinator {
    /// Returns the workers' copies of a data set.
    pub fn library<'a>(&'a self, like: &'a dyn SampleLibrary) -> RemoteLibrary<'a> {
        RemoteLibrary { coordinator: self, like }
    }

    /// Starts the system of this name on every worker for a test; the settings are those of the
    /// tenants.
    pub fn begin(
        &self,
        (system, library): (&str, Library),
        scenario: Scenario,
        settings: Vec<TestSettings>,
    ) -> DistributedDriver<'_> {
        lock(&self.shares).clear();
        let order = Body::Begin(Begin { scenario: scenario.name().into() });
        // A worker lost here is remembered, and the following runs report it.
        let _ = self.order(&order, done);
        DistributedDriver { coordinator: self, system: system.into(), settings, library }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "answers are taken, here for nothing")]
fn done(body: Body) -> Option<()> {
    matches!(body, Body::Done(_)).then_some(())
}

impl SampleLibrary for RemoteLibrary<'_> {
    fn name(&self) -> &str {
        self.like.name()
    }
    fn total_sample_count(&self) -> usize {
        self.like.total_sample_count()
    }
    fn performance_sample_count(&self) -> usize {
        self.like.performance_sample_count()
    }
    fn load(&self, samples: &[SampleIndex]) {
        // A worker lost here is remembered, and the following run reports it.
        let _ = self.coordinator.order(&Body::Load(Samples { samples: samples.to_vec() }), done);
    }
    fn unload(&self, samples: &[SampleIndex]) {
        let _ = self.coordinator.order(&Body::Unload(Samples { samples: samples.to_vec() }), done);
    }
}

impl Driver for DistributedDriver<'_> {
    /// Clients of workers serve all tests, so epochs of tests differ as well.
    fn epoch(&mut self, _run: u32) -> u16 {
        next_epoch()
    }

    fn system_name(&self) -> String {
        self.system.clone()
    }

    fn now(&self) -> Nanos {
        self.coordinator.clock.now()
    }

    fn wall_now(&self) -> WallTime {
        WallTime::now()
    }

    fn process(&self) -> Process {
        Process { pid: std::process::id(), tid: std::process::id() }
    }

    fn aborted(&self) -> bool {
        self.coordinator.is_aborted.load(Ordering::Relaxed)
    }

    fn play(&mut self, job: &Job<'_>) -> RunOutcome {
        let mut run = Run::new(self.coordinator, job);
        if let Some(lost) = self.coordinator.lost() {
            run.error = Some(lost.to_string());
            return run.finish(job);
        }
        if let Err(lost) = self.arm(job).and_then(|()| run.begin()) {
            run.is_ending = true;
            let _ = self.coordinator.tell(&Body::Abort(true));
            run.error.get_or_insert(lost.to_string());
        }
        run.collect();
        run.finish(job)
    }
}

impl DistributedDriver<'_> {
    /// Sends the run, and waits until all workers are ready to begin it.
    fn arm(&self, job: &Job<'_>) -> Result<(), LostWorker> {
        for peer in &self.coordinator.peers {
            peer.rewind(self.coordinator.clock.now());
            // A worker answers this before the run below, so its clock is known at the start even
            // if the thread with the regular pings has not had a processor yet. The thread that
            // reads the connection notices that it is lost.
            let _ = peer.send(Body::Ping(self.coordinator.clock.now()));
        }
        let tenant = |(tenant, settings): (&JobTenant<'_>, &TestSettings)| PlayTenant {
            settings: plans::pairs(settings),
            load: plans::load(settings, self.library, &tenant.plan),
            plan_hash: plans::hash(&tenant.plan),
            set: tenant.set.samples.clone(),
            set_end: tenant.set.end as u64,
            samples_before: tenant.samples_before,
            ramp: tenant.plan.ramp,
            has_sessions: tenant.plan.sessions.is_some(),
        };
        let tenants = job.tenants.iter().zip(&self.settings).map(tenant).collect();
        let epoch = u32::from(job.epoch);
        let order = Body::Play(Play { tenants, accuracy: job.accuracy, epoch });
        let armed = |body| matches!(body, Body::Armed(_)).then_some(());
        self.coordinator.order(&order, armed).map(|_| ())
    }
}

/// One run in progress.
struct Run<'a> {
    coordinator: &'a Coordinator,
    clock: Clock,
    begun_at: Nanos,
    armed_at: Nanos,
    started_at: Nanos,
    started_wall: WallTime,
    /// Offset of each worker's clock at the start.
    offsets: Vec<Offset>,
    /// Records by worker.
    arrived: Vec<ArrivingRecord>,
    /// Report of each worker, once complete.
    played: Vec<Option<wire::PlayReport>>,
    /// Workers from which no more messages are expected.
    gone: Vec<bool>,
    /// The other workers were ordered to end the run.
    is_ending: bool,
    error: Option<String>,
}

/// Delay from the readiness of the last worker to the start of a run, in addition to the time for
/// messages.
const LEAD: Nanos = 50 * MILLISECOND;

/// Time limit for the remaining data of workers after an order to end the run, in addition to the
/// permitted silence.
const LAST_WORDS: Duration = Duration::from_secs(20);

impl<'a> Run<'a> {
    fn new(coordinator: &'a Coordinator, job: &Job<'_>) -> Self {
        let (clock, workers) = (coordinator.clock, coordinator.peers.len());
        let now = clock.now();
        Self {
            coordinator,
            clock,
            begun_at: now,
            armed_at: now,
            started_at: now,
            started_wall: WallTime::now(),
            offsets: Vec::new(),
            arrived: (0..workers)
                .map(|_| ArrivingRecord::new(job.tenants.len(), half_of_memory() / workers))
                .collect(),
            played: vec![None; workers],
            gone: vec![false; workers],
            is_ending: false,
            error: None,
        }
    }

    /// Announces the start of the run, by each worker's own clock.
    fn begin(&mut self) -> Result<(), LostWorker> {
        self.armed_at = self.clock.now();
        let mut offsets = Vec::new();
        for (at, peer) in self.coordinator.peers.iter().enumerate() {
            let silent = || self.coordinator.lose(at, "it does not send its clock");
            offsets.push(peer.offsets().best().ok_or_else(silent)?);
        }
        let slowest = offsets.iter().map(|offset| offset.error).max().unwrap_or(0);
        self.started_at = self.clock.now() + LEAD + 4 * slowest;
        let now = (self.clock.now(), WallTime::now());
        self.started_wall = WallTime { unix_ns: now.1.unix_ns + (self.started_at - now.0) };
        for (at, (peer, offset)) in self.coordinator.peers.iter().zip(&offsets).enumerate() {
            let start = Body::Start(offset.there(self.started_at));
            peer.send(start).map_err(|error| self.coordinator.lose(at, &error.to_string()))?;
        }
        self.offsets = offsets;
        Ok(())
    }

    /// Receives the records until each worker has sent its own or is lost.
    fn collect(&mut self) {
        let events = lock(&self.coordinator.events);
        if let Some(lost) = self.coordinator.lost() {
            self.gone[lost.worker as usize] = true;
            self.error.get_or_insert(lost.to_string());
        }
        let mut ending_at = self.is_ending.then(|| self.clock.now());
        let patience = self.coordinator.listen.silence + LAST_WORDS.as_nanos() as Nanos;
        while (0..self.played.len()).any(|at| self.played[at].is_none() && !self.gone[at]) {
            match events.recv_timeout(GLANCE) {
                Ok((at, Event::Said(body))) => {
                    if let Err(why) = self.take(at, body) {
                        self.lose(at, why);
                    }
                }
                Ok((at, Event::Lost(why))) => self.lose(at, &why),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    (0..self.gone.len()).for_each(|at| self.lose(at, "nobody reads it"));
                }
            }
            let is_ending = self.is_ending || self.coordinator.is_aborted.load(Ordering::Relaxed);
            if is_ending {
                let ending_at = *ending_at.get_or_insert(self.clock.now());
                self.lose_silent(ending_at);
            }
            if is_ending && self.clock.now() > *ending_at.get_or_insert(self.clock.now()) + patience
            {
                let open = |at: &usize| self.played[*at].is_none() && !self.gone[*at];
                for at in (0..self.gone.len()).filter(open).collect::<Vec<_>>() {
                    self.lose(at, "it did not stop the run when requested");
                }
            }
        }
    }

    fn take(&mut self, at: usize, body: Body) -> Result<(), &'static str> {
        match body {
            Body::Chunk(chunk) => self.arrived[at].add(chunk),
            Body::Played(mut played) => {
                if let Some(failing) = played.failing.take() {
                    self.coordinator.note_failing(failing);
                }
                self.played[at] = Some(played);
                Ok(())
            }
            // It was armed while another worker was lost.
            Body::Armed(_) | Body::Done(_) => Ok(()),
            _ => Err("it sent a message other than its record"),
        }
    }

    /// Continues without workers that send nothing after an order to end the run: live workers send
    /// a message four times a second.
    fn lose_silent(&mut self, ending_at: Nanos) {
        let now = self.clock.now();
        let is_silent = |at: &usize| {
            let heard_at = self.coordinator.peers[*at].heard_at().max(ending_at);
            self.played[*at].is_none() && !self.gone[*at] && now > heard_at + LAST_SILENCE
        };
        for at in (0..self.gone.len()).filter(is_silent).collect::<Vec<_>>() {
            self.lose(at, "it sends nothing since it was asked to stop the run");
        }
    }

    /// Continues without a worker: the others end the run and send their data.
    fn lose(&mut self, at: usize, why: &str) {
        if std::mem::replace(&mut self.gone[at], true) {
            return;
        }
        let lost = self.coordinator.lose(at, why);
        self.error.get_or_insert(lost.to_string());
        if !std::mem::replace(&mut self.is_ending, true) {
            let _ = self.coordinator.tell(&Body::Abort(true));
        }
    }

    /// Returns the record combined from the parts of all workers.
    fn finish(mut self, job: &Job<'_>) -> RunOutcome {
        let mut parts: Vec<Vec<TenantOutcome>> = job.tenants.iter().map(|_| Vec::new()).collect();
        let mut shares = Vec::new();
        for at in 0..self.played.len() {
            let Some(played) = self.played[at].take() else { continue };
            let mut arrived = std::mem::take(&mut self.arrived[at]).into_tenants();
            let report = arrived.first_mut().and_then(|first| first.remove(&Column::Report));
            let tenants: Option<Vec<TenantOutcome>> =
                played.tenants.iter().zip(arrived).map(|(t, a)| columns::part(t, a)).collect();
            let is_possible = |tenants: &Vec<TenantOutcome>| {
                let mut pairs = tenants.iter().zip(&job.tenants);
                tenants.len() == parts.len()
                    && pairs.all(|(part, tenant)| {
                        columns::is_possible(&part.record, &tenant.plan, tenant.set)
                    })
            };
            match tenants.filter(is_possible) {
                Some(tenants) => {
                    let report = report.unwrap_or_default();
                    shares.push(self.share(at, &played, (&tenants[..], job), report));
                    parts.iter_mut().zip(tenants).for_each(|(all, part)| all.push(part));
                }
                None => self.lose(at, "its record is invalid"),
            }
            self.error = self.error.or(played.error);
            let mut precision = lock(&self.coordinator.precision);
            precision.late = precision.late.max(played.late);
        }
        for (parts, tenant) in parts.iter().zip(&job.tenants) {
            let records: Vec<&Record> = parts.iter().map(|part| &part.record).collect();
            let places = places(&tenant.plan, &records);
            shares.iter_mut().zip(places).for_each(|(share, places)| share.places.push(places));
        }
        *lock(&self.coordinator.shares) = shares;
        self.note_precision();
        let lost = self.coordinator.lost();
        let of = self.coordinator.workers();
        let join = |(parts, tenant): (Vec<TenantOutcome>, &JobTenant<'_>)| {
            let mut whole =
                if parts.is_empty() { nothing() } else { drive::join(&tenant.plan, parts) };
            if let Some(lost) = &lost {
                whole.ended = EndReason::Lost { worker: lost.worker, workers: of };
            }
            whole
        };
        RunOutcome {
            tenants: parts.into_iter().zip(&job.tenants).map(join).collect(),
            generated: (self.begun_at, self.armed_at),
            started_at: self.started_at,
            started_wall: self.started_wall,
            finished_at: self.clock.now(),
            error: self.error,
            threads: ThreadReport::default(),
        }
    }

    /// Returns the share of a worker.
    fn share(
        &self,
        at: usize,
        played: &wire::PlayReport,
        (parts, job): (&[TenantOutcome], &Job<'_>),
        report: Vec<u8>,
    ) -> WorkerShare {
        let peer = &self.coordinator.peers[at];
        let measured = |(part, tenant): (&TenantOutcome, &JobTenant<'_>)| {
            let (record, ramp) = (&part.record, tenant.plan.ramp);
            let queries = 0..record.query_count();
            queries.filter(|query| record.scheduled(*query) >= ramp).collect::<Vec<usize>>()
        };
        let measured: Vec<Vec<usize>> = parts.iter().zip(&job.tenants).map(measured).collect();
        let lag = |(part, queries): (&TenantOutcome, &Vec<usize>)| {
            let lag = queries.iter().filter_map(|query| part.record.client_lag.get(*query));
            let mut lag: Vec<_> = lag.copied().collect();
            lag.sort_unstable();
            lag
        };
        WorkerShare {
            worker: at as u32,
            name: peer.name.clone(),
            queries: measured.iter().map(|queries| queries.len() as u64).sum(),
            late: played.late,
            lasted: played.lasted,
            longest_silence: peer.longest_silence(),
            client_lag: parts.iter().zip(&measured).map(lag).collect(),
            places: Vec::new(),
            report,
        }
    }

    fn note_precision(&self) {
        let mut precision = lock(&self.coordinator.precision);
        precision.runs += 1;
        // The two with the largest errors.
        let mut errors: Vec<Nanos> = Vec::new();
        for (peer, at_start) in self.coordinator.peers.iter().zip(&self.offsets) {
            let at_end = peer.offsets().best().unwrap_or(*at_start);
            errors.push(at_start.error_until(at_end));
        }
        errors.sort_unstable();
        let error = errors.iter().rev().take(2).sum();
        precision.error = precision.error.max(error);
    }
}

/// Returns the positions of each part's samples in the record that [`drive::join`] creates from the
/// parts: joins parts with numbered samples and looks up the numbers.
fn places(plan: &Plan, parts: &[&Record]) -> Vec<Vec<usize>> {
    let mut next = 0_u32;
    let numbered = |record: &&Record| {
        let first = next;
        next += record.indices.len() as u32;
        let numbers = Record {
            samples_per_query: record.samples_per_query,
            scheduled_at: record.scheduled_at.clone(),
            issued_at: record.issued_at.clone(),
            indices: (first..next).collect(),
            completed_at: record.completed_at.clone(),
            sessions: record.sessions.clone(),
            ..Record::default()
        };
        TenantOutcome {
            ended: EndReason::TraceIssued,
            generated: TraceSize::default(),
            record: numbers,
        }
    };
    let numbered: Vec<TenantOutcome> = parts.iter().map(numbered).collect();
    let mut places: Vec<Vec<usize>> =
        parts.iter().map(|part| vec![0; part.indices.len()]).collect();
    if numbered.is_empty() {
        return places;
    }
    let mut slots: Vec<&mut usize> = places.iter_mut().flatten().collect();
    for (place, number) in drive::join(plan, numbered).record.indices.into_iter().enumerate() {
        *slots[number as usize] = place;
    }
    places
}

/// Returns the result of a tenant without any worker.
fn nothing() -> TenantOutcome {
    let record = Record { samples_per_query: 1, ..Record::default() };
    TenantOutcome { ended: EndReason::Aborted, generated: TraceSize::default(), record }
}
