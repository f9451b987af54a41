//! `mlperf_log_accuracy.json`, one entry at a time: the file may be larger than
//! memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::cursor::Cursor;
use super::{LogReadProblem, ProblemKind};

/// A kept response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccuracyEntry {
    /// Line of the file, from 1.
    pub line: usize,
    /// Sequence number of the sample within the test.
    pub seq_id: u64,
    /// Which sample of the data set.
    pub qsl_idx: u64,
    /// What the system answered.
    pub data: Vec<u8>,
    /// What came with the first token.
    pub token_data: Option<Vec<u8>>,
    /// Output tokens.
    pub token_count: Option<i64>,
}

/// Reads an accuracy log entry by entry, and ends with a problem if the log does
/// not end as it should.
#[derive(Debug)]
pub struct AccuracyReader<R> {
    source: R,
    bytes: Vec<u8>,
    at: usize,
    line: usize,
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
    /// Nothing more comes.
    Done,
}

/// Opens an accuracy log.
///
/// # Errors
/// The file cannot be opened.
pub fn open_accuracy(path: &Path) -> io::Result<AccuracyReader<BufReader<File>>> {
    Ok(AccuracyReader::new(BufReader::with_capacity(1 << 20, File::open(path)?)))
}

impl<R: BufRead> AccuracyReader<R> {
    /// Reads from `source`.
    pub fn new(source: R) -> Self {
        Self { source, bytes: Vec::new(), at: 0, line: 0, state: State::Start }
    }

    /// The next byte that is no space, reading on where a line ends.
    fn peek(&mut self) -> Result<Option<u8>, ProblemKind> {
        loop {
            let mut cursor = Cursor::new(self.bytes.get(self.at..).unwrap_or(&[]));
            let byte = cursor.peek();
            self.at += cursor.position();
            if byte.is_some() {
                return Ok(byte);
            }
            self.bytes.clear();
            self.at = 0;
            let read = self.source.read_until(b'\n', &mut self.bytes);
            if read.map_err(|error| ProblemKind::Io { message: error.to_string() })? == 0 {
                return Ok(None);
            }
            self.line += 1;
        }
    }

    fn entry(&mut self) -> Result<Option<AccuracyEntry>, ProblemKind> {
        loop {
            let byte = self.peek()?;
            let expected = match self.state {
                State::Start => "`[` at the start",
                State::First => "an entry or `]`",
                State::After => "`,` or `]`",
                State::Next => "an entry",
                State::Done => "nothing after `]`",
            };
            match (self.state, byte) {
                (State::Done, None) => return Ok(None),
                (_, None) => return Err(ProblemKind::Truncated { expected }),
                (State::Start, Some(b'[')) => self.state = State::First,
                (State::After, Some(b',')) => self.state = State::Next,
                (State::First | State::After, Some(b']')) => self.state = State::Done,
                (State::First | State::Next, Some(b'{')) => {
                    let mut cursor = Cursor::new(&self.bytes[self.at..]);
                    let entry = read_entry(self.line, &mut cursor);
                    self.at += cursor.position();
                    let cut = entry.is_err() && !self.bytes.ends_with(b"\n");
                    self.state = State::After;
                    return match entry {
                        Err(_) if cut => {
                            Err(ProblemKind::Truncated { expected: "the rest of an entry" })
                        }
                        entry => entry.map(Some),
                    };
                }
                _ => return Err(ProblemKind::Foreign { expected }),
            }
            self.at += 1;
        }
    }
}

impl<R: BufRead> Iterator for AccuracyReader<R> {
    type Item = Result<AccuracyEntry, LogReadProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        // A problem ends the reading: what follows it cannot be told apart.
        if self.state == State::Done && self.bytes.is_empty() {
            return None;
        }
        match self.entry() {
            Ok(entry) => entry.map(Ok),
            Err(kind) => {
                let line = self.line.max(1);
                self.state = State::Done;
                self.bytes.clear();
                Some(Err(LogReadProblem { line, kind }))
            }
        }
    }
}

fn read_entry(line: usize, cursor: &mut Cursor) -> Result<AccuracyEntry, ProblemKind> {
    let mut entry = AccuracyEntry { line, ..AccuracyEntry::default() };
    let (mut seq_id, mut qsl_idx, mut data) = (None, None, None);
    let layout = ProblemKind::Foreign { expected: "an entry such as { \"seq_id\" : 0, ... }" };
    if !cursor.eat(b'{') {
        return Err(layout);
    }
    loop {
        let key = cursor.plain_string().filter(|_| cursor.eat(b':')).ok_or(layout.clone())?;
        let bad = |field| ProblemKind::Field { field };
        match key {
            b"seq_id" => seq_id = Some(cursor.integer().ok_or(bad("seq_id"))?),
            b"qsl_idx" => qsl_idx = Some(cursor.integer().ok_or(bad("qsl_idx"))?),
            b"data" => data = Some(hex(cursor).ok_or(bad("data"))?),
            b"token_data" => entry.token_data = Some(hex(cursor).ok_or(bad("token_data"))?),
            b"token_count" => {
                entry.token_count = Some(cursor.integer().ok_or(bad("token_count"))?);
            }
            _ => return Err(layout),
        }
        if !cursor.eat(b',') {
            break;
        }
    }
    if !cursor.eat(b'}') {
        return Err(layout);
    }
    let missing = |field| ProblemKind::Field { field };
    entry.seq_id = seq_id.ok_or(missing("seq_id"))?;
    entry.qsl_idx = qsl_idx.ok_or(missing("qsl_idx"))?;
    entry.data = data.ok_or(missing("data"))?;
    Ok(entry)
}

/// A string of hexadecimal digits, two a byte.
fn hex(cursor: &mut Cursor) -> Option<Vec<u8>> {
    let digits = cursor.plain_string()?;
    if digits.len() % 2 != 0 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        let (high, low) = (NIBBLE[usize::from(pair[0])], NIBBLE[usize::from(pair[1])]);
        // 0xff marks what is no digit; a digit has no high bits.
        if (high | low) & 0xf0 != 0 {
            return None;
        }
        bytes.push(high << 4 | low);
    }
    Some(bytes)
}

const NIBBLE: [u8; 256] = {
    let mut table = [0xff; 256];
    let digits = b"0123456789ABCDEF";
    let mut value = 0;
    while value < 16 {
        table[digits[value] as usize] = value as u8;
        table[digits[value].to_ascii_lowercase() as usize] = value as u8;
        value += 1;
    }
    table
};

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
