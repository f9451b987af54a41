//! Plays one test, watches it from a second thread, and ends it on Ctrl-C.

use std::sync::mpsc;
use std::time::Duration;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::real::{Monitor, RealTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::{self, Message, Tenant, TestLog};
use dyno_loadgen::settings::{Scenario, Settings, TestMode};

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::system::System;

/// One test: what is measured of a system in one go.
#[derive(Debug, Clone)]
pub struct Test {
    /// Of all tenants.
    pub scenario: Scenario,
    /// Of all tenants.
    pub mode: TestMode,
    /// At least one.
    pub tenants: Vec<TestTenant>,
}

/// One tenant's part of a test.
#[derive(Debug, Clone)]
pub struct TestTenant {
    /// None if it is the only one and has no name.
    pub name: Option<String>,
    /// What was asked for.
    pub settings: Settings,
    /// What that means.
    pub plan: Plan,
    /// What the log is told of the settings.
    pub messages: Vec<Message>,
}

/// Who looks on.
#[derive(Debug, Clone, Copy)]
pub struct Watch<'a> {
    /// Shows how far the test is.
    pub progress: &'a Progress,
    /// Ends the test.
    pub interrupt: Option<&'a Interrupt>,
}

/// How often progress and Ctrl-C are looked at. Seldom enough for two cores.
const GLANCE: Duration = Duration::from_millis(250);

/// Simulated tests begin at this time, so that the same seed gives the same bytes.
const VIRTUAL_ORIGIN: WallTime = WallTime { unix_ns: 0 };

impl Test {
    /// Such as `Server performance`.
    pub fn title(&self) -> String {
        format!("{} {}", self.scenario, mode_name(self.mode))
    }

    /// About how long it lasts, ns. An accuracy run's length is the system's secret.
    pub fn expected(&self) -> Nanos {
        let of = |tenant: &TestTenant| match (self.mode, self.scenario) {
            (TestMode::AccuracyOnly, _) => 0,
            _ => tenant.plan.min_duration,
        };
        self.tenants.iter().map(of).max().unwrap_or(0)
    }

    /// Plays it to its end, or to an interrupt, under this title.
    ///
    /// A simulated test is not interrupted: virtual time is soon over.
    ///
    /// # Errors
    /// If the system cannot be started.
    pub fn play(
        &self,
        system: &System,
        watch: Watch<'_>,
        title: &str,
    ) -> Result<Vec<TestLog>, Failure> {
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
        watch.progress.begin(title);
        let logs = if system.is_simulated() {
            let mut simulated = system.simulated(self.scenario);
            let mut driver = VirtualTime::new(&mut *simulated, VIRTUAL_ORIGIN);
            run::run(&mut driver, &tenants, &mut |_| {})
        } else {
            self.play_real_time(system, &tenants, watch, title)?
        };
        watch.progress.clear();
        Ok(logs)
    }

    fn play_real_time(
        &self,
        system: &System,
        tenants: &[Tenant<'_>],
        watch: Watch<'_>,
        title: &str,
    ) -> Result<Vec<TestLog>, Failure> {
        let mut driver = RealTime::new(system.real_time(self.scenario)?);
        let monitor = driver.monitor();
        let expected = self.expected();
        Ok(std::thread::scope(|scope| {
            // Dropped when the test is over, which ends the watching thread.
            let (running, is_over) = mpsc::channel::<()>();
            scope.spawn(move || look_on(&monitor, &is_over, watch, expected));
            let mut announce = |beginning: run::Beginning<'_>| {
                if self.mode == TestMode::FindPeakPerformance {
                    let qps = beginning.plan.target_qps;
                    let title = format!("{title}, run {} at {qps:.1}/s", beginning.run);
                    watch.progress.begin(&title);
                }
            };
            let logs = run::run(&mut driver, tenants, &mut announce);
            drop(running);
            logs
        }))
    }
}

fn look_on(monitor: &Monitor, is_over: &mpsc::Receiver<()>, watch: Watch<'_>, expected: Nanos) {
    while is_over.recv_timeout(GLANCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        if watch.interrupt.is_some_and(Interrupt::is_asked) {
            monitor.abort();
        }
        watch.progress.draw(monitor.progress(), expected);
    }
}

/// As people say it.
pub fn mode_name(mode: TestMode) -> &'static str {
    match mode {
        TestMode::SubmissionRun => "both",
        TestMode::AccuracyOnly => "accuracy",
        TestMode::PerformanceOnly => "performance",
        TestMode::FindPeakPerformance => "peak",
    }
}
