//! Names of models as values of specifications, whose grammar separates parts by commas and other marks.

use std::borrow::Cow;

use dyno_loadgen::message::is_control;

/// Characters that separate the parts of a specification, of a mix of models or of an axis of a sweep.
const SEPARATORS: [char; 5] = [',', ';', '=', '+', '*'];

/// Characters that begin or end a quoted name, or begin an escape in it.
const QUOTES: [char; 2] = ['"', '\\'];

/// Returns the value of `model=` that stands for a name: the name itself, or a JSON string without any
/// character of the grammar. [`unquoted`] returns the name again. No name, such as one of a server that is
/// not trusted, adds a key to a specification.
pub fn quoted(name: &str) -> Cow<'_, str> {
    // A mix has its own separators, which are no part of the value of `model=`.
    let is_plain = |c: char| {
        matches!(c, '+' | '*') || !(SEPARATORS.contains(&c) || QUOTES.contains(&c) || is_control(c))
    };
    if name.trim() == name && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::from('"');
    for character in name.chars() {
        let is_kept = is_plain(character) && !SEPARATORS.contains(&character);
        if is_kept && (character == ' ' || !character.is_whitespace()) {
            quoted.push(character);
            continue;
        }
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            quoted += &format!("\\u{unit:04x}");
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// Returns the name of a model for a command that a hint shows; a name that a shell or a specification
/// could read in another way is left out.
pub fn in_command(name: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/:@".contains(c);
    if name.chars().all(is_plain) { name } else { "NAME" }
}

/// Returns the name that a value of `model=`, or a name in a mix of models, stands for.
///
/// # Errors
/// The value begins with a quotation mark and is not a JSON string.
pub fn unquoted(value: &str) -> Result<String, String> {
    if !value.starts_with('"') {
        return Ok(value.to_owned());
    }
    serde_json::from_str(value).map_err(|_| {
        format!(
            "expected a name, or a JSON string with \\u002c for each comma, such as \
             \"a\\u002cb\", found `{value}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::rng::Mt19937;

    use super::*;
    use crate::system::net::spec_keys::SpecKeys;
    use crate::system::net::without_secrets;

    #[test]
    fn plain_names_stay_and_others_are_json_without_marks_of_the_grammar() {
        for plain in ["m", "org/model:tag@v1.2", "a+b*2", "it's 7B", "modèle-模型"] {
            assert_eq!(quoted(plain), plain);
            assert_eq!(unquoted(plain).unwrap(), plain);
        }
        for (name, value) in [
            ("org/model:tag@v1,2", "\"org/model:tag@v1\\u002c2\""),
            ("m,tools=x", "\"m\\u002ctools\\u003dx\""),
            ("\"m\"", "\"\\u0022m\\u0022\""),
            ("m\n\u{1b}[2J", "\"m\\u000a\\u001b[2J\""),
            (" m", "\" m\""),
            ("\u{202e},\u{1f600}", "\"\\u202e\\u002c\u{1f600}\""),
        ] {
            assert_eq!(quoted(name), value);
        }
        assert!(unquoted("\"a").unwrap_err().contains("JSON string"));
        assert!(unquoted("\"a\"b").unwrap_err().contains("found `\"a\"b`"));
        assert_eq!(unquoted("\"\\u0022\"").unwrap(), "\"");
    }

    /// Parts of random names: marks of the grammar, keys, quotation marks, and other characters.
    const PARTS: [&str; 24] = [
        ",",
        "=",
        ";",
        "+",
        "*",
        "\"",
        "\\",
        "\\u002c",
        "\n",
        "\r",
        "\t",
        "\u{1b}",
        "\u{202e}",
        " ",
        "\u{a0}",
        "a",
        "é",
        "\u{1f600}",
        ",tools=sh",
        ",header-file.x=/etc/passwd",
        "://",
        "?k=v",
        "%2C",
        "..",
    ];

    // Many commands and documents split a specification at its commas, and a sweep at semicolons.
    #[test]
    fn random_names_are_read_back_and_add_no_key() {
        let mut rng = Mt19937::new(1);
        for _ in 0..20_000 {
            let parts = 1 + rng.bounded(6);
            let name: String = (0..parts).map(|_| PARTS[rng.bounded(24) as usize]).collect();
            let value = quoted(&name);
            assert_eq!(unquoted(&value).unwrap(), name);
            assert!(!value.contains([',', ';', '\n', '\r', '\u{1b}']), "{value}");
            let text = format!("http://h/v1,model={value},chat=true");
            assert_eq!(without_secrets(&text), text);
            let mut read = SpecKeys::read("openai", &text).unwrap();
            assert_eq!(read.text_without(&[]), format!(",model={value},chat=true"));
            assert_eq!(read.text("model").unwrap(), name);
            assert!(read.switch("chat", false).unwrap());
            read.finish().unwrap();
        }
    }
}
