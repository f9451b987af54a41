//! Python's pickles as data: numbers, texts, containers, arrays of NumPy and PyTorch, and tables
//! of pandas, which are dictionaries of their columns.
//!
//! Nothing is executed. A pickle names the functions that it calls. Only those of a closed list are
//! accepted; each makes an array or a container.
//!
//! Source: `pickletools` of Python 3 for the opcodes; protocols 0 to 5 as far as data need them.

mod arrays;
mod frames;
mod machine;
mod torch;

use std::sync::Arc;

use thiserror::Error;

use crate::Element;

pub use torch::weights;

/// What a pickle holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A longer integer: little-endian, two's complement.
    Long(Arc<[u8]>),
    /// A real number.
    Float(f64),
    /// Text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list or a set.
    List(Vec<Value>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// Keys and values, in the order of the file.
    Dict(Vec<(Value, Value)>),
    /// Numbers with a shape.
    Array(Arc<Array>),
}

impl Value {
    /// Returns the value under a text, if this is a dictionary that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Dict(entries) = self else { return None };
        let is_key = |entry: &&(Self, Self)| matches!(&entry.0, Self::Text(text) if **text == *key);
        entries.iter().find(is_key).map(|(_, value)| value)
    }

    /// Returns the values of a list or a tuple.
    pub fn values(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) | Self::Tuple(values) => Some(values),
            _ => None,
        }
    }
}

/// Numbers with a shape, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Dimensions; none for a single number.
    pub shape: Vec<usize>,
    /// Type of the numbers. Booleans are [`Element::U8`].
    pub element: Element,
    /// The numbers, little-endian.
    pub bytes: Vec<u8>,
}

/// Why bytes are no pickle of data.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("byte {at}: {problem}")]
pub struct PickleError {
    /// Byte of the pickle.
    pub at: usize,
    /// What is wrong there.
    pub problem: PickleProblem,
}

/// What can be wrong with a pickle.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PickleProblem {
    /// It ends in the middle.
    #[error("the pickle ends before its STOP; fetch the file again")]
    Ended,
    /// An instruction that data do not need.
    #[error("expected a pickle of data, found opcode {0:#04x}")]
    Opcode(u8),
    /// It names a function or class outside of the list.
    #[error(
        "expected numbers, texts, containers, arrays of NumPy or PyTorch and tables of pandas, found \
         {0}"
    )]
    Global(String),
    /// An instruction finds an operand other than the expected one.
    #[error("expected {0}, found something else")]
    Expected(&'static str),
    /// An element type that is not read, as the pickle spells it.
    #[error("expected numbers of up to 64 bits, found elements of type {0}")]
    Element(String),
    /// It unfolds to more than a file of its length may hold.
    #[error("the pickle unfolds to far more than its length")]
    TooLarge,
    /// Containers within containers, or one in itself.
    #[error("containers are nested too deeply, or in themselves")]
    TooDeep,
    /// The archive around it cannot be read.
    #[error("expected a zip archive that torch.save wrote: {0}")]
    Archive(String),
}

/// Reads the pickle at the start of `bytes`; ignores what follows it.
///
/// The value takes no more memory than some hundred times the length of the pickle, or some hundred
/// megabytes.
///
/// ```
/// use dyno_tensors::pickle::{Value, read};
///
/// // pickle.dumps({"a": 7}, protocol=2)
/// let value = read(b"\x80\x02}q\0X\x01\0\0\0aq\x01K\x07s.")?;
/// assert_eq!(value.get("a"), Some(&Value::Int(7)));
/// # Ok::<(), dyno_tensors::pickle::PickleError>(())
/// ```
///
/// # Errors
/// [`PickleError`] if it is malformed, names code, or unfolds to more.
pub fn read(bytes: &[u8]) -> Result<Value, PickleError> {
    let machine = machine::Machine::run(bytes)?;
    arrays::unfold(&machine, bytes.len(), &arrays::Storages::new())
}

