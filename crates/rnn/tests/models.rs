//! Models from files: chains of layers, other layers, and invalid files.

use std::path::{Path, PathBuf};

use dyno_rnn::Cell;
use dyno_rnn::model::{Model, ModelError};
use safetensors::tensor::{Dtype, TensorView, serialize};

fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).display().to_string()
}

/// Writes a file with arrays of zeros.
fn zeros(name: &str, arrays: &[(&str, &[usize])]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dyno-models-{}-{name}", std::process::id()));
    let bytes = vec![0_u8; 4 << 10];
    let views: Vec<(&str, TensorView<'_>)> = arrays
        .iter()
        .map(|(name, shape)| {
            let count: usize = shape.iter().product();
            let view = TensorView::new(Dtype::F32, shape.to_vec(), &bytes[..4 * count])
                .expect("bytes of this shape");
            (*name, view)
        })
        .collect();
    std::fs::write(&path, serialize(views, None).expect("tensors that fit"))
        .expect("temporary files");
    path
}

fn removed(path: &Path, text: &str) -> Result<Model, ModelError> {
    let model = Model::open(text);
    std::fs::remove_file(path).expect("temporary files");
    model
}

#[test]
fn layers_of_onnx_files_are_found_and_chained_through_what_moves_them() {
    let one = Model::open(&golden("lstm_no_bias.onnx")).unwrap();
    assert_eq!(one.layers().len(), 1);
    let chained = Model::open(&golden("lstm_chained.onnx"));
    let model = chained.unwrap();
    assert!(!model.layers().is_empty());
    let named = Model::open(&format!("{}#none", golden("lstm_no_bias.onnx"))).unwrap_err();
    assert!(named.to_string().contains("has no recurrent layer `none`; it has "), "{named}");
}

#[test]
fn modules_of_pytorch_are_known_by_their_names() {
    let arrays: &[(&str, &[usize])] = &[
        ("encoder.weight_ih_l0", &[20, 3]),
        ("encoder.weight_hh_l0", &[20, 5]),
        ("encoder.weight_ih_l1", &[20, 5]),
        ("encoder.weight_hh_l1", &[20, 5]),
        ("gate.weight_ih_l0", &[6, 3]),
        ("gate.weight_hh_l0", &[6, 2]),
    ];
    let path = zeros("two.safetensors", arrays);
    let several = Model::open(&path.display().to_string()).unwrap_err().to_string();
    assert!(several.contains("of encoder., gate."), "{several}");
    let gate = Model::open(&format!("{}#gate.", path.display())).unwrap();
    assert_eq!(gate.layers()[0].cell(), Cell::Gru);
    let encoder = removed(&path, &format!("{}#encoder.", path.display())).unwrap();
    assert_eq!((encoder.layers().len(), encoder.inputs(), encoder.outputs()), (2, 3, 5));
    assert_eq!(encoder.layers()[1].cell(), Cell::Lstm);
}

#[test]
fn layers_of_keras_are_known_by_their_names() {
    let arrays: &[(&str, &[usize])] =
        &[("gru/kernel", &[3, 6]), ("gru/recurrent_kernel", &[2, 6]), ("gru/bias", &[2, 6])];
    let path = zeros("keras.safetensors", arrays);
    let gru = removed(&path, &path.display().to_string()).unwrap();
    assert_eq!((gru.layers()[0].cell(), gru.inputs(), gru.outputs()), (Cell::Gru, 3, 2));
    assert!(!gru.layers()[0].options().reset_first, "two rows of biases reset after the product");
}

#[test]
fn what_is_no_model_is_told() {
    let empty = zeros("empty.safetensors", &[("dense.weight", &[2, 2])]);
    let error = removed(&empty, &empty.display().to_string()).unwrap_err().to_string();
    assert!(error.ends_with("has no recurrent layer"), "{error}");
    let broken = std::env::temp_dir().join(format!("dyno-broken-{}.onnx", std::process::id()));
    std::fs::write(&broken, "no graph").unwrap();
    let error = removed(&broken, &broken.display().to_string()).unwrap_err();
    assert!(matches!(error, ModelError::Unreadable { .. } | ModelError::Empty(_)), "{error:?}");
    let text = zeros("weights.bin", &[("a", &[1])]);
    let error = removed(&text, &text.display().to_string()).unwrap_err().to_string();
    assert!(error.ends_with("expected a file .onnx or .safetensors"), "{error}");
}
