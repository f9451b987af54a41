//! Compares graphs with packed weights, in memory and as files, with the evaluator.

use super::*;
use crate::config::Dictionary;
use crate::evaluate::{
    FloatReason, PackedFile, PackedNetwork, PackedRunError, PackedSource, ProductPath, TensorView,
    Workspace,
};

fn bits(answer: &[f32]) -> Vec<u32> {
    answer.iter().map(|x| x.to_bits()).collect()
}

/// Returns the answers of a packed network to some samples of one length, in one call.
fn answers(packed: &PackedNetwork, fed: &GraphSamples, samples: &[usize]) -> Vec<Vec<f32>> {
    let inputs: Vec<Tensor> = (0..fed.inputs.len()).map(|at| fed.gathered(at, samples)).collect();
    let views = inputs.iter().map(|of| TensorView { dims: &of.dims, values: &of.values });
    let mut workspace = Workspace::default();
    let found = packed.run(&views.collect::<Vec<_>>(), &mut workspace).expect("it can be done");
    assert_eq!(found.dims[0], samples.len());
    let each = found.values.len() / samples.len();
    found.values.chunks_exact(each).map(<[f32]>::to_vec).collect()
}

/// An attention head over a sentence, with a mask and transposed weights.
pub(super) fn attentive(seed: u64) -> Result<Model, BuildError> {
    let mut net = Builder::new("attentive", Weights::seeded(seed));
    let [n, t] = ["N", "T"].map(Dim::symbol);
    let tokens = net.input("tokens", Element::I64, &[n.clone(), t.clone()]);
    let weights = net.input("weights", Element::F32, &[n, t]);
    let table = net.weight("embedding.weight", &[9, 8], Fill::Uniform(1.0))?;
    let x = net.node("Gather", &[&table, &tokens], &[])?;
    let axes = net.integers(&[2]);
    let each = net.node("Unsqueeze", &[&weights, &axes], &[])?;
    let x = net.node("Mul", &[&x, &each], &[])?;
    let part = |net: &mut Builder, name: &str, x: &Name| {
        let weight = net.weight(&format!("{name}.weight"), &[8, 8], Fill::lecun(8))?;
        let turned = net.node("Transpose", &[&weight], &[("perm", [1, 0].into())])?;
        net.node("MatMul", &[x, &turned], &[])
    };
    let (query, key) = (part(&mut net, "query", &x)?, part(&mut net, "key", &x)?);
    let value = part(&mut net, "value", &x)?;
    let key = net.node("Transpose", &[&key], &[("perm", [0, 2, 1].into())])?;
    let shares = net.node("MatMul", &[&query, &key], &[])?;
    let shares = net.node("Softmax", &[&shares], &[("axis", (-1_i64).into())])?;
    let y = net.node("MatMul", &[&shares, &value], &[])?;
    let y = net.node("Add", &[&x, &y], &[])?;
    let scale = net.weight("norm.scale", &[8], Fill::Uniform(1.0))?;
    let y = net.node("LayerNormalization", &[&y, &scale], &[("axis", (-1_i64).into())])?;
    net.output("sentence", &y)?;
    Ok(net.finish())
}

pub(super) fn sentences() -> GraphSamples {
    let numbers = |seed: usize, most: f32| -> Vec<f32> {
        let all = images(COUNT * 8 + seed).into_iter().skip(seed);
        all.map(|x| (x * most).floor()).collect()
    };
    let weights = images(COUNT * 8);
    let inputs = [numbers(3, 9.0), weights].map(|values| GraphInput { dims: vec![8], values });
    let lengths = Some((0..COUNT).map(|at| 1 + at % 8).collect());
    GraphSamples {
        inputs: inputs.into(),
        lengths,
        correctness: CorrectnessRule::Agreement(Agreement::Cosine(0.9)),
    }
}

/// Returns a small graph with samples.
fn case(kind: usize, seed: u64) -> (Model, GraphSamples) {
    let cells = [Cells::Lstm, Cells::Peeping, Cells::Gru, Cells::ResetsFirst];
    match kind {
        0 => (residual(seed).unwrap(), fed(&[3, 7, 6], CorrectnessRule::Agreement(Agreement::Top))),
        1 => (attentive(seed).unwrap(), sentences()),
        kind => {
            let lengths = Some((0..COUNT).map(|at| 1 + at % 8).collect());
            let correctness = CorrectnessRule::Agreement(Agreement::Cosine(0.9));
            (spoken(cells[kind - 2], seed).unwrap(), letters(lengths, correctness))
        }
    }
}

