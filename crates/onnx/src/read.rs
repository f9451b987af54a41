//! Reading a file.

use std::fmt;
use std::path::{Path, PathBuf};

use dyno_tensors::Element;
use prost::Message;

use crate::functions;
use crate::graph::{Attribute, Body, Model, Node, Port};
use crate::messages::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfo};
use crate::order;
use crate::shape::Dim;
use crate::tensor::{Tensor, Values, element_of};

/// Why a file cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file itself.
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// It is no ONNX file, or only the beginning of one.
    Format(String),
    /// Nodes that no order can execute, or functions that no list of nodes can take the
    /// place of.
    Nodes(String),
    /// A tensor is of a kind that is not supported.
    Tensor {
        /// Which.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::Format(why) => write!(f, "expected an ONNX model, found something else: {why}"),
            Self::Nodes(why) => f.write_str(why),
            Self::Tensor { name, why } => write!(f, "tensor '{name}': {why}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl Model {
    /// Reads a file. Weights that lie in files beside it are not loaded; in the place of a
    /// node whose operator is a function of the file stand the nodes of the function.
    ///
    /// # Errors
    /// Says what is wrong with the file, and where.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let bytes =
            std::fs::read(path).map_err(|why| ReadError::File { path: path.to_owned(), why })?;
        Self::from_bytes(&bytes, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads what a file holds that lies in `folder`.
    ///
    /// # Errors
    /// As [`Model::read`].
    pub fn from_bytes(bytes: &[u8], folder: &Path) -> Result<Self, ReadError> {
        let proto = ModelProto::decode(bytes).map_err(|why| ReadError::Format(why.to_string()))?;
        let graph = proto.graph.ok_or_else(|| ReadError::Format("there is no graph".into()))?;
        let graph = functions::inlined(graph, &proto.functions).map_err(ReadError::Nodes)?;
        let Body { name, inputs, outputs, between, nodes, tensors } = body(graph, folder)?;
        Ok(Self {
            name,
            producer: proto.producer_name,
            ir_version: proto.ir_version,
            operator_sets: proto
                .opset_import
                .into_iter()
                .map(|set| (set.domain, set.version))
                .collect(),
            inputs,
            outputs,
            between,
            nodes,
            tensors,
        })
    }
}

impl Tensor {
    /// Loads what lies in another file; nothing to do for others.
    ///
    /// # Errors
    /// The file is not there or too short.
    pub fn load(&mut self) -> Result<(), ReadError> {
        use std::io::{Read, Seek, SeekFrom};
        let Values::External { path, offset, length } = &self.values else { return Ok(()) };
        let load = || {
            let mut file = std::fs::File::open(path)?;
            file.seek(SeekFrom::Start(*offset))?;
            let mut bytes = Vec::new();
            file.take(*length).read_to_end(&mut bytes)?;
            if (bytes.len() as u64) < *length {
                let found = format!("{length} bytes from {offset} on, found {}", bytes.len());
                return Err(std::io::Error::other(format!("expected {found}")));
            }
            Ok(bytes)
        };
        let bytes = load().map_err(|why| ReadError::File { path: path.clone(), why })?;
        self.values = Values::Bytes(bytes);
        Ok(())
    }
}

fn body(graph: GraphProto, folder: &Path) -> Result<Body, ReadError> {
    let tensors = graph.initializer.into_iter().map(|one| tensor(one, folder));
    let tensors: Vec<Tensor> = tensors.collect::<Result<_, _>>()?;
    let nodes = order::executable(graph.node).map_err(ReadError::Nodes)?;
    let nodes = nodes.into_iter().map(|one| node(one, folder));
    let held: std::collections::HashSet<&str> =
        tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let is_fed = |port: &ValueInfo| !held.contains(port.name.as_str());
    Ok(Body {
        name: graph.name,
        inputs: graph.input.into_iter().filter(is_fed).map(port).collect(),
        outputs: graph.output.into_iter().map(port).collect(),
        between: graph.value_info.into_iter().map(port).collect(),
        nodes: nodes.collect::<Result<_, _>>()?,
        tensors,
    })
}

fn port(info: ValueInfo) -> Port {
    let tensor = info.r#type.and_then(|kind| kind.tensor_type);
    let element = tensor.as_ref().and_then(|tensor| element_of(tensor.elem_type));
    let shape = tensor.and_then(|tensor| tensor.shape).map(|shape| {
        let dim = |dim: crate::messages::Dimension| match (dim.dim_value, dim.dim_param) {
            (Some(value), _) if value >= 0 => Dim::Fixed(value as usize),
            (_, Some(name)) if !name.is_empty() => Dim::Symbol(name),
            _ => Dim::symbol("?"),
        };
        shape.dim.into_iter().map(dim).collect()
    });
    Port { name: info.name, element, shape }
}

fn node(proto: NodeProto, folder: &Path) -> Result<Node, ReadError> {
    let attribute = |one: AttributeProto| Ok((one.name.clone(), attribute(one, folder)?));
    Ok(Node {
        name: proto.name,
        op: proto.op_type,
        domain: if proto.domain == "ai.onnx" { String::new() } else { proto.domain },
        inputs: proto.input,
        outputs: proto.output,
        attributes: proto.attribute.into_iter().map(attribute).collect::<Result<_, _>>()?,
    })
}

fn attribute(proto: AttributeProto, folder: &Path) -> Result<Attribute, ReadError> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // `AttributeProto.AttributeType`; fields of default value may be left out.
    Ok(match proto.r#type {
        1 => Attribute::Float(proto.f.unwrap_or_default()),
        2 => Attribute::Int(proto.i.unwrap_or_default()),
        3 => Attribute::Text(text(proto.s.unwrap_or_default())),
        4 => Attribute::Tensor(tensor(proto.t.unwrap_or_default(), folder)?),
        5 => Attribute::from(body(proto.g.unwrap_or_default(), folder)?),
        6 => Attribute::Floats(proto.floats),
        7 => Attribute::Ints(proto.ints),
        8 => Attribute::Texts(proto.strings.into_iter().map(text).collect()),
        _ => Attribute::Other,
    })
}

