//! Question answering: compares the answers that a model's logits select with the accepted answers.
//!
//! Source: `accuracy-squad.py` of the benchmark BERT on SQuAD v1.1, with the features that its
//! `create_squad_data.py` creates.

pub mod features;
pub mod text;
pub mod wordpiece;

use super::payload::{self, Element};
use super::{
    AnswerError, Choice, DataError, Figure, Inputs, Method, Need, Rejection, RepeatPolicy, Scorer,
    Scores,
};
use crate::parallel;
use features::{Feature, LONGEST, Question, Questions};
use text::{Quality, project};
use wordpiece::WordPieces;

const DATASET: Need = Need {
    name: "dataset",
    help: "dev-v1.1.json of SQuAD: paragraphs, each with context and qas",
    is_required: true,
};

const VOCABULARY: Need = Need {
    name: "vocabulary",
    help: "vocab.txt of the model: one word piece per line",
    is_required: true,
};

const LOGITS: Choice = Choice {
    name: "logits",
    values: &["pairs", "transposed"],
    help: "whether each token has its start and end logit side by side, or all start logits \
           precede all end logits",
};

/// Method of `bert`.
pub(crate) const SQUAD: Method = Method {
    name: "squad",
    title: "F1 of the words of answers, and share of exactly correct answers, in percent",
    answer: "start and end logits of the tokens of a feature, for all 384 tokens or the first ones",
    element: Some(Element::F32),
    needs: &[DATASET, VOCABULARY],
    choices: &[LOGITS],
    open: |inputs| Ok(Box::new(Answers::read(inputs)?)),
};

/// Number of best starts and best ends that are combined.
const CANDIDATES: usize = 20;

/// Maximum number of tokens in an answer.
const LONGEST_ANSWER: usize = 30;

/// Logit of tokens that an answer omits.
const MISSING_LOGIT: f64 = -10_000.0;

/// Answer to a question without a possible span.
const NO_ANSWER: &str = "empty";

/// Scores logits.
#[derive(Debug)]
pub struct Answers {
    pieces: WordPieces,
    questions: Questions,
    element: Element,
    is_transposed: bool,
    /// Selected span of each feature; `None` if it was not answered.
    spans: Vec<Option<Span>>,
}

/// Logits of start and end, for all tokens.
type Logits = [[f64; LONGEST]; 2];

/// Tokens of a feature from start to end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    start: usize,
    end: usize,
    logit: f64,
}

impl Answers {
    fn read(inputs: &Inputs) -> Result<Self, DataError> {
        let pieces = WordPieces::read(inputs.file(&VOCABULARY)?)?;
        let questions = Questions::read(inputs.file(&DATASET)?, &pieces)?;
        Ok(Self {
            pieces,
            spans: vec![None; questions.features.len()],
            questions,
            element: inputs.element.unwrap_or(Element::F32),
            is_transposed: inputs.choice(&LOGITS) == "transposed",
        })
    }

