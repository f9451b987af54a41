//! `dyno run`: the tests of a run one after the other, its directory, and what
//! is said of it.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use dyno_loadgen::clock::WallTime;
use dyno_loadgen::log::{expected_bytes, reports};
use dyno_loadgen::plan::Plan;
use dyno_loadgen::settings::{Origin, Scenario, TestMode};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::measure::{Test, TestTenant, Watch};
use crate::options::{CommandLine, GivenKeys, Options, TenantTable, is_open};
use crate::outcome::{Outcome, State, log_folder};
use crate::progress::Progress;
use crate::run_directory::{Finished, RunDirectory};
use crate::summary;
use crate::system::System;
use crate::{environment, probe, render, report};

/// Flags that only the command line has; the others are keys of dyno.toml, too.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    /// A dyno.toml; `dyno init` writes one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keys: GivenKeys,
    /// Set any setting: key=value, or Scenario.key=value for one scenario
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    set: Vec<String>,
    /// Print the plan and how long it takes, and stop
    #[arg(long)]
    dry_run: bool,
    /// Print summary.json on stdout instead of the summary
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Tell every setting that differs from its default
    #[arg(short, long)]
    verbose: bool,
    /// No progress line on stderr
    #[arg(long)]
    no_progress: bool,
}

const AFTER_HELP: &str = "\
Every setting is a flag, too: --settings.server_target_qps 100 (dyno info settings lists them).
Precedence: flags, environment (DYNO_SETTINGS_SERVER_TARGET_QPS=100), dyno.toml, user.conf,
profile, built-in table, defaults; an audit.config overrides them all.
Exit codes: 0 valid, 1 invalid, 2 usage, 3 set-up, 4 aborted, 130 interrupted.
Results are not official MLPerf results.";

impl Run {
    /// Runs everything.
    ///
    /// # Errors
    /// Whatever keeps the run from beginning, and results that cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let command_line = CommandLine {
            config: self.config.clone(),
            set: self.set.clone(),
            keys: self.keys.clone(),
        };
        // Values that are no text name no setting.
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let options = Options::read(&command_line, variables)?;
        for warning in &options.warnings {
            eprintln!("warning: {warning}");
        }
        let system = System::load(&options.run)?;
        if self.dry_run {
            let tests = tests(&options, &system, None)?;
            print!("{}", render::plan(&options, &system, &tests));
            return Ok(Exit::Valid);
        }
        // Everything that does not depend on the probe is refused before it.
        tests(&options, &system, None)?;
        let interrupt = Interrupt::listen().map_err(Failure::set_up)?;
        let progress = Progress::new(!self.no_progress && !self.quiet);
        let watch = Watch { progress: &progress, interrupt: Some(&interrupt) };
        let probed = match needs_probe(&options) {
            true => probe::samples_per_second(&system, &options.run, watch)?,
            false => None,
        };
        if interrupt.is_asked() {
            return Ok(Exit::Interrupted);
        }
        let tests = tests(&options, &system, probed)?;
        self.measure(&options, &system, &tests, watch)
    }

    fn measure(
        &self,
        options: &Options,
        system: &System,
        tests: &[Test],
        watch: Watch<'_>,
    ) -> Result<Exit, Failure> {
        let trace_log = options.run.trace_log;
        let of = |tenant: &TestTenant| expected_bytes(&tenant.plan, trace_log);
        let log_bytes = tests.iter().flat_map(|test| &test.tenants).map(of).sum();
        let name = options.run.name.clone().unwrap_or_else(|| system.short_name().to_string());
        let out = options.run.out.as_deref();
        let mut directory = RunDirectory::create(out, &name, log_bytes, trace_log)?;
        let mut run = summary::Run {
            name,
            system: system.spec.clone(),
            is_virtual: system.is_simulated(),
            profile: options.profile().name(),
            started_at: match system.is_simulated() {
                true => String::new(),
                false => render::utc(WallTime::now()),
            },
            state: State::Complete,
            outcomes: Vec::new(),
            remarks: remarks(options, system),
        };
        if self.verbose {
            eprint!("{}", render::plan(options, system, tests));
        }
        for (number, test) in (1..).zip(tests) {
            let title = format!("{number}/{} {}", tests.len(), test.title());
            play(test, system, watch, &title, &mut directory, &mut run)?;
            if run.state != State::Complete {
                break;
            }
        }
        self.conclude(&run, options, directory)
    }

    fn conclude(
        &self,
        run: &summary::Run,
        options: &Options,
        directory: RunDirectory,
    ) -> Result<Exit, Failure> {
        let mut json = run.to_json();
        let text = |json: &serde_json::Value| format!("{json:#}\n");
        let effective = report::effective_toml(run, options);
        let finished = directory.finish(&[
            ("summary.json", text(&json)),
            ("report.html", report::html(run)),
            ("effective.toml", effective),
        ])?;
        if self.json {
            json["run_directory"] = finished.path.display().to_string().into();
            print!("{}", text(&json));
        } else if !self.quiet {
            print!("{}", render::summary(run, render::is_colored()));
        }
        self.say_where(&finished);
        Ok(exit(run))
    }

    fn say_where(&self, finished: &Finished) {
        if self.quiet {
            return;
        }
        eprintln!("report: {}", finished.path.join("report.html").display());
        for rescued in &finished.rescued {
            eprintln!("warning: results that did not fit are in {}", rescued.display());
        }
    }
}

