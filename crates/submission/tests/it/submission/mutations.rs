//! 247 labeled edits of two real submissions, with the verdicts of both official checkers.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Outcome, Program, Skip, check};
use serde_json::Value;

use crate::made::folder::{self, Folder};
use crate::shared;

/// An edit with its verdicts.
pub struct Edit {
    pub base: PathBuf,
    pub name: String,
    pub flags: Vec<String>,
    ops: Vec<Value>,
    said: Value,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

pub fn edits(path: &Path, program: &str) -> Vec<Edit> {
    let edits: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let edit = |edit: &Value| Edit {
        base: text(edit, "base").into(),
        name: text(edit, "mutation").to_owned(),
        flags: list(&edit["flags"]).iter().map(|flag| flag.as_str().unwrap().to_owned()).collect(),
        ops: list(&edit["ops"]),
        said: edit[program].clone(),
    };
    list(&edits).iter().map(edit).collect()
}

impl Edit {
    /// Returns the labeled verdict.
    pub fn verdict(&self) -> &str {
        text(&self.said, "verdict")
    }

    /// Creates a tree with this edit.
    pub fn made(&self, tree: &Path) -> Folder {
        let folder = Folder::new("edit");
        cut_to_one_model(tree, &self.base, folder.path());
        for op in &self.ops {
            apply(op, folder.path());
        }
        folder
    }
}

/// Returns the submitter of a base, with only the base's model.
pub fn cut_to_one_model(tree: &Path, base: &Path, to: &Path) {
    let parts: Vec<&str> = base.iter().map(|part| part.to_str().unwrap()).collect();
    let (division, submitter, system, model) = (parts[0], parts[1], parts[3], parts[4]);
    let (from, to) = (tree.join(division).join(submitter), to.join(division).join(submitter));
    for whole in ["systems", "code", "documentation"] {
        folder::copy(&from.join(whole), &to.join(whole));
    }
    for kind in ["results", "measurements", "compliance"] {
        let model = Path::new(kind).join(system).join(model);
        folder::copy(&from.join(&model), &to.join(&model));
    }
}

fn apply(op: &Value, root: &Path) {
    let path = root.join(text(op, "path"));
    let write = |bytes: &[u8]| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    };
    match text(op, "op") {
        "log_set" | "log_drop" => edit_log(op, &path),
        "append" => write((fs::read_to_string(&path).unwrap() + text(op, "text")).as_bytes()),
        "write" => write(text(op, "text").as_bytes()),
        "delete" if path.is_dir() => fs::remove_dir_all(&path).unwrap(),
        // One edit deletes a file that only other submissions have.
        "delete" if path.exists() => fs::remove_file(&path).unwrap(),
        "delete" => {}
        "empty_file" => write(b""),
        "mkdir" => fs::create_dir_all(&path).unwrap(),
        "sparse" => {
            write(b"");
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(op["size"].as_u64().unwrap()).unwrap();
        }
        "symlink" => std::os::unix::fs::symlink(text(op, "target"), &path).unwrap(),
        "replace" => {
            // Python's syntax for groups, and Python's line splitting.
            let pattern = format!("(?m){}", text(op, "pattern"));
            let with = text(op, "with").replace(r"\g<1>", "${1}").replace(r"\1", "${1}");
            let old = fs::read(&path).unwrap();
            let regex = regex::bytes::RegexBuilder::new(&pattern).unicode(false).build().unwrap();
            write(&regex.replace_all(&old, with.as_bytes()));
        }
        "json_set" => {
            let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let object = json.as_object_mut().unwrap();
            if op["drop"] == true {
                object.remove(text(op, "key"));
            } else {
                object.insert(text(op, "key").to_owned(), op["value"].clone());
            }
            write(serde_json::to_string_pretty(&json).unwrap().as_bytes());
        }
        "rename" => fs::rename(&path, root.join(text(op, "to"))).unwrap(),
        other => panic!("there is no edit {other}"),
    }
}

/// Replaces the value of a key in every line that has it, or drops these lines.
fn edit_log(op: &Value, path: &Path) {
    let start = format!(":::MLLOG {{\"key\": \"{}\", \"value\": ", text(op, "key"));
    let mut edited = String::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        match line.strip_prefix(&start) {
            Some(_) if text(op, "op") == "log_drop" => continue,
            Some(rest) => {
                let (_, rest) = rest.split_once(", \"time_ms\": ").unwrap();
                edited += &format!("{start}{}, \"time_ms\": {rest}\n", op["value"]);
            }
            None => edited += &format!("{line}\n"),
        }
    }
    fs::write(path, edited).unwrap();
}

