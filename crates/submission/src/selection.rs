//! Random selection of a submission for an audit by a third party, by section 2.8 ("Audit
//! Process") of the rules.
//!
//! ```
//! use dyno_submission::selection::{Selection, SystemResults};
//!
//! let system = |submitter: &str, system: &str| SystemResults {
//!     submitter: submitter.to_owned(),
//!     system: system.to_owned(),
//!     availability: "available".to_owned(),
//!     division: "closed".to_owned(),
//!     ..SystemResults::default()
//! };
//! let systems = [system("acme", "box"), system("zenith", "rack")];
//! let selection = Selection::draw(&systems, &[], &[], 7);
//! assert_eq!(selection, Selection::draw(&systems, &[], &[], 7));
//! assert_eq!(selection.submitters().len(), 2);
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::facts::json;
use crate::layout::SYSTEMS;
use crate::table::{Column, Row};
use crate::tree::{Tree, TreeError};
use dyno_loadgen::rng::Mt19937;

/// Source of the sentences.
pub const SOURCE: &str = "inference_rules.adoc, section 2.8 \"Audit Process\", 2026-07-23";
/// Who is auditable.
pub const AUDITABLE: &str = "Only Available submissions in Closed division are auditable.";
/// How a submission is selected.
pub const STAGES: &str = "The process of random selection is in two stages: first a submitter is \
     randomly chosen from all submitters with auditable submissions, then one of those submissions \
     is randomly chosen.";
/// Who is no candidate.
pub const EQUIVALENT: &str = "A submission is not a candidate for the randomly chosen audit if the \
     system is equivalent to a system audited in the previous round.";
/// Who can be excluded.
pub const SIMILAR: &str = "if an accelerator is audited in one of the previous rounds, then the \
     systems using the same accelerator can be excluded from random audit, if the aggregate system \
     performance and the performance per accelerator are not more than 10% from those submitted \
     during last audit time.";
/// Power of systems that can be excluded.
pub const EFFICIENCY: &str = "For systems with power metrics, in addition to the performance, power \
     efficiency must also be within 10% from the last audit time to be eligible for an exclusion \
     from random audit.";
/// When the exclusion does not apply.
pub const NEW_RESULT: &str = "If any new result like a new model, an additional non-inferred \
     scenario measurement or a new power measurement is submitted from the last audit time, then \
     the exclusion is not applicable unless the review committee decides otherwise.";

/// Largest relative difference of a system that can be excluded.
const TOLERANCE: f64 = 0.10;

/// Starts of the fields that describe CPU, NIC, accelerator and their counts.
const COMPONENTS: [&str; 4] = ["host_processor", "host_network", "accelerator", "number_of_nodes"];

/// A submission in the sense of the rules: a submitter and a system, with its results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SystemResults {
    /// Submitter.
    pub submitter: String,
    /// Name of the system's folder.
    pub system: String,
    /// Division.
    pub division: String,
    /// Availability in lower case.
    pub availability: String,
    /// Description of the system.
    pub description: Map<String, Value>,
    /// Results.
    pub results: Vec<SystemResult>,
}

/// A result of a system.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemResult {
    /// Official model name.
    pub model: String,
    /// Scenario.
    pub scenario: String,
    /// Unit of the value.
    pub units: String,
    /// Value.
    pub value: f64,
    /// Power or energy, if it was measured.
    pub power: Option<f64>,
    /// Whether the result was inferred.
    pub is_inferred: bool,
}

impl SystemResult {
    /// Returns a number that grows with the performance.
    fn performance(&self) -> f64 {
        if self.is_latency() { 1.0 / self.value } else { self.value }
    }

    fn is_latency(&self) -> bool {
        self.units.starts_with("Latency")
    }

    /// Returns a number that grows with the efficiency: results per watt, or 1 by the energy of a
    /// query.
    fn efficiency(&self) -> Option<f64> {
        let power = self.power?;
        Some(if self.is_latency() { 1.0 / power } else { self.value / power })
    }
}

impl SystemResults {
    /// Collects the systems of a tree from the rows of its results.
    ///
    /// # Errors
    /// Fails if the root cannot be listed. Descriptions that cannot be read are empty.
    pub fn collect(root: &Path, rows: &[Row]) -> Result<Vec<Self>, TreeError> {
        let tree = Tree::walk(root)?;
        let mut systems: BTreeMap<[String; 3], Self> = BTreeMap::new();
        for row in rows {
            let cell = |column| row.get(column).to_owned();
            let [division, submitter, system] =
                [cell(Column::Division), cell(Column::Organization), cell(Column::Platform)];
            let key = [submitter.clone(), system.clone(), division.clone()];
            let entry = systems.entry(key).or_insert_with(|| {
                let path = format!("{division}/{submitter}/{SYSTEMS}/{system}.json");
                let json = tree.node(path).and_then(|file| json::read(file).ok());
                let description = json.and_then(|json| json.object().cloned()).unwrap_or_default();
                let availability = cell(Column::Availability).to_lowercase();
                let results = Vec::new();
                Self { submitter, system, division, availability, description, results }
            });
            entry.add(row);
        }
        Ok(systems.into_values().collect())
    }