    /// Parses the start and end logits of all tokens.
    fn logits(&self, answer: &[u8]) -> Result<Logits, AnswerError> {
        let numbers = payload::reals(self.element, answer)?;
        let count = numbers.len();
        if count == 0 || !count.is_multiple_of(2) || count > 2 * LONGEST {
            let size = 2 * self.element.size();
            let expected = format!("{size} times 1 to {LONGEST}");
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        payload::require_logits(self.element, answer)?;
        let mut logits = [[MISSING_LOGIT; LONGEST]; 2];
        let tokens = count / 2;
        for (at, logit) in numbers.enumerate() {
            let (side, token) =
                if self.is_transposed { (at / tokens, at % tokens) } else { (at % 2, at / 2) };
            logits[side][token] = logit;
        }
        Ok(logits)
    }

    /// Returns the index of an answer's feature, and the selected span.
    fn span(&self, index: u64, answer: &[u8]) -> Result<(usize, Option<Span>), AnswerError> {
        let references = self.questions.features.len() as u64;
        let at = usize::try_from(index).ok().filter(|at| *at < self.questions.features.len());
        let at = at.ok_or(AnswerError::Sample { references })?;
        Ok((at, best_span(&self.questions.features[at], &self.logits(answer)?)))
    }

    /// Returns the answer to a question, from its feature with the greatest logit.
    fn answer(&self, question: &Question) -> String {
        let mut best: Option<(&Feature, Span)> = None;
        for at in question.features.clone() {
            if let Some(span) = self.spans[at]
                && best.is_none_or(|(_, best)| span.logit > best.logit)
            {
                best = Some((&self.questions.features[at], span));
            }
        }
        let Some((feature, span)) = best else { return NO_ANSWER.to_owned() };
        let piece = |token: usize| token - feature.before + feature.start;
        let (start, end) = (piece(span.start), piece(span.end));
        let context = &question.context;
        let pieces = self.pieces.join(&context.pieces[start..=end]);
        let pieces = pieces.replace(" ##", "").replace("##", "");
        project(&context.original(start..=end), &pieces, &self.pieces)
    }
}

/// Returns the likeliest span of a feature, the first of equals.
fn best_span(feature: &Feature, [start_logits, end_logits]: &Logits) -> Option<Span> {
    let (starts, ends) = (greatest(start_logits), greatest(end_logits));
    let context = feature.before..feature.before + feature.length;
    let is_central =
        |token: usize| feature.central.contains(&(token - feature.before + feature.start));
    let mut best: Option<Span> = None;
    for start in starts.into_iter().filter(|at| context.contains(at) && is_central(*at)) {
        let may_end = start..context.end.min(start + LONGEST_ANSWER);
        for end in ends.iter().copied().filter(|at| may_end.contains(at)) {
            let logit = start_logits[start] + end_logits[end];
            if best.is_none_or(|best| logit > best.logit) {
                best = Some(Span { start, end, logit });
            }
        }
    }
    best
}

/// Returns the indices of the greatest numbers in descending order, the first of equals first.
fn greatest(numbers: &[f64; LONGEST]) -> Vec<usize> {
    let mut places: Vec<usize> = Vec::with_capacity(CANDIDATES);
    for (at, number) in numbers.iter().enumerate() {
        if places.len() == CANDIDATES {
            if *number <= numbers[places[CANDIDATES - 1]] {
                continue;
            }
            places.pop();
        }
        let before = places.iter().rposition(|place| numbers[*place] >= *number);
        places.insert(before.map_or(0, |before| before + 1), at);
    }
    places
}

impl Scorer for Answers {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        // The last of several answers to a feature counts.
        let (at, span) = self.span(index, answer)?;
        self.spans[at] = span;
        Ok(())
    }