fn source() -> PackedSource {
    PackedSource::new(std::path::Path::new("graph.onnx"), b"a model")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Answers are equal bit by bit, for single samples, for many at once, and after a round trip
    /// through a file.
    #[test]
    fn answers_are_those_of_the_evaluator(
        kind in 0_usize..6, seed: u64, choices in prop::collection::vec(0_u32..224, 8), first in 0_usize..8,
    ) {
        let (model, fed) = case(kind, seed);
        let mut graph = GraphEvaluator::new(&model, fed.clone(), sets()).unwrap();
        let quantised = assigned(&graph.objects(), &choices);
        // All samples have the same length, if they have lengths.
        let samples: Vec<usize> = (first..COUNT).step_by(8).collect();
        for assignment in [base(), quantised] {
            let formats = assignment.dictionary();
            let expected = graph.answers(&assignment, &samples).unwrap();
            let packed = PackedNetwork::new(&model, &formats).unwrap();
            let file = PackedFile::new(&model, &formats, source()).unwrap();
            let bytes = file.to_bytes().unwrap();
            let read = PackedFile::from_bytes(&bytes).unwrap();
            prop_assert_eq!(read.to_bytes().unwrap(), bytes, "it is written as it was");
            let again = read.network().unwrap();
            prop_assert_eq!(again.layers(), packed.layers());
            prop_assert_eq!((again.inputs(), again.output()), (packed.inputs(), packed.output()));
            for packed in [&packed, &again] {
                let together = answers(packed, &fed, &samples);
                for (at, (together, expected)) in together.iter().zip(&expected).enumerate() {
                    prop_assert_eq!(bits(together), bits(expected), "together");
                    let alone = answers(packed, &fed, &samples[at..=at]).remove(0);
                    prop_assert_eq!(bits(&alone), bits(expected), "alone");
                }
            }
        }
    }

    /// Any input leads to an answer or an error message.
    #[test]
    fn no_input_is_a_panic(
        kind in 0_usize..6, dims in prop::collection::vec(0_usize..5, 0..5), numbers in prop::collection::vec(any::<f32>(), 0..200),
        fits: bool,
    ) {
        let (model, _) = case(kind, 1);
        let packed = PackedNetwork::new(&model, &Dictionary::new()).unwrap();
        let mut workspace = Workspace::default();
        let views: Vec<(Vec<usize>, Vec<f32>)> = packed.inputs().iter().map(|port| {
            let mut dims = dims.clone();
            if fits {
                dims = port.shape.iter().enumerate().map(|(at, n)| n.unwrap_or(1 + at)).collect();
            }
            let count = dims.iter().product();
            (dims, numbers.iter().copied().chain(std::iter::repeat(1.0)).take(count).collect())
        }).collect();
        let views: Vec<TensorView<'_>> = views.iter().map(|(dims, values)| TensorView { dims, values }).collect();
        if let Err(error) = packed.run(&views, &mut workspace) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn all_objects_are_layers_with_their_paths() {
    let model = spoken(Cells::Peeping, 1).unwrap();
    let text = "table.weight FIXED 4 0\ncells.weight FIXED 5 0\ncells.input EXP 4 7\ncells.R.weight FIXED 3 0\n\
                cells.P.weight FIXED 6 0\n";
    let formats: Dictionary = text.parse().unwrap();
    let packed = PackedNetwork::new(&model, &formats).unwrap();
    let layers: Vec<_> = packed
        .layers()
        .iter()
        .map(|layer| (layer.name.as_str(), layer.weights, layer.codes.len(), layer.path))
        .collect();
    let f32 = |reason| ProductPath::F32(reason);
    let expected = [
        ("table", 54, 27, f32(FloatReason::Read)),
        ("cells", 144, 90, ProductPath::Bytes),
        ("cells.R", 144, 54, f32(FloatReason::Activations(Format::F32))),
        ("cells.B", 48, 192, f32(FloatReason::Read)),
        ("cells.P", 18, 14, f32(FloatReason::Read)),
    ];
    assert_eq!(layers, expected);
    let grouped = PackedNetwork::new(&residual(1).unwrap(), &Dictionary::new()).unwrap();
    let paths: Vec<ProductPath> = grouped.layers().iter().map(|layer| layer.path).collect();
    let float = f32(FloatReason::Weights(Format::F32));
    assert_eq!(paths, [float, f32(FloatReason::Grouped), f32(FloatReason::Grouped), float]);
    let input = &packed.inputs()[0];
    assert_eq!(
        (&input.name[..], input.element, &input.shape[..]),
        ("letters", "int64", &[None; 2][..])
    );
    let file = PackedFile::new(&model, &formats, source()).unwrap();
    let tensors: Vec<(&str, usize)> =
        file.weights().iter().map(|of| (of.object.as_str(), of.codes.len())).collect();
    let expected = [
        ("cells.P.weight", 14),
        ("cells.R.weight", 54),
        ("cells.weight", 90),
        ("table.weight", 27),
    ];
    assert_eq!(tensors, expected, "what has a format, by the names of the tensors");
}

#[test]
fn a_folded_normalisation_is_packed_with_its_convolution() {
    let model = residual(3).unwrap();
    let text = "first.weight FIXED 5 0\ndepthwise.weight FIXED 4 0\nfc.weight EXP 4 7\n";
    let formats: Dictionary = text.parse().unwrap();
    let file = PackedFile::new(&model, &formats, source()).unwrap();
    let objects: Vec<&str> = file.weights().iter().map(|of| of.object.as_str()).collect();
    assert_eq!(objects, ["depthwise.weight", "fc.weight", "first.weight"]);
    let plain = model.to_bytes().unwrap().len();
    let packed = file.to_bytes().unwrap().len();
    assert!(packed < plain, "{packed} bytes of {plain}");
}

/// A tensor that is also used otherwise is not packed.
#[test]
fn weights_that_others_read_stay_in_the_graph() {
    let mut net = Builder::new("tied", Weights::seeded(4));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 8.into()]);
    let both = net.weight("both.weight", &[8, 8], Fill::lecun(8)).unwrap();
    let y = net.node("MatMul", &[&x, &both], &[]).unwrap();
    let sums = net.node("ReduceSum", &[&y], &[("keepdims", 1_i64.into())]).unwrap();
    let z = net.node("Add", &[&sums, &both], &[]).unwrap();
    let z = net.node("MatMul", &[&y, &z], &[]).unwrap();
    net.output("y", &z).unwrap();
    let model = net.finish();
    let formats: Dictionary = "both.weight FIXED 5 0\n".parse().unwrap();
    let file = PackedFile::new(&model, &formats, source()).unwrap();
    assert!(file.weights().is_empty());
    let fed = fed(&[8], CorrectnessRule::Agreement(Agreement::Top));
    let [one, other] = [PackedNetwork::new(&model, &formats).unwrap(), file.network().unwrap()]
        .map(|packed| answers(&packed, &fed, &[0]));
    assert_eq!(bits(&one[0]), bits(&other[0]));
}

