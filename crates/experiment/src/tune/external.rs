//! An external program as the evaluator, as the thesis has it: a command for a shell, and a regular expression
//! that finds the accuracy in what it prints.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_number::Network;
use dyno_number::network::ExternalProgram;
use dyno_number::tune::{Evaluation, Stop, Subset, Trial};
use dyno_results::write::replace;
use regex::Regex;

use crate::failure::Failure;
use crate::watch::Interrupt;

/// The program of a descriptor.
///
/// # Errors
/// It names none.
pub fn program(network: &Network) -> Result<&ExternalProgram, Failure> {
    network.external.as_ref().ok_or_else(|| {
        Failure::usage("the descriptor names no program: `cmd_fullset` is missing").hint(
            "cmd_fullset = \"./network --config {config}\" and get_result_regex = 'accuracy: ([0-9.]+)' say \
             how an accuracy is found",
        )
    })
}

/// A program that is asked for accuracies.
#[derive(Debug)]
pub struct Program {
    external: ExternalProgram,
    result: Regex,
    latency: Option<Regex>,
    /// Where it runs: the folder of its descriptor.
    folder: PathBuf,
    /// Where configurations lie.
    trials: PathBuf,
    /// Lists of samples of each set, in closed mode.
    lists: [Option<PathBuf>; 3],
    /// A trial that fails counts as one without accuracy, and does not end the job.
    goes_on: bool,
}

/// How a program is run.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    /// A trial that fails does not end the job.
    pub goes_on: bool,
    /// Trials at once.
    pub jobs: usize,
}

/// What a program printed is kept to this many bytes, from its end.
const KEPT: usize = 1 << 20;

/// How often Ctrl-C and the time limit are looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// Whoever keeps the program's output open after its end is not waited for longer. Others are done at once,
/// unless the machine has so much to do that whoever reads it does not come to that.
const LINGER: Duration = Duration::from_secs(5);

/// Lines of its output that are told if it fails.
const TOLD: usize = 5;

/// The environment variable with the path of the configuration, and the one with the name of the set.
const VARIABLES: [&str; 2] = ["DYNO_NUMBER_CONFIG", "DYNO_NUMBER_SET"];

impl Program {
    /// A program in `folder` whose trials' configurations are written to `trials`.
    ///
    /// # Errors
    /// A regular expression is none, or two trials at once would share a file.
    pub fn new(
        external: &ExternalProgram,
        folder: &Path,
        trials: &Path,
        running: Running,
    ) -> Result<Self, String> {
        let compiled = |key: &str, text: &str| {
            let regex = Regex::new(text).map_err(|error| format!("`{key}`: {error}"))?;
            match regex.captures_len() {
                0 | 1 => Err(format!("`{key}`: expected a group in parentheses, found {text:?}")),
                _ => Ok(regex),
            }
        };
        if running.jobs > 1 && external.config_file.is_some() {
            return Err(
                "trials at once cannot share `config_file`: put {config} into the commands, \
                        or evaluate one at a time"
                    .into(),
            );
        }
        let latency = external.latency.as_deref();
        Ok(Self {
            result: compiled("get_result_regex", &external.result)?,
            latency: latency.map(|text| compiled("get_latency_regex", text)).transpose()?,
            external: external.clone(),
            folder: folder.to_path_buf(),
            trials: trials.to_path_buf(),
            lists: [const { None }; 3],
            goes_on: running.goes_on,
        })
    }

    /// With lists of the samples of each set, for `{samples}`.
    #[must_use]
    pub fn with_lists(mut self, lists: [PathBuf; 3]) -> Self {
        self.lists = lists.map(Some);
        self
    }

