//! `mlperf_log_detail.txt`: every setting, event and result, one JSON object per line.

use std::io::{self, Write};

use super::Counts;
use super::format::{iso_datetime, power_datetime};
use super::lines::Lines;
use super::report::{EarlyStoppingKind, Report};
use crate::clock::{MILLISECOND, WallTime};
use crate::message::{Message, NOTE, Severity};
use crate::metrics::{Distribution, Intervals, PERCENTILES, Rates, TokenRates};
use crate::plan::Load;
use crate::qsl::SampleIndex;
use crate::run::{Event, RunLog, Span, TestLog};
use crate::session::EndReason;
use crate::settings::{Arrivals, FIELDS, Origin, Repetition, Scenario};

/// Writes the log and returns how many errors and warnings it has.
///
/// # Errors
/// The file could not be written.
pub fn write(log: &TestLog, reports: &[Report], file: &mut dyn Write) -> io::Result<Counts> {
    let mut lines = Lines::new(file, log.process);
    // Messages of the resolution precede the settings, as in the reference, together with Dyno's
    // notes; messages from before the test precede everything.
    let is_notice = |event: &&Event| {
        matches!(event, Event::Message(Message { severity, key, .. })
            if *severity != Severity::Info || *key == NOTE)
    };
    let is_earlier = |event: &&Event| matches!(event, Event::Message(message) if matches!(message.key, "error_invalid_config" | "error_runtime"));
    let earlier = log.events.iter().take_while(is_earlier).count();
    let notices = log.events.iter().take_while(is_notice).count();
    write_messages(&mut lines, &log.events[..earlier])?;
    write_header(&mut lines, log)?;
    write_messages(&mut lines, &log.events[earlier..notices])?;
    write_requested(&mut lines, log)?;
    write_effective(&mut lines, log)?;
    write_own_settings(&mut lines, log)?;
    let mut reports = reports.iter();
    // A result ends with the number of errors; the last result includes this error.
    let is_result = |event: &Event| matches!(event, Event::Result { .. });
    let last = log.events.iter().rposition(is_result).unwrap_or(log.events.len()).max(notices);
    write_events(&mut lines, &log.events[notices..last], &mut reports)?;
    if !log.complete {
        lines.errors("The test ended before it was complete; its logs are not a result.", 1)?;
    }
    write_events(&mut lines, &log.events[last..], &mut reports)?;
    lines.finish()
}

fn write_messages(lines: &mut Lines, events: &[Event]) -> io::Result<()> {
    for event in events {
        if let Event::Message(message) = event {
            lines.message(message)?;
        }
    }
    Ok(())
}

fn write_header(lines: &mut Lines, log: &TestLog) -> io::Result<()> {
    // The reference's version comes first: parsers read it as the rules' version.
    let version = concat!("6.0.17 (dyno ", env!("CARGO_PKG_VERSION"), ")");
    lines.line("loadgen_version", version)?;
    for key in [
        "loadgen_build_date_local",
        "loadgen_build_date_utc",
        "loadgen_git_commit_date",
        "loadgen_git_log_message",
        "loadgen_git_status_message",
    ] {
        lines.line(key, "NA")?;
    }
    lines.line("loadgen_file_sha1", super::fingerprint())?;
    lines.line("test_datetime", iso_datetime(log.origin_wall).as_str())?;
    lines.line("sut_name", log.sut_name.as_str())?;
    lines.line("get_sut_name_duration_ns", log.sut_name_duration)?;
    lines.line("qsl_name", log.qsl_name.as_str())?;
    lines.line("qsl_reported_total_count", log.qsl_total)?;
    lines.line("qsl_reported_performance_count", log.qsl_performance)
}

