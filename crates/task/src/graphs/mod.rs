//! The graphs of the benchmarks, built layer by layer.
//!
//! ```
//! use dyno_onnx::{Weights, count};
//! use dyno_task::graphs::GRAPHS;
//!
//! let graph = GRAPHS.iter().find(|graph| graph.name == "resnet50").unwrap();
//! let model = (graph.build)(Weights::seeded(1)).unwrap();
//! assert_eq!(count(&model).parameters, 25_557_032);
//! ```
//!
//! Names of weights follow the public models; graphs that take given weights use exactly those
//! names. Weights of files with other names or stage numbers have to be renamed first.

pub mod bert;
pub mod decoder;
pub mod dlrm;
pub mod dlrm_v2;
pub mod efficientnet;
pub mod g2p;
pub mod gnmt;
pub mod mobilenet;
pub mod pieces;
pub mod resnet;
pub mod retinanet;
pub mod rgat;
pub mod rnnt;
pub mod sdxl;
pub mod ssd_mobilenet;
pub mod ssd_resnet34;
pub mod unet3d;
pub mod unet3d_brats;

use dyno_onnx::{BuildError, Model, Weights};
use dyno_sut::tensors::{Span, Spans};

use decoder::{GPT_J, LLAMA2_70B, LLAMA31_405B, MIXTRAL_8X7B, Phase};

/// Phases of the cut decoders.
const PROMPT: Phase = Phase::Prompt(128);
const TOKEN: Phase = Phase::Token(1024);

/// Range of masks: all tokens count.
const ALL: &[Span] = &[Span::always(1)];
/// Ranges of the inputs of Llama 2 and Mixtral, which share a vocabulary.
const LLAMA_TOKENS: &[(&str, &[Span])] =
    &[("input_ids", &[Span::below(32_000)]), ("attention_mask", ALL)];

/// Maximum memory of random samples, in bytes.
const LARGEST_SET: u64 = 1 << 28;

/// Maximum number of random samples.
const MOST_SAMPLES: u64 = 1024;

/// A graph that can be built and run.
#[derive(Debug, Clone, Copy)]
pub struct Graph {
    /// Name in commands.
    pub name: &'static str,
    /// Title: the model, and what it does.
    pub title: &'static str,
    /// Inputs with the shapes of one sample.
    pub inputs: &'static [(&'static str, &'static [usize])],
    /// Ranges of random values of integer inputs. Indices cover the whole table, so that as much
    /// memory is read as with real samples.
    pub integers: &'static [(&'static str, &'static [Span])],
    /// Builds it with seeded or given weights.
    pub build: fn(Weights) -> Result<Model, BuildError>,
}

impl Graph {
    /// Returns the ranges of random integers by the names of their inputs.
    pub fn spans(&self) -> Spans<'static> {
        self.integers.iter().copied().collect()
    }

    /// Returns the default number of random samples.
    pub fn random_samples(&self) -> u64 {
        let elements = |(_, shape): &(&str, &[usize])| shape.iter().product::<usize>() as u64;
        // The widest elements have eight bytes.
        let bytes: u64 = self.inputs.iter().map(elements).sum::<u64>().saturating_mul(8);
        (LARGEST_SET / bytes.max(1)).clamp(1, MOST_SAMPLES)
    }
}

/// A graph that is too large to run; it is only counted.
#[derive(Debug, Clone, Copy)]
pub struct CountedGraph {
    /// Name in tables.
    pub name: &'static str,
    /// Title of the graph.
    pub title: &'static str,
    /// Builds it with seeded weights, which are never generated.
    pub build: fn(Weights) -> Result<Model, BuildError>,
}

