//! The grammar of `tokens:`: text whose tokens arrive at given times, for clients of language
//! models.

use std::path::Path;
use std::time::Duration;

use dyno_loadgen::settings::known_keys;
use dyno_net::serve::{Pace, Text, Tokens};
use dyno_results::units::parse_duration;
use dyno_tensors::files;
use serde::Deserialize;

use crate::failure::Failure;

const KEYS: [&str; 6] = ["first", "each", "tokens", "slots", "text", "replay"];

/// Default number of tokens of an answer.
const TOKENS_DEFAULT: u64 = 64;

/// Operand of `tokens:`.
#[derive(Debug, PartialEq, Eq)]
struct Spec {
    pace: Pace,
    slots: usize,
    text: Text,
    replay: Option<String>,
}

/// Loads the operand of `tokens:`; at most `waiting` requests wait while all slots are in use.
///
/// # Errors
/// The operand is invalid.
pub fn load(text: &str, waiting: usize) -> Result<Tokens, Failure> {
    let spec = parse(text).map_err(|why| {
        Failure::usage(format!("system `tokens:{text}`: {why}"))
            .hint("for example tokens:first=50ms,each=10ms,tokens=128,slots=8")
    })?;
    let paces = match &spec.replay {
        None => vec![spec.pace],
        Some(path) => replay(Path::new(path), &spec.pace)?,
    };
    Ok(Tokens::new(spec.text, paces, spec.slots, waiting))
}

fn parse(text: &str) -> Result<Spec, String> {
    let pace = Pace { first: Duration::ZERO, gaps: Vec::new(), tokens: TOKENS_DEFAULT };
    let mut spec = Spec { pace, slots: usize::MAX, text: Text::Words, replay: None };
    let mut seen = Vec::new();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| format!("expected key=value, found `{option}`"))?;
        if seen.contains(&key) {
            return Err(format!("`{key}` is given twice"));
        }
        seen.push(key);
        let time = || parse_duration(value).map(Duration::from_nanos);
        let count = || {
            let count = value.parse::<u64>().ok().filter(|count| *count > 0);
            count.ok_or_else(|| format!("expected a number from 1 on for `{key}`, found `{value}`"))
        };
        match key {
            "first" => spec.pace.first = time()?,
            "each" => spec.pace.gaps = vec![time()?],
            "tokens" => spec.pace.tokens = count()?,
            "slots" => spec.slots = usize::try_from(count()?).unwrap_or(usize::MAX),
            "text" => {
                spec.text = match value {
                    "words" => Text::Words,
                    "echo" => Text::Echo,
                    _ => return Err(format!("expected text=words or text=echo, found `{value}`")),
                }
            }
            "replay" => spec.replay = Some(value.to_owned()),
            _ => {
                let known = known_keys(key, KEYS.into_iter());
                return Err(format!("unknown key `{key}`; {known}"));
            }
        }
    }
    Ok(spec)
}

/// A line of the file of `replay=`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    first_ms: f64,
    #[serde(default)]
    gaps_ms: Vec<f64>,
    tokens: Option<u64>,
}

/// Returns the paces of a file, one answer per line.
fn replay(path: &Path, otherwise: &Pace) -> Result<Vec<Pace>, Failure> {
    let text = files::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let paces = lines.map(|(number, line)| {
        pace(line, otherwise).map_err(|why| {
            Failure::usage(format!("{}:{}: {why}", path.display(), number + 1)).hint(
                "a line is such as {\"first_ms\": 52.5, \"gaps_ms\": [9.8, 10.1], \"tokens\": 3}",
            )
        })
    });
    let paces = paces.collect::<Result<Vec<_>, _>>()?;
    if paces.is_empty() {
        Err(Failure::usage(format!("{} has no lines", path.display())))
    } else {
        Ok(paces)
    }
}

fn pace(line: &str, otherwise: &Pace) -> Result<Pace, String> {
    let Line { first_ms, gaps_ms, tokens } =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    let time = |ms: f64| {
        Duration::try_from_secs_f64(ms / 1e3)
            .map_err(|_| format!("expected a time of 0 ms or more, found {ms}"))
    };
    let gaps = gaps_ms.iter().map(|ms| time(*ms)).collect::<Result<Vec<_>, _>>()?;
    // Without a count, the number of tokens follows from the gaps between them.
    let counted = (!gaps.is_empty()).then_some(gaps.len() as u64 + 1);
    let tokens = tokens.or(counted).unwrap_or(otherwise.tokens);
    Ok(Pace { first: time(first_ms)?, gaps, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_has_times_and_counts() {
        let spec = parse("first=50ms,each=10ms,tokens=3,slots=2,text=echo").unwrap();
        let ms = Duration::from_millis;
        assert_eq!(spec.pace, Pace { first: ms(50), gaps: vec![ms(10)], tokens: 3 });
        assert_eq!((spec.slots, spec.text), (2, Text::Echo));
        for (text, expected) in [
            ("50ms", "expected key=value, found `50ms`"),
            ("tokens=0", "expected a number from 1 on for `tokens`, found `0`"),
            ("frist=1s", "unknown key `frist`; the nearest key is `first`"),
            ("text=lorem", "expected text=words or text=echo, found `lorem`"),
            ("slots=2,slots=3", "`slots` is given twice"),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_replayed_answer_has_the_times_of_its_line() {
        let otherwise = parse("").unwrap().pace;
        let ms = Duration::from_millis;
        let of = |line: &str| pace(line, &otherwise);
        let found = of(r#"{"first_ms": 20, "gaps_ms": [1, 2]}"#).unwrap();
        assert_eq!(found, Pace { first: ms(20), gaps: vec![ms(1), ms(2)], tokens: 3 });
        assert_eq!(of(r#"{"first_ms": 20}"#).unwrap().tokens, TOKENS_DEFAULT);
        assert!(of(r#"{"first_ms": -1}"#).unwrap_err().contains("found -1"));
        assert!(of(r#"{"frist_ms": 1}"#).unwrap_err().contains("unknown field"));
    }
}
