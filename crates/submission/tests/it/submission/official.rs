//! Compares tables that the official checkers wrote for a real sample, row by row.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Program, Skip, check};
use dyno_submission::table::{Row, write_csv};

use crate::made::folder::{self, Folder};
use crate::shared;

/// Rows of a table by column name, in any order.
fn rows(table: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = table.lines().map(cells);
    let names = lines.next().unwrap();
    let row = |cells: Vec<String>| names.iter().cloned().zip(cells).collect();
    let mut rows: Vec<BTreeMap<String, String>> = lines.map(row).collect();
    rows.sort_by_key(|row| (row["Location"].clone(), row["Units"].clone()));
    rows
}

/// Returns the cells of a line. These tables contain no quotes in cells.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

fn written(checked: &CheckReport, program: Program) -> String {
    let mut out = Vec::new();
    write_csv(&checked.rows, program, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn compare(tree: &Path, table: &Path, round: &str, options: &Options) -> CheckReport {
    let checked = check(tree, Round::named(round).unwrap(), options).unwrap();
    let expected = fs::read_to_string(table).unwrap();
    let ours = written(&checked, options.program);
    let (ours, expected) = (rows(&ours), rows(&expected));
    assert_eq!(ours.len(), expected.len(), "{:#?}", checked.findings);
    for (ours, expected) in ours.iter().zip(&expected) {
        assert_eq!(ours, expected);
    }
    // Compares the order of columns and the quotes; the order of rows does not matter.
    let lines = |table: &str| {
        let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let table = fs::read_to_string(table).unwrap();
    assert_eq!(lines(&written(&checked, options.program)), lines(&table));
    let values = checked.rows.iter().map(|row: &Row| row.value);
    assert!(values.zip(&checked.rows).all(|(value, row)| {
        row.columns(options.program).any(|(name, text)| {
            name == "Result" && text.parse::<f64>().unwrap().to_bits() == value.to_bits()
        })
    }));
    checked
}

#[test]
fn the_checker_in_one_file_wrote_these_rows() {
    let Some(shared) = shared::find("reference/submissions") else { return };
    let options = Options::new(Program::Mono);
    let tree = shared.join("tree");
    let checked = compare(&tree, &shared.join("official-v5.1.1.csv"), "v5.1", &options);
    assert!(!checked.looks_fine());
    assert_eq!((checked.valid(), checked.results.len()), (11, 13));
    let options = Options { skip: vec![Skip::AccuracyOutputs], ..options };
    let table = shared.join("official-v5.1.1-skip-images.csv");
    let checked = compare(&tree, &table, "v5.1", &options);
    assert!(checked.looks_fine() && checked.is_valid());
}

#[test]
fn the_checker_in_modules_wrote_these_rows() {
    let Some(shared) = shared::find("reference/submissions") else { return };
    let options = Options::new(Program::Modular);
    let tree = shared.join("tree");
    let checked = compare(&tree, &shared.join("official-modular.csv"), "v5.1", &options);
    assert!(!checked.looks_fine() && !checked.crashes);
    assert_eq!((checked.valid(), checked.results.len()), (11, 13));
}

/// The layout by its documentation: one folder per result, `src`, and the seeds of v6.0.
fn to_layout_v6(tree: &Path, to: &Folder) {
    for (division, submitter) in [
        ("closed", "Lenovo"),
        ("closed", "RedHat"),
        ("closed", "Intel"),
        ("open", "Krai"),
        ("open", "GATEOverflow"),
    ] {
        let from = tree.join(division).join(submitter);
        let to = to.path().join(division).join(submitter);
        folder::copy(&from, &to);
        fs::rename(to.join("code"), to.join("src")).unwrap();
        for beside in ["measurements", "compliance"] {
            if to.join(beside).exists() {
                folder::copy(&to.join(beside), &to.join("results"));
                fs::remove_dir_all(to.join(beside)).unwrap();
            }
        }
        folder::each_file(&to.join("results"), &mut |file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            let depth = file.strip_prefix(&to).unwrap().components().count();
            if name == "mlperf_log_detail.txt" {
                reseed(file);
            } else if name.ends_with(".json") && depth == 5 {
                fs::rename(file, file.with_file_name("measurements.json")).unwrap();
            }
        });
    }
}

fn reseed(log: &Path) {
    let mut text = fs::read_to_string(log).unwrap();
    let (old, new) = (Round::named("v5.1").unwrap().seeds, Round::named("v6.0").unwrap().seeds);
    for (old, new) in
        [(old.qsl, new.qsl), (old.sample_index, new.sample_index), (old.schedule, new.schedule)]
    {
        text = text.replace(&old.to_string(), &new.to_string());
    }
    fs::write(log, text).unwrap();
}

#[test]
fn the_checker_in_modules_wrote_these_rows_of_the_layout_of_v6() {
    let Some(shared) = shared::find("reference/submissions") else { return };
    let folder = Folder::new("v6");
    to_layout_v6(&shared.join("tree"), &folder);
    let options = Options::new(Program::Modular);
    let table = shared.join("official-modular-v6.0-layout.csv");
    let checked = compare(folder.path(), &table, "v6.0", &options);
    assert_eq!((checked.valid(), checked.results.len()), (8, 11));
    assert!(!checked.crashes);
}
