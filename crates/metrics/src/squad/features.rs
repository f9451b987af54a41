//! Features of questions: a question with a part of its context that fits a model's input.
//!
//! Each sample of the benchmark is a feature.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::super::DataError;
use super::super::data::read_text;
use super::wordpiece::{Piece, WordPieces};
use crate::parallel;

/// Maximum number of tokens in a feature.
pub const LONGEST: usize = 384;
/// Maximum number of tokens in a question. Further tokens are cut off.
const LONGEST_QUESTION: usize = 64;
/// Distance between the starts of consecutive parts, in pieces.
const STRIDE: usize = 128;
/// Number of marks around question and context.
const MARKS: usize = 3;
/// First mark of a feature.
pub const BEGIN: &str = "[CLS]";
/// Mark after the question and after the context.
pub const END: &str = "[SEP]";

/// A data set in the format of `dev-v1.1.json`.
#[derive(Debug, Deserialize)]
struct Dataset {
    data: Vec<Article>,
}

#[derive(Debug, Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Debug, Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<QuestionRecord>,
}

// The name `Asked` is part of error messages.
#[derive(Debug, Deserialize)]
#[serde(expecting = "struct Asked")]
struct QuestionRecord {
    id: String,
    question: String,
    answers: Vec<AnswerRecord>,
}

// The name `Accepted` is part of error messages.
#[derive(Debug, Deserialize)]
#[serde(expecting = "struct Accepted")]
struct AnswerRecord {
    text: String,
}

/// A context and its pieces.
#[derive(Debug)]
pub struct Context {
    text: String,
    /// Ranges of the text between white space.
    words: Vec<Range<usize>>,
    /// Pieces of all words.
    pub pieces: Vec<Piece>,
    /// Index of the word of each piece.
    word_of: Vec<usize>,
}

/// A question.
#[derive(Debug)]
pub struct Question {
    /// Id in the data set.
    pub id: String,
    /// Pieces, at most 64.
    pub pieces: Vec<Piece>,
    /// Accepted answers.
    pub answers: Vec<String>,
    /// Context that contains the answer.
    pub context: Arc<Context>,
    /// Indices of its features in [`Questions::features`].
    pub features: Range<usize>,
}

/// A question with a part of its context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Index in [`Questions::all`].
    pub question: usize,
    /// Number of tokens before the context.
    pub before: usize,
    /// Index of the first piece of the part.
    pub start: usize,
    /// Number of pieces in the part.
    pub length: usize,
    /// Pieces that have more context around them here than in any other part. Answers start only at
    /// these pieces.
    pub central: Range<usize>,
}

/// The questions of a data set, and their features, which are the samples.
///
/// ```
/// use dyno_metrics::squad::features::Questions;
/// use dyno_metrics::squad::wordpiece::WordPieces;
///
/// let json = r#"{"data": [{"paragraphs": [{"context": "A cat sat.", "qas": [
///     {"id": "1", "question": "Who?", "answers": [{"text": "A cat"}]}]}]}]}"#;
/// let file = tempfile::NamedTempFile::new().unwrap();
/// std::fs::write(&file, json).unwrap();
///
/// let pieces = WordPieces::new("[UNK] [CLS] [SEP] who ? a cat sat .".split(' '));
/// let questions = Questions::read(file.path(), &pieces).unwrap();
/// let tokens: Vec<&str> = questions.tokens(&questions.features[0], &pieces).collect();
/// assert_eq!(tokens.join(" "), "[CLS] who ? [SEP] a cat sat . [SEP]");
/// ```
#[derive(Debug, Default)]
pub struct Questions {
    /// Questions in the order of the data set.
    pub all: Vec<Question>,
    /// Features in the order of the samples.
    pub features: Vec<Feature>,
}

