//! Small models whose samples can or cannot share a call.

use super::*;
use crate::{Attribute, BuildError, Builder, Element, Fill, Name, Weights};

/// Returns the obstacle of a model with the input `x [N, 4]` and the weight `w [4, 4]`.
fn obstacle(
    build: impl FnOnce(&mut Builder, &Name, &Name) -> Result<Name, BuildError>,
) -> Option<String> {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
    let w = net.weight("w", &[4, 4], Fill::he(4)).unwrap();
    let y = build(&mut net, &x, &w).unwrap();
    net.output("y", &y).unwrap();
    batch_obstacle(net.finish(), None)
}

#[test]
fn layers_of_rows_share_calls() {
    let found = obstacle(|net, x, w| {
        let y = net.node("MatMul", &[x, w], &[])?;
        let y = net.node("Softmax", &[&y], &[("axis", (-1_i64).into())])?;
        net.node("ReduceMax", &[&y], &[("axes", [1].into())])
    });
    assert_eq!(found, None);
    // The reduced axis of the transposed value is that of the features.
    let found = obstacle(|net, x, _| {
        let y = net.node("Transpose", &[x], &[("perm", [1, 0].into())])?;
        let y = net.node("Softmax", &[&y], &[("axis", 0_i64.into())])?;
        net.node("Transpose", &[&y], &[("perm", [1, 0].into())])
    });
    assert_eq!(found, None);
}

#[test]
fn operators_across_samples_are_obstacles() {
    let across: [(&str, &[(&str, Attribute)]); 3] = [
        ("Softmax", &[("axis", Attribute::Int(0))]),
        ("LpNormalization", &[("axis", Attribute::Int(0))]),
        ("Trilu", &[]),
    ];
    for (op, attributes) in across {
        let found = obstacle(|net, x, _| net.node(op, &[x], attributes)).unwrap();
        assert!(found.contains(&format!("({op}) combines")), "{found}");
    }
    // Each sample minus the mean of the call.
    let found = obstacle(|net, x, _| {
        let mean = net.node("ReduceMean", &[x], &[("axes", [0].into())])?;
        net.node("Sub", &[x, &mean], &[])
    });
    assert!(found.unwrap().contains("(ReduceMean) combines"));
    let found = obstacle(|net, x, _| {
        let axis = net.integers(&[0]);
        net.node("CumSum", &[x, &axis], &[])
    });
    assert!(found.unwrap().contains("(CumSum) combines"));
    // All samples in the opposite order; reversed elements of a sample are its own.
    let reversed = |axis: i64| {
        obstacle(|net, x, _| {
            let from_to = [net.integers(&[-1]), net.integers(&[i64::MIN])];
            let (axis, step) = (net.integers(&[axis]), net.integers(&[-1]));
            net.node("Slice", &[x, &from_to[0], &from_to[1], &axis, &step], &[])
        })
    };
    assert!(reversed(0).unwrap().contains("(Slice) combines"));
    assert_eq!(reversed(1), None);
    let found = obstacle(|net, x, _| {
        let cut = net.node("Cast", &[x], &[("to", Element::I64.into())])?;
        net.node("GatherElements", &[x, &cut], &[("axis", 0_i64.into())])
    });
    assert!(found.unwrap().contains("(GatherElements) combines"));
    let found = obstacle(|net, x, _| {
        let found = net.node("NonZero", &[x], &[])?;
        net.node("Transpose", &[&found], &[])
    });
    assert!(found.unwrap().contains("(NonZero) combines"));
    // The greatest elements are those of each sample; their indices are those in the whole call.
    let pooled = |output: usize| {
        obstacle(|net, x, _| {
            let axis = net.integers(&[1]);
            let image = net.node("Unsqueeze", &[x, &axis], &[])?;
            let kernel = [("kernel_shape", Attribute::Ints(vec![2]))];
            if output == 0 {
                return net.node("MaxPool", &[&image], &kernel);
            }
            let [_, indices] = net.nodes("MaxPool", &[&image], &kernel)?;
            Ok(indices)
        })
    };
    assert_eq!(pooled(0), None);
    assert!(pooled(1).unwrap().contains("(MaxPool) combines"));
    for op in ["RoiAlign", "MaxRoiPool"] {
        let mut regions = unknown("N", Some("N"));
        regions.nodes[0].op = op.into();
        let found = batch_obstacle(regions, None).unwrap();
        assert!(found.contains(&format!("({op}) combines")), "{found}");
    }
}

