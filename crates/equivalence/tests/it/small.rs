//! Floating-point numbers of a byte or less, and codes in engine-specific forms.

use dyno_equivalence::{BeamCounts, Finding, Verdict, compare};
use dyno_onnx::{Attribute, Element, Tensor, Values};

use crate::made::{TestModel, check, node, random};

/// A floating-point type of a byte or less.
#[derive(Debug, Clone, Copy)]
struct SmallType {
    element: Element,
    /// Bits of the fraction.
    fraction: u32,
    /// Bias of the exponent.
    bias: i32,
    /// Bits without the sign.
    width: u32,
    /// Bits of the greatest number.
    greatest: u8,
}

impl SmallType {
    const fn new(element: Element, fraction: u32, bias: i32, width: u32, greatest: u8) -> Self {
        Self { element, fraction, bias, width, greatest }
    }
}

/// Decodes the bits of a number by the definition: sign, exponent, fraction. Infinities and NaN are
/// left out.
fn decoded(bits: u8, kind: SmallType) -> f32 {
    let SmallType { fraction, bias, width, .. } = kind;
    let size = u32::from(bits) & ((1 << width) - 1);
    let (exponent, digits) = ((size >> fraction) as i32, size & ((1 << fraction) - 1));
    let share = digits as f32 / (1 << fraction) as f32;
    let value = match exponent {
        0 => share * 2_f32.powi(1 - bias),
        exponent => (1.0 + share) * 2_f32.powi(exponent - bias),
    };
    if u32::from(bits) >> width == 1 { -value } else { value }
}

const TYPES: [SmallType; 5] = [
    SmallType::new(Element::F8E4M3, 3, 7, 7, 0x7e),
    SmallType::new(Element::F8E4M3Fnuz, 3, 8, 7, 0x7f),
    SmallType::new(Element::F8E5M2, 2, 15, 7, 0x7b),
    SmallType::new(Element::F8E5M2Fnuz, 2, 16, 7, 0x7f),
    SmallType::new(Element::F4E2M1, 1, 1, 3, 0x7),
];

/// The nearest bits of numbers, packed as in files.
fn encoded(values: &[f32], kind: SmallType) -> Vec<u8> {
    let nearest = |value: &f32| {
        let deviation = |bits: u8| (decoded(bits, kind) - value.abs()).abs();
        let size =
            (0..=kind.greatest).min_by(|a, b| deviation(*a).total_cmp(&deviation(*b))).unwrap_or(0);
        if *value < 0.0 && size > 0 { size | 1 << kind.width } else { size }
    };
    let bits: Vec<u8> = values.iter().map(nearest).collect();
    match kind.element {
        Element::F4E2M1 => {
            bits.chunks(2).map(|two| two[0] | two.get(1).unwrap_or(&0) << 4).collect()
        }
        _ => bits,
    }
}

/// "fc" as numbers of a small type, with a scale for each block of 4 rows, or cast.
fn small(kind: SmallType, values: &[f32], is_blocked: bool) -> TestModel {
    let mut made = TestModel::reference();
    let greatest = decoded(kind.greatest, kind);
    let scale = |at: usize| {
        let block = (at / 160, at % 40);
        let all = (0..4).map(|row| values[(block.0 * 4 + row) * 40 + block.1].abs());
        // A power of two, as required for 8-bit scales.
        (all.fold(0_f32, f32::max) / greatest).log2().ceil()
    };
    let scaled =
        |(at, value): (usize, &f32)| if is_blocked { value / scale(at).exp2() } else { *value };
    let codes: Vec<f32> = values.iter().enumerate().map(scaled).collect();
    let bytes = encoded(&codes, kind);
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    let tensor = |name: &str, element, shape: &[usize], bytes| Tensor {
        name: name.into(),
        element,
        shape: shape.to_vec(),
        values: Values::Bytes(bytes),
    };
    made.model.tensors.push(tensor("fc_small", kind.element, &[8, 40], bytes));
    let mut read = node("Cast", &["fc_small"], "fc");
    read.attributes.push(("to".into(), Attribute::Int(1)));
    if is_blocked {
        let scales = (0..80).map(|at| (scale(at / 40 * 160 + at % 40) + 127.0) as u8).collect();
        made.model.tensors.push(tensor("scales", Element::F8E8M0, &[2, 40], scales));
        read = node("DequantizeLinear", &["fc_small", "scales"], "fc");
        let sizes = [("axis", 0), ("block_size", 4)];
        read.attributes = sizes.map(|(name, n)| (name.into(), Attribute::Int(n))).to_vec();
    }
    made.model.nodes.insert(0, read);
    made
}

