//! Suggestions for misspelled names.

/// Returns `; the nearest is ...` with the closest known name, or an empty text if all names differ in more
/// than half of the characters.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let word = word.to_lowercase();
    let distance = |name: &str| strsim::osa_distance(&word, &name.to_lowercase());
    let longest = |name: &str| name.chars().count().max(word.chars().count());
    let near = known.min_by_key(|name| distance(name));
    let near = near.filter(|name| 2 * distance(name) <= longest(name));
    near.map_or(String::new(), |near| format!("; the nearest is `{near}`"))
}

/// Returns the end of the message about an unknown name: the nearest known name, and all of them.
pub(crate) fn alternatives<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all: Vec<&str> = known.clone().collect();
    format!("{}; expected one of {}", nearest(word, known), all.join(", "))
}
