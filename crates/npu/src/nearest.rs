//! Suggestions for misspelled names.

/// Returns `; the nearest is ...` with the closest known name, or an empty text if no name is known.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let word = word.to_lowercase();
    let near = known.min_by_key(|name| strsim::osa_distance(&word, &name.to_lowercase()));
    near.map_or(String::new(), |near| format!("; the nearest is `{near}`"))
}

/// Returns the end of the message about an unknown name: the nearest known name, and all of them.
pub(crate) fn alternatives<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all: Vec<&str> = known.clone().collect();
    format!("{}; expected one of {}", nearest(word, known), all.join(", "))
}
