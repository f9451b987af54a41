//! Plays one test, observes it from a second thread, and ends it on Ctrl-C.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::Scope;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, WallTime};
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::sim::{View, VirtualTime};
use dyno_loadgen::plan::Load;
use dyno_loadgen::run::{self, Tenant, TestLog};
use dyno_loadgen::saturation::SaturationDetector;
use dyno_loadgen::settings::{Arrivals, TestMode};
use dyno_results::summary::{Failing, SaturationFinding};

use crate::failure::Failure;
use crate::goals::Goals;
use crate::observe::servers::{ServerObservation, ServerObserver};
use crate::observe::{Heart, Observation};
use crate::system::System;
use crate::system::net::Remote;
use crate::test::{PlannedTest, TestTenant};
use crate::watch::Control;
use crate::workers::RemoteWorkers;

/// Logs and observations of a test.
#[derive(Debug, Default)]
pub struct PlayedTest {
    /// One entry per tenant.
    pub logs: Vec<TestLog>,
    /// The failures that ended the test early.
    pub failing: Option<Failing>,
    /// The over-saturation that ended the test early.
    pub saturated: Option<SaturationFinding>,
    /// Observation of this process; `None` if it issued nothing, or in virtual time.
    pub observation: Option<Observation>,
    /// Observation of servers; `None` if there are none, or remote workers issue the load.
    pub servers: Option<ServerObservation>,
}

/// Interval at which progress and Ctrl-C are checked. It is long enough for machines with two
/// cores.
const GLANCE: Duration = Duration::from_millis(200);

/// Start time of simulated tests, so that equal seeds give equal bytes.
const VIRTUAL_ORIGIN: WallTime = WallTime { unix_ns: 0 };

impl PlannedTest {
    /// Plays the test to its end or an interrupt. `title` is its display name.
    ///
    /// # Errors
    /// The system cannot be started.
    pub fn play(
        &self,
        system: &System,
        control: Control<'_>,
        title: &str,
    ) -> Result<PlayedTest, Failure> {
        let tenants: Vec<Tenant<'_>> = self
            .tenants
            .iter()
            .map(|tenant| Tenant {
                settings: tenant.settings.clone(),
                plan: tenant.plan.clone(),
                library: &*system.library,
                messages: tenant.messages.clone(),
            })
            .collect();
        control.watch.begin(title, Goals::from_test(self, system.is_simulated()));
        let played = if system.is_simulated() {
            let logs = self.play_virtual_time(system, &tenants, control);
            PlayedTest { logs, ..PlayedTest::default() }
        } else if let Some(workers) = &system.remote_workers {
            self.play_on_workers(system, workers, control)?
        } else {
            self.play_real_time(system, &tenants, control)?
        };
        control.watch.clear();
        Ok(played)
    }

