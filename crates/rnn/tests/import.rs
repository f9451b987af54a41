//! Weights with the names of PyTorch and Keras, compared with the equations in their documentation.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use dyno_kernels::Activation;
use dyno_rnn::import::{Array, ImportError, KerasLayer, Npz, Safetensors, keras, pytorch};
use dyno_rnn::{Cell, Directions, Layer, oracle};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const INPUTS: usize = 3;
const UNITS: usize = 2;
const STEPS: usize = 4;

type Arrays = BTreeMap<String, Array>;

/// Arrays with these names and shapes, and numbers between -1 and 1.
fn arrays(shapes: &[(&str, &[usize])]) -> Arrays {
    let mut state = 1_u32;
    let mut next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let one = |(name, shape): &(&str, &[usize])| {
        let numbers = (0..shape.iter().product::<usize>()).map(&mut next).collect();
        ((*name).to_owned(), Array { shape: shape.to_vec(), numbers })
    };
    shapes.iter().map(one).collect()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Product of row `row` of a matrix with `x`.
fn by_row(matrix: &Array, row: usize, x: &[f64]) -> f64 {
    matrix.numbers[row * x.len()..][..x.len()].iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()
}

/// Product of `x` with column `column` of a matrix.
fn by_column(matrix: &Array, column: usize, x: &[f64]) -> f64 {
    let columns = matrix.shape[1];
    x.iter().enumerate().map(|(row, x)| f64::from(matrix.numbers[row * columns + column]) * x).sum()
}

fn number(array: &Array, at: usize) -> f64 {
    f64::from(array.numbers[at])
}

fn input() -> Vec<f32> {
    (0..STEPS * INPUTS).map(|at| (at as f32 * 0.7).sin()).collect()
}

/// Compares the outputs of a forward layer with `step`, which maps input and last state to the new
/// state.
fn check(layer: &Layer, mut step: impl FnMut(&[f64], &[f64]) -> Vec<f64>) {
    let input = input();
    let found = oracle::run(layer, 1, &input, &[STEPS], [&[], &[]]);
    let mut h = vec![0.0; layer.width()];
    let mut expected = Vec::new();
    for x in input.chunks(INPUTS) {
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        h = step(&x, &h);
        expected.extend_from_slice(&h);
    }
    let worst = found.outputs.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert_eq!(found.outputs.len(), expected.len());
    assert!(worst < 1e-6, "{worst:e}");
}

/// A step of `torch.nn.LSTM`.
fn torch_lstm<'a>(
    arrays: &'a Arrays,
    c: &'a mut [f64],
) -> impl FnMut(&[f64], &[f64]) -> Vec<f64> + 'a {
    move |x, h| {
        let sum = |gate: usize, unit: usize| {
            let row = gate * UNITS + unit;
            by_row(&arrays["weight_ih_l0"], row, x)
                + by_row(&arrays["weight_hh_l0"], row, h)
                + number(&arrays["bias_ih_l0"], row)
                + number(&arrays["bias_hh_l0"], row)
        };
        let outputs: Vec<f64> = (0..UNITS)
            .map(|unit| {
                let [i, f, o] = [0, 1, 3].map(|gate| logistic(sum(gate, unit)));
                c[unit] = f * c[unit] + i * sum(2, unit).tanh();
                o * c[unit].tanh()
            })
            .collect();
        match arrays.get("weight_hr_l0") {
            Some(projection) => {
                (0..projection.shape[0]).map(|row| by_row(projection, row, &outputs)).collect()
            }
            None => outputs,
        }
    }
}

#[test]
fn an_lstm_of_pytorch_is_read_with_and_without_projection() {
    for projected in [None, Some(1)] {
        let width = projected.unwrap_or(UNITS);
        let mut names: Vec<(&str, &[usize])> = vec![
            ("weight_ih_l0", &[4 * UNITS, INPUTS]),
            ("bias_ih_l0", &[4 * UNITS]),
            ("bias_hh_l0", &[4 * UNITS]),
        ];
        let (state, projection) = ([4 * UNITS, width], [width, UNITS]);
        names.push(("weight_hh_l0", &state));
        if projected.is_some() {
            names.push(("weight_hr_l0", &projection));
        }
        let weights = arrays(&names);
        let layers = pytorch(Cell::Lstm, "", &|name| weights.get(name).cloned()).expect("a layer");
        assert_eq!((layers.len(), layers[0].width()), (1, width));
        check(&layers[0], torch_lstm(&weights, &mut [0.0; UNITS]));
    }
}

