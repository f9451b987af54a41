//! Details of a test below its figures: load, early stopping, tokens, failures; and of the
//! machine and the command.

use dyno_results::summary::metrics::{Bound, EarlyStopping};
use dyno_results::summary::{
    Energy, Environment, Metrics, Plan, Reason, ReasonKind, Run, Sessions, State, Test, Verdict,
    answer_lines,
};
use dyno_results::units::{self, count, counted, counted_with_verb, duration, percentile, rate};

/// Returns lines about a performance test; empty without metrics. `has_times`: a table shows the times of
/// tokens and the requests that failed.
pub fn lines(test: &Test, has_times: bool) -> Vec<String> {
    let Some(metrics) = &test.metrics else { return Vec::new() };
    let name = match &test.tenant {
        Some(tenant) => format!("{} {tenant}", test.scenario),
        None => test.scenario.clone(),
    };
    let parts = [
        load(test, metrics),
        if has_times { None } else { tokens(metrics) },
        answer_lines::tokens(metrics),
        answer_lines::end_of_stream(metrics),
        goodput(metrics),
        answer_lines::classes(metrics),
        if has_times { None } else { lost(metrics) },
    ];
    let sessions = metrics.sessions.iter().flat_map(Sessions::lines);
    let texts = parts.into_iter().flatten().filter(|part| !part.is_empty()).chain(sessions);
    texts.map(|part| format!("{name}: {part}")).collect()
}

/// Returns a line for each metrics page of a test, and one for its energy. Of several tenants the first
/// one has them. What is absent in most runs is only shown if `is_verbose`.
pub fn of_servers(run: &Run, test: &Test, is_verbose: bool) -> Vec<String> {
    let is_of_test =
        |scenario: &str, mode: &str| (scenario, mode) == (&*test.scenario, &*test.mode);
    let first = run.tests.iter().find(|first| is_of_test(&first.scenario, &first.mode));
    if !first.is_some_and(|first| std::ptr::eq(first, test)) {
        return Vec::new();
    }
    let pages = run.servers.iter().filter(|page| is_of_test(&page.scenario, &page.mode));
    let is_named = run.system.contains("metrics=");
    let pages = pages.filter(|page| is_verbose || is_named || !page.text().is_empty());
    let pages = pages.map(|page| match (page.text(), &page.absent) {
        (text, _) if !text.is_empty() => {
            let failed = match page.failed_readings {
                0 => String::new(),
                failed => format!(", {failed} readings failed"),
            };
            format!("{} metrics: {text}{failed} ({})", page.servers.join(", "), page.page)
        }
        (_, Some(why)) => format!("server metrics: none, {}: {why}", page.page),
        (_, None) => format!("server metrics: none at {}", page.page),
    });
    let energy = run.energy.iter().filter(|energy| is_of_test(&energy.scenario, &energy.mode));
    let energy = energy.map(if is_verbose { Energy::text } else { Energy::measured });
    let energy = energy.filter(|text| !text.is_empty()).map(|text| format!("energy: {text}"));
    // The scenario `Server` is not the server that is measured.
    let is_only = run.tests.iter().all(|other| other.scenario == test.scenario);
    let of = if is_only { String::new() } else { format!("{}: ", test.scenario) };
    pages.chain(energy).map(|line| format!("{of}{line}")).collect()
}

/// Returns the throughput within the limits of `--goodput`.
fn goodput(metrics: &Metrics) -> Option<String> {
    let found = metrics.goodput.as_ref()?;
    let limits = [("ttft", found.ttft_ms), ("tpot", found.tpot_ms), ("e2el", found.e2el_ms)];
    let limits = limits.iter().filter_map(|(name, ms)| Some(format!("{name} {} ms", (*ms)?)));
    let limits: Vec<String> = limits.collect();
    let limits = limits.join(", ");
    let Some(share) = found.share else {
        return Some(format!(
            "goodput within {limits} is not measured, because no answer was streamed in \
             several parts"
        ));
    };
    let per_second = found.samples_per_s.map_or_else(|| "-".into(), rate);
    let unmeasured = match found.unmeasured {
        0 => String::new(),
        1 => "; 1 answer without such times is outside".into(),
        answers => format!("; {} answers without such times are outside", count(answers)),
    };
    Some(format!(
        "goodput {per_second} samples/s, {:.2} % within {limits}{unmeasured}",
        100.0 * share
    ))
}

