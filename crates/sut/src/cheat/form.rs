//! Answers that are no classes: texts as those of language models, and rankings as those
//! of recommenders, as the audits of the rules read them. Both follow from the class.

use dyno_loadgen::qsl::SampleIndex;

use super::Trick;

/// What answers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The class of the image.
    Class,
    /// Tokens, each an `int32`: the class for a while, and [`END`].
    Text,
    /// Of each of a few candidates how likely it is, each an `f32`, after a time and the
    /// number of a query; in an accuracy run with what is right.
    Ranking,
}

/// Ends a text. TEST06 takes it for that unless told otherwise.
pub const END: i32 = 2;
/// The first of ten tokens that are classes.
const CLASSES: i32 = 10;
/// Tokens of the shortest text, without its end.
const SHORTEST: usize = 8;
/// Lengths that there are.
const LENGTHS: usize = 17;
/// Tokens of a text that is cut short, without its end.
const CURTAILED: usize = 3;
/// Candidates of a ranking.
const CANDIDATES: usize = 4;

/// A text about an image of this class, and how many tokens it is told to have;
/// `is_watched`: somebody reads it.
pub(super) fn text(
    trick: Trick,
    is_watched: bool,
    (index, class): (SampleIndex, usize),
) -> (Vec<i32>, i64) {
    let curtailed = trick == Trick::Curtailing && !is_watched;
    let length = if curtailed { CURTAILED } else { SHORTEST + index as usize % LENGTHS };
    let mut tokens = vec![CLASSES + i32::try_from(class).unwrap_or(0); length];
    tokens.push(END);
    let padded = if trick == Trick::Padding && !is_watched { 2 } else { 1 };
    let told = padded * tokens.len() as i64;
    (tokens, told)
}

/// A ranking for an image of this class.
pub(super) fn ranking(
    trick: Trick,
    is_watched: bool,
    (index, class): (SampleIndex, usize),
) -> Vec<f32> {
    let label = |at: usize| ((class + at) % 2) as f32;
    let prediction = |at: usize| match trick {
        Trick::Guessing if !is_watched => 0.5,
        _ => 0.1 + 0.8 * label(at),
    };
    let mut values = vec![index as f32, 0.0];
    values.extend((0..CANDIDATES).map(prediction));
    if is_watched {
        values.extend((0..CANDIDATES).map(label));
        values.extend([1.0; CANDIDATES]);
        values.push(CANDIDATES as f32);
    }
    values
}
