//! The Number configuration file, which assigns a format to each named object of a program.

use std::collections::HashMap;
use std::fmt;

use thiserror::Error;

use crate::format::{Format, FormatError, Kind, Special};

/// Formats by object name, such as `conv1.weight`, in the order of the file.
///
/// A line of the file holds a name and a format. The format is either as [`Format`] prints it, or a
/// type (FLOAT, FIXED, UFIXED, EXP or BIN, in either case), its bits, and optionally its bias and
/// the exponent bits of a FLOAT. Empty lines and lines that start with `#` or `//` are skipped,
/// except `# radix ieee` (see [`Radix`]). Every bias is written out, and a written file reads back
/// as the same dictionary:
/// ```
/// use dyno_number::{Dictionary, Format};
/// let read: Dictionary = "# LeNet\nconv1.weight EXP 8\nfc1.weight fixed 15 -3\n".parse()?;
/// assert_eq!(read.format("conv1.weight"), Format::exp_with(8, 63)?);
/// assert_eq!(read.format("another"), Format::F32, "unknown names stay as they are");
/// assert_eq!(read.to_string(), "conv1.weight EXP 8 63\nfc1.weight FIXED 15 -3\n");
/// assert_eq!(read.to_string().parse(), Ok(read));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    entries: Vec<(String, Format)>,
    places: HashMap<String, usize>,
}

/// Reading of the bias of FIXED (SPEC A1). It applies to files only: a [`Format`] has a single
/// reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Radix {
    /// A code F has the value F·2^-n_f·2^-B, as the thesis' trace requires.
    #[default]
    Fraction,
    /// A code F has the value F·2^-n_f·2^(1-B), as in equation II.1 for exponents of 0. The same
    /// numbers then have a bias that is one higher. A line `# radix ieee` declares this for all
    /// lines below it.
    Ieee,
}

impl Radix {
    /// Words of the line that declares this reading.
    const IEEE: [&str; 3] = ["#", "radix", "ieee"];

    /// Changes the bias by `by` if the format is a FIXED; returns other formats unchanged.
    fn shifted(format: Format, by: i32) -> Result<Format, FormatError> {
        match (format.kind(), format.special()) {
            (Kind::Fixed, Special::Finite) => format.with_bias(format.bias() + by),
            _ => Ok(format),
        }
    }
}

impl Dictionary {
    /// Returns the text of the file with biases in the given reading.
    ///
    /// # Errors
    /// A bias exceeds its limits in that reading.
    pub fn to_text(&self, radix: Radix) -> Result<String, ConfigErrorKind> {
        if radix == Radix::Fraction {
            return Ok(self.to_string());
        }
        let mut text = Radix::IEEE.join(" ") + "\n";
        for (name, format) in self.iter() {
            let shifted = Radix::shifted(format, 1)
                .map_err(|cause| ConfigErrorKind::Format(name.to_owned(), cause))?;
            text += &format!("{name} {}\n", shifted.words());
        }
        Ok(text)
    }

    /// Returns an empty dictionary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format of an object. A new name is added at the end.
    ///
    /// # Errors
    /// The name is empty, contains white space, or starts like a comment.
    pub fn set(&mut self, name: &str, format: Format) -> Result<(), ConfigErrorKind> {
        let is_comment = name.starts_with('#') || name.starts_with("//");
        if name.is_empty() || is_comment || name.chars().any(char::is_whitespace) {
            return Err(ConfigErrorKind::Name(name.to_owned()));
        }
        if let Some(place) = self.places.get(name) {
            self.entries[*place].1 = format;
        } else {
            self.places.insert(name.to_owned(), self.entries.len());
            self.entries.push((name.to_owned(), format));
        }
        Ok(())
    }

    /// Returns the format of an object; [`Format::F32`] if the dictionary does not name it.
    pub fn format(&self, name: &str) -> Format {
        self.find(name).unwrap_or(Format::F32)
    }

    /// Returns the format of an object, or `None` if the dictionary does not name it.
    pub fn find(&self, name: &str) -> Option<Format> {
        self.places.get(name).map(|place| self.entries[*place].1)
    }

    /// Iterates over names and formats in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Format)> {
        self.entries.iter().map(|(name, format)| (name.as_str(), *format))
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the dictionary is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl fmt::Display for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, format) in self.iter() {
            writeln!(f, "{name} {}", format.words())?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Dictionary {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut dictionary = Self::new();
        let mut radix = Radix::Fraction;
        for (line, text) in (1..).zip(text.lines()) {
            let words: Vec<&str> = text.split_whitespace().collect();
            let [name, words @ ..] = words.as_slice() else { continue };
            if name.starts_with('#') || name.starts_with("//") {
                if [&[*name], words].concat() == Radix::IEEE {
                    radix = Radix::Ieee;
                }
                continue;
            }
            let error = |kind| ConfigError { line, kind };
            if words.is_empty() {
                return Err(error(ConfigErrorKind::NoFormat((*name).to_owned())));
            }
            if dictionary.find(name).is_some() {
                return Err(error(ConfigErrorKind::Twice((*name).to_owned())));
            }
            let read = |words| match radix {
                Radix::Fraction => Format::from_words(words),
                Radix::Ieee => Radix::shifted(Format::from_words(words)?, -1),
            };
            let format = read(words)
                .map_err(|cause| error(ConfigErrorKind::Format((*name).to_owned(), cause)))?;
            dictionary.set(name, format).map_err(error)?;
        }
        Ok(dictionary)
    }
}

