//! Reader of ONNX files.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use dyno_tensors::Element;
use prost::Message;
use thiserror::Error;

use crate::file_bytes::FileBytes;
use crate::functions;
use crate::graph::{Attribute, Body, Model, Node, Port};
use crate::messages::{
    AttributeProto, Dimension, GraphProto, ModelProto, NodeProto, OperatorSet, SparseTensorProto,
    TensorProto, ValueInfo,
};
use crate::order;
use crate::shape::Dim;
use crate::tensor::{Tensor, Values, element_of, fill};

/// Why a file cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file, or an external file of a tensor, cannot be read.
    #[error("cannot read {}: {reason}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The file is not an ONNX model, or is cut short. Holds the reason.
    #[error("expected an ONNX model: {0}")]
    Format(String),
    /// No order of the nodes can be executed, or functions cannot be replaced by their nodes. Holds
    /// the whole message.
    #[error("{0}")]
    Nodes(String),
    /// A tensor is malformed, or of a type that is not supported.
    #[error("tensor '{name}': {reason}")]
    Tensor {
        /// Name of the tensor.
        name: String,
        /// Description of the problem.
        reason: String,
    },
}

impl Model {
    /// Reads a file.
    ///
    /// Weights in external files are not loaded; see [`Tensor::load`]. A node whose operator is a
    /// function of the file is replaced by the nodes of the function. Nodes are sorted if they are
    /// not in an order in which they can be executed.
    ///
    /// ```
    /// use dyno_onnx::Model;
    /// use std::path::Path;
    ///
    /// let model = Model::read(Path::new("../rnn/tests/golden/gru_no_bias.onnx"))?;
    /// assert_eq!(model.nodes[0].op, "GRU");
    /// # Ok::<(), dyno_onnx::ReadError>(())
    /// ```
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let proto = decode_file(path)?;
        let mut folder = Folder::new(path.parent().unwrap_or(Path::new("")));
        // In a cache of downloads, the model and its data may be links into one other folder.
        let real = std::fs::canonicalize(path).ok();
        folder.roots.extend(real.as_deref().and_then(Path::parent).map(Into::into));
        Self::from_proto(proto, &folder)
    }

    /// Parses the content of a file as [`Model::read`] does. Paths of external files are relative to
    /// `folder`.
    ///
    /// ```
    /// use dyno_onnx::{Builder, Element, Model, Weights};
    /// use std::path::Path;
    ///
    /// let mut net = Builder::new("net", Weights::seeded(1));
    /// let x = net.input("x", Element::F32, &[4.into()]);
    /// let y = net.node("Relu", &[&x], &[])?;
    /// net.output("y", &y)?;
    /// let bytes = net.finish().to_bytes()?;
    /// let model = Model::from_bytes(&bytes, Path::new(""))?;
    /// assert_eq!((&*model.inputs[0].name, &*model.outputs[0].name), ("x", "y"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn from_bytes(bytes: &[u8], folder: &Path) -> Result<Self, ReadError> {
        Self::from_proto(decode(bytes)?, &Folder::new(folder))
    }

    /// Returns the inputs of a file that have a default, an initializer of the same name. A model that
    /// is read has them as constants. Files of IR version 3 and below list all constants as inputs, and
    /// have no defaults.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn optional_inputs(path: &Path) -> Result<Vec<Port>, ReadError> {
        let proto = decode_file(path)?;
        let Some(graph) = proto.graph.filter(|_| proto.ir_version > 3) else {
            return Ok(Vec::new());
        };
        let initializers: HashSet<String> =
            graph.initializer.into_iter().map(|tensor| tensor.name).collect();
        let inputs = graph.input.into_iter().filter(|input| initializers.contains(&input.name));
        Ok(inputs.map(read_port).collect())
    }

    fn from_proto(proto: ModelProto, folder: &Folder) -> Result<Self, ReadError> {
        let graph = proto.graph.ok_or_else(|| ReadError::Format("the graph is missing".into()))?;
        check_operator_sets(&proto.opset_import).map_err(ReadError::Nodes)?;
        let graph = functions::inline(graph, &proto.functions, &proto.opset_import)
            .map_err(ReadError::Nodes)?;
        let Body { name, inputs, outputs, value_info, nodes, tensors } = read_body(graph, folder)?;
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
            value_info,
            nodes,
            tensors,
        })
    }
}

