//! JSON of inference over HTTP.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ModelMetadata, SequenceId, ServerMetadata, TensorMetadata};

/// JSON header of a request or an answer: tensors with or without elements.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Head<'a> {
    pub model_name: Option<String>,
    pub model_version: Option<String>,
    pub id: Option<String>,
    pub parameters: Option<Parameters>,
    #[serde(borrow)]
    pub inputs: Option<Vec<JsonTensor<'a>>>,
    pub outputs: Option<Vec<JsonTensor<'a>>>,
    pub error: Option<&'a RawValue>,
}

/// Tensor in a JSON header; a requested output has only its name.
#[derive(Debug, Deserialize)]
pub(super) struct JsonTensor<'a> {
    pub name: String,
    pub datatype: Option<String>,
    pub shape: Option<Vec<i64>>,
    pub parameters: Option<Parameters>,
    #[serde(borrow)]
    pub data: Option<&'a RawValue>,
}

/// Parameters of the extensions for binary tensors and sequences; others are ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Parameters {
    pub binary_data_size: Option<u64>,
    pub binary_data: Option<bool>,
    pub binary_data_output: Option<bool>,
    #[serde(default, deserialize_with = "sequence_id")]
    pub sequence_id: Option<SequenceId>,
    pub sequence_start: Option<bool>,
    pub sequence_end: Option<bool>,
}

/// Reads the identifier of a sequence, a number or a string.
fn sequence_id<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SequenceId>, D::Error> {
    use serde_json::Value;
    match Option::<Value>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(SequenceId::Text(text))),
        Some(found) => match found.as_u64() {
            Some(number) => Ok(Some(SequenceId::Number(number))),
            None => Err(serde::de::Error::custom(format!(
                "'sequence_id' is {found}; expected a whole number from 0, or a string"
            ))),
        },
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct JsonModel {
    name: String,
    #[serde(deserialize_with = "or_default")]
    versions: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    platform: String,
    #[serde(deserialize_with = "or_default")]
    inputs: Vec<JsonTensorMetadata>,
    /// Not in the protocol, whose `inputs` are those that a model requires.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    optional_inputs: Vec<JsonTensorMetadata>,
    #[serde(deserialize_with = "or_default")]
    outputs: Vec<JsonTensorMetadata>,
}

#[derive(Debug, Serialize, Deserialize)]
struct JsonTensorMetadata {
    name: String,
    datatype: String,
    #[serde(default, deserialize_with = "dimensions")]
    shape: Vec<i64>,
    /// Some servers mark optional inputs among the others.
    #[serde(default, skip_serializing)]
    optional: bool,
}

/// Reads dimensions, which some servers write as strings.
fn dimensions<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Dimension {
        Number(i64),
        Text(String),
    }
    let all: Option<Vec<Dimension>> = Option::deserialize(deserializer)?;
    let dimension = |dimension: Dimension| match dimension {
        Dimension::Number(number) => Ok(number),
        Dimension::Text(text) => text
            .trim()
            .parse()
            .map_err(|_| serde::de::Error::custom(format!("expected a dimension, found {text:?}"))),
    };
    all.unwrap_or_default().into_iter().map(dimension).collect()
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct JsonServer {
    name: String,
    #[serde(deserialize_with = "or_default")]
    version: String,
    #[serde(deserialize_with = "or_default")]
    extensions: Vec<String>,
}

/// Accepts `null`, which servers write for missing values.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl ModelMetadata {
    /// Returns the answer to `GET /v2/models/NAME`.
    pub fn to_json(&self) -> Vec<u8> {
        let tensors = |all: &[TensorMetadata], is_optional: bool| {
            let all = all.iter().filter(|tensor| tensor.is_optional == is_optional);
            all.map(JsonTensorMetadata::from).collect()
        };
        let json = JsonModel {
            name: self.name.clone(),
            versions: self.versions.clone(),
            platform: self.platform.clone(),
            inputs: tensors(&self.inputs, false),
            optional_inputs: tensors(&self.inputs, true),
            outputs: tensors(&self.outputs, false),
        };
        serde_json::to_vec(&json).expect("strings and numbers are JSON")
    }

    /// Reads the answer to `GET /v2/models/NAME`.
    ///
    /// # Errors
    /// Not a valid answer.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        let json: JsonModel = serde_json::from_slice(json)?;
        let tensors = |all: Vec<JsonTensorMetadata>| all.into_iter().map(TensorMetadata::from);
        let optional = tensors(json.optional_inputs);
        let optional = optional.map(|input| TensorMetadata { is_optional: true, ..input });
        Ok(Self {
            name: json.name,
            versions: json.versions,
            platform: json.platform,
            inputs: tensors(json.inputs).chain(optional).collect(),
            outputs: tensors(json.outputs).collect(),
        })
    }
}

impl ServerMetadata {
    /// Returns the answer to `GET /v2`.
    pub fn to_json(&self) -> Vec<u8> {
        let Self { name, version, extensions } = self.clone();
        serde_json::to_vec(&JsonServer { name, version, extensions }).expect("strings are JSON")
    }

    /// Reads the answer to `GET /v2`.
    ///
    /// # Errors
    /// Not a valid answer.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        let JsonServer { name, version, extensions } = serde_json::from_slice(json)?;
        Ok(Self { name, version, extensions })
    }
}

impl From<&TensorMetadata> for JsonTensorMetadata {
    fn from(tensor: &TensorMetadata) -> Self {
        let TensorMetadata { name, datatype, shape, is_optional } = tensor.clone();
        Self { name, datatype, shape, optional: is_optional }
    }
}

impl From<JsonTensorMetadata> for TensorMetadata {
    fn from(tensor: JsonTensorMetadata) -> Self {
        let JsonTensorMetadata { name, datatype, shape, optional } = tensor;
        Self { name, datatype, shape, is_optional: optional }
    }
}
