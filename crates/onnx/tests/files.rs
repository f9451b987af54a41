//! Models that are built, format_shape, read and counted.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Tensor, Values, Weights, count};

fn net(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("net", weights);
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 3.into(), 8.into(), 8.into()]);
    let w = net.weight("conv.weight", &[4, 3, 3, 3], Fill::he(27))?;
    let y =
        net.node("Conv", &[&x, &w], &[("strides", [2, 2].into()), ("pads", [1, 1, 1, 1].into())])?;
    let shape = net.integers(&[-1, 64]);
    let flat = net.node("Reshape", &[&y, &shape], &[])?;
    let fc = net.weight("fc.weight", &[64, 5], Fill::lecun(64))?;
    let scores = net.node("MatMul", &[&flat, &fc], &[])?;
    net.output("scores", &scores)?;
    Ok(net.finish())
}

#[test]
fn a_model_is_read_as_it_was_written() {
    let model = net(Weights::seeded(1)).unwrap();
    let read = Model::from_bytes(&model.to_bytes().unwrap(), Path::new("")).unwrap();
    assert_eq!(
        (&read.nodes, &read.inputs, &read.outputs),
        (&model.nodes, &model.inputs, &model.outputs)
    );
    assert_eq!(read.outputs[0].shape, Some(vec![Dim::symbol("N"), 5.into()]));
    let again = Model::from_bytes(&read.to_bytes().unwrap(), Path::new("")).unwrap();
    assert_eq!(again, read);
}

