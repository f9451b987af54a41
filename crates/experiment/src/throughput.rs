//! Estimates the speed of a system, for settings that depend on it and are not given.
//!
//! Systems of this process get one large query, as in Offline. Servers first get few requests at
//! the same time, and more as long as that increases the throughput: a probe must not load a server
//! more than the following run.

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use dyno_loadgen::plan::{Load, Plan};
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, TestMode, TestSettings};
use dyno_net::client::ClientStatistics;
use dyno_net::trouble::Kind;
use dyno_results::summary::{self, Failing};
use dyno_results::units::counted;

use crate::advice::explained;
use crate::failure::Failure;
use crate::measure::PlayedTest;
use crate::options::Options;
use crate::system::System;
use crate::system::net::Remote;
use crate::test::{PlannedTest, TestTenant};
use crate::watch::{Control, Interrupt};

/// Minimum duration of a conclusive probe, ns.
const LONG_ENOUGH: Nanos = 200 * MILLISECOND;
/// Number of long probes, of which the fastest counts: other processes slow a probe down, and
/// nothing speeds it up.
const LONG_PROBES: usize = 3;
/// Each further probe has this many times the samples of the last.
const GROWTH: u64 = 4;
/// Maximum number of samples of a probe.
const MOST_SAMPLES: u64 = 1 << 22;
/// Default deadline, ms.
const DEADLINE_MS: u64 = 60_000;
/// Maximum number of concurrent requests to a server.
const MOST_IN_FLIGHT: u64 = 256;
/// Default number of concurrent requests if the client opens connections as needed.
const IN_FLIGHT_DEFAULT: u64 = 64;
/// Minimum speedup for which more concurrent requests are tried.
const WORTH_IT: f64 = 1.2;
/// Time after which concurrency is not increased any more, ns.
const BUDGET: Nanos = 4 * SECOND;
/// Answers after which a probe ends if more than half of them failed.
const ENOUGH_ANSWERS: u64 = 200;

/// Returns the samples per second of a system, and the traffic of the probe. `None` if the probe
/// was interrupted.
///
/// # Errors
/// The system cannot be started, does not answer, or fails the probe.
pub fn samples_per_second(
    system: &System,
    options: &Options,
    control: Control<'_>,
) -> Result<Option<summary::Probe>, Failure> {
    let mut probing = RunningProbe {
        system,
        options,
        control,
        clock: Clock::start(),
        before: system.remote().map(Remote::seen),
        traffic: summary::Probe::default(),
        fails_fast: options.fails_fast(),
        title: "probe",
    };
    let rate = match system.remote() {
        Some(remote) => probing.by_concurrency(most_in_flight(remote, options)),
        None => probing.by_query(),
    };
    let Some(rate) = rate? else { return Ok(None) };
    let mut traffic = probing.traffic;
    traffic.took_ns = probing.clock.now();
    traffic.samples_per_s = rate;
    Ok(Some(traffic))
}

/// Sends as many requests as `warm_up` demands to a server before a test, with no more of them at the
/// same time than the test has. Returns how many failed; `None` if there is nothing to send.
///
/// # Errors
/// The server leaves requests unanswered, or rejects all of them.
pub fn warm_up(
    system: &System,
    options: &Options,
    test: &PlannedTest,
    control: Control<'_>,
) -> Result<Option<u64>, Failure> {
    let requests = options.run.warm_up.unwrap_or(0) as u64;
    let (Some(remote), Some(tenant)) =
        (system.remote().filter(|_| requests > 0), test.tenants.first())
    else {
        return Ok(None);
    };
    let most = remote.most_in_flight().map_or(IN_FLIGHT_DEFAULT, |most| most as u64);
    let in_flight = match &tenant.plan.load {
        Load::Server(server) => match server.arrivals {
            Arrivals::Concurrency(in_flight) => u64::from(in_flight),
            _ => 1,
        },
        Load::MultiStream { .. } => tenant.plan.samples_per_query,
        Load::SingleStream { .. } => 1,
        Load::Offline => most,
    };
    // Failures are counted; the test itself shows whether the system works.
    let mut warming = RunningProbe {
        system,
        options,
        control,
        clock: Clock::start(),
        before: Some(remote.seen()),
        traffic: summary::Probe::default(),
        fails_fast: false,
        title: "warm-up",
    };
    warming.play(requests, in_flight.clamp(1, most))?;
    if let Some(rejection) = warming.rejection().filter(|_| options.fails_fast()) {
        return Err(rejection);
    }
    Ok(Some(warming.traffic.failed))
}

