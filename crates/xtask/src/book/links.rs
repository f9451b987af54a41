//! Links within a folder of HTML pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The page for addresses that do not exist; its links are relative to the root of a server.
const NOT_FOUND: &str = "404.html";

/// Returns a message for every link of a page below `folder` whose file or anchor does not exist.
pub fn dead(folder: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    read(folder, "", &mut files)?;
    let pages = files.iter().filter(|(path, _)| path.ends_with(".html") && *path != NOT_FOUND);
    let mut dead = Vec::new();
    for (path, html) in pages {
        for target in targets(html) {
            if let Some(why) = leads_nowhere(&files, path, target) {
                dead.push(format!("{path}: the link to {target} leads nowhere: {why}"));
            }
        }
    }
    dead.sort();
    dead.dedup();
    Ok(dead)
}

/// Text of pages by path with `/`; other files have empty text.
type Files = BTreeMap<String, String>;

fn read(folder: &Path, below: &str, files: &mut Files) -> Result<()> {
    let listed = folder.join(below);
    let entries =
        fs::read_dir(&listed).with_context(|| format!("cannot list {}", listed.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            read(folder, &path, files)?;
        } else {
            let is_page = path.ends_with(".html");
            let text = if is_page { fs::read_to_string(entry.path())? } else { String::new() };
            files.insert(path, text);
        }
    }
    Ok(())
}

fn targets(html: &str) -> impl Iterator<Item = &str> {
    let attributes = [" href=\"", " src=\""].into_iter();
    attributes.flat_map(|name| html.split(name).skip(1).filter_map(|rest| rest.split('"').next()))
}

fn leads_nowhere(files: &Files, page: &str, target: &str) -> Option<&'static str> {
    // Links to other sites, and those of other schemes such as `mailto:`.
    let scheme = target.split('/').next().unwrap_or_default();
    if scheme.contains(':') || target.starts_with("//") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.to_owned() } else { resolved(page, path) };
    let Some(html) = files.get(&path) else { return Some("there is no such file") };
    let is_anchored = anchor.is_empty() || html.contains(&format!("id=\"{anchor}\""));
    (!is_anchored).then_some("there is no such anchor")
}

/// Returns the path that a relative path in a page refers to.
pub fn resolved(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_missing_file_or_anchor_is_found() {
        let page = r##"<a href="../b.html#x">, <a href="#y">, <a href="https://a.org/c.html">"##;
        let files = Files::from([
            ("a/a.html".to_owned(), page.to_owned()),
            ("b.html".to_owned(), "<h1 id=\"x\">".to_owned()),
            ("b.css".to_owned(), String::new()),
        ]);
        let found = |target| leads_nowhere(&files, "a/a.html", target);
        let all: Vec<_> = targets(page).filter(|target| found(target).is_some()).collect();
        assert_eq!(all, ["#y"]);
        assert_eq!(found("../b.css"), None);
        assert_eq!(found("b.html"), Some("there is no such file"));
        assert_eq!(found("../b.html#z"), Some("there is no such anchor"));
    }
}
