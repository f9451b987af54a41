//! The file `SHA256SUMS`, in the format of `sha256sum --check`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

pub const FILE: &str = "SHA256SUMS";

/// Returns the SHA-256 hash in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the sums of all other files of a folder.
pub fn write(folder: &Path) -> Result<()> {
    fs::write(folder.join(FILE), lines(folder)?).context("cannot write the sums")
}

/// Checks that the sums are right and complete, and returns the number of files.
pub fn check(folder: &Path) -> Result<usize> {
    let written = fs::read_to_string(folder.join(FILE)).context("there are no sums")?;
    let found = lines(folder)?;
    let differs =
        |a: &str, b: &str| a.lines().find(|line| !b.lines().any(|b| b == *line)).map(str::to_owned);
    if let Some(line) = differs(&found, &written).or_else(|| differs(&written, &found)) {
        let name = line.split("  ").nth(1).unwrap_or(&line).to_owned();
        anyhow::bail!("{name} is not the file that the sums are of");
    }
    ensure!(!written.is_empty(), "the sums are of no file");
    Ok(written.lines().count())
}

fn lines(folder: &Path) -> Result<String> {
    let read = fs::read_dir(folder).with_context(|| format!("there is no {}", folder.display()))?;
    let mut lines = Vec::new();
    for entry in read {
        let entry = entry.context("cannot read the folder")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != FILE {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
            lines.push((name, sha256(&bytes)));
        }
    }
    lines.sort();
    Ok(lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_a_missing_and_a_new_file_are_errors() {
        let folder = std::env::temp_dir().join(format!("dyno-sums-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.txt");
        fs::write(&file, "abc").unwrap();
        write(&folder).unwrap();
        let sums = fs::read_to_string(folder.join(FILE)).unwrap();
        // From FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums, format!("{abc}  a.txt\n"));
        assert_eq!(check(&folder).unwrap(), 1);
        let error = || check(&folder).unwrap_err().to_string();
        fs::write(&file, "abd").unwrap();
        assert_eq!(error(), "a.txt is not the file that the sums are of");
        fs::remove_file(&file).unwrap();
        assert_eq!(error(), "a.txt is not the file that the sums are of");
        fs::write(&file, "abc").unwrap();
        fs::write(folder.join("b.txt"), "").unwrap();
        assert_eq!(error(), "b.txt is not the file that the sums are of");
        fs::remove_dir_all(&folder).unwrap();
    }
}