impl Tensor {
    /// Returns the tensor with its elements in memory: loads those of another file, and generates
    /// those of a distribution.
    ///
    /// # Errors
    /// [`ReadError::File`] if the file is missing or too short, [`ReadError::Tensor`] if the
    /// elements exceed memory.
    pub fn in_memory(mut self) -> Result<Self, ReadError> {
        if let Values::Filled(distribution, mut state) = self.values {
            let mut bytes = Vec::new();
            let length = usize::try_from(self.bytes()).unwrap_or(usize::MAX);
            bytes.try_reserve_exact(length).map_err(|_| ReadError::Tensor {
                name: self.name.clone(),
                reason: format!("{length} bytes exceed memory"),
            })?;
            bytes.resize(length, 0);
            fill(distribution, &mut state, &mut bytes);
            self.values = Values::Bytes(bytes);
        }
        self.load()?;
        Ok(self)
    }

    /// Loads elements that are in another file. Does nothing if they are not.
    ///
    /// # Errors
    /// [`ReadError::File`] if the file is missing or too short.
    pub fn load(&mut self) -> Result<(), ReadError> {
        use std::io::{Read, Seek, SeekFrom};
        let Values::External { path, offset, length } = &self.values else { return Ok(()) };
        let load = || {
            // A pipe would block the reader.
            if !std::fs::metadata(path)?.is_file() {
                return Err(std::io::Error::other("expected a regular file"));
            }
            let mut file = std::fs::File::open(path)?;
            let found = file.metadata()?.len().saturating_sub(*offset);
            if found < *length {
                let why = format!("expected {length} bytes from {offset} on, found {found}");
                return Err(std::io::Error::other(why));
            }
            file.seek(SeekFrom::Start(*offset))?;
            let mut bytes = Vec::new();
            // A sparse file has any length.
            let all = usize::try_from(*length).unwrap_or(usize::MAX);
            bytes.try_reserve_exact(all).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
            file.take(*length).read_to_end(&mut bytes)?;
            if bytes.len() < all {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            Ok(bytes)
        };
        let bytes = load().map_err(|reason| ReadError::File { path: path.clone(), reason })?;
        self.values = Values::Bytes(bytes);
        Ok(())
    }
}

/// Maximum bytes of a file: that of a message of Protocol Buffers.
const LONGEST: u64 = (1 << 31) - 1;

/// Returns the message in a file. Only a part of the file is in memory in addition to the message.
fn decode_file(path: &Path) -> Result<ModelProto, ReadError> {
    let wrong = |reason| ReadError::File { path: path.to_owned(), reason };
    let about = std::fs::metadata(path).map_err(wrong)?;
    let found = about.len();
    if found > LONGEST {
        let why = format!(
            "a model has at most {LONGEST} bytes, found {found}; larger weights belong in external \
             files"
        );
        return Err(wrong(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why)));
    }
    if !about.is_file() {
        // A pipe does not state its length.
        return decode(&dyno_tensors::files::read(path).map_err(wrong)?);
    }
    let file = dyno_tensors::files::open(path).map_err(wrong)?;
    let mut bytes = FileBytes::new(file, found as usize);
    let proto = ModelProto::decode(&mut bytes);
    match bytes.into_error() {
        Some(reason) => Err(wrong(reason)),
        None => proto.map_err(|reason| ReadError::Format(reason.to_string())),
    }
}

fn decode(bytes: &[u8]) -> Result<ModelProto, ReadError> {
    ModelProto::decode(bytes).map_err(|reason| ReadError::Format(reason.to_string()))
}

