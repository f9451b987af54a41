//! Needs of options, each as a function of the facts of a run.

use std::path::Path;

use dyno_loadgen::search::Quantity;
use dyno_loadgen::settings::{Arrivals, Scenario, Settings, TestMode};
use dyno_task::card::{Bound, Unit};
use dyno_task::judge::{Judge, Target};

use super::{Facts, UnmetNeed};
use crate::options::{Requirement, is_open};
use crate::system::{SYSTEMS, System, onnx};

/// A need of an option.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// A system that accepts the option.
    System,
    /// A performance test.
    Performance,
    /// An accuracy test.
    Accuracy,
    /// This scenario. Rates and arrivals also apply to its accuracy test.
    Scenario(Scenario),
    /// Another need: a few words for the reference page, and the check.
    Other(&'static str, fn(&Facts<'_>) -> Option<UnmetNeed>),
}

impl Need {
    /// Returns why the need is not met for an option; `None` if it is met or not known yet.
    pub fn unmet(&self, key: &str, facts: &Facts<'_>) -> Option<UnmetNeed> {
        match *self {
            Self::System => {
                let accepting = accepting(key);
                (!accepting.contains(&facts.system)).then(|| {
                    let fix = of_system(key, &accepting, facts);
                    UnmetNeed::new(format!("has no effect on system `{}`", facts.system), fix)
                })
            }
            Self::Performance => (!facts.measures()).then(|| {
                UnmetNeed::new(
                    "has no effect: this run has no performance test",
                    "use --mode performance or --mode both, or remove it",
                )
            }),
            Self::Accuracy => (!facts.scores()).then(|| {
                UnmetNeed::new(
                    "has no effect: this run has no accuracy test",
                    "use --mode accuracy or --mode both, or remove it",
                )
            }),
            Self::Scenario(scenario) => (!facts.scenarios.contains(&scenario)).then(|| {
                let names = facts.scenario_names();
                UnmetNeed::new(
                    format!(
                        "has no effect: it belongs to {scenario}, and this run has {names} only"
                    ),
                    format!("add --scenario {scenario}, or remove it"),
                )
            }),
            Self::Other(_, question) => question(facts),
        }
    }

    /// Returns a few words for the reference page.
    pub fn words(&self, key: &str) -> String {
        match *self {
            Self::System => {
                let names: Vec<String> =
                    accepting(key).iter().map(|name| format!("`{name}`")).collect();
                match &names[..] {
                    [only] => format!("the system {only}"),
                    _ => format!("one of the systems {}", names.join(", ")),
                }
            }
            Self::Performance => "a performance test".into(),
            Self::Accuracy => "an accuracy test".into(),
            Self::Scenario(scenario) => format!("the scenario {scenario}"),
            Self::Other(words, _) => words.into(),
        }
    }
}

/// Returns the names of the systems that accept an option.
/// Returns the remedy for an option that the system of the run does not accept, but those of
/// `accepting` do.
fn of_system(key: &str, accepting: &[&str], facts: &Facts<'_>) -> String {
    let is_a = |path: &Path, extensions: &[&str]| {
        let given = path.extension().and_then(|extension| extension.to_str());
        given.is_some_and(|given| extensions.iter().any(|one| given.eq_ignore_ascii_case(one)))
    };
    // Without a system, the run measures the built-in model.
    let is_default = facts.run.system.is_none();
    match (key, facts.system) {
        // The flag of other load generators.
        ("model", "openai") => "add model=NAME to the URL, and remove it".into(),
        ("model", _) if is_default && let Some(model) = &facts.run.model => {
            if is_a(model, &["onnx"]) {
                format!("pass the model without a flag: dyno run {}", model.display())
            } else {
                "pass a model file without a flag, as in dyno run MODEL.onnx; for a server, add \
                 model=NAME to the URL: dyno run http://HOST:PORT,model=NAME"
                    .into()
            }
        }
        ("data", _) if is_default && let [(_, path), ..] = &facts.run.data[..] => {
            let what = if is_a(path, &["npy", "npz"]) {
                "the model: dyno run MODEL.onnx"
            } else {
                "the system: dyno run MODEL.onnx or dyno run http://HOST:PORT"
            };
            format!("add {what}, with this --data")
        }
        _ => {
            let names: Vec<String> = accepting.iter().map(|name| format!("{name}:")).collect();
            format!("it belongs to {}; remove it", names.join(", "))
        }
    }
}

