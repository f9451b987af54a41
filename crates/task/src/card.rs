//! Task cards: descriptions of tasks as data, one TOML file each in `tasks/`.
//!
//! A card describes what the rules ask a submitter to know of a benchmark: the problem, the model,
//! the data with its sets, the untimed preparation of samples, the timed conversion of outputs, and
//! how answers are judged. Latency bounds and targets of official tasks are not repeated here: they
//! are those of the benchmark in a round ([`Card::rules`]).
//!
//! ```
//! use dyno_task::card::{self, Tier};
//!
//! let card = card::named("resnet50").expect("a task of Dyno");
//! assert_eq!(card.tier, Tier::Official);
//! assert_eq!(card.data.inputs[0].to_string(), "input_tensor:0 float32 [3, 224, 224]");
//! ```

mod shape;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::system::System;

pub(crate) use shape::SHAPE_SUFFIX;

dyno_loadgen::named_enum! {
    /// Meaning of a task's figures. Reports never mix tiers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Tier {
        /// Trained weights and labeled data from packages of registries, or shipped with Dyno.
        Real = "real",
        /// The true graph of a benchmark with seeded weights: it shows speed and never quality.
        Shape = "shape",
        /// A benchmark of MLPerf Inference with the weights and the data that its rules name, which the
        /// user supplies.
        Official = "official",
    }
}

/// The description of a task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Name of the task in commands.
    pub name: String,
    /// Meaning of its figures.
    pub tier: Tier,
    /// The problem in a few words, such as `image classification`.
    pub problem: String,
    /// Name of the network.
    pub model: String,
    /// Where the network was published.
    pub publication: String,
    /// Benchmark in the rounds whose bounds and targets apply.
    pub rules: Option<String>,
    /// Files of weights, unless they are built in.
    #[serde(default)]
    pub weights: Vec<RequiredFile>,
    /// The samples.
    pub data: Data,
    /// How the model is fed and answers. This version cannot run a card without it.
    pub system: Option<System>,
    /// How answers are judged; `None` for shape tasks.
    pub quality: Option<Quality>,
}

/// The samples of a task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Name of the data set.
    pub name: String,
    /// Inputs, each with its type and the shape of one sample.
    pub inputs: Vec<Input>,
    /// Number of samples of an accuracy run.
    pub accuracy_samples: u64,
    /// Number of samples that a performance run holds in memory.
    pub performance_samples: u64,
    /// Samples for calibration of quantizers, if any are named.
    pub calibration: Option<Calibration>,
    /// Files of data, unless they are built in.
    #[serde(default)]
    pub files: Vec<RequiredFile>,
    /// Untimed preparation of a sample, step by step, for people.
    #[serde(default)]
    pub untimed: Vec<String>,
    /// Timed conversion of outputs, step by step, for people.
    #[serde(default)]
    pub timed: Vec<String>,
}

/// One input of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the input in the model, or its meaning where models use different names.
    pub name: String,
    /// Names of the input in other models of the reference.
    #[serde(default)]
    pub also: Vec<String>,
    /// Element type as NumPy names it.
    pub element: String,
    /// Shape of one sample; 0 is a dimension in which samples differ.
    pub shape: Vec<usize>,
}

/// The samples that quantizers may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Description of the samples.
    pub what: String,
    /// Number of samples.
    pub samples: u64,
    /// SHA-256 of the list that names the samples, in lower-case hexadecimal, where the list is one
    /// file.
    pub sha256: Option<String>,
}

/// A file, or a folder, that the task needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequiredFile {
    /// Name of the file, as in `--with NAME=FILE`.
    pub name: String,
    /// Description of the file.
    pub what: String,
    /// Package and path within it as `package:path`, if `dyno fetch` provides the file. The path of
    /// a folder ends in `/`.
    pub package: Option<String>,
    /// Instructions to get the file, if no package provides it.
    pub get: Option<String>,
    /// SHA-256 in lower-case hexadecimal, if the file is always the same.
    pub sha256: Option<String>,
    /// MD5 sums that the reference publishes instead, one for each version of the file. Data must
    /// match one of them; weights may differ, which a remark states.
    #[serde(default)]
    pub md5: Vec<String>,
    /// MD5 sums that the reference publishes for files in a folder; not all of the files need to be
    /// there.
    #[serde(default)]
    pub md5_of: BTreeMap<String, String>,
    /// Whether only the judge needs the file: a run without it is not judged.
    #[serde(default)]
    pub is_for_quality: bool,
    /// Whether the user may give other data, which a remark states.
    #[serde(default)]
    pub is_replaceable: bool,
}

