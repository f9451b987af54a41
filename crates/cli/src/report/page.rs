//! What every page has: head, style, script, masthead, foot. A page refers to
//! nothing outside itself, and its policy forbids it to.

use std::fmt::Write as _;

use super::words::escaped;
use crate::environment::VERSION;
use crate::summary::DISCLAIMER;

/// Nothing is loaded, from anywhere; style and script stand in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// How a verdict looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As hoped for.
    Good,
    /// Not as hoped for.
    Bad,
}

impl Tone {
    /// Of something that counts or does not.
    pub fn of(is_valid: bool) -> Self {
        if is_valid { Self::Good } else { Self::Bad }
    }

    /// Its class in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }
}

/// A verdict with its sign, which reads without colour.
pub fn badge(text: &str, tone: Tone) -> String {
    let sign = match tone {
        Tone::Good => "✓ ",
        Tone::Bad => "✕ ",
    };
    format!("<span class=\"badge {}\">{sign}{}</span>", tone.class(), escaped(text))
}

/// The masthead of a page.
pub struct Masthead<'a> {
    /// Name of the run, or what several have in common.
    pub name: &'a str,
    /// Verdict and its tone, if there is one verdict.
    pub verdict: Option<(&'a str, Tone)>,
    /// Facts below the name, as HTML.
    pub facts: Vec<String>,
}

/// A whole document.
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
        "</p>\n</header>\n<main id=\"main\">\n{body}</main>\n<footer><p>Made by dyno {VERSION}. \
         This is {DISCLAIMER}.</p></footer>\n<script>\n{}</script>\n</body>\n</html>\n",
        include_str!("script.js")
    );
    page
}

/// What is missing of what a page should show; nothing if all is there.
pub fn missing(problems: &[String]) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<section class=\"card problem\" role=\"alert\"><h2>Not everything is here</h2><ul>",
    );
    for problem in problems {
        let _ = write!(html, "<li>{}</li>", escaped(problem));
    }
    html + "</ul><p>What could be read is shown below.</p></section>\n"
}