/// Returns the maximum number of concurrent requests of a probe, at most that of the following
/// tests.
fn most_in_flight(remote: &Remote, options: &Options) -> u64 {
    let asked = options.scenarios().into_iter().filter_map(|scenario| {
        let settings = options.settings(scenario, TestMode::PerformanceOnly, None);
        match settings.values.server_arrivals {
            Arrivals::Concurrency(most) if scenario == Scenario::Server => Some(u64::from(most)),
            _ => None,
        }
    });
    let connections = remote.most_in_flight().map_or(IN_FLIGHT_DEFAULT, |most| most as u64);
    let connections = connections.min(MOST_IN_FLIGHT);
    asked.fold(connections, u64::min).max(1)
}

/// A running probe.
struct RunningProbe<'a> {
    system: &'a System,
    options: &'a Options,
    control: Control<'a>,
    clock: Clock,
    /// Counters of the client of a server before the probe.
    before: Option<ClientStatistics>,
    traffic: summary::Probe,
    /// Whether an end because of many failures is an error.
    fails_fast: bool,
    /// Display name of its requests.
    title: &'static str,
}

/// Result of one run of a probe.
struct ProbeRun {
    took: Nanos,
    answered: u64,
}

impl ProbeRun {
    fn rate(&self) -> f64 {
        self.answered as f64 * 1e9 / self.took as f64
    }
}