fn tensor(proto: TensorProto, folder: &Path) -> Result<Tensor, ReadError> {
    let name = proto.name.clone();
    let wrong = |why: String| ReadError::Tensor { name: name.clone(), why };
    let element = element_of(proto.data_type)
        .ok_or_else(|| wrong(format!("elements of type {} are not supported", proto.data_type)))?;
    let dim = |&n: &i64| usize::try_from(n).map_err(|_| wrong(format!("dimension {n}")));
    let shape = proto.dims.iter().map(dim).collect::<Result<_, _>>()?;
    let mut tensor =
        Tensor { name: name.clone(), element, shape, values: Values::Bytes(Vec::new()) };
    let expected = tensor.bytes();
    tensor.values = if proto.data_location == 1 {
        external(&proto, expected, folder).map_err(&wrong)?
    } else {
        Values::Bytes(bytes(proto, element))
    };
    if let Values::Bytes(bytes) = &tensor.values
        && bytes.len() as u64 != expected
    {
        return Err(wrong(format!(
            "its shape {:?} takes {expected} bytes, the file has {}",
            tensor.shape,
            bytes.len()
        )));
    }
    Ok(tensor)
}

fn external(proto: &TensorProto, expected: u64, folder: &Path) -> Result<Values, String> {
    let entry = |key: &str| proto.external_data.iter().find(|entry| entry.key == key);
    let number = |key: &str, default: u64| match entry(key) {
        Some(entry) => entry.value.parse().map_err(|_| format!("{key} '{}'", entry.value)),
        None => Ok(default),
    };
    let location = entry("location").ok_or("it is in another file, whose name is missing")?;
    let path = Path::new(&location.value);
    // A model must not make us read whatever it names.
    let is_inside = |part| matches!(part, std::path::Component::Normal(_));
    if !path.components().all(is_inside) {
        return Err(format!("expected a file beside the model, found {}", path.display()));
    }
    let (offset, length) = (number("offset", 0)?, number("length", expected)?);
    if length != expected {
        return Err(format!("expected {expected} bytes in {}, found {length}", path.display()));
    }
    Ok(Values::External { path: folder.join(path), offset, length })
}

/// Elements as raw bytes, whichever field they are in.
fn bytes(proto: TensorProto, element: Element) -> Vec<u8> {
    if let Some(raw) = proto.raw_data {
        return raw;
    }
    let narrow = |value: &i32| match element.size() {
        1 => vec![*value as u8],
        2 => (*value as u16).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    match element {
        Element::F32 => proto.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Element::F64 => proto.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Element::I64 => proto.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Element::U64 => proto.uint64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Element::U32 => {
            proto.uint64_data.iter().flat_map(|&value| (value as u32).to_le_bytes()).collect()
        }
        _ => proto.int32_data.iter().flat_map(narrow).collect(),
    }
}
