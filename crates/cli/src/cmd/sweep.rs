//! `dyno sweep`: runs many variants as one job.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgAction, Args, ValueEnum};
use dyno_experiment::options::{CommandLine, Options, SweepTable};
use dyno_experiment::run::{command, variables};
use dyno_experiment::sweep::bounded::BoundedSweep;
use dyno_experiment::sweep::plan::{Request, SweepPlan, expected, merged};
use dyno_experiment::sweep::play::{Limits, Player, StopReason, hand_out, points_to_run};
use dyno_experiment::sweep::resume;
use dyno_experiment::workers::stay_line;
use dyno_experiment::{Failure, FolderLock, Watch};
use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_results::run_directory::check_free;
use dyno_results::summary::DISCLAIMER;
use dyno_results::sweep::{
    Axis, Definition, Point, PointState, SCHEMA, SCHEMA_VERSION, State, Sweep,
};
use dyno_results::write::{create_folder, pretty, replace};
use dyno_results::{VERSION, units};

use crate::cmd::keys::KeyArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::progress::Progress;
use crate::{output, render};

/// Flags of `dyno sweep`; those of `dyno run` say what all points share.
#[derive(Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SweepCommand {
    /// What to measure instead of --system: a server (http://localhost:8000), an ONNX file
    /// (model.onnx), or a system (dyno info systems). Dyno identifies the kind of server with a
    /// request. Keys may follow, as in http://localhost:8000,model=NAME
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// Configuration file dyno.toml, which may have a table [sweep]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub keys: KeyArgs,
    /// Set any setting of all points: key=value, or Scenario.key=value; repeatable
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Axis to vary: a flag of dyno run or settings.NAME, with values or ranges: batch=1,2,4,
    /// settings.server_target_qps=100..400:x2. Semicolons separate values that contain commas; repeat
    /// for each axis
    #[arg(long, value_name = "KEY=VALUES", action = ArgAction::Append)]
    pub over: Vec<String>,
    /// Combine the first values of all axes, the second values, and so on, instead of every
    /// combination
    #[arg(long)]
    zip: bool,
    /// Number of runs of each combination; all combinations run before any repeats [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Order of the points; random spreads drift (heat, other work) over all of them [default: given]
    #[arg(long, value_name = "ORDER")]
    order: Option<Order>,
    /// Seed of the random order [default: 0]
    #[arg(long, value_name = "N")]
    order_seed: Option<u64>,
    /// Operations of a model per sample, for plots; VALUE is a value of an axis, such as
    /// onnx:a.onnx=1.2e9
    #[arg(long, value_name = "VALUE=NUMBER", action = ArgAction::Append)]
    operations: Vec<String>,
    /// Pause between points, such as 2s [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pause: Option<Nanos>,
    /// Time limit of the sweep; it may end within a point [default: none]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub max_time: Option<Nanos>,
    /// Maximum number of points to run [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Also report the point with the highest throughput whose p99 is below this with 95 % confidence;
    /// exit with 1 if a scenario has none
    #[arg(long, value_name = "TIME", value_parser = units::parse_bound)]
    p99_below: Option<Nanos>,
    /// With a load as the only axis: skip higher loads once two in a row gain less than 5 %
    /// throughput and increase latency
    #[arg(long)]
    pub until_saturated: bool,
    /// Continue the sweep in this directory
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// With --resume: run failed points again
    #[arg(long, requires = "resume")]
    retry_failed: bool,
    /// Print the points and their duration without running them; with --json, sweep.json
    #[arg(long)]
    pub dry_run: bool,
    /// Create the sweep and print the points and their directories as JSON without running them: run
    /// each anywhere, copy its directory back, and use --resume
    #[arg(long, conflicts_with_all = ["dry_run", "resume"])]
    hand_out: bool,
    /// Print sweep.json instead of the table
    #[arg(long)]
    pub json: bool,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// Do not show progress on stderr: the progress line, and a line for each run
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    Given,
    Random,
}

