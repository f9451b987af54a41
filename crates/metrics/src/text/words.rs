//! Words and marks of a line, as in Punkt. Marks are separate words, except periods and commas
//! within words and periods at their end.

/// Returns whether a sentence may end with the character.
pub fn is_end(letter: char) -> bool {
    matches!(letter, '.' | '?' | '!')
}

/// Returns whether the character ends the word before it.
pub fn is_closing(letter: char) -> bool {
    matches!(letter, ')' | '"' | ';' | '}' | ']' | '*' | ':' | '@' | '\'' | '(' | '{' | '[')
        || matches!(letter, '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' | '\u{ab}' | '\u{bb}')
        || matches!(letter, '?' | '!')
}

/// Returns whether no word begins with the character.
fn is_no_beginning(letter: char) -> bool {
    matches!(letter, '(' | '"' | '`' | '{' | '[' | ':' | ';' | '&' | '#' | '*' | '@')
        || matches!(letter, ')' | '}' | ']' | '-' | ',')
}

/// Returns the words of a line, without white space.
pub fn split(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let length = match run(rest) {
            0 if is_no_beginning(first) => first.len_utf8(),
            0 => word(rest),
            length => length,
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(word)
    })
}

/// Returns the length of a run at the beginning of a text, in bytes: dashes, periods, or periods
/// separated by spaces. A single character is not a run: the length is 0.
fn run(text: &str) -> usize {
    for mark in ['-', '.'] {
        let length = text.len() - text.trim_start_matches(mark).len();
        if length >= 2 {
            return length;
        }
    }
    let (mut length, mut spaced, mut longest) = (0, 0, 0);
    while let Some(after) = text[length..].strip_prefix('.') {
        if spaced >= 2 {
            longest = length + 1;
        }
        let Some(space) = after.chars().next().filter(|letter| letter.is_whitespace()) else {
            break;
        };
        length += 1 + space.len_utf8();
        spaced += 1;
    }
    longest
}

/// Returns whether a text begins with such a run, without measuring the run.
fn begins_run(text: &str) -> bool {
    if text.starts_with("--") || text.starts_with("..") {
        return true;
    }
    let spaced = |text: &'_ str| -> Option<usize> {
        let space = text.strip_prefix('.')?.chars().next()?;
        space.is_whitespace().then(|| 1 + space.len_utf8())
    };
    let Some(first) = spaced(text) else { return false };
    let Some(second) = spaced(&text[first..]) else { return false };
    text[first + second..].starts_with('.')
}

/// Returns the length of the word at the beginning of a text, in bytes.
fn word(text: &str) -> usize {
    let is_over = |rest: &str| {
        let next = rest.chars().next();
        next.is_none_or(|letter| letter.is_whitespace() || is_closing(letter)) || begins_run(rest)
    };
    let ends = |at: &usize| {
        let rest = &text[*at..];
        is_over(rest) || rest.strip_prefix(',').is_some_and(is_over)
    };
    text.char_indices().skip(1).map(|(at, _)| at).find(ends).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_words_but_for_periods_and_commas_of_words() {
        // Matches of the regular expression in the paper's implementation.
        let cases: [(&str, &[&str]); 6] = [
            (
                "Mr. O'Neil, 1,000.5 (aged 3).",
                &["Mr.", "O", "'Neil", ",", "1,000.5", "(", "aged", "3", ")", "."],
            ),
            ("wait... what--no", &["wait", "...", "what", "--", "no"]),
            ("a . . . b . . c", &["a", ". . .", "b", ".", ".", "c"]),
            ("e.g., -5 ,x ?!", &["e.g.", ",", "-", "5", ",", "x", "?", "!"]),
            ("\u{201c}So\u{201d}", &["\u{201c}So", "\u{201d}"]),
            ("  ", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(split(line).collect::<Vec<_>>(), expected, "{line}");
        }
    }
}
