//! Trials of a tuner as jobs: the search runs here, each trial in its own process on this machine
//! or in a task of Ray.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use dyno_experiment::{Failure, Interrupt, LIFELINE};
use dyno_loadgen::clock::Clock;
use dyno_number::Format;
use dyno_number::tune::{Evaluation, Stop, Trial};
use dyno_sut::process_group;
use serde::Deserialize;
use serde_json::json;

use super::{Engine, LAST_WORDS, Launch, ManagedProcess, PAUSE, this_program};

use crate::cmd::tune::{Run, read_result};
use crate::cmd::{self, Dyno};
use crate::exit::Exit;
use crate::output;

/// Searches here, and evaluates each trial in a job.
pub(super) fn run(launch: &Launch) -> Result<Exit, Failure> {
    let words = ["dyno"].into_iter().chain(launch.command.iter().map(String::as_str));
    let run = match Dyno::read(words.map(Into::into).collect()) {
        Ok(Dyno { command: cmd::Command::Tune(tune) }) => tune.into_run(launch.workers.get())?,
        Ok(_) => unreachable!("the first word is tune"),
        Err(error) => return cmd::usage(&error),
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
    /// Whether a job that dies counts as a trial without accuracy instead of ending the search.
    goes_on: bool,
    driver: Option<Driver>,
}

/// The process that evaluates trials in tasks of Ray.
struct Driver {
    process: ManagedProcess,
    /// Sender of one line for each trial. A thread writes them, because the driver may still be
    /// starting. Dropping the sender makes the driver cancel its tasks and end.
    lines: Option<Sender<String>>,
    ended: Receiver<JobResult>,
    interrupt: Option<Interrupt>,
}

/// The exit code and output of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobResult {
    /// Number of the trial.
    number: u64,
    /// Exit code; `None` if the job died.
    code: Option<i32>,
    /// Reason why the job died.
    died: String,
    stdout: String,
    stderr: String,
}

impl Jobs {
    fn new(launch: &Launch, arguments: Vec<String>, run: &Run) -> Result<Self, Failure> {
        let driver = match launch.on {
            Engine::Ray => {
                let task = json!({ "trials": arguments });
                Some(Driver::new(launch.ray(task, Stdio::piped())?)?)
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
        ended: &JobResult,
        interrupt: &Interrupt,
    ) -> Result<Evaluation, Stop> {
        let prefix = format!("trial {}: ", trial.number);
        let message = ended.message();
        match ended.code {
            Some(0) => read_result(trial.number, &ended.stdout).ok_or_else(|| {
                Stop::Failed(format!(
                    "{prefix}expected a result from its job, found {:?}",
                    ended.stdout
                ))
            }),
            _ if interrupt.is_asked() => Err(Stop::Interrupted),
            Some(_) if message.starts_with(&prefix) => Err(Stop::Failed(message)),
            Some(code) => {
                Err(Stop::Failed(format!("{prefix}its job failed (exit code {code}): {message}")))
            }
            None => {
                let why = format!("{prefix}its job died ({}) {message}", ended.died);
                let why = why.trim_end().to_owned();
                // The search needs the accuracy of FLOAT 32, so a failure there ends it.
                let is_base = trial.assignment.formats().iter().all(|one| *one == Format::F32);
                if self.goes_on && !is_base {
                    Ok(Evaluation::failed(why))
                } else {
                    Err(Stop::Failed(why))
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

impl JobResult {
    /// Returns the error without its hints for terminal users.
    fn message(&self) -> String {
        let message = self.stderr.trim();
        let message = message.split("\nhint: ").next().unwrap_or(message);
        message.strip_prefix("error: ").unwrap_or(message).replace("\nerror: ", "; ")
    }

    /// Returns the result of a process, or that it could not be waited for.
    fn from_output(number: u64, output: std::io::Result<Output>) -> Self {
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

/// Evaluates trials in processes of this machine.
fn here(
    arguments: &[String],
    trials: &[Trial],
    interrupt: &Interrupt,
) -> Result<HashMap<u64, JobResult>, String> {
    let own = this_program().map_err(|failure| failure.problems().join("; "))?;
    let (sender, ended) = mpsc::channel();
    let mut lifelines: Vec<ChildStdin> = Vec::new();
    for trial in trials {
        let mut command = Command::new(&own);
        command.args(arguments).env(LIFELINE, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process_group::separate(&mut command);
        let number = trial.number;
        let mut child = command
            .spawn()
            .map_err(|error| format!("trial {number}: cannot start its job: {error}"))?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // If the job ended early, its own output explains why.
        let _ = writeln!(stdin, "{}", trial.to_json());
        lifelines.push(stdin);
        let sender = sender.clone();
        let wait = move || {
            // The receiver may have stopped waiting.
            let _ = sender.send(JobResult::from_output(number, child.wait_with_output()));
        };
        thread::Builder::new()
            .spawn(wait)
            .map_err(|error| format!("trial {number}: cannot start a thread: {error}"))?;
    }
    drop(sender);
    Ok(collect_results(&ended, trials.len(), interrupt, &mut |is_asked| {
        if is_asked {
            lifelines.clear();
        }
        true
    }))
}

/// Collects job results as they arrive. `look` gets whether an interrupt was requested, and returns
/// whether any job is still running.
fn collect_results(
    ended: &Receiver<JobResult>,
    count: usize,
    interrupt: &Interrupt,
    look: &mut dyn FnMut(bool) -> bool,
) -> HashMap<u64, JobResult> {
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
        // A job that does not notice is left alone, and ends with its trial.
        let is_late = asked_at.is_some_and(|at| clock.now() > at + LAST_WORDS);
        if !look(asked_at.is_some()) || is_late {
            break;
        }
    }
    found
}

impl Driver {
    fn new(mut process: ManagedProcess) -> Result<Self, Failure> {
        let no_thread =
            |error: io::Error| Failure::set_up(format!("cannot start a thread: {error}"));
        let mut stdin = process.child.stdin.take().expect("it is piped");
        let stdout = process.child.stdout.take().expect("it is piped");
        let (lines, to_write) = mpsc::channel::<String>();
        let write = move || {
            // A driver that has closed its stdin has ended, which is detected elsewhere.
            to_write.iter().try_for_each(|line| writeln!(stdin, "{line}"))
        };
        thread::Builder::new().spawn(write).map_err(no_thread)?;
        let (sender, ended) = mpsc::channel();
        let read = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    // The receiver may have stopped waiting.
                    Ok(one) => drop(sender.send(one)),
                    Err(_) => output::say(line),
                }
            }
        };
        thread::Builder::new().spawn(read).map_err(no_thread)?;
        Ok(Self { process, lines: Some(lines), ended, interrupt: None })
    }

    fn evaluate(
        &mut self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Result<HashMap<u64, JobResult>, String> {
        self.interrupt = Some(interrupt.clone());
        let Self { process, lines, .. } = self;
        for trial in trials {
            if let Some(lines) = lines {
                // The writing thread may have ended with the driver, which is detected below.
                let _ = lines.send(trial.to_json().to_string());
            }
        }
        Ok(collect_results(&self.ended, trials.len(), interrupt, &mut |is_asked| {
            if is_asked {
                *lines = None;
            }
            process.status().is_ok_and(|status| status.is_none())
        }))
    }

    /// Ends the driver after the last trial.
    fn end(self) {
        let Self { mut process, lines, interrupt, .. } = self;
        drop(lines);
        match interrupt {
            // The driver has reported everything by then.
            Some(interrupt) => drop(process.end(&interrupt, LAST_WORDS)),
            None => process.cut(),
        }
    }
}
