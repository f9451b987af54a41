//! Decoding of answers to texts. A tokenizer decodes ids of tokens. Texts are split into sentences
//! as the accuracy scripts do.

pub mod punkt;
pub mod tokenizer;
mod words;

use super::payload::{self, Element};
use super::{AnswerError, Choice, DataError, DataProblem, Inputs, Need};
use punkt::Punkt;
use tokenizer::Tokenizer;

/// Description of answers that are texts.
pub(super) const ANSWER: &str = "the text in UTF-8, or with a tokenizer its tokens (default int64)";

pub(super) const TOKENIZER: Need = Need {
    name: "tokenizer",
    help: "tokenizer.json of the model, if answers are token ids",
    is_required: false,
};

pub(super) const PUNKT: Need = Need {
    name: "punkt",
    help: "folder tokenizers/punkt_tab/english of NLTK, to split sentences like \
           nltk.sent_tokenize; without it, each line is a sentence",
    is_required: false,
};

pub(super) const SPACES: Choice = Choice {
    name: "spaces",
    values: &["kept", "cleaned"],
    help: "with a tokenizer: whether spaces before punctuation and contractions are kept, or \
           removed as by clean_up_tokenization_spaces",
};

/// Replacements that remove spaces, in their order.
const CLEANUPS: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// Note for texts whose sentences are lines.
const LINES: &str = "sentences are lines of the texts, so that rougeLsum, and gen_len by what \
                     stands between sentences, may differ from the script's: give punkt";

/// Decodes answers, and splits texts into sentences.
///
/// ```
/// let decoder = dyno_metrics::text::TextDecoder::default();
/// assert_eq!(decoder.decode(b"A cat sat.").unwrap().text, "A cat sat.");
/// assert!(decoder.decode(&[0xff]).is_err());
/// ```
#[derive(Debug, Default)]
pub struct TextDecoder {
    /// Tokenizer and type of ids; `None` if answers are texts.
    tokenizer: Option<(Tokenizer, Element)>,
    /// Parameters of Punkt; `None` if sentences are lines.
    punkt: Option<Punkt>,
    is_cleaned: bool,
}

/// A decoded answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodedText {
    /// Text of the answer.
    pub text: String,
    /// Number of tokens; 0 if answers are texts.
    pub tokens: u64,
}

impl TextDecoder {
    /// Reads the tokenizer and the parameters of Punkt from the inputs.
    ///
    /// # Errors
    /// [`DataError`] if a file cannot be read, or answers have elements and the inputs lack a
    /// tokenizer.
    pub(super) fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let file = |need: &Need| inputs.files.get(need.name);
        let tokenizer = match file(&TOKENIZER) {
            Some(path) => Some((Tokenizer::read(path)?, inputs.element.unwrap_or(Element::I64))),
            None if inputs.element.is_some() => {
                let problem = DataProblem::NotGiven { name: TOKENIZER.name, help: TOKENIZER.help };
                return Err(DataError { path: Default::default(), line: None, problem });
            }
            None => None,
        };
        let punkt = file(&PUNKT).map(|folder| Punkt::read(folder)).transpose()?;
        Ok(Self { tokenizer, punkt, is_cleaned: inputs.choice(&SPACES) == "cleaned" })
    }

    /// Returns whether answers are ids of tokens.
    pub fn has_tokens(&self) -> bool {
        self.tokenizer.is_some()
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// [`AnswerError`] if the answer is not UTF-8, or does not hold ids.
    pub fn decode(&self, answer: &[u8]) -> Result<DecodedText, AnswerError> {
        let Some((tokenizer, element)) = &self.tokenizer else {
            return Ok(DecodedText { text: payload::text(answer)?.to_owned(), tokens: 0 });
        };
        let ids = payload::wholes(*element, answer)?;
        let tokens = ids.len() as u64;
        let mut text = tokenizer.decode(ids)?;
        if self.is_cleaned {
            for (spaced, replacement) in CLEANUPS {
                text = text.replace(spaced, replacement);
            }
        }
        Ok(DecodedText { text, tokens })
    }

    /// Returns a text with one sentence per line, without surrounding white space.
    pub(crate) fn sentence_lines(&self, text: &str) -> String {
        let text = text.trim_matches(is_space);
        match &self.punkt {
            Some(punkt) => punkt.sentences(text).join("\n"),
            None => text.to_owned(),
        }
    }

    /// Returns notes about the sentences.
    pub fn notes(&self) -> Vec<String> {
        if self.punkt.is_some() { Vec::new() } else { vec![LINES.to_owned()] }
    }
}

/// Returns whether Python treats a character as white space: that of Unicode, and the ASCII
/// separators.
pub(super) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
impl TextDecoder {
    /// Creates a decoder of int64 ids, whose tokens are `words`.
    pub(super) fn with_words(words: &[&str]) -> Self {
        let tokenizer = Some((Tokenizer::with_words(words), Element::I64));
        Self { tokenizer, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_need_a_tokenizer() {
        let inputs = Inputs { element: Some(Element::I32), ..Inputs::default() };
        let error = TextDecoder::open(&inputs).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--with tokenizer=FILE is not given: tokenizer.json of the model, if answers are token ids"
        );
    }

    #[test]
    fn lines_are_sentences_unless_it_is_told_better() {
        let texts = TextDecoder::default();
        assert_eq!(texts.sentence_lines(" One. Two\nThree\u{1e}"), "One. Two\nThree");
        let texts = TextDecoder { punkt: Some(Punkt::default()), ..TextDecoder::default() };
        assert_eq!(texts.sentence_lines(" One.  Two\nThree "), "One.\nTwo\nThree");
        assert_eq!(
            texts.decode(b"\xff").unwrap_err().to_string().split(',').next(),
            Some("expected UTF-8")
        );
    }
}
