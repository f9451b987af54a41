//! Verdicts of audits, for terminals and as JSON.

use dyno_experiment::audit::ScenarioAudit;
use dyno_results::VERSION;
use dyno_results::summary::DISCLAIMER;
use dyno_results::units::{duration, rate};
use dyno_rules::Version;
use dyno_submission::audit::{AuditResult, AuditTest, Figure, Part, Verdict};
use serde_json::{Value, json};

use super::{Alignment, Color, Frame, painted};

/// The audit that was judged.
pub struct AuditHeading<'a> {
    /// Test of the audit.
    pub test: AuditTest,
    /// Round of the rules.
    pub round: Version,
    /// The audited system.
    pub system: &'a str,
}

/// Returns the verdicts as text.
pub fn text(heading: &AuditHeading<'_>, audited: &[ScenarioAudit], is_colored: bool) -> String {
    let title = format!("dyno {VERSION}, {} of round {}", heading.test, heading.round);
    let mut frame = Frame::new(&title, DISCLAIMER);
    frame.line(&format!("system  {}", heading.system), 8);
    frame.line(&format!("checks  {}", heading.test.title()), 8);
    for one in audited {
        frame.rule();
        frame.line(one.scenario.name(), 0);
        figures(&mut frame, &one.result);
        let verdicts =
            [("by the rules", one.result.corrected()), ("by the script", one.result.official())];
        for (who, verdict) in verdicts {
            let name = verdict_name(&verdict);
            let line = format!("{who:13}  {}", painted(name, color(&verdict), is_colored));
            frame.line(&line, 15);
            for reason in verdict.reasons() {
                frame.line(&format!("{:15}{reason}", ""), 15);
            }
        }
        for note in &one.result.notes {
            frame.line(&format!("note: {note}"), 6);
        }
    }
    frame.rule();
    let all = Verdict::from_reasons(
        audited.iter().flat_map(|one| one.result.corrected().reasons().to_vec()).collect(),
    );
    frame.line(&painted(&verdict_name(&all).to_uppercase(), color(&all), is_colored), 0);
    frame.finish()
}

fn figures(frame: &mut Frame, result: &AuditResult) {
    let of_part = |part: &Part| part.figures.iter().map(row).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = result.parts.iter().flat_map(of_part).collect();
    if !rows.is_empty() {
        frame.table(&[Alignment::Left, Alignment::Right], &rows);
    }
}

fn row(figure: &Figure) -> Vec<String> {
    let value = match figure.unit {
        #[expect(clippy::cast_possible_truncation, reason = "a latency")]
        "ns" => duration(figure.value.round() as i64),
        "/s" => format!("{}/s", rate(figure.value)),
        unit if figure.value.fract() == 0.0 => format!("{} {unit}", figure.value),
        unit => format!("{:.3} {unit}", figure.value),
    };
    vec![figure.name.to_owned(), value.trim_end().to_owned()]
}

fn verdict_name(verdict: &Verdict) -> &'static str {
    if verdict.is_passed() { "passed" } else { "failed" }
}

fn color(verdict: &Verdict) -> Color {
    if verdict.is_passed() { Color::Good } else { Color::Bad }
}

/// Returns the verdicts as JSON.
pub fn json(heading: &AuditHeading<'_>, audited: &[ScenarioAudit]) -> Value {
    let scenarios: Vec<Value> = audited.iter().map(scenario).collect();
    let is_passed = audited.iter().all(|one| one.result.corrected().is_passed());
    json!({
        "audit": heading.test.name(),
        "round": heading.round.to_string(),
        "system": heading.system,
        "passed": is_passed,
        "disclaimer": DISCLAIMER,
        "scenarios": scenarios,
    })
}

fn scenario(audited: &ScenarioAudit) -> Value {
    let part = |part: &Part| {
        let figures = part.figures.iter();
        let figures: Vec<Value> = figures
            .map(
                |figure| json!({ "name": figure.name, "value": figure.value, "unit": figure.unit }),
            )
            .collect();
        json!({
            "name": part.name,
            "corrected": verdict(&part.corrected),
            "official": verdict(&part.official),
            "figures": figures,
        })
    };
    let folders: Vec<String> =
        audited.folders.iter().map(|folder| folder.display().to_string()).collect();
    json!({
        "scenario": audited.scenario.name(),
        "corrected": verdict(&audited.result.corrected()),
        "official": verdict(&audited.result.official()),
        "parts": audited.result.parts.iter().map(part).collect::<Vec<_>>(),
        "notes": audited.result.notes,
        "folders": folders,
    })
}

fn verdict(verdict: &Verdict) -> Value {
    let reasons: Vec<String> = verdict.reasons().iter().map(ToString::to_string).collect();
    json!({ "passed": verdict.is_passed(), "reasons": reasons })
}
