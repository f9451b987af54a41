//! ONNX engines against the project's own evaluation of the same network.

use std::io::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_graph::SessionOptions;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};
use dyno_onnx::{Builder, Dim, Weights};
use dyno_sut::digits::{self, Perceptron};
use dyno_sut::engine::{Answers, Engine};
use dyno_sut::infer::{InferenceModel, Value};
use dyno_sut::onnx::graph::GraphModel;
use dyno_sut::onnx::ort::{OrtModel, OrtOptions};
use dyno_sut::onnx::runtime::{RuntimeError, Search};
use dyno_sut::onnx::{Answer, EngineOptions, OnnxError};
use dyno_sut::tensors::{
    Element, Elements, ModelInput, SampleTensor, Span, Spans, Tensor, TensorError, TensorLibrary,
};
use dyno_sut::top1;

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("dyno-sut-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn digits_model(folder: &Folder) -> PathBuf {
    folder.file("digits.onnx", &Perceptron::trained().to_onnx())
}

fn ink() -> Tensor {
    let inputs: Vec<f32> =
        digits::test_digits().flat_map(|d| Perceptron::input(d.pixels)).collect();
    let elements = Elements::F32(inputs.into());
    Tensor { name: "ink".into(), sample_shape: vec![digits::PIXELS], elements }
}

fn digits_tensors() -> Arc<TensorLibrary> {
    Arc::new(TensorLibrary::new("digits", vec![ink()], Some(digits::labels())).unwrap())
}

fn samples(indices: impl Iterator<Item = u64>) -> Vec<QuerySample> {
    indices.map(|index| QuerySample { id: ResponseId::new(1, 0, index), index }).collect()
}

/// All samples at once, in an order that is not the library's, in batches whose
/// size does not divide their number.
fn check_labels(engine: &dyn Engine) {
    let shuffled = (0..540).map(|i| i * 7 % 540);
    let mut answers = Answers::new();
    engine.answer(&samples(shuffled), &mut answers);
    let network = Perceptron::trained();
    let mut count = 0;
    for (id, data) in answers.iter() {
        let own = network.classify(digits::test_digit(id.sequence() as usize).pixels);
        assert_eq!(top1::decode(data.unwrap()), Some(own as i64), "sample {}", id.sequence());
        count += 1;
    }
    assert_eq!(count, 540);
    let log = answers.iter().map(|(id, data)| (id.sequence() as u32, data.unwrap()));
    assert_eq!(digits::score(log).correct, 519);
}

/// The bytes of one sample's scores.
fn check_scores(engine: &dyn Engine) {
    let mut answers = Answers::new();
    engine.answer(&samples([11].into_iter()), &mut answers);
    let (_, data) = answers.iter().next().unwrap();
    let scores = data.unwrap().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let network = Perceptron::trained();
    let input = Perceptron::input(digits::test_digit(11).pixels);
    let own = network.scores(&network.activate(&input));
    assert_eq!(scores.len(), own.len());
    // Engines add in another order: some units in the last place of 58 terms.
    assert!(scores.zip(own).all(|(theirs, own)| (theirs - own).abs() < 1e-4));
}

fn check_foreign_samples_fail(engine: &dyn Engine) {
    let mut answers = Answers::new();
    engine.answer(&samples([540].into_iter()), &mut answers);
    let answers: Vec<_> = answers.iter().map(|(_, data)| data).collect();
    assert_eq!(answers, [Err(Failure::Rejected)]);
}

const ARGMAX: EngineOptions =
    EngineOptions { answer: Answer::Argmax, largest_batch: 64, output: 0, separate: None };

