//! Samples of inputs of strings ([`Datatype::Bytes`]).

use bytes::{BufMut as _, Bytes, BytesMut};
use dyno_tensors::npy::{self, NpyError};
use serde_json::Value;

use super::{Datatype, Tensor};
use crate::workload::Row;

/// Samples of an input of strings, each of which is a list of strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StringInput {
    /// Name of the input.
    pub name: String,
    /// Strings of each sample.
    pub samples: Vec<Vec<Bytes>>,
}

impl StringInput {
    /// Returns a sample of one string for each line of a text.
    pub fn from_lines(name: &str, text: &[u8]) -> Self {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let lines = text.split(|&byte| byte == b'\n');
        let line =
            |line: &[u8]| vec![Bytes::copy_from_slice(line.strip_suffix(b"\r").unwrap_or(line))];
        Self { name: name.into(), samples: lines.map(line).collect() }
    }

    /// Returns a sample for each row: the string, or the list of strings, in a column.
    ///
    /// # Errors
    /// The first row whose column holds anything else.
    pub fn from_rows(name: &str, rows: &[Row], column: &str) -> Result<Self, String> {
        let string = |value: &Value| value.as_str().map(|text| Bytes::from(text.to_owned()));
        let sample = |(row, number): (&Row, usize)| {
            let value = row.get(column);
            let strings = match value {
                Some(Value::Array(all)) => all.iter().map(string).collect(),
                Some(value) => string(value).map(|one| vec![one]),
                None => None,
            };
            strings.ok_or_else(|| {
                let found = value.map_or("nothing".to_owned(), Value::to_string);
                format!("row {number}: expected a string or a list of strings in `{column}`, found {found}")
            })
        };
        let samples = rows.iter().zip(1..).map(sample).collect::<Result<_, _>>()?;
        Ok(Self { name: name.into(), samples })
    }

    /// Returns a sample for each row of an array of strings.
    ///
    /// # Errors
    /// [`NpyError`].
    pub fn from_npy(name: &str, bytes: &[u8]) -> Result<Self, NpyError> {
        let npy::Strings { shape, strings } = npy::Strings::parse(bytes)?;
        let each = shape.iter().skip(1).product::<usize>().max(1);
        let sample = |strings: &[Vec<u8>]| strings.iter().cloned().map(Bytes::from).collect();
        Ok(Self { name: name.into(), samples: strings.chunks(each).map(sample).collect() })
    }

    /// Returns the first sample with bytes that are no UTF-8; JSON can carry texts only.
    pub fn first_without_text(&self) -> Option<usize> {
        let is_text = |string: &Bytes| std::str::from_utf8(string).is_ok();
        self.samples.iter().position(|strings| !strings.iter().all(is_text))
    }

    /// Returns the shape of a sample for an input of this declared shape, in which -1 matches any
    /// dimension; `None` if its strings do not fit.
    pub(super) fn shape(&self, sample: usize, declared: Option<&[i64]>) -> Option<Vec<usize>> {
        let count = self.samples.get(sample)?.len();
        let fits =
            |shape: &Vec<usize>| declared.is_none_or(|all| super::samples::is_of(all, shape));
        let shapes = [vec![1, count], vec![count], vec![count, 1], vec![1, 1, count]];
        let scalar = (count == 1).then(Vec::new);
        shapes.into_iter().chain(scalar).find(fits)
    }

    /// Returns a sample as a tensor.
    pub(super) fn tensor(&self, sample: usize, shape: Vec<usize>) -> Tensor {
        let strings = self.samples.get(sample).map_or(&[][..], Vec::as_slice);
        let mut data = BytesMut::new();
        for string in strings {
            data.put_u32_le(u32::try_from(string.len()).unwrap_or(u32::MAX));
            data.put_slice(string);
        }
        let data = data.freeze();
        Tensor { name: self.name.clone(), datatype: Datatype::Bytes, shape, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_found() {
        let input = StringInput::from_lines("x", b"a\n\xc3\xa9\n\xff\n");
        assert_eq!(input.first_without_text(), Some(2));
        assert_eq!(StringInput::from_lines("x", b"a\n").first_without_text(), None);
    }

    #[test]
    fn lines_are_samples_and_rows_may_hold_lists() {
        let lines = StringInput::from_lines("x", b"one\r\n\ntw\xc3\xb6\n");
        assert_eq!(lines.samples, [["one"], [""], ["tw\u{f6}"]]);
        let rows = [serde_json::json!({"a": "one"}), serde_json::json!({"a": ["two", "three"]})];
        let rows: Vec<Row> = rows.iter().filter_map(|row| row.as_object().cloned()).collect();
        let read = StringInput::from_rows("x", &rows, "a").unwrap();
        assert_eq!(read.samples, [vec!["one"], vec!["two", "three"]]);
        let problem = StringInput::from_rows("x", &rows, "b").unwrap_err();
        assert!(problem.starts_with("row 1: expected a string"), "{problem}");
    }

    #[test]
    fn a_sample_takes_the_shape_that_the_model_declares() {
        let read = StringInput { name: "x".into(), samples: vec![vec!["a".into(), "b".into()]] };
        let shape = |declared: &[i64]| read.shape(0, Some(declared));
        assert_eq!(shape(&[-1, -1]), Some(vec![1, 2]));
        assert_eq!(shape(&[-1, 1]), Some(vec![2, 1]));
        assert_eq!(shape(&[-1]), Some(vec![2]));
        assert_eq!((shape(&[-1, 3]), shape(&[])), (None, None));
        assert_eq!(read.shape(0, None), Some(vec![1, 2]));
        assert_eq!(read.tensor(0, vec![1, 2]).data, &b"\x01\0\0\0a\x01\0\0\0b"[..]);
    }
}
