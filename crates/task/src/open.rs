//! Opens a task: what its card names becomes what can be measured.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_sut::engine::Engine;
use dyno_sut::onnx::windows::Windows;
use dyno_sut::onnx::{Answer, EngineOptions, OnnxError};
use dyno_sut::tensors::{Source, TensorLibrary};

use crate::answers::{class, embedding, given, labels, pairs, phonemes};
use crate::card::{Card, Tier};
use crate::data::coco::{Images, Set};
use crate::data::criteo;
use crate::data::imagenet::ImageNet;
use crate::data::kits19::Kits19;
use crate::data::named::Named;
use crate::data::pictures::Preparation;
use crate::data::squad::Squad;
use crate::data::{
    captions, digit_boxes, igbh, karate, librispeech, lines, mnist, movielens, prompts, shapes3d,
    speech, words,
};
use crate::features::Networks;
use crate::files::{Files, Of, OpenError, Replaced};
use crate::fit::Declared;
use crate::graphs::g2p;
use crate::image::steps::Layout;
use crate::judge::{Judge, judge};
use crate::pipelines::{
    self, Load, Open, diffusion, generation, neighbours, transducer, translation,
};
use crate::system::{AnswerKind, Network, Samples, System};
use crate::{networks, sentences, trained};

/// A task whose files are there.
#[derive(Debug)]
pub struct Ready {
    /// What answers.
    pub computes: Computes,
    /// What it is fed.
    pub samples: TensorLibrary,
    /// How its answers are judged.
    pub judge: Option<Judge>,
    /// What whoever reads the result must know of the files, a sentence each.
    pub remarks: Vec<String>,
    /// Those of them that say that data are others than the reference's.
    pub other_data: Vec<String>,
}

/// What answers the samples of a task.
pub enum Computes {
    /// A call of a model.
    Model {
        /// An ONNX file.
        path: PathBuf,
        /// What is made of the outputs.
        answer: Answer,
        /// Samples in a call at most, where outputs have no dimension for them.
        largest_batch: Option<NonZero<usize>>,
    },
    /// Several calls of models.
    Pipeline(PipelineLoad),
}

impl Computes {
    /// The engine that answers samples of this library, at most so many in a call. It has
    /// been tried on the first one.
    ///
    /// # Errors
    /// A missing ONNX Runtime, a model that does not load, or samples that do not fit it.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        largest_batch: NonZero<usize>,
        open: &Open<'_>,
    ) -> Result<Arc<dyn Engine>, OnnxError> {
        match self {
            Self::Model { path, answer, largest_batch: of_model } => {
                let largest = of_model.map_or(largest_batch, |most| most.min(largest_batch));
                let options = EngineOptions { answer, largest_batch: largest.get() };
                Ok(Arc::new(open(&path)?.engine(library, options)?))
            }
            Self::Pipeline(PipelineLoad(load)) => {
                pipelines::engine(load, library, largest_batch.get(), open)
            }
        }
    }
}

impl fmt::Debug for Computes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { path, answer, largest_batch } => f
                .debug_struct("Model")
                .field("path", path)
                .field("answer", answer)
                .field("largest_batch", largest_batch)
                .finish(),
            Self::Pipeline(_) => f.write_str("Pipeline"),
        }
    }
}

/// A pipeline whose models are not loaded yet.
pub struct PipelineLoad(pub(crate) Load);

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
    let Replaced { weights, data: other_data } = files.replaced()?;
    let mut remarks = [weights, other_data.clone()].concat();
    let (computes, layout) = computes(system, files, &mut remarks)?;
    let read = read(system, files, layout)?;
    let Read { samples, references, networks, remarks: of_samples } = read;
    remarks.extend(of_samples);
    remarks.extend(subset(card, system, &samples)?);
    let judge = match (&card.quality, unjudged(files)) {
        (Some(quality), None) => {
            let judge = Judge { networks, ..judge(quality, files, references)? };
            judge.references().map_err(OpenError::content)?;
            Some(judge)
        }
        (_, why) => {
            remarks.extend(why);
            None
        }
    };
    Ok(Ready { computes, samples, judge, remarks, other_data })
}

/// Why answers are not judged, and how they are later.
fn unjudged(files: &Files<'_>) -> Option<String> {
    let missing: Vec<String> =
        files.unjudged().into_iter().map(|name| format!("--with {name}=FILE")).collect();
    let name = &files.card().name;
    (!missing.is_empty()).then(|| {
        format!(
            "answers are not judged without {}; dyno task score {name} with all files judges the \
             accuracy log of a run later",
            missing.join(" ")
        )
    })
}

