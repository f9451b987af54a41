//! Models on tract, which is compiled in and needs no library on the machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::sut::QuerySample;
use tract_onnx::prelude::{
    Datum, DatumType, Framework, InferenceFact, InferenceModel, InferenceModelExt, IntoRunnable,
    TDim, TValue, TVec, Tensor, TractResult, TypedRunnableModel,
};
use tract_onnx::tract_hir::infer::Factoid;

use super::answer::{Output, Outputs};
use super::feed::{CallInput, Feed};
use super::{EngineOptions, OnnxError};
use crate::engine::{Answers, Engine, EngineInfo, Port};
use crate::tensors::{Element, Elements, ModelInput, Scalar, TensorLibrary};

/// A loaded model with known inputs.
#[derive(Debug)]
pub struct TractModel {
    path: PathBuf,
    inputs: Vec<ModelInput>,
    model: InferenceModel,
}

impl TractModel {
    /// Reads a model.
    ///
    /// # Errors
    /// [`OnnxError`] if tract does not read the model or an input has a type that is not supported.
    ///
    /// ```
    /// use dyno_sut::digits::Perceptron;
    /// use dyno_sut::onnx::tract::TractModel;
    ///
    /// let path = std::env::temp_dir().join(format!("dyno-tract-{}.onnx", std::process::id()));
    /// std::fs::write(&path, Perceptron::trained().to_onnx())?;
    /// let model = TractModel::open(&path)?;
    /// assert_eq!(model.inputs()[0].name, "ink");
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path) -> Result<Self, OnnxError> {
        let model = tract_onnx::onnx().model_for_path(path);
        let model = model.map_err(|error| refused(path, &error))?;
        let mut inputs = Vec::new();
        for (number, outlet) in model.inputs.iter().enumerate() {
            let name = &model.nodes[outlet.node].name;
            let fact = model.input_fact(number).map_err(|error| refused(path, &error))?;
            inputs.push(model_input(name, fact)?);
        }
        Ok(Self { path: path.to_path_buf(), inputs, model })
    }

    /// Returns the inputs of the model.
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// Returns an engine that feeds the model from this library. It has answered sample 0 once.
    ///
    /// The engine first tries a dynamic batch size. If tract cannot plan that, samples are computed
    /// one by one.
    ///
    /// # Errors
    /// [`OnnxError`] if the samples do not fit the inputs or the model fails.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<TractEngine, OnnxError> {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("tract-{stem}");
        let mut feed = Feed::new(&self.inputs, library, options.clone())?;
        if feed.is_batched() {
            if let Ok(plan) = plan(self.model.clone(), &self.inputs, &feed, true) {
                let info = info(&self.inputs, &plan, &feed);
                let mut engine = TractEngine { name: name.clone(), plan, feed: feed.clone(), info };
                if let Ok(found) = engine.feed.trial(&engine) {
                    (engine.info.first_call, engine.info.remarks) = found;
                    return Ok(engine);
                }
            }
            let one = EngineOptions { largest_batch: 1, ..options };
            feed = Feed::new(&self.inputs, library, one)?;
        }
        let plan = plan(self.model, &self.inputs, &feed, false);
        let plan = plan.map_err(|error| refused(&self.path, &error))?;
        let info = info(&self.inputs, &plan, &feed);
        let mut engine = TractEngine { name, plan, feed, info };
        (engine.info.first_call, engine.info.remarks) = engine.feed.trial(&engine)?;
        Ok(engine)
    }
}

fn refused(path: &Path, error: &impl fmt::Debug) -> OnnxError {
    // The alternate form contains the chain of causes. The innermost one names the operator.
    OnnxError::Model { path: path.to_path_buf(), why: format!("{error:?}") }
}

fn model_input(name: &str, fact: &InferenceFact) -> Result<ModelInput, OnnxError> {
    let unfit = || OnnxError::InputType { name: name.to_owned(), found: format!("{fact:?}") };
    let element = fact.datum_type.concretize().and_then(element_type).ok_or_else(unfit)?;
    let fixed = |dimension: TDim| dimension.to_i64().ok().and_then(|n| usize::try_from(n).ok());
    let dimensions = fact.shape.dims();
    let shape = dimensions.map(|dimension| dimension.concretize().and_then(fixed)).collect();
    Ok(ModelInput { name: name.to_owned(), element, shape })
}

/// Types that tract and this crate have in common. tract has no bfloat16.
const TYPES: [(DatumType, Element); 8] = [
    (DatumType::F32, Element::F32),
    (DatumType::F64, Element::F64),
    (DatumType::F16, Element::F16),
    (DatumType::I64, Element::I64),
    (DatumType::I32, Element::I32),
    (DatumType::I8, Element::I8),
    (DatumType::U8, Element::U8),
    (DatumType::Bool, Element::Bool),
];

