//! Frame of every page: head, style, script, masthead and footer. A page refers to nothing outside
//! itself; its content security policy forbids it.

use std::fmt::Write as _;

use dyno_results::VERSION;
use dyno_results::summary::distributions::is_only_largest;
use dyno_results::summary::{DISCLAIMER, Verdict};

use super::words::{self, escaped};

/// Content security policy. It allows no external resource and no script but ours, which is
/// identified by its hash. Inline style is allowed because attributes place the marks of charts.
const POLICY: &str = concat!(
    "default-src 'none'; style-src 'unsafe-inline'; script-src '",
    include_str!("script.js.hash"),
    "'; img-src data:; base-uri 'none'; form-action 'none'"
);

/// Content of the script element.
const SCRIPT: &str = concat!("\n", include_str!("script.js"));

/// Color and sign of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Valid.
    Good,
    /// Invalid, aborted or interrupted.
    Bad,
    /// Undecided.
    Open,
}

impl Tone {
    /// Returns `Good` for a valid result, else `Bad`.
    pub(crate) fn of_validity(is_valid: bool) -> Self {
        if is_valid { Self::Good } else { Self::Bad }
    }

    /// Returns the tone of a verdict, by its word.
    pub fn of_verdict(word: &str) -> Self {
        match word {
            _ if word == Verdict::Valid.name() => Self::Good,
            _ if word == Verdict::Undecided.name() => Self::Open,
            _ => Self::Bad,
        }
    }

    /// Returns the class in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Open => "open",
        }
    }
}

/// Returns a verdict with a sign, so that it can be read without color.
///
/// ```
/// use dyno_report::page::{Tone, badge};
///
/// assert_eq!(badge("VALID", Tone::Good), "<span class=\"badge good\">✓ VALID</span>");
/// ```
pub fn badge(text: &str, tone: Tone) -> String {
    let sign = match tone {
        Tone::Good => "✓ ",
        Tone::Bad => "✕ ",
        Tone::Open => "? ",
    };
    format!("<span class=\"badge {}\">{sign}{}</span>", tone.class(), escaped(text))
}

/// Returns the class of the container of a table; a table of more than 40 rows scrolls by itself.
pub fn scroll(rows: usize) -> &'static str {
    if rows > 40 { "scroll long" } else { "scroll" }
}

/// Mark of a percentile that is only the largest value.
const MARK: char = '*';

/// Returns a percentile of so many values as text, with a mark if it is only the largest one.
pub fn percentile(nanos: f64, values: u64, percent: f64) -> String {
    let mut text = words::time(nanos);
    text.extend(is_only_largest(values, percent).then_some(MARK));
    text
}

/// Returns a table of numbers, whose rows become blocks in a narrow window. The first column names
/// the rows. Heads and cells are escaped. A note explains marks of [`percentile`].
pub fn numbers(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut html =
        String::from("<div class=\"scroll\" tabindex=\"0\"><table class=\"stack\"><thead><tr>");
    for (at, head) in heads.iter().enumerate() {
        let class = if at == 0 { "" } else { " class=\"n\"" };
        let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escaped(head));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for (at, (head, cell)) in heads.iter().zip(row).enumerate() {
            let (head, cell) = (escaped(head), escaped(cell));
            let _ = if at == 0 {
                write!(html, "<th scope=\"row\">{cell}</th>")
            } else {
                write!(html, "<td class=\"n\" data-label=\"{head}\">{cell}</td>")
            };
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    if rows.iter().any(|row| row.iter().skip(1).any(|cell| cell.ends_with(MARK))) {
        html.push_str(
            "<p class=\"note\">* too few values for this percentile; shown is the largest one</p>",
        );
    }
    html
}

/// Masthead of a page.
pub struct Masthead<'a> {
    /// Name of the run, search, sweep or group of runs.
    pub name: &'a str,
    /// Verdict and its tone; `None` for several runs.
    pub verdict: Option<(&'a str, Tone)>,
    /// Facts below the name, as HTML.
    pub facts: Vec<String>,
}

/// Returns a complete HTML document. `title` and the name are escaped; `body` and the facts are
/// HTML.
pub fn document(title: &str, masthead: &Masthead<'_>, body: &str) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"dyno {VERSION}\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the results</a>\n<header>\n\
         <div class=\"top\"><p class=\"brand\"><b>dyno</b> report</p>\
         <div class=\"tools\" id=\"tools\"></div></div>\n<h1>{}",
        escaped(title),
        include_str!("style.css"),
        escaped(masthead.name),
    );
    if let Some((verdict, tone)) = masthead.verdict {
        let _ = write!(page, " {}", badge(verdict, tone));
    }
    page += "</h1>\n<p class=\"facts\">";
    for fact in &masthead.facts {
        let _ = write!(page, "<span>{fact}</span> ");
    }
    let _ = write!(
        page,
        "</p>\n</header>\n<main id=\"main\">\n{body}</main>\n<footer><p>Generated by dyno \
         {VERSION}. This is \
         {DISCLAIMER}.</p></footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

/// Returns a card that lists problems of reading; empty without problems.
pub fn missing(problems: &[String]) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let mut html =
        String::from("<section class=\"card problem\" role=\"alert\"><h2>Incomplete data</h2><ul>");
    for problem in problems {
        let _ = write!(html, "<li>{}</li>", escaped(problem));
    }
    html + "</ul><p>The readable data is shown below.</p></section>\n"
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// As a policy has it: the digest in base 64.
    fn hash(script: &str) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::from("sha256-");
        for bytes in Sha256::digest(script).chunks(3) {
            let three = [0, 1, 2].map(|at| u32::from(bytes.get(at).copied().unwrap_or(0)));
            let bits = three[0] << 16 | three[1] << 8 | three[2];
            for at in 0..=bytes.len() {
                text.push(LETTERS[(bits >> (18 - 6 * at) & 63) as usize].into());
            }
            text.push_str(&"="[bytes.len() / 3..].repeat(3 - bytes.len()));
        }
        text
    }

    /// `UPDATE_EXPECT=1` writes it anew.
    #[test]
    fn the_policy_names_the_script() {
        // Of https://www.w3.org/TR/CSP2, section 4.2.5.
        let example = hash("alert('Hello, world.');");
        assert_eq!(example, "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
        let expected = hash(SCRIPT);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/script.js.hash");
            std::fs::write(file, &expected).unwrap();
            return;
        }
        assert!(
            POLICY.contains(&expected),
            "the script has changed; UPDATE_EXPECT=1 hashes it anew"
        );
    }
}