#[test]
fn numbers_of_a_byte_or_less_are_rounded_ones() {
    let values = TestModel::reference().values("fc");
    for kind in TYPES {
        for is_blocked in [false, true] {
            if !is_blocked && kind.element == Element::F4E2M1 {
                // Only 0 and 0.5 are representable.
                continue;
            }
            let made = small(kind, &values, is_blocked);
            let found = check(&made, Verdict::Closed, &[("fc", Finding::Rounded)]);
            assert!(
                found.tensors[0].deviation.unwrap().half_steps <= 1.01,
                "{:?}",
                found.tensors[0]
            );
            assert!(found.numerics.contains_key(kind.element.name()), "{:?}", found.numerics);
            // Retrained, pruned and replaced before rounding.
            let changed = |change: &dyn Fn((usize, &f32)) -> f32| {
                let values: Vec<f32> = values.iter().enumerate().map(change).collect();
                small(kind, &values, is_blocked).compared().tensors.remove(0).finding
            };
            let other = random(&[320], 7);
            assert_eq!(changed(&|(at, _)| other[at]), Finding::Replaced, "{kind:?}");
            assert_eq!(changed(&|(at, value)| value + 0.3 * other[at]), Finding::Retrained);
            let pruned = |(at, value): (usize, &f32)| if at % 3 == 0 { 0.0 } else { *value };
            assert_eq!(changed(&pruned), Finding::Pruned, "{kind:?}");
        }
    }
}

#[test]
fn scales_of_two_directions_are_each_directions_own() {
    // `DynamicQuantizeLSTM`: numbers by input and gate, one scale per gate.
    let (shape, turned) = ([2, 16, 5], [2, 5, 16]);
    let values = random(&turned, 3);
    let value = |at: usize| {
        let (direction, rest) = (at / 80, at % 80);
        // One direction has far smaller numbers than the other.
        values[direction * 80 + rest % 16 * 5 + rest / 16] * [1.0, 0.01][direction]
    };
    let scale = |slice: usize| {
        let all = (0..5).map(|input| value(slice / 16 * 80 + input * 16 + slice % 16).abs());
        all.fold(0_f32, f32::max) / 127.0
    };
    let code = |at: usize| (value(at) / scale(at / 80 * 16 + at % 16)).round() as i8;
    let codes = (0..160).map(|at| code(at).cast_unsigned()).collect();
    let scales: Vec<f32> = (0..32).map(scale).collect();
    let plain: Vec<f32> = (0..160).map(|at| values[at] * [1.0, 0.01][at / 80]).collect();
    let mut reference = TestModel { model: TestModel::empty() };
    reference.model.tensors.push(Tensor::from_f32("W", &shape, &plain));
    reference.weight("R", &[2, 16, 4], 5);
    reference.model.nodes.push(node("LSTM", &["image", "W", "R"], "scores"));
    let mut made = TestModel { model: reference.model.clone() };
    made.model.tensors.remove(0);
    let (name, values) = ("W_quantized".to_owned(), Values::Bytes(codes));
    let (element, shape) = (Element::I8, turned.to_vec());
    made.model.tensors.extend([
        Tensor { name, element, shape, values },
        Tensor::from_f32("W_scale", &[2, 16], &scales),
    ]);
    let inputs = ["image", "W_quantized", "R", "", "", "", "", "", "W_scale"];
    made.model.nodes[0] = node("DynamicQuantizeLSTM", &inputs, "scores");
    let found = compare(&made.model, &reference.model, BeamCounts::default()).unwrap();
    assert_eq!(found.tensors[0].finding, Finding::Rounded, "{:?}", found.tensors[0]);
    assert_eq!(found.verdict, Verdict::Closed, "{:?}", found.reasons);
}

#[test]
fn codes_that_are_picked_by_data_and_by_constants_are_read() {
    // Quantized embeddings: codes of tokens, and of fixed positions, selected first and scaled
    // afterwards.
    let mut reference = TestModel { model: TestModel::empty() };
    reference.weight("tokens", &[20, 8], 6);
    reference.weight("places", &[10, 8], 7);
    reference.weight("fc", &[8, 40], 8);
    reference.model.tensors.push(Tensor::from_i64("order", &[10], &Vec::from_iter(0..10)));
    reference.model.nodes = vec![
        node("Gather", &["tokens", "image"], "a"),
        node("Gather", &["places", "order"], "b"),
        node("Add", &["a", "b"], "c"),
        node("MatMul", &["c", "fc"], "scores"),
    ];
    let mut made = TestModel { model: reference.model.clone() };
    for (name, picked, index) in [("tokens", "a", "image"), ("places", "b", "order")] {
        let values = made.values(name);
        let step = values.iter().fold(0_f32, |most, x| most.max(x.abs())) / 127.0;
        let codes = values.iter().map(|x| ((x / step).round() as i8).cast_unsigned()).collect();
        made.encode(
            name,
            Element::I8,
            codes,
            &Tensor::from_f32(format!("{name}_scale"), &[], &[step]),
        );
        made.model.nodes.remove(0);
        let (held, scale) = (format!("{name}_quantized"), format!("{name}_scale"));
        let at = made.model.nodes.iter().position(|node| node.outputs[0] == picked).unwrap();
        let codes = format!("{picked}_codes");
        made.model.nodes[at] = node("DequantizeLinear", &[&codes, &scale], picked);
        made.model.nodes.insert(at, node("Gather", &[&held, index], &codes));
    }
    let found = compare(&made.model, &reference.model, BeamCounts::default()).unwrap();
    assert_eq!(found.verdict, Verdict::Closed, "{:?}", found.reasons);
    let rounded = found.tensors.iter().filter(|one| one.finding == Finding::Rounded).count();
    assert_eq!(rounded, 2, "{:?}", found.tensors);
}