fn write_requested(lines: &mut Lines, log: &TestLog) -> io::Result<()> {
    let s = &log.requested.values;
    lines.line("requested_scenario", s.scenario.name())?;
    lines.line("requested_test_mode", s.mode.name())?;
    match s.scenario {
        Scenario::SingleStream => {
            let expected = s.single_stream_expected_latency_ns;
            let percentile = s.single_stream_target_latency_percentile;
            lines.line("requested_single_stream_expected_latency_ns", expected)?;
            lines.line("requested_single_stream_target_latency_percentile", percentile)?;
        }
        Scenario::MultiStream => {
            if s.multi_stream_target_qps != 0.0 {
                lines.line("requested_multi_stream_target_qps", s.multi_stream_target_qps)?;
            }
            let expected = s.multi_stream_expected_latency_ns;
            let percentile = s.multi_stream_target_latency_percentile;
            lines.line("requested_multi_stream_expected_latency_ns", expected)?;
            lines.line("requested_multi_stream_target_latency_percentile", percentile)?;
            let samples = s.multi_stream_samples_per_query;
            lines.line("requested_multi_stream_samples_per_query", samples)?;
        }
        Scenario::Server => {
            lines.line("requested_server_target_qps", s.server_target_qps)?;
            lines.line("requested_server_target_latency_ns", s.server_target_latency_ns)?;
            let percentile = s.server_target_latency_percentile;
            lines.line("requested_server_target_latency_percentile", percentile)?;
            lines.line("requested_server_coalesce_queries", s.server_coalesce_queries)?;
            let decimals = s.server_find_peak_qps_decimals_of_precision;
            lines.line("requested_server_find_peak_qps_decimals_of_precision", decimals)?;
            let step = s.server_find_peak_qps_boundary_step_size;
            lines.line("requested_server_find_peak_qps_boundary_step_size", step)?;
            lines.line("requested_server_max_async_queries", s.server_max_async_queries)?;
            let threads = s.server_num_issue_query_threads;
            lines.line("requested_server_num_issue_query_threads", threads)?;
        }
        Scenario::Offline => {
            lines.line("requested_offline_expected_qps", s.offline_expected_qps)?;
        }
    }
    lines.line("requested_min_duration_ms", s.min_duration_ms)?;
    lines.line("requested_max_duration_ms", s.max_duration_ms)?;
    lines.line("requested_min_query_count", s.min_query_count)?;
    lines.line("requested_max_query_count", s.max_query_count)?;
    lines.line("requested_qsl_rng_seed", s.qsl_rng_seed)?;
    lines.line("requested_sample_index_rng_seed", s.sample_index_rng_seed)?;
    lines.line("requested_schedule_rng_seed", s.schedule_rng_seed)?;
    lines.line("requested_accuracy_log_rng_seed", s.accuracy_log_rng_seed)?;
    lines.line("requested_accuracy_log_probability", s.accuracy_log_probability)?;
    lines.line("requested_accuracy_log_sampling_target", s.accuracy_log_sampling_target)?;
    lines.line("requested_print_timestamps", s.print_timestamps)?;
    lines.line("requested_performance_issue_unique", s.performance_issue_unique)?;
    lines.line("requested_performance_issue_same", s.performance_issue_same)?;
    lines.line("requested_performance_issue_same_index", s.performance_issue_same_index)?;
    let samples = s.performance_sample_count_override;
    lines.line("requested_performance_sample_count_override", samples)?;
    lines.line("requested_accuracy_sample_count_override", s.accuracy_sample_count_override)?;
    lines.line("requested_sample_concatenate_permutation", s.sample_concatenate_permutation)?;
    if s.use_token_latencies {
        lines.line("requested_use_token_latencies", true)?;
        if s.scenario != Scenario::Offline {
            lines.line("requested_server_ttft_latency", s.server_ttft_latency)?;
            lines.line("requested_server_tpot_latency", s.server_tpot_latency)?;
        }
    }
    Ok(())
}

