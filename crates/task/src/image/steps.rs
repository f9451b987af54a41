//! Preparation steps of pictures, which are data of a task card.

use std::borrow::Cow;

use dyno_sut::tensors::{Elements, SampleTensor};
use serde::Deserialize;
use thiserror::Error;

use super::Picture;
use super::resize::{self, Filter};

/// A preparation step; a card lists the steps in order as `[[data.step]]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    tag = "do",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Step {
    /// Resizes to this size without keeping proportions.
    Resize {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Interpolation; pictures of floats support only `opencv-linear`.
        by: Filter,
    },
    /// Resizes in proportion so that the shorter side has this length; the other is truncated to
    /// whole pixels.
    ResizeShorter {
        /// Pixels.
        to: usize,
        /// Interpolation; pictures of floats support only `opencv-linear`.
        by: Filter,
    },
    /// Crops to the center of the picture.
    #[serde(rename = "centre-crop")]
    CenterCrop {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// Pads at the right and at the bottom to this size.
    Pad {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Value of the new pixels.
        value: f32,
    },
    /// Converts to 32-bit floats from 0 to 255.
    Float {},
    /// Converts to bytes; fractions are truncated.
    Byte {},
    /// Subtracts from a picture of floats.
    Subtract {
        /// One value for all channels, or three.
        values: Vec<f32>,
    },
    /// Divides a picture of floats.
    Divide {
        /// One value for all channels, or three.
        values: Vec<f32>,
    },
    /// Multiplies a picture of floats.
    Multiply {
        /// One value for all channels, or three.
        values: Vec<f32>,
    },
}

/// Channel layout of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// One plane per channel.
    #[default]
    Nchw,
    /// Three values per pixel.
    Nhwc,
}

/// Error: a step does not fit its input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("step {step}: expected {expected}, found {found}")]
pub struct StepError {
    /// Number of the step, from 1.
    pub step: usize,
    /// The required input.
    pub expected: &'static str,
    /// The actual input.
    pub found: String,
}

/// A picture between two steps.
#[derive(Debug, Clone)]
enum State {
    Bytes(Picture<u8>),
    Floats(Picture<f32>),
}

