//! `dyno package`: builds a submission tree from run directories.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::{Failure, files};
use dyno_results::VERSION;
use dyno_results::summary::Rules;
use dyno_rules::{Round, Suite};
use dyno_submission::entry::DivisionFolder;
use dyno_submission::package::{
    Availability, Description, Fields, Infer, MissingField, PackageError, PackageRequest,
    PackageSummary, capture, check_place, package,
};

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Package {
    /// Submission tree: a new directory, or one to add results to
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Run directories of dyno run, or directories of any harness with LoadGen's logs
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Round, such as v5.1 [default: the one that the runs were made for]
    #[arg(long)]
    round: Option<String>,
    /// Division
    #[arg(long, value_parser = DivisionFolder::ALL.map(DivisionFolder::name))]
    division: String,
    /// Name of the submitter
    #[arg(long, value_name = "NAME")]
    submitter: String,
    /// Name of the system's directory
    #[arg(long, value_name = "NAME")]
    system: String,
    /// Benchmark, by its name in the round; in the open division OWN=OFFICIAL for a model of your
    /// own, or OWN= for the benchmark of the runs [default: the one that the runs were made for]
    #[arg(long, value_name = "NAME[=OFFICIAL]")]
    benchmark: Option<String>,
    /// Suite of the system
    #[arg(long, value_parser = SUITES)]
    suite: String,
    /// Availability of the system
    #[arg(long, default_value = "available", value_parser = Availability::ALL.map(Availability::name))]
    availability: String,
    /// Derive missing results as the rules allow: on edge systems MultiStream from SingleStream,
    /// Offline from SingleStream or MultiStream; the lower of two targets, such as bert-99, from
    /// bert-99.9
    #[arg(long)]
    infer: bool,
    /// TOML file with descriptions that cannot be captured: tables [system], [measurement] and
    /// [pages]
    #[arg(long, value_name = "FILE")]
    describe: Option<PathBuf>,
}

const SUITES: [&str; 3] = ["datacenter", "edge", "both"];

const AFTER_HELP: &str = "\
Scenarios are read from the run directories. Accuracy logs are shortened and hashed. Fields that only
you know are marked FILL IN in the tree and listed; --describe fills them in the next time.
Exit codes: 0 written, 1 written, but a log makes a result invalid, 2 the runs are not a submission,
3 a file cannot be read or written.";

impl Package {
    /// Writes the tree.
    ///
    /// # Errors
    /// Missing data in the runs, or conflicting files. Nothing is written then.
    pub fn execute(self) -> Result<Exit, Failure> {
        check_place(&self.tree, &self.runs).map_err(|error| failure(&error))?;
        for run in &self.runs {
            if let Err(error) = std::fs::read_dir(run) {
                let problem = format!("cannot list the folder {}: {error}", run.display());
                let hint =
                    "name a run directory of dyno run, or a folder with mlperf_log_detail.txt";
                return Err(Failure::set_up(problem).hint(hint));
            }
        }
        let all = rules(&self.runs);
        let rules = if self.round.is_some() && self.benchmark.is_some() {
            all.first().map(|(_, rules)| rules.clone())
        } else {
            only(&all)?
        };
        let of_runs = |flag: &str, flag_value: &Option<String>, ran: Option<&str>| {
            flag_value.as_deref().or(ran).map(str::to_owned).ok_or_else(|| {
                let problem = format!("the runs do not state their {flag}");
                Failure::usage(problem).hint(format!("use --{flag}, or pass runs of one {flag}"))
            })
        };
        let ran = rules.as_ref();
        let round = of_runs("round", &self.round, ran.map(|rules| rules.round.as_str()))?;
        let round = Round::named(&round).map_err(Failure::usage)?;
        let ran = ran.map(|rules| rules.benchmark.as_str());
        let name = of_runs("benchmark", &self.benchmark, ran)?;
        let (benchmark, stands_for) = match name.split_once('=') {
            Some((own, "")) => (own.to_owned(), Some(of_runs("benchmark", &None, ran)?)),
            Some((own, official)) => (own.to_owned(), Some(official.to_owned())),
            None => (name, None),
        };
        let division = DivisionFolder::named(&self.division);
        let division = division.expect("clap takes the names of divisions alone");
        if stands_for.is_some() && division != DivisionFolder::Open {
            let problem = format!("the {} division has no models of its own", division.name());
            return Err(Failure::usage(problem)
                .hint("use --division open, or the name of an official benchmark"));
        }
        let availability = Availability::ALL.into_iter();
        let availability = availability.into_iter().find(|a| a.name() == self.availability);
        let suite = SUITES.iter().position(|suite| *suite == self.suite);
        let request = PackageRequest {
            round,
            division,
            submitter: self.submitter.clone(),
            system: self.system.clone(),
            benchmark,
            stands_for,
            suite: Suite::ALL[suite.expect("clap takes the names of suites alone")],
            availability: availability.expect("clap takes the names of categories alone"),
            infer: if self.infer { Infer::Missing } else { Infer::Nothing },
            captured: machine_fields(&self.runs),
            description: self.description()?,
            runs: self.runs.clone(),
        };
        let mut packaged = package(&request, &self.tree).map_err(|error| failure(&error))?;
        packaged.notes.extend(all.iter().filter_map(|ran| other_benchmark(&request, ran)));
        packaged.notes.extend(simulated(&self.runs));
        output::show(self.report(round, &packaged))?;
        Ok(if packaged.doubts.is_empty() { Exit::Valid } else { Exit::Invalid })
    }