fn element_type(datum: DatumType) -> Option<Element> {
    TYPES.iter().find(|(theirs, _)| *theirs == datum).map(|(_, ours)| *ours)
}

fn datum_type(element: Element) -> Option<DatumType> {
    TYPES.iter().find(|(_, ours)| *ours == element).map(|(theirs, _)| *theirs)
}

fn plan(
    mut model: InferenceModel,
    inputs: &[ModelInput],
    feed: &Feed,
    open_batch: bool,
) -> TractResult<Arc<TypedRunnableModel>> {
    let batch = model.symbols.new_with_prefix("batch");
    for (number, (input, shape)) in inputs.iter().zip(feed.shapes()).enumerate() {
        let element = datum_type(input.element).expect("the input was read from the model");
        let mut shape: TVec<TDim> = shape.iter().map(|&n| TDim::from(n)).collect();
        if open_batch {
            shape[0] = batch.clone().into();
        }
        model = model.with_input_fact(number, InferenceFact::dt_shape(element, shape))?;
    }
    // The declared shape of an output may contain the model's own symbol for the batch.
    for number in 0..model.outputs.len() {
        model = model.with_output_fact(number, InferenceFact::default())?;
    }
    model.into_optimized()?.into_runnable()
}

fn info(inputs: &[ModelInput], plan: &TypedRunnableModel, feed: &Feed) -> EngineInfo {
    let output = |number: usize| {
        let model = plan.model();
        let fact = model.output_fact(number).ok()?;
        let name = &model.nodes[model.outputs[number].node].name;
        let fixed = |n: &TDim| n.to_i64().ok().and_then(|n| usize::try_from(n).ok());
        let named = element_type(fact.datum_type).map(|element| element.to_string());
        let element = named.unwrap_or_else(|| format!("{:?}", fact.datum_type));
        Some(Port { name: name.clone(), element, shape: fact.shape.iter().map(fixed).collect() })
    };
    let outputs = (0..plan.model().outputs.len()).filter_map(output);
    EngineInfo {
        runtime: Some("tract".into()),
        inputs: inputs.iter().map(Port::from).collect(),
        outputs: feed.answer_first(outputs.collect()),
        largest_batch: feed.largest_batch(),
        ..EngineInfo::default()
    }
}

/// Engine of a model and its samples.
pub struct TractEngine {
    name: String,
    plan: Arc<TypedRunnableModel>,
    feed: Feed,
    info: EngineInfo,
}

fn output<'a>(name: &'a str, tensor: &'a Tensor, samples: usize) -> Output<'a> {
    fn read<T: Scalar + Datum>(tensor: &Tensor) -> Result<Elements<'_>, String> {
        let view = tensor.to_plain_array_view::<T>().map_err(|error| format!("{error:#}"))?;
        let all = view.to_slice().expect("tract's tensors are contiguous");
        Ok(T::wrap(all.into()))
    }
    let elements = match tensor.datum_type() {
        DatumType::F32 => read::<f32>(tensor),
        DatumType::F64 => read::<f64>(tensor),
        DatumType::F16 => read::<half::f16>(tensor),
        DatumType::I64 => read::<i64>(tensor),
        DatumType::I32 => read::<i32>(tensor),
        DatumType::I8 => read::<i8>(tensor),
        DatumType::U8 => read::<u8>(tensor),
        DatumType::Bool => read::<bool>(tensor),
        other => Err(format!("has elements of type {other:?}, which are not supported")),
    };
    Output { name, shape: tensor.shape().to_vec(), elements, samples }
}

impl Engine for TractEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        self.feed.answer(samples, answers, &mut |inputs, samples, take| {
            let tensor = |(shape, elements): &CallInput<'_>| match elements {
                Elements::F32(all) => Tensor::from_shape(shape, all),
                Elements::F64(all) => Tensor::from_shape(shape, all),
                Elements::F16(all) => Tensor::from_shape(shape, all),
                Elements::I64(all) => Tensor::from_shape(shape, all),
                Elements::I32(all) => Tensor::from_shape(shape, all),
                Elements::I8(all) => Tensor::from_shape(shape, all),
                Elements::U8(all) => Tensor::from_shape(shape, all),
                Elements::Bool(all) => Tensor::from_shape(shape, all),
                Elements::BF16(_) => unreachable!("no input of tract's is of this type"),
            };
            let call = || -> TractResult<TVec<TValue>> {
                let values = inputs.iter().map(|input| Ok(tensor(input)?.into()));
                self.plan.run(values.collect::<TractResult<_>>()?)
            };
            let outputs = call().map_err(|error| format!("{error:#}"))?;
            let ports = self.feed.outputs(outputs.len()).zip(&self.info.outputs);
            let all = ports.map(|(index, port)| output(&port.name, &outputs[index], samples.len()));
            take(&Outputs::new(all).for_samples(samples))
        });
    }

    fn failure_reason(&self) -> Option<&str> {
        self.feed.failure_reason()
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }
}
