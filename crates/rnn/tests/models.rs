//! Models from files: chains of layers, other layers, and invalid files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dyno_rnn::model::{Model, ModelError};
use dyno_rnn::{Activation, Cell};
use safetensors::tensor::{Dtype, TensorView, serialize};

fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).display().to_string()
}

/// Writes a file with arrays of zeros.
fn zeros(name: &str, arrays: &[(&str, &[usize])]) -> PathBuf {
    with_metadata(name, arrays, &[])
}

/// Writes a file with arrays of zeros and metadata.
fn with_metadata(name: &str, arrays: &[(&str, &[usize])], metadata: &[(&str, &str)]) -> PathBuf {
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
    let metadata: HashMap<String, String> =
        metadata.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let metadata = (!metadata.is_empty()).then_some(metadata);
    std::fs::write(&path, serialize(views, metadata).expect("tensors that fit"))
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
    assert!(several.contains("from encoder., gate."), "{several}");
    let gate = Model::open(&format!("{}#gate.", path.display())).unwrap();
    assert_eq!(gate.layers()[0].cell(), Cell::Gru);
    let encoder = removed(&path, &format!("{}#encoder.", path.display())).unwrap();
    assert_eq!((encoder.layers().len(), encoder.inputs(), encoder.outputs()), (2, 3, 5));
    assert_eq!(encoder.layers()[1].cell(), Cell::Lstm);
}

#[test]
fn options_that_a_layer_does_not_have_are_errors() {
    let pytorch: &[(&str, &[usize])] = &[("weight_ih_l0", &[20, 3]), ("weight_hh_l0", &[20, 5])];
    let keras: &[(&str, &[usize])] = &[("kernel", &[3, 5]), ("recurrent_kernel", &[5, 5])];
    for (arrays, options) in [
        (pytorch, "nonlinearity=relu"),
        (pytorch, "activation=relu"),
        (pytorch, "reset_after=false"),
        (keras, "activation=relu&nonlinearity=relu"),
        (keras, "recurrent_activation=relu"),
        (keras, "reset_after=false"),
    ] {
        let path = zeros("options.safetensors", arrays);
        let error = removed(&path, &format!("{}?{options}", path.display())).unwrap_err();
        assert!(error.to_string().ends_with("the layer has no such option"), "{error}");
    }
    let path = zeros("options.safetensors", keras);
    let error = removed(&path, &format!("{}?activation=relu&activation=elu", path.display()));
    assert!(error.unwrap_err().to_string().ends_with("expected `activation` once"));
}

