//! Plays the points of a sweep that are still to be run, one process each, and
//! keeps `sweep.json` up to date.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::rng::Mt19937;
use dyno_results::run_directory::make_way;
use dyno_results::sweep::{Point, PointState, State, Sweep, results};
use dyno_results::{summary, units};

use super::process::exit_code;
use super::process::{self, Ended};
use super::{line, plan};

use crate::failure::Failure;
use crate::goals::Goals;
use crate::options::CommandLine;
use crate::watch::{Interrupt, Watch};

/// When to stop, and how long to wait.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Between points.
    pub pause: Nanos,
    /// Of all, in this go.
    pub max_time: Option<Nanos>,
    /// Points in this go.
    pub limit: Option<usize>,
    /// Points that failed are run again.
    pub retry_failed: bool,
}

/// Why the sweep is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// There are no more points.
    Finished,
    /// Ctrl-C.
    Interrupted,
    /// `--max-time`.
    OutOfTime,
    /// `--limit`.
    Limit,
    /// Two points in a row failed with the same words: the next ones would, too.
    Failing,
}

/// A sweep on its way.
#[derive(Debug)]
pub struct Player<'a> {
    /// Where it is.
    pub directory: &'a Path,
    /// What is known of it.
    pub sweep: &'a mut Sweep,
    /// When to stop.
    pub limits: Limits,
    /// Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// Says how far it is.
    pub watch: &'a Arc<dyn Watch>,
    /// Says what came of each point.
    pub is_talking: bool,
}

impl Player<'_> {
    /// Runs what is to be run.
    ///
    /// # Errors
    /// If the state cannot be written, or no process be started.
    pub fn play(&mut self) -> Result<Stopped, Failure> {
        let clock = Clock::start();
        let fixed = CommandLine::of_arguments(&self.sweep.definition.fixed);
        let fixed = fixed.map_err(Failure::set_up)?;
        let order = self.order();
        let mut left = Vec::new();
        for &at in &order {
            left.push(plan::expected(&fixed, &self.sweep.points[at].assignments)?);
        }
        self.write(State::Running)?;
        let (mut ran, mut overhead, mut failing) = (0, 0, None);
        for (turn, &at) in order.iter().enumerate() {
            if self.limits.limit.is_some_and(|limit| turn >= limit) {
                return self.stop(Stopped::Limit);
            }
            if turn > 0 {
                process::pause(self.limits.pause, &mut |_| self.is_over(&clock).is_some());
            }
            if let Some(stopped) = self.is_over(&clock) {
                return self.stop(stopped);
            }
            let mean = u64::checked_div(overhead, ran).unwrap_or(0);
            // An hour of each of ten thousand points, as somebody may ask, is no reason to end.
            let others = left[turn + 1..].iter().fold(0, |sum: Nanos, &ns| {
                sum.saturating_add(ns).saturating_add(self.limits.pause).saturating_add(mean)
            });
            let title = format!("point {}/{}", turn + 1, order.len());
            self.run(&fixed, at, (&title, left[turn].saturating_add(mean), others), &clock)?;
            let point = &self.sweep.points[at];
            (ran, overhead) =
                (ran + 1, overhead + point.took_ns.unwrap_or(0).saturating_sub(left[turn]));
            if self.is_talking {
                self.watch.clear();
                self.watch.say(&format!("{title}  {}", line::line(point)));
            }
            self.write(State::Running)?;
            if self.sweep.points[at].state == PointState::Pending {
                let stopped = self.is_over(&clock).unwrap_or(Stopped::Interrupted);
                return self.stop(stopped);
            }
            let words = words_of_failure(&self.sweep.points[at]);
            if words.is_some() && words == failing && turn + 1 < order.len() {
                return self.stop(Stopped::Failing);
            }
            failing = words;
        }
        self.stop(Stopped::Finished)
    }

    /// Places of the points that are to be run, in their order.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.sweep.points.len()).collect();
        if self.sweep.definition.order == "random" {
            Mt19937::new(self.sweep.definition.order_seed).shuffle(&mut order);
        }
        order.retain(|&at| match self.sweep.points[at].state {
            PointState::Pending => true,
            PointState::Failed => self.limits.retry_failed,
            PointState::Done | PointState::Undecided | PointState::Invalid => false,
        });
        order
    }

    fn is_over(&self, clock: &Clock) -> Option<Stopped> {
        let is_late = self.limits.max_time.is_some_and(|most| clock.now() >= most);
        match self.interrupt.is_asked() {
            true => Some(Stopped::Interrupted),
            false => is_late.then_some(Stopped::OutOfTime),
        }
    }

    fn write(&mut self, state: State) -> Result<(), Failure> {
        self.sweep.state = state;
        self.sweep.write(self.directory).map_err(|error| {
            Failure::set_up(format!("cannot write to {}: {error}", self.directory.display()))
                .hint("free some space, then go on with dyno sweep --resume")
        })
    }

    fn stop(&mut self, stopped: Stopped) -> Result<Stopped, Failure> {
        let is_open = |point: &Point| point.state == PointState::Pending;
        let state = match self.sweep.points.iter().any(is_open) {
            true => State::Interrupted,
            false => State::Complete,
        };
        self.write(state)?;
        Ok(stopped)
    }

    /// Runs one point. What is left of an earlier attempt makes way, unless it
    /// is complete: then only the note of it was lost.
    fn run(
        &mut self,
        fixed: &CommandLine,
        at: usize,
        (title, expected, others): (&str, Nanos, Nanos),
        clock: &Clock,
    ) -> Result<(), Failure> {
        let folder = self.directory.join(&self.sweep.points[at].folder);
        if self.sweep.points[at].state == PointState::Pending
            && let Some(run) = complete(&folder)
        {
            note_complete(&mut self.sweep.points[at], &run);
            return Ok(());
        }
        make_way(&folder)?;
        let arguments = self.arguments(fixed, at, &folder)?;
        let point_name = self.sweep.points[at].name.clone();
        let mut look_on = |now: Nanos| {
            let left = expected.saturating_sub(now).saturating_add(others);
            let of = if left > 0 { format!(", {} left", rough(left)) } else { String::new() };
            let line = format!("{title}{of}  {point_name}  {}", rough(now));
            self.watch.begin(&line, Goals::default());
            self.is_over(clock).is_some()
        };
        let ended = process::run(&arguments, &self.sweep.working_directory, &mut look_on);
        let ended = ended.map_err(|error| {
            Failure::set_up(format!("cannot run point {title}: {error}"))
                .hint("the sweep goes on from here with dyno sweep --resume")
        })?;
        note(&mut self.sweep.points[at], &ended, &folder);
        Ok(())
    }

    fn arguments(
        &self,
        fixed: &CommandLine,
        at: usize,
        folder: &Path,
    ) -> Result<Vec<String>, Failure> {
        let mut arguments = arguments(fixed, &self.sweep.points[at])?;
        arguments.push(format!("--out={}", absolute(folder).display()));
        Ok(arguments)
    }
}

fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder))
}

/// The run that a point is, but for where it goes.
fn arguments(fixed: &CommandLine, point: &Point) -> Result<Vec<String>, Failure> {
    let line = plan::command_line(fixed, &point.assignments).map_err(Failure::set_up)?;
    let mut arguments = vec!["run".to_string()];
    arguments.extend(line.arguments());
    arguments.push(format!("--name={}", point.name));
    // What has no effect at this point may have one at others.
    arguments.push("--point".into());
    Ok(arguments)
}

/// The points that are still to be run, for whoever runs them elsewhere: `--out` and
/// the folder complete the arguments. A sweep that is resumed takes in what then lies
/// in the folders.
///
/// # Errors
/// If the state cannot be written.
pub fn hand_out(directory: &Path, sweep: &mut Sweep) -> Result<serde_json::Value, Failure> {
    let fixed = CommandLine::of_arguments(&sweep.definition.fixed).map_err(Failure::set_up)?;
    let mut points = Vec::new();
    for point in sweep.points.iter().filter(|point| point.state == PointState::Pending) {
        points.push(serde_json::json!({
            "name": point.name,
            "folder": absolute(&directory.join(&point.folder)),
            "arguments": arguments(&fixed, point)?,
        }));
    }
    sweep.state = State::Interrupted;
    sweep.write(directory).map_err(|error| {
        Failure::set_up(format!("cannot write to {}: {error}", directory.display()))
    })?;
    Ok(serde_json::json!({ "directory": absolute(directory), "points": points }))
}

/// The summary of a run that came to its end.
fn complete(folder: &Path) -> Option<summary::Run> {
    let run = summary::Run::read(folder).ok()?;
    (run.state == summary::State::Complete).then_some(run)
}

fn note_complete(point: &mut Point, run: &summary::Run) {
    let (state, code) = match run.is_valid() {
        true => (PointState::Done, exit_code::VALID),
        false if run.is_undecided() => (PointState::Undecided, exit_code::INVALID),
        false => (PointState::Invalid, exit_code::INVALID),
    };
    point.state = state;
    point.exit_code = Some(code);
    point.results = results(run);
    point.message = reasons(run);
}

/// What was said of a point whose system failed the probe or most answers, or could not be
/// set up.
fn words_of_failure(point: &Point) -> Option<String> {
    let codes = [exit_code::SET_UP, exit_code::ABORTED].map(Some);
    point.message.clone().filter(|_| codes.contains(&point.exit_code))
}

/// What came of the process that ran a point.
fn note(point: &mut Point, ended: &Ended, folder: &Path) {
    point.exit_code = ended.status.code();
    point.took_ns = Some(ended.took);
    point.results = Vec::new();
    point.message = None;
    let run = summary::Run::read(folder);
    if let Ok(run) = &run
        && run.state == summary::State::Complete
    {
        note_complete(point, run);
        return;
    }
    if ended.is_cut {
        point.state = PointState::Pending;
        (point.exit_code, point.took_ns) = (None, None);
        return;
    }
    point.state = PointState::Failed;
    point.message = match run {
        Ok(run) => {
            point.results = results(&run);
            reasons(&run).or(Some(run.verdict))
        }
        Err(_) => Some(last_words(ended)),
    };
}

/// Why a run does not count: the first reason of each test.
fn reasons(run: &summary::Run) -> Option<String> {
    let first = |test: &summary::Test| {
        test.reasons.first().map(|reason| format!("{}: {reason}", test.title()))
    };
    let all: Vec<String> = run.tests.iter().filter_map(first).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// What a process said before it ended without results.
fn last_words(ended: &Ended) -> String {
    let told = ended.said.iter().filter_map(|line| {
        line.strip_prefix("error: ").or(line.strip_prefix("hint: ")).map(str::to_string)
    });
    let mut words: Vec<String> = told.collect();
    if words.is_empty() {
        let from = ended.said.len().saturating_sub(3);
        words = ended.said[from..].to_vec();
        words.insert(0, format!("the process ended without results ({})", ended.status));
    }
    words.join("; ")
}

/// For progress: nobody needs three digits.
fn rough(nanos: Nanos) -> String {
    let seconds = nanos / 1_000_000_000;
    match seconds {
        0..100 => format!("{seconds}s"),
        100..7_200 => units::duration((seconds.max(120) * 1_000_000_000).cast_signed()),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}
