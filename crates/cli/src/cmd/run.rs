//! `dyno run`: runs the tests of a run one after the other, writes its directory, and prints
//! the results.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args};
use dyno_experiment::effect::Strictness;
use dyno_experiment::options::{CommandLine, KEYS, Options};
use dyno_experiment::run::{MeasuredRun, PreparedRun, variables};
use dyno_experiment::system::net::discover;
use dyno_experiment::{Control, Failure, Watch};
use dyno_results::run_directory::check_free;
use dyno_results::write::pretty;

use crate::cmd::keys::KeyArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::console;
use crate::progress::Progress;
use crate::{output, render};

/// `dyno run`, perhaps of a server that is only named by its URL.
#[derive(Debug, Args)]
pub struct RunCommand {
    /// A server such as http://localhost:8000. Dyno asks what it is and which model it has. Keys of
    /// --system may follow, as in http://localhost:8000,model=NAME
    #[arg(value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    run: Run,
}

impl RunCommand {
    /// Runs all tests.
    ///
    /// # Errors
    /// The run cannot start, or results cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let Some(url) = self.url else { return self.run.execute() };
        if let Some((_, system)) = self.run.keys.given.0.iter().find(|(k, _)| k.name == "system") {
            let problem = format!("{url} and --system {system} are two systems");
            return Err(Failure::usage(problem).hint("keep one of them"));
        }
        // A wrong flag is found before the server is asked.
        Options::read(&self.run.command_line(), variables())?;
        let found = discover(&url)?;
        if !self.run.quiet {
            output::say(&found.found);
        }
        self.run.of_system(&found.spec)?.execute()
    }
}

/// Flags that only the command line has; the others are keys of dyno.toml, too.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    /// A dyno.toml; `dyno init` writes one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Set any setting: key=value, or Scenario.key=value for one scenario
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    set: Vec<String>,
    /// Print the plan and how long it takes, and stop
    #[arg(long)]
    dry_run: bool,
    /// Report options without effect instead of rejecting them: a point of a sweep, which
    /// rejects those that have none at any point
    #[arg(long, hide = true)]
    point: bool,
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
    /// Show the run on the whole terminal: histogram, course over time, conditions
    #[arg(long, conflicts_with_all = ["quiet", "verbose", "no_progress"])]
    tui: bool,
}

const AFTER_HELP: &str = "\
Every setting is a flag, too: --settings.server_target_qps 100 (dyno info settings lists them).
Precedence: flags, environment (DYNO_SETTINGS_SERVER_TARGET_QPS=100), dyno.toml, user.conf,
profile, built-in table, defaults; an audit.config overrides them all.
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
            return Err(Failure::usage("the task is the system, and --system names another")
                .hint("leave out --system, or use dyno run"));
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
            output::say(format_args!(
                "warning: [sweep] means nothing to dyno run; it is for dyno sweep"
            ));
        }
        if self.dry_run {
            options.run.out.as_deref().map_or(Ok(()), check_free)?;
            output::print(render::plan(options, system, &prepared.tests()?))?;
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
                output::say(render::plan(options, system, &tests));
            }
            prepared.measure(&tests, control, directory).map(Some)
        })?;
        let Some(measured) = measured else { return Ok(Exit::Interrupted) };
        // Dropping the screen restores the terminal.
        drop((progress, watched));
        self.print_results(&measured)?;
        Ok(measured.end().into())
    }

    fn command_line(&self) -> CommandLine {
        CommandLine {
            config: self.config.clone(),
            set: self.set.clone(),
            keys: self.keys.given.clone(),
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
            json["run_directory"] = path.display().to_string().into();
            output::print(pretty(&json))
        } else if !self.quiet {
            output::print(render::summary(&measured.summary, render::is_colored()))
        } else {
            Ok(())
        };
        if let Some(failing) = measured.failing() {
            output::say(format_args!("error: {}", failing.reason()));
        }
        if self.quiet {
            if let Some(reason) = measured.summary.tests.iter().find_map(|t| t.reasons.first()) {
                output::say(format_args!("{}: {reason}", measured.summary.verdict));
            }
            return printed;
        }
        output::say(format_args!("report: {}", path.join("report.html").display()));
        for rescued in &measured.directory.rescued {
            output::say(format_args!(
                "warning: results that did not fit are in {}",
                rescued.display()
            ));
        }
        printed
    }
}