/// Says on stderr, past what tests hold back, that a test is skipped for want of ONNX Runtime.
///
/// # Panics
/// Panics where `DYNO_DEMAND_ORT` is set: there it must not be missing.
fn without_onnx_runtime(why: &dyn std::fmt::Display) {
    let is_demanded = std::env::var_os("DYNO_DEMAND_ORT").is_some_and(|value| !value.is_empty());
    assert!(!is_demanded, "DYNO_DEMAND_ORT is set, and {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// ONNX Runtime, or `None` after saying that a test is skipped.
fn onnx_runtime() -> Option<Search> {
    let mut search = Search::from_environment(None);
    // Without a file that is known to be there the test would fail, not skip.
    search.system = false;
    match search.find() {
        Ok(library) => {
            println!("using {}", library.display());
            Some(search)
        }
        Err(missing) => {
            without_onnx_runtime(&missing);
            None
        }
    }
}

#[test]
fn onnx_runtime_agrees_with_our_own_evaluation() {
    let Some(search) = onnx_runtime() else { return };
    let folder = Folder::new("ort");
    let path = digits_model(&folder);
    let open = || OrtModel::open(&path, &search, OrtOptions::default()).unwrap();
    let declared = ModelInput {
        name: "ink".into(),
        element: Element::F32,
        shape: vec![None, Some(digits::PIXELS)],
    };
    assert_eq!(open().inputs(), [declared]);
    let library = digits_tensors();
    check_labels(&open().engine(&library, ARGMAX).unwrap());
    check_labels(&open().engine(&library, EngineOptions { largest_batch: 1, ..ARGMAX }).unwrap());
    let scores = open().engine(&library, EngineOptions::default()).unwrap();
    check_scores(&scores);
    check_foreign_samples_fail(&scores);

    let broken = folder.file("broken.onnx", b"no model");
    let error = OrtModel::open(&broken, &search, OrtOptions::default()).unwrap_err();
    assert!(matches!(&error, OnnxError::Model { path, .. } if *path == broken), "{error}");
    let narrow = Tensor { sample_shape: vec![32], ..ink() };
    let narrow = Arc::new(TensorLibrary::new("narrow", vec![narrow], None).unwrap());
    let error = open().engine(&narrow, ARGMAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input 'ink' expects [?, 64], but the samples have the shape [32]"
    );
}

/// A model that returns its input `x` `[N, 2]` of the type with this number in
/// `TensorProto.DataType`, field by field; all lengths fit a byte.
fn identity(element: u8) -> Vec<u8> {
    let field =
        |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    let shape = [field(1, &field(2, b"N")), field(1, &[8, 2])].concat();
    let kind = field(1, &[&[8, element][..], &field(2, &shape)].concat());
    let value = |name: &[u8]| [field(1, name), field(2, &kind)].concat();
    let node = [field(1, b"x"), field(2, b"y"), field(4, b"Identity")].concat();
    let graph = [field(1, &node), field(2, b"g"), field(11, &value(b"x")), field(12, &value(b"y"))];
    [&[8, 8][..], &field(7, &graph.concat()), &field(8, &[16, 17])].concat()
}

#[test]
fn onnx_runtime_takes_and_returns_every_type_of_element() {
    let Some(search) = onnx_runtime() else { return };
    let folder = Folder::new("types");
    let numbers = [
        (Element::F32, 1),
        (Element::U8, 2),
        (Element::I8, 3),
        (Element::I32, 6),
        (Element::I64, 7),
        (Element::Bool, 9),
        (Element::F16, 10),
        (Element::F64, 11),
        (Element::BF16, 16),
    ];
    assert_eq!(numbers.len(), Elements::TYPES.len());
    for (element, number) in numbers {
        let path = folder.file(&format!("{element}.onnx"), &identity(number));
        let model = OrtModel::open(&path, &search, OrtOptions::default()).unwrap();
        let library = TensorLibrary::synthetic(model.inputs(), 8, 1, &Spans::new(), 1).unwrap();
        let library = Arc::new(library);
        let engine = model.engine(&library, EngineOptions::default()).unwrap();
        let mut answers = Answers::new();
        engine.answer(&samples([5, 2].into_iter()), &mut answers);
        for ((_, data), index) in answers.iter().zip([5, 2]) {
            let (_, sample) = &library.sample(index).unwrap()[0];
            assert_eq!(
                Elements::read(element, data.unwrap()).as_ref(),
                Some(&sample.elements),
                "{element}"
            );
        }
    }
}

#[cfg(feature = "tract")]
#[test]
fn tract_agrees_with_our_own_evaluation() {
    use dyno_sut::onnx::tract::TractModel;
    let folder = Folder::new("tract");
    let path = digits_model(&folder);
    let open = || TractModel::open(&path).unwrap();
    let library = digits_tensors();
    check_labels(&open().engine(&library, ARGMAX).unwrap());
    check_labels(&open().engine(&library, EngineOptions { largest_batch: 1, ..ARGMAX }).unwrap());
    let scores = open().engine(&library, EngineOptions::default()).unwrap();
    check_scores(&scores);
    check_foreign_samples_fail(&scores);
    let broken = folder.file("broken.onnx", b"no model");
    assert!(matches!(TractModel::open(&broken), Err(OnnxError::Model { .. })));
}

#[test]
fn a_missing_onnx_runtime_is_an_error_that_says_what_to_do() {
    let given = Search { library: Some("/nowhere/libonnxruntime.so".into()), ..Search::default() };
    let missing = given.find().unwrap_err();
    let text = missing.to_string();
    assert!(text.contains("pip install onnxruntime"), "{text}");
    assert!(text.contains("--ort-lib /nowhere/libonnxruntime.so: file not found"), "{text}");

    // A file that is there but is no library is refused when it is loaded.
    let folder = Folder::new("missing");
    let file = folder.file("libonnxruntime.so", b"no library");
    let search = Search { library: Some(file), ..Search::default() };
    let model = digits_model(&folder);
    if onnx_runtime().is_none() {
        let error = OrtModel::open(&model, &search, OrtOptions::default()).unwrap_err();
        assert!(matches!(error, OnnxError::Runtime(_)), "{error}");
    }
}

#[test]
fn a_static_program_says_that_it_has_no_onnx_runtime() {
    let text = RuntimeError::StaticProgram.to_string();
    for part in ["not available in this build", "static", "tract:FILE", "program for glibc"] {
        assert!(text.contains(part), "{text}");
    }
    let is_static = cfg!(all(unix, target_feature = "crt-static"));
    let found = Search { system: true, ..Search::default() }.find();
    assert_eq!(found == Err(RuntimeError::StaticProgram), is_static);
}

#[test]
fn the_library_is_found_in_the_order_of_precedence() {
    let folder = Folder::new("search");
    let package = "venv/lib/python3.11/site-packages/onnxruntime/capi";
    folder.file(&format!("{package}/libonnxruntime_providers_shared.so"), b"");
    let wheel = folder.file(&format!("{package}/libonnxruntime.so.1.31.1"), b"");
    let named = folder.file("named.so", b"");
    let given = folder.file("given.so", b"");
    let mut search = Search {
        library: Some(given.clone()),
        dylib_path: Some(named.clone()),
        virtual_env: Some(folder.0.join("venv")),
        installed_in: None,
        python: false,
        system: false,
    };
    assert_eq!(search.find().as_deref(), Ok(Path::new(&given)));
    search.library = None;
    assert_eq!(search.find().as_deref(), Ok(Path::new(&named)));
    search.dylib_path = None;
    assert_eq!(search.find().as_deref(), Ok(Path::new(&wheel)));
    search.virtual_env = Some(folder.0.clone());
    search.installed_in = Some(folder.0.join("venv"));
    assert_eq!(search.find().as_deref(), Ok(Path::new(&wheel)), "no environment is activated");
    search.installed_in = None;
    let missing = search.find().unwrap_err();
    assert!(
        matches!(&missing, RuntimeError::NotFound { tried } if tried.len() == 1),
        "{missing:?}"
    );
}

#[test]
fn libraries_of_npy_files() {
    let folder = Folder::new("npy");
    let header = |descr: &str, shape: &str| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
    };
    let pixels = [header("|u1", "(3, 2)"), vec![1, 2, 3, 4, 5, 6]].concat();
    let pixels = folder.file("pixels.npy", &pixels);
    let labels = folder.file("labels.npy", &[header("|u1", "(3,)"), vec![7, 8, 9]].concat());
    let inputs = [("pixels".to_owned(), pixels)];
    let library = TensorLibrary::open("tiny", &inputs, Some(&labels)).unwrap();
    assert_eq!(library.labels(), Some(&[7, 8, 9][..]));
    let mut scratch = Elements::F32(Vec::new().into());
    let mut picked = |indices: &[u64]| {
        let picked = library.gather(0, &samples(indices.iter().copied()), &mut scratch);
        let picked = picked.map(|elements| elements.to_f64());
        (picked, scratch.element())
    };
    let untouched = Element::F32;
    assert_eq!(picked(&[1, 2]), (Some(vec![3.0, 4.0, 5.0, 6.0]), untouched), "no copy is made");
    assert_eq!(picked(&[3]), (None, untouched));
    assert_eq!(picked(&[2, 0]), (Some(vec![5.0, 6.0, 1.0, 2.0]), Element::U8));

    let two = folder.file("two.npy", &[header("|u1", "(2,)"), vec![7, 8]].concat());
    let error = TensorLibrary::open("tiny", &inputs, Some(&two)).unwrap_err();
    assert_eq!(error, TensorError::LabelCount { samples: 3, labels: 2 });
}

/// The square root of -1.
#[test]
fn a_model_whose_output_is_nan_has_a_remark() {
    let mut net = Builder::new("roots", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 2.into()]);
    let y = net.node("Sqrt", &[&x], &[]).unwrap();
    net.output("y", &y).unwrap();
    let folder = Folder::new("nan");
    let path = folder.file("roots.onnx", &net.finish().to_bytes().unwrap());
    let remarks = |numbers: Vec<f32>, options: EngineOptions| {
        let elements = Elements::F32(numbers.into());
        let tensor = Tensor { name: "x".into(), sample_shape: vec![2], elements };
        let library = Arc::new(TensorLibrary::new("x", vec![tensor], None).unwrap());
        let model = GraphModel::open(&path, &SessionOptions::default(), NonZero::<usize>::MIN);
        model.unwrap().engine(&library, options).unwrap().info().remarks
    };
    for options in [EngineOptions::default(), ARGMAX] {
        let odd = remarks(vec![4.0, -1.0, 4.0, 9.0], options.clone());
        assert!(odd.iter().any(|remark| remark.contains("NaN")), "{odd:?}");
        assert_eq!(remarks(vec![4.0, 1.0, 4.0, 9.0], options), Vec::<String>::new());
    }
}

