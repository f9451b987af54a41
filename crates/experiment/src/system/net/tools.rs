//! Tools of live sessions: a program that answers each call, or random words.

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, SECOND};
use dyno_net::client::{MOST_RESULT_WORDS, RunEnd, ToolRunner, random_results};
use dyno_net::protocol::ToolCall;
use dyno_net::workload::Lengths;
use dyno_results::units::parse_duration;
use dyno_sut::process_group::{self, GroupSignal, RunningGroup};
use serde_json::{Value, json};

use super::SpecKeys;
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

/// Default time limit of a call.
const LIMIT: Nanos = 30 * SECOND;

/// Maximum bytes of a result.
const LONGEST: u64 = 1 << 20;

/// Takes what answers calls of tools, if there is something: a program, or random words.
///
/// # Errors
/// Invalid keys, or a program that does not exist.
pub fn tools(
    given: &mut SpecKeys,
    run: &RunOptions,
    has_sessions: bool,
) -> Result<Option<ToolRunner>, Failure> {
    let words = result_words(given)?;
    let limit = match given.text("tools-limit") {
        None => None,
        Some(text) => match parse_duration(&text) {
            Ok(0) => {
                let why = format!("expected a time above 0, found `{text}`");
                return Err(given.wrong("tools-limit", why));
            }
            read => Some(read.map_err(|why| given.wrong("tools-limit", why))?),
        },
    };
    let program = given.text("tools");
    for (key, is_given) in [("tools", program.is_some()), ("tools-result", words.is_some())] {
        if is_given && !has_sessions {
            return Err(given.wrong(key, "it belongs to sessions; add sessions=live"));
        }
    }
    let text = match (program, limit, words) {
        (Some(_), _, Some(_)) => {
            let why = "the program of tools= writes the results; remove one of the two";
            return Err(given.wrong("tools-result", why));
        }
        (Some(text), _, None) => text,
        (None, Some(_), _) => {
            return Err(given.wrong("tools-limit", "it belongs to tools=COMMAND"));
        }
        (None, None, words) => {
            // Generated conversations have the seed before it.
            let seed = run.seed_of(RandomStream::Sessions).wrapping_add(1);
            return Ok(words.map(|words| random_results(words, seed)));
        }
    };
    let mut words = text.split_whitespace().map(str::to_owned);
    let Some(name) = words.next() else {
        return Err(given.wrong("tools", "expected a program and its arguments"));
    };
    if find(&name).is_none() {
        let problem = format!("tools: the program `{name}` was not found");
        return Err(Failure::set_up(problem).hint("give its path, or a name in PATH"));
    }
    let program = ToolProgram { name, arguments: words.collect(), limit: limit.unwrap_or(LIMIT) };
    Ok(Some(Arc::new(move |call: &ToolCall, run: &RunEnd| program.answer(call, run))))
}

/// Takes the lengths of random results.
fn result_words(given: &mut SpecKeys) -> Result<Option<Lengths>, Failure> {
    let words: Option<Lengths> = given.read_as("tools-result")?;
    match words.map(|words| words.least()).filter(|least| *least > MOST_RESULT_WORDS) {
        Some(least) => {
            let why = format!("expected at most {MOST_RESULT_WORDS} words, found {least}");
            Err(given.wrong("tools-result", why))
        }
        None => Ok(words),
    }
}

/// Returns the program of a command: its path, or its name if it does not exist; `None` for a command
/// without words.
pub fn program(command: &str) -> Option<PathBuf> {
    let name = command.split_whitespace().next()?;
    Some(find(name).unwrap_or_else(|| name.into()))
}

/// Returns the path of a program, which is in `PATH` if it is a bare name; `None` without such a file.
fn find(name: &str) -> Option<PathBuf> {
    if name.contains(std::path::is_separator) {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&folders).flat_map(|folder| {
        let path = folder.join(name);
        let program = path.with_extension("exe");
        [path, program]
    });
    files.find(|path| path.is_file())
}

/// A program that is started for each call, without a shell. It reads the call as JSON from its standard
/// input, and writes the result to its standard output.
struct ToolProgram {
    name: String,
    arguments: Vec<String>,
    /// Time limit of a call, ns.
    limit: Nanos,
}