impl RunningProbe<'_> {
    /// Measures single queries with increasing numbers of samples.
    fn by_query(&mut self) -> Result<Option<f64>, Failure> {
        let mut samples = 1;
        let mut rates: Vec<f64> = Vec::new();
        loop {
            let Some(once) = self.play(samples, samples)? else { return Ok(None) };
            if once.took < LONG_ENOUGH && samples < MOST_SAMPLES {
                samples *= GROWTH;
                continue;
            }
            rates.push(once.rate());
            // A system that takes seconds for a sample is measured once.
            let is_slow = once.took >= GROWTH * LONG_ENOUGH;
            if rates.len() == LONG_PROBES || is_slow || self.system.is_simulated() {
                return self.found(rates.into_iter().fold(0.0, f64::max)).map(Some);
            }
        }
    }

    /// Measures increasing numbers of concurrent requests while the throughput grows.
    fn by_concurrency(&mut self, most: u64) -> Result<Option<f64>, Failure> {
        let workers = self.options.run.remote_workers.map_or(1, |workers| workers.get() as u64);
        let (mut in_flight, mut best) = (workers.min(most), 0.0_f64);
        loop {
            let Some(once) = self.long_enough(in_flight, best)? else { return Ok(None) };
            let is_worth_it = once.rate() >= WORTH_IT * best;
            best = best.max(once.rate());
            let is_refused = self.note_refusals();
            let is_over = in_flight >= most || self.clock.now() >= BUDGET;
            if !is_worth_it || is_refused || is_over {
                return self.found(best).map(Some);
            }
            let growth = if once.took >= GROWTH * LONG_ENOUGH { GROWTH } else { 2 };
            in_flight = (in_flight * growth).min(most);
        }
    }

    /// Measures enough requests for a conclusive duration.
    fn long_enough(&mut self, in_flight: u64, rate: f64) -> Result<Option<ProbeRun>, Failure> {
        let expected = (rate * LONG_ENOUGH as f64 / SECOND as f64) as u64;
        let mut samples = expected.clamp(in_flight, MOST_SAMPLES);
        loop {
            let Some(once) = self.play(samples, in_flight)? else { return Ok(None) };
            if 2 * once.took >= LONG_ENOUGH || samples >= MOST_SAMPLES {
                return Ok(Some(once));
            }
            samples *= GROWTH;
        }
    }

    /// Records whether a server rejected requests because of overload.
    fn note_refusals(&mut self) -> bool {
        let (Some(remote), Some(before)) = (self.system.remote(), &self.before) else {
            return false;
        };
        let seen = remote.seen().since(before);
        let failed = seen.troubles.get(&Kind::Refused).map_or(0, |(samples, _)| *samples);
        let repeated = seen.retries.get(&Kind::Refused).copied().unwrap_or(0);
        self.traffic.refused = failed + repeated;
        self.traffic.refused > 0
    }

    /// Returns the measured rate, unless nothing was answered.
    fn found(&mut self, rate: f64) -> Result<f64, Failure> {
        let traffic = &self.traffic;
        if rate > 0.0 {
            return Ok(rate);
        }
        if self.fails_fast {
            Err(self.failed())
        } else {
            // The run shows how the system fails, at the rate of its failures.
            let seconds = self.clock.now().max(1) as f64 / 1e9;
            Ok(traffic.requests as f64 / seconds)
        }
    }

    /// Sends samples, `in_flight` at the same time. `None` if interrupted, or ended by failures.
    fn play(&mut self, samples: u64, in_flight: u64) -> Result<Option<ProbeRun>, Failure> {
        let test = self.test(samples, in_flight)?;
        let PlayedTest { logs, failing, .. } = test.play(self.system, self.control, self.title)?;
        if self.control.interrupt.is_some_and(Interrupt::is_asked) {
            return Ok(None);
        }
        if let Some(failing) = failing {
            if self.fails_fast {
                return Err(refused(&failing));
            }
            self.traffic.requests += failing.answers;
            self.traffic.failed += failing.failed;
            return Ok(None);
        }
        let Some(run) = logs.first().and_then(|log| log.runs().last()) else { return Ok(None) };
        let (record, failed) = (&run.record, run.record.failed.len() as u64);
        if record.missing() > 0 {
            let problem = format!(
                "the system left {} of {} unanswered in the {} before the test, and no answer arrived \
                 for {} s",
                record.missing(),
                counted(samples, "sample", "samples"),
                self.title,
                self.deadline_ms() / 1000
            );
            return Err(Failure::set_up(problem).hint("check the system, or raise --deadline"));
        }
        self.traffic.requests += samples;
        self.traffic.failed += failed;
        self.traffic.most_in_flight = self.traffic.most_in_flight.max(in_flight.min(samples));
        if let Some(rejection) = self.rejection().filter(|_| self.fails_fast) {
            return Err(rejection);
        }
        let summary::Probe { requests, failed: all_failed, .. } = self.traffic;
        let is_all = requests >= dyno_loadgen::drive::real::FIRST_ANSWERS && all_failed == requests;
        let is_most = requests >= ENOUGH_ANSWERS && 2 * all_failed > requests;
        if self.fails_fast && !self.system.is_simulated() && (is_all || is_most) {
            return Err(self.failed());
        }
        let took = record.completed_at.iter().copied().max().unwrap_or(0).max(1);
        let answered = (record.completed_at.len() as u64).saturating_sub(failed);
        Ok(Some(ProbeRun { took, answered }))
    }

    /// Returns the failure of a server that rejected each request so far, such as for a missing token;
    /// `None` if it did not. The test would show the same.
    fn rejection(&self) -> Option<Failure> {
        let summary::Probe { requests, failed, .. } = self.traffic;
        let seen = self.system.remote()?.seen().since(self.before.as_ref()?);
        let mut troubles = seen.troubles.into_iter().filter(|(_, (samples, _))| *samples > 0);
        let (kind, (_, words)) = troubles.next()?;
        let is_only = kind == Kind::Request && troubles.next().is_none();
        // A server that rejects one prompt, such as one that is too long, may answer others.
        (requests > 1 && failed == requests && is_only).then(|| {
            Failure::set_up(format!("the system rejects each request before the test: {words}"))
                .hint(explained(kind, &words).1)
                .hint("--fail-fast off continues despite failures")
        })
    }

    fn failed(&self) -> Failure {
        let summary::Probe { requests, failed, .. } = self.traffic;
        let words = self.system.words_of_failure(self.before.as_ref());
        refused(&Failing { window: "first".into(), failed, answers: requests, words })
    }

    fn deadline_ms(&self) -> u64 {
        self.options.run.deadline.map_or(DEADLINE_MS, |ns| ns.div_ceil(MILLISECOND))
    }

    fn test(&self, samples: u64, in_flight: u64) -> Result<PlannedTest, Failure> {
        let remote = self.system.remote();
        let sessions = remote.and_then(Remote::sessions).unwrap_or(u64::MAX);
        let (is_remote, in_flight) = (remote.is_some(), in_flight.min(sessions));
        let scenario = if is_remote { Scenario::Server } else { Scenario::Offline };
        let mut settings = TestSettings {
            scenario,
            mode: TestMode::PerformanceOnly,
            min_duration_ms: 0,
            min_query_count: samples,
            response_deadline_ms: self.deadline_ms(),
            ..TestSettings::default()
        };
        if is_remote {
            let most = u32::try_from(in_flight).unwrap_or(u32::MAX);
            settings.server_arrivals = Arrivals::Concurrency(most);
            settings.max_query_count = samples;
            settings.early_stopping = EarlyStopping::Never;
        }
        let mut plan =
            Plan::resolve(&settings, self.system.library_size()).map_err(Failure::usage)?;
        if let Some(remote) = remote {
            plan = remote.with_sessions(plan).map_err(Failure::usage)?;
        }
        let tenant =
            TestTenant { name: None, settings: settings.into(), plan, messages: Vec::new() };
        Ok(PlannedTest {
            scenario,
            mode: TestMode::PerformanceOnly,
            tenants: vec![tenant],
            keep: RecordRetention::Results,
            fails_fast: self.options.fails_fast(),
            stops_saturated: false,
            reads_metrics: false,
        })
    }
}

fn refused(failing: &Failing) -> Failure {
    Failure::set_up(format!("the system failed a first probe: {}", failing.sentence()))
        .hint("check the system and its requests; --fail-fast off continues despite failures")
}
