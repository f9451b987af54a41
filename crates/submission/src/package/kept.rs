//! What a tree has already of what a package brings. A human may have completed it, so
//! that it stays; what is still marked there is filled in if it is known by now.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::describe::{self, MARKER};
use super::{Asked, Conflict, PackageError};

/// A description that is there.
pub(super) struct Kept {
    /// Its fields, with what was filled in.
    pub fields: Map<String, Value>,
    /// Whether anything was.
    pub is_completed: bool,
    /// Where it says something else than the submitter does now.
    pub notes: Vec<String>,
}

/// Reads a file of the tree that holds a JSON object; nothing if there is no such file.
pub(super) fn object(path: &Path) -> Result<Option<Map<String, Value>>, PackageError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| PackageError::File {
            path: path.to_owned(),
            problem: format!("is no JSON object: {error}"),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PackageError::file(path, &error)),
    }
}

/// The description of the system that the tree has at `path`. What the flags say must be
/// what it says: checks and tables take its word for all results of the system.
pub(super) fn system(
    asked: &Asked<'_>,
    path: &Path,
    mut fields: Map<String, Value>,
) -> Result<Kept, PackageError> {
    let mut conflicts = Vec::new();
    let mut notes = Vec::new();
    let mut is_completed = false;
    let mut complete = |fields: &mut Map<String, Value>, name: &str, said: &Value| {
        let is_open = fields.get(name).is_none_or(is_marked);
        if is_open {
            fields.insert(name.to_owned(), said.clone());
            is_completed = true;
        }
        is_open
    };
    let flags = describe::of_flags(asked);
    for (field, said, flag) in &flags {
        let said = Value::from(*said);
        if !complete(&mut fields, field, &said) && !is_same(&fields[*field], &said) {
            let (kept, said) = (text(&fields[*field]), text(&said));
            conflicts.push(Conflict { field, kept, said, flag });
        }
    }
    if !conflicts.is_empty() {
        return Err(PackageError::SystemDiffers { path: path.to_owned(), conflicts });
    }
    let described = asked.description.system.iter();
    for (field, said) in described.filter(|(name, _)| flags.iter().all(|(f, ..)| f != name)) {
        if !complete(&mut fields, field, said) && !is_same(&fields[field], said) {
            let (path, kept, said) = (path.display(), text(&fields[field]), text(said));
            notes.push(format!("{path} stays with `{field}` {kept}; --describe says {said}"));
        }
    }
    Ok(Kept { fields, is_completed, notes })
}

fn is_marked(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(MARKER))
}

/// As it is written, without the quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether two values mean the same: case does not count, nor does the order of a list.
fn is_same(kept: &Value, said: &Value) -> bool {
    let parts = |value: &Value| -> BTreeSet<String> {
        text(value).split(',').map(|part| part.trim().to_lowercase()).collect()
    };
    parts(kept) == parts(said)
}

/// The line of a page that is still marked.
pub(super) fn marked_line(page: &str) -> Option<&str> {
    page.lines().find(|line| line.starts_with(MARKER))
}
