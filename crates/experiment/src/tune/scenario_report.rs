//! What the formats of a tuned network do to all networks of its scenario, next to simpler choices of formats.

use dyno_number::tune::{MarginVerdict, Subset, TuneAnswer, TuneOutcome};
use dyno_number::{Network, Objective, layer_bits};
use serde::Serialize;

use super::compare::interval;
use super::frontier::is_count;
use super::scenario::{Scenario, ScenarioFigures, ScenarioGoal};

/// Figures of configurations in a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScenarioReport {
    /// Networks on the NPU; the first one is tuned.
    pub networks: Vec<String>,
    /// Name of the NPU.
    pub npu: String,
    /// Mapping of layers to its PEs.
    pub mapping: String,
    /// Scheduler.
    pub scheduler: String,
    /// Configurations of the tuned network; the last one is the answer.
    pub rows: Vec<ScenarioRow>,
    /// Comparison of the answer with that of the objective `bits`, in a sentence.
    pub sentence: String,
}

/// A configuration of the tuned network.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScenarioRow {
    /// `FLOAT 32`, `as in the table`, `objective bits`, or the objective of the scenario.
    pub configuration: String,
    /// Formats of weights and activations, layer by layer; null if they are not tuned.
    pub formats: Option<String>,
    /// Bits of weights and activations; null if they are not known.
    pub bits: Option<f64>,
    /// System throughput. Rates are relative to those alone in the bits of the networks' tables.
    pub stp: f64,
    /// Rate of each network.
    pub rates: Vec<f64>,
    /// Share of the time in which the PEs compute.
    pub pe_busy: f64,
    /// Share of the time in which the memory fetches.
    pub memory_busy: f64,
    /// Share of late requests of each network; empty without requests.
    pub late: Vec<f64>,
    /// 99th percentile of the latencies of each network, divided by its limit; empty without requests.
    pub p99: Vec<f64>,
    /// Metric on the samples of the search; null if it was not measured.
    pub accuracy: Option<f64>,
    /// Interval that contains the accuracy with 95 % confidence (Wilson); null if it is no share of the samples.
    pub interval: Option<[f64; 2]>,
    /// Verdict about the margin on held-out samples; null if it was not confirmed.
    pub verdict: Option<&'static str>,
}

impl ScenarioReport {
    /// Returns the report of a search for `network` in the scenario. `bits` is the search of the objective `bits`, if
    /// it came to its end.
    pub fn new(
        network: &Network,
        scenario: &Scenario,
        outcome: &TuneOutcome,
        bits: Option<&TuneOutcome>,
    ) -> Self {
        let plan = scenario.mix().plan();
        let base = network.base();
        let baseline = Subset::ALL[..2].iter().rev().find_map(|set| {
            let accuracy = outcome.baselines[*set as usize]?.accuracy;
            let objective = network.objective.value(network, &base, None);
            Some(TuneAnswer { assignment: base.clone(), objective, accuracy, subset: *set })
        });
        let report = Reporter { network, scenario };
        let mut rows = Vec::new();
        rows.extend(baseline.map(|answer| report.row("FLOAT 32", &answer, outcome, false)));
        rows.push(ScenarioRow::new("as in the table", scenario.untuned()));
        let of_bits = bits.and_then(|bits| Some((bits.answer.as_ref()?, bits)));
        rows.extend(of_bits.map(|(answer, bits)| report.row("objective bits", answer, bits, true)));
        let name = format!("objective {}", network.objective);
        rows.extend(outcome.answer.as_ref().map(|answer| report.row(&name, answer, outcome, true)));
        Self {
            networks: scenario.mix().names().to_vec(),
            npu: plan.npu.name().to_owned(),
            mapping: plan.mapping.to_string(),
            scheduler: plan.scheduler.to_string(),
            sentence: report.sentence(outcome, of_bits),
            rows,
        }
    }
}

struct Reporter<'a> {
    network: &'a Network,
    scenario: &'a Scenario,
}

