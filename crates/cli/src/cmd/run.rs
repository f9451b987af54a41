//! `dyno run`: runs the tests of a run one after the other, writes its directory, and prints
//! the results.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args};
use dyno_experiment::effect::Strictness;
use dyno_experiment::options::{CommandLine, KEYS, Options, read_axis};
use dyno_experiment::run::{MeasuredRun, PreparedRun, variables};
use dyno_experiment::{Control, Failure, Watch};
use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_results::run_directory::check_free;
use dyno_results::write::pretty;

use super::sweep::SweepCommand;
use crate::cmd::keys::KeyArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::console;
use crate::progress::Progress;
use crate::{output, render};

/// `dyno run`, perhaps of a server that is only named by its URL.
#[derive(Debug, Args)]
pub struct RunCommand {
    /// What to measure instead of --system: a server (http://localhost:8000), an ONNX file
    /// (model.onnx), or a system (dyno info systems). Dyno identifies the kind of server with a
    /// request. Keys may follow, as in http://localhost:8000,model=NAME
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Measure several loads and mark the knee: 1, 2, 4, ... 128 requests in flight (at most
    /// --max-concurrency), or the given loads, such as 1,4,16 or request-rate=1..8:x2. Each load
    /// lasts 15 s unless --duration is given; loads beyond saturation are skipped
    #[arg(long, value_name = "LOADS", num_args = 0..=1, require_equals = true,
          conflicts_with_all = ["tui", "verbose", "point"])]
    sweep: Option<Option<String>>,
    #[command(flatten)]
    run: Run,
}

/// Highest concurrency of `--sweep` without loads.
const MOST_IN_FLIGHT: u32 = 128;

/// Length of a load of `--sweep`.
const LOAD_LENGTH: Nanos = 15 * SECOND;

/// Time of `--sweep` for each load besides half its length: the process, its connections, and the last
/// answers.
const LOAD_OVERHEAD: Nanos = 5 * SECOND;

impl RunCommand {
    /// Runs all tests.
    ///
    /// # Errors
    /// The run cannot start, or results cannot be written.
    pub fn execute(mut self) -> Result<Exit, Failure> {
        if let Some(loads) = &self.sweep {
            return self.sweep(loads.as_deref())?.execute();
        }
        let line = self.run.command_line();
        // A sweep has identified the server of its points.
        let is_talking = !self.run.quiet && !self.run.point;
        self.run.keys.add_target(self.target.as_deref(), &line, is_talking)?;
        self.run.execute()
    }

    /// Returns the sweep over a ladder of loads, which ends at saturation or when its time is over.
    fn sweep(&self, loads: Option<&str>) -> Result<SweepCommand, Failure> {
        let mut line = self.run.command_line();
        let options = Options::common(&line, variables())?;
        let over = match loads {
            Some(loads) if loads.contains('=') => loads.to_owned(),
            Some(loads) => format!("max-concurrency={loads}"),
            None => {
                let most = options.run.max_concurrency.map_or(MOST_IN_FLIGHT, NonZero::get);
                line.keys.0.retain(|(key, _)| key.name != "max-concurrency");
                ladder(most)
            }
        };
        let length = match (options.run.duration, options.run.num_prompts) {
            (None, Some(_)) => None,
            (None, None) => {
                line.give("duration", &format!("{}s", LOAD_LENGTH / SECOND));
                Some(LOAD_LENGTH)
            }
            (length, _) => length,
        };
        let axis = read_axis(&over)
            .map_err(|problem| Failure::usage(format!("flag --sweep: {problem}")))?;
        let most = |length: Nanos| {
            let each = length.saturating_add(length / 2).saturating_add(LOAD_OVERHEAD);
            each.saturating_mul(axis.values.len() as u64)
        };
        let mut sweep = SweepCommand::default();
        sweep.target.clone_from(&self.target);
        (sweep.config, sweep.keys.given, sweep.set) = (line.config, line.keys, line.set);
        sweep.over = vec![over];
        sweep.until_saturated = true;
        sweep.max_time = length.map(most);
        (sweep.dry_run, sweep.json) = (self.run.dry_run, self.run.json);
        (sweep.quiet, sweep.no_progress) = (self.run.quiet, self.run.no_progress);
        Ok(sweep)
    }
}

/// Returns the axis of concurrencies 1, 2, 4, ... up to the highest one.
fn ladder(most: u32) -> String {
    let powers = std::iter::successors(Some(1_u32), |n| n.checked_mul(2)).take_while(|n| *n < most);
    let loads: Vec<String> = powers.chain([most]).map(|n| n.to_string()).collect();
    format!("max-concurrency={}", loads.join(","))
}