fn accepting(key: &str) -> Vec<&'static str> {
    let kinds = SYSTEMS.into_iter().filter(|kind| kind.accepts.contains(&key));
    kinds.map(|kind| kind.name).collect()
}

/// Needs labels, references or a method that score answers.
pub fn scored(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let unmet = |why: &str, fix: &str| {
        Some(UnmetNeed::new(format!("has no effect: no answer is scored, because {why}"), fix))
    };
    const LABELS: &str = "pass the class of each sample with --labels FILE.npy, or remove it";
    if let Some(system) = facts.loaded {
        return if system.is_scored() {
            let judge = system.judge.as_ref();
            judge.and_then(of_points).or_else(|| of_zero(facts.run.accuracy_target, judge))
        } else if facts.system == "openai" {
            unmet(
                "the prompts have no reference answers",
                "pass prompts with references in --data FILE, or remove it",
            )
        } else {
            unmet("neither labels nor references are given", LABELS)
        };
    }
    // These facts are known before the system is loaded.
    match facts.system {
        "null" | "model" | "npu" | "raw" => unmet(
            &format!("system `{}` has no answers to score", facts.system),
            "measure a system with labels, or remove it",
        ),
        "onnx" | "tract" | "tuned" | "py" | "plugin" | "oip" | "oip-grpc"
            if facts.run.labels.is_none() =>
        {
            unmet("no labels are given", LABELS)
        }
        "openai" if facts.run.data.is_empty() => unmet(
            "generated prompts have no reference answers",
            "pass prompts with references in --data FILE, or remove it",
        ),
        _ => None,
    }
}

/// Returns why 0 is no target of a figure that is bounded below. A figure such as an error rate may have a
/// maximum of 0.
fn of_zero(target: Option<f64>, judge: Option<&Judge>) -> Option<UnmetNeed> {
    let is_maximum = |bound: &Target| matches!(bound.bound, Bound::AtMost(_));
    let has_maximum = judge.is_some_and(|judge| {
        judge.targets.iter().find(|bound| bound.metric == judge.metric).is_some_and(is_maximum)
    });
    (target == Some(0.0) && !has_maximum).then(|| {
        let why = "has no effect: no accuracy is below 0";
        UnmetNeed::new(why, "state the required share, such as 0.95, or remove it")
    })
}

/// Returns why a share cannot be the target of a figure in points, such as BLEU.
fn of_points(judge: &Judge) -> Option<UnmetNeed> {
    (judge.unit == Unit::Points).then(|| {
        let why =
            format!("has no effect: it is a share, and {} is a figure in points", judge.metric);
        UnmetNeed::new(why, "remove it; the task has its own target")
    })
}

/// Needs real time: in virtual time an early end saves nothing.
pub fn real_time(facts: &Facts<'_>) -> Option<UnmetNeed> {
    (facts.run.fails_fast == Some(true) && facts.loaded?.is_simulated()).then(|| {
        UnmetNeed::new(
            "has no effect: a run in virtual time does not end early",
            "remove it, or measure a real system",
        )
    })
}

/// Needs the client in this process, which keeps the texts.
pub fn texts(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let system = facts.loaded.filter(|_| facts.run.keeps_texts)?;
    system.remote_workers.is_some().then(|| {
        UnmetNeed::new(
            "has no effect: remote workers keep no texts",
            "leave it out, or run without remote workers",
        )
    })
}

