//! The book: mdBook makes HTML of `docs/`, and every link is checked.

pub mod links;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use dyno_peers::cargo::{self, target_folder};

/// Name and version of the builder. It compiles in half a minute without the features that serve
/// and watch.
const MDBOOK: [&str; 2] = ["mdbook", "0.5.4"];

/// Builds the book, prints its path, and fails if links are dead.
pub fn run(root: &Path) -> Result<ExitCode> {
    let mdbook = match install_mdbook(root)? {
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

/// Installs mdBook unless an earlier run did, and returns its path. The inner error is the reason why
/// it cannot be installed.
pub fn install_mdbook(root: &Path) -> Result<Result<PathBuf, String>> {
    let tools = target_folder(root)?.join("tools");
    let mdbook = tools.join("bin").join(format!("{}{}", MDBOOK[0], std::env::consts::EXE_SUFFIX));
    let version = Command::new(&mdbook).arg("--version").output();
    if version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).trim().ends_with(MDBOOK[1])) {
        return Ok(Ok(mdbook));
    }
    let [name, version] = MDBOOK;
    eprintln!("installing {name} {version} into {}", tools.display());
    let mut install = cargo::command(root);
    install.args(["install", name, "--version", version, "--locked", "--debug", "--force"]);
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
    // Without a target folder, cargo compiles in a temporary one.
    install.env_remove("CARGO_TARGET_DIR").env("CARGO_PROFILE_DEV_DEBUG", "0");
    let status = install.status().context("cannot start cargo")?;
    Ok(if status.success() { Ok(mdbook) } else { Err(format!("cargo install {name}: {status}")) })
}

/// Builds the book into `target/book` and returns its dead links.
pub fn build(root: &Path, mdbook: &Path) -> Result<Vec<String>> {
    let folder = target_folder(root)?.join("book");
    let output = Command::new(mdbook)
        .args(["build", "--dest-dir"])
        .arg(&folder)
        .arg(root)
        .output()
        .context("cannot start mdbook")?;
    let log = String::from_utf8_lossy(&output.stderr);
    // mdBook logs a missing include as an error, but succeeds.
    if !output.status.success() || log.contains("ERROR") || log.contains("WARN") {
        bail!("mdbook build: {}\n{log}", output.status);
    }
    links::dead(&folder)
}
