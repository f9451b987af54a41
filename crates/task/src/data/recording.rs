//! Recordings of speech: WAVE and FLAC files with one channel, 16 kHz and 16 bits.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use claxon::FlacReader;
use hound::{SampleFormat, WavReader, WavSpec};

use super::FileError;

/// Sample rate in hertz.
pub const RATE: u32 = 16_000;
const BITS: u16 = 16;

/// A recording whose header has been read.
pub struct Recording {
    path: PathBuf,
    values: Values,
    count: u64,
}

enum Values {
    Wave(WavReader<BufReader<File>>),
    Flac(FlacReader<BufReader<File>>),
}

impl Recording {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// [`FileError`] if the file has another format or its size shows that it is truncated.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let mut file = dyno_tensors::files::open(path).map_err(|error| unreadable(path, error))?;
        let mut magic = [0; 4];
        let is_flac = file.read_exact(&mut magic).is_ok() && magic == *b"fLaC";
        file.rewind().map_err(|error| unreadable(path, error))?;
        let file = BufReader::new(file);
        if is_flac { Self::flac(path, file) } else { Self::wave(path, file) }
    }

    fn wave(path: &Path, file: BufReader<File>) -> Result<Self, FileError> {
        let reader = WavReader::new(file).map_err(|error| unreadable(path, error))?;
        let WavSpec { channels, sample_rate, bits_per_sample, sample_format } = reader.spec();
        let is_known = sample_format == SampleFormat::Int;
        kind(path, channels.into(), sample_rate, bits_per_sample.into(), is_known)?;
        let count = u64::from(reader.duration());
        // The reader is behind the header: the rest of the file are the values.
        let mut file = reader.into_inner();
        let left = || -> std::io::Result<u64> {
            let length = file.get_ref().metadata()?.len();
            let left = length.saturating_sub(file.stream_position()?);
            file.rewind()?;
            Ok(left)
        };
        let left = { left }().map_err(|error| unreadable(path, error))?;
        let found = left / u64::from(BITS / 8);
        if found < count {
            return Err(cut(path, count, found));
        }
        let reader = WavReader::new(file).map_err(|error| unreadable(path, error))?;
        Ok(Self { path: path.to_owned(), values: Values::Wave(reader), count })
    }

    fn flac(path: &Path, file: BufReader<File>) -> Result<Self, FileError> {
        let reader = FlacReader::new(file).map_err(|error| unreadable(path, error))?;
        let facts = reader.streaminfo();
        kind(path, facts.channels, facts.sample_rate, facts.bits_per_sample, true)?;
        let count =
            facts.samples.ok_or_else(|| unreadable(path, "it does not state its length"))?;
        Ok(Self { path: path.to_owned(), values: Values::Flac(reader), count })
    }

    /// Returns the number of values that the header states.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the values, scaled to [-1, 1).
    ///
    /// # Errors
    /// [`FileError`] if a value cannot be read or values are missing.
    pub fn read(self) -> Result<Vec<f32>, FileError> {
        let Self { path, values, count } = self;
        let share = |value: i16| f32::from(value) / 32_768.0;
        let values: Vec<f32> = match values {
            Values::Wave(mut reader) => {
                let values = reader.samples().map(|value| value.map(share));
                values.collect::<Result<_, _>>().map_err(|error| unreadable(&path, error))?
            }
            Values::Flac(mut reader) => {
                let value = |value: claxon::Result<i32>| {
                    let value = value.map_err(|error| unreadable(&path, error))?;
                    let short = i16::try_from(value).map(share);
                    short.map_err(|_| unreadable(&path, format!("a value of {value}")))
                };
                // A few bytes may encode an endless block of silence.
                let most = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(1);
                reader.samples().take(most).map(value).collect::<Result<_, _>>()?
            }
        };
        let found = values.len() as u64;
        if found != count {
            return Err(cut(&path, count, found));
        }
        Ok(values)
    }
}

fn unreadable(path: &Path, why: impl fmt::Display) -> FileError {
    FileError::from_problem(path, format!("expected a WAVE or FLAC file: {why}"))
}

/// Returns the error of a truncated file.
fn cut(path: &Path, count: u64, found: u64) -> FileError {
    FileError::new(path, format!("{count} values from its header"), found)
}

fn kind(path: &Path, channels: u32, rate: u32, bits: u32, is_known: bool) -> Result<(), FileError> {
    if (channels, rate, bits, is_known) == (1, RATE, BITS.into(), true) {
        return Ok(());
    }
    let numbers = if is_known { "" } else { " of floating point" };
    let found = format!("{channels} of {rate} Hz and {bits} bits{numbers}");
    Err(FileError::new(path, format!("one channel of {RATE} Hz and {BITS} bits"), found))
}

