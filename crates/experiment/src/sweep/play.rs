//! Plays the pending points of a sweep, one process each, and updates `sweep.json`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::rng::Mt19937;
use dyno_results::run_directory::make_way;
use dyno_results::sweep::{LoadCurve, Point, PointState, State, Sweep, results};
use dyno_results::{summary, units};

use super::process::exit_code;
use super::process::{self, ProcessOutcome};
use super::{line, plan};

use crate::failure::Failure;
use crate::goals::Goals;
use crate::options::CommandLine;
use crate::watch::{Interrupt, Watch};

/// Limits of one invocation of a sweep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Pause between points, ns.
    pub pause: Nanos,
    /// Time limit of this invocation, ns.
    pub max_time: Option<Nanos>,
    /// Maximum number of points of this invocation.
    pub limit: Option<usize>,
    /// Whether failed points are run again.
    pub retry_failed: bool,
    /// Whether higher loads are skipped once the system is saturated.
    pub until_saturated: bool,
}

/// Why the sweep stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// There are no more points.
    Finished,
    /// Request to stop, such as Ctrl-C.
    Interrupted,
    /// `--max-time`.
    OutOfTime,
    /// `--limit`.
    Limit,
    /// Two points in a row failed with equal messages, so that the next ones would fail too.
    Failing,
}

/// A running sweep.
#[derive(Debug)]
pub struct Player<'a> {
    /// Directory of the sweep.
    pub directory: &'a Path,
    /// State of the sweep.
    pub sweep: &'a mut Sweep,
    /// Limits of this invocation.
    pub limits: Limits,
    /// Request to stop, such as Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// Observer that shows progress.
    pub watch: &'a Arc<dyn Watch>,
    /// Whether the result of each point is shown.
    pub is_talking: bool,
    /// Why the last state is not in the directory. The sweep goes on in memory then.
    pub not_written: Option<Failure>,
}

