//! Shapes of samples: `--shape` sets dynamic dimensions, or the run is rejected.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_loadgen::settings::known_names;
use dyno_onnx::Dim;
use dyno_results::summary::InputShape;
use dyno_sut::engine::Port;
use dyno_sut::infer::{InferenceModel, RowModel};
use dyno_sut::tensors::{Element, ModelInput, TensorError, TensorLibrary};
use dyno_tensors::npy::Npy;

use crate::failure::Failure;
use crate::options::{RunOptions, ShapeOption};

/// Names of the dynamic dimensions of a file, by input.
pub type Symbols = BTreeMap<String, Vec<Option<String>>>;

/// Returns the names of the dynamic dimensions of a model; empty if the file cannot be read, which
/// the loader reports.
pub fn symbols(path: &Path) -> Symbols {
    let name = |dim: &Dim| match dim {
        // The reader of files calls dimensions without a name so.
        Dim::Symbol(name) => Some(name.clone()).filter(|name| !name.is_empty() && name != "?"),
        Dim::Fixed(_) => None,
    };
    let inputs = dyno_onnx::Model::read(path).map(|model| model.inputs).unwrap_or_default();
    let named = inputs
        .into_iter()
        .filter_map(|input| Some((input.name, input.shape?.iter().map(name).collect::<Vec<_>>())));
    named.collect()
}

/// Lets requests of a served model have inputs with different first dimensions, such as steps and rows,
/// unless these have one name. If they have different names, no requests share calls; returns a remark on
/// that.
pub fn allow_other_rows(model: &mut RowModel, symbols: &Symbols) -> Option<String> {
    let is_open = |input: &&ModelInput| input.shape.first() == Some(&None);
    let inputs = model.inputs().iter().filter(is_open);
    // tf2onnx numbers the batches of all inputs.
    let is_name = |name: &&str| !name.starts_with("unk__");
    let names: Vec<Option<&str>> =
        inputs.map(|input| symbol(symbols, input, 0).filter(is_name)).collect();
    let allows_others = names.contains(&None);
    let mut names: Vec<&str> = names.into_iter().flatten().collect();
    names.sort_unstable();
    names.dedup();
    let different = (names.len() > 1).then(|| names.join("`, `"));
    if allows_others || different.is_some() {
        model.allow_other_rows();
    }
    let names = different?;
    model.separate();
    Some(format!(
        "Requests do not share calls, because the first dimensions of the inputs have different \
         names: `{names}`."
    ))
}

/// Rejects inputs of which the file does not even state the number of dimensions. Engines show them as
/// scalars.
///
/// # Errors
/// The first such input.
pub(crate) fn check_ranks(path: &Path, inputs: &[ModelInput]) -> Result<(), Failure> {
    let is_scalar =
        |name: &str| inputs.iter().any(|input| input.name == name && input.shape.is_empty());
    if inputs.iter().all(|input| !input.shape.is_empty()) {
        return Ok(());
    }
    let declared = dyno_onnx::Model::read(path).map(|model| model.inputs).unwrap_or_default();
    match declared.iter().find(|input| input.shape.is_none() && is_scalar(&input.name)) {
        None => Ok(()),
        Some(input) => Err(Failure::set_up(format!(
            "{}: input `{}` has no shape in the file, so that the size of a sample is not known",
            path.display(),
            input.name
        ))
        .hint("export the model with a shape for each input; open dimensions may have names")),
    }
}

/// Returns the inputs with all dimensions except the batch: those that the model fixes, else those
/// of `--shape`. A size given for a named dimension applies to all inputs with a dimension of that
/// name.
///
/// # Errors
/// A shape that does not fit its input, or dimensions without a size, with the flags that set them.
pub fn bound(
    inputs: &[ModelInput],
    symbols: impl FnOnce() -> Symbols,
    run: &RunOptions,
) -> Result<Vec<ModelInput>, Failure> {
    let is_closed = |input: &ModelInput| input.shape.iter().skip(1).all(Option::is_some);
    if run.shapes.is_empty() && inputs.iter().all(is_closed) {
        return with_elements(inputs.to_vec());
    }
    let symbols = symbols();
    let mut inputs = inputs.to_vec();
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for shape in &run.shapes {
        let at = position(&inputs, shape)?;
        fill(&mut inputs[at], shape, super::onnx::largest_batch(run).get())?;
        for (axis, &length) in shape.dimensions.iter().enumerate().skip(1) {
            let Some(name) = symbol(&symbols, &inputs[at], axis) else { continue };
            match named.insert(name.into(), length) {
                Some(other) if other != length => {
                    let problem = format!(
                        "--shape gives two lengths for the dimension `{name}`: {other} and {length}"
                    );
                    return Err(Failure::usage(problem));
                }
                _ => {}
            }
        }
    }
    for input in &mut inputs {
        for axis in 1..input.shape.len() {
            let length = symbol(&symbols, input, axis).and_then(|name| named.get(name).copied());
            input.shape[axis] = input.shape[axis].or(length);
        }
    }
    if inputs.iter().all(is_closed) { with_elements(inputs) } else { Err(open(&inputs, &symbols)) }
}

