//! Existing files of a tree. The submitter may have edited them, so they stay; only fields that
//! are still marked are filled in if their values are known.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use dyno_tensors::files;
use serde_json::{Map, Value};

use super::describe::{self, MARKER};
use super::{Conflict, PackageError, PackageRequest};

/// An existing system description.
pub(super) struct ExistingDescription {
    /// Its fields, including the filled-in ones.
    pub fields: Map<String, Value>,
    /// Whether fields were filled in.
    pub is_completed: bool,
    /// Differences from the submitter's current description, as sentences.
    pub notes: Vec<String>,
}

/// Reads a file with a JSON object; returns `None` if the file does not exist.
pub(super) fn object(path: &Path) -> Result<Option<Map<String, Value>>, PackageError> {
    match files::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| PackageError::File {
            path: path.to_owned(),
            problem: format!("is not a JSON object: {error}"),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PackageError::file(path, &error)),
    }
}

/// Completes the existing system description at `path`. It must agree with the flags, because
/// checks and tables use it for all results of the system.
pub(super) fn system(
    request: &PackageRequest<'_>,
    path: &Path,
    mut fields: Map<String, Value>,
) -> Result<ExistingDescription, PackageError> {
    let mut conflicts = Vec::new();
    let mut notes = Vec::new();
    let mut is_completed = false;
    let mut complete = |fields: &mut Map<String, Value>, name: &str, value: &Value| {
        let is_open = fields.get(name).is_none_or(is_marked);
        if is_open {
            fields.insert(name.to_owned(), value.clone());
            is_completed = true;
        }
        is_open
    };
    let flags = describe::flag_fields(request);
    for (field, value, flag) in &flags {
        let value = Value::from(*value);
        if !complete(&mut fields, field, &value) && !is_same(&fields[*field], &value) {
            let existing = text(&fields[*field]);
            conflicts.push(Conflict { field, existing, requested: text(&value), flag });
        }
    }
    if !conflicts.is_empty() {
        return Err(PackageError::SystemDiffers { path: path.to_owned(), conflicts });
    }
    let described = request.description.system.iter();
    for (field, value) in described.filter(|(name, _)| flags.iter().all(|(f, ..)| f != name)) {
        if !complete(&mut fields, field, value) && !is_same(&fields[field], value) {
            let (path, existing, value) = (path.display(), text(&fields[field]), text(value));
            notes.push(format!("{path} keeps `{field}` {existing}; --describe has {value}"));
        }
    }
    Ok(ExistingDescription { fields, is_completed, notes })
}

fn is_marked(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(MARKER))
}

/// Formats a value without quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether two values are equal, ignoring case and the order of lists.
fn is_same(one: &Value, other: &Value) -> bool {
    let parts = |value: &Value| -> BTreeSet<String> {
        text(value).split(',').map(|part| part.trim().to_lowercase()).collect()
    };
    parts(one) == parts(other)
}

/// Returns the line of a page that still has a marker.
pub(super) fn marked_line(page: &str) -> Option<&str> {
    page.lines().find(|line| line.starts_with(MARKER))
}
