//! The responses that are kept for the accuracy log.

use super::LoggedResponse;

/// Logged responses in completion order.
///
/// A response is stored as a head of 8-byte words (sequence number, length of the data; with tokens
/// also their count and the length of the first token plus 1), followed by the bytes.
#[derive(Debug, Clone, Default)]
pub struct Responses {
    /// Each segment is full when the next one begins. Segments never grow, so that no byte is
    /// copied twice.
    segments: Vec<Vec<u8>>,
    len: usize,
}

/// Flag in the sequence number: a token count and a first token follow.
const HAS_TOKENS: u64 = 1 << 63;
const FIRST_SEGMENT: usize = 4 << 10;
const LARGEST_SEGMENT: usize = 4 << 20;

impl Responses {
    /// Copies one response.
    pub fn push(&mut self, response: &LoggedResponse<'_>) {
        let first_token = response.first_token.unwrap_or_default();
        let bytes = 4 * size_of::<u64>() + response.data.len() + first_token.len();
        let segment = self.segment_with_room(bytes);
        let mut word = |word: u64| segment.extend_from_slice(&word.to_le_bytes());
        let has_tokens = response.first_token.is_some() || response.tokens != 0;
        word(response.sequence | if has_tokens { HAS_TOKENS } else { 0 });
        word(response.data.len() as u64);
        if has_tokens {
            word(response.tokens.cast_unsigned());
            // Plus 1, to distinguish a missing first token from an empty one.
            word(response.first_token.map_or(0, |bytes| bytes.len() as u64 + 1));
        }
        segment.extend_from_slice(response.data);
        segment.extend_from_slice(first_token);
        self.len += 1;
    }

    fn segment_with_room(&mut self, bytes: usize) -> &mut Vec<u8> {
        let last = self.segments.last();
        if last.is_none_or(|last| last.capacity() - last.len() < bytes) {
            let grown = last.map_or(FIRST_SEGMENT, |last| 2 * last.capacity());
            let capacity = grown.min(LARGEST_SEGMENT).max(bytes);
            self.segments.push(Vec::with_capacity(capacity));
        }
        self.segments.last_mut().expect("one with room is the last")
    }

    /// Concatenates several lists.
    #[must_use]
    pub fn joined(lists: Vec<Self>) -> Self {
        let len = lists.iter().map(Self::len).sum();
        Self { segments: lists.into_iter().flat_map(|list| list.segments).collect(), len }
    }

    /// Removes the responses to samples with this sequence number and later ones.
    pub(crate) fn keep_below(&mut self, samples: u64) {
        let mut kept = Self::default();
        for response in self.iter().filter(|response| response.sequence < samples) {
            kept.push(&response);
        }
        *self = kept;
    }

    /// Returns the number of responses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no responses.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all responses, in completion order.
    pub fn iter(&self) -> impl Iterator<Item = LoggedResponse<'_>> {
        self.segments.iter().flat_map(|segment| Entries { rest: segment })
    }
}

/// Compares the responses, independent of their segments.
impl PartialEq for Responses {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Responses {}

/// Iterator over the responses of a segment.
struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = LoggedResponse<'a>;

    fn next(&mut self) -> Option<LoggedResponse<'a>> {
        let sequence = self.word()?;
        let data = self.word()?;
        let (tokens, first_token) = if sequence & HAS_TOKENS == 0 {
            (0, 0)
        } else {
            (self.word()?.cast_signed(), self.word()?)
        };
        let data = self.bytes(data)?;
        let first_token = match first_token.checked_sub(1) {
            Some(len) => Some(self.bytes(len)?),
            None => None,
        };
        Some(LoggedResponse { sequence: sequence & !HAS_TOKENS, data, first_token, tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 10] =
        [0, 1, 4, 0, 4_000, 100, LARGEST_SEGMENT + 77, 3, LARGEST_SEGMENT - 8, 9];

    fn response(payload: &[u8], i: usize) -> LoggedResponse<'_> {
        let first_token = match i % 3 {
            0 => None,
            1 => Some(&payload[..0]),
            _ => Some(&payload[5..17]),
        };
        let (data, tokens) = (&payload[..SIZES[i % SIZES.len()]], [0, 7, -1][i % 3]);
        LoggedResponse { sequence: i as u64, data, first_token, tokens }
    }

    #[test]
    fn responses_of_any_size_come_back_in_order() {
        let payload: Vec<u8> = (0..=255).cycle().take(LARGEST_SEGMENT + 77).collect();
        let mut lists = [Responses::default(), Responses::default()];
        (0..15).for_each(|i| lists[0].push(&response(&payload, i)));
        (15..31).for_each(|i| lists[1].push(&response(&payload, i)));
        let mut all = Responses::joined(lists.into());
        assert_eq!(all.len(), 31);
        assert!(all.iter().eq((0..31).map(|i| response(&payload, i))));
        all.keep_below(20);
        assert_eq!(all.len(), 20);
        assert!(all.iter().eq((0..20).map(|i| response(&payload, i))));
    }
}
