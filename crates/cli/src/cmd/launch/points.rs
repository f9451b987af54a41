//! Points of a sweep as jobs: handed out, run anywhere, and collected.

use std::collections::VecDeque;
use std::process::{Command, Stdio};

use dyno_experiment::{Failure, Interrupt, LIFELINE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Engine, Launch, ManagedProcess, PAUSE, exit_of, this_program};
use crate::cmd::{self, Dyno};
use crate::exit::Exit;
use crate::interrupt;
use crate::output;

/// The output of `dyno sweep --hand-out`.
#[derive(Debug, Deserialize)]
struct HandOut {
    directory: String,
    points: Vec<Point>,
}

#[derive(Debug, Deserialize, serde::Serialize)]
struct Point {
    name: String,
    folder: String,
    arguments: Vec<String>,
}

/// Creates the sweep, runs its points as jobs, and collects their results.
pub(super) fn run(launch: &Launch) -> Result<Exit, Failure> {
    let words = ["dyno"].into_iter().chain(launch.command.iter().map(String::as_str));
    let sweep = match Dyno::read(words.map(Into::into).collect()) {
        Ok(Dyno { command: cmd::Command::Sweep(sweep) }) => sweep,
        Ok(_) => unreachable!("the first word is sweep"),
        Err(error) => return cmd::usage(&error),
    };
    sweep.check_launched()?;
    let own = this_program()?;
    let mut command = Command::new(&own);
    command.args(&launch.command);
    if launch.dry_run || sweep.dry_run {
        let status = command.args((!sweep.dry_run).then_some("--dry-run")).status();
        return status.map(exit_of).map_err(|error| Failure::set_up(error.to_string()));
    }
    command.arg("--hand-out").stdin(Stdio::null()).stderr(Stdio::inherit());
    let out = command.output().map_err(|error| Failure::set_up(error.to_string()))?;
    if !out.status.success() {
        return Ok(exit_of(out.status));
    }
    let hand_out: HandOut = serde_json::from_slice(&out.stdout)
        .map_err(|error| Failure::set_up(format!("dyno sweep --hand-out: {error}")))?;
    let interrupt = interrupt::listen().map_err(Failure::set_up)?;
    match launch.on {
        Engine::Ray => on_ray(launch, &hand_out, &interrupt, sweep.quiet)?,
        _ => here(launch, &hand_out, &interrupt, sweep.quiet)?,
    }
    if interrupt.is_asked() {
        output::say(format_args!("continue with: dyno sweep --resume {}", hand_out.directory));
        return Ok(Exit::Interrupted);
    }
    // Collects complete points, and runs the others here.
    let mut command = Command::new(&own);
    command.args(["sweep", "--resume", &hand_out.directory]).args(sweep.end_flags());
    command.env(LIFELINE, "1");
    let last = ManagedProcess::start(command, "the end of the sweep")?;
    last.wait_for(&interrupt, &mut [], 0)
}

fn on_ray(
    launch: &Launch,
    hand_out: &HandOut,
    interrupt: &Interrupt,
    is_quiet: bool,
) -> Result<(), Failure> {
    let task = json!({ "points": hand_out.points, "quiet": is_quiet });
    // Points that failed there are run here afterwards.
    launch.ray(task, Stdio::inherit())?.wait_for(interrupt, &mut [], 0).map(|_| ())
}

/// Runs the points on this machine, as many at once as there are workers.
fn here(
    launch: &Launch,
    hand_out: &HandOut,
    interrupt: &Interrupt,
    is_quiet: bool,
) -> Result<(), Failure> {
    let own = this_program()?;
    let mut waiting: VecDeque<&Point> = hand_out.points.iter().collect();
    let mut running: Vec<(ManagedProcess, &Point)> = Vec::new();
    while !(waiting.is_empty() && running.is_empty()) {
        let mut still = Vec::new();
        for (mut process, point) in running {
            match process.status()? {
                Some(_) if is_quiet => {}
                Some(status) => {
                    let code = status.code().map_or(Value::Null, Value::from);
                    output::say(format_args!("{}: exit code {code}", point.name));
                }
                None => still.push((process, point)),
            }
        }
        running = still;
        if interrupt.is_asked() {
            waiting.clear();
            running.iter_mut().for_each(|(process, _)| process.cut());
        }
        while running.len() < usize::from(launch.workers.get())
            && let Some(point) = waiting.pop_front()
        {
            let mut command = Command::new(&own);
            command.args(&point.arguments).arg(format!("--out={}", point.folder));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            running.push((ManagedProcess::start(command, "a point")?, point));
        }
        dyno_experiment::sweep::pause(PAUSE, &mut |_| false);
    }
    Ok(())
}