    fn description(&self) -> Result<Description, Failure> {
        let mut description = match &self.describe {
            None => Description::default(),
            Some(path) => {
                let text = files::read_to_string(path)
                    .map_err(|error| Failure::unreadable(path, &error))?;
                Description::read(&text)
                    .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?
            }
        };
        if self.runs.iter().all(|run| is_of_digits(run)) {
            let known = |fields: &mut Fields, values: &[(&str, &str)]| {
                for (field, value) in values {
                    fields.entry((*field).to_owned()).or_insert_with(|| (*value).into());
                }
            };
            known(&mut description.measurement, &DIGITS);
            known(&mut description.pages, &DIGITS_PAGES);
        }
        Ok(description)
    }

    fn report(&self, round: &Round, packaged: &PackageSummary) -> String {
        let mut text = format!("tree: {}\n", self.tree.display());
        for (scenario, from) in &packaged.results {
            let from = from.map(|from| format!(", inferred from {}", from.name()));
            let _ = writeln!(text, "  {}{}", scenario.name(), from.unwrap_or_default());
        }
        for (benchmark, scenario) in &packaged.lower {
            let _ = writeln!(text, "  {}, copied to {benchmark}", scenario.name());
        }
        for path in &packaged.kept {
            let _ = writeln!(text, "kept as it was: {}", path.display());
        }
        for path in &packaged.completed {
            let _ = writeln!(text, "completed: {}", path.display());
        }
        text += &missing_fields(&packaged.missing_fields);
        for note in &packaged.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for doubt in &packaged.doubts {
            let _ = writeln!(text, "will not count: {doubt}");
        }
        let _ =
            writeln!(text, "next: dyno check {} --round {}", self.tree.display(), round.version);
        text
    }
}

/// Returns the fields left to fill in, once for consecutive files with the same fields.
fn missing_fields(marks: &[MissingField]) -> String {
    let fields = |file: &[MissingField]| -> String {
        file.iter().map(|mark| format!("  {}: {}\n", mark.field, mark.with)).collect()
    };
    let files: Vec<_> = marks.chunk_by(|one, next| one.path == next.path).collect();
    let mut text = String::new();
    for alike in files.chunk_by(|one, next| fields(one) == fields(next)) {
        let paths: Vec<_> = alike.iter().map(|file| file[0].path.display().to_string()).collect();
        let _ = write!(text, "fill in {}:\n{}", paths.join("\n    and "), fields(alike[0]));
    }
    text
}

