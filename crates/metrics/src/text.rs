//! What answers say: texts, or ids of tokens that a tokenizer turns into texts, cut
//! into sentences as the accuracy scripts do.

pub mod punkt;
pub mod tokenizer;
mod words;

use super::payload::{self, Element};
use super::{AnswerError, Choice, DataError, DataProblem, Inputs, Need};
use punkt::Punkt;
use tokenizer::Tokenizer;

/// What answers of text are.
pub(super) const ANSWER: &str =
    "the text, as UTF-8; with a tokenizer its tokens, int64 if no element is given";

pub(super) const TOKENIZER: Need = Need {
    name: "tokenizer",
    help: "tokenizer.json of the model: answers are ids of tokens",
    is_required: false,
};

pub(super) const PUNKT: Need = Need {
    name: "punkt",
    help: "folder tokenizers/punkt_tab/english of NLTK: sentences end as nltk.sent_tokenize says, \
           not with lines",
    is_required: false,
};

pub(super) const SPACES: Choice = Choice {
    name: "spaces",
    values: &["kept", "cleaned"],
    help: "spaces before punctuation and contractions, with a tokenizer; cleaned as by \
           clean_up_tokenization_spaces",
};

/// Spaces that cleaning takes away, in this order.
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

/// What is to be told where sentences are lines.
const LINES: &str = "sentences are lines of the texts, so that rougeLsum, and gen_len by what \
                     stands between sentences, may differ from the script's: give punkt";

/// Reads answers.
#[derive(Debug, Default)]
pub struct TextDecoder {
    /// None where answers are texts.
    tokenizer: Option<(Tokenizer, Element)>,
    /// None where sentences are lines.
    punkt: Option<Punkt>,
    is_cleaned: bool,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodedText {
    /// Its text.
    pub text: String,
    /// Its tokens; 0 where answers are texts.
    pub tokens: u64,
}

impl TextDecoder {
    /// With the tokenizer and the parameters that were given.
    ///
    /// # Errors
    /// A file does not read, or answers have elements and there is no tokenizer.
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

    /// Whether answers are ids of tokens.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        self.tokenizer.is_some()
    }

    /// What an answer says.
    ///
    /// # Errors
    /// It is no UTF-8, or holds no ids.
    pub fn decode(&self, answer: &[u8]) -> Result<DecodedText, AnswerError> {
        let Some((tokenizer, element)) = &self.tokenizer else {
            return Ok(DecodedText { text: payload::text(answer)?.to_owned(), tokens: 0 });
        };
        let ids = payload::wholes(*element, answer)?;
        let tokens = ids.len() as u64;
        let mut text = tokenizer.decode(ids)?;
        if self.is_cleaned {
            for (spaced, by) in CLEANUPS {
                text = text.replace(spaced, by);
            }
        }
        Ok(DecodedText { text, tokens })
    }

    /// A text with a sentence on each line, without white space around.
    #[must_use]
    pub fn sentence_lines(&self, text: &str) -> String {
        let text = text.trim_matches(is_space);
        match &self.punkt {
            Some(punkt) => punkt.sentences(text).join("\n"),
            None => text.to_owned(),
        }
    }

    /// What is to be told of the sentences.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        if self.punkt.is_some() { Vec::new() } else { vec![LINES.to_owned()] }
    }
}

/// White space as Python has it: Unicode's, and the separators of ASCII.
pub(super) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
impl TextDecoder {
    /// Of ids whose tokens are these, int64.
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
            "--with tokenizer=FILE is not given: tokenizer.json of the model: answers are ids of tokens"
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