/// Returns inputs of which each has elements.
///
/// # Errors
/// The first input with a dimension of 0.
fn with_elements(inputs: Vec<ModelInput>) -> Result<Vec<ModelInput>, Failure> {
    let Some(empty) = inputs.iter().find(|input| input.shape.contains(&Some(0))) else {
        return Ok(inputs);
    };
    let length = |n: &Option<usize>| n.map_or_else(|| "?".into(), |n| n.to_string());
    let shape = empty.shape.iter().map(length).collect::<Vec<String>>().join(", ");
    let problem = format!("the model declares an input without elements: {} [{shape}]", empty.name);
    Err(Failure::set_up(problem)
        .hint("export the model with another length, or with a dynamic one"))
}

/// Checks, without an engine, that random samples of a model have a shape. The engine reports
/// unreadable files when it loads them.
///
/// # Errors
/// As [`bound`].
pub fn check_file(path: &Path, run: &RunOptions) -> Result<(), Failure> {
    let Ok(model) = dyno_onnx::Model::read(path) else { return Ok(()) };
    if !run.data.is_empty() {
        return Ok(());
    }
    let length = |dim: &Dim| match dim {
        Dim::Fixed(length) => Some(*length),
        Dim::Symbol(_) => None,
    };
    let input = |input: &dyno_onnx::Port| {
        let shape = input.shape.as_ref()?.iter().map(length).collect();
        Some(ModelInput { name: input.name.clone(), element: Element::F32, shape })
    };
    let inputs: Vec<ModelInput> = model.inputs.iter().filter_map(input).collect();
    bound(&inputs, || symbols(path), run).map(drop)
}

/// Returns the index of an output in a model, the first one without a name.
///
/// # Errors
/// A file that cannot be read, or a name that no output has, with the names of all outputs.
pub fn output(path: &Path, name: Option<&str>) -> Result<usize, Failure> {
    let Some(name) = name else { return Ok(0) };
    let model = dyno_onnx::Model::read(path).map_err(|error| {
        Failure::set_up(format!("{}: output={name} cannot be checked: {error}", path.display()))
            .hint("remove output= to score the first output")
    })?;
    let names: Vec<&str> = model.outputs.iter().map(|port| port.name.as_str()).collect();
    names.iter().position(|found| *found == name).ok_or_else(|| {
        let problem = format!("output={name}: {} has no output of this name", path.display());
        Failure::usage(problem).hint(format!("its outputs are {}", names.join(", ")))
    })
}

/// Checks, without an engine, the name of an output. An unreadable file is reported when it is loaded.
///
/// # Errors
/// A name that no output has, with the names of all outputs.
pub fn check_output(path: &Path, name: Option<&str>) -> Result<(), Failure> {
    let is_readable = name.is_some() && dyno_onnx::Model::read(path).is_ok();
    if is_readable { output(path, name).map(drop) } else { Ok(()) }
}

/// Returns the name of a dimension.
fn symbol<'s>(symbols: &'s Symbols, input: &ModelInput, axis: usize) -> Option<&'s str> {
    symbols.get(&input.name)?.get(axis)?.as_deref()
}

fn position(inputs: &[ModelInput], shape: &ShapeOption) -> Result<usize, Failure> {
    let Some(name) = &shape.input else {
        let text = shape.text();
        return match inputs {
            [_] => Ok(0),
            [] => Err(Failure::usage(format!("--shape {text}: the model has no inputs"))),
            [first, ..] => Err(Failure::usage(format!(
                "--shape {text} has no input name, but the model has several inputs"
            ))
            .hint(format!("use --shape {}={text}", first.name))),
        };
    };
    inputs.iter().position(|input| input.name == *name).ok_or_else(|| {
        let known = known_names(name, "input", inputs.iter().map(|input| input.name.as_str()));
        Failure::usage(format!("--shape {name}=...: the model has no input `{name}`; {known}"))
    })
}