/// Plays one test and writes its logs.
fn play(
    test: &Test,
    system: &System,
    watch: Watch<'_>,
    title: &str,
    directory: &mut RunDirectory,
    run: &mut summary::Run,
) -> Result<(), Failure> {
    let logs = test.play(system, watch, title)?;
    for (log, tenant) in logs.iter().zip(&test.tenants) {
        let reports = reports(log);
        let name = tenant.name.as_deref();
        directory.write_logs(&log_folder(test, name), log, &reports)?;
        let outcome = Outcome::of(log, &reports, test, system, name);
        if outcome.state != State::Complete && run.state == State::Complete {
            run.state = outcome.state;
        }
        run.outcomes.push(outcome);
    }
    // A signal that came when the test was over still ends the run.
    if watch.interrupt.is_some_and(Interrupt::is_asked) {
        run.state = State::Interrupted;
    }
    Ok(())
}

fn exit(run: &summary::Run) -> Exit {
    match run.state {
        State::Interrupted => Exit::Interrupted,
        State::Aborted => Exit::Aborted,
        State::Complete if run.is_valid() => Exit::Valid,
        State::Complete => Exit::Invalid,
    }
}

/// What readers must know of the run as a whole. In virtual time nothing of the
/// machine matters, and the same seed must give the same bytes.
fn remarks(options: &Options, system: &System) -> Vec<String> {
    let said = [options.profile().remark(), system.remark()];
    let mut remarks: Vec<String> = said.into_iter().flatten().map(str::to_string).collect();
    if system.is_simulated() {
        return remarks;
    }
    if options.scenarios().contains(&Scenario::Server) {
        remarks.push(
            "Server judges the client as well: at the target percentile it may lag by a tenth \
             of the latency bound, or by 1 ms if that is more."
                .into(),
        );
    }
    if cfg!(debug_assertions) {
        remarks.push("This is a debug build; its figures are those of slow code.".into());
    }
    let (load, cores) = (environment::load_average().unwrap_or(0.0), environment::cores());
    if load > cores as f64 {
        remarks.push(format!(
            "This machine was busy before the run began: a load of {load:.1} on {cores} cores."
        ));
    }
    remarks
}

/// Share of the probed throughput at which Server queries arrive.
const SERVER_SHARE: f64 = 0.1;
/// However fast the system is.
const SERVER_QPS_MOST: f64 = 1_000.0;
/// An Offline query must last, even if the probe ran in a slower moment.
const OFFLINE_MARGIN: f64 = 1.5;

/// The key that a probe decides if nobody else does, and its value.
fn probed_setting(scenario: Scenario, probed: Option<f64>) -> Option<(&'static str, Option<f64>)> {
    match scenario {
        Scenario::Server => {
            let qps = probed.map(|rate| two_digits((rate * SERVER_SHARE).min(SERVER_QPS_MOST)));
            Some(("server_target_qps", qps))
        }
        Scenario::Offline => {
            Some(("offline_expected_qps", probed.map(|rate| two_digits(rate * OFFLINE_MARGIN))))
        }
        Scenario::SingleStream | Scenario::MultiStream => None,
    }
}

/// A probe is not exact, and should not look so.
fn two_digits(value: f64) -> f64 {
    let scale = 10_f64.powf(value.log10().floor() - 1.0);
    (value / scale).round() * scale
}