#[cfg(test)]
pub(crate) fn write_wave(path: &Path, sample_rate: u32, values: &[i16]) {
    let spec = WavSpec {
        channels: 1,
        sample_rate,
        bits_per_sample: BITS,
        sample_format: SampleFormat::Int,
    };
    let mut to = hound::WavWriter::create(path, spec).expect("a file for the test");
    values.iter().for_each(|value| to.write_sample(*value).expect("it takes values"));
    to.finalize().expect("it is whole");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("dyno-recording-{}-{name}", std::process::id()))
    }

    /// FLAC of 16 kHz, one channel and 16 bits, one verbatim block: RFC 9639, sections 8.2, 9.1 and
    /// 9.2.2. Checksums are those of the RFC's polynomials.
    fn flac(values: &[i16], told: u64) -> Vec<u8> {
        let crc = |bytes: &[u8], bits: u32, polynomial: u32| {
            bytes.iter().fold(0_u32, |crc, byte| {
                (0..8).fold(crc ^ (u32::from(*byte) << (bits - 8)), |crc, _| {
                    let turned = (crc << 1) & ((1 << bits) - 1);
                    if crc >> (bits - 1) == 1 { turned ^ polynomial } else { turned }
                })
            })
        };
        let size = (values.len() as u16).to_be_bytes();
        let facts = (u64::from(RATE) << 44) | (15 << 36) | told;
        let header =
            [b"fLaC\x80\0\0\x22", &size[..], &size, &[0; 6], &facts.to_be_bytes(), &[0; 16]]
                .concat();
        let last = (values.len() as u16 - 1).to_be_bytes();
        let mut block = [&[0xff, 0xf8, 0x75, 0x08, 0x00][..], &last].concat();
        block.push(crc(&block, 8, 0x07) as u8);
        block.push(0x02);
        block.extend(values.iter().flat_map(|value| value.to_be_bytes()));
        block.extend((crc(&block, 16, 0x8005) as u16).to_be_bytes());
        [header, block].concat()
    }

    #[test]
    fn both_formats_have_the_same_values() {
        let values: Vec<i16> = (0..100).map(|at| (at * 600 - 30_000) as i16).collect();
        let (wave, free) = (scratch("same.wav"), scratch("same.flac"));
        write_wave(&wave, RATE, &values);
        std::fs::write(&free, flac(&values, 100)).unwrap();
        let expected: Vec<f32> = values.iter().map(|value| f32::from(*value) / 32_768.0).collect();
        for path in [&wave, &free] {
            let recording = Recording::open(path).unwrap();
            assert_eq!(recording.count(), 100);
            assert_eq!(recording.read().unwrap(), expected);
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn malformed_recordings_are_rejected_with_the_reason() {
        let path = scratch("wrong");
        let refusal = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let error = Recording::open(&path).and_then(Recording::read).unwrap_err().to_string();
            error.strip_prefix(&format!("{}: expected ", path.display())).unwrap().to_owned()
        };
        write_wave(&path, RATE, &[7; 50]);
        let whole = std::fs::read(&path).unwrap();
        let cut = refusal(&whole[..whole.len() - 9]);
        assert_eq!(cut, "50 values from its header, found 45");
        assert!(Recording::open(&path).is_err(), "it is seen without reading the values");
        write_wave(&path, 8000, &[7; 50]);
        let slow = std::fs::read(&path).unwrap();
        assert_eq!(
            refusal(&slow),
            "one channel of 16000 Hz and 16 bits, found 1 of 8000 Hz and 16 bits"
        );
        assert!(refusal(b"RIFF").starts_with("a WAVE or FLAC file: "));
        assert!(refusal(b"").starts_with("a WAVE or FLAC file: "));
        let free = flac(&[5; 50], 50);
        assert!(refusal(&free[..free.len() - 9]).starts_with("a WAVE or FLAC file: "));
        assert!(refusal(&flac(&[5; 50], 60)).ends_with("found 50"));
        assert_eq!(refusal(&flac(&[5; 50], 20)), "20 values from its header, found 21");
        assert!(refusal(&flac(&[5; 50], 0)).contains("it does not state its length"));
        let mut broken = free;
        let end = broken.len();
        broken[end - 5] ^= 1;
        assert!(refusal(&broken).starts_with("a WAVE or FLAC file: "));
        std::fs::remove_file(&path).unwrap();
        let error = Recording::open(&path).map(|recording| recording.count()).unwrap_err();
        assert!(error.to_string().contains("expected a WAVE or FLAC file: "), "{error}");
    }

    #[test]
    fn what_was_altered_anywhere_is_an_error_or_other_values() {
        let path = scratch("altered");
        write_wave(&path, RATE, &[5; 50]);
        let files = [flac(&[5; 50], 50), std::fs::read(&path).unwrap()];
        let mut random = dyno_loadgen::rng::Mt19937::new(7);
        for whole in files {
            for _ in 0..500 {
                let mut altered = whole.clone();
                let at = random.next_u32() as usize % altered.len();
                altered[at] = random.next_u32() as u8;
                std::fs::write(&path, altered).unwrap();
                match Recording::open(&path).and_then(Recording::read) {
                    Ok(values) => assert!(values.iter().all(|value| (-1.0..1.0).contains(value))),
                    Err(error) => assert!(error.to_string().contains("expected")),
                }
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
