//! Calls of the functions that a pickle names, and conversion of its objects to values.

use std::collections::HashMap;
use std::sync::Arc;

use super::frames::{self, Part};
use super::machine::{Id, Machine, Object};
use super::{Array, PickleError, PickleProblem, Value};
use crate::Element;

/// Limit of containers within containers.
const DEEPEST: usize = 100;

/// Limit of the dimensions of an array; NumPy has the same.
const DIMENSIONS: usize = 64;

/// Bytes of memory that the value of a pickle may take: a multiple of its length, and a constant.
///
/// An object that is referenced twice becomes two values.
const UNFOLDED: (usize, usize) = (32, 1 << 26);

/// Characters of a name that error messages show.
const SHOWN: usize = 100;

/// A function or class that pickles of data name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    /// An array to be filled.
    Reconstruct,
    /// A single number.
    Scalar,
    /// An array over bytes.
    FromBuffer,
    NdArray,
    Dtype,
    /// A text of Latin-1 as bytes.
    Encode,
    /// A dictionary, or a list of its items.
    OrderedDict,
    /// A list of values.
    Set,
    Tensor,
    Parameter,
    Storage(Element),
    /// A part of a table of pandas.
    Frame(frames::Name),
}

impl Global {
    pub fn from_name(module: &str, name: &str) -> Result<Self, PickleProblem> {
        Ok(match (module, name) {
            ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => {
                Self::Reconstruct
            }
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Self::Scalar,
            ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Self::FromBuffer,
            ("numpy", "ndarray") => Self::NdArray,
            ("numpy", "dtype") => Self::Dtype,
            ("_codecs", "encode") => Self::Encode,
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("builtins" | "__builtin__", "set" | "frozenset") => Self::Set,
            ("torch._utils", "_rebuild_tensor_v2") => Self::Tensor,
            ("torch._utils", "_rebuild_parameter") => Self::Parameter,
            ("torch", "FloatStorage") => Self::Storage(Element::F32),
            ("torch", "DoubleStorage") => Self::Storage(Element::F64),
            ("torch", "HalfStorage") => Self::Storage(Element::F16),
            ("torch", "LongStorage") => Self::Storage(Element::I64),
            ("torch", "IntStorage") => Self::Storage(Element::I32),
            ("torch", "ShortStorage") => Self::Storage(Element::I16),
            ("torch", "CharStorage") => Self::Storage(Element::I8),
            ("torch", "ByteStorage" | "BoolStorage") => Self::Storage(Element::U8),
            _ => match frames::Name::from_name(module, name) {
                Some(name) => Self::Frame(name),
                None => {
                    let name = format!("{module}.{name}");
                    return Err(PickleProblem::Global(name.chars().take(SHOWN).collect()));
                }
            },
        })
    }
}

pub(super) fn tuple(objects: &[Object], id: Id) -> Result<&[Id], PickleProblem> {
    match &objects[id] {
        Object::Tuple(ids) | Object::List(ids) => Ok(ids),
        _ => Err(PickleProblem::Expected("a tuple")),
    }
}

fn size(objects: &[Object], id: Id) -> Result<usize, PickleProblem> {
    let Object::Int(number) = objects[id] else {
        return Err(PickleProblem::Expected("a whole number"));
    };
    usize::try_from(number).map_err(|_| PickleProblem::Expected("a length"))
}

fn sizes(objects: &[Object], id: Id) -> Result<Vec<usize>, PickleProblem> {
    let ids = tuple(objects, id)?;
    if ids.len() > DIMENSIONS {
        return Err(PickleProblem::Expected("at most 64 dimensions"));
    }
    ids.iter().map(|id| size(objects, *id)).collect()
}

fn bytes(objects: &[Object], id: Id) -> Result<&[u8], PickleProblem> {
    match &objects[id] {
        Object::Bytes(bytes) => Ok(bytes),
        Object::Text(text) => Ok(text.as_bytes()),
        _ => Err(PickleProblem::Expected("bytes")),
    }
}