fn read_body(graph: GraphProto, folder: &Folder) -> Result<Body, ReadError> {
    check_names(&graph).map_err(ReadError::Nodes)?;
    let tensors = graph.initializer.into_iter().map(|tensor| read_tensor(tensor, folder));
    let sparse = graph.sparse_initializer.into_iter().map(|tensor| read_sparse(tensor, folder));
    let tensors: Vec<Tensor> = tensors.chain(sparse).collect::<Result<_, _>>()?;
    let nodes = order::sort(graph.node).map_err(ReadError::Nodes)?;
    let nodes = nodes.into_iter().map(|node| read_node(node, folder));
    // Files of IR version 3 and below list initializers as inputs, too.
    let initializers: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let is_input = |port: &ValueInfo| !initializers.contains(port.name.as_str());
    Ok(Body {
        name: graph.name,
        inputs: graph.input.into_iter().filter(is_input).map(read_port).collect(),
        outputs: graph.output.into_iter().map(read_port).collect(),
        value_info: graph.value_info.into_iter().map(read_port).collect(),
        nodes: nodes.collect::<Result<_, _>>()?,
        tensors,
    })
}

/// Checks that there is one version of each operator set, because engines differ in which of two they
/// use. The standard set has two names.
fn check_operator_sets(sets: &[OperatorSet]) -> Result<(), String> {
    let mut versions: HashMap<&str, i64> = HashMap::new();
    for set in sets {
        let domain = if set.domain == "ai.onnx" { "" } else { set.domain.as_str() };
        let version = set.version;
        let other = versions.insert(domain, version).filter(|other| *other != version);
        if let Some(other) = other {
            let name = if domain.is_empty() { "ai.onnx" } else { domain };
            return Err(format!(
                "the model imports version {other} and version {version} of operator set '{name}'; \
                 expected one of them"
            ));
        }
    }
    Ok(())
}

/// Checks that each name stands for one value, because engines differ in which of two they use. An
/// initializer with the name of an input is its default.
fn check_names(graph: &GraphProto) -> Result<(), String> {
    let mut inputs: HashSet<&str> = HashSet::new();
    for port in graph.input.iter().filter(|port| !port.name.is_empty()) {
        if !inputs.insert(&port.name) {
            return Err(format!("two inputs have the name '{}'", port.name));
        }
    }
    let mut tensors: HashMap<&str, &TensorProto> = HashMap::new();
    for tensor in graph.initializer.iter().filter(|tensor| !tensor.name.is_empty()) {
        let other = tensors.insert(&tensor.name, tensor);
        if other.is_some_and(|other| other != tensor) {
            return Err(format!("two different initializers have the name '{}'", tensor.name));
        }
    }
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    for tensor in sparse.filter(|tensor| !tensor.name.is_empty()) {
        if tensors.insert(&tensor.name, tensor).is_some() {
            return Err(format!("two initializers have the name '{}'", tensor.name));
        }
    }
    for node in &graph.node {
        for name in node.output.iter().map(String::as_str) {
            let (is_input, is_tensor) = (inputs.contains(name), tensors.contains_key(name));
            if is_input || is_tensor {
                let other = if is_input { "an input" } else { "an initializer" };
                let node = &node.name;
                return Err(format!("node '{node}' computes '{name}', which is also {other}"));
            }
        }
    }
    Ok(())
}

fn read_port(info: ValueInfo) -> Port {
    let tensor = info.r#type.and_then(|kind| kind.tensor_type);
    let element = tensor.as_ref().and_then(|tensor| element_of(tensor.elem_type));
    let shape = tensor.and_then(|tensor| tensor.shape).map(|shape| {
        let dim = |dim: Dimension| match (dim.dim_value, dim.dim_param) {
            (Some(value), _) if value >= 0 => Dim::Fixed(value as usize),
            (_, Some(name)) if !name.is_empty() => Dim::Symbol(name),
            _ => Dim::symbol("?"),
        };
        shape.dim.into_iter().map(dim).collect()
    });
    Port { name: info.name, element, shape }
}

