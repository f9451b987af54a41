//! An external program as the evaluator, as in the thesis: a shell command, and a regular
//! expression that finds the accuracy in its output.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_number::Network;
use dyno_number::confirm::SampleOutcomes;
use dyno_number::network::{Direction, ExternalProgram};
use dyno_number::tune::{Evaluation, Stop, Subset, Trial};
use dyno_results::write::replace;
use dyno_sut::process_group::{self, GroupSignal, RunningGroup};
use regex::Regex;
use serde_json::{Value, json};

use super::built_in::file_hash;
use crate::failure::Failure;
use crate::watch::Interrupt;

/// Returns the program of a descriptor.
///
/// # Errors
/// The descriptor names no program.
pub fn program(network: &Network) -> Result<&ExternalProgram, Failure> {
    network.external.as_ref().ok_or_else(|| {
        Failure::usage("the descriptor names no program: `cmd_fullset` is missing").hint(
            "for example cmd_fullset = \"./network --config {config}\" with get_result_regex = \
             'accuracy: ([0-9.]+)'",
        )
    })
}

/// Returns names and SHA-256 of the programs that the commands start, on which the results of a job
/// depend.
///
/// # Errors
/// A file that cannot be read.
pub fn program_hashes(external: &ExternalProgram, folder: &Path) -> Result<Value, String> {
    let ExternalProgram { small_command, full_command, confirmation_command, .. } = external;
    let commands = [small_command.as_ref(), Some(full_command), confirmation_command.as_ref()];
    let mut files: Vec<PathBuf> = commands
        .into_iter()
        .flatten()
        .flat_map(|command| program_files(command, folder))
        // Every trial writes it anew.
        .filter(|file| external.config_file.as_deref().is_none_or(|name| !file.ends_with(name)))
        .collect();
    files.sort_unstable();
    files.dedup();
    let entry = |file: &PathBuf| -> Result<Value, String> {
        let name = file.strip_prefix(folder).unwrap_or(file).display().to_string();
        Ok(json!({"name": name, "sha256": file_hash(file)?}))
    };
    files.iter().map(entry).collect()
}

/// Returns the files that a line of the shell starts: the first word of each command that names a file
/// in `folder`, such as the script of an interpreter; or else the file in `PATH` of the first word.
fn program_files(line: &str, folder: &Path) -> Vec<PathBuf> {
    let words = |command: &str| {
        // What follows is the file of a redirection.
        let command = command.split(['<', '>']).next().unwrap_or_default().to_owned();
        let quotes = ['\'', '"', '(', ')', '`'];
        let words = command.split_whitespace().map(|word| word.trim_matches(quotes).to_owned());
        words.filter(|word| !word.is_empty()).collect::<Vec<String>>()
    };
    let commands = line.split(['\n', ';', '|', '&']).map(words);
    // The files that `test` asks for are no programs, and may come and go.
    let is_test = |words: &Vec<String>| {
        let first = words
            .iter()
            .find(|word| !["{", "!", "if", "while", "then", "do"].contains(&word.as_str()));
        first.is_some_and(|word| ["test", "[", "[["].contains(&word.as_str()))
    };
    let scripts: Vec<PathBuf> = commands
        .filter(|words| !is_test(words))
        .filter_map(|words| words.iter().map(|word| folder.join(word)).find(|file| file.is_file()))
        .collect();
    if !scripts.is_empty() {
        return scripts;
    }
    let Some(name) = words(line).into_iter().next() else { return Vec::new() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(&name));
    found.filter(|file| file.is_file()).take(1).collect()
}

/// A program that evaluates trials.
#[derive(Debug)]
pub struct Program {
    external: ExternalProgram,
    result: Regex,
    latency: Option<Regex>,
    sample: Option<Regex>,
    /// Whether more of the metric is better.
    direction: Direction,
    /// Working directory: the folder of its descriptor.
    folder: PathBuf,
    /// Folder of configurations.
    trials: PathBuf,
    /// Lists of samples of each set, in closed mode.
    lists: [Option<PathBuf>; 3],
    /// Whether a failed trial counts as one without accuracy instead of ending the job.
    goes_on: bool,
}

/// How trials of a program are run.
#[derive(Debug, Clone, Copy)]
pub struct TrialPolicy {
    /// Whether a failed trial does not end the job.
    pub goes_on: bool,
    /// Number of concurrent trials.
    pub jobs: usize,
}