/// Needs a run in real time from this process.
pub fn saturable(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let is_on = facts.run.stops_on_saturation == Some(true);
    let settings = server_settings(facts);
    let arrivals = &settings.values.server_arrivals;
    let is_open = |key| is_open(&settings, key);
    let is_capped_only = facts.run.max_concurrency.is_some()
        && facts.run.stages.is_none()
        && is_open("server_arrivals")
        && is_open("server_target_qps");
    if is_on && (is_capped_only || matches!(arrivals, Arrivals::Concurrency(_))) {
        return Some(UnmetNeed::new(
            "has no effect: it watches the queue of one rate, and this load has a fixed number of \
             requests in flight",
            "leave it out, or set a rate with --request-rate",
        ));
    }
    if is_on && (facts.run.stages.is_some() || matches!(arrivals, Arrivals::Replay(_))) {
        return Some(UnmetNeed::new(
            "has no effect: the rate of stages and recorded times varies, so that a queue may grow and \
             shrink",
            "leave it out, or measure at one rate",
        ));
    }
    let system = facts.loaded.filter(|_| is_on)?;
    (system.is_simulated() || system.remote_workers.is_some()).then(|| {
        UnmetNeed::new(
            "has no effect: only a run in real time from this process is watched",
            "remove it, or measure a real system without remote workers",
        )
    })
}

/// Returns the settings of a Server test, as far as options and the system set them.
fn server_settings(facts: &Facts<'_>) -> Settings {
    let mode = facts.modes.first().copied().unwrap_or(TestMode::PerformanceOnly);
    let mut settings = facts.options.settings(Scenario::Server, mode, None);
    if let Some(remote) = facts.loaded.and_then(System::remote) {
        remote.complete(&mut settings);
    }
    settings
}

/// Returns whether Server has a fixed number of queries in flight, so that no query has a due time.
fn is_closed_loop(facts: &Facts<'_>) -> bool {
    let mut settings = server_settings(facts);
    facts.options.complete_load(&mut settings);
    matches!(settings.values.server_arrivals, Arrivals::Concurrency(_))
}

/// Needs a rate, whose gaps it shapes.
pub fn burstiness(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let run = facts.run;
    (run.burstiness.is_some() && run.max_concurrency.is_some() && run.qps.is_none()).then(|| {
        UnmetNeed::new(
            "has no effect: without a rate, --max-concurrency sets the number of requests in flight",
            "add --request-rate, or leave it out",
        )
    })
}

/// Needs a load that nothing else sets.
pub fn stages(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let run = facts.run;
    let has_times = || !is_open(&server_settings(facts), "server_arrivals");
    let has_sessions =
        facts.loaded.and_then(System::remote).is_some_and(|remote| remote.sessions().is_some());
    if has_sessions {
        return Some(UnmetNeed::new(
            "sets the times of requests, and turns of conversations follow each other",
            "use --request-rate or --max-concurrency with sessions=",
        ));
    }
    let other = match run {
        _ if run.qps.is_some() => "--request-rate",
        _ if run.burstiness.is_some() => "--burstiness",
        _ if run.duration.is_some() => "--duration",
        _ if run.num_prompts.is_some() => "--num-prompts",
        _ if has_times() => "another setting or the recorded trace",
        _ => return None,
    };
    Some(UnmetNeed::new(
        format!("sets the load and its length, and so does {other}"),
        "keep one of the two; --max-concurrency limits the requests in flight beside stages",
    ))
}

/// Needs a load that can rise.
pub fn ramp(facts: &Facts<'_>) -> Option<UnmetNeed> {
    facts.run.stages.is_some().then(|| {
        UnmetNeed::new(
            "rises to one rate, and --stages has several",
            "begin with a stage such as 10s@0-8 instead, or keep one of the two",
        )
    })
}

