//! NumPy's array files.
//!
//! Source: "NPY format" of the NumPy reference: six bytes of magic, version,
//! length of the header, header as a Python dictionary, elements.

use std::io::{self, Read, Write};

use thiserror::Error;

use crate::{Element, Elements, Scalar, each_type};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Bytes of the longest header that is read. Headers have some hundred bytes.
pub const LONGEST_HEADER: usize = 1 << 16;

/// Elements begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

/// Types by their codes in headers. The first code of a type is the one that is written.
const CODES: [(&str, Element); 14] = [
    ("<f4", Element::F32),
    ("<f8", Element::F64),
    ("<f2", Element::F16),
    // NumPy has no bfloat16: `ml_dtypes` saves it as two opaque bytes.
    ("<V2", Element::BF16),
    ("|V2", Element::BF16),
    ("<i8", Element::I64),
    ("<i4", Element::I32),
    ("<i2", Element::I16),
    ("|i1", Element::I8),
    ("<u8", Element::U64),
    ("<u4", Element::U32),
    ("<u2", Element::U16),
    ("|u1", Element::U8),
    ("|b1", Element::Bool),
];

/// An array in row-major order.
///
/// ```
/// use dyno_tensors::npy::{Npy, write};
///
/// let mut file = Vec::new();
/// write(&mut file, &[2, 1], &[1.5_f32, -2.0])?;
/// let array = Npy::parse(&file)?;
/// assert_eq!(array.shape, [2, 1]);
/// assert_eq!(&*array.elements.to_f32(), [1.5, -2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Npy {
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub elements: Elements<'static>,
}

/// What stands before the elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Code of the elements' type, such as `<f4`.
    pub code: String,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Whether the first index changes fastest.
    pub is_fortran: bool,
    /// Bytes before the first element.
    pub start: usize,
}

/// Why bytes are not an array that is understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NpyError {
    /// Magic or version are not those of the format, or the header is too long.
    #[error("not a .npy file; write it with numpy.save")]
    NotNpy,
    /// The header has no type, order or shape. Holds its text.
    #[error("not a .npy file; write it with numpy.save")]
    Header(String),
    /// Fortran order, where only row-major order is read.
    #[error("the array is in Fortran order; save numpy.ascontiguousarray(array) instead")]
    FortranOrder,
    /// An element type that is not read. Holds its code.
    #[error(
        "elements are {0}; float16, 32 and 64, bfloat16, int8, 32 and 64, uint8 and bool are read, \
         so save array.astype(...) instead"
    )]
    Element(String),
    /// Elements are big-endian. Holds their code.
    #[error(
        "elements are big-endian ({0}); save array.astype(array.dtype.newbyteorder('<')) instead"
    )]
    BigEndian(String),
    /// Fewer or more bytes of elements than the shape requires.
    #[error("{found} bytes of elements where the shape says {expected}")]
    Length {
        /// Bytes by shape and type.
        expected: usize,
        /// Bytes after the header.
        found: usize,
    },
}

impl Header {
    /// Parses the first bytes of a file, which may be all of it.
    ///
    /// # Errors
    /// [`NpyError::NotNpy`] and [`NpyError::Header`].
    pub fn parse(mut bytes: &[u8]) -> Result<Self, NpyError> {
        Self::read(&mut bytes).unwrap_or(Err(NpyError::NotNpy))
    }

    /// Reads from the start of a file, up to the first element.
    ///
    /// # Errors
    /// Those of the file, which include its end within the length of the header and a header that is no
    /// UTF-8; within, those of [`Header::parse`].
    pub fn read(file: &mut impl Read) -> io::Result<Result<Self, NpyError>> {
        let mut start = Vec::new();
        file.by_ref().take(MAGIC.len() as u64 + 2).read_to_end(&mut start)?;
        let width = match start.strip_prefix(MAGIC) {
            Some([1, _]) => 2,
            Some([2 | 3, _]) => 4,
            _ => return Ok(Err(NpyError::NotNpy)),
        };
        let mut length = [0; 4];
        file.read_exact(&mut length[..width])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST_HEADER {
            return Ok(Err(NpyError::NotNpy));
        }
        let mut text = String::new();
        if file.by_ref().take(length as u64).read_to_string(&mut text)? < length {
            return Ok(Err(NpyError::NotNpy));
        }
        let start = start.len() + width + length;
        Ok(Self::parse_text(&text, start).ok_or(NpyError::Header(text)))
    }