fn read_node(proto: NodeProto, folder: &Folder) -> Result<Node, ReadError> {
    let attribute = |attribute: AttributeProto| {
        // A constant that is stored as a sparse tensor is read as any other.
        let is_sparse = attribute.name == "sparse_value";
        let name = if is_sparse { "value".to_owned() } else { attribute.name.clone() };
        Ok((name, read_attribute(attribute, folder)?))
    };
    Ok(Node {
        name: proto.name,
        op: proto.op_type,
        domain: if proto.domain == "ai.onnx" { String::new() } else { proto.domain },
        inputs: proto.input,
        outputs: proto.output,
        attributes: proto.attribute.into_iter().map(attribute).collect::<Result<_, _>>()?,
    })
}

fn read_attribute(proto: AttributeProto, folder: &Folder) -> Result<Attribute, ReadError> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // Numbers of `AttributeProto.AttributeType`. Files may omit fields that have the default value.
    Ok(match proto.r#type {
        1 => Attribute::Float(proto.f.unwrap_or_default()),
        2 => Attribute::Int(proto.i.unwrap_or_default()),
        3 => Attribute::Text(text(proto.s.unwrap_or_default())),
        4 => Attribute::Tensor(read_tensor(proto.t.unwrap_or_default(), folder)?),
        5 => Attribute::from(read_body(proto.g.unwrap_or_default(), folder)?),
        6 => Attribute::Floats(proto.floats),
        7 => Attribute::Ints(proto.ints),
        8 => Attribute::Texts(proto.strings.into_iter().map(text).collect()),
        11 => Attribute::Tensor(read_sparse(proto.sparse_tensor.unwrap_or_default(), folder)?),
        _ => Attribute::Other,
    })
}

/// Maximum bytes of integers in another file that are loaded with the model.
const LOADED_BYTES: u64 = 1 << 12;

fn read_tensor(proto: TensorProto, folder: &Folder) -> Result<Tensor, ReadError> {
    let name = proto.name.clone();
    let wrong = |reason: String| ReadError::Tensor { name: name.clone(), reason };
    let element = element_of(proto.data_type)
        .ok_or_else(|| wrong(format!("elements of type {} are not supported", proto.data_type)))?;
    let dim = |&n: &i64| usize::try_from(n).map_err(|_| wrong(format!("dimension {n}")));
    let shape = proto.dims.iter().map(dim).collect::<Result<_, _>>()?;
    let mut tensor =
        Tensor { name: name.clone(), element, shape, values: Values::Bytes(Vec::new()) };
    let expected = tensor.bytes();
    tensor.values = if proto.data_location == 1 {
        external_values(&proto, expected, folder).map_err(&wrong)?
    } else {
        Values::Bytes(element_bytes(proto, element))
    };
    // Shapes are inferred from a few integers. A file that cannot be read is reported when it is used.
    if matches!(element, Element::I64 | Element::I32) && expected <= LOADED_BYTES {
        let _ = tensor.load();
    }
    if let Values::Bytes(bytes) = &tensor.values
        && bytes.len() as u64 != expected
    {
        return Err(wrong(format!(
            "its shape {:?} needs {expected} bytes, but the file has {}",
            tensor.shape,
            bytes.len()
        )));
    }
    Ok(tensor)
}

