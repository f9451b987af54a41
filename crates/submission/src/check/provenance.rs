//! Where checks come from, and how that limits them: see `sources.toml`.

use std::sync::OnceLock;

use serde::{Deserialize, Deserializer};

use super::{Options, Program};
use dyno_rules::{Version, parse_embedded};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cited: Vec<Citation>,
    own: Own,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Citation {
    ids: Vec<String>,
    #[serde(default = "first", deserialize_with = "version")]
    since: Version,
    /// Whether the check is a warning in earlier rounds instead of being off.
    #[serde(default)]
    warns_before: bool,
    /// Last round whose rules or program have the check. It is a warning in later ones.
    #[serde(default = "last", deserialize_with = "version")]
    until: Version,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    ids: Vec<String>,
}

fn first() -> Version {
    Version::new(0, 5)
}

fn last() -> Version {
    Version::new(u8::MAX, 0)
}

fn version<'de, D: Deserializer<'de>>(from: D) -> Result<Version, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| parse_embedded(include_str!("sources.toml")))
}

/// Where a check comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// A rule or an official program asks for it.
    Cited {
        /// Paragraph with the date of its revision, or program with tag and line.
        source: &'static str,
        /// First round in which it holds.
        since: Version,
        /// Whether it is a warning before.
        warns_before: bool,
        /// Last round in which it holds, if it is a warning in later ones.
        until: Option<Version>,
    },
    /// Dyno's own: nothing written asks for it.
    Own,
}

impl Provenance {
    /// Returns where the check with an id comes from; `None` for an unknown id.
    pub fn of_check(id: &str) -> Option<Self> {
        let has_id = |entry: &&Citation| entry.ids.iter().any(|known| known == id);
        let cited = file().cited.iter().find(has_id);
        let cited = cited.map(|entry| Self::Cited {
            source: &entry.source,
            since: entry.since,
            warns_before: entry.warns_before,
            until: Some(entry.until).filter(|until| *until != last()),
        });
        cited.or_else(|| file().own.ids.iter().any(|known| known == id).then_some(Self::Own))
    }

    /// Returns the source, if something is cited.
    pub fn source(self) -> Option<&'static str> {
        match self {
            Self::Cited { source, .. } => Some(source),
            Self::Own => None,
        }
    }
}

/// A program that judges, and what limits its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judge {
    pub(super) program: Program,
    round: Version,
    is_forensic: bool,
}

/// What limits a check of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// The check does not hold in the round.
    Off,
    /// Nothing written asks for the check, so that it rejects nothing.
    Warning,
}

impl Judge {
    /// Returns the judge of a check with options.
    pub(super) fn new(round: Version, options: &Options) -> Self {
        Self { program: options.program, round, is_forensic: options.forensic }
    }

    /// Returns the judge of the last round by default.
    pub(super) fn by_default(program: Program) -> Self {
        Self { is_forensic: false, ..program.into() }
    }

    /// Returns what limits a check, if something does. Official programs are limited by their data.
    pub(super) fn limit(self, id: &str) -> Option<Limit> {
        if self.program != Program::Strict {
            return None;
        }
        match Provenance::of_check(id) {
            Some(Provenance::Cited { until: Some(until), .. }) if self.round > until => {
                (!self.is_forensic).then_some(Limit::Warning)
            }
            Some(Provenance::Cited { since, warns_before, .. }) => {
                let limit = if warns_before { Limit::Warning } else { Limit::Off };
                let is_lifted = warns_before && self.is_forensic;
                (self.round < since && !is_lifted).then_some(limit)
            }
            Some(Provenance::Own) | None => (!self.is_forensic).then_some(Limit::Warning),
        }
    }
}

/// Returns the judge without limits.
impl From<Program> for Judge {
    fn from(program: Program) -> Self {
        Self { program, round: last(), is_forensic: true }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::check::catalogue;

    #[test]
    fn each_check_has_one_source_or_is_dynos_own() {
        let mut times: BTreeMap<&str, u32> = BTreeMap::new();
        let cited = file().cited.iter().flat_map(|entry| &entry.ids);
        for id in cited.chain(&file().own.ids) {
            *times.entry(id).or_default() += 1;
        }
        let power = crate::power::CHECKS.iter().map(|(id, _)| *id);
        let ids = catalogue::ALL.iter().map(|check| check.id).chain(power);
        for id in ids {
            assert_eq!(times.remove(id), Some(1), "{id} has no source, or two");
        }
        assert!(times.is_empty(), "no such check: {times:?}");
    }

    #[test]
    fn a_source_is_a_dated_paragraph_or_a_line_of_a_program() {
        for entry in &file().cited {
            let source = &entry.source;
            let date = source.rsplit(' ').next().unwrap_or_default();
            let is_dated = date.len() == 10 && date.starts_with("20") && date.contains('-');
            let is_program = source.contains(".py v") || source.contains(".py b66003e1");
            assert!(is_dated || is_program, "{source}");
        }
    }

    #[test]
    fn a_check_holds_from_its_round_on_and_an_own_one_rejects_nothing() {
        let mut options = Options::new(Program::Strict);
        let judge = |round, options: &Options| Judge::new(round, options);
        let (v3_0, v3_1) = (Version::new(3, 0), Version::new(3, 1));
        assert_eq!(judge(v3_0, &options).limit("tree.root_files"), Some(Limit::Off));
        assert_eq!(judge(v3_1, &options).limit("tree.root_files"), None);
        // The sentence on diagrams is of December 2022, after the submissions of v2.1.
        let v2_1 = Version::new(2, 1);
        assert_eq!(judge(v2_1, &options).limit("network.diagram"), Some(Limit::Off));
        assert_eq!(judge(v3_0, &options).limit("network.diagram"), None);
        // The checker in modules and the rules have no word on other files in the root.
        let (v5_1, v6_0) = (Version::new(5, 1), Version::new(6, 0));
        assert_eq!(judge(v5_1, &options).limit("tree.root_files"), None);
        assert_eq!(judge(v6_0, &options).limit("tree.root_files"), Some(Limit::Warning));
        assert_eq!(judge(v3_1, &options).limit("performance.summary"), Some(Limit::Warning));
        // A power log that was changed after the measurement proves itself in every round.
        assert_eq!(judge(v3_0, &options).limit("power.checksums"), Some(Limit::Warning));
        options.forensic = true;
        assert_eq!(judge(v3_0, &options).limit("power.checksums"), None);
        assert_eq!(judge(v3_1, &options).limit("performance.summary"), None);
        options.program = Program::Mono;
        assert_eq!(judge(v3_0, &options).limit("tree.root_files"), None);
    }
}
