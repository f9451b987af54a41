//! Reads `supported_formats` of the thesis' descriptors, which are Python files: a dictionary
//! literal of lists of strings. No code is executed (SPEC A25).

use std::iter::Peekable;
use std::str::CharIndices;

/// Formats under a key, each with its position in the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    pub formats: Vec<(usize, String)>,
}

type SyntaxError = (usize, String);

/// Reads `supported_formats = {...}` at the start of any line; `None` if there is none.
pub(super) fn read(text: &str) -> Option<Result<Vec<Entry>, SyntaxError>> {
    let (at, _) = text.match_indices("supported_formats").find(|(at, name)| {
        let rest = text[at + name.len()..].trim_start();
        let starts_line = text[..*at].chars().next_back().is_none_or(|c| c == '\n');
        starts_line && rest.strip_prefix('=').is_some_and(|rest| rest.trim_start().starts_with('{'))
    })?;
    let open = at + text[at..].find('{').expect("it was just seen");
    let mut letters = Scanner { all: text[open..].char_indices().peekable(), base: open };
    Some(letters.dictionary())
}

struct Scanner<'t> {
    all: Peekable<CharIndices<'t>>,
    base: usize,
}

impl Scanner<'_> {
    /// Returns the next character that is neither white space nor comment, and its position.
    fn peek(&mut self) -> Option<(usize, char)> {
        while let Some((at, c)) = self.all.peek().copied() {
            if c == '#' {
                while self.all.next_if(|(_, c)| *c != '\n').is_some() {}
            } else if c.is_whitespace() {
                self.all.next();
            } else {
                return Some((self.base + at, c));
            }
        }
        None
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek().is_some_and(|(_, c)| c == wanted);
        if is_there {
            self.all.next();
        }
        is_there
    }

    fn expect(&mut self, wanted: char) -> Result<(), SyntaxError> {
        if self.take(wanted) { Ok(()) } else { Err(self.unexpected(&format!("{wanted:?}"))) }
    }

    fn unexpected(&mut self, wanted: &str) -> SyntaxError {
        match self.peek() {
            Some((at, found)) => (at, format!("expected {wanted}, found {found:?}")),
            None => (self.base, format!("expected {wanted} before the end")),
        }
    }

    fn dictionary(&mut self) -> Result<Vec<Entry>, SyntaxError> {
        self.expect('{')?;
        let mut entries: Vec<Entry> = Vec::new();
        while !self.take('}') {
            let (at, name) = self.text()?;
            self.expect(':')?;
            if entries.iter().any(|entry| entry.name == name) {
                return Err((at, format!("expected each key once, found {name:?} again")));
            }
            entries.push(Entry { name, formats: self.list()? });
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        Ok(entries)
    }

    /// Reads a list or a tuple.
    fn list(&mut self) -> Result<Vec<(usize, String)>, SyntaxError> {
        let close = if self.take('(') { ')' } else { ']' };
        if close == ']' {
            self.expect('[')?;
        }
        let mut texts = Vec::new();
        while !self.take(close) {
            texts.push(self.text()?);
            if !self.take(',') {
                self.expect(close)?;
                break;
            }
        }
        Ok(texts)
    }

    fn text(&mut self) -> Result<(usize, String), SyntaxError> {
        let Some((at, quote @ ('"' | '\''))) = self.peek() else {
            return Err(self.unexpected("a text in quotes"));
        };
        self.all.next();
        let mut text = String::new();
        loop {
            match self.all.next() {
                Some((_, c)) if c == quote => return Ok((at, text)),
                Some((_, '\n')) | None => return Err((at, "a text that does not end".into())),
                // Names of formats contain no backslash.
                Some((_, '\\')) => return Err((at, "a text with a backslash".into())),
                Some((_, c)) => text.push(c),
            }
        }
    }
}
