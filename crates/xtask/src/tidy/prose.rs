//! Comments explain why, and no marks of unfinished work or paths of one machine remain.

use super::Finding;
use super::source::Source;
use super::tree::File;

/// Openings of comments that repeat the next line of code.
const NARRATION: &[&str] = &["Create", "Initialize", "Loop", "Return", "Now "];

pub fn narration(source: &Source) -> Vec<Finding> {
    let narrates = |comment: &str| {
        let step = comment.strip_prefix("Step ").and_then(|rest| rest.chars().next());
        NARRATION.iter().any(|word| comment.starts_with(word))
            || step.is_some_and(|c| c.is_ascii_digit())
    };
    // Doc comments, with three slashes, may describe what the code does.
    let comments = source.comments.match_indices("// ").filter(|(offset, _)| {
        !source.comments[..*offset].ends_with('/') && narrates(&source.comments[offset + 3..])
    });
    comments
        .map(|(offset, _)| {
            source.finding(offset, "the comment tells what the code does: say why, or nothing")
        })
        .collect()
}

/// Marks of unfinished work, split so that this file contains none.
const LEFTOVERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

pub fn leftovers_in_comments(source: &Source) -> Vec<Finding> {
    let found = LEFTOVERS.iter().flat_map(|mark| source.comments.match_indices(mark));
    found.map(|(offset, mark)| source.finding(offset, leftover(mark))).collect()
}

pub fn leftovers_in_text(file: &File) -> Vec<Finding> {
    if file.is_rust() || file.in_testdata() {
        return Vec::new();
    }
    file.lines_with(|line| LEFTOVERS.into_iter().find(|mark| line.contains(mark)).map(leftover))
}

fn leftover(mark: &str) -> String {
    format!("{mark}: finish it or open an issue")
}

/// Top-level folders that differ between machines.
const MACHINE_FOLDERS: [&str; 3] = ["work", "root", "home"];

/// Finds absolute paths of one machine, in any file.
pub fn machine_paths(file: &File) -> Vec<Finding> {
    if file.in_testdata() {
        return Vec::new();
    }
    file.lines_with(|line| {
        MACHINE_FOLDERS.iter().find_map(|folder| {
            let path = format!("/{folder}/");
            let found = line.match_indices(&path).any(|(offset, _)| is_absolute(&line[..offset]));
            found.then(|| format!("'{path}' is a path of one machine"))
        })
    })
}

/// Finds paths of scratch folders in code that ships: these folders differ between machines.
pub fn scratch_paths(source: &Source) -> Vec<Finding> {
    let found = source.strings.match_indices(concat!("/t", "mp")).filter(|&(offset, path)| {
        let ends = !source.strings[offset + path.len()..].starts_with(super::source::is_word);
        ends && is_absolute(&source.strings[..offset]) && !source.is_test(offset)
    });
    found
        .map(|(offset, _)| source.finding(offset, "a scratch path: ask std::env::temp_dir"))
        .collect()
}

/// Returns whether a slash after `before` begins an absolute path, and not a part of a path or address.
fn is_absolute(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "._-/~}>)*".contains(c))
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::super::tree::File;
    use super::*;

    #[test]
    fn narration_is_found() {
        let found = |text| narration(&Source::new("a.rs", text)).len();
        for bad in ["// Create a vector", "x(); // Now add", "// Step 3: sort", "// Return it"] {
            assert_eq!(found(bad), 1, "{bad}");
        }
        for good in ["/// Returns it", "//! Create", "// Nowhere", "// Step by step", "\"// Loop\""]
        {
            assert_eq!(found(good), 0, "{good}");
        }
    }

    #[test]
    fn leftovers_are_found() {
        for mark in LEFTOVERS {
            let line = format!("// {mark}: later");
            assert_eq!(leftovers_in_comments(&Source::new("a.rs", &line)).len(), 1);
            assert_eq!(leftovers_in_text(&File::of_text("a.md", &line)).len(), 1);
            assert_eq!(leftovers_in_text(&File::of_text("testdata/a.txt", &line)).len(), 0);
        }
    }

    #[test]
    fn machine_paths_are_found() {
        for folder in MACHINE_FOLDERS {
            let found = |line: String| machine_paths(&File::of_text("a.md", &line)).len();
            assert_eq!(found(format!("see /{folder}/x")), 1);
            assert_eq!(found(format!("\"/{folder}/x\"")), 1);
            assert_eq!(found(format!("https://host.org/{folder}/x")), 0);
            assert_eq!(found(format!("crates/{folder}/x")), 0);
        }
    }

    #[test]
    fn scratch_paths_are_found_in_what_ships() {
        let found = |path, text| scratch_paths(&Source::new(path, text)).len();
        let text = format!("let a = \"/{}/log\";", "tmp");
        assert_eq!(found("crates/a/src/b.rs", text.as_str()), 1);
        assert_eq!(found("crates/a/tests/it/b.rs", text.as_str()), 0);
    }
}
