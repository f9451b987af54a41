//! Runs with workers that lag, lie or die, over loopback.
//!
//! What is expected comes from the documentation: a run with honest workers has the record of a
//! single client; a lost worker ends the run with a reason, and the run is not VALID; a record that
//! contradicts itself or the plan is not accepted. No run hangs or panics.

pub mod case;
pub mod lie;
pub mod relay;
pub mod rig;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND, WallTime};
use dyno_loadgen::drive::Driver;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::log::{Report, reports};
use dyno_loadgen::plan::Plan;
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::run::{RecordRetention, RunLog, Tenant, TestLog, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::TestSettings;
use dyno_net::worker::coordinator::{ListenSettings, WorkerListener};
use dyno_net::worker::member::{JoinSettings, Member};

pub use case::{Case, Trouble};

use crate::oracle::Finding;
use crate::rng::Stream;
use rig::{ByIndex, Numbers, SIZE, TroubledRig};

/// Time without a message after which a worker is lost.
const SILENCE: Nanos = 600 * MILLISECOND;

/// A run that takes longer than this hangs. Lost workers may be waited for 20 s.
const HANGS: Nanos = 40 * SECOND;

const RELEASE: &str = "1.2.3";
const TOKEN: &str = "token of a simulation";

/// How a run with workers ended.
#[derive(Debug)]
pub enum RunEnd {
    /// A worker was lost before the run.
    BeforeTheRun,
    /// The run was played.
    Played {
        /// Log of the test.
        log: Box<TestLog>,
        /// Whether a worker is lost.
        has_lost: bool,
    },
}

/// A run with workers that was played.
#[derive(Debug)]
pub struct WorkersRun {
    /// How it ended.
    pub ended: RunEnd,
    /// Whether a worker altered its record.
    pub lied: bool,
    /// Whether a worker left, or its connection was ended.
    pub died: bool,
    /// How long it took, ns.
    pub took: Nanos,
}

/// Plays a case.
///
/// # Errors
/// A socket cannot be bound.
pub fn play(case: &Case) -> Result<WorkersRun, String> {
    let clock = Clock::start();
    let listening = WorkerListener::begin(ListenSettings {
        address: "127.0.0.1:0".into(),
        workers: case.workers,
        token: TOKEN.into(),
        machine: None,
        release: RELEASE.into(),
        silence: SILENCE,
    })
    .map_err(|error| error.to_string())?;
    let mut draw = Stream::new(case.details, 0, 72);
    let troubled = draw.below(case.workers.into()) as u32;
    let lied = Arc::new(AtomicBool::new(false));
    let (mut died, mut threads) = (Vec::new(), Vec::new());
    for number in 0..case.workers {
        let trouble = if number == troubled { case.trouble } else { Trouble::Honest };
        let leaves = Arc::new(AtomicBool::new(false));
        died.push(leaves.clone());
        let address = match ending(trouble) {
            Some(ending) => {
                let after = draw.log_uniform(1.0, 60_000.0) as u64;
                let relay = relay::start(listening.address(), after, ending);
                let (address, has_ended) = relay.map_err(|error| error.to_string())?;
                died.push(has_ended);
                address
            }
            None => listening.address(),
        };
        let rig = TroubledRig {
            trouble,
            details: case.details,
            fails: fails(case),
            leaves,
            lied: lied.clone(),
        };
        threads.push(std::thread::spawn(move || work(address, rig)));
    }
    // A worker that is cut before it joins never joins.
    let is_dead = || died.iter().any(|flag| flag.load(Ordering::SeqCst));
    let goes_on = || !is_dead() && clock.now() < HANGS;
    let ended = coordinate(listening, case, &goes_on);
    let took = clock.now();
    for thread in threads {
        thread.join().map_err(|_| "a worker panicked")?;
    }
    Ok(WorkersRun { ended, lied: lied.load(Ordering::SeqCst), died: is_dead(), took })
}

fn ending(trouble: Trouble) -> Option<relay::Ending> {
    match trouble {
        Trouble::Cut => Some(relay::Ending::Cut),
        Trouble::Silent => Some(relay::Ending::Silent),
        _ => None,
    }
}

/// Returns whether samples of a case fail. Failures make a run INVALID, which would hide that a
/// record is not accepted.
fn fails(case: &Case) -> bool {
    !case.trouble.is_lie() && case.details.is_multiple_of(3)
}

fn work(address: SocketAddr, mut rig: TroubledRig) {
    let join = JoinSettings {
        address: address.to_string(),
        token: TOKEN.into(),
        machine: None,
        release: RELEASE.into(),
        name: "a thread".into(),
        seat: 0,
    };
    let leaves = rig.leaves.clone();
    let goes_on = move || !leaves.load(Ordering::Relaxed);
    // A worker that cannot join or is lost is part of the case.
    let _ = Member::join(&join).and_then(|member| member.serve(&mut rig, &goes_on));
}

fn coordinate(
    listening: WorkerListener,
    case: &Case,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> RunEnd {
    let Ok(coordinator) = listening.gather(goes_on, &mut |_| {}) else {
        return RunEnd::BeforeTheRun;
    };
    if coordinator.set_up(&[], goes_on).is_err() {
        return RunEnd::BeforeTheRun;
    }
    let library = coordinator.library(&Numbers);
    let settings = vec![case.settings.clone()];
    let mut driver = coordinator.begin(("by index", SIZE), case.settings.scenario, settings);
    let log = run_test(&mut driver, &case.settings, &library);
    let has_lost = coordinator.lost().is_some();
    RunEnd::Played { log: Box::new(log), has_lost }
}

fn run_test(
    driver: &mut dyn Driver,
    settings: &TestSettings,
    library: &dyn SampleLibrary,
) -> TestLog {
    let plan = Plan::resolve(settings, SIZE).expect("Dyno accepts the settings of the cases");
    let tenant = Tenant { settings: settings.clone().into(), plan, library, messages: Vec::new() };
    run(driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0)
}

/// Returns the run of a single client.
fn single_client(case: &Case) -> TestLog {
    let mut system = ByIndex::new(fails(case));
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    run_test(&mut driver, &case.settings, &Numbers)
}

fn last_run(log: &TestLog) -> Option<&RunLog> {
    log.runs().last()
}

/// Returns the contradictions of a run with what the documentation promises.
#[must_use]
pub fn judge(case: &Case, played: &WorkersRun) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |field, expected: &str, reported: String, rule| {
        findings.push(Finding { field, expected: expected.into(), reported, rule });
    };
    if played.took > HANGS {
        let took = format!("{} s", played.took / SECOND);
        add("duration", "an end", took, "a lost worker ends the run with a reason");
    }
    let RunEnd::Played { log, has_lost } = &played.ended else {
        if !played.died {
            let reported = "the workers were not gathered".into();
            add("workers", "a run", reported, "workers that live take part");
        }
        return findings;
    };
    let is_valid = reports(log).iter().all(Report::is_valid);
    let ended = last_run(log).map(|run| run.ended);
    let is_lost = matches!(ended, Some(EndReason::Lost { .. }));
    if *has_lost && (is_valid || !is_lost && ended.is_some()) {
        let reported = format!("valid: {is_valid}, ended {ended:?}");
        add("end", "Lost and INVALID", reported, "a run that lost a worker is INVALID");
    }
    if played.lied && case.trouble.is_noticed() && is_valid {
        let reported = format!("VALID, ended {ended:?}");
        add("verdict", "INVALID", reported, "a record that contradicts the plan is not accepted");
    }
    if !played.lied && !played.died {
        let expected = single_client(case);
        let same =
            last_run(&expected).map(|run| &run.record) == last_run(log).map(|run| &run.record);
        let was_valid = reports(&expected).iter().all(Report::is_valid);
        if !same || was_valid != is_valid {
            let reported = format!("same record: {same}, valid: {is_valid}, ended {ended:?}");
            let rule = "honest workers measure what a single client measures";
            add("record", "that of a single client", reported, rule);
        }
    }
    findings
}

/// Plays and judges a case. A panic is a finding.
#[must_use]
pub fn check(case: &Case) -> Vec<Finding> {
    let outcome = std::panic::catch_unwind(|| play(case).map(|played| judge(case, &played)));
    let finding = |reported: String| Finding {
        field: "process",
        expected: "a result".into(),
        reported,
        rule: "no worker ends the process of its coordinator",
    };
    match outcome {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => vec![finding(error)],
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            vec![finding(format!("panic: {text}"))]
        }
    }
}
