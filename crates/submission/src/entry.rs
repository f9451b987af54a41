//! Results in a tree: submitters, their systems and models, and one folder for each scenario.
//!
//! Every folder at the place of a result is an entry, even if its content is invalid. The checks
//! decide which entries count.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use serde_json::Value;

use super::facts::json;
use super::layout::{Layout, RESULTS, SYSTEMS};
use super::python;
use super::tree::{Node, Tree};
use dyno_rules::{Benchmark, OneFileChecker, Round, RuleScenario};

dyno_loadgen::named_enum! {
    /// Top-level folder of a tree: the division to which a result is submitted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DivisionFolder {
        /// The model of the rules; results are comparable.
        Closed = "closed",
        /// As closed, with the load generator on another machine.
        Network = "network",
        /// Any model.
        Open = "open",
    }
}

impl DivisionFolder {
    /// Returns the division of a folder name. Case matters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|division| division.name() == name)
    }

    /// Whether results must follow the rules of the closed division.
    pub(crate) fn is_closed_or_network(self) -> bool {
        self != Self::Open
    }
}

/// Table that maps folder names to models if no mapping is given. The official checkers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guesses {
    /// The table of a single-file checker.
    OneFile(OneFileChecker),
    /// The table of the modular checker.
    Modular,
}

impl Guesses {
    /// Returns the tables of all checkers of a round.
    pub fn of_round(round: &Round) -> Self {
        let tag = OneFileChecker::new(round.version);
        if tag < OneFileChecker::LAST { Self::OneFile(tag) } else { Self::Modular }
    }

    /// Returns the model that a folder name stands for. The first part that it contains counts.
    fn model_of(self, name: &str) -> Option<&'static str> {
        const MODULAR: (&str, &str) = ("llama3_1-405b", "llama3.1-405b");
        let (checker, more) = match self {
            Self::OneFile(checker) => (checker, None),
            Self::Modular => (OneFileChecker::LAST, Some(MODULAR)),
        };
        let table = checker.guesses().iter().map(|(part, model)| (part.as_str(), model.as_str()));
        table.chain(more).find(|(part, _)| name.contains(part)).map(|(_, model)| model)
    }
}

/// A submitter in a division.
#[derive(Debug)]
pub struct Submitter<'t> {
    /// DivisionFolder.
    pub division: DivisionFolder,
    /// Name of the submitter's folder.
    pub name: String,
    /// The folder.
    pub folder: Node<'t>,
    /// Folder of the results; `None` means that there is nothing to check.
    pub results: Option<Node<'t>>,
    /// Layout of the folder.
    pub layout: Layout,
    /// Names of models in `model_mapping.json`, in the open division.
    pub names: ModelNames,
    /// Systems with results.
    pub systems: Vec<System<'t>>,
}

/// Content of `model_mapping.json`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelNames {
    /// Official names, by the submitter's names.
    pub names: BTreeMap<String, String>,
    /// Error if the file cannot be parsed.
    pub problem: Option<json::JsonProblem>,
    /// Whether the file is valid JSON but not a mapping from names to names. The official
    /// checkers do not check this.
    pub is_no_mapping: bool,
    /// Whether the file is valid JSON in which the official checkers cannot look up a name: neither an
    /// object nor null.
    pub is_no_object: bool,
    /// The submitter's names with a value that is neither a text nor false in Python.
    pub not_texts: BTreeSet<String>,
}

impl ModelNames {
    /// Whether the single-file checkers end with a traceback when they look up a name.
    pub(crate) fn ends_program_at(&self, name: &str) -> bool {
        self.is_no_object || self.not_texts.contains(name)
    }
}

/// A system with results.
#[derive(Debug)]
pub struct System<'t> {
    /// Name of the folder.
    pub name: String,
    /// Folder of its results.
    pub folder: Node<'t>,
    /// Description of the system, `systems/NAME.json`.
    pub description: Option<Node<'t>>,
    /// Models with results.
    pub models: Vec<Model<'t>>,
}

/// A model with results on a system.
#[derive(Debug)]
pub struct Model<'t> {
    /// Name of the folder.
    pub name: String,
    /// Official name, or the folder name if no official name is known.
    pub official: String,
    /// Rules of the round for the model; `None` if the round does not include the model.
    pub benchmark: Option<&'static Benchmark>,
    /// Folder of its results.
    pub folder: Node<'t>,
    /// One entry per folder.
    pub results: Vec<Entry<'t>>,
}

