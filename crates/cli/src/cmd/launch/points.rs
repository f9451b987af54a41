//! The points of a sweep as jobs: handed out, run anywhere, and brought back.

use std::collections::VecDeque;
use std::process::{Command, Stdio};

use dyno_experiment::{Failure, Interrupt, LIFELINE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Engine, Kept, Launch, PAUSE, exit_of, this_program};
use crate::interrupt;

use crate::exit::Exit;
use crate::output;

/// What `dyno sweep --hand-out` prints.
#[derive(Debug, Deserialize)]
struct HandedOut {
    directory: String,
    points: Vec<Point>,
}

#[derive(Debug, Deserialize, serde::Serialize)]
struct Point {
    name: String,
    folder: String,
    arguments: Vec<String>,
}

/// Makes the sweep, has its points run, and takes them in.
pub(super) fn run(launch: &Launch) -> Result<Exit, Failure> {
    let own = this_program()?;
    let mut command = Command::new(&own);
    command.args(&launch.command);
    if launch.dry_run {
        let status = command.arg("--dry-run").status();
        return status.map(exit_of).map_err(|error| Failure::set_up(error.to_string()));
    }
    command.arg("--hand-out").stdin(Stdio::null()).stderr(Stdio::inherit());
    let out = command.output().map_err(|error| Failure::set_up(error.to_string()))?;
    if !out.status.success() {
        return Ok(exit_of(out.status));
    }
    let handed: HandedOut = serde_json::from_slice(&out.stdout)
        .map_err(|error| Failure::set_up(format!("dyno sweep --hand-out: {error}")))?;
    let interrupt = interrupt::listen().map_err(Failure::set_up)?;
    match launch.on {
        Engine::Ray => on_ray(launch, &handed, &interrupt)?,
        _ => here(launch, &handed, &interrupt)?,
    }
    if interrupt.is_asked() {
        output::say(format_args!("go on with: dyno sweep --resume {}", handed.directory));
        return Ok(Exit::Interrupted);
    }
    // Takes in what is complete, and runs what is not.
    let mut command = Command::new(&own);
    command.args(["sweep", "--resume", &handed.directory]).env(LIFELINE, "1");
    let last = Kept::start(command, "the end of the sweep")?;
    last.watched(&interrupt, &mut []).map(exit_of)
}

fn on_ray(launch: &Launch, handed: &HandedOut, interrupt: &Interrupt) -> Result<(), Failure> {
    let task = json!({ "points": handed.points });
    // What it could not do is done here.
    launch.ray(task, Stdio::inherit())?.watched(interrupt, &mut []).map(|_| ())
}

/// So many at a time as there are to be workers.
fn here(launch: &Launch, handed: &HandedOut, interrupt: &Interrupt) -> Result<(), Failure> {
    let own = this_program()?;
    let mut waiting: VecDeque<&Point> = handed.points.iter().collect();
    let mut running: Vec<(Kept, &Point)> = Vec::new();
    while !(waiting.is_empty() && running.is_empty()) {
        let mut still = Vec::new();
        for (mut kept, point) in running {
            match kept.status()? {
                Some(status) => {
                    let code = status.code().map_or(Value::Null, Value::from);
                    output::say(format_args!("{}: exit code {code}", point.name));
                }
                None => still.push((kept, point)),
            }
        }
        running = still;
        if interrupt.is_asked() {
            waiting.clear();
            running.iter_mut().for_each(|(kept, _)| kept.cut());
        }
        while running.len() < usize::from(launch.workers.get())
            && let Some(point) = waiting.pop_front()
        {
            let mut command = Command::new(&own);
            command.args(&point.arguments).arg(format!("--out={}", point.folder));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            running.push((Kept::start(command, "a point")?, point));
        }
        dyno_experiment::sweep::pause(PAUSE, &mut |_| false);
    }
    Ok(())
}
