//! Tables of texts and tokens with one row per sample: a pandas `DataFrame` in a pickle (gzipped or
//! not), a list of objects in JSON, or a Parquet file if that feature is compiled in.

#[cfg(feature = "parquet")]
mod parquet;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use dyno_tensors::Element;
use dyno_tensors::files;
use dyno_tensors::pickle::{self, Array, Value};
use flate2::read::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::files::OpenError;

/// Maximum uncompressed size of a gzip file, in bytes: more than the benchmarks' tables have, and a
/// bound for gzip bombs.
const MOST_UNZIPPED: u64 = 16 << 30;

/// Some columns of a table.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    rows: usize,
    columns: BTreeMap<String, Vec<Cell>>,
}

/// A value of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    Text(String),
    Tokens(Vec<i32>),
    Whole(i64),
    Number(f64),
    Other(OtherValue),
}

/// A value of another type; serialized as `null`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OtherValue;

impl Serialize for OtherValue {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_none()
    }
}

impl<'de> Deserialize<'de> for OtherValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(from).map(|_| Self)
    }
}

/// Error: a table does not fit its task.
#[derive(Debug, Error)]
#[error(
    "{}{}{}: expected {expected}, found {found}",
    path.display(),
    row.map(|row| format!(", row {row}")).unwrap_or_default(),
    column.as_ref().map(|column| format!(", column {column}")).unwrap_or_default()
)]
struct TableError {
    path: PathBuf,
    /// Row, from 0.
    row: Option<usize>,
    column: Option<String>,
    expected: String,
    found: String,
}

impl Table {
    /// Reads these columns of a table.
    ///
    /// # Errors
    /// The format is unknown, or a column or all rows are missing.
    pub fn read(path: &Path, wanted: &[&str]) -> Result<Self, OpenError> {
        Self::read_limited(path, wanted, MOST_UNZIPPED)
    }

    fn read_limited(path: &Path, wanted: &[&str], most: u64) -> Result<Self, OpenError> {
        let error = |expected: &str, found: String| {
            let expected = expected.to_owned();
            let path = path.to_owned();
            OpenError::content(TableError { path, row: None, column: None, expected, found })
        };
        let mut bytes = files::read(path).map_err(OpenError::io_at(path))?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut whole = Vec::new();
            let read = MultiGzDecoder::new(&bytes[..]).take(most + 1).read_to_end(&mut whole);
            if read.map_err(OpenError::io_at(path))? as u64 > most {
                let expected = format!("at most {most} bytes in the gzip, or a file unzipped");
                return Err(error(&expected, "more".into()));
            }
            bytes = whole;
        }
        let columns = match bytes.first() {
            Some(0x80) => {
                let value = pickle::read(&bytes)
                    .map_err(|why| error("a table of pandas", format!("{why}")))?;
                drop(bytes);
                pandas_columns(value, wanted).map_err(|found| error("a table of pandas", found))?
            }
            #[cfg(feature = "parquet")]
            Some(b'P') if bytes.starts_with(b"PAR1") => {
                drop(bytes);
                parquet::columns(path, wanted)
                    .map_err(|found| error("a table of Parquet", found))?
            }
            #[cfg(not(feature = "parquet"))]
            Some(b'P') if bytes.starts_with(b"PAR1") => {
                let expected = "a pickle of pandas or JSON, or a dyno with the feature parquet: \
                                write it by pandas.read_parquet(..).to_pickle(..)";
                return Err(error(expected, "a file of Parquet".into()));
            }
            _ => json_columns(&bytes, wanted).map_err(|why| {
                let expected = "a pickle of pandas, or a list of objects in JSON";
                let line = why.line();
                error(expected, format!("in line {line}: {why}"))
            })?,
        };
        let rows = columns.values().map(Vec::len).max().unwrap_or(0);
        let table = Self { path: path.to_owned(), rows, columns };
        if rows == 0 {
            return Err(error("rows", "none".into()));
        }
        for column in wanted {
            let found = table.columns.get(*column).map_or(0, Vec::len);
            if found != rows {
                let row = (found > 0).then_some(found);
                return Err(table.error(row, column, "a value in each row", "none".into()));
            }
        }
        Ok(table)
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the value of a column that was read.
    pub fn cell(&self, row: usize, column: &str) -> &Cell {
        &self.columns[column][row]
    }

    /// Returns a text.
    ///
    /// # Errors
    /// The value is not a text.
    pub fn text(&self, row: usize, column: &str) -> Result<&str, OpenError> {
        match self.cell(row, column) {
            Cell::Text(text) => Ok(text),
            other => Err(self.error(Some(row), column, "a text", other.describe())),
        }
    }

