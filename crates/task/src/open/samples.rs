//! Opens the samples of a task with the module of their kind.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use dyno_sut::tensors::TensorLibrary;

use crate::data::coco::{CocoFormat, ImageFilter};
use crate::data::criteo;
use crate::data::imagenet::ImageNet;
use crate::data::named::NamedPictures;
use crate::data::pictures::Preparation;
use crate::data::squad::Squad;
use crate::data::{
    SampleSet, all, captions, digit_boxes, igbh, karate, kits19, library, librispeech, lines,
    mnist, movielens, prompts, shapes3d, speech, words,
};
use crate::files::{CacheKey, Files, OpenError};
use crate::fit::InputBinding;
use crate::sentences;
use crate::system::{Samples, System};

/// Opens the samples of a task in the form that its model takes.
pub(super) fn read(
    system: &System,
    files: &Files<'_>,
    binding: InputBinding,
) -> Result<SampleSet, OpenError> {
    let card = files.card();
    let InputBinding { layout, names } = binding;
    let input = names[0].clone();
    let preparation = || Preparation { input: input.clone(), steps: system.steps.clone(), layout };
    match system.samples {
        Samples::Mnist => {
            let images = files.path("images")?;
            let samples = mnist::test_part(&images, &input).map_err(OpenError::content)?;
            labeled(samples, &["images"], files)
        }
        Samples::Imagenet => {
            let folder = files.path("images")?;
            let list = files.path("val_map")?;
            let set = ImageNet::open(&folder, Some(&list), preparation());
            let set = set.map_err(OpenError::content)?;
            library(card, set.pictures).map(SampleSet::new)
        }
        Samples::Coco | Samples::Openimages => {
            let set = match system.samples {
                Samples::Coco => CocoFormat::Coco,
                _ => CocoFormat::OpenImages,
            };
            let folder = files.path("images")?;
            let annotations = files.path("annotations")?;
            let set = set.open(&folder, Some(&annotations), ImageFilter::All, preparation());
            library(card, set.map_err(OpenError::content)?).map(SampleSet::new)
        }
        Samples::Captions => captions::open(files),
        Samples::SpeechSteps => speech::read(files),
        Samples::Words => words::open(files),
        Samples::Criteo | Samples::CriteoMultihot => {
            let (pairs, references) = criteo::read(files, system.samples)?;
            Ok(SampleSet { references, ..SampleSet::new(library(card, pairs)?) })
        }
        Samples::NamedPictures => {
            let set = NamedPictures::open(&files.path("images")?, preparation());
            let NamedPictures { pictures, labels } = set.map_err(OpenError::content)?;
            let references = classes(&labels, &["images"], files)?;
            Ok(SampleSet { references, ..SampleSet::new(library(card, pictures)?) })
        }
        Samples::Squad => {
            let dataset = files.path("dataset")?;
            let vocabulary = files.path("vocabulary")?;
            let set = Squad::open(&dataset, &vocabulary, all(card, names));
            library(card, set.map_err(OpenError::content)?).map(SampleSet::new)
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

/// Returns labeled samples with the reference file that the method `top1` takes; `sources` are the files
/// of the card that the labels are from.
fn labeled(
    samples: TensorLibrary,
    sources: &[&str],
    files: &Files<'_>,
) -> Result<SampleSet, OpenError> {
    let references = classes(samples.labels().unwrap_or_default(), sources, files)?;
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

fn classes(
    labels: &[i64],
    sources: &[&str],
    files: &Files<'_>,
) -> Result<BTreeMap<String, PathBuf>, OpenError> {
    let labels = files.derive("labels", 1, CacheKey::Files(sources), |file| {
        for (index, label) in labels.iter().enumerate() {
            writeln!(file, "{index} {label}").map_err(OpenError::content)?;
        }
        Ok(())
    })?;
    Ok(BTreeMap::from([("labels".to_owned(), labels)]))
}