impl Player<'_> {
    /// Runs the pending points.
    ///
    /// # Errors
    /// The state cannot be written before the first point, or a process cannot be started.
    pub fn play(&mut self) -> Result<StopReason, Failure> {
        let clock = Clock::start();
        let fixed = CommandLine::of_arguments(&self.sweep.definition.fixed);
        let fixed = fixed.map_err(Failure::set_up)?;
        let order = points_to_run(self.sweep, self.limits.retry_failed);
        let mut left = Vec::new();
        for &at in &order {
            left.push(plan::expected(&fixed, &self.sweep.points[at].assignments)?.unwrap_or(0));
        }
        self.write(State::Running);
        if let Some(failure) = self.not_written.take() {
            return Err(failure);
        }
        let (mut ran, mut overhead, mut failing) = (0, 0, None);
        for (turn, &at) in order.iter().enumerate() {
            if self.sweep.points[at].state == PointState::Skipped {
                continue;
            }
            if self.limits.limit.is_some_and(|limit| ran >= limit as u64) {
                return self.stop(StopReason::Limit);
            }
            if turn > 0 {
                process::pause(self.limits.pause, &mut |_| self.is_over(&clock).is_some());
            }
            if let Some(stopped) = self.is_over(&clock) {
                return self.stop(stopped);
            }
            let mean = u64::checked_div(overhead, ran).unwrap_or(0);
            // The sum saturates: ten thousand points of an hour each are valid.
            let others = left[turn + 1..].iter().fold(0, |sum: Nanos, &ns| {
                sum.saturating_add(ns).saturating_add(self.limits.pause).saturating_add(mean)
            });
            let title = format!("point {}/{}", turn + 1, order.len());
            self.run(&fixed, at, &title, left[turn].saturating_add(mean), others, &clock)?;
            let point = &self.sweep.points[at];
            (ran, overhead) =
                (ran + 1, overhead + point.took_ns.unwrap_or(0).saturating_sub(left[turn]));
            if self.is_talking {
                self.watch.clear();
                self.watch.step(&format!("{title}  {}", line::line(point)));
            }
            self.write(State::Running);
            if self.sweep.points[at].state == PointState::Pending {
                let stopped = self.is_over(&clock).unwrap_or(StopReason::Interrupted);
                return self.stop(stopped);
            }
            let words = words_of_failure(&self.sweep.points[at]);
            if words.is_some() && words == failing {
                return self.stop(StopReason::Failing);
            }
            failing = words;
            if self.limits.until_saturated {
                self.skip_beyond(at);
                self.write(State::Running);
            }
        }
        self.stop(StopReason::Finished)
    }

    /// Skips the points with a higher load than a point if the system is saturated there.
    fn skip_beyond(&mut self, at: usize) {
        if !LoadCurve::from_sweep(self.sweep).is_some_and(|curve| curve.is_saturated()) {
            return;
        }
        let this = self.sweep.points[at].clone();
        let load = |point: &Point| point.assignments.values().find_map(|v| v.parse::<f64>().ok());
        let highest = load(&this);
        let is_open = |point: &&mut Point| point.state == PointState::Pending;
        for point in self.sweep.points.iter_mut().filter(is_open) {
            if load(point) <= highest {
                continue;
            }
            point.state = PointState::Skipped;
            point.message = Some(format!("{} saturated the system", this.name));
        }
    }

    fn is_over(&self, clock: &Clock) -> Option<StopReason> {
        let is_late = self.limits.max_time.is_some_and(|most| clock.now() >= most);
        if self.interrupt.is_asked() {
            Some(StopReason::Interrupted)
        } else {
            is_late.then_some(StopReason::OutOfTime)
        }
    }

    fn write(&mut self, state: State) {
        self.sweep.state = state;
        let written = self.sweep.write(self.directory).map_err(|error| {
            let next = format!("continue: dyno sweep --resume {}", self.directory.display());
            Failure::unwritable_folder(self.directory, &error, &next)
        });
        self.not_written = written.err();
    }

    fn stop(&mut self, stopped: StopReason) -> Result<StopReason, Failure> {
        let is_open = |point: &Point| point.state == PointState::Pending;
        let state = if self.sweep.points.iter().any(is_open) {
            State::Interrupted
        } else {
            State::Complete
        };
        self.write(state);
        Ok(stopped)
    }

    /// Runs one point. The remains of an earlier attempt are removed. A complete earlier attempt,
    /// whose result was not recorded, is used instead.
    fn run(
        &mut self,
        fixed: &CommandLine,
        at: usize,
        title: &str,
        expected: Nanos,
        others: Nanos,
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
            Failure::set_up(format!("cannot run point {title}: {error}")).hint(format!(
                "continue the sweep from here: dyno sweep --resume {}",
                self.directory.display()
            ))
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

/// Returns the indices of the points to run, in their order. With `retries`, failed points run again.
pub fn points_to_run(sweep: &Sweep, retries: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sweep.points.len()).collect();
    if sweep.definition.order == "random" {
        Mt19937::new(sweep.definition.order_seed).shuffle(&mut order);
    }
    order.retain(|&at| match sweep.points[at].state {
        PointState::Pending => true,
        PointState::Failed => retries,
        PointState::Done | PointState::Undecided | PointState::Invalid | PointState::Skipped => {
            false
        }
    });
    order
}

fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder))
}

/// Returns the arguments of a point's run, without its directory.
fn arguments(fixed: &CommandLine, point: &Point) -> Result<Vec<String>, Failure> {
    let line = plan::command_line_of_point(fixed, point)?;
    let mut arguments = vec!["run".to_string()];
    arguments.extend(line.arguments());
    arguments.push(format!("--name={}", point.name));
    // An option without effect at this point may have an effect at others.
    arguments.push("--point".into());
    Ok(arguments)
}