/// Sets the dynamic dimensions of one input. If a call has one sample, the first dimension may be one of
/// the sample, such as its steps.
fn fill(input: &mut ModelInput, shape: &ShapeOption, batch: usize) -> Result<(), Failure> {
    let given = format!("--shape {}={}", input.name, shape.text());
    let (expected, found) = (input.shape.len(), shape.dimensions.len());
    if expected != found {
        return Err(Failure::usage(format!(
            "{given}: the input has {expected} dimensions, found {found}"
        ))
        .hint("pass all of them, with 1 for the batch"));
    }
    for (axis, (length, &given_length)) in input.shape.iter_mut().zip(&shape.dimensions).enumerate()
    {
        match *length {
            Some(fixed) if fixed != given_length => {
                return Err(Failure::usage(format!(
                    "{given}: the model fixes dimension {axis} at {fixed}, found {given_length}"
                )));
            }
            None if axis == 0 && given_length != 1 && batch > 1 => {
                return Err(Failure::usage(format!(
                    "{given}: the first dimension is the batch; expected 1, found {given_length}"
                ))
                .hint(format!("set the size of batches with --batch {given_length}"))
                .hint("if the first dimension is steps, use --batch 1"));
            }
            // The batch dimension stays dynamic.
            None if axis == 0 && given_length == 1 => {}
            _ => *length = Some(given_length),
        }
    }
    Ok(())
}

/// Returns the failure for dimensions without a size, with the flags that set them.
fn open(inputs: &[ModelInput], symbols: &Symbols) -> Failure {
    let shown = |input: &ModelInput, open: &dyn Fn(usize) -> String, between: &str| {
        let dims = input.shape.iter().enumerate();
        let dims = dims.map(|(axis, n)| n.map_or_else(|| open(axis), |n| n.to_string()));
        dims.collect::<Vec<_>>().join(between)
    };
    let is_open = |input: &&ModelInput| input.shape.iter().skip(1).any(Option::is_none);
    let of = |input: &ModelInput| {
        let name = |axis: usize| {
            let name = symbols.get(&input.name).and_then(|names| names.get(axis)?.clone());
            name.unwrap_or_else(|| "?".into())
        };
        format!("{} [{}]", input.name, shown(input, &name, ", "))
    };
    let flag = |input: &ModelInput| {
        let length = |axis: usize| if axis == 0 { "1".into() } else { EXAMPLE.to_string() };
        format!("--shape {}={}", input.name, shown(input, &length, "x"))
    };
    let each: Vec<&ModelInput> = inputs.iter().filter(is_open).collect();
    let all = |one: &dyn Fn(&ModelInput) -> String, between: &str| {
        each.iter().map(|input| one(input)).collect::<Vec<_>>().join(between)
    };
    let example = &each[0].name;
    Failure::usage(format!(
        "the model has dynamic dimensions other than the batch: {}",
        all(&of, ", ")
    ))
    .hint(format!("pass their lengths, such as {}", all(&flag, " ")))
    .hint(format!("or pass samples: --data {example}=FILE.npy, once for each input"))
}

/// Size of dynamic dimensions in examples.
const EXAMPLE: usize = 128;

/// Returns the shapes of a call with one sample of a library, by input; the batch dimension is 1,
/// if the model has one.
pub fn effective(library: &TensorLibrary, inputs: &[Port]) -> Vec<InputShape> {
    let rank = |name: &str| {
        let port = inputs.iter().find(|port| port.name == name);
        port.map(|port| port.shape.len())
    };
    let first = library.sample(0).unwrap_or_default();
    let shape = first.into_iter().map(|(name, tensor)| {
        let own = tensor.shape.iter().map(|&n| n as u64);
        let has_batch = rank(name).is_none_or(|rank| rank == tensor.shape.len() + 1);
        let shape = has_batch.then_some(1).into_iter().chain(own).collect();
        InputShape { input: name.into(), element: tensor.elements.element().to_string(), shape }
    });
    shape.collect()
}