/// Returns the offered load and the result of early stopping.
fn load(test: &Test, metrics: &Metrics) -> Option<String> {
    let offered = test.plan.arrivals.as_ref().map(|arrivals| match arrivals.as_str() {
        // In a closed loop the system sets the pace.
        arrivals if arrivals.starts_with("concurrency") => arrivals.to_string(),
        arrivals => offered(arrivals, test, metrics),
    });
    let offered = offered.or_else(|| intervals(metrics, &test.plan));
    let repeated = test
        .plan
        .repetition
        .as_deref()
        .and_then(|rule| repetition(rule, (test.state, of_runs(test)), test.repeated));
    let bounds = metrics.early_stopping.iter().filter_map(|criterion| {
        let bound = criterion.bound.as_ref()?;
        Some(against(criterion, bound, &test.plan, metrics))
    });
    let counted =
        if metrics.early_stopping.is_empty() { counts(metrics, &test.plan) } else { vec![] };
    let estimates =
        metrics.early_stopping.iter().filter_map(|criterion| estimate(criterion, &test.plan));
    let parts: Vec<String> =
        repeated.into_iter().chain(offered).chain(counted).chain(bounds).chain(estimates).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the offered rate and the completed rate. Neither is the peak of the system unless a
/// search chose the rate. Sessions arrive, and their turns are completed.
fn offered(arrivals: &str, test: &Test, metrics: &Metrics) -> String {
    let (arriving, answered) = match &metrics.sessions {
        Some(_) => (" sessions", " turns"),
        None => ("", ""),
    };
    let completed = metrics.rates.completed_samples_per_s.filter(|rate| rate.is_finite());
    let completed =
        completed.map_or_else(|| "none".into(), |found| format!("{}{answered}/s", rate(found)));
    let meaning = if test.mode == "peak" { "" } else { " (a load, not the capacity)" };
    let offered = match (test.plan.target_qps, scheduled(test, metrics)) {
        (0.0, _) => format!("all{arriving} at once"),
        (target, Some(found)) if rate(found) != rate(target) => {
            format!("{}/s (target {}/s)", rate(found), rate(target))
        }
        (target, _) => format!("{}{arriving}/s", rate(target)),
    };
    format!("offered {offered}, {arrivals}, completed {completed}{meaning}")
}

/// Returns the rate of the drawn arrivals, which differs from the target by chance; `None` where arrivals
/// are not samples: sessions, and queries of several samples.
fn scheduled(test: &Test, metrics: &Metrics) -> Option<f64> {
    let is_of_samples = metrics.sessions.is_none() && test.plan.samples_per_query == 1;
    let found = metrics.rates.scheduled_samples_per_s.filter(|_| is_of_samples);
    found.filter(|rate| rate.is_finite() && *rate > 0.0)
}

/// Returns the number of samples that failed or never came back.
fn not_answered(metrics: &Metrics) -> u64 {
    metrics.failed.total().saturating_add(metrics.missing)
}

/// Returns how many answered samples were over a limit, and how many more were not answered.
fn over(over: u64, samples: u64, limit: &str, metrics: &Metrics) -> String {
    match not_answered(metrics) {
        0 => format!("{} of {} over {limit}", count(over), count(samples)),
        lost if lost >= samples => format!("none of {} answered", count(samples)),
        lost => format!(
            "{} of {} answered over {limit}, {} not answered",
            count(over.saturating_sub(lost)),
            count(samples.saturating_sub(lost)),
            count(lost)
        ),
    }
}

/// Returns the verdict that decides whether a repetition goes on: that of the test, without what is
/// judged after the last run, such as requirements.
fn of_runs(test: &Test) -> Verdict {
    let is_later =
        |reason: &Reason| matches!(reason.kind, ReasonKind::Requirement | ReasonKind::Saturated);
    let only_later = !test.causes.is_empty() && test.causes.iter().all(is_later);
    // A reason that is only in `reasons` has an unknown kind.
    let is_known = test.causes.len() == test.reasons.len();
    match test.judged() {
        Verdict::Undecided | Verdict::Invalid if only_later && is_known => Verdict::Valid,
        judged => judged,
    }
}

/// Returns which of several runs this is, if that many of them ended; `None` before the first
/// repetition, or if the number is unknown.
fn repetition(
    rule: &str,
    (state, verdict): (State, Verdict),
    ended: Option<u64>,
) -> Option<String> {
    let (rule, rest) = rule.split_once(':').unwrap_or((rule, ""));
    let runs = rest.split(':').next().unwrap_or_default();
    if verdict == Verdict::Valid {
        return Some(match (rule, runs) {
            ("minimum", "1") => "the only run".into(),
            ("minimum", _) => format!("the lowest of {runs} runs"),
            (_, "1") => "the run that confirms the load".into(),
            _ => format!("the lowest of {runs} confirming runs"),
        });
    }
    // The first run that is not VALID ends the repetitions, and so does an interrupt.
    let ended = ended.filter(|&ended| ended > 0)?;
    let (this, before, became) = match state {
        State::Complete => (ended, ended - 1, format!("is {}", verdict.name())),
        State::Interrupted | State::Aborted => (ended + 1, ended, "did not finish".into()),
    };
    let before = match before {
        0 => String::new(),
        1 => ", the one before it is VALID".into(),
        before => format!(", the {before} before it are VALID"),
    };
    Some(format!("run {this} of {runs} {became}{before}"))
}

/// Returns the interval of queries, and how many queries skipped one.
fn intervals(metrics: &Metrics, plan: &Plan) -> Option<String> {
    let (found, interval) = (metrics.intervals.as_ref()?, plan.interval_ns?);
    if metrics.query_count == 0 {
        return None;
    }
    let interval = duration(i64::try_from(interval).unwrap_or(i64::MAX));
    let late = match found.by_client {
        0 => String::new(),
        queries => format!(", {} of them noticed late by the client", count(queries)),
    };
    Some(format!(
        "{} every {interval}; {} of {} queries skipped an interval{late}, {} allowed",
        counted(plan.samples_per_query, "sample", "samples"),
        count(found.over),
        count(metrics.query_count),
        count(found.allowed)
    ))
}

/// Returns for each bound how many samples were over it, and how many the percentile alone
/// allows, if early stopping does not apply, as up to round v1.1.
fn counts(metrics: &Metrics, plan: &Plan) -> Vec<String> {
    let samples = metrics.sample_count + not_answered(metrics);
    let allowed = count(allowed(samples, plan));
    let counts = &metrics.over_bound;
    let bounds = [
        ("", plan.latency_bound_ns, counts.latency),
        ("TTFT ", plan.first_token_bound_ns, counts.first_token),
        ("TPOT ", plan.time_per_output_token_bound_ns, counts.time_per_output_token),
    ];
    let count_text = |(name, bound, found): (&str, Option<u64>, Option<u64>)| {
        let found = over(found?, samples, &units::bound(bound?), metrics);
        Some(format!("{name}{found}, {allowed} allowed"))
    };
    bounds.into_iter().filter_map(count_text).collect()
}

/// Returns how many samples the percentile alone allows over a bound: one less than the share
/// beyond it, as in the index of the reference.
fn allowed(samples: u64, plan: &Plan) -> u64 {
    let within = (samples as f64 * plan.percentile) as u64;
    samples.saturating_sub(within).saturating_sub(1)
}

/// Returns how many samples were over the bound, and how many the percentile and early stopping allow.
fn against(criterion: &EarlyStopping, bound: &Bound, plan: &Plan, metrics: &Metrics) -> String {
    let (name, limit) = timed(criterion, plan);
    let limit = limit.map_or("the bound".into(), units::bound);
    let found = over(bound.over, bound.queries, &limit, metrics);
    let allowed = count(allowed(bound.queries, plan));
    match bound.allowed {
        Some(certain) => {
            format!("{name}{found}, {allowed} allowed, {} to be certain", count(certain))
        }
        None => {
            let needed = count(bound.needed);
            format!("{name}{found} ({allowed} allowed; certainty needs {needed} queries)")
        }
    }
}

/// Returns the label of the timed interval, and its bound.
fn timed(criterion: &EarlyStopping, plan: &Plan) -> (&'static str, Option<u64>) {
    match criterion.of.as_str() {
        "first_token" => ("TTFT ", plan.first_token_bound_ns),
        "time_per_output_token" => ("TPOT ", plan.time_per_output_token_bound_ns),
        _ => ("", plan.latency_bound_ns),
    }
}

/// Returns the percentile that holds with the confidence of the criterion.
fn estimate(criterion: &EarlyStopping, plan: &Plan) -> Option<String> {
    let at_target = |q: f64| (q - plan.percentile).abs() < 1e-9;
    let found = criterion.estimates.iter().find(|estimate| at_target(estimate.percentile))?;
    let name = format!("{}{}", timed(criterion, plan).0, percentile(found.percentile));
    Some(match found.latency_ns {
        Some(latency) => {
            let confidence = criterion.confidence * 100.0;
            format!("{name} at most {} with {confidence:.0} % confidence", duration(latency))
        }
        None => format!(
            "{} too few for a {name}; {} needed",
            counted_with_verb(found.processed, "query", "queries"),
            count(found.needed)
        ),
    })
}

/// Returns times and rates of tokens.
fn tokens(metrics: &Metrics) -> Option<String> {
    let times_text = |name: &str, times: Option<dyno_results::summary::metrics::Distribution>| {
        let times = times.filter(|times| times.count > 0)?;
        Some(format!("{name} p50 {} p99 {}", duration(times.p50), duration(times.p99)))
    };
    let rates = metrics.token_rates.as_ref();
    let per_second = rates.and_then(|r| r.completed_tokens_per_s.or(r.tokens_per_s));
    let parts = [
        times_text("TTFT", metrics.first_token_ns),
        times_text("TPOT", metrics.time_per_output_token_ns),
        per_second.map(|rate_of| format!("{} tokens/s", rate(rate_of))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the samples without an answer.
fn lost(metrics: &Metrics) -> Option<String> {
    let (failed, missing) = (metrics.failed.total(), metrics.missing);
    let part =
        |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", counted(n, "sample", "samples")));
    let unfinished = metrics.unfinished();
    let parts = [
        part(failed, "failed"),
        part(missing.saturating_sub(unfinished), "never answered"),
        part(unfinished, "unfinished when the run was stopped"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the machine and the build.
pub fn machine(environment: &Environment) -> String {
    let processor = environment.processor.as_deref().unwrap_or(&environment.arch);
    let cores = match environment.cores {
        1 => "1 core".to_string(),
        cores => format!("{cores} cores"),
    };
    let kernel = environment.kernel.as_deref().unwrap_or_default();
    let commit =
        environment.git_commit.as_deref().map(|c| format!(" of {}", c.get(..12).unwrap_or(c)));
    format!(
        "{processor}, {cores}, {}, {} build{}",
        format!("{} {kernel}", environment.os).trim_end(),
        environment.build,
        commit.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_load_that_every_run_bore_is_called_confirmed() {
        let of = |rule, state, verdict, ended| repetition(rule, (state, verdict), ended);
        let valid = |rule| of(rule, State::Complete, Verdict::Valid, Some(5));
        let confirmed = "the lowest of 5 confirming runs";
        assert_eq!(valid("confirm:5:2.5").as_deref(), Some(confirmed));
        assert_eq!(valid("minimum:5").as_deref(), Some("the lowest of 5 runs"));
        for (state, repeated, told) in [
            (State::Complete, Some(1), Some("run 1 of 50 is INVALID")),
            (State::Complete, Some(2), Some("run 2 of 50 is INVALID, the one before it is VALID")),
            (
                State::Complete,
                Some(11),
                Some("run 11 of 50 is INVALID, the 10 before it are VALID"),
            ),
            (
                State::Interrupted,
                Some(2),
                Some("run 3 of 50 did not finish, the 2 before it are VALID"),
            ),
            // Bracketing searches, and logs without the number.
            (State::Interrupted, Some(0), None),
            (State::Complete, None, None),
        ] {
            assert_eq!(of("minimum:50", state, Verdict::Invalid, repeated).as_deref(), told);
        }
        let short = of("minimum:50", State::Complete, Verdict::Undecided, Some(1));
        assert_eq!(short.as_deref(), Some("run 1 of 50 is UNDECIDED"));
    }
}
