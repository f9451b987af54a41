//! Checks that options take effect: an option that changes nothing is an error before the run.
//!
//! The table [`table::ROWS`] lists what each key of a run needs, and [`spec::ROWS`] lists the keys
//! of systems that may have no effect. Users rely on the options that they set: a gate that is
//! never checked is worse than no gate.

mod bounds;
mod need;
mod served;
mod settings;
mod spec;
mod table;

use dyno_loadgen::settings::{Origin, Scenario, TestMode};

use crate::failure::Failure;
use crate::options::{KeyOrigin, Options, RunOptions, SweepKey};
use crate::system::{System, SystemKind};

use bounds::UnjudgedBound;
pub use bounds::is_judged;
pub use need::WHERE_CLIENTS_LAG;
pub use served::check_served;
pub use table::needs_of;

/// Facts that decide whether an option takes effect.
pub struct Facts<'a> {
    options: &'a Options,
    run: &'a RunOptions,
    /// Name of the system, such as `onnx`.
    system: &'a str,
    /// Operand of the system, after the name and a colon.
    argument: &'a str,
    scenarios: Vec<Scenario>,
    modes: &'static [TestMode],
    /// The loaded system; `None` before it is loaded.
    loaded: Option<&'a System>,
}

/// Why an option has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetNeed {
    /// Reason that the option changes nothing.
    why: String,
    /// Remedy.
    fix: String,
}

impl UnmetNeed {
    fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into() }
    }
}

/// Options that must have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// All options that are set, as in `dyno run`. Options of a `dyno.toml` that flags of the
    /// command line override are reported and ignored, except for gates.
    Run,
    /// As [`Strictness::Run`], for one point of a sweep: options without effect at this point are
    /// reported. The sweep rejects options without effect at all points.
    Point,
    /// Options of the command line, for commands that choose mode and scenarios themselves.
    Flags,
}

/// Options that decide whether a run passes. Without effect they are always errors.
const GATES: [&str; 2] = ["accuracy-target", "require"];
/// Flags that choose a part of what a file describes.
const NARROWING: [&str; 4] = ["scenario", "mode", "system", "data"];

impl<'a> Facts<'a> {
    /// Returns the facts of a run with these options, and of its system once it is loaded.
    pub fn new(options: &'a Options, loaded: Option<&'a System>) -> Self {
        let run = &options.run;
        let spec = run.system.as_deref().unwrap_or("digits");
        let (system, argument) = spec.split_once(':').unwrap_or((spec, ""));
        let (scenarios, modes) = (options.scenarios(), options.modes());
        Self { options, run, system, argument, scenarios, modes, loaded }
    }

    fn measures(&self) -> bool {
        self.modes.iter().any(|mode| *mode != TestMode::AccuracyOnly)
    }

    fn scores(&self) -> bool {
        self.modes.contains(&TestMode::AccuracyOnly)
    }

    /// Returns whether the system exists. Unknown names are reported elsewhere.
    fn is_known(&self) -> bool {
        SystemKind::named(self.system).is_some()
    }

    /// Returns the names of the scenarios as a list in prose.
    fn scenario_names(&self) -> String {
        let names: Vec<&str> = self.scenarios.iter().map(|scenario| scenario.name()).collect();
        names.join(", ")
    }
}

/// Rejects options that the system of a run ignores, from flags and files alike, and bounds that no
/// test judges once the system is loaded.
///
/// # Errors
/// Each such option with the reason and a remedy.
pub fn check_system(facts: &Facts<'_>, strictness: Strictness) -> Result<(), Failure> {
    if !facts.is_known() {
        return Ok(());
    }
    let given = facts.options.given();
    let of_system = given.iter().filter_map(|given| Some((given, table::of_system(given, facts)?)));
    let of_system = of_system.map(|(given, unmet)| (sentence(given, &unmet), unmet));
    let of_bounds = bounds::unjudged(facts, strictness).into_iter().map(UnjudgedBound::problem);
    fail(of_system.chain(of_bounds).collect())
}

/// Rejects every option that has no effect in the whole run. Returns a sentence for each ignored
/// option.
///
/// # Errors
/// Each rejected option with the reason and a remedy.
pub fn check(facts: &Facts<'_>, strictness: Strictness) -> Result<Vec<String>, Failure> {
    let (mut errors, mut ignored) = (Vec::new(), Vec::new());
    if !facts.is_known() {
        return Ok(ignored);
    }
    for (given, unmet) in without_effect(facts) {
        let is_file = matches!(given.origin, Origin::File { .. });
        let is_narrowed = is_file && is_narrowed(facts);
        let is_gate = GATES.contains(&given.key) && !is_elsewhere(&given, facts, strictness);
        match strictness {
            Strictness::Flags if is_file => {}
            Strictness::Run if is_narrowed && !is_gate => ignored.push(sentence(&given, &unmet)),
            Strictness::Point if !is_gate => ignored.push(sentence(&given, &unmet)),
            _ => errors.push((sentence(&given, &unmet), unmet)),
        }
    }
    if strictness != Strictness::Flags {
        errors.extend(spec::without_effect(facts));
        errors.extend(settings::without_effect(facts, strictness));
    }
    fail(errors).map(|()| ignored)
}

