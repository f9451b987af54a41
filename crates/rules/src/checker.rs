//! The official checker in one file: where its tags differ, from `rounds/checkers.toml`.

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer};

use super::Version;
use super::file::parse_embedded;

/// What the checker of a tag makes of a problem that later tags reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leniency {
    /// It does not check.
    Off,
    /// It logs the problem and accepts the result.
    Warning,
}

/// Behavior that some tags have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behavior {
    /// The table has the first accuracy alone, without its name.
    FirstAccuracy,
    /// The table has no units of tokens.
    PlainUnits,
    /// The table has no types of weights.
    NoWeightTypes,
    /// `mlperf.conf` or `user.conf` beside the measurement proves that samples were issued equally
    /// often.
    EqualIssueByConf,
    /// The measurement needs `mlperf.conf`, also in v4.1, whose rules do not require it.
    MlperfConf,
    /// Limits of token latencies overrule the verdict of the log.
    TokenLimitsDecide,
    /// Limits of token latencies also hold for SingleStream and MultiStream.
    TokenLimitsOfStreams,
    /// Server and Interactive may both be missing.
    NoServerOrInteractive,
    /// The open division needs no accuracy at all.
    OpenWithoutAccuracy,
    /// The last value of a metric counts instead of each.
    LastAccuracy,
    /// An accuracy in quotes is not read.
    UnquotedAccuracy,
    /// A measurement or a folder with problems is judged nevertheless.
    GoesOn,
    /// A result without `accuracy.txt` is judged nevertheless, and not counted as an error.
    GoesOnWithoutAccuracy,
    /// Only the closed and the network division need equal issue.
    EqualIssueOfClosed,
    /// A result that is inferred from an estimate of 0 passes, but is 0.
    ForgetsEstimate,
    /// A result with power has its row, also on a system that is submitted for its power only.
    ResultBesidePower,
    /// Types of weights that are not a text end the program.
    WeightsAreText,
    /// Links are rejected even if they lead somewhere.
    AnyLink,
    /// Readings of the power analyzer that are not positive count.
    AllReadings,
    /// The energy of a stream is in joules instead of millijoules.
    Joules,
    /// A column of the table is misspelt.
    Compilance,
    /// Lines with an error flag are errors, and the count in the log is ignored.
    ErrorLines,
    /// Errors of an accuracy run end the program.
    AccuracyErrorsCrash,
    /// Texts and names of files of an audit count, but not its run.
    AuditTexts,
    /// TEST04 is not for MultiStream.
    #[serde(rename = "streams-without-test04")]
    StreamsWithoutTest04,
    /// Notes on software follow a dot, even without notes on hardware.
    DottedNotes,
    /// The table does not quote numbers of accelerators.
    PlainAccelerators,
    /// The table does not quote types of systems, so that a comma in one shifts its row.
    PlainSystemType,
    /// A column of the table is misspelt.
    Infered,
    /// Only a SingleStream run may stand for an Offline result, and nothing else is inferred.
    OfflineOfSingleStream,
    /// The energy of a query follows from the rate of the run, because logs have no count.
    EnergyByRate,
    /// Logs are in the local time of their machines.
    LocalTimes,
    /// The table has the power beside the result, and no units.
    PowerColumn,
    /// The program knows no power.
    NoPower,
    /// Every line with the word ERROR is an error, except failed atomic operations.
    ErrorWords,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    checks: Vec<Checks>,
    behaviors: Vec<BehaviorEntry>,
    equal_issue: Vec<EqualIssue>,
    guesses: Vec<GuessesEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Checks {
    ids: Vec<String>,
    #[serde(deserialize_with = "version")]
    since: Version,
    before: Leniency,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BehaviorEntry {
    name: Behavior,
    #[serde(default = "first", deserialize_with = "version")]
    since: Version,
    #[serde(deserialize_with = "version")]
    until: Version,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EqualIssue {
    #[serde(deserialize_with = "version")]
    since: Version,
    models: Vec<String>,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GuessesEntry {
    #[serde(deserialize_with = "version")]
    since: Version,
    /// Parts of names, with the models.
    models: Vec<(String, String)>,
    source: String,
}

fn first() -> Version {
    Version::new(0, 5)
}

fn version<'de, D: Deserializer<'de>>(from: D) -> Result<Version, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| parse_embedded(include_str!("../rounds/checkers.toml")))
}

/// A difference between tags of the checker in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckerDifference {
    /// Checks or behavior.
    pub what: String,
    /// Tags that have it.
    pub tags: String,
    /// Tag and line of the program.
    pub source: &'static str,
}

