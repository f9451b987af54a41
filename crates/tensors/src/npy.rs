//! NumPy's array files.
//!
//! Source: "NPY format" of the NumPy reference: six bytes of magic, version,
//! length of the header, header as a Python dictionary, elements.
//!
//! Of samples, as models take them. References of metrics have a reader of their own,
//! `dyno_metrics::arrays::npy`, which says why.

use std::fmt;

use super::{Element, Elements};

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Npy {
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Elements, row by row.
    pub elements: Elements<'static>,
}

/// What stands before the elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpyHead {
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Type of the elements.
    pub element: Element,
    /// Bytes before the first element.
    pub start: usize,
}

/// Why bytes are not an array that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NpyProblem {
    /// Magic, version or header are not those of the format.
    NotNpy,
    /// Fortran order.
    FortranOrder,
    /// An element type that is not read, as the file spells it.
    Element(String),
    /// Fewer or more bytes of elements than the shape says.
    Length {
        /// Bytes by shape and type.
        expected: usize,
        /// Bytes after the header.
        found: usize,
    },
    /// No dimension that could count samples.
    Scalar,
}

impl fmt::Display for NpyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNpy => f.write_str("not a .npy file; write it with numpy.save"),
            Self::FortranOrder => f.write_str(
                "the array is in Fortran order; save numpy.ascontiguousarray(array) instead",
            ),
            Self::Element(descr) => write!(
                f,
                "elements are {descr}; float16, 32 and 64, bfloat16, int8, 32 and 64, uint8 and \
                 bool are read, so save array.astype(...) instead"
            ),
            Self::Length { expected, found } => {
                write!(f, "{found} bytes of elements where the shape says {expected}")
            }
            Self::Scalar => f.write_str("a scalar has no samples; the first dimension counts them"),
        }
    }
}

impl NpyHead {
    /// Parses the first bytes of a file, which may be all of it.
    ///
    /// # Errors
    /// [`NpyProblem`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NpyProblem> {
        let (header, start) = header(bytes).ok_or(NpyProblem::NotNpy)?;
        let value = |key: &str| {
            let at = header.find(&format!("'{key}':"))? + key.len() + 3;
            Some(header[at..].trim_start())
        };
        let descr = value("descr").and_then(|text| text.strip_prefix('\''));
        let descr = descr.and_then(|text| text.split('\'').next()).ok_or(NpyProblem::NotNpy)?;
        if value("fortran_order").ok_or(NpyProblem::NotNpy)?.starts_with("True") {
            return Err(NpyProblem::FortranOrder);
        }
        let shape = value("shape").and_then(shape).ok_or(NpyProblem::NotNpy)?;
        let element = match descr {
            "<f4" => Element::F32,
            "<f8" => Element::F64,
            "<f2" => Element::F16,
            // NumPy has no bfloat16: `ml_dtypes` saves it as two opaque bytes, and who has
            // none of that views it as uint16, which nothing else here is.
            "<V2" | "|V2" | "<u2" => Element::BF16,
            "<i8" => Element::I64,
            "<i4" => Element::I32,
            "|i1" => Element::I8,
            "|u1" => Element::U8,
            "|b1" => Element::Bool,
            other => return Err(NpyProblem::Element(other.to_owned())),
        };
        Ok(Self { shape, element, start })
    }
}

impl Npy {
    /// Parses the content of a file.
    ///
    /// # Errors
    /// [`NpyProblem`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NpyProblem> {
        let NpyHead { shape, element, start } = NpyHead::parse(bytes)?;
        let body = &bytes[start..];
        let count = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
        let count = count.ok_or(NpyProblem::NotNpy)?;
        let (expected, found) = (count.saturating_mul(element.size()), body.len());
        if expected != found {
            return Err(NpyProblem::Length { expected, found });
        }
        let elements = Elements::read(element, body).expect("the type is one of those that are held");
        Ok(Self { shape, elements })
    }
}

/// The header, and where it ends.
fn header(bytes: &[u8]) -> Option<(&str, usize)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let (len, rest) = match version[0] {
        1 => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        2 | 3 => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        _ => return None,
    };
    let (header, body) = rest.split_at_checked(len)?;
    Some((std::str::from_utf8(header).ok()?, bytes.len() - body.len()))
}

/// A tuple such as `(540, 64)`, `(540,)` or `()`.
fn shape(text: &str) -> Option<Vec<usize>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let numbers = inside.split(',').map(str::trim).filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn file(header: &str, body: &[u8]) -> Vec<u8> {
        let len = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &len, header.as_bytes(), body].concat()
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
        assert_eq!(Npy::parse(b"PK\x03\x04"), Err(NpyProblem::NotNpy));
        assert_eq!(problem("{'descr': '<f4'}"), NpyProblem::NotNpy);
        let big = "{'descr': '>f2', 'fortran_order': False, 'shape': (2,), }";
        assert_eq!(problem(big), NpyProblem::Element(">f2".into()));
        let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }";
        assert_eq!(problem(fortran), NpyProblem::FortranOrder);
        let long = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        assert_eq!(problem(long), NpyProblem::Length { expected: 8, found: 4 });
    }
}