impl ToolProgram {
    /// Returns the result of a call.
    ///
    /// # Errors
    /// Why there is none.
    fn answer(&self, call: &ToolCall, run: &RunEnd) -> Result<String, String> {
        let mut command = Command::new(&self.name);
        command.args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        process_group::separate(&mut command);
        let mut child =
            command.spawn().map_err(|error| format!("the tool cannot be started: {error}"))?;
        let _running = RunningGroup::register(&child);
        let time = Time { clock: Clock::start(), limit: self.limit, run };
        let output = communicate(&mut child, question(call));
        let read = time.receive(&output);
        let status = if read.is_some() { ended(&mut child, &time) } else { None };
        if status.is_none() {
            end(&mut child);
        }
        match (read, status) {
            _ if run.is_over() => Err("the run ended before the tool".into()),
            (None, _) | (Some(Ok(_)), None) => {
                let limit = dyno_results::units::duration(self.limit.cast_signed());
                Err(format!("the tool did not end within {limit}"))
            }
            (Some(Err(error)), _) => Err(format!("the result of the tool cannot be read: {error}")),
            (Some(Ok(_)), Some(status)) if !status.success() => {
                Err(format!("the tool failed ({status})"))
            }
            (Some(Ok(bytes)), Some(_)) => {
                let text = String::from_utf8(bytes).map_err(|_| "the result is not UTF-8")?;
                Ok(text.trim_end_matches(['\r', '\n']).to_owned())
            }
        }
    }
}

/// Time of a call: until its limit, or until the run is over.
struct Time<'a> {
    clock: Clock,
    /// ns.
    limit: Nanos,
    run: &'a RunEnd,
}

/// Time after which a tool notices that the run is over.
const NOTICED_WITHIN: Duration = Duration::from_millis(5);

impl Time<'_> {
    fn is_over(&self) -> bool {
        self.run.is_over() || self.clock.now() >= self.limit
    }

    /// Waits for a message; `None` if the time is over before.
    fn receive<T>(&self, messages: &mpsc::Receiver<T>) -> Option<T> {
        loop {
            match messages.recv_timeout(NOTICED_WITHIN) {
                Ok(message) => return Some(message),
                Err(mpsc::RecvTimeoutError::Timeout) if !self.is_over() => {}
                Err(_) => return None,
            }
        }
    }
}

/// Returns the call as a line of JSON. Arguments that are not JSON stay text.
fn question(call: &ToolCall) -> Vec<u8> {
    // A call of a function without parameters may come without them.
    let text = if call.arguments.is_empty() { "{}" } else { &call.arguments };
    let arguments = serde_json::from_str(text);
    let arguments = arguments.unwrap_or_else(|_| Value::String(call.arguments.clone()));
    let question = json!({"id": call.id, "name": call.name, "arguments": arguments});
    format!("{question}\n").into_bytes()
}

/// Writes the question and reads the output, on threads of their own: a tool may write before it has read
/// everything. The channel delivers the output at its end, or why there is no such thread.
fn communicate(child: &mut Child, question: Vec<u8>) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, output) = mpsc::channel();
    let failed = sender.clone();
    let start = |work: Box<dyn FnOnce() + Send>| {
        if let Err(error) = std::thread::Builder::new().spawn(work) {
            // The receiver still exists.
            let _ = failed.send(Err(error));
        }
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A tool may answer without reading.
        start(Box::new(move || _ = stdin.write_all(&question)));
    }
    if let Some(stdout) = child.stdout.take() {
        start(Box::new(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(LONGEST + 1).read_to_end(&mut bytes);
            let read = read.and_then(|_| match bytes.len() as u64 {
                ..=LONGEST => Ok(bytes),
                _ => Err(io::Error::other("it is longer than 1 MiB")),
            });
            // The receiver may have stopped waiting.
            let _ = sender.send(read);
        }));
    }
    output
}

