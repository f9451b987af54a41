//! The summary of a run against its detail log.

use std::borrow::Cow;

use dyno_loadgen::log::read::{Number, Value, disagreements_with, read_summary};

use crate::submission::check::catalogue::{RUN_SUMMARY, RUN_SUMMARY_EMPTY};
use crate::submission::check::issues::{At, Issues};
use crate::submission::facts::detail::DetailLog;
use crate::submission::facts::text;
use crate::submission::tree::Node;

use super::logs::Purpose;

/// More disagreements of one summary are not listed.
const LISTED: usize = 4;

/// Every field that both logs have must be the same in both.
pub(super) fn check(file: Node<'_>, log: &DetailLog, purpose: Purpose, issues: &mut Issues) {
    let path = file.path();
    let at = At::path(&path);
    let said = match text::read(Some(file)) {
        Ok(said) => said,
        Err(why) => return issues.add(&RUN_SUMMARY_EMPTY, at, format!("cannot be read: {why:?}")),
    };
    let (summary, _) = read_summary(&said.text);
    // Of an accuracy run it says only how many warnings and errors there were.
    if purpose == Purpose::Performance && summary.value("Result is").is_none() {
        return issues.add(&RUN_SUMMARY_EMPTY, at, "is no summary of a run");
    }
    let known = |key: &str| value(&log.find(key)?.value).map(Cow::Owned);
    let found = disagreements_with(&summary, known);
    for one in found.iter().take(LISTED) {
        let message = format!(
            "`{}` is {}, in the detail log {} is {}",
            one.label, one.summary, one.key, one.detail
        );
        issues.add_expected(&RUN_SUMMARY, at.line(Some(one.line)), message, one.detail.clone());
    }
    if found.len() > LISTED {
        let message = format!("{} more fields differ from the detail log", found.len() - LISTED);
        issues.add(&RUN_SUMMARY, at, message);
    }
    let counted = log.whole("num_errors");
    if let Some((told, counted)) =
        summary.errors.zip(counted).filter(|(told, counted)| told != counted)
    {
        let message = format!("counts {told} errors, the detail log {counted}");
        issues.add(&RUN_SUMMARY, at, message);
    }
}

/// A value as the reader of logs has it.
fn value(value: &serde_json::Value) -> Option<Value> {
    Some(match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => Value::Number(Number { text: number.to_string() }),
        serde_json::Value::String(text) => Value::Text(text.clone()),
        // No field of the summary is one.
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => return None,
    })
}