/// Returns a sparse tensor with all its elements. Those that the file does not store are 0.
fn read_sparse(proto: SparseTensorProto, folder: &Folder) -> Result<Tensor, ReadError> {
    let values = read_tensor(proto.values.unwrap_or_default(), folder)?.in_memory()?;
    let indices = read_tensor(proto.indices.unwrap_or_default(), folder)?.in_memory()?;
    let name = values.name.clone();
    let wrong = |reason: String| ReadError::Tensor { name: name.clone(), reason };
    let dim = |&n: &i64| usize::try_from(n).map_err(|_| wrong(format!("dimension {n}")));
    let shape: Vec<usize> = proto.dims.iter().map(dim).collect::<Result<_, _>>()?;
    let element = values.element;
    let whole = Tensor { name: name.clone(), element, shape, values: Values::Bytes(Vec::new()) };
    let Some(room) = folder.room.get().checked_sub(whole.bytes()) else {
        return Err(wrong(format!("the sparse tensors of a model have at most {LONGEST} bytes")));
    };
    folder.room.set(room);
    let (Values::Bytes(stored), Values::Bytes(places)) = (&values.values, &indices.values) else {
        return Err(wrong("expected elements in memory".into()));
    };
    let (size, count) = (element.size(), whole.elements() as usize);
    let sizes = if indices.shape.len() == 1 { vec![count] } else { whole.shape.clone() };
    if element.bits() < 8
        || indices.element != Element::I64
        || sizes.is_empty()
        || places.len() != 8 * sizes.len() * (stored.len() / size)
    {
        return Err(wrong(
            "expected an index of type int64 for each element that is stored".into(),
        ));
    }
    let mut bytes = vec![0; count * size];
    let mut next = 0;
    for (tuple, one) in places.chunks_exact(8 * sizes.len()).zip(stored.chunks_exact(size)) {
        let place = tuple.chunks_exact(8).zip(&sizes).try_fold(0_usize, |place, (index, size)| {
            let index = i64::from_le_bytes(index.try_into().ok()?);
            let index = usize::try_from(index).ok().filter(|index| index < size)?;
            Some(place * size + index)
        });
        // The standard demands ascending indices.
        let place = place.filter(|place| *place >= next).ok_or_else(|| {
            wrong(format!("expected ascending indices of {:?} elements", whole.shape))
        })?;
        bytes[place * size..][..size].copy_from_slice(one);
        next = place + 1;
    }
    Ok(Tensor { values: Values::Bytes(bytes), ..whole })
}

/// Folder of a model, which holds the files of external tensors.
struct Folder {
    path: PathBuf,
    /// Real folders that may hold the files.
    roots: Vec<PathBuf>,
    /// Results of [`Folder::check`] by path. Many tensors share a file.
    checked: RefCell<HashMap<String, Result<(), String>>>,
    /// Bytes that sparse tensors may still take. A small file could state any number.
    room: Cell<u64>,
}

impl Folder {
    fn new(path: &Path) -> Self {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let roots = std::fs::canonicalize(here).into_iter().collect();
        let (checked, room) = (RefCell::default(), Cell::new(LONGEST));
        Self { path: path.to_owned(), roots, checked, room }
    }

    /// Checks that a path leads to a regular file in the folder. A missing file is reported by
    /// [`Tensor::load`].
    fn check(&self, location: &str) -> Result<(), String> {
        if let Some(known) = self.checked.borrow().get(location) {
            return known.clone();
        }
        // A model must not make the reader open any file that it names.
        let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let path = Path::new(location);
        let real = std::fs::canonicalize(self.path.join(path));
        let found = match real {
            _ if !path.components().all(is_inside) => {
                Err(format!("expected a file beside the model, found {location}"))
            }
            Ok(real) if !self.roots.iter().any(|root| real.starts_with(root)) => {
                let real = real.display();
                Err(format!("expected a file beside the model, found {location}, a link to {real}"))
            }
            Ok(real) if !real.is_file() => {
                Err(format!("expected a regular file beside the model, found {location}"))
            }
            _ => Ok(()),
        };
        self.checked.borrow_mut().insert(location.to_owned(), found.clone());
        found
    }
}