/// What answers, and where a model takes the channels of pictures.
fn computes(
    system: &System,
    files: &Files<'_>,
    remarks: &mut Vec<String>,
) -> Result<(Computes, Layout), OpenError> {
    let card = files.card();
    if let Some(load) = pipeline(&system.answer, files)? {
        return Ok((Computes::Pipeline(PipelineLoad(load)), system.layout));
    }
    let path = match system.network {
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
        Tier::Official => Some(Declared::read(&path)?),
        Tier::Real | Tier::Shape => None,
    };
    let layout = layout(system, card, declared.as_ref())?;
    let answer = answer(&system.answer, declared.as_ref(), remarks)?;
    Ok((Computes::Model { path, answer, largest_batch: system.largest_batch }, layout))
}

/// The pipeline that answers, if several calls do.
fn pipeline(kind: &AnswerKind, files: &Files<'_>) -> Result<Option<Load>, OpenError> {
    Ok(Some(match kind {
        AnswerKind::Generated(rules) => generation::open(files, rules)?,
        AnswerKind::Diffusion(config) => diffusion::open(files, config)?,
        AnswerKind::Neighbours { fan_outs } => neighbours::open(files, *fan_outs)?,
        AnswerKind::Transducer => transducer::open(files)?,
        AnswerKind::Translation { beams, length_penalty } => {
            translation::open(files, beams.get(), *length_penalty)?
        }
        _ => return Ok(None),
    }))
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
    if found == expected {
        return Ok(None);
    }
    let (name, set) = (&card.name, &card.data.name);
    let is_aggregated = matches!(system.samples, Samples::Criteo | Samples::CriteoMultihot);
    if found > expected && is_aggregated {
        // Of smaller samples there are more; that the trace is another is told.
        return Ok(None);
    }
    if card.tier != Tier::Official {
        return Ok(Some(format!(
            "{found} samples; the target of the task is of the {expected} of {set}"
        )));
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
        Samples::Captions => captions::open(files),
        Samples::SpeechSteps => speech::read(files),
        Samples::Words => drawn_words(files),
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
        Samples::Librispeech => librispeech::read(files),
        Samples::Sentences => lines::read(files),
        Samples::Texts => sentences::read(files),
        Samples::Kits19 => kits19(files),
        Samples::Movielens => movielens::open(files),
        Samples::Karate => karate::open(files),
        Samples::Igbh => igbh::open(files),
        Samples::DigitsBoxes => digit_boxes::open(files),
        Samples::Shapes3d => shapes3d::open(files),
        Samples::Prompts(form) => prompts::read(files, form),
    }
}

/// The reference publishes a checksum of each case of its own; another has none.
fn known_cases(card: &Card, cases: &Kits19) -> Result<(), OpenError> {
    let known = card.data.files.iter().find(|file| file.name == "images");
    let known = known.map(|file| &file.md5_of).filter(|known| !known.is_empty());
    let is_other =
        |case: &&String| known.is_some_and(|known| !known.contains_key(&format!("{case}.pkl")));
    match cases.cases().iter().find(is_other) {
        Some(case) => Err(OpenError::content(format!(
            "{}: expected cases of {}, found {case}",
            cases.list().display(),
            card.data.name
        ))),
        None => Ok(()),
    }
}

/// Words of a dictionary, and the list of those that were drawn.
fn drawn_words(files: &Files<'_>) -> Result<Read, OpenError> {
    let card = files.card();
    let input = &card.data.inputs[0].name;
    let dictionary = files.path("dictionary")?;
    let count = usize::try_from(card.data.accuracy_samples).unwrap_or(usize::MAX);
    let drawn = words::draw(&dictionary, count).map_err(OpenError::content)?;
    let samples = words::samples(&drawn, input).map_err(OpenError::content)?;
    let list = files.made("words", 1, Of::Files(&["dictionary"]), |file| {
        file.write_all(drawn.join("\n").as_bytes()).map_err(OpenError::content)
    })?;
    let references = BTreeMap::from([("words".to_owned(), list)]);
    Ok(Read { references, ..Read::of(samples) })
}

/// Cases of KiTS 2019, and the list of their names.
fn kits19(files: &Files<'_>) -> Result<Read, OpenError> {
    let card = files.card();
    let input = &card.data.inputs[0].name;
    let cases = Kits19::open(&files.path("images")?, input).map_err(OpenError::content)?;
    known_cases(card, &cases)?;
    cases.check(&files.path("volumes")?).map_err(OpenError::content)?;
    let list = format!("{}\n", cases.cases().join("\n"));
    let made = files.made("cases", 1, Of::Text(&list), |file| {
        file.write_all(list.as_bytes()).map_err(OpenError::content)
    })?;
    let references = BTreeMap::from([("cases".to_owned(), made)]);
    Ok(Read { references, ..Read::of(library(card, cases)?) })
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
        AnswerKind::Generated(_)
        | AnswerKind::Diffusion(_)
        | AnswerKind::Neighbours { .. }
        | AnswerKind::Transducer
        | AnswerKind::Translation { .. } => unreachable!("a pipeline answers"),
    })
}
