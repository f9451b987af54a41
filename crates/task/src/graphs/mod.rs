//! The graphs of the benchmarks, built layer by layer.
//!
//! Names of weights are those of the public models where these are known, so
//! that a graph takes given weights as well as seeded ones.

pub mod mobilenet;
pub mod pieces;
pub mod resnet;

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
];
