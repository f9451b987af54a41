//! Runs aiperf: its command line, and the files that it needs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::settings::Arrivals;
use dyno_results::foreign::aiperf::RECORDS;
use dyno_results::units;
use serde_json::{Value, json};

use super::process::{self, Ending};
use super::{Shape, program};
use crate::End;
use crate::failure::Failure;
use crate::system::net::Replay;
use crate::watch::{Control, Interrupt};

/// aiperf as it is installed.
pub struct Aiperf {
    program: PathBuf,
}

/// Name of the program.
const NAME: &str = "aiperf";

/// Files of a run beside those that aiperf writes.
const REQUESTS: &str = "requests.json";
const TOKENIZER: &str = "tokenizer";
const LOG: &str = "aiperf.txt";

/// A tokenizer of one word. aiperf loads one although the server counts the tokens.
const WORDS: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"[UNK]":0},"unk_token":"[UNK]"}}"#;
const WORDS_CONFIG: &str = r#"{"tokenizer_class":"PreTrainedTokenizerFast","unk_token":"[UNK]"}"#;

/// Returns the type of endpoint of aiperf for a path; `None` if Dyno does not support it there.
pub fn endpoint(replay: &Replay<'_>) -> Option<&'static str> {
    let path = replay.path.split('?').next().unwrap_or_default();
    if path.ends_with("/chat/completions") {
        Some("chat")
    } else if path.ends_with("/completions") {
        Some("completions")
    } else {
        None
    }
}

/// Returns the arguments of a run that writes its results to `folder`.
pub fn arguments(replay: &Replay<'_>, shape: &Shape, folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut all: Vec<String> = vec!["profile".into()];
    let mut add = |flag: &str, value: String| all.extend([format!("--{flag}"), value]);
    add("model", model(replay));
    add("url", replay.url.clone());
    add("custom-endpoint", replay.path.clone());
    add("endpoint-type", endpoint(replay).unwrap_or("chat").into());
    add("input-file", file(REQUESTS));
    add("custom-dataset-type", "inputs-json".into());
    add("dataset-sampling-strategy", "sequential".into());
    add("tokenizer", file(TOKENIZER));
    add("request-count", shape.requests.to_string());
    if shape.warm_up > 0 {
        add("warmup-request-count", shape.warm_up.to_string());
    }
    let pattern = match shape.arrivals {
        Arrivals::Concurrency(in_flight) => {
            add("concurrency", in_flight.to_string());
            None
        }
        Arrivals::Constant => Some("constant"),
        Arrivals::Gamma(smoothness) => {
            add("arrival-smoothness", smoothness.to_string());
            Some("gamma")
        }
        Arrivals::Poisson | Arrivals::Burst(_) | Arrivals::Replay(_) => Some("poisson"),
    };
    if let Some(pattern) = pattern {
        add("request-rate", shape.rate.to_string());
        add("arrival-pattern", pattern.into());
        if let Some(most) = replay.limit {
            add("concurrency", most.to_string());
        }
    }
    add("ui", "none".into());
    add("export-level", "records".into());
    add("artifact-dir", folder.display().to_string());
    all.extend(
        ["--use-server-token-count", "--no-gpu-telemetry", "--no-server-metrics"].map(String::from),
    );
    if replay.is_streaming {
        all.push("--streaming".into());
    }
    all
}

/// Returns the model that the first request names.
fn model(replay: &Replay<'_>) -> String {
    let body: Value = serde_json::from_slice(&replay.body(0)).unwrap_or_default();
    body["model"].as_str().unwrap_or("default").to_owned()
}

impl Aiperf {
    /// Returns aiperf if it is installed.
    ///
    /// # Errors
    /// It is not, and how to install it.
    pub fn find() -> Result<Self, Failure> {
        let program = program(NAME).ok_or_else(|| {
            Failure::set_up("aiperf is neither in the active environment of Python nor on PATH")
                .hint("install it: pip install aiperf")
        })?;
        Ok(Self { program })
    }

    /// Returns its command line as one line.
    pub fn words(&self, arguments: &[String]) -> String {
        let quoted = |word: &String| {
            let is_special = word.contains([' ', '?', '&', '*']);
            if is_special { format!("'{word}'") } else { word.clone() }
        };
        let words: Vec<String> = arguments.iter().map(quoted).collect();
        format!("{NAME} {}", words.join(" "))
    }

    /// Runs it once; its files lie in `folder`.
    ///
    /// # Errors
    /// It cannot be started, fails, writes no records, or does not end within `limit` ns.
    pub fn run(
        &self,
        replay: &Replay<'_>,
        shape: &Shape,
        samples: &[SampleIndex],
        folder: &Path,
        control: Control<'_>,
        limit: Nanos,
    ) -> Result<End, Failure> {
        let cannot =
            |error: std::io::Error| Failure::set_up(format!("{}: {error}", folder.display()));
        // aiperf takes a relative path of a tokenizer for the name of one on the network.
        let absolute = std::path::absolute(folder).map_err(cannot)?;
        write_inputs(replay, samples, folder).map_err(cannot)?;
        let log = folder.join(LOG);
        let mut command = Command::new(&self.program);
        command.args(arguments(replay, shape, &absolute));
        let is_interrupted = || control.interrupt.is_some_and(Interrupt::is_asked);
        let failed = |what: String| {
            Failure::aborted(format!("{NAME} {what}: {}", last_words(&log)))
                .hint(format!("its output is in {}", log.display()))
        };
        match process::run(&mut command, &log, limit, &is_interrupted)? {
            Ending::Interrupted => Ok(End::Interrupted),
            Ending::OutOfTime => {
                let limit = units::duration(limit.cast_signed());
                Err(failed(format!("did not end within the remaining {limit} of --max-time")))
            }
            Ending::Exited(status) if !status.success() => {
                Err(failed(format!("failed ({status})")))
            }
            Ending::Exited(_) if !folder.join(RECORDS).is_file() => {
                Err(failed(format!("wrote no {RECORDS}")))
            }
            Ending::Exited(_) => Ok(End::Valid),
        }
    }
}

/// Writes the requests and the tokenizer.
fn write_inputs(
    replay: &Replay<'_>,
    samples: &[SampleIndex],
    folder: &Path,
) -> std::io::Result<()> {
    let tokenizer = folder.join(TOKENIZER);
    fs::create_dir_all(&tokenizer)?;
    fs::write(tokenizer.join("tokenizer.json"), WORDS)?;
    fs::write(tokenizer.join("tokenizer_config.json"), WORDS_CONFIG)?;
    let mut text = String::from("{\"data\":[");
    for (number, sample) in samples.iter().enumerate() {
        let body = String::from_utf8_lossy(&replay.body(*sample)).into_owned();
        let comma = if number > 0 { "," } else { "" };
        let id = json!(number.to_string());
        let _ = write!(text, "{comma}{{\"session_id\":{id},\"payloads\":[{body}]}}");
    }
    text += "]}\n";
    fs::write(folder.join(REQUESTS), text)
}

/// Returns the last line of the output that has words.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let is_word = |line: &&str| line.chars().any(char::is_alphabetic);
    let mut lines = text.lines().rev().filter(is_word);
    let error = text.lines().rev().find(|line| line.contains("ERROR"));
    let line = error.or_else(|| lines.next()).unwrap_or("it wrote nothing");
    line.trim().chars().take(LAST_WORDS).collect()
}

/// Maximum characters of the output in an error.
const LAST_WORDS: usize = 300;
