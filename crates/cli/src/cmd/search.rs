//! `dyno search`: finds the highest load that keeps several limits at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgAction, Args, Parser};
use dyno_experiment::options::{CommandLine, arguments};
use dyno_experiment::search::{self, Job, SearchRequest};
use dyno_experiment::{Control, Failure, FolderLock, Watch};
use dyno_loadgen::clock::Nanos;
use dyno_results::run_directory::check_free;
use dyno_results::search::{Load, Phase, State, headline};
use dyno_results::units;
use dyno_results::write::pretty;

use super::keys::one_of;
use crate::cmd::keys::KeyArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::console;
use crate::progress::Progress;
use crate::{output, render};

/// Flags that only the command line has; the others are keys of dyno.toml, too.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Search {
    /// What to measure instead of --system: a server (http://localhost:8000), an ONNX file
    /// (model.onnx), or a system (dyno info systems). Dyno identifies the kind of server with a
    /// request. Keys may follow, as in http://localhost:8000,model=NAME
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Limit, such as p99<=100ms, ttft.p99<=200ms, errors<=0.1% or lag.p99<=1ms; repeatable. Without
    /// a limit on latency the bound of the settings applies
    #[arg(long, value_name = "LIMIT", action = ArgAction::Append)]
    limit: Vec<String>,
    /// Load to raise [default: qps; samples for MultiStream]
    #[arg(long, value_parser = one_of(&Load::ALL, Load::name, Load::description), value_name = "LOAD")]
    load: Option<Load>,
    /// First load [default: the setting, else what a short probe finds; 1 for whole numbers]
    #[arg(long, value_name = "LOAD")]
    from: Option<f64>,
    /// Maximum load to try; the search ends there if it passes
    #[arg(long, value_name = "LOAD")]
    to: Option<f64>,
    /// Tolerance of the peak, such as 1% [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Length of the first runs [default: 2s; 10s with --profile rules]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    short: Option<Nanos>,
    /// Time limit of all runs together; a run that exceeds it is ended and does not count [default:
    /// 30m; 2h with --profile rules; none in virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    max_time: Option<Nanos>,
    /// Maximum number of repetitions of a run that the client or the machine disturbed
    #[arg(long, value_name = "N", default_value_t = REPEATS)]
    repeat_disturbed: u32,
    /// Skip the full run at the end
    #[arg(long, conflicts_with = "confirm")]
    no_confirm: bool,
    /// With --resume: do the full run even if the search was started with --no-confirm
    #[arg(long, requires = "resume")]
    confirm: bool,
    /// Continue the search in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// Configuration file dyno.toml; dyno init writes one
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
    /// Print search.json instead of the result; with --dry-run, the plan as JSON
    #[arg(long)]
    json: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
    /// Do not show progress on stderr: the progress line, and a line for each run
    #[arg(long)]
    no_progress: bool,
}

const AFTER_HELP: &str = "\
The other flags and all settings are those of dyno run. --duration and --profile set the length of the
full run that confirms the peak.
Exit codes: 0 found and confirmed (with --no-confirm: found), 1 not found or not confirmed, 2 usage,
3 set-up, 4 the system stopped answering, 130 interrupted (continue with --resume DIR).
Results are not official MLPerf results.";

/// Default number of repeats of a disturbed run.
const REPEATS: u32 = 3;

/// Default tolerance.
const TOLERANCE: f64 = 0.01;

/// The recorded command of a search that is resumed.
#[derive(Debug, Parser)]
struct RecordedCommand {
    #[command(flatten)]
    search: Search,
}

impl Search {
    /// Returns limits in the spelling of other tools, which define goodput in runs.
    fn goodput(&self) -> Vec<String> {
        let of_key = self.keys.given.0.iter().filter(|(key, _)| key.name == "goodput");
        of_key.flat_map(|(_, text)| text.split(',').map(str::to_owned)).collect()
    }

    /// Searches.
    ///
    /// # Errors
    /// The search cannot start or continue.
    pub fn execute(self) -> Result<Exit, Failure> {
        if self.confirm && self.resume.is_none() {
            // Clap does not check --resume when --out is given, because the two conflict.
            return Err(Failure::usage("--confirm has no effect without --resume")
                .hint("a new search confirms its peak unless --no-confirm is given"));
        }
        // Before the state is read, which another process may be about to write.
        let locked = self.resume.as_deref().filter(|_| !self.dry_run);
        let lock = locked.map(|folder| FolderLock::take(folder, "search")).transpose()?;
        let before = self.resume.as_deref().map(read).transpose()?;
        let command = match &before {
            Some(before) if self.is_bare() => self.recorded_command(before)?,
            _ => None,
        };
        let command = command.as_ref().unwrap_or(&self);
        let mut ask = command.ask(&self);
        let mut command_line = CommandLine {
            config: command.config.clone(),
            set: command.set.clone(),
            keys: command.keys.given.clone(),
            is_dry: self.dry_run,
        };
        let mut keys = command.keys.clone();
        keys.add_target(command.target.as_deref(), &command_line, !self.quiet)?;
        command_line.keys = keys.given;
        let prepared = search::prepare(&command_line, &ask, &console())?;
        if let Some(before) = &before {
            // Another probe would find another first load.
            ask.from = ask.from.or(Some(before.definition.from));
        }
        if self.dry_run {
            let out = prepared.0.options.run.out.as_deref().filter(|_| before.is_none());
            out.map_or(Ok(()), check_free)?;
            let job = Job::new(prepared, &ask, None)?.expect("without a probe nobody interrupts");
            self.print_plan(&job)?;
            return Ok(Exit::Valid);
        }
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        let progress = Progress::new(!self.no_progress && !self.quiet);
        let watched: Arc<dyn Watch> = Arc::new(progress);
        let control = Control { watch: &watched, interrupt: Some(&interrupt), most: None };
        let Some(mut job) = Job::new(prepared, &ask, Some(control))? else {
            return Ok(Exit::Interrupted);
        };
        if !self.quiet {
            output::say(render::search::plan(&job));
        }
        match (before, &self.resume) {
            (Some(before), Some(directory)) => job.resume(before, directory)?,
            _ => job.create()?,
        }
        let played = job.play(control, self.quiet);
        // The page also shows the runs of an aborted search.
        let page = dyno_report::write_inside(job.directory());
        let moved = match &lock {
            Some(lock) => lock.moved_warning(job.directory()),
            None => job.moved_warning(),
        };
        moved.iter().for_each(|warning| output::say(format_args!("warning: {warning}")));
        let exit = match played {
            Ok(ended) => self.print_results(&job, ended),
            Err(failure) => return Err(self.print_remains(&mut job, failure)),
        };
        job.not_written().map_or(Ok(()), Err)?;
        if let (Some(page), false) = (page?, self.quiet) {
            output::say(format_args!("report: {}", page.display()));
        }
        exit
    }

