//! A probe as text.

use std::fmt::Write as _;

use dyno_results::units::{count, duration};

use super::{Answer, Probe, Query, Sample, Tensor};

use crate::system::SampleInput;

/// Width of the column of names.
const COLUMN: usize = 14;

struct Lines(String);

impl Lines {
    fn say(&mut self, what: &str, value: impl AsRef<str>) {
        let _ = writeln!(self.0, "{what:COLUMN$}{}", value.as_ref());
    }
}

/// Returns the probe as text.
pub fn text(probe: &Probe) -> String {
    let mut lines = Lines(String::new());
    lines.say("system", format!("{}, in {} time", probe.system, probe.time));
    engine(&mut lines, probe);
    let data = &probe.data;
    let labels = data.classes.map(|classes| format!(", labels of {classes} classes"));
    let random = if data.is_random { ", random: accuracy is not measured" } else { "" };
    lines.say(
        "data",
        format!(
            "{}, {} samples{}{random}",
            data.name,
            count(data.samples),
            labels.unwrap_or_default()
        ),
    );
    lines.say("scenario", probe.scenario);
    for query in &probe.queries {
        lines.0.push('\n');
        write_query(&mut lines, query);
    }
    lines.0.push('\n');
    for (what, count) in &probe.misuse {
        lines.say("wrong", format!("{count} {what}"));
    }
    if let Some(trouble) = &probe.trouble {
        lines.say("trouble", trouble.trim());
    }
    if let Some(advice) = probe.advice {
        lines.say("advice", advice);
    }
    let verdict = if probe.queries.is_empty() {
        "No request was sent.".to_string()
    } else if probe.is_missing_any() {
        format!("It does not answer: no response within {}.", time(probe.deadline_ns))
    } else if probe.is_well {
        "It answers.".to_string()
    } else if probe.is_failed() {
        "It answers each request with an error.".to_string()
    } else {
        "It answers, but incorrectly.".to_string()
    };
    let _ = writeln!(lines.0, "{verdict}");
    lines.0
}

fn engine(lines: &mut Lines, probe: &Probe) {
    let engine = &probe.engine;
    lines.say("engine", &engine.name);
    if let Some(runtime) = &engine.runtime {
        let provider = engine.provider.as_ref().map(|provider| format!(", {provider}"));
        lines.say("runtime", format!("{runtime}{}", provider.unwrap_or_default()));
    }
    if let Some(library) = &engine.library {
        lines.say("library", library);
    }
    if let Some(load) = probe.load_ns {
        let first = engine.first_call_ns.map(|ns| format!(", its first call {} of it", time(ns)));
        lines.say("loaded in", format!("{}{}", time(load), first.unwrap_or_default()));
    }
    match engine.warm_up {
        0 => {}
        1 => lines.say("warmed up", "by 1 call"),
        calls => lines.say("warmed up", format!("by {calls} calls")),
    }
    for input in &engine.inputs {
        lines.say("input", tensor(input));
    }
    for (number, output) in engine.outputs.iter().enumerate() {
        let is_answer = if number == 0 { "  (the answer)" } else { "" };
        lines.say("output", format!("{}{is_answer}", tensor(output)));
    }
    match engine.largest_batch {
        0 => {}
        1 => lines.say("batch", "1: the model takes one sample per call"),
        most => lines.say("batch", format!("at most {most} samples a call")),
    }
}

fn time(nanos: u64) -> String {
    duration(nanos.cast_signed())
}

fn tensor(tensor: &Tensor) -> String {
    let dimension = |n: &Option<usize>| n.map_or("?".to_string(), |n| n.to_string());
    let shape: Vec<String> = tensor.shape.iter().map(dimension).collect();
    format!("{}  {} [{}]", tensor.name, tensor.element, shape.join(", "))
}

fn write_query(lines: &mut Lines, query: &Query) {
    let cold = if query.is_cold { ", the first one" } else { "" };
    let samples = match query.sample_count {
        1 => String::new(),
        n => format!(", {} samples", count(n as u64)),
    };
    lines.say(
        &format!("query {}", query.number),
        format!("due at {}{samples}{cold}", time(query.scheduled_ns)),
    );
    lines.say("  issued", format!("{} later", time(query.issued_ns)));
    if query.sample_count > 1 {
        lines.say("  complete", completion(query.completed_ns));
    }
    for sample in &query.samples {
        write_sample(lines, sample);
    }
    if let Some(more @ 1..) = query.sample_count.checked_sub(query.samples.len()) {
        lines.say("", format!("and {} more samples", count(more as u64)));
    }
}

fn completion(at: Option<u64>) -> String {
    at.map_or("never".into(), |ns| format!("{} after it was due", time(ns)))
}

fn write_sample(lines: &mut Lines, sample: &Sample) {
    lines.say("  sample", format!("number {} of the data set", sample.index));
    for input in &sample.inputs {
        write_input(lines, input);
    }
    if let Some(tokens) = sample.tokens {
        lines.say("  first token", completion(sample.first_token_ns));
        lines.say("  tokens", tokens.to_string());
    }
    lines.say("  complete", completion(sample.completed_ns));
    if let Some(failure) = sample.failure {
        lines.say("  failed", failure);
    }
    if let Some(answer) = &sample.answer {
        write_answer(lines, answer);
    }
}

fn write_input(lines: &mut Lines, input: &SampleInput) {
    let shape: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
    lines.say("  input", format!("{}  {} [{}]", input.name, input.element, shape.join(", ")));
    if let (Some(min), Some(mean), Some(max)) = (input.min, input.mean, input.max) {
        let (min, mean, max) = (short(min), short(mean), short(max));
        let odd = match input.not_finite {
            0 => String::new(),
            n => format!(", {} not finite", count(n as u64)),
        };
        lines.say("", format!("min {min}, mean {mean}, max {max}{odd}"));
    }
    let elements: usize = input.shape.iter().product();
    lines.say("", list(&input.first, elements));
}

fn write_answer(lines: &mut Lines, answer: &Answer) {
    let mut said = format!("{} bytes", count(answer.bytes as u64));
    if let Some(class) = answer.class {
        let _ = write!(said, ": class {class}");
    }
    if let (Some(label), Some(is_correct)) = (answer.label, answer.is_correct) {
        let right = if is_correct { "right" } else { "wrong" };
        let _ = write!(said, ", label {label}: {right}");
    }
    lines.say("  answer", said);
    if let Some(text) = &answer.text {
        lines.say("", text);
    }
    if !answer.first.is_empty() {
        lines.say("", list(&answer.first, answer.values));
    }
    if let Some(greatest) = answer.greatest.filter(|_| answer.values > 1) {
        lines.say("", format!("the largest of {} is number {greatest}", answer.values));
    }
}

fn list(first: &[f64], all: usize) -> String {
    let shown: Vec<String> = first.iter().map(|&value| short(value)).collect();
    let more = if all > first.len() { " ..." } else { "" };
    format!("{}{more}", shown.join(" "))
}

/// Formats a number of any size with a few digits.
fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || (value.fract() == 0.0 && size < 1e9) {
        return value.to_string();
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
