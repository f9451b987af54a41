//! Inference between the codecs and the queue, shared by HTTP and gRPC.

use dyno_sut::infer::Value;
use dyno_tensors::Elements;

use super::queue::Queue;
use super::refusal::{Refusal, RefusalKind};
use super::state::{State, VERSION};
use super::{Answers, Model};
use crate::oip::{Datatype, InferRequest, InferResponse, ModelMetadata, Tensor, TensorMetadata};

/// Computes a request on a model.
///
/// # Errors
/// The model is unknown, the request does not fit it, its queue is full, or it fails.
pub(super) async fn infer(state: &State, request: InferRequest) -> Result<InferResponse, Refusal> {
    let model = state.model(&request.model_name, &request.model_version)?;
    let queue = tensors(model)?;
    let about = queue.model().info();
    let wanted: Vec<&str> = request.outputs.iter().map(|output| &output.name[..]).collect();
    let known: Vec<&str> = about.outputs.iter().map(|port| &port.name[..]).collect();
    if let Some(odd) = wanted.iter().find(|name| !known.contains(*name)) {
        let known = known.join(", ");
        let words = format!("the model has no output '{odd}'; expected one of {known}");
        return Err(RefusalKind::Invalid.because(words));
    }
    let given = request.inputs.into_iter().map(value).collect::<Result<_, _>>()?;
    let values = queue.model().fit(given);
    let values = values.map_err(|unfit| RefusalKind::Invalid.because(unfit.to_string()))?;
    let answer = queue.offer(&model.name, values, request.sequence)?;
    // A worker disappears without an answer only at the end of the process.
    let answer =
        answer.await.map_err(|_| RefusalKind::Failed.because("the model did not answer"))??;
    let outputs = known.iter().zip(answer);
    let outputs = outputs.filter(|(name, _)| wanted.is_empty() || wanted.contains(*name));
    Ok(InferResponse {
        outputs: outputs.map(|(name, value)| tensor(name, &value)).collect(),
        model_name: request.model_name,
        model_version: VERSION.into(),
        id: request.id,
    })
}

/// Returns the queue of a tensor model.
pub(super) fn tensors(model: &Model) -> Result<&Queue, Refusal> {
    match &model.answers {
        Answers::Tensors(queue) => Ok(queue),
        Answers::Text(_) => Err(RefusalKind::Invalid.because(format!(
            "model '{}' generates text; use /v1/completions or /v1/chat/completions",
            model.name
        ))),
    }
}

fn value(tensor: Tensor) -> Result<(String, Value), Refusal> {
    let Tensor { name, datatype, shape, data } = tensor;
    let elements = datatype.element().and_then(|element| Elements::read(element, &data));
    let Some(elements) = elements else {
        let known = Datatype::names_held();
        return Err(RefusalKind::Invalid
            .because(format!("input '{name}' is of type {datatype}; models here take {known}")));
    };
    Ok((name, Value { shape, elements }))
}

fn tensor(name: &str, value: &Value) -> Tensor {
    let mut data = Vec::with_capacity(value.elements.len() * value.elements.element().size());
    value.elements.write(&mut data);
    Tensor {
        name: name.to_owned(),
        datatype: Datatype::from_elements(&value.elements),
        shape: value.shape.clone(),
        data: data.into(),
    }
}

/// Returns the metadata of a model.
pub(super) fn metadata(model: &Model) -> ModelMetadata {
    let (platform, inputs, outputs) = match &model.answers {
        Answers::Text(_) => ("dyno_tokens".to_owned(), Vec::new(), Vec::new()),
        Answers::Tensors(queue) => {
            let about = queue.model().info();
            let of = |port: &dyno_sut::engine::Port, is_optional| {
                let datatype = Elements::type_from_name(&port.element);
                let datatype = datatype.and_then(Datatype::from_element).map(Datatype::name);
                let datatype = datatype.unwrap_or(&port.element).to_owned();
                let dimension = |n: &Option<usize>| n.map_or(-1, |n| n as i64);
                let shape = port.shape.iter().map(dimension).collect();
                TensorMetadata { name: port.name.clone(), datatype, shape, is_optional }
            };
            let optional = about.optional_inputs.iter().map(|port| of(port, true));
            let inputs = about.inputs.iter().map(|port| of(port, false)).chain(optional).collect();
            let outputs = about.outputs.iter().map(|port| of(port, false)).collect();
            (about.runtime.unwrap_or_else(|| "dyno".into()), inputs, outputs)
        }
    };
    ModelMetadata {
        name: model.name.clone(),
        versions: vec![VERSION.into()],
        platform,
        inputs,
        outputs,
    }
}
