//! Frames between Dyno and the driver in Python, as `driver.py` describes them.

use std::io::{self, Read, Write};

use crate::tensors::{Element, Elements};

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To the driver: what to import, as JSON.
    Hello = 1,
    /// To the driver: samples of a call.
    Call,
    /// From the driver: the function is imported.
    Ready,
    /// From the driver: an output per sample.
    Answers,
    /// From the driver: the words of the exception that ended the call.
    Failed,
}

/// Size that headers and data are padded to, so that numbers are aligned.
const ALIGNMENT: usize = 16;

/// Maximum size of a reply, bytes. A larger length is not a frame.
const LARGEST_REPLY: u64 = 1 << 34;

/// Code of text.
const TEXT: u8 = 1;
/// Code of a document of JSON.
const JSON: u8 = 2;
/// Code of a sample's failure.
const FAILURE: u8 = 3;
/// Code of the first type of elements.
const FIRST_ELEMENT: u8 = 16;

/// Types of elements, in the order of their codes.
const ELEMENTS: [Element; 9] = [
    Element::F32,
    Element::F64,
    Element::F16,
    Element::BF16,
    Element::I64,
    Element::I32,
    Element::I8,
    Element::U8,
    Element::Bool,
];

/// Form in which the function receives a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SampleForm {
    /// Arrays of NumPy, or their bytes without NumPy.
    #[default]
    Arrays,
    /// `str`; the sample is UTF-8 text.
    Text,
    /// What `json.loads` returns; the sample is a document of JSON.
    Json,
}

/// Starts the payload of a call in an empty buffer.
pub(super) fn begin_call(payload: &mut Vec<u8>, samples: usize) {
    payload.clear();
    payload.extend_from_slice(&(samples as u64).to_le_bytes());
    payload.extend_from_slice(&[0; 8]);
}

