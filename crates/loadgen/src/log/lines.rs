//! Lines of the detail log: keys, values, and their source lines.

use std::io::{self, Write};
use std::panic::Location;

use super::Counts;
use super::format::{push_json_string, push_milliseconds, push_u64};
use super::stream::Stream;
use crate::clock::Nanos;
use crate::drive::Process;
use crate::message::{Message, Severity};
use crate::printf::general;
use crate::qsl::SampleIndex;

/// Value of a line.
pub(super) enum Field<'a> {
    Text(&'a str),
    Whole(u64),
    Signed(i64),
    Real(f64),
    Flag(bool),
    List(&'a [SampleIndex]),
    Map(&'a [(&'a str, &'a str)]),
}

macro_rules! field_from {
    ($($type:ty => $variant:ident),+ $(,)?) => {
        $(impl<'a> From<$type> for Field<'a> {
            fn from(value: $type) -> Self { Self::$variant(value.into()) }
        })+
    };
}
field_from!(
    &'a str => Text, u64 => Whole, i64 => Signed, i32 => Signed, f64 => Real,
    bool => Flag, &'a [SampleIndex] => List, &'a [(&'a str, &'a str)] => Map,
);

/// Writes lines and counts errors and warnings.
pub(super) struct Lines<'a> {
    out: Stream<'a>,
    /// Time of the following lines, ns since the origin of the log.
    pub at: Nanos,
    process: Process,
    counts: Counts,
}

impl<'a> Lines<'a> {
    /// Returns a writer of lines to `file` that name this process.
    pub fn new(file: &'a mut dyn Write, process: Process) -> Self {
        Self { out: Stream::new(file), at: 0, process, counts: Counts::default() }
    }

    /// Returns the errors and warnings so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Writes the buffered lines and returns the counts.
    pub fn finish(mut self) -> io::Result<Counts> {
        self.out.write()?;
        Ok(self.counts)
    }

    /// Writes an informational line.
    #[track_caller]
    pub fn line<'f>(&mut self, key: &str, value: impl Into<Field<'f>>) -> io::Result<()> {
        self.put(key, &value.into(), Severity::Info)
    }

    #[track_caller]
    pub fn message(&mut self, message: &Message) -> io::Result<()> {
        self.at = message.at;
        self.put(message.key, &Field::Text(&message.text), message.severity)
    }

    /// Writes an error that occurred `times` times. More than a few are written as one line.
    #[track_caller]
    pub fn errors(&mut self, text: &str, times: u64) -> io::Result<()> {
        const SPELT_OUT: u64 = 8;
        if times <= SPELT_OUT {
            for _ in 0..times {
                self.put("error_runtime", &Field::Text(text), Severity::Error)?;
            }
            return Ok(());
        }
        self.counts.errors += times - 1;
        let text = format!("{text} ({times} times)");
        self.put("error_runtime", &Field::Text(&text), Severity::Error)
    }

    #[track_caller]
    fn put(&mut self, key: &str, value: &Field, severity: Severity) -> io::Result<()> {
        let (is_error, is_warning) = (severity == Severity::Error, severity == Severity::Warning);
        self.counts.errors += u64::from(is_error);
        self.counts.warnings += u64::from(is_warning);
        let place = Location::caller();
        let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
        let (line, Process { pid, tid }) = (place.line(), self.process);
        let out = &mut self.out.buffer;
        out.extend_from_slice(b":::MLLOG {\"key\": ");
        push_json_string(out, key);
        out.extend_from_slice(b", \"value\": ");
        push_field(out, value);
        out.extend_from_slice(b", \"time_ms\": ");
        push_milliseconds(out, self.at);
        writeln!(
            out,
            ", \"namespace\": \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \
             \"metadata\": {{\"is_error\": {is_error}, \"is_warning\": {is_warning}, \
             \"file\": \"{file}\", \"line_no\": {line}, \"pid\": {pid}, \"tid\": {tid}}}}}"
        )?;
        self.out.entry_done()
    }
}

fn push_field(out: &mut Vec<u8>, value: &Field) {
    match value {
        Field::Text(text) => push_json_string(out, text),
        Field::Whole(value) => push_u64(out, *value),
        Field::Signed(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::Real(value) if value.is_finite() => {
            out.extend_from_slice(general(*value).as_bytes());
        }
        Field::Real(_) => out.extend_from_slice(b"null"),
        Field::Flag(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Field::List(list) => {
            out.push(b'[');
            for (i, value) in list.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                push_u64(out, u64::from(*value));
            }
            out.push(b']');
        }
        Field::Map(map) => {
            out.push(b'{');
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                push_json_string(out, key);
                out.push(b':');
                push_json_string(out, value);
            }
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_cannot_say_becomes_null() {
        let show = |value: f64| {
            let mut out = Vec::new();
            push_field(&mut out, &Field::Real(value));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(show(f64::NAN), "null");
        assert_eq!(show(f64::INFINITY), "null");
        assert_eq!(show(1.162_96e-6), "1.16296e-06");
    }

    #[test]
    fn a_flood_of_errors_is_one_line_and_counted_in_full() {
        let mut file = Vec::new();
        let mut lines = Lines::new(&mut file, Process { pid: 1, tid: 2 });
        lines.errors("twice", 8).unwrap();
        lines.errors("many", 1_000_000).unwrap();
        let counts = lines.finish().unwrap();
        assert_eq!(counts, Counts { errors: 1_000_008, warnings: 0 });
        let text = String::from_utf8(file).unwrap();
        assert_eq!(text.lines().count(), 9);
        assert!(text.contains("\"many (1000000 times)\""));
    }
}
