//! Invalid recurrent ONNX nodes, and their errors.

use std::path::Path;

use dyno_onnx::{Attribute, Builder, Element, Fill, Model, Name, Weights};
use dyno_rnn::import::{ImportError, ImportedLayer, InitialState, layers};

/// A GRU of two units over three inputs; its input weights are a model input if `fed`.
fn gru(fed: bool, attributes: &[(&str, Attribute)]) -> Model {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[5.into(), 1.into(), 3.into()]);
    let w = if fed {
        net.input("w", Element::F32, &[1.into(), 6.into(), 3.into()])
    } else {
        net.weight("w", &[1, 6, 3], Fill::Uniform(1.0)).expect("a name that is free")
    };
    let r = net.weight("r", &[1, 6, 2], Fill::Uniform(1.0)).expect("a name that is free");
    let attributes = [&[("hidden_size", 2.into())], attributes].concat();
    let outputs: Result<[Name; 2], _> = net.nodes("GRU", &[&x, &w, &r], &attributes);
    outputs.expect("inputs that the operator takes");
    net.finish()
}

fn read(model: &Model) -> Result<Vec<ImportedLayer>, String> {
    layers(model).map_err(|error| error.to_string())
}

#[test]
fn seeded_weights_are_read_as_they_would_be_written() {
    let found = read(&gru(false, &[])).unwrap();
    let weights = &found[0].layer.weights()[0];
    assert_eq!((weights.input.len(), weights.state.len()), (18, 12));
    assert!(weights.input.iter().any(|weight| *weight != weights.input[0]));
    assert_eq!(found[0].initial, [InitialState::Zeros, InitialState::Zeros]);
}

#[test]
fn weights_that_are_fed_are_named() {
    let error = layers(&gru(true, &[])).unwrap_err();
    let expected = ImportError::NotConstant { node: "GRU_0".into(), value: "w".into() };
    assert_eq!(error, expected);
}

#[test]
fn choices_that_are_not_known_are_named() {
    let mut model = gru(false, &[]);
    let refused = |model: &mut Model, name: &str, value: Attribute| {
        let attributes = &mut model.nodes[0].attributes;
        attributes.push((name.into(), value));
        let error = read(model).expect_err("a node that is no layer");
        model.nodes[0].attributes.pop();
        error
    };
    let error = refused(&mut model, "direction", "sideways".into());
    assert_eq!(error, "GRU_0: direction sideways is not supported");
    let error = refused(&mut model, "activations", Attribute::Texts(vec!["Sin".into()]));
    assert_eq!(error, "GRU_0: activation Sin is not supported");
    let error = refused(&mut model, "activations", Attribute::Texts(vec!["Tanh".into()]));
    assert_eq!(error, "GRU_0: a list of 1 activations instead of 2 is not supported");
    for (name, value) in [
        ("clip", Attribute::Int(1)),
        ("linear_before_reset", Attribute::Float(1.0)),
        ("activation_alpha", Attribute::Other),
    ] {
        let error = refused(&mut model, name, value);
        assert_eq!(error, format!("GRU_0: attribute {name} has a wrong type"));
    }
    let error = refused(&mut model, "output_sequence", Attribute::Int(1));
    assert_eq!(error, "GRU_0: attribute output_sequence is not supported");
    model.nodes[0].op = "LSTM".into();
    let error = read(&model).unwrap_err();
    assert_eq!(error, "'w': expected [1, 8, 3], found [1, 6, 3]");
}

/// Changes the golden models byte by byte: reading returns a layer or an error.
#[test]
fn wrong_bytes_never_stop_the_import() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (mut read_on, mut refused) = (0, 0);
    for name in ["lstm_chained", "lstm_dynamic_channel", "lstm_peepholes", "gru_activations"] {
        let bytes = std::fs::read(folder.join(format!("{name}.onnx"))).expect("a golden model");
        for at in 0..bytes.len() {
            for with in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = with;
                let Ok(model) = Model::from_bytes(&bytes, Path::new("")) else { continue };
                match layers(&model) {
                    Ok(_) => read_on += 1,
                    Err(error) => refused += usize::from(!error.to_string().is_empty()),
                }
            }
        }
    }
    assert!(read_on > 0 && refused > 0, "{read_on} read, {refused} refused");
}