/// Appends one input of a sample.
pub(super) fn push(
    payload: &mut Vec<u8>,
    (shape, elements): (&[usize], Elements<'_>),
    form: SampleForm,
) {
    let element = elements.element();
    let code = match form {
        SampleForm::Arrays => {
            let at = ELEMENTS.iter().position(|other| *other == element);
            FIRST_ELEMENT + at.expect("all types of `Elements` have a code") as u8
        }
        SampleForm::Text => TEXT,
        SampleForm::Json => JSON,
    };
    let shape = if form == SampleForm::Arrays { shape } else { &[] };
    let size = elements.len() * element.size();
    payload.extend_from_slice(&[code, shape.len() as u8, 0, 0, 0, 0, 0, 0]);
    payload.extend_from_slice(&(size as u64).to_le_bytes());
    for length in shape {
        payload.extend_from_slice(&(*length as u64).to_le_bytes());
    }
    pad(payload);
    elements.write(payload);
    pad(payload);
}

fn pad(payload: &mut Vec<u8>) {
    payload.resize(payload.len().next_multiple_of(ALIGNMENT), 0);
}

/// Sends a frame.
pub(super) fn send(mut to: impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let mut header = [0; ALIGNMENT];
    header[..8].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    header[8..].copy_from_slice(&(kind as u64).to_le_bytes());
    to.write_all(&header)?;
    to.write_all(payload)
}

/// Receives a frame, and returns its kind.
///
/// # Errors
/// The end of the connection, or bytes that are no frame.
pub(super) fn receive(mut from: impl Read, payload: &mut Vec<u8>) -> io::Result<Kind> {
    let mut header = [0; ALIGNMENT];
    from.read_exact(&mut header)?;
    let size = u64::from_le_bytes(header[..8].try_into().expect("8 bytes"));
    let kind = match u64::from_le_bytes(header[8..].try_into().expect("8 bytes")) {
        3 => Kind::Ready,
        4 => Kind::Answers,
        5 => Kind::Failed,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    if size > LARGEST_REPLY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    payload.resize(size as usize, 0);
    from.read_exact(payload)?;
    Ok(kind)
}

/// Output of the function for one sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output<'a> {
    /// An array or a number.
    Array { element: Element, shape: Vec<usize>, bytes: &'a [u8] },
    /// Bytes or text.
    Bytes(&'a [u8]),
    /// The words of an exception.
    Failure(&'a str),
}

impl Output<'_> {
    /// Returns the class that it names: that of the greatest element of an array, or a single integer.
    pub(super) fn class(&self) -> Result<i64, String> {
        match self {
            Self::Array { element, bytes, .. } => {
                let elements = Elements::read(*element, bytes);
                let class = elements.and_then(|elements| elements.class());
                class.ok_or_else(|| {
                    "an output without elements, of a single score, or with NaN is no class; return \
                     the scores of all classes or an integer"
                        .into()
                })
            }
            Self::Bytes(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                text.trim().parse().map_err(|_| {
                    let start: String = text.chars().take(SHOWN).collect();
                    format!("output `{start}` is not a class; return scores or an integer")
                })
            }
            Self::Failure(words) => Err((*words).to_owned()),
        }
    }
}

/// Maximum number of characters of an answer in a message.
const SHOWN: usize = 60;

/// Returns the outputs of a payload of answers; `None` if it is not such a payload.
pub(super) fn outputs(payload: &[u8]) -> Option<Vec<Output<'_>>> {
    let mut rest = Rest { payload, at: 0 };
    let count = usize::try_from(rest.number()?).ok()?;
    rest.number()?;
    // An output takes 16 bytes at least.
    let mut outputs = Vec::with_capacity(count.min(payload.len() / ALIGNMENT));
    for _ in 0..count {
        outputs.push(rest.output()?);
    }
    Some(outputs)
}

/// The part of a payload that is not read yet.
struct Rest<'a> {
    payload: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let taken = self.payload.get(self.at..self.at.checked_add(size)?)?;
        self.at += size;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn skip_padding(&mut self) {
        self.at = self.at.next_multiple_of(ALIGNMENT);
    }

    fn output(&mut self) -> Option<Output<'a>> {
        let head = self.take(8)?;
        let size = usize::try_from(self.number()?).ok()?;
        let lengths = (0..head[1]).map(|_| usize::try_from(self.number()?).ok());
        let shape: Option<Vec<usize>> = lengths.collect();
        let shape = shape?;
        self.skip_padding();
        let bytes = self.take(size)?;
        self.skip_padding();
        Some(match head[0] {
            FAILURE => Output::Failure(str::from_utf8(bytes).unwrap_or("an exception")),
            code if code >= FIRST_ELEMENT => {
                let element = *ELEMENTS.get(usize::from(code - FIRST_ELEMENT))?;
                Output::Array { element, shape, bytes }
            }
            _ => Output::Bytes(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Payload of one output, written by hand from the description in `driver.py`.
    fn payload(code: u8, shape: &[u64], data: &[u8]) -> Vec<u8> {
        let mut payload = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        payload.extend([code, shape.len() as u8, 0, 0, 0, 0, 0, 0]);
        payload.extend((data.len() as u64).to_le_bytes());
        shape.iter().for_each(|length| payload.extend(length.to_le_bytes()));
        payload.resize(payload.len().div_ceil(16) * 16, 0);
        payload.extend(data);
        payload.resize(payload.len().div_ceil(16) * 16, 0);
        payload
    }

    #[test]
    fn outputs_are_read_as_the_driver_describes_them() {
        let scores = [0.5_f32, 2.0, 1.0].map(f32::to_le_bytes).concat();
        let array = payload(16, &[3], &scores);
        let output = outputs(&array).unwrap().remove(0);
        let shape = vec![3];
        assert_eq!(output, Output::Array { element: Element::F32, shape, bytes: &scores });
        assert_eq!(output.class(), Ok(1));
        assert_eq!(outputs(&payload(1, &[], b" 7")).unwrap()[0].class(), Ok(7));
        let word = outputs(&payload(1, &[], b"cat")).unwrap()[0].class().unwrap_err();
        assert!(word.contains("`cat` is not a class"), "{word}");
        assert!(outputs(&payload(16, &[0], b"")).unwrap()[0].class().is_err());
        assert!(outputs(&payload(16, &[1], &scores[..4])).unwrap()[0].class().is_err());
    }

    #[test]
    fn every_cut_and_every_changed_byte_of_a_payload_is_survived() {
        let whole = payload(16, &[2], &[1; 8]);
        assert!(outputs(&whole).is_some());
        for length in 0..whole.len() {
            // Only the padding at the end may be missing.
            assert_eq!(outputs(&whole[..length]).is_some(), length >= 56, "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 127, 255] {
                let mut changed = whole.clone();
                changed[at] = value;
                outputs(&changed).iter().flatten().for_each(|one| drop(one.class()));
            }
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_rejected() {
        let kind = |bytes: &[u8]| receive(bytes, &mut Vec::new()).map_err(|error| error.kind());
        let mut frame = vec![2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 7, 7];
        assert_eq!(kind(&frame), Ok(Kind::Answers));
        assert_eq!(kind(&frame[..17]), Err(io::ErrorKind::UnexpectedEof));
        frame[7] = 1;
        assert_eq!(kind(&frame), Err(io::ErrorKind::InvalidData));
        assert_eq!(kind(b"Hello, I am print()!"), Err(io::ErrorKind::InvalidData));
    }
}