/// Returns the pending points as JSON for other launchers, in the order of the sweep. `--out` and the
/// folder complete the arguments. A resumed sweep imports the results in the folders.
///
/// # Errors
/// The state cannot be written.
pub fn hand_out(directory: &Path, sweep: &mut Sweep) -> Result<serde_json::Value, Failure> {
    let fixed = CommandLine::of_arguments(&sweep.definition.fixed).map_err(Failure::set_up)?;
    let mut points = Vec::new();
    for point in points_to_run(sweep, false).into_iter().map(|at| &sweep.points[at]) {
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

/// Returns the summary of a complete run.
fn complete(folder: &Path) -> Option<summary::Run> {
    let run = summary::Run::read(folder).ok()?;
    (run.state == summary::State::Complete).then_some(run)
}

fn note_complete(point: &mut Point, run: &summary::Run) {
    let (state, code) = if run.is_valid() {
        (PointState::Done, exit_code::VALID)
    } else if run.is_undecided() {
        (PointState::Undecided, exit_code::INVALID)
    } else {
        (PointState::Invalid, exit_code::INVALID)
    };
    point.state = state;
    point.exit_code = Some(code);
    point.results = results(run);
    point.message = reasons(run);
}

/// Returns the message of a point whose system failed the probe or most answers, or could not be
/// set up. It contains neither the name of the point's folder, which its partial folder contains too, nor
/// sizes: both differ where the failure is the same.
fn words_of_failure(point: &Point) -> Option<String> {
    let codes = [exit_code::SET_UP, exit_code::ABORTED].map(Some);
    let words = point.message.as_ref().filter(|_| codes.contains(&point.exit_code))?;
    let name = point.folder.rsplit('/').next().unwrap_or_default();
    let words: Vec<&str> = words.split(' ').collect();
    let is_size = |at: usize| words.get(at + 1) == Some(&"MB");
    let common = words
        .iter()
        .enumerate()
        .map(|(at, word)| if is_size(at) { "N".to_string() } else { word.replace(name, "FOLDER") });
    Some(common.collect::<Vec<_>>().join(" "))
}

/// Records the outcome of the process of a point.
fn note(point: &mut Point, ended: &ProcessOutcome, folder: &Path) {
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

/// Returns the first reason of each test of a run that is not VALID.
fn reasons(run: &summary::Run) -> Option<String> {
    let first = |test: &summary::Test| {
        test.first_reason().map(|reason| format!("{}: {reason}", test.title()))
    };
    let all: Vec<String> = run.tests.iter().filter_map(first).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Returns the last message of a process that ended without results.
fn last_words(ended: &ProcessOutcome) -> String {
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

/// Formats a duration roughly, for progress.
fn rough(nanos: Nanos) -> String {
    let seconds = nanos / 1_000_000_000;
    match seconds {
        0..100 => format!("{seconds}s"),
        100..7_200 => units::duration((seconds.max(120) * 1_000_000_000).cast_signed()),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(folder: &str, message: &str) -> Point {
        Point {
            number: 1,
            repeat: 1,
            name: folder.into(),
            assignments: std::collections::BTreeMap::new(),
            operations: None,
            state: PointState::Failed,
            folder: folder.into(),
            message: Some(message.into()),
            exit_code: Some(exit_code::SET_UP),
            took_ns: None,
            results: Vec::new(),
        }
    }

    #[test]
    fn a_full_disk_is_the_same_failure_in_each_folder() {
        let full = |name: &str, needed: u64| {
            let place = format!("/s/points/.{name}.partial/trial");
            let problem = format!("the logs take {needed} MB and `{place}` has 0 MB free");
            failed(&format!("points/{name}"), &problem)
        };
        let words = words_of_failure(&full("001-qps=100", 5));
        assert_eq!(words, words_of_failure(&full("002-qps=200", 12)));
        assert_ne!(words, words_of_failure(&failed("003", "the server refuses connections")));
        assert_eq!(words_of_failure(&Point { exit_code: Some(1), ..full("004", 5) }), None);
    }
}
