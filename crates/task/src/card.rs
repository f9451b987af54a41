//! Task cards: what a task is, as data. Each is a file below `tasks/`.
//!
//! A card says what the rules ask a submitter to know of a benchmark: the
//! problem, the model, the data with its sets, what is done to samples before
//! the clock and to outputs while it runs, and how answers are judged. Bounds of
//! latency and targets of official tasks are not repeated here: they are those
//! of the benchmark in a round ([`Card::rules`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::shape;
use crate::system::System;

/// What a task's figures stand for. Tiers are never mixed in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Trained weights and labelled data that come in packages of registries, or
    /// with Dyno.
    Real,
    /// The true graph of a benchmark with seeded weights: speed, never quality.
    Shape,
    /// A benchmark of MLPerf Inference with the weights and the data that its
    /// rules name, which the user has.
    Official,
}

impl Tier {
    /// All, in the order of lists.
    pub const ALL: [Self; 3] = [Self::Real, Self::Shape, Self::Official];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Shape => "shape",
            Self::Official => "official",
        }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// As commands name it.
    pub name: String,
    /// What its figures stand for.
    pub tier: Tier,
    /// In a few words, such as `image classification`.
    pub problem: String,
    /// The network.
    pub model: String,
    /// Where the network was published.
    pub publication: String,
    /// The benchmark of the rounds whose bounds and targets are its own.
    pub rules: Option<String>,
    /// Weights, if they are not built in.
    #[serde(default)]
    pub weights: Vec<Wanted>,
    /// The samples.
    pub data: Data,
    /// How the model is fed and answers; a card without one is not run by this version.
    pub system: Option<System>,
    /// How answers are judged; a shape task has none.
    pub quality: Option<Quality>,
}

/// The samples of a task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Name of the data set.
    pub name: String,
    /// What is fed: each input with its type and the shape of one sample.
    pub inputs: Vec<Input>,
    /// Samples that an accuracy run answers.
    pub accuracy_samples: u64,
    /// Samples that a performance run holds in memory.
    pub performance_samples: u64,
    /// Samples that a quantiser may look at, if any are named.
    pub calibration: Option<Calibration>,
    /// Files, if they are not built in.
    #[serde(default)]
    pub files: Vec<Wanted>,
    /// What is done to a sample before it is timed, step by step, for people.
    #[serde(default)]
    pub untimed: Vec<String>,
    /// What is done to outputs while the clock runs, step by step, for people.
    #[serde(default)]
    pub timed: Vec<String>,
}

/// One input of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name in the model, or what it is where models differ in it.
    pub name: String,
    /// What other models of the reference call it.
    #[serde(default)]
    pub also: Vec<String>,
    /// As NumPy names it.
    pub element: String,
    /// Of one sample; 0 is a dimension in which samples differ.
    pub shape: Vec<usize>,
}

/// The samples that quantisers may look at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Which.
    pub what: String,
    /// How many.
    pub samples: u64,
    /// Of the list that names them, lower-case hexadecimal, where it is one file.
    pub sha256: Option<String>,
}

/// A file, or a folder, that the task needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// As in `--with NAME=FILE`.
    pub name: String,
    /// What it is.
    pub what: String,
    /// The package and the file within it, as `package:path`, if `dyno fetch`
    /// gets it; of a folder the path ends in `/`.
    pub package: Option<String>,
    /// How a user gets it, if no package has it.
    pub get: Option<String>,
    /// Lower-case hexadecimal, where it is one file that is always the same.
    pub sha256: Option<String>,
    /// What the reference publishes instead, one for each version of the file. Data must
    /// be one of them; weights may be others, which is told.
    #[serde(default)]
    pub md5: Vec<String>,
    /// Of a folder, what the reference publishes of files in it; not all need be there.
    #[serde(default)]
    pub md5_of: BTreeMap<String, String>,
    /// Whether a run without it is not judged, and else as with it.
    #[serde(default)]
    pub is_for_quality: bool,
    /// Whether others of the data may be given as well, which is told.
    #[serde(default)]
    pub is_replaceable: bool,
}

/// How answers are judged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// One of [`dyno_metrics::METHODS`].
    pub method: String,
    /// Choices that the method leaves.
    #[serde(default)]
    pub choose: BTreeMap<String, String>,
    /// Which of [`Card::weights`] and [`Data::files`] are its references: its need, the
    /// name of the file.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// The figure that decides.
    pub metric: String,
    /// Of the metric.
    #[serde(default)]
    pub unit: Unit,
    /// What answers are arrays of, as NumPy names it, where it is not what the method
    /// says.
    pub element: Option<String>,
    /// What the model reaches in full precision, in the unit of the metric.
    pub reference: Option<f64>,
    /// What is asked for, where no round says it.
    pub at_least: Option<f64>,
    /// What is asked for of a metric that is better the lower it is.
    pub at_most: Option<f64>,
}

/// The unit of a figure of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Of a hundred.
    #[default]
    Percent,
    /// Of one.
    Share,
    /// What is no part of a whole, such as a distance.
    Points,
}

/// What is asked for, in the unit of the metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

impl Quality {
    /// What the card asks for; of official tasks the rounds do.
    #[must_use]
    pub fn bound(&self) -> Option<Bound> {
        self.at_least.map(Bound::AtLeast).or(self.at_most.map(Bound::AtMost))
    }
}

impl Input {
    /// Whether a model of the reference calls it so.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.also.iter().any(|also| also == name)
    }
}

impl Card {
    /// The files that it needs, weights first.
    pub fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        self.weights.iter().chain(&self.data.files)
    }

    /// The packages that it needs, each once.
    #[must_use]
    pub fn packages(&self) -> Vec<&str> {
        let mut packages: Vec<&str> = self
            .wanted()
            .filter_map(|wanted| wanted.package.as_deref()?.split(':').next())
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

/// All tasks, by tier and name.
pub fn cards() -> &'static [Card] {
    static CARDS: OnceLock<Vec<Card>> = OnceLock::new();
    CARDS.get_or_init(|| {
        let read = |&(name, text): &(&str, &str)| -> Card {
            toml::from_str(text).unwrap_or_else(|error| panic!("tasks/{name}.toml: {error}"))
        };
        let mut cards: Vec<Card> = FILES.iter().map(read).chain(shape::cards()).collect();
        cards.sort_by(|a, b| (a.tier, &a.name).cmp(&(b.tier, &b.name)));
        cards
    })
}

/// The task of that name.
#[must_use]
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
            for wanted in card.wanted() {
                assert_eq!(
                    usize::from(wanted.package.is_some()) + usize::from(wanted.get.is_some()),
                    1,
                    "{name}: {} is got in one way",
                    wanted.name
                );
                if let Some(place) = &wanted.package {
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
                assert!(card.wanted().any(|wanted| wanted.name == *file), "{name}: {file}");
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
                benchmark.accuracy.iter().map(|of| of.metric.as_str()).collect();
            assert!(metrics.contains(&metric.as_str()), "{name}: {metric} is none of {metrics:?}");
        }
    }
}