/// Graphs that can be run.
pub const GRAPHS: &[Graph] = &[
    Graph {
        name: "resnet50",
        title: "ResNet-50 v1.5, classification of images",
        inputs: &[("input", &[3, 224, 224])],
        integers: &[],
        build: resnet::resnet50,
    },
    Graph {
        name: "mobilenet-v1",
        title: "MobileNet-v1 1.0, classification of images",
        inputs: &[("input", &[3, 224, 224])],
        integers: &[],
        build: mobilenet::mobilenet_v1,
    },
    Graph {
        name: "efficientnet-lite0",
        title: "EfficientNet-Lite0, classification of images",
        inputs: &[("input", &[3, 224, 224])],
        integers: &[],
        build: efficientnet::efficientnet_lite0,
    },
    Graph {
        name: "bert-large",
        title: "BERT-large, answers to questions of SQuAD, 384 tokens",
        inputs: &[("input_ids", &[384]), ("input_mask", &[384]), ("segment_ids", &[384])],
        integers: &[
            ("input_ids", &[Span::below(30_522)]),
            ("input_mask", ALL),
            ("segment_ids", &[Span::below(2)]),
        ],
        build: bert::bert_large,
    },
    Graph {
        name: "minilm-l6",
        title: "MiniLM-L6, embeddings of sentences of 128 tokens",
        inputs: &[("input_ids", &[128]), ("attention_mask", &[128]), ("token_type_ids", &[128])],
        integers: &[
            ("input_ids", &[Span::below(30_522)]),
            ("attention_mask", ALL),
            ("token_type_ids", &[Span::below(2)]),
        ],
        build: bert::minilm_l6,
    },
    Graph {
        name: "ssd-resnet34",
        title: "SSD-ResNet34, detection of objects in images of 1200x1200",
        inputs: &[("image", &[3, 1200, 1200])],
        integers: &[],
        build: ssd_resnet34::ssd_resnet34,
    },
    Graph {
        name: "3d-unet-kits19",
        title: "3D-UNet, segmentation of volumes of KiTS19",
        inputs: &[("input", &[1, 128, 128, 128])],
        integers: &[],
        build: unet3d::unet3d_kits19,
    },
    Graph {
        name: "dlrm",
        title: "DLRM with tables of at most 40,000 rows, recommendation",
        inputs: &[("dense", &[13]), ("sparse", &[26])],
        integers: &[("sparse", &dlrm::SPANS)],
        build: dlrm::dlrm_capped,
    },
    Graph {
        name: "retinanet",
        title: "RetinaNet over ResNeXt-50, detection of objects in images of 800x800",
        inputs: &[("images", &[3, 800, 800])],
        integers: &[],
        build: retinanet::retinanet,
    },
    Graph {
        name: "ssd-mobilenet-v1",
        title: "SSD-MobileNet-v1, detection of objects in images of 300x300",
        inputs: &[("image", &[3, 300, 300])],
        integers: &[],
        build: ssd_mobilenet::ssd_mobilenet_v1,
    },
    Graph {
        name: "3d-unet-brats",
        title: "3D-UNet of v0.7, segmentation of volumes of BraTS",
        inputs: &[("input", &[4, 224, 224, 160])],
        integers: &[],
        build: unet3d_brats::unet3d_brats,
    },
    Graph {
        name: "gnmt",
        title: "GNMT of 4 layers, translation of sentences of 32 pieces by the best piece each",
        inputs: &[("pieces", &[32])],
        integers: &[("pieces", &[Span::below(36_548)])],
        build: gnmt::gnmt,
    },
    Graph {
        name: "rnnt-encoder",
        title: "RNN-T without its search, what is heard in 15 s of speech",
        inputs: &[("frames", &[500, 240])],
        integers: &[],
        build: rnnt::encoder,
    },
    Graph {
        name: "rnnt-step",
        title: "RNN-T without its encoder, one step of its search",
        inputs: &[
            ("heard", &[1024]),
            ("character", &[1]),
            ("output.0", &[1, 320]),
            ("cell.0", &[1, 320]),
            ("output.1", &[1, 320]),
            ("cell.1", &[1, 320]),
        ],
        integers: &[("character", &[Span::below(28)])],
        build: rnnt::step,
    },
    Graph {
        name: "dlrm-v2",
        title: "DLRM-DCNv2 with tables of at most 40,000 rows, recommendation",
        inputs: &[("dense_features", &[13]), ("sparse_features", &[214])],
        integers: &[("sparse_features", &dlrm_v2::SPANS)],
        build: dlrm_v2::dlrm_v2_capped,
    },
    Graph {
        name: "gptj-2l-prompt",
        title: "2 of 28 layers of GPT-J 6B, a prompt of 128 tokens",
        inputs: &[("input_ids", &[128]), ("attention_mask", &[128])],
        integers: &[("input_ids", &[Span::below(50_400)]), ("attention_mask", ALL)],
        build: |weights| GPT_J.cut(2).build(weights, PROMPT),
    },
    Graph {
        name: "gptj-2l-token",
        title: "2 of 28 layers of GPT-J 6B, one token behind 1024",
        inputs: &[
            ("input_ids", &[1]),
            ("attention_mask", &[1025]),
            ("past_key.0", &[16, 1024, 256]),
            ("past_value.0", &[16, 1024, 256]),
            ("past_key.1", &[16, 1024, 256]),
            ("past_value.1", &[16, 1024, 256]),
        ],
        integers: &[("input_ids", &[Span::below(50_400)]), ("attention_mask", ALL)],
        build: |weights| GPT_J.cut(2).build(weights, TOKEN),
    },
    Graph {
        name: "llama2-70b-2l-prompt",
        title: "2 of 80 layers of Llama 2 70B, a prompt of 128 tokens",
        inputs: &[("input_ids", &[128]), ("attention_mask", &[128])],
        integers: LLAMA_TOKENS,
        build: |weights| LLAMA2_70B.cut(2).build(weights, PROMPT),
    },
    Graph {
        name: "llama2-70b-2l-token",
        title: "2 of 80 layers of Llama 2 70B, one token behind 1024",
        inputs: &[
            ("input_ids", &[1]),
            ("attention_mask", &[1025]),
            ("past_key.0", &[8, 1024, 128]),
            ("past_value.0", &[8, 1024, 128]),
            ("past_key.1", &[8, 1024, 128]),
            ("past_value.1", &[8, 1024, 128]),
        ],
        integers: LLAMA_TOKENS,
        build: |weights| LLAMA2_70B.cut(2).build(weights, TOKEN),
    },
    Graph {
        name: "mixtral-8x7b-1l-prompt",
        title: "1 of 32 layers of Mixtral 8x7B, a prompt of 128 tokens",
        inputs: &[("input_ids", &[128]), ("attention_mask", &[128])],
        integers: LLAMA_TOKENS,
        build: |weights| MIXTRAL_8X7B.cut(1).build(weights, PROMPT),
    },
    Graph {
        name: "mixtral-8x7b-1l-token",
        title: "1 of 32 layers of Mixtral 8x7B, one token behind 1024",
        inputs: &[
            ("input_ids", &[1]),
            ("attention_mask", &[1025]),
            ("past_key.0", &[8, 1024, 128]),
            ("past_value.0", &[8, 1024, 128]),
        ],
        integers: LLAMA_TOKENS,
        build: |weights| MIXTRAL_8X7B.cut(1).build(weights, TOKEN),
    },
    Graph {
        name: "rgat",
        title: "R-GAT, classification of a paper of IGBH by 2,015 nodes around it",
        inputs: rgat::INPUTS,
        integers: rgat::INTEGERS,
        build: rgat::rgat,
    },
];

