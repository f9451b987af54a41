//! The graphs of the benchmarks, built layer by layer.
//!
//! Names of weights are those of the public models where these are known, so
//! that a graph takes given weights as well as seeded ones.

pub mod bert;
pub mod dlrm;
pub mod efficientnet;
pub mod g2p;
pub mod mobilenet;
pub mod pieces;
pub mod resnet;
pub mod retinanet;
pub mod ssd_mobilenet;
pub mod ssd_resnet34;
pub mod unet3d;

use dyno_onnx::{BuildError, Model, Weights};

/// A graph that can be built.
#[derive(Debug, Clone, Copy)]
pub struct Graph {
    /// What commands call it.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Inputs with the shapes of one sample.
    pub inputs: &'static [(&'static str, &'static [usize])],
    /// Builds it with seeded or given weights.
    pub build: fn(Weights) -> Result<Model, BuildError>,
}

/// All of them.
pub const GRAPHS: &[Graph] = &[
    Graph {
        name: "resnet50",
        title: "ResNet-50 v1.5, classification of images",
        inputs: &[("input", &[3, 224, 224])],
        build: resnet::resnet50,
    },
    Graph {
        name: "mobilenet-v1",
        title: "MobileNet-v1 1.0, classification of images",
        inputs: &[("input", &[3, 224, 224])],
        build: mobilenet::mobilenet_v1,
    },
    Graph {
        name: "efficientnet-lite0",
        title: "EfficientNet-Lite0, classification of images",
        inputs: &[("input", &[3, 224, 224])],
        build: efficientnet::efficientnet_lite0,
    },
    Graph {
        name: "bert-large",
        title: "BERT-large, answers to questions of SQuAD, 384 tokens",
        inputs: &[("input_ids", &[384]), ("input_mask", &[384]), ("segment_ids", &[384])],
        build: bert::bert_large,
    },
    Graph {
        name: "minilm-l6",
        title: "MiniLM-L6, embeddings of sentences of 128 tokens",
        inputs: &[("input_ids", &[128]), ("attention_mask", &[128]), ("token_type_ids", &[128])],
        build: bert::minilm_l6,
    },
    Graph {
        name: "ssd-resnet34",
        title: "SSD-ResNet34, detection of objects in images of 1200x1200",
        inputs: &[("image", &[3, 1200, 1200])],
        build: ssd_resnet34::ssd_resnet34,
    },
    Graph {
        name: "3d-unet-kits19",
        title: "3D-UNet, segmentation of volumes of KiTS19",
        inputs: &[("input", &[1, 128, 128, 128])],
        build: unet3d::unet3d_kits19,
    },
    Graph {
        name: "dlrm",
        title: "DLRM with tables of at most 40,000 rows, recommendation",
        inputs: &[("dense", &[13]), ("sparse", &[26])],
        build: dlrm::dlrm_capped,
    },
    Graph {
        name: "retinanet",
        title: "RetinaNet over ResNeXt-50, detection of objects in images of 800x800",
        inputs: &[("images", &[3, 800, 800])],
        build: retinanet::retinanet,
    },
    Graph {
        name: "ssd-mobilenet-v1",
        title: "SSD-MobileNet-v1, detection of objects in images of 300x300",
        inputs: &[("image", &[3, 300, 300])],
        build: ssd_mobilenet::ssd_mobilenet_v1,
    },
];