fn write_effective(lines: &mut Lines, log: &TestLog) -> io::Result<()> {
    let (plan, s) = (&log.plan, &log.requested.values);
    lines.line("effective_scenario", plan.scenario().name())?;
    lines.line("effective_test_mode", plan.mode.name())?;
    lines.line("effective_samples_per_query", plan.samples_per_query)?;
    lines.line("effective_target_qps", plan.target_qps)?;
    lines.line("effective_target_latency_ns", plan.target_latency())?;
    lines.line("effective_target_latency_percentile", plan.percentile())?;
    lines.line("effective_max_async_queries", plan.max_async_queries)?;
    lines.line("effective_target_duration_ms", plan.target_duration / MILLISECOND)?;
    lines.line("effective_min_duration_ms", plan.min_duration / MILLISECOND)?;
    lines.line("effective_max_duration_ms", plan.max_duration / MILLISECOND)?;
    lines.line("effective_min_query_count", plan.min_query_count)?;
    lines.line("effective_max_query_count", plan.max_query_count)?;
    lines.line("effective_min_sample_count", plan.min_sample_count)?;
    lines.line("effective_qsl_rng_seed", plan.seeds.qsl)?;
    lines.line("effective_sample_index_rng_seed", plan.seeds.sample_index)?;
    lines.line("effective_schedule_rng_seed", plan.seeds.schedule)?;
    lines.line("effective_accuracy_log_rng_seed", plan.seeds.accuracy_log)?;
    // The requested value: a share above 1 logs every response, like 1.
    lines.line("effective_accuracy_log_probability", s.accuracy_log_probability)?;
    lines.line("effective_accuracy_log_sampling_target", plan.accuracy_log.sampling_target)?;
    lines.line("effective_print_timestamps", plan.print_timestamps)?;
    // The requested values, even if both are set and only one is effective.
    lines.line("effective_performance_issue_unique", s.performance_issue_unique)?;
    lines.line("effective_performance_issue_same", s.performance_issue_same)?;
    let same_index = plan.performance_issue_same_index;
    lines.line("effective_performance_issue_same_index", same_index)?;
    lines.line("effective_performance_sample_count", plan.performance_sample_count)?;
    lines.line("effective_accuracy_sample_count", plan.accuracy_sample_count)?;
    lines.line("effective_sample_concatenate_permutation", plan.concatenate_permutation)
}

/// Writes what only Dyno has: its own settings that differ from their defaults, and the origins of
/// set values.
fn write_own_settings(lines: &mut Lines, log: &TestLog) -> io::Result<()> {
    let combined = super::combined_fingerprint();
    lines.line("dyno_fingerprint", combined.as_str())?;
    let default = crate::settings::TestSettings::default();
    let last_of_reference = FIELDS.iter().position(|f| f.name == "token_latency_scaling_factor");
    let own = last_of_reference.expect("the reference's settings come first") + 1;
    for field in &FIELDS[own..] {
        let value = match (&log.requested.values.server_arrivals, field.name) {
            (Arrivals::Replay(times), "server_arrivals") => format!("replay of {}", times.len()),
            _ => (field.get)(&log.requested.values),
        };
        if value != (field.get)(&default) {
            lines.line(&format!("dyno_{}", field.name), value.as_str())?;
        }
    }
    for (field, _, origin) in log.requested.rows() {
        if !matches!(origin, Origin::Default | Origin::Code("caller")) {
            lines.line(&format!("dyno_origin_{}", field.name), origin.to_string().as_str())?;
        }
    }
    Ok(())
}

fn write_events(
    lines: &mut Lines,
    events: &[Event],
    reports: &mut std::slice::Iter<'_, Report<'_>>,
) -> io::Result<()> {
    for event in events {
        match event {
            Event::Message(message) => lines.message(message)?,
            Event::Loaded { span, samples } => write_loaded(lines, *span, samples)?,
            Event::Run(run) => {
                if !run.loaded.is_empty() {
                    write_loaded(lines, run.load, &run.loaded)?;
                }
                write_run(lines, run)?;
            }
            Event::Result { at, .. } => {
                lines.at = *at;
                if let Some(report) = reports.next() {
                    write_result(lines, report)?;
                }
            }
        }
    }
    Ok(())
}

fn write_loaded(lines: &mut Lines, span: Span, samples: &[SampleIndex]) -> io::Result<()> {
    lines.at = span.end;
    lines.line("loaded_qsl_set", samples)
}

