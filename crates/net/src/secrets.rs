//! Secrets of requests, which must not appear in messages.

mod encoded;

use crate::base64::{base64, decode};
use crate::percent::PercentEncoding;

/// Values shorter than this are not hidden: they are no secrets, and appear by chance.
const SHORTEST: usize = 6;

/// Names of header fields whose values are no secrets; all others may be.
const PUBLIC_FIELDS: [&str; 5] =
    ["accept", "accept-language", "anthropic-version", "content-type", "user-agent"];

/// Returns whether the value of a header field may be a secret.
pub fn is_secret_field(name: &str) -> bool {
    !PUBLIC_FIELDS.iter().any(|public| name.eq_ignore_ascii_case(public))
}

/// Replaces each value of these header fields, and each of these other secrets, in a message, such as a
/// token that a server repeats in its error. A token without the `Bearer` before it is replaced as well, and
/// so are the values of cookies and of other parameters without their names, and a password of `Basic`. So
/// are the forms in which a server may repeat a whole value: with any characters as HTML entities, JSON
/// escapes or percent-encoded, in hexadecimal digits, and in Base64, also within a longer text in Base64.
/// The beginning of a value is replaced where a text was shortened; other parts of a value are not.
///
/// ```
/// use dyno_net::secrets::hide;
///
/// let fields = [("authorization".to_owned(), "Bearer sesame".to_owned())];
/// assert_eq!(hide("wrong key sesame", &fields, &[]), "wrong key ***");
/// ```
pub fn hide(words: &str, fields: &[(String, String)], secrets: &[String]) -> String {
    let secret_fields = fields.iter().filter(|(name, _)| is_secret_field(name));
    let parts: Vec<String> = secret_fields.flat_map(|(_, value)| parts_of_field(value)).collect();
    let mut hidden = words.to_owned();
    let values = fields.iter().map(|(_, value)| value).chain(&parts).chain(secrets);
    let values = values.map(String::as_str).filter(|value| value.len() >= SHORTEST);
    let values: Vec<&str> = values.collect();
    let mut forms: Vec<String> = values.iter().flat_map(|value| forms(value)).collect();
    // A secret may be part of another one.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    for form in &forms {
        if hidden.contains(form.as_str()) {
            hidden = hidden.replace(form.as_str(), "***");
        }
    }
    let hidden = without_signatures(encoded::without_encoded(hidden, &values));
    if forms.is_empty() { hidden } else { without_beginnings(&hidden, &forms) }
}

/// Returns the parts of a header field that a server may repeat alone: what follows the scheme of a login, the
/// values of parameters such as those of cookies, and both parts of a login in Base64.
fn parts_of_field(value: &str) -> Vec<String> {
    let login = value.split_once(' ');
    let token = login.map(|(_, token)| token.trim().to_owned());
    let parameters = value.split([';', ',', ' ']).filter_map(|part| part.split_once('='));
    let parameters = parameters.map(|(_, value)| value.trim().trim_matches('"').to_owned());
    let basic = login.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
    let pair = basic.and_then(|(_, digits)| String::from_utf8(decode(digits)?).ok());
    let password = pair.as_ref().and_then(|pair| Some(pair.split_once(':')?.1.to_owned()));
    token.into_iter().chain(parameters).chain(pair).chain(password).collect()
}

/// Replaces the signatures of requests (SigV4): hexadecimal digits after the word, an equals sign in any
/// form between them.
fn without_signatures(mut text: String) -> String {
    const WORD: &str = "Signature";
    /// Digits that are replaced; a signature has 64, unless the text was cut off.
    const FEWEST: usize = 16;
    /// Longest form of an equals sign, with a quotation mark.
    const LONGEST_SIGN: usize = 8;
    let mut from = 0;
    while let Some(at) = text[from..].find(WORD) {
        from += at + WORD.len();
        let digits_from = |begin: usize| {
            let rest = text.as_bytes()[begin..].iter();
            rest.take_while(|byte| byte.is_ascii_hexdigit()).count()
        };
        let begins = from..text.len().min(from + LONGEST_SIGN);
        let mut found = begins.map(|begin| (begin, digits_from(begin)));
        let found = found.find(|(_, digits)| *digits >= FEWEST);
        if let Some((begin, digits)) = found {
            text.replace_range(begin..begin + digits, "***");
        }
    }
    text
}

