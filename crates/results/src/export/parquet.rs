//! Raw records as Parquet: times are 64-bit integers, null where a time is missing.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

use super::rows::Row;
use super::{ExportError, TestRecords};
use crate::VERSION;

/// Columns of [`Row`], in order.
const SCHEMA: &str = "
message records {
    required binary test (string);
    required int64 row;
    required int64 sample;
    required int64 scheduled_ns;
    required int64 issued_ns;
    optional int64 completed_ns;
    optional int64 latency_ns;
    optional int64 client_lag_ns;
    optional int64 time_to_first_token_ns;
    optional int64 output_tokens;
    optional binary failure (string);
}";

/// Rows of a row group, which are held in memory twice.
const ROWS_IN_A_GROUP: usize = 1 << 20;

/// Parquet file that is being written.
pub struct File<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    tests: Vec<Value>,
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        match error {
            // Such as a full disk or a closed pipe.
            ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
                Ok(error) => Self::Io(*error),
                Err(other) => Self::Parquet(other.to_string()),
            },
            other => Self::Parquet(other.to_string()),
        }
    }
}

impl<W: Write + Send> File<W> {
    /// Begins a file with metadata of the run, by key.
    pub fn new(out: W, about: &[(&str, String)]) -> Result<Self, ExportError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let about = about.iter();
        let about = about.map(|(key, value)| KeyValue::new((*key).into(), value.clone())).collect();
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("dyno version {VERSION}"))
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(about));
        // Times rarely repeat, and neighbors are close to each other.
        for column in schema.get_fields().iter().map(|field| field.name()) {
            if !matches!(column, "test" | "failure") {
                properties = properties
                    .set_column_dictionary_enabled(column.into(), false)
                    .set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED);
            }
        }
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
        Ok(Self { writer, tests: Vec::new() })
    }

    /// Writes every row of a test.
    pub fn write(&mut self, test: &TestRecords<'_>) -> Result<(), ExportError> {
        let rows = test.records.row_count();
        for begin in (0..rows).step_by(ROWS_IN_A_GROUP) {
            let end = rows.min(begin + ROWS_IN_A_GROUP);
            let group: Vec<Row<'_>> = (begin..end).map(|at| test.row(at)).collect();
            let mut writer = self.writer.next_row_group()?;
            write_group(&mut writer, &group)?;
            writer.close()?;
        }
        let records = test.records;
        self.tests.push(json!({
            "test": test.name,
            "scenario": test.scenario,
            "mode": test.mode,
            "tenant": test.tenant,
            "row": records.row,
            "samples_per_query": records.samples_per_query,
            "rows": rows,
            "total": records.total,
            "stride": records.stride,
        }));
        Ok(())
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<(), ExportError> {
        let tests = Value::from(std::mem::take(&mut self.tests)).to_string();
        self.writer.append_key_value_metadata(KeyValue::new("dyno.tests".into(), tests));
        self.writer.close()?;
        Ok(())
    }
}

fn write_group<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row<'_>],
) -> Result<(), ParquetError> {
    texts(group, rows, false, |row| Some(row.test))?;
    required(group, rows, |row| row.row)?;
    required(group, rows, |row| row.sample)?;
    required(group, rows, |row| row.scheduled_ns)?;
    required(group, rows, |row| row.issued_ns)?;
    optional(group, rows, |row| row.completed_ns)?;
    optional(group, rows, |row| row.latency_ns)?;
    optional(group, rows, |row| row.client_lag_ns)?;
    optional(group, rows, |row| row.time_to_first_token_ns)?;
    optional(group, rows, |row| row.output_tokens)?;
    texts(group, rows, true, |row| row.failure)
}

const EVERY_COLUMN: &str = "the schema has a column for each call of write_group";

fn required<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row<'_>],
    of: impl Fn(&Row<'_>) -> i64,
) -> Result<(), ParquetError> {
    let values: Vec<i64> = rows.iter().map(of).collect();
    let mut column = group.next_column()?.expect(EVERY_COLUMN);
    column.typed::<Int64Type>().write_batch(&values, None, None)?;
    column.close()
}

fn optional<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row<'_>],
    of: impl Fn(&Row<'_>) -> Option<i64>,
) -> Result<(), ParquetError> {
    let present: Vec<i16> = rows.iter().map(|row| i16::from(of(row).is_some())).collect();
    let values: Vec<i64> = rows.iter().filter_map(of).collect();
    let mut column = group.next_column()?.expect(EVERY_COLUMN);
    column.typed::<Int64Type>().write_batch(&values, Some(&present), None)?;
    column.close()
}

fn texts<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row<'_>],
    is_optional: bool,
    of: impl for<'a> Fn(&'a Row<'_>) -> Option<&'a str>,
) -> Result<(), ParquetError> {
    let present: Vec<i16> = rows.iter().map(|row| i16::from(of(row).is_some())).collect();
    let values: Vec<ByteArray> =
        rows.iter().filter_map(|row| of(row).map(ByteArray::from)).collect();
    let mut column = group.next_column()?.expect(EVERY_COLUMN);
    let present = is_optional.then_some(&present[..]);
    column.typed::<ByteArrayType>().write_batch(&values, present, None)?;
    column.close()
}
