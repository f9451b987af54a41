//! Load that a search raises, and its settings.

use std::str::FromStr;

use crate::summary::Plan;
use crate::units;
use dyno_loadgen::search::{Limit, Quantity, Unit};
use dyno_loadgen::settings::Scenario;

use serde::{Deserialize, Serialize};

/// Kind of load that a search raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Server: mean arrival rate
    Qps,
    /// Server: queries in flight
    Concurrency,
    /// MultiStream: samples per query
    Samples,
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|load| load.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected one of {names}, found `{text}`")
        })
    }
}

/// Setting with its value.
pub type SettingOverride = (&'static str, String);

/// Bound that no latency exceeds.
const NO_BOUND_NS: u64 = 24 * 3_600 * 1_000_000_000;

impl Load {
    /// All kinds of load, in the order of the help.
    pub const ALL: [Self; 3] = [Self::Qps, Self::Concurrency, Self::Samples];

    /// Returns a description for a list of loads.
    pub fn description(self) -> &'static str {
        match self {
            Self::Qps => "Server: mean arrival rate",
            Self::Concurrency => "Server: queries in flight",
            Self::Samples => "MultiStream: samples per query",
        }
    }

    /// Returns the name in flags and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qps => "qps",
            Self::Concurrency => "concurrency",
            Self::Samples => "samples",
        }
    }

    /// Returns the scenario of its runs.
    pub fn scenario(self) -> Scenario {
        match self {
            Self::Qps | Self::Concurrency => Scenario::Server,
            Self::Samples => Scenario::MultiStream,
        }
    }

    /// Returns whether the load is a rate or a whole number.
    pub fn unit(self) -> Unit {
        match self {
            Self::Qps => Unit::Rate,
            Self::Concurrency | Self::Samples => Unit::Whole,
        }
    }

    /// Returns the name of an axis of loads.
    pub fn axis(self) -> &'static str {
        match self {
            Self::Qps => "queries per second",
            Self::Concurrency => "queries in flight",
            Self::Samples => "samples per query",
        }
    }

    /// Returns a load with its unit.
    pub fn show(self, load: f64) -> String {
        let unit = match self {
            Self::Qps => "queries/s",
            Self::Concurrency => "in flight",
            Self::Samples if load == 1.0 => "sample a query",
            Self::Samples => "samples a query",
        };
        format!("{} {unit}", self.number(load))
    }

    /// Returns a load without its unit.
    pub fn number(self, load: f64) -> String {
        match self.unit() {
            Unit::Rate => units::rate(load),
            Unit::Whole => format!("{load:.0}"),
        }
    }

    /// Returns the setting that sets the load.
    pub fn setting(self, load: f64) -> SettingOverride {
        match self {
            Self::Qps => ("server_target_qps", load.to_string()),
            Self::Concurrency => ("server_arrivals", format!("concurrency:{load:.0}")),
            Self::Samples => ("multi_stream_samples_per_query", format!("{load:.0}")),
        }
    }

    /// Returns whether a test was planned with this load.
    pub fn is_planned(self, load: f64, plan: &Plan) -> bool {
        match self {
            Self::Qps => plan.target_qps == load,
            Self::Concurrency => plan.arrivals == Some(self.setting(load).1),
            Self::Samples => plan.samples_per_query.to_string() == self.setting(load).1,
        }
    }

    /// Returns the settings that express the limits: one percentile of the latency, or of the times
    /// of tokens where those are limited. The search itself judges limits that settings cannot
    /// express.
    pub fn bounds(self, limits: &[Limit]) -> Vec<SettingOverride> {
        let of = |quantity| {
            let of_it = limits.iter().filter(move |limit| limit.quantity == quantity);
            of_it.min_by(|a, b| a.allowed.total_cmp(&b.allowed))
        };
        let (latency, first) = (of(Quantity::Latency), of(Quantity::FirstToken));
        let per_token = of(Quantity::TimePerOutputToken);
        let has_tokens = first.is_some() || per_token.is_some();
        let Some(head) = first.or(per_token).or(latency) else { return Vec::new() };
        let percentile = (1.0 - head.allowed).to_string();
        if self == Self::Samples {
            return vec![("multi_stream_target_latency_percentile", percentile)];
        }
        let bound = |limit: Option<&Limit>| {
            let same = limit.filter(|limit| limit.allowed == head.allowed);
            same.map_or(NO_BOUND_NS, |limit| limit.bound).to_string()
        };
        let mut on_top = vec![("server_target_latency_percentile", percentile)];
        if has_tokens {
            on_top.push(("use_token_latencies", "true".into()));
            on_top.push(("server_ttft_latency", bound(first)));
            on_top.push(("server_tpot_latency", bound(per_token)));
        } else {
            on_top.push(("server_target_latency_ns", bound(latency)));
        }
        if let Some(lag) = of(Quantity::ClientLag) {
            on_top.push(("max_client_lag_ns", lag.bound.to_string()));
        }
        on_top
    }
}