/// Returns whether a point of a sweep has no requirements but those of scenarios that other points have.
fn is_elsewhere(given: &KeyOrigin, facts: &Facts<'_>, strictness: Strictness) -> bool {
    strictness == Strictness::Point
        && given.key == "require"
        && need::require_in_scenarios(facts).is_none()
}

/// Options without effect at all points of a sweep so far.
#[derive(Debug, Default)]
pub struct Common {
    options: Option<Vec<(KeyOrigin, UnmetNeed)>>,
    /// Requirements whose scenario no point has.
    requirements: Option<Vec<String>>,
    bounds: Option<Vec<UnjudgedBound>>,
}

impl Common {
    /// Adds a point.
    pub fn add(&mut self, facts: &Facts<'_>) {
        let mut found = without_effect(facts);
        found.retain(|(given, _)| !is_elsewhere(given, facts, Strictness::Point));
        let elsewhere = need::of_other_scenarios(facts);
        match &mut self.requirements {
            None => self.requirements = Some(elsewhere),
            Some(common) => common.retain(|requirement| elsewhere.contains(requirement)),
        }
        self.options = Some(match self.options.take() {
            None => found,
            Some(mut before) => {
                before.retain(|(given, _)| found.iter().any(|(other, _)| other.key == given.key));
                before
            }
        });
    }

    /// Adds the bounds of a point. Without a loaded system they count as judged.
    pub(crate) fn add_bounds(&mut self, facts: &Facts<'_>) {
        let found = bounds::unjudged(facts, Strictness::Run);
        match &mut self.bounds {
            None => self.bounds = Some(found),
            Some(common) => {
                common.retain(|bound| found.iter().any(|other| bound.name == other.name));
            }
        }
    }

    /// Rejects options without effect at all points.
    ///
    /// # Errors
    /// Each such option with the reason at the first point and a remedy.
    pub fn check(&self) -> Result<(), Failure> {
        let options = self.options.iter().flatten();
        let options = options.map(|(given, unmet)| (sentence(given, unmet), unmet.clone()));
        let requirements = self.requirements.iter().flatten().map(|requirement| {
            let why = "has no effect: no point of the sweep has its scenario";
            let unmet = UnmetNeed::new(why, "add the scenario, or remove it");
            (format!("--require {requirement} {why}"), unmet)
        });
        let bounds = self.bounds.iter().flatten().cloned().map(UnjudgedBound::problem);
        fail(options.chain(requirements).chain(bounds).collect())
    }
}

/// Returns whether a key or setting that a sweep varies has no effect in a run.
pub fn is_useless(facts: &Facts<'_>, swept: &SweepKey) -> bool {
    match swept {
        SweepKey::Key(key) => {
            let given = KeyOrigin { key: key.name, origin: Origin::Default };
            let is_rate = key.name == "qps";
            table::unmet(&given, facts).is_some()
                || (is_rate && settings::is_useless(facts, "server_target_qps"))
        }
        SweepKey::Setting(setting) => settings::is_useless(facts, setting),
    }
}

fn without_effect(facts: &Facts<'_>) -> Vec<(KeyOrigin, UnmetNeed)> {
    let given = facts.options.given().iter();
    given.filter_map(|given| Some((given.clone(), table::unmet(given, facts)?))).collect()
}

fn is_narrowed(facts: &Facts<'_>) -> bool {
    let is_flag = |given: &&KeyOrigin| matches!(given.origin, Origin::Flag(_));
    let mut flags = facts.options.given().iter().filter(is_flag);
    flags.any(|given| NARROWING.contains(&given.key))
}

/// Returns a sentence with the option as the user wrote it and the reason.
fn sentence(given: &KeyOrigin, unmet: &UnmetNeed) -> String {
    match &given.origin {
        Origin::File { path, line } => {
            let key = given.key.replace('-', "_");
            format!("{}:{line}: `{key}` {}", path.display(), unmet.why)
        }
        Origin::Flag(flag) => format!("{flag} {}", unmet.why),
        _ => format!("--{} {}", given.key, unmet.why),
    }
}

fn fail(found: Vec<(String, UnmetNeed)>) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    let (problems, unmet): (Vec<String>, Vec<UnmetNeed>) = found.into_iter().unzip();
    let mut fixes: Vec<String> = unmet.into_iter().map(|unmet| unmet.fix).collect();
    fixes.dedup();
    Err(fixes.into_iter().fold(Failure::usages(problems), Failure::hint))
}
