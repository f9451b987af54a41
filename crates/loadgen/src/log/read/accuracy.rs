//! Parser of `mlperf_log_accuracy.json`, one entry at a time: the file may be larger than memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::str::FromStr;

use super::{LogReadProblem, ProblemKind, open_file};

/// Entry of an accuracy log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccuracyEntry {
    /// Line of the file, from 1.
    pub line: usize,
    /// Sequence number of the sample within the test.
    pub seq_id: u64,
    /// Index in the data set.
    pub qsl_idx: u64,
    /// Answer of the system.
    pub data: Vec<u8>,
    /// Payload of the first token.
    pub token_data: Option<Vec<u8>>,
    /// Output tokens.
    pub token_count: Option<i64>,
}

/// Reads an accuracy log entry by entry. Its last item is a problem if the log is incomplete.
///
/// Digits are decoded as they are read, because an answer may have a hundred million of them in one
/// line.
#[derive(Debug)]
pub struct AccuracyReader<R> {
    source: R,
    /// Line of the last byte that was examined, from 1.
    line: usize,
    /// Whether the next byte is the first of another line.
    starts_line: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the opening bracket.
    Start,
    /// After the bracket: an entry or the end.
    First,
    /// After an entry: a comma or the end.
    After,
    /// After a comma: an entry.
    Next,
    /// After the closing bracket: nothing more.
    Done,
    /// After a problem: the following entries cannot be identified.
    Lost,
}

const LAYOUT: ProblemKind =
    ProblemKind::Foreign { expected: "an entry such as { \"seq_id\" : 0, ... }" };
const CUT: ProblemKind = ProblemKind::Truncated { expected: "the rest of an entry" };

/// Key or number.
#[derive(Default)]
struct Word {
    bytes: [u8; 32],
    /// Length; larger than the array if the word is too long.
    length: usize,
}

impl Word {
    fn push(&mut self, more: &[u8]) {
        if let Some(to) = self.bytes.get_mut(self.length..self.length + more.len()) {
            to.copy_from_slice(more);
        }
        self.length += more.len();
    }

    /// Returns the bytes; empty if the word is too long.
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Opens an accuracy log.
///
/// # Errors
/// The file cannot be opened.
pub fn open_accuracy(path: &Path) -> io::Result<AccuracyReader<BufReader<File>>> {
    Ok(AccuracyReader::new(BufReader::with_capacity(1 << 18, open_file(path)?)))
}

impl<R: BufRead> AccuracyReader<R> {
    /// Reads from `source`.
    pub fn new(source: R) -> Self {
        Self { source, line: 0, starts_line: true, state: State::Start }
    }

    /// Returns the next entry and appends its data to `data` instead of the entry, so that one
    /// buffer can hold many answers.
    pub fn next_into(
        &mut self,
        data: &mut Vec<u8>,
    ) -> Option<Result<AccuracyEntry, LogReadProblem>> {
        if self.state == State::Lost {
            return None;
        }
        let entry = self.entry_or_end(data).map_err(|kind| {
            self.state = State::Lost;
            LogReadProblem { line: self.line.max(1), kind }
        });
        entry.transpose()
    }

    fn entry_or_end(&mut self, data: &mut Vec<u8>) -> Result<Option<AccuracyEntry>, ProblemKind> {
        loop {
            let byte = self.peek()?;
            let expected = match self.state {
                State::Start => "`[` at the start",
                State::First => "an entry or `]`",
                State::After => "`,` or `]`",
                State::Next => "an entry",
                State::Done | State::Lost => "nothing after `]`",
            };
            self.state = match (self.state, byte) {
                (State::Done, None) => return Ok(None),
                (_, None) => return Err(ProblemKind::Truncated { expected }),
                (State::Start, Some(b'[')) => State::First,
                (State::After, Some(b',')) => State::Next,
                (State::First | State::After, Some(b']')) => State::Done,
                (State::First | State::Next, Some(b'{')) => {
                    let entry = match self.entry_as_written(data)? {
                        Some(entry) => entry,
                        None => {
                            self.source.consume(1);
                            self.entry(data)?
                        }
                    };
                    self.state = State::After;
                    return Ok(Some(entry));
                }
                _ => return Err(ProblemKind::Foreign { expected }),
            };
            self.source.consume(1);
        }
    }