/// Returns the number of classes of an output of this type and shape, whose first dimension is the
/// batch; `None` if unknown. A single boolean is one of two classes.
pub fn classes(element: &str, shape: &[Option<usize>]) -> Option<usize> {
    let (_, scores) = shape.split_first()?;
    let all = scores.iter().try_fold(1_usize, |all, n| all.checked_mul((*n)?))?;
    let all = if all == 1 && element.eq_ignore_ascii_case("bool") { 2 } else { all };
    (all > 1).then_some(all)
}

/// Rejects labels for an answer that is no list of scores and no class: a single score has no greatest
/// element, and scores in two dimensions belong to several classes.
///
/// # Errors
/// The output with its dimensions.
pub fn check_scores(output: &Port, run: &RunOptions) -> Result<(), Failure> {
    let dims = output.shape.get(1..).unwrap_or_default();
    let wide = dims.iter().filter(|dim| **dim != Some(1)).count();
    let is_class = !output.element.starts_with("float") && !output.element.starts_with("bfloat");
    let problem = match wide {
        0 if !is_class && !output.shape.is_empty() => {
            "is a single score, which does not \
             determine a class"
        }
        0 | 1 => return Ok(()),
        _ => "has scores in several dimensions, which do not determine a single class",
    };
    if run.labels.is_none() {
        return Ok(());
    }
    let Port { name, element, shape } = output;
    let shape: Vec<String> =
        shape.iter().map(|n| n.map_or_else(|| "?".into(), |n| n.to_string())).collect();
    Err(Failure::usage(format!(
        "--labels: output `{name}`, {element} [{}], {problem}",
        shape.join(", ")
    ))
    .hint("labels need an output [batch, classes] of scores, or [batch] of integers"))
}

/// Rejects labels that are not a class of the model, and booleans for a model without two classes.
///
/// # Errors
/// The first of them, with its file and its index.
pub fn check_labels(
    labels: Option<&[i64]>,
    classes: Option<usize>,
    run: &RunOptions,
) -> Result<(), Failure> {
    let (Some(labels), Some(path)) = (labels, &run.labels) else { return Ok(()) };
    if classes != Some(2) && is_boolean(path) {
        let problem = format!("{}: the labels are booleans, expected classes", path.display());
        return Err(Failure::set_up(problem)
            .hint("if false and true are the classes 0 and 1, save array.astype('int64')"));
    }
    let Some(classes) = classes else { return Ok(()) };
    let is_class = |label: i64| usize::try_from(label).is_ok_and(|label| label < classes);
    let Some(index) = labels.iter().position(|label| !is_class(*label)) else { return Ok(()) };
    let (path, found) = (path.clone(), labels[index].to_string());
    Err(Failure::set_up(TensorError::Label { path, index, found, classes: Some(classes) })
        .hint(format!("the model's answer has {classes} classes")))
}