    fn add(&mut self, row: &Row) {
        let (model, scenario) = (row.get(Column::MlperfModel), row.get(Column::Scenario));
        let units = row.get(Column::Units);
        if units.contains("Watt") || units.contains("joule") {
            let last = self.results.last_mut();
            let same = last.filter(|last| last.model == model && last.scenario == scenario);
            if let Some(result) = same {
                result.power = Some(row.value);
            }
            return;
        }
        self.results.push(SystemResult {
            model: model.to_owned(),
            scenario: scenario.to_owned(),
            units: units.to_owned(),
            value: row.value,
            power: None,
            is_inferred: row.get(Column::Inferred) == "1",
        });
    }

    /// Returns the name, such as `acme/box`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.submitter, self.system)
    }

    fn text(&self, field: &str) -> String {
        match self.description.get(field) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.trim().to_lowercase(),
            Some(value) => value.to_string(),
        }
    }

    /// Returns the number of accelerators in all nodes.
    fn accelerators(&self) -> Option<f64> {
        let number = |field| self.text(field).parse::<f64>().ok();
        let nodes = number("number_of_nodes").unwrap_or(1.0);
        number("accelerators_per_node").map(|each| each * nodes).filter(|all| *all > 0.0)
    }

    /// Returns the fields of CPU, NIC and accelerator in which two systems differ.
    fn different_components(&self, other: &Self) -> Vec<String> {
        let is_component = |field: &str| COMPONENTS.iter().any(|start| field.starts_with(start));
        let is_network = self.text("is_network") == "true" || other.text("is_network") == "true";
        let mut fields: Vec<&String> =
            self.description.keys().chain(other.description.keys()).collect();
        fields.sort();
        fields.dedup();
        fields.retain(|field| {
            let counts = is_component(field)
                || is_network && (field.starts_with("network") || *field == "is_network");
            counts && self.text(field) != other.text(field)
        });
        fields.into_iter().cloned().collect()
    }

    /// Returns the first reason why the results are not within 10 % of those of an audited system
    /// with the same accelerator, with the sentence that requires it.
    fn difference_from(&self, audited: &Self) -> Option<(String, &'static str)> {
        let accelerator = "accelerator_model_name";
        let own = self.text(accelerator);
        if matches!(own.as_str(), "" | "n/a" | "-" | "none") || own != audited.text(accelerator) {
            return Some(("another accelerator".to_owned(), SIMILAR));
        }
        let counts = self.accelerators().zip(audited.accelerators());
        self.results.iter().find_map(|result| result.difference_from(audited, counts))
    }
}

impl SystemResult {
    fn difference_from(
        &self,
        audited: &SystemResults,
        accelerators: Option<(f64, f64)>,
    ) -> Option<(String, &'static str)> {
        let name = format!("{} {}", self.model, self.scenario);
        let same_model = || audited.results.iter().filter(|old| old.model == self.model);
        let old = same_model().find(|old| old.scenario == self.scenario && old.units == self.units);
        let Some(old) = old else {
            let is_exempt = self.is_inferred && same_model().next().is_some();
            return (!is_exempt).then(|| (format!("{name} is new"), NEW_RESULT));
        };
        let ratio = self.performance() / old.performance();
        if !is_within(ratio) {
            let percent = 100.0 * (ratio - 1.0);
            return Some((format!("{name} has {percent:+.1} % of performance"), SIMILAR));
        }
        // A latency is not divided by the number of accelerators.
        if let Some((new_count, old_count)) = accelerators.filter(|_| !self.is_latency()) {
            let ratio = ratio * old_count / new_count;
            if !is_within(ratio) {
                let percent = 100.0 * (ratio - 1.0);
                let why = format!("{name} has {percent:+.1} % of performance per accelerator");
                return Some((why, SIMILAR));
            }
        }
        match (self.efficiency(), old.efficiency()) {
            (Some(new), Some(old)) if !is_within(new / old) => {
                let percent = 100.0 * (new / old - 1.0);
                Some((format!("{name} has {percent:+.1} % of power efficiency"), EFFICIENCY))
            }
            (Some(_), None) => Some((format!("the power of {name} is new"), NEW_RESULT)),
            _ => None,
        }
    }
}

fn is_within(ratio: f64) -> bool {
    // The bound is inclusive, in decimals.
    (ratio - 1.0).abs() <= TOLERANCE + 1e-9
}