pub fn options(program: Program, flags: &[String]) -> Options {
    let mut options = Options::new(program);
    for flag in flags {
        match flag.trim_start_matches("--") {
            "submission-exceptions" => options.submission_exceptions = true,
            flag => {
                options.skip.push(Skip::ALL.into_iter().find(|skip| skip.name() == flag).unwrap());
            }
        }
    }
    options
}

/// Returns the verdict in the words of the labels.
fn verdict(checked: &CheckReport, base: &Path) -> &'static str {
    match checked.results.get(base) {
        _ if checked.crashes => "crash",
        None => "no entry",
        Some(Outcome::Valid { .. }) => "valid",
        Some(Outcome::Invalid) => "invalid",
    }
}

/// Returns the other rejected parts in the words of the labels.
fn also_invalid(checked: &CheckReport, base: &Path) -> Vec<String> {
    let invalid = checked
        .results
        .iter()
        .filter(|(path, outcome)| **outcome == Outcome::Invalid && path.as_path() != base);
    let model = base.parent().unwrap();
    let name = |path: &Path| match path.strip_prefix(model) {
        Ok(rest) if rest.as_os_str().is_empty() => "..".to_owned(),
        Ok(rest) => format!("../{}", rest.display()),
        Err(_) => path.display().to_string(),
    };
    let mut names: Vec<String> = invalid.map(|(path, _)| name(path)).collect();
    names.sort();
    names
}

/// Edits for which our verdict differs from the official program's.
fn differing(program: Program, label: &str, submitter: &str, count: usize) -> Vec<String> {
    let Some(shared) = shared::find("reference/submissions") else { return Vec::new() };
    let mut wrong = Vec::new();
    let mut edits = edits(&shared.join("mutations.json"), label);
    edits.retain(|edit| edit.base.iter().any(|part| part == submitter));
    assert_eq!(edits.len(), count);
    for edit in &edits {
        let folder = edit.made(&shared.join("tree"));
        let round = Round::named("v5.1").unwrap();
        let checked = check(folder.path(), round, &options(program, &edit.flags)).unwrap();
        let said = &edit.said;
        let mut differs = Vec::new();
        let ours = verdict(&checked, &edit.base);
        if ours != text(said, "verdict") {
            differs.push(format!("verdict {ours}, official {}", text(said, "verdict")));
        }
        if checked.looks_fine() != (said["exit"] == 0) {
            differs.push(format!("fine {}, official exit {}", checked.looks_fine(), said["exit"]));
        }
        if let Some(Outcome::Valid { metric }) = checked.results.get(&edit.base)
            && let Some(official) = said["metric"].as_str()
            && official.parse::<f64>().unwrap().to_bits() != metric.to_bits()
        {
            differs.push(format!("metric {metric}, official {official}"));
        }
        let also: Vec<&str> = said["also_invalid"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if ours != "crash" && !is_the_same(&also_invalid(&checked, &edit.base), &also) {
            differs
                .push(format!("also {:?}, official {also:?}", also_invalid(&checked, &edit.base)));
        }
        if !differs.is_empty() {
            let findings: Vec<String> = checked.findings.iter().map(ToString::to_string).collect();
            wrong.push(format!(
                "{} {}: {differs:?}\n    {}",
                edit.base.display(),
                edit.name,
                findings.join("\n    ")
            ));
        }
    }
    wrong
}

/// Whether the same parts are rejected, with two exceptions: labels do not name the root and
/// divisions; and if Server and Interactive are both missing, the official program names the
/// scenario that it checked last.
fn is_the_same(ours: &[String], official: &[&str]) -> bool {
    let is_named = |name: &&str| !["root", "closed", "..", "../Offline"].contains(name);
    let known = |name: &&str| ["..", "../Offline"].contains(name);
    let sorted = |names: &[&str]| {
        let mut names: Vec<String> =
            names.iter().copied().filter(is_named).map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    let (model, official_model) = (ours.iter().any(known), official.iter().any(known));
    // If a scenario is unknown, it is itself the last one.
    let is_model = model == official_model || official.contains(&"../Batch");
    sorted(&ours) == sorted(official) && is_model
}

#[test]
fn the_checker_in_one_file_says_the_same_of_every_edit_of_a_single_stream() {
    let differing = differing(Program::Mono, "mono_v5.1.1", "Lenovo", 128);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn the_checker_in_one_file_says_the_same_of_every_edit_of_a_language_model() {
    let differing = differing(Program::Mono, "mono_v5.1.1", "RedHat", 119);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn the_checker_in_modules_says_the_same_of_every_edit_of_a_single_stream() {
    let differing = differing(Program::Modular, "modular_b66003e1", "Lenovo", 128);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn the_checker_in_modules_says_the_same_of_every_edit_of_a_language_model() {
    let differing = differing(Program::Modular, "modular_b66003e1", "RedHat", 119);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
