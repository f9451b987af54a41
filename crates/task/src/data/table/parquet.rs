//! Reads Parquet files, which `pandas.DataFrame.to_parquet` writes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use super::{Cell, OtherValue};

/// Reads these columns of a file.
pub(super) fn columns(path: &Path, wanted: &[&str]) -> Result<BTreeMap<String, Vec<Cell>>, String> {
    // The library may panic on a damaged file; its message goes to standard error.
    let read = catch_unwind(AssertUnwindSafe(|| read(path, wanted)));
    match read {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err("one that is damaged".into()),
    }
}

fn read(path: &Path, wanted: &[&str]) -> Result<BTreeMap<String, Vec<Cell>>, ParquetError> {
    let reader = SerializedFileReader::new(dyno_tensors::files::open(path)?)?;
    let schema = reader.metadata().file_metadata().schema();
    let fields = schema.get_fields().iter().filter(|field| wanted.contains(&field.name()));
    let fields: Vec<Arc<Type>> = fields.cloned().collect();
    let mut columns = BTreeMap::new();
    if fields.is_empty() {
        return Ok(columns);
    }
    let only = Type::group_type_builder(schema.name()).with_fields(fields).build()?;
    for row in reader.get_row_iter(Some(only))? {
        for (name, field) in row?.get_column_iter() {
            columns.entry(name.clone()).or_insert_with(Vec::new).push(cell(field));
        }
    }
    Ok(columns)
}

fn cell(field: &Field) -> Cell {
    match field {
        Field::Str(text) => Cell::Text(text.clone()),
        Field::Float(number) => Cell::Number((*number).into()),
        Field::Double(number) => Cell::Number(*number),
        Field::ListInternal(all) => {
            let token = |field: &Field| i32::try_from(whole(field)?).ok();
            let tokens: Option<Vec<i32>> = all.elements().iter().map(token).collect();
            tokens.map_or(Cell::Other(OtherValue), Cell::Tokens)
        }
        other => whole(other).map_or(Cell::Other(OtherValue), Cell::Whole),
    }
}

fn whole(field: &Field) -> Option<i64> {
    Some(match field {
        Field::Byte(number) => i64::from(*number),
        Field::Short(number) => i64::from(*number),
        Field::Int(number) => i64::from(*number),
        Field::Long(number) => *number,
        Field::UByte(number) => i64::from(*number),
        Field::UShort(number) => i64::from(*number),
        Field::UInt(number) => i64::from(*number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Table;

    /// pyarrow 26.0.1, snappy, without its own metadata: columns `tok_input` ([1, 5, 300] and
    /// [1, 70000]), `output` ("a é" and "b") and `n` (0.5 and 2.0).
    const PYARROW: &[u8] =
        b"PAR1\x15\x04\x15@\x158L\x15\x08\x15\0\x12\0\0\x20\x04\x01\0\x09\x01\0\x05\x09\x07@\0,\
        \x01\0\0\0\0\0\0p\x11\x01\0\0\0\0\0\x15\0\x15\x20\x15$,\x15\x0a\x15\x10\x15\x06\x15\x06\
        \x1c\0\0\0\x10<\x02\0\0\0\x03\x16\x02\0\0\0\x0a\x03\x02\x03$\x03\x15\x04\x15\x1a\x15\x1e\
        L\x15\x04\x15\0\x12\0\0\x0d0\x04\0\0\0a\x20\xc3\xa9\x01\0\0\0b\x15\0\x15\x12\x15\x16,\
        \x15\x04\x15\x10\x15\x06\x15\x06\x1c\0\0\0\x09\x20\x02\0\0\0\x04\x01\x01\x03\x02\x15\x04\
        \x15\x20\x15$L\x15\x04\x15\0\x12\0\0\x10<\0\0\0\0\0\0\xe0?\0\0\0\0\0\0\0@\x15\0\x15\x12\
        \x15\x16,\x15\x04\x15\x10\x15\x06\x15\x06\x1c\0\0\0\x09\x20\x02\0\0\0\x04\x01\x01\x03\
        \x02\x15\x04\x19l5\0\x18\x06schema\x15\x06\05\x02\x18\x09tok_input\x15\x02\x15\x06L<\0\0\
        \05\x04\x18\x04list\x15\x02\0\x15\x04%\x02\x18\x07element\0\x15\x0c%\x02\x18\x06output%\
        \0L\x1c\0\0\0\x15\x0a%\x02\x18\x01n\0\x16\x04\x19\x1c\x19<&\0\x1c\x15\x04\x195\0\x06\x10\
        \x198\x09tok_input\x04list\x07element\x15\x02\x16\x0a\x16\xa2\x01\x16\x9e\x01&\\&\x08),\
        \x15\x04\x15\0\x15\x02\0\x15\0\x15\x10\x15\x02\0<)&\x04\x06\x19F\0\0\0\x0a\0\0\0&\0\x1c\
        \x15\x0c\x195\0\x06\x10\x19\x18\x06output\x15\x02\x16\x04\x16n\x16v&\xe0\x01&\xa6\x01),\
        \x15\x04\x15\0\x15\x02\0\x15\0\x15\x10\x15\x02\0<\x16\x0a\x19\x06\x19&\0\x04\0\0\0&\0\
        \x1c\x15\x0a\x195\0\x06\x10\x19\x18\x01n\x15\x02\x16\x04\x16t\x16|&\xdc\x02&\x9c\x02),\
        \x15\x04\x15\0\x15\x02\0\x15\0\x15\x10\x15\x02\0<)\x06\x19&\0\x04\0\0\0\x16\x84\x03\x16\
        \x04&\x08\x16\x90\x03\0(\x20parquet-cpp-arrow\x20version\x2026.0.1\x19<\x1c\0\0\x1c\0\0\
        \x1c\0\0\0\\\x01\0\0PAR1";

    #[test]
    fn columns_of_a_file_of_pyarrow_are_read() {
        let path = std::env::temp_dir().join(format!("dyno-parquet-{}", std::process::id()));
        let read = |bytes: &[u8], wanted: &[&str]| {
            std::fs::write(&path, bytes).unwrap();
            let read = Table::read(&path, wanted);
            std::fs::remove_file(&path).unwrap();
            read.map_err(|error| error.to_string())
        };
        let table = read(PYARROW, &["output", "tok_input"]).unwrap();
        assert_eq!(table.rows(), 2);
        assert_eq!(table.tokens(0, "tok_input").unwrap(), [1, 5, 300]);
        assert_eq!(table.tokens(1, "tok_input").unwrap(), [1, 70000]);
        assert_eq!(table.text(0, "output").unwrap(), "a é");
        let missing = read(PYARROW, &["output", "metric"]).unwrap_err();
        assert!(missing.ends_with("column metric: expected a value in each row, found none"));
        for end in [5, 99, PYARROW.len() - 1] {
            let refused = read(&PYARROW[..end], &["output"]).unwrap_err();
            assert!(refused.contains("expected a table of Parquet, found "), "{refused}");
        }
    }
}