fn needs_probe(options: &Options) -> bool {
    let is_measured = |mode: &TestMode| *mode != TestMode::AccuracyOnly;
    let is_unknown = |scenario: Scenario| {
        let settings = options.settings(scenario, TestMode::PerformanceOnly, None);
        probed_setting(scenario, None).is_some_and(|(key, _)| is_open(&settings, key))
    };
    // Tenants say their rates themselves.
    options.tenants.is_empty()
        && options.modes().iter().any(is_measured)
        && options.scenarios().into_iter().any(is_unknown)
}

/// All tests of the run, in order.
///
/// # Errors
/// Every setting that makes no sense, in any of them.
fn tests(options: &Options, system: &System, probed: Option<f64>) -> Result<Vec<Test>, Failure> {
    let (mut tests, mut problems) = (Vec::<Test>::new(), Vec::new());
    for scenario in options.scenarios() {
        for &mode in options.modes() {
            let tenants: Vec<Option<&TenantTable>> = match &options.tenants[..] {
                [] => vec![None],
                tables => tables.iter().map(Some).collect(),
            };
            let resolved = tenants
                .into_iter()
                .map(|tenant| resolve(options, system, scenario, mode, tenant, probed));
            let (mut resolved_tenants, before) = (Vec::new(), problems.len());
            for tenant in resolved {
                match tenant {
                    Ok(tenant) => resolved_tenants.push(tenant),
                    Err(found) => problems.extend(found),
                }
            }
            if problems.len() > before {
                continue;
            }
            // An audit may force one mode, which makes two tests the same.
            let mode = resolved_tenants[0].plan.mode;
            if tests.iter().all(|test| (test.scenario, test.mode) != (scenario, mode)) {
                tests.push(Test { scenario, mode, tenants: resolved_tenants });
            }
        }
    }
    // The same settings are resolved for each mode.
    let mut seen = std::collections::HashSet::new();
    problems.retain(|problem: &String| seen.insert(problem.clone()));
    if problems.is_empty() { Ok(tests) } else { Err(Failure::usages(problems)) }
}

fn resolve(
    options: &Options,
    system: &System,
    scenario: Scenario,
    mode: TestMode,
    tenant: Option<&TenantTable>,
    probed: Option<f64>,
) -> Result<TestTenant, Vec<String>> {
    let mut settings = options.settings(scenario, mode, tenant);
    if let Some((key, Some(value))) = probed_setting(scenario, probed)
        && is_open(&settings, key)
    {
        let value = match scenario {
            Scenario::Offline => value.min(rate_that_fits(settings.values.min_duration_ms)),
            _ => value,
        };
        let origin = Origin::Code("a short probe before the run");
        settings.set(key, &value.to_string(), origin).expect("a rate is a number");
    }
    let messages = options.complete(&mut settings);
    let plan = Plan::resolve(&settings.values, system.library_size()).map_err(|errors| {
        let of = tenant.map(|tenant| format!(" of tenant {}", tenant.name)).unwrap_or_default();
        let line = |line: &str| format!("{scenario}{of}: {line}");
        errors.describe(&settings).lines().map(line).collect::<Vec<_>>()
    })?;
    check_memory(&plan).map_err(|problem| vec![format!("{scenario}: {problem}")])?;
    let name = tenant.map(|tenant| tenant.name.clone());
    Ok(TestTenant { name, settings, plan, messages })
}

/// A sample's index, stamps and claim, and what is computed of them afterwards;
/// measured at 40 to 50 bytes.
const BYTES_A_SAMPLE: f64 = 50.0;

/// The highest Offline rate whose query takes half of the free memory; nobody
/// chose it, so it gives way.
fn rate_that_fits(min_duration_ms: u64) -> f64 {
    let Some(available) = environment::memory_available() else { return f64::INFINITY };
    let seconds = (min_duration_ms as f64 / 1e3).max(1e-3);
    two_digits(available as f64 / 2.0 / BYTES_A_SAMPLE / (1.1 * seconds))
}

/// Refuses a trace that would exhaust the memory of this machine.
fn check_memory(plan: &Plan) -> Result<(), String> {
    let Some(available) = environment::memory_available() else { return Ok(()) };
    let by_time = plan.target_qps * plan.target_duration as f64 / 1e9;
    let samples = by_time.max(plan.min_query_count as f64) * plan.samples_per_query as f64;
    let needed = samples * BYTES_A_SAMPLE;
    if needed <= available as f64 {
        return Ok(());
    }
    Err(format!(
        "a trace of about {} samples takes {:.1} GB of memory, and {:.1} GB are free; lower the \
         rate, the duration or the counts",
        render::count(samples as u64),
        needed / 1e9,
        available as f64 / 1e9
    ))
}