impl Leniency {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "not checked",
            Self::Warning => "logged",
        }
    }
}

impl Behavior {
    fn title(self) -> &'static str {
        match self {
            Self::FirstAccuracy => "the table has the first accuracy alone",
            Self::PlainUnits => "the table has no units of tokens",
            Self::NoWeightTypes => "the table has no types of weights",
            Self::EqualIssueByConf => "`mlperf.conf` or `user.conf` is the proof of equal issue",
            Self::MlperfConf => "a measurement needs `mlperf.conf`",
            Self::TokenLimitsDecide => "token limits overrule the verdict of the log",
            Self::TokenLimitsOfStreams => {
                "SingleStream and MultiStream have the token limits of Server"
            }
            Self::NoServerOrInteractive => "Server and Interactive may both be missing",
            Self::OpenWithoutAccuracy => "a result of the open division needs no accuracy",
            Self::LastAccuracy => "the last accuracy of a text decides, not each",
            Self::UnquotedAccuracy => "an accuracy in quotes, such as '43.9', is not read",
            Self::GoesOn => "a measurement or a folder with problems is judged nevertheless",
            Self::GoesOnWithoutAccuracy => {
                "a result without `accuracy.txt` is judged nevertheless, and not counted as an error"
            }
            Self::EqualIssueOfClosed => "the open division needs no equal issue",
            Self::ForgetsEstimate => "an estimate of 0 is logged, and the inferred result is 0",
            Self::ResultBesidePower => "a system for power only has rows of its results, too",
            Self::WeightsAreText => "types of weights that are not a text end the program",
            Self::AnyLink => "links are rejected even if they lead somewhere",
            Self::AllReadings => "readings of power that are not positive count",
            Self::Joules => "the energy of a query is in joules",
            Self::Compilance => "the column `compliance` is misspelt",
            Self::ErrorLines => {
                "lines with an error flag count, not the count of errors in the log"
            }
            Self::AccuracyErrorsCrash => "errors of an accuracy run end the program",
            Self::AuditTexts => "runs of audits are not judged",
            Self::StreamsWithoutTest04 => "MultiStream needs no TEST04",
            Self::DottedNotes => "notes on software begin with a dot",
            Self::PlainAccelerators => "numbers of accelerators are not quoted",
            Self::PlainSystemType => "types of systems are not quoted",
            Self::Infered => "the column `inferred` is misspelt",
            Self::OfflineOfSingleStream => "only Offline is inferred, only from SingleStream",
            Self::EnergyByRate => "the energy of a query follows from the rate of the run",
            Self::LocalTimes => "times of power are local and converted by the logged time zones",
            Self::PowerColumn => "the table has a column `power` instead of rows and units",
            Self::NoPower => "power is not known",
            Self::ErrorWords => "every line of a log with the word ERROR is an error",
        }
    }
}

/// The checker in one file as of the tag of a round.
///
/// ```
/// use dyno_rules::{Leniency, Behavior, OneFileChecker, Version};
///
/// let v3_0 = OneFileChecker::new(Version::new(3, 0));
/// assert_eq!(v3_0.instead("performance.seeds"), Some(Leniency::Warning));
/// assert!(v3_0.does(Behavior::FirstAccuracy));
/// assert!(!OneFileChecker::LAST.does(Behavior::FirstAccuracy));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OneFileChecker {
    tag: Version,
}

impl OneFileChecker {
    /// Round of the first tag whose differences are known.
    pub const FIRST: Version = Version::new(0, 7);

    /// The last one, v5.1.1.
    pub const LAST: Self = Self::new(Version::new(5, 1));

    /// Returns the checker of a round.
    pub const fn new(tag: Version) -> Self {
        Self { tag }
    }

    /// Returns what the checker makes of a failed check that later tags reject; `None` if it does
    /// the same as the last tag.
    pub fn instead(self, check: &str) -> Option<Leniency> {
        let names = |entry: &&Checks| entry.ids.iter().any(|id| id == check);
        file().checks.iter().find(names).filter(|entry| self.tag < entry.since).map(|e| e.before)
    }

    /// Whether the checker has a behavior.
    pub fn does(self, behavior: Behavior) -> bool {
        let is_it = |entry: &&BehaviorEntry| entry.name == behavior;
        let found = file().behaviors.iter().find(is_it);
        found.is_some_and(|entry| (entry.since..=entry.until).contains(&self.tag))
    }

    /// Whether the checker requires that samples of a model, by its official name, are issued
    /// equally often.
    pub fn requires_equal_issue(self, model: &str) -> bool {
        let entry = file().equal_issue.iter().rfind(|entry| entry.since <= self.tag);
        entry.is_some_and(|entry| entry.models.iter().any(|name| name == model))
    }

