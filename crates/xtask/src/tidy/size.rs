//! Files stay short. Clippy checks functions (`too_many_lines`).

use super::Finding;
use super::source::Source;

/// Lines of a Rust file.
const FILE_LINES: usize = 600;

pub fn files(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().count();
    if lines <= FILE_LINES {
        return Vec::new();
    }
    let message = format!("the file has {lines} lines, more than {FILE_LINES}: split it");
    vec![Finding::of_file(&source.path, message)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found() {
        let found = |lines| files(&Source::new("a.rs", &"\n".repeat(lines)));
        assert!(found(FILE_LINES).is_empty());
        assert_eq!(found(601)[0].message, "the file has 601 lines, more than 600: split it");
    }
}
