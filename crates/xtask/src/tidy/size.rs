//! Files and functions stay short, by a ratchet: what is too long is listed
//! with its exact length, and the list may only shrink.

use super::Finding;
use super::allowed::Long;
use super::source::Source;

/// Lines of a Rust file.
pub const FILE_LINES: usize = 600;
/// Lines of a function, from its name to its closing brace: a screen.
pub const FUNCTION_LINES: usize = 70;

/// Files over [`FILE_LINES`] that are not listed, and entries that are out of date.
pub fn files(sources: &[Source], allowed: &[Long]) -> Vec<Finding> {
    let sizes = sources.iter().map(|source| Size {
        path: &source.path,
        function: "",
        line: 1,
        lines: source.text.lines().count(),
    });
    ratchet(sizes, allowed, FILE_LINES)
}

/// Functions over [`FUNCTION_LINES`] that are not listed, and entries that are out of date.
pub fn functions(sources: &[Source], allowed: &[Long]) -> Vec<Finding> {
    let sizes = sources.iter().flat_map(|source| {
        source.functions().map(|function| {
            let (first, last) =
                (source.line(function.span.start), source.line(function.span.end - 1));
            Size {
                path: &source.path,
                function: function.name,
                line: first,
                lines: last - first + 1,
            }
        })
    });
    ratchet(sizes, allowed, FUNCTION_LINES)
}

struct Size<'a> {
    path: &'a str,
    function: &'a str,
    line: usize,
    lines: usize,
}

fn ratchet<'a>(
    sizes: impl Iterator<Item = Size<'a>>,
    allowed: &[Long],
    limit: usize,
) -> Vec<Finding> {
    let long: Vec<Size> = sizes.filter(|size| size.lines > limit).collect();
    let entry =
        |size: &Size| allowed.iter().find(|a| a.path == size.path && a.function == size.function);
    let mut found = Vec::new();
    for size in &long {
        let what = if size.function.is_empty() {
            "the file".to_owned()
        } else {
            format!("fn {}", size.function)
        };
        let lines = size.lines;
        let message = match entry(size) {
            None => format!("{what} has {lines} lines, more than {limit}: split it"),
            Some(a) if lines > a.lines => {
                format!("{what} has grown to {lines} lines; it may have {}", a.lines)
            }
            Some(a) if lines < a.lines => {
                format!("{what} has shrunk to {lines} lines: put that in tidy/allowed.rs")
            }
            Some(_) => continue,
        };
        found.push(Finding { path: size.path.to_owned(), line: size.line, message });
    }
    for a in allowed {
        if !long.iter().any(|size| size.path == a.path && size.function == a.function) {
            let what = if a.function.is_empty() { "it" } else { a.function };
            let message =
                format!("{what} is within the limit: remove its entry from tidy/allowed.rs");
            found.push(Finding::of_file(a.path, message));
        }
        if a.reason.is_empty() {
            found.push(Finding::of_file(a.path, "its entry in tidy/allowed.rs gives no reason"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::allowed::Long;
    use super::super::source::Source;
    use super::{FILE_LINES, FUNCTION_LINES, files, functions};

    fn entry(function: &'static str, lines: usize) -> Long {
        Long { path: "a.rs", function, lines, reason: "a table" }
    }

    fn messages(found: &[super::Finding]) -> Vec<&str> {
        found.iter().map(|finding| finding.message.as_str()).collect()
    }

    #[test]
    fn a_long_file_is_found_and_an_entry_must_be_exact() {
        let source = |lines| [Source::new("a.rs", &"\n".repeat(lines))];
        assert!(files(&source(FILE_LINES), &[]).is_empty());
        assert_eq!(
            messages(&files(&source(601), &[])),
            ["the file has 601 lines, more than 600: split it"]
        );
        assert!(files(&source(700), &[entry("", 700)]).is_empty());
        assert_eq!(
            messages(&files(&source(701), &[entry("", 700)])),
            ["the file has grown to 701 lines; it may have 700"]
        );
        assert_eq!(
            messages(&files(&source(650), &[entry("", 700)])),
            ["the file has shrunk to 650 lines: put that in tidy/allowed.rs"]
        );
        assert_eq!(
            messages(&files(&source(10), &[entry("", 700)])),
            ["it is within the limit: remove its entry from tidy/allowed.rs"]
        );
    }

    #[test]
    fn a_long_function_is_found() {
        let body = |lines: usize| format!("\nfn long() {{{}}}\n", "\n".repeat(lines - 1));
        let source = |lines| [Source::new("a.rs", &body(lines))];
        assert!(functions(&source(FUNCTION_LINES), &[]).is_empty());
        let found = functions(&source(71), &[]);
        assert_eq!(messages(&found), ["fn long has 71 lines, more than 70: split it"]);
        assert_eq!(found[0].line, 2);
        assert!(functions(&source(71), &[entry("long", 71)]).is_empty());
    }
}