/// Returns how a tool that has closed its output ended; `None` if it still runs when its time is over.
fn ended(child: &mut Child, time: &Time<'_>) -> Option<ExitStatus> {
    // The sender never sends: receiving with a timeout is a wait.
    let (_sender, never) = mpsc::channel::<()>();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if !time.is_over() => _ = never.recv_timeout(Duration::from_millis(1)),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Ends a tool and the processes that it started.
fn end(child: &mut Child) {
    process_group::signal(child, GroupSignal::Kill);
    let _ = child.kill();
    // It has ended, or cannot be ended.
    let _ = child.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use dyno_loadgen::clock::MILLISECOND;

    use super::super::sessions::sessions;
    use super::*;

    fn answer(script: &str, limit: Nanos) -> Result<String, String> {
        answer_in(script, limit, &RunEnd::default())
    }

    fn answer_in(script: &str, limit: Nanos, run: &RunEnd) -> Result<String, String> {
        let arguments = vec!["-c".into(), script.into()];
        let program = ToolProgram { name: "sh".into(), arguments, limit };
        let call = ToolCall {
            id: "c1".into(),
            name: "weather".into(),
            arguments: r#"{"city":"Oslo"}"#.into(),
            ..ToolCall::default()
        };
        program.answer(&call, run)
    }

    #[test]
    fn a_program_reads_the_call_and_writes_the_result() {
        let found = answer("cat", SECOND).unwrap();
        assert_eq!(found, r#"{"id":"c1","name":"weather","arguments":{"city":"Oslo"}}"#);
        assert_eq!(answer("printf 'a\nb\n\n'", SECOND).unwrap(), "a\nb");
    }

    #[test]
    fn a_program_reads_an_object_for_a_call_without_arguments() {
        let call =
            |arguments: &str| ToolCall { arguments: arguments.into(), ..ToolCall::default() };
        let read = |arguments: &str| String::from_utf8(question(&call(arguments))).unwrap();
        assert_eq!(read(""), "{\"id\":\"\",\"name\":\"\",\"arguments\":{}}\n");
        assert_eq!(read("a"), "{\"id\":\"\",\"name\":\"\",\"arguments\":\"a\"}\n");
    }

    #[test]
    fn a_program_that_fails_or_hangs_has_no_result() {
        assert!(answer("exit 3", SECOND).unwrap_err().contains("failed (exit status: 3)"));
        let clock = Clock::start();
        let told = answer("sleep 30 & sleep 30", 50 * MILLISECOND).unwrap_err();
        assert!(told.contains("did not end within 50.0 ms"), "{told}");
        let told = answer("exec >&-; sleep 30", 50 * MILLISECOND).unwrap_err();
        assert!(told.contains("did not end"), "{told}");
        assert!(clock.now() < 5 * SECOND);
        let told = answer("head -c 2000000 /dev/zero", 5 * SECOND).unwrap_err();
        assert!(told.contains("longer than 1 MiB"), "{told}");
    }

    #[test]
    fn a_program_and_its_children_end_with_the_run() {
        let folder = std::env::temp_dir().join(format!("dyno-tools-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("children");
        let script =
            format!("sleep 300 & echo $! $$ >> {0}.new; mv {0}.new {0}; wait", path.display());
        let run = RunEnd::default();
        let told = std::thread::scope(|scope| {
            let answered = scope.spawn(|| answer_in(&script, 300 * SECOND, &run));
            while !path.exists() {
                std::thread::yield_now();
            }
            run.end();
            answered.join().unwrap()
        });
        assert!(told.unwrap_err().contains("the run ended"));
        for id in std::fs::read_to_string(&path).unwrap().split_whitespace() {
            // A process that was ended may still run for a moment, and may not be reaped yet.
            let state = || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let is_gone = |state: &str| state.is_empty() || state.contains(") Z ");
            while !is_gone(&state()) {
                std::thread::yield_now();
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn random_results_have_their_lengths() {
        let mut given = SpecKeys::read("openai", "http://a,tools-result=3-5").unwrap();
        let found = tools(&mut given, &RunOptions::default(), true).unwrap().unwrap();
        let result = || found(&ToolCall::default(), &RunEnd::default()).unwrap();
        let words: Vec<usize> = (0..50).map(|_| result().split(' ').count()).collect();
        assert!(words.iter().all(|n| (3..=5).contains(n)), "{words:?}");
        assert!(words.contains(&3) && words.contains(&5), "{words:?}");
        let mut given = SpecKeys::read("openai", "http://a,tools-result=normal:1e8:1").unwrap();
        let found = tools(&mut given, &RunOptions::default(), true).unwrap().unwrap();
        let error = found(&ToolCall::default(), &RunEnd::default()).unwrap_err();
        assert!(error.contains("longer than 100000"), "{error}");
        let mut given = SpecKeys::read("openai", "http://a,tools-result=5").unwrap();
        assert!(
            tools(&mut given, &RunOptions::default(), false).err().unwrap().problems()[0]
                .contains("sessions=live")
        );
    }

    #[test]
    fn random_results_do_not_repeat_the_words_of_generated_conversations() {
        let run = RunOptions::default();
        let keys = "http://a,sessions=live,input=9,tools-result=9";
        let mut given = SpecKeys::read("openai", keys).unwrap();
        let (workload, _) = sessions(&mut given, &run, None).unwrap().unwrap();
        let found = tools(&mut given, &run, true).unwrap().unwrap();
        let result = found(&ToolCall::default(), &RunEnd::default()).unwrap();
        let asked = workload.input_json(0)[0]["content"].clone();
        assert_eq!(asked.as_str().unwrap().split(' ').count(), 9);
        assert_ne!(asked, json!(result));
    }

    #[test]
    fn a_program_must_exist() {
        let asked = |keys: &str| {
            let mut given = SpecKeys::read("openai", &format!("http://a,{keys}")).unwrap();
            tools(&mut given, &RunOptions::default(), true).map(|found| found.is_some())
        };
        assert!(asked("tools=sh -c true").unwrap());
        assert!(asked("tools-result=5").unwrap());
        assert!(!asked("model=m").unwrap());
        for (keys, expected) in [
            ("tools=no-such-program-of-dyno", "was not found"),
            ("tools=./no/such", "was not found"),
            ("tools-limit=1s", "belongs to tools"),
            ("tools=sh,tools-limit=0s", "above 0"),
            ("tools=sh,tools-result=5", "remove one of the two"),
            ("tools-result=5,tools-limit=1s", "belongs to tools"),
            ("tools-result=200000", "at most 100000 words, found 200000"),
        ] {
            let told = asked(keys).unwrap_err().problems()[0].clone();
            assert!(told.contains(expected), "{told}");
        }
    }
}
