//! The table of `docs/tasks/benchmarks.md` that lists the files of users.

use std::fmt::Write as _;
use std::path::Path;

use dyno_task::card::{Card, RequiredFile, Tier, cards};

/// Text before the table.
const MADE: &str = "<!-- Made from the cards: UPDATE_EXPECT=1 cargo test -p dyno-task --test official page -->\n\n";

fn table() -> String {
    let mut table =
        "| task | `--with` | what | verified by |\n| --- | --- | --- | --- |\n".to_owned();
    let runs = |card: &&Card| card.tier == Tier::Official && card.system.is_some();
    for card in cards().iter().filter(runs) {
        for (first, wanted) in (0..).zip(card.required_files()) {
            let RequiredFile { name, what, sha256, md5, md5_of, .. } = wanted;
            let task = if first == 0 { format!("`{}`", card.name) } else { String::new() };
            let is_data = card.data.files.iter().any(|file| file == wanted);
            let held = match (sha256, md5.is_empty(), is_data && !wanted.is_replaceable) {
                (Some(_), _, _) => "SHA-256",
                _ if !md5_of.is_empty() => "MD5 of each",
                (None, true, _) => "",
                (None, false, true) => "MD5",
                (None, false, false) => "MD5; a different one is reported",
            };
            let _ = writeln!(table, "| {task} | `{name}` | {what} | {held} |");
        }
    }
    table
}

#[test]
fn the_page_has_the_files_of_every_official_task_that_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks/benchmarks.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MADE).unwrap();
    let (found, after) = rest.split_once("\n\n").unwrap();
    let made = table();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, format!("{before}{MADE}{made}\n{after}")).unwrap();
        return;
    }
    assert_eq!(format!("{found}\n"), made, "UPDATE_EXPECT=1 writes the table anew");
}
