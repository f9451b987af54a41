//! Writing a file: tensors go from where they are, or from the generator, to the
//! disk piece by piece, so that memory never holds all of them.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::graph::{Attribute, Body, Model, Node, Port};
use crate::messages::{
    AttributeProto, Dimension, Entry, GraphProto, ModelProto, NodeProto, OperatorSet, ShapeProto,
    TensorProto, TensorType, TypeProto, ValueInfo,
};
use crate::shape::Dim;
use crate::tensor::{Tensor, Values, code_of, fill};

/// Above this, weights go to a file beside the model: protocol buffers end at
/// 2 GiB, and engines copy what is inside them.
const ONE_FILE: u64 = 1 << 30;
/// Tensors up to this size stay in the model: ONNX Runtime must read shapes and
/// axes before it opens the other file.
const SMALL: u64 = 1024;
/// Where in the other file a tensor may begin, so that it can be mapped.
const ALIGNMENT: u64 = 4096;
/// Bytes of weights in memory at a time.
const PIECE: usize = 1 << 20;

/// Field numbers that are written by hand, for their content is streamed.
const MODEL_GRAPH: u32 = 7;
const GRAPH_INITIALIZER: u32 = 5;
const TENSOR_RAW_DATA: u32 = 9;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The model.
    pub model: PathBuf,
    /// Its weights, where they are apart.
    pub weights: Option<PathBuf>,
}

/// A file that cannot be written, or weights that cannot be read meanwhile.
#[derive(Debug)]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub why: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for WriteError {}

impl Model {
    /// Writes the model to `path`; weights of more than 1 GiB to `path` with
    /// `.data` behind it.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<Written, WriteError> {
        self.write_apart_above(path, ONE_FILE)
    }

    /// As [`Model::write`], with weights apart where all together have more than
    /// `one_file` bytes.
    ///
    /// # Errors
    /// As [`Model::write`].
    pub fn write_apart_above(&self, path: &Path, one_file: u64) -> Result<Written, WriteError> {
        let size =
            self.tensors.iter().fold(0_u64, |sum, tensor| sum.saturating_add(tensor.bytes()));
        let mut data = path.as_os_str().to_owned();
        data.push(".data");
        let data = PathBuf::from(data);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |why| WriteError { path, why }
        };
        let is_apart = size > one_file;
        let heads = if is_apart {
            self.write_apart(&data).map_err(failed(&data))?
        } else {
            self.tensors.iter().map(|tensor| header(tensor).encode_to_vec()).collect()
        };
        let write = || {
            let mut to = BufWriter::new(File::create(path)?);
            self.write_model(&mut to, &heads, is_apart)?;
            to.flush()
        };
        write().map_err(failed(path))?;
        Ok(Written { model: path.to_owned(), weights: is_apart.then_some(data) })
    }

    /// The file as bytes, for small models.
    ///
    /// # Errors
    /// Weights in another file cannot be read.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let heads: Vec<_> =
            self.tensors.iter().map(|tensor| header(tensor).encode_to_vec()).collect();
        let mut bytes = Vec::new();
        self.write_model(&mut bytes, &heads, false)?;
        Ok(bytes)
    }

    /// Writes all tensors to the file beside the model; their messages.
    fn write_apart(&self, path: &Path) -> io::Result<Vec<Vec<u8>>> {
        let location = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let location =
            location.ok_or_else(|| io::Error::other("expected a file, found a folder"))?;
        let mut to = BufWriter::new(File::create(path)?);
        let mut at = 0_u64;
        let mut heads = Vec::new();
        for tensor in &self.tensors {
            if is_inside(tensor, true) {
                heads.push(header(tensor).encode_to_vec());
                continue;
            }
            let gap = at.next_multiple_of(ALIGNMENT) - at;
            to.write_all(&vec![0; gap as usize])?;
            at += gap;
            let mut head = header(tensor);
            head.data_location = 1;
            let entry = |key: &str, value: String| Entry { key: key.into(), value };
            head.external_data = vec![
                entry("location", location.clone()),
                entry("offset", at.to_string()),
                entry("length", tensor.bytes().to_string()),
            ];
            heads.push(head.encode_to_vec());
            stream(tensor, &mut to)?;
            at += tensor.bytes();
        }
        to.flush()?;
        Ok(heads)
    }

    fn write_model(&self, to: &mut dyn Write, heads: &[Vec<u8>], is_apart: bool) -> io::Result<()> {
        let set = |(domain, version): &(String, i64)| OperatorSet {
            domain: domain.clone(),
            version: *version,
        };
        let model = ModelProto {
            ir_version: self.ir_version,
            producer_name: self.producer.clone(),
            graph: None,
            opset_import: self.operator_sets.iter().map(set).collect(),
            functions: Vec::new(),
        };
        let graph = GraphProto {
            node: self.nodes.iter().map(node).collect::<io::Result<_>>()?,
            name: self.name.clone(),
            initializer: Vec::new(),
            input: self.inputs.iter().map(port).collect(),
            output: self.outputs.iter().map(port).collect(),
            value_info: self.between.iter().map(port).collect(),
        };
        // The size of a tensor's message, without and with what goes before it.
        let inner = |(tensor, head): (&Tensor, &Vec<u8>)| {
            let raw = key_len(TENSOR_RAW_DATA) as u64
                + encoded_len_varint(tensor.bytes()) as u64
                + tensor.bytes();
            head.len() as u64 + if is_inside(tensor, is_apart) { raw } else { 0 }
        };
        let outer =
            |size: u64| key_len(GRAPH_INITIALIZER) as u64 + encoded_len_varint(size) as u64 + size;
        let tensors = || self.tensors.iter().zip(heads);
        let size = graph.encoded_len() as u64 + tensors().map(|one| outer(inner(one))).sum::<u64>();
        to.write_all(&model.encode_to_vec())?;
        delimited(to, MODEL_GRAPH, size)?;
        to.write_all(&graph.encode_to_vec())?;
        for (tensor, head) in tensors() {
            delimited(to, GRAPH_INITIALIZER, inner((tensor, head)))?;
            to.write_all(head)?;
            if is_inside(tensor, is_apart) {
                delimited(to, TENSOR_RAW_DATA, tensor.bytes())?;
                stream(tensor, to)?;
            }
        }
        Ok(())
    }
}

