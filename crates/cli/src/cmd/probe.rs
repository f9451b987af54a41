//! `dyno probe`: probes a system with a few queries and shows what it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use clap::{ArgAction, Args};
use dyno_experiment::options::CommandLine;
use dyno_experiment::probe::{self, Probe};
use dyno_experiment::run::PreparedRun;
use dyno_experiment::test::{PlannedTest, TestTenant};
use dyno_experiment::{Control, Failure, Watch};
use dyno_loadgen::clock::{Clock, MILLISECOND, SECOND};
use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Origin, Scenario, TestMode};
use dyno_results::write::pretty;

use crate::cmd::keys::KeyArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::output;
use crate::progress::Progress;

/// Flags of `dyno probe`; those of `dyno run` say what is asked of which system.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ProbeCommand {
    /// What to measure instead of --system: a server (http://localhost:8000), an ONNX file
    /// (model.onnx), or a system (dyno info systems). Dyno identifies the kind of server with a
    /// request. Keys may follow, as in http://localhost:8000,model=NAME
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Configuration file dyno.toml; dyno init writes one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Set any setting: key=value, or Scenario.key=value for one scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    set: Vec<String>,
    /// Number of queries; the first one may find a cold system
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    queries: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Shows whether a system answers, with what, and how fast; this is not a measurement. Without
--scenario the queries are those of SingleStream: one sample, one at a time.
Exit codes: 0 it answers, 1 it fails or breaks the protocol, 2 usage, 3 set-up (also a server
that cannot be reached, or does not answer the requests before the queries), 4 no answer to a
query within --deadline (60 s), 130 interrupted.";

/// Flags of `dyno run` that have no effect here.
const MEANINGLESS: [&str; 19] = [
    "mode",
    "profile",
    "duration",
    "num-prompts",
    "stages",
    "ramp",
    "require",
    "goodput",
    "percentile-metrics",
    "metric-percentiles",
    "fail-fast",
    "stop-on-saturation",
    "accuracy-target",
    "audit",
    "out",
    "name",
    "trace-log",
    "texts",
    "records",
];

/// Flags of `dyno run` that only have an effect in the scenario Server.
const OF_SERVER: [&str; 3] = ["qps", "max-concurrency", "burstiness"];

impl ProbeCommand {
    /// Sends the queries and prints the results.
    ///
    /// # Errors
    /// The system cannot be loaded.
    pub fn execute(mut self) -> Result<Exit, Failure> {
        let given = self.keys.given.0.iter().map(|(key, _)| key.name);
        if let Some(name) = given.into_iter().find(|name| MEANINGLESS.contains(name)) {
            let hint = if name == "num-prompts" {
                "use --queries N, or measure with dyno run"
            } else {
                "remove it, or measure with dyno run"
            };
            let problem = format!("--{name} has no effect in dyno probe");
            return Err(Failure::usage(problem).hint(hint));
        }
        let mut line = CommandLine {
            config: self.config.clone(),
            set: self.set.clone(),
            keys: self.keys.given.clone(),
            is_dry: false,
        };
        self.keys.add_target(self.target.as_deref(), &line, !self.json)?;
        line.keys = self.keys.given.clone();
        let clock = Clock::start();
        let prepared = PreparedRun::new(&line, &output::console())?;
        let load_ns = clock.now();
        let scenario = match prepared.options.run.scenarios[..] {
            [] => Scenario::SingleStream,
            [one] => one,
            _ => {
                return Err(Failure::usage("expected one scenario, found several")
                    .hint("select one with --scenario"));
            }
        };
        let given = self.keys.given.0.iter().map(|(key, _)| key.name);
        let is_ignored = |name: &&str| scenario != Scenario::Server && OF_SERVER.contains(name);
        if let Some(name) = given.into_iter().find(is_ignored) {
            let problem = format!("--{name} has no effect: it belongs to Server");
            return Err(Failure::usage(problem).hint("add --scenario server, or remove it"));
        }
        let test = self.test(&prepared, scenario)?;
        let deadline_ns = test.tenants[0].plan.response_deadline;
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        let watched: Arc<dyn Watch> = Arc::new(Progress::new(true));
        let control = Control { watch: &watched, interrupt: Some(&interrupt), most: None };
        let hang =
            if prepared.system.is_simulated() { None } else { Some(watch_for_hang(deadline_ns)?) };
        let log = test.play(&prepared.system, control, "probe")?.logs.swap_remove(0);
        drop(hang);
        if interrupt.is_asked() {
            return Ok(Exit::Interrupted);
        }
        let run = log.runs().last().expect("a test has a run");
        let probe =
            Probe::from_record(&prepared.system, scenario, load_ns, deadline_ns, &run.record);
        if self.json {
            output::print(pretty(&probe))?;
        } else {
            output::show(probe::text(&probe))?;
        }
        Ok(match &probe {
            _ if probe.is_missing_any() => Exit::Aborted,
            _ if probe.is_well => Exit::Valid,
            _ => Exit::Invalid,
        })
    }

    /// Returns a test of that many queries at the pace of the scenario, which keeps every answer.
    fn test(&self, prepared: &PreparedRun, scenario: Scenario) -> Result<PlannedTest, Failure> {
        let PreparedRun { options, system, .. } = prepared;
        let mode = TestMode::PerformanceOnly;
        let mut settings = options.settings(scenario, mode, None);
        let queries = self.queries.to_string();
        let tokens = system.reports_tokens();
        for (key, value) in [
            ("min_duration_ms", "0"),
            ("min_query_count", queries.as_str()),
            ("max_query_count", queries.as_str()),
            ("repetition", "once"),
            ("accuracy_log_sampling_target", "0"),
            ("accuracy_log_probability", "1"),
            ("use_token_latencies", "true"),
        ] {
            if key != "use_token_latencies" || tokens {
                let set = settings.set(key, value, Origin::Code("dyno probe"));
                set.expect("these settings read");
            }
        }
        let messages = options.complete(&mut settings);
        let plan = Plan::resolve(&settings.values, system.library_size())
            .map_err(|errors| Failure::usage(errors.describe(&settings)))?;
        let tenant = TestTenant { name: None, settings, plan, messages };
        let (tenants, keep) = (vec![tenant], RecordRetention::Results);
        // A probe shows each answer, even if all of them failed.
        Ok(PlannedTest {
            scenario,
            mode,
            tenants,
            keep,
            fails_fast: false,
            stops_saturated: false,
            reads_metrics: false,
        })
    }
}

/// Time beyond the deadline after which a blocked process ends itself, ns.
const PATIENCE: u64 = 5 * SECOND;

/// Ends the process if the system never returns from a call. Drop the sender to cancel.
///
/// # Errors
/// The system starts no further thread.
#[expect(clippy::exit, reason = "the thread that would return is the one that hangs")]
fn watch_for_hang(deadline_ns: u64) -> Result<mpsc::Sender<()>, Failure> {
    let (alive, is_over) = mpsc::channel();
    let patience = Duration::from_nanos(deadline_ns.saturating_add(PATIENCE));
    let watch = move || {
        if is_over.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            let ms = deadline_ns / MILLISECOND;
            output::say(format_args!("error: a call of the system did not return within {ms} ms"));
            dyno_experiment::permit_exit();
            dyno_experiment::end_programs();
            std::process::exit(Exit::Aborted.code().into());
        }
    };
    match std::thread::Builder::new().spawn(watch) {
        Ok(_) => Ok(alive),
        Err(error) => Err(Failure::set_up(format!("cannot start a thread: {error}"))),
    }
}