/// A file is decoded in parts. Names and numbers of many small tensors lie across their borders.
#[test]
fn a_large_file_is_read_as_its_bytes() {
    let mut model = net(Weights::seeded(1)).unwrap();
    let values: Vec<f32> = (0_u16..500).map(f32::from).collect();
    let small = |at: u32| Tensor::from_f32(format!("tensor {at}"), &[500], &values);
    model.tensors.extend((0..1_500).map(small));
    let bytes = model.to_bytes().unwrap();
    assert!(bytes.len() > 2 << 20, "{} bytes", bytes.len());
    let expected = Model::from_bytes(&bytes, Path::new("")).unwrap();
    assert_eq!(expected.tensors.len(), model.tensors.len());
    let path = std::env::temp_dir().join(format!("dyno-large-{}.onnx", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    let found = Model::read(&path);
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let cut = Model::read(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(found.unwrap() == expected);
    assert!(cut.unwrap_err().to_string().starts_with("expected an ONNX model"));
}

#[test]
fn a_name_stands_for_one_value() {
    let reread = |model: &Model| Model::from_bytes(&model.to_bytes().unwrap(), Path::new(""));
    let model = net(Weights::seeded(1)).unwrap();
    // An equal copy is no contradiction.
    let mut wrong = model.clone();
    wrong.tensors.push(model.tensors[0].clone());
    assert!(reread(&wrong).is_ok());
    let size = model.tensors[0].bytes() as usize;
    wrong.tensors.last_mut().unwrap().values = Values::Bytes(vec![0; size]);
    let error = |model: &Model| reread(model).unwrap_err().to_string();
    assert_eq!(error(&wrong), "two different initializers have the name 'conv.weight'");

    let mut wrong = model.clone();
    wrong.inputs.push(model.inputs[0].clone());
    assert_eq!(error(&wrong), "two inputs have the name 'x'");
    for (name, other) in [("x", "an input"), ("fc.weight", "an initializer")] {
        let mut wrong = model.clone();
        wrong.nodes[0].outputs[0] = name.into();
        let found = error(&wrong);
        assert!(found.ends_with(&format!("computes '{name}', which is also {other}")), "{found}");
    }
}

/// `Softmax` has other results before version 13. One engine takes the first version, another one the
/// last.
#[test]
fn an_operator_set_has_one_version() {
    let reread = |sets: &[(&str, i64)]| {
        let mut model = net(Weights::seeded(1)).unwrap();
        model.operator_sets =
            sets.iter().map(|(domain, version)| ((*domain).to_owned(), *version)).collect();
        Model::from_bytes(&model.to_bytes().unwrap(), Path::new("")).map(drop)
    };
    assert!(reread(&[("", 17), ("own", 1), ("ai.onnx", 17)]).is_ok());
    for sets in [[("", 17), ("", 11)], [("", 17), ("ai.onnx", 11)]] {
        let error = reread(&sets).unwrap_err().to_string();
        assert!(error.contains("version 17 and version 11 of operator set 'ai.onnx'"), "{error}");
    }
    let error = reread(&[("", 17), ("own", 1), ("own", 2)]).unwrap_err().to_string();
    assert!(error.contains("version 1 and version 2 of operator set 'own'"), "{error}");
}

#[test]
fn two_numbers_of_four_bits_share_a_byte() {
    let mut model = net(Weights::seeded(1)).unwrap();
    for (name, element) in [("signed", Element::I4), ("unsigned", Element::U4)] {
        let (name, values) = (name.to_owned(), Values::Bytes(vec![0x21, 0x03]));
        model.tensors.push(Tensor { name, element, shape: vec![3], values });
    }
    let read = Model::from_bytes(&model.to_bytes().unwrap(), Path::new("")).unwrap();
    assert_eq!(read.tensors.last_chunk::<2>(), model.tensors.last_chunk());
    let [signed, unsigned] = read.tensors.last_chunk().unwrap();
    assert_eq!((signed.element.name(), signed.bytes()), ("int4", 2));
    assert_eq!((unsigned.element.name(), unsigned.elements()), ("uint4", 3));
    // A byte too few.
    model.tensors.last_mut().unwrap().shape = vec![5];
    assert!(model.to_bytes().is_err());
}

#[test]
fn seeded_weights_depend_on_seed_and_name_alone_and_keep_their_bound() {
    let weights = |seed| {
        let model = net(Weights::seeded(seed)).unwrap();
        let read = Model::from_bytes(&model.to_bytes().unwrap(), Path::new("")).unwrap();
        read.tensors[0].floats().unwrap()
    };
    assert_eq!(weights(1), weights(1));
    assert_ne!(weights(1), weights(2));
    let bound = (6.0_f32 / 27.0).sqrt();
    assert!(weights(1).iter().all(|w| w.abs() <= bound));
    let mean = weights(1).iter().sum::<f32>() / 108.0;
    assert!(mean.abs() < bound / 3.0, "{mean}");
}

#[test]
fn costs_are_those_of_the_arithmetic() {
    let cost = count(&net(Weights::seeded(1)).unwrap());
    assert_eq!(cost.parameters, 4 * 27 + 64 * 5);
    // 16 positions of 4 channels of 27 products; 64 by 5.
    assert_eq!(cost.macs(), 16 * 4 * 27 + 64 * 5);
    assert_eq!(cost.layers[0].weight_bytes, 4 * 108);
    let first = &cost.layers[0];
    assert_eq!((first.input_bytes, first.output_bytes), (4 * 3 * 64, 4 * 4 * 16));
    assert_eq!(cost.uncounted, []);
}

#[test]
fn given_weights_must_be_there_and_fit() {
    let conv = Tensor::from_f32("conv.weight", &[4, 3, 3, 3], &[0.5; 108]);
    let given = |fc: Option<Tensor>| {
        let tensors = [Some(conv.clone()), fc].into_iter().flatten();
        net(Weights::from_tensors(tensors.map(|t| (t.name.clone(), t)).collect::<BTreeMap<_, _>>()))
    };
    let missing = given(None).unwrap_err();
    assert_eq!(missing.to_string(), "the graph needs weight 'fc.weight', which is missing");
    let turned = given(Some(Tensor::from_f32("fc.weight", &[5, 64], &[0.0; 320]))).unwrap_err();
    assert_eq!(
        turned.to_string(),
        "weight 'fc.weight' has shape [5, 64]; the graph expects [64, 5]"
    );
    let model = given(Some(Tensor::from_f32("fc.weight", &[64, 5], &[0.0; 320]))).unwrap();
    assert_eq!(model.tensors[0].floats().unwrap(), [0.5; 108]);
}

#[test]
fn a_file_cut_short_is_an_error_at_every_length() {
    let bytes = net(Weights::seeded(1)).unwrap().to_bytes().unwrap();
    for length in 0..bytes.len() {
        // What is left may be a smaller model; it never is the same one.
        if let Ok(model) = Model::from_bytes(&bytes[..length], Path::new("")) {
            assert!(model.tensors.len() < 3, "{length}");
        }
    }
}

#[test]
fn an_unknown_operator_is_listed_and_not_guessed() {
    let mut model = net(Weights::seeded(1)).unwrap();
    model.nodes[2].op = "Fancy".into();
    let cost = count(&model);
    assert_eq!(cost.macs(), 16 * 4 * 27);
    let names: Vec<_> = cost.uncounted.iter().map(|one| one.op.as_str()).collect();
    assert_eq!(names, ["Fancy", "Identity"]);
}

#[test]
fn weights_beside_a_model_are_named_and_loaded_when_asked_for() {
    let folder = std::env::temp_dir().join(format!("dyno-onnx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("data");
    std::fs::write(&path, 7_f32.to_le_bytes()).unwrap();
    let values = Values::External { path, offset: 0, length: 4 };
    let mut tensor = Tensor { values, ..Tensor::from_f32("w", &[1], &[]) };
    tensor.load().unwrap();
    assert_eq!(tensor.floats().unwrap(), [7.0]);
    let values = Values::External { path: folder.join("data"), offset: 2, length: 4 };
    let error = Tensor { values, ..tensor }.load().unwrap_err().to_string();
    assert!(error.ends_with("expected 4 bytes from 2 on, found 2"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn weights_written_apart_are_those_written_inside_but_small_ones_stay() {
    let folder = std::env::temp_dir().join(format!("dyno-onnx-apart-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let model = net(Weights::seeded(1)).unwrap();
    let inside = Model::from_bytes(&model.to_bytes().unwrap(), Path::new("")).unwrap();
    let written = model.write_external_above(&folder.join("net.onnx"), 0).unwrap();
    assert_eq!(written.weights, Some(folder.join("net.onnx.data")));
    let mut apart = Model::read(&written.model).unwrap();
    let is_apart = |tensor: &Tensor| matches!(tensor.values, Values::External { .. });
    // 432 bytes of the convolution and the shape stay, 1280 of the linear layer go.
    assert_eq!(apart.tensors.iter().map(is_apart).collect::<Vec<_>>(), [false, false, true]);
    apart.tensors.iter_mut().for_each(|tensor| tensor.load().unwrap());
    assert_eq!(apart, inside);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_path_of_weights_may_begin_with_the_folder_of_the_model() {
    let folder = std::env::temp_dir().join(format!("dyno-onnx-here-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let model = net(Weights::seeded(1)).unwrap();
    let inside = Model::from_bytes(&model.to_bytes().unwrap(), Path::new("")).unwrap();
    let written = model.write_external_above(&folder.join("net.onnx"), 0).unwrap();
    std::fs::rename(folder.join("net.onnx.data"), folder.join("weights.bin")).unwrap();
    let mut bytes = std::fs::read(&written.model).unwrap();
    // Both names have 13 bytes.
    while let Some(at) = bytes.windows(13).position(|window| window == b"net.onnx.data") {
        bytes[at..at + 13].copy_from_slice(b"./weights.bin");
    }
    std::fs::write(&written.model, bytes).unwrap();
    let mut read = Model::read(&written.model).unwrap();
    read.tensors.iter_mut().for_each(|tensor| tensor.load().unwrap());
    assert_eq!(read, inside);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A data file that is a link out of the folder, a pipe or a folder must not be opened: the reader
/// would read any file that a model names, or wait forever.
#[cfg(unix)]
#[test]
fn external_files_are_regular_and_in_the_folder_of_the_model() {
    let all = std::env::temp_dir().join(format!("dyno-onnx-links-{}", std::process::id()));
    let (folder, other) = (all.join("model"), all.join("other"));
    for folder in [&folder, &other] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let model = net(Weights::seeded(1)).unwrap();
    let path = folder.join("net.onnx");
    let data = model.write_external_above(&path, 0).unwrap().weights.unwrap();
    let elsewhere = other.join("data");
    std::fs::rename(&data, &elsewhere).unwrap();
    let error = |path: &Path| Model::read(path).unwrap_err().to_string();

    std::os::unix::fs::symlink(&elsewhere, &data).unwrap();
    assert!(error(&path).contains("found net.onnx.data, a link to "), "{}", error(&path));
    // In a cache of downloads, the model and its data are links into one other folder.
    let model = other.join("model");
    std::fs::rename(&path, &model).unwrap();
    std::os::unix::fs::symlink(&model, &path).unwrap();
    let mut read = Model::read(&path).unwrap();
    read.tensors.iter_mut().for_each(|tensor| tensor.load().unwrap());

    std::fs::remove_file(&data).unwrap();
    std::fs::create_dir(&data).unwrap();
    assert!(error(&path).contains("expected a regular file beside the model, found net.onnx.data"));
    std::fs::remove_dir(&data).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&data).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(error(&path).contains("expected a regular file"), "{}", error(&path));
    }
    std::fs::remove_dir_all(&all).unwrap();
}

/// A sparse file takes no space on the disk, and all of its length in memory.
#[test]
fn files_that_are_too_long_for_a_model_are_not_read() {
    let path = std::env::temp_dir().join(format!("dyno-onnx-long-{}.onnx", std::process::id()));
    std::fs::File::create(&path).unwrap().set_len(3 << 30).unwrap();
    let errors = [Model::read(&path).map(drop), Model::optional_inputs(&path).map(drop)];
    std::fs::remove_file(&path).unwrap();
    for error in errors {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("at most 2147483647 bytes, found 3221225472"), "{error}");
    }
}