impl Reporter<'_> {
    fn row(
        &self,
        name: &str,
        answer: &TuneAnswer,
        outcome: &TuneOutcome,
        is_tuned: bool,
    ) -> ScenarioRow {
        let network = self.network;
        let figures = self.scenario.figures(&layer_bits(network, &answer.assignment));
        let samples = outcome.samples[answer.subset as usize];
        let accuracy = answer.accuracy;
        let interval = samples.filter(|_| is_count(accuracy, samples));
        let confirmation = outcome.confirmation.as_ref().filter(|_| is_tuned);
        ScenarioRow {
            formats: is_tuned.then(|| answer.assignment.to_string()),
            bits: Some(Objective::Bits.value(network, &answer.assignment, None)),
            accuracy: Some(accuracy),
            interval: interval.map(|samples| interval_of(accuracy, samples)),
            verdict: confirmation.map(|found| found.verdict.word()),
            ..ScenarioRow::new(name, figures)
        }
    }

    /// Compares the answer with that of the objective `bits`, and states which of them may lose more than the margin.
    fn sentence(&self, outcome: &TuneOutcome, bits: Option<(&TuneAnswer, &TuneOutcome)>) -> String {
        let own = (self.network.objective.to_string(), outcome);
        let of_bits = bits.map(|(_, found)| (Objective::Bits.to_string(), found));
        let doubts = [Some(own), of_bits].into_iter().flatten().filter_map(|(name, found)| {
            let verdict = found.confirmation.as_ref()?.verdict;
            let is_open = verdict != MarginVerdict::Valid;
            is_open.then(|| format!("; the margin of the objective {name} is {}", verdict.word()))
        });
        let comparison = self.comparison(outcome, bits.map(|(answer, _)| answer));
        std::iter::once(comparison).chain(doubts).collect()
    }

    fn comparison(&self, outcome: &TuneOutcome, bits: Option<&TuneAnswer>) -> String {
        let Some(answer) = &outcome.answer else { return "there is no answer".into() };
        let value = |answer: &TuneAnswer| {
            self.network.objective.value(self.network, &answer.assignment, None)
        };
        let text = |answer| self.network.objective.text(value(answer)).unwrap_or_default();
        let Some(bits) = bits else {
            return format!("{}; the objective bits was not searched to its end", text(answer));
        };
        if text(answer) == text(bits) {
            return format!("the objective bits reaches the same: {}", text(bits));
        }
        let change = change(self.scenario.goal(), [value(bits), value(answer)]);
        format!("{} is {change} than {} of the objective bits", text(answer), text(bits))
    }
}

/// Returns the change of a figure from the first to the second value of the objective, such as
/// `20.0 % lower`. The figure of the goal `Throughput` is the inverse of the value.
fn change(goal: ScenarioGoal, values: [f64; 2]) -> String {
    let [before, after] = match goal {
        ScenarioGoal::Throughput => values.map(f64::recip),
        ScenarioGoal::Latency => values,
    };
    let change = after / before - 1.0;
    let direction = if change > 0.0 { "higher" } else { "lower" };
    format!("{:.1} % {direction}", 100.0 * change.abs())
}

fn interval_of(accuracy: f64, samples: u64) -> [f64; 2] {
    interval(accuracy, usize::try_from(samples).unwrap_or(usize::MAX))
}

impl ScenarioRow {
    fn new(name: &str, figures: ScenarioFigures) -> Self {
        let ScenarioFigures { throughput, service } = figures;
        let [pe_busy, memory_busy] = throughput.busy;
        Self {
            configuration: name.to_owned(),
            formats: None,
            bits: None,
            stp: throughput.stp,
            rates: throughput.rates,
            pe_busy,
            memory_busy,
            late: service.iter().map(|service| service.late).collect(),
            p99: service.iter().map(|service| service.p99).collect(),
            accuracy: None,
            interval: None,
            verdict: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_share_of_the_objective_bits() {
        // STP 1.25 and 1.
        assert_eq!(change(ScenarioGoal::Throughput, [0.8, 1.0]), "20.0 % lower");
        assert_eq!(change(ScenarioGoal::Throughput, [1.0, 0.8]), "25.0 % higher");
        // p99 of 40 and 50 % of the limit.
        assert_eq!(change(ScenarioGoal::Latency, [0.4, 0.5]), "25.0 % higher");
        assert_eq!(change(ScenarioGoal::Latency, [0.5, 0.4]), "20.0 % lower");
    }
}
