//! Longest common subsequence of two texts, computed for 64 positions at a time.
//!
//! Source: Hyyrö, *Bit-parallel LCS-length computation revisited*, 2004.

/// Positions of each word of a text, one bit per position.
///
/// ```
/// use dyno_metrics::summarization::sequence::Places;
///
/// let places = Places::new(&[1, 2, 3, 4]);
/// assert_eq!(places.longest_common(&[2, 9, 4]), 2);
/// let mut is_common = [false; 4];
/// places.mark(&[2, 9, 4], &mut is_common);
/// assert_eq!(is_common, [false, true, false, true]);
/// ```
#[derive(Debug)]
pub struct Places<'a> {
    text: &'a [u32],
    /// Words of the text, sorted and distinct.
    distinct: Vec<u32>,
    /// A row of bits per distinct word.
    rows: Vec<u64>,
    /// Width of a row, in numbers of 64 bits.
    width: usize,
}

impl<'a> Places<'a> {
    /// Creates the table of a text.
    pub fn new(text: &'a [u32]) -> Self {
        let mut distinct = text.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let width = text.len().div_ceil(64);
        let mut rows = vec![0; width * distinct.len()];
        for (at, word) in text.iter().enumerate() {
            let row = distinct.binary_search(word).expect("each word is among the distinct");
            rows[row * width + at / 64] |= 1 << (at % 64);
        }
        Self { text, distinct, rows, width }
    }

    /// Returns the bits for an empty other text.
    fn initial_bits(&self) -> Vec<u64> {
        vec![u64::MAX; self.width]
    }

    /// Adds a word of the other text. The bit of a position is 0 if the longest common subsequence
    /// up to it is longer than up to the position before.
    fn step(&self, bits: &mut [u64], word: u32) {
        let Ok(row) = self.distinct.binary_search(&word) else { return };
        let places = &self.rows[row * self.width..][..self.width];
        let mut carry = false;
        for (bits, places) in bits.iter_mut().zip(places) {
            let (sum, is_over) = bits.overflowing_add(*bits & places);
            let (sum, is_over_again) = sum.overflowing_add(u64::from(carry));
            carry = is_over || is_over_again;
            *bits = sum | (*bits & !places);
        }
    }

    /// Returns the length of the longest common subsequence with another text. O(words of the one ×
    /// words of the other / 64).
    pub fn longest_common(&self, other: &[u32]) -> usize {
        let mut bits = self.initial_bits();
        other.iter().for_each(|word| self.step(&mut bits, *word));
        bits.iter().map(|bits| bits.count_zeros() as usize).sum()
    }

    /// Marks the positions of the longest common subsequence that `rouge_score` selects.
    pub fn mark(&self, other: &[u32], is_common: &mut [bool]) {
        let mut rows = self.initial_bits();
        for (at, word) in other.iter().enumerate() {
            rows.extend_from_within(at * self.width..);
            self.step(&mut rows[(at + 1) * self.width..], *word);
        }
        let (mut place, mut at) = (self.text.len(), other.len());
        while place > 0 && at > 0 {
            let bits = rows[at * self.width + (place - 1) / 64];
            if self.text[place - 1] == other[at - 1] {
                (place, at) = (place - 1, at - 1);
                is_common[place] = true;
            } else if bits >> ((place - 1) % 64) & 1 == 0 {
                at -= 1;
            } else {
                place -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Computes all lengths by the textbook recurrence.
    fn table(text: &[u32], other: &[u32]) -> Vec<Vec<usize>> {
        let mut lengths = vec![vec![0; other.len() + 1]; text.len() + 1];
        for (row, word) in text.iter().enumerate() {
            for (at, found) in other.iter().enumerate() {
                lengths[row + 1][at + 1] = if word == found {
                    lengths[row][at] + 1
                } else {
                    lengths[row][at + 1].max(lengths[row + 1][at])
                };
            }
        }
        lengths
    }

    /// Traces back through the table as `rouge_score` does.
    fn marked(text: &[u32], other: &[u32]) -> Vec<bool> {
        let lengths = table(text, other);
        let mut is_common = vec![false; text.len()];
        let (mut row, mut at) = (text.len(), other.len());
        while row > 0 && at > 0 {
            if text[row - 1] == other[at - 1] {
                (row, at) = (row - 1, at - 1);
                is_common[row] = true;
            } else if lengths[row][at - 1] > lengths[row - 1][at] {
                at -= 1;
            } else {
                row -= 1;
            }
        }
        is_common
    }

    proptest! {
        #[test]
        fn bits_say_what_the_table_says(
            text in vec(0_u32..12, 0..150),
            other in vec(0_u32..14, 0..90),
        ) {
            let places = Places::new(&text);
            prop_assert_eq!(places.longest_common(&other), table(&text, &other)[text.len()][other.len()]);
            let mut is_common = vec![false; text.len()];
            places.mark(&other, &mut is_common);
            prop_assert_eq!(is_common, marked(&text, &other));
        }
    }
}