#[test]
fn a_number_that_a_table_has_not_is_told() {
    let model = spoken(Cells::Gru, 1).unwrap();
    let packed = PackedNetwork::new(&model, &Dictionary::new()).unwrap();
    let mut workspace = Workspace::default();
    let word = TensorView { dims: &[1, 2], values: &[3.0, 9.0] };
    let refused = packed.run(&[word], &mut workspace).unwrap_err();
    assert!(matches!(refused, PackedRunError::Node { .. }));
    assert_eq!(refused.to_string(), "Gather (Gather_0) has no row 9 of 9");
    let none = TensorView { dims: &[1, 0], values: &[] };
    let refused = packed.run(&[none], &mut workspace).unwrap_err().to_string();
    assert_eq!(refused, "expected letters of shape [?, ?], found 0 numbers of shape [1, 0]");
    assert_eq!(
        packed.run(&[], &mut workspace).unwrap_err().to_string(),
        "expected inputs letters, found 0 of them"
    );
}

/// The engine of graphs names layers after their tensors, the engine of chains after their nodes.
#[test]
fn a_chain_in_the_formats_of_a_graph_is_done_node_by_node() {
    let mut net = Builder::new("shared", Weights::seeded(4));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 8.into()]);
    let both = net.weight("both", &[8, 8], Fill::lecun(8)).unwrap();
    let y = net.node("MatMul", &[&x, &both], &[]).unwrap();
    let y = net.node("Relu", &[&y], &[]).unwrap();
    let y = net.node("MatMul", &[&y, &both], &[]).unwrap();
    net.output("y", &y).unwrap();
    let model = net.finish();
    let fed = fed(&[8], CorrectnessRule::Agreement(Agreement::Top));
    let mut graph = GraphEvaluator::new(&model, fed.clone(), sets()).unwrap();
    assert_eq!(graph.objects(), ["both.weight", "both.input"]);
    let assignment = assigned(&graph.objects(), &[8, 20]);
    let formats = assignment.dictionary();
    let expected = graph.answers(&assignment, &[2, 3]).unwrap();
    let packed = PackedNetwork::new(&model, &formats).unwrap();
    let file = PackedFile::new(&model, &formats, source()).unwrap();
    assert_eq!(file.weights().len(), 1);
    for packed in [packed, file.network().unwrap()] {
        for (found, expected) in answers(&packed, &fed, &[2, 3]).iter().zip(&expected) {
            assert_eq!(bits(found), bits(expected));
        }
    }
    let unknown =
        PackedNetwork::new(&model, &"other.weight FIXED 3 0\n".parse().unwrap()).unwrap_err();
    assert!(unknown.to_string().contains("there is no object `other.weight`"), "{unknown}");
}