#[test]
fn a_branch_by_values_of_the_call_is_an_obstacle() {
    let found = obstacle(|net, x, w| {
        // A size does not depend on the elements of the samples.
        let size = net.node("Size", &[x], &[])?;
        let condition = net.node("Cast", &[&size], &[("to", Element::Bool.into())])?;
        let branch = |net: &Builder, name: &str| {
            let mut body = net.body(name);
            let y = body.node("MatMul", &[x, w], &[])?;
            body.output(&format!("{name}_y"), &y)?;
            Ok::<_, BuildError>(Attribute::from(body.finish_body()))
        };
        let branches = [("then_branch", branch(net, "a")?), ("else_branch", branch(net, "b")?)];
        net.node("If", &[&condition], &branches)
    });
    assert_eq!(found, None);
    let node = |op: &str, input: &str, output: &str| Node {
        name: String::new(),
        op: op.into(),
        domain: String::new(),
        inputs: vec![input.into()],
        outputs: vec![output.into()],
        attributes: Vec::new(),
    };
    let mut data = HashSet::from(["x".to_owned()]);
    let nodes = [node("Foo", "x", "condition"), node("If", "condition", "y")];
    let found = follow(&nodes, &mut data);
    assert_eq!(found.as_deref(), Some("node `y` (If) decides by values of all samples of a call"));
    let mut data = HashSet::from(["x".to_owned()]);
    let nodes = [node("Shape", "x", "condition"), node("If", "condition", "y")];
    assert_eq!(follow(&nodes, &mut data), None);
}

#[test]
fn an_output_needs_the_first_dimension_of_the_inputs() {
    let table = obstacle(|net, x, w| {
        let same = net.node("Identity", &[x], &[])?;
        net.output("same", &same)?;
        net.node("Identity", &[w], &[])
    });
    let expected = "output `y` is not proven to have one row per sample: its first dimension is 4, \
                    that of the inputs is N";
    assert_eq!(table.as_deref(), Some(expected));
}

/// Returns a model of one operator that no inference knows, with these first dimensions.
fn unknown(input: &str, output: Option<&str>) -> Model {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol(input), 4.into()]);
    net.output("y", &x).unwrap();
    let mut model = net.finish();
    model.nodes[0].op = "Unheard".into();
    model.outputs[0].shape = output.map(|name| vec![Dim::symbol(name), 4.into()]);
    model
}

#[test]
fn without_inference_the_declared_name_decides() {
    assert_eq!(batch_obstacle(unknown("N", Some("N")), None), None);
    for output in [Some("M"), Some("?"), None] {
        let found = batch_obstacle(unknown("N", output), None).unwrap();
        let first = output.filter(|name| *name != "?").unwrap_or("unknown");
        assert!(found.contains(&format!("dimension is {first}, that of the inputs is N")));
    }
    let found = batch_obstacle(unknown("?", Some("?")), None).unwrap();
    assert!(found.ends_with("dimension is unknown, that of the inputs is unnamed"), "{found}");
}

/// Returns the obstacle of an operator of `ai.onnx.ml`, behind a `Transpose` if `is_transposed`. As
/// converters from scikit-learn write it, the output has no shape.
fn classical(op: &str, attribute: (&str, Attribute), is_transposed: bool) -> Option<String> {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("?"), 4.into()]);
    let perm = if is_transposed { [1, 0] } else { [0, 1] };
    let table = net.node("Transpose", &[&x], &[("perm", perm.into())]).unwrap();
    let y = net.node("Identity", &[&table], &[]).unwrap();
    net.output("y", &y).unwrap();
    let mut model = net.finish();
    let node = model.nodes.iter_mut().find(|node| node.op == "Identity").unwrap();
    (node.op, node.domain) = (op.into(), "ai.onnx.ml".into());
    node.attributes = vec![(attribute.0.into(), attribute.1)];
    model.outputs[0].shape = None;
    batch_obstacle(model, None)
}

#[test]
fn classical_models_share_calls() {
    let labels = || Attribute::Ints(vec![0, 1, 2]);
    for (op, attribute, values) in [
        ("Scaler", "scale", Attribute::Floats(vec![2.0])),
        ("Normalizer", "norm", Attribute::Text("L1".into())),
        ("Imputer", "replaced_value_float", Attribute::Float(0.0)),
        ("LinearRegressor", "targets", Attribute::Int(2)),
        ("LinearClassifier", "classlabels_ints", labels()),
        ("SVMClassifier", "classlabels_ints", labels()),
        ("TreeEnsembleClassifier", "classlabels_int64s", labels()),
    ] {
        assert_eq!(classical(op, (attribute, values.clone()), false), None, "{op}");
        let found = classical(op, (attribute, values), true).unwrap();
        assert!(found.contains(&format!("({op}) combines")), "{found}");
    }
    let texts = Attribute::Texts(vec!["cat".into(), "dog".into()]);
    for (op, is_transposed) in
        [("LinearClassifier", false), ("Unheard", false), ("LabelEncoder", true)]
    {
        let attribute = ("classlabels_strings", texts.clone());
        let found = classical(op, attribute, is_transposed).unwrap();
        assert!(found.contains("is not proven to have one row per sample"), "{found}");
    }
}