/// How answers are judged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Name of the method, one of [`dyno_metrics::METHODS`].
    pub method: String,
    /// Values of the method's choices.
    #[serde(default)]
    pub choose: BTreeMap<String, String>,
    /// References: the name of the method's need, and that of the file in [`Card::weights`] or
    /// [`Data::files`].
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// Name of the figure that decides.
    pub metric: String,
    /// Unit of the metric.
    #[serde(default)]
    pub unit: Unit,
    /// Element type of answers that are arrays, as NumPy names it, where it is not the method's
    /// default.
    pub element: Option<String>,
    /// Figure of the model in full precision, in the unit of the metric.
    pub reference: Option<f64>,
    /// Lower bound of the figure, where no round states one.
    pub at_least: Option<f64>,
    /// Upper bound of the figure, for metrics that are better the lower they are.
    pub at_most: Option<f64>,
}

/// The unit of a figure of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Percent.
    #[default]
    Percent,
    /// A share of 1.
    Share,
    /// A figure that is not a share, such as a distance.
    Points,
}

/// A bound of a figure, in the unit of the metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Lower bound.
    AtLeast(f64),
    /// Upper bound.
    AtMost(f64),
}

impl Quality {
    /// Returns the bound of the card; those of official tasks are in the rounds.
    pub fn bound(&self) -> Option<Bound> {
        self.at_least.map(Bound::AtLeast).or(self.at_most.map(Bound::AtMost))
    }
}

impl Input {
    /// Whether a model of the reference uses this name for the input.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.also.iter().any(|also| also == name)
    }
}

impl Card {
    /// Returns the files that the task needs, weights first.
    pub fn required_files(&self) -> impl Iterator<Item = &RequiredFile> {
        self.weights.iter().chain(&self.data.files)
    }

    /// Returns the names of the packages that the task needs, sorted and unique.
    pub fn packages(&self) -> Vec<&str> {
        let mut packages: Vec<&str> = self
            .required_files()
            .filter_map(|file| file.package.as_deref()?.split(':').next())
            .collect();
        packages.sort_unstable();
        packages.dedup();
        packages
    }
}

/// Name and text of each card.
macro_rules! cards {
    ($($name:literal)*) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../tasks/", $name, ".toml")))),*];
    };
}

cards! {
    "digits" "digits-lstm" "mnist" "g2p" "silero-vad" "minilm" "minilm-fp32" "efficientnet-lite0" "movielens"
    "karate" "digits-boxes" "shapes-3d"
    "resnet50" "3d-unet" "bert" "dlrm-v2" "dlrm" "gnmt" "gptj"
    "llama2-70b" "llama3.1-405b" "mixtral-8x7b" "mobilenet" "retinanet" "rgat"
    "rnnt" "ssd-mobilenet" "ssd-resnet34" "stable-diffusion-xl"
}

/// Returns the cards of all tasks, sorted by tier and name.
pub fn cards() -> &'static [Card] {
    static CARDS: OnceLock<Vec<Card>> = OnceLock::new();
    CARDS.get_or_init(|| {
        let read = |&(name, text): &(&str, &str)| -> Card {
            parse_embedded(&format!("tasks/{name}.toml"), text)
        };
        let mut cards: Vec<Card> = FILES.iter().map(read).chain(shape::cards()).collect();
        cards.sort_by(|a, b| (a.tier, &a.name).cmp(&(b.tier, &b.name)));
        cards
    })
}