    /// Parses a short entry that is complete in the buffer and in the exact form of LoadGen, as
    /// almost all entries of large logs are. Returns `None` and consumes nothing for other entries.
    fn entry_as_written(
        &mut self,
        data: &mut Vec<u8>,
    ) -> Result<Option<AccuracyEntry>, ProblemKind> {
        /// Maximum length; the beginning of a longer entry is read twice.
        const SHORT: usize = 1 << 12;
        let (line, start) = (self.line, data.len());
        let buffer = self.buffer()?;
        let text = &buffer[..buffer.len().min(SHORT)];
        let read = as_written(text, data);
        let Some((seq_id, qsl_idx, rest)) = read else {
            data.truncate(start);
            return Ok(None);
        };
        let used = text.len() - rest;
        self.source.consume(used);
        Ok(Some(AccuracyEntry { line, seq_id, qsl_idx, ..AccuracyEntry::default() }))
    }

    /// Parses an entry after its brace.
    fn entry(&mut self, data: &mut Vec<u8>) -> Result<AccuracyEntry, ProblemKind> {
        let mut entry = AccuracyEntry { line: self.line, ..AccuracyEntry::default() };
        let (mut seq_id, mut qsl_idx, mut has_data) = (None, None, false);
        loop {
            let mut key = Word::default();
            if !self.eat(b'"')? {
                return Err(LAYOUT);
            }
            self.until(|byte| matches!(byte, b'"' | b'\\'), &mut key)?;
            if !self.eat(b'"')? || !self.eat(b':')? {
                return Err(LAYOUT);
            }
            let repeated = match key.bytes() {
                b"seq_id" if seq_id.is_some() => Some("seq_id"),
                b"qsl_idx" if qsl_idx.is_some() => Some("qsl_idx"),
                b"data" if has_data => Some("data"),
                b"token_data" if entry.token_data.is_some() => Some("token_data"),
                b"token_count" if entry.token_count.is_some() => Some("token_count"),
                _ => None,
            };
            if let Some(field) = repeated {
                return Err(ProblemKind::Repeated { field });
            }
            match key.bytes() {
                b"seq_id" => seq_id = Some(self.integer("seq_id")?),
                b"qsl_idx" => qsl_idx = Some(self.integer("qsl_idx")?),
                b"data" => {
                    self.hex("data", data)?;
                    has_data = true;
                }
                b"token_data" => {
                    let tokens = entry.token_data.insert(Vec::new());
                    self.hex("token_data", tokens)?;
                }
                b"token_count" => entry.token_count = Some(self.integer("token_count")?),
                _ => return Err(LAYOUT),
            }
            if !self.eat(b',')? {
                break;
            }
        }
        if !self.eat(b'}')? {
            return Err(LAYOUT);
        }
        let missing = |field| ProblemKind::Field { field };
        entry.seq_id = seq_id.ok_or(missing("seq_id"))?;
        entry.qsl_idx = qsl_idx.ok_or(missing("qsl_idx"))?;
        if has_data { Ok(entry) } else { Err(missing("data")) }
    }

    /// Returns the next buffered bytes; empty at the end.
    #[inline]
    fn buffer(&mut self) -> Result<&[u8], ProblemKind> {
        loop {
            // Not returned from the match, because the borrow would last too long.
            match self.source.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ProblemKind::Io { message: error.to_string() }),
            }
        }
        self.source.fill_buf().map_err(|error| ProblemKind::Io { message: error.to_string() })
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    fn peek(&mut self) -> Result<Option<u8>, ProblemKind> {
        loop {
            let Some(byte) = self.buffer()?.first().copied() else { return Ok(None) };
            self.line += usize::from(self.starts_line);
            self.starts_line = byte == b'\n';
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.source.consume(1);
        }
    }

    /// Skips white space and consumes `byte` if it is next.
    #[inline]
    fn eat(&mut self, byte: u8) -> Result<bool, ProblemKind> {
        let found = self.peek()?.ok_or(CUT)? == byte;
        self.source.consume(found.into());
        Ok(found)
    }

