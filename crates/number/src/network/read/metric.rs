//! Reads the metric of a descriptor and its direction.

use toml::de::DeTable;

use crate::descriptor::Reader;
use crate::metric::{Direction, Hint, Metric};

/// Returns the regular expression of a figure in what `dyno task score --json` prints.
pub(super) fn figure_regex(figure: &str) -> String {
    format!(r#""{figure}"\s*:\s*([-+0-9.eE]+)"#)
}

/// Reads the metric and its direction. Without `direction`, the words of `metric`, of the regular
/// expression and of the network's name decide, if they agree.
pub(super) fn metric(reader: &mut Reader, table: &DeTable<'_>, network: &str) -> Option<Metric> {
    let [metric, regex] = ["metric", "get_result_regex"].map(|key| Reader::item(table, key));
    let name = match metric {
        Some(item) => Some(reader.text(item)?),
        None => None,
    };
    let with = |direction: Direction, is_stated: bool| {
        let default = || match direction {
            Direction::Higher => "accuracy".to_owned(),
            Direction::Lower => "error".to_owned(),
        };
        Some(Metric { name: name.clone().unwrap_or_else(default), direction, is_stated })
    };
    let is_program = Reader::item(table, "cmd_fullset").is_some();
    let scored = name.as_deref().and_then(Metric::scored);
    if is_program && regex.is_none() && scored.is_none() {
        // The missing regular expression is reported where it is read.
        return Some(Metric::default());
    }
    let direction = match Reader::item(table, "direction") {
        Some(item) => match item.value.as_str() {
            Some("higher") => Direction::Higher,
            Some("lower") => Direction::Lower,
            _ => {
                reader.expected(item, "\"higher\" or \"lower\"");
                return None;
            }
        },
        None => {
            let regex_text = regex.and_then(|item| item.value.as_str());
            match hint(name.as_deref(), regex_text, network, is_program) {
                Hint::Known(direction) => direction,
                other => {
                    let (at, key) =
                        metric.or(regex).map_or((0, "metric"), |item| (item.at, item.key));
                    reader.problem(at, key, ambiguity(name.as_deref(), other));
                    return None;
                }
            }
        }
    };
    let stated = Reader::item(table, "direction").or(metric);
    if let (Some(item), Direction::Lower, false) = (stated, direction, is_program) {
        let problem = "the built-in engine counts correct answers, for which higher is better: \
                       remove it, or measure with `cmd_fullset`";
        reader.problem(item.at, item.key, problem);
        return None;
    }
    // With a regular expression, any figure may be read instead of that of the method.
    let is_method = scored.is_some() && regex.is_none();
    with(direction, is_method || Reader::item(table, "direction").is_some())
}

/// Returns what names say about the direction of a metric.
fn hint(name: Option<&str>, regex: Option<&str>, network: &str, is_program: bool) -> Hint {
    let of_regex = Hint::from_text(regex.unwrap_or_default());
    match name {
        Some(name) => match (Metric::scored(name), Hint::from_text(name)) {
            (Some((_, direction)), _) if regex.is_none() => Hint::Known(direction),
            (None, Hint::Known(direction)) => match of_regex {
                Hint::Known(other) if other != direction => Hint::Both,
                _ => Hint::Known(direction),
            },
            // The regular expression decides which figure of a method is read.
            _ => of_regex,
        },
        None if is_program => of_regex.join(Hint::from_text(network)),
        // The engine inside counts right answers.
        None => Hint::Known(Direction::Higher),
    }
}

fn ambiguity(name: Option<&str>, hint: Hint) -> String {
    let why = match (name, hint) {
        (Some(name), Hint::Both) => {
            format!(
                "{name:?} and `get_result_regex` have words of an accuracy and of an error rate"
            )
        }
        (Some(name), _) => format!("{name:?} does not state whether more or less of it is better"),
        (None, Hint::Both) => {
            "this and `name` have words of an accuracy and of an error rate".to_owned()
        }
        (None, _) => "it names no metric whose direction is known".to_owned(),
    };
    format!(
        "{why}; write `direction = \"higher\"` for an accuracy, or `direction = \"lower\"` for an error \
         rate"
    )
}
