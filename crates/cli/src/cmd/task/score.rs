//! `dyno task score`: scores an accuracy log.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::system::task;
use dyno_loadgen::log::read::open_accuracy;
use dyno_loadgen::settings::similar;
use dyno_metrics::payload::{ELEMENTS, Element, element_named};
use dyno_metrics::{
    DataError, DataProblem, Figure, Inputs, METHODS, Method, Need, ScoreError, ScoreReport, Scorer,
    score,
};
use dyno_results::units::counted;
use dyno_results::write::to_named;
use dyno_task::card;
use dyno_task::judge::Judge;
use serde_json::{Map, Value, json};

use crate::exit::Exit;
use crate::output;
use crate::output::console;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Score {
    /// Scoring method (dyno task methods), or a task with its own method and files
    #[arg(value_name = "METHOD")]
    method: String,
    /// Complete log of an accuracy run
    #[arg(long, value_name = "FILE", default_value = "mlperf_log_accuracy.json")]
    log: PathBuf,
    /// File that the method needs; repeatable
    #[arg(long = "with", value_name = "NAME=FILE")]
    with: Vec<String>,
    /// Option of the method; repeatable
    #[arg(long = "choose", value_name = "NAME=VALUE")]
    choose: Vec<String>,
    /// Element type of the answers, as NumPy names it, such as int32
    #[arg(long, value_name = "TYPE")]
    element: Option<String>,
    /// Accept a log that lacks answers to some samples; without it the exit code is 1
    #[arg(long)]
    partial: bool,
    /// Also write the output to this file, as accuracy.txt of a submission
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  dyno task score top1 --log out/mlperf_log_accuracy.json --with labels=val_map.txt
  dyno task score karate --log out/mlperf_log_accuracy.json
  dyno task methods";

/// Hint about the log.
const LOG_OF_A_RUN: &str = "use --log RUN/SCENARIO/accuracy/mlperf_log_accuracy.json, the log of a run with \
                            --mode accuracy";

/// A scoring method with its inputs.
enum ScoringMethod {
    Method(&'static Method, Inputs),
    Task(Box<Judge>),
}

impl ScoringMethod {
    fn method(&self) -> &'static Method {
        match self {
            Self::Method(method, _) => method,
            Self::Task(judge) => judge.method,
        }
    }

    /// Reads the references and returns the scorer.
    fn scorer(&self) -> Result<Box<dyn Scorer>, Failure> {
        let scorer = match self {
            Self::Method(method, inputs) => (method.open)(inputs),
            Self::Task(judge) => judge.scorer(),
        };
        scorer.map_err(of_data)
    }
}

impl Score {
    /// Scores the log and prints the output of the benchmark's accuracy script.
    ///
    /// # Errors
    /// An unknown method or input, an unreadable file, or an incomplete log.
    pub fn execute(self) -> Result<Exit, Failure> {
        let scoring_method = self.scoring_method()?;
        let method = scoring_method.method();
        if self.log.is_dir() {
            let problem = format!("{} is a folder; expected an accuracy log", self.log.display());
            return Err(Failure::usage(problem).hint(LOG_OF_A_RUN));
        }
        let failed =
            |problem: String| Failure::set_up(format!("{}: {problem}", self.log.display()));
        let scored = match open_accuracy(&self.log) {
            Ok(log) => score(log, || scoring_method.scorer()),
            // Report errors in the references first, as is done when the log exists.
            Err(error) => {
                scoring_method.scorer()?;
                return Err(failed(error.to_string()).hint(LOG_OF_A_RUN));
            }
        };
        let scored = scored.map_err(|error| match error {
            ScoreError::Scorer(failure) => failure,
            ScoreError::Log(problem) => failed(problem.to_string())
                .hint("score the log as the run wrote it, before it is truncated for a submission"),
        })?;
        counts(&scored).map_err(|failure| failure.hint(self.hint(method)))?;
        output::show(&scored.scores.text)?;
        output::say(counts_text(&scored, self.partial));
        if let Some(path) = &self.text {
            write(path, &scored.scores.text)?;
        }
        if let Some(path) = &self.json {
            write(path, &format!("{:#}\n", document(method, &scored)))?;
        }
        let is_complete = unanswered(&scored) == 0 || self.partial;
        Ok(if scored.malformed == 0 && is_complete { Exit::Valid } else { Exit::Invalid })
    }

    /// Returns the method, either named directly or that of a task.
    fn scoring_method(&self) -> Result<ScoringMethod, Failure> {
        let is_task = Method::named(&self.method).is_none() && card::named(&self.method).is_some();
        if !is_task {
            let method = self.method()?;
            return Ok(ScoringMethod::Method(method, self.inputs(method)?));
        }
        if let Some(flag) = self.choose.first().or(self.element.as_ref()) {
            let problem = format!(
                "{flag} has no effect: the card of task {} defines how it is scored",
                self.method
            );
            return Err(Failure::usage(problem));
        }
        let pair = |pair: &String| {
            let (name, file) = pair
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("--with {pair}: expected NAME=FILE")))?;
            Ok((name.to_owned(), PathBuf::from(file)))
        };
        let with = self.with.iter().map(pair).collect::<Result<Vec<_>, Failure>>()?;
        Ok(ScoringMethod::Task(Box::new(task::judge(&self.method, &with, &console())?)))
    }

    fn hint(&self, method: &Method) -> String {
        match (&self.element, method.element) {
            (None, Some(element)) => {
                format!("answers were read as {}; use --element for another type", element.name())
            }
            _ => format!("dyno task methods lists the files and options of {}", method.name),
        }
    }

    fn method(&self) -> Result<&'static Method, Failure> {
        Method::named(&self.method).ok_or_else(|| {
            let known: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
            let near = similar(&self.method, known.iter().copied());
            Failure::usage(format!("unknown method '{}'", self.method))
                .hint_name(near, "dyno task methods lists all methods")
        })
    }

    fn inputs(&self, method: &Method) -> Result<Inputs, Failure> {
        let mut files = BTreeMap::new();
        let needs = || method.needs.iter().map(|need| need.name);
        for pair in &self.with {
            let (name, file) = pair.split_once('=').ok_or_else(|| {
                Failure::usage(format!("--with {pair}: expected NAME=FILE"))
                    .hint(inputs_line(method))
            })?;
            if !needs().any(|need| need == name) {
                let problem = format!("--with {pair}: {} has no file '{name}'", method.name);
                return Err(Failure::usage(problem).hint(inputs_line(method)));
            }
            if files.insert(name.to_owned(), PathBuf::from(file)).is_some() {
                return Err(Failure::usage(format!("--with {name}=... is given twice")));
            }
        }
        let is_missing = |need: &&Need| need.is_required && !files.contains_key(need.name);
        if let Some(need) = method.needs.iter().find(is_missing) {
            let problem = format!("{} needs --with {}=FILE", method.name, need.name);
            return Err(Failure::usage(problem).hint(inputs_line(method)));
        }
        let element = self.element.as_deref().map(element).transpose()?;
        Ok(Inputs { files, element, choices: self.chosen(method)? })
    }

    fn chosen(&self, method: &Method) -> Result<BTreeMap<String, String>, Failure> {
        let mut chosen = BTreeMap::new();
        for pair in &self.choose {
            let wrong = |problem: &str| Failure::usage(format!("--choose {pair}: {problem}"));
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong("expected NAME=VALUE"))?;
            let choice = method.choices.iter().find(|choice| choice.name == name);
            let choice =
                choice.ok_or_else(|| wrong(&format!("{} has no such option", method.name)))?;
            if !choice.values.contains(&value) {
                return Err(wrong(&format!("expected one of {}", choice.values.join(", "))));
            }
            if chosen.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(wrong("it is given twice"));
            }
        }
        Ok(chosen)
    }
}