/// Returns the obstacle of a model in which an operator of `ai.onnx.ml` replaces the first `op`.
fn replaced(net: Builder, op: &str, classical: &str) -> Option<String> {
    let mut model = net.finish();
    let node = model.nodes.iter_mut().find(|node| node.op == op).unwrap();
    (node.op, node.domain) = (classical.into(), "ai.onnx.ml".into());
    batch_obstacle(model, None)
}

#[test]
fn a_class_is_looked_up_for_each_sample() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
    let best = net.node("ArgMax", &[&x], &[("axis", 1_i64.into())]).unwrap();
    let classes = net.integers(&[0, 1, 2, 3]);
    let found = net.node("Gather", &[&classes, &best], &[]).unwrap();
    // The operator returns one row with the classes of all samples.
    let y = net.node("Transpose", &[&found], &[("perm", [1, 0].into())]).unwrap();
    net.output("y", &y).unwrap();
    assert_eq!(replaced(net, "Gather", "ArrayFeatureExtractor"), None);
}

#[test]
fn a_vector_is_one_row() {
    for (op, is_row) in [("LinearRegressor", true), ("Scaler", true), ("LabelEncoder", false)] {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N")]);
        let y = net.node("Neg", &[&x], &[]).unwrap();
        net.output("y", &y).unwrap();
        let found = replaced(net, "Neg", op);
        assert_eq!(found.is_some_and(|found| found.contains("combines")), is_row, "{op}");
    }
}

/// A converter from TensorFlow names all sizes anew, and takes the last step with a slice.
#[test]
fn rows_are_proven_with_sizes_of_the_other_dimensions() {
    let last = |axis: i64| {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[9.into(), 9.into(), 4.into()]);
        let (from, to) = (net.integers(&[-1]), net.integers(&[i64::MAX]));
        let axis = net.integers(&[axis]);
        let y = net.node("Slice", &[&x, &from, &to, &axis], &[]).unwrap();
        let y = net.node("Squeeze", &[&y, &axis], &[]).unwrap();
        net.output("y", &y).unwrap();
        let mut model = net.finish();
        let unnamed = |n: usize| Dim::symbol(&format!("unk__{n}"));
        model.inputs[0].shape = Some(vec![unnamed(1), unnamed(2), 4.into()]);
        model.outputs[0].shape = Some(vec![unnamed(3), 4.into()]);
        model
    };
    assert_eq!(batch_obstacle(last(1), None), None);
    let found = batch_obstacle(last(0), None).unwrap();
    assert!(found.contains("is not proven to have one row per sample"), "{found}");
    let found = batch_obstacle(unknown("N", Some("unk__7")), None).unwrap();
    assert!(found.ends_with("dimension is unknown, that of the inputs is N"), "{found}");
}

/// Values of `[steps, N, 4]` are not those of `[N, 4 steps]`: a row has elements of several samples.
#[test]
fn a_reshape_that_assigns_elements_to_other_samples_is_an_obstacle() {
    let found = |perm: [i64; 3]| {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N"), 3.into(), 4.into()]);
        let y = net.node("Transpose", &[&x], &[("perm", perm.into())]).unwrap();
        let rows = net.integers(&[-1, 12]);
        let y = net.node("Reshape", &[&y, &rows], &[]).unwrap();
        net.output("y", &y).unwrap();
        batch_obstacle(net.finish(), None)
    };
    assert_eq!(found([0, 2, 1]), None);
    assert!(found([1, 0, 2]).unwrap().contains("(Reshape) combines"));
}

#[test]
fn only_the_chosen_output_matters() {
    let model = || {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
        let same = net.node("Relu", &[&x], &[]).unwrap();
        net.output("rows", &same).unwrap();
        let mean = net.node("ReduceMean", &[&x], &[("axes", [0].into())]).unwrap();
        net.output("mean", &mean).unwrap();
        net.finish()
    };
    assert_eq!(batch_obstacle(model(), Some(0)), None);
    assert!(batch_obstacle(model(), Some(1)).is_some());
    assert!(batch_obstacle(model(), None).is_some());
}

#[test]
fn a_fixed_first_dimension_has_no_batch() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[1.into(), 4.into()]);
    let y = net.node("Softmax", &[&x], &[("axis", 0_i64.into())]).unwrap();
    net.output("y", &y).unwrap();
    assert_eq!(batch_obstacle(net.finish(), None), None);
}
