//! Finds the name that a misspelled word probably means.

/// Returns the candidate with the smallest edit distance to `word`, in any letter case.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word has no near candidate, and its distances take long.
    let word: String = word.chars().take(LONGEST_WORD).collect();
    let word = word.to_lowercase();
    candidates.min_by_key(|candidate| edit_distance(&word, &candidate.to_lowercase()))
}

/// Returns the nearest candidate if it differs in at most a third of the characters of `word`, and in at
/// most three. One character may always differ.
pub fn similar<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = nearest(word, candidates)?;
    let most = (word.chars().count() / 3).clamp(1, 3);
    (edit_distance(&word.to_lowercase(), &near.to_lowercase()) <= most).then_some(near)
}

/// Returns the candidate that `word` probably means: a similar one, or else the shortest one that
/// contains it.
pub fn intended<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    similar(word, candidates.clone()).or_else(|| {
        let word = word.to_lowercase();
        let has_word = |candidate: &&str| word.len() > 3 && candidate.contains(&word);
        candidates.filter(has_word).min_by_key(|candidate| candidate.len())
    })
}

/// Returns the end of the error about an unknown key: the key that it probably means, or else all keys.
pub fn known_keys<'a>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    known_names(key, "key", known)
}

/// Returns the end of the error about an unknown name: the name that it probably means, or else all names.
/// `noun` is what has these names, such as `axis`.
pub fn known_names<'a>(
    name: &str,
    noun: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match intended(name, known.clone()) {
        Some(near) => format!("the nearest {noun} is `{near}`"),
        None => format!("expected one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// Most characters of a word that [`nearest`] compares.
const LONGEST_WORD: usize = 64;

/// Returns the edit distance of two words. Two neighboring characters in the wrong order are one edit.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let substituted = above[j] + usize::from(x != y);
            let mut least = substituted.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_differs_in_few_characters() {
        let names = || ["digits", "null", "onnx", "3d-unet"].into_iter();
        for (word, expected) in [
            ("digitz", Some("digits")),
            ("digtis", Some("digits")),
            ("onx", Some("onnx")),
            ("3dunet", Some("3d-unet")),
            ("ONNX", Some("onnx")),
            ("llama", None),
            ("org", None),
            ("", None),
        ] {
            assert_eq!(similar(word, names()), expected, "{word}");
        }
        assert_eq!(similar("rate", ["data", "mode"].into_iter()), None);
        assert_eq!(similar("RM", ["IC", "RN"].into_iter()), Some("RN"));
        let long = "d".repeat(1_000);
        assert_eq!(similar(&long, names()), None);
        assert_eq!(similar("digits", [].into_iter()), None);
    }

    #[test]
    fn a_key_that_is_like_no_other_is_answered_with_all_keys() {
        let known = || ["max-concurrency", "min-concurrency-of-ramps", "seed"].into_iter();
        for (key, expected) in [
            ("sed", "the nearest key is `seed`"),
            ("concurrency", "the nearest key is `max-concurrency`"),
            ("mean", "expected one of max-concurrency, min-concurrency-of-ramps, seed"),
            ("con", "expected one of max-concurrency, min-concurrency-of-ramps, seed"),
        ] {
            assert_eq!(known_keys(key, known()), expected, "{key}");
        }
    }

    #[test]
    fn two_characters_in_the_wrong_order_are_one_edit() {
        assert_eq!(nearest("modle", ["node", "model"].into_iter()), Some("model"));
        assert_eq!(nearest("rn", ["IC", "MN", "RN"].into_iter()), Some("RN"));
        for (a, b, expected) in [
            ("rnu", "run", 1),
            ("digtis", "digits", 1),
            ("modle", "node", 2),
            ("abc", "ca", 3),
            ("", "ab", 2),
            ("ab", "", 2),
            ("", "", 0),
        ] {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
        }
    }
}
