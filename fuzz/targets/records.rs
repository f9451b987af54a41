//! `records.bin`, as it comes and with its sums made right, so that what lies behind
//! them is read, too: what is read has as many rows as it says, and is written alike.
#![no_main]

use std::fs;

use dyno_results::records::Records;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Bytes before the header: the line that says what the file is, and the length.
const BEFORE: usize = 19;

/// The file with the length of its header and the sums of its columns as they should
/// be; `None` if it has no header.
fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.get(BEFORE..)?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
    let mut header = values.next()?.ok()?;
    let mut body = &rest[values.byte_offset()..];
    for column in header.get_mut("columns")?.as_array_mut()? {
        let length = usize::try_from(column.get("bytes")?.as_u64()?).ok()?;
        let (of_column, others) = body.split_at_checked(length)?;
        column["crc32"] = crc32fast::hash(of_column).into();
        body = others;
    }
    let header = serde_json::to_vec(&header).ok()?;
    let length = u32::try_from(header.len()).ok()?.to_le_bytes();
    let body = &rest[values.byte_offset()..];
    Some([&b"dyno.records 1\n"[..], &length, &header, body].concat())
}

fuzz_target!(|bytes: &[u8]| {
    let name = format!("dyno-fuzz-records-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    for file in [Some(bytes.to_vec()), mended(bytes)].into_iter().flatten() {
        fs::write(&path, file).expect("a file in the temporary folder");
        match Records::read(&path) {
            Ok(read) => {
                let rows = read.latency_ns.len();
                assert_eq!((read.scheduled_ns.len(), read.issue_delay_ns.len()), (rows, rows));
                fs::write(&path, read.to_bytes()).expect("a file in the temporary folder");
                assert_eq!(Records::read(&path), Ok(read));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