/// Each file lacks an array, so that a smaller network could be read from the others.
#[test]
fn arrays_of_a_layer_are_all_used() {
    let layer = |number: usize, ending: &str| {
        let inputs = if number == 0 { 3 } else { 10 };
        let name = |kind: &str| format!("net.{kind}_l{number}{ending}");
        [
            (name("weight_ih"), vec![20, inputs]),
            (name("weight_hh"), vec![20, 5]),
            (name("bias_ih"), vec![20]),
            (name("bias_hh"), vec![20]),
        ]
    };
    let whole: Vec<(String, Vec<usize>)> =
        [layer(0, ""), layer(0, "_reverse"), layer(1, ""), layer(1, "_reverse")].concat();
    let open = |name: &str, is_left_out: &dyn Fn(&str) -> bool| {
        let arrays: Vec<(&str, &[usize])> =
            whole.iter().map(|(name, shape)| (name.as_str(), &shape[..])).collect();
        let arrays: Vec<_> = arrays.into_iter().filter(|(name, _)| !is_left_out(name)).collect();
        let path = zeros(&format!("{name}.safetensors"), &arrays);
        removed(&path, &path.display().to_string())
    };
    assert_eq!(open("whole", &|_| false).unwrap().layers().len(), 2);
    for (name, left_out, expected) in [
        ("below", "_l0_reverse", "'net.bias_hh_l1_reverse' belongs to no complete layer"),
        ("above", "_l1_reverse", "'net.weight_ih_l1_reverse' not found"),
        ("weights", "weight_ih_l1", "'net.bias_hh_l1' belongs to no complete layer"),
        ("bias", "bias_hh", "'net.bias_hh_l0' not found"),
        ("upper", "bias_ih_l1", "'net.bias_ih_l1' not found"),
    ] {
        let error = open(name, &|array| array.contains(left_out)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// A file of a whole model has embeddings, other layers and counters, too.
#[test]
fn arrays_of_other_layers_are_ignored() {
    let bytes = [0_u8; 320];
    let pytorch = ["rnn.weight_ih_l0", "rnn.weight_hh_l0"];
    let keras = ["lstm/kernel", "lstm/recurrent_kernel"];
    for (own, shape, other) in [
        (pytorch, [16, 4], ["embedding.weight", "fc.bias", "rnn.norm.num_batches_tracked"]),
        (keras, [4, 16], ["embedding/embeddings", "dense/bias", "lstm/seed_generator_state"]),
    ] {
        let float = |name| (name, TensorView::new(Dtype::F32, shape.to_vec(), &bytes[..256]));
        let count = |name| (name, TensorView::new(Dtype::I64, vec![2], &bytes[..16]));
        let views = own.map(float).into_iter().chain(other.map(count));
        let views = views.map(|(name, view)| (name, view.expect("bytes of this shape")));
        let path = std::env::temp_dir()
            .join(format!("dyno-models-{}-others.safetensors", std::process::id()));
        std::fs::write(&path, serialize(views, None).expect("tensors that fit"))
            .expect("temporary files");
        assert_eq!(removed(&path, &path.display().to_string()).unwrap().layers().len(), 1);
    }
}

/// Biases may be absent, but biases of another type are not.
#[test]
fn arrays_of_other_types_are_not_left_out() {
    let bytes = [0_u8; 320];
    for (wrong, names) in [
        ("bias_ih_l0", ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]),
        ("lstm/bias", ["lstm/kernel", "lstm/recurrent_kernel", "lstm/bias", "other"]),
    ] {
        let view = |name: &str| {
            let shape = match name {
                _ if name.contains("bias") => vec![16],
                _ if name.contains("kernel") => vec![4, 16],
                _ => vec![16, 4],
            };
            let dtype = if name == wrong { Dtype::I32 } else { Dtype::F32 };
            let count: usize = shape.iter().product();
            TensorView::new(dtype, shape, &bytes[..4 * count]).expect("bytes of this shape")
        };
        let path = std::env::temp_dir()
            .join(format!("dyno-models-{}-typed.safetensors", std::process::id()));
        let file = serialize(names.map(|name| (name, view(name))), None).expect("tensors that fit");
        std::fs::write(&path, file).expect("temporary files");
        let error = removed(&path, &path.display().to_string()).unwrap_err().to_string();
        let expected = format!("'{wrong}': expected floating-point numbers of 16, 32 or 64 bits");
        assert!(error.contains(&expected), "{error}");
    }
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
fn activations_that_weights_do_not_determine_are_stated() {
    let arrays: &[(&str, &[usize])] = &[("weight_ih_l0", &[5, 3]), ("weight_hh_l0", &[5, 5])];
    let path = zeros("rnn.safetensors", arrays);
    let text = path.display().to_string();
    let error = Model::open(&text).unwrap_err().to_string();
    let stated = "the nonlinearity of this RNN is not in the file; set it with \
                  FILE?nonlinearity=VALUE, or with `nonlinearity` in the metadata of the file, where \
                  VALUE is tanh or relu";
    assert!(error.ends_with(stated), "{error}");
    let cell = |text: &str| Model::open(text).unwrap().layers()[0].cell();
    assert_eq!(cell(&format!("{text}?nonlinearity=relu")), Cell::Rnn(Activation::Relu));
    assert_eq!(cell(&format!("{text}?nonlinearity=tanh#")), Cell::Rnn(Activation::Tanh));
    let error = |options: &str| Model::open(&format!("{text}?{options}")).unwrap_err().to_string();
    let unknown = error("nonlinearity=elu");
    assert!(unknown.ends_with("option `nonlinearity=elu`: expected tanh, relu"), "{unknown}");
    let unknown = error("speed=2");
    assert!(unknown.contains("option `speed=2`: expected nonlinearity, activation"), "{unknown}");
    std::fs::remove_file(path).expect("temporary files");
    let path = with_metadata("relu.safetensors", arrays, &[("nonlinearity", "relu")]);
    let model = removed(&path, &path.display().to_string()).unwrap();
    assert_eq!((model.layers()[0].cell(), model.assumption()), (Cell::Rnn(Activation::Relu), None));
    let onnx = format!("{}?nonlinearity=relu", golden("lstm_no_bias.onnx"));
    let error = Model::open(&onnx).unwrap_err().to_string();
    assert!(error.ends_with("an ONNX file has no options"), "{error}");
}

#[test]
fn defaults_of_keras_are_assumed_and_said() {
    let arrays: &[(&str, &[usize])] = &[("gru/kernel", &[3, 6]), ("gru/recurrent_kernel", &[2, 6])];
    let path = zeros("bare.safetensors", arrays);
    let text = path.display().to_string();
    let error = Model::open(&text).unwrap_err().to_string();
    assert!(
        error.contains("`reset_after` of this GRU without biases is not in the file"),
        "{error}"
    );
    let model = Model::open(&format!("{text}?reset_after=false")).unwrap();
    assert!(model.layers()[0].options().reset_first);
    let assumption = model.assumption().unwrap();
    let assumed = "Dyno assumes activation=tanh and recurrent_activation=sigmoid.";
    assert!(assumption.ends_with(assumed), "{assumption}");
    let options = "reset_after=true&activation=relu&recurrent_activation=sigmoid";
    let model = removed(&path, &format!("{text}?{options}")).unwrap();
    assert_eq!(model.layers()[0].activations(0)[1], Activation::Relu);
    assert_eq!(model.assumption(), None);
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
    assert!(error.ends_with("expected an .onnx or .safetensors file"), "{error}");
}