/// Result of a model on a system in one scenario: the unit that is valid or invalid.
#[derive(Debug)]
pub struct Entry<'t> {
    /// Name of the folder.
    pub name: String,
    /// Scenario, from the name of the folder ignoring case.
    pub scenario: Option<RuleScenario>,
    /// Folder of the result.
    pub folder: Node<'t>,
    /// Folder that describes the measurement.
    pub measurements: Option<Node<'t>>,
    /// Folder of the audits; each audit has its own folder in it.
    pub compliance: Option<Node<'t>>,
}

impl<'t> Entry<'t> {
    /// Returns the folder of the performance run; the first if a round requires several.
    pub fn run(&self) -> Option<Node<'t>> {
        self.numbered_run(1)
    }

    /// Returns the folder of one performance run, counted from 1.
    pub(crate) fn numbered_run(&self, number: u64) -> Option<Node<'t>> {
        self.folder.folder(format!("performance/run_{number}"))
    }

    /// Returns the folder of the accuracy run.
    pub fn accuracy(&self) -> Option<Node<'t>> {
        self.folder.folder("accuracy")
    }

    /// Returns the folder of the power logs, if power was measured.
    pub fn power(&self) -> Option<Node<'t>> {
        self.folder.below("performance/power")
    }

    /// Returns the folders of the audits, such as `TEST01`.
    pub fn audits(&self) -> impl Iterator<Item = Node<'t>> + use<'t> {
        let folders = self.compliance.into_iter().flat_map(Node::folders);
        folders.filter(|folder| folder.text().starts_with("TEST"))
    }
}

/// Returns the submitters of a tree, sorted by division and name.
pub fn submitters<'t>(
    tree: &'t Tree,
    round: &'static Round,
    guesses: Guesses,
) -> Vec<Submitter<'t>> {
    let layout = Layout::for_round(round.version);
    let mut found = Vec::new();
    for division in DivisionFolder::ALL {
        let Some(folder) = tree.top().folder(division.name()) else { continue };
        for submitter in folder.folders() {
            found.push(self::submitter(division, submitter, layout, round, guesses));
        }
    }
    found
}

fn submitter<'t>(
    division: DivisionFolder,
    folder: Node<'t>,
    layout: Layout,
    round: &'static Round,
    guesses: Guesses,
) -> Submitter<'t> {
    let results = folder.folder(RESULTS);
    let names = match division {
        DivisionFolder::Open => model_names(folder),
        DivisionFolder::Closed | DivisionFolder::Network => ModelNames::default(),
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
        // The name may not be UTF-8.
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
        scenario: RuleScenario::named(&folder.text()),
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
            let pairs = || mapping.object().into_iter().flatten();
            let text = |(own, official): (&String, &Value)| {
                Some((own.clone(), official.as_str()?.to_owned()))
            };
            let names = pairs().filter_map(text);
            let names = names.filter(|(_, official)| !official.is_empty()).collect();
            let is_no_text = |value: &Value| !value.is_string() && python::is_true(value);
            let not_texts = pairs().filter(|(_, value)| is_no_text(value));
            ModelNames {
                names,
                problem: None,
                is_no_mapping: !is_mapping,
                is_no_object: mapping.object().is_none() && !mapping.value.is_null(),
                not_texts: not_texts.map(|(own, _)| own.clone()).collect(),
            }
        }
    }
}

/// Whether a round knows a model by its name or by an alias.
pub(crate) fn is_in_round(round: &Round, name: &str) -> bool {
    round.names.contains_key(name) || round.benchmarks.iter().any(|known| known.name == name)
}

/// Returns the official name of a model. Sources, in order: the name itself, the round's
/// aliases, the submitter's mapping, the guesses.
pub fn official_name(round: &Round, name: &str, own: &ModelNames, guesses: Guesses) -> String {
    if round.benchmarks.iter().any(|benchmark| benchmark.name == name) {
        return name.to_owned();
    }
    if let Some(official) = round.names.get(name).or_else(|| own.names.get(name)) {
        return official.clone();
    }
    let name = guesses.model_of(name).unwrap_or(name);
    round.names.get(name).map_or_else(|| name.to_owned(), Clone::clone)
}