const AFTER_HELP: &str = "\
Each point is a dyno run in a process and directory of its own, below DIR/points. DIR/sweep.json has the
state after each point. Ctrl-C ends the current point, and dyno sweep --resume DIR continues with it.
A point that fails is recorded and does not end the sweep.
Exit codes: 0 every point is valid, 1 some are undecided, invalid, failed or not run, or none certainly
meets --p99-below, 2 usage, 3 set-up, 4 two points in a row failed alike, 130 interrupted.";

impl SweepCommand {
    /// Runs the points.
    ///
    /// # Errors
    /// The sweep cannot start, or its state cannot be written.
    pub fn execute(mut self) -> Result<Exit, Failure> {
        self.check_paths()?;
        // A system that varies is not that of the file.
        let varies = self.over.iter().any(|axis| axis.starts_with("system="));
        if self.target.is_some() || !varies {
            let line = self.command_line();
            self.keys.add_target(self.target.as_deref(), &line, !self.quiet)?;
        }
        let request = self.request()?;
        if let Some(directory) = &self.resume {
            return self.go_on(directory, request);
        }
        let plan = SweepPlan::new(request)?;
        let table = plan.table.clone();
        if self.hand_out {
            check_handed_out(&table)?;
        }
        let mut sweep = self.begin(plan.definition, plan.points, plan.name);
        if self.dry_run {
            plan.out.as_deref().map_or(Ok(()), check_free)?;
            return self.print_plan(&sweep, &table);
        }
        let (directory, lock) = FolderLock::new_folder(plan.out.as_deref(), &sweep.name, "sweep")?;
        let made = create_folder(&directory.join("points"));
        made.map_err(|error| {
            Failure::set_up(format!("cannot write to {}: {error}", directory.display()))
                .hint("choose a writable folder with --out")
        })?;
        if self.hand_out {
            output::print(pretty(&hand_out(&directory, &mut sweep)?))?;
            return Ok(Exit::Valid);
        }
        let ended = self.play(&directory, &mut sweep, &table);
        warn_moved(Some(&lock), &directory);
        ended
    }

