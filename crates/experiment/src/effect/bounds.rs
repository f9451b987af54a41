//! Bounds of Server that no test judges, because the system streams or because it does not.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::settings::{Scenario, Settings, TestMode};
use dyno_results::summary::NO_BOUND;

use super::{Facts, Strictness, UnmetNeed, settings};
use crate::options::TenantTable;
use crate::system::{System, SystemKind};

/// Kinds of bounds of Server. A test judges one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundKind {
    Latency,
    Tokens,
}

impl BoundKind {
    /// Returns the kind of a setting; `None` if it is no bound.
    fn read(key: &str) -> Option<Self> {
        match key {
            "server_target_latency_ns" => Some(Self::Latency),
            "server_ttft_latency" | "server_tpot_latency" => Some(Self::Tokens),
            _ => None,
        }
    }

    /// Returns the kind that a test judges.
    fn judged(use_token_latencies: bool) -> Self {
        if use_token_latencies { Self::Tokens } else { Self::Latency }
    }
}

/// A bound that no test judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnjudgedBound {
    /// Setting as the user wrote it.
    pub name: String,
    unmet: UnmetNeed,
}

impl UnjudgedBound {
    /// Returns a sentence with the bound and the reason, and the reason with a remedy.
    pub fn problem(self) -> (String, UnmetNeed) {
        (format!("{} {}", self.name, self.unmet.why), self.unmet)
    }
}

/// Returns whether a test judges a setting, if it is a bound of Server.
pub fn is_judged(key: &str, use_token_latencies: bool) -> bool {
    BoundKind::read(key).is_none_or(|kind| kind == BoundKind::judged(use_token_latencies))
}

/// Returns the bounds that no test of the loaded system judges, each with the reason. Files, variables
/// and tenants count too: a run would pass although it exceeds the bound. A search judges its limits. A bound
/// that has the value it has anyway is accepted, because `effective.toml` may state all settings of a run.
/// A point of a sweep may judge another bound that is set: the sweep rejects bounds that no point judges. It
/// cannot know them for systems that take long to load, which it does not load before they run. Their points judge
/// all bounds.
pub fn unjudged(facts: &Facts<'_>, strictness: Strictness) -> Vec<UnjudgedBound> {
    let Some(system) = facts.loaded.filter(|_| !facts.options.judges_limits()) else {
        return Vec::new();
    };
    let of_run = facts.options.assigned().map(|set| (set, None::<&TenantTable>));
    let of_tenants = facts.options.tenants.iter().flat_map(|tenant| {
        let all = tenant.settings.iter();
        all.map(move |set| (set, Some(tenant)))
    });
    let (mut found, mut has_judged) = (Vec::new(), false);
    for (set, tenant) in of_run.chain(of_tenants) {
        let is_meant = set.scenario.is_none_or(|only| only == Scenario::Server);
        // No run exceeds such a bound.
        let is_none = set.value.parse::<Nanos>().is_ok_and(|bound| bound >= NO_BOUND);
        let kind = BoundKind::read(set.key).filter(|_| is_meant && !is_none);
        let Some(kind) = kind else { continue };
        let kinds = judged(facts, system, tenant);
        let is_judged = kinds.is_empty() || kinds.contains(&kind);
        has_judged |= is_judged;
        if is_judged || !is_changed(facts, system, set.key, tenant) {
            continue;
        }
        let (why, fix) = reason(facts, system, kind);
        let unmet = UnmetNeed::new(format!("has no effect: {why}"), fix);
        found.push(UnjudgedBound { name: settings::written(set), unmet });
    }
    let kind = SystemKind::named(facts.system);
    let is_loaded_by_sweep = kind.is_some_and(|kind| kind.check.is_none());
    if has_judged && strictness == Strictness::Point && is_loaded_by_sweep {
        return Vec::new();
    }
    found
}

/// Returns the kind of bounds that the performance test of Server judges for a tenant, or for each of
/// them; empty without such a test.
fn judged(facts: &Facts<'_>, system: &System, tenant: Option<&TenantTable>) -> Vec<BoundKind> {
    if !facts.measures() || !facts.scenarios.contains(&Scenario::Server) {
        return Vec::new();
    }
    let tenants: Vec<Option<&TenantTable>> = match (tenant, &facts.options.tenants[..]) {
        (None, all @ [_, ..]) => all.iter().map(Some).collect(),
        (one, _) => vec![one],
    };
    let kind = |tenant| {
        let mode = TestMode::PerformanceOnly;
        let mut settings = facts.options.settings(Scenario::Server, mode, tenant);
        system.complete(facts.run, &mut settings);
        BoundKind::judged(settings.values.use_token_latencies)
    };
    tenants.into_iter().map(kind).collect()
}

/// Returns whether files, variables or flags change the value of a setting of Server.
fn is_changed(facts: &Facts<'_>, system: &System, key: &str, tenant: Option<&TenantTable>) -> bool {
    let mode = TestMode::PerformanceOnly;
    let assigned = facts.options.settings(Scenario::Server, mode, tenant);
    let value = |mut settings: Settings| {
        system.complete(facts.run, &mut settings);
        let mut rows = settings.rows();
        rows.find(|(field, ..)| field.name == key).map(|(_, value, _)| value)
    };
    value(assigned) != value(facts.options.unassigned(Scenario::Server))
}

/// Returns why bounds of this kind are not judged, and a remedy.
fn reason(facts: &Facts<'_>, system: &System, kind: BoundKind) -> (String, &'static str) {
    match kind {
        BoundKind::Latency => (
            "answers come in parts, and bounds on them are server_ttft_latency and \
             server_tpot_latency"
                .into(),
            "use these, --require 'p99<=TIME', or stream=false",
        ),
        BoundKind::Tokens if system.reports_tokens() => (
            "use_token_latencies is false".into(),
            "add --set use_token_latencies=true, or remove it",
        ),
        BoundKind::Tokens => (
            format!("system `{}` reports no tokens", facts.system),
            "bound the latency with server_target_latency_ns, or remove it",
        ),
    }
}
