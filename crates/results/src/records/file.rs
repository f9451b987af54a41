//! File format: a line that names the format, the length of the header, the header as JSON, the
//! columns, and the checksum of what is before the columns.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use dyno_loadgen::log::read::open_file;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::codec::{decode, encode};
use super::{Records, Row};

/// Name of the file within the folder of a test.
pub const FILE: &str = "records.bin";

const MAGIC: &[u8] = b"dyno.records 1\n";

/// Maximum length of a header, in bytes.
const LONGEST_HEADER: usize = 1 << 16;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    row: Row,
    /// Rows before thinning.
    total: u64,
    stride: u64,
    samples_per_query: u64,
    /// Rows in the file.
    rows: usize,
    columns: Vec<Column>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Column {
    name: String,
    /// Whether values are stored as differences to the value before.
    difference: bool,
    /// Length in the file.
    bytes: usize,
    /// CRC-32 of these bytes.
    crc32: u32,
}

/// Error of reading a file of raw records.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordsError {
    /// The file is missing.
    #[error(
        "{} is missing; runs with `--records none` and runs of earlier versions of Dyno have none",
        .0.display()
    )]
    Missing(PathBuf),
    /// The operating system cannot read the file; holds its message.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Unreadable(PathBuf, String),
    /// The file has another format or a later version.
    #[error("{} has no raw records of version 1", .0.display())]
    NotRecords(PathBuf),
    /// The header is damaged; holds what is wrong.
    #[error("{}: the header is damaged: {}", .0.display(), .1)]
    Header(PathBuf, String),
    /// A column is cut off, or its checksum does not match; holds its name.
    #[error("{}: the column {} is cut off or damaged", .0.display(), .1)]
    Column(PathBuf, String),
}