/// Parses a TOML file that is compiled into the program. It becomes JSON first: code that reads a type
/// from TOML or from its tables is several times as long.
///
/// # Panics
/// The file is invalid.
pub(crate) fn parse_embedded<T: DeserializeOwned>(name: &str, text: &str) -> T {
    let json: serde_json::Value =
        toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_value(json).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the card of the task of this name.
pub fn named(name: &str) -> Option<&'static Card> {
    cards().iter().find(|card| card.name == name)
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimension = |&n: &usize| if n == 0 { "?".to_owned() } else { n.to_string() };
        let shape: Vec<String> = self.shape.iter().map(dimension).collect();
        write!(f, "{} {} [{}]", self.name, self.element, shape.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graphs::GRAPHS;
    use crate::package::packages;
    use dyno_metrics::Method;
    use dyno_metrics::payload::element_named;
    use dyno_rules::Round;

    #[test]
    fn each_card_names_what_there_is() {
        let mut names: Vec<&str> = cards().iter().map(|card| card.name.as_str()).collect();
        let count = names.len();
        assert_eq!(count, FILES.len() + GRAPHS.len());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is given twice");
        for card in cards() {
            let name = &card.name;
            assert!(
                card.tier == Tier::Shape || FILES.iter().any(|(file, _)| file == name),
                "{name} is in a file of another name"
            );
            assert!(card.data.performance_samples <= card.data.accuracy_samples, "{name}");
            if let Some(quality) = &card.quality {
                let element = quality.element.as_deref();
                assert!(element.is_none_or(|name| element_named(name).is_some()), "{name}");
                assert!(quality.at_least.is_none() || quality.at_most.is_none(), "{name}");
            }
            for file in card.required_files() {
                assert_eq!(
                    usize::from(file.package.is_some()) + usize::from(file.get.is_some()),
                    1,
                    "{name}: {} is got in one way",
                    file.name
                );
                if let Some(place) = &file.package {
                    let (package, path) = place.split_once(':').expect("package:path");
                    let package = packages().iter().find(|found| found.name == package);
                    let package =
                        package.unwrap_or_else(|| panic!("{name}: no package of {place}"));
                    assert!(package.files_at(path).next().is_some(), "{place}");
                }
            }
        }
    }

    #[test]
    fn each_card_is_judged_by_a_method_with_all_that_it_needs() {
        for card in cards() {
            let name = &card.name;
            let Some(quality) = &card.quality else {
                assert_eq!(card.tier, Tier::Shape, "{name} has no figure of quality");
                continue;
            };
            assert_ne!(card.tier, Tier::Shape, "{name} shows quality");
            let method = Method::named(&quality.method);
            let method = method.unwrap_or_else(|| panic!("{name}: no method {}", quality.method));
            for (choice, value) in &quality.choose {
                let found = method.choices.iter().find(|found| found.name == choice);
                assert!(
                    found.is_some_and(|found| found.values.contains(&value.as_str())),
                    "{name}: {choice}"
                );
            }
            for (need, file) in &quality.with {
                assert!(method.needs.iter().any(|found| found.name == need), "{name}: {need}");
                assert!(card.required_files().any(|found| found.name == *file), "{name}: {file}");
            }
        }
    }

    #[test]
    fn official_cards_are_benchmarks_of_rounds_with_the_same_counts() {
        let official = cards().iter().filter(|card| card.tier == Tier::Official);
        for card in official {
            let name = &card.name;
            let rules = card.rules.as_deref().unwrap_or_else(|| panic!("{name} is of no round"));
            let rounds = Round::names().into_iter().rev();
            let newest = rounds.filter_map(|round| Round::named(round).ok()?.benchmark(rules));
            let benchmark = newest.take(1).next().unwrap_or_else(|| panic!("{name}: no {rules}"));
            assert_eq!(benchmark.dataset.samples, card.data.accuracy_samples, "{name}");
            let metric = &card.quality.as_ref().expect("official tasks are judged").metric;
            let metrics: Vec<&str> =
                benchmark.accuracy.iter().map(|target| target.metric.as_str()).collect();
            assert!(metrics.contains(&metric.as_str()), "{name}: {metric} is none of {metrics:?}");
        }
    }
}