/// Needs generated samples, or a file with more samples.
pub fn samples(facts: &Facts<'_>) -> Option<UnmetNeed> {
    const FIX: &str = "remove it";
    let (run, system) = (facts.run, facts.system);
    let of_data =
        || UnmetNeed::new("has no effect: all samples of --data are used", "remove one of the two");
    match system {
        "null" | "model" | "npu" => None,
        "onnx" | "tract" | "tuned" | "rnn" | "py" | "plugin" | "oip" | "oip-grpc" => {
            (!run.data.is_empty()).then(of_data)
        }
        "openai" | "raw" => {
            let (asked, system) = (run.samples?.get() as u64, facts.loaded?);
            let there = system.library_size().total;
            (!run.data.is_empty() && there < asked).then(|| {
                UnmetNeed::new(
                    format!("has no effect: --data contains {there} samples"),
                    format!("request at most {there} samples, or remove it"),
                )
            })
        }
        "task" => facts
            .loaded
            .filter(|system| !system.is_synthetic())
            .map(|_| UnmetNeed::new("has no effect: the task has its own data set", FIX)),
        other => Some(UnmetNeed::new(
            format!("has no effect on system `{other}`, which has its own samples"),
            FIX,
        )),
    }
}

/// Needs a batcher, or queries with several samples.
pub fn batches(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let system = facts.loaded?;
    let (run, batch) = (facts.run, facts.run.batch.clone().unwrap_or_default());
    let is_asked = |scenario: &&Scenario| {
        let is_split = matches!(scenario, Scenario::MultiStream | Scenario::Offline);
        let most = batch.size(**scenario);
        // A query of one sample already is a batch of one.
        most.is_some_and(|most| most.get() > 1 || is_split) || run.batch_wait.is_some()
    };
    let mut asked = facts.scenarios.iter().filter(is_asked).peekable();
    if asked.peek().is_none() {
        // Batches of one sample are the default; other sizes may belong to scenarios that are not
        // run.
        let is_one = facts.scenarios.iter().any(|scenario| batch.size(*scenario).is_some());
        return (!is_one).then(|| {
            UnmetNeed::new(
                format!("has no effect: this run has {} only", facts.scenario_names()),
                "pass sizes of scenarios that are run, or remove it",
            )
        });
    }
    let is_larger = |scenario: &Scenario| batch.size(*scenario).is_some_and(|most| most.get() > 1);
    let takes_one = system.is_engine() && system.about().largest_batch == 1;
    if takes_one && facts.scenarios.iter().any(is_larger) {
        let remarks = system.about().remarks;
        let why = remarks.iter().find_map(|all| all.strip_prefix("Samples do not share calls: "));
        let why = why.map(|why| format!(", because {}", why.trim_end_matches('.')));
        return Some(UnmetNeed::new(
            format!(
                "has no effect: the model takes one sample per call{}",
                why.unwrap_or_default()
            ),
            "remove it, or export the model with an open first dimension",
        ));
    }
    let takes_effect = |scenario: &Scenario| {
        let is_split = matches!(scenario, Scenario::MultiStream | Scenario::Offline);
        system.is_batched(*scenario) || (is_split && run.batch_wait.is_none() && system.is_engine())
    };
    (!asked.any(takes_effect)).then(|| {
        UnmetNeed::new(
            "has no effect: without --workers each query is computed alone",
            "add --workers 1 or more, or remove it",
        )
    })
}

/// Needs batches as [`batches`] does, and of several samples: a batch of one sample is full at once.
pub fn batch_wait(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let batch = facts.run.batch.clone().unwrap_or_default();
    let takes_one =
        facts.loaded.is_some_and(|system| system.is_engine() && system.about().largest_batch == 1);
    let is_one = |scenario: &Scenario| {
        // Simulated systems have batches of one sample by default.
        takes_one || batch.size(*scenario).map_or(facts.system == "model", |most| most.get() == 1)
    };
    if facts.scenarios.iter().all(is_one) {
        let why = "has no effect: a batch of one sample does not wait for others";
        return Some(UnmetNeed::new(why, "add --batch N above 1, or remove it"));
    }
    batches(facts)
}

