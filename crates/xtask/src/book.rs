//! The book: `docs/` as HTML, by mdBook, with every link checked.

pub mod links;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::peers::target_folder;

/// Half a minute to compile without the features that serve and watch.
const MDBOOK: [&str; 2] = ["mdbook", "0.5.4"];

/// Builds the book, and says where it is.
pub fn run(root: &Path) -> Result<ExitCode> {
    let mdbook = match installed(root)? {
        Ok(mdbook) => mdbook,
        Err(missing) => {
            eprintln!("{missing}\nthe book is built by {}, which crates.io has", MDBOOK.join(" "));
            return Ok(ExitCode::FAILURE);
        }
    };
    let findings = build(root, &mdbook)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    println!("the book is {}", target_folder(root)?.join("book/index.html").display());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// mdBook, from an earlier run or installed now. `Err` inside says why it cannot
/// be had here.
pub fn installed(root: &Path) -> Result<Result<PathBuf, String>> {
    let tools = target_folder(root)?.join("tools");
    let mdbook = tools.join("bin").join(format!("{}{}", MDBOOK[0], std::env::consts::EXE_SUFFIX));
    let version = Command::new(&mdbook).arg("--version").output();
    if version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).trim().ends_with(MDBOOK[1])) {
        return Ok(Ok(mdbook));
    }
    let [name, version] = MDBOOK;
    eprintln!("installing {name} {version} into {}", tools.display());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut install = Command::new(cargo);
    install.args(["install", name, "--version", version, "--locked", "--debug", "--force"]);
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
    // It compiles in a folder that is removed afterwards.
    install.env_remove("CARGO_TARGET_DIR").current_dir(root);
    install.env("CARGO_PROFILE_DEV_DEBUG", "0");
    let status = install.status().context("cannot start cargo")?;
    Ok(if status.success() { Ok(mdbook) } else { Err(format!("cargo install {name}: {status}")) })
}

/// Builds the book into `target/book`. Returns links that lead nowhere.
pub fn build(root: &Path, mdbook: &Path) -> Result<Vec<String>> {
    let folder = target_folder(root)?.join("book");
    let output = Command::new(mdbook)
        .args(["build", "--dest-dir"])
        .arg(&folder)
        .arg(root)
        .output()
        .context("cannot start mdbook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // A file that cannot be included is a line of its log, and no failure.
    if !output.status.success() || said.contains("ERROR") || said.contains("WARN") {
        bail!("mdbook build: {}\n{said}", output.status);
    }
    links::dead(&folder)
}
