//! Capabilities of the terminal, and the color preferences of its user.

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
}
