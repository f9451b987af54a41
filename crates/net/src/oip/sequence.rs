//! Sequences: requests whose states the server keeps from one to the next.
//!
//! Source: the sequence extension of Triton Inference Server (`sequence_id`, `sequence_start` and
//! `sequence_end` among the parameters of a request).

use std::fmt;
use std::sync::Arc;

use dyno_loadgen::plan::Chain;
use dyno_loadgen::qsl::SampleIndex;

use crate::trouble::{Kind, Trouble};

/// Name of the parameter with the identifier.
pub(super) const ID: &str = "sequence_id";
/// Name of the parameter that marks the first request.
pub(super) const START: &str = "sequence_start";
/// Name of the parameter that marks the last request.
pub(super) const END: &str = "sequence_end";

/// Maximum bytes of an identifier, as in Triton.
const LONGEST_ID: usize = 128;

/// Identifier of a sequence. A number and a text are never the same identifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SequenceId {
    /// A number from 1.
    Number(u64),
    /// A text that is not empty.
    Text(String),
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "'{text}'"),
        }
    }
}

/// Place of a request in a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceStep {
    /// The sequence.
    pub id: SequenceId,
    /// Whether the request is the first one: the sequence starts again if it is in progress.
    pub is_start: bool,
    /// Whether the request is the last one.
    pub is_end: bool,
}

impl SequenceStep {
    /// Returns the place of a request with these parameters; `None` if it belongs to no sequence.
    /// 0 and the empty text identify no sequence.
    ///
    /// # Errors
    /// A mark without a sequence, or an identifier that is too long.
    pub(super) fn from_parameters(
        id: Option<SequenceId>,
        is_start: bool,
        is_end: bool,
    ) -> Result<Option<Self>, Trouble> {
        let wrong = |words: String| Err(Trouble::new(Kind::Malformed, words));
        let is_none = |id: &SequenceId| match id {
            SequenceId::Number(number) => *number == 0,
            SequenceId::Text(text) => text.is_empty(),
        };
        match id.filter(|id| !is_none(id)) {
            Some(SequenceId::Text(text)) if text.len() > LONGEST_ID => {
                wrong(format!("'{ID}' has {} bytes; expected at most {LONGEST_ID}", text.len()))
            }
            Some(id) => Ok(Some(Self { id, is_start, is_end })),
            None if is_start || is_end => {
                let mark = if is_start { START } else { END };
                wrong(format!(
                    "'{mark}' without a sequence; expected '{ID}', a number from 1 or a text"
                ))
            }
            None => Ok(None),
        }
    }
}

/// Sequences that a client plays: the turns of each session are the requests of one sequence.
#[derive(Debug, Clone)]
pub struct PlayedSequences {
    /// Identifier of the first sequence; those of the others follow it.
    first: u64,
    chains: Arc<[Chain]>,
}

impl PlayedSequences {
    /// Returns the sequences of sessions whose samples ascend, numbered from `first` (>= 1).
    pub fn new(first: u64, chains: Arc<[Chain]>) -> Self {
        Self { first, chains }
    }

    /// Returns the number of requests of all sequences.
    pub fn sample_count(&self) -> usize {
        self.chains.iter().map(|chain| chain.thinks.len()).sum()
    }

    /// Returns the place of a sample in its sequence.
    pub(super) fn step(&self, sample: SampleIndex) -> Option<SequenceStep> {
        let after = self.chains.partition_point(|chain| chain.first <= sample);
        let at = after.checked_sub(1)?;
        let chain = &self.chains[at];
        let turn = (sample - chain.first) as usize;
        Some(SequenceStep {
            id: SequenceId::Number(self.first + at as u64),
            is_start: turn == 0,
            is_end: turn + 1 == chain.thinks.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_the_requests_of_their_sequences() {
        let chain = |first, turns| Chain { first, thinks: vec![0; turns].into() };
        let all = PlayedSequences::new(70, [chain(0, 3), chain(3, 1), chain(4, 2)].into());
        let steps: Vec<(u64, bool, bool)> = (0..6)
            .map(|sample| match all.step(sample) {
                Some(SequenceStep { id: SequenceId::Number(id), is_start, is_end }) => {
                    (id, is_start, is_end)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            (70, true, false),
            (70, false, false),
            (70, false, true),
            (71, true, true),
            (72, true, false),
            (72, false, true),
        ];
        assert_eq!((all.sample_count(), &steps[..]), (6, &expected[..]));
    }

    #[test]
    fn marks_need_a_sequence_and_identifiers_have_a_limit() {
        let of = |id, is_start, is_end| SequenceStep::from_parameters(id, is_start, is_end);
        for none in [None, Some(SequenceId::Number(0)), Some(SequenceId::Text(String::new()))] {
            assert_eq!(of(none.clone(), false, false), Ok(None));
            let words = of(none.clone(), true, true).unwrap_err().words;
            assert!(words.contains("'sequence_start' without a sequence"), "{words}");
            assert!(of(none, false, true).unwrap_err().words.contains("'sequence_end'"));
        }
        let text = |length| Some(SequenceId::Text("x".repeat(length)));
        assert!(of(text(128), true, false).is_ok());
        let words = of(text(129), true, false).unwrap_err().words;
        assert!(words.contains("has 129 bytes; expected at most 128"), "{words}");
    }
}
