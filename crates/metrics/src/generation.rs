//! Fréchet distance and CLIP score: the distance of generated images from photographs, and their
//! similarity to their captions.
//!
//! Both are computed from features of the networks Inception-v3 and CLIP (ViT-B/32). Answers are
//! these features instead of images, so that the log contains all that is scored.
//!
//! Source: `accuracy_coco.py` of the benchmark Stable Diffusion XL with its `fid_score.py` and
//! `clip_encoder.py`, which print all digits.

mod frechet;
mod linear;

use super::arrays::npy::{Matrix, Npy};
use super::payload::{self, Element};
use super::{AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores};

pub use frechet::Normal;
pub(super) use linear::dot;

const MEAN: Need = Need {
    name: "mean",
    help: "mu.npy, unzipped from val2014.npz: the mean of the features of photographs",
    is_required: true,
};

const COVARIANCE: Need = Need {
    name: "covariance",
    help: "sigma.npy, unzipped from val2014.npz: the covariance of the features of photographs",
    is_required: true,
};

const TEXTS: Need = Need {
    name: "texts",
    help: "CLIP features of the captions as a .npy file, one row per sample; without it, each \
           answer contains them after the CLIP features of the image",
    is_required: false,
};

/// Method of `stable-diffusion-xl`.
pub(crate) const FID_CLIP: Method = Method {
    name: "fid-clip",
    title: "Fréchet distance, and CLIP score in percent, of features of images",
    answer: "features of the image: those of Inception-v3 (2048, as in the mean), then those of \
             CLIP (512, as in a caption)",
    element: Some(Element::F32),
    needs: &[MEAN, COVARIANCE, TEXTS],
    choices: &[],
    open: |inputs| Ok(Box::new(open(inputs)?)),
};

fn open(inputs: &Inputs) -> Result<FidClip, DataError> {
    let texts = inputs.files.get(TEXTS.name);
    let texts = texts.map(|path| Npy::open(path)?.matrix()).transpose()?;
    let mean = Npy::open(inputs.file(&MEAN)?)?.matrix()?.values;
    let path = inputs.file(&COVARIANCE)?;
    let covariance = Npy::open(path)?.matrix()?;
    let n = mean.len();
    if (covariance.rows(), covariance.columns) != (n, n) {
        let found = format!("{} by {}", covariance.rows(), covariance.columns);
        return Err(DataError::malformed(path, None, format!("{n} by {n} numbers"), found));
    }
    let photographs = Normal::new(mean, covariance.values).ok_or_else(|| {
        let expected = "a covariance, which has no negative eigenvalues";
        DataError::malformed(path, None, expected, "another matrix")
    })?;
    Ok(FidClip::new(photographs, texts, inputs.element.unwrap_or(Element::F32)))
}

/// Scores features of images.
#[derive(Debug)]
pub struct FidClip {
    photographs: Normal,
    /// Features of the captions; `None` if answers contain them.
    texts: Option<Matrix>,
    element: Element,
    /// Inception's features of all images, one image after the other.
    features: Vec<f64>,
    cosines: f64,
    images: u64,
}

impl FidClip {
    /// Creates the scorer from features of photographs, and from features of the caption of each
    /// sample. Without `texts`, answers contain the features of their captions.
    ///
    /// ```
    /// use dyno_metrics::Scorer;
    /// use dyno_metrics::generation::{FidClip, Normal};
    /// use dyno_metrics::payload::Element;
    ///
    /// let photographs = Normal::new(vec![0.0], vec![1.0]).unwrap();
    /// let mut scorer = FidClip::new(photographs, None, Element::F32);
    /// // One feature of Inception, then two features of CLIP for the image and two for the caption.
    /// for inception in [4.0_f32, 6.0] {
    ///     let answer = [inception, 1.0, 0.0, 1.0, 0.0].map(f32::to_le_bytes).concat();
    ///     scorer.take(0, &answer).unwrap();
    /// }
    /// let scores = scorer.scores();
    /// assert_eq!(scores.figure("CLIP_SCORE"), Some(100.0));
    /// assert!(scores.figure("FID_SCORE").unwrap() > 25.0);
    /// ```
    pub fn new(photographs: Normal, texts: Option<Matrix>, element: Element) -> Self {
        Self { photographs, texts, element, features: Vec::new(), cosines: 0.0, images: 0 }
    }
}

/// Returns the cosine of two vectors; NaN if one of them is zero.
pub fn cosine(one: &[f64], other: &[f64]) -> f64 {
    let product = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(one, other)| one * other).sum()
    };
    product(one, other) / (product(one, one).sqrt() * product(other, other).sqrt())
}

