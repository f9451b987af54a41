//! A Rust file seen three ways: its code, its comments, its string literals.
//!
//! Rules that look for `unsafe` or `#[ignore]` must not stumble over a string
//! or a comment that mentions them, and the reverse. A real parser would be a
//! dependency; this needs to know only where comments and literals begin and end.

use std::ops::Range;

use super::Finding;

/// A Rust file. The three views have the length of the text: what does not
/// belong to a view is blank in it, and line breaks stay, so that an offset
/// means the same in all.
pub struct Source {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
    pub code: String,
    pub comments: String,
    pub strings: String,
    /// Bytes inside `#[cfg(test)]` blocks.
    test_blocks: Vec<Range<usize>>,
}

/// A function with a body.
pub struct Function<'a> {
    pub name: &'a str,
    /// From the keyword to the closing brace.
    pub span: Range<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum View {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let views = classify(text.as_bytes());
        let keep = |view: View| -> String {
            let blank = |(byte, of): (u8, &View)| match byte {
                b'\n' => '\n',
                // Beyond ASCII only the position matters to the rules.
                _ if *of == view && byte.is_ascii() => char::from(byte),
                _ => ' ',
            };
            text.bytes().zip(&views).map(blank).collect()
        };
        let code = keep(View::Code);
        let test_blocks = code
            .match_indices("#[cfg(test)]")
            .filter_map(|(at, _)| block_after(&code, at))
            .collect();
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            comments: keep(View::Comment),
            strings: keep(View::Literal),
            code,
            test_blocks,
        }
    }

    /// Line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    pub fn finding(&self, at: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line: self.line(at), message: message.into() }
    }

    /// Whether a byte belongs to a test or a bench, and not to what ships.
    pub fn is_test(&self, at: usize) -> bool {
        let folder = |name| self.path.split('/').any(|part| part == name);
        folder("tests") || folder("benches") || self.test_blocks.iter().any(|b| b.contains(&at))
    }

    /// Functions that have a body, in order; nested ones too.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        words(&self.code, "fn").filter_map(|at| {
            let rest = self.code[at + 2..].trim_start();
            let name = &rest[..rest.find(|c: char| !is_word(c))?];
            // A function pointer type has no name.
            let end = (!name.is_empty()).then(|| block_after(&self.code, at))??.end;
            Some(Function { name, span: at..end })
        })
    }
}

/// Offsets of a whole word.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !text[..at].ends_with(is_word) && !text[at + word.len()..].starts_with(is_word)
    })
}

/// Whether a character may stand in a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first brace block after `from`, unless a semicolon outside of brackets
/// ends the item before it.
fn block_after(code: &str, from: usize) -> Option<Range<usize>> {
    let (mut brackets, mut braces, mut begin) = (0_i32, 0_i32, None);
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => {
                begin.get_or_insert(at);
                braces += 1;
            }
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return Some(begin?..at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Says of each byte what it belongs to. Quotes count as code.
fn classify(text: &[u8]) -> Vec<View> {
    let mut views = vec![View::Code; text.len()];
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (view, range, next) = if rest.starts_with(b"//") {
            let end = at + find(rest, b"\n").unwrap_or(rest.len());
            (View::Comment, at..end, end)
        } else if rest.starts_with(b"/*") {
            let end = at + block_comment(rest);
            (View::Comment, at..end, end)
        } else if let Some((open, close)) = raw_string(text, at) {
            // Past the closing quote; the hashes after it are code like any other.
            (View::Literal, at + open..at + close, at + close + 1)
        } else if rest[0] == b'"' {
            let end = at + 1 + quoted(&rest[1..], b'"');
            (View::Literal, at + 1..end, end + 1)
        } else if rest[0] == b'\'' && is_char_literal(rest) {
            let end = at + 1 + quoted(&rest[1..], b'\'');
            (View::Literal, at + 1..end, end + 1)
        } else {
            (View::Code, at..at, at + 1)
        };
        let end = range.end.min(text.len());
        views[range.start.min(end)..end].fill(view);
        at = next;
    }
    views
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Length of a block comment; they nest.
fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Where the contents of a raw string that begins at `at` begin and end,
/// relative to `at`.
fn raw_string(text: &[u8], at: usize) -> Option<(usize, usize)> {
    // In `for"` or `bar#"` the r is the end of a word; in `br"` it is not.
    let before = &text[..at];
    let word_before = before.last().is_some_and(|&byte| is_word(char::from(byte)));
    let prefixed = matches!(before, [.., b'b' | b'c']) && {
        let earlier = before[..before.len() - 1].last();
        !earlier.is_some_and(|&byte| is_word(char::from(byte)))
    };
    if text[at] != b'r' || (word_before && !prefixed) {
        return None;
    }
    let hashes = text[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = 1 + hashes + 1;
    if text.get(at + open - 1) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'#'; hashes + 1];
    close[0] = b'"';
    let contents = &text[at + open..];
    Some((open, open + find(contents, &close).unwrap_or(contents.len())))
}

/// Length of a quoted literal up to its closing quote.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// Tells `'x'` and `'\n'` from the lifetime `'x`.
fn is_char_literal(text: &[u8]) -> bool {
    match text {
        [_, b'\\', ..] => true,
        [_, first, rest @ ..] if first.is_ascii() => rest.first() == Some(&b'\''),
        // A character beyond ASCII takes up to four bytes; no lifetime has one.
        [_, _, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn views_tell_code_comments_and_literals_apart() {
        let source = Source::new(
            "x.rs",
            "let a = \"in // text\"; // says \"b\"\nlet c = '\"'; let d: &'static str = r#\"raw \" x\"#; /* e /* f */ g */ h",
        );
        assert_eq!(
            source.strings.split_whitespace().collect::<Vec<_>>(),
            ["in", "//", "text", "\"", "raw", "\"", "x"]
        );
        assert_eq!(
            source.comments.split_whitespace().collect::<Vec<_>>(),
            ["//", "says", "\"b\"", "/*", "e", "/*", "f", "*/", "g", "*/"]
        );
        assert!(source.code.ends_with(" h"));
        assert!(source.code.contains("&'static str"));
    }

    #[test]
    fn escapes_do_not_end_a_literal() {
        let source = Source::new("x.rs", r#"f("a\"b", '\'', b"c\\", br"d\"); g"#);
        assert_eq!(source.code.replace(' ', ""), r#"f("",'',b"",br"");g"#);
    }

    #[test]
    fn functions_have_names_and_ends() {
        let source = Source::new(
            "x.rs",
            "trait T { fn no_body(a: [u8; 2]); }\nfn one(f: fn(u8)) {\n  fn two() {}\n}\n",
        );
        let found: Vec<_> = source
            .functions()
            .map(|f| (f.name, source.line(f.span.start), source.line(f.span.end - 1)))
            .collect();
        assert_eq!(found, [("one", 2, 4), ("two", 3, 3)]);
    }

    #[test]
    fn tests_are_known_by_folder_and_by_block() {
        let text = "fn ships() {}\n#[cfg(test)]\nmod tests {\n  fn tested() {}\n}\n";
        let at = |name| text.find(name).unwrap();
        let source = Source::new("crates/a/src/lib.rs", text);
        assert!(!source.is_test(at("ships")));
        assert!(source.is_test(at("tested")));
        assert!(Source::new("crates/a/tests/it/main.rs", text).is_test(at("ships")));
    }
}
