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