impl Scorer for FidClip {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let of_image = self.photographs.dimensions();
        let size = self.element.size();
        let brought = || (answer.len() / size).saturating_sub(of_image);
        let (columns, expected) = match &self.texts {
            Some(texts) => {
                let references = texts.rows() as u64;
                if index >= references {
                    return Err(AnswerError::Sample { references });
                }
                let bytes = (of_image + texts.columns) * size;
                (texts.columns, format!("{bytes} ({of_image} and {} features)", texts.columns))
            }
            None => {
                let least = (of_image + 2) * size;
                let expected = format!("{least} or more ({of_image} features, and twice as many)");
                (brought().next_multiple_of(2).max(2), expected)
            }
        };
        if answer.len() != (of_image + columns) * size {
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        let values: Vec<f64> = payload::reals(self.element, answer)?.collect();
        let (image, of_clip) = values.split_at(of_image);
        let cosine = match &self.texts {
            Some(texts) => cosine(of_clip, texts.row(index as usize)),
            None => {
                let (of_clip, caption) = of_clip.split_at(columns / 2);
                cosine(of_clip, caption)
            }
        };
        if !cosine.is_finite() || image.iter().any(|value| !value.is_finite()) {
            let expected = "numbers, and not all of CLIP's zeros".to_owned();
            return Err(AnswerError::Content { expected, found: "others".to_owned() });
        }
        self.features.extend_from_slice(image);
        self.cosines += cosine;
        self.images += 1;
        Ok(())
    }

    fn counts_malformed(&self) -> bool {
        false
    }

    fn references(&self) -> Option<u64> {
        self.texts.as_ref().map(|texts| texts.rows() as u64)
    }

    fn scores(&mut self) -> Scores {
        let clip = 100.0 * self.cosines / self.images as f64;
        let fid = self.photographs.distance(std::mem::take(&mut self.features));
        Scores {
            figures: vec![
                Figure { metric: "FID_SCORE", value: fid },
                Figure { metric: "CLIP_SCORE", value: clip },
            ],
            text: format!("Accuracy Results: {{'FID_SCORE': {fid:?}, 'CLIP_SCORE': {clip:?}}}\n"),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    #[test]
    fn features_have_a_distance_from_photographs_and_an_angle_to_captions() {
        let photographs = Normal::new(vec![0.0], vec![1.0]).unwrap();
        let texts = Matrix { columns: 2, values: vec![3.0, 4.0, 0.0, 2.0, 1.0, 1.0] };
        let mut scorer = FidClip::new(photographs, Some(texts), Element::F32);
        let answer = |values: [f32; 3]| values.map(f32::to_le_bytes).concat();
        assert_eq!(scorer.take(0, &answer([4.0, 1.0, 0.0])), Ok(()));
        assert_eq!(scorer.take(1, &answer([6.0, 0.0, -1.0])), Ok(()));
        assert!(matches!(
            scorer.take(2, &answer([6.0, 0.0, 0.0])),
            Err(AnswerError::Content { .. })
        ));
        assert!(matches!(scorer.take(2, &[0; 8]), Err(AnswerError::Length { .. })));
        assert_eq!(scorer.take(3, &answer([0.0; 3])), Err(AnswerError::Sample { references: 3 }));
        let scores = scorer.scores();
        // Mean 5 and variance 2; cosines 0.6 and -1.
        let expected = 25.0 + (2.0_f64.sqrt() - 1.0).powi(2);
        assert!((scores.figure("FID_SCORE").unwrap() - expected).abs() < 1e-12);
        assert!((scores.figure("CLIP_SCORE").unwrap() + 20.0).abs() < 1e-12);
    }

    #[test]
    fn answers_may_bring_the_features_of_their_captions() {
        let photographs = Normal::new(vec![0.0], vec![1.0]).unwrap();
        let mut scorer = FidClip::new(photographs, None, Element::F32);
        let answer =
            |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(scorer.references(), None);
        assert_eq!(scorer.take(0, &answer(&[4.0, 1.0, 0.0, 3.0, 4.0])), Ok(()));
        assert_eq!(scorer.take(1, &answer(&[6.0, 0.0, -1.0, 0.0, 2.0])), Ok(()));
        for odd in [&[4.0, 1.0, 0.0, 3.0][..], &[4.0], &[]] {
            let error = scorer.take(2, &answer(odd)).unwrap_err().to_string();
            assert!(
                error.starts_with("expected 12 or more (1 features, and twice as many)"),
                "{error}"
            );
        }
        assert!((scorer.scores().figure("CLIP_SCORE").unwrap() + 20.0).abs() < 1e-12);
    }

    #[test]
    fn the_checker_reads_the_scores() {
        let photographs = Normal::new(vec![0.0], vec![1.0]).unwrap();
        let texts = Matrix { columns: 1, values: vec![3.0, 4.0] };
        let mut scorer = FidClip::new(photographs, Some(texts), Element::F32);
        for (index, value) in [(0, 4.0_f32), (1, 6.0)] {
            assert_eq!(scorer.take(index, &[value, 1.0].map(f32::to_le_bytes).concat()), Ok(()));
        }
        let scores = scorer.scores();
        assert_checker_reads("v4.0", "stable-diffusion-xl", &scores);
        assert_checker_reads("v5.1", "stable-diffusion-xl", &scores);
    }
}
