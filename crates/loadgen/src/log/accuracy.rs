//! `mlperf_log_accuracy.json`: the logged responses, one per line.

use std::io::{self, Write};

use super::format::push_u64;
use super::stream::Stream;
use crate::record::LoggedResponse;
use crate::run::{Event, RunLog, TestLog};
use crate::settings::Scenario;

/// Writes the responses of every run, in completion order within a run.
///
/// # Errors
/// The file could not be written.
pub fn write(log: &TestLog, mut out: Stream<'_>) -> io::Result<()> {
    let formatted = write_entries(log, &mut out);
    out.finish(formatted)
}

fn write_entries(log: &TestLog, out: &mut Stream<'_>) -> io::Result<()> {
    out.buffer.push(b'[');
    let mut separator: &[u8] = b"\n";
    for event in &log.events {
        let Event::Run(run) = event else { continue };
        for response in run.record.responses.iter() {
            out.buffer.extend_from_slice(separator);
            separator = b",\n";
            write_entry(out, run, &response)?;
            out.entry_done()?;
        }
    }
    out.buffer.extend_from_slice(b"\n]\n");
    Ok(())
}

fn write_entry(out: &mut Stream, run: &RunLog, response: &LoggedResponse) -> io::Result<()> {
    out.buffer.extend_from_slice(b"{ \"seq_id\" : ");
    push_u64(&mut out.buffer, run.record.first_sample + response.sequence);
    out.buffer.extend_from_slice(b", \"qsl_idx\" : ");
    // A sequence number is below the number of samples, which are in memory.
    let index = run.record.indices[response.sequence as usize];
    push_u64(&mut out.buffer, u64::from(index));
    out.buffer.extend_from_slice(b", \"data\" : \"");
    write_hex(out, response.data)?;
    out.buffer.push(b'"');
    if run.plan.measures_tokens() {
        // Offline has no first token.
        if run.plan.scenario() != Scenario::Offline {
            out.buffer.extend_from_slice(b", \"token_data\" : \"");
            write_hex(out, response.first_token.unwrap_or_default())?;
            out.buffer.push(b'"');
        }
        write!(out.buffer, ", \"token_count\" : {}", response.tokens)?;
    }
    out.buffer.extend_from_slice(b" }");
    Ok(())
}

/// Appends upper-case hexadecimal, two digits a byte in memory order. A response
/// larger than the buffer goes out in several writes.
fn write_hex(out: &mut Stream, mut data: &[u8]) -> io::Result<()> {
    loop {
        let now = data.len().min(out.room() / 2);
        push_hex(&mut out.buffer, &data[..now]);
        data = &data[now..];
        if data.is_empty() {
            return Ok(());
        }
        out.write()?;
    }
}

fn push_hex(out: &mut Vec<u8>, data: &[u8]) {
    let (blocks, rest) = data.as_chunks::<32>();
    for block in blocks {
        // Arithmetic rather than a table, so that it compiles to vectors.
        let mut digits = [[0; 2]; 32];
        for (digits, byte) in digits.iter_mut().zip(block) {
            *digits = [digit(byte >> 4), digit(byte & 15)];
        }
        out.extend_from_slice(digits.as_flattened());
    }
    for byte in rest {
        out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
}

/// Upper-case digit of a value below 16.
#[inline]
fn digit(value: u8) -> u8 {
    const FROM_NINE_TO_A: u8 = b'A' - b'9' - 1;
    value + b'0' + if value > 9 { FROM_NINE_TO_A } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_of_any_length_survives_a_small_buffer() {
        let data: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut file = Vec::new();
        let mut out = Stream::new(&mut file);
        write_hex(&mut out, &data).unwrap();
        out.write().unwrap();
        assert_eq!(file.len(), 2 * data.len());
        for at in [0, 1, 2_097_151, 2_097_152, 4_999_999] {
            assert_eq!(file[2 * at..2 * at + 2], *format!("{:02X}", data[at]).as_bytes());
        }
    }
}
