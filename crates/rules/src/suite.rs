//! Suites, divisions and availability: the categories of a result.

use std::fmt;

use super::RuleScenario;

dyno_loadgen::named_enum! {
    /// Suite of a system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Suite {
        /// `datacenter`.
        Datacenter = "datacenter",
        /// `edge`.
        Edge = "edge",
        /// `datacenter,edge`: one system submitted to both suites.
        Both = "datacenter,edge",
    }
}

/// Scenarios of a benchmark in a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SuiteScenarios {
    /// Scenarios without which a submission is incomplete.
    pub required: Vec<RuleScenario>,
    /// Scenarios that may be submitted in addition.
    pub optional: Vec<RuleScenario>,
}

impl SuiteScenarios {
    /// Whether the scenario may be submitted.
    pub fn has(&self, scenario: RuleScenario) -> bool {
        self.required.contains(&scenario) || self.optional.contains(&scenario)
    }
}

/// Division: how closely submissions must follow the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Division {
    /// `closed`: the model and the bounds of the reference.
    Closed,
    /// `open`: any model for the task.
    Open,
    /// `network`: closed, over a network fabric.
    Network,
}

/// Availability of the system to customers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Availability {
    /// `available`: can be bought or rented now.
    Available,
    /// `preview`: available by the next submission.
    Preview,
    /// `rdi`: research, development or internal.
    Rdi,
}

macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal),+ }) => {
        impl $type {
            /// All values.
            pub const ALL: [Self; 3] = [$(Self::$variant),+];

            /// Returns the name as submission trees and system descriptions write it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns the value with this name, ignoring case.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(name))
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
named!(Division { Closed = "closed", Open = "open", Network = "network" });
named!(Availability { Available = "available", Preview = "preview", Rdi = "rdi" });

/// Requirements of a division or an availability category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirements {
    /// Name for titles.
    pub title: String,
    /// Requirements, one sentence each.
    pub items: Vec<String>,
}

/// Rules of the `network` division.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRules {
    /// Permitted interconnects between load generator and system: fabrics.
    pub permitted: Vec<String>,
    /// Aliases of those fabrics in system descriptions.
    pub also_named: Vec<String>,
    /// Forbidden interconnects: buses.
    pub forbidden: Vec<String>,
    /// Aliases of those buses.
    pub forbidden_also_named: Vec<String>,
    /// Words that the name of the system under test must contain.
    pub name_of_system: String,
    /// The only suite of this division.
    pub suite: Suite,
}

/// Classification of an interconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interconnect {
    /// A listed fabric.
    Permitted,
    /// A listed bus.
    Forbidden,
    /// Not listed: the working group must clear it first.
    Unlisted,
}

impl NetworkRules {
    /// Classifies an interconnect such as `100G Ethernet` or `NVLink 4`, ignoring case, blanks
    /// and punctuation. A text that names a bus and a fabric, such as `Ethernet over PCIe`,
    /// counts as a bus.
    pub fn kind_of(&self, text: &str) -> Interconnect {
        let words = words(text);
        let names = |list: &[String]| list.iter().any(|name| holds(&words, &self::words(name)));
        if names(&self.forbidden) || names(&self.forbidden_also_named) {
            Interconnect::Forbidden
        } else if names(&self.permitted) || names(&self.also_named) {
            Interconnect::Permitted
        } else {
            Interconnect::Unlisted
        }
    }
}

/// Splits a text into lower-case words of letters or digits. Words end at other characters and
/// between letters and digits: `IEEE802.11` gives `ieee`, `802`, `11`.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = None;
    for letter in text.chars() {
        if !letter.is_alphanumeric() {
            last = None;
            continue;
        }
        let kind = letter.is_numeric();
        if last != Some(kind) {
            words.push(String::new());
        }
        last = Some(kind);
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

fn holds(words: &[String], name: &[String]) -> bool {
    words.windows(name.len()).any(|window| window == name)
}