    /// Consumes everything before a byte that `ends` a word.
    #[inline]
    fn until(&mut self, ends: impl Fn(u8) -> bool, word: &mut Word) -> Result<(), ProblemKind> {
        loop {
            let buffer = self.buffer()?;
            if buffer.is_empty() {
                return Err(CUT);
            }
            let end = buffer.iter().position(|byte| ends(*byte));
            let read = end.unwrap_or(buffer.len());
            word.push(&buffer[..read]);
            self.source.consume(read);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// Consumes a whole number.
    fn integer<T: FromStr>(&mut self, field: &'static str) -> Result<T, ProblemKind> {
        self.peek()?;
        let mut word = Word::default();
        let is_end = |byte: u8| {
            matches!(byte, b',' | b']' | b'}' | b'"' | b':') || byte.is_ascii_whitespace()
        };
        self.until(is_end, &mut word)?;
        let number = std::str::from_utf8(word.bytes()).ok().and_then(|word| word.parse().ok());
        number.ok_or(ProblemKind::Field { field })
    }

    /// Consumes a string of hexadecimal digits, two per byte, and appends the bytes.
    fn hex(&mut self, field: &'static str, bytes: &mut Vec<u8>) -> Result<(), ProblemKind> {
        let bad = || ProblemKind::Field { field };
        if !self.eat(b'"')? {
            return Err(bad());
        }
        // First digit of a pair that is split between two buffers.
        let mut parted = None;
        loop {
            let buffer = self.buffer()?;
            let Some(first) = buffer.first().copied() else { return Err(CUT) };
            if let Some(high) = parted.take() {
                bytes.push(pair(high, first).ok_or_else(bad)?);
                self.source.consume(1);
                continue;
            }
            let read = decode(buffer, bytes);
            let rest = &buffer[read..];
            match rest {
                [] => self.source.consume(read),
                [b'"', ..] => {
                    self.source.consume(read + 1);
                    return Ok(());
                }
                [one] => {
                    parted = Some(*one);
                    self.source.consume(read + 1);
                }
                _ => return Err(bad()),
            }
        }
    }
}

impl<R: BufRead> Iterator for AccuracyReader<R> {
    type Item = Result<AccuracyEntry, LogReadProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut data = Vec::new();
        let entry = self.next_into(&mut data)?;
        Some(entry.map(|entry| AccuracyEntry { data, ..entry }))
    }
}

/// Parses the entry at the start of `text` and appends its data. Returns both numbers and how many
/// bytes follow.
fn as_written(text: &[u8], data: &mut Vec<u8>) -> Option<(u64, u64, usize)> {
    let (seq_id, rest) = number(text.strip_prefix(b"{ \"seq_id\" : ")?)?;
    let (qsl_idx, rest) = number(rest.strip_prefix(b", \"qsl_idx\" : ")?)?;
    let rest = rest.strip_prefix(b", \"data\" : \"")?;
    let rest = rest[decode(rest, data)..].strip_prefix(b"\" }")?;
    Some((seq_id, qsl_idx, rest.len()))
}

/// Parses the number at the start of `text`; returns it and the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    /// Maximum digits: every number with this many digits fits.
    const MOST: usize = 19;
    let digits = text.iter().take(MOST + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=MOST).contains(&digits) {
        return None;
    }
    let (number, rest) = text.split_at(digits);
    Some((number.iter().fold(0, |value, digit| 10 * value + u64::from(digit - b'0')), rest))
}

/// Decodes the pairs of digits at the start of `digits`, appends the bytes, and returns the number
/// of digits read.
fn decode(digits: &[u8], bytes: &mut Vec<u8>) -> usize {
    const BLOCK: usize = 32;
    let (pairs, _) = digits.as_chunks::<2>();
    let (blocks, _) = digits.as_chunks::<{ 2 * BLOCK }>();
    let mut read = 0;
    for block in blocks {
        // Arithmetic rather than a table, and digits before pairs of them, so that it compiles
        // to vectors.
        let values = block.map(digit);
        if values.iter().fold(0, |all, value| all | value) & 0xf0 != 0 {
            break;
        }
        let (pairs, _) = values.as_chunks::<2>();
        let mut of_block = [0; BLOCK];
        for (byte, pair) in of_block.iter_mut().zip(pairs) {
            let pair = u16::from_le_bytes(*pair);
            *byte = (pair << 4 | pair >> 8) as u8;
        }
        bytes.extend_from_slice(&of_block);
        read += BLOCK;
    }
    for [high, low] in &pairs[read..] {
        let Some(byte) = pair(*high, *low) else { break };
        bytes.push(byte);
        read += 1;
    }
    2 * read
}

fn pair(high: u8, low: u8) -> Option<u8> {
    let (high, low) = (digit(high), digit(low));
    ((high | low) & 0xf0 == 0).then_some(high << 4 | low)
}

