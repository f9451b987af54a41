//! Greedy search of a transducer: the character of the greatest score is taken, repeatedly in each
//! frame until the blank has the greatest score.
//!
//! Source: `pytorch/decoders.py` of the reference's benchmark RNN-T.

/// Maximum number of characters in a frame.
const MAX_FRAME_CHARACTERS: usize = 30;

/// State of the search in an utterance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GreedySearch {
    frames: usize,
    frame: usize,
    /// Number of characters in the current frame.
    frame_characters: usize,
    characters: Vec<i64>,
}

/// Symbol with the greatest score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol {
    /// A character, which changes the next prediction.
    Character,
    /// The blank, which ends the frame.
    Blank,
}

impl GreedySearch {
    /// Starts the search in `frames` frames.
    pub(super) fn new(frames: usize) -> Self {
        Self { frames, frame: 0, frame_characters: 0, characters: Vec::new() }
    }

    /// Returns the current frame; `None` after the last.
    pub(super) fn frame(&self) -> Option<usize> {
        (self.frame < self.frames).then_some(self.frame)
    }

    /// Returns the last character.
    pub(super) fn last(&self) -> Option<i64> {
        self.characters.last().copied()
    }

    /// Returns all characters.
    pub(super) fn characters(&self) -> &[i64] {
        &self.characters
    }

    /// Takes the symbol with the greatest score in the current frame, the first of equal ones; the
    /// last score is that of the blank. `None` if no score is a number.
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

    /// Scores of three characters and the blank, with the greatest at `at`.
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
    fn the_first_of_equal_scores_counts_and_nan_does_not() {
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
