//! Models in number formats of few bits, on Dyno's own engine
//! ([`dyno_number::evaluate::PackedNetwork`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::sut::QuerySample;
use dyno_number::Dictionary;
use dyno_number::evaluate::{
    PackedFile, PackedLayer, PackedNetwork, PackedPort, PackedSource, TensorView, Workspace,
};
use dyno_tensors::files;
use half::{bf16, f16};
use smallvec::SmallVec;

use super::answer::{Output, Outputs};
use super::feed::Feed;
use super::{EngineOptions, OnnxError};
use crate::engine::{Answers, Engine, EngineInfo, Port};
use crate::infer::{RowModel, Value};
use crate::tensors::{Element, Elements, ModelInput, Scalar, TensorLibrary};

/// A model with packed weights and known inputs.
#[derive(Debug)]
pub struct TunedModel {
    path: PathBuf,
    inputs: Vec<ModelInput>,
    network: Network,
}

/// Packed network, and the type of its output.
#[derive(Debug)]
struct Network {
    packed: PackedNetwork,
    output: Element,
}

impl TunedModel {
    /// Reads a model and applies number formats to its objects. Objects without a format have
    /// FLOAT(32).
    ///
    /// # Errors
    /// [`OnnxError`] if the engine does not support the model, or the model has no object of a name
    /// in `formats`.
    ///
    /// ```
    /// use dyno_number::Dictionary;
    /// use dyno_sut::digits::Perceptron;
    /// use dyno_sut::infer::{InferenceModel, zeros};
    /// use dyno_sut::onnx::tuned::TunedModel;
    ///
    /// let path = std::env::temp_dir().join(format!("dyno-tuned-{}.onnx", std::process::id()));
    /// std::fs::write(&path, Perceptron::trained().to_onnx())?;
    /// let model = TunedModel::open(&path, &Dictionary::default())?;
    /// std::fs::remove_file(path)?;
    /// assert_eq!(model.inputs()[0].name, "ink");
    /// let model = model.by_value(8);
    /// let answers = model.infer(&[&zeros(model.inputs())]);
    /// assert_eq!(answers[0].as_ref().expect("zeros fit")[0].shape, [1, 10]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path, formats: &Dictionary) -> Result<Self, OnnxError> {
        let packed = PackedNetwork::read(path, formats).map_err(|error| wrong(path, &error))?;
        Self::from_packed(path, packed)
    }

    /// Reads a file of `dyno tune pack`. With a model, checks that the file was packed from it.
    ///
    /// # Errors
    /// [`OnnxError`] if the file cannot be read, or was packed from another model.
    pub fn open_packed(path: &Path, model: Option<&PackedSource>) -> Result<Self, OnnxError> {
        let bytes = files::read(path).map_err(|error| wrong(path, &error))?;
        let file = PackedFile::from_bytes(&bytes).map_err(|error| wrong(path, &error))?;
        if let Some(found) = model {
            let source = file.source();
            if found.sha256 != source.sha256 {
                let why = format!(
                    "was packed from a different model: {} has the SHA-256 {}, but {} has {}",
                    source.name, source.sha256, found.name, found.sha256
                );
                return Err(wrong(path, &why));
            }
        }
        let packed = file.network().map_err(|error| wrong(path, &error))?;
        Self::from_packed(path, packed)
    }

    fn from_packed(path: &Path, packed: PackedNetwork) -> Result<Self, OnnxError> {
        let input = |port: &PackedPort| {
            let unfit =
                || OnnxError::InputType { name: port.name.clone(), found: port.element.into() };
            let element = Elements::type_from_name(port.element).ok_or_else(unfit)?;
            Ok(ModelInput { name: port.name.clone(), element, shape: port.shape.clone() })
        };
        let inputs = packed.inputs().iter().map(input).collect::<Result<_, OnnxError>>()?;
        let output = packed.output();
        let element = Elements::type_from_name(output.element).ok_or_else(|| {
            let why = format!("answers {} of type {}", output.name, output.element);
            wrong(path, &why)
        })?;
        let network = Network { packed, output: element };
        Ok(Self { path: path.to_path_buf(), inputs, network })
    }

    /// Returns the inputs of the model.
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// Returns the layers with weights, with their formats, bytes and kinds of execution.
    pub fn layers(&self) -> &[PackedLayer] {
        self.network.packed.layers()
    }

    /// Returns the model as an [`InferenceModel`](crate::infer::InferenceModel). A call has at most
    /// `largest_batch` rows of several requests.
    pub fn by_value(self, largest_batch: usize) -> RowModel {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let info = EngineInfo { largest_batch, ..self.info() };
        let (name, network) = (format!("tuned-{stem}"), self.network);
        let call = move |values: &[Value]| {
            let inputs = values.iter().map(|value| (&value.shape[..], &value.elements));
            network.run(inputs, |shape, elements| {
                let (shape, elements) = (shape.to_vec(), elements.into_owned());
                Ok(vec![Value { shape, elements }])
            })
        };
        RowModel::new(name, self.inputs, info, Box::new(call))
    }

    fn info(&self) -> EngineInfo {
        let PackedPort { name, shape, .. } = self.network.packed.output();
        let element = self.network.output.to_string();
        let output = Port { name: name.clone(), element, shape: shape.clone() };
        EngineInfo {
            runtime: Some("dyno-number".into()),
            provider: Some(dyno_number::evaluate::instructions().to_owned()),
            inputs: self.inputs.iter().map(Port::from).collect(),
            outputs: vec![output],
            ..EngineInfo::default()
        }
    }

    /// Returns an engine that feeds the model from this library. It has answered sample 0 once.
    ///
    /// # Errors
    /// [`OnnxError`] if the samples do not fit the input, or the first sample has a NaN that a
    /// format cannot represent.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<TunedEngine, OnnxError> {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let feed = Feed::new(&self.inputs, library, options)?;
        let info = EngineInfo { largest_batch: feed.largest_batch(), ..self.info() };
        let mut engine =
            TunedEngine { name: format!("tuned-{stem}"), network: self.network, feed, info };
        (engine.info.first_call, engine.info.remarks) = engine.feed.trial(&engine)?;
        Ok(engine)
    }
}