    fn play_virtual_time(
        &self,
        system: &System,
        tenants: &[Tenant<'_>],
        control: Control<'_>,
    ) -> Vec<TestLog> {
        let (clock, is_shown) = (Clock::start(), control.watch.wants_glances());
        let mut next_glance = 0;
        let mut look_on = |view: &mut View<'_>| {
            let now = clock.now();
            if is_shown && now >= next_glance {
                next_glance = now + GLANCE.as_nanos() as Nanos;
                control.watch.saw(Some(&view.glance()));
            }
            if control.ends(view.now()) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let mut simulated = system.simulated(&tenants[0].plan);
        let mut driver = VirtualTime::new(&mut *simulated, VIRTUAL_ORIGIN).observer(&mut look_on);
        run::run(&mut driver, tenants, self.keep, &mut |beginning| {
            self.announce(&beginning, control);
        })
    }

    /// Plays the test in real time on remote workers.
    fn play_on_workers(
        &self,
        system: &System,
        remote: &RemoteWorkers,
        control: Control<'_>,
    ) -> Result<PlayedTest, Failure> {
        let interrupted = || Failure::interrupted("interrupted before all workers had joined");
        let coordinator = remote.coordinator(&*system.library, control)?.ok_or_else(interrupted)?;
        let library = coordinator.library(&*system.library);
        let tenants: Vec<Tenant<'_>> = self
            .tenants
            .iter()
            .map(|tenant| Tenant {
                settings: tenant.settings.clone(),
                plan: tenant.plan.clone(),
                library: &library,
                messages: tenant.messages.clone(),
            })
            .collect();
        let settings = self.tenants.iter().map(|tenant| tenant.settings.values.clone()).collect();
        let about = (system.engine_name(), system.library_size());
        let mut driver = coordinator.begin(about, self.scenario, settings);
        let logs = std::thread::scope(|scope| -> Result<_, Failure> {
            let (running, is_over) = mpsc::channel::<()>();
            let mut saw = || control.watch.saw(Some(&coordinator.glance()));
            let is_shown = control.watch.wants_glances();
            start(scope, move || {
                look_on(
                    &|| coordinator.abort(),
                    is_shown.then_some(&mut saw as &mut dyn FnMut()),
                    &is_over,
                    control,
                );
            })?;
            let announce = &mut |beginning: run::RunStart<'_>| self.announce(&beginning, control);
            let logs = run::run(&mut driver, &tenants, self.keep, announce);
            drop(running);
            Ok(logs)
        })?;
        let failing = coordinator.failing().map(|(found, words)| Failing::new(found, words));
        Ok(PlayedTest { logs, failing, ..PlayedTest::default() })
    }

    fn play_real_time(
        &self,
        system: &System,
        tenants: &[Tenant<'_>],
        control: Control<'_>,
    ) -> Result<PlayedTest, Failure> {
        let before = system.remote().map(Remote::seen);
        let heart = Heart::begin();
        let saturated = Mutex::new(None);
        let mut detector = self.can_saturate().then(SaturationDetector::default);
        let mut driver = RealTime::new(system.real_time(self.scenario, &|| !control.ends(0))?)
            .announce(heart.announce());
        let remote = system.remote().filter(|_| self.reads_metrics);
        let servers = remote.map(|remote| ServerObserver::begin(remote, heart.clock()));
        let ramp = self.ramp();
        let monitor = driver.monitor();
        let watched = monitor.clone();
        let logs = std::thread::scope(|scope| -> Result<_, Failure> {
            // Dropping `running` at the end of the test ends the observing thread.
            let (running, is_over) = mpsc::channel::<()>();
            // The onlooker must exist before the run begins, otherwise the run does not record for
            // it.
            let is_shown = control.watch.wants_glances();
            let is_seen = is_shown || detector.is_some();
            let mut onlooker = is_seen.then(|| monitor.observer());
            let (servers, saturated) = (servers.as_ref(), &saturated);
            start(scope, move || {
                let mut saw = onlooker.as_mut().map(|onlooker| {
                    || {
                        let glance = onlooker.glance();
                        let is_measured = glance.as_ref().is_some_and(|glance| glance.now >= ramp);
                        let found = detector.as_mut().zip(glance.as_ref().filter(|_| is_measured));
                        if let Some(found) = found.and_then(|(of, glance)| of.look(glance)) {
                            *lock(saturated) = Some(found);
                            watched.abort();
                            detector = None;
                        }
                        if is_shown {
                            if let Some(servers) = servers {
                                control.watch.servers(&servers.words());
                            }
                            control.watch.saw(glance.as_ref());
                        }
                    }
                });
                let saw = saw.as_mut().map(|saw| saw as &mut dyn FnMut());
                look_on(&|| watched.abort(), saw, &is_over, control);
            })?;
            let announce = &mut |beginning: run::RunStart<'_>| {
                self.announce(&beginning, control);
                monitor.fail_fast(self.fails_fast && self.is_first_load(&beginning));
            };
            let logs = run::run(&mut driver, tenants, self.keep, announce);
            drop(running);
            Ok(logs)
        })?;
        if let Some(breach) = system.breach() {
            return Err(Failure::aborted(breach));
        }
        let words = || system.words_of_failure(before.as_ref());
        let failing = monitor.failing().map(|found| Failing::new(found, words()));
        let saturated = lock(&saturated).take().filter(|_| failing.is_none() && !control.ends(0));
        Ok(PlayedTest {
            logs,
            failing,
            saturated: saturated.map(SaturationFinding::from),
            observation: Some(heart.end(ramp)),
            servers: servers.map(ServerObserver::end),
        })
    }

    /// Returns whether the test is a single run at one rate that over-saturation ends.
    pub(crate) fn can_saturate(&self) -> bool {
        self.stops_saturated && self.repetition_runs() == 1 && self.has_one_rate()
    }

    /// Returns whether the test measures at one rate. Stages and recorded times change the rate during
    /// the run, so that a growing queue shows nothing.
    pub(crate) fn has_one_rate(&self) -> bool {
        let has_rate = |tenant: &TestTenant| match &tenant.plan.load {
            Load::Server(server) => {
                !matches!(server.arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_))
            }
            _ => false,
        };
        self.mode == TestMode::PerformanceOnly && self.tenants.iter().all(has_rate)
    }

    /// Returns whether a run has the requested load. At further loads that a search or a repetition
    /// tries, it is a valid result that the system fails most answers.
    fn is_first_load(&self, beginning: &run::RunStart<'_>) -> bool {
        let tries_loads = self.mode == TestMode::FindPeakPerformance || self.repetition_runs() > 1;
        beginning.run == 1 || !tries_loads
    }

    /// Announces a run of a test with several runs, such as a search or a repetition.
    fn announce(&self, beginning: &run::RunStart<'_>, control: Control<'_>) {
        let is_one_of_many =
            self.mode == TestMode::FindPeakPerformance || self.repetition_runs() > 1;
        if is_one_of_many {
            let (plan, run) = (beginning.plan, beginning.run);
            control.watch.remark(&match plan.interval() {
                Some(_) => format!("run {run} with {} streams", plan.samples_per_query),
                None => format!("run {run} at {:.1}/s", plan.target_qps),
            });
        }
    }
}

fn lock<T>(found: &Mutex<T>) -> MutexGuard<'_, T> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread of a scope.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Failure> {
    let started = std::thread::Builder::new().spawn_scoped(scope, work);
    started.map(drop).map_err(|error| {
        Failure::set_up(format!("cannot start a thread: {error}")).hint(
            "raise the limits of processes and memory (ulimit -u, ulimit -v), or end other \
             programs",
        )
    })
}

fn look_on(
    abort: &dyn Fn(),
    mut saw: Option<&mut dyn FnMut()>,
    is_over: &mpsc::Receiver<()>,
    control: Control<'_>,
) {
    let clock = Clock::start();
    let next = || match control.most.map(|most| Duration::from_nanos(most - clock.now().min(most)))
    {
        Some(left) if !left.is_zero() => GLANCE.min(left),
        _ => GLANCE,
    };
    while is_over.recv_timeout(next()) == Err(mpsc::RecvTimeoutError::Timeout) {
        if control.ends(clock.now()) {
            abort();
        }
        if let Some(saw) = &mut saw {
            saw();
        }
    }
}
