//! The trials of a tuner as jobs: the search is here, and each trial is a process of
//! its own, on this machine or in a task of Ray.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use clap::Parser as _;
use dyno_experiment::{Failure, Interrupt, LIFELINE};
use dyno_loadgen::clock::Clock;
use dyno_number::Format;
use dyno_number::tune::{Evaluation, Stop, Trial};
use serde::Deserialize;
use serde_json::json;

use super::{Engine, Kept, LAST_WORDS, Launch, PAUSE, own_group, this_program};

use crate::cmd::tune::{Run, read_result};
use crate::cmd::{self, Dyno};
use crate::exit::Exit;
use crate::output;

/// Searches here, and has each trial evaluated by a job.
pub(super) fn run(launch: &Launch) -> Result<Exit, Failure> {
    let words = ["dyno"].into_iter().chain(launch.command.iter().map(String::as_str));
    let run = match Dyno::try_parse_from(words) {
        Ok(Dyno { command: cmd::Command::Tune(tune) }) => tune.into_run(launch.workers.get())?,
        Ok(_) => unreachable!("the first word is tune"),
        Err(error) => return Ok(cmd::usage(&error)),
    };
    let arguments = run.trial_arguments()?;
    if launch.dry_run {
        return dry(launch, &arguments);
    }
    let mut jobs = Jobs::new(launch, arguments, &run)?;
    let exit = run.execute(Some(&mut |trials, interrupt| jobs.evaluate(trials, interrupt)));
    jobs.end();
    exit
}

fn dry(launch: &Launch, arguments: &[String]) -> Result<Exit, Failure> {
    let [search, job] = [&launch.command[..], arguments].map(|words| words.join(" "));
    let mut text = format!("dyno {search} --jobs {}\ndyno {job}\n", launch.workers);
    if launch.on == Engine::Ray {
        text += dyno_net::launch::RAY_DRIVER;
    }
    output::print(text).map(|()| Exit::Valid)
}

/// Jobs that evaluate trials.
struct Jobs {
    arguments: Vec<String>,
    /// A job that dies is a trial without accuracy, and does not end the search.
    goes_on: bool,
    driver: Option<Driver>,
}

/// The process that has trials evaluated in tasks of Ray.
struct Driver {
    process: Kept,
    /// A line a trial. Written by a thread: the driver may be busy with its start. Without it the
    /// driver has whatever is on ended, and ends.
    lines: Option<Sender<String>>,
    ended: Receiver<Ended>,
    interrupt: Option<Interrupt>,
}

/// How a job ended, and what it said.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ended {
    /// Of its trial.
    number: u64,
    /// None if it died.
    code: Option<i32>,
    /// What it died of.
    died: String,
    stdout: String,
    stderr: String,
}

impl Jobs {
    fn new(launch: &Launch, arguments: Vec<String>, run: &Run) -> Result<Self, Failure> {
        let driver = match launch.on {
            Engine::Ray => {
                let task = json!({ "trials": arguments });
                Some(Driver::new(launch.ray(task, Stdio::piped())?))
            }
            _ => None,
        };
        Ok(Self { arguments, goes_on: run.goes_on(), driver })
    }

    /// Evaluates trials, all at once.
    fn evaluate(
        &mut self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Vec<Result<Evaluation, Stop>> {
        if interrupt.is_asked() {
            return vec![Err(Stop::Interrupted)];
        }
        let found = match &mut self.driver {
            Some(driver) => driver.evaluate(trials, interrupt),
            None => here(&self.arguments, trials, interrupt),
        };
        let mut found = match found {
            Ok(found) => found,
            Err(why) => return vec![Err(Stop::Failed(why)); trials.len()],
        };
        let answer = |trial: &Trial| match found.remove(&trial.number) {
            Some(ended) => self.answer(trial, &ended, interrupt),
            None if interrupt.is_asked() => Err(Stop::Interrupted),
            None => {
                let why = "the driver for Ray ended before this trial did";
                Err(Stop::Failed(format!("trial {}: {why}", trial.number)))
            }
        };
        trials.iter().map(answer).collect()
    }

    fn answer(
        &self,
        trial: &Trial,
        ended: &Ended,
        interrupt: &Interrupt,
    ) -> Result<Evaluation, Stop> {
        let told = format!("trial {}: ", trial.number);
        let said = ended.said();
        match ended.code {
            Some(0) => read_result(trial.number, &ended.stdout).ok_or_else(|| {
                Stop::Failed(format!("{told}its job printed no result, but {:?}", ended.stdout))
            }),
            _ if interrupt.is_asked() => Err(Stop::Interrupted),
            Some(_) if said.starts_with(&told) => Err(Stop::Failed(said)),
            Some(code) => {
                Err(Stop::Failed(format!("{told}its job failed (exit code {code}): {said}")))
            }
            None => {
                let why = format!("{told}its job died ({}) {said}", ended.died);
                let why = why.trim_end().to_owned();
                // As when a program fails: without FLOAT 32 there is nothing to compare with.
                let is_base = trial.assignment.formats().iter().all(|one| *one == Format::F32);
                match self.goes_on && !is_base {
                    true => Ok(Evaluation { note: Some(why), ..Evaluation::from_accuracy(0.0) }),
                    false => Err(Stop::Failed(why)),
                }
            }
        }
    }

    fn end(self) {
        if let Some(driver) = self.driver {
            driver.end();
        }
    }
}

impl Ended {
    /// What is wrong, without the words that are for a terminal.
    fn said(&self) -> String {
        let said = self.stderr.trim();
        let said = said.split("\nhint: ").next().unwrap_or(said);
        said.strip_prefix("error: ").unwrap_or(said).replace("\nerror: ", "; ")
    }
}

impl From<(u64, std::io::Result<Output>)> for Ended {
    fn from((number, output): (u64, std::io::Result<Output>)) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match output {
            Ok(Output { status, stdout, stderr }) => Self {
                number,
                code: status.code(),
                died: status.to_string(),
                stdout: text(stdout),
                stderr: text(stderr),
            },
            Err(error) => Self { number, died: error.to_string(), ..Self::default() },
        }
    }
}