    /// Prints the plan of a search; as JSON, its state before the first run. A first load that only a probe
    /// finds is null.
    fn print_plan(&self, job: &Job) -> Result<(), Failure> {
        if !self.json {
            return output::show(render::search::plan(job));
        }
        let mut json = serde_json::to_value(&job.state).expect("keys are texts");
        if !job.is_from_known {
            json["definition"]["from"] = serde_json::Value::Null;
        }
        output::print(pretty(&json))
    }

    /// Prints what a search measured until a failure. Returns the failure, with advice to continue.
    fn print_remains(&self, job: &mut Job, failure: Failure) -> Failure {
        if job.state.points.is_empty() {
            return failure;
        }
        let printed = self.print_state(job);
        let lost = job.not_written().or(printed.err());
        if let Some(lost) = lost {
            output::say(format_args!("warning: {}", lost.problems().join("; ")));
        }
        // Other phases have their own advice.
        if job.state.state != Phase::Running {
            return failure;
        }
        let directory = job.directory().display();
        failure.hint(format!("then continue: dyno search --resume {directory}"))
    }

    fn print_results(&self, job: &Job, ended: Phase) -> Result<Exit, Failure> {
        if self.json || ended != Phase::Interrupted {
            self.print_state(job)?;
        }
        if ended == Phase::Interrupted {
            output::say(format_args!(
                "interrupted; continue with: dyno search --resume {}",
                job.directory().display()
            ));
            return Ok(Exit::Interrupted);
        }
        let (_, is_found) = headline(&job.state, job.directory());
        Ok(if is_found { Exit::Valid } else { Exit::Invalid })
    }

    /// Prints the state of a search as JSON or as a box.
    fn print_state(&self, job: &Job) -> Result<(), Failure> {
        if self.json {
            let mut json = serde_json::to_value(&job.state).expect("keys are texts");
            json["run_directory"] = job.directory().display().to_string().into();
            output::print(pretty(&json))
        } else if self.quiet {
            Ok(())
        } else {
            output::show(render::search::result(job, render::is_colored()))
        }
    }

    /// Whether only flags are given that may change when a search continues.
    fn is_bare(&self) -> bool {
        let nothing = self.limit.is_empty() && self.goodput().is_empty() && self.set.is_empty();
        let no_load = self.load.is_none() && self.from.is_none() && self.to.is_none();
        let no_run = self.config.is_none() && self.keys.given.0.is_empty() && self.short.is_none();
        nothing && no_load && no_run && self.target.is_none()
    }

    /// Parses the command that began the search.
    fn recorded_command(&self, before: &State) -> Result<Option<Self>, Failure> {
        let program = std::iter::once(OsString::from("dyno search"));
        let arguments_given = before.command.iter().skip(1).map(OsString::from);
        let expanded = arguments::expand(program.chain(arguments_given))?;
        let parsed = RecordedCommand::try_parse_from(expanded).map_err(|error| {
            let first = error.to_string().lines().next().unwrap_or_default().to_string();
            Failure::set_up(format!("cannot parse the recorded command of the search: {first}"))
                .hint("pass its flags again, together with --resume")
        })?;
        Ok(Some(parsed.search))
    }

    /// Returns the question of the search; `now` may change its duration and its tolerance.
    fn ask(&self, now: &Self) -> SearchRequest {
        SearchRequest {
            limits: self.limit.clone(),
            goodput: self.goodput(),
            load: self.load,
            from: self.from,
            to: self.to,
            tolerance: now.tolerance.or(self.tolerance).unwrap_or(TOLERANCE),
            short: self.short,
            max_time: now.max_time.or(self.max_time),
            repeats: now.repeat_disturbed,
            confirm: now.confirm || !(self.no_confirm || now.no_confirm),
        }
    }
}

fn read(directory: &Path) -> Result<State, Failure> {
    State::read(directory).map_err(|error| {
        Failure::set_up(error)
            .hint("--resume needs the directory of a search, with its search.json")
    })
}

fn tolerance(text: &str) -> Result<f64, String> {
    let share = units::parse_share(text)?;
    let wrong = || format!("expected a share such as 1%, from 0.1% to 20%, found `{text}`");
    (0.001..=0.2).contains(&share).then_some(share).ok_or_else(wrong)
}