    fn parse_text(text: &str, start: usize) -> Option<Self> {
        // NumPy writes single quotes. It reads every literal of Python.
        let value = |key: &str| {
            let behind = |quote| text.split_once(&format!("{quote}{key}{quote}:"));
            let (_, after) = behind('\'').or_else(|| behind('"'))?;
            Some(after.trim_start())
        };
        let descr = value("descr")?;
        let (code, _) = match descr.chars().next() {
            Some(quote @ ('\'' | '"')) => descr[1..].split_once(quote)?,
            // A list of the fields of structured elements.
            _ => [", 'fortran_order'", ", \"fortran_order\""]
                .into_iter()
                .find_map(|next| descr.split_once(next))
                .filter(|(list, _)| list.ends_with(']'))?,
        };
        let order = value("fortran_order")?;
        let is_fortran = order.starts_with("True");
        if !is_fortran && !order.starts_with("False") {
            return None;
        }
        // A tuple such as `(540, 64)`, `(540,)` or `()`.
        let (inside, _) = value("shape")?.strip_prefix('(')?.split_once(')')?;
        let inside = inside.trim();
        let numbers = inside.strip_suffix(',').unwrap_or(inside).split(',').map(str::trim);
        let number = |number: &str| -> Option<usize> {
            let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
            number.parse().ok().filter(|_| is_number)
        };
        let shape = match inside {
            "" => Vec::new(),
            _ => numbers.map(number).collect::<Option<_>>()?,
        };
        Some(Self { code: code.to_owned(), shape, is_fortran, start })
    }

    /// Returns the type of the elements, or `None` for big-endian, complex and structured ones.
    pub fn element(&self) -> Option<Element> {
        CODES.iter().find(|(code, _)| *code == self.code).map(|(_, element)| *element)
    }

    /// Returns the type of the elements as one of [`Elements::TYPES`].
    ///
    /// 16-bit unsigned integers are taken for bfloat16: without `ml_dtypes`, bfloat16 is saved as a view
    /// of that type.
    ///
    /// # Errors
    /// [`NpyError::Element`] and [`NpyError::BigEndian`].
    pub fn held_element(&self) -> Result<Element, NpyError> {
        let element = match self.element() {
            Some(Element::U16) => Some(Element::BF16),
            other => other,
        };
        let held = element.filter(|element| Elements::TYPES.contains(element));
        held.ok_or_else(|| match self.code.strip_prefix('>') {
            Some(code) if CODES.iter().any(|(known, _)| known.strip_prefix('<') == Some(code)) => {
                NpyError::BigEndian(self.code.clone())
            }
            _ => NpyError::Element(self.code.clone()),
        })
    }

    /// Returns [`Header::held_element`] of an array whose rows can be read from the file one by one.
    ///
    /// # Errors
    /// [`NpyError::FortranOrder`] and [`NpyError::Element`].
    pub fn row_major_element(&self) -> Result<Element, NpyError> {
        if self.is_fortran { Err(NpyError::FortranOrder) } else { self.held_element() }
    }
}

impl Npy {
    /// Parses the content of a file. Arrays in Fortran order are transposed.
    ///
    /// # Errors
    /// [`NpyError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NpyError> {
        let header = Header::parse(bytes)?;
        let element = header.held_element()?;
        let Header { shape, is_fortran, start, .. } = header;
        let body = &bytes[start..];
        let expected = element.bytes_of_shape(&shape).unwrap_or(usize::MAX);
        if expected != body.len() {
            return Err(NpyError::Length { expected, found: body.len() });
        }
        let elements = Elements::read(element, body);
        let mut elements = elements.expect("the type is one of those that are held");
        if is_fortran {
            elements = each_type!(&elements, all => Scalar::wrap(row_major(all, &shape).into()));
        }
        Ok(Self { shape, elements })
    }

    /// Parses an array of whole numbers, such as labels. Integers of any width are read, and those of 16
    /// bits are no bfloat16. Numbers above those of `i64` become the largest one.
    ///
    /// ```
    /// use dyno_tensors::npy::Npy;
    ///
    /// let header = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }";
    /// let mut file = b"\x93NUMPY\x01\0".to_vec();
    /// file.extend((header.len() as u16).to_le_bytes());
    /// file.extend(header.as_bytes());
    /// file.extend([7, 0, 0, 1]);
    /// assert_eq!(&*Npy::parse_integers(&file)?.elements.to_i64().unwrap(), [7, 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NpyError`].
    pub fn parse_integers(bytes: &[u8]) -> Result<Self, NpyError> {
        let header = Header::parse(bytes)?;
        let body = &bytes[header.start..];
        let all = match header.element() {
            Some(Element::I16) => integers(body, |two| i16::from_le_bytes(two).into()),
            Some(Element::U16) => integers(body, |two| u16::from_le_bytes(two).into()),
            Some(Element::U32) => integers(body, |four| u32::from_le_bytes(four).into()),
            Some(Element::U64) => {
                integers(body, |eight| i64::try_from(u64::from_le_bytes(eight)).unwrap_or(i64::MAX))
            }
            _ => return Self::parse(bytes),
        };
        let expected = header.element().and_then(|element| element.bytes_of_shape(&header.shape));
        let expected = expected.unwrap_or(usize::MAX);
        if expected != body.len() {
            return Err(NpyError::Length { expected, found: body.len() });
        }
        let all = if header.is_fortran { row_major(&all, &header.shape) } else { all };
        Ok(Self { shape: header.shape, elements: Elements::I64(all.into()) })
    }
}