type StepResult = Result<State, (&'static str, String)>;

/// Prepares a picture: applies the steps and returns the sample in this layout.
///
/// ```
/// use dyno_task::image::Picture;
/// use dyno_task::image::steps::{Layout, Step, prepare};
///
/// let picture = Picture { width: 1, height: 1, values: vec![1, 2, 3] };
/// let sample = prepare(picture, &[Step::Float {}], Layout::Nchw).unwrap();
/// assert_eq!(sample.shape, [3, 1, 1]);
/// assert_eq!(sample.elements.to_f64(), [1.0, 2.0, 3.0]);
/// ```
///
/// # Errors
/// [`StepError`] if a step does not fit the picture or the step before.
pub fn prepare(
    picture: Picture<u8>,
    steps: &[Step],
    layout: Layout,
) -> Result<SampleTensor, StepError> {
    let mut state = State::Bytes(picture);
    for (step, number) in steps.iter().zip(1..) {
        state = apply_step(state, step).map_err(|(expected, found)| StepError {
            step: number,
            expected,
            found,
        })?;
    }
    Ok(match state {
        State::Bytes(picture) => {
            let (shape, values) = lay_out(picture, layout);
            SampleTensor { shape, elements: Elements::U8(Cow::Owned(values)) }
        }
        State::Floats(picture) => {
            let (shape, values) = lay_out(picture, layout);
            SampleTensor { shape, elements: Elements::F32(Cow::Owned(values)) }
        }
    })
}

fn apply_step(state: State, step: &Step) -> StepResult {
    match step {
        Step::Resize { width, height, by } => scale(&state, *width, *height, *by),
        Step::ResizeShorter { to, by } => {
            let (width, height) = size(&state);
            let (width, height) = if height > width {
                (*to, to * height / width)
            } else {
                (to * width / height, *to)
            };
            scale(&state, width, height, *by)
        }
        Step::CenterCrop { width, height } => match state {
            State::Bytes(picture) => crop(&picture, *width, *height).map(State::Bytes),
            State::Floats(picture) => crop(&picture, *width, *height).map(State::Floats),
        },
        Step::Pad { width, height, value } => match state {
            State::Bytes(picture) => pad(&picture, *width, *height, *value as u8).map(State::Bytes),
            State::Floats(picture) => pad(&picture, *width, *height, *value).map(State::Floats),
        },
        Step::Float {} => Ok(match state {
            State::Bytes(Picture { width, height, values }) => {
                let values = values.into_iter().map(f32::from).collect();
                State::Floats(Picture { width, height, values })
            }
            State::Floats(picture) => State::Floats(picture),
        }),
        Step::Byte {} => Ok(match state {
            State::Floats(Picture { width, height, values }) => {
                let values = values.into_iter().map(|value| value as u8).collect();
                State::Bytes(Picture { width, height, values })
            }
            State::Bytes(picture) => State::Bytes(picture),
        }),
        Step::Subtract { values } => each(state, values, |value, by| value - by),
        Step::Divide { values } => each(state, values, |value, by| value / by),
        Step::Multiply { values } => each(state, values, |value, by| value * by),
    }
}

fn size(state: &State) -> (usize, usize) {
    match state {
        State::Bytes(picture) => (picture.width, picture.height),
        State::Floats(picture) => (picture.width, picture.height),
    }
}

fn scale(state: &State, width: usize, height: usize, by: Filter) -> StepResult {
    const LONGEST: usize = 1 << 14;
    if ![width, height].iter().all(|n| (1..=LONGEST).contains(n)) {
        return Err(("sides of 1 to 16384 pixels", format!("{width} x {height}")));
    }
    Ok(match state {
        State::Bytes(picture) => State::Bytes(resize::bytes(picture, width, height, by)),
        State::Floats(picture) if by == Filter::OpencvLinear => {
            State::Floats(resize::reals(picture, width, height))
        }
        State::Floats(_) => return Err(("opencv-linear for floats", format!("{by:?}"))),
    })
}

fn crop<T: Copy>(
    picture: &Picture<T>,
    width: usize,
    height: usize,
) -> Result<Picture<T>, (&'static str, String)> {
    if picture.width < width || picture.height < height {
        let found = format!("{} x {} for {width} x {height}", picture.width, picture.height);
        return Err(("an image at least as large as its crop", found));
    }
    let left = (picture.width - width) / 2;
    let top = (picture.height - height) / 2;
    let rows = picture.values.chunks_exact(picture.width * 3).skip(top).take(height);
    let values = rows.flat_map(|row| &row[left * 3..][..width * 3]).copied().collect();
    Ok(Picture { width, height, values })
}

fn pad<T: Copy>(
    picture: &Picture<T>,
    width: usize,
    height: usize,
    value: T,
) -> Result<Picture<T>, (&'static str, String)> {
    if picture.width > width || picture.height > height {
        let found = format!("{} x {} for {width} x {height}", picture.width, picture.height);
        return Err(("an image at most as large as its frame", found));
    }
    let mut values = vec![value; width * height * 3];
    let from = picture.values.chunks_exact(picture.width * 3);
    for (row, from) in values.chunks_exact_mut(width * 3).zip(from) {
        row[..from.len()].copy_from_slice(from);
    }
    Ok(Picture { width, height, values })
}

fn each(state: State, by: &[f32], apply: fn(f32, f32) -> f32) -> StepResult {
    let State::Floats(mut picture) = state else {
        return Err(("floats; put a step 'float' before", "bytes".to_owned()));
    };
    if ![1, 3].contains(&by.len()) {
        return Err(("one value or three", by.len().to_string()));
    }
    let by = by.iter().cycle();
    picture.values.iter_mut().zip(by).for_each(|(value, by)| *value = apply(*value, *by));
    Ok(State::Floats(picture))
}

/// Returns the shape of a sample, and its values in the layout's order.
fn lay_out<T: Copy>(picture: Picture<T>, layout: Layout) -> (Vec<usize>, Vec<T>) {
    let Picture { width, height, values } = picture;
    match layout {
        Layout::Nhwc => (vec![height, width, 3], values),
        Layout::Nchw => {
            let plane = |channel: usize| values[channel..].iter().step_by(3).copied();
            (vec![3, height, width], (0..3).flat_map(plane).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Card {
        step: Vec<Step>,
    }

    fn steps(card: &str) -> Vec<Step> {
        toml::from_str::<Card>(card).unwrap().step
    }

    #[test]
    fn steps_of_resnet_50_are_read_from_a_card_and_give_its_shape() {
        let steps = steps(
            "step = [{ do = 'resize-shorter', to = 256, by = 'opencv-area' },
                { do = 'centre-crop', width = 224, height = 224 }, { do = 'float' },
                { do = 'subtract', values = [123.68, 116.78, 103.94] }]",
        );
        let picture = Picture { width: 500, height: 300, values: vec![200; 500 * 300 * 3] };
        let sample = prepare(picture, &steps, Layout::Nchw).unwrap();
        assert_eq!(sample.shape, [3, 224, 224]);
        let Elements::F32(values) = sample.elements else { panic!("floats") };
        assert_eq!([values[0], values[224 * 224]], [200.0 - 123.68, 200.0 - 116.78]);
    }

    #[test]
    fn steps_that_do_not_fit_say_which_and_why() {
        let picture = Picture { width: 2, height: 2, values: vec![0; 12] };
        let error = |card: &str| prepare(picture.clone(), &steps(card), Layout::Nhwc).unwrap_err();
        let found = error("step = [{ do = 'divide', values = [255.0] }]").to_string();
        assert_eq!(found, "step 1: expected floats; put a step 'float' before, found bytes");
        let found =
            error("step = [{ do = 'float' }, { do = 'centre-crop', width = 3, height = 1 }]");
        assert_eq!((found.step, found.found.as_str()), (2, "2 x 2 for 3 x 1"));
        let unknown = "step = [{ do = 'float', widht = 3 }]";
        assert!(toml::from_str::<Card>(unknown).is_err());
    }
}
