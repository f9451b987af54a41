//! `dyno task list` and `dyno task show`: lists the tasks, or shows one of them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use dyno_experiment::system::task;
use dyno_experiment::{Failure, cache};
use dyno_loadgen::clock::Nanos;
use dyno_metrics::Method;
use dyno_results::units;
use dyno_task::cache::Cache;
use dyno_task::card::{self, Bound, Card, Quality, RequiredFile, Tier};
use dyno_task::{package, shape};
use serde_json::{Value, json};

use crate::cmd::fetch::packages_of;
use crate::exit::Exit;
use crate::output;
use crate::render::wrap;

/// Columns of a line.
const WIDTH: usize = 80;

/// Flags of the command.
#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Cache directory [default: $DYNO_CACHE, else $XDG_CACHE_HOME/dyno, else ~/.cache/dyno]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl List {
    /// Prints every task with its tier and the state of its data.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let cache = cache::folder(self.cache)?;
        if self.json {
            let tasks: Vec<Value> =
                card::cards().iter().map(|card| document(card, &cache)).collect();
            let text = serde_json::to_string_pretty(&tasks).expect("keys are texts");
            return output::print(text + "\n").map(|()| Exit::Valid);
        }
        let mut text = String::new();
        for tier in Tier::ALL {
            let cards: Vec<&Card> = card::cards().iter().filter(|card| card.tier == tier).collect();
            if cards.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{}: {}", tier.name(), meaning(tier));
            for card in cards {
                let _ = writeln!(text, "  {}: {}, {}", card.name, card.problem, card.model);
                let _ = writeln!(text, "      {}", state(card, &cache));
            }
        }
        text += "dyno task show NAME prints the card of one.\n";
        let lines = text.lines().flat_map(|line| wrap(line, WIDTH, 6));
        let text: String = lines.map(|line| line + "\n").collect();
        output::print(text).map(|()| Exit::Valid)
    }
}

fn meaning(tier: Tier) -> &'static str {
    match tier {
        Tier::Real => "trained weights and labels that come with Dyno or in packages",
        Tier::Shape => "real graphs with seeded random weights, which measure only speed",
        Tier::Official => "benchmarks of MLPerf Inference, with your own weights and data",
    }
}

/// Returns which of the data is present, and how to get the rest.
fn state(card: &Card, cache: &Cache) -> String {
    if card.required_files().any(|wanted| wanted.package.is_none()) {
        return format!("your own files; dyno task show {} names them", card.name);
    }
    if let Some(graph) = shape::graph(&card.name) {
        return if shape::path(graph, cache).is_file() {
            "in the cache".into()
        } else {
            "created by the first run".into()
        };
    }
    let packages = packages_of(card);
    let missing = packages.iter().filter(|package| !cache.has(package));
    let bytes: u64 = missing.map(|package| package.bytes()).sum();
    match (packages.is_empty(), bytes) {
        (true, _) => "built in".into(),
        (false, 0) => "in the cache".into(),
        (false, bytes) => format!("dyno fetch {}: {}", card.name, units::bytes(bytes)),
    }
}

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the task
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Cache directory [default: $DYNO_CACHE, else $XDG_CACHE_HOME/dyno, else ~/.cache/dyno]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl Show {
    /// Prints the card.
    ///
    /// # Errors
    /// An unknown task.
    pub fn execute(self) -> Result<Exit, Failure> {
        let card = card::named(&self.name).ok_or_else(|| task::unknown(&self.name))?;
        let cache = cache::folder(self.cache)?;
        let text = if self.json {
            let document = document(card, &cache);
            serde_json::to_string_pretty(&document).expect("keys are texts") + "\n"
        } else {
            let text = text(card, &cache);
            let lines = text.lines().flat_map(|line| wrap(line, WIDTH, 14));
            lines.map(|line| line + "\n").collect()
        };
        output::print(text).map(|()| Exit::Valid)
    }
}

fn text(card: &Card, cache: &Cache) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<13} {value}");
    };
    row("task", &format!("{} ({}: {})", card.name, card.tier.name(), meaning(card.tier)));
    row("problem", &card.problem);
    row("model", &card.model);
    row("publication", &card.publication);
    if let Some((parameters, operations)) = size(card) {
        let (millions, billions) = (parameters as f64 / 1e6, operations as f64 / 1e9);
        row("size", &format!("{millions:.2} M parameters, {billions:.3} G operations per sample"));
    }
    let data = &card.data;
    row("data", &data.name);
    for input in &data.inputs {
        row("input", &input.to_string());
    }
    let (accuracy, performance) = (data.accuracy_samples, data.performance_samples);
    row("samples", &format!("{accuracy} for accuracy, {performance} in memory for performance"));
    if let Some(calibration) = &data.calibration {
        row("calibration", &calibration.what);
    }
    for step in &data.untimed {
        row("before", step);
    }
    for step in &data.timed {
        row("timed", step);
    }
    if let Some(quality) = &card.quality {
        row("quality", &judged(card, quality));
    }
    for bound in bounds(card) {
        row("bound", &bound);
    }
    for wanted in card.required_files() {
        row("needs", &need(wanted));
    }
    row("state", &state(card, cache));
    text
}