/// For [4, 1] the first output is [-4, -1], whose class is 1; the second one is [4, 1], with class 0.
#[test]
fn answers_are_made_of_the_chosen_output() {
    let mut net = Builder::new("two", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 2.into()]);
    for (name, operator) in [("negative", "Neg"), ("positive", "Relu")] {
        let y = net.node(operator, &[&x], &[]).unwrap();
        net.output(name, &y).unwrap();
    }
    let folder = Folder::new("two");
    let path = folder.file("two.onnx", &net.finish().to_bytes().unwrap());
    let elements = Elements::F32(vec![4.0, 1.0].into());
    let tensor = Tensor { name: "x".into(), sample_shape: vec![2], elements };
    let library = Arc::new(TensorLibrary::new("x", vec![tensor], None).unwrap());
    let check = |engine: &dyn Engine, first: &str, class: i64| {
        let mut answers = Answers::new();
        engine.answer(&samples([0].into_iter()), &mut answers);
        let (_, data) = answers.iter().next().unwrap();
        assert_eq!(top1::decode(data.unwrap()), Some(class), "{}", engine.name());
        let names: Vec<String> = engine.info().outputs.into_iter().map(|port| port.name).collect();
        assert_eq!((names.len(), names[0].as_str()), (2, first));
    };
    for (output, first, class) in [(0, "negative", 1), (1, "positive", 0)] {
        let options = EngineOptions { output, ..ARGMAX };
        let model = GraphModel::open(&path, &SessionOptions::default(), NonZero::<usize>::MIN);
        check(&model.unwrap().engine(&library, options.clone()).unwrap(), first, class);
        if let Some(search) = onnx_runtime() {
            let model = OrtModel::open(&path, &search, OrtOptions::default()).unwrap();
            check(&model.engine(&library, options).unwrap(), first, class);
        }
    }
}

