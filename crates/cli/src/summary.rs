//! `summary.json`: a run for programs. `docs/reference/summary-json.md` describes the schema;
//! a test compares it with what is written here.

use dyno_loadgen::metrics::{Distribution, PERCENTILES, Rates, TokenRates};
use dyno_loadgen::session::Ended;
use dyno_loadgen::settings::Origin;
use serde_json::{Map, Value, json};

use crate::environment;
use crate::measure::mode_name;
use crate::outcome::{Outcome, Performance, State};
use crate::render;

/// Version of the schema: raised when a key changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Said wherever results are shown.
pub const DISCLAIMER: &str = "not an official MLPerf result";

/// A whole run.
#[derive(Debug)]
pub struct Run {
    /// Name of the run.
    pub name: String,
    /// As it was named on the command line.
    pub system: String,
    /// Whether it was played in virtual time.
    pub is_virtual: bool,
    /// Name of the profile.
    pub profile: &'static str,
    /// When it began, for people; empty in virtual time.
    pub started_at: String,
    /// How it ended.
    pub state: State,
    /// In the order in which they were run.
    pub outcomes: Vec<Outcome>,
    /// What readers must know of the run as a whole.
    pub remarks: Vec<String>,
}

impl Run {
    /// Whether every test counts.
    pub fn is_valid(&self) -> bool {
        self.state == State::Complete && self.outcomes.iter().all(Outcome::is_valid)
    }

    /// In words.
    pub fn verdict(&self) -> &'static str {
        match self.state {
            State::Complete if self.is_valid() => "VALID",
            State::Complete => "INVALID",
            State::Interrupted => "INTERRUPTED",
            State::Aborted => "ABORTED",
        }
    }

    /// The summary.
    pub fn to_json(&self) -> Value {
        json!({
            "schema": "dyno.summary",
            "schema_version": SCHEMA_VERSION,
            "state": self.state.name(),
            "verdict": self.verdict(),
            "official": false,
            "disclaimer": DISCLAIMER,
            "name": self.name,
            "system": self.system,
            "time": if self.is_virtual { "virtual" } else { "real" },
            "profile": self.profile,
            "started_at": self.started_at,
            "remarks": self.remarks,
            "tests": self.outcomes.iter().map(test).collect::<Vec<_>>(),
            "environment": environment::describe(),
        })
    }
}

fn test(outcome: &Outcome) -> Value {
    let result = outcome.performance.as_ref().map(|performance| {
        let headline = performance.headline(&outcome.plan);
        json!({
            "name": headline.name,
            "value": finite(headline.value),
            "unit": headline.unit,
        })
    });
    json!({
        "scenario": outcome.scenario.name(),
        "mode": mode_name(outcome.mode),
        "tenant": outcome.tenant,
        "folder": outcome.folder,
        "state": outcome.state.name(),
        "verdict": outcome.verdict(),
        "reasons": outcome.reasons,
        "notes": outcome.notes,
        "result": result,
        "accuracy": accuracy(outcome),
        "metrics": outcome.performance.as_ref().map(metrics),
        "settings": settings(outcome),
    })
}

fn accuracy(outcome: &Outcome) -> Value {
    let Some(accuracy) = &outcome.accuracy else { return Value::Null };
    json!({
        "metric": accuracy.score.map(|_| "top-1"),
        "value": accuracy.score.map(|score| score.accuracy()),
        "target": accuracy.target,
        "correct": accuracy.score.map(|score| score.correct),
        "scored": accuracy.score.map(|score| score.total),
        "malformed": accuracy.score.map(|score| score.malformed),
        "answered": accuracy.answered,
    })
}

fn metrics(performance: &Performance) -> Value {
    let m = &performance.metrics;
    json!({
        "query_count": m.query_count,
        "sample_count": m.sample_count,
        "failed": {
            "rejected": m.failed.rejected,
            "timed_out": m.failed.timed_out,
            "disconnected": m.failed.disconnected,
            "internal": m.failed.internal,
        },
        "missing": m.missing,
        "over_bound": {
            "latency": m.over.latency,
            "first_token": m.over.first_token,
            "time_per_output_token": m.over.time_per_output_token,
        },
        "ended": ended(performance.ended),
        "lasted_ns": performance.lasted,
        "latency_ns": distribution(&m.latency),
        "query_latency_ns": m.query_latency.as_ref().map(distribution),
        "first_token_ns": m.first_token.as_ref().map(distribution),
        "time_per_output_token_ns": m.time_per_output_token.as_ref().map(distribution),
        "token_count": m.token_count,
        "rates": rates(m.rates),
        "token_rates": m.token_rates.map(token_rates),
        "lag_ns": m.lag.as_ref().map(distribution),
        "client_lag_ns": m.client_lag.as_ref().map(distribution),
        "conditions": {
            "performance_met": performance.judgement.performance_met,
            "min_duration_met": performance.judgement.min_duration_met,
            "min_queries_met": performance.judgement.min_queries_met,
            "early_stopping_met": performance.judgement.early_stopping_met,
            "client_lag_met": performance.judgement.client_lag_met,
        },
    })
}

fn distribution(d: &Distribution) -> Value {
    let mut value = Map::new();
    value.insert("count".into(), d.count.into());
    value.insert("min".into(), d.min.into());
    value.insert("mean".into(), d.mean.into());
    for (q, latency) in PERCENTILES.iter().zip(d.percentiles) {
        value.insert(render::percentile(*q), latency.into());
    }
    value.insert("max".into(), d.max.into());
    value.insert("target".into(), d.target.into());
    value.into()
}

fn rates(rates: Rates) -> Value {
    match rates {
        Rates::SingleStream { with_overhead, without_overhead } => json!({
            "queries_per_s_with_overhead": finite(with_overhead),
            "queries_per_s_without_overhead": finite(without_overhead),
        }),
        Rates::MultiStream => json!({}),
        Rates::Server { scheduled, completed } => json!({
            "scheduled_samples_per_s": finite(scheduled),
            "completed_samples_per_s": finite(completed),
        }),
        Rates::Offline { samples } => json!({ "samples_per_s": finite(samples) }),
    }
}

fn token_rates(rates: TokenRates) -> Value {
    match rates {
        TokenRates::Measured { with_overhead, without_overhead, completed, .. } => json!({
            "tokens_per_s_with_overhead": finite(with_overhead),
            "tokens_per_s_without_overhead": finite(without_overhead),
            "completed_tokens_per_s": finite(completed),
        }),
        TokenRates::MeasuredOffline { tokens } | TokenRates::Inferred { tokens } => {
            json!({ "tokens_per_s": finite(tokens) })
        }
    }
}

/// JSON has no nan and no inf, which rates of a single query are.
fn finite(value: f64) -> Value {
    if value.is_finite() { value.into() } else { Value::Null }
}

fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::TraceIssued => "trace issued",
        Ended::Naturally => "minimum reached",
        Ended::RanOut => "ran out of generated queries",
        Ended::MaxQueryCount { .. } => "maximum of queries",
        Ended::MaxDuration { .. } => "maximum duration",
        Ended::TooManyOutstanding { .. } => "too many outstanding",
        Ended::Deadline { .. } => "deadline",
        Ended::Aborted => "aborted",
    }
}

/// Every setting with its origin, except defaults.
fn settings(outcome: &Outcome) -> Value {
    let mut settings = Map::new();
    for (field, value, origin) in outcome.settings.rows() {
        if *origin != Origin::Default {
            let value = json!({ "value": value, "unit": field.unit, "origin": origin.to_string() });
            settings.insert(field.name.into(), value);
        }
    }
    settings.into()
}
