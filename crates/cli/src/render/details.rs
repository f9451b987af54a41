//! What the summary says of a test beside its figures: its load, what early
//! stopping makes of it, tokens, failures; and of the machine and the command.

use super::{count, duration, percentile, rate};
use crate::summary::metrics::{Bound, EarlyStopping};
use crate::summary::{Environment, Metrics, Plan, Test};

/// Lines about a performance test; none where there is nothing to say.
pub fn of(test: &Test) -> Vec<String> {
    let Some(metrics) = &test.metrics else { return Vec::new() };
    let name = match &test.tenant {
        Some(tenant) => format!("{} {tenant}", test.scenario),
        None => test.scenario.clone(),
    };
    let parts = [load(test, metrics), tokens(metrics), lost(metrics)];
    let said = parts.into_iter().flatten().filter(|part| !part.is_empty());
    said.map(|part| format!("{name}: {part}")).collect()
}

/// The load that was offered, and what early stopping makes of the answers.
fn load(test: &Test, metrics: &Metrics) -> Option<String> {
    let offered = test.plan.arrivals.as_ref().map(|arrivals| match arrivals.as_str() {
        // In a closed loop the system sets the pace.
        arrivals if arrivals.starts_with("concurrency") => arrivals.to_string(),
        arrivals => format!("{arrivals} at {}/s", rate(test.plan.target_qps)),
    });
    let offered = offered.or_else(|| intervals(metrics, &test.plan));
    let repeated = test.plan.repetition.as_deref().map(|rule| repetition(rule, test.is_valid()));
    let bounds = metrics.early_stopping.iter().filter_map(|of| {
        let bound = of.bound.as_ref()?;
        Some(against(of, bound, &test.plan))
    });
    let estimates = metrics.early_stopping.iter().filter_map(|of| estimate(of, &test.plan));
    let parts: Vec<String> =
        repeated.into_iter().chain(offered).chain(bounds).chain(estimates).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Which of several runs this is.
fn repetition(rule: &str, is_valid: bool) -> String {
    let (rule, rest) = rule.split_once(':').unwrap_or((rule, ""));
    let runs = rest.split(':').next().unwrap_or_default();
    match rule {
        // The first run that is not valid ends them.
        _ if !is_valid => format!("not one of {runs} VALID runs, which the rule asks for"),
        "minimum" => format!("the lowest of {runs} runs"),
        _ => format!("the lowest of {runs} runs that confirm the load"),
    }
}

/// The interval, and how many queries skipped one.
fn intervals(metrics: &Metrics, plan: &Plan) -> Option<String> {
    let (found, interval) = (metrics.intervals.as_ref()?, plan.interval_ns?);
    let interval = duration(i64::try_from(interval).unwrap_or(i64::MAX));
    let late = match found.by_client {
        0 => String::new(),
        queries => format!(", {} of them noticed late by the client", count(queries)),
    };
    Some(format!(
        "{} samples every {interval}; {} of {} queries skipped an interval{late}, {} allowed",
        plan.samples_per_query,
        count(found.over),
        count(metrics.query_count),
        count(found.allowed)
    ))
}

/// How many were over the bound, and how many early stopping allows.
fn against(of: &EarlyStopping, bound: &Bound, plan: &Plan) -> String {
    let (name, limit) = match of.of.as_str() {
        "first_token" => ("TTFT ", plan.first_token_bound_ns),
        "time_per_output_token" => ("TPOT ", plan.time_per_output_token_bound_ns),
        _ => ("", plan.latency_bound_ns),
    };
    let limit =
        limit.map_or("the bound".into(), |ns| duration(i64::try_from(ns).unwrap_or(i64::MAX)));
    let over = format!("{} of {}", count(bound.over), count(bound.queries));
    let may = match bound.allowed {
        Some(allowed) => format!("{} allowed", count(allowed)),
        None => format!("too few to tell, {} needed", count(bound.needed)),
    };
    format!("{name}{over} over {limit}, {may}")
}

/// The percentile that holds with the confidence of the criterion.
fn estimate(of: &EarlyStopping, plan: &Plan) -> Option<String> {
    let at_target = |q: f64| (q - plan.percentile).abs() < 1e-9;
    let found = of.estimates.iter().find(|estimate| at_target(estimate.percentile))?;
    let name = percentile(found.percentile);
    Some(match found.latency_ns {
        Some(latency) => {
            let confidence = of.confidence * 100.0;
            format!("{name} at most {} with {confidence:.0} % confidence", duration(latency))
        }
        None => format!(
            "{} queries are too few for a {name}, {} needed",
            count(found.processed),
            count(found.needed)
        ),
    })
}

/// Times and rates of tokens.
fn tokens(metrics: &Metrics) -> Option<String> {
    let of = |name: &str, times: Option<crate::summary::metrics::Distribution>| {
        let times = times.filter(|times| times.count > 0)?;
        Some(format!("{name} p50 {} p99 {}", duration(times.p50), duration(times.p99)))
    };
    let rates = metrics.token_rates.as_ref();
    let per_second = rates.and_then(|r| r.completed_tokens_per_s.or(r.tokens_per_s));
    let parts = [
        of("TTFT", metrics.first_token_ns),
        of("TPOT", metrics.time_per_output_token_ns),
        per_second.map(|rate_of| format!("{} tokens/s", rate(rate_of))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What did not come back.
fn lost(metrics: &Metrics) -> Option<String> {
    let (failed, missing) = (metrics.failed.total(), metrics.missing);
    let part = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n)));
    let parts = [part(failed, "samples failed"), part(missing, "samples never came back")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The machine and the build.
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

/// The command that makes the run again, as one types it into a shell.
pub fn command(arguments: &[String]) -> String {
    let quoted = |argument: &String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+@%".contains(c);
        match !argument.is_empty() && argument.chars().all(is_plain) {
            true => argument.clone(),
            false => format!("'{}'", argument.replace('\'', "'\\''")),
        }
    };
    let words = std::iter::once("dyno".to_string()).chain(arguments.iter().map(quoted));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_load_that_every_run_bore_is_called_confirmed() {
        let confirmed = "the lowest of 5 runs that confirm the load";
        assert_eq!(repetition("confirm:5:2.5", true), confirmed);
        assert_eq!(repetition("minimum:5", true), "the lowest of 5 runs");
        for rule in ["confirm:5", "minimum:5"] {
            let failed = "not one of 5 VALID runs, which the rule asks for";
            assert_eq!(repetition(rule, false), failed);
        }
    }

    #[test]
    fn a_command_is_quoted_for_the_shell() {
        let arguments = ["run", "--system", "onnx:my model.onnx", "--name", "it's", ""];
        let shown = command(&arguments.map(str::to_string));
        assert_eq!(shown, "dyno run --system 'onnx:my model.onnx' --name 'it'\\''s' ''");
    }
}
