//! Finds the name that a misspelled word probably means.

/// Returns the candidate with the smallest edit distance to `word`, in any letter case; `None` if even
/// this one differs in more than half of the characters.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word has no near candidate, and its distances take long.
    let word: String = word.chars().take(LONGEST_WORD).collect();
    let word = word.to_lowercase();
    let distance = |candidate: &str| edit_distance(&word, &candidate.to_lowercase());
    let near = candidates.min_by_key(|candidate| distance(candidate))?;
    let longest = word.chars().count().max(near.chars().count());
    (2 * distance(near) <= longest).then_some(near)
}

/// Returns what an unknown word may mean, as a clause: `the nearest key is ...`, or `expected one of ...`
/// if no candidate is near. `noun` is what the candidates are, such as `key`.
///
/// ```
/// use dyno_loadgen::settings::nearest_or_all;
///
/// let clause = |word| nearest_or_all(word, "key", ["model", "formats"].into_iter());
/// assert_eq!(clause("format"), "the nearest key is `formats`");
/// assert_eq!(clause("zebra"), "expected one of model, formats");
/// ```
pub fn nearest_or_all<'a>(
    word: &str,
    noun: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match nearest(word, candidates.clone()) {
        Some(near) => format!("the nearest {noun} is `{near}`"),
        None => format!("expected one of {}", candidates.collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the nearest candidate if it differs in at most a third of the characters of `word`, and in at
/// most three.
pub fn similar<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = nearest(word, candidates)?;
    let most = word.chars().count().div_ceil(3).min(3);
    (edit_distance(&word.to_lowercase(), &near.to_lowercase()) <= most).then_some(near)
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
        let long = "d".repeat(1_000);
        assert_eq!(similar(&long, names()), None);
        assert_eq!(similar("digits", [].into_iter()), None);
    }

    #[test]
    fn a_distant_name_is_not_the_nearest() {
        let names = || ["mode", "seq", "samples_per_query"].into_iter();
        for (word, expected) in [
            ("foo", None),
            ("zebra", None),
            ("", None),
            ("mod", Some("mode")),
            ("sqe", Some("seq")),
            ("sample_per_qery", Some("samples_per_query")),
        ] {
            assert_eq!(nearest(word, names()), expected, "{word}");
        }
        assert_eq!(nearest("foo", [].into_iter()), None);
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