    /// Returns a text that is one of `all`.
    ///
    /// # Errors
    /// The value is another text or not a text.
    pub fn one_of(&self, row: usize, column: &str, all: &[&str]) -> Result<&str, OpenError> {
        let text = self.text(row, column)?;
        if all.contains(&text) {
            return Ok(text);
        }
        Err(self.error(Some(row), column, &all.join(" or "), format!("{text:?}")))
    }

    /// Returns tokens, at least one.
    ///
    /// # Errors
    /// The value is not a list of tokens.
    pub fn tokens(&self, row: usize, column: &str) -> Result<&[i32], OpenError> {
        match self.cell(row, column) {
            Cell::Tokens(all) if !all.is_empty() && all.iter().all(|token| *token >= 0) => Ok(all),
            other => {
                let expected = "a list of tokens, numbers from 0 to 2147483647";
                Err(self.error(Some(row), column, expected, other.describe()))
            }
        }
    }

    /// Returns the error for a value.
    pub fn error(
        &self,
        row: Option<usize>,
        column: &str,
        expected: &str,
        found: String,
    ) -> OpenError {
        let path = self.path.clone();
        let column = Some(column.to_owned());
        OpenError::content(TableError { path, row, column, expected: expected.to_owned(), found })
    }
}

impl Cell {
    /// Returns a description for error messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Text(text) => {
                let start: String = text.chars().take(40).collect();
                format!("the text {start:?}")
            }
            Self::Tokens(all) => match all.iter().find(|token| **token < 0) {
                Some(token) => format!("{token} among {} numbers", all.len()),
                None => format!("{} numbers", all.len()),
            },
            Self::Whole(number) => format!("{number}"),
            Self::Number(number) => format!("{number}"),
            Self::Other(_) => "something else".into(),
        }
    }
}

fn pandas_columns(value: Value, wanted: &[&str]) -> Result<BTreeMap<String, Vec<Cell>>, String> {
    let Value::Dict(columns) = value else { return Err("another object".into()) };
    let mut cells = BTreeMap::new();
    for (name, column) in columns {
        let Value::Text(name) = name else { return Err("a dictionary".into()) };
        if !wanted.contains(&&*name) {
            continue;
        }
        let column = match column {
            Value::List(all) => all.iter().map(cell_of_value).collect(),
            Value::Array(array) if array.shape.len() == 1 => cells_of_array(&array),
            _ => return Err(format!("no values under {name}")),
        };
        cells.insert(name.to_string(), column);
    }
    Ok(cells)
}

fn cell_of_value(value: &Value) -> Cell {
    match value {
        Value::Text(text) => Cell::Text(text.to_string()),
        Value::Int(number) => Cell::Whole(*number),
        Value::Float(number) => Cell::Number(*number),
        Value::Array(array) if array.shape.is_empty() => {
            cells_of_array(array).pop().unwrap_or(Cell::Other(OtherValue))
        }
        Value::Array(array) if array.shape.len() == 1 => {
            let whole = |cell| match cell {
                Cell::Whole(number) => i32::try_from(number).ok(),
                _ => None,
            };
            let tokens: Option<Vec<i32>> = cells_of_array(array).into_iter().map(whole).collect();
            tokens.map_or(Cell::Other(OtherValue), Cell::Tokens)
        }
        Value::List(all) if all.is_empty() => Cell::Tokens(Vec::new()),
        _ => Cell::Other(OtherValue),
    }
}

/// Returns the numbers of an array.
fn cells_of_array(array: &Array) -> Vec<Cell> {
    let element = array.element;
    let read = |bytes: &[u8]| match element {
        Element::F64 => bytes.try_into().ok().map(f64::from_le_bytes).map(Cell::Number),
        Element::F32 => {
            bytes.try_into().ok().map(f32::from_le_bytes).map(|x| Cell::Number(x.into()))
        }
        Element::U8 => Some(Cell::Whole(bytes[0].into())),
        Element::I8 | Element::I16 | Element::I32 | Element::I64 => {
            let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
            let mut all = [if is_negative { 0xff } else { 0 }; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            Some(Cell::Whole(i64::from_le_bytes(all)))
        }
        _ => Some(Cell::Other(OtherValue)),
    };
    array.bytes.chunks_exact(element.size()).filter_map(read).collect()
}

fn json_columns(
    bytes: &[u8],
    wanted: &[&str],
) -> Result<BTreeMap<String, Vec<Cell>>, serde_json::Error> {
    let mut columns = BTreeMap::new();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let rows = RowsVisitor { wanted, columns: &mut columns };
    rows.deserialize(&mut json)?;
    json.end()?;
    Ok(columns)
}

/// Reads rows and keeps only some columns.
struct RowsVisitor<'a> {
    wanted: &'a [&'a str],
    columns: &'a mut BTreeMap<String, Vec<Cell>>,
}