#[test]
fn a_gru_of_pytorch_has_its_reset_gate_first() {
    let weights = arrays(&[
        ("net.weight_ih_l0", &[3 * UNITS, INPUTS]),
        ("net.weight_hh_l0", &[3 * UNITS, UNITS]),
        ("net.bias_ih_l0", &[3 * UNITS]),
        ("net.bias_hh_l0", &[3 * UNITS]),
    ]);
    let layers = pytorch(Cell::Gru, "net.", &|name| weights.get(name).cloned()).expect("a layer");
    check(&layers[0], |x, h| {
        let sums = |which: &str, of_which: &str, x: &[f64], row: usize| {
            by_row(&weights[&format!("net.{which}_l0")], row, x)
                + number(&weights[&format!("net.{of_which}_l0")], row)
        };
        let one = |unit: usize| {
            let [r, z] = [0, 1].map(|gate| {
                let row = gate * UNITS + unit;
                logistic(
                    sums("weight_ih", "bias_ih", x, row) + sums("weight_hh", "bias_hh", h, row),
                )
            });
            let row = 2 * UNITS + unit;
            let n = sums("weight_ih", "bias_ih", x, row) + r * sums("weight_hh", "bias_hh", h, row);
            (1.0 - z) * n.tanh() + z * h[unit]
        };
        (0..UNITS).map(one).collect()
    });
}

#[test]
fn stacked_layers_of_both_directions_are_read_one_after_the_other() {
    let names = ["l0", "l0_reverse", "l1", "l1_reverse"];
    let named: Vec<_> = names
        .iter()
        .map(|name| [format!("weight_ih_{name}"), format!("weight_hh_{name}")])
        .collect();
    let (first, second, state) = ([UNITS, INPUTS], [UNITS, 2 * UNITS], [UNITS, UNITS]);
    let mut all: Vec<(&str, &[usize])> = Vec::new();
    for (at, [input, of_state]) in named.iter().enumerate() {
        all.push((input.as_str(), if at < 2 { &first } else { &second }));
        all.push((of_state.as_str(), &state));
    }
    let weights = arrays(&all);
    let layers = pytorch(Cell::Rnn(Activation::Relu), "", &|name| weights.get(name).cloned())
        .expect("layers");
    assert_eq!(layers.len(), 2);
    assert_eq!((layers[0].inputs(), layers[1].inputs()), (INPUTS, 2 * UNITS));
    assert!(layers.iter().all(|layer| layer.directions() == Directions::Both));
    assert_eq!(layers[1].weights()[1].state, weights["weight_hh_l1_reverse"].numbers);
    assert_eq!(layers[1].weights()[1].state_bias, [0.0; UNITS]);
    let missing = pytorch(Cell::Lstm, "", &|_| None);
    assert_eq!(missing, Err(ImportError::Missing("weight_ih_l0".into())));
    let error = pytorch(Cell::Lstm, "", &|name| weights.get(name).cloned())
        .map_err(|error| error.to_string());
    assert_eq!(error, Err("'weight_ih_l0': expected [0, 3], found [2, 3]".into()));
}

/// A step of `keras.layers.GRU`.
fn keras_gru<'a>(
    arrays: &'a Arrays,
    reset_after: bool,
) -> impl FnMut(&[f64], &[f64]) -> Vec<f64> + 'a {
    move |x, h| {
        let bias = |row: usize, at: usize| number(&arrays["bias"], row * 3 * UNITS + at);
        let input = |at: usize| by_column(&arrays["kernel"], at, x) + bias(0, at);
        let state = |at: usize, h: &[f64]| {
            by_column(&arrays["recurrent_kernel"], at, h)
                + if reset_after { bias(1, at) } else { 0.0 }
        };
        let gate = |gate: usize, unit: usize| {
            logistic(input(gate * UNITS + unit) + state(gate * UNITS + unit, h))
        };
        let reset: Vec<f64> = (0..UNITS).map(|unit| gate(1, unit) * h[unit]).collect();
        let one = |unit: usize| {
            let at = 2 * UNITS + unit;
            let of_state =
                if reset_after { gate(1, unit) * state(at, h) } else { state(at, &reset) };
            let z = gate(0, unit);
            z * h[unit] + (1.0 - z) * (input(at) + of_state).tanh()
        };
        (0..UNITS).map(one).collect()
    }
}

#[test]
fn a_gru_of_keras_resets_after_or_before_the_product() {
    for reset_after in [true, false] {
        let bias: &[usize] = if reset_after { &[2, 3 * UNITS] } else { &[3 * UNITS] };
        let weights = arrays(&[
            ("kernel", &[INPUTS, 3 * UNITS]),
            ("recurrent_kernel", &[UNITS, 3 * UNITS]),
            ("bias", bias),
        ]);
        let how = KerasLayer { cell: Cell::Gru, activations: None, reset_after, prefixes: &[""] };
        let layer = keras(&how, &|name| weights.get(name).cloned()).expect("a layer");
        check(&layer, keras_gru(&weights, reset_after));
        let other = KerasLayer { reset_after: !reset_after, ..how };
        assert!(matches!(
            keras(&other, &|name| weights.get(name).cloned()),
            Err(ImportError::Shape { .. })
        ));
    }
}

