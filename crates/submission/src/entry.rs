//! The results in a tree: submitters, their systems, models, and a folder for each
//! scenario.
//!
//! Everything that has the place of a result is one, whatever is wrong with it: what
//! counts is for the checks to say.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use serde_json::Value;

use super::facts::json;
use super::layout::{Layout, RESULTS, SYSTEMS};
use super::tree::{Node, Tree};
use dyno_rules::{Benchmark, Round, Scenario};

/// The part of a round that a result is submitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Division {
    /// The model of the rules, comparable.
    Closed,
    /// As closed, over a network.
    Network,
    /// Any model.
    Open,
}

impl Division {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Network, Self::Open];

    /// Name of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Network => "network",
            Self::Open => "open",
        }
    }

    /// The division of that folder, in lower case only.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|division| division.name() == name)
    }

    /// Whether results must follow the rules of the closed division.
    #[must_use]
    pub fn is_closed_or_network(self) -> bool {
        self != Self::Open
    }
}

/// Which folder names stand for which model where nothing else says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guesses {
    /// Of the checker in one file.
    Mono,
    /// Of the checker in modules.
    Modular,
}

impl Guesses {
    /// Part of a name and the model it stands for; the first that fits counts.
    fn table(self) -> &'static [(&'static str, &'static str)] {
        const ALL: [(&str, &str); 6] = [
            ("mobilenet", "resnet"),
            ("efficientnet", "resnet"),
            ("resnet50", "resnet"),
            ("bert-99.9", "bert-99.9"),
            ("bert-99", "bert-99"),
            ("llama3_1-405b", "llama3.1-405b"),
        ];
        match self {
            Self::Mono => &ALL[..5],
            Self::Modular => &ALL,
        }
    }
}

/// One submitter in one division.
#[derive(Debug)]
pub struct Submitter<'t> {
    /// Division.
    pub division: Division,
    /// Name of the folder.
    pub name: String,
    /// The folder.
    pub folder: Node<'t>,
    /// The folder of its results; without one there is nothing to check.
    pub results: Option<Node<'t>>,
    /// Where the files of a result lie.
    pub layout: Layout,
    /// Its names of models, of the open division.
    pub names: ModelNames,
    /// Systems with results.
    pub systems: Vec<System<'t>>,
}

/// What `model_mapping.json` says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelNames {
    /// Own name, official name.
    pub names: BTreeMap<String, String>,
    /// Why the file does not read.
    pub problem: Option<json::JsonProblem>,
    /// Whether the file reads and is no mapping of names to names, at which the official
    /// programs do not look.
    pub is_no_mapping: bool,
}

/// A system with results.
#[derive(Debug)]
pub struct System<'t> {
    /// Name of the folder.
    pub name: String,
    /// The folder of its results.
    pub folder: Node<'t>,
    /// Its description, `systems/NAME.json`.
    pub description: Option<Node<'t>>,
    /// Models with results.
    pub models: Vec<Model<'t>>,
}

/// A model with results on a system.
#[derive(Debug)]
pub struct Model<'t> {
    /// Name of the folder.
    pub name: String,
    /// Official name; its own where there is none.
    pub official: String,
    /// What the round asks of it; `None` of a model that is not in the round.
    pub benchmark: Option<&'static Benchmark>,
    /// The folder of its results.
    pub folder: Node<'t>,
    /// One for each folder in it.
    pub results: Vec<Entry<'t>>,
}

/// A scenario of a model on a system: the unit that is valid or not.
#[derive(Debug)]
pub struct Entry<'t> {
    /// Name of the folder.
    pub name: String,
    /// The scenario, by the name of the folder in any case.
    pub scenario: Option<Scenario>,
    /// The folder of the result.
    pub folder: Node<'t>,
    /// The folder that describes the measurement.
    pub measurements: Option<Node<'t>>,
    /// The folder in which the audits lie, one folder each.
    pub compliance: Option<Node<'t>>,
}

