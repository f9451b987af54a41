//! Graphs against the counts that the paper prints (Reddi et al. 2020, Table 1)
//! and those of public implementations.

use dyno_onnx::{Weights, count};
use dyno_task::graphs::GRAPHS;

/// Parameters, and multiply-accumulates.
const COUNTS: &[(&str, u64, u64)] = &[
    // torchvision's `resnet50` has 25,557,032; 25.6 M and 8.2 GOPs in the paper.
    ("resnet50", 25_557_032, 4_089_184_256),
    // Keras' `MobileNet` has 4,231,976 for 1000 classes; 4.2 M and 1.138 GOPs in
    // the paper, both of the model without and with its 1001st class.
    ("mobilenet-v1", 4_231_976 + 1025, 568_740_352 + 1024),
];

#[test]
fn parameters_and_operations_are_those_that_were_published() {
    assert_eq!(COUNTS.len(), GRAPHS.len());
    for (graph, (name, parameters, macs)) in GRAPHS.iter().zip(COUNTS) {
        assert_eq!(graph.name, *name);
        let cost = count(&(graph.build)(Weights::seeded(1)).unwrap());
        assert_eq!((cost.parameters, cost.macs()), (*parameters, *macs), "{name}");
        assert_eq!(cost.uncounted, [], "{name}");
    }
}

#[test]
fn inputs_are_those_that_graphs_say() {
    for graph in GRAPHS {
        let model = (graph.build)(Weights::seeded(1)).unwrap();
        let sample = |shape: &[dyno_onnx::Dim]| -> Vec<usize> {
            shape[1..].iter().map(|dim| dim.fixed().unwrap()).collect()
        };
        let found: Vec<_> = model
            .inputs
            .iter()
            .map(|port| (port.name.as_str(), sample(port.shape.as_ref().unwrap())))
            .collect();
        let said: Vec<_> =
            graph.inputs.iter().map(|(name, shape)| (*name, shape.to_vec())).collect();
        assert_eq!(found, said, "{}", graph.name);
    }
}