/// Maximum number of bytes kept from the end of a program's output.
const KEPT: usize = 1 << 24;

/// The end of a stream of a program's output.
#[derive(Debug, Default)]
struct PrintedText {
    bytes: Vec<u8>,
    /// Whether the beginning of the stream was not kept.
    is_cut: bool,
}

impl PrintedText {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * KEPT {
            self.bytes.drain(..self.bytes.len() - KEPT);
            self.is_cut = true;
        }
    }

    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// Maximum number of pieces of the output that wait to be stored.
const PIECES: usize = 16;

/// Interval at which Ctrl-C and the time limit are checked.
const GLANCE: Duration = Duration::from_millis(50);

/// How long to keep reading the output after the program exits, if another process keeps it open.
/// Usually reading ends at once, unless the machine is too busy to run the reading thread.
const LINGER: Duration = Duration::from_secs(5);

/// Maximum number of lines of its output in failures.
const TOLD: usize = 5;

/// Environment variables with the path of the configuration, and with the name of the set.
const VARIABLES: [&str; 2] = ["DYNO_NUMBER_CONFIG", "DYNO_NUMBER_SET"];

impl Program {
    /// Returns a program that runs in `folder` and reads configurations from `trials`.
    ///
    /// # Errors
    /// A regular expression is invalid, or two concurrent trials would share a file.
    pub fn new(
        external: &ExternalProgram,
        direction: Direction,
        folder: &Path,
        trials: &Path,
        running: TrialPolicy,
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
        let sample = external.sample.as_deref();
        Ok(Self {
            result: compiled("get_result_regex", &external.result)?,
            latency: latency.map(|text| compiled("get_latency_regex", text)).transpose()?,
            sample: sample.map(|text| compiled("get_sample_regex", text)).transpose()?,
            external: external.clone(),
            direction,
            folder: folder.to_path_buf(),
            trials: trials.to_path_buf(),
            lists: [const { None }; 3],
            goes_on: running.goes_on,
        })
    }

    /// Sets the lists of the samples of each set, for `{samples}`.
    #[must_use]
    pub fn with_lists(mut self, lists: [PathBuf; 3]) -> Self {
        self.lists = lists.map(Some);
        self
    }

