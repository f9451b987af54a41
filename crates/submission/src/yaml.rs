//! Reader of YAML within limits. An alias (`*NAME`) repeats what its anchor (`&NAME`) has, so that a small
//! file can have very many values.

use serde::de::DeserializeOwned;

/// Maximum bytes of a text.
const LONGEST: usize = 1 << 20;

/// Maximum bytes of a text with aliases. The parser permits a hundred repetitions for each of its elements.
const LONGEST_WITH_ALIASES: usize = 32 << 10;

/// Returns the document of a text.
///
/// # Errors
/// Why the text cannot be read.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let has_aliases = text.contains('&') && text.contains('*');
    let (most, with) =
        if has_aliases { (LONGEST_WITH_ALIASES, " and has aliases") } else { (LONGEST, "") };
    if text.len() > most {
        return Err(format!("it is larger than {most} bytes{with}"));
    }
    serde_norway::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_norway::Value;

    use super::*;

    #[test]
    fn aliases_are_read_in_small_files_only() {
        let text = |aliases| format!("a: &a [1, 2]\nb:\n{}", "- *a\n".repeat(aliases));
        let read: Value = from_text(&text(3)).unwrap();
        assert_eq!(read["b"].as_sequence().unwrap().len(), 3);
        let error = from_text::<Value>(&text(10_000)).unwrap_err();
        assert_eq!(error, "it is larger than 32768 bytes and has aliases");
        let plain = |values: usize| format!("b:\n{}", "- 1\n".repeat(values));
        assert!(from_text::<Value>(&plain(10_000)).is_ok());
        let error = from_text::<Value>(&plain(300_000)).unwrap_err();
        assert_eq!(error, "it is larger than 1048576 bytes");
    }
}