#[test]
fn synthetic_samples_fit_the_model_and_repeat_with_their_seed() {
    let input = |element, shape: &[Option<usize>]| ModelInput {
        name: format!("{element}"),
        element,
        shape: shape.to_vec(),
    };
    let inputs =
        [input(Element::F32, &[None, Some(3), None]), input(Element::I64, &[Some(1), Some(5)])];
    let spans = [
        Span { elements: 2, from: 7, to: 8 },
        Span { elements: 1, from: -3, to: 1000 },
        Span { elements: 1, from: 0, to: 40 },
    ];
    let spans = Spans::from([("int64", &spans[..])]);
    let library = TensorLibrary::synthetic(&inputs, 10, 4, &spans, 1).unwrap();
    let last = |library: &TensorLibrary| -> Vec<SampleTensor> {
        library.sample(9).unwrap().into_iter().map(|(_, tensor)| tensor).collect()
    };
    let sample = last(&library);
    assert_eq!([&sample[0].shape[..], &sample[1].shape], [&[3, 4][..], &[5]]);
    assert!(sample[0].elements.to_f32().iter().all(|x| (0.0..1.0).contains(x)));
    let again = |seed| TensorLibrary::synthetic(&inputs, 10, 4, &spans, seed).unwrap();
    assert_eq!(sample, last(&again(1)));
    assert_ne!(sample, last(&again(2)));
    let all = |at: usize| -> Vec<i64> {
        let sample = |n| library.sample(n).unwrap().remove(1).1;
        (0..10).map(|n| sample(n).elements.to_i64().unwrap()[at]).collect()
    };
    assert_eq!([all(0), all(1)], [[7; 10]; 2]);
    let spread = |at: usize, below: i64| {
        assert!(all(at).iter().all(|number| (-3..below).contains(number)), "{:?}", all(at));
        assert!(all(at).iter().any(|number| *number > below / 2), "{:?}", all(at));
    };
    spread(2, 1000);
    // The last span goes on to the end of the sample.
    spread(3, 40);
    spread(4, 40);
}