/// Replaces beginnings of secrets before each mark of a shortened text, which other words may follow.
fn without_beginnings(text: &str, forms: &[String]) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(CUT) {
        let kept = &rest[..at];
        match forms.iter().filter_map(|form| begun_at(kept, form)).min() {
            Some(begun) => shown.extend([&kept[..begun], "***"]),
            None => shown.push_str(kept),
        }
        shown.push_str(CUT);
        rest = &rest[at + CUT.len()..];
    }
    shown.push_str(rest);
    shown
}

/// End of a text that was shortened. Code that shortens a text of a server appends it, so that [`hide`] finds
/// a secret that was cut off.
pub(crate) const CUT: &str = "...";

/// Returns where a text ends with the beginning of a secret, of at least four characters.
fn begun_at(text: &str, secret: &str) -> Option<usize> {
    let lengths = secret.char_indices().map(|(at, _)| at).filter(|&at| at >= 4);
    let longest = lengths.filter(|&at| text.ends_with(&secret[..at])).max()?;
    Some(text.len() - longest)
}

/// Returns the forms of a value that are replaced.
fn forms(value: &str) -> Vec<String> {
    let json = serde_json::to_string(value).unwrap_or_default();
    let json = json[1..json.len() - 1].to_owned();
    let ascii = |text: &str| {
        let mut escaped = String::new();
        for character in text.chars() {
            if character.is_ascii() {
                escaped.push(character);
            } else {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    escaped += &format!("\\u{unit:04x}");
                }
            }
        }
        escaped
    };
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let html = html.replace('"', "&quot;");
    let percent = PercentEncoding(value.as_bytes()).to_string();
    let mut forms = vec![
        value.to_owned(),
        ascii(&json),
        json.replace('/', "\\/"),
        ascii(&json.replace('/', "\\/")),
        json,
        html.replace('\'', "&#39;"),
        html.replace('\'', "&#x27;"),
        html,
        lower_escapes(&percent),
        percent.replace("%20", "+"),
        percent,
        value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        value.bytes().map(|byte| format!("{byte:02X}")).collect(),
    ];
    for text in base64_forms(value.as_bytes()) {
        forms.extend([text.replace('+', "-").replace('/', "_"), text]);
    }
    forms.sort();
    forms.dedup();
    forms
}

/// Returns a value in Base64 as in the header field of a login, without padding, and as it occurs after one
/// or two other bytes: the digits that depend on the value alone.
fn base64_forms(value: &[u8]) -> Vec<String> {
    let whole = base64(value);
    let mut forms = vec![whole.trim_end_matches('=').to_owned(), whole];
    for before in 0..3 {
        let text = base64(&[&[0_u8; 2][..before], value].concat());
        let (begin, end) = ((before * 8).div_ceil(6), (before + value.len()) * 8 / 6);
        forms.push(text[begin..end].to_owned());
    }
    forms
}

