//! A canonical form of `dyno.toml`, which does not depend on its formatting.

use std::fmt::Write as _;

use toml::de::{DeTable, DeValue};

use super::toml_text;

/// Keys of `[sweep]` that limit a single invocation and do not define the sweep.
const OF_ONE_GO: [&str; 5] = ["pause", "max_time", "limit", "p99_below", "until_saturated"];

/// Returns a text that is equal for files with equal values, whatever their comments, spacing and
/// order of keys. It omits keys of `[sweep]` that limit a single invocation. `None` if the text is
/// not TOML.
pub fn meaning(text: &str) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let mut lines = Vec::new();
    table(document.get_ref(), "", &mut lines);
    lines.sort();
    Some(lines.concat())
}

fn table(table: &DeTable<'_>, path: &str, lines: &mut Vec<String>) {
    for (key, item) in table {
        let key = key.get_ref();
        if path != "/\"sweep\"" || !OF_ONE_GO.contains(&&**key) {
            value(item.get_ref(), &format!("{path}/{key:?}"), lines);
        }
    }
}

fn value(item: &DeValue<'_>, path: &str, lines: &mut Vec<String>) {
    match item {
        DeValue::Table(item) => table(item, path, lines),
        DeValue::Array(item) => {
            for (at, one) in item.iter().enumerate() {
                value(one.get_ref(), &format!("{path}/{at}"), lines);
            }
        }
        plain => {
            let mut line = format!("{path} = ");
            let _ = match toml_text(plain) {
                Some(text) => writeln!(line, "{text:?}"),
                None => writeln!(line, "{plain:?}"),
            };
            lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "a = 1\n[sweep]\nrepeat = 2\npause = \"1s\"\nover.batch = [1, 2]\n";

    #[track_caller]
    fn check(text: &str, is_same: bool) {
        assert_eq!(meaning(text) == meaning(FILE), is_same, "{text}");
    }

    #[test]
    fn comments_spacing_and_what_is_said_of_one_go_mean_nothing() {
        assert!(meaning(FILE).is_some());
        check("# why\na=0x1\n\n[sweep]\nrepeat = 2\n[sweep.over]\nbatch = [1, 2] # two\n", true);
        check("a = 1\nsweep = {limit = 3, over = {batch = [1, 2]}, repeat = 2}\n", true);
        check(&FILE.replace("a = 1", "a = 2"), false);
        check(&FILE.replace("[1, 2]", "[2, 1]"), false);
        check(&FILE.replace("repeat = 2", "repeat = 3"), false);
        check(&FILE.replace("a = 1", "a = 1\npause = 1"), false);
        assert_eq!(meaning("a = "), None);
    }
}