#[test]
fn attention_masks_of_random_samples_hide_nothing() {
    let input = |name: &str, element| ModelInput {
        name: name.into(),
        element,
        shape: vec![None, Some(50)],
    };
    let inputs = [
        input("input_ids", Element::I64),
        input("attention_mask", Element::I64),
        input("Encoder_Mask", Element::I32),
        input("padding_mask", Element::Bool),
        input("mask_weights", Element::F32),
        input("decoder_mask", Element::I64),
    ];
    let own = [Span::below(2)];
    let spans = Spans::from([("decoder_mask", &own[..])]);
    let library = TensorLibrary::synthetic(&inputs, 4, 1, &spans, 7).unwrap();
    let sample = library.sample(2).unwrap();
    let is_ones = |at: usize| sample[at].1.elements.to_f64().iter().all(|x| *x == 1.0);
    // Ids are random, floats are no mask by their name alone, and a span has the last word.
    assert_eq!([0, 1, 2, 3, 4, 5].map(is_ones), [false, true, true, true, false, false]);
}

/// The rows of x and of the initializer w, which is an input, too, are added.
#[test]
fn an_initializer_that_is_an_input_may_be_overridden() {
    let mut net = Builder::new("sum", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 2.into()]);
    let w = net.input("w", Element::F32, &[2.into()]);
    let y = net.node("Add", &[&x, &w], &[]).unwrap();
    net.output("y", &y).unwrap();
    let mut net = net.finish();
    net.tensors.push(dyno_onnx::Tensor::from_f32("w", &[2], &[10.0, 20.0]));
    let folder = Folder::new("optional");
    let path = folder.file("sum.onnx", &net.to_bytes().unwrap());
    let named = |name: &str, shape: &[usize], numbers: &[f32]| {
        let elements = Elements::F32(numbers.to_vec().into());
        (name.to_owned(), Value { shape: shape.to_vec(), elements })
    };
    let x = || named("x", &[1, 2], &[1.0, 2.0]);
    let check = |model: &dyn InferenceModel| {
        assert_eq!(model.inputs().len(), 1, "{}", model.name());
        assert_eq!(model.info().inputs.len(), 1, "{}", model.name());
        let optional = model.info().optional_inputs;
        let optional = optional.iter().map(|port| (&port.name[..], &port.shape[..]));
        assert_eq!(optional.collect::<Vec<_>>(), [("w", &[Some(2)][..])], "{}", model.name());
        let plain = model.fit(vec![x()]).unwrap();
        let other = model.fit(vec![named("w", &[2], &[0.5, 0.25]), x()]).unwrap();
        let answers = model.infer(&[&plain, &other, &plain]).into_iter();
        let answers: Vec<Vec<f64>> =
            answers.map(|answer| answer.unwrap()[0].elements.to_f64()).collect();
        assert_eq!(answers, [[11.0, 22.0], [1.5, 2.25], [11.0, 22.0]], "{}", model.name());
        let error = model.fit(vec![x(), named("w", &[3], &[0.0; 3])]).unwrap_err().to_string();
        assert_eq!(error, "input 'w' has the shape [3]; expected float32 of shape [2]");
    };
    let model = GraphModel::open(&path, &SessionOptions::default(), NonZero::<usize>::MIN);
    check(&model.unwrap().by_value(4));
    if let Some(search) = onnx_runtime() {
        let model = OrtModel::open(&path, &search, OrtOptions::default()).unwrap();
        check(&model.into_callable().by_value(4));
    }
    // Files of version 3 list all constants as inputs.
    net.ir_version = 3;
    let path = folder.file("old.onnx", &net.to_bytes().unwrap());
    let model = GraphModel::open(&path, &SessionOptions::default(), NonZero::<usize>::MIN);
    let error = model.unwrap().by_value(4).fit(vec![x(), named("w", &[2], &[0.0; 2])]);
    assert!(error.unwrap_err().to_string().contains("has no input 'w'"));
}
