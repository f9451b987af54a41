//! Answers of a text server in a performance test: classes and tokens become figures, and doubts
//! about a figure become reasons or notes.

use std::collections::BTreeSet;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::log::Report;
use dyno_loadgen::plan::{Load, Tokens as PlanTokens};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::record::Record;
use dyno_loadgen::session::EndReason;
use dyno_net::ledger::Entry;
use dyno_results::summary::answers::{Answers, Tokens};
use dyno_results::summary::tasks::TurnCounts;
use dyno_results::summary::window::Window;
use dyno_results::summary::{self, Cause, Reason, ReasonKind, Sessions};
use dyno_results::units::count;

use crate::gather::answers::Accounts;
use crate::gather::distributions::{Part, distributions, peak_concurrency, steady, window};
use crate::outcome::Context;
use crate::system::net::WireTimes;

/// Adds figures from the accounts of one tenant's answers. `model_of` returns the model that a sample
/// names. Returns the record with the tokens of the accounts if the record has none because answers were
/// not streamed, and the record without tokens if their times are undefined.
pub fn add(
    test: &mut summary::Test,
    report: &Report<'_>,
    entries: &[Option<Entry>],
    wire: &WireTimes,
    model_of: &dyn Fn(SampleIndex) -> Option<String>,
    context: Context<'_>,
) -> Option<Record> {
    let untimed = without_times_of_tokens(&report.run.record, entries);
    let record = untimed.as_ref().unwrap_or(&report.run.record);
    let accounts = Accounts::new(record, entries)?;
    let counted_over = match report.run.plan.load {
        Load::Offline => report.metrics.max_latency,
        Load::Server(_) => report.metrics.pace.length,
        _ => record.lasted(),
    };
    let tokens = accounts.tokens(counted_over);
    note_accepted(test, &accounts);
    judge_stream(test, report, &accounts);
    judge_tokens(test, &accounts, &tokens);
    judge_hidden_tokens(test, report, &accounts);
    let metrics = test.metrics.as_mut()?;
    let steps = report.run.plan.steps;
    metrics.sessions = Sessions::from_record(record, test.plan.percentile, steps, &|sample| {
        counts(entries, sample)
    });
    metrics.answers = Some(accounts.answers(test.plan.percentile));
    metrics.token_count = metrics.token_count.or(tokens.output.map(u64::cast_signed));
    let has_any = tokens.input.is_some()
        || tokens.output.is_some()
        || tokens.output_counted_by.keys().any(|by| by != "nobody");
    metrics.tokens = has_any.then_some(tokens);
    metrics.distributions = distributions(record, &accounts, metrics, context.percentiles);
    match context.stages.filter(|_| matches!(report.run.plan.load, Load::Server(_))) {
        Some(stages) => {
            // Of a run that ended early, the rest of a stage and later ones were not played.
            let played = match report.run.ended {
                EndReason::TraceIssued => Nanos::MAX,
                _ => record.issued_at.iter().copied().max().unwrap_or(0),
            };
            let (spans, all) = (stages.spans(), stages.spans().len());
            let spans = spans.into_iter().filter(|(_, from, _)| *from < played);
            let stage = |(name, from, to): (String, Nanos, Nanos)| {
                window(record, &accounts, &name, &Part::whole(from..to.min(played)))
            };
            metrics.stages = spans.map(stage).collect();
            let missing = all - metrics.stages.len();
            if missing > 0 {
                test.notes.push(format!(
                    "The run ended before the last {missing} of {all} stages began."
                ));
            }
        }
        None => metrics.steady = steady(record, &accounts),
    }
    metrics.models = models(record, &accounts, counted_over, model_of);
    metrics.peak_concurrency = Some(peak_concurrency(record, wire));
    if let Some(untimed) = untimed {
        metrics.time_per_output_token_ns = None;
        test.notes.push(MIXED.into());
        return Some(untimed);
    }
    let is_counted = record.tokens.is_empty() && metrics.token_count.is_some();
    is_counted.then(|| Record { tokens: accounts.output_column(), ..record.clone() })
}

/// Returns the counts of the answer to a sample.
fn counts(entries: &[Option<Entry>], sample: usize) -> TurnCounts {
    let entry = entries.get(sample).copied().flatten();
    TurnCounts {
        input_tokens: entry.and_then(|entry| entry.input).map(u64::from),
        output_tokens: entry.and_then(|entry| entry.output).map(u64::from),
        tool_calls: entry.map(|entry| entry.tool_calls.into()),
    }
}

