//! Words of the CMU Pronouncing Dictionary as letters, drawn with a seed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use dyno_loadgen::rng::Mt19937;
use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
use dyno_tensors::files;

use super::{FileError, SampleSet};
use crate::files::{CacheKey, Files, OpenError};

/// Seed of the draw.
const SEED: u64 = 20_061_021;

/// Padding of words that are shorter than the longest.
const PADDING: i64 = 0;
/// Number of the end of a word.
const END: i64 = 2;
/// Number of the letter `a`; the others follow.
const FIRST: i64 = 3;

/// Opens words of a dictionary as samples and derives the list of the drawn words.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let card = files.card();
    let input = &card.data.inputs[0].name;
    let dictionary = files.path("dictionary")?;
    let count = usize::try_from(card.data.accuracy_samples).unwrap_or(usize::MAX);
    let drawn = draw(&dictionary, count).map_err(OpenError::content)?;
    let samples = self::samples(&drawn, input).map_err(OpenError::content)?;
    let list = files.derive("words", 1, CacheKey::Files(&["dictionary"]), |file| {
        file.write_all(drawn.join("\n").as_bytes()).map_err(OpenError::content)
    })?;
    let references = BTreeMap::from([("words".to_owned(), list)]);
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

/// Draws `count` words of a dictionary: the words that consist of the letters a to z, in the order
/// of the file, are shuffled as `std::shuffle` does with `std::mt19937`, and the first are taken.
///
/// # Errors
/// [`FileError`] if the dictionary is missing or has too few words.
pub fn draw(dictionary: &Path, count: usize) -> Result<Vec<String>, FileError> {
    let text = files::read_to_string(dictionary)
        .map_err(|error| FileError::from_problem(dictionary, error))?;
    let mut words: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        // Further pronunciations have the form `word(2)`.
        .filter(|word| word.bytes().all(|letter| letter.is_ascii_lowercase()))
        .collect();
    // Duplicates are adjacent in a sorted file.
    words.dedup();
    if words.len() < count {
        let expected = format!("{count} words of letters alone");
        return Err(FileError::new(dictionary, expected, words.len()));
    }
    Mt19937::new(SEED).shuffle(&mut words);
    Ok(words[..count].iter().map(|word| (*word).to_owned()).collect())
}

/// Returns the letters of each word as numbers, followed by the end and padded to the longest word.
///
/// # Errors
/// [`FileError`] if there are no words.
///
/// # Panics
/// Panics if a word has other letters than a to z.
pub fn samples(words: &[String], input: &str) -> Result<TensorLibrary, FileError> {
    let longest = words.iter().map(String::len).max().unwrap_or(0) + 1;
    let mut numbers = Vec::with_capacity(words.len() * longest);
    for word in words {
        let number = |letter: u8| {
            assert!(letter.is_ascii_lowercase(), "words are of letters alone");
            FIRST + i64::from(letter - b'a')
        };
        numbers.extend(word.bytes().map(number));
        numbers.push(END);
        numbers.resize(numbers.len() + longest - word.len() - 1, PADDING);
    }
    let tensor = Tensor {
        name: input.to_owned(),
        sample_shape: vec![longest],
        elements: Elements::I64(numbers.into()),
    };
    TensorLibrary::new("words", vec![tensor], None).map_err(FileError::from_text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn dictionary(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dyno-words-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn words_are_drawn_once_and_of_letters_alone() {
        let path =
            dictionary("few", "'bout B\na AH0\na(2) EY1\na's EY1 Z\nbe B IY1\ncat K # pet\n");
        let mut words = draw(&path, 3).unwrap();
        assert_eq!(draw(&path, 2).unwrap(), words[..2]);
        words.sort();
        assert_eq!(words, ["a", "be", "cat"]);
        let error = draw(&path, 4).unwrap_err().to_string();
        assert!(error.ends_with("few: expected 4 words of letters alone, found 3"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = draw(&path, 1).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
    }

    #[test]
    fn words_are_numbers_with_an_end_and_padding() {
        let words = ["cab".to_owned(), "z".to_owned()];
        let library = samples(&words, "letters").unwrap();
        let sample = library.sample(1).unwrap();
        let [(name, letters)] = &sample[..] else { panic!("one input") };
        assert_eq!((*name, &letters.shape[..]), ("letters", &[4][..]));
        assert_eq!(letters.elements, Elements::I64(vec![28, 2, 0, 0].into()));
        let sample = library.sample(0).unwrap();
        assert_eq!(sample[0].1.elements, Elements::I64(vec![5, 3, 4, 2].into()));
    }
}