/// Needs an engine whose calls use several threads.
pub fn threads(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let runtime = facts.loaded?.about().runtime.unwrap_or_default();
    let spreads =
        ["ONNX Runtime", "dyno-rnn", "dyno-graph"].iter().any(|name| runtime.starts_with(name));
    (!spreads).then(|| {
        UnmetNeed::new(
            format!("has no effect on system `{}`", facts.system),
            "it computes each call on one thread; --workers N runs N calls in parallel",
        )
    })
}

/// Needs threads of the system.
pub fn own_threads(facts: &Facts<'_>) -> Option<UnmetNeed> {
    (facts.run.workers == Some(0)).then(|| {
        UnmetNeed::new(
            "has no effect: with --workers 0 the system computes on the issuing thread, which \
             --cores does not bind",
            "remove --workers 0; a scenario without workers then gets one",
        )
    })
}

/// Needs tokens if the goodput has limits on tokens.
pub fn goodput(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let limits = facts.run.goodput?;
    (limits.needs_tokens() && !facts.loaded?.reports_tokens()).then(|| {
        UnmetNeed::new(
            format!("has no effect: system `{}` reports no tokens", facts.system),
            "use e2el:MS, which needs no tokens, or measure a system that streams tokens",
        )
    })
}

/// Returns the requirements that are limited to a scenario which the run does not have.
pub fn of_other_scenarios(facts: &Facts<'_>) -> Vec<String> {
    let is_other = |only: Scenario| !facts.scenarios.contains(&only);
    let others = facts.run.requirements.iter().filter(|one| one.scenario.is_some_and(is_other));
    others.map(Requirement::written).collect()
}

/// Needs a test that each requirement applies to, and the quantity that it bounds.
pub fn require(facts: &Facts<'_>) -> Option<UnmetNeed> {
    unmet_requirement(facts, |_| true)
}

/// As [`require`], for requirements of all scenarios and those of the run.
pub fn require_in_scenarios(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let has = |only: Scenario| facts.scenarios.contains(&only);
    unmet_requirement(facts, |requirement| requirement.scenario.is_none_or(has))
}

/// Returns why the first of these requirements is not judged.
fn unmet_requirement(
    facts: &Facts<'_>,
    is_counted: impl Fn(&Requirement) -> bool,
) -> Option<UnmetNeed> {
    let mut counted = facts.run.requirements.iter().filter(|one| is_counted(one));
    counted.find_map(|requirement| {
        let text = requirement.written();
        let unmet = |why: &str, fix: &str| Some(UnmetNeed::new(format!("{text} {why}"), fix));
        if facts.modes.contains(&TestMode::FindPeakPerformance) {
            return unmet(
                "has no effect: mode peak varies the load by the bounds of its settings alone",
                "use dyno search --limit for the peak within such limits, or --mode performance at \
                 one load",
            );
        }
        if !facts.modes.contains(&TestMode::PerformanceOnly) {
            return unmet(
                "has no effect: this run has no performance test",
                "use --mode performance or --mode both, or remove it",
            );
        }
        let mut scenarios = facts.scenarios.iter().copied();
        if !scenarios.clone().any(|scenario| requirement.is_for(scenario)) {
            let why = format!("has no effect: this run has {} only", facts.scenario_names());
            return unmet(&why, "add the scenario, or remove it");
        }
        let quantity = requirement.limit(0.99).quantity;
        let grows = matches!(quantity, Quantity::Latency | Quantity::FirstToken)
            && scenarios.clone().any(|of| of == Scenario::Offline && requirement.is_for(of));
        match quantity {
            Quantity::FirstToken | Quantity::TimePerOutputToken
                if !facts.loaded.is_none_or(System::reports_tokens) =>
            {
                unmet("is not measured: the system reports no tokens", TOKENS)
            }
            _ if grows => {
                unmet(IN_OFFLINE, "bound another scenario, as in server:p99<=50ms, or errors")
            }
            Quantity::ClientLag => {
                let is_server = |scenario: Scenario| scenario == Scenario::Server;
                let is_without_lag =
                    |system: &System| system.is_simulated() || is_closed_loop(facts);
                let is_met = scenarios.any(|of| is_server(of) && requirement.is_for(of));
                if is_met && !facts.loaded.is_some_and(is_without_lag) {
                    None
                } else {
                    unmet(
                        &format!("is not measured: {WHERE_CLIENTS_LAG}"),
                        "measure Server at a rate, or remove it",
                    )
                }
            }
            _ => None,
        }
    })
}