/// Returns the result of calling a function with arguments.
pub(super) fn call(
    objects: &[Object],
    function: Id,
    arguments: Id,
) -> Result<Object, PickleProblem> {
    let Object::Global(global) = objects[function] else {
        return Err(PickleProblem::Expected("a name to call"));
    };
    let few = PickleProblem::Expected("other arguments");
    let arguments = tuple(objects, arguments)?;
    Ok(match (global, arguments) {
        (Global::Reconstruct, _) => Object::Unfilled,
        (Global::Dtype, [name, ..]) => dtype(bytes(objects, *name)?)?,
        (Global::Scalar, [of, contents]) => {
            array(objects, *of, Vec::new(), bytes(objects, *contents)?)?
        }
        (Global::FromBuffer, [contents, of, shape, ..]) => {
            let shape = sizes(objects, *shape)?;
            let is_rows = arguments.get(3).is_none_or(
                |order| matches!(&objects[*order], Object::Text(order) if **order == *"C"),
            );
            let made = array(objects, *of, shape, bytes(objects, *contents)?)?;
            if is_rows { made } else { transposed(made) }
        }
        (Global::Encode, [text, ..]) => {
            let Object::Text(text) = &objects[*text] else { return Err(few) };
            let bytes: Option<Arc<[u8]>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
            Object::Bytes(bytes.ok_or(PickleProblem::Expected("text of Latin-1"))?)
        }
        (Global::OrderedDict, []) => Object::Dict(Vec::new()),
        (Global::OrderedDict, [items]) => {
            let mut entries = Vec::new();
            for item in tuple(objects, *items)? {
                let [key, value] = tuple(objects, *item)? else { return Err(few) };
                entries.extend([*key, *value]);
            }
            Object::Dict(entries)
        }
        (Global::Set, [values]) => Object::List(tuple(objects, *values)?.to_vec()),
        (Global::Parameter, [tensor, ..]) => objects[*tensor].clone(),
        (Global::Tensor, [storage, offset, shape, stride, ..]) => {
            let (shape, stride) = (sizes(objects, *shape)?, sizes(objects, *stride)?);
            if shape.len() != stride.len() || !matches!(objects[*storage], Object::Storage { .. }) {
                return Err(few);
            }
            Object::Tensor { storage: *storage, offset: size(objects, *offset)?, shape, stride }
        }
        (Global::Frame(name), arguments) => Object::Part(frames::call(objects, name, arguments)?),
        _ => return Err(few),
    })
}

fn dtype(name: &[u8]) -> Result<Object, PickleProblem> {
    let name = std::str::from_utf8(name).map_err(|_| PickleProblem::Expected("a type's name"))?;
    let element = match name.trim_start_matches(['<', '|', '=', '>']) {
        "i1" => Element::I8,
        "u1" | "b1" => Element::U8,
        "i2" => Element::I16,
        "i4" => Element::I32,
        "i8" => Element::I64,
        "f2" => Element::F16,
        "f4" => Element::F32,
        "f8" => Element::F64,
        "O" | "O4" | "O8" => return Ok(Object::TypeOfObjects),
        _ => return Err(PickleProblem::Element(name.chars().take(SHOWN).collect())),
    };
    Ok(Object::Type { element, is_big_endian: name.starts_with('>') })
}

fn array(
    objects: &[Object],
    of: Id,
    shape: Vec<usize>,
    contents: &[u8],
) -> Result<Object, PickleProblem> {
    let Object::Type { element, is_big_endian } = objects[of] else {
        return Err(PickleProblem::Expected("a type of elements"));
    };
    let length = shape.iter().try_fold(element.size(), |product, n| product.checked_mul(*n));
    if length != Some(contents.len()) {
        return Err(PickleProblem::Expected("as many bytes as the shape of an array says"));
    }
    let mut bytes = contents.to_vec();
    if is_big_endian {
        bytes.chunks_exact_mut(element.size()).for_each(<[u8]>::reverse);
    }
    Ok(Object::Array(Arc::new(Array { shape, element, bytes })))
}

