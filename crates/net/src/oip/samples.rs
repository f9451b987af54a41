//! Samples of a library as requests of a model, and the evaluated output of its answers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary as _};
use dyno_sut::tensors::{Elements, ModelInput, SampleTensor, TensorLibrary};

use super::{
    Datatype, InferRequest, InferResponse, ModelMetadata, StringInput, Tensor, TensorMetadata,
};
use crate::trouble::{Kind, Trouble};

/// Samples of the inputs of a model: tensors of numbers, strings, or both. Each has as many samples.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Inputs of numbers.
    pub tensors: Option<Arc<TensorLibrary>>,
    /// Inputs of strings.
    pub strings: Vec<StringInput>,
}

impl From<Arc<TensorLibrary>> for Samples {
    fn from(tensors: Arc<TensorLibrary>) -> Self {
        Self { tensors: Some(tensors), strings: Vec::new() }
    }
}

impl Samples {
    /// Returns the number of samples.
    ///
    /// # Errors
    /// Inputs with different numbers of samples, or none at all.
    fn count(&self) -> Result<usize, Trouble> {
        let tensors = self.tensors.iter().map(|library| library.total_sample_count());
        let strings = self.strings.iter().map(|input| input.samples.len());
        let counts: Vec<usize> = tensors.chain(strings).collect();
        let mismatch = |words: String| Err(Trouble::new(Kind::Mismatch, words));
        match counts.first() {
            None | Some(0) => mismatch("no samples".into()),
            Some(first) => match counts.iter().find(|count| *count != first) {
                None => Ok(*first),
                Some(other) => {
                    mismatch(format!("one input has {first} samples, but another has {other}"))
                }
            },
        }
    }
}

/// A model of a server with the samples to send.
///
/// Nothing is converted: types, layout and order of the elements are those of the samples. A
/// dimension of 1 is put before those of a sample if the model has one more.
#[derive(Debug)]
pub struct Model {
    name: String,
    version: String,
    samples: Samples,
    count: usize,
    /// By input of numbers, in the order of the library: whether to prepend a batch dimension of 1.
    is_batched: Vec<bool>,
    /// By input of strings: its declared shape, if the server lists it.
    declared: Vec<Option<Vec<i64>>>,
    /// Evaluated output, if the server listed its outputs.
    output: Option<TensorMetadata>,
    /// Further outputs that an answer must have: without `wanted`, a request asks for all.
    others: Vec<TensorMetadata>,
    /// Name of the requested output, if set.
    wanted: Option<String>,
    /// Element type of the first answer.
    answered: OnceLock<Datatype>,
}

impl Model {
    /// Combines samples with the metadata of a model; the first output is evaluated unless `wanted`
    /// names another.
    ///
    /// # Errors
    /// Samples with other inputs, types or shapes than the model has, or an unknown output.
    pub fn new(
        metadata: &ModelMetadata,
        version: &str,
        samples: impl Into<Samples>,
        wanted: Option<String>,
    ) -> Result<Self, Trouble> {
        let samples: Samples = samples.into();
        let count = samples.count()?;
        let first = match &samples.tensors {
            None => Vec::new(),
            Some(library) => library.sample(0).map_err(|why| Trouble::new(Kind::Mismatch, why))?,
        };
        let is_batched = first.iter().map(|(name, tensor)| needs_batch(metadata, name, tensor));
        let is_batched = is_batched.collect::<Result<Vec<bool>, _>>()?;
        let declared = samples.strings.iter().map(|input| declared_shape(metadata, input));
        let declared = declared.collect::<Result<Vec<_>, _>>()?;
        let strings = samples.strings.iter().map(|input| input.name.as_str());
        let there: Vec<&str> = first.iter().map(|(name, _)| *name).chain(strings).collect();
        let missing = metadata
            .inputs
            .iter()
            .find(|input| !input.is_optional && there.iter().all(|name| *name != input.name));
        if let Some(missing) = missing {
            return Err(Trouble::new(
                Kind::Mismatch,
                format!(
                    "model '{}' has an input '{}' without samples; samples are given for {}",
                    metadata.name,
                    missing.name,
                    there.join(", ")
                ),
            ));
        }
        let output = match &wanted {
            Some(name) => metadata.outputs.iter().find(|output| output.name == *name),
            None => metadata.outputs.first(),
        };
        if let (Some(name), None, false) = (&wanted, output, metadata.outputs.is_empty()) {
            let there: Vec<&str> = metadata.outputs.iter().map(|o| o.name.as_str()).collect();
            let words = format!(
                "model '{}' has no output '{name}'; it has {}",
                metadata.name,
                there.join(", ")
            );
            return Err(Trouble::new(Kind::Mismatch, words));
        }
        let others = match &wanted {
            Some(_) => Vec::new(),
            None => metadata.outputs.iter().skip(1).cloned().collect(),
        };
        Ok(Self {
            name: metadata.name.clone(),
            version: version.into(),
            is_batched,
            declared,
            output: output.cloned(),
            others,
            wanted,
            answered: OnceLock::new(),
            samples,
            count,
        })
    }