/// Reads integers of N bytes each.
fn integers<const N: usize>(bytes: &[u8], integer: impl Fn([u8; N]) -> i64) -> Vec<i64> {
    let chunks = bytes.chunks_exact(N);
    chunks.map(|chunk| integer(chunk.try_into().expect("a chunk has N bytes"))).collect()
}

/// An array of strings: bytes (`S`) or Unicode (`U`), without the zeros that pad them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strings {
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Strings in row-major order; Unicode as UTF-8.
    pub strings: Vec<Vec<u8>>,
}

impl Strings {
    /// Parses the content of a file.
    ///
    /// # Errors
    /// [`NpyError`]; arrays of Python objects and big-endian ones are not read.
    pub fn parse(bytes: &[u8]) -> Result<Self, NpyError> {
        let Header { code, shape, is_fortran, start } = Header::parse(bytes)?;
        let other = || NpyError::Element(code.clone());
        if is_fortran && shape.len() > 1 {
            return Err(NpyError::FortranOrder);
        }
        let (is_unicode, length) = match (code.strip_prefix("|S"), code.strip_prefix("<U")) {
            (Some(length), _) => (false, length),
            (_, Some(length)) => (true, length),
            (None, None) => return Err(other()),
        };
        let length: usize = length.parse().map_err(|_| other())?;
        let width = length.checked_mul(if is_unicode { 4 } else { 1 });
        let count = shape.iter().try_fold(1_usize, |count, &dim| count.checked_mul(dim));
        let expected = width.zip(count).and_then(|(width, count)| width.checked_mul(count));
        let (found, body) = (bytes.len() - start, &bytes[start..]);
        let (Some(width), Some(count)) = (width.filter(|_| expected == Some(found)), count) else {
            return Err(NpyError::Length { expected: expected.unwrap_or(usize::MAX), found });
        };
        if width == 0 {
            // A shape alone must not decide how much memory is taken.
            return if count <= 1 {
                Ok(Self { shape, strings: vec![Vec::new(); count] })
            } else {
                Err(other())
            };
        }
        let unicode = |padded: &[u8]| {
            let points = padded.chunks_exact(4).map(|point| {
                char::from_u32(u32::from_le_bytes(point.try_into().expect("four bytes")))
                    .unwrap_or(char::REPLACEMENT_CHARACTER)
            });
            points.collect::<String>().trim_end_matches('\0').to_owned().into_bytes()
        };
        let string = |padded: &[u8]| {
            if is_unicode {
                return unicode(padded);
            }
            let end = padded.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            padded[..end].to_vec()
        };
        Ok(Self { shape, strings: body.chunks(width).map(string).collect() })
    }
}

/// Reorders elements whose first index changes fastest to row-major order.
fn row_major<T: Copy>(all: &[T], shape: &[usize]) -> Vec<T> {
    let place = |mut index: usize| {
        // Indices from the last axis on, each worth the product of the axes before it.
        let mut worth: usize = shape.iter().product();
        let mut place = 0;
        for dim in shape.iter().rev() {
            worth /= dim;
            place += index % dim * worth;
            index /= dim;
        }
        place
    };
    (0..all.len()).map(|index| all[place(index)]).collect()
}