/// Adds the classes of the answers of a text server if every request failed on the wire, so that no answer
/// has an account.
pub fn add_failed(test: &mut summary::Test, record: &Record) {
    if let Some(metrics) = &mut test.metrics
        && metrics.answers.is_none()
        && !record.failed.is_empty()
    {
        let failed_on_the_wire = record.failed.len() as u64;
        metrics.answers = Some(Answers { failed_on_the_wire, ..Answers::default() });
    }
}

/// Note on figures that are left out.
const MIXED: &str = "Requests ask for several choices, whose tokens come mixed. Times per output token and \
     between tokens are undefined and left out.";

/// Returns the record without the token counts that times per output token follow from, if an answer has
/// several choices; otherwise `None`.
fn without_times_of_tokens(record: &Record, entries: &[Option<Entry>]) -> Option<Record> {
    let is_mixed = entries.iter().flatten().any(|entry| entry.demand.choices > 1);
    let tokens = vec![0; record.tokens.len()];
    // Without a stream there are no such times.
    (is_mixed && !tokens.is_empty()).then(|| Record {
        tokens,
        timed_tokens: Vec::new(),
        ..record.clone()
    })
}

/// Returns the figures of each model, if requests name several. Their rates count over `counted_over`
/// ns, as those of the run.
fn models(
    record: &Record,
    accounts: &Accounts<'_>,
    counted_over: Nanos,
    model_of: &dyn Fn(SampleIndex) -> Option<String>,
) -> Vec<Window> {
    let of_sample: Vec<Option<String>> =
        record.indices.iter().map(|index| model_of(*index)).collect();
    let names: BTreeSet<&String> = of_sample.iter().flatten().collect();
    if names.len() < 2 {
        return Vec::new();
    }
    let figures = |name: &String| {
        let is_in =
            |sample: usize| of_sample.get(sample).is_some_and(|of| of.as_ref() == Some(name));
        let span = 0..record.lasted().saturating_add(1);
        let model = window(record, accounts, name, &Part { span, is_in: &is_in });
        let factor = (model.to_ns - model.from_ns) as f64 / counted_over.max(1) as f64;
        Window {
            offered_per_s: model.offered_per_s * factor,
            completed_per_s: model.completed_per_s * factor,
            output_tokens_per_s: model.output_tokens_per_s.map(|rate| rate * factor),
            ..model
        }
    };
    names.into_iter().map(figures).collect()
}

fn note_accepted(test: &mut summary::Test, accounts: &Accounts<'_>) {
    let classes = accounts.accepted_by_class();
    if classes.is_empty() {
        return;
    }
    let classes: Vec<String> =
        classes.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
    test.notes.push(format!(
        "Incomplete answers count as success because of accept-answers: {}.",
        classes.join(", ")
    ));
}

/// Judges bounds on TTFT and TPOT, which a server that ignores `stream` does not have.
fn judge_stream(test: &mut summary::Test, report: &Report<'_>, accounts: &Accounts<'_>) {
    let whole = accounts.without_stream();
    if whole == 0 {
        return;
    }
    let answered = accounts.answered().count() as u64;
    let who = if whole < answered {
        "The server does not always stream"
    } else {
        "The server does not stream"
    };
    let told = format!(
        "{who}: {} of {} answers came in one part although a stream was requested",
        count(whole),
        count(answered)
    );
    let is_bounded = matches!(report.run.plan.load, Load::Server(_))
        && matches!(report.run.plan.tokens,
            Some(PlanTokens::Measured { ttft, tpot }) if ttft.min(tpot) < summary::NO_BOUND);
    if !is_bounded {
        test.notes.push(format!("{told}. Their latency is measured, but TTFT and TPOT are not."));
        return;
    }
    if report.metrics.first_token.is_none() {
        // No time was measured that could exceed a bound.
        test.remove_reasons(&[ReasonKind::Bound, ReasonKind::EarlyStopping]);
        if let Some(metrics) = &mut test.metrics {
            metrics.over_bound = summary::metrics::OverBound::default();
            metrics.conditions.performance_met = None;
            metrics.early_stopping.clear();
        }
    }
    let text = format!(
        "{told}. Their latency is measured, but TTFT and TPOT are not, so bounds on them cannot \
         be judged. Use stream=false, with --set server_target_latency_ns=TIME as the bound."
    );
    let reason = Reason::new(ReasonKind::NoStream, text).because_of(Cause::System);
    test.add_reason_after_failures(reason);
}