    /// Returns the element type of answers, if known.
    pub fn answer_type(&self) -> Option<Datatype> {
        let said = self.output.as_ref().and_then(|output| Datatype::named(&output.datatype).ok());
        self.answered.get().copied().or(said)
    }

    /// Returns the number of elements of the answer to one sample; `None` if the server does not state it.
    pub fn answer_length(&self) -> Option<usize> {
        let declared = &self.output.as_ref()?.shape[..];
        // A first dimension of any size is that of the batch; the only one may be the length of a vector.
        let of_sample = match declared {
            [first, rest @ ..] if *first < 0 && !rest.is_empty() => rest,
            _ => declared,
        };
        of_sample
            .iter()
            .try_fold(1_usize, |all, size| all.checked_mul(usize::try_from(*size).ok()?))
    }

    /// Returns the name of the model.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn sample_count(&self) -> usize {
        self.count
    }

    /// Returns the request of a sample. It requests only the evaluated output if that is set, otherwise all
    /// outputs.
    pub(super) fn request(&self, sample: SampleIndex) -> Result<InferRequest, String> {
        let numbers = match &self.samples.tensors {
            None => Vec::new(),
            Some(library) => library.sample(sample)?,
        };
        let numbers = numbers.into_iter().zip(&self.is_batched);
        let mut inputs: Vec<Tensor> =
            numbers.map(|((name, input), &batched)| tensor(name, &input, batched)).collect();
        for (input, declared) in self.samples.strings.iter().zip(&self.declared) {
            let shape = input.shape(sample as usize, declared.as_deref());
            let shape = shape.ok_or_else(|| misfit(input, sample as usize, declared.as_deref()))?;
            inputs.push(input.tensor(sample as usize, shape));
        }
        let wanted = self.wanted.iter();
        let wanted =
            wanted.map(|name| super::RequestedOutput { name: name.clone(), is_binary: None });
        Ok(InferRequest {
            model_name: self.name.clone(),
            model_version: self.version.clone(),
            id: String::new(),
            inputs,
            outputs: wanted.collect(),
            wants_binary: false,
            sequence: None,
        })
    }

    /// Returns the elements of the evaluated output, unconverted. An answer that `is_whole` must also have
    /// the other outputs; each answer of a stream may have some of them.
    pub(super) fn take(&self, response: InferResponse, is_whole: bool) -> Result<Bytes, Trouble> {
        let mut outputs = response.outputs;
        let name = self.wanted.as_deref().or(self.output.as_ref().map(|output| &*output.name));
        let at = place(&outputs, name, self.output.as_ref())?;
        for other in self.others.iter().filter(|_| is_whole) {
            place(&outputs, Some(&other.name), Some(other)).map_err(|trouble| {
                let alone = name.unwrap_or_default();
                let words = format!("{trouble}; output={alone} requests only that output");
                Trouble::new(trouble.kind, words)
            })?;
        }
        let found = outputs.swap_remove(at);
        self.answered.get_or_init(|| found.datatype);
        Ok(found.data)
    }
}

/// Returns the place of the output with this name, or of the first one, which must be as declared.
fn place(
    outputs: &[Tensor],
    name: Option<&str>,
    declared: Option<&TensorMetadata>,
) -> Result<usize, Trouble> {
    let mismatch = |words: String| Err(Trouble::new(Kind::Mismatch, words));
    let is_named = |output: &Tensor| name.is_none_or(|name| output.name == name);
    let Some(at) = outputs.iter().position(is_named) else {
        return mismatch(format!("an answer without output '{}'", name.unwrap_or("(any)")));
    };
    let found = &outputs[at];
    if outputs[at + 1..].iter().any(|output| output.name == found.name) {
        return mismatch(format!("an answer with output '{}' twice", found.name));
    }
    match declared {
        Some(said)
            if !(said.datatype == found.datatype.name() && is_of(&said.shape, &found.shape)) =>
        {
            mismatch(format!(
                "output '{}' is {} {:?}, but the model declares {} {:?}",
                found.name, found.datatype, found.shape, said.datatype, said.shape
            ))
        }
        _ => Ok(at),
    }
}

