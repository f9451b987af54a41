//! Compares weights with scales with block formats and affine formats, and with the oracle.

use dyno_oracle::{Element as OracleElement, Model as OracleModel, Tensor as OracleTensor, Values};

use super::*;
use crate::codec::Rounding;
use crate::scaled::{Affine, BlockFormat};

const ROWS: usize = 64;
const COLUMNS: usize = 3;

fn product(version: i64) -> Model {
    let mut net = Builder::new("product", Weights::seeded(4));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), ROWS.into()]);
    let weight = net.weight("fc.weight", &[ROWS, COLUMNS], Fill::he(ROWS)).unwrap();
    let y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
    net.output("y", &y).unwrap();
    let mut model = net.finish();
    model.operator_sets[0].1 = version;
    model
}

fn scaled(format: &str) -> Result<ScaledModel, QdqError> {
    ScaledModel::new(&product(21), &[("fc.weight".into(), format.parse().unwrap())], false)
}

#[test]
fn a_layer_has_the_name_of_its_node_or_of_its_weights() {
    let mut net = Builder::new("small", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
    let weight = net.weight("onnx::MatMul_12", &[4, 3], Fill::he(4)).unwrap();
    let y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
    net.output("y", &y).unwrap();
    let model = net.finish();
    let names = crate::evaluate::LayerNames::new(&model);
    let (by_node, by_weights) = names.layers().next().expect("a layer with two names");
    let by_weights = format!("{by_weights}.weight");
    for name in [format!("{by_node}.weight"), by_weights.clone()] {
        let formats = [(name, "int8:channel".parse().unwrap())];
        let made = ScaledModel::new(&model, &formats, false).unwrap();
        let objects: Vec<&String> = made.layers.iter().map(|layer| &layer.object).collect();
        assert_eq!(objects, [&by_weights]);
    }
}

/// Returns the weights by columns, as the oracle multiplies unit vectors by them.
fn columns(model: &Model) -> Vec<Vec<f64>> {
    let oracle = OracleModel::from_bytes(&model.to_bytes().unwrap()).unwrap();
    let ones = (0..ROWS * ROWS).map(|at| f64::from(u8::from(at / ROWS == at % ROWS))).collect();
    let x = OracleTensor::floats(OracleElement::Float32, &[ROWS, ROWS], ones).unwrap();
    let found = oracle.run(&[("x", x)]).unwrap();
    let Values::Floats(all) = found[0].1.values() else { panic!("expected floats") };
    (0..COLUMNS).map(|at| all.iter().skip(at).step_by(COLUMNS).copied().collect()).collect()
}

/// Checks the weights of a model with scales against those that `round` makes of each column.
fn check(format: &str, round: impl Fn(&mut [f32])) -> u64 {
    let made = scaled(format).unwrap();
    let plain = columns(&product(21));
    for (found, plain) in columns(&made.model).iter().zip(&plain) {
        let mut expected: Vec<f32> = plain.iter().map(|x| *x as f32).collect();
        round(&mut expected);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - f64::from(expected)).abs() < 1e-7, "{format}: {found} {expected}");
        }
        assert_ne!(found, plain);
    }
    made.layers[0].bits
}

#[test]
fn weights_have_the_scales_of_their_channels_and_groups() {
    let most = |all: &[f32]| all.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let bits = check("int8:channel", |all| {
        Affine::symmetric(Format::INT8, most(all)).unwrap().quantise_slice(all).unwrap();
    });
    assert_eq!(bits, 192 * 8 + 3 * 32);
    let bits = check("uint4:32", |all| {
        for group in all.chunks_mut(32) {
            let least = group.iter().copied().fold(0.0, f32::min);
            let largest = group.iter().copied().fold(0.0, f32::max);
            let affine = Affine::covering(Format::UINT4, least, largest).unwrap();
            affine.quantise_slice(group).unwrap();
        }
    });
    assert_eq!(bits, 192 * 4 + 6 * 36);
    for (name, element) in [
        ("mxfp4", Format::FP4_E2M1),
        ("mxfp6-e3m2", Format::FP6_E3M2),
        ("mxfp6-e2m3", Format::FP6_E2M3),
        ("mxint8", Format::MXINT8),
    ] {
        let block = BlockFormat::mx(element);
        let bits = check(name, |all| block.quantise_slice(all, Rounding::NearestEven).unwrap());
        assert_eq!(bits, block.bits_of(192), "{name}");
    }
}

