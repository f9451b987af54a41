//! Views of a Rust file: its code, its comments and its string literals.
//!
//! Rules that search code for `unsafe` or `#[ignore]` must ignore strings and comments, and vice versa.
//! For that, only the ends of comments and literals must be known, and a parser would be a dependency.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Finding;

/// A Rust file. The three views have the length of the text: other parts are blank and line breaks
/// remain, so that offsets are equal in all of them.
pub struct Source {
    /// Path relative to the root, with `/`.
    pub path: String,
    pub text: String,
    pub code: String,
    pub comments: String,
    pub strings: String,
    /// Offsets of `#[cfg(test)]` blocks.
    test_blocks: Vec<Range<usize>>,
}

/// A function with a body.
pub struct Function<'a> {
    pub name: &'a str,
    /// Offsets from the keyword to the closing brace.
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
            let blank = |(byte, part): (u8, &View)| match byte {
                b'\n' => '\n',
                // Rules need only the position of other characters.
                _ if *part == view && byte.is_ascii() => char::from(byte),
                _ => ' ',
            };
            text.bytes().zip(&views).map(blank).collect()
        };
        let code = keep(View::Code);
        let test_blocks = code
            .match_indices("#[cfg(test)]")
            .filter_map(|(offset, _)| block_after(&code, offset))
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

    /// Returns the line of a byte, from 1.
    pub fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    pub fn finding(&self, offset: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line: self.line(offset), message: message.into() }
    }

    /// Returns whether a byte belongs to a test or a bench, and not to code that ships.
    pub fn is_test(&self, offset: usize) -> bool {
        let folder = |name| self.path.split('/').any(|part| part == name);
        folder("tests") || folder("benches") || self.test_blocks.iter().any(|b| b.contains(&offset))
    }

    /// Returns the items of the file outside of tests: keyword, name, and offset of the keyword.
    pub fn items(&self) -> impl Iterator<Item = (&'static str, &str, usize)> {
        let kinds = ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];
        kinds.into_iter().flat_map(move |kind| {
            words(&self.code, kind).filter(|&offset| !self.is_test(offset)).filter_map(
                move |offset| {
                    let rest = self.code[offset + kind.len()..].trim_start();
                    let name = &rest[..rest.find(|c: char| !is_word(c))?];
                    (!name.is_empty()).then_some((kind, name, offset))
                },
            )
        })
    }

    /// Returns the folder of the file's crate below `crates/`, unless the file is not in `src`.
    pub fn crate_name(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    /// Returns the functions with a body, also nested ones, in their order.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        words(&self.code, "fn").filter_map(|offset| {
            let rest = self.code[offset + 2..].trim_start();
            let name = &rest[..rest.find(|c: char| !is_word(c))?];
            // A function pointer type has no name.
            let end = (!name.is_empty()).then(|| block_after(&self.code, offset))??.end;
            Some(Function { name, span: offset..end })
        })
    }
}

/// Returns the files in `src` of each crate.
pub fn by_crate(sources: &[Source]) -> BTreeMap<&str, Vec<&Source>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if let Some(name) = source.crate_name() {
            crates.entry(name).or_default().push(source);
        }
    }
    crates
}

/// Returns the offsets of a whole word.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(offset, _)| offset).filter(move |&offset| {
        !text[..offset].ends_with(is_word) && !text[offset + word.len()..].starts_with(is_word)
    })
}

/// Returns whether a character may occur in a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the first brace block after `from`, unless a semicolon outside of brackets ends the item
/// first.
fn block_after(code: &str, from: usize) -> Option<Range<usize>> {
    let (mut brackets, mut braces, mut begin) = (0_i32, 0_i32, None);
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => {
                begin.get_or_insert(offset);
                braces += 1;
            }
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return Some(begin?..offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the view of each byte. Quotes belong to the code.
fn classify(text: &[u8]) -> Vec<View> {
    let mut views = vec![View::Code; text.len()];
    let mut offset = 0;
    while offset < text.len() {
        let rest = &text[offset..];
        let (view, range, next) = if rest.starts_with(b"//") {
            let end = offset + find(rest, b"\n").unwrap_or(rest.len());
            (View::Comment, offset..end, end)
        } else if rest.starts_with(b"/*") {
            let end = offset + block_comment(rest);
            (View::Comment, offset..end, end)
        } else if let Some((open, close)) = raw_string(text, offset) {
            // The hashes after the closing quote are code.
            (View::Literal, offset + open..offset + close, offset + close + 1)
        } else if rest[0] == b'"' {
            let end = offset + 1 + quoted(&rest[1..], b'"');
            (View::Literal, offset + 1..end, end + 1)
        } else if rest[0] == b'\'' && is_char_literal(rest) {
            let end = offset + 1 + quoted(&rest[1..], b'\'');
            (View::Literal, offset + 1..end, end + 1)
        } else {
            (View::Code, offset..offset, offset + 1)
        };
        let end = range.end.min(text.len());
        views[range.start.min(end)..end].fill(view);
        offset = next;
    }
    views
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Returns the length of a block comment, which may contain others.
fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut offset) = (0, 0);
    while offset < text.len() {
        if text[offset..].starts_with(b"/*") {
            depth += 1;
            offset += 2;
        } else if text[offset..].starts_with(b"*/") {
            depth -= 1;
            offset += 2;
            if depth == 0 {
                return offset;
            }
        } else {
            offset += 1;
        }
    }
    offset
}

/// Returns the ends of the contents of a raw string at `at`, relative to `at`.
fn raw_string(text: &[u8], offset: usize) -> Option<(usize, usize)> {
    // In `for"` or `bar#"` the r is the end of a word; in `br"` it is not.
    let before = &text[..offset];
    let word_before = before.last().is_some_and(|&byte| is_word(char::from(byte)));
    let prefixed = matches!(before, [.., b'b' | b'c']) && {
        let earlier = before[..before.len() - 1].last();
        !earlier.is_some_and(|&byte| is_word(char::from(byte)))
    };
    if text[offset] != b'r' || (word_before && !prefixed) {
        return None;
    }
    let hashes = text[offset + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = 1 + hashes + 1;
    if text.get(offset + open - 1) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'#'; hashes + 1];
    close[0] = b'"';
    let contents = &text[offset + open..];
    Some((open, open + find(contents, &close).unwrap_or(contents.len())))
}

/// Returns the length of a quoted literal up to its closing quote.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut offset = 0;
    while offset < text.len() && text[offset] != quote {
        offset += if text[offset] == b'\\' { 2 } else { 1 };
    }
    offset
}

/// Distinguishes `'x'` and `'\n'` from the lifetime `'x`.
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
    fn views_separate_code_comments_and_literals() {
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
    fn tests_are_recognized_by_folder_and_by_block() {
        let text = "fn ships() {}\n#[cfg(test)]\nmod tests {\n  fn tested() {}\n}\n";
        let offset = |name| text.find(name).unwrap();
        let source = Source::new("crates/a/src/lib.rs", text);
        assert!(!source.is_test(offset("ships")));
        assert!(source.is_test(offset("tested")));
        assert!(Source::new("crates/a/tests/it/main.rs", text).is_test(offset("ships")));
    }
}
