//! Source files of this crate. The build script also compiles this file, so that it uses nothing of
//! the crate.

use std::path::Path;
use std::{fs, io};

/// Returns every source file under `root` (a folder with `build.rs` and `src/`) as `/src/lib.rs`
/// with its hash, sorted by name.
pub fn hashes(root: &Path, hash: fn(&[u8]) -> String) -> io::Result<Vec<(String, String)>> {
    let mut found = vec![("/build.rs".to_string(), hash(&fs::read(root.join("build.rs"))?))];
    walk(&root.join("src"), "/src", hash, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(
    folder: &Path,
    name: &str,
    hash: fn(&[u8]) -> String,
    found: &mut Vec<(String, String)>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &name, hash, found)?;
        } else if name.ends_with(".rs") {
            found.push((name, hash(&fs::read(entry.path())?)));
        }
    }
    Ok(())
}