/// Returns the parameters, and the operations per sample, if the graph is built in.
fn size(card: &Card) -> Option<(u64, u64)> {
    shape::size(shape::graph(&card.name)?).ok()
}

/// Returns how answers are scored, and the required quality.
fn judged(card: &Card, quality: &Quality) -> String {
    let method = Method::named(&quality.method).expect("cards name methods that there are");
    let mut text = format!("{} ({}: {})", quality.metric, method.name, method.title);
    if let Some(reference) = quality.reference {
        let _ = write!(text, "; in full precision {}", figure(reference));
    }
    let newest = task::newest(card);
    let of_rules = newest.and_then(|(round, benchmark)| {
        let target = benchmark.accuracy.iter().find(|target| target.metric == quality.metric)?;
        Some((target.at_least?, round.version))
    });
    match (quality.bound(), of_rules) {
        (Some(Bound::AtLeast(least)), _) => {
            let _ = write!(text, "; at least {}", figure(least));
        }
        (Some(Bound::AtMost(most)), _) => {
            let _ = write!(text, "; at most {}", figure(most));
        }
        (None, Some((least, version))) => {
            let _ = write!(text, "; at least {} in round {version}", figure(least));
        }
        (None, None) => {}
    }
    text
}

/// Formats a value with as many decimals as are significant.
fn figure(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the latency bounds of the newest round that has the benchmark.
fn bounds(card: &Card) -> Vec<String> {
    let Some((round, benchmark)) = task::newest(card) else { return Vec::new() };
    let shown = |nanos: Nanos| units::duration(i64::try_from(nanos).unwrap_or(i64::MAX));
    let whole = benchmark.latency.iter().map(|(scenario, &bound)| {
        format!("{} within {} in round {}", scenario.name(), shown(bound), round.version)
    });
    let tokens = benchmark.token_latency.iter().map(|(scenario, bounds)| {
        let (first, each) = (shown(bounds.ttft), shown(bounds.tpot));
        let name = scenario.name();
        format!("{name}: TTFT within {first}, TPOT within {each} in round {}", round.version)
    });
    whole.chain(tokens).collect()
}

fn need(wanted: &RequiredFile) -> String {
    let (name, what) = (&wanted.name, &wanted.what);
    let place = wanted.package.as_deref().and_then(|place| place.split_once(':'));
    let Some((package, path)) = place else {
        return format!("{name}: {what}; {}", wanted.get.as_deref().unwrap_or_default());
    };
    let package = package::named(package).expect("cards name packages that there are");
    format!(
        "{name}: {what}; {path} of {} {} (license: {})",
        package.name, package.version, package.licence
    )
}

/// Returns the card for programs.
fn document(card: &Card, cache: &Cache) -> Value {
    let data = &card.data;
    let wanted = card.required_files().map(|wanted| {
        json!({
            "name": wanted.name,
            "what": wanted.what,
            "package": wanted.package,
            "get": wanted.get,
        })
    });
    let inputs = data
        .inputs
        .iter()
        .map(|input| json!({ "name": input.name, "element": input.element, "shape": input.shape }));
    json!({
        "name": card.name,
        "tier": card.tier.name(),
        "problem": card.problem,
        "model": card.model,
        "publication": card.publication,
        "rules": card.rules,
        "data": data.name,
        "inputs": inputs.collect::<Vec<_>>(),
        "accuracy_samples": data.accuracy_samples,
        "performance_samples": data.performance_samples,
        "calibration": data.calibration.as_ref().map(|calibration| &calibration.what),
        "untimed": data.untimed,
        "timed": data.timed,
        "method": card.quality.as_ref().map(|quality| &quality.method),
        "metric": card.quality.as_ref().map(|quality| &quality.metric),
        "reference": card.quality.as_ref().and_then(|quality| quality.reference),
        "at_least": card.quality.as_ref().and_then(|quality| quality.at_least),
        "needs": wanted.collect::<Vec<_>>(),
        "parameters": size(card).map(|(parameters, _)| parameters),
        "operations": size(card).map(|(_, operations)| operations),
        "state": state(card, cache),
    })
}