    /// Evaluates trials, all at once.
    pub fn evaluate(
        &self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Vec<Result<Evaluation, Stop>> {
        if let [only] = trials {
            return vec![self.one(only, interrupt)];
        }
        std::thread::scope(|scope| {
            let each = trials.iter().map(|trial| scope.spawn(|| self.one(trial, interrupt)));
            let threads: Vec<_> = each.collect();
            let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.map(|answer| answer.expect("a trial does not panic")).collect()
        })
    }

    fn one(&self, trial: &Trial, interrupt: &Interrupt) -> Result<Evaluation, Stop> {
        let clock = Clock::start();
        let found = self.accuracy(trial, interrupt);
        let seconds = clock.now() as f64 / 1e9;
        let is_base = trial.assignment.formats().iter().all(|f| *f == dyno_number::Format::F32);
        match found? {
            Ok(evaluation) => Ok(Evaluation { seconds, ..evaluation }),
            // Without FLOAT(32) there is nothing to compare with.
            Err(why) if self.goes_on && !is_base => {
                Ok(Evaluation { seconds, note: Some(why), ..Evaluation::from_accuracy(0.0) })
            }
            Err(why) => Err(Stop::Failed(why)),
        }
    }

    /// What the program found, or why it failed. What fails on this side of it is no fault of a configuration, and
    /// ends the job: no process to be had, a full disk.
    fn accuracy(
        &self,
        trial: &Trial,
        interrupt: &Interrupt,
    ) -> Result<Result<Evaluation, String>, Stop> {
        let config = match &self.external.config_file {
            Some(name) => self.folder.join(name),
            None => self.trials.join(format!("{}-{}.conf", trial.subset, trial.number)),
        };
        let told_of = |problem: String| format!("trial {}: {problem}", trial.number);
        let of = |problem: String| Stop::Failed(told_of(problem));
        let formats = trial.assignment.dictionary().to_text(self.external.radix);
        let formats = formats.map_err(|problem| of(problem.to_string()))?;
        replace(&config, formats)
            .map_err(|error| of(format!("cannot write {}: {error}", config.display())))?;
        let command = self.command(trial.subset, &config).map_err(of)?;
        let printed = self.run(&command, trial.subset, &config, interrupt)?;
        let read = |printed: String| self.read(trial.subset, &printed);
        Ok(printed.and_then(read).map_err(|why| told_of(format!("`{command}` {why}"))))
    }

    /// Out of what a program printed.
    fn read(&self, subset: Subset, printed: &str) -> Result<Evaluation, String> {
        let found = |what: &str, key: &str, regex: &Regex| {
            last_match(regex, printed)
                .map_err(|why| format!("printed no {what}: {why} `{key}`{}", told(printed)))
        };
        let accuracy = found("accuracy", "get_result_regex", &self.result)?;
        let latency = self.latency.as_ref();
        let latency = latency.map(|regex| found("latency", "get_latency_regex", regex));
        let samples = self.external.samples.get(subset as usize).copied().flatten();
        Ok(Evaluation {
            latency_ns: latency.transpose()?,
            samples,
            ..Evaluation::from_accuracy(accuracy)
        })
    }

    fn command(&self, subset: Subset, config: &Path) -> Result<String, String> {
        let program = &self.external;
        let command = match subset {
            Subset::Small => program.small_command.as_ref().unwrap_or(&program.full_command),
            Subset::Full => &program.full_command,
            Subset::Confirmation => {
                program.confirmation_command.as_ref().unwrap_or(&program.full_command)
            }
        };
        let mut command = command.replace("{config}", &quoted(config));
        if let Some(list) = &self.lists[subset as usize] {
            command = command.replace("{samples}", &quoted(list));
        } else if command.contains("{samples}") {
            return Err("its command has {samples}, which --closed fills in".into());
        }
        Ok(command)
    }

    /// What the command printed, or why it failed.
    fn run(
        &self,
        text: &str,
        subset: Subset,
        config: &Path,
        interrupt: &Interrupt,
    ) -> Result<Result<String, String>, Stop> {
        if interrupt.is_asked() {
            return Err(Stop::Interrupted);
        }
        let mut command = Command::new("sh");
        command.arg("-c").arg(text).current_dir(&self.folder).stdin(Stdio::null());
        command.env(VARIABLES[0], config).env(VARIABLES[1], subset.name());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // So that Ctrl-C reaches only this process, and its end ends all that it started.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Err(Stop::Failed(format!("`{text}` cannot be started: {error}"))),
        };
        let (sender, outputs) = mpsc::channel();
        listen(child.stdout.take().expect("stdout is a pipe"), 0, sender.clone());
        listen(child.stderr.take().expect("stderr is a pipe"), 1, sender);
        let mut printed = [String::new(), String::new()];
        let ended = self.wait(&mut child, &outputs, &mut printed, interrupt);
        // Whatever it left behind would hold the pipes, and count against the next trial.
        end_group(&child);
        while let Ok((stream, text)) = outputs.recv_timeout(LINGER) {
            printed[stream] = text;
        }
        let [stdout, stderr] = printed;
        let all = format!("{stderr}\n{stdout}");
        Ok(match ended? {
            Ok(status) if status.success() => Ok(all),
            Ok(status) => Err(format!("failed ({status}){}", told(&all))),
            Err(why) => Err(format!("{why}{}", told(&all))),
        })
    }