impl<'t> Entry<'t> {
    /// The folder of the performance run, of the first where a round asks for several.
    #[must_use]
    pub fn run(&self) -> Option<Node<'t>> {
        self.numbered_run(1)
    }

    /// The folder of a performance run, from 1.
    #[must_use]
    pub fn numbered_run(&self, number: u64) -> Option<Node<'t>> {
        self.folder.folder(format!("performance/run_{number}"))
    }

    /// The folder of the accuracy run.
    #[must_use]
    pub fn accuracy(&self) -> Option<Node<'t>> {
        self.folder.folder("accuracy")
    }

    /// The folder of the power logs, if power was measured.
    #[must_use]
    pub fn power(&self) -> Option<Node<'t>> {
        self.folder.below("performance/power")
    }

    /// The folders of the audits, such as `TEST01`.
    pub fn audits(&self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        let folders = self.compliance.into_iter().flat_map(Node::folders);
        folders.filter(|folder| folder.text().starts_with("TEST"))
    }
}

/// The submitters in a tree.
#[must_use]
pub fn submitters<'t>(
    tree: &'t Tree,
    round: &'static Round,
    guesses: Guesses,
) -> Vec<Submitter<'t>> {
    let layout = Layout::of(round.version);
    let mut found = Vec::new();
    for division in Division::ALL {
        let Some(folder) = tree.top().folder(division.name()) else { continue };
        for submitter in folder.folders() {
            found.push(self::submitter(division, submitter, layout, round, guesses));
        }
    }
    found
}

fn submitter<'t>(
    division: Division,
    folder: Node<'t>,
    layout: Layout,
    round: &'static Round,
    guesses: Guesses,
) -> Submitter<'t> {
    let results = folder.folder(RESULTS);
    let names = match division {
        Division::Open => model_names(folder),
        Division::Closed | Division::Network => ModelNames::default(),
    };
    let mut submitter = Submitter {
        division,
        name: folder.text().into_owned(),
        folder,
        results,
        layout,
        names,
        systems: Vec::new(),
    };
    for system in results.into_iter().flat_map(Node::folders) {
        let name = system.text().into_owned();
        // The name may be no text.
        let mut file = system.name().to_os_string();
        file.push(".json");
        let description = folder.file(std::path::Path::new(SYSTEMS).join(file));
        let models = system.folders().map(|model| {
            let official = official_name(round, &model.text(), &submitter.names, guesses);
            let benchmark = round.benchmarks.iter().find(|known| known.name == official);
            let results = entries(&submitter, system.name(), model);
            Model { name: model.text().into_owned(), official, benchmark, folder: model, results }
        });
        let models = models.collect();
        submitter.systems.push(System { name, folder: system, description, models });
    }
    submitter
}

fn entries<'t>(submitter: &Submitter<'t>, system: &OsStr, model: Node<'t>) -> Vec<Entry<'t>> {
    let beside = |kind: &str, scenario: &Node<'t>| {
        let path = [kind.as_ref(), system, model.name(), scenario.name()];
        submitter.folder.folder(path.iter().collect::<std::path::PathBuf>())
    };
    let entry = |folder: Node<'t>| Entry {
        name: folder.text().into_owned(),
        scenario: Scenario::named(&folder.text()),
        folder,
        measurements: beside(submitter.layout.measurements(), &folder),
        compliance: beside(submitter.layout.compliance(), &folder),
    };
    model.folders().map(entry).collect()
}

fn model_names(submitter: Node<'_>) -> ModelNames {
    let Some(file) = submitter.file("model_mapping.json") else {
        return ModelNames::default();
    };
    match json::read(file) {
        Err(problem) => ModelNames { problem: Some(problem), ..ModelNames::default() },
        Ok(mapping) => {
            let is_mapping =
                mapping.object().is_some_and(|names| names.values().all(Value::is_string));
            let pairs = mapping.object().into_iter().flatten();
            let text = |(own, official): (&String, &Value)| {
                Some((own.clone(), official.as_str()?.to_owned()))
            };
            let names = pairs.filter_map(text).collect();
            ModelNames { names, problem: None, is_no_mapping: !is_mapping }
        }
    }
}

/// The official name of a model: its own, by the names of the round, by those of the
/// submitter, by a guess, in this order.
#[must_use]
pub fn official_name(round: &Round, name: &str, own: &ModelNames, guesses: Guesses) -> String {
    if round.benchmarks.iter().any(|benchmark| benchmark.name == name) {
        return name.to_owned();
    }
    if let Some(official) = round.names.get(name).or_else(|| own.names.get(name)) {
        return official.clone();
    }
    let guess = guesses.table().iter().find(|(part, _)| name.contains(part));
    let name = guess.map_or(name, |(_, official)| official);
    round.names.get(name).map_or_else(|| name.to_owned(), Clone::clone)
}
