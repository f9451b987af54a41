//! Rules in words, for terminals and for the book.

use dyno_results::units::{self, count, duration};
use dyno_rules::{
    ArrivalPattern, Benchmark, Elements, Inference, Leeway, QualityTarget, Round, RuleScenario,
    ScenarioRules, Suite,
};

/// Returns a quality target such as `acc >= 75.6954 (99 % of 76.46)`.
pub fn quality(target: &QualityTarget) -> String {
    let bound = |bound: f64| shortest(bound);
    let bounds = match (target.at_least, target.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", bound(least), bound(most)),
        (Some(least), None) => format!(">= {}", bound(least)),
        (None, Some(most)) => format!("<= {}", bound(most)),
        (None, None) => String::new(),
    };
    let from = target.reference.map(|reference| {
        let shares = [reference.lowest, reference.highest].into_iter().flatten();
        let shares: Vec<String> = shares.map(percent).collect();
        format!(" ({} of {})", shares.join(" to "), shortest(reference.value))
    });
    let only = target.scenario.map(|scenario| format!(" in {}", scenario.name()));
    format!("{} {bounds}{}{}", target.metric, from.unwrap_or_default(), only.unwrap_or_default())
}

/// Formats a value with at most eight decimals, without floating-point noise.
fn shortest(value: f64) -> String {
    let text = format!("{value:.8}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn percent(share: f64) -> String {
    format!("{} %", shortest(share * 100.0))
}

/// Returns the scenarios that each suite of a benchmark requires.
pub fn suites(benchmark: &Benchmark) -> String {
    let names = |scenarios: &[RuleScenario]| {
        let names: Vec<&str> = scenarios.iter().map(|scenario| scenario.name()).collect();
        names.join(", ")
    };
    // The requirements of a system in both suites follow from those of each suite.
    let both = |suite: &Suite| *suite != Suite::Both || benchmark.suites.len() == 1;
    let suites = benchmark.suites.iter().filter(|(suite, _)| both(suite));
    let suites = suites.map(|(suite, wanted)| {
        let optional = if wanted.optional.is_empty() {
            String::new()
        } else {
            format!(" (optional {})", names(&wanted.optional))
        };
        format!("{}: {}{optional}", suite.name(), names(&wanted.required))
    });
    suites.collect::<Vec<_>>().join("; ")
}

/// Describes how a scenario is run and judged, for a benchmark with this percentile.
pub fn procedure(rules: &ScenarioRules, percentile: Option<f64>) -> String {
    let issued = match rules.arrivals {
        ArrivalPattern::AfterTheLast => "the next query when the previous one is complete",
        ArrivalPattern::FixedInterval => "a query at each fixed interval",
        ArrivalPattern::Poisson => "queries at random (Poisson)",
        ArrivalPattern::AtOnce => "all samples at once",
    };
    let mut parts = vec![issued.to_string()];
    parts.extend(percentile.map(units::percentile));
    match rules.samples_per_query {
        Some(1) => parts.push("1 sample per query".into()),
        Some(samples) => parts.push(format!("{samples} samples per query")),
        None => {}
    }
    if rules.min_duration_ms > 0 {
        parts.push(format!("at least {} s", rules.min_duration_ms / 1000));
    }
    if rules.runs > 1 {
        parts.push(format!("the lowest of {} runs", rules.runs));
    }
    if let Some(confirmation) = &rules.confirmation {
        let (runs, by) = (confirmation.runs, &confirmation.lower_by);
        parts.push(format!(
            "a load is confirmed by {runs} runs, and lowered by {by} after a failed run"
        ));
    }
    if rules.stops_early {
        parts.push("early stopping".into());
    }
    parts.join(", ")
}

/// Returns the latency bound of a scenario; empty if the scenario has no bound.
pub fn bound(round: &Round, benchmark: &Benchmark, scenario: RuleScenario) -> String {
    let ns = |ns: u64| duration(i64::try_from(ns).unwrap_or(i64::MAX));
    let at = round.percentile(benchmark, scenario).map(units::percentile).unwrap_or_default();
    if let Some(bounds) = benchmark.token_latency.get(&scenario) {
        let (ttft, tpot) = (ns(bounds.ttft), ns(bounds.tpot));
        return format!("{at} of the time to first token <= {ttft}, per output token <= {tpot}");
    }
    let of_table = match scenario {
        RuleScenario::Server => benchmark.loadgen.server_latency,
        _ => None,
    };
    match of_table.or_else(|| benchmark.latency.get(&scenario).copied()) {
        Some(bound) if scenario == RuleScenario::MultiStream => {
            let skipping = round.percentile(benchmark, scenario).map(|share| percent(1.0 - share));
            let skipping = skipping.unwrap_or_default();
            format!(
                "a query every {}, at most {skipping} of them with skipped intervals",
                ns(bound)
            )
        }
        Some(bound) => format!("{at} of latency <= {}", ns(bound)),
        None => String::new(),
    }
}

/// Returns the size of the performance set.
pub fn performance_set(benchmark: &Benchmark) -> String {
    let rows = &benchmark.loadgen;
    match rows.performance_samples.or(benchmark.performance_samples) {
        _ if rows.loads_all => "the whole data set".into(),
        Some(samples) => format!("at least {} samples", count(samples)),
        None => String::new(),
    }
}

/// Returns the parameters of inference.
pub fn inference(inference: &Inference) -> String {
    let mut parts = Vec::new();
    parts.extend(inference.beams.filter(|beams| *beams > 1).map(|beams| format!("{beams} beams")));
    parts.extend(inference.sampling.clone());
    let tokens = |tokens: u64| count(tokens);
    parts.extend(inference.max_input_tokens.map(|n| format!("inputs up to {} tokens", tokens(n))));
    match (inference.min_output_tokens, inference.max_output_tokens) {
        (Some(least), Some(most)) => {
            parts.push(format!("answers of {} to {} tokens", tokens(least), tokens(most)));
        }
        (None, Some(most)) => parts.push(format!("answers up to {} tokens", tokens(most))),
        _ => {}
    }
    parts.join(", ")
}

/// Returns the network bandwidth that a datacenter result needs per sample.
pub fn bandwidth(round: &Round, benchmark: &Benchmark) -> String {
    let has_rule = round.network.is_some();
    let Some(Elements { numerical, categorical, outputs }) =
        benchmark.elements.filter(|_| has_rule)
    else {
        return String::new();
    };
    let ingress = match (numerical, categorical) {
        (0, 0) => "some".to_string(),
        (numerical, 0) => format!("{} elements", count(numerical)),
        (numerical, categorical) => {
            format!(
                "{} numerical and {} categorical elements",
                count(numerical),
                count(categorical)
            )
        }
    };
    let egress = outputs.map_or("some".to_string(), |n| format!("{} elements", count(n)));
    format!("in {ingress}, out {egress}: per sample, times bytes per element and samples/s")
}

/// Returns how far a run may deviate from a setting.
pub fn leeway(leeway: Leeway) -> &'static str {
    match leeway {
        Leeway::None => "",
        Leeway::More => " or more",
        Leeway::Less => " or less",
    }
}
