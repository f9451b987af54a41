//! Levenshtein distance: the minimum number of items to change, insert or delete that makes two
//! sequences equal.
//!
//! Source: Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic
//! programming" (Journal of the ACM 46, 1999), in Hyyrö's form for distances: two words of bits
//! encode where a column of the distance table rises and where it falls.

/// Maximum length of a sequence that fits in a word of bits.
const BITS: usize = u64::BITS as usize;

/// Returns the distance of two sequences. O(length of the one × length of the other).
pub fn distance<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[same..], &other[same..]);
    let pairs = one.iter().rev().zip(other.iter().rev());
    let same = pairs.take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[..one.len() - same], &other[..other.len() - same]);
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    match short.len() {
        0 => long.len(),
        1..=BITS => bit_vector_distance(short, long),
        _ => row_distance(short, long),
    }
}

/// Computes the distance with words of bits. `short` must have 1 to [`BITS`] items.
fn bit_vector_distance<T: PartialEq>(short: &[T], long: &[T]) -> usize {
    let last = 1 << (short.len() - 1);
    let (mut rises, mut falls, mut distance) = (!0_u64, 0_u64, short.len());
    for item in long {
        let equal = short
            .iter()
            .rev()
            .fold(0, |bits, short_item| bits << 1 | u64::from(short_item == item));
        let diagonal = (((equal & rises).wrapping_add(rises)) ^ rises) | equal | falls;
        let (up, down) = (falls | !(diagonal | rises), rises & diagonal);
        distance += usize::from(up & last != 0);
        distance -= usize::from(down & last != 0);
        // The first row of the table rises with every item.
        let (up, down) = (up << 1 | 1, down << 1);
        rises = down | !(diagonal | up);
        falls = up & diagonal;
    }
    distance
}

/// Computes the distance row by row.
fn row_distance<T: PartialEq>(short: &[T], long: &[T]) -> usize {
    let mut row: Vec<usize> = (0..=short.len()).collect();
    for (before, item) in long.iter().enumerate() {
        let (mut diagonal, mut left) = (before, before + 1);
        row[0] = left;
        for (short_item, above) in short.iter().zip(&mut row[1..]) {
            let changed = diagonal + usize::from(short_item != item);
            diagonal = *above;
            left = changed.min(left + 1).min(diagonal + 1);
            *above = left;
        }
    }
    row[short.len()]
}

/// Length in bytes from which on a word does not fit in a number.
const LONG: usize = 8;

/// A word with a number for fast comparison: its length and its first bytes.
#[derive(Debug, Clone, Copy)]
pub struct Word<'a> {
    /// The top byte holds the length, at most [`LONG`]; the others hold the first bytes.
    start: u64,
    text: &'a str,
}

impl<'a> Word<'a> {
    pub fn new(text: &'a str) -> Self {
        let (bytes, length) = (text.as_bytes(), text.len().min(LONG));
        let first = match bytes.first_chunk::<{ LONG }>() {
            Some(first) => u64::from_be_bytes(*first) >> 8,
            None => bytes.iter().fold(0, |start, byte| start << 8 | u64::from(*byte)),
        };
        Self { start: (length as u64) << 56 | first, text }
    }
}

impl PartialEq for Word<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start && (self.text.len() < LONG || self.text == other.text)
    }
}

/// Splits a text at white space into words and applies `part` to each.
pub fn words<'a>(text: &'a str, part: impl Fn(&'a str) -> &'a str) -> Vec<Word<'a>> {
    let mut words = Vec::with_capacity(text.len() / 2 + 1);
    let mut put = |word: &'a str| words.push(Word::new(part(word)));
    if !text.is_ascii() {
        text.split_whitespace().for_each(put);
        return words;
    }
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte == b' ' || matches!(byte, b'\t'..=b'\r') {
            if start < at {
                put(&text[start..at]);
            }
            start = at + 1;
        }
    }
    if start < text.len() {
        put(&text[start..]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `strsim` fills the table of the definition.
        #[test]
        fn distances_are_those_of_the_definition(
            one in prop::collection::vec(0_u8..4, 0..90),
            other in prop::collection::vec(0_u8..4, 0..90),
        ) {
            let texts = [&one, &other].map(|short_item| String::from_utf8(short_item.clone()).unwrap());
            let expected = strsim::levenshtein(&texts[0], &texts[1]);
            prop_assert_eq!(distance(&one, &other), expected);
            // A sequence that is too long for a word of bits keeps its ends, since they differ.
            let around = |short_item: &[u8], mark| [&[mark], short_item, &[mark]].concat();
            let (one, other) = (around(&one, 8), around(&other, 9));
            let texts = [&one, &other].map(|short_item| String::from_utf8(short_item.clone()).unwrap());
            prop_assert_eq!(distance(&one, &other), strsim::levenshtein(&texts[0], &texts[1]));
        }
    }

    #[test]
    fn sequences_of_a_word_of_bits_and_one_more_are_told_apart() {
        for length in [1, BITS - 1, BITS, BITS + 1, 2 * BITS] {
            let one: Vec<usize> = (0..length).collect();
            let mut other = one.clone();
            other[0] = length;
            other[length - 1] = length;
            other.insert(length / 2, length);
            let expected = if length == 1 { 2 } else { 3 };
            assert_eq!(distance(&one, &other), expected, "{length}");
            assert_eq!(distance(&other, &[]), length + 1, "{length}");
        }
    }

    #[test]
    fn white_space_is_that_of_unicode() {
        for text in ["", " a  bc\t\u{b}d\u{1c}e\r\n", "a b", "\u{a0}\u{e9} \u{2003}x\u{85}y "] {
            let found = words(text, |word| word);
            let expected: Vec<Word<'_>> = text.split_whitespace().map(Word::new).collect();
            assert!(found == expected, "{found:?} {expected:?}");
        }
        assert!(words("a1 b", |word| word.trim_end_matches('1')) == words("a b", |word| word));
    }

    #[test]
    fn words_are_equal_as_texts_are() {
        let words =
            ["", "a", "b", "ab", "\0", "\0\0", "seven77", "eight888", "eight889", "eight8889"];
        for one in words {
            for other in words {
                assert_eq!(Word::new(one) == Word::new(other), one == other, "{one:?} {other:?}");
            }
        }
    }
}
