//! Operators of classical machine learning. Expected numbers are worked out by hand, and the independent
//! evaluator must agree.

use dyno_graph::Value;
use dyno_onnx::{Attribute, Model};

use super::fused::{Attributes, check_model, check_refused, standard};
use super::standard::{integer, integers, text};
use super::{floats, ints};

type Named = (&'static str, Attribute);

fn numbers(name: &'static str, all: &[f32]) -> Named {
    (name, Attribute::Floats(all.to_vec()))
}

fn texts(name: &'static str, all: &[&str]) -> Named {
    (name, Attribute::Texts(all.iter().map(|text| (*text).to_owned()).collect()))
}

/// Returns a model of one node, whose output with this index is the model's.
fn classical(op: &str, inputs: &[Value], attributes: Attributes<'_>, output: usize) -> Model {
    let mut net = standard(op, 17, inputs, attributes);
    net.operator_sets.push(("ai.onnx.ml".into(), 2));
    net.nodes[0].domain = "ai.onnx.ml".into();
    net.nodes[0].outputs = vec![String::new(); output];
    net.nodes[0].outputs.push("y".into());
    net
}

#[track_caller]
fn check(op: &str, inputs: &[Value], attributes: Attributes<'_>, outputs: &[Value]) {
    for (at, expected) in outputs.iter().enumerate() {
        check_model(&classical(op, inputs, attributes, at), inputs, expected);
    }
}

#[track_caller]
fn check_error(op: &str, input: &Value, attributes: Attributes<'_>, reason: &str) {
    let inputs = std::slice::from_ref(input);
    check_refused(&classical(op, inputs, attributes, 0), inputs, reason);
}

fn samples() -> Value {
    floats(&[3, 2], &[1.0, -2.0, -1.0, -2.0, 0.0, 0.0])
}

#[test]
fn columns_are_scaled_replaced_and_selected() {
    let x = [samples()];
    let scaled = floats(&[3, 2], &[0.0, -2.0, -4.0, -2.0, -2.0, 0.0]);
    let attributes = [numbers("offset", &[1.0, 0.0]), numbers("scale", &[2.0, 1.0])];
    check("Scaler", &x, &attributes, &[scaled]);
    let one = [numbers("offset", &[1.0]), numbers("scale", &[2.0])];
    let scaled = floats(&[3, 2], &[0.0, -6.0, -4.0, -6.0, -2.0, -2.0]);
    check("Scaler", &x, &one, &[scaled]);
    let above = floats(&[3, 2], &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    check("Binarizer", &x, &[number("threshold", 0.5)], &[above]);
    let imputed = floats(&[3, 2], &[1.0, -2.0, -1.0, -2.0, 7.0, 8.0]);
    check("Imputer", &x, &[numbers("imputed_value_floats", &[7.0, 8.0])], &[imputed]);
    let unknown = [floats(&[1, 2], &[f32::NAN, 1.0])];
    let by = [numbers("imputed_value_floats", &[7.0]), number("replaced_value_float", f32::NAN)];
    check("Imputer", &unknown, &by, &[floats(&[1, 2], &[7.0, 1.0])]);
    let whole = Value::new(vec![1, 3], vec![5_i64, 4, 5]).expect("a valid case");
    let by = [integers("imputed_value_int64s", &[9]), integer("replaced_value_int64", 5)];
    let imputed = Value::new(vec![1, 3], vec![9_i64, 4, 9]).expect("a valid case");
    check("Imputer", &[whole], &by, &[imputed]);
    let picked = floats(&[3, 3], &[-2.0, 1.0, -2.0, -2.0, -1.0, -2.0, 0.0, 0.0, 0.0]);
    check("ArrayFeatureExtractor", &[samples(), ints(&[1, 0, 1])], &[], &[picked]);
    // A vector is one row.
    let row = Value::new(vec![1, 2], vec![6_i64, 4]).expect("a valid case");
    check("ArrayFeatureExtractor", &[ints(&[4, 5, 6]), ints(&[2, 0])], &[], &[row]);
}

fn number(name: &'static str, x: f32) -> Named {
    (name, Attribute::Float(x))
}

/// The third row has no norm, and stays.
#[test]
fn rows_are_divided_by_their_norm() {
    let x = [floats(&[3, 2], &[3.0, -4.0, 1.0, 3.0, 0.0, 0.0])];
    let l1 = floats(&[3, 2], &[3.0 / 7.0, -4.0 / 7.0, 0.25, 0.75, 0.0, 0.0]);
    check("Normalizer", &x, &[text("norm", "L1")], &[l1]);
    let root = 10.0_f32.sqrt();
    let l2 = floats(&[3, 2], &[0.6, -0.8, 1.0 / root, 3.0 / root, 0.0, 0.0]);
    check("Normalizer", &x, &[text("norm", "L2")], &[l2]);
    let most = [floats(&[2, 2], &[1.0, 4.0, 0.0, 0.0])];
    check("Normalizer", &most, &[], &[floats(&[2, 2], &[0.25, 1.0, 0.0, 0.0])]);
    check_error("Normalizer", &x[0], &[], "engines differ");
}

#[test]
fn labels_are_encoded_by_a_list() {
    let x = [ints(&[5, 7, 6, 5])];
    let keys = integers("keys_int64s", &[7, 5]);
    let to_ints = [keys.clone(), integers("values_int64s", &[1, 2])];
    check("LabelEncoder", &x, &to_ints, &[ints(&[2, 1, -1, 2])]);
    let to_floats =
        [keys.clone(), numbers("values_floats", &[0.5, 1.5]), number("default_float", 9.0)];
    check("LabelEncoder", &x, &to_floats, &[floats(&[4], &[1.5, 0.5, 9.0, 1.5])]);
    let from_floats = [numbers("keys_floats", &[2.5, -1.0]), integers("values_int64s", &[3, 4])];
    let x = [floats(&[2, 2], &[-1.0, 2.5, f32::NAN, 0.0])];
    let expected = Value::new(vec![2, 2], vec![4_i64, 3, -1, -1]).expect("a valid case");
    check("LabelEncoder", &x, &from_floats, &[expected]);
    check_error("LabelEncoder", &ints(&[1]), &[keys], "one list of keys and one of values");
}

/// The sums of the rows are (1.5, -2.5), (-0.5, -2.5) and (0.5, -0.5).
#[test]
fn linear_models_weigh_columns() {
    let x = samples();
    let weights =
        [numbers("coefficients", &[1.0, 0.0, 0.0, 1.0]), numbers("intercepts", &[0.5, -0.5])];
    let sums = floats(&[3, 2], &[1.5, -2.5, -0.5, -2.5, 0.5, -0.5]);
    let targets = [weights.to_vec(), vec![integer("targets", 2)]].concat();
    check("LinearRegressor", std::slice::from_ref(&x), &targets, std::slice::from_ref(&sums));
    let one = [numbers("coefficients", &[2.0, -1.0])];
    check("LinearRegressor", std::slice::from_ref(&x), &one, &[floats(&[3, 1], &[4.0, 0.0, 0.0])]);
    let with = |transform: &str| {
        let labels = integers("classlabels_ints", &[20, 10]);
        let more = vec![labels, text("post_transform", transform), integer("multi_class", 1)];
        [weights.to_vec(), more].concat()
    };
    let x = [floats(&[2, 2], &[-0.5, 0.5, -0.5, 1.5])];
    let labels = ints(&[20, 10]);
    let logistic = |x: f32| 1.0 / (1.0 + (-x).exp());
    let sums = floats(&[2, 2], &[0.0, 0.0, 0.0, 1.0]);
    check("LinearClassifier", &x, &with("NONE"), &[labels.clone(), sums]);
    let one = logistic(1.0);
    let found = floats(&[2, 2], &[0.5, 0.5, 0.5, one]);
    check("LinearClassifier", &x, &with("LOGISTIC"), &[labels.clone(), found]);
    let found = floats(&[2, 2], &[0.5, 0.5, 1.0 - one, one]);
    check("LinearClassifier", &x, &with("SOFTMAX"), &[labels, found]);
    check_error("LinearClassifier", &samples(), &with("PROBIT"), "post_transform");
    let texts = [weights.to_vec(), vec![texts("classlabels_strings", &["a", "b"])]].concat();
    check_error("LinearClassifier", &samples(), &texts, "labels that are texts");
}

/// The support vectors (1, 0) and (0, 1) weigh 2 and -1.
#[test]
fn support_vectors_weigh_kernels() {
    let x = [samples()];
    let with = |supports: i64, vectors: &[f32], rho: f32, more: &[Named]| {
        let all = [
            numbers("coefficients", &[2.0, -1.0]),
            numbers("support_vectors", vectors),
            numbers("rho", &[rho]),
            integer("n_supports", supports),
        ];
        [&all[..], more].concat()
    };
    let vectors = [1.0, 0.0, 0.0, 1.0];
    let exp = f32::exp;
    for (kernel, expected) in [
        ("LINEAR", [4.5, 0.5, 0.5]),
        // The kernels of the rows are 2.25 and 0, 0.25 and 0, and 1 and 1.
        ("POLY", [5.0, 1.0, 1.5]),
        (
            "RBF",
            [2.0 * exp(-2.0) - exp(-5.0) + 0.5, 2.0 * exp(-4.0) - exp(-5.0) + 0.5, exp(-0.5) + 0.5],
        ),
        ("SIGMOID", [2.0 * 1.5_f32.tanh() + 0.5, 2.0 * 0.5_f32.tanh() + 0.5, 1.0_f32.tanh() + 0.5]),
    ] {
        let more = [text("kernel_type", kernel), numbers("kernel_params", &[0.5, 1.0, 2.0])];
        let attributes = with(2, &vectors, 0.5, &more);
        check("SVMRegressor", &x, &attributes, &[floats(&[3, 1], &expected)]);
    }
    // Without support vectors, the columns weigh 2 and -1.
    let sums = floats(&[3, 1], &[4.5, 0.5, 0.5]);
    check("SVMRegressor", &x, &with(0, &[], 0.5, &[text("kernel_type", "LINEAR")]), &[sums]);
    let sides = floats(&[3, 1], &[1.0, -1.0, -1.0]);
    check("SVMRegressor", &x, &with(2, &vectors, -1.0, &[integer("one_class", 1)]), &[sides]);
    for (more, reason) in [
        (text("post_transform", "LOGISTIC"), "of a regressor"),
        (text("kernel_type", "RBF"), "kernel_params"),
        (integer("n_supports", 3), "expected 3 coefficients"),
    ] {
        let mut attributes = with(2, &vectors, 0.5, &[]);
        attributes.retain(|(name, _)| *name != more.0);
        attributes.push(more);
        check_error("SVMRegressor", &x[0], &attributes, reason);
    }
}

/// Returns two trees. The leaves of the first one are reached if the first column is at most 0, and if
/// not; those of the second one if the second column is at most -2, and if not.
fn trees() -> Vec<Named> {
    vec![
        integers("nodes_treeids", &[0, 0, 0, 1, 1, 1]),
        integers("nodes_nodeids", &[0, 1, 2, 0, 1, 2]),
        integers("nodes_featureids", &[0, 0, 0, 1, 0, 0]),
        texts("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"]),
        numbers("nodes_values", &[0.0, 0.0, 0.0, -2.0, 0.0, 0.0]),
        integers("nodes_truenodeids", &[1, 0, 0, 1, 0, 0]),
        integers("nodes_falsenodeids", &[2, 0, 0, 2, 0, 0]),
    ]
}

fn leaves(kind: [&'static str; 4], outputs: &[i64; 4], weights: &[f32; 4]) -> Vec<Named> {
    let [ids, in_trees, in_nodes, of_weights] = kind;
    vec![
        integers(ids, outputs),
        integers(in_trees, &[0, 0, 1, 1]),
        integers(in_nodes, &[1, 2, 1, 2]),
        numbers(of_weights, weights),
    ]
}

const TARGETS: [&str; 4] = ["target_ids", "target_treeids", "target_nodeids", "target_weights"];
const CLASSES: [&str; 4] = ["class_ids", "class_treeids", "class_nodeids", "class_weights"];

#[test]
fn regressors_combine_the_leaves_of_trees() {
    let x = [samples()];
    let targets = leaves(TARGETS, &[0; 4], &[1.0, 2.0, 10.0, 20.0]);
    for (function, expected) in [
        ("SUM", [112.0, 111.0, 121.0]),
        ("AVERAGE", [106.0, 105.5, 110.5]),
        ("MIN", [102.0, 101.0, 101.0]),
        ("MAX", [110.0, 110.0, 120.0]),
    ] {
        let more = vec![text("aggregate_function", function), numbers("base_values", &[100.0])];
        let attributes = [trees(), targets.clone(), more].concat();
        check("TreeEnsembleRegressor", &x, &attributes, &[floats(&[3, 1], &expected)]);
    }
    let two = leaves(TARGETS, &[0, 1, 0, 1], &[1.0, 2.0, 10.0, 20.0]);
    let attributes = [trees(), two, vec![integer("n_targets", 2)]].concat();
    let expected = floats(&[3, 2], &[10.0, 2.0, 11.0, 0.0, 1.0, 20.0]);
    check("TreeEnsembleRegressor", &x, &attributes, &[expected]);
    // The second row reaches no leaf with a weight for the second target.
    let least = [attributes.clone(), vec![text("aggregate_function", "MIN")]].concat();
    check_error("TreeEnsembleRegressor", &x[0], &least, "no weight");
    let based = [attributes, vec![numbers("base_values", &[0.0, 1.0])]].concat();
    check_error("TreeEnsembleRegressor", &x[0], &based, "no weight");
    let logistic = [trees(), targets, vec![text("post_transform", "LOGISTIC")]].concat();
    check_error("TreeEnsembleRegressor", &x[0], &logistic, "of a regressor");
}

/// Numbers before, at and after the threshold, and NaN.
#[test]
fn branches_compare_columns_with_thresholds() {
    let x = [floats(&[4, 1], &[-1.0, 0.0, 1.0, f32::NAN])];
    let run = |mode: &str, tracks: i64, expected: [f32; 4]| {
        let attributes = [
            integers("nodes_treeids", &[4, 4, 4]),
            integers("nodes_nodeids", &[7, 5, 9]),
            integers("nodes_featureids", &[0, 0, 0]),
            texts("nodes_modes", &["LEAF", mode, "LEAF"]),
            numbers("nodes_values", &[0.0; 3]),
            integers("nodes_truenodeids", &[0, 9, 0]),
            integers("nodes_falsenodeids", &[0, 7, 0]),
            integers("nodes_missing_value_tracks_true", &[0, tracks, 0]),
            integers("target_ids", &[0]),
            integers("target_treeids", &[4]),
            integers("target_nodeids", &[9]),
            numbers("target_weights", &[1.0]),
        ];
        check("TreeEnsembleRegressor", &x, &attributes, &[floats(&[4, 1], &expected)]);
    };
    run("BRANCH_LEQ", 0, [1.0, 1.0, 0.0, 0.0]);
    run("BRANCH_LT", 0, [1.0, 0.0, 0.0, 0.0]);
    run("BRANCH_GTE", 0, [0.0, 1.0, 1.0, 0.0]);
    run("BRANCH_GT", 0, [0.0, 0.0, 1.0, 0.0]);
    run("BRANCH_EQ", 0, [0.0, 1.0, 0.0, 0.0]);
    run("BRANCH_NEQ", 0, [1.0, 0.0, 1.0, 1.0]);
    run("BRANCH_LT", 1, [1.0, 0.0, 0.0, 1.0]);
}

/// The weights of the rows for three classes are (0.5, 0.4, 1), (0.6, 0.6, 1) and (0.6, 1, 0.7).
#[test]
fn classifiers_choose_the_class_with_the_best_sum() {
    let x = [samples()];
    let classes = leaves(CLASSES, &[0, 1, 2, 1], &[0.1, -0.2, 0.3, 0.4]);
    let labels = integers("classlabels_int64s", &[7, 8, 9]);
    let base = numbers("base_values", &[0.5, 0.6, 0.7]);
    let attributes = [trees(), classes, vec![labels.clone(), base]].concat();
    let scores = [0.5, 0.4, 1.0, 0.6, 0.6, 1.0, 0.6, 1.0, 0.7];
    check("TreeEnsembleClassifier", &x, &attributes, &[ints(&[9, 9, 8]), floats(&[3, 3], &scores)]);
    let softmax = [attributes, vec![text("post_transform", "SOFTMAX")]].concat();
    let rows = scores.chunks_exact(3).flat_map(|row| {
        let sum: f32 = row.iter().map(|x| x.exp()).sum();
        row.iter().map(move |x| x.exp() / sum)
    });
    let rows: Vec<f32> = rows.collect();
    check("TreeEnsembleClassifier", &x, &softmax, &[ints(&[9, 9, 8]), floats(&[3, 3], &rows)]);
    // Class 9 has the best sum, 0, of no leaf at all.
    let open = leaves(CLASSES, &[0, 1, 0, 1], &[-0.1, -0.2, -0.3, -0.4]);
    let open = [trees(), open, vec![labels.clone()]].concat();
    check_error("TreeEnsembleClassifier", &x[0], &open, "best sum");
    // Engines differ in whether class 7, of no leaf, is as good as classes with the weight 0.
    let equal = [trees(), leaves(CLASSES, &[1, 2, 1, 2], &[0.0; 4]), vec![labels]].concat();
    check_error("TreeEnsembleClassifier", &x[0], &equal, "best sum");
}

#[test]
fn two_classes_share_one_sum() {
    let x = [samples()];
    let labels = integers("classlabels_int64s", &[7, 8]);
    let with = |weights: &[f32; 4], more: Vec<Named>| {
        [trees(), leaves(CLASSES, &[0; 4], weights), vec![labels.clone()], more].concat()
    };
    // Shares of trees.
    let shares = with(&[0.1, 0.2, 0.3, 0.4], Vec::new());
    let scores = floats(&[3, 2], &[0.5, 0.5, 0.6, 0.4, 0.5, 0.5]);
    let found = with(&[0.0, 0.5, 0.5, 0.0], Vec::new());
    check_model(&classical("TreeEnsembleClassifier", &x, &shares, 1), &x, &scores);
    let expected = [ints(&[8, 7, 7]), floats(&[3, 2], &[0.0, 1.0, 0.5, 0.5, 1.0, 0.0])];
    check("TreeEnsembleClassifier", &x, &found, &expected);
    // Logits, here 2, -1 and -2 with the base.
    let logistic = |x: f32| 1.0 / (1.0 + (-x).exp());
    let more = vec![text("post_transform", "LOGISTIC"), numbers("base_values", &[0.5])];
    let logits = with(&[-2.0, 1.0, 0.5, -0.5], more);
    let scores: Vec<f32> =
        [2.0, -1.0, -2.0].into_iter().flat_map(|x| [logistic(-x), logistic(x)]).collect();
    check("TreeEnsembleClassifier", &x, &logits, &[ints(&[8, 7, 7]), floats(&[3, 2], &scores)]);
    // Engines disagree on these.
    let none = with(&[-2.0, 1.0, 0.5, -0.5], Vec::new());
    check_error("TreeEnsembleClassifier", &x[0], &none, "negative weights");
    let both = [trees(), leaves(CLASSES, &[0, 1, 0, 1], &[0.1; 4]), vec![labels.clone()]].concat();
    check_error("TreeEnsembleClassifier", &x[0], &both, "second label");
}

#[test]
fn malformed_trees_are_rejected() {
    let x = samples();
    let targets = leaves(TARGETS, &[0; 4], &[1.0; 4]);
    let with = |name: &'static str, value: Attribute| {
        let mut all = [trees(), targets.clone()].concat();
        all.retain(|(known, _)| *known != name);
        all.push((name, value));
        all
    };
    let ring = with("nodes_falsenodeids", Attribute::Ints(vec![0, 0, 0, 2, 0, 0]));
    check_error("TreeEnsembleRegressor", &x, &ring, "cannot be reached");
    let twice = with("nodes_nodeids", Attribute::Ints(vec![0, 1, 1, 0, 1, 2]));
    check_error("TreeEnsembleRegressor", &x, &twice, "two nodes 1");
    let far = with("nodes_featureids", Attribute::Ints(vec![0, 0, 0, 2, 0, 0]));
    check_error("TreeEnsembleRegressor", &x, &far, "3 columns or more");
    let lost = with("target_nodeids", Attribute::Ints(vec![1, 2, 1, 3]));
    check_error("TreeEnsembleRegressor", &x, &lost, "no node 3");
    let short = with("nodes_values", Attribute::Floats(vec![0.0; 2]));
    check_error("TreeEnsembleRegressor", &x, &short, "nodes_values");
}