/// The oracle has no FP8, so these files are read by the engine; `cargo xtask peers number` compares
/// them with ONNX Runtime.
#[test]
fn weights_of_mxfp8_are_numbers_of_fp8() {
    let plain = columns(&product(21));
    for (name, element, kind) in [
        ("mxfp8-e4m3", Format::FP8_E4M3FN, Element::F8E4M3),
        ("mxfp8-e5m2", Format::FP8_E5M2, Element::F8E5M2),
    ] {
        let made = scaled(name).unwrap();
        assert!(made.model.tensors.iter().any(|tensor| tensor.element == kind), "{name}");
        let block = BlockFormat::mx(element);
        assert_eq!(made.layers[0].bits, block.bits_of(192), "{name}");
        let fed = fed(&[ROWS], CorrectnessRule::Agreement(Agreement::Top));
        let again = GraphEvaluator::new(&made.model, fed, sets()).unwrap();
        let layer = again.objects()[0].strip_suffix(".weight").unwrap().to_owned();
        let found = again.weights(&layer).unwrap();
        for (column, plain) in plain.iter().enumerate() {
            let mut expected: Vec<f32> = plain.iter().map(|x| *x as f32).collect();
            block.quantise_slice(&mut expected, Rounding::NearestEven).unwrap();
            let found: Vec<f32> = found.iter().skip(column).step_by(COLUMNS).copied().collect();
            assert_eq!(found, expected, "{name}");
        }
    }
    let format = "mxfp8-e4m3".parse().unwrap();
    let old = ScaledModel::new(&product(17), &[("fc.weight".into(), format)], false);
    let problem = old.unwrap_err().to_string();
    assert!(problem.contains("need operators of version 21"), "{problem}");
    // No runtime reads groups of integers in such a file either, and a search does not choose them.
    for name in ["int4:32", "mxfp4", "mxint8", "nvfp4"] {
        let format: ScaledFormat = name.parse().unwrap();
        let old = ScaledModel::new(&product(17), &[("fc.weight".into(), format)], false);
        let problem = old.unwrap_err().to_string();
        assert!(problem.contains("need operators of version 21"), "{name}: {problem}");
        assert!(!ScaledSearch::new(&product(17), &[format]).unwrap().has_choice(), "{name}");
        assert!(ScaledSearch::new(&product(21), &[format]).unwrap().has_choice(), "{name}");
    }
}

/// A scale of the whole tensor.
#[test]
fn weights_of_nvfp4_share_a_scale() {
    let made = scaled("nvfp4").unwrap();
    let plain: Vec<f32> = columns(&product(21)).concat().iter().map(|x| *x as f32).collect();
    let mut expected = plain;
    // Groups are ordered by rows, then by columns; the scale of the tensor is that of the largest.
    BlockFormat::nvfp4().quantise_slice(&mut expected, Rounding::NearestEven).unwrap();
    for (found, expected) in columns(&made.model).concat().iter().zip(expected) {
        assert!((found - f64::from(expected)).abs() < 1e-7, "{found} {expected}");
    }
    assert_eq!(made.layers[0].bits, BlockFormat::nvfp4().bits_of(192));
}

