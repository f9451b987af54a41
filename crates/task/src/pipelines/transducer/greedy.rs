//! The greedy search of a transducer: of each frame the character of the greatest score, as
//! long as it is none that says that there is no more in it.
//!
//! Source: `pytorch/decoders.py` of the reference's benchmark RNN-T.

/// Characters that a frame has at most.
const MOST_OF_A_FRAME: usize = 30;

/// An utterance while it is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    frames: usize,
    frame: usize,
    /// Characters of this frame.
    of_frame: usize,
    characters: Vec<i64>,
}

/// What became of a greatest score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// A character, by which the next ones are foretold.
    Character,
    /// Nothing more in this frame.
    Blank,
}

impl Search {
    /// Of so many frames.
    pub(super) fn new(frames: usize) -> Self {
        Self { frames, frame: 0, of_frame: 0, characters: Vec::new() }
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
    pub(super) fn hear(&mut self, scores: &[f32]) -> Option<Heard> {
        let numbers = scores.iter().enumerate().filter(|(_, score)| !score.is_nan());
        let (best, _) = numbers.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        if best + 1 == scores.len() {
            self.next_frame();
            return Some(Heard::Blank);
        }
        self.characters.push(best as i64);
        self.of_frame += 1;
        if self.of_frame == MOST_OF_A_FRAME {
            self.next_frame();
        }
        Some(Heard::Character)
    }

    fn next_frame(&mut self) {
        self.frame += 1;
        self.of_frame = 0;
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
        let mut search = Search::new(3);
        assert_eq!((search.frame(), search.last()), (Some(0), None));
        assert_eq!(search.hear(&best(2)), Some(Heard::Character));
        assert_eq!((search.frame(), search.last()), (Some(0), Some(2)));
        assert_eq!(search.hear(&best(3)), Some(Heard::Blank));
        for _ in 0..30 {
            assert_eq!(search.frame(), Some(1));
            assert_eq!(search.hear(&best(0)), Some(Heard::Character));
        }
        assert_eq!(search.frame(), Some(2));
        assert_eq!(search.hear(&best(1)), Some(Heard::Character));
        assert_eq!(search.hear(&best(3)), Some(Heard::Blank));
        assert_eq!(search.frame(), None);
        assert_eq!(search.characters(), [&[2][..], &[0; 30], &[1]].concat());
    }

    #[test]
    fn of_equal_scores_the_first_counts_and_what_is_no_number_does_not() {
        let mut search = Search::new(2);
        assert_eq!(search.hear(&[0.5, f32::NAN, 0.5, 0.5]), Some(Heard::Character));
        assert_eq!(search.last(), Some(0));
        assert_eq!(search.hear(&[f32::NAN; 4]), None);
        assert_eq!(search.hear(&[f32::NEG_INFINITY, f32::NAN, f32::NAN, 0.0]), Some(Heard::Blank));
        assert_eq!((search.frame(), search.characters()), (Some(1), &[0][..]));
    }
}
