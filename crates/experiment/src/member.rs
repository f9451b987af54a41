//! A worker: sets up the system that its coordinator names, and reports on runs.

mod consent;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::{Job, RunOutcome, TenantOutcome};
use dyno_loadgen::plan::Plan;
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Record;
use dyno_loadgen::settings::Scenario;
use dyno_loadgen::share::Share;
use dyno_net::client::ClientStatistics;
use dyno_net::worker::member::{Gate, Instrument, Rig};
use dyno_net::worker::plans::PlannedSessions;
use dyno_net::worker::wire::Pair;

use crate::gather::observer::JudgedPercentiles;
use crate::observe::Heart;
use crate::options::{Requirement, RunOptions, find_key};
use crate::run;
use crate::system::System;
use crate::system::net::{Remote, WireTimes};
use crate::watch::Watch;
use crate::workers::{SENT, WorkerReport, divided, divided_limit};
pub use consent::{Consent, GRAMMAR, Grant};

/// The system of a worker, once the coordinator has named it.
pub struct WorkerRig {
    watch: Arc<dyn Watch>,
    consent: Consent,
    share: Share,
    system: Option<System>,
    fails_fast: bool,
    /// Limits on the tests of the run.
    requirements: Vec<Requirement>,
    /// Start of the test, and the client's counters at that time.
    begun: Mutex<Option<(Clock, ClientStatistics)>>,
    /// Observer of this process while a test runs.
    heart: Mutex<Option<Heart>>,
}

impl WorkerRig {
    /// Returns a worker without a system. It only sets up systems that the consent covers.
    pub fn new(consent: Consent, share: Share, watch: Arc<dyn Watch>) -> Self {
        Self {
            watch,
            consent,
            share,
            system: None,
            fails_fast: false,
            requirements: Vec::new(),
            begun: Mutex::default(),
            heart: Mutex::default(),
        }
    }

    /// Returns the percentiles at which the coordinator judges a tenant.
    fn judged(&self, plan: &Plan) -> JudgedPercentiles {
        let target = plan.percentile();
        let scenario = plan.scenario();
        let own = self.requirements.iter().filter(|required| required.is_for(scenario));
        JudgedPercentiles::from_limits(target, own.map(|required| required.limit(target)))
    }

    fn system(&self) -> &System {
        self.system.as_ref().expect("set up the system before its first request")
    }
}

impl Rig for WorkerRig {
    fn set_up(&mut self, options: &[Pair]) -> Result<(), String> {
        self.system = None;
        let mut run = RunOptions::default();
        for Pair { name, value } in options {
            let key = find_key(name).ok().filter(|_| SENT.iter().any(|(sent, _)| sent == name));
            let key = key.ok_or_else(|| format!("a worker has no option `{name}`"))?;
            (key.set)(&mut run, value, Path::new(""))
                .map_err(|expected| format!("{name}: {expected}"))?;
        }
        self.consent.check(&run)?;
        run.system = run.system.map(|spec| divided(&spec, self.share)).transpose()?;
        run.max_concurrency = divided_limit(run.max_concurrency, self.share)?;
        let system =
            System::load(&run, &self.watch).map_err(|failure| failure.problems().join("; "))?;
        if system.is_simulated() {
            return Err("workers do not run simulated systems".into());
        }
        (self.system, self.fails_fast) = (Some(system), run.fails_fast.unwrap_or(false));
        self.requirements = run.requirements;
        Ok(())
    }

    fn system_name(&self) -> String {
        self.system.as_ref().map_or("", System::engine_name).into()
    }

    fn words_of_failure(&self) -> Option<String> {
        self.system().words_of_failure(Some(&ClientStatistics::default()))
    }

    fn library(&self) -> &dyn SampleLibrary {
        &*self.system().library
    }

    fn sessions(&self) -> Option<PlannedSessions> {
        self.system().remote().and_then(Remote::planned_sessions)
    }

    fn begin(&self, scenario: Scenario, gate: &Gate) -> Result<Instrument<'_>, String> {
        let Some(system) = &self.system else { return Err("no system is set up".into()) };
        let started = system
            .real_time(scenario, &|| true)
            .map_err(|failure| failure.problems().join("; "))?;
        let seen = system.remote().map(Remote::seen).unwrap_or_default();
        *lock(&self.begun) = Some((Clock::start(), seen));
        let heart = Heart::begin();
        let driver = RealTime::new(started).announce(heart.announce());
        *lock(&self.heart) = Some(heart);
        let (clock, monitor) = (driver.clock(), driver.monitor());
        monitor.fail_fast(self.fails_fast);
        Ok(Instrument { driver: Box::new(driver.start(gate.by(clock))), monitor: Some(monitor) })
    }

    fn report(&self, job: &Job<'_>, played: &RunOutcome) -> Vec<u8> {
        let begun = lock(&self.begun);
        // The coordinator judges the measured part; it cuts the columns below itself.
        let measured: Vec<Cow<'_, Record>> = played
            .tenants
            .iter()
            .zip(&job.tenants)
            .map(|(part, tenant)| measured_part(&part.record, tenant.plan.ramp))
            .collect();
        let observer = lock(&self.heart).take().map(|heart| {
            let judged = job.tenants.iter().map(|tenant| self.judged(&tenant.plan));
            let tenants: Vec<_> = measured.iter().map(|record| &**record).zip(judged).collect();
            run::observer(self.system(), heart.end(ramp(job)), &tenants)
        });
        let (Some(remote), Some((clock, before))) =
            (self.system.as_ref().and_then(System::remote), &*begun)
        else {
            return WorkerReport { observer, ..WorkerReport::default() }.bytes();
        };
        let lateness = |(tenant, record): (u8, &Cow<'_, Record>)| remote.lateness(tenant, record);
        let wire: Vec<WireTimes> = (0..)
            .zip(&played.tenants)
            .map(|(tenant, part)| remote.wire_times(tenant, &part.record))
            .collect();
        let ledger = |(tenant, part): (u8, &TenantOutcome)| remote.ledger(tenant, &part.record);
        let retries = |(tenant, part): (u8, &TenantOutcome)| remote.retries(tenant, &part.record);
        let waits = |(tenant, part): (u8, &TenantOutcome)| remote.retry_waits(tenant, &part.record);
        let report = WorkerReport {
            seen: Some(remote.seen().since(before)),
            threads: remote.threads,
            took: clock.now(),
            lateness: (0..).zip(&measured).map(lateness).collect(),
            sent: wire.iter().map(|times| times.sent.clone()).collect(),
            retry_times: wire.into_iter().map(|times| times.retries).collect(),
            ledger: (0..).zip(&played.tenants).map(ledger).collect(),
            retries: (0..).zip(&played.tenants).map(retries).collect(),
            retry_waits: (0..).zip(&played.tenants).map(waits).collect(),
            observer,
        };
        report.bytes()
    }
}

/// Returns a record without queries that are not measured. It is copied only if there are any.
fn measured_part(record: &Record, ramp: Nanos) -> Cow<'_, Record> {
    let mut record = Cow::Borrowed(record);
    if record.has_excluded(ramp) {
        record.to_mut().exclude(ramp);
    }
    record
}

/// Returns the length of the ramp of a run, ns; 0 without one.
fn ramp(job: &Job<'_>) -> Nanos {
    job.tenants.iter().map(|tenant| tenant.plan.ramp).max().unwrap_or(0)
}

/// Locks a mutex. A poisoned mutex is used, because its data is consistent wherever a thread may
/// panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
