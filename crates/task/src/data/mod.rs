//! Data sets: in the formats in which their publishers give them, in tables of facts, and
//! made of seeds.

pub mod aggregation;
pub(crate) mod bpe;
pub mod captions;
pub mod clip;
pub mod coco;
pub mod criteo;
pub mod digit_boxes;
pub mod igbh;
pub mod imagenet;
pub mod karate;
pub mod kits19;
pub mod librispeech;
pub mod lines;
pub mod mnist;
pub mod movielens;
pub mod named;
pub mod part;
pub mod pictures;
pub mod prompts;
pub mod recording;
pub mod shapes3d;
pub mod speech;
pub mod squad;
pub(crate) mod table;
pub mod texts;
pub mod words;

use dyno_loadgen::qsl::SampleIndex;

/// What a list has for a sample, one after the other.
///
/// # Errors
/// There are not as many.
pub(crate) fn item<T>(all: &[T], index: SampleIndex) -> Result<&T, String> {
    let found = usize::try_from(index).ok().and_then(|index| all.get(index));
    found.ok_or_else(|| format!("expected a sample below {}, found {index}", all.len()))
}
