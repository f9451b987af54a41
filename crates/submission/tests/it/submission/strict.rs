//! What the rules say of 247 labelled edits of two real submissions, beside what the
//! official programs say: a reviewed list.
//!
//! `testdata/strict_edits.tsv` was made by Dyno, and read row by row: base, edit, the
//! two official verdicts, ours, the ids of our errors, and a reason where we and one of
//! the official programs disagree. `UPDATE_EXPECT=1` writes it anew and keeps the
//! reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use dyno_rules::Round;
use dyno_submission::check::{Checked, Outcome, Program, check};
use dyno_submission::finding::Severity;

use super::mutations::{Edit, edits, options};
use crate::shared;

const HEAD: &str = "base\tedit\tmono\tmodular\tstrict\terrors\treason\n";

/// Verdict and ids of the errors.
fn judge(checked: &Checked, base: &Path) -> (&'static str, String) {
    let valid = matches!(checked.results.get(base), Some(Outcome::Valid { .. }));
    let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let ids: BTreeSet<&str> = errors.map(|finding| finding.check).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    (if valid { "valid" } else { "invalid" }, ids.join(" "))
}

/// Reasons of the list as it stands, by base and edit.
fn reasons(list: &str) -> BTreeMap<(String, String), String> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [base, edit, .., reason] = cells.as_slice() else { return None };
        Some((((*base).to_owned(), (*edit).to_owned()), (*reason).to_owned()))
    };
    list.lines().skip(1).filter_map(row).collect()
}

fn rows(list: &Path, shared: &Path) -> String {
    let path = shared.join("mutations.json");
    let known = reasons(&fs::read_to_string(list).unwrap_or_default());
    let (mono, modular) = (edits(&path, "mono_v5.1.1"), edits(&path, "modular_b66003e1"));
    let round = Round::named("v5.1").unwrap();
    let mut table = HEAD.to_owned();
    for (edit, modular) in mono.iter().zip(&modular) {
        let Edit { base, name, flags, .. } = edit;
        let folder = edit.made(&shared.join("tree"));
        let checked = check(folder.path(), round, &options(Program::Strict, flags)).unwrap();
        let (verdict, errors) = judge(&checked, base);
        let base = base.iter().nth(1).unwrap().to_str().unwrap();
        let key = (base.to_owned(), name.clone());
        let reason = known.get(&key).map_or("", String::as_str);
        let (mono, modular) = (edit.verdict(), modular.verdict());
        writeln!(table, "{base}\t{name}\t{mono}\t{modular}\t{verdict}\t{errors}\t{reason}")
            .unwrap();
    }
    table
}

#[test]
fn the_rules_say_of_every_edit_what_was_reviewed() {
    let Some(shared) = shared::find("reference/submissions") else { return };
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/strict_edits.tsv");
    let now = rows(&list, &shared);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        fs::write(&list, &now).unwrap();
    }
    let reviewed = fs::read_to_string(&list).unwrap();
    for (now, reviewed) in now.lines().zip(reviewed.lines()) {
        assert_eq!(now, reviewed, "look at it, then run again with UPDATE_EXPECT=1");
    }
    assert_eq!(now.lines().count(), reviewed.lines().count());
    for line in reviewed.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let said = |verdict: &str| if verdict == "valid" { "valid" } else { "invalid" };
        let differs = [cells[2], cells[3]].iter().any(|verdict| said(verdict) != cells[4]);
        assert!(!differs || !cells[6].is_empty(), "says no reason: {line}");
    }
}
