//! Features of generated images: Inception-v3 and CLIP compute them after the run, and the method
//! judges the features.
//!
//! Sources: `accuracy_coco.py` of the reference's benchmark text_to_image with its
//! `fid/inception.py` (PyTorch's bilinear interpolation without antialiasing, of values
//! from 0 to 1) and open_clip's transform for evaluation (Pillow's bicubic, of bytes; mean
//! and deviation of CLIP).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_metrics::{AnswerError, DataError, RepeatPolicy, Scorer, Scores};
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, InputValue, OrtModel, OrtOptions};
use dyno_sut::onnx::runtime::Search;
use dyno_sut::tensors::{Element, Elements};

use crate::card::Input;
use crate::files::{Files, OpenError};
use crate::fit::{FitError, ModelInterface};
use crate::image::Picture;
use crate::image::resize::{self, Filter};

/// Side of the square images of Inception-v3 and of CLIP's ViT-B/32, in pixels.
const INCEPTION: usize = 299;
const CLIP: usize = 224;
/// Mean and standard deviation of each channel in CLIP's training.
const MEANS: [f32; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
const DEVIATIONS: [f32; 3] = [0.268_629_54, 0.261_302_6, 0.275_777_1];

const IMAGES: &str = "pixel_values";
const TOKENS: &str = "input_ids";
const COUNTED: &str = "attention_mask";
const IMAGE_EMBEDDING: &str = "image_embeds";
const TEXT_EMBEDDING: &str = "text_embeds";

/// Paths of the feature networks, which are not loaded yet, and the captions of the images.
#[derive(Debug, Clone)]
pub struct FeatureNetworks {
    inception: PathBuf,
    clip: PathBuf,
    /// CLIP's tokens of the caption of each sample.
    captions: Arc<[Vec<i64>]>,
}

impl FeatureNetworks {
    /// Returns the networks in the files `inception` and `clip` of a card, or `None` if one of them
    /// is not given. `captions` returns the tokens of each sample's caption.
    ///
    /// # Errors
    /// A file is not such a network.
    pub(crate) fn from_files(
        files: &Files<'_>,
        captions: impl FnOnce() -> Arc<[Vec<i64>]>,
    ) -> Result<Option<Self>, OpenError> {
        let is_missing = |name: &&str| ["inception", "clip"].contains(name);
        if files.unjudged().iter().any(is_missing) {
            return Ok(None);
        }
        let inception = files.path("inception")?;
        let clip = files.path("clip")?;
        // Checked now, not after the hours that the images take.
        fits_inception(&ModelInterface::read(&inception)?).map_err(OpenError::content)?;
        fits_clip(&ModelInterface::read(&clip)?).map_err(OpenError::content)?;
        Ok(Some(Self { inception, clip, captions: captions() }))
    }

    /// Returns a scorer of images that computes their features and hands them to `scorer`.
    ///
    /// # Errors
    /// A network does not load or has other inputs.
    pub(crate) fn feature_scorer(
        &self,
        scorer: Box<dyn Scorer>,
    ) -> Result<Box<dyn Scorer>, DataError> {
        let networks = NetworkSessions::new(self).map_err(|error| {
            let path = match &error {
                OnnxError::Model { path, .. } => path.clone(),
                _ => self.inception.clone(),
            };
            DataError::malformed(&path, None, "a network of features", error.to_string())
        })?;
        Ok(Box::new(FeatureScorer { networks, scorer }))
    }
}

fn fits_inception(declared: &ModelInterface) -> Result<(), FitError> {
    declared.bind_inputs(&[input("image", "float32", &[3, 0, 0])], None).map(drop)
}

fn fits_clip(declared: &ModelInterface) -> Result<(), FitError> {
    declared.require(&[IMAGES, TOKENS], &[IMAGE_EMBEDDING, TEXT_EMBEDDING])?;
    let mut inputs = vec![input(IMAGES, "float32", &[3, 0, 0]), input(TOKENS, "int64", &[0])];
    if declared.require(&[COUNTED], &[]).is_ok() {
        inputs.push(input(COUNTED, "int64", &[0]));
    }
    declared.bind_inputs(&inputs, None).map(drop)
}

fn input(name: &str, element: &str, shape: &[usize]) -> Input {
    let name = name.to_owned();
    let element = element.to_owned();
    Input { name, also: Vec::new(), element, shape: shape.to_vec() }
}

/// Scores images by their features.
struct FeatureScorer {
    networks: NetworkSessions,
    scorer: Box<dyn Scorer>,
}

impl Scorer for FeatureScorer {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let features = self.networks.features(index, answer)?;
        self.scorer.take(index, &features)
    }

    fn counts_malformed(&self) -> bool {
        self.scorer.counts_malformed()
    }

    fn repeat_policy(&self) -> RepeatPolicy {
        self.scorer.repeat_policy()
    }

    fn references(&self) -> Option<u64> {
        Some(self.networks.captions.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        self.scorer.scores()
    }
}

/// The loaded networks and the captions.
struct NetworkSessions {
    inception: InceptionNetwork,
    clip: ClipNetwork,
    captions: Arc<[Vec<i64>]>,
}

impl NetworkSessions {
    fn new(networks: &FeatureNetworks) -> Result<Self, OnnxError> {
        // The runtime has already been found if a system was loaded.
        let search = Search::from_environment(None);
        let options = OrtOptions { threads: 0, ..OrtOptions::default() };
        let open =
            |path: &Path| OrtModel::open(path, &search, options).map(OrtModel::into_callable);
        Ok(Self {
            inception: InceptionNetwork::new(open(&networks.inception)?)?,
            clip: ClipNetwork::new(open(&networks.clip)?)?,
            captions: Arc::clone(&networks.captions),
        })
    }

    /// Returns the features that the method `fid-clip` takes: by Inception-v3, by CLIP, and CLIP's
    /// of the caption.
    fn features(&self, index: u64, answer: &[u8]) -> Result<Vec<u8>, AnswerError> {
        let references = self.captions.len() as u64;
        let caption = usize::try_from(index).ok().and_then(|index| self.captions.get(index));
        let caption = caption.ok_or(AnswerError::Sample { references })?;
        let image = square(answer).ok_or_else(|| AnswerError::Length {
            expected: "three for each pixel of a square image".to_owned(),
            found: answer.len(),
        })?;
        let failed =
            |found| AnswerError::Content { expected: "features of an image".into(), found };
        let mut features = self.inception.features(&image).map_err(failed)?;
        features.extend(self.clip.features(&image, caption).map_err(failed)?);
        Ok(features.into_iter().flat_map(f32::to_le_bytes).collect())
    }
}

/// Returns the square image with these bytes; `None` if their number fits no square.
fn square(answer: &[u8]) -> Option<Picture<u8>> {
    let side = (answer.len() / 3).isqrt();
    let is_square = side > 0 && 3 * side * side == answer.len();
    is_square.then(|| Picture { width: side, height: side, values: answer.to_vec() })
}

struct InceptionNetwork {
    model: CallableModel,
    side: usize,
}

impl InceptionNetwork {
    fn new(model: CallableModel) -> Result<Self, OnnxError> {
        let [input] = model.inputs() else {
            let why = format!("expected one input, found {}", model.inputs().len());
            return Err(model.unfit(why));
        };
        let side = side(&model, input.element, &input.shape, INCEPTION)?;
        Ok(Self { model, side })
    }

    fn features(&self, image: &Picture<u8>) -> Result<Vec<f32>, String> {
        let values = image.values.iter().map(|value| f32::from(*value) / 255.0).collect();
        let image = Picture { width: image.width, height: image.height, values };
        let image = if image.width == self.side {
            image
        } else {
            resize::reals(&image, self.side, self.side)
        };
        let planes = planes(&image.values);
        let shape = [1, 3, self.side, self.side];
        let found =
            self.model.call(&[InputValue::Elements(&shape, Elements::F32(planes.into()))])?;
        let first = found.first().ok_or("the network has no output")?;
        Ok(first.read()?.1.to_f32().into_owned())
    }
}

struct ClipNetwork {
    model: CallableModel,
    side: usize,
    /// Indices of both output vectors.
    outputs: [usize; 2],
}

impl ClipNetwork {
    fn new(model: CallableModel) -> Result<Self, OnnxError> {
        let known = [IMAGES, TOKENS, COUNTED];
        if let Some(other) = model.inputs().iter().find(|input| !known.contains(&&input.name[..])) {
            return Err(model.unfit(format!("it needs '{}' in addition to {known:?}", other.name)));
        }
        for (name, element) in [(TOKENS, Element::I64), (COUNTED, Element::I64)] {
            if let Some(input) = model.inputs().iter().find(|input| input.name == name)
                && input.element != element
            {
                let found = input.element;
                return Err(model.unfit(format!("expected {name} of {element}, found {found}")));
            }
        }
        let images = &model.inputs()[model.input(IMAGES)?];
        let side = side(&model, images.element, &images.shape, CLIP)?;
        let outputs = [model.output(IMAGE_EMBEDDING)?, model.output(TEXT_EMBEDDING)?];
        Ok(Self { side, outputs, model })
    }

    /// Returns the vector of the image, followed by that of its caption.
    fn features(&self, image: &Picture<u8>, caption: &[i64]) -> Result<Vec<f32>, String> {
        let small = resize::bytes(image, self.side, self.side, Filter::PillowBicubic);
        let normal = |(at, value): (usize, &u8)| {
            (f32::from(*value) / 255.0 - MEANS[at % 3]) / DEVIATIONS[at % 3]
        };
        let values: Vec<f32> = small.values.iter().enumerate().map(normal).collect();
        let planes = planes(&values);
        // Tokens after the first end token, which is the greatest, do not count.
        let greatest = caption.iter().max();
        let end = caption.iter().position(|token| Some(token) == greatest);
        let counted: Vec<i64> = (0..caption.len()).map(|at| i64::from(Some(at) <= end)).collect();
        let image_shape = [1, 3, self.side, self.side];
        let text_shape = [1, caption.len()];
        let fed = self.model.inputs().iter().map(|input| match &input.name[..] {
            IMAGES => InputValue::Elements(&image_shape, Elements::F32(planes[..].into())),
            TOKENS => InputValue::Elements(&text_shape, Elements::I64(caption.into())),
            _ => InputValue::Elements(&text_shape, Elements::I64(counted[..].into())),
        });
        let found = self.model.call(&fed.collect::<Vec<_>>())?;
        let mut features = Vec::new();
        for at in self.outputs {
            features.extend_from_slice(&found[at].read()?.1.to_f32());
        }
        Ok(features)
    }
}

/// Returns the side of the images that a network takes, in pixels.
fn side(
    model: &CallableModel,
    element: Element,
    shape: &[Option<usize>],
    usual: usize,
) -> Result<usize, OnnxError> {
    match *shape {
        [None | Some(1), None | Some(3), height, width]
            if element == Element::F32 && height == width =>
        {
            Ok(height.unwrap_or(usual))
        }
        _ => Err(model.unfit(format!(
            "expected images of float32 [1, 3, side, side], found {element} {shape:?}"
        ))),
    }
}

/// Reorders interleaved channels into planes.
fn planes(values: &[f32]) -> Vec<f32> {
    (0..3).flat_map(|channel| values.iter().skip(channel).step_by(3)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are from `F.interpolate(.., mode="bilinear", align_corners=False)` of
    /// PyTorch 1.13.
    #[test]
    fn images_are_resized_as_pytorch_interpolates() {
        let values = (0..75).map(|at| (at * 7 % 11) as f32 / 10.0).collect();
        let image = Picture { width: 5, height: 5, values };
        for (side, first) in [
            (3, [0.411_111, 0.5, 0.466_667, 0.733_333, 0.333_333, 0.3, 0.566_667, 0.533_333]),
            (7, [0.0, 0.7, 0.3, 0.571_429, 0.642_857, 0.242_857, 0.971_429, 0.571_429]),
        ] {
            let resized = resize::reals(&image, side, side);
            for (found, expected) in resized.values.iter().zip(first) {
                assert!((found - expected).abs() < 2e-6, "{side}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn images_are_square_and_channels_stand_apart() {
        let image = square(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).unwrap();
        let values: Vec<f32> = image.values.iter().map(|byte| f32::from(*byte)).collect();
        assert_eq!((image.width, image.height), (2, 2));
        let expected = [1.0, 4.0, 7.0, 10.0, 2.0, 5.0, 8.0, 11.0, 3.0, 6.0, 9.0, 12.0];
        assert_eq!(planes(&values), expected);
        assert!([&[][..], &[0; 3 * 2], &[0; 13]].into_iter().all(|bytes| square(bytes).is_none()));
    }
}