    /// Evaluates trials concurrently.
    pub fn evaluate(
        &self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Vec<Result<Evaluation, Stop>> {
        if let [only] = trials {
            return vec![self.one(only, interrupt)];
        }
        std::thread::scope(|scope| {
            let started = trials.iter().map(|trial| {
                let evaluate = move || self.one(trial, interrupt);
                let thread = std::thread::Builder::new().spawn_scoped(scope, evaluate);
                // If the system starts no further thread, this one evaluates the trial.
                thread.map_err(|_| evaluate())
            });
            let started: Vec<_> = started.collect();
            let ended = started.into_iter().map(|trial| match trial {
                Ok(thread) => thread.join().expect("a trial does not panic"),
                Err(answer) => answer,
            });
            ended.collect()
        })
    }

    fn one(&self, trial: &Trial, interrupt: &Interrupt) -> Result<Evaluation, Stop> {
        let clock = Clock::start();
        let found = self.accuracy(trial, interrupt);
        let seconds = clock.now() as f64 / 1e9;
        let is_base = trial.assignment.formats().iter().all(|f| *f == dyno_number::Format::F32);
        match found? {
            Ok(evaluation) => Ok(Evaluation { seconds, ..evaluation }),
            // Without a result of FLOAT(32) there is no baseline.
            Err(why) if self.goes_on && !is_base => {
                Ok(Evaluation { seconds, ..Evaluation::failed(why) })
            }
            Err(why) => Err(Stop::Failed(why)),
        }
    }

    /// Returns the program's result, or why it failed. Errors of this process, such as a full disk,
    /// are not failures of a configuration and end the job.
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

    /// Returns whether the program prints the results of single samples of a set.
    fn reads_samples(&self, subset: Subset) -> bool {
        self.sample.is_some() && subset == Subset::Confirmation
    }

    /// Parses the output of a program.
    fn read(&self, subset: Subset, printed: &str) -> Result<Evaluation, String> {
        let found = |what: &str, key: &str, regex: &Regex| {
            last_match(regex, printed)
                .map_err(|why| format!("printed no {what}: {why} `{key}`{}", told(printed)))
        };
        let accuracy = found("accuracy", "get_result_regex", &self.result)?;
        let latency = self.latency.as_ref();
        let latency = latency.map(|regex| found("latency", "get_latency_regex", regex));
        let sample = self.sample.as_ref().filter(|_| self.reads_samples(subset));
        let outcomes = match sample {
            Some(regex) => Some(outcomes(regex, printed, accuracy, self.direction)?),
            None => None,
        };
        let samples = match &outcomes {
            Some(outcomes) => Some(outcomes.len() as u64),
            None => self.external.samples.get(subset as usize).copied().flatten(),
        };
        Ok(Evaluation {
            outcomes,
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

    /// Returns the output of the command, or why it failed.
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
        process_group::separate(&mut command);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Err(Stop::Failed(format!("`{text}` cannot be started: {error}"))),
        };
        let _running = RunningGroup::register(&child);
        let (sender, outputs) = mpsc::sync_channel(PIECES);
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        if let Err(error) =
            listen(stdout, 0, sender.clone()).and_then(|()| listen(stderr, 1, sender))
        {
            process_group::signal(&child, GroupSignal::Kill);
            // The process has ended, or cannot be ended.
            let _ = child.wait();
            return Err(Stop::Failed(format!("the output of `{text}` cannot be read: {error}")));
        }
        let mut printed = [PrintedText::default(), PrintedText::default()];
        let ended = self.wait(&mut child, &outputs, &mut printed, interrupt);
        // Remaining processes would hold the pipes and slow down the next trial.
        process_group::signal(&child, GroupSignal::Kill);
        let ended = ended?;
        // A process that left the group may hold the pipes, and write to them without an end.
        let clock = Clock::start();
        while let Some(left) = LINGER.checked_sub(Duration::from_nanos(clock.now()))
            && let Ok((stream, piece)) = outputs.recv_timeout(left)
        {
            printed[stream].push(&piece);
        }
        let [stdout, stderr] = printed;
        let is_cut = stdout.is_cut || stderr.is_cut;
        let all = format!("{}\n{}", stderr.text(), stdout.text());
        Ok(match ended {
            Ok(status) if status.success() && is_cut && self.reads_samples(subset) => Err(format!(
                "printed more than {KEPT} bytes, so that the first results of samples are lost; print \
                 shorter lines"
            )),
            Ok(status) if status.success() => Ok(all),
            Ok(status) => Err(format!("failed ({status}){}", told(&all))),
            Err(why) => Err(format!("{why}{}", told(&all))),
        })
    }

    /// Waits for the process. Returns its status, or why it was ended. Stores its output meanwhile.
    fn wait(
        &self,
        child: &mut Child,
        outputs: &mpsc::Receiver<(usize, Vec<u8>)>,
        printed: &mut [PrintedText; 2],
        interrupt: &Interrupt,
    ) -> Result<Result<ExitStatus, String>, Stop> {
        let clock = Clock::start();
        let limit = (self.external.time_limit_s * SECOND as f64) as Nanos;
        // The sender never sends: receiving with a timeout is a wait.
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
                process_group::signal(child, GroupSignal::Kill);
                // The process has ended, or cannot be ended.
                let _ = child.wait();
                let seconds = self.external.time_limit_s;
                return if is_late {
                    Ok(Err(format!(
                        "was ended after {seconds} s, which `time_limit_s` allows: it hangs, or needs more"
                    )))
                } else {
                    Err(Stop::Interrupted)
                };
            }
            match outputs.recv_timeout(GLANCE) {
                Ok((stream, piece)) => printed[stream].push(&piece),
                Err(RecvTimeoutError::Timeout) => {}
                // Both streams are closed, so that the process is about to end.
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = never.recv_timeout(Duration::from_millis(1));
                }
            }
        }
    }
}

/// Sends a stream piece by piece until it ends.
///
/// # Errors
/// The system starts no further thread.
fn listen(
    mut stream: impl Read + Send + 'static,
    number: usize,
    sender: mpsc::SyncSender<(usize, Vec<u8>)>,
) -> io::Result<()> {
    let read = move || {
        let mut piece = vec![0; 1 << 16];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => {
                    // The receiver may have stopped waiting.
                    if sender.send((number, piece[..bytes].to_vec())).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    };
    std::thread::Builder::new().spawn(read).map(drop)
}

/// Returns the first group of the last match as a number.
fn last_match(regex: &Regex, printed: &str) -> Result<f64, String> {
    let last = regex.captures_iter(printed).last().ok_or("nothing matches")?;
    let group = last.get(1).ok_or("the group took no part in the match of")?.as_str();
    match group.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("{group:?} is no number, and is what matches")),
    }
}