fn judge_tokens(test: &mut summary::Test, accounts: &Accounts<'_>, tokens: &Tokens) {
    let answers = count(accounts.answered().count() as u64);
    if let Some((doubtful, first)) = accounts.doubtful_input() {
        let text = format!(
            "The input tokens that the server counts are inconsistent in {} of {answers} answers, \
             the first: {first}. Input tokens and input tokens/s are therefore uncertain. Use \
             usage=false to ignore these counts.",
            count(doubtful)
        );
        test.add_reason_after_failures(Reason::new(ReasonKind::Tokens, text));
    }
    if let Some((doubtful, first)) = accounts.doubtful_output() {
        let text = format!(
            "The output tokens that the server counts are inconsistent in {} of {answers} answers, \
             the first: {first}. Output tokens, tokens/s and time per output token are therefore \
             uncertain. Use tokenizer=FILE.json to count them in the client, or usage=false to \
             ignore these counts.",
            count(doubtful)
        );
        test.add_reason_after_failures(Reason::new(ReasonKind::Tokens, text));
    }
    let invisible = accounts.with_invisible_tokens();
    if invisible > 0 {
        test.notes.push(format!(
            "In {} of {answers} answers the server counts a few more output tokens than the output has \
             bytes, such as those of thoughts that it removes. Output tokens and tokens/s include them.",
            count(invisible)
        ));
    }
    let settled = accounts.settled();
    if settled > 0 {
        test.notes.push(format!(
            "The token counts of the server are inconsistent in {} of {answers} answers; the \
             tokenizer counts their output tokens.",
            count(settled)
        ));
    }
    if tokens.output_counted_by.contains_key("events") {
        test.notes.push(
            "If the server does not count output tokens, Dyno counts parts with output and \
             assumes one token per part."
                .into(),
        );
    }
}

/// Notes tokens that are counted and were not streamed, and judges a bound on TPOT, which answers do not
/// have if it is unknown how many of their tokens were streamed, or of which choice they are.
fn judge_hidden_tokens(test: &mut summary::Test, report: &Report<'_>, accounts: &Accounts<'_>) {
    let answers = count(accounts.answered().count() as u64);
    let (left_out, unknown) = accounts.with_hidden_tokens();
    if left_out > 0 {
        test.notes.push(format!(
            "In {} of {answers} answers the server counts reasoning tokens that it did not stream. TPOT \
             counts only the other tokens; output tokens and tokens/s include them.",
            count(left_out)
        ));
    }
    let (told, advice) = match (unknown, accounts.with_further_choices()) {
        (0, 0) => return,
        (0, mixed) => (
            format!(
                "{} of {answers} answers have several choices although the request asks for one. Their \
                 tokens come mixed, so that these answers have no TPOT",
                count(mixed)
            ),
            "Let the server send one choice",
        ),
        (unknown, _) => (
            format!(
                "In {} of {answers} answers the server counts reasoning tokens of which it streamed only \
                 a part or a summary, or none without stating their number. These answers have no TPOT",
                count(unknown)
            ),
            "Turn reasoning off, or let the server show it",
        ),
    };
    let is_bounded = matches!(report.run.plan.load, Load::Server(_))
        && matches!(report.run.plan.tokens,
            Some(PlanTokens::Measured { tpot, .. }) if tpot < summary::NO_BOUND);
    if !is_bounded {
        test.notes.push(format!("{told}."));
        return;
    }
    let text = format!(
        "{told}, so that the bound on it cannot be judged. {advice}, or use --set \
         server_target_latency_ns=TIME as the bound."
    );
    let reason = Reason::new(ReasonKind::NoStream, text).because_of(Cause::System);
    test.add_reason_after_failures(reason);
}

#[cfg(test)]
mod tests {
    use dyno_net::ledger::Demand;

    use super::*;

    #[test]
    fn answers_with_several_choices_have_no_times_of_tokens() {
        let record = Record { tokens: vec![8, 9], ..Record::default() };
        let entry = |choices| {
            let demand = Demand { choices, ..Demand::default() };
            Some(Entry { demand, ..Entry::default() })
        };
        assert_eq!(without_times_of_tokens(&record, &[entry(1), None]), None);
        let untimed = without_times_of_tokens(&record, &[entry(1), entry(2)]).unwrap();
        assert_eq!(untimed.tokens, [0, 0]);
        assert_eq!(without_times_of_tokens(&Record::default(), &[entry(2)]), None);
    }
}