/// Whether a tensor's elements are in the model, where most weights may be apart.
fn is_inside(tensor: &Tensor, is_apart: bool) -> bool {
    !is_apart || tensor.bytes() <= SMALL
}

fn delimited(to: &mut dyn Write, field: u32, size: u64) -> io::Result<()> {
    let mut head = Vec::new();
    encode_key(field, WireType::LengthDelimited, &mut head);
    encode_varint(size, &mut head);
    to.write_all(&head)
}

/// A tensor's elements, piece by piece.
fn stream(tensor: &Tensor, to: &mut dyn Write) -> io::Result<()> {
    match &tensor.values {
        Values::Bytes(bytes) if bytes.len() as u64 == tensor.bytes() => to.write_all(bytes),
        Values::Bytes(bytes) => Err(io::Error::other(format!(
            "tensor '{}': its shape {:?} takes {} bytes, it has {}",
            tensor.name,
            tensor.shape,
            tensor.bytes(),
            bytes.len()
        ))),
        Values::Filled(how, seed) => {
            let (mut state, mut left) = (*seed, tensor.bytes());
            let mut piece = vec![0; PIECE.min(left as usize)];
            while left > 0 {
                let now = (piece.len() as u64).min(left) as usize;
                fill(*how, &mut state, &mut piece[..now]);
                to.write_all(&piece[..now])?;
                left -= now as u64;
            }
            Ok(())
        }
        Values::External { path, offset, length } => {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(*offset))?;
            let copied = io::copy(&mut file.take(*length), &mut &mut *to)?;
            if copied < *length {
                return Err(io::Error::other(format!("{} is cut short", path.display())));
            }
            Ok(())
        }
    }
}

fn header(tensor: &Tensor) -> TensorProto {
    TensorProto {
        dims: tensor.shape.iter().map(|&n| n as i64).collect(),
        data_type: code_of(tensor.element),
        name: tensor.name.clone(),
        ..TensorProto::default()
    }
}

fn port(port: &Port) -> ValueInfo {
    let dim = |dim: &Dim| match dim {
        Dim::Fixed(n) => Dimension { dim_value: Some(*n as i64), dim_param: None },
        Dim::Symbol(name) => Dimension { dim_value: None, dim_param: Some(name.clone()) },
    };
    let shape = port.shape.as_ref();
    let tensor = TensorType {
        elem_type: port.element.map_or(0, code_of),
        shape: shape.map(|shape| ShapeProto { dim: shape.iter().map(dim).collect() }),
    };
    let kind = TypeProto { tensor_type: Some(tensor) };
    ValueInfo { name: port.name.clone(), r#type: Some(kind) }
}

fn node(node: &Node) -> io::Result<NodeProto> {
    Ok(NodeProto {
        input: node.inputs.clone(),
        output: node.outputs.clone(),
        name: node.name.clone(),
        op_type: node.op.clone(),
        attribute: node.attributes.iter().map(attribute).collect::<io::Result<_>>()?,
        domain: node.domain.clone(),
        overload: String::new(),
    })
}

fn body(body: &Body) -> io::Result<GraphProto> {
    Ok(GraphProto {
        node: body.nodes.iter().map(node).collect::<io::Result<_>>()?,
        name: body.name.clone(),
        initializer: body.tensors.iter().map(whole).collect::<io::Result<_>>()?,
        input: body.inputs.iter().map(port).collect(),
        output: body.outputs.iter().map(port).collect(),
        value_info: body.between.iter().map(port).collect(),
    })
}

/// A tensor with its elements.
fn whole(tensor: &Tensor) -> io::Result<TensorProto> {
    let mut bytes = Vec::new();
    stream(tensor, &mut bytes)?;
    Ok(TensorProto { raw_data: Some(bytes), ..header(tensor) })
}

fn attribute((name, value): &(String, Attribute)) -> io::Result<AttributeProto> {
    let mut proto = AttributeProto { name: name.clone(), ..AttributeProto::default() };
    proto.r#type = match value {
        Attribute::Float(value) => {
            proto.f = Some(*value);
            1
        }
        Attribute::Int(value) => {
            proto.i = Some(*value);
            2
        }
        Attribute::Text(text) => {
            proto.s = Some(text.clone().into_bytes());
            3
        }
        Attribute::Tensor(tensor) => {
            proto.t = Some(whole(tensor)?);
            4
        }
        Attribute::Body(inner) => {
            proto.g = Some(body(inner)?);
            5
        }
        Attribute::Floats(values) => {
            proto.floats.clone_from(values);
            6
        }
        Attribute::Ints(values) => {
            proto.ints.clone_from(values);
            7
        }
        Attribute::Texts(texts) => {
            proto.strings = texts.iter().map(|text| text.clone().into_bytes()).collect();
            8
        }
        Attribute::Other => {
            let why = format!("attribute '{name}' was not kept when the model was read");
            return Err(io::Error::other(why));
        }
    };
    Ok(proto)
}