/// Each move of the search saves bits, and one that loses too much is not made.
#[test]
fn a_search_moves_objects_to_smaller_formats_while_the_accuracy_stays() {
    let mut net = Builder::new("two", Weights::seeded(5));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), ROWS.into()]);
    let first = net.weight("fc1.weight", &[ROWS, ROWS], Fill::he(ROWS)).unwrap();
    let second = net.weight("fc2.weight", &[ROWS, COLUMNS], Fill::he(ROWS)).unwrap();
    let y = net.node("MatMul", &[&x, &first], &[]).unwrap();
    let y = net.node("MatMul", &[&y, &second], &[]).unwrap();
    net.output("y", &y).unwrap();
    let mut model = net.finish();
    model.operator_sets[0].1 = 21;
    let search = ScaledSearch::new(&model, &ScaledFormat::all()).unwrap();
    assert_eq!(search.objects(), ["fc1.weight", "fc2.weight"]);
    assert_eq!(search.base_bits(), 32 * (64 * 64 + 64 * 3));
    // The second layer needs 8 bits, the first one 4.
    let name = |format: Option<ScaledFormat>| format.map_or("float".into(), |f| f.to_string());
    let mut asked = 0;
    let mut evaluate = |choice: &[Option<ScaledFormat>]| {
        asked += 1;
        let narrow = ["int4", "uint4", "mxfp4", "mxfp6", "nvfp4"];
        let is_narrow = narrow.iter().any(|start| name(choice[1]).starts_with(start));
        Ok::<f64, QdqError>(if is_narrow { 0.7 } else { 0.9 })
    };
    let found = search.run(0.85, &mut evaluate).unwrap();
    let last = found.last().unwrap();
    let formats = search.named(&last.choice);
    let made = ScaledModel::new(&model, &formats, false).unwrap();
    assert_eq!(made.layers.iter().map(|layer| layer.bits).sum::<u64>(), last.bits);
    assert!(made.layers[0].bits < 5 * 64 * 64, "{formats:?}");
    assert!((8 * 64 * 3..9 * 64 * 3).contains(&made.layers[1].bits), "{formats:?}");
    assert!(found.windows(2).all(|pair| pair[1].bits < pair[0].bits));
    assert!(asked < 100, "{asked}");
    // The first choices are wide, for a confirmation.
    assert!(found[0].bits > 8 * 64 * 64, "{:?}", found[0]);
    // Without a choice that passes there is no answer.
    let nothing = search.run(0.85, &mut |_| Ok::<f64, QdqError>(0.1)).unwrap();
    assert!(nothing.is_empty());
}

/// Weights that a small format has exactly are compared with FLOAT(32) as all others.
#[test]
fn weights_that_a_format_has_exactly_become_smaller() {
    let mut model = product(21);
    let weights: Vec<f32> = (0..ROWS * COLUMNS).map(|at| (at % 3) as f32 - 1.0).collect();
    let tensor = model.tensors.iter_mut().find(|tensor| tensor.name == "fc.weight").unwrap();
    *tensor = dyno_onnx::Tensor::from_f32("fc.weight", &[ROWS, COLUMNS], &weights);
    let search = ScaledSearch::new(&model, &["int4:tensor".parse().unwrap()]).unwrap();
    assert!(search.has_choice());
    assert_eq!(search.base_bits(), 32 * (ROWS * COLUMNS) as u64);
    let found = search.run(0.85, &mut |_| Ok::<f64, QdqError>(0.9)).unwrap();
    assert_eq!(found.last().unwrap().bits, 4 * (ROWS * COLUMNS) as u64 + 32);
}

#[test]
fn scaled_weights_are_read_again() {
    let fed = fed(&[ROWS], CorrectnessRule::Agreement(Agreement::Top));
    let made = ScaledModel::new(
        &product(17),
        &[("fc.weight".into(), "int4:channel".parse().unwrap())],
        true,
    );
    let made = made.unwrap().model;
    assert!(made.tensors.iter().any(|tensor| tensor.element == Element::I4));
    let again = GraphEvaluator::new(&made, fed, sets()).unwrap();
    let layer = again.objects()[0].strip_suffix(".weight").unwrap().to_owned();
    let found = again.weights(&layer).unwrap();
    let mut distinct: Vec<i32> = found.iter().step_by(COLUMNS).map(|x| (x * 1e6) as i32).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert!((8..=15).contains(&distinct.len()), "{distinct:?}");
}

#[test]
fn formats_that_do_not_fit_are_named() {
    let groups = scaled("int4:128").unwrap_err().to_string();
    assert!(groups.contains("has 64 inputs, which groups of 128 do not divide"), "{groups}");
    for text in ["int4:17", "int3", "int8:row", "mxfp8"] {
        assert!(text.parse::<ScaledFormat>().unwrap_err().contains(text), "{text}");
    }
    let unknown =
        ScaledModel::new(&product(21), &[("f.weight".into(), "int8".parse().unwrap())], false);
    assert!(unknown.unwrap_err().to_string().contains("nearest is `fc.weight`"));
}
