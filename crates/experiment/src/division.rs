//! The division of a round that a run is eligible for, with the reasons against better ones.
//!
//! This is information for the user who made the run. `dyno check` validates submissions.
//! Conditions that cannot be seen from the run are listed separately.

use std::path::PathBuf;

use dyno_equivalence::fingerprint;
use dyno_results::summary::{Calibration, Division, Run, State, Test};
use dyno_rules::{Benchmark, Suite, Version};
use dyno_task::card::{self, Card, RequiredFile, Tier};
use dyno_tensors::files;
use serde_json::Value;

use crate::failure::Failure;
use crate::options::{Options, Rules, RunOptions};
use crate::system::{System, onnx, tuned};

/// Result of `dyno task equivalence --json` for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Model {
    verdict: String,
    /// The first and most serious reason.
    why: String,
    /// Conditions that must be proven in addition.
    conditions: Vec<String>,
}

/// Rejects an invalid file of `--equivalence` before anything is measured.
///
/// # Errors
/// The file cannot be read or is not the output of `dyno task equivalence --json`.
pub fn check(run: &RunOptions) -> Result<(), Failure> {
    model(run).map(|_| ())
}

fn model(run: &RunOptions) -> Result<Option<Model>, Failure> {
    let Some(path) = &run.equivalence else { return Ok(None) };
    let wrong = |why: &str| {
        Failure::set_up(format!("--equivalence {}: {why}", path.display())).hint(
            "dyno task equivalence MODEL.onnx --reference REF.onnx --json prints this document",
        )
    };
    let text = files::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
    let read: Value = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    if read["schema"] != "dyno.equivalence" {
        return Err(wrong("expected the output of dyno task equivalence --json"));
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let stated = [&read["verdict"], &read["reasons"][0]["what"], &read["model_sha256"]].map(text);
    let [Some(verdict), Some(why), Some(sha256)] = stated else {
        return Err(wrong("expected a verdict with its reasons and the model's SHA-256"));
    };
    let Some(model) = measured(run) else {
        return Err(wrong("the system is not a single ONNX model"));
    };
    let found = fingerprint(&model).map_err(|error| wrong(&error.to_string()))?;
    if found != sha256 {
        let (model, of) = (model.display(), text(&read["model"]).unwrap_or_default());
        return Err(wrong(&format!(
            "it describes the model {of}, SHA-256 {sha256}, not {model} (SHA-256 {found})"
        )));
    }
    let conditions = read["conditions"].as_array().into_iter().flatten();
    let conditions = conditions.filter_map(|one| Some(one.as_str()?.to_owned())).collect();
    Ok(Some(Model { verdict, why, conditions }))
}

/// Returns the file of the measured model, if the user names it.
fn measured(run: &RunOptions) -> Option<PathBuf> {
    match run.system.as_deref()?.split_once(':') {
        Some(("task", _)) => {
            let model = run.with.iter().find(|(name, _)| name == "model");
            model.map(|(_, path)| path.clone())
        }
        Some(("onnx" | "tract", operand)) if !onnx::parse(operand).file.is_empty() => {
            Some(onnx::parse(operand).file.into())
        }
        Some(("tuned", text)) => tuned::model(text).or_else(|| run.model.clone()),
        _ => run.model.clone(),
    }
}

/// Returns the eligibility of a finished run.
pub fn statement(run: &Run, options: &Options, system: &System) -> Division {
    let card = system.spec.strip_prefix("task:").and_then(card::named);
    let mut stated = Division { could_be: "none".into(), ..Division::default() };
    stated.calibration = card.and_then(|card| card.data.calibration.as_ref()).map(|set| {
        let (what, sha256) = (set.what.clone(), set.sha256.clone());
        Calibration { what, samples: set.samples, sha256 }
    });
    stated.reasons = against_any(run, options.rules.as_ref(), system, card);
    let (true, Some(rules)) = (stated.reasons.is_empty(), &options.rules) else { return stated };
    // The file was checked before the run; if it changed since, it is ignored.
    let model = model(&options.run).ok().flatten();
    stated.reasons = against_closed(run, options, model.as_ref());
    stated.reasons.extend(system.other_data.iter().cloned());
    stated.could_be = if stated.reasons.is_empty() { "closed" } else { "open" }.into();
    stated.provided = provided(run, rules, card);
    if stated.reasons.is_empty() {
        stated.provided.extend(closed_provided(run, rules, card, model.as_ref()));
    }
    stated
}

/// Returns why the run is not a run of a benchmark.
fn against_any(
    run: &Run,
    rules: Option<&Rules>,
    system: &System,
    card: Option<&Card>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut say = |reason: String| reasons.push(reason);
    if system.is_simulated() {
        say("the system is simulated".into());
    } else if system.spec == "null" {
        say("the null system computes nothing".into());
    } else if system.is_synthetic() {
        say("the samples are generated, not the data set of a benchmark".into());
    }
    match (card, rules) {
        (Some(Card { tier: Tier::Official, name, rules: Some(of), .. }), Some(rules)) => {
            let asked = rules.round.benchmark(of).map(Benchmark::family);
            if asked != Some(rules.benchmark.family()) {
                let benchmark = &rules.benchmark.name;
                say(format!("task {name} is not the benchmark {benchmark} of the round"));
            }
        }
        (Some(Card { tier: Tier::Official, .. }), None) => {}
        (Some(card), _) => say(format!(
            "task {} is of tier {}, without the weights and the data of a benchmark",
            card.name,
            card.tier.name()
        )),
        (None, _) if system.short_name() == "digits" => {
            say("the built-in digits are not the data set of a benchmark".into());
        }
        (None, _) => {}
    }
    if let Some(Card { tier: Tier::Official, data, .. }) = card
        && let found = system.library_size().total
        && found != data.accuracy_samples
    {
        say(format!("{found} samples were used, but {} has {}", data.name, data.accuracy_samples));
    }
    if let (None, Some(rules), false) = (card, rules, system.is_simulated()) {
        let (of, found) = (&rules.benchmark.dataset, system.library_size().total);
        if of.samples != found && system.spec != "null" && !system.is_synthetic() {
            let name = system.library.name();
            say(format!("{name} has {found} samples, but {} has {}", of.name, of.samples));
        }
    }
    if rules.is_none() {
        say("no round is selected with --round and --benchmark".into());
    }
    if run.state != State::Complete {
        say("the run did not finish".into());
    }
    for test in run.tests.iter().filter(|test| !test.is_valid() && !is_short_of_accuracy(test)) {
        // A submitter's own script may score the answers.
        if test.is_undecided() && test.accuracy.is_some() {
            continue;
        }
        let of_logs = if test.is_undecided() { "; its logs have INVALID" } else { "" };
        say(format!("{} is {}{of_logs}", test.title(), test.verdict));
    }
    reasons
}

/// Returns whether insufficient accuracy is the only reason against the test.
fn is_short_of_accuracy(test: &Test) -> bool {
    let Some(of) = test.accuracy.as_ref().filter(|of| !of.short_of.is_empty()) else {
        return false;
    };
    test.state == State::Complete && test.reasons.iter().all(|why| of.short_of.contains(why))
}

/// Returns why the run is not eligible for the Closed division.
fn against_closed(run: &Run, options: &Options, model: Option<&Model>) -> Vec<String> {
    let mut reasons = options.departures_from_round();
    for test in run.tests.iter().filter(|test| is_short_of_accuracy(test)) {
        let of = test.accuracy.as_ref().expect("it misses the target");
        let sentences = of.short_of.iter().map(|why| format!("{}: {why}", test.title()));
        reasons.extend(sentences);
    }
    if let Some(model) = model.filter(|model| model.verdict != "closed") {
        let why = &model.why;
        reasons.push(match model.verdict.as_str() {
            "unknown" => format!("whether the model equals the reference is unknown: {why}"),
            "restricted-retraining" => format!(
                "the model differs from the reference: {why} (the tag of restricted retraining is \
                 open to it)"
            ),
            _ => format!("the model differs from the reference: {why}"),
        });
    }
    reasons
}

/// Returns the conditions of both divisions that cannot be seen from the run.
fn provided(run: &Run, rules: &Rules, card: Option<&Card>) -> Vec<String> {
    let mut provided = Vec::new();
    let has = |mode: &str| run.tests.iter().any(|test| test.mode == mode);
    for mode in ["accuracy", "performance"] {
        if !has(mode) {
            provided.push(format!("add a run of mode {mode}"));
        }
    }
    let set = &rules.benchmark.dataset.name;
    match card.map(unchecked) {
        None => provided.push(format!("the samples are {set}, prepared like the reference")),
        Some(files) if !files.is_empty() => {
            let files = files.join(", ");
            provided
                .push(format!("the files {files} are those of {set}; their checksums are unknown"));
        }
        Some(_) => {}
    }
    let first_with_suites = Version { major: 0, minor: 7 };
    if rules.round.version >= first_with_suites {
        for suite in [Suite::Datacenter, Suite::Edge] {
            let Some(wanted) = rules.benchmark.scenarios_in(suite) else { continue };
            let names = wanted.required.iter().map(|scenario| scenario.name());
            let missing: Vec<&str> =
                names.filter(|name| run.tests.iter().all(|test| test.scenario != *name)).collect();
            if !missing.is_empty() {
                let missing = missing.join(" and ");
                provided.push(format!("in suite {}: add {missing}", suite.name()));
            }
        }
    }
    provided
}

/// Returns the data files of a card that have no checksum.
fn unchecked(card: &Card) -> Vec<&str> {
    let is_unchecked = |file: &&RequiredFile| {
        file.md5.is_empty() && file.md5_of.is_empty() && file.sha256.is_none()
    };
    card.data.files.iter().filter(is_unchecked).map(|file| &file.name[..]).collect()
}

/// Returns the further conditions of the Closed division.
fn closed_provided(
    run: &Run,
    rules: &Rules,
    card: Option<&Card>,
    model: Option<&Model>,
) -> Vec<String> {
    let mut provided = Vec::new();
    match model {
        None => provided.push(
            "the model is the reference or a quantized reference; check with dyno task \
             equivalence"
                .into(),
        ),
        Some(model) => provided.extend(model.conditions.iter().cloned()),
    }
    let is_unscored =
        |test: &Test| test.accuracy.as_ref().is_some_and(|of| of.is_reached().is_none());
    if run.tests.iter().any(is_unscored) {
        provided.push("its accuracy reaches the target; it was not scored here".into());
    }
    if let Some(set) = card.and_then(|card| card.data.calibration.as_ref()) {
        let hash = set.sha256.as_ref().map(|hash| format!(" (SHA-256 {hash})"));
        let hash = hash.unwrap_or_default();
        provided.push(format!("the quantizer was calibrated only with {}{hash}", set.what));
    }
    if !rules.benchmark.audits.is_empty() {
        let audits = rules.benchmark.audits.join(", ");
        provided.push(format!("it passes {audits}: dyno audit"));
    }
    provided
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_results::summary::{self, Accuracy};

    use crate::environment;
    use crate::options::CommandLine;
    use dyno_loadgen::settings::TestMode;

    fn options(set: &[&str]) -> Options {
        let set = set.iter().map(|&text| text.into()).collect();
        let mut line = CommandLine { set, ..CommandLine::default() };
        line.give("round", "v5.1");
        line.give("benchmark", "resnet");
        line.give("scenario", "Offline");
        Options::read(&line, std::iter::empty()).unwrap()
    }

    fn test(mode: TestMode, accuracy: Option<Accuracy>) -> Test {
        Test { verdict: "VALID".into(), accuracy, ..Test::new("Offline", summary::mode_name(mode)) }
    }

    fn run(value: f64) -> Run {
        let short_of: &[&str] = if value < 0.757 { &["The acc is below."] } else { &[] };
        let accuracy = Accuracy {
            metric: Some("acc".into()),
            value: Some(value),
            target: Some(0.757),
            short_of: short_of.iter().map(|&why| why.to_owned()).collect(),
            ..Accuracy::default()
        };
        let tests = vec![
            test(TestMode::AccuracyOnly, Some(accuracy)),
            test(TestMode::PerformanceOnly, None),
        ];
        Run {
            schema: summary::SCHEMA.into(),
            schema_version: summary::SCHEMA_VERSION,
            state: State::Complete,
            verdict: "VALID".into(),
            official: false,
            disclaimer: String::new(),
            name: String::new(),
            system: "task:resnet50".into(),
            time: "real".into(),
            profile: "rules".into(),
            definitions: String::new(),
            rules: None,
            started_at: String::new(),
            finished_at: String::new(),
            duration_ns: 0,
            command: Vec::new(),
            remarks: Vec::new(),
            division: None,
            tests,
            probe: None,
            accelerators: Vec::new(),
            clients: Vec::new(),
            observers: Vec::new(),
            servers: Vec::new(),
            energy: Vec::new(),
            environment: environment::describe(),
        }
    }

    #[test]
    fn a_run_by_the_rules_is_closed_if_what_it_cannot_know_holds() {
        let options = options(&[]);
        let (rules, card) = (options.rules.unwrap(), card::named("resnet50"));
        assert_eq!(against_closed(&run(0.76), &options, None), [""; 0]);
        let needed = provided(&run(0.76), &rules, card);
        // The suite for data centres has it no longer.
        let edge = "in suite edge: add SingleStream and MultiStream";
        assert_eq!(needed.len(), 2, "{needed:?}");
        assert!(needed[0].starts_with("the files images, val_map are those of ImageNet"));
        assert_eq!(needed[1], edge);
        let needed = closed_provided(&run(0.76), &rules, card, None);
        let begins = [
            "the model is the reference or",
            "the quantizer was calibrated only with 500 images",
            "it passes TEST01",
        ];
        assert_eq!(needed.len(), begins.len(), "{needed:?}");
        assert!(
            needed.iter().zip(begins).all(|(text, begin)| text.starts_with(begin)),
            "{needed:?}"
        );
    }

    #[test]
    fn departures_quality_and_other_weights_leave_the_open_division() {
        let options = options(&["min_duration_ms=1000"]);
        let (verdict, why) = ("restricted-retraining".into(), "pruned".into());
        let model = Model { verdict, why, conditions: Vec::new() };
        let reasons = against_closed(&run(0.7), &options, Some(&model));
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons[0].contains("min_duration_ms to 1000"), "{reasons:?}");
        assert_eq!(reasons[1], "Offline accuracy: The acc is below.");
        assert!(reasons[2].ends_with("pruned (the tag of restricted retraining is open to it)"));
        let (verdict, why) = ("unknown".into(), "packed".into());
        let model = Model { verdict, why, conditions: Vec::new() };
        let reasons = against_closed(&run(0.76), &options, Some(&model));
        assert_eq!(reasons[1], "whether the model equals the reference is unknown: packed");
    }

    #[test]
    fn a_run_with_failed_samples_is_not_merely_short_of_accuracy() {
        let mut run = run(0.7);
        let test = &mut run.tests[0];
        test.reasons = vec!["The acc is below.".into()];
        assert!(is_short_of_accuracy(test));
        test.reasons.push("3 samples failed; accuracy needs every sample.".into());
        assert!(!is_short_of_accuracy(test));
    }

    #[test]
    fn another_target_than_the_rounds_leaves_the_closed_division() {
        let line = |target: &str| {
            let mut line = CommandLine::default();
            line.give("round", "v5.1");
            line.give("benchmark", "resnet");
            line.give("scenario", "Offline");
            line.give("accuracy-target", target);
            against_closed(&run(0.76), &Options::read(&line, std::iter::empty()).unwrap(), None)
        };
        let round = options(&[]).rules.unwrap().benchmark.least_accuracy().unwrap();
        assert_eq!(line(&round.to_string()), [""; 0]);
        let told = line("0.01");
        assert!(told[0].starts_with("The accuracy target is 0.01; the round requires"), "{told:?}");
    }
}
