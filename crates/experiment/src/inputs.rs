//! Files that determine a run, to notice changes before it is resumed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use dyno_results::sweep::InputFile;

use crate::failure::reject_special;
use crate::options::{Options, meaning};
use crate::system::SystemKind;

/// Adds the files of a run: its models, data, settings in LoadGen's format and code.
///
/// Beside a file with code of Python these are all such files of its folder, which it may import. Modules
/// below that folder and installed packages are not followed.
pub fn add_run(files: &mut Vec<InputFile>, options: &Options) {
    let run = &options.run;
    let tenants = options.tenants.iter().filter_map(|tenant| tenant.system.as_deref());
    let named = run.system.as_deref().into_iter().chain(tenants).flat_map(files_of_system);
    let paths = [&run.model, &run.labels, &run.audit, &run.ort_lib];
    let paths = paths.into_iter().flatten().cloned().chain(named);
    let data = run.data.iter().map(|(_, path)| path.clone());
    // A data folder of a task cannot be hashed like a file.
    let with = run.with.iter().map(|(_, path)| path.clone()).filter(|path| path.is_file());
    for path in paths.chain(data).chain(with).chain(run.conf.iter().cloned()) {
        add_file(files, &path);
    }
}

/// Adds a file, and the weights beside an ONNX model, unless it is there already or cannot be read.
pub fn add_file(files: &mut Vec<InputFile>, path: &Path) {
    if files.iter().all(|file| file.path != path) {
        files.extend(look_at(path, Path::new("")));
        files.extend(external_weights(path));
    }
}

/// Returns which files have changed or are missing, each in a sentence without its end. `base` is the folder
/// of relative paths.
pub fn changes(files: &[InputFile], base: &Path) -> Vec<String> {
    let changed = files.iter().filter_map(|file| {
        let now = look_at(&file.path, base);
        let what = if now.is_some() { "has changed" } else { "is missing" };
        (now.as_ref() != Some(file)).then(|| format!("{} {what} since", file.path.display()))
    });
    changed.collect()
}

fn files_of_system(spec: &str) -> Vec<PathBuf> {
    let Ok((kind, operand)) = SystemKind::of_spec(spec) else { return Vec::new() };
    let named = (kind.resources)(operand);
    let code: Vec<PathBuf> = named.libraries.into_iter().filter(|path| path.is_file()).collect();
    let modules = code.iter().flat_map(|path| modules_beside(path)).collect::<Vec<_>>();
    named.files.into_iter().chain(code).chain(modules).collect()
}

/// Returns the files with code of Python in the folder of one, by name.
fn modules_beside(code: &Path) -> Vec<PathBuf> {
    let is_python = |path: &Path| path.extension().is_some_and(|extension| extension == "py");
    let folder = code.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else {
        return Vec::new();
    };
    if !is_python(code) {
        return Vec::new();
    }
    let beside = entries.flatten().map(|entry| code.with_file_name(entry.file_name()));
    let mut modules: Vec<PathBuf> =
        beside.filter(|path| is_python(path) && path.is_file()).collect();
    modules.sort();
    modules
}

/// Returns the files beside an ONNX model that hold its weights.
fn external_weights(path: &Path) -> Vec<InputFile> {
    if path.extension().is_none_or(|extension| extension != "onnx") {
        return Vec::new();
    }
    let Ok(model) = dyno_onnx::Model::read(path) else { return Vec::new() };
    model.external_files().into_iter().filter_map(|file| look_at(file, Path::new(""))).collect()
}

/// Returns the current hash and size of a file; `None` if it cannot be read, which the run reports.
/// Comments and spacing of a `dyno.toml` are ignored.
fn look_at(path: &Path, base: &Path) -> Option<InputFile> {
    reject_special(&base.join(path)).ok()?;
    let mut file = File::open(base.join(path)).ok()?;
    let mut looked_at = InputFile { path: path.to_path_buf(), bytes: 0, crc32: 0 };
    if path.extension().is_some_and(|extension| extension == "toml") {
        let text = io::read_to_string(file).ok()?;
        let text = meaning(&text).unwrap_or(text);
        (looked_at.bytes, looked_at.crc32) = (text.len() as u64, crc32fast::hash(text.as_bytes()));
        return Some(looked_at);
    }
    // Models may have gigabytes and are read in parts.
    let (mut hasher, mut part) = (crc32fast::Hasher::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part).ok()? {
            0 => break,
            length => {
                hasher.update(&part[..length]);
                looked_at.bytes += length as u64;
            }
        }
    }
    looked_at.crc32 = hasher.finalize();
    Some(looked_at)
}
