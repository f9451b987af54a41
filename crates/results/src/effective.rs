//! `effective.toml`, the configuration of a run: its file name, and the format of settings.

use dyno_loadgen::settings::{FIELDS, Scenario};

/// File name.
pub const FILE: &str = "effective.toml";

/// Returns whether a setting can affect a scenario.
pub fn is_relevant(key: &str, scenario: Scenario) -> bool {
    let of_one = [
        ("single_stream_", Scenario::SingleStream),
        ("multi_stream_", Scenario::MultiStream),
        ("server_", Scenario::Server),
        ("offline_", Scenario::Offline),
    ];
    of_one.iter().all(|(prefix, owner)| *owner == scenario || !key.starts_with(prefix))
}

/// Returns whether a setting can affect the scenario with this name; true for an unknown scenario.
pub fn is_relevant_to(key: &str, scenario: &str) -> bool {
    Scenario::ALL.iter().all(|s| s.name() != scenario || is_relevant(key, *s))
}

/// Returns a value as TOML: numbers and switches bare, others quoted. Integers beyond 64 bits
/// signed are quoted because TOML does not allow them.
///
/// ```
/// use dyno_results::effective::toml_value;
///
/// assert_eq!(toml_value("a number", "0.5"), "0.5");
/// assert_eq!(toml_value("a text", "poisson"), "\"poisson\"");
/// ```
pub fn toml_value(kind: &str, value: &str) -> String {
    let is_bare = match kind {
        "true or false" => true,
        "a number" => value.parse::<f64>().is_ok_and(f64::is_finite),
        _ => value.parse::<i64>().is_ok(),
    };
    if is_bare && FIELDS.iter().any(|field| field.kind == kind) {
        return value.to_string();
    }
    quoted(value)
}

/// Returns a TOML string. It equals the JSON string except that U+007F is escaped.
pub fn quoted(text: &str) -> String {
    let json = serde_json::to_string(text).expect("a text is JSON");
    json.replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    #[test]
    fn every_text_reads_back() {
        let all: String = ('\0'..=char::MAX).collect();
        let odd =
            ["", "\"", "\\", "\\u0041", "'''", "\"\"\"", "a\r\nb", "# no comment", "e\u{301}"];
        for text in odd.into_iter().chain([&*all]) {
            let file = format!("name = {} # a comment", quoted(text));
            let read = DeTable::parse(&file).expect("it is TOML");
            let value = read.get_ref().get("name").expect("it has the key").get_ref().as_str();
            assert!(value == Some(text), "{}", text.escape_debug());
        }
    }
}