    /// Returns parts of names of models and the models that they stand for. The first that a name
    /// contains counts.
    pub fn guesses(self) -> &'static [(String, String)] {
        let entry = file().guesses.iter().rfind(|entry| entry.since <= self.tag);
        entry.map_or(&[], |entry| &entry.models)
    }

    /// Returns all differences between tags, for people.
    pub fn differences() -> Vec<CheckerDifference> {
        let checks = file().checks.iter().map(|entry| CheckerDifference {
            what: entry.ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", "),
            tags: format!("rejects since {}, before {}", entry.since, entry.before.name()),
            source: &entry.source,
        });
        let behaviors = file().behaviors.iter().map(|entry| CheckerDifference {
            what: entry.name.title().to_owned(),
            tags: if entry.since == first() {
                format!("until {}", entry.until)
            } else if entry.since == entry.until {
                entry.since.to_string()
            } else {
                format!("{} to {}", entry.since, entry.until)
            },
            source: &entry.source,
        });
        let equal_issue = file().equal_issue.iter().map(|entry| CheckerDifference {
            what: format!("equal issue is required of {}", entry.models.join(", ")),
            tags: format!("from {}", entry.since),
            source: &entry.source,
        });
        let guesses = file().guesses.iter().map(|entry| CheckerDifference {
            what: format!("names with {} stand for models", parts(&entry.models)),
            tags: format!("from {}", entry.since),
            source: &entry.source,
        });
        checks.chain(behaviors).chain(equal_issue).chain(guesses).collect()
    }

    /// Returns the line from which a check makes a result invalid only since a later tag than the
    /// first, such as `v3.1:1751`.
    pub fn source(check: &str) -> Option<(&'static str, Version)> {
        let names = |entry: &&Checks| entry.ids.iter().any(|id| id == check);
        file().checks.iter().find(names).map(|entry| (entry.source.as_str(), entry.since))
    }
}

/// Returns the parts of names, for people.
fn parts(models: &[(String, String)]) -> String {
    models.iter().map(|(part, _)| part.as_str()).collect::<Vec<_>>().join(", ")
}

/// The name of its round, such as `v4.1`.
impl fmt::Display for OneFileChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tag.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_difference_names_its_tag_and_line_once() {
        let all = file();
        let sources = all.checks.iter().map(|entry| &entry.source);
        let sources = sources.chain(all.behaviors.iter().map(|entry| &entry.source));
        for source in sources.chain(all.equal_issue.iter().map(|entry| &entry.source)) {
            let (tag, line) = source.split_once(':').unwrap();
            // The programs of v5.0 and v5.1 are at the tags v5.0.1 and v5.1.1.
            assert!(!["v5.0", "v5.1"].contains(&tag), "{source}");
            let tag = tag.strip_suffix(".1").filter(|tag| tag.contains('.')).unwrap_or(tag);
            assert!(tag.parse::<Version>().is_ok(), "{source}");
            assert!(line.parse::<u32>().is_ok(), "{source}");
        }
        let ids: Vec<&String> = all.checks.iter().flat_map(|entry| &entry.ids).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }

    #[test]
    fn tags_differ_in_checks_behaviors_and_models() {
        let [v2_1, v3_1, v4_1] =
            [(2, 1), (3, 1), (4, 1)].map(|(a, b)| OneFileChecker::new(Version::new(a, b)));
        assert_eq!(v2_1.instead("tree.root_files"), Some(Leniency::Off));
        assert_eq!(v3_1.instead("tree.root_files"), None);
        assert_eq!(v2_1.instead("performance.result"), None);
        assert!(v2_1.does(Behavior::Joules) && !v3_1.does(Behavior::Joules));
        assert!(v4_1.does(Behavior::EqualIssueByConf) && !v3_1.does(Behavior::EqualIssueByConf));
        assert!(!v3_1.requires_equal_issue("3d-unet-99"));
        assert!(v4_1.requires_equal_issue("3d-unet-99"));
        assert!(!v4_1.requires_equal_issue("3d-unet-99.9"), "commas are missing in its list");
        assert!(OneFileChecker::LAST.requires_equal_issue("3d-unet-99.9"));
        let (v5_0, name) = (OneFileChecker::new(Version::new(5, 0)), "llama2-70b-interactive-99");
        assert!(v5_0.requires_equal_issue(name));
        assert!(!OneFileChecker::LAST.requires_equal_issue(name), "v5.1.1:1161 lacks it");
    }
}