/// Flags that only the command line has; the others are keys of dyno.toml, too.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    /// Configuration file, such as the dyno.toml of dyno init; none is read without this flag
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Set any setting: key=value, or Scenario.key=value for one scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    set: Vec<String>,
    /// Print the plan and its duration without running it
    #[arg(long)]
    dry_run: bool,
    /// Report options without effect instead of rejecting them: a point of a sweep, which
    /// rejects those that have none at any point
    #[arg(long, hide = true)]
    point: bool,
    /// Print summary.json instead of the summary; with --dry-run, the plan as JSON
    #[arg(long)]
    json: bool,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Also show every setting that differs from its default, and notes that hold for most runs
    #[arg(short, long)]
    verbose: bool,
    /// Do not show the progress line on stderr
    #[arg(long)]
    no_progress: bool,
    /// Show the run in full screen: histogram, time line, conditions
    #[arg(long, conflicts_with_all = ["quiet", "verbose", "no_progress"])]
    tui: bool,
}

const AFTER_HELP: &str = "\
Every setting is also a flag: --settings.server_target_qps 100 (dyno info settings lists them).
Precedence: flags, environment (DYNO_SETTINGS_SERVER_TARGET_QPS=100), the file of --config,
user.conf, profile, built-in table, defaults; an audit.config overrides all of them.
Exit codes: 0 valid, 1 invalid or undecided, 2 usage, 3 set-up, 4 aborted, 130 interrupted.
Results are not official MLPerf results.";

impl Run {
    /// Returns the command with this system.
    ///
    /// # Errors
    /// The command names another system.
    pub fn of_system(mut self, spec: &str) -> Result<Self, Failure> {
        let key = KEYS.iter().find(|key| key.name == "system").expect("a run has a system");
        if self.keys.given.0.iter().any(|(given, _)| given.name == key.name) {
            return Err(Failure::usage(
                "the task is the system; --system cannot be combined with it",
            )
            .hint("remove --system, or use dyno run"));
        }
        self.keys.given.0.push((key, spec.to_owned()));
        Ok(self)
    }

    /// Runs all tests.
    ///
    /// # Errors
    /// The run cannot start, or results cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let command_line = self.command_line();
        let strictness = if self.point { Strictness::Point } else { Strictness::Run };
        let prepared =
            PreparedRun::checked(&command_line, strictness, (!self.quiet).then_some(&console()))?;
        let (options, system) = (&prepared.options, &prepared.system);
        if options.sweep.is_some() {
            output::say(format_args!("warning: [sweep] has no effect in dyno run; use dyno sweep"));
        }
        if self.dry_run {
            options.run.out.as_deref().map_or(Ok(()), check_free)?;
            let tests = prepared.tests()?;
            if self.json {
                output::print(pretty(&render::plan::json(options, system, &tests)))?;
            } else {
                output::show(render::plan::text(options, system, &tests))?;
            }
            return Ok(Exit::Valid);
        }
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        prepared.tests()?;
        let progress = Arc::new(self.progress()?);
        let watched: Arc<dyn Watch> = progress.clone();
        let control = Control { watch: &watched, interrupt: Some(&interrupt), most: None };
        let measured = progress.with_keys(|| {
            let Some(tests) = prepared.probed_tests(control)? else { return Ok(None) };
            let directory = prepared.directory(&tests, options.run.out.as_deref())?;
            if self.verbose {
                output::say(render::plan::text(options, system, &tests));
            }
            prepared.measure(&tests, control, directory).map(Some)
        })?;
        let Some(measured) = measured else { return Ok(Exit::Interrupted) };
        // Dropping the screen restores the terminal.
        drop((progress, watched));
        self.print_results(&measured)?;
        Ok(measured.stored()?.end().into())
    }

    fn command_line(&self) -> CommandLine {
        CommandLine {
            config: self.config.clone(),
            set: self.set.clone(),
            keys: self.keys.given.clone(),
            is_dry: self.dry_run,
        }
    }

    fn progress(&self) -> Result<Progress, Failure> {
        Ok(match (self.tui, self.quiet) {
            (true, _) => Progress::full_screen()?,
            (_, true) => Progress::new(false),
            _ if self.verbose => Progress::verbose(!self.no_progress),
            _ => Progress::new(!self.no_progress),
        })
    }

    fn print_results(&self, measured: &MeasuredRun) -> Result<(), Failure> {
        let path = &measured.directory.path;
        let printed = if self.json {
            let mut json = serde_json::to_value(&measured.summary).expect("keys are texts");
            let is_stored = measured.directory.not_stored.is_none();
            json["run_directory"] = is_stored.then(|| path.display().to_string()).into();
            output::print(pretty(&json))
        } else if !self.quiet {
            output::show(render::summary(&measured.summary, self.verbose, render::is_colored()))
        } else {
            Ok(())
        };
        if let Some(failing) = measured.failing() {
            output::say(format_args!("error: {}", failing.reason()));
        }
        if self.quiet {
            if let Some(reason) = measured.summary.first_reason() {
                output::say(format_args!("{}: {reason}", measured.summary.verdict));
            }
            return printed;
        }
        if measured.directory.not_stored.is_none() {
            output::say(format_args!("report: {}", path.join(dyno_report::FILE).display()));
        }
        printed
    }
}