impl Records {
    fn columns(&self) -> [(&'static str, bool, &Vec<i64>); 14] {
        [
            ("scheduled_ns", true, &self.scheduled_ns),
            ("issue_delay_ns", false, &self.issue_delay_ns),
            ("latency_ns", false, &self.latency_ns),
            ("sample", false, &self.sample),
            ("client_lag_ns", false, &self.client_lag_ns),
            ("first_token_ns", false, &self.first_token_ns),
            ("tokens", false, &self.tokens),
            ("timed_tokens", false, &self.timed_tokens),
            ("failure", false, &self.failure),
            ("session", false, &self.session),
            ("turn", false, &self.turn),
            ("retries", false, &self.retries),
            ("retry_wait_ns", false, &self.retry_wait_ns),
            ("number", true, &self.number),
        ]
    }

    fn column_mut(&mut self, name: &str) -> Option<&mut Vec<i64>> {
        Some(match name {
            "scheduled_ns" => &mut self.scheduled_ns,
            "issue_delay_ns" => &mut self.issue_delay_ns,
            "latency_ns" => &mut self.latency_ns,
            "sample" => &mut self.sample,
            "client_lag_ns" => &mut self.client_lag_ns,
            "first_token_ns" => &mut self.first_token_ns,
            "tokens" => &mut self.tokens,
            "timed_tokens" => &mut self.timed_tokens,
            "failure" => &mut self.failure,
            "session" => &mut self.session,
            "turn" => &mut self.turn,
            "retries" => &mut self.retries,
            "retry_wait_ns" => &mut self.retry_wait_ns,
            "number" => &mut self.number,
            _ => return None,
        })
    }

    /// Returns the content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut body, mut columns) = (Vec::new(), Vec::new());
        for (name, difference, values) in self.columns() {
            if values.is_empty() {
                continue;
            }
            let begin = body.len();
            encode(values, difference, &mut body);
            let bytes = &body[begin..];
            let crc32 = crc32fast::hash(bytes);
            columns.push(Column { name: name.into(), difference, bytes: bytes.len(), crc32 });
        }
        let header = Header {
            row: self.row,
            total: self.total,
            stride: self.stride,
            samples_per_query: self.samples_per_query,
            rows: self.row_count(),
            columns,
        };
        let header = serde_json::to_vec(&header).expect("numbers and names are JSON");
        let length = u32::try_from(header.len()).expect("a header has few columns");
        let mut bytes = [MAGIC, &length.to_le_bytes(), &header].concat();
        // A changed header would give other records, such as more rows before thinning.
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the file is missing, unreadable, damaged or of another version.
    pub fn read(path: &Path) -> Result<Self, RecordsError> {
        let mut bytes = Vec::new();
        let read = open_file(path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|error| match error.kind() {
            ErrorKind::NotFound => RecordsError::Missing(path.into()),
            _ => RecordsError::Unreadable(path.into(), error.to_string()),
        })?;
        Self::from_bytes(&bytes, path)
    }

    fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, RecordsError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(RecordsError::NotRecords(path.into()))?;
        let damaged = |reason: &str| RecordsError::Header(path.into(), reason.into());
        let (length, rest) = rest.split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST_HEADER {
            return Err(damaged("its length is invalid"));
        }
        let (header, mut body) =
            rest.split_at_checked(length).ok_or_else(|| damaged("it is cut off"))?;
        let header: Header =
            serde_json::from_slice(header).map_err(|error| damaged(&error.to_string()))?;
        let mut records = Self::empty(header.row, header.total, header.stride.max(1));
        records.samples_per_query = header.samples_per_query;
        for column in &header.columns {
            let bad = || RecordsError::Column(path.into(), column.name.clone());
            let (values, rest) = body.split_at_checked(column.bytes).ok_or_else(bad)?;
            body = rest;
            if crc32fast::hash(values) != column.crc32 {
                return Err(bad());
            }
            let values = decode(values, column.difference, header.rows).ok_or_else(bad)?;
            // Columns of later versions are skipped.
            if let Some(place) = records.column_mut(&column.name) {
                *place = values;
            }
        }
        // Files of earlier versions end here.
        if !body.is_empty() {
            let head = &bytes[..MAGIC.len() + size_of::<u32>() + length];
            if body != crc32fast::hash(head).to_le_bytes() {
                return Err(damaged("its checksum differs"));
            }
        }
        let always = [&records.scheduled_ns, &records.issue_delay_ns, &records.latency_ns];
        if always.iter().any(|column| column.len() != header.rows) {
            return Err(damaged("it has no scheduled_ns, issue_delay_ns or latency_ns"));
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        Records {
            row: Row::Query,
            total: 3,
            stride: 1,
            samples_per_query: 1,
            scheduled_ns: vec![0, 1_000, 5_000],
            issue_delay_ns: vec![1, 0, 200],
            latency_ns: vec![77, -1, 99],
            sample: vec![3, 2, 1],
            client_lag_ns: vec![],
            first_token_ns: vec![],
            tokens: vec![9, 0, 9],
            timed_tokens: vec![4, 0, -1],
            failure: vec![0, 2, 0],
            session: vec![1, 2, 1],
            turn: vec![1, 1, 2],
            retries: vec![0, 3, 0],
            retry_wait_ns: vec![0, 2_000_000_000, 0],
            number: vec![1, 2, 4],
        }
    }

    #[test]
    fn a_file_reads_as_it_was_written() {
        let records = records();
        assert_eq!(Records::from_bytes(&records.to_bytes(), Path::new("r")), Ok(records));
    }

    #[test]
    fn every_damage_is_told_and_none_panics() {
        let whole = records().to_bytes();
        // Without its checksum, a file is one of an earlier version.
        let earlier = whole.len() - 4;
        for end in (0..whole.len()).filter(|end| *end != earlier) {
            assert!(Records::from_bytes(&whole[..end], Path::new("r")).is_err(), "cut at {end}");
        }
        assert_eq!(Records::from_bytes(&whole[..earlier], Path::new("r")), Ok(records()));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let read = Records::from_bytes(&damaged, Path::new("r"));
                assert!(read.is_err(), "bit {bit} flipped at {at}");
            }
        }
    }
}