    /// Rejects a command that creates no sweep whose points `dyno launch` could run elsewhere.
    ///
    /// # Errors
    /// The flag that prevents it.
    pub fn check_launched(&self) -> Result<(), Failure> {
        let flags = [(self.resume.is_some(), "--resume"), (self.hand_out, "--hand-out")];
        match flags.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, flag)) => {
                let problem = format!("dyno launch begins a sweep, and does not support {flag}");
                Err(Failure::usage(problem)
                    .hint("dyno sweep --resume DIR runs the points that are left on this machine"))
            }
        }
    }

    /// Returns the flags for the end of this sweep, whose points ran elsewhere.
    pub fn end_flags(&self) -> Vec<String> {
        let shown =
            [(self.json, "--json"), (self.quiet, "--quiet"), (self.no_progress, "--no-progress")];
        let shown = shown.into_iter().filter(|(is_given, _)| *is_given);
        let bound = self.p99_below.map(|ns| format!("--p99-below={ns}ns"));
        bound.into_iter().chain(shown.map(|(_, flag)| flag.to_owned())).collect()
    }

    /// Rejects paths that are not UTF-8, because `sweep.json` stores them as text.
    fn check_paths(&self) -> Result<(), Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::set_up(format!("cannot read the working directory: {error}"))
        })?;
        match std::iter::once(&here).chain(&self.config).find(|path| path.to_str().is_none()) {
            Some(path) => Err(Failure::usage(format!("{} is not UTF-8", path.display()))
                .hint("rename it; a sweep records file names as UTF-8 text")),
            None => Ok(()),
        }
    }

    fn go_on(&self, directory: &Path, request: Request) -> Result<Exit, Failure> {
        let is_whole = !request.over.is_empty() || !request.fixed.arguments().is_empty();
        if !is_whole && let Some(flag) = self.part_of_definition() {
            let problem = format!(
                "{flag} belongs to the definition of the sweep, which --resume does not change"
            );
            return Err(Failure::usage(problem).hint(
                "remove it, or repeat the whole command of the sweep, which is then checked",
            ));
        }
        if is_whole && request.over.is_empty() && self.config.is_none() {
            let flags = request.fixed.arguments().join(" ");
            let problem =
                format!("{flags}: --resume takes no flags of runs; the sweep has its own");
            return Err(Failure::usage(problem).hint(
                "remove them, or repeat the whole command of the sweep, which is then checked",
            ));
        }
        // Before the sweep is read, which another process may be about to write.
        let lock = if self.dry_run { None } else { Some(FolderLock::take(directory, "sweep")?) };
        let mut sweep = resume::read(directory)?;
        let directory = &resume::return_to(&sweep.working_directory, directory)?;
        let mut table = if is_whole {
            let plan = SweepPlan::new(request)?;
            resume::check(&sweep, Some(&plan))?;
            plan.table
        } else {
            resume::check(&sweep, None)?;
            let fixed = CommandLine::of_arguments(&sweep.definition.fixed);
            let options = Options::common(&fixed.map_err(Failure::set_up)?, variables())?;
            merged(options.sweep.unwrap_or_default(), &request.flags)
        };
        self.keep_flags(&mut sweep, &mut table);
        if sweep.dyno_version != VERSION {
            output::say(format_args!(
                "warning: dyno {} started this sweep, and this is {VERSION}; its points are \
                 measured by different versions",
                sweep.dyno_version
            ));
        }
        if self.dry_run {
            return self.print_plan(&sweep, &table);
        }
        let ended = self.play(directory, &mut sweep, &table);
        warn_moved(lock.as_ref(), directory);
        ended
    }

    /// Keeps the flags of earlier commands on which points run and pass: without its bound, a sweep that
    /// missed it would end with 0.
    fn keep_flags(&self, sweep: &mut Sweep, table: &mut SweepTable) {
        sweep.p99_below_ns = self.p99_below.or(sweep.p99_below_ns);
        sweep.until_saturated |= self.until_saturated;
        table.p99_below = sweep.p99_below_ns.or(table.p99_below);
        if sweep.until_saturated {
            table.until_saturated = Some(true);
        }
    }

    /// Returns a flag that changes only a part of the definition.
    fn part_of_definition(&self) -> Option<&'static str> {
        let flags = [
            (self.zip, "--zip"),
            (self.repeat.is_some(), "--repeat"),
            (self.order.is_some(), "--order"),
            (self.order_seed.is_some(), "--order-seed"),
            (!self.operations.is_empty(), "--operations"),
        ];
        flags.into_iter().find_map(|(is_said, flag)| is_said.then_some(flag))
    }

    fn print_plan(&self, sweep: &Sweep, table: &SweepTable) -> Result<Exit, Failure> {
        if self.json {
            output::print(pretty(sweep))?;
        } else {
            output::show(overview(sweep, table, self.retry_failed)?)?;
        }
        Ok(Exit::Valid)
    }

    fn command_line(&self) -> CommandLine {
        CommandLine {
            config: self.config.clone(),
            set: self.set.clone(),
            keys: self.keys.given.clone(),
            is_dry: self.dry_run,
        }
    }

    fn request(&self) -> Result<Request, Failure> {
        let mut problems = Vec::new();
        let mut over = Vec::new();
        for text in &self.over {
            match dyno_experiment::options::read_axis(text) {
                Ok(axis) => over.push(axis),
                Err(problem) => problems.push(format!("flag --over: {problem}")),
            }
        }
        let mut operations = Vec::new();
        for text in &self.operations {
            let number = |n: &str| n.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0);
            match text.rsplit_once('=').and_then(|(v, n)| Some((v.to_string(), number(n)?))) {
                Some(pair) => operations.push(pair),
                None => problems.push(format!(
                    "flag --operations: expected VALUE=NUMBER with a number above 0, such as \
                     onnx:a.onnx=1.2e9, found `{text}`"
                )),
            }
        }
        if !problems.is_empty() {
            return Err(Failure::usages(problems));
        }
        Ok(Request {
            fixed: self.command_line(),
            over,
            operations,
            flags: SweepTable {
                zip: self.zip.then_some(true),
                random: self.order.map(|order| matches!(order, Order::Random)),
                order_seed: self.order_seed,
                repeat: self.repeat,
                pause: self.pause,
                max_time: self.max_time,
                limit: self.limit.map(NonZeroUsize::get),
                p99_below: self.p99_below,
                until_saturated: self.until_saturated.then_some(true),
                ..SweepTable::default()
            },
        })
    }

    fn begin(&self, definition: Definition, points: Vec<Point>, name: String) -> Sweep {
        Sweep {
            schema: SCHEMA.into(),
            schema_version: SCHEMA_VERSION,
            state: State::Running,
            name,
            official: false,
            disclaimer: DISCLAIMER.into(),
            started_at: units::utc(WallTime::now()),
            command: command(),
            working_directory: std::env::current_dir().unwrap_or_default(),
            dyno_version: VERSION.into(),
            definition,
            p99_below_ns: self.p99_below,
            until_saturated: self.until_saturated,
            points,
        }
    }

    fn play(
        &self,
        directory: &Path,
        sweep: &mut Sweep,
        table: &SweepTable,
    ) -> Result<Exit, Failure> {
        let is_talking = !self.quiet;
        if is_talking {
            output::say(overview(sweep, table, self.retry_failed)?);
        }
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        let watched: Arc<dyn Watch> = Arc::new(Progress::new(is_talking && !self.no_progress));
        let mut player = Player {
            directory,
            sweep,
            limits: Limits {
                pause: table.pause.unwrap_or(0),
                max_time: table.max_time,
                limit: table.limit,
                retry_failed: self.retry_failed,
                until_saturated: table.until_saturated == Some(true),
            },
            interrupt: &interrupt,
            watch: &watched,
            is_talking,
            not_written: None,
        };
        let stopped = player.play()?;
        let written = player.not_written.map_or(Ok(()), Err);
        let page = written.and_then(|()| write_results(directory, sweep));
        let bounded = table.p99_below.map(|bound| BoundedSweep::judge(directory, sweep, bound));
        // The results are shown even if they cannot be written.
        self.print_results(sweep, bounded.as_ref())?;
        let page = page?;
        if is_talking {
            if let Some(page) = page {
                output::say(format_args!("report: {}", page.display()));
            }
            output::say(format_args!(
                "results: {}",
                directory.join(dyno_results::sweep::FILE).display()
            ));
            say_why(stopped, sweep, directory);
        }
        Ok(exit(stopped, sweep, bounded.as_ref()))
    }

    fn print_results(&self, sweep: &Sweep, bounded: Option<&BoundedSweep>) -> Result<(), Failure> {
        match (self.json, self.quiet) {
            (true, _) => output::print(pretty(sweep)),
            (_, true) => Ok(()),
            _ => output::show(render::sweep::console(sweep, bounded, render::is_colored())),
        }
    }
}