/// Returns whether a file of labels has booleans. The loader reports unreadable files.
fn is_boolean(path: &Path) -> bool {
    let array = std::fs::read(path).ok().and_then(|bytes| Npy::parse(&bytes).ok());
    array.is_some_and(|array| array.elements.element() == Element::Bool)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use dyno_sut::engine::EngineInfo;
    use dyno_sut::infer::Value;
    use dyno_sut::tensors::Elements;

    use super::*;

    fn input(name: &str, shape: &[Option<usize>]) -> ModelInput {
        ModelInput { name: name.into(), element: Element::I64, shape: shape.to_vec() }
    }

    /// Of a text model: two inputs, whose second dimension has one name.
    fn text_model() -> ([ModelInput; 2], Symbols) {
        let names = vec![Some("batch".to_string()), Some("seq".to_string())];
        let symbols = ["ids", "mask"].map(|input| (input.to_string(), names.clone()));
        ([input("ids", &[None, None]), input("mask", &[None, None])], Symbols::from(symbols))
    }

    fn check(inputs: &[ModelInput], symbols: &Symbols, shapes: &[&str]) -> Result<String, String> {
        let shapes = shapes.iter().flat_map(|text| ShapeOption::parse_all(text).unwrap()).collect();
        let run = RunOptions { shapes, ..RunOptions::default() };
        let bound = bound(inputs, || symbols.clone(), &run);
        let bound = bound.map_err(|failure| failure.problems()[0].clone())?;
        Ok(bound.iter().map(|input| format!("{:?}", input.shape)).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn open_dimensions_are_given_or_named() {
        let (inputs, symbols) = text_model();
        let bound = Ok("[None, Some(128)] [None, Some(128)]".to_string());
        assert_eq!(check(&inputs, &symbols, &["ids=1x128"]), bound);
        assert_eq!(check(&inputs, &Symbols::new(), &["ids=1x128", "mask=1x128"]), bound);
        assert_eq!(check(&inputs, &Symbols::new(), &["ids=1x128,mask=1x128"]), bound);
        let open = check(&inputs, &symbols, &[]).unwrap_err();
        assert!(open.ends_with("ids [batch, seq], mask [batch, seq]"), "{open}");
        let open = check(&inputs, &Symbols::new(), &["ids=1x8"]).unwrap_err();
        assert!(open.ends_with("mask [?, ?]"), "{open}");
        let empty = [input("a", &[None, Some(4)]), input("b", &[None, Some(0)])];
        let found = check(&empty, &Symbols::new(), &[]).unwrap_err();
        assert_eq!(found, "the model declares an input without elements: b [?, 0]");
        // The batch alone is never asked for.
        let image = [input("image", &[None, Some(3), Some(32)])];
        assert_eq!(check(&image, &symbols, &[]), Ok("[None, Some(3), Some(32)]".into()));
        let (wide, none) = ([input("x", &[Some(1), None])], Symbols::new());
        assert_eq!(check(&wide, &none, &["1x9"]), Ok("[Some(1), Some(9)]".into()));
    }

    #[test]
    fn shapes_that_do_not_fit_are_rejected() {
        let (inputs, symbols) = text_model();
        let fails = |shapes: &[&str]| check(&inputs, &symbols, shapes).unwrap_err();
        assert!(fails(&["idz=1x8"]).contains("the nearest input is `ids`"));
        assert!(fails(&["ids=8"]).contains("has 2 dimensions, found 1"));
        assert!(fails(&["ids=4x8"]).contains("the batch; expected 1, found 4"));
        assert!(fails(&["ids=1x8", "mask=1x9"]).contains("two lengths for the dimension `seq`"));
        assert!(fails(&["1x8"]).contains("has no input name"));
        let fixed = [input("x", &[None, Some(3), None])];
        let found = check(&fixed, &symbols, &["x=1x4x2"]).unwrap_err();
        assert!(found.contains("fixes dimension 1 at 3, found 4"), "{found}");
    }

    #[test]
    fn a_first_dimension_of_steps_is_one_of_the_sample() {
        let inputs = [input("x", &[None, None, Some(4)])];
        let shapes = ShapeOption::parse_all("x=9x2x4").unwrap();
        let batch = crate::options::BatchSizes::parse("1").ok();
        let run = RunOptions { shapes, batch, ..RunOptions::default() };
        let bound = bound(&inputs, Symbols::new, &run).unwrap();
        assert_eq!(bound[0].shape, [Some(9), Some(2), Some(4)]);
    }

    #[test]
    fn labels_need_scores_of_classes() {
        let run = RunOptions { labels: Some("y.npy".into()), ..RunOptions::default() };
        let check = |element: &str, shape: &[Option<usize>]| {
            let (name, element) = ("scores".into(), element.into());
            check_scores(&Port { name, element, shape: shape.to_vec() }, &run).is_ok()
        };
        let open = None;
        assert!(check("float32", &[open, Some(10)]) && check("float32", &[open, open]));
        assert!(check("int64", &[open]) && check("int64", &[open, Some(1)]));
        assert!(check("float32", &[open, Some(10), Some(1), Some(1)]) && check("float32", &[]));
        assert!(!check("float32", &[open, Some(1)]) && !check("float32", &[open]));
        assert!(!check("float32", &[open, Some(3), Some(4)]));
    }

    #[test]
    fn labels_are_classes_of_the_model() {
        let scores = |shape: &[Option<usize>]| classes("float32", shape);
        assert_eq!(scores(&[None, Some(10)]), Some(10));
        assert_eq!(scores(&[Some(1), Some(2), Some(5)]), Some(10));
        assert_eq!([scores(&[None]), scores(&[None, None]), scores(&[])], [None; 3]);
        assert_eq!([classes("bool", &[None]), classes("BOOL", &[None, Some(1)])], [Some(2); 2]);
        assert_eq!(classes("bool", &[None, Some(5)]), Some(5));
        let run = RunOptions { labels: Some("y.npy".into()), ..RunOptions::default() };
        assert!(check_labels(Some(&[0, 9]), Some(10), &run).is_ok());
        assert!(check_labels(Some(&[0, 99]), None, &run).is_ok());
        let failure = check_labels(Some(&[0, 9, 10]), Some(10), &run).unwrap_err();
        let expected = "y.npy: label 10 at [2], expected a class from 0 to 9";
        assert_eq!(failure.problems(), [expected]);
        let failure = check_labels(Some(&[0, 1, 4]), classes("bool", &[None]), &run).unwrap_err();
        let expected = "y.npy: label 4 at [2], expected a class from 0 to 1";
        assert_eq!(failure.problems(), [expected]);
    }

    #[test]
    fn booleans_are_labels_of_two_classes_only() {
        let path = std::env::temp_dir().join(format!("dyno-labels-{}.npy", std::process::id()));
        let header = "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }\n";
        let length = (header.len() as u16).to_le_bytes();
        let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &[0_u8, 1][..]].concat();
        std::fs::write(&path, bytes).unwrap();
        let run = RunOptions { labels: Some(path.clone()), ..RunOptions::default() };
        let check = |classes| check_labels(Some(&[0, 1]), classes, &run).is_ok();
        assert_eq!([Some(2), Some(5), None].map(check), [true, false, false]);
        std::fs::remove_file(path).unwrap();
    }
    /// Steps in front of rows, as in a recurrent network whose lengths are an input.
    #[test]
    fn first_dimensions_of_different_names_are_no_rows() {
        let allowed = |names: [&str; 2]| {
            let inputs = vec![input("x", &[None, None]), input("lengths", &[None])];
            let call = |values: &[Value]| Ok(values.to_vec());
            let info = EngineInfo { largest_batch: 8, ..EngineInfo::default() };
            let mut model = RowModel::new("model", inputs, info, Box::new(call));
            let name = |name: &str| Some(name.to_string());
            let symbols = Symbols::from([
                ("x".to_string(), vec![name(names[0]), name("N")]),
                ("lengths".to_string(), vec![name(names[1])]),
            ]);
            let remark = allow_other_rows(&mut model, &symbols);
            (remark, model.rules().allows_other_rows, model.info().largest_batch)
        };
        assert_eq!(allowed(["N", "N"]), (None, false, 8));
        assert_eq!(allowed(["unk__1", "unk__2"]), (None, true, 8));
        let (remark, allows_other_rows, largest) = allowed(["T", "N"]);
        assert!(remark.is_some_and(|remark| remark.ends_with("different names: `N`, `T`.")));
        assert!(allows_other_rows && largest == 1);
    }

    /// Without names, one first dimension may count steps, and another one rows.
    #[test]
    fn requests_with_unequal_first_dimensions_have_calls_of_their_own() {
        let inputs = vec![input("x", &[None]), input("lengths", &[None])];
        let rows = Arc::new(Mutex::new(Vec::new()));
        let calls = Arc::clone(&rows);
        let call = move |values: &[Value]| {
            calls.lock().unwrap().push([values[0].shape[0], values[1].shape[0]]);
            Ok(values.to_vec())
        };
        let info = EngineInfo { largest_batch: 8, ..EngineInfo::default() };
        let mut model = RowModel::new("model", inputs, info, Box::new(call));
        assert_eq!(allow_other_rows(&mut model, &Symbols::new()), None);
        let request = |rows: [usize; 2]| {
            let value = |rows: usize| Value {
                shape: vec![rows],
                elements: Elements::I64(vec![1; rows].into()),
            };
            let values = ["x", "lengths"].into_iter().zip(rows);
            let values = values.map(|(name, rows)| (name.to_owned(), value(rows))).collect();
            model.fit(values).unwrap()
        };
        let requests = [[3, 2], [3, 2], [2, 2], [2, 2]].map(request);
        let requests: Vec<&[Value]> = requests.iter().map(Vec::as_slice).collect();
        for (request, answer) in requests.iter().zip(model.infer(&requests)) {
            assert_eq!(answer.as_deref(), Ok(*request));
        }
        assert_eq!(*rows.lock().unwrap(), [[3, 2], [3, 2], [4, 4]]);
        assert_eq!(model.contradiction(), None);
    }
}
