//! The greedy search of a transducer: of each frame the character of the greatest score, as
//! long as it is none that says that there is no more in it.
//!
//! Source: `pytorch/decoders.py` of the reference's benchmark RNN-T.

/// Characters that a frame has at most.
const MAX_FRAME_CHARACTERS: usize = 30;

/// An utterance while it is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GreedySearch {
    frames: usize,
    frame: usize,
    /// Characters of this frame.
    frame_characters: usize,
    characters: Vec<i64>,
}

/// What became of a greatest score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol {
    /// A character, by which the next ones are foretold.
    Character,
    /// Nothing more in this frame.
    Blank,
}

impl GreedySearch {
    /// Of so many frames.
    pub(super) fn new(frames: usize) -> Self {
        Self { frames, frame: 0, frame_characters: 0, characters: Vec::new() }
    }

    /// The frame that is asked for; none behind the last.
    pub(super) fn frame(&self) -> Option<usize> {
        (self.frame < self.frames).then_some(self.frame)
    }

    /// What was said last.
    pub(super) fn last(&self) -> Option<i64> {
        self.characters.last().copied()
    }

    /// What was said.
    pub(super) fn characters(&self) -> &[i64] {
        &self.characters
    }

    /// Goes on by the greatest of the scores of this frame, the first one of equals; the
    /// last score is that of the blank. Nothing if no score is a number.
    pub(super) fn accept(&mut self, scores: &[f32]) -> Option<Symbol> {
        let numbers = scores.iter().enumerate().filter(|(_, score)| !score.is_nan());
        let (best, _) = numbers.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        if best + 1 == scores.len() {
            self.next_frame();
            return Some(Symbol::Blank);
        }
        self.characters.push(best as i64);
        self.frame_characters += 1;
        if self.frame_characters == MAX_FRAME_CHARACTERS {
            self.next_frame();
        }
        Some(Symbol::Character)
    }

    fn next_frame(&mut self) {
        self.frame += 1;
        self.frame_characters = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of three characters and the blank, of which this is the greatest.
    fn best(at: usize) -> [f32; 4] {
        std::array::from_fn(|score| if score == at { 1.0 } else { -1.0 })
    }

    #[test]
    fn a_blank_ends_a_frame_and_so_do_thirty_characters() {
        let mut search = GreedySearch::new(3);
        assert_eq!((search.frame(), search.last()), (Some(0), None));
        assert_eq!(search.accept(&best(2)), Some(Symbol::Character));
        assert_eq!((search.frame(), search.last()), (Some(0), Some(2)));
        assert_eq!(search.accept(&best(3)), Some(Symbol::Blank));
        for _ in 0..30 {
            assert_eq!(search.frame(), Some(1));
            assert_eq!(search.accept(&best(0)), Some(Symbol::Character));
        }
        assert_eq!(search.frame(), Some(2));
        assert_eq!(search.accept(&best(1)), Some(Symbol::Character));
        assert_eq!(search.accept(&best(3)), Some(Symbol::Blank));
        assert_eq!(search.frame(), None);
        assert_eq!(search.characters(), [&[2][..], &[0; 30], &[1]].concat());
    }

    #[test]
    fn of_equal_scores_the_first_counts_and_what_is_no_number_does_not() {
        let mut search = GreedySearch::new(2);
        assert_eq!(search.accept(&[0.5, f32::NAN, 0.5, 0.5]), Some(Symbol::Character));
        assert_eq!(search.last(), Some(0));
        assert_eq!(search.accept(&[f32::NAN; 4]), None);
        assert_eq!(
            search.accept(&[f32::NEG_INFINITY, f32::NAN, f32::NAN, 0.0]),
            Some(Symbol::Blank)
        );
        assert_eq!((search.frame(), search.characters()), (Some(1), &[0][..]));
    }
}
