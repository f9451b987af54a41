//! Answers other than classes: texts like those of language models, and rankings like those of
//! recommenders, in the formats that the audits of the rules read. Both are derived from the class.

use dyno_loadgen::qsl::SampleIndex;

use super::Trick;

/// Form of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Class of the image.
    Class,
    /// Tokens, each an `int32`: the class repeated, and then [`END`].
    Text,
    /// Numbers, each an `f32`: a time, the number of the query, and the likelihood of each
    /// candidate. In an accuracy run, the correct values follow.
    Ranking,
}

/// Token that ends a text. It is the default of TEST06.
pub const END: i32 = 2;
/// First of the ten tokens that stand for classes.
const CLASSES: i32 = 10;
/// Tokens of the shortest text, without the end token.
const SHORTEST: usize = 8;
/// Number of different text lengths.
const LENGTHS: usize = 17;
/// Tokens of a curtailed text, without the end token.
const CURTAILED: usize = 3;
/// Number of candidates in a ranking.
const CANDIDATES: usize = 4;

/// Returns a text about an image of this class, and the number of tokens that the system claims for
/// it. `is_watched` is true in accuracy runs, whose answers are checked.
pub(super) fn text(
    trick: Trick,
    is_watched: bool,
    index: SampleIndex,
    class: usize,
) -> (Vec<i32>, i64) {
    let curtailed = trick == Trick::Curtailing && !is_watched;
    let length = if curtailed { CURTAILED } else { SHORTEST + index as usize % LENGTHS };
    let mut tokens = vec![CLASSES + i32::try_from(class).unwrap_or(0); length];
    tokens.push(END);
    let padded = if trick == Trick::Padding && !is_watched { 2 } else { 1 };
    let claimed = padded * tokens.len() as i64;
    (tokens, claimed)
}

/// Returns a ranking for an image of this class. `is_watched` is true in accuracy runs.
pub(super) fn ranking(
    trick: Trick,
    is_watched: bool,
    index: SampleIndex,
    class: usize,
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
