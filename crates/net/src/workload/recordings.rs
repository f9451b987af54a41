//! Recordings of rows: data URIs of audio files, as servers of transcriptions take them.

use bytes::Bytes;
use serde_json::Value;

use super::read::Row;
use super::rows::take;
use crate::base64::base64;
use crate::openai::Recording;

/// Columns of recordings.
pub const COLUMNS: [&str; 4] = ["audio", "file", "path", "audio_filepath"];

/// Columns of their texts.
pub(super) const TEXTS: [&str; 5] =
    ["reference", "text", "transcript", "transcription", "sentence"];

/// File types by their first bytes: media type and extension.
const TYPES: [(&[u8], &str, &str); 4] = [
    (b"RIFF", "audio/wav", "wav"),
    (b"fLaC", "audio/flac", "flac"),
    (b"OggS", "audio/ogg", "ogg"),
    (b"ID3", "audio/mpeg", "mp3"),
];

/// Returns the media type and the extension of a recording by its first bytes.
fn type_of(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let is_wave = |bytes: &[u8]| bytes.get(8..12) == Some(b"WAVE");
    let found = TYPES.iter().find(|(begin, ..)| bytes.starts_with(begin))?;
    (found.2 != "wav" || is_wave(bytes)).then_some((found.1, found.2))
}

/// Returns a recording as a data URI.
///
/// # Errors
/// The bytes are not those of an audio file that servers commonly read.
pub fn data_uri(bytes: &[u8]) -> Result<String, String> {
    let (kind, _) = type_of(bytes).ok_or("expected a WAV, FLAC, Ogg or MP3 file")?;
    Ok(format!("data:{kind};base64,{}", base64(bytes)))
}

/// Takes the recording of a row.
///
/// # Errors
/// There is none, or it is no data URI of a known type.
pub(super) fn recording(row: &mut Row) -> Result<Recording, String> {
    let Some((name, value)) = take(row, &COLUMNS) else {
        let columns = COLUMNS.join(", ");
        return Err(format!("expected the path of a recording ({columns}), found no such column"));
    };
    let uri = value.get("url").unwrap_or(&value).as_str();
    let digits = uri.and_then(|uri| uri.strip_prefix("data:")?.split_once(";base64,"));
    let bytes = digits.and_then(|(_, digits)| from_base64(digits));
    let found = bytes.and_then(|bytes| Some((type_of(&bytes)?.1, bytes)));
    let Some((extension, bytes)) = found else {
        let shown = crate::trouble::in_short(&value.to_string());
        return Err(format!("`{name}` is no WAV, FLAC, Ogg or MP3 file: {shown}"));
    };
    let file = match row.shift_remove(NAME) {
        Some(Value::String(name)) => name,
        _ => format!("recording.{extension}"),
    };
    Ok(Recording { name: file, bytes: Bytes::from(bytes) })
}

/// Column of the name that the recording is sent with.
pub const NAME: &str = "file_name";

/// Returns the bytes of Base64 (RFC 4648, section 4); `None` for other texts.
fn from_base64(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.trim_end_matches('=').as_bytes();
    let value = |digit: u8| -> Option<u32> {
        Some(u32::from(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    };
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for &digit in group {
            bits = bits << 6 | value(digit)?;
        }
        bits <<= 6 * (4 - group.len());
        let whole = match group.len() {
            1 => return None,
            length => length - 1,
        };
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=whole]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_standard_reads_back() {
        // RFC 4648, section 10.
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, digits) in vectors {
            assert_eq!(from_base64(digits).as_deref(), Some(bytes.as_bytes()), "{digits}");
        }
        assert_eq!(from_base64("Zm9*"), None);
        assert_eq!(from_base64("Z"), None);
    }

    #[test]
    fn files_are_recognized_by_their_first_bytes() {
        assert!(data_uri(b"RIFF\0\0\0\0WAVEfmt ").unwrap().starts_with("data:audio/wav;base64,"));
        assert!(data_uri(b"fLaC\0").unwrap().starts_with("data:audio/flac;base64,ZkxhQ"));
        assert!(data_uri(b"RIFF\0\0\0\0WEBP").is_err());
        assert!(data_uri(b"text").is_err());
    }
}
