//! Suites, divisions and availability: what a result is submitted as.

use std::fmt;

use super::Scenario;

/// What a system is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suite {
    /// `datacenter`.
    Datacenter,
    /// `edge`.
    Edge,
    /// `datacenter,edge`: one system submitted as both.
    Both,
}

impl Suite {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Datacenter, Self::Edge, Self::Both];

    /// As a system description writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Datacenter => "datacenter",
            Self::Edge => "edge",
            Self::Both => "datacenter,edge",
        }
    }
}

/// Which scenarios of a benchmark a suite wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Without each of these a submission is incomplete.
    pub required: Vec<Scenario>,
    /// May be submitted as well.
    pub optional: Vec<Scenario>,
}

impl Wanted {
    /// Whether a scenario may be submitted.
    #[must_use]
    pub fn has(&self, scenario: Scenario) -> bool {
        self.required.contains(&scenario) || self.optional.contains(&scenario)
    }
}

/// How alike submissions must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Division {
    /// `closed`: the reference's model and bounds.
    Closed,
    /// `open`: any model for the task.
    Open,
    /// `network`: closed, over a network fabric.
    Network,
}

/// When others can have the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Availability {
    /// `available`: now.
    Available,
    /// `preview`: by the next submission.
    Preview,
    /// `rdi`: research, development or internal.
    Rdi,
}

macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal),+ }) => {
        impl $type {
            /// All of them.
            pub const ALL: [Self; 3] = [$(Self::$variant),+];

            /// As trees and system descriptions write it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The one of that name, in any case.
            #[must_use]
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

/// What a division or an availability asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asks {
    /// Its name in titles.
    pub title: String,
    /// Each thing it asks for, in words.
    pub asks: Vec<String>,
}

/// The division `network`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRules {
    /// Interconnects that may join the load generator and the system: fabrics.
    pub permitted: Vec<String>,
    /// Other names of those fabrics, as system descriptions have them.
    pub also_named: Vec<String>,
    /// Interconnects that may not: buses.
    pub forbidden: Vec<String>,
    /// Other names of those buses.
    pub forbidden_also_named: Vec<String>,
    /// Words that the name of the system under test must have.
    pub name_of_system: String,
    /// The only suite it has.
    pub suite: Suite,
}

/// What kind of interconnect a text names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interconnect {
    /// A fabric of the list.
    Permitted,
    /// A bus of the list.
    Forbidden,
    /// Neither; it needs clearance by the working group first.
    Unlisted,
}

impl NetworkRules {
    /// What kind of interconnect a text such as `100G Ethernet` or `NVLink 4`
    /// names, whatever its case, blanks and punctuation. A bus beside a fabric,
    /// as in `Ethernet over PCIe`, is judged by the bus.
    #[must_use]
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

/// Letters and digits in lower case, split at everything else and where a digit
/// follows a letter or the other way round: `IEEE802.11` is `ieee`, `802`, `11`.
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