/// Evaluates trials by processes of this machine.
fn here(
    arguments: &[String],
    trials: &[Trial],
    interrupt: &Interrupt,
) -> Result<HashMap<u64, Ended>, String> {
    let own = this_program().map_err(|failure| failure.problems().join("; "))?;
    let (sender, ended) = mpsc::channel();
    let mut lifelines: Vec<ChildStdin> = Vec::new();
    for trial in trials {
        let mut command = Command::new(&own);
        command.args(arguments).env(LIFELINE, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        own_group(&mut command);
        let number = trial.number;
        let mut child = command
            .spawn()
            .map_err(|error| format!("trial {number}: cannot start its job: {error}"))?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // One that ended early says why itself.
        let _ = writeln!(stdin, "{}", trial.to_json());
        lifelines.push(stdin);
        let sender = sender.clone();
        std::thread::spawn(move || {
            // Nobody may wait for it any more.
            let _ = sender.send((number, child.wait_with_output()).into());
        });
    }
    drop(sender);
    Ok(collected(&ended, trials.len(), interrupt, &mut |is_asked| {
        if is_asked {
            lifelines.clear();
        }
        true
    }))
}

/// Jobs as they end. `look` is told whether somebody asked for an end, and says whether
/// there is anybody to wait for.
fn collected(
    ended: &Receiver<Ended>,
    count: usize,
    interrupt: &Interrupt,
    look: &mut dyn FnMut(bool) -> bool,
) -> HashMap<u64, Ended> {
    let clock = Clock::start();
    let mut asked_at = None;
    let mut found = HashMap::new();
    while found.len() < count {
        match ended.recv_timeout(Duration::from_nanos(PAUSE)) {
            Ok(one) => {
                found.insert(one.number, one);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupt.is_asked() {
            asked_at.get_or_insert(clock.now());
        }
        // One that does not notice is left alone, and ends with its trial.
        let is_late = asked_at.is_some_and(|at| clock.now() > at + LAST_WORDS);
        if !look(asked_at.is_some()) || is_late {
            break;
        }
    }
    found
}

impl Driver {
    fn new(mut process: Kept) -> Self {
        let mut stdin = process.child.stdin.take().expect("it is piped");
        let stdout = process.child.stdout.take().expect("it is piped");
        let (lines, to_write) = mpsc::channel::<String>();
        std::thread::spawn(move || {
            // Whoever reads no more has ended, which is noticed elsewhere.
            to_write.iter().try_for_each(|line| writeln!(stdin, "{line}"))
        });
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    // Nobody may wait for it any more.
                    Ok(one) => drop(sender.send(one)),
                    Err(_) => output::say(line),
                }
            }
        });
        Self { process, lines: Some(lines), ended, interrupt: None }
    }

    fn evaluate(
        &mut self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Result<HashMap<u64, Ended>, String> {
        self.interrupt = Some(interrupt.clone());
        let Self { process, lines, .. } = self;
        for trial in trials {
            if let Some(lines) = lines {
                // Whoever writes it may have ended with the driver, which is seen below.
                let _ = lines.send(trial.to_json().to_string());
            }
        }
        Ok(collected(&self.ended, trials.len(), interrupt, &mut |is_asked| {
            if is_asked {
                *lines = None;
            }
            process.status().is_ok_and(|status| status.is_none())
        }))
    }

    /// It has nothing to do any more.
    fn end(self) {
        let Self { mut process, lines, interrupt, .. } = self;
        drop(lines);
        match interrupt {
            // All is told by then.
            Some(interrupt) => drop(process.end(&interrupt)),
            None => process.cut(),
        }
    }
}
