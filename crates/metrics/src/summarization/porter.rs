//! Stems of English words, so that *inflections* and *inflected* count as one word.
//!
//! Source: Porter, *An algorithm for suffix stripping*, Program 14(3), 1980, with the changes that
//! NLTK's `PorterStemmer`, which the accuracy scripts call, makes by default. Step numbers are the
//! paper's.

/// Words that the rules stem wrongly, and their stems.
const IRREGULAR: [(&str, &str); 16] = [
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// Step 2 applies to words whose remainder has a measure above 0, except for `logi`.
const STEP_2: [(&str, &str); 21] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
];

/// Step 3 applies to words whose remainder has a measure above 0.
const STEP_3: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// Step 4 removes suffixes of words whose remainder has a measure above 1.
const STEP_4: [&str; 19] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

/// Returns the stem of a word, which must consist of lower-case letters and digits.
///
/// ```
/// use dyno_metrics::summarization::porter::stem;
///
/// assert_eq!(stem("inflections"), stem("inflected"));
/// assert_eq!(stem("ponies"), "poni");
/// ```
pub fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_owned();
    }
    if word.len() <= 2 {
        return word.to_owned();
    }
    let word = step_1c(step_1b(step_1a(word)));
    step_5(step_4(step_3(step_2(word))))
}

/// Returns for each letter whether it is a consonant. A `y` is a consonant at the beginning and
/// after a vowel.
fn consonants(word: &str) -> Vec<bool> {
    let mut kinds: Vec<bool> = Vec::with_capacity(word.len());
    for letter in word.bytes() {
        kinds.push(match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => kinds.last().is_none_or(|is_consonant| !is_consonant),
            _ => true,
        });
    }
    kinds
}

/// Returns the number of vowels that a consonant follows.
fn measure(word: &str) -> usize {
    consonants(word).windows(2).filter(|pair| !pair[0] && pair[1]).count()
}

fn has_vowel(word: &str) -> bool {
    consonants(word).contains(&false)
}

/// Returns whether the word ends with a double consonant: `*d` of the paper.
fn ends_double(word: &str) -> bool {
    let letters = word.as_bytes();
    let kinds = consonants(word);
    letters.len() >= 2
        && letters[letters.len() - 1] == letters[letters.len() - 2]
        && kinds[kinds.len() - 1]
}

/// Returns whether the word ends with consonant, vowel, and consonant other than w, x and y: `*o`
/// of the paper. A word of two letters qualifies with vowel and consonant.
fn ends_short(word: &str) -> bool {
    match consonants(word).as_slice() {
        [false, true] => true,
        [.., true, false, true] => !word.ends_with(['w', 'x', 'y']),
        _ => false,
    }
}

fn step_1a(word: &str) -> String {
    let rules = [("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")];
    if word.len() == 4 && word.ends_with("ies") {
        return word[..3].to_owned();
    }
    let replace = |(suffix, replacement): &(&str, &str)| {
        Some(word.strip_suffix(suffix)?.to_owned() + replacement)
    };
    rules.iter().find_map(replace).unwrap_or_else(|| word.to_owned())
}

fn step_1b(word: String) -> String {
    if let Some(rest) = word.strip_suffix("ied") {
        return rest.to_owned() + if rest.len() == 1 { "ie" } else { "i" };
    }
    if let Some(rest) = word.strip_suffix("eed") {
        return if measure(rest) > 0 { rest.to_owned() + "ee" } else { word };
    }
    let cut = |suffix| word.strip_suffix(suffix).filter(|rest| has_vowel(rest));
    let Some(rest) = cut("ed").or_else(|| cut("ing")) else { return word };
    if ["at", "bl", "iz"].iter().any(|suffix| rest.ends_with(suffix)) {
        return rest.to_owned() + "e";
    }
    if ends_double(rest) {
        let keeps_both = rest.ends_with(['l', 's', 'z']);
        return rest[..rest.len() - usize::from(!keeps_both)].to_owned();
    }
    rest.to_owned() + if measure(rest) == 1 && ends_short(rest) { "e" } else { "" }
}

/// Replaces a final `y` by `i` after a consonant, unless that is the whole remainder.
fn step_1c(word: String) -> String {
    let rest = word.strip_suffix('y').filter(|rest| rest.len() > 1);
    match rest.filter(|rest| consonants(rest).last() == Some(&true)) {
        Some(rest) => rest.to_owned() + "i",
        None => word,
    }
}

/// Replaces the first matching suffix, if its remainder has a measure above 0. Later rules are not
/// tried.
fn replace_suffix(word: String, rules: &[(&str, &str)]) -> String {
    let found = rules.iter().find(|(suffix, _)| word.ends_with(suffix));
    match found
        .map(|(suffix, replacement)| (word[..word.len() - suffix.len()].to_owned(), replacement))
    {
        Some((rest, replacement)) if measure(&rest) > 0 => rest + replacement,
        _ => word,
    }
}

fn step_2(word: String) -> String {
    if let Some(rest) = word.strip_suffix("alli").filter(|rest| measure(rest) > 0) {
        return step_2(rest.to_owned() + "al");
    }
    // The `l` belongs to the remainder, so that `geo` is long enough.
    if let Some(rest) = word.strip_suffix("ogi").filter(|rest| rest.ends_with('l')) {
        return if measure(rest) > 0 { rest.to_owned() + "og" } else { word };
    }
    replace_suffix(word, &STEP_2)
}

fn step_3(word: String) -> String {
    replace_suffix(word, &STEP_3)
}

fn step_4(word: String) -> String {
    let found = STEP_4.iter().find(|suffix| word.ends_with(**suffix));
    match found.map(|suffix| (*suffix, &word[..word.len() - suffix.len()])) {
        Some(("ion", rest)) if !rest.ends_with(['s', 't']) => word,
        Some((_, rest)) if measure(rest) > 1 => rest.to_owned(),
        _ => word,
    }
}

fn step_5(word: String) -> String {
    let word = match word.strip_suffix('e').map(|rest| (rest, measure(rest))) {
        Some((rest, 2..)) => rest.to_owned(),
        Some((rest, 1)) if !ends_short(rest) => rest.to_owned(),
        _ => word,
    };
    match word.strip_suffix('l') {
        Some(rest) if rest.ends_with('l') && measure(rest) > 1 => rest.to_owned(),
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_paper_and_of_the_changes_have_their_stems() {
        let cases = [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("dies", "die"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("enjoy", "enjoy"),
            ("relational", "relat"),
            ("radically", "radic"),
            ("geology", "geolog"),
            ("sensibility", "sensibl"),
            ("hopefulness", "hope"),
            ("adoption", "adopt"),
            ("controlling", "control"),
            ("rate", "rate"),
            ("cease", "ceas"),
            ("skies", "sky"),
            ("2nd", "2nd"),
            ("yyyying", "yyyi"),
        ];
        for (word, expected) in cases {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
