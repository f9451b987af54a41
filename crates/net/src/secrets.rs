//! Values of request fields that must not appear in messages.

/// Values shorter than this are not hidden: they are no secrets, and appear by chance.
const SHORTEST: usize = 6;

/// Replaces each value of these fields in a message, such as a token that a server repeats in its error.
/// A token without the `Bearer` before it is replaced as well.
///
/// ```
/// use dyno_net::secrets::hide;
///
/// let fields = [("authorization".to_owned(), "Bearer sesame".to_owned())];
/// assert_eq!(hide("wrong key sesame", &fields), "wrong key ***");
/// ```
#[must_use]
pub fn hide(words: &str, fields: &[(String, String)]) -> String {
    let parts = fields.iter().flat_map(|(_, value)| {
        let token = value.split_once(' ').map(|(_, token)| token.trim());
        std::iter::once(value.as_str()).chain(token)
    });
    hide_values(words, parts)
}

/// Replaces each of these values in a message.
#[must_use]
pub fn hide_values<T: AsRef<str>>(words: &str, values: impl IntoIterator<Item = T>) -> String {
    let mut hidden = words.to_owned();
    for value in values {
        let value = value.as_ref();
        if value.len() >= SHORTEST && hidden.contains(value) {
            hidden = hidden.replace(value, "***");
        }
    }
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_occurrences_of_each_value_are_hidden() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields = [field("authorization", "Bearer sk-123456"), field("x-key", "abcdef")];
        let words = "sk-123456 of Bearer sk-123456, abcdefabcdef";
        assert_eq!(hide(words, &fields), "*** of ***, ******");
        assert_eq!(hide("connection: close", &[field("connection", "close")]), "connection: close");
    }
}