/// Returns the scores of samples. Their mean is the metric, as a share or in percent. Errors and
/// scores may also be parts of a sum, such as the errors of sentences in a word error rate; the tuner
/// compares the ratio to their mean between configurations.
fn outcomes(
    regex: &Regex,
    printed: &str,
    accuracy: f64,
    direction: Direction,
) -> Result<SampleOutcomes, String> {
    let mut scores = Vec::new();
    for found in regex.captures_iter(printed) {
        let score = found.get(1).map_or("", |group| group.as_str()).trim();
        match score.parse::<f64>() {
            Ok(number) if number.is_finite() => scores.push(number),
            _ => {
                let at = scores.len();
                return Err(format!(
                    "printed {score:?} for sample {at}, which is no number: `get_sample_regex` matches it"
                ));
            }
        }
    }
    if scores.is_empty() {
        return Err(format!(
            "printed no result of a sample: nothing matches `get_sample_regex`{}",
            told(printed)
        ));
    }
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    let is_near = |value: f64| (value - accuracy).abs() <= SAME_MEAN * accuracy.abs().max(1e-9);
    let is_digit = scores.iter().all(|score| *score == 0.0 || *score == 1.0);
    let is_sum = (direction == Direction::Lower || !is_digit) && mean * accuracy > 0.0;
    if !is_sum && ![1.0, 100.0, 0.01].iter().any(|scale| is_near(mean * scale)) {
        return Err(format!(
            "printed {} results of samples with the mean {mean}, and {accuracy} as the result of all: \
             `get_sample_regex` has to match every sample once",
            scores.len()
        ));
    }
    Ok(if is_digit {
        SampleOutcomes::from_right(scores.into_iter().map(|score| score == 1.0))
    } else {
        SampleOutcomes::Scores(scores)
    })
}

/// How far the mean of samples may be from the printed result, because programs round.
const SAME_MEAN: f64 = 0.005;

/// Returns the last lines of an output, for messages.
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

/// Quotes a path as one word of a shell.
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
    fn results_of_samples_are_read_and_compared_with_the_whole() {
        let regex = Regex::new(r"sample \d+: (\S+)").unwrap();
        let of = |printed: &str, whole: f64| outcomes(&regex, printed, whole, Direction::Higher);
        let right = of("sample 0: 1\nsample 1: 0\nsample 2: 1\naccuracy 66.7", 66.7);
        assert_eq!(right, Ok(SampleOutcomes::Right("101".into())));
        let errors = of("sample 0: 2\nsample 1: 0.5\n", 1.25);
        assert_eq!(errors, Ok(SampleOutcomes::Scores(vec![2.0, 0.5])));
        assert!(
            of("sample 0: 1\nsample 1: 0\n", 0.9).is_err_and(|why| why.contains("the mean 0.5"))
        );
        assert!(of("sample 0: nan\n", 0.9).is_err_and(|why| why.contains("for sample 0")));
        assert!(of("accuracy 0.9\n", 0.9).is_err_and(|why| why.contains("nothing matches")));
        // Three errors in 20 words of two sentences.
        let errors = |printed: &str| outcomes(&regex, printed, 0.15, Direction::Lower);
        assert_eq!(
            errors("sample 0: 3\nsample 1: 0\n"),
            Ok(SampleOutcomes::Scores(vec![3.0, 0.0]))
        );
        assert_eq!(errors("sample 0: 1\nsample 1: 0\n"), Ok(SampleOutcomes::Right("10".into())));
        assert!(errors("sample 0: 0\nsample 1: 0\n").is_err(), "errors without an error");
    }

    #[test]
    fn programs_of_commands_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in ["net.py", "eval", "out.log"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let names = |line: &str| -> Vec<String> {
            let files = program_files(line, folder);
            let names = files.iter().filter_map(|file| file.file_name());
            names.map(|name| name.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names("python3 -u 'net.py' eval {config} > out.log"), ["net.py"]);
        assert_eq!(names("cd . && X=1 ./eval {config} | python3 net.py"), ["eval", "net.py"]);
        assert_eq!(names("no-such-program {config}"), [""; 0]);
        assert_eq!(names("sh -c true > out.log"), ["sh"]);
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