/// Returns the place of elements in an external file; `expected` is their size in bytes.
fn external_values(proto: &TensorProto, expected: u64, folder: &Folder) -> Result<Values, String> {
    let entry = |key: &str| proto.external_data.iter().find(|entry| entry.key == key);
    let number = |key: &str, default: u64| match entry(key) {
        Some(entry) => entry.value.parse().map_err(|_| format!("{key} '{}'", entry.value)),
        None => Ok(default),
    };
    let location =
        entry("location").ok_or("it is stored in another file, whose name is missing")?;
    let path = Path::new(&location.value);
    folder.check(&location.value)?;
    let (offset, length) = (number("offset", 0)?, number("length", expected)?);
    if length != expected {
        return Err(format!("expected {expected} bytes in {}, found {length}", path.display()));
    }
    Ok(Values::External { path: folder.path.join(path), offset, length })
}

/// Returns the elements as raw bytes from the field that holds them.
fn element_bytes(proto: TensorProto, element: Element) -> Vec<u8> {
    if let Some(raw) = proto.raw_data {
        return raw.into();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a tensor that stores 1.5 and -2.
    fn sparse(indices: &[i64], of_shape: &[i64], dims: &[i64]) -> Result<Tensor, ReadError> {
        let values = TensorProto {
            name: "w".into(),
            dims: vec![2],
            data_type: 1,
            float_data: vec![1.5, -2.0],
            ..TensorProto::default()
        };
        let indices = TensorProto {
            dims: of_shape.to_vec(),
            data_type: 7,
            int64_data: indices.to_vec(),
            ..TensorProto::default()
        };
        let (values, indices) = (Some(values), Some(indices));
        let proto = SparseTensorProto { values, indices, dims: dims.to_vec() };
        read_sparse(proto, &Folder::new(Path::new("")))
    }

    #[test]
    fn elements_that_a_sparse_tensor_does_not_store_are_zero() {
        let expected = Tensor::from_f32("w", &[2, 3], &[0.0, 1.5, 0.0, 0.0, 0.0, -2.0]);
        assert_eq!(sparse(&[1, 5], &[2], &[2, 3]).unwrap(), expected);
        assert_eq!(sparse(&[0, 1, 1, 2], &[2, 2], &[2, 3]).unwrap(), expected);
        for indices in [[5, 1], [1, 1], [1, 6], [-1, 5]] {
            let error = sparse(&indices, &[2], &[2, 3]).unwrap_err().to_string();
            assert!(error.starts_with("tensor 'w': expected ascending indices"), "{error}");
        }
        // The index [0, 3] is not [1, 0].
        assert!(sparse(&[0, 1, 0, 3], &[2, 2], &[2, 3]).is_err());
        let error = sparse(&[1], &[1], &[2, 3]).unwrap_err().to_string();
        assert!(error.contains("an index of type int64 for each element"), "{error}");
        let error = sparse(&[1, 5], &[2], &[1 << 40]).unwrap_err().to_string();
        assert!(error.contains("at most 2147483647 bytes"), "{error}");
    }

    #[test]
    fn a_sparse_constant_is_a_tensor() {
        let tensor =
            |data_type: i32| TensorProto { data_type, dims: vec![0], ..Default::default() };
        let sparse =
            SparseTensorProto { values: Some(tensor(1)), indices: Some(tensor(7)), dims: vec![2] };
        let attribute = AttributeProto {
            name: "sparse_value".into(),
            r#type: 11,
            sparse_tensor: Some(sparse),
            ..Default::default()
        };
        let node = NodeProto { attribute: vec![attribute], ..Default::default() };
        let node = read_node(node, &Folder::new(Path::new(""))).unwrap();
        let zeros = Attribute::Tensor(Tensor::from_f32("", &[2], &[0.0; 2]));
        assert_eq!(node.attribute("value"), Some(&zeros));
    }

    /// Exporters also write `./weights.bin` for a file beside the model.
    #[test]
    fn a_location_may_contain_the_folder_itself() {
        let folder = Folder::new(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert_eq!(folder.check("./Cargo.toml"), Ok(()));
        assert_eq!(folder.check("src/./lib.rs"), Ok(()));
        let outside = folder.check("./../onnx/Cargo.toml").unwrap_err();
        assert!(outside.contains("expected a file beside the model"), "{outside}");
    }
}
