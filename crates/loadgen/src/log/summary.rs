//! `mlperf_log_summary.txt`: the summary for readers.

use std::fmt::Write;

use super::Counts;
use super::report::{EarlyStoppingKind, Report};
use crate::clock::MILLISECOND;
use crate::metrics::{Distribution, PERCENTILES, Rates, TokenRates};
use crate::plan::Tokens;
use crate::printf::{fixed2, general};
use crate::run::TestLog;
use crate::verdict::EarlyStoppingResult;

const RULE: &str = "================================================";

/// Returns the text of the summary. A test without a reported run (accuracy only) has only the two
/// counts.
pub fn text(log: &TestLog, reports: &[Report], counts: Counts) -> String {
    let mut out = String::new();
    for report in reports {
        write_report(&mut out, log, report).expect("writing to a string does not fail");
    }
    out + &trailer(counts)
}

fn trailer(counts: Counts) -> String {
    let warnings = match counts.warnings {
        0 => "No warnings encountered during test.".into(),
        1 => "1 warning encountered. See detailed log.".into(),
        n => format!("{n} warnings encountered. See detailed log."),
    };
    let errors = match counts.errors {
        0 => "No errors encountered during test.".into(),
        1 => "1 ERROR encountered. See detailed log.".into(),
        n => format!("{n} ERRORS encountered. See detailed log."),
    };
    format!("\n{warnings}\n\n{errors}\n")
}

type WriteResult = std::fmt::Result;

fn write_report(out: &mut String, log: &TestLog, report: &Report) -> WriteResult {
    writeln!(out, "{RULE}\nMLPerf Results Summary\n{RULE}")?;
    // A line end in a name must not forge a line.
    writeln!(out, "SUT name : {}", log.sut_name.replace(char::is_control, " "))?;
    writeln!(out, "Scenario : {}", report.run.plan.scenario())?;
    writeln!(out, "Mode     : {}", log.plan.mode)?;
    write_headline(out, report)?;
    write_validity(out, report)?;
    writeln!(out, "\n{RULE}\nAdditional Stats\n{RULE}")?;
    write_rates(out, report)?;
    write_latencies(out, report)?;
    if report.run.plan.measures_tokens() {
        write_tokens(out, report)?;
    }
    writeln!(out, "\n{RULE}\nTest Parameters Used\n{RULE}")?;
    write_parameters(out, log, report)
}

fn write_headline(out: &mut String, report: &Report) -> WriteResult {
    let metrics = &report.metrics;
    let percent = 100.0 * report.run.plan.percentile();
    match metrics.rates {
        Rates::MultiStream if metrics.intervals.is_some() => {
            writeln!(out, "Samples per query : {}", report.run.plan.samples_per_query)?;
        }
        Rates::SingleStream { .. } | Rates::MultiStream => {
            let target = metrics.query_latency.unwrap_or(metrics.latency).target;
            writeln!(out, "{percent:.1}th percentile latency (ns) : {target}")?;
        }
        Rates::Server { completed, .. } => {
            writeln!(out, "Completed samples per second    : {}", fixed2(completed))?;
        }
        Rates::Offline { samples } => {
            writeln!(out, "Samples per second: {}", general(samples))?;
        }
    }
    match (metrics.token_rates, metrics.rates) {
        (None, _)
        | (Some(TokenRates::Inferred { .. }), Rates::SingleStream { .. } | Rates::MultiStream) => {
            Ok(())
        }
        (Some(TokenRates::Measured { completed, .. }), Rates::Server { .. }) => {
            writeln!(out, "Completed tokens per second: {}", fixed2(completed))
        }
        (Some(TokenRates::Measured { .. }), _) => {
            let target = metrics.first_token.unwrap_or_default().target;
            writeln!(out, "{percent:.1}th first token percentile latency (ns) : {target}")
        }
        (Some(TokenRates::MeasuredOffline { tokens }), _) => {
            writeln!(out, "Tokens per second: {}", general(tokens))
        }
        (Some(TokenRates::Inferred { tokens }), Rates::Server { .. }) => {
            writeln!(out, "Completed tokens per second (inferred): {}", fixed2(tokens))
        }
        (Some(TokenRates::Inferred { tokens }), Rates::Offline { .. }) => {
            writeln!(out, "Tokens per second (inferred): {}", general(tokens))
        }
    }
}

