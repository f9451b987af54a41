//! Capabilities of the terminal, and the color preferences of its user.

use std::borrow::Cow;
use std::io::IsTerminal;

use terminal_size::{Height, Width, terminal_size_of};

/// Whether to use colors on a stream.
pub fn is_colored(stream: &impl IsTerminal) -> bool {
    wants_color(stream.is_terminal(), |name| std::env::var(name).ok())
}

/// Decides by `NO_COLOR` (no-color.org), which overrides `CLICOLOR_FORCE` and `CLICOLOR`
/// (bixense.com/clicolors).
fn wants_color(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let given = |value: Option<String>| value.filter(|value| !value.is_empty());
    if given(variable("NO_COLOR")).is_some() {
        return false;
    }
    if given(variable("CLICOLOR_FORCE")).is_some_and(|value| value != "0") {
        return true;
    }
    let is_off = given(variable("CLICOLOR")).is_some_and(|value| value == "0");
    is_terminal && !is_off && !is_dumb(variable)
}

/// Whether the terminal cannot move its cursor.
fn is_dumb(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("TERM").is_some_and(|term| term == "dumb")
}

/// Whether stderr can be redrawn: a terminal that is not dumb.
pub fn redraws() -> bool {
    std::io::stderr().is_terminal() && !is_dumb(|name| std::env::var(name).ok())
}

/// Returns columns and rows of the terminal on stderr, if known.
pub fn size() -> Option<(u16, u16)> {
    let (Width(columns), Height(rows)) = terminal_size_of(std::io::stderr())?;
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// Returns the columns of the terminal on stdout; `None` without one.
pub fn columns() -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(std::io::stdout())?;
    (columns > 0).then_some(columns.into())
}

/// Returns a text as a stream can show it: a terminal in the locale `C` or `POSIX` gets boxes and bars
/// of ASCII characters. Each character keeps its width.
pub fn drawn<'t>(text: &'t str, stream: &impl IsTerminal) -> Cow<'t, str> {
    if stream.is_terminal() && is_ascii(|name| std::env::var(name).ok()) {
        text.chars().map(in_ascii).collect()
    } else {
        text.into()
    }
}

/// Whether the locale is one of ASCII characters. Without a variable it is unknown.
fn is_ascii(variable: impl Fn(&str) -> Option<String>) -> bool {
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(given);
    locale.is_some_and(|locale| locale == "C" || locale == "POSIX")
}

/// Returns the ASCII character that is closest to a character of boxes and bars; others are kept.
fn in_ascii(c: char) -> char {
    match c {
        '─' => '-',
        '│' => '|',
        '┌' | '┐' | '└' | '┘' | '├' | '┤' => '+',
        '█' | '▉' | '▊' | '▋' | '▌' => '#',
        '▍' | '▎' | '▏' => ' ',
        '…' => '~',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_terminal: bool, variables: &[(&str, &str)], expected: bool) {
        let variable = |name: &str| {
            let found = variables.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_string())
        };
        assert_eq!(wants_color(is_terminal, variable), expected, "{variables:?}");
    }

    #[test]
    fn colors_are_for_terminals_and_for_those_who_ask() {
        check(true, &[], true);
        check(false, &[], false);
        check(true, &[("TERM", "xterm-256color")], true);
        check(true, &[("TERM", "dumb")], false);
        check(true, &[("NO_COLOR", "1")], false);
        check(true, &[("NO_COLOR", "")], true);
        check(true, &[("CLICOLOR", "0")], false);
        check(false, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], true);
        check(false, &[("CLICOLOR_FORCE", "0")], false);
        check(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false);
    }

    #[test]
    fn boxes_are_ascii_only_in_a_locale_that_says_so() {
        let of = |variables: &[(&str, &str)]| {
            is_ascii(|name| {
                let found = variables.iter().find(|(given, _)| *given == name);
                found.map(|(_, value)| (*value).to_string())
            })
        };
        assert!(of(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LC_CTYPE", "POSIX")]));
        assert!(of(&[("LANG", "C")]));
        assert!(!of(&[("LC_ALL", "C.UTF-8")]));
        assert!(!of(&[("LC_CTYPE", "de_DE.UTF-8"), ("LANG", "C")]));
        assert!(!of(&[]));
        let shown: String = "┌─ a ─┐ [█▌ ] │ ± é".chars().map(in_ascii).collect();
        assert_eq!(shown, "+- a -+ [## ] | ± é");
    }
}