/// Rejects limits of a sweep whose points run elsewhere, where they have no effect.
fn check_handed_out(table: &SweepTable) -> Result<(), Failure> {
    let limits = [
        (table.pause.is_some(), "pause"),
        (table.max_time.is_some(), "max-time"),
        (table.limit.is_some(), "limit"),
        (table.until_saturated == Some(true), "until-saturated"),
    ];
    match limits.into_iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, name)) => {
            Err(Failure::usage(format!("{name} has no effect on points that run elsewhere"))
                .hint("remove it, or run the points on this machine, in turn, with dyno sweep"))
        }
    }
}

/// Warns if the folder was moved or removed during the sweep: the results before that are elsewhere.
fn warn_moved(lock: Option<&FolderLock>, directory: &Path) {
    if let Some(warning) = lock.and_then(|lock| lock.moved_warning(directory)) {
        output::say(format_args!("warning: {warning}"));
    }
}

/// Writes the table for spreadsheets and the page. Returns `None` if no point has results.
fn write_results(directory: &Path, sweep: &Sweep) -> Result<Option<PathBuf>, Failure> {
    let path = directory.join(render::sweep::CSV_FILE);
    replace(&path, render::sweep::csv(sweep))
        .map_err(|error| Failure::unwritable(&path, &error))?;
    Ok(dyno_report::write_inside(directory)?)
}

fn exit(stopped: StopReason, sweep: &Sweep, bounded: Option<&BoundedSweep>) -> Exit {
    let is_done = |point: &Point| matches!(point.state, PointState::Done | PointState::Skipped);
    match stopped {
        StopReason::Interrupted => Exit::Interrupted,
        StopReason::Failing => Exit::Aborted,
        _ if !sweep.points.iter().all(is_done) => Exit::Invalid,
        _ if bounded.is_some_and(|bounded| !bounded.is_met()) => Exit::Invalid,
        _ => Exit::Valid,
    }
}