    /// Its end, or why it was ended. Takes what it printed, if that ends first.
    fn wait(
        &self,
        child: &mut Child,
        outputs: &mpsc::Receiver<(usize, String)>,
        printed: &mut [String; 2],
        interrupt: &Interrupt,
    ) -> Result<Result<ExitStatus, String>, Stop> {
        let clock = Clock::start();
        let limit = (self.external.time_limit_s * SECOND as f64) as Nanos;
        // Nobody sends anything: this is how a thread waits.
        let (_sender, never) = mpsc::channel::<()>();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(Ok(status)),
                Ok(None) => {}
                Err(error) => {
                    return Err(Stop::Failed(format!("cannot wait for a program: {error}")));
                }
            }
            let is_late = clock.now() > limit;
            if is_late || interrupt.is_asked() {
                end_group(child);
                // It is gone, or nothing can be done about it.
                let _ = child.wait();
                let seconds = self.external.time_limit_s;
                return match is_late {
                    true => Ok(Err(format!(
                        "was ended after {seconds} s, which `time_limit_s` allows: it hangs, or needs more"
                    ))),
                    false => Err(Stop::Interrupted),
                };
            }
            match outputs.recv_timeout(GLANCE) {
                Ok((stream, text)) => printed[stream] = text,
                Err(RecvTimeoutError::Timeout) => {}
                // Its end is near.
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = never.recv_timeout(Duration::from_millis(1));
                }
            }
        }
    }
}

/// Ends a process and what it started.
fn end_group(child: &Child) {
    #[cfg(unix)]
    {
        let group = format!("-{}", child.id());
        let mut kill = Command::new("kill");
        kill.args(["-KILL", "--", &group]).stdout(Stdio::null()).stderr(Stdio::null());
        // An empty group is what is wanted.
        let _ = kill.status();
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// Sends the last part of what a stream brings, at its end.
fn listen(
    mut stream: impl Read + Send + 'static,
    number: usize,
    sender: mpsc::Sender<(usize, String)>,
) {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(bytes) => kept.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
            if kept.len() > 2 * KEPT {
                kept.drain(..kept.len() - KEPT);
            }
        }
        // Nobody may wait for it any more.
        let _ = sender.send((number, String::from_utf8_lossy(&kept).into_owned()));
    });
}

/// The first group of the last match, as a number.
fn last_match(regex: &Regex, printed: &str) -> Result<f64, String> {
    let last = regex.captures_iter(printed).last().ok_or("nothing matches")?;
    let group = last.get(1).ok_or("the group took no part in the match of")?.as_str();
    match group.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("{group:?} is no number, and is what matches")),
    }
}

/// The last lines of an output, for messages.
fn told(printed: &str) -> String {
    let lines: Vec<&str> =
        printed.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(TOLD)..] {
        [] => "; it printed nothing".into(),
        last => {
            let last: Vec<String> =
                last.iter().map(|line| line.chars().take(200).collect()).collect();
            format!("; the last that it printed:\n  {}", last.join("\n  "))
        }
    }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_counts() {
        let regex = Regex::new(r"accuracy[ =]+([0-9.a-z]+)").unwrap();
        let printed = "accuracy = 0.1\nepoch 2\naccuracy = 0.975\ndone\n";
        assert_eq!(last_match(&regex, printed), Ok(0.975));
        assert_eq!(last_match(&regex, "accuracy: 3"), Err("nothing matches".into()));
        let nan = last_match(&regex, "accuracy nan");
        assert_eq!(nan, Err("\"nan\" is no number, and is what matches".into()));
    }

    #[test]
    fn paths_are_one_word() {
        assert_eq!(quoted(Path::new("a b'c")), "'a b'\\''c'");
    }

    #[test]
    fn what_was_printed_is_told_in_few_lines() {
        let printed: String = (0..9).map(|line| format!("line {line}\n\n")).collect();
        let expected =
            "; the last that it printed:\n  line 4\n  line 5\n  line 6\n  line 7\n  line 8";
        assert_eq!(told(&printed), expected);
        assert_eq!(told("\n\n"), "; it printed nothing");
    }
}
