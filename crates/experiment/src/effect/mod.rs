//! Which options take effect: an option that changes nothing is an error before the run.
//!
//! One table, [`table::ROWS`], has every key of a run with what it needs, and one,
//! [`spec::ROWS`], the keys of the systems that may be without effect. A person who sets
//! an option relies on it; a gate that is not held is worse than none.

mod need;
mod served;
mod settings;
mod spec;
mod table;

use dyno_loadgen::settings::{Origin, Scenario, TestMode};

use crate::failure::Failure;
use crate::options::{Given, Options, RunOptions};
use crate::system::{System, SystemKind};

pub use served::check_served;
pub use table::needs_of;

/// What decides whether an option takes effect.
pub struct Facts<'a> {
    options: &'a Options,
    run: &'a RunOptions,
    /// Name of the system, such as `onnx`.
    system: &'a str,
    /// What follows the name and a colon.
    argument: &'a str,
    scenarios: Vec<Scenario>,
    modes: &'static [TestMode],
    /// `None` before the system is loaded, when not everything is known.
    loaded: Option<&'a System>,
}

/// An option without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// Why it changes nothing.
    why: String,
    /// What to do about it.
    fix: String,
}

impl Unmet {
    fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into() }
    }
}

/// Which options are held to have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// All that are set, as in `dyno run`. Of a `dyno.toml` those that flags of the command
    /// line made useless are reported and ignored, but not the gates.
    Run,
    /// As [`Strictness::Run`] of one point of a sweep: what has no effect at this point is
    /// reported. The sweep rejects what has none at any point.
    Point,
    /// Those of the command line, where the command chooses mode and scenarios itself.
    Flags,
}

/// Options that decide whether a run passes: without effect they are errors, whoever set
/// them.
const GATES: [&str; 2] = ["accuracy-target", "require"];
/// Flags that choose a part of what a file describes.
const NARROWING: [&str; 4] = ["scenario", "mode", "system", "data"];

impl<'a> Facts<'a> {
    /// Those of a run with these options, and of its system once it is loaded.
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

    /// Whether there is such a system; a name that is none is another error.
    fn is_known(&self) -> bool {
        SystemKind::named(self.system).is_some()
    }

    /// The scenarios as a person lists them.
    fn scenario_names(&self) -> String {
        let names: Vec<&str> = self.scenarios.iter().map(|scenario| scenario.name()).collect();
        names.join(", ")
    }
}

/// Rejects options that the system of a run ignores, from flags and files alike.
///
/// # Errors
/// Each such option with the reason, and what to do.
pub fn check_system(facts: &Facts<'_>) -> Result<(), Failure> {
    if !facts.is_known() {
        return Ok(());
    }
    let given = facts.options.given();
    let of_system = given.iter().filter_map(|given| Some((given, table::of_system(given, facts)?)));
    fail(of_system.map(|(given, unmet)| (sentence(given, &unmet), unmet)).collect())
}

/// Rejects every option that takes no effect in the whole run. Returns a sentence for each
/// that is ignored.
///
/// # Errors
/// Each option that is rejected with the reason, and what to do.
pub fn check(facts: &Facts<'_>, strictness: Strictness) -> Result<Vec<String>, Failure> {
    let (mut errors, mut ignored) = (Vec::new(), Vec::new());
    if !facts.is_known() {
        return Ok(ignored);
    }
    for (given, unmet) in without_effect(facts) {
        let is_file = matches!(given.origin, Origin::File { .. });
        let is_narrowed = is_file && is_narrowed(facts);
        let is_gate = GATES.contains(&given.key);
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

/// Options that take no effect at any point of a sweep so far.
#[derive(Debug, Default)]
pub struct Common(Option<Vec<(Given, Unmet)>>);

impl Common {
    /// Takes in one more point.
    pub fn add(&mut self, facts: &Facts<'_>) {
        let found = without_effect(facts);
        self.0 = Some(match self.0.take() {
            None => found,
            Some(mut before) => {
                before.retain(|(given, _)| found.iter().any(|(other, _)| other.key == given.key));
                before
            }
        });
    }

    /// Rejects them.
    ///
    /// # Errors
    /// Each such option with the reason at the first point, and what to do.
    pub fn check(&self) -> Result<(), Failure> {
        let all = self.0.iter().flatten();
        fail(all.map(|(given, unmet)| (sentence(given, unmet), unmet.clone())).collect())
    }
}

fn without_effect(facts: &Facts<'_>) -> Vec<(Given, Unmet)> {
    let given = facts.options.given().iter();
    given.filter_map(|given| Some((given.clone(), table::unmet(given, facts)?))).collect()
}

fn is_narrowed(facts: &Facts<'_>) -> bool {
    let is_flag = |given: &&Given| matches!(given.origin, Origin::Flag(_));
    let mut flags = facts.options.given().iter().filter(is_flag);
    flags.any(|given| NARROWING.contains(&given.key))
}

/// How a person wrote it, and why it changes nothing.
fn sentence(given: &Given, unmet: &Unmet) -> String {
    match &given.origin {
        Origin::File { path, line } => {
            let key = given.key.replace('-', "_");
            format!("{}:{line}: `{key}` {}", path.display(), unmet.why)
        }
        _ => format!("--{} {}", given.key, unmet.why),
    }
}

fn fail(found: Vec<(String, Unmet)>) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    let (problems, unmet): (Vec<String>, Vec<Unmet>) = found.into_iter().unzip();
    let mut fixes: Vec<String> = unmet.into_iter().map(|unmet| unmet.fix).collect();
    fixes.dedup();
    Err(fixes.into_iter().fold(Failure::usages(problems), Failure::hint))
}