/// Returns the value of a digit; a value above 15 for other bytes.
#[inline]
fn digit(byte: u8) -> u8 {
    let (decimal, letter) = (byte.wrapping_sub(b'0'), (byte | 0x20).wrapping_sub(b'a'));
    if decimal < 10 {
        decimal
    } else if letter < 6 {
        letter + 10
    } else {
        0xff
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<AccuracyEntry>, LogReadProblem> {
        AccuracyReader::new(text.as_bytes()).collect()
    }

    #[test]
    fn entries_with_and_without_tokens() {
        let log = "[\n{ \"seq_id\" : 4, \"qsl_idx\" : 13, \"data\" : \"0D00\", \"token_data\" : \"fF\", \
                   \"token_count\" : -5 },\n{ \"seq_id\" : 0, \"qsl_idx\" : 1, \"data\" : \"\" }\n]\n";
        let entries = read(log).unwrap();
        assert_eq!(
            entries[0],
            AccuracyEntry {
                line: 2,
                seq_id: 4,
                qsl_idx: 13,
                data: vec![13, 0],
                token_data: Some(vec![255]),
                token_count: Some(-5),
            }
        );
        assert_eq!((entries[1].line, entries[1].qsl_idx), (3, 1));
        assert_eq!(read("[\n]\n").unwrap(), []);
        let one_line = "[{\"data\":\"01\",\"seq_id\":0,\"qsl_idx\":2},{\"data\":\"02\",\"seq_id\":1,\"qsl_idx\":3}]";
        assert_eq!(read(one_line).unwrap().len(), 2);
    }

    #[test]
    fn entries_read_the_same_wherever_the_buffer_ends() {
        let log = "[\n{ \"seq_id\" : 14, \"qsl_idx\" : 13, \"data\" : \"0Daf42\", \"token_data\" : \
                   \"\", \"token_count\" : -5 }\n]\n";
        let expected = read(log).unwrap();
        assert_eq!(expected[0].data, [0x0d, 0xaf, 0x42]);
        for capacity in 1..log.len() {
            let source = BufReader::with_capacity(capacity, log.as_bytes());
            let found: Result<Vec<_>, _> = AccuracyReader::new(source).collect();
            assert_eq!(found.as_ref(), Ok(&expected), "{capacity}");
        }
    }

    #[test]
    fn long_answers_decode_in_blocks_and_in_digits() {
        for length in [31, 32, 33, 100] {
            let data: Vec<u8> = (0..length).map(|at| (37 * at) as u8).collect();
            let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
            let log = |digits: &str| {
                format!("[\n{{ \"seq_id\" : 0, \"qsl_idx\" : 1, \"data\" : \"{digits}\" }}\n]\n")
            };
            let mut all = vec![9];
            let log_of_one = log(&digits);
            let mut reader = AccuracyReader::new(log_of_one.as_bytes());
            let entry = reader.next_into(&mut all).unwrap().unwrap();
            assert_eq!((entry.data, &all[1..]), (Vec::new(), &data[..]));
            for (at, other) in [(0, "g"), (2 * length - 1, "/"), (length, ":"), (3, "\u{7f}")] {
                let mut wrong = digits.clone();
                wrong.replace_range(at..at + 1, other);
                assert!(read(&log(&wrong)).is_err(), "{length} {at}");
            }
            assert!(read(&log(&digits[1..])).is_err(), "an odd digit");
        }
    }

    #[test]
    fn an_interrupted_log_is_an_error_with_its_line() {
        let whole = "[\n{ \"seq_id\" : 0, \"qsl_idx\" : 1, \"data\" : \"01\" },\n{ \"seq_id\" : 1, \"qsl_idx\" : 2, \"data\" : \"02\" }\n]\n";
        assert_eq!(read(whole).unwrap().len(), 2);
        for cut in 0..whole.len() - 2 {
            let problem = read(&whole[..cut]).unwrap_err();
            assert!(matches!(problem.kind, ProblemKind::Truncated { .. }), "{cut}: {problem}");
            assert_eq!(problem.line, whole[..cut].lines().count().max(1), "{cut}");
        }
    }

    #[test]
    fn a_wrong_entry_is_named() {
        for (text, expected) in [
            (
                "[\n{ \"seq_id\" : 1, \"qsl_idx\" : 1, \"data\" : \"01\", \"data\" : \"02\" }\n]\n",
                "line 2: field `data` occurs twice",
            ),
            (
                "[\n{ \"seq_id\" : 1, \"qsl_idx\" : 1, \"qsl_idx\" : 1, \"data\" : \"01\" }\n]\n",
                "line 2: field `qsl_idx` occurs twice",
            ),
            (
                "[\n{ \"seq_id\" : x, \"qsl_idx\" : 1, \"data\" : \"01\" }\n]\n",
                "line 2: field `seq_id`",
            ),
            (
                "[\n{ \"seq_id\" : 1, \"qsl_idx\" : 1, \"data\" : \"0G\" }\n]\n",
                "line 2: field `data`",
            ),
            ("[\n{ \"seq_id\" : 1, \"qsl_idx\" : 1 }\n]\n", "line 2: field `data`"),
            ("{}\n", "line 1: expected `[`"),
            ("[\n]\nmore\n", "line 3: expected nothing after"),
        ] {
            let problem = read(text).unwrap_err().to_string();
            assert!(problem.starts_with(expected), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic_or_hang(bytes: Vec<u8>, text in "[\\[\\]{}\",: a0\\n]{0,80}") {
            prop_assert!(AccuracyReader::new(&bytes[..]).count() <= bytes.len() + 1);
            prop_assert!(AccuracyReader::new(text.as_bytes()).count() <= text.len() + 1);
        }
    }
}
