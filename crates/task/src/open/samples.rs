//! What a task is fed: each kind of samples by the module that reads it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_sut::tensors::{Source, TensorLibrary};

use crate::card::Card;
use crate::data::coco::{Images, Set};
use crate::data::criteo;
use crate::data::imagenet::ImageNet;
use crate::data::named::Named;
use crate::data::pictures::Preparation;
use crate::data::squad::Squad;
use crate::data::{
    captions, digit_boxes, igbh, karate, kits19, librispeech, lines, mnist, movielens, prompts,
    shapes3d, speech, words,
};
use crate::features::Networks;
use crate::files::{Files, Of, OpenError};
use crate::fit::Fed;
use crate::sentences;
use crate::system::{Samples, System};

/// Samples, and what was made of their files to judge by.
pub(crate) struct Read {
    pub samples: TensorLibrary,
    /// References by the name of the method's need.
    pub references: BTreeMap<String, PathBuf>,
    /// What makes features of answers that are images.
    pub networks: Option<Networks>,
    /// As [`Ready::remarks`].
    pub remarks: Vec<String>,
}

impl Read {
    pub(crate) fn of(samples: TensorLibrary) -> Self {
        Self { samples, references: BTreeMap::new(), networks: None, remarks: Vec::new() }
    }
}

/// Reads the samples of a task as its model takes them.
pub(super) fn read(system: &System, files: &Files<'_>, fed: Fed) -> Result<Read, OpenError> {
    let card = files.card();
    let Fed { layout, names } = fed;
    let input = names[0].clone();
    let preparation = || Preparation { input: input.clone(), steps: system.steps.clone(), layout };
    match system.samples {
        Samples::Mnist => {
            let images = files.path("images")?;
            let samples = mnist::test_part(&images, &input).map_err(OpenError::content)?;
            labelled(samples, &["images"], files)
        }
        Samples::Imagenet => {
            let (folder, list) = (files.path("images")?, files.path("val_map")?);
            let set = ImageNet::open(&folder, Some(&list), preparation());
            let set = set.map_err(OpenError::content)?;
            library(card, set.pictures).map(Read::of)
        }
        Samples::Coco | Samples::Openimages => {
            let set = match system.samples {
                Samples::Coco => Set::Coco,
                _ => Set::OpenImages,
            };
            let (folder, annotations) = (files.path("images")?, files.path("annotations")?);
            let set = set.open(&folder, Some(&annotations), Images::All, preparation());
            library(card, set.map_err(OpenError::content)?).map(Read::of)
        }
        Samples::Captions => captions::open(files),
        Samples::SpeechSteps => speech::read(files),
        Samples::Words => words::open(files),
        Samples::Criteo | Samples::CriteoMultihot => {
            let (pairs, references) = criteo::read(files, system.samples)?;
            Ok(Read { references, ..Read::of(library(card, pairs)?) })
        }
        Samples::NamedPictures => {
            let set = Named::open(&files.path("images")?, preparation());
            let Named { pictures, labels } = set.map_err(OpenError::content)?;
            let references = classes(&labels, &["images"], files)?;
            Ok(Read { references, ..Read::of(library(card, pictures)?) })
        }
        Samples::Squad => {
            let (dataset, vocabulary) = (files.path("dataset")?, files.path("vocabulary")?);
            let set = Squad::open(&dataset, &vocabulary, all(card, names));
            library(card, set.map_err(OpenError::content)?).map(Read::of)
        }
        Samples::Librispeech => librispeech::read(files),
        Samples::Sentences => lines::read(files),
        Samples::Texts => sentences::read(files),
        Samples::Kits19 => kits19::open(files),
        Samples::Movielens => movielens::open(files),
        Samples::Karate => karate::open(files),
        Samples::Igbh => igbh::open(files),
        Samples::DigitsBoxes => digit_boxes::open(files),
        Samples::Shapes3d => shapes3d::open(files),
        Samples::Prompts(form) => prompts::read(files, form),
    }
}

/// Samples of these files whose classes are known, as the method `top1` takes them.
fn labelled(samples: TensorLibrary, of: &[&str], files: &Files<'_>) -> Result<Read, OpenError> {
    let references = classes(samples.labels().unwrap_or_default(), of, files)?;
    Ok(Read { references, ..Read::of(samples) })
}

fn classes(
    labels: &[i64],
    of: &[&str],
    files: &Files<'_>,
) -> Result<BTreeMap<String, PathBuf>, OpenError> {
    let labels = files.made("labels", 1, Of::Files(of), |file| {
        for (index, label) in labels.iter().enumerate() {
            writeln!(file, "{index} {label}").map_err(OpenError::content)?;
        }
        Ok(())
    })?;
    Ok(BTreeMap::from([("labels".to_owned(), labels)]))
}

/// The names of the inputs of a card that feeds so many.
///
/// # Panics
/// If it feeds others.
pub(crate) fn inputs<const N: usize>(card: &Card) -> [String; N] {
    all(card, card.data.inputs.iter().map(|input| input.name.clone()).collect())
}

/// So many names.
fn all<const N: usize>(card: &Card, names: Vec<String>) -> [String; N] {
    names.try_into().unwrap_or_else(|_| panic!("{} feeds {N} inputs", card.name))
}

/// Samples of a source, of which the card says how many fit in memory.
pub(crate) fn library(
    card: &Card,
    source: impl Source + 'static,
) -> Result<TensorLibrary, OpenError> {
    let held = usize::try_from(card.data.performance_samples).unwrap_or(usize::MAX);
    let held = NonZero::new(held).unwrap_or(NonZero::<usize>::MIN);
    TensorLibrary::from_source(Arc::new(source), held, None).map_err(OpenError::content)
}