fn yes_no(met: bool) -> &'static str {
    if met { "Yes" } else { "NO" }
}

fn write_validity(out: &mut String, report: &Report) -> WriteResult {
    let judgement = &report.judgement;
    writeln!(out, "Result is : {}", if report.is_valid() { "VALID" } else { "INVALID" })?;
    if let Some(met) = judgement.performance_met {
        writeln!(out, "  Performance constraints satisfied : {}", yes_no(met))?;
    }
    writeln!(out, "  Min duration satisfied : {}", yes_no(judgement.min_duration_met))?;
    writeln!(out, "  Min queries satisfied : {}", yes_no(judgement.min_queries_met))?;
    // Releases without early stopping have no such line.
    let is_offline = matches!(report.metrics.rates, Rates::Offline { .. });
    let is_judged = is_offline || judgement.early_stopping != EarlyStoppingResult::None;
    if is_judged {
        writeln!(out, "  Early stopping satisfied: {}", yes_no(judgement.early_stopping_met))?;
    }
    if !report.is_valid() {
        writeln!(out, "Recommendations:")?;
        let advice = report.judgement.recommendations();
        for text in [&advice.performance, &advice.min_duration, &advice.min_queries] {
            if !text.is_empty() {
                writeln!(out, " * {text}")?;
            }
        }
        for text in report.own_advice() {
            writeln!(out, " * {text}")?;
        }
    }
    if is_offline || !is_judged {
        return Ok(());
    }
    for (kind, text) in report.early_stopping_texts() {
        let label = match kind {
            EarlyStoppingKind::Latency => "",
            EarlyStoppingKind::FirstToken => "TTFT ",
            EarlyStoppingKind::TimePerOutputToken => "TPOT ",
        };
        writeln!(out, "{label}Early Stopping Result:\n{text}")?;
    }
    Ok(())
}

fn write_rates(out: &mut String, report: &Report) -> WriteResult {
    match report.metrics.rates {
        Rates::SingleStream { with_overhead, without_overhead } => {
            writeln!(out, "QPS w/ loadgen overhead         : {}", fixed2(with_overhead))?;
            writeln!(out, "QPS w/o loadgen overhead        : {}\n", fixed2(without_overhead))
        }
        Rates::MultiStream if report.metrics.intervals.is_some() => write_intervals(out, report),
        // Two spaces end this line in the reference.
        Rates::MultiStream => writeln!(out, "Per-query latency:  "),
        Rates::Server { scheduled, .. } => {
            writeln!(out, "Scheduled samples per second : {}", fixed2(scheduled))
        }
        Rates::Offline { .. } => Ok(()),
    }
}

/// Writes the blocks of releases with a fixed interval, in their words.
fn write_intervals(out: &mut String, report: &Report) -> WriteResult {
    let plan = &report.run.plan;
    let (qps, ms) = (plan.target_qps, 1_000.0 / plan.target_qps);
    let (qps, ms) = (general(qps), general(ms));
    writeln!(out, "Intervals between each IssueQuery:  \"qps\" : {qps}, \"ms\" : {ms}")?;
    let found = report.metrics.intervals.unwrap_or_default();
    for (percentile, count) in PERCENTILES.iter().zip(found.percentiles) {
        writeln!(out, "{:.2} percentile : {count}", 100.0 * percentile)?;
    }
    let target = plan.target_latency();
    let target_ms = general(target as f64 / MILLISECOND as f64);
    writeln!(out, "\nPer-query latency:  \"target_ns\" : {target}, \"target_ms\" : {target_ms}")?;
    let latency = report.metrics.query_latency.unwrap_or_default();
    write_percentiles(out, &latency, "percentile latency (ns)   ")?;
    writeln!(out, "\nPer-sample latency:")
}

fn write_latencies(out: &mut String, report: &Report) -> WriteResult {
    let metrics = &report.metrics;
    let latency = match metrics.intervals {
        Some(_) => metrics.latency,
        None => metrics.query_latency.unwrap_or(metrics.latency),
    };
    writeln!(out, "Min latency (ns)                : {}", latency.min)?;
    writeln!(out, "Max latency (ns)                : {}", latency.max)?;
    writeln!(out, "Mean latency (ns)               : {}", latency.mean)?;
    write_percentiles(out, &latency, "percentile latency (ns)   ")
}

