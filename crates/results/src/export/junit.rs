//! Verdicts of a run as JUnit XML, for CI systems. An INVALID or UNDECIDED test is a failure of that
//! type; a test that did not complete is an error, and so is a run whose verdict contradicts its tests.

use std::fmt::Write as _;

use dyno_loadgen::message::is_control;

use crate::summary::answer_lines;
use crate::summary::{Run, State, Test, Verdict};

/// Returns the XML document.
pub fn xml(run: &Run) -> String {
    let is_failure = |test: &&Test| test.state == State::Complete && !test.is_stated_valid();
    let failures = run.tests.iter().filter(is_failure).count();
    let contradiction = run.contradiction();
    let of_run = usize::from(contradiction.is_some());
    let errors = run.tests.iter().filter(|test| test.state != State::Complete).count() + of_run;
    let time: u64 = run.tests.iter().map(lasted_ns).sum();
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{}\"",
        run.tests.len() + of_run,
        seconds(time)
    );
    let timestamp = match &run.started_at[..] {
        "" => String::new(),
        at => format!(" timestamp=\"{}\"", escaped(at)),
    };
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"dyno\" {counts}>\n  \
         <testsuite name=\"{}\" {counts} skipped=\"0\"{timestamp}>\n    <properties>\n",
        escaped(&run.name)
    );
    let version = &run.environment.dyno_version;
    for (name, value) in
        [("system", &run.system), ("dyno_version", version), ("disclaimer", &run.disclaimer)]
    {
        let _ = writeln!(xml, "      <property name=\"{name}\" value=\"{}\"/>", escaped(value));
    }
    xml += "    </properties>\n";
    for test in &run.tests {
        xml += &case(&run.name, test);
    }
    if let Some(problem) = contradiction {
        let (name, problem) = (escaped(&run.name), escaped(&problem));
        let _ = writeln!(
            xml,
            "    <testcase classname=\"{name}\" name=\"run\" time=\"0.000\">\n      \
             <error type=\"INVALID\" message=\"{problem}\"/>\n    </testcase>"
        );
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

fn case(run: &str, test: &Test) -> String {
    let mut xml = format!(
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\">\n",
        escaped(run),
        escaped(&test.title()),
        seconds(lasted_ns(test))
    );
    let element = match test.state {
        State::Complete => "failure",
        State::Interrupted | State::Aborted => "error",
    };
    if !test.is_stated_valid() {
        let contradiction = test.contradiction();
        let kind = contradiction.as_ref().map_or(&test.verdict[..], |_| Verdict::Invalid.name());
        let first = contradiction.as_ref().or(test.first_reason()).unwrap_or(&test.verdict);
        let _ = writeln!(
            xml,
            "      <{element} type=\"{}\" message=\"{}\">{}</{element}>",
            escaped(kind),
            escaped(first),
            escaped(&test.reasons.join("\n"))
        );
    }
    let _ = writeln!(xml, "      <system-out>{}</system-out>", escaped(&result_lines(test)));
    xml + "    </testcase>\n"
}

/// Returns the result of a test as lines of text.
fn result_lines(test: &Test) -> String {
    let mut lines = vec![format!("verdict: {}", test.verdict)];
    if let Some(result) = &test.result {
        let value = result.value.map_or("-".into(), |value| value.to_string());
        lines.push(format!("{}: {value} {}", result.name, result.unit));
    }
    if let Some(accuracy) = &test.accuracy
        && let (Some(metric), Some(value)) = (&accuracy.metric, accuracy.value)
    {
        lines.push(format!("{metric}: {value}"));
    }
    let texts = |metrics| [answer_lines::classes(metrics), answer_lines::tokens(metrics)];
    lines.extend(test.metrics.iter().flat_map(texts).flatten());
    lines.extend(test.requirements.iter().map(|of| format!("requires {}", of.line())));
    lines.extend(test.notes.iter().cloned());
    lines.join("\n")
}

fn lasted_ns(test: &Test) -> u64 {
    test.metrics.as_ref().map_or(0, |metrics| metrics.lasted_ns)
}

fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

/// Escapes a text for XML. Control characters are dropped because XML 1.0 cannot represent them.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped += "&#10;",
            '\t' => escaped += "&#9;",
            '\u{fffe}' | '\u{ffff}' => {}
            c if is_control(c) => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Reason, ReasonKind};

    #[test]
    fn the_message_is_a_reason_of_the_verdict() {
        let mut test = Test::new("Server", "performance");
        let requirement = |text: &str| Reason::new(ReasonKind::Requirement, text);
        test.add_reason(requirement("p99 is undecided").undecided());
        test.add_reason(requirement("p90 is missed"));
        test.settle();
        let xml = case("model", &test);
        let expected = "<failure type=\"INVALID\" message=\"p90 is missed\">p99 is undecided&#10;";
        assert!(xml.contains(expected), "{xml}");
    }

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(
            escaped("a<b> & \"c\"\n\u{1b}[31m\u{202e}"),
            "a&lt;b&gt; &amp; &quot;c&quot;&#10;[31m"
        );
    }
}
