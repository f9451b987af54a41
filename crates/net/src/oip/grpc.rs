//! Inference requests and answers as gRPC messages, with raw or typed contents.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::messages::{
    ModelInferRequest, ModelInferResponse, ModelMetadataResponse, ParameterChoice,
    ParameterMessage, RequestedOutputMessage, ServerMetadataResponse, TensorContents,
    TensorMessage, TensorMetadataMessage,
};
use super::{
    Datatype, InferRequest, InferResponse, ModelMetadata, RequestedOutput, SequenceId,
    SequenceStep, ServerMetadata, Tensor, TensorMetadata, sequence, shape_of,
};
use crate::trouble::{Kind, Trouble};

impl InferRequest {
    /// Returns the message. Contents are typed if `is_raw` is false and all inputs have a list for
    /// their type, otherwise raw.
    pub fn to_message(&self, is_raw: bool) -> ModelInferRequest {
        let asked = |output: &RequestedOutput| RequestedOutputMessage { name: output.name.clone() };
        let (inputs, raw_input_contents) = to_messages(&self.inputs, is_raw);
        ModelInferRequest {
            model_name: self.model_name.clone(),
            model_version: self.model_version.clone(),
            id: self.id.clone(),
            parameters: self.sequence.iter().flat_map(to_parameters).collect(),
            inputs,
            outputs: self.outputs.iter().map(asked).collect(),
            raw_input_contents,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Not a valid request.
    pub fn from_message(message: Bytes) -> Result<Self, Trouble> {
        let message = ModelInferRequest::decode(message).map_err(|e| no_message("request", &e))?;
        let asked =
            |output: RequestedOutputMessage| RequestedOutput { name: output.name, is_binary: None };
        Ok(Self {
            inputs: from_messages(message.inputs, message.raw_input_contents)?,
            model_name: message.model_name,
            model_version: message.model_version,
            id: message.id,
            outputs: message.outputs.into_iter().map(asked).collect(),
            wants_binary: false,
            sequence: from_parameters(&message.parameters)?,
        })
    }
}

/// Returns the parameters of a request of a sequence.
fn to_parameters(step: &SequenceStep) -> [(String, ParameterMessage); 3] {
    let parameter =
        |name: &str, choice| (name.to_owned(), ParameterMessage { choice: Some(choice) });
    let id = match &step.id {
        // The type that Triton's clients use.
        SequenceId::Number(number) => match i64::try_from(*number) {
            Ok(number) => ParameterChoice::Int64(number),
            Err(_) => ParameterChoice::Uint64(*number),
        },
        SequenceId::Text(text) => ParameterChoice::String(text.clone()),
    };
    [
        parameter(sequence::ID, id),
        parameter(sequence::START, ParameterChoice::Bool(step.is_start)),
        parameter(sequence::END, ParameterChoice::Bool(step.is_end)),
    ]
}

fn from_parameters(
    parameters: &BTreeMap<String, ParameterMessage>,
) -> Result<Option<SequenceStep>, Trouble> {
    let choice = |name: &str| parameters.get(name).and_then(|own| own.choice.as_ref());
    let wrong = |name: &str, expected: &str, found: &ParameterChoice| {
        let words = format!("'{name}' is {found:?}; expected {expected}");
        Trouble::new(Kind::Malformed, words)
    };
    let id = match choice(sequence::ID) {
        None => None,
        Some(ParameterChoice::String(text)) => Some(SequenceId::Text(text.clone())),
        Some(ParameterChoice::Uint64(number)) => Some(SequenceId::Number(*number)),
        Some(found @ ParameterChoice::Int64(number)) => {
            let number = u64::try_from(*number);
            let number = number.map_err(|_| wrong(sequence::ID, "a number from 0", found));
            Some(SequenceId::Number(number?))
        }
        Some(found) => return Err(wrong(sequence::ID, "int64, uint64 or string", found)),
    };
    let mark = |name: &str| match choice(name) {
        None => Ok(false),
        Some(ParameterChoice::Bool(is_set)) => Ok(*is_set),
        Some(found) => Err(wrong(name, "bool", found)),
    };
    SequenceStep::from_parameters(id, mark(sequence::START)?, mark(sequence::END)?)
}

impl InferResponse {
    /// Returns the message. Contents are typed if `is_raw` is false and all outputs have a list for
    /// their type, otherwise raw.
    pub fn to_message(&self, is_raw: bool) -> ModelInferResponse {
        let (outputs, raw_output_contents) = to_messages(&self.outputs, is_raw);
        ModelInferResponse {
            model_name: self.model_name.clone(),
            model_version: self.model_version.clone(),
            id: self.id.clone(),
            outputs,
            raw_output_contents,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Not a valid answer.
    pub fn from_message(message: Bytes) -> Result<Self, Trouble> {
        let message = ModelInferResponse::decode(message).map_err(|e| no_message("answer", &e))?;
        message.try_into()
    }
}

impl TryFrom<ModelInferResponse> for InferResponse {
    type Error = Trouble;

    fn try_from(message: ModelInferResponse) -> Result<Self, Trouble> {
        Ok(Self {
            outputs: from_messages(message.outputs, message.raw_output_contents)?,
            model_name: message.model_name,
            model_version: message.model_version,
            id: message.id,
        })
    }
}

fn no_message(what: &str, error: &prost::DecodeError) -> Trouble {
    Trouble::new(Kind::Malformed, format!("the {what} is not a message of the protocol: {error}"))
}

/// Returns tensors without elements, and the elements: all raw, or all inside the tensors.
fn to_messages(tensors: &[Tensor], is_raw: bool) -> (Vec<TensorMessage>, Vec<Bytes>) {
    let typed: Option<Vec<_>> =
        if is_raw { None } else { tensors.iter().map(Tensor::to_contents).collect() };
    let raw = match typed {
        None => tensors.iter().map(|tensor| tensor.data.clone()).collect(),
        Some(_) => Vec::new(),
    };
    let mut typed = typed.into_iter().flatten();
    let messages = tensors.iter().map(|tensor| TensorMessage {
        name: tensor.name.clone(),
        datatype: tensor.datatype.name().into(),
        shape: tensor.shape.iter().map(|&dimension| dimension as i64).collect(),
        contents: typed.next(),
    });
    (messages.collect(), raw)
}

fn from_messages(tensors: Vec<TensorMessage>, raw: Vec<Bytes>) -> Result<Vec<Tensor>, Trouble> {
    if !raw.is_empty() && raw.len() != tensors.len() {
        let (raw, tensors) = (raw.len(), tensors.len());
        let words = format!("{raw} raw contents for {tensors} tensors");
        return Err(Trouble::new(Kind::Malformed, words));
    }
    let mut raw = raw.into_iter();
    let read = |message: TensorMessage| {
        let TensorMessage { name, datatype, shape, contents } = message;
        let datatype = Datatype::named(&datatype)?;
        let wrong = |what: String| Trouble::new(Kind::Malformed, format!("tensor '{name}' {what}"));
        let shape = shape_of(&name, &shape)?;
        let (raw, contents) = (raw.next(), contents.unwrap_or_default());
        // Two readers could take different ones.
        if contents.list_count() + usize::from(raw.is_some()) > 1 {
            return Err(wrong("has several contents; expected one list or raw contents".into()));
        }
        let data = match raw {
            Some(raw) => raw,
            None => contents
                .to_raw(datatype)
                .ok_or_else(|| wrong(format!("has no contents of type {datatype}")))?
                .into(),
        };
        Tensor::new(name, datatype, shape, data)
    };
    tensors.into_iter().map(read).collect()
}

impl Tensor {
    /// Returns the elements by their type; `None` if there is no list for it.
    fn to_contents(&self) -> Option<TensorContents> {
        macro_rules! all {
            ($type:ty) => {
                self.data
                    .chunks_exact(size_of::<$type>())
                    .map(|bytes| {
                        <$type>::from_le_bytes(bytes.try_into().expect("chunks are of this size"))
                            .into()
                    })
                    .collect()
            };
        }
        let mut contents = TensorContents::default();
        match self.datatype {
            Datatype::Bool => contents.bools = self.data.iter().map(|&byte| byte != 0).collect(),
            Datatype::Int8 => contents.ints = all!(i8),
            Datatype::Int16 => contents.ints = all!(i16),
            Datatype::Int32 => contents.ints = all!(i32),
            Datatype::Int64 => contents.longs = all!(i64),
            Datatype::Uint8 => contents.unsigned_ints = all!(u8),
            Datatype::Uint16 => contents.unsigned_ints = all!(u16),
            Datatype::Uint32 => contents.unsigned_ints = all!(u32),
            Datatype::Uint64 => contents.unsigned_longs = all!(u64),
            Datatype::Fp32 => contents.floats = all!(f32),
            Datatype::Fp64 => contents.doubles = all!(f64),
            Datatype::Bytes => {
                let strings = self.strings().flatten();
                contents.strings = strings.map(|string| self.data.slice_ref(string)).collect();
            }
            Datatype::Fp16 | Datatype::Bf16 => return None,
        }
        Some(contents)
    }
}

impl TensorContents {
    /// Returns the number of lists with elements.
    fn list_count(&self) -> usize {
        let are_empty = [
            self.bools.is_empty(),
            self.ints.is_empty(),
            self.longs.is_empty(),
            self.unsigned_ints.is_empty(),
            self.unsigned_longs.is_empty(),
            self.floats.is_empty(),
            self.doubles.is_empty(),
            self.strings.is_empty(),
        ];
        are_empty.iter().filter(|is_empty| !**is_empty).count()
    }

    /// Returns elements of this type as raw bytes; `None` if one is out of range or there is no
    /// list for the type.
    fn to_raw(&self, datatype: Datatype) -> Option<Vec<u8>> {
        macro_rules! all {
            ($list:expr) => {
                Some($list.iter().flat_map(|value| value.to_le_bytes()).collect())
            };
            ($list:expr, $type:ty) => {{
                let narrow = $list.iter().map(|&value| <$type>::try_from(value).ok());
                let narrow: Vec<$type> = narrow.collect::<Option<_>>()?;
                all!(narrow)
            }};
        }
        match datatype {
            Datatype::Bool => Some(self.bools.iter().map(|&value| value.into()).collect()),
            Datatype::Int8 => all!(self.ints, i8),
            Datatype::Int16 => all!(self.ints, i16),
            Datatype::Int32 => all!(self.ints),
            Datatype::Int64 => all!(self.longs),
            Datatype::Uint8 => all!(self.unsigned_ints, u8),
            Datatype::Uint16 => all!(self.unsigned_ints, u16),
            Datatype::Uint32 => all!(self.unsigned_ints),
            Datatype::Uint64 => all!(self.unsigned_longs),
            Datatype::Fp32 => all!(self.floats),
            Datatype::Fp64 => all!(self.doubles),
            Datatype::Bytes => {
                let mut raw = Vec::new();
                for string in &self.strings {
                    raw.extend(u32::try_from(string.len()).ok()?.to_le_bytes());
                    raw.extend_from_slice(string);
                }
                Some(raw)
            }
            Datatype::Fp16 | Datatype::Bf16 => None,
        }
    }
}

impl From<ModelMetadata> for ModelMetadataResponse {
    fn from(model: ModelMetadata) -> Self {
        let ModelMetadata { name, versions, platform, inputs, outputs } = model;
        // The message has no field for optional inputs. A client would send all that it names.
        let inputs = inputs.into_iter().filter(|input| !input.is_optional);
        let inputs = inputs.map(Into::into).collect();
        let outputs = outputs.into_iter().map(Into::into).collect();
        Self { name, versions, platform, inputs, outputs }
    }
}

impl From<ModelMetadataResponse> for ModelMetadata {
    fn from(message: ModelMetadataResponse) -> Self {
        let ModelMetadataResponse { name, versions, platform, inputs, outputs } = message;
        let inputs = inputs.into_iter().map(Into::into).collect();
        let outputs = outputs.into_iter().map(Into::into).collect();
        Self { name, versions, platform, inputs, outputs }
    }
}

impl From<TensorMetadata> for TensorMetadataMessage {
    fn from(TensorMetadata { name, datatype, shape, .. }: TensorMetadata) -> Self {
        Self { name, datatype, shape }
    }
}

impl From<TensorMetadataMessage> for TensorMetadata {
    fn from(message: TensorMetadataMessage) -> Self {
        let TensorMetadataMessage { name, datatype, shape } = message;
        Self { name, datatype, shape, is_optional: false }
    }
}

impl From<ServerMetadata> for ServerMetadataResponse {
    fn from(ServerMetadata { name, version, extensions }: ServerMetadata) -> Self {
        Self { name, version, extensions }
    }
}

impl From<ServerMetadataResponse> for ServerMetadata {
    fn from(message: ServerMetadataResponse) -> Self {
        let ServerMetadataResponse { name, version, extensions } = message;
        Self { name, version, extensions }
    }
}