impl Questions {
    /// Reads `dev-v1.1.json`.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, is not in the format, or has a question without an
    /// answer or a repeated question.
    pub fn read(path: &Path, pieces: &WordPieces) -> Result<Self, DataError> {
        let text = read_text(path)?;
        let dataset: Dataset = serde_json::from_str(&text).map_err(|error| {
            let expected = "SQuAD: data of paragraphs, each with context and qas";
            DataError::malformed(path, error.line(), expected, error.to_string())
        })?;
        let paragraphs: Vec<Paragraph> =
            dataset.data.into_iter().flat_map(|article| article.paragraphs).collect();
        let tokenized = parallel::map(&paragraphs, |paragraph| paragraph.tokenize(pieces));
        let (mut questions, mut ids) = (Self::default(), HashSet::new());
        for (paragraph, (context, tokenized)) in paragraphs.into_iter().zip(tokenized) {
            let context = Arc::new(context);
            for (record, question) in paragraph.qas.into_iter().zip(tokenized) {
                if record.answers.is_empty() {
                    let found = format!("question {} without one", record.id);
                    return Err(DataError::malformed(path, None, "answers", found));
                }
                if !ids.insert(record.id.clone()) {
                    let found = format!("{} twice", record.id);
                    return Err(DataError::malformed(path, None, "an id for each question", found));
                }
                questions.add(record, question, &context);
            }
        }
        Ok(questions)
    }

    fn add(
        &mut self,
        record: QuestionRecord,
        tokenized: TokenizedQuestion,
        context: &Arc<Context>,
    ) {
        let (question, first) = (self.all.len(), self.features.len());
        self.features
            .extend(tokenized.features.into_iter().map(|feature| Feature { question, ..feature }));
        let answers = record.answers.into_iter().map(|answer| answer.text).collect();
        let features = first..self.features.len();
        let (id, pieces, context) = (record.id, tokenized.pieces, Arc::clone(context));
        self.all.push(Question { id, pieces, answers, context, features });
    }

    /// Returns the tokens of a feature, without padding: a mark, the question and a mark, which are
    /// [`Feature::before`] tokens, then the context and a mark. `pieces` must be the tokenizer that
    /// read the questions.
    pub fn tokens<'a>(
        &'a self,
        feature: &Feature,
        pieces: &'a WordPieces,
    ) -> impl Iterator<Item = &'a str> {
        let question = &self.all[feature.question];
        let context = &question.context.pieces[feature.start..][..feature.length];
        let texts = |tokens: &'a [Piece]| tokens.iter().map(|piece| pieces.text(*piece));
        let first = [BEGIN].into_iter().chain(texts(&question.pieces));
        first.chain([END]).chain(texts(context)).chain([END])
    }
}

/// A question as pieces, and its features.
struct TokenizedQuestion {
    pieces: Vec<Piece>,
    /// Features whose index of the question is not set.
    features: Vec<Feature>,
}

impl Paragraph {
    fn tokenize(&self, pieces: &WordPieces) -> (Context, Vec<TokenizedQuestion>) {
        let context = Context::new(&self.context, pieces);
        let all = context.pieces.len();
        (context, self.qas.iter().map(|record| record.tokenize(all, pieces)).collect())
    }
}

impl QuestionRecord {
    /// Splits the question, whose context has `context` pieces.
    fn tokenize(&self, context: usize, pieces: &WordPieces) -> TokenizedQuestion {
        let mut pieces = pieces.split(&self.question);
        pieces.truncate(LONGEST_QUESTION);
        // `[CLS]`, the question, `[SEP]`.
        let before = pieces.len() + 2;
        let parts = parts(context, LONGEST - MARKS - pieces.len());
        let feature =
            |(start, length)| Feature { question: 0, before, start, length, central: 0..0 };
        let mut features: Vec<Feature> = parts.iter().copied().map(feature).collect();
        for piece in 0..context {
            // Central pieces are consecutive, and their features are in order.
            let central = &mut features[best_part(&parts, piece)].central;
            let start = if central.end == 0 { piece } else { central.start };
            *central = start..piece + 1;
        }
        TokenizedQuestion { pieces, features }
    }
}