/// Returns the declared shape of an input of strings; `None` if the server lists no inputs.
fn declared_shape(
    metadata: &ModelMetadata,
    input: &StringInput,
) -> Result<Option<Vec<i64>>, Trouble> {
    if metadata.inputs.is_empty() {
        return Ok(None);
    }
    let declared = listed(metadata, &input.name)?;
    if declared.datatype != Datatype::Bytes.name() {
        let words = format!(
            "samples of input '{}' are strings, but model '{}' expects {}",
            input.name, metadata.name, declared.datatype
        );
        return Err(Trouble::new(Kind::Mismatch, words));
    }
    let misfits =
        (0..input.samples.len()).find(|&at| input.shape(at, Some(&declared.shape)).is_none());
    match misfits {
        None => Ok(Some(declared.shape.clone())),
        Some(at) => Err(Trouble::new(Kind::Mismatch, misfit(input, at, Some(&declared.shape)))),
    }
}

fn misfit(input: &StringInput, sample: usize, declared: Option<&[i64]>) -> String {
    let count = input.samples.get(sample).map_or(0, Vec::len);
    let declared = declared.unwrap_or_default();
    format!(
        "sample {sample} of input '{}' has {count} strings, but the model declares the shape \
         {declared:?}",
        input.name
    )
}

/// Returns the metadata of an input.
fn listed<'m>(metadata: &'m ModelMetadata, name: &str) -> Result<&'m TensorMetadata, Trouble> {
    metadata.inputs.iter().find(|input| input.name == name).ok_or_else(|| {
        let there: Vec<&str> = metadata.inputs.iter().map(|input| input.name.as_str()).collect();
        let (model, there) = (&metadata.name, there.join(", "));
        let words = format!("model '{model}' has no input '{name}'; it has {there}");
        Trouble::new(Kind::Mismatch, words)
    })
}

/// Returns whether this input of the samples needs a batch dimension of 1.
fn needs_batch(
    metadata: &ModelMetadata,
    name: &str,
    tensor: &SampleTensor,
) -> Result<bool, Trouble> {
    if metadata.inputs.is_empty() {
        // The server lists nothing; nearly all models have a batch dimension.
        return Ok(true);
    }
    let mismatch = |words: String| Err(Trouble::new(Kind::Mismatch, words));
    let model = &metadata.name;
    let input = listed(metadata, name)?;
    let datatype = Datatype::from_elements(&tensor.elements);
    if input.datatype != datatype.name() {
        return mismatch(format!(
            "samples of input '{name}' are {datatype}, but model '{model}' expects {}; convert \
             the file, because Dyno does not convert tensors",
            input.datatype
        ));
    }
    let alone: Vec<usize> = tensor.shape.clone();
    let batched: Vec<usize> = [&[1], alone.as_slice()].concat();
    match (is_of(&input.shape, &batched), is_of(&input.shape, &alone)) {
        (true, _) => Ok(true),
        (false, true) => Ok(false),
        (false, false) => mismatch(format!(
            "samples of input '{name}' have the shape {alone:?}, but model '{model}' expects {:?}",
            input.shape
        )),
    }
}

/// Returns whether a shape matches a declared one, in which -1 matches anything.
pub(super) fn is_of(said: &[i64], shape: &[usize]) -> bool {
    said.len() == shape.len()
        && said.iter().zip(shape).all(|(&said, &n)| said < 0 || usize::try_from(said) == Ok(n))
}

fn tensor(name: &str, sample: &SampleTensor, is_batched: bool) -> Tensor {
    let mut data = Vec::new();
    sample.elements.write(&mut data);
    let batch: &[usize] = if is_batched { &[1] } else { &[] };
    Tensor {
        name: name.into(),
        datatype: Datatype::from_elements(&sample.elements),
        shape: [batch, &sample.shape].concat(),
        data: data.into(),
    }
}

/// Returns the inputs of a model that requests must have, for samples of random numbers.
///
/// # Errors
/// A server that does not list inputs, or a type that this process does not support.
pub fn random_inputs(metadata: &ModelMetadata) -> Result<Vec<ModelInput>, Trouble> {
    if metadata.inputs.is_empty() {
        let words = format!(
            "the server does not list the inputs of model '{}'; pass samples with --data",
            metadata.name
        );
        return Err(Trouble::new(Kind::Mismatch, words));
    }
    let input = |input: &TensorMetadata| {
        let element = Datatype::named(&input.datatype)?.element();
        let element = element.filter(|element| Elements::TYPES.contains(element));
        let element = element.ok_or_else(|| {
            let words = format!(
                "cannot generate random samples of type {} for input '{}'; supported types: {}",
                input.datatype,
                input.name,
                Datatype::names_held()
            );
            Trouble::new(Kind::Mismatch, words)
        })?;
        let shape = input.shape.iter().map(|&dimension| usize::try_from(dimension).ok()).collect();
        Ok(ModelInput { name: input.name.clone(), element, shape })
    };
    metadata.inputs.iter().filter(|input| !input.is_optional).map(input).collect()
}