/// Error of reading a Number configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {kind}")]
pub struct ConfigError {
    /// Line number, counted from 1.
    pub line: usize,
    /// What is wrong in that line.
    pub kind: ConfigErrorKind,
}

/// What is wrong with an entry of a [`Dictionary`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The name is empty, contains white space, or starts like a comment.
    #[error("expected a name of one word that does not start with # or //, found {0:?}")]
    Name(String),
    /// The name has no format.
    #[error("expected a type and its bits after {0}, such as FIXED 8, found nothing")]
    NoFormat(String),
    /// An earlier line has the same name.
    #[error("expected each name once, found {0} again")]
    Twice(String),
    /// The format of this name is invalid.
    #[error("{0}: {1}")]
    Format(String, FormatError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Dictionary>().expect_err("not a file").to_string()
    }

    #[test]
    fn the_thesis_example_is_read() {
        let text = "conv1.weight EXP 8\n\n  fc1.weight\tFIXED 15 -3  \n// activations\nfc1.input Float 16\n";
        let read: Dictionary = text.parse().unwrap();
        let expected = [
            ("conv1.weight", Format::new(true, 7, 0, 63, crate::Special::Finite).unwrap()),
            ("fc1.weight", Format::new(true, 0, 14, -3, crate::Special::Finite).unwrap()),
            ("fc1.input", Format::F16),
        ];
        assert!(read.iter().eq(expected), "{read}");
        assert_eq!((read.len(), read.is_empty()), (3, false));
    }

    /// SPEC A1: in the other reading of equation II.1 the same FIXED numbers have a bias one
    /// higher. Formats with an exponent do not change.
    #[test]
    fn a1_a_file_may_count_biases_by_the_other_reading() {
        let ours =
            "a.x FIXED 3 -2\nb.x EXP 4 3\nc.x FLOAT 16 15\nd.x BIN 1 2\ne.x UFIXED 4 1\nf.x int8\n";
        let theirs = "# radix ieee\na.x FIXED 3 -1\nb.x EXP 4 3\nc.x FLOAT 16 15\nd.x BIN 1 2\n\
                      e.x UFIXED 4 2\nf.x int8\n";
        let read: Dictionary = ours.parse().unwrap();
        assert_eq!(read.to_text(Radix::Ieee).unwrap(), theirs);
        assert_eq!(theirs.parse(), Ok(read.clone()));
        assert_eq!(read.to_text(Radix::Fraction).unwrap(), ours);
        // Equation II.1 with F = 3, n_f = 2, B = 0: 3/4 * 2^(1 - 0).
        let other: Dictionary = "#  radix ieee\na.x FIXED 3".parse().unwrap();
        assert_eq!(other.format("a.x").decode(3), 1.5);
        // Other comments change nothing.
        let plain: Dictionary = "# radix of ieee\n// radix ieee\na.x FIXED 3".parse().unwrap();
        assert_eq!(plain.format("a.x").decode(3), 0.75);
        let widest: Dictionary = "a.x FIXED 3 512".parse().unwrap();
        let refused = widest.to_text(Radix::Ieee).expect_err("a bias of 513").to_string();
        assert_eq!(refused, "a.x: expected a bias from -512 to 512, found 513");
    }

    #[test]
    fn a_format_is_given_anew() {
        let mut dictionary = Dictionary::new();
        dictionary.set("a.x", Format::F16).unwrap();
        dictionary.set("b.x", Format::INT8).unwrap();
        dictionary.set("a.x", Format::BF16).unwrap();
        assert_eq!(dictionary.to_string(), "a.x FLOAT 16 127 8\nb.x int8\n");
        for name in ["", "a b", "#a", "//a"] {
            let refused = dictionary.set(name, Format::F32);
            assert_eq!(refused, Err(ConfigErrorKind::Name(name.to_owned())));
        }
        assert_eq!(dictionary.len(), 2);
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        assert_eq!(
            error("a.x FIXED 8\n\na.x EXP 3\n"),
            "line 3: expected each name once, found a.x again"
        );
        assert_eq!(
            error("a.x"),
            "line 1: expected a type and its bits after a.x, such as FIXED 8, found nothing"
        );
        assert_eq!(error("a.x FIXED 33"), "line 1: a.x: expected 1 to 32 bits of FIXED, found 33");
        let most = error("a.x UFIXED 32 0");
        assert_eq!(most, "line 1: a.x: expected 1 to 31 bits of UFIXED, found 32");
        assert_eq!(
            error("a.x FIXED 8 600"),
            "line 1: a.x: expected a bias from -512 to 512, found 600"
        );
        assert!(error("a.x FIXD 8").starts_with("line 1: a.x: expected a format such as I3(-2)"));
        assert!(error("a.x FIXED 8 2 3").ends_with("found \"FIXED 8 2 3\""));
        assert!(error("a.x FLOAT 8 2 8").contains("8 bits of exponent"));
    }
}