fn wrong(path: &Path, why: &dyn fmt::Display) -> OnnxError {
    OnnxError::Model { path: path.to_path_buf(), why: why.to_string() }
}

impl Network {
    /// Computes a call on this thread. `take` receives the shape and the elements of the answer.
    fn run<'a, T>(
        &self,
        inputs: impl Iterator<Item = (&'a [usize], &'a Elements<'a>)>,
        take: impl FnOnce(&[usize], Elements<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let numbers = |(dims, elements): (&'a [usize], &'a Elements<'a>)| {
            is_exact(elements).then(|| (dims, elements.to_f32())).ok_or_else(|| {
                format!(
                    "has integers above {LARGEST}, which this engine cannot represent in \
                     float32"
                )
            })
        };
        let inputs = inputs.map(numbers).collect::<Result<SmallVec<[_; 4]>, _>>()?;
        let views: SmallVec<[TensorView<'_>; 4]> =
            inputs.iter().map(|(dims, values)| TensorView { dims, values }).collect();
        WORKSPACE.with_borrow_mut(|workspace| {
            let answer = self.packed.run(&views, workspace).map_err(|error| error.to_string())?;
            if let Some(found) = answer.values.iter().find(|x| !is_in_range(self.output, **x)) {
                return Err(format!(
                    "the output has the number {found}, which this engine cannot represent in \
                     {} by way of float32",
                    self.output
                ));
            }
            take(answer.dims, elements(self.output, answer.values))
        })
    }
}

/// Largest whole number up to which `f32` represents all whole numbers.
const LARGEST: i64 = 1 << 24;

/// Returns whether `f32` represents all elements exactly.
fn is_exact(elements: &Elements<'_>) -> bool {
    let is_small = |x: &i64| (-LARGEST..=LARGEST).contains(x);
    match elements {
        Elements::I64(all) => all.iter().all(is_small),
        Elements::I32(all) => all.iter().all(|x| is_small(&(*x).into())),
        _ => true,
    }
}

/// Returns whether a number that was computed in `f32` is exact in the type of an output.
fn is_in_range(element: Element, x: f32) -> bool {
    let largest = LARGEST as f32;
    match element {
        Element::I64 | Element::I32 => (-largest..=largest).contains(&x),
        Element::I8 => (-128.0..=127.0).contains(&x),
        Element::U8 => (0.0..=255.0).contains(&x),
        _ => true,
    }
}

/// Converts numbers to elements of a type. Numbers other than 0 are true.
fn elements(element: Element, numbers: &[f32]) -> Elements<'_> {
    fn each<T: Scalar>(numbers: &[f32], convert: impl Fn(f32) -> T) -> Elements<'static> {
        T::wrap(Cow::Owned(numbers.iter().map(|x| convert(*x)).collect()))
    }
    match element {
        Element::F32 => Elements::F32(numbers.into()),
        Element::F64 => each(numbers, f64::from),
        Element::F16 => each(numbers, f16::from_f32),
        Element::BF16 => each(numbers, bf16::from_f32),
        Element::I64 => each(numbers, |x| x as i64),
        Element::I32 => each(numbers, |x| x as i32),
        Element::I8 => each(numbers, |x| x as i8),
        Element::U8 => each(numbers, |x| x as u8),
        Element::Bool => each(numbers, |x| x != 0.0),
        other => unreachable!("no output of a network is of type {other}"),
    }
}

/// Engine of a model in its formats and its samples. The calling thread computes.
pub struct TunedEngine {
    name: String,
    network: Network,
    feed: Feed,
    info: EngineInfo,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

impl Engine for TunedEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        let name = &self.network.packed.output().name;
        self.feed.answer(samples, answers, &mut |inputs, samples, take| {
            let inputs = inputs.iter().map(|(shape, elements)| (&shape[..], elements));
            self.network.run(inputs, |shape, elements| {
                let (shape, elements, count) = (shape.to_vec(), Ok(elements), samples.len());
                let output = Output { name, shape, elements, samples: count };
                take(&Outputs::new([output]).for_samples(samples))
            })
        });
    }

    fn failure_reason(&self) -> Option<&str> {
        self.feed.failure_reason()
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }
}