fn write_run(lines: &mut Lines, run: &RunLog) -> io::Result<()> {
    lines.at = run.generate.end;
    lines.line("generated_query_count", run.generated_queries)?;
    lines.line("generated_samples_per_query", run.generated_samples_per_query)?;
    lines.line("generated_query_duration", run.generated_duration)?;
    if let Some(mismatch) = &run.threads.mismatch {
        lines.errors(mismatch, 1)?;
    }
    let last = run.last();
    lines.at = run.started_at + last.last_issue;
    // Before the end of the run, where the reference detects it.
    write_misuse(lines, run)?;
    write_end(lines, run)?;
    lines.at = run.finished_at;
    // Dyno has no logger thread, but parsers expect the keys.
    for counter in [
        "logger_swap_request_slots_retry_count",
        "logger_swap_request_slots_retry_retry_count",
        "logger_swap_request_slots_retry_reencounter_count",
        "logger_start_reading_entries_retry_count",
        "logger_tls_total_log_cas_fail_count",
        "logger_tls_total_swap_buffers_slot_retry_count",
    ] {
        lines.line(counter, 0u64)?;
    }
    let end = WallTime { unix_ns: run.started_wall.unix_ns + last.last_completion };
    lines.line("power_begin", power_datetime(run.started_wall).as_str())?;
    lines.line("power_end", power_datetime(end).as_str())
}

fn write_end(lines: &mut Lines, run: &RunLog) -> io::Result<()> {
    let ends = match &run.threads.ends[..] {
        [] => std::slice::from_ref(&run.ended),
        ends => ends,
    };
    for (thread, ended) in ends.iter().enumerate() {
        if let Some(text) = limit_that_ended(thread, *ended) {
            lines.errors(&text, 1)?;
        }
    }
    match run.ended {
        EndReason::TraceIssued
        | EndReason::MaxQueryCount { .. }
        | EndReason::MaxDuration { .. }
        | EndReason::TooManyOutstanding { .. } => Ok(()),
        EndReason::Naturally if run.accuracy => Ok(()),
        EndReason::Naturally => lines.line(
            "generic_message",
            "Ending naturally: Minimum query count and test duration met.",
        ),
        EndReason::RanOut => lines.errors(
            "Ending early: Ran out of generated queries to issue before the minimum query count \
             and test duration were reached. Please update the relevant expected latency or \
             target qps in the TestSettings so they are more accurate.",
            1,
        ),
        EndReason::Deadline { missing } => lines.errors(
            &format!(
                "Ending early: nothing completed for response_deadline_ms, {missing} samples \
                 never came back."
            ),
            1,
        ),
        EndReason::Aborted => lines.errors("Ending early: the test was aborted.", 1),
        EndReason::Lost { worker, workers } => {
            lines.errors(&format!("Ending early: worker {} of {workers} was lost.", worker + 1), 1)
        }
    }
}

/// Returns the error of an issuing thread that a limit ended.
fn limit_that_ended(thread: usize, ended: EndReason) -> Option<String> {
    let limit = match ended {
        EndReason::MaxQueryCount { issued } => {
            format!("Max query count reached. query_count {issued}")
        }
        EndReason::MaxDuration { at } => format!("Max test duration reached. duration_ns {at}"),
        EndReason::TooManyOutstanding { issued, outstanding } => {
            format!("Too many outstanding queries. issued {issued} outstanding {outstanding}")
        }
        _ => return None,
    };
    Some(format!("IssueQueryThread {thread} Ending early: {limit}"))
}

fn write_misuse(lines: &mut Lines, run: &RunLog) -> io::Result<()> {
    let misuse = &run.record.misuse;
    // The texts are those of the reference, including its misplaced apostrophe.
    for (times, text) in [
        (misuse.duplicate, "Attempted to complete a sample twice."),
        (misuse.stale, "Received completion for an old sample."),
        (misuse.unknown, "Received completion for a sample that was never issued."),
        (
            misuse.first_token_missing,
            "Attempted to record a sample latency before it's first token latency",
        ),
        (misuse.first_token_late, "Attempted to record token latency after sample was completed"),
        (
            misuse.tokens_zero,
            "n_tokens argument missing or attempted to record 0 as number of tokens",
        ),
        (misuse.tokens_one, "Number of tokens need to be greater than 1"),
        (misuse.tokens_negative, "Attempted to record a negative number of tokens"),
        (misuse.impossible_times, "Attempted to record a time that cannot be"),
    ] {
        lines.errors(text, times)?;
    }
    Ok(())
}

