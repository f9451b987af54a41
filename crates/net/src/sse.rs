//! Parser of server-sent events from bytes that are cut anywhere.
//!
//! Source: HTML Living Standard, section 9.2 "Server-sent events". Text is not decoded: invalid
//! UTF-8 reaches the caller unchanged. `id` and `retry` concern reconnections and are ignored. Older
//! versions of llama.cpp report an error in a field `error`, which the standard does not know: it is
//! read as the data of an event of the type `error`. The standard permits a byte order mark before the
//! first line; some servers write one before each event.
//!
//! Some proxies omit the empty lines between events, and some write errors without `data:`. A parser
//! [for complete lines](Parser::for_lines) reads both. It also passes on an event of the type `error` that
//! has no data or has its words in a comment, as servers of NVIDIA Dynamo write them.

use memchr::memchr2;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its type; empty means `message`.
    pub name: &'a [u8],
    /// Its data, with lines joined by a line feed.
    pub data: &'a [u8],
}

/// An event or a line is longer than [`Parser::LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLongError;

/// Parser of one stream of events, reusable with its memory.
///
/// ```
/// use dyno_net::sse::Parser;
///
/// let (mut parser, mut events) = (Parser::default(), Vec::new());
/// for piece in [&b"data: a\nda"[..], b"ta: b\n\n"] {
///     parser.push(piece, |event| events.push(event.data.to_vec()))?;
/// }
/// assert_eq!(events, [b"a\nb"]);
/// # Ok::<(), dyno_net::sse::TooLongError>(())
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    /// Incomplete line.
    line: Vec<u8>,
    /// Data lines of an incomplete event.
    data: Vec<u8>,
    /// Number of data lines so far; an event without any is dropped.
    lines: usize,
    /// Type of the incomplete event.
    name: Vec<u8>,
    /// The last byte was a carriage return: a following line feed belongs to it.
    after_return: bool,
    /// A line begins with a byte order mark.
    has_marks: bool,
    /// Returns whether a line of data is an event whatever follows it.
    is_event: Option<fn(&[u8]) -> bool>,
    /// The last event was passed on although no empty line has ended it yet.
    is_open: bool,
    /// No empty line separates two events, or an event is no data.
    has_joined: bool,
    /// Lines that the standard ignores, joined by line feeds.
    ignored: Vec<u8>,
}

/// Names of fields with their colon.
const FIELDS: [&[u8]; 5] = [b"data:", b"error:", b"event:", b"id:", b"retry:"];
/// Maximum bytes that are kept of ignored lines.
const MOST_IGNORED: usize = 4 << 10;

/// Data of the current event, borrowed from the input as long as possible.
#[derive(Clone, Copy)]
enum Data<'a> {
    /// One line, borrowed from the input.
    Here(&'a [u8]),
    /// [`Parser::lines`] lines in [`Parser::data`].
    Kept,
}

impl Parser {
    /// Maximum bytes of a line and of an event's data.
    pub const LIMIT: usize = 64 << 20;

    /// Creates a parser that passes on each line of data for which `is_event` returns true as an event of
    /// its own, as soon as the line is read, and also if it lacks `data:`. It keeps other lines that the
    /// standard ignores.
    pub fn for_lines(is_event: fn(&[u8]) -> bool) -> Self {
        Self { is_event: Some(is_event), ..Self::default() }
    }

    /// Returns the bytes that are kept of an incomplete event.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Frees the memory for incomplete events.
    pub(crate) fn free(&mut self) {
        (self.line, self.data) = (Vec::new(), Vec::new());
    }

    /// Drops the state of the previous stream.
    pub fn clear(&mut self) {
        self.line.clear();
        self.reset_event();
        self.after_return = false;
        self.has_marks = false;
        self.is_open = false;
        self.has_joined = false;
        self.ignored.clear();
    }

    /// Returns whether a line of the stream begins with a byte order mark.
    pub(crate) fn has_marks(&self) -> bool {
        self.has_marks
    }

    /// Returns whether no empty line separates two events, or an event is no data.
    pub(crate) fn has_joined_events(&self) -> bool {
        self.has_joined
    }