struct RowVisitor<'a>(RowsVisitor<'a>);

impl<'de> DeserializeSeed<'de> for RowsVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let Self { wanted, columns } = self;
        loop {
            let row = RowVisitor(RowsVisitor { wanted, columns: &mut *columns });
            if rows.next_element_seed(row)?.is_none() {
                return Ok(());
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for RowVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.wanted.join(", ");
        write!(f, "an object with {names}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let RowsVisitor { wanted, columns } = self.0;
        let mut row = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if wanted.contains(&name.as_str()) {
                // The last value of a duplicate name counts, as in Python.
                row.insert(name, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if row.len() < wanted.len() {
            let expected = format!("expected an object with {}", wanted.join(", "));
            return Err(serde::de::Error::custom(expected));
        }
        for (name, cell) in row {
            columns.entry(name).or_default().push(cell);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn read(name: &str, bytes: &[u8], wanted: &[&str]) -> Result<Table, String> {
        let path = std::env::temp_dir().join(format!("dyno-table-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let read = Table::read(&path, wanted);
        std::fs::remove_file(&path).unwrap();
        let folder = format!("{}{}", std::env::temp_dir().display(), std::path::MAIN_SEPARATOR);
        read.map_err(|error| error.to_string().replace(&folder, ""))
    }

    #[test]
    fn cells_of_json_are_what_they_look_like() {
        let json = br#" [{"a": "x", "b": [1, 2], "left": {"out": []}}, {"b": [], "a": 4.5}]"#;
        let table = read("cells", json, &["a", "b"]).unwrap();
        assert_eq!((table.rows(), table.text(0, "a").unwrap()), (2, "x"));
        assert_eq!(table.cell(1, "a"), &Cell::Number(4.5));
        assert_eq!(table.tokens(0, "b").unwrap(), [1, 2]);
        let error = table.tokens(1, "b").unwrap_err().to_string();
        assert!(error.contains("row 1, column b: expected a list of tokens"), "{error}");
        let json = br#"[{"a": null}, {"a": [1, 3000000000]}, {"a": true}]"#;
        let table = read("others", json, &["a"]).unwrap();
        assert!((0..3).all(|row| *table.cell(row, "a") == Cell::Other(OtherValue)));
        assert_eq!(serde_json::to_string(table.cell(0, "a")).unwrap(), "null");
    }

    #[test]
    fn values_of_a_row_stay_in_it() {
        let twice = read("twice", br#"[{"a": 1, "b": 2, "a": 3}, {"b": 4, "a": 5}]"#, &["a", "b"]);
        let twice = twice.unwrap();
        assert_eq!((twice.rows(), twice.cell(0, "a")), (2, &Cell::Whole(3)));
        assert_eq!((twice.cell(1, "a"), twice.cell(1, "b")), (&Cell::Whole(5), &Cell::Whole(4)));
        let other = read("shifted", br#"[{"a": 1, "a": 2}, {"b": 3, "b": 4}]"#, &["a", "b"]);
        assert!(other.unwrap_err().contains("expected an object with a, b"));
    }

    #[test]
    fn tables_may_be_gzipped_and_must_be_whole() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(br#"[{"a": "x"}]"#).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(read("gzip", &gzip, &["a"]).unwrap().text(0, "a").unwrap(), "x");
        let path = std::env::temp_dir().join(format!("dyno-table-bomb-{}", std::process::id()));
        std::fs::write(&path, &gzip).unwrap();
        assert!(Table::read_limited(&path, &["a"], 12).is_ok());
        let error = Table::read_limited(&path, &["a"], 11).unwrap_err().to_string();
        assert!(
            error
                .ends_with("expected at most 11 bytes in the gzip, or a file unzipped, found more")
        );
        std::fs::remove_file(&path).unwrap();
        let error = read("cut", &gzip[..gzip.len() - 9], &["a"]).unwrap_err();
        assert!(error.starts_with("dyno-table-cut"), "{error}");
        for bytes in [&b""[..], b"[", b"{}", b"[1]", b"[{}]", b"[{\"a\": 1}] 2", b"\x80\x02N."] {
            let error = read("bad", bytes, &["a"]).unwrap_err();
            assert!(error.contains("expected a "), "{bytes:?}: {error}");
        }
        // A table is read from a dictionary of lists.
        let lists = b"\x80\x02}X\x01\0\0\0a](X\x01\0\0\0xK\x05es.";
        let table = read("lists", lists, &["a"]).unwrap();
        assert_eq!(table.cell(1, "a"), &Cell::Whole(5));
    }
}