/// Checks that the figures are meaningful.
///
/// # Errors
/// The log has no answers, no valid answer, or a figure that is not finite.
fn counts(scored: &ScoreReport) -> Result<(), Failure> {
    let first = scored.first_malformed.first();
    let first = first.map(|entry| format!(": line {}: {}", entry.line, entry.problem));
    let wrong = |what: &str| {
        let problem = format!("{what}{}", first.as_deref().unwrap_or_default());
        Err(Failure::set_up(problem))
    };
    let is_number = |figure: &Figure| figure.value.is_finite();
    match scored {
        ScoreReport { references: Some(0), .. } => wrong("the references have no samples"),
        ScoreReport { entries: 0, .. } => {
            wrong("the log has no answers, as that of a run in performance mode")
        }
        ScoreReport { malformed, entries, .. } if malformed == entries => {
            wrong("no answer of the log is valid")
        }
        ScoreReport { malformed: 1.., counts_malformed: false, .. } => {
            wrong("the log has invalid answers, which the metric cannot count as wrong")
        }
        ScoreReport { scores, .. }
            if scores.figures.is_empty() || !scores.figures.iter().all(is_number) =>
        {
            wrong("the metric is undefined for these answers, for example if all clicks are equal")
        }
        _ => Ok(()),
    }
}