/// Runs a network, if its file is valid, on a word or on other inputs that fit.
fn play(packed: &PackedNetwork) -> Result<(), String> {
    let dims = packed
        .inputs()
        .iter()
        .map(|port| port.shape.iter().map(|n| n.unwrap_or(2).min(16)).collect::<Vec<usize>>());
    let fed: Vec<(Vec<usize>, Vec<f32>)> =
        dims.map(|dims| (dims.clone(), vec![1.0; dims.iter().product()])).collect();
    let views = fed.iter().map(|(dims, values)| TensorView { dims, values });
    let mut workspace = Workspace::default();
    let found = packed.run(&views.collect::<Vec<_>>(), &mut workspace);
    found.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_damaged_graph_is_refused() {
    let (model, _) = case(4, 1);
    let text = "table.weight FIXED 4 0\ncells.weight FIXED 5 0\ncells.R.weight EXP 3 0\n";
    let file = PackedFile::new(&model, &text.parse().unwrap(), source()).unwrap();
    let bytes = file.to_bytes().unwrap();
    let played = play(&PackedFile::from_bytes(&bytes).unwrap().network().unwrap());
    assert_eq!(played, Ok(()));
    for count in (0..bytes.len()).step_by(7) {
        assert!(PackedFile::from_bytes(&bytes[..count]).is_err(), "{count} bytes");
    }
    for at in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x04;
        assert!(PackedFile::from_bytes(&damaged).is_err(), "byte {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A changed file with a valid checksum is either rejected or another network.
    #[test]
    fn a_forged_graph_is_no_panic(kind in 0_usize..6, at in any::<prop::sample::Index>(), to: u8) {
        use sha2::Digest;
        let (model, _) = case(kind, 1);
        let text = if kind == 0 { "first.weight FIXED 3 0\n" } else { "" };
        let file = PackedFile::new(&model, &text.parse().unwrap(), source()).unwrap();
        let mut bytes = file.to_bytes().unwrap();
        let body = bytes.len() - 32;
        // Changes the head and the nodes; numbers follow them.
        let place = 24 + at.index((body - 24).min(2500));
        bytes[place] = to;
        let sum = sha2::Sha256::digest(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum);
        let file = PackedFile::from_bytes(&bytes).map_err(|error| error.to_string());
        let network = file.and_then(|file| file.network().map_err(|error| error.to_string()));
        let played = network.and_then(|packed| play(&packed));
        prop_assert!(played != Err(String::new()), "an answer or a sentence");
    }
}