#[test]
fn an_lstm_of_keras_has_one_bias_and_the_activations_it_is_given() {
    let weights = arrays(&[
        ("kernel", &[INPUTS, 4 * UNITS]),
        ("recurrent_kernel", &[UNITS, 4 * UNITS]),
        ("bias", &[4 * UNITS]),
    ]);
    let hard = Activation::HardSigmoid { alpha: 0.2, beta: 0.5 };
    let how = KerasLayer {
        cell: Cell::Lstm,
        activations: Some((hard, Activation::Softsign)),
        reset_after: false,
        prefixes: &[""],
    };
    let layer = keras(&how, &|name| weights.get(name).cloned()).expect("a layer");
    let mut c = [0.0; UNITS];
    check(&layer, |x, h| {
        let sum = |at: usize| {
            by_column(&weights["kernel"], at, x)
                + by_column(&weights["recurrent_kernel"], at, h)
                + number(&weights["bias"], at)
        };
        let gate =
            |gate: usize, unit: usize| (0.2 * sum(gate * UNITS + unit) + 0.5).clamp(0.0, 1.0);
        let soft = |x: f64| x / (1.0 + x.abs());
        let one = |unit: usize| {
            c[unit] = gate(1, unit) * c[unit] + gate(0, unit) * soft(sum(2 * UNITS + unit));
            gate(3, unit) * soft(c[unit])
        };
        (0..UNITS).map(one).collect()
    });
}

#[test]
fn arrays_of_safetensors_are_read_by_name() {
    let header = r#"{"wide":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"half":{"dtype":"F16","shape":[1,1],"data_offsets":[8,10]},"brain":{"dtype":"BF16","shape":[1],"data_offsets":[10,12]},"whole":{"dtype":"I8","shape":[4],"data_offsets":[12,16]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&1.5_f32.to_le_bytes());
    bytes.extend_from_slice(&(-2.0_f32).to_le_bytes());
    // 1.5 in each format: sign, exponent, and the first bit of the fraction.
    bytes.extend_from_slice(&0x3e00_u16.to_le_bytes());
    bytes.extend_from_slice(&0x3fc0_u16.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    let file = Safetensors::new(&bytes).expect("a file");
    assert_eq!(file.array("wide"), Some(Array { shape: vec![2], numbers: vec![1.5, -2.0] }));
    assert_eq!(file.array("half"), Some(Array { shape: vec![1, 1], numbers: vec![1.5] }));
    assert_eq!(file.array("brain"), Some(Array { shape: vec![1], numbers: vec![1.5] }));
    assert_eq!((file.array("whole"), file.array("none")), (None, None));
    assert!(matches!(Safetensors::new(&bytes[..20]), Err(ImportError::Format(_))));
}

/// An archive like those of `numpy.savez_compressed`.
fn npz(parts: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, header, data) in parts {
        archive.start_file(*name, SimpleFileOptions::default()).expect("a name of its own");
        let length = (header.len() as u16).to_le_bytes();
        let bytes = [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), data].concat();
        archive.write_all(&bytes).expect("memory");
    }
    archive.finish().expect("memory").into_inner()
}

#[test]
fn arrays_of_numpy_are_read_by_name() {
    let four: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
    let eight: Vec<u8> = [1.5_f64, -2.0].map(f64::to_le_bytes).concat();
    let bytes = npz(&[
        ("rows.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", &four),
        ("columns.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", &four),
        ("wide.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", &eight),
        ("half.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (), }\n", &[0, 0x3e]),
        ("whole.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }\n", &[0; 8]),
        ("notes.txt", "", &[]),
    ]);
    let file = Npz::new(&bytes).expect("an archive");
    let array = |shape: &[usize], numbers: &[f32]| {
        Some(Array { shape: shape.to_vec(), numbers: numbers.to_vec() })
    };
    assert_eq!(file.array("rows"), array(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(file.array("columns"), array(&[2, 3], &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]));
    assert_eq!(file.array("wide"), array(&[2], &[1.5, -2.0]));
    assert_eq!(file.array("half"), array(&[], &[1.5]));
    assert_eq!((file.array("whole"), file.array("none")), (None, None));
    let cut =
        npz(&[("a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }\n", &four)]);
    for bad in [&bytes[..40], &cut] {
        assert!(matches!(Npz::new(bad), Err(ImportError::Format(_))), "{} bytes", bad.len());
    }
}
