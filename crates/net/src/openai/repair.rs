//! JSON that is invalid for reasons that do not concern its content.

use serde::Deserialize;

use crate::oip::with_quoted_numbers;

/// Parses JSON. If its syntax is invalid, this parses what [`repaired`] returns, which is kept in `repair`.
/// Returns `None` if that is invalid, too, or if the JSON is cut off or has members of other types.
pub(super) fn parsed<'a, T: Deserialize<'a>>(json: &'a [u8], repair: &'a mut Vec<u8>) -> Option<T> {
    match serde_json::from_slice(json) {
        Ok(value) => Some(value),
        Err(error) if error.is_syntax() => {
            *repair = repaired(json);
            serde_json::from_slice(repair).ok()
        }
        Err(_) => None,
    }
}

/// Returns JSON with U+FFFD in place of halves of characters, and with strings in place of numbers that are
/// not finite. Servers write halves of byte tokens, gateways cut texts within a surrogate pair, and
/// logarithms of probabilities may be infinite.
fn repaired(json: &[u8]) -> Vec<u8> {
    let text = without_lone_surrogates(&String::from_utf8_lossy(json));
    with_quoted_numbers(text.as_bytes()).unwrap_or_else(|| text.into_bytes())
}

/// Bytes of the escape of a UTF-16 unit, such as `\ud83d`.
const UNIT: usize = 6;

fn without_lone_surrogates(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match (unit(escape), escape.get(UNIT..).and_then(unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 2 * UNIT,
            (Some(0xd800..0xe000), _) => {
                out.push('\u{fffd}');
                rest = &escape[UNIT..];
                continue;
            }
            _ => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    out.push_str(rest);
    out
}

/// Returns the UTF-16 unit of an escape at the begin of a text.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_syntax_is_repaired() {
        for (json, expected, is_repaired) in [
            ("[\"a\"]", Some("a"), false),
            ("[\"\\ud83d\"]", Some("\u{fffd}"), true),
            ("[NaN]", Some("NaN"), true),
            ("[7]", None, false),
            ("[\"a\"", None, false),
        ] {
            let mut repair = Vec::new();
            let found: Option<Vec<String>> = parsed(json.as_bytes(), &mut repair);
            assert_eq!(found, expected.map(|text| vec![text.to_owned()]), "{json}");
            assert_eq!(!repair.is_empty(), is_repaired, "{json}");
        }
    }

    #[test]
    fn half_a_pair_is_replaced_and_nothing_else() {
        for (text, expected) in [
            (r#""a\ud83d""#, "\"a\u{fffd}\""),
            (r#""\ude00b""#, "\"\u{fffd}b\""),
            (r#""\ud83d\ud83d\ude00\u0041""#, "\"\u{fffd}\\ud83d\\ude00\\u0041\""),
            (r#""\\ud83d\n\"é\é""#, r#""\\ud83d\n\"é\é""#),
            (r"\ud83", r"\ud83"),
            (r"\", r"\"),
        ] {
            assert_eq!(without_lone_surrogates(text), expected);
        }
    }
}