    /// Returns the begin of the lines that the standard ignores, if this parser keeps them.
    pub fn ignored(&self) -> &[u8] {
        &self.ignored
    }

    /// Takes bytes, and passes on each event that they complete.
    ///
    /// # Errors
    /// [`TooLongError`], after which the stream cannot be read further.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut event: impl FnMut(Event<'_>),
    ) -> Result<(), TooLongError> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        let (mut data, mut has_line) = (Data::Kept, false);
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = match *rest {
                [b'\r', b'\n', ..] => &rest[2..],
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                _ => &rest[1..],
            };
            has_line = true;
            if self.line.is_empty() {
                data = self.take_line(line, data, &mut event)?;
            } else {
                self.line.extend_from_slice(line);
                let whole = std::mem::take(&mut self.line);
                // A line of several pieces is owned by this parser, and so is its data.
                let after = self.take_line(&whole, data, &mut event)?;
                self.keep(after)?;
                data = Data::Kept;
                self.line = whole;
                self.line.clear();
            }
        }
        if has_line && self.pass_on(data, &mut event) {
            self.is_open = true;
            data = Data::Kept;
        }
        self.keep(data)?;
        match self.line.len() + bytes.len() {
            length if length > Self::LIMIT => Err(TooLongError),
            _ => {
                self.line.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Ends the stream. The standard drops an event without a final empty line; some servers omit
    /// that line after their last event, so it is passed on.
    ///
    /// # Errors
    /// [`TooLongError`].
    pub fn finish(&mut self, mut event: impl FnMut(Event<'_>)) -> Result<(), TooLongError> {
        let line = std::mem::take(&mut self.line);
        let is_begin = |field: &&[u8]| field.len() > line.len() && field.starts_with(&line);
        let is_cut = self.is_event.is_some() && FIELDS.iter().any(is_begin);
        if !line.is_empty() && !is_cut {
            let data = self.take_line(&line, Data::Kept, &mut event)?;
            self.keep(data)?;
        }
        if self.lines == 0 {
            // The data of its event may be lost.
            self.name.clear();
        }
        self.take_line(b"", Data::Kept, &mut event)?;
        self.reset_event();
        self.after_return = false;
        Ok(())
    }

    /// Processes one line without its end; returns the updated data.
    #[inline]
    fn take_line<'a>(
        &mut self,
        mut line: &'a [u8],
        mut data: Data<'a>,
        event: &mut impl FnMut(Event<'_>),
    ) -> Result<Data<'a>, TooLongError> {
        if let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf") {
            self.has_marks = true;
            line = rest;
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            let data = self.end_line(data, event);
            return self.take_data(value.strip_prefix(b" ").unwrap_or(value), data);
        }
        if line.is_empty() {
            let found = match data {
                Data::Here(data) => Some(data),
                Data::Kept => (self.lines > 0).then_some(self.data.as_slice()),
            };
            let is_bare_error = self.is_event.is_some() && self.name == b"error";
            // The standard drops an event without data, which would make an error a success.
            if let Some(data) = found.or_else(|| is_bare_error.then_some(&b""[..])) {
                event(Event { name: &self.name, data });
            }
            self.reset_event();
            self.is_open = false;
            return Ok(Data::Kept);
        }
        if line == b"data" {
            return self.take_data(b"", data);
        }
        if self.has_joined && line.starts_with(b"event") {
            data = self.end_line(data, event);
        }
        if line == b"event" {
            self.name.clear();
        } else if let Some(value) = line.strip_prefix(b"event:") {
            self.name.clear();
            self.name.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        } else if let Some(value) = line.strip_prefix(b"error:") {
            data = self.end_line(data, event);
            self.name.clear();
            self.name.extend_from_slice(b"error");
            return self.take_data(value.strip_prefix(b" ").unwrap_or(value), data);
        } else if let Some(words) = self.comment_of_error(line) {
            return self.take_data(words, data);
        } else {
            data = self.take_other(line, data, event);
        }
        Ok(data)
    }

    /// Returns the comment of a line within an event of the type `error`, where NVIDIA Dynamo puts the words of
    /// an error.
    fn comment_of_error<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let is_error = self.is_event.is_some() && self.name == b"error";
        let words = line.strip_prefix(b":").filter(|_| is_error)?;
        Some(words.strip_prefix(b" ").unwrap_or(words)).filter(|words| !words.is_empty())
    }

    /// Processes a line that the standard ignores; returns the updated data.
    fn take_other<'a>(
        &mut self,
        line: &[u8],
        mut data: Data<'a>,
        event: &mut impl FnMut(Event<'_>),
    ) -> Data<'a> {
        let is_field = |name: &[u8]| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b":"))
        };
        let Some(is_event) = self.is_event else { return data };
        if line.starts_with(b":") || is_field(b"id") || is_field(b"retry") {
            return data;
        }
        if is_event(line) {
            data = self.end_line(data, event);
            self.has_joined = true;
            event(Event { name: &self.name, data: line });
            self.name.clear();
        } else {
            let free = MOST_IGNORED.saturating_sub(self.ignored.len() + 1);
            if !self.ignored.is_empty() && free > 0 {
                self.ignored.push(b'\n');
            }
            self.ignored.extend_from_slice(&line[..line.len().min(free)]);
        }
        data
    }

    /// Passes on the current event before a further line, if it is complete without an empty line;
    /// returns the updated data.
    #[inline]
    fn end_line<'a>(&mut self, data: Data<'a>, event: &mut impl FnMut(Event<'_>)) -> Data<'a> {
        let is_joined = std::mem::take(&mut self.is_open) || self.pass_on(data, event);
        self.has_joined |= is_joined;
        if is_joined { Data::Kept } else { data }
    }

    /// Passes on the current event if its only line is an event whatever follows; returns whether it is.
    #[inline]
    fn pass_on(&mut self, data: Data<'_>, event: &mut impl FnMut(Event<'_>)) -> bool {
        let Some(is_event) = self.is_event else { return false };
        let line = match data {
            Data::Here(line) => line,
            Data::Kept if self.lines == 1 => self.data.as_slice(),
            Data::Kept => return false,
        };
        let is_complete = is_event(line);
        if is_complete {
            event(Event { name: &self.name, data: line });
            self.reset_event();
        }
        is_complete
    }

    #[inline]
    fn take_data<'a>(&mut self, value: &'a [u8], data: Data<'a>) -> Result<Data<'a>, TooLongError> {
        match data {
            Data::Kept if self.lines == 0 => Ok(Data::Here(value)),
            before => {
                self.keep(before)?;
                self.keep(Data::Here(value))?;
                Ok(Data::Kept)
            }
        }
    }

    /// Copies a borrowed line of data into the parser.
    fn keep(&mut self, data: Data<'_>) -> Result<(), TooLongError> {
        if let Data::Here(line) = data {
            if self.data.len() + line.len() >= Self::LIMIT {
                return Err(TooLongError);
            }
            if self.lines > 0 {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(line);
            self.lines += 1;
        }
        Ok(())
    }

    #[inline]
    fn reset_event(&mut self) {
        self.data.clear();
        self.name.clear();
        self.lines = 0;
    }
}

