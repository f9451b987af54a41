//! Runs that follow a round: `--round` and `--benchmark`.
//!
//! The round overrides the profile and the built-in table. Explicit settings override the round,
//! because a submitter may raise minimums. Lowered values are reported wherever the run is shown.

use dyno_loadgen::config::built_in_models;
use dyno_loadgen::settings::{Origin, Scenario, Settings};
use dyno_rules::{Benchmark, Leeway, Round};

use super::keys::RunOptions;

/// The benchmark of a round that a run is for.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The round.
    pub round: &'static Round,
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// Whether Server uses the bounds of Interactive.
    pub is_interactive: bool,
}

impl Rules {
    /// Returns the round and benchmark that the options name.
    ///
    /// # Errors
    /// Sentences with the available names.
    pub fn read(run: &RunOptions) -> Result<Option<Self>, Vec<String>> {
        let (name, benchmark) = match (&run.round, &run.benchmark) {
            (None, None) if run.is_interactive => {
                return Err(vec![
                    "scenario Interactive is Server with the bounds of a round; select one with \
                     --round and --benchmark"
                        .into(),
                ]);
            }
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                let all = Round::names().join(", ");
                return Err(vec![format!("--benchmark needs a --round: {all}")]);
            }
            (Some(name), benchmark) => (name, benchmark),
        };
        // The reader of the options already reported an unknown round.
        let Ok(round) = Round::named(name) else { return Ok(None) };
        let known = || {
            let names: Vec<&str> = round.benchmarks.iter().map(|b| b.name.as_str()).collect();
            names.join(", ")
        };
        let Some(given) = benchmark else {
            return Err(vec![format!("--round needs a --benchmark: {}", known())]);
        };
        let Some(benchmark) = round.benchmark(given) else {
            let near = round.similar_benchmark(given);
            let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
            let (version, known) = (round.version, known());
            return Err(vec![format!(
                "round {version} has no benchmark `{given}`{near}; expected one of {known}"
            )]);
        };
        let rules = Self { round, benchmark, is_interactive: run.is_interactive };
        if rules.is_interactive
            && !benchmark.scenarios().contains(&dyno_rules::RuleScenario::Interactive)
        {
            let (version, name) = (round.version, &benchmark.name);
            return Err(vec![format!("{name} of round {version} has no scenario Interactive")]);
        }
        Ok(Some(rules))
    }

    /// Returns a remark on the origin of the settings.
    pub fn remark(&self) -> String {
        let (version, name) = (self.round.version, &self.benchmark.name);
        let bounds =
            if self.is_interactive { ", Server with the bounds of Interactive" } else { "" };
        format!("Settings are those of round {version} for {name}{bounds}.")
    }

    /// Returns the scenario of the rules for a played scenario.
    pub fn scenario(&self, played: Scenario) -> dyno_rules::RuleScenario {
        match played {
            Scenario::SingleStream => dyno_rules::RuleScenario::SingleStream,
            Scenario::MultiStream => dyno_rules::RuleScenario::MultiStream,
            Scenario::Server if self.is_interactive => dyno_rules::RuleScenario::Interactive,
            Scenario::Server => dyno_rules::RuleScenario::Server,
            Scenario::Offline => dyno_rules::RuleScenario::Offline,
        }
    }

    /// Returns the scenarios of the benchmark, without Interactive, which must be requested by
    /// name.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let has = self.benchmark.scenarios();
        let mut all = Scenario::ALL.iter().copied();
        let plain = Self { is_interactive: false, ..*self };
        all.by_ref().filter(|played| has.contains(&plain.scenario(*played))).collect()
    }

    /// Returns the model's name in the built-in table and in `user.conf`.
    pub fn model(&self) -> Option<String> {
        let model = self.benchmark.loadgen.model.as_ref()?;
        let interactive = format!("{model}-interactive");
        let has_rows = self.is_interactive && built_in_models().any(|name| name == interactive);
        Some(if has_rows { interactive } else { model.clone() })
    }

    /// Applies the settings of the round.
    pub fn apply(&self, settings: &mut Settings, played: Scenario) {
        self.round.apply(settings, self.benchmark, self.scenario(played));
    }

    /// Returns a sentence for each setting with a value that the round does not allow.
    pub fn broken(&self, settings: &Settings) -> Vec<String> {
        let said = settings.rows().filter(|(_, _, origin)| !matches!(origin, Origin::Rules(_)));
        let departures = said.filter_map(|(field, value, origin)| {
            self.departure(settings.values.scenario, field.name, &value, origin)
        });
        let version = self.round.version;
        departures.map(|departure| format!("Departs from round {version}: {departure}.")).collect()
    }

    /// Returns a sentence for each change by an audit to a value that the round does not allow. The
    /// change may be part of the audit.
    pub fn audited(&self, settings: &Settings, before: &Settings) -> Vec<String> {
        let departures = settings.changes_since(before).into_iter().filter_map(|change| {
            self.departure(settings.values.scenario, change.key, &change.to, &change.origin)
        });
        let version = self.round.version;
        let told = departures.map(|departure| {
            format!("Set by an audit, unlike other runs of round {version}: {departure}.")
        });
        told.collect()
    }

    /// Returns a sentence with a setting that the round does not allow, and its origin.
    fn departure(
        &self,
        played: Scenario,
        key: &str,
        value: &str,
        origin: &Origin,
    ) -> Option<String> {
        let all = self.round.settings(self.benchmark, self.scenario(played));
        let rule = all.iter().find(|rule| rule.key == key && rule.is_broken_by(value))?;
        let more = match rule.leeway {
            Leeway::None => "",
            Leeway::More => " or more",
            Leeway::Less => " or less",
        };
        let fixed = &rule.value;
        Some(format!("{origin} sets {key} to {value}, but the round requires {fixed}{more}"))
    }

    /// Returns whether the number of streams is a result that the submitter has to find.
    pub fn leaves_streams(&self, played: Scenario) -> bool {
        let rules = self.round.scenarios.get(&self.scenario(played));
        played == Scenario::MultiStream
            && rules
                .is_some_and(|rules| rules.arrivals == dyno_rules::ArrivalPattern::FixedInterval)
    }

    /// Returns remarks on the round for readers of a run in this scenario.
    pub fn remarks(&self, played: Scenario) -> Vec<String> {
        let scenario = self.scenario(played);
        let mut remarks = Vec::new();
        if !self.benchmark.scenarios().contains(&scenario) {
            let (version, name) = (self.round.version, scenario.name());
            remarks.push(format!(
                "Round {version} has no {name} for {}, so it defines no bound.",
                self.benchmark.name
            ));
        }
        remarks
    }
}