fn write_percentiles(out: &mut String, times: &Distribution, label: &str) -> WriteResult {
    for (percentile, value) in PERCENTILES.iter().zip(times.percentiles) {
        writeln!(out, "{:.2} {label}: {value}", 100.0 * percentile)?;
    }
    Ok(())
}

fn write_tokens(out: &mut String, report: &Report) -> WriteResult {
    let metrics = &report.metrics;
    writeln!(out)?;
    let Some(TokenRates::Measured { with_overhead, without_overhead, completed, .. }) =
        metrics.token_rates
    else {
        return Ok(());
    };
    match metrics.rates {
        Rates::SingleStream { .. } => {
            writeln!(out, "TPS w/ loadgen overhead         : {}", fixed2(with_overhead))?;
            writeln!(out, "TPS w/o loadgen overhead        : {}", fixed2(without_overhead))?;
        }
        Rates::Server { .. } => {
            writeln!(out, "Completed tokens per second                 : {}", fixed2(completed))?;
        }
        Rates::MultiStream | Rates::Offline { .. } => {}
    }
    let first = metrics.first_token.unwrap_or_default();
    writeln!(out, "Min First Token latency (ns)                : {}", first.min)?;
    writeln!(out, "Max First Token latency (ns)                : {}", first.max)?;
    writeln!(out, "Mean First Token latency (ns)               : {}", first.mean)?;
    write_percentiles(out, &first, "percentile first token latency (ns)   ")?;
    let each = metrics.time_per_output_token.unwrap_or_default();
    writeln!(out, "\nMin Time per Output Token (ns)                : {}", each.min)?;
    writeln!(out, "Max Time per Output Token (ns)                : {}", each.max)?;
    writeln!(out, "Mean Time per Output Token (ns)               : {}", each.mean)?;
    write_percentiles(out, &each, "percentile time to output token (ns)   ")
}

fn write_parameters(out: &mut String, log: &TestLog, report: &Report) -> WriteResult {
    let plan = &report.run.plan;
    let requested = &log.requested.values;
    writeln!(out, "samples_per_query : {}", plan.samples_per_query)?;
    writeln!(out, "target_qps : {}", general(plan.target_qps))?;
    match plan.tokens {
        Some(Tokens::Measured { ttft, tpot }) => {
            writeln!(out, "ttft_latency (ns): {ttft}\ntpot_latency (ns): {tpot}")?;
        }
        _ => writeln!(out, "target_latency (ns): {}", plan.target_latency())?,
    }
    writeln!(out, "max_async_queries : {}", plan.max_async_queries)?;
    writeln!(out, "min_duration (ms): {}", plan.min_duration / MILLISECOND)?;
    writeln!(out, "max_duration (ms): {}", plan.max_duration / MILLISECOND)?;
    let probability = general(requested.accuracy_log_probability);
    for (name, value) in [
        ("min_query_count", plan.min_query_count.to_string()),
        ("max_query_count", plan.max_query_count.to_string()),
        ("qsl_rng_seed", plan.seeds.qsl.to_string()),
        ("sample_index_rng_seed", plan.seeds.sample_index.to_string()),
        ("schedule_rng_seed", plan.seeds.schedule.to_string()),
        ("accuracy_log_rng_seed", plan.seeds.accuracy_log.to_string()),
        ("accuracy_log_probability", probability),
        ("accuracy_log_sampling_target", plan.accuracy_log.sampling_target.to_string()),
        ("print_timestamps", u8::from(plan.print_timestamps).to_string()),
        ("performance_issue_unique", u8::from(requested.performance_issue_unique).to_string()),
        ("performance_issue_same", u8::from(requested.performance_issue_same).to_string()),
        ("performance_issue_same_index", plan.performance_issue_same_index.to_string()),
        ("performance_sample_count", plan.performance_sample_count.to_string()),
        ("accuracy_sample_count", plan.accuracy_sample_count.to_string()),
    ] {
        writeln!(out, "{name} : {value}")?;
    }
    if plan.concatenate_permutation {
        // The first line ends in a space, as the reference's does.
        writeln!(
            out,
            "WARNING: sample_concatenate_permutation was set to true. \nGenerated samples per \
             query might be different as the one in the setting.\nCheck the \
             generated_samples_per_query line in the detailed log for the real\n\
             samples_per_query value"
        )?;
    }
    Ok(())
}