/// Standing of a submission in the selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may be selected.
    Candidate {
        /// For each audited system of the previous round with the same accelerator, why the
        /// submission is not exempt.
        reasons: Vec<Reason>,
    },
    /// It cannot be selected.
    Exempt(Reason),
    /// Its system is of another division or not available.
    NotAuditable {
        /// Division and availability.
        why: String,
    },
}

/// A reason with the sentence of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What was found.
    pub why: String,
    /// Sentence of the rules.
    pub sentence: &'static str,
}

/// A submission with its standing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedSubmission {
    /// Submitter.
    pub submitter: String,
    /// Name of the system's folder.
    pub system: String,
    /// Standing.
    pub standing: Standing,
    /// Systems of the previous round that would exempt the submission if they had been audited.
    pub exempting: Vec<String>,
}

impl JudgedSubmission {
    fn is_candidate(&self) -> bool {
        matches!(self.standing, Standing::Candidate { .. })
    }
}

/// The selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Submissions, sorted by submitter and system.
    pub submissions: Vec<JudgedSubmission>,
    /// Seed of the draw.
    pub seed: u32,
    /// Submitter and system that were drawn; `None` without candidates.
    pub drawn: Option<(String, String)>,
}

impl Selection {
    /// Judges the submissions of a round and draws one. `audited` has the names of systems of the
    /// previous round, such as `acme/box`, that were audited. Equal arguments give equal results.
    pub fn draw(
        systems: &[SystemResults],
        previous: &[SystemResults],
        audited: &[String],
        seed: u32,
    ) -> Self {
        let mut submissions: Vec<JudgedSubmission> =
            systems.iter().map(|system| judge(system, previous, audited)).collect();
        submissions.sort_by(|a, b| (&a.submitter, &a.system).cmp(&(&b.submitter, &b.system)));
        let mut selection = Self { submissions, seed, drawn: None };
        let mut random = Mt19937::new(u64::from(seed));
        selection.drawn = pick(&selection.submitters(), &mut random).and_then(|submitter| {
            let own = selection.submissions.iter().filter(|one| one.submitter == *submitter);
            let own: Vec<String> =
                own.filter(|one| one.is_candidate()).map(|one| one.system.clone()).collect();
            pick(&own, &mut random).map(|system| (submitter.clone(), system.clone()))
        });
        selection
    }

    /// Returns the submitters with candidates, sorted: those of the first stage.
    pub fn submitters(&self) -> Vec<String> {
        let candidates = self.submissions.iter().filter(|one| one.is_candidate());
        let mut submitters: Vec<String> = candidates.map(|one| one.submitter.clone()).collect();
        submitters.dedup();
        submitters
    }
}

fn pick<'a>(names: &'a [String], random: &mut Mt19937) -> Option<&'a String> {
    let count = u32::try_from(names.len()).ok().filter(|count| *count > 0)?;
    names.get(random.bounded(count) as usize)
}

fn judge(
    system: &SystemResults,
    previous: &[SystemResults],
    audited: &[String],
) -> JudgedSubmission {
    let closed = previous.iter().filter(|old| old.division == "closed");
    let (was_audited, not_audited): (Vec<_>, Vec<_>) =
        closed.partition(|old| audited.contains(&old.name()));
    let exempting = not_audited.iter().filter(|old| exemption(system, old).is_ok());
    let exempting = exempting.map(|old| old.name()).collect();
    let mut reasons = Vec::new();
    let mut exempt = None;
    for old in was_audited {
        match exemption(system, old) {
            Ok(reason) => exempt = exempt.or(Some(reason)),
            Err(reason) => reasons.push(reason),
        }
    }
    let is_available = system.availability.starts_with("available");
    let standing = if system.division != "closed" || !is_available {
        let why = format!("{} division, {}", system.division, system.availability);
        Standing::NotAuditable { why }
    } else {
        exempt.map_or(Standing::Candidate { reasons }, Standing::Exempt)
    };
    let (submitter, system) = (system.submitter.clone(), system.system.clone());
    JudgedSubmission { submitter, system, standing, exempting }
}

/// Returns why an audited system exempts a submission, or why it does not.
fn exemption(system: &SystemResults, audited: &SystemResults) -> Result<Reason, Reason> {
    let different = system.different_components(audited);
    let is_described = !system.description.is_empty() && !audited.description.is_empty();
    if is_described && different.is_empty() {
        let why = format!("equivalent to {}", audited.name());
        return Ok(Reason { why, sentence: EQUIVALENT });
    }
    match system.difference_from(audited) {
        None => {
            let why = format!("the accelerator and within 10 % of {}", audited.name());
            Ok(Reason { why, sentence: SIMILAR })
        }
        Some((why, sentence)) => {
            let different = different.join(", ");
            let why = format!("not {}: {why}; differs in {different}", audited.name());
            Err(Reason { why, sentence })
        }
    }
}