    fn take_all(&mut self, answers: &[(u64, &[u8])]) -> Vec<Rejection> {
        let mut rejections = Vec::new();
        let spans = parallel::map(answers, |(index, answer)| self.span(*index, answer));
        for (position, span) in spans.into_iter().enumerate() {
            match span {
                Ok((at, span)) => self.spans[at] = span,
                Err(error) => rejections.push(Rejection { position, error }),
            }
        }
        rejections
    }

    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::All
    }

    fn references(&self) -> Option<u64> {
        Some(self.questions.features.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let best = |question: &Question| Quality::best(&self.answer(question), &question.answers);
        let mut sum = Quality::default();
        for quality in parallel::map(&self.questions.all, best) {
            sum.exact += quality.exact;
            sum.f1 += quality.f1;
        }
        let questions = self.questions.all.len().max(1) as f64;
        let (exact, f1) = (100.0 * sum.exact / questions, 100.0 * sum.f1 / questions);
        Scores {
            figures: vec![
                Figure { metric: "F1", value: f1 },
                Figure { metric: "exact_match", value: exact },
            ],
            text: format!("{{\"exact_match\": {exact:?}, \"f1\": {f1:?}}}\n"),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::assert_checker_reads;
    use super::*;

    /// One paragraph with the question `q`, whose answer is `Bb`.
    fn answers(name: &str, context: &str, is_transposed: bool) -> Answers {
        let folder = std::env::temp_dir().join(format!("dyno-squad-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("dev.json");
        let dataset = serde_json::json!({"version": "1.1", "data": [{"paragraphs": [{
            "context": context,
            "qas": [{"id": "1", "question": "q", "answers": [{"text": "Bb", "answer_start": 0}]}],
        }]}]});
        fs::write(&path, dataset.to_string()).unwrap();
        let pieces = WordPieces::new(["[UNK]", "q", "a", "bb", "c", "."].into_iter());
        let questions = Questions::read(&path, &pieces).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let spans = vec![None; questions.features.len()];
        Answers { pieces, questions, element: Element::F32, is_transposed, spans }
    }

    fn bytes(logits: &[f32]) -> Vec<u8> {
        logits.iter().flat_map(|logit| logit.to_le_bytes()).collect()
    }

    fn score(answers: &mut Answers) -> f64 {
        answers.scores().figure("F1").unwrap()
    }

    #[test]
    fn logits_point_at_tokens_of_the_context() {
        // [CLS] q [SEP] a bb . c [SEP]
        let pairs = bytes(&[9.0, 9.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 1.0, -1.0, -1.0]);
        let mut pointed = answers("pairs", "A Bb. c", false);
        assert_eq!(score(&mut pointed), 0.0, "it is not answered");
        assert_eq!(pointed.take(0, &pairs), Ok(()));
        assert_eq!(score(&mut pointed), 100.0);
        assert_checker_reads("v0.7", "bert-99", &pointed.scores());
        assert_checker_reads("v5.0", "bert-99", &pointed.scores());

        let rows = bytes(&[9.0, 0.0, 0.0, 1.0, 2.0, -1.0, 9.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let mut transposed = answers("rows", "A Bb. c", true);
        assert_eq!(transposed.take(0, &rows), Ok(()));
        assert_eq!(score(&mut transposed), 100.0);

        // The last answer counts. A malformed one does not.
        assert_eq!(transposed.take(0, &bytes(&[0.0; 12])), Ok(()));
        assert!(score(&mut transposed) < 100.0);
        let error = transposed.take(0, &bytes(&[0.0; 770])).unwrap_err();
        assert_eq!(error.to_string(), "expected 8 times 1 to 384 bytes, found 3080");
        assert_eq!(transposed.take(1, &rows), Err(AnswerError::Sample { references: 1 }));
        assert_eq!(transposed.take(0, &bytes(&[f32::NEG_INFINITY; 768])), Ok(()));
        let _ = transposed.scores();
    }

    #[test]
    fn logits_that_are_no_numbers_answer_nothing() {
        let mut logits = [9.0, 9.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 1.0, -1.0, -1.0];
        for wrong in [f32::NAN, f32::INFINITY] {
            let mut answers = answers("nan", "A Bb. c", false);
            logits[11] = wrong;
            assert!(matches!(answers.take(0, &bytes(&logits)), Err(AnswerError::Content { .. })));
            assert_eq!(score(&mut answers), 0.0);
        }
        // Minus infinity excludes a token.
        let mut answers = answers("excluded", "A Bb. c", false);
        logits[11] = f32::NEG_INFINITY;
        assert_eq!(answers.take(0, &bytes(&logits)), Ok(()));
        assert_eq!(score(&mut answers), 100.0);
    }

    #[test]
    fn a_long_context_has_several_features_and_the_surest_answers() {
        let context = format!("{} Bb {}", "a ".repeat(300), "c ".repeat(299));
        let mut long = answers("long", &context, false);
        assert_eq!(long.questions.features.len(), 3);
        let answer = |token: usize, logit: f32| {
            let mut logits = vec![0.0; 768];
            (logits[2 * token], logits[2 * token + 1]) = (logit, logit);
            bytes(&logits)
        };
        let token = |feature: &Feature| 300 - feature.start + feature.before;
        let places: Vec<usize> = long.questions.features.iter().map(token).collect();
        assert_eq!(long.take(1, &answer(places[1], 2.0)), Ok(()));
        assert_eq!(long.take(2, &answer(places[2] + 9, 1.0)), Ok(()));
        // The piece is less central here and does not count, however high its logit.
        assert_eq!(long.take(0, &answer(places[0], 9.0)), Ok(()));
        assert_eq!(score(&mut long), 100.0);
    }
}