/// Returns the inputs of a method in one line.
fn inputs_line(method: &Method) -> String {
    let need = |need: &Need| format!("{}: {}", need.name, need.help);
    let needs: Vec<String> = method.needs.iter().map(need).collect();
    format!("{} takes {}", method.name, needs.join("; "))
}

fn element(name: &str) -> Result<Element, Failure> {
    element_named(name).ok_or_else(|| {
        let names = ELEMENTS.map(Element::name).join(", ");
        Failure::usage(format!("--element {name}: expected one of {names}"))
    })
}

fn of_data(error: DataError) -> Failure {
    match error.problem {
        DataProblem::NotGiven { .. } => Failure::usage(error),
        _ => Failure::set_up(error),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    to_named(path, text).map_err(|error| Failure::unwritable(path, &error))
}

/// Returns the number of samples of the references that the log does not answer.
fn unanswered(scored: &ScoreReport) -> u64 {
    scored.references.map_or(0, |references| references.saturating_sub(scored.samples))
}

/// Returns the counts of answers, and the problems of invalid ones.
fn counts_text(scored: &ScoreReport, is_partial: bool) -> String {
    let ScoreReport { entries, samples, references, malformed, contradicting, .. } = *scored;
    let total = references.map(|references| format!(" of {references}")).unwrap_or_default();
    let entries = counted(entries, "answer", "answers");
    let mut text = format!("{entries} to {samples}{total} samples\n");
    match unanswered(scored) {
        0 => {}
        _ if is_partial => {
            let _ = writeln!(text, "partial score: it covers {samples}{total} samples");
        }
        missing => {
            let _ = writeln!(
                text,
                "error: {} no answer, so this is not the score of the data \
                 set; complete the run, or use --partial to accept the score of a part",
                counted(missing, "sample has", "samples have")
            );
        }
    }
    if contradicting > 0 {
        let _ = writeln!(
            text,
            "warning: {} from the first answer to the same sample; the first one counts, as in \
             most official scripts",
            counted(contradicting, "answer differs", "answers differ")
        );
    }
    if malformed > 0 {
        let _ = writeln!(
            text,
            "warning: {} invalid, which counts as wrong if the metric has wrong answers:",
            counted(malformed, "answer is", "answers are")
        );
    }
    for entry in &scored.first_malformed {
        let _ = writeln!(text, "  line {}: sample {}: {}", entry.line, entry.index, entry.problem);
    }
    for note in &scored.scores.notes {
        let _ = writeln!(text, "warning: {note}");
    }
    text
}

fn document(method: &Method, scored: &ScoreReport) -> Value {
    let figures = scored.scores.figures.iter();
    let figures: Map<String, Value> =
        figures.map(|figure| (figure.metric.to_owned(), json!(figure.value))).collect();
    json!({
        "method": method.name,
        "figures": figures,
        "text": scored.scores.text,
        "entries": scored.entries,
        "samples": scored.samples,
        "references": scored.references,
        "malformed": scored.malformed,
    })
}