fn write_result(lines: &mut Lines, report: &Report) -> io::Result<()> {
    write_validity(lines, report)?;
    write_rates(lines, report)?;
    write_latencies(lines, "result_", "_latency_ns", &report.metrics.latency)?;
    write_tokens(lines, report)?;
    write_own_results(lines, report)?;
    let errors = lines.counts().errors;
    lines.line("num_errors", errors)
}

fn write_validity(lines: &mut Lines, report: &Report) -> io::Result<()> {
    let judgement = &report.judgement;
    let validity = if report.is_valid() { "VALID" } else { "INVALID" };
    lines.line("result_validity", validity)?;
    if let Some(met) = judgement.performance_met {
        lines.line("result_perf_constraints_met", met)?;
    }
    lines.line("result_min_duration_met", judgement.min_duration_met)?;
    lines.line("result_min_queries_met", judgement.min_queries_met)?;
    lines.line("early_stopping_met", judgement.early_stopping_met)?;
    if !report.is_valid() {
        lines.line("result_invalid_reason", invalid_reason(report).as_str())?;
    }
    for (kind, text) in report.early_stopping_texts() {
        let key = match kind {
            EarlyStoppingKind::Latency => "early_stopping_result",
            EarlyStoppingKind::FirstToken => "early_stopping_ttft_result",
            EarlyStoppingKind::TimePerOutputToken => "early_stopping_tpot_result",
        };
        lines.line(key, text.replace('\n', " ").as_str())?;
    }
    lines.line("result_query_count", report.metrics.query_count)?;
    if matches!(report.run.plan.load, Load::Server(_)) {
        lines.line("result_overlatency_query_count", report.metrics.over.latency)?;
    }
    Ok(())
}

/// The recommendations in one line. Of the third the reference takes the first
/// sentence only, and a space follows the first two even where nothing does.
fn invalid_reason(report: &Report) -> String {
    let advice = report.judgement.recommendations();
    let mut reason = String::new();
    for text in [&advice.performance, &advice.min_duration] {
        if !text.is_empty() {
            reason += &format!("{text} ");
        }
    }
    reason += advice.min_queries.lines().next().unwrap_or_default();
    for text in report.own_advice() {
        if !reason.is_empty() && !reason.ends_with(' ') {
            reason.push(' ');
        }
        reason += &text;
    }
    reason.replace('\n', " ")
}

fn write_rates(lines: &mut Lines, report: &Report) -> io::Result<()> {
    let estimates = report.judgement.early_stopping.logged_estimates();
    let target = estimates.map_or(0, |estimates| estimates.target.latency);
    match report.metrics.rates {
        Rates::SingleStream { with_overhead, without_overhead } => {
            let tail =
                estimates.and_then(|estimates| estimates.tail).map_or(0, |tail| tail.latency);
            lines.line("result_qps_with_loadgen_overhead", with_overhead)?;
            lines.line("result_qps_without_loadgen_overhead", without_overhead)?;
            lines.line("early_stopping_latency_ss", target)?;
            lines.line("early_stopping_latency_ms", tail)
        }
        Rates::MultiStream => {
            let latency = report.metrics.query_latency.unwrap_or_default();
            lines.line("result_min_query_latency_ns", latency.min)?;
            lines.line("result_max_query_latency_ns", latency.max)?;
            lines.line("result_mean_query_latency_ns", latency.mean)?;
            if let Some(found) = &report.metrics.intervals {
                let streams = report.run.plan.samples_per_query;
                lines.line("dyno_result_samples_per_query", streams)?;
                write_intervals(lines, found)?;
            }
            write_percentiles(lines, "result_", "_percentile_per_query_latency_ns", &latency)?;
            lines.line("early_stopping_latency_ms", target)
        }
        Rates::Server { scheduled, completed } => {
            lines.line("result_scheduled_samples_per_sec", scheduled)?;
            lines.line("result_completed_samples_per_sec", completed)?;
            let plan = &report.run.plan;
            // A failure may have lowered it.
            if plan.repetition != Repetition::Once {
                lines.line("dyno_result_target_qps", plan.target_qps)?;
            }
            Ok(())
        }
        Rates::Offline { samples } => lines.line("result_samples_per_second", samples),
    }
}

