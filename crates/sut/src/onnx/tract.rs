//! Models run by tract, which is compiled in and needs nothing on the machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::sut::QuerySample;
use tract_onnx::prelude::{
    DatumType, Framework, InferenceFact, InferenceModel, InferenceModelExt, IntoRunnable, TDim,
    TValue, TVec, Tensor, TractResult, TypedRunnableModel,
};
use tract_onnx::tract_hir::infer::Factoid;

use super::feed::{Feed, Output};
use super::{EngineOptions, OnnxError};
use crate::engine::{About, Answers, Engine, Port};
use crate::tensors::{ElementType, Elements, ModelInput, TensorLibrary};

/// A model that has been read and whose inputs are known.
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
    /// [`OnnxError`] if tract refuses the model or an input cannot be fed.
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

    /// The inputs that the model declares.
    #[must_use]
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// An engine that feeds the model from this library. It has answered sample
    /// 0 once.
    ///
    /// A batch whose size is open is tried first; a model that tract cannot
    /// plan so takes its samples one by one.
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
        let mut feed = Feed::new(&self.inputs, library, options)?;
        if feed.is_batched() {
            if let Ok(plan) = plan(self.model.clone(), &self.inputs, &feed, true) {
                let about = about(&self.inputs, &plan, &feed);
                let mut engine =
                    TractEngine { name: name.clone(), plan, feed: feed.clone(), about };
                if let Ok(took) = engine.feed.trial(&engine) {
                    engine.about.first_call = Some(took);
                    return Ok(engine);
                }
            }
            let one = EngineOptions { largest_batch: 1, ..options };
            feed = Feed::new(&self.inputs, library, one)?;
        }
        let plan = plan(self.model, &self.inputs, &feed, false);
        let plan = plan.map_err(|error| refused(&self.path, &error))?;
        let about = about(&self.inputs, &plan, &feed);
        let mut engine = TractEngine { name, plan, feed, about };
        engine.about.first_call = Some(engine.feed.trial(&engine)?);
        Ok(engine)
    }
}

fn refused(path: &Path, error: &impl fmt::Debug) -> OnnxError {
    // The alternate form holds the chain of causes, the innermost of which
    // names the operator.
    OnnxError::Model { path: path.to_path_buf(), why: format!("{error:?}") }
}

fn model_input(name: &str, fact: &InferenceFact) -> Result<ModelInput, OnnxError> {
    let unfit = || OnnxError::InputType { name: name.to_owned(), found: format!("{fact:?}") };
    let element = match fact.datum_type.concretize() {
        Some(DatumType::F32) => ElementType::F32,
        Some(DatumType::I64) => ElementType::I64,
        Some(DatumType::U8) => ElementType::U8,
        _ => return Err(unfit()),
    };
    let fixed = |dimension: TDim| dimension.to_i64().ok().and_then(|n| usize::try_from(n).ok());
    let dimensions = fact.shape.dims();
    let shape = dimensions.map(|dimension| dimension.concretize().and_then(fixed)).collect();
    Ok(ModelInput { name: name.to_owned(), element, shape })
}

fn plan(
    mut model: InferenceModel,
    inputs: &[ModelInput],
    feed: &Feed,
    open_batch: bool,
) -> TractResult<Arc<TypedRunnableModel>> {
    let batch = model.symbols.new_with_prefix("batch");
    for (number, (input, shape)) in inputs.iter().zip(feed.shapes()).enumerate() {
        let element = match input.element {
            ElementType::F32 => DatumType::F32,
            ElementType::I64 => DatumType::I64,
            ElementType::U8 => DatumType::U8,
        };
        let mut shape: TVec<TDim> = shape.iter().map(|&n| TDim::from(n)).collect();
        if open_batch {
            shape[0] = batch.clone().into();
        }
        model = model.with_input_fact(number, InferenceFact::dt_shape(element, shape))?;
    }
    // An output's declared shape may name the batch by the model's own symbol.
    for number in 0..model.outputs.len() {
        model = model.with_output_fact(number, InferenceFact::default())?;
    }
    model.into_optimized()?.into_runnable()
}

fn about(inputs: &[ModelInput], plan: &TypedRunnableModel, feed: &Feed) -> About {
    let output = |number: usize| {
        let model = plan.model();
        let fact = model.output_fact(number).ok()?;
        let name = &model.nodes[model.outputs[number].node].name;
        let fixed = |n: &TDim| n.to_i64().ok().and_then(|n| usize::try_from(n).ok());
        let element = match fact.datum_type {
            DatumType::F32 => "float32".to_owned(),
            DatumType::F64 => "float64".to_owned(),
            DatumType::I64 => "int64".to_owned(),
            DatumType::I32 => "int32".to_owned(),
            DatumType::U8 => "uint8".to_owned(),
            other => format!("{other:?}"),
        };
        Some(Port { name: name.clone(), element, shape: fact.shape.iter().map(fixed).collect() })
    };
    About {
        runtime: Some("tract".into()),
        inputs: inputs.iter().map(Port::from).collect(),
        outputs: (0..plan.model().outputs.len()).filter_map(output).collect(),
        largest_batch: feed.largest_batch(),
        ..About::default()
    }
}

/// A model and its samples.
pub struct TractEngine {
    name: String,
    plan: Arc<TypedRunnableModel>,
    feed: Feed,
    about: About,
}

fn output(tensor: &Tensor, take: &mut dyn FnMut(Output<'_>)) -> TractResult<()> {
    let contiguous = "tract's tensors are contiguous";
    match tensor.datum_type() {
        DatumType::F32 => {
            take(Output::F32(tensor.to_plain_array_view()?.as_slice().expect(contiguous)));
        }
        DatumType::F64 => {
            take(Output::F64(tensor.to_plain_array_view()?.as_slice().expect(contiguous)));
        }
        DatumType::I64 => {
            take(Output::I64(tensor.to_plain_array_view()?.as_slice().expect(contiguous)));
        }
        DatumType::I32 => {
            take(Output::I32(tensor.to_plain_array_view()?.as_slice().expect(contiguous)));
        }
        // Whatever else cannot be read as bytes is an error that says so.
        _ => take(Output::U8(tensor.to_plain_array_view()?.as_slice().expect(contiguous))),
    }
    Ok(())
}

impl Engine for TractEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        self.feed.answer(samples, answers, &mut |inputs, take| {
            let tensor = |(shape, elements): &(Vec<usize>, Elements<'_>)| match elements {
                Elements::F32(all) => Tensor::from_shape(shape, all),
                Elements::I64(all) => Tensor::from_shape(shape, all),
                Elements::U8(all) => Tensor::from_shape(shape, all),
            };
            let call = || -> TractResult<TVec<TValue>> {
                let fed = inputs.iter().map(|input| Ok(tensor(input)?.into()));
                self.plan.run(fed.collect::<TractResult<_>>()?)
            };
            let outputs = call().map_err(|error| format!("{error:#}"))?;
            let first = outputs.first().ok_or("the model has no outputs")?;
            output(first, take).map_err(|error| format!("{error:#}"))
        });
    }

    fn trouble(&self) -> Option<&str> {
        self.feed.trouble()
    }

    fn about(&self) -> About {
        self.about.clone()
    }
}

impl fmt::Debug for TractEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TractEngine").field("name", &self.name).finish_non_exhaustive()
    }
}