/// Writes an array in row-major order, as version 1 of the format.
///
/// # Errors
/// Those of the file.
///
/// # Panics
/// If the shape has thousands of dimensions.
pub fn write<T: Scalar>(file: &mut impl Write, shape: &[usize], all: &[T]) -> io::Result<()> {
    let code = CODES.iter().find(|(_, element)| *element == T::TYPE).map(|(code, _)| *code);
    let code = code.expect("every type that is held has a code");
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Magic, version and length.
    let before = MAGIC.len() + 4;
    let length = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before;
    file.write_all(MAGIC)?;
    file.write_all(&[1, 0])?;
    let short = u16::try_from(length).expect("arrays have few dimensions");
    file.write_all(&short.to_le_bytes())?;
    writeln!(file, "{header:<0$}", length - 1)?;
    let mut bytes = Vec::with_capacity(size_of_val(all));
    T::write(all, &mut bytes);
    file.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn file(header: &str, body: &[u8]) -> Vec<u8> {
        let len = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &len, header.as_bytes(), body].concat()
    }

    /// As `numpy.save` writes `zeros(4, [('a', 'f4'), ('b', 'i4')])`.
    #[test]
    fn structured_elements_are_named() {
        let head =
            "{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (4,), }\n";
        let error = Npy::parse(&file(head, &[0; 32])).unwrap_err();
        assert_eq!(error, NpyError::Element("[('a', '<f4'), ('b', '<i4')]".into()));
    }

    /// As other writers than NumPy quote; `numpy.load` reads it.
    #[test]
    fn double_quotes_are_read() {
        let head = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2,), }\n";
        let read = Npy::parse(&file(head, &[0, 0, 128, 63, 0, 0, 0, 64])).unwrap();
        assert_eq!((read.shape, &*read.elements.to_f32()), (vec![2], &[1.0, 2.0][..]));
        let mixed = head.replacen("\"<f4\"", "'<f4'", 1);
        assert_eq!(Header::parse(&file(&mixed, &[])).unwrap().code, "<f4");
        let fields = head.replacen("\"<f4\"", "[(\"a\", \"<f4\")]", 1);
        let error = Npy::parse(&file(&fields, &[])).unwrap_err();
        assert_eq!(error, NpyError::Element("[(\"a\", \"<f4\")]".into()));
        let open = head.replacen("<f4\"", "<f4'", 1);
        assert!(
            matches!(Header::parse(&file(&open, &[])), Ok(header) if header.element().is_none())
        );
    }

    /// As `numpy.save` writes `array([[b'one'], [b'tw']])` and `array(['a', 'w\u00f6'])`.
    #[test]
    fn strings_lose_the_zeros_that_pad_them() {
        let file = |code: &str, shape: &str, body: &[u8]| {
            let head =
                format!("{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}\n");
            let length = u16::try_from(head.len()).unwrap().to_le_bytes();
            [&b"\x93NUMPY\x01\x00"[..], &length, head.as_bytes(), body].concat()
        };
        let read = Strings::parse(&file("|S3", "(2, 1)", b"onetw\0")).unwrap();
        assert_eq!((read.shape, read.strings), (vec![2, 1], vec![b"one".to_vec(), b"tw".to_vec()]));
        let points =
            ['a', '\0', 'w', '\u{f6}'].map(|point| u32::from(point).to_le_bytes()).concat();
        let read = Strings::parse(&file("<U2", "(2,)", &points)).unwrap();
        assert_eq!(read.strings, ["a".as_bytes(), "w\u{f6}".as_bytes()]);
        for (code, shape) in
            [("<f4", "(1,)"), ("|O", "(1,)"), ("|S3", "(9,)"), ("|S0", "(9999999999,)")]
        {
            assert!(Strings::parse(&file(code, shape, b"onetwo")).is_err(), "{code} {shape}");
        }
    }

    #[test]
    fn arrays_as_numpy_writes_them() {
        // numpy.save of numpy.array([[1, 2, 3], [4, 5, 6]], dtype=numpy.uint8).
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }  \n";
        let array = Npy::parse(&file(header, &[1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!(array.shape, [2, 3]);
        assert_eq!(array.elements, Elements::U8(vec![1, 2, 3, 4, 5, 6].into()));

        let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }\n";
        let array = Npy::parse(&file(header, &(-2_i64).to_le_bytes())).unwrap();
        assert_eq!(array.elements, Elements::I64(vec![-2].into()));
    }

    #[test]
    fn arrays_of_each_type_of_element() {
        let read = |descr: &str, body: &[u8]| {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}");
            Npy::parse(&file(&header, body)).unwrap().elements
        };
        assert_eq!(read("<f2", &[0x00, 0x3c]), Elements::F16(vec![f16::ONE].into()));
        for opaque in ["<V2", "|V2", "<u2"] {
            assert_eq!(read(opaque, &[0x80, 0x3f]), Elements::BF16(vec![bf16::ONE].into()));
        }
        assert_eq!(read("<f8", &1.5_f64.to_le_bytes()), Elements::F64(vec![1.5].into()));
        assert_eq!(read("<i4", &(-7_i32).to_le_bytes()), Elements::I32(vec![-7].into()));
        assert_eq!(read("|i1", &[0xff]), Elements::I8(vec![-1].into()));
        assert_eq!(read("|b1", &[1]), Elements::Bool(vec![true].into()));
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let problem = |header: &str| Npy::parse(&file(header, &[0; 4])).unwrap_err();
        assert_eq!(Npy::parse(b"PK\x03\x04"), Err(NpyError::NotNpy));
        let text = "{'descr': '<f4'}";
        assert_eq!(problem(text), NpyError::Header(text.into()));
        assert_eq!(problem(text).to_string(), NpyError::NotNpy.to_string());
        let big = "{'descr': '>f2', 'fortran_order': False, 'shape': (2,), }";
        assert_eq!(problem(big), NpyError::BigEndian(">f2".into()));
        let long = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        assert_eq!(problem(long), NpyError::Length { expected: 8, found: 4 });
    }

    #[test]
    fn headers_that_numpy_does_not_read_are_refused() {
        let shape = |order: &str, shape: &str| {
            let head = format!("{{'descr': '|u1', 'fortran_order': {order}, 'shape': {shape}, }}");
            Header::parse(&file(&head, &[])).map(|header| header.shape)
        };
        assert_eq!(shape("False", "()"), Ok(vec![]));
        assert_eq!(shape("False", "(2,)"), Ok(vec![2]));
        assert_eq!(shape("True", "(2, 3)"), Ok(vec![2, 3]));
        assert_eq!(shape("False", "(2, 3, )"), Ok(vec![2, 3]));
        for odd in ["(,)", "(2,,3)", "(+2,)", "(2,,)", "(2 3)", "(-1,)", "(2.0,)"] {
            assert!(shape("False", odd).is_err(), "{odd}");
        }
        assert!(shape("Maybe", "(2,)").is_err());
    }

    #[test]
    fn arrays_in_fortran_order_are_transposed_or_refused() {
        let header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }";
        let bytes = file(header, &[1, 4, 2, 5, 3, 6]);
        let array = Npy::parse(&bytes).unwrap();
        assert_eq!(array.elements, Elements::U8(vec![1, 2, 3, 4, 5, 6].into()));
        let error = Header::parse(&bytes).unwrap().row_major_element().unwrap_err();
        assert_eq!(error, NpyError::FortranOrder);
        let empty = "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 0, 2), }";
        assert!(Npy::parse(&file(empty, &[])).unwrap().elements.is_empty());
    }

    #[test]
    fn hostile_headers_allocate_nothing() {
        let huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999, 9999999999), }";
        let error = NpyError::Length { expected: usize::MAX, found: 0 };
        assert_eq!(Npy::parse(&file(huge, &[])), Err(error));
        let zero = "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 9999999999), }";
        assert_eq!(Npy::parse(&file(zero, &[])).unwrap().elements.len(), 0);
        let long = [MAGIC, &[2, 0], &(LONGEST_HEADER as u32 + 1).to_le_bytes()].concat();
        assert_eq!(Header::parse(&[&long[..], &[b' '; 1 << 17]].concat()), Err(NpyError::NotNpy));
        let whole = file("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", &[1]);
        for end in 0..whole.len() {
            assert!(Npy::parse(&whole[..end]).is_err(), "{end}");
        }
        let no_text = [MAGIC, &[1, 0, 1, 0, 0xff]].concat();
        assert_eq!(Header::parse(&no_text), Err(NpyError::NotNpy));
    }

    #[test]
    fn every_type_that_is_held_is_written_and_read() {
        fn check<T: Scalar>(all: &[T]) {
            let mut bytes = Vec::new();
            write(&mut bytes, &[all.len(), 1], all).unwrap();
            assert_eq!(Header::parse(&bytes).unwrap().start % ALIGNMENT, 0);
            let array = Npy::parse(&bytes).unwrap();
            let is_same = array.elements.as_slice::<T>() == Some(all);
            assert!(is_same && array.shape == [all.len(), 1], "{}", T::TYPE);
        }
        for element in Elements::TYPES {
            each_type!(&Elements::read(*element, &[1; 16]).unwrap(), all => check(all));
        }
    }
}