/// States where the lag of a client is measured. Elsewhere, queries have no due time or the client takes no time.
pub const WHERE_CLIENTS_LAG: &str = "a client lags in Server at a rate and in real time only";

const IN_OFFLINE: &str = "cannot be decided in Offline: all samples are due at the start, so their \
                          latencies grow with their number";

const TOKENS: &str = "bound the latency, or measure a system that streams tokens";

/// Needs a system whose specification does not name the model.
pub fn model(facts: &Facts<'_>) -> Option<UnmetNeed> {
    let named = match facts.system {
        "onnx" | "tract" => Some(onnx::parse(facts.argument).file).filter(|file| !file.is_empty()),
        _ => facts.argument.split(',').find_map(|part| part.strip_prefix("model=")),
    };
    named.map(|file| {
        UnmetNeed::new(
            format!("has no effect: the system names its model, {file}"),
            format!("use --system {} and --model FILE, or remove it", facts.system),
        )
    })
}

/// Needs samples that are not read from a file.
pub fn random_samples(facts: &Facts<'_>) -> Option<UnmetNeed> {
    (!facts.run.data.is_empty()).then(|| {
        UnmetNeed::new(
            "has no effect: --data gives the samples with their shapes",
            "remove one of the two",
        )
    })
}

/// Needs remote workers.
pub fn remote_workers(facts: &Facts<'_>) -> Option<UnmetNeed> {
    facts.run.remote_workers.is_none().then(|| {
        UnmetNeed::new(
            "has no effect: no worker joins",
            "state how many workers join with --remote-workers N, or remove it",
        )
    })
}

#[cfg(test)]
mod tests {
    use dyno_metrics::{Inputs, Method};

    use super::*;

    #[test]
    fn a_share_is_no_target_of_a_figure_in_points() {
        let judge = |metric: &str, unit: Unit| Judge {
            method: Method::named("bleu").unwrap(),
            inputs: Inputs::default(),
            metric: metric.into(),
            unit,
            targets: Vec::new(),
            networks: None,
        };
        let found = of_points(&judge("BLEU", Unit::Points)).map(|unmet| unmet.why);
        let expected = "has no effect: it is a share, and BLEU is a figure in points";
        assert_eq!(found.as_deref(), Some(expected));
        assert_eq!(of_points(&judge("acc", Unit::Percent)), None);
    }

    #[test]
    fn zero_is_a_target_of_figures_with_a_maximum_only() {
        let judge = |bound: Option<Bound>| Judge {
            method: Method::named("bleu").unwrap(),
            inputs: Inputs::default(),
            metric: "wer".into(),
            unit: Unit::Percent,
            targets: bound
                .into_iter()
                .map(|bound| Target { metric: "wer".into(), bound, scenario: None })
                .collect(),
            networks: None,
        };
        let expected = "has no effect: no accuracy is below 0";
        let why = |target, bound| of_zero(Some(target), Some(&judge(bound))).map(|unmet| unmet.why);
        assert_eq!(why(0.0, Some(Bound::AtLeast(0.9))).as_deref(), Some(expected));
        assert_eq!(why(0.0, None).as_deref(), Some(expected));
        assert_eq!(why(0.0, Some(Bound::AtMost(0.1))), None);
        assert_eq!(why(0.9, Some(Bound::AtLeast(0.9))), None);
        assert_eq!(of_zero(Some(0.0), None).map(|unmet| unmet.why).as_deref(), Some(expected));
    }
}
