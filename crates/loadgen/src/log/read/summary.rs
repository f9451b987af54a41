//! Parser of `mlperf_log_summary.txt`: labels with values, and blocks of text.

use super::{LogReadProblem, ProblemKind};

/// Parsed summary log, which borrows from its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary<'t> {
    /// Each `label : value` in order, with its line number.
    pub fields: Vec<(usize, &'t str, &'t str)>,
    /// The lines under `Recommendations:`, with their line ends.
    pub recommendations: String,
    /// The lines under each early-stopping headline, with the headline.
    pub early_stopping: Vec<(String, String)>,
    /// Number of warnings in the trailer; `None` without a trailer (the run was interrupted).
    pub warnings: Option<u64>,
    /// Number of errors in the trailer.
    pub errors: Option<u64>,
}

impl<'t> Summary<'t> {
    /// Returns the value of a label, such as `Result is` or `target_qps`.
    pub fn value(&self, label: &str) -> Option<&'t str> {
        self.fields.iter().find(|(_, l, _)| *l == label).map(|(_, _, value)| *value)
    }
}

/// Block of text that lines beginning with ` *` belong to.
enum Block {
    None,
    Recommendations,
    EarlyStopping,
    /// Note on equal issue: it has no values and ends at an empty line.
    Note,
}

/// Parses a summary log; also returns the problems found.
#[must_use]
pub fn read_summary(text: &str) -> (Summary<'_>, Vec<LogReadProblem>) {
    let mut summary = Summary::default();
    let mut problems = Vec::new();
    let mut block = Block::None;
    for (at, line) in text.lines().enumerate() {
        let line_no = at + 1;
        if line.starts_with(' ') && !line.starts_with("  ") || matches!(line.get(..3), Some("   "))
        {
            let into = match block {
                Block::Recommendations => Some(&mut summary.recommendations),
                Block::EarlyStopping => summary.early_stopping.last_mut().map(|(_, text)| text),
                Block::None | Block::Note => None,
            };
            match into {
                Some(text) => text.extend([line, "\n"]),
                None => problems.push(foreign(line_no)),
            }
            continue;
        }
        if matches!(block, Block::Note) && !line.is_empty() {
            continue;
        }
        block = Block::None;
        if line.starts_with("WARNING: sample_concatenate_permutation") {
            block = Block::Note;
        } else if line == "Recommendations:" {
            block = Block::Recommendations;
        } else if let Some(headline) = line.strip_suffix("Early Stopping Result:") {
            block = Block::EarlyStopping;
            let headline = format!("{headline}Early Stopping Result");
            summary.early_stopping.push((headline, String::new()));
        } else if let Some((label, value)) = line.split_once(':') {
            summary.fields.push((line_no, label.trim(), value.trim()));
        } else if let Some(count) = trailer(line, "warning") {
            summary.warnings = Some(count);
        } else if let Some(count) = trailer(line, "error") {
            summary.errors = Some(count);
        } else if !is_layout(line) {
            problems.push(foreign(line_no));
        }
    }
    if summary.errors.is_none() {
        let kind = ProblemKind::Truncated { expected: "the count of errors" };
        problems.push(LogReadProblem { line: text.lines().count(), kind });
    }
    (summary, problems)
}

fn foreign(line: usize) -> LogReadProblem {
    LogReadProblem { line, kind: ProblemKind::Foreign { expected: "`label : value`" } }
}

fn is_layout(line: &str) -> bool {
    let titles = ["MLPerf Results Summary", "Additional Stats", "Test Parameters Used"];
    line.bytes().all(|b| b == b'=') || titles.contains(&line)
}

/// Parses `No errors encountered during test.` or `3 ERRORS encountered. See ...`; returns the
/// count.
fn trailer(line: &str, what: &str) -> Option<u64> {
    let (count, rest) = line.split_once(' ')?;
    let (noun, rest) = rest.split_once(' ')?;
    if !rest.starts_with("encountered") {
        return None;
    }
    let noun = noun.to_ascii_lowercase();
    if noun.strip_suffix('s').unwrap_or(&noun) != what {
        return None;
    }
    if count == "No" { Some(0) } else { count.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trailers_in_all_their_forms() {
        let counts = |text: &str| {
            let (summary, _) = read_summary(text);
            (summary.warnings, summary.errors)
        };
        assert_eq!(
            counts(
                "\nNo warnings encountered during test.\n\n1 ERROR encountered. See detailed log.\n"
            ),
            (Some(0), Some(1))
        );
        assert_eq!(
            counts(
                "\n1 warning encountered. See detailed log.\n\n12 ERRORS encountered. See detailed log.\n"
            ),
            (Some(1), Some(12))
        );
        assert_eq!(counts("SUT name : x\n"), (None, None));
    }

    #[test]
    fn an_interrupted_summary_is_a_problem() {
        let (_, problems) = read_summary("SUT name : x\nwhat is this\n");
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], "line 2: expected `label : value`");
        assert!(texts[1].starts_with("line 2: the file ends early"), "{}", texts[1]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(?s).{0,200}|[ *:=\\nNo1a-z]{0,80}") {
            let (_, problems) = read_summary(&text);
            prop_assert!(problems.iter().all(|p| p.line <= text.lines().count()));
        }
    }
}