impl Context {
    fn new(text: &str, pieces: &WordPieces) -> Self {
        let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{202f}');
        let (mut words, mut all, mut word_of) = (Vec::new(), Vec::new(), Vec::new());
        for word in text.split(is_space).filter(|word| !word.is_empty()) {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            pieces.append(word, &mut all);
            word_of.resize(all.len(), words.len());
            words.push(start..start + word.len());
        }
        Self { text: text.to_owned(), words, pieces: all, word_of }
    }

    /// Returns the words of some pieces, separated by spaces.
    pub fn original(&self, pieces: RangeInclusive<usize>) -> String {
        let words = &self.words[self.word_of[*pieces.start()]..=self.word_of[*pieces.end()]];
        let words: Vec<&str> = words.iter().map(|word| &self.text[word.clone()]).collect();
        words.join(" ")
    }
}

/// Returns the start and length of each part.
fn parts(pieces: usize, longest: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < pieces {
        let length = longest.min(pieces - start);
        parts.push((start, length));
        if start + length == pieces {
            break;
        }
        // All parts but the last have the maximum length.
        start += STRIDE;
    }
    parts
}

/// Returns the index of the part with the most context around a piece, the first of equals. The
/// score is the lesser of the pieces before and after it, plus a hundredth of the part's length.
fn best_part(parts: &[(usize, usize)], piece: usize) -> usize {
    let mut best = (f64::NEG_INFINITY, 0);
    let first = piece.saturating_sub(LONGEST) / STRIDE;
    let near = parts.iter().copied().enumerate().skip(first);
    for (at, (start, length)) in near.take_while(|(_, (start, _))| *start <= piece) {
        if piece < start + length {
            let around = (piece - start).min(start + length - 1 - piece);
            let score = around as f64 + 0.01 * length as f64;
            if score > best.0 {
                best = (score, at);
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_feature_are_question_and_context_between_marks() {
        let vocabulary = ["[UNK]", "[CLS]", "[SEP]", "who", "?", "bb", "##b"];
        let pieces = WordPieces::new(vocabulary.into_iter());
        let mut questions = Questions::default();
        let record = |question: &str| QuestionRecord {
            id: question.to_owned(),
            question: question.to_owned(),
            answers: Vec::new(),
        };
        let qas = vec![record("Who?"), record(&"who ".repeat(65))];
        let paragraph = Paragraph { context: "Bbb who, bb".to_owned(), qas };
        let (context, tokenized) = paragraph.tokenize(&pieces);
        let context = Arc::new(context);
        for (record, question) in paragraph.qas.into_iter().zip(tokenized) {
            questions.add(record, question, &context);
        }
        let tokens = |at: usize| -> Vec<&str> {
            questions.tokens(&questions.features[at], &pieces).collect()
        };
        let found = tokens(0).join(" ");
        assert_eq!(found, "[CLS] who ? [SEP] bb ##b who [UNK] bb [SEP]");
        assert_eq!((questions.features[0].before, tokens(1).len()), (4, 64 + 5 + 3));
    }

    #[test]
    fn parts_overlap_and_each_piece_is_central_in_one() {
        assert_eq!(parts(381, 381), [(0, 381)]);
        let parts = parts(600, 371);
        assert_eq!(parts, [(0, 371), (128, 371), (256, 344)]);
        // Piece 249 has 121 pieces on either side in the first part, 249 - 128 before it in the
        // second.
        assert_eq!([0, 248, 249, 250, 599].map(|at| best_part(&parts, at)), [0, 0, 0, 1, 2]);
        assert_eq!(super::parts(0, 371), []);
    }

    #[test]
    fn errors_keep_the_names_of_records() {
        let error =
            serde_json::from_str::<QuestionRecord>("1").expect_err("1 is no object").to_string();
        assert!(error.contains("expected struct Asked "), "{error}");
        let error =
            serde_json::from_str::<AnswerRecord>("1").expect_err("1 is no object").to_string();
        assert!(error.contains("expected struct Accepted "), "{error}");
    }
}