/// Full graphs that do not fit on a developer's machine: they are built and counted without their
/// weights, and never written or run.
pub const COUNTED: &[CountedGraph] = &[
    CountedGraph {
        name: "dlrm",
        title: "DLRM with all rows of its tables",
        build: |weights| dlrm::dlrm(weights, usize::MAX),
    },
    CountedGraph {
        name: "dlrm-v2",
        title: "DLRM-DCNv2 with all rows of its tables",
        build: |weights| dlrm_v2::dlrm_v2(weights, usize::MAX),
    },
    CountedGraph {
        name: "gptj-prompt",
        title: "GPT-J 6B, a prompt of 1024 tokens",
        build: |weights| GPT_J.build(weights, Phase::Prompt(1024)),
    },
    CountedGraph {
        name: "gptj-token",
        title: "GPT-J 6B, one token behind 1024",
        build: |weights| GPT_J.build(weights, TOKEN),
    },
    CountedGraph {
        name: "llama2-70b-prompt",
        title: "Llama 2 70B, a prompt of 1024 tokens",
        build: |weights| LLAMA2_70B.build(weights, Phase::Prompt(1024)),
    },
    CountedGraph {
        name: "llama2-70b-token",
        title: "Llama 2 70B, one token behind 1024",
        build: |weights| LLAMA2_70B.build(weights, TOKEN),
    },
    CountedGraph {
        name: "llama3.1-405b-prompt",
        title: "Llama 3.1 405B, a prompt of 1024 tokens",
        build: |weights| LLAMA31_405B.build(weights, Phase::Prompt(1024)),
    },
    CountedGraph {
        name: "llama3.1-405b-token",
        title: "Llama 3.1 405B, one token behind 1024",
        build: |weights| LLAMA31_405B.build(weights, TOKEN),
    },
    CountedGraph {
        name: "mixtral-8x7b-prompt",
        title: "Mixtral 8x7B, a prompt of 1024 tokens",
        build: |weights| MIXTRAL_8X7B.build(weights, Phase::Prompt(1024)),
    },
    CountedGraph {
        name: "mixtral-8x7b-token",
        title: "Mixtral 8x7B, one token behind 1024",
        build: |weights| MIXTRAL_8X7B.build(weights, TOKEN),
    },
    CountedGraph {
        name: "sdxl-unet",
        title: "Denoiser of Stable Diffusion XL, one step of an image of 1024x1024",
        build: sdxl::sdxl_unet,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_samples_stay_within_memory() {
        for graph in GRAPHS {
            assert!((1..=MOST_SAMPLES).contains(&graph.random_samples()), "{}", graph.name);
        }
        let resnet34 = GRAPHS.iter().find(|graph| graph.name == "ssd-resnet34").unwrap();
        assert_eq!(resnet34.random_samples(), 7);
    }
}
