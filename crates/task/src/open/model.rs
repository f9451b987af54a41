//! Opens the model of a task: an ONNX file with the conversion of its outputs, or a pipeline.

use dyno_sut::onnx::Answer;
use dyno_sut::onnx::windows::Windows;

use super::{TaskModel, UnloadedPipeline};
use crate::answers::{boxes, class, embedding, labels, pairs, phonemes};
use crate::card::{Card, Tier};
use crate::files::{Files, OpenError};
use crate::fit::{InputBinding, ModelInterface};
use crate::pipelines::{PipelineLoader, diffusion, generation, neighbors, transducer, translation};
use crate::system::{AnswerKind, Network, Samples, System};
use crate::{networks, trained};

/// Returns the model of the task and the binding of its inputs; appends to `remarks`.
pub(super) fn task_model(
    system: &System,
    files: &Files<'_>,
    remarks: &mut Vec<String>,
) -> Result<(TaskModel, InputBinding), OpenError> {
    let card = files.card();
    if let Some(load) = pipeline(&system.answer, files)? {
        return Ok((
            TaskModel::Pipeline(UnloadedPipeline(load)),
            InputBinding::of_card(card, system.layout),
        ));
    }
    let path = match system.network {
        Network::File => files.path("model")?,
        Network::G2p => networks::g2p(files)?,
        Network::EfficientnetLite0 => networks::efficientnet_lite0(files)?,
        Network::MinilmL6 => networks::minilm_l6(files)?,
        Network::Movielens => trained::movielens::model(files)?,
        Network::Karate => trained::karate::model(files)?,
        Network::DigitsBoxes => trained::digit_boxes::model(files)?,
        Network::Shapes3d => trained::shapes3d::model(files)?,
    };
    // Cards of the other tiers were written for their models.
    let declared = match card.tier {
        Tier::Official => Some(ModelInterface::read(&path)?),
        Tier::Real | Tier::Shape => None,
    };
    let binding = binding(system, card, declared.as_ref())?;
    let answer = answer(&system.answer, declared.as_ref(), remarks)?;
    Ok((TaskModel::Model { path, answer, largest_batch: system.largest_batch }, binding))
}

/// Returns the pipeline of an answer kind that needs one, `None` for all other kinds.
fn pipeline(kind: &AnswerKind, files: &Files<'_>) -> Result<Option<PipelineLoader>, OpenError> {
    Ok(Some(match kind {
        AnswerKind::Generated(rules) => generation::open(files, rules)?,
        AnswerKind::Diffusion(config) => diffusion::open(files, config)?,
        AnswerKind::Neighbors { fan_outs } => neighbors::open(files, *fan_outs)?,
        AnswerKind::Transducer => transducer::open(files)?,
        AnswerKind::Translation { beams, length_penalty } => {
            translation::open(files, beams.get(), *length_penalty)?
        }
        _ => return Ok(None),
    }))
}

/// Binds the inputs of the card to those of the model.
fn binding(
    system: &System,
    card: &Card,
    declared: Option<&ModelInterface>,
) -> Result<InputBinding, OpenError> {
    let is_picture =
        matches!(system.samples, Samples::Imagenet | Samples::Coco | Samples::Openimages);
    let Some(declared) = declared else { return Ok(InputBinding::of_card(card, system.layout)) };
    let binding = declared.bind_inputs(&card.data.inputs, is_picture.then_some(system.layout));
    binding.map_err(OpenError::content)
}

fn answer(
    kind: &AnswerKind,
    declared: Option<&ModelInterface>,
    remarks: &mut Vec<String>,
) -> Result<Answer, OpenError> {
    Ok(match kind {
        AnswerKind::Output => Answer::Output,
        AnswerKind::Argmax => Answer::Argmax,
        AnswerKind::Class { offset, scores, outputs } => match declared {
            None => class::answer(*offset, outputs.first().cloned()),
            Some(declared) => {
                let port = declared.output(outputs).map_err(OpenError::content)?;
                let offset = match (scores, declared.scores(outputs)) {
                    (Some(scores), Some((found, port))) if found != *scores => {
                        if scores.checked_add_signed(*offset as isize) != Some(found) {
                            let expected = format!("{scores} scores");
                            return Err(OpenError::content(declared.mismatch(expected, port)));
                        }
                        remarks.push(format!(
                            "the model has {found} scores where the reference's has {scores}: the \
                             position of the greatest is the class"
                        ));
                        0
                    }
                    _ => *offset,
                };
                class::answer(offset, Some(port.name.clone()))
            }
        },
        AnswerKind::Boxes { format, outputs } => {
            let name_of = |name: &String| match declared {
                None => Ok(name.clone()),
                Some(declared) => {
                    declared.output(std::slice::from_ref(name)).map(|port| port.name.clone())
                }
            };
            let names = boxes::BoxOutputs {
                boxes: name_of(&outputs.boxes).map_err(OpenError::content)?,
                scores: name_of(&outputs.scores).map_err(OpenError::content)?,
                classes: name_of(&outputs.classes).map_err(OpenError::content)?,
                count: outputs
                    .count
                    .as_ref()
                    .map(name_of)
                    .transpose()
                    .map_err(OpenError::content)?,
            };
            boxes::answer(*format, names)
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
        | AnswerKind::Neighbors { .. }
        | AnswerKind::Transducer
        | AnswerKind::Translation { .. } => unreachable!("a pipeline answers"),
    })
}
