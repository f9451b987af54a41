//! SQuAD v1.1 as samples of BERT: a question with a window of its context, padded.
//!
//! Source: `create_squad_data.py` and `squad_QSL.py` of the reference's benchmark BERT. The method
//! `squad` judges with the same windows.

use std::path::Path;

use dyno_loadgen::qsl::SampleIndex;
use dyno_metrics::DataError;
use dyno_metrics::squad::features::{LONGEST, Questions};
use dyno_metrics::squad::wordpiece::WordPieces;
use dyno_sut::tensors::{Elements, SampleTensor, Source};

use super::item;

/// Token of pieces that the vocabulary lacks.
const UNKNOWN: &str = "[UNK]";

/// The questions as samples.
#[derive(Debug)]
pub struct Squad {
    inputs: [String; 3],
    pieces: WordPieces,
    questions: Questions,
}

impl Squad {
    /// Reads the questions of `dev-v1.1.json` and the vocabulary `vocab.txt`. `inputs` are the
    /// names of the inputs for tokens, mask and segments.
    ///
    /// # Errors
    /// A file cannot be read or is malformed, or the vocabulary lacks `[CLS]` or `[SEP]`.
    pub fn open(dataset: &Path, vocabulary: &Path, inputs: [String; 3]) -> Result<Self, DataError> {
        let pieces = WordPieces::read(vocabulary)?;
        for mark in ["[CLS]", "[SEP]"] {
            if pieces.id(mark).is_none() {
                let expected = "one piece per line, including [CLS] and [SEP]";
                let found = format!("none that is {mark}");
                return Err(DataError::malformed(vocabulary, None, expected, found));
            }
        }
        let questions = Questions::read(dataset, &pieces)?;
        if questions.features.is_empty() {
            let found = "none".to_owned();
            return Err(DataError::malformed(dataset, None, "questions with contexts", found));
        }
        Ok(Self { inputs, pieces, questions })
    }
}

impl Source for Squad {
    fn name(&self) -> &str {
        "squad"
    }

    fn count(&self) -> usize {
        self.questions.features.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let feature = item(&self.questions.features, index)?;
        let unknown = self.pieces.id(UNKNOWN).unwrap_or(0);
        let id = |piece: &str| i64::from(self.pieces.id(piece).unwrap_or(unknown));
        let mut tokens: Vec<i64> = self.questions.tokens(feature, &self.pieces).map(id).collect();
        let length = tokens.len();
        let mut counted = vec![1; length];
        let mut segments: Vec<i64> = (0..length).map(|at| (at >= feature.before).into()).collect();
        for values in [&mut tokens, &mut counted, &mut segments] {
            values.resize(LONGEST, 0);
        }
        let input = |values: Vec<i64>| SampleTensor {
            shape: vec![LONGEST],
            elements: Elements::I64(values.into()),
        };
        Ok([tokens, counted, segments].map(input).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwho\n?\nbb\n##b\n\u{4e2d}\n";

    fn opened(name: &str, vocabulary: &str, context: &str) -> Result<Squad, DataError> {
        let folder = std::env::temp_dir().join(format!("dyno-data-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let dataset = serde_json::json!({"data": [{"paragraphs": [{"context": context, "qas": [
            {"id": "1", "question": "Who?", "answers": [{"text": "bb", "answer_start": 0}]}
        ]}]}]});
        let (list, pieces) = (folder.join("dev.json"), folder.join("vocab.txt"));
        std::fs::write(&list, dataset.to_string()).unwrap();
        std::fs::write(&pieces, vocabulary).unwrap();
        let squad = Squad::open(&list, &pieces, ["t", "c", "s"].map(str::to_owned));
        std::fs::remove_dir_all(&folder).unwrap();
        squad
    }

    fn values(squad: &Squad, sample: u32) -> Vec<Vec<i64>> {
        let inputs = squad.sample(sample).unwrap();
        inputs.iter().map(|input| input.elements.to_i64().unwrap().into_owned()).collect()
    }

    #[test]
    fn a_question_and_its_context_are_two_segments_with_padding_behind() {
        let squad = opened("squad", VOCABULARY, "Bbb\u{4e2d} x").unwrap();
        assert_eq!(squad.count(), 1);
        let [tokens, counted, segments] = &values(&squad, 0)[..] else { panic!("three inputs") };
        assert_eq!(tokens[..10], [2, 4, 5, 3, 6, 7, 8, 1, 3, 0]);
        assert_eq!(counted[..10], [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(segments[..10], [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]);
        assert!([tokens, counted, segments].iter().all(|values| values.len() == 384));
        assert!([tokens, counted, segments].iter().all(|values| values[9..] == [0; 375]));
        assert!(squad.sample(1).unwrap_err().contains("below 1"));
    }

    #[test]
    fn windows_of_a_long_context_start_128_apart() {
        let words: Vec<&str> = (0..600).map(|at| if at == 300 { "who" } else { "bb" }).collect();
        let squad = opened("long", VOCABULARY, &words.join(" ")).unwrap();
        let place = |sample| values(&squad, sample)[0].iter().skip(4).position(|id| *id == 4);
        assert_eq!(squad.count(), 3);
        assert_eq!([0, 1, 2].map(place), [Some(300), Some(172), Some(44)]);
        assert!(values(&squad, 0)[1].iter().all(|counted| *counted == 1));
    }

    #[test]
    fn unfit_vocabularies_and_data_sets_are_named() {
        let error = opened("marks", "[UNK]\n[CLS]\n", "bb").unwrap_err().to_string();
        assert!(error.ends_with("including [CLS] and [SEP], found none that is [SEP]"), "{error}");
        let error = opened("none", VOCABULARY, " ").unwrap_err().to_string();
        assert!(error.contains("dev.json: expected questions with contexts"), "{error}");
    }
}