/// Returns the shape of a large array without reading it: `bytes` are the beginning of a pickle and
/// end within the numbers of that array.
pub fn shape_at_end(bytes: &[u8]) -> Option<Vec<usize>> {
    machine::Machine::shape_at_end(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn containers_of_python_are_read() {
        // pickle.dumps({"a": [1, -2, 70000, 2.5, None], "b": (True, b"\x00\xff")}, protocol=4),
        // taken apart with pickletools: a frame, memoised objects, a mark for each container.
        let bytes =
            b"\x80\x04\x95\x35\0\0\0\0\0\0\0}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xff\
            J\x70\x11\x01\0G\x40\x04\0\0\0\0\0\0Ne\x8c\x01b\x94\x88C\x02\0\xff\x94\x86\x94u.";
        let list =
            vec![Value::Int(1), Value::Int(-2), Value::Int(70_000), Value::Float(2.5), Value::None];
        let tuple = vec![Value::Bool(true), Value::Bytes([0, 255].into())];
        let value = read(bytes).unwrap();
        assert_eq!(value.get("a"), Some(&Value::List(list)));
        assert_eq!(value.get("b"), Some(&Value::Tuple(tuple)));
    }

    #[test]
    fn objects_that_are_named_twice_are_two_values() {
        // x = "t"; pickle.dumps((x, x), protocol=2)
        let bytes = b"\x80\x02X\x01\0\0\0tq\0h\0\x86q\x01.";
        assert_eq!(read(bytes), Ok(Value::Tuple(vec![text("t"), text("t")])));
    }

    #[test]
    fn arrays_of_numpy_are_read_as_python_2_and_3_write_them() {
        // pickle.dumps(numpy.array([[1], [258]], "<i2"), protocol=2) by Python 2: bytes are texts.
        let bytes =
            b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R\
            (K\x01K\x02K\x01\x86cnumpy\ndtype\nU\x02i2K\0K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xff\
            J\xff\xff\xff\xffK\0tb\x89U\x04\x01\0\x02\x01tb.";
        let array = Array { shape: vec![2, 1], element: Element::I16, bytes: vec![1, 0, 2, 1] };
        assert_eq!(read(bytes), Ok(Value::Array(array.into())));
        // Python 3 spells its bytes as an encoded text below protocol 3.
        let bytes = b"\x80\x02c_codecs\nencode\nX\x02\0\0\0\xc3\xbfX\x06\0\0\0latin1\x86R.";
        assert_eq!(read(bytes), Ok(Value::Bytes([255].into())));
    }

    #[test]
    fn code_is_refused_by_its_name() {
        let error = read(b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.").unwrap_err();
        assert_eq!(error.problem, PickleProblem::Global("os.system".to_owned()));
        assert!(error.to_string().starts_with("byte 2: "), "{error}");
    }

    #[test]
    fn malformed_pickles_say_where() {
        let whole = b"\x80\x02]q\0(K\x01X\x01\0\0\0te.";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).unwrap_err().problem, PickleProblem::Ended, "{end}");
        }
        assert_eq!(read(b"\x80\x02]h\x07.").unwrap_err().at, 3);
        // A length of 4 GiB in a short file.
        assert_eq!(read(b"\x80\x02X\xff\xff\xff\xff.").unwrap_err().problem, PickleProblem::Ended);
        // A list in itself, and lists of lists that double.
        assert_eq!(read(b"\x80\x02]q\0h\0a.").unwrap_err().problem, PickleProblem::TooDeep);
        let doubling = [&b"\x80\x02)"[..], &b"2\x86".repeat(40), b"."].concat();
        assert_eq!(read(&doubling).unwrap_err().problem, PickleProblem::TooLarge);
    }

    #[test]
    fn calls_that_copy_what_is_large_are_refused_before_they_fill_the_memory() {
        // A list, and sets of it that nothing names: each takes seven bytes of the file, and
        // 160 kB.
        let list = [&b"\x80\x02("[..], &b"N".repeat(20_000), b"lq\0"].concat();
        let sets = b"h\x01h\0\x85R0".repeat(2_000);
        let of = |sets: &[u8]| {
            read(&[&list, &b"c__builtin__\nset\nq\x01"[..], sets, b"K\x05."].concat())
        };
        assert_eq!(of(&sets[..7 * 5]), Ok(Value::Int(5)));
        assert_eq!(of(&sets).unwrap_err().problem, PickleProblem::TooLarge);
    }

    #[test]
    fn shapes_have_few_dimensions_and_none_of_them_overflows() {
        // pickle.dumps(numpy.zeros(shape, "<i2"), protocol=2) of a shape that is spelled out.
        let of = |shape: &[u8]| {
            let array =
                b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R";
            let of_type = b"cnumpy\ndtype\nU\x02i2K\0K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xff\
                J\xff\xff\xff\xffK\0tb\x89U\0tb.";
            read(&[b"\x80\x02", &array[..], b"(K\x01", shape, of_type].concat())
        };
        let Value::Array(array) = of(b"K\0K\x05\x86").unwrap() else { panic!("an array") };
        assert_eq!(array.shape, [0, 5]);
        let many = [&b"("[..], &b"K\0".repeat(65), b"t"].concat();
        let problem = of(&many).unwrap_err().problem;
        assert_eq!(problem, PickleProblem::Expected("at most 64 dimensions"));
        let huge = b"\x8a\x08\0\0\0\0\0\0\0\x40".repeat(2);
        let huge = [&huge[..], b"\x86"].concat();
        assert!(matches!(of(&huge).unwrap_err().problem, PickleProblem::Expected(_)));
    }
}
