//! Vocabulary of word pieces: numbers of pieces, and sentences from numbers.
//!
//! Source: `vocab_utils.py`, `iterator_utils.py` and `misc_utils.py` of the `nmt` tutorial.

use std::collections::HashMap;
use std::path::Path;

use dyno_metrics::DataError;
use dyno_tensors::files;

/// First entries of a vocabulary: the unknown piece, the begin and the end of a sentence.
const MARKS: [&str; 3] = ["<unk>", "<s>", "</s>"];
/// Number of the unknown piece.
const UNKNOWN: i64 = 0;
/// Suffix of a piece that is continued by the next.
const GOES_ON: &str = "@@";

/// The pieces of a file, one per line; a piece's number is its line, from 0.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pieces: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Vocabulary {
    pub(super) fn read(path: &Path) -> Result<Self, DataError> {
        let bytes = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            DataError::malformed(path, None, "one piece per line in UTF-8", error.to_string())
        })?;
        let pieces: Vec<String> = text.lines().map(str::to_owned).collect();
        for (line, mark) in (1..).zip(MARKS) {
            let found = pieces.get(line - 1).map_or("the end of the file", String::as_str);
            if found != mark {
                let expected = format!("{mark}: a vocabulary begins with {}", MARKS.join(", "));
                return Err(DataError::malformed(path, line, expected, found));
            }
        }
        // The first number of a duplicate piece counts.
        let mut numbers = HashMap::with_capacity(pieces.len());
        for (number, piece) in (0..).zip(&pieces) {
            numbers.entry(piece.clone()).or_insert(number);
        }
        Ok(Self { pieces, numbers })
    }

    /// Returns the number of pieces.
    pub(super) fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the numbers of pieces that are separated by spaces.
    pub(super) fn numbers(&self, sentence: &str) -> Vec<i64> {
        let pieces = sentence.split(' ').filter(|piece| !piece.is_empty());
        pieces.map(|piece| self.numbers.get(piece).copied().unwrap_or(UNKNOWN)).collect()
    }

    /// Returns the words of these pieces, separated by spaces. An unfinished word at the end is
    /// dropped, as in the tutorial.
    pub(super) fn words(&self, numbers: &[u32]) -> String {
        let mut words = Vec::new();
        let mut word = String::new();
        for number in numbers {
            let piece = self.pieces.get(*number as usize).map_or(MARKS[0], String::as_str);
            match piece.strip_suffix(GOES_ON) {
                Some(part) => word.push_str(part),
                None => {
                    word.push_str(piece);
                    words.push(std::mem::take(&mut word));
                }
            }
        }
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(name: &str, text: &[u8]) -> Result<Vocabulary, DataError> {
        let path = std::env::temp_dir().join(format!("dyno-pieces-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        let found = Vocabulary::read(&path);
        fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn sentences_become_numbers_and_numbers_words() {
        let text = "<unk>\n<s>\n</s>\nHa@@\nus\n.\nus\n".as_bytes();
        let vocabulary = read("whole", text).unwrap();
        assert_eq!(vocabulary.count(), 7);
        assert_eq!(vocabulary.numbers("Ha@@ us  nie . "), [3, 4, 0, 5]);
        assert!(vocabulary.numbers(" ").is_empty());
        assert_eq!(vocabulary.words(&[3, 3, 6, 0, 5, 3]), "HaHaus <unk> .");
        assert_eq!(vocabulary.words(&[]), "");
    }

    #[test]
    fn a_vocabulary_begins_with_its_marks() {
        let error = read("marks", b"<unk>\n<s>\nHa@@\n").unwrap_err().to_string();
        assert!(error.contains(":3: expected </s>: a vocabulary begins with <unk>"), "{error}");
        assert!(error.ends_with("found Ha@@"), "{error}");
        let error = read("short", b"<unk>").unwrap_err().to_string();
        assert!(error.contains(":2: ") && error.ends_with("the end of the file"), "{error}");
        assert!(read("bytes", b"<unk>\n<s>\n</s>\n\xff").is_err());
    }
}