/// Reorders an array from column-major to row-major order.
fn transposed(made: Object) -> Object {
    let Object::Array(array) = &made else { return made };
    let mut stride = 1;
    let strides: Vec<usize> = array.shape.iter().map(|n| (stride, stride *= n).0).collect();
    let bytes = shown(&array.bytes, array.element, 0, &array.shape, &strides);
    let bytes = bytes.expect("the length has been compared with the shape");
    Object::Array(Arc::new(Array { shape: array.shape.clone(), element: array.element, bytes }))
}

/// Copies the part of a storage that a tensor shows, or returns `None` if it is out of bounds.
fn shown(
    storage: &[u8],
    element: Element,
    offset: usize,
    shape: &[usize],
    stride: &[usize],
) -> Option<Vec<u8>> {
    let count = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n))?;
    if count == 0 {
        return Some(Vec::new());
    }
    let last = shape
        .iter()
        .zip(stride)
        .try_fold(offset, |at, (n, stride)| at.checked_add((n - 1).checked_mul(*stride)?))?;
    let elements = storage.len() / element.size();
    // An expanded tensor shows elements twice, and would unfold to any size.
    if last >= elements || count > elements {
        return None;
    }
    let mut bytes = Vec::with_capacity(count * element.size());
    let mut index = vec![0; shape.len()];
    let mut at = offset;
    for _ in 0..count {
        bytes.extend_from_slice(&storage[at * element.size()..][..element.size()]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += stride[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= stride[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    Some(bytes)
}

/// Returns an object with the state that the pickle keeps beside it, or `None` if it does not change.
pub(super) fn filled(
    objects: &[Object],
    id: Id,
    state: Id,
) -> Result<Option<Object>, PickleProblem> {
    Ok(Some(match &objects[id] {
        Object::Type { element, .. } => {
            let order =
                *tuple(objects, state)?.get(1).ok_or(PickleProblem::Expected("a byte order"))?;
            let is_big_endian = bytes(objects, order)? == b">";
            Object::Type { element: *element, is_big_endian }
        }
        Object::Unfilled => {
            let [_, shape, of, is_columns, contents] = *tuple(objects, state)? else {
                return Err(PickleProblem::Expected("the five parts of an array"));
            };
            let shape = sizes(objects, shape)?;
            if matches!(objects[of], Object::TypeOfObjects) {
                // Row by row, however they lay in memory.
                let ids = tuple(objects, contents)?.to_vec();
                let count = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
                if count != Some(ids.len()) {
                    return Err(PickleProblem::Expected(
                        "as many objects as the shape of an array says",
                    ));
                }
                return Ok(Some(Object::Cells { shape, ids }));
            }
            let made = array(objects, of, shape, bytes(objects, contents)?)?;
            if matches!(objects[is_columns], Object::Bool(true)) { transposed(made) } else { made }
        }
        // What PyTorch notes at a dictionary of weights: versions of its modules.
        Object::Dict(_) | Object::TypeOfObjects => return Ok(None),
        Object::Part(part) => Object::Part(frames::fill(objects, part, state)?),
        _ => return Err(PickleProblem::Expected("an array, a type or a dictionary")),
    }))
}

/// Returns the reference to a storage, which PyTorch keeps outside of the pickle.
pub(super) fn storage(objects: &[Object], id: Id) -> Result<Object, PickleProblem> {
    let expected = PickleProblem::Expected("a storage of PyTorch");
    let [_, of, key, ..] = *tuple(objects, id)? else { return Err(expected) };
    match (&objects[of], &objects[key]) {
        (Object::Global(Global::Storage(element)), Object::Text(key)) => {
            Ok(Object::Storage { key: key.clone(), element: *element })
        }
        _ => Err(expected),
    }
}

/// Storages of an archive by their keys.
pub(super) type Storages<'a> = HashMap<String, &'a [u8]>;

/// Converts the objects of a pickle to its value.
pub(super) fn unfold(
    machine: &Machine,
    length: usize,
    storages: &Storages,
) -> Result<Value, PickleError> {
    let left = length.saturating_mul(UNFOLDED.0).saturating_add(UNFOLDED.1);
    let mut unfolder = Unfolder { objects: &machine.objects, storages, left };
    let value = unfolder.value(machine.result, 0);
    value.map_err(|problem| PickleError { at: machine.instruction, problem })
}

pub(super) struct Unfolder<'a> {
    pub objects: &'a [Object],
    storages: &'a Storages<'a>,
    /// Bytes of memory that values may still take.
    left: usize,
}

impl Unfolder<'_> {
    pub fn pay(&mut self, bytes: usize) -> Result<(), PickleProblem> {
        self.left = self.left.checked_sub(bytes).ok_or(PickleProblem::TooLarge)?;
        Ok(())
    }

    /// Counts the memory of values.
    pub fn pay_values(&mut self, count: usize) -> Result<(), PickleProblem> {
        self.pay(count.saturating_mul(size_of::<Value>()))
    }

    fn values(&mut self, ids: &[Id], depth: usize) -> Result<Vec<Value>, PickleProblem> {
        ids.iter().map(|id| self.value(*id, depth + 1)).collect()
    }

    pub fn value(&mut self, id: Id, depth: usize) -> Result<Value, PickleProblem> {
        if depth > DEEPEST {
            return Err(PickleProblem::TooDeep);
        }
        self.pay_values(1)?;
        let objects = self.objects;
        Ok(match &objects[id] {
            Object::None => Value::None,
            Object::Bool(value) => Value::Bool(*value),
            Object::Int(value) => Value::Int(*value),
            Object::Long(value) => Value::Long(value.clone()),
            Object::Float(value) => Value::Float(*value),
            Object::Text(value) => Value::Text(value.clone()),
            Object::Bytes(value) => Value::Bytes(value.clone()),
            Object::List(ids) => Value::List(self.values(ids, depth)?),
            Object::Tuple(ids) => Value::Tuple(self.values(ids, depth)?),
            Object::Dict(ids) => {
                let mut entries = Vec::with_capacity(ids.len() / 2);
                for pair in ids.chunks_exact(2) {
                    entries
                        .push((self.value(pair[0], depth + 1)?, self.value(pair[1], depth + 1)?));
                }
                Value::Dict(entries)
            }
            Object::Array(array) => Value::Array(array.clone()),
            Object::Tensor { storage, offset, shape, stride } => {
                let Object::Storage { key, element } = &objects[*storage] else {
                    return Err(PickleProblem::Expected("a storage of PyTorch"));
                };
                let all = self
                    .storages
                    .get(&**key)
                    .ok_or(PickleProblem::Expected("a storage in the archive"))?;
                let bytes = shown(all, *element, *offset, shape, stride);
                let bytes = bytes.ok_or(PickleProblem::Expected("a tensor within its storage"))?;
                self.pay(bytes.len())?;
                Value::Array(Arc::new(Array { shape: shape.clone(), element: *element, bytes }))
            }
            Object::Cells { shape, ids } if shape.len() == 1 => {
                Value::List(self.values(ids, depth)?)
            }
            Object::Part(Part::Frame(Some(manager))) => self.frame(*manager, depth)?,
            Object::Global(_)
            | Object::Type { .. }
            | Object::TypeOfObjects
            | Object::Unfilled
            | Object::Cells { .. }
            | Object::Part(_)
            | Object::Storage { .. } => {
                return Err(PickleProblem::Expected("numbers, texts, containers or arrays"));
            }
        })
    }
}
