//! Words and parts of words that Whisper's normalizer replaces.

use memchr::memmem::Finder;

use super::super::unicode::is_in_word;
use Start::{Anywhere, Word};

/// An ordered list of replacements. Each rule is applied to the whole text before the next one.
#[derive(Debug)]
pub struct Replacements {
    rules: Vec<(Start, Finder<'static>, &'static str)>,
}

/// Where a match may start in a word. It must end at the end of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At the beginning of a word.
    Word,
    Anywhere,
}

/// Start, pattern and replacement.
type Rule = (Start, &'static str, &'static str);

impl Replacements {
    /// Returns the rules that remove fillers, such as `uh`.
    pub fn fillers() -> Self {
        Self::new(FILLERS)
    }

    /// Returns the rules that expand contractions, such as `won't`. There must be no space before
    /// the apostrophe.
    pub fn contractions() -> Self {
        Self::new(CONTRACTIONS)
    }

    fn new(rules: &'static [Rule]) -> Self {
        let rules = rules
            .iter()
            .map(|(start, pattern, replacement)| (*start, Finder::new(*pattern), *replacement));
        Self { rules: rules.collect() }
    }

    /// Applies all rules to a text.
    pub fn apply(&self, mut text: String) -> String {
        for (start, pattern, replacement) in &self.rules {
            if let Some(other) = replace_all(&text, *start, pattern, replacement) {
                text = other;
            }
        }
        text
    }
}

/// Replaces all matches of a rule; `None` if there are none.
fn replace_all(
    text: &str,
    start: Start,
    pattern: &Finder<'_>,
    replacement: &str,
) -> Option<String> {
    let (mut out, mut done, mut at) = (String::new(), 0, 0);
    while let Some(found) = pattern.find(&text.as_bytes()[at..]) {
        let (from, to) = (at + found, at + found + pattern.needle().len());
        if (start == Word && is_in_word(text, from)) || is_in_word(text, to) {
            // Each pattern begins with a character of one byte.
            at = from + 1;
            continue;
        }
        out.push_str(&text[done..from]);
        out.push_str(replacement);
        (done, at) = (to, to);
    }
    (done > 0).then(|| out + &text[done..])
}

/// Fillers, which are sounds rather than words.
const FILLERS: &[Rule] = &[
    (Word, "hmm", ""),
    (Word, "mm", ""),
    (Word, "mhm", ""),
    (Word, "mmm", ""),
    (Word, "uh", ""),
    (Word, "um", ""),
];

/// Contractions and their expansions, in the order of replacement.
const CONTRACTIONS: &[Rule] = &[
    (Word, "won't", "will not"),
    (Word, "can't", "can not"),
    (Word, "let's", "let us"),
    (Word, "ain't", "aint"),
    (Word, "y'all", "you all"),
    (Word, "wanna", "want to"),
    (Word, "gotta", "got to"),
    (Word, "gonna", "going to"),
    (Word, "i'ma", "i am going to"),
    (Word, "imma", "i am going to"),
    (Word, "woulda", "would have"),
    (Word, "coulda", "could have"),
    (Word, "shoulda", "should have"),
    (Word, "ma'am", "madam"),
    // Titles.
    (Word, "mr", "mister "),
    (Word, "mrs", "missus "),
    (Word, "st", "saint "),
    (Word, "dr", "doctor "),
    (Word, "prof", "professor "),
    (Word, "capt", "captain "),
    (Word, "gov", "governor "),
    (Word, "ald", "alderman "),
    (Word, "gen", "general "),
    (Word, "sen", "senator "),
    (Word, "rep", "representative "),
    (Word, "pres", "president "),
    (Word, "rev", "reverend "),
    (Word, "hon", "honorable "),
    (Word, "asst", "assistant "),
    (Word, "assoc", "associate "),
    (Word, "lt", "lieutenant "),
    (Word, "col", "colonel "),
    (Word, "jr", "junior "),
    (Word, "sr", "senior "),
    (Word, "esq", "esquire "),
    // Perfect tenses precede the general rules for `'d` and `'s`.
    (Anywhere, "'d been", " had been"),
    (Anywhere, "'s been", " has been"),
    (Anywhere, "'d gone", " had gone"),
    (Anywhere, "'s gone", " has gone"),
    (Anywhere, "'d done", " had done"),
    (Anywhere, "'s got", " has got"),
    (Anywhere, "n't", " not"),
    (Anywhere, "'re", " are"),
    (Anywhere, "'s", " is"),
    (Anywhere, "'d", " would"),
    (Anywhere, "'ll", " will"),
    (Anywhere, "'t", " not"),
    (Anywhere, "'ve", " have"),
    (Anywhere, "'m", " am"),
];