/// Fields of the embedded default system.
const DIGITS: [(&str, &str); 5] = [
    ("input_data_types", "uint8"),
    ("retraining", "trained from scratch on the first 1,257 images of the data set"),
    ("starting_weights_filename", "none: the weights are part of dyno"),
    ("weight_data_types", "fp32"),
    ("weight_transformations", "none"),
];

const DIGITS_PAGES: [(&str, &str); 2] = [
    ("calibration", "Neither weights nor activations are quantised; there is no calibration."),
    (
        "code",
        "The model and the harness are parts of dyno: `crates/sut/src/digits` of its sources. The \
         README.md of each measurement has the command.",
    ),
];

/// Returns the summary of a run, or of the run that an audit is compared with.
fn summary(run: &Path) -> Option<serde_json::Value> {
    let read = |run: &Path| files::read(run.join(dyno_results::summary::FILE)).ok();
    serde_json::from_slice(&read(run).or_else(|| read(&run.join("baseline")))?).ok()
}

/// Whether a run measured the embedded default.
fn is_of_digits(run: &Path) -> bool {
    summary(run).is_some_and(|summary| summary["system"] == "digits")
}

/// Returns the rules of each run that names its round and benchmark.
fn rules(runs: &[PathBuf]) -> Vec<(&Path, Rules)> {
    // The summary may be any JSON, and mutable indexing of what is not an object panics.
    let rules_of =
        |run: &PathBuf| serde_json::from_value::<Rules>(summary(run)?.get("rules")?.clone()).ok();
    runs.iter().filter_map(|run| Some((run.as_path(), rules_of(run)?))).collect()
}

/// Returns the round and benchmark of the runs; `None` if no run names them.
///
/// # Errors
/// Runs of different rounds or benchmarks.
fn only(all: &[(&Path, Rules)]) -> Result<Option<Rules>, Failure> {
    let Some(((run, first), others)) = all.split_first() else { return Ok(None) };
    let title = |rules: &Rules| format!("{} of {}", rules.benchmark, rules.round);
    match others.iter().find(|(_, rules)| title(rules) != title(first)) {
        None => Ok(Some(first.clone())),
        Some((other, rules)) => {
            let (run, other) = (run.display(), other.display());
            let (one, another) = (title(first), title(rules));
            let problem = format!("{run} was run for {one}, {other} for {another}");
            let hint = "package the runs of one benchmark at a time into the same tree, or add \
                        --round and --benchmark";
            Err(Failure::usage(problem).hint(hint))
        }
    }
}

/// Returns the error for a run of another benchmark or round than it is packaged as.
fn other_benchmark(request: &PackageRequest<'_>, (run, rules): &(&Path, Rules)) -> Option<String> {
    let official = request.stands_for.as_ref().unwrap_or(&request.benchmark);
    let round = request.round.version.to_string();
    (*official != rules.benchmark || round != rules.round).then(|| {
        let (run, Rules { round: made, benchmark, .. }) = (run.display(), rules);
        format!(
            "{run} was run for {benchmark} of {made}, and is submitted for {official} of {round}"
        )
    })
}

/// Returns a note on each run in virtual time, which measured no system.
fn simulated(runs: &[PathBuf]) -> impl Iterator<Item = String> {
    let is_simulated = |run: &&PathBuf| summary(run).is_some_and(|read| read["time"] == "virtual");
    runs.iter().filter(is_simulated).map(|run| {
        format!("{} was simulated in virtual time, so it measured no system", run.display())
    })
}

/// Returns the fields of this machine; the framework is Dyno if all runs are of the embedded default.
fn machine_fields(runs: &[PathBuf]) -> Fields {
    let mut fields = capture(Path::new("/"));
    if runs.iter().all(|run| is_of_digits(run)) {
        fields.insert("framework".to_owned(), format!("Dyno {VERSION}").into());
    }
    fields
}

fn failure(error: &PackageError) -> Failure {
    let failure = match error {
        PackageError::File { .. } | PackageError::Truncate(_) => Failure::set_up(error),
        _ => Failure::usage(error),
    };
    error.hint().into_iter().fold(failure, Failure::hint)
}