fn say_why(stopped: StopReason, sweep: &Sweep, directory: &Path) {
    let why = match stopped {
        StopReason::Interrupted => "interrupted",
        StopReason::OutOfTime => "the time for the sweep is over",
        StopReason::Limit => "--limit is reached",
        StopReason::Failing => "two points in a row failed with the same message",
        StopReason::Finished => "",
    };
    let resume = format!("dyno sweep --resume {}", directory.display());
    if sweep.state != State::Complete {
        output::say(format_args!("{why}; continue with: {resume}"));
    } else if sweep.points.iter().any(|point| point.state == PointState::Failed) {
        output::say(format_args!("run the points that failed again with: {resume} --retry-failed"));
    }
}

/// Most points that the overview lists.
const LISTED: usize = 8;

/// Returns the number of points, the first few, and their duration. With `retries`, failed points run
/// again.
fn overview(sweep: &Sweep, table: &SweepTable, retries: bool) -> Result<String, Failure> {
    use std::fmt::Write as _;
    let definition = &sweep.definition;
    let axis = |axis: &Axis| format!("{} ({})", axis.key, axis.values.len());
    let axes: Vec<String> = definition.axes.iter().map(axis).collect();
    let with = if definition.combine == "zip" { " beside " } else { " x " };
    let mut text = format!("sweep of {}: {}", sweep.points.len(), axes.join(with));
    let excluded = if definition.exclude.is_empty() { "" } else { ", some excluded" };
    let repeats = match definition.repeat {
        1 => String::new(),
        n => format!(", {n} times"),
    };
    let order = match definition.order.as_str() {
        "random" => format!("random, seed {}", definition.order_seed),
        other => other.to_string(),
    };
    let _ = writeln!(text, "{excluded}{repeats}; order {order}");
    let fixed = CommandLine::of_arguments(&definition.fixed).map_err(Failure::set_up)?;
    let mut left = points_to_run(sweep, retries);
    left.sort_unstable();
    let pending: Vec<&Point> = left.into_iter().map(|at| &sweep.points[at]).collect();
    let (mut total, mut is_virtual): (Nanos, bool) = (0, true);
    for (at, point) in pending.iter().enumerate() {
        let length = expected(&fixed, &point.assignments)?;
        is_virtual &= length.is_none();
        let length = length.unwrap_or(0);
        total = total.saturating_add(length);
        if at < LISTED {
            let _ = write!(text, "  {:>4}  {}", point.number, point.name);
            let long = units::duration(length.cast_signed());
            let _ =
                writeln!(text, "{}", if length > 0 { format!("  {long}") } else { String::new() });
        }
    }
    if pending.len() > LISTED {
        let _ = writeln!(text, "        and {} more", pending.len() - LISTED);
    }
    let pauses = table.pause.unwrap_or(0).saturating_mul(pending.len().saturating_sub(1) as u64);
    let total = i64::try_from(total.saturating_add(pauses)).unwrap_or(i64::MAX);
    let length = match total {
        _ if pending.is_empty() => {
            text += "no points are left to run\n";
            return Ok(text);
        }
        _ if is_virtual => {
            "in virtual time; the duration depends only on the computation".to_string()
        }
        0 => "each takes as long as the system needs".to_string(),
        ns => format!(
            "at least {} in total; loading and accuracy tests take as long as the systems need",
            units::duration(ns)
        ),
    };
    let points = units::counted(pending.len() as u64, "point", "points");
    let _ = writeln!(text, "{points} to run, {length}");
    let run = &Options::common(&fixed, variables())?.run;
    text.extend(stay_line(run, "point"));
    if let Some(most) = table.max_time {
        let most = units::duration(most.cast_signed());
        let _ = writeln!(text, "the sweep ends after {most} at the latest");
    }
    let is_ladder = table.until_saturated == Some(true);
    if definition.order == "given" && pending.len() > 2 && total > 0 && !is_ladder {
        text += "points run in the order given; --order random keeps drift from looking like an effect\n";
    }
    Ok(text)
}