/// Returns a percent-encoded text with digits in lower case.
fn lower_escapes(percent: &str) -> String {
    let mut parts = percent.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        lower += &format!("%{}{rest}", digits.to_ascii_lowercase());
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_in_which_servers_repeat_a_value_are_hidden() {
        let secret = r#"Wal/rus+5=="\u{e4}<"#.replace("\\u{e4}", "\u{e4}");
        let secrets = [secret.clone()];
        for form in [
            secret.clone(),
            "Wal%2Frus%2B5%3D%3D%22%C3%A4%3C".into(),
            "Wal%2frus%2b5%3d%3d%22%c3%a4%3c".into(),
            r#"Wal\/rus+5==\"\u00e4<"#.into(),
            "Wal/rus+5==&quot;\u{e4}&lt;".into(),
        ] {
            let words = format!("no such key: {form} (401)");
            assert_eq!(hide(&words, &[], &secrets), "no such key: *** (401)", "{form}");
        }
        let cut = format!("{}{}...", "p".repeat(190), "Wal/rus");
        assert!(hide(&cut, &[], &secrets).ends_with("ppp***..."));
        assert_eq!(hide("a wall...", &[], &secrets), "a wall...");
        let within = "it begins with \"HTTP/9 Wal/ru...\"; a Wal/r... and more";
        let shown = "it begins with \"HTTP/9 ***...\"; a ***... and more";
        assert_eq!(hide(within, &[], &secrets), shown);
    }

    /// The encoded texts are those of Python's `base64`, `bytes.hex`, `html` and `urllib.parse`.
    #[test]
    fn encoded_values_are_hidden() {
        let secret = ["sesame>?".to_owned()];
        for (text, expected) in [
            ("&#115;&#101;&#115;&#97;&#109;&#101;&#62;&#63;.", "***."),
            ("&#x73;&#x65;&#x73;&#x61;&#x6D;&#X65;&#x3e;&#x003F;.", "***."),
            ("a sesame&gt;&quest; b", "a *** b"),
            ("a sesame&#62;? b &amp; c", "a *** b &amp; c"),
            ("736573616d653e3f", "***"),
            ("0x736573616D653E3F.", "0x***."),
            ("c2VzYW1lPj8=", "***"),
            ("c2VzYW1lPj8.", "***."),
            ("user:c2VzYW1lPj8", "user:***"),
            // `user:sesame>?`
            ("dXNlcjpzZXNhbWU+Pw==", "dXNlcjp***w=="),
            ("dXNlcjpzZXNhbWU-Pw", "dXNlcjp***w"),
            // `xsesame>?yz`
            ("eHNlc2FtZT4/eXo=", "eH***eXo="),
            ("eHNlc2FtZT4_eXo", "eH***eXo"),
            ("sesame%3e?", "***"),
            ("%73esame>%3F", "***"),
            ("sesame\\u003e?", "***"),
            ("sesame\\x3e\\x3f\\n", "***\\n"),
            ("sesame&gt;", "sesame&gt;"),
            ("100 % &unknown; &#; \\u12 %zz", "100 % &unknown; &#; \\u12 %zz"),
        ] {
            assert_eq!(hide(text, &[], &secret), expected, "{text}");
        }
    }

    #[test]
    fn signatures_of_requests_are_hidden() {
        let digits = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
        let all =
            |sign: &str, digits: &str| format!("Credential=A, Signature{sign}{digits}; Signature");
        for sign in ["=", "%3D", ": ", "\\u003d", "=\""] {
            let hidden = hide(&all(sign, digits), &[], &[]);
            assert!(!hidden.contains(&digits[2..]), "{hidden}");
            assert!(hidden.contains("***; Signature"), "{hidden}");
        }
        let other = all("=", "5fa00fa3");
        assert_eq!(hide(&other, &[], &[]), other);
    }

    #[test]
    fn all_occurrences_of_each_value_are_hidden() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields = [field("authorization", "Bearer sk-123456"), field("x-key", "abcdef")];
        let words = "sk-123456 of Bearer sk-123456, abcdefabcdef";
        assert_eq!(hide(words, &fields, &[]), "*** of ***, ******");
        // `user:open sesame` in Base64 by Python.
        let fields = [
            field("cookie", "id=7; sid=abcdefgh; theme=\"dark-blue\""),
            field("authorization", "Basic dXNlcjpvcGVuIHNlc2FtZQ=="),
            field("accept", "text/plain; version=20240101"),
        ];
        let words = "no session abcdefgh in dark-blue, not open sesame, user:open sesame; 20240101";
        let shown = "no session *** in ***, not ***, ***; 20240101";
        assert_eq!(hide(words, &fields, &[]), shown);
        assert_eq!(
            hide("connection: close", &[field("connection", "close")], &[]),
            "connection: close"
        );
    }
}