/// Writes the counts under the keys of the releases with a fixed interval, and the sums under keys
/// of Dyno.
fn write_intervals(lines: &mut Lines, found: &Intervals) -> io::Result<()> {
    for (percentile, count) in PERCENTILES.iter().zip(found.percentiles) {
        let key =
            format!("result_{:.2}_percentile_num_intervals_between_queries", 100.0 * percentile);
        lines.line(&key, count)?;
    }
    lines.line("dyno_skipping_queries", found.over)?;
    lines.line("dyno_skipping_queries_allowed", found.allowed)?;
    lines.line("dyno_skipped_intervals", found.skipped)?;
    lines.line("dyno_skipped_by_client", found.by_client)
}

fn write_latencies(
    lines: &mut Lines,
    prefix: &str,
    suffix: &str,
    times: &Distribution,
) -> io::Result<()> {
    lines.line(&format!("{prefix}min{suffix}"), times.min)?;
    lines.line(&format!("{prefix}max{suffix}"), times.max)?;
    lines.line(&format!("{prefix}mean{suffix}"), times.mean)?;
    write_percentiles(lines, prefix, &format!("_percentile{suffix}"), times)
}

fn write_percentiles(
    lines: &mut Lines,
    prefix: &str,
    suffix: &str,
    times: &Distribution,
) -> io::Result<()> {
    for (percentile, value) in PERCENTILES.iter().zip(times.percentiles) {
        lines.line(&format!("{prefix}{:.2}{suffix}", 100.0 * percentile), value)?;
    }
    Ok(())
}

fn write_tokens(lines: &mut Lines, report: &Report) -> io::Result<()> {
    let metrics = &report.metrics;
    match metrics.token_rates {
        None => Ok(()),
        Some(TokenRates::Measured {
            with_overhead, without_overhead_per_ns, completed, ..
        }) => {
            let first = metrics.first_token.unwrap_or_default();
            write_latencies(lines, "result_first_token_", "_latency_ns", &first)?;
            lines.line("result_token_throughput_with_loadgen_overhead", with_overhead)?;
            lines.line("result_token_throughput", without_overhead_per_ns)?;
            let each = metrics.time_per_output_token.unwrap_or_default();
            let prefix = "result_time_per_output_token_";
            write_percentiles(lines, prefix, "_percentile_ns", &each)?;
            lines.line("result_time_to_output_token_min", each.min)?;
            lines.line("result_time_to_output_token_max", each.max)?;
            lines.line("result_time_to_output_token_mean", each.mean)?;
            lines.line("result_completed_tokens_per_second", completed)
        }
        Some(TokenRates::MeasuredOffline { tokens }) => {
            lines.line("result_tokens_per_second", tokens)
        }
        Some(TokenRates::Inferred { tokens }) => {
            let key = match metrics.rates {
                Rates::Server { .. } => "result_inferred_completed_tokens_per_second",
                _ => "result_inferred_tokens_per_second",
            };
            lines.line(key, tokens)
        }
    }
}

/// Writes results that the reference does not measure.
fn write_own_results(lines: &mut Lines, report: &Report) -> io::Result<()> {
    let metrics = &report.metrics;
    if let Some(lag) = metrics.client_lag {
        lines.line("dyno_client_lag_50.00_percentile_ns", lag.percentiles[0])?;
        lines.line("dyno_client_lag_99.00_percentile_ns", lag.percentiles[4])?;
        lines.line("dyno_client_lag_max_ns", lag.max)?;
    }
    let failed = metrics.failed;
    for (key, samples) in
        [("dyno_failed_samples", failed.total()), ("dyno_missing_samples", metrics.missing)]
    {
        lines.line(key, samples)?;
    }
    for note in &report.judgement.notes {
        lines.line(NOTE, *note)?;
    }
    Ok(())
}
