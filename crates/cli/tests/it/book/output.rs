//! What was printed against what a page shows.

/// Stands for anything within a line, or, alone on it, for any lines.
const ANYTHING: &str = "...";

/// Whether `found` is what the page shows.
pub fn agrees(shown: &str, found: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(str::to_owned).collect::<Vec<_>>();
    lines_agree(&lines(shown), &lines(found))
}

/// Whether `found` has the lines of `shown` in order, numbers, their units and
/// verdicts aside.
pub fn is_like(shown: &str, found: &str) -> bool {
    let mut found = found.lines().map(shape);
    shown.lines().map(shape).filter(|line| !line.is_empty()).all(|line| found.any(|l| l == line))
}

/// A line without what differs from machine to machine.
fn shape(line: &str) -> String {
    let is_figure = |word: &str| {
        let word = word.trim_end_matches(',');
        let units = ["ns", "us", "ms", "s", "min", "VALID", "INVALID", "UNDECIDED", "-"];
        word.starts_with(|c: char| c.is_ascii_digit()) || units.contains(&word)
    };
    let words = line.split(|c: char| c.is_whitespace() || "│─┌┐└┘├┤".contains(c));
    let words = words.filter(|word| !word.is_empty() && !is_figure(word));
    words.collect::<Vec<_>>().join(" ")
}

fn lines_agree(shown: &[String], found: &[String]) -> bool {
    match (shown, found) {
        ([], []) => true,
        ([gap, rest @ ..], _) if gap.trim() == ANYTHING => {
            (0..=found.len()).any(|skipped| lines_agree(rest, &found[skipped..]))
        }
        ([line, rest @ ..], [first, others @ ..]) => {
            line_agrees(line.trim_end(), first.trim_end()) && lines_agree(rest, others)
        }
        _ => false,
    }
}

fn line_agrees(shown: &str, found: &str) -> bool {
    let Some((before, after)) = shown.split_once(ANYTHING) else { return shown == found };
    let Some(rest) = found.strip_prefix(before) else { return false };
    let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.any(|at| line_agrees(after, &rest[at..]))
}

#[test]
fn three_dots_stand_for_anything() {
    assert!(agrees("p99 ... ms\nb", "p99 2.7 ms\nb\n"));
    assert!(agrees("a\n...\nz", "a\nb\nc\nz"));
    assert!(agrees("...\nz", "z"));
    assert!(agrees("│ ... │", "│ µ │"));
    assert!(!agrees("p99 ... ms", "p99 2.7 us"));
    assert!(!agrees("a\n...\nz", "a\nb"));
    assert!(!agrees("a", "a\nb"));
}

#[test]
fn figures_of_one_machine_are_like_those_of_another() {
    let shown = "│ Server   1,006 queries/s  644 ns  VALID │\n│ Offline  6.20 s │";
    assert!(is_like(shown, "│ a │\n│ Server 12.5 queries/s 1.1 us INVALID │\n│ Offline 7 ms │\nb"));
    assert!(!is_like(shown, "│ Server 12.5 samples/s 1.1 us VALID │\n│ Offline 7 ms │"));
    assert!(!is_like(shown, "│ Offline 7 ms │\n│ Server 12.5 queries/s 1.1 us │"));
}