/// Appends an event with one line of data.
pub fn write(data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The events of a stream that is cut at these positions.
    fn events(stream: &[u8], cuts: &[usize]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut parser = Parser::default();
        let mut found = Vec::new();
        let mut take = |event: Event<'_>| found.push((event.name.to_vec(), event.data.to_vec()));
        let mut from = 0;
        for &cut in cuts.iter().chain([&stream.len()]) {
            let to = cut.clamp(from, stream.len());
            parser.push(&stream[from..to], &mut take).unwrap();
            from = to;
        }
        found
    }

    fn data(stream: &[u8]) -> Vec<String> {
        let text = |(_, data): (Vec<u8>, Vec<u8>)| String::from_utf8(data).unwrap();
        events(stream, &[]).into_iter().map(text).collect()
    }

    // The streams of section 9.2.6 of the standard, written from it by hand.
    #[test]
    fn the_streams_of_the_standard_are_read_as_it_says() {
        let stock = b"data: YHOO\ndata: +2\ndata: 10\n\n";
        assert_eq!(data(stock), ["YHOO\n+2\n10"]);
        let blocks = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n\
                       data:  third event\n\n";
        assert_eq!(data(blocks), ["first event", "second event", " third event"]);
        assert_eq!(data(b"data\n\ndata\ndata\n\ndata:"), ["", "\n"]);
        assert_eq!(data(b"data:test\n\ndata: test\n\n"), ["test", "test"]);
    }

    #[test]
    fn lines_end_in_three_ways_and_may_begin_with_marks() {
        assert_eq!(data(b"\xef\xbb\xbfdata: a\r\rdata: b\r\n\r\ndata: c\n\n"), ["a", "b", "c"]);
        assert_eq!(data(b"data: a\r\ndata: b\r\n\r\n"), ["a\nb"]);
        // By the standard only the first line may have the mark.
        let marks = b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n";
        assert_eq!(data(marks), ["a", "b"]);
    }

    #[test]
    fn types_belong_to_their_event() {
        let found = events(b"event: error\ndata: {}\n\ndata: 1\n\nevent: none\n\ndata: 2\n\n", &[]);
        let expected: Vec<(Vec<u8>, Vec<u8>)> = vec![
            (b"error".to_vec(), b"{}".to_vec()),
            (vec![], b"1".to_vec()),
            (vec![], b"2".to_vec()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_field_of_errors_is_an_event_of_that_type() {
        let stream = b"data: 1\n\nerror: {\"code\":500}\n\ndata: [DONE]\n\nerrors: 2\n\n";
        let expected: Vec<(Vec<u8>, Vec<u8>)> = vec![
            (vec![], b"1".to_vec()),
            (b"error".to_vec(), b"{\"code\":500}".to_vec()),
            (vec![], b"[DONE]".to_vec()),
        ];
        let every: Vec<usize> = (0..stream.len()).collect();
        assert_eq!(events(stream, &[]), expected);
        assert_eq!(events(stream, &every), expected);
    }

    /// The events of a stream for a parser that takes each line in braces as an event, joined by bars, and
    /// what that parser notes.
    fn line_events(stream: &[u8], piece: usize) -> (String, bool, String) {
        let mut parser = Parser::for_lines(|line| line.starts_with(b"{") && line.ends_with(b"}"));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut found = Vec::new();
        let mut take = |event: Event<'_>| found.push(text(event.name) + &text(event.data));
        stream.chunks(piece).for_each(|piece| parser.push(piece, &mut take).unwrap());
        parser.finish(&mut take).unwrap();
        (found.join("|"), parser.has_joined_events(), text(parser.ignored()))
    }

    #[test]
    fn lines_may_be_events_of_their_own() {
        for (stream, expected, is_joined, ignored) in [
            // The standard, also with several lines.
            ("data: {1}\n\nevent: a\ndata: {2}\r\n\r\n", "{1}|a{2}", false, ""),
            ("data: {1}\n: c\nid: 7\nretry\n\ndata: {\ndata: 2}\n\n", "{1}|{\n2}", false, ""),
            // No empty lines, or some.
            ("data: {1}\ndata: {2}\ndata: x\n", "{1}|{2}|x", true, ""),
            ("data: {1}\ndata: {2}\n\ndata: {3}\n\n", "{1}|{2}|{3}", true, ""),
            ("data: {1}\nerror: {2}\n\n", "{1}|error{2}", true, ""),
            ("data: {0}\ndata: {1}\nevent: a\ndata: {2}\n", "{0}|{1}|a{2}", true, ""),
            // No field.
            ("data: {1}\n\n{2}\n", "{1}|{2}", true, ""),
            ("data: {1}\n{2}", "{1}|{2}", true, ""),
            ("event: error\n{2}\n\n", "error{2}", true, ""),
            ("data: {1}\n\nan error: 7\nidle\n", "{1}", false, "an error: 7\nidle"),
            // The begin of a field that is cut off.
            ("data: {1}\n\nda", "{1}", false, ""),
        ] {
            for piece in [1, 2, 3, 7, 1_000] {
                let found = line_events(stream.as_bytes(), piece);
                let expected = (expected.to_owned(), is_joined, ignored.to_owned());
                assert_eq!(found, expected, "{stream:?}, {piece}");
            }
        }
        let (_, _, long) = line_events(&[b'x'; 9_000], 10);
        assert!(long.len() <= MOST_IGNORED);
    }

    #[test]
    fn an_event_is_passed_on_when_its_line_is_read() {
        let mut parser = Parser::for_lines(|line| line == b"1");
        let mut found = Vec::new();
        parser.push(b"data: 1\n", |event| found.push(event.data.to_vec())).unwrap();
        assert_eq!(found, [b"1"]);
        parser.push(b"\n", |_| unreachable!("it was passed on")).unwrap();
        assert!(!parser.has_joined_events());
    }

    #[test]
    fn bytes_that_are_no_text_come_through() {
        assert_eq!(events(b"data: \xff\x00\xc3\n\n", &[8])[0].1, b"\xff\x00\xc3");
    }

    #[test]
    fn the_last_event_needs_no_empty_line_when_the_stream_ends() {
        for stream in [&b"data: [DONE]"[..], b"data: [DONE]\n", b"data: [DONE]\r"] {
            let (mut parser, mut found) = (Parser::default(), Vec::new());
            parser.push(stream, |_| unreachable!("no empty line")).unwrap();
            parser.finish(|event| found.push(event.data.to_vec())).unwrap();
            assert_eq!(found, [b"[DONE]"]);
            parser.finish(|_| unreachable!("nothing is left")).unwrap();
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; Parser::LIMIT / 2];
        assert_eq!(parser.push(&piece, |_| {}), Ok(()));
        assert_eq!(parser.push(&piece, |_| {}), Ok(()));
        assert_eq!(parser.push(&piece, |_| {}), Err(TooLongError));
    }

    /// Lines of all kinds, with each kind of end.
    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            4 => "data: ?[a-c:]{0,6}",
            1 => "(event: [ab]|: no|data|event|id: 1|[a-c]{1,3})",
            3 => "",
        ];
        let end = prop_oneof!["\n", "\r\n", "\r"];
        let lines = prop::collection::vec((line, end), 0..24);
        (any::<bool>(), lines).prop_map(|(mark, lines)| {
            let mut stream = if mark { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
            lines.iter().for_each(|(line, end)| {
                stream.extend_from_slice(line.as_bytes());
                stream.extend_from_slice(end.as_bytes());
            });
            stream
        })
    }

    /// The events of a stream by the words of the standard, a line at a time and by copying.
    fn by_the_standard(stream: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let text = String::from_utf8(stream.to_vec()).unwrap().replace("\r\n", "\n");
        let text = text.replace('\r', "\n");
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut lines: Vec<&str> = text.split('\n').collect();
        // What no line end follows is no line.
        lines.pop();
        let (mut found, mut name, mut data) = (Vec::new(), String::new(), String::new());
        for line in lines {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match (line, field) {
                ("", _) => {
                    if let Some(data) = data.strip_suffix('\n') {
                        found.push((name.clone().into_bytes(), data.as_bytes().to_vec()));
                    }
                    name.clear();
                    data.clear();
                }
                (_, "event") => value.clone_into(&mut name),
                (_, "data") => data.extend([value, "\n"]),
                _ => {}
            }
        }
        found
    }

    proptest! {
        #[test]
        fn any_cut_reads_as_the_standard_says(
            stream in streams(),
            mut cuts in prop::collection::vec(0_usize..200, 0..8),
        ) {
            cuts.sort_unstable();
            let every: Vec<usize> = (0..stream.len()).collect();
            let expected = by_the_standard(&stream);
            prop_assert_eq!(&events(&stream, &[]), &expected);
            prop_assert_eq!(&events(&stream, &cuts), &expected);
            prop_assert_eq!(&events(&stream, &every), &expected);
        }

        #[test]
        fn what_is_written_is_read(texts in prop::collection::vec("[^\r\n]{0,40}", 0..9)) {
            let mut stream = Vec::new();
            texts.iter().for_each(|text| write(text.as_bytes(), &mut stream));
            prop_assert_eq!(data(&stream), texts);
        }
    }
}
