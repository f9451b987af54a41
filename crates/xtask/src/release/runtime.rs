//! Code in every program that is no package: the standard library of Rust with its dependencies, and
//! the libc of static programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dyno_peers::shell;
use dyno_peers::venv::Venv;

use super::target::Target;

/// The standard library of Rust and the libc of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Version of the standard library, such as `1.95.0`.
    pub rust: String,
    /// Packages inside the standard library: name, version, license.
    pub parts: Vec<[String; 3]>,
    /// The version of the libc that is linked into a static program.
    pub musl: Option<String>,
    /// Owners and files of license texts.
    pub texts: Vec<(&'static str, PathBuf)>,
    /// Documents that this machine's installation of Rust lacks.
    pub lacks: Vec<&'static str>,
}

/// Packages that the standard library may contain on Linux. Its document also lists packages of other
/// systems and of its build.
const PARTS: [&str; 11] = [
    "addr2line",
    "adler2",
    "cfg-if",
    "foldhash",
    "gimli",
    "hashbrown",
    "libc",
    "memchr",
    "miniz_oxide",
    "object",
    "rustc-demangle",
];

/// Finds versions and licenses in the installations of Rust and of the linker. `rustc` is the output
/// of `rustc --version`.
pub fn find(root: &Path, rustc: &str, tools: &Venv, target: Target) -> Result<Runtime> {
    let mut sysroot = shell::tool("RUSTC", "rustc", root);
    let sysroot = PathBuf::from(shell::output(sysroot.args(["--print", "sysroot"]))?);
    let documents = sysroot.join("share/doc/rust");
    let mut lacks = Vec::new();
    let mut texts: Vec<(&str, PathBuf)> = ["MIT.txt", "Apache-2.0.txt"]
        .map(|name| ("the standard library of Rust", documents.join("licenses").join(name)))
        .into();
    texts.retain(|(_, file)| file.is_file());
    if texts.len() < 2 {
        lacks.push("licence texts of the standard library of Rust");
    }
    let parts = fs::read_to_string(documents.join("COPYRIGHT-library.html"));
    let parts = parts.map(|text| parse_parts(&text)).unwrap_or_default();
    if parts.is_empty() {
        lacks.push("list of the packages inside the standard library of Rust");
    }
    let mut musl = None;
    if target.is_static {
        let zig = tools.eval("import ziglang; print(ziglang.__path__[0])");
        let folder = PathBuf::from(zig.map_err(anyhow::Error::msg)?).join("lib/libc/musl");
        let version = fs::read_to_string(folder.join("src/internal/version.h"));
        let version = version.context("ziglang does not tell the version of its musl")?;
        musl = version.split('"').nth(1).map(str::to_owned);
        texts.push(("musl", folder.join("COPYRIGHT")));
    }
    let rust = rustc.split(' ').nth(1).unwrap_or("unknown").to_owned();
    Ok(Runtime { rust, parts, musl, texts, lacks })
}

/// Returns the packages in the document of the standard library, which has a heading and a paragraph
/// for each.
fn parse_parts(html: &str) -> Vec<[String; 3]> {
    let part = |section: &str| {
        let (name, version) = section.split_once("</h3>")?.0.trim().rsplit_once('-')?;
        let license = section.split_once("License:</b>")?.1.split_once('<')?.0.trim();
        let license = license.replace('/', " OR ");
        PARTS.contains(&name).then(|| [name.to_owned(), version.to_owned(), license])
    };
    // Each name follows a picture of a package.
    html.split("<h3>\u{1f4e6}").skip(1).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_standard_library_are_read_from_its_document() {
        let section = |name, license| {
            format!("<h3>\u{1f4e6} {name}</h3>\n<p><b>License:</b> {license}</p>\n")
        };
        let html = [
            "<h2>Contents</h2>".to_owned(),
            section("libc-0.2.178", "MIT OR Apache-2.0"),
            section("windows-sys-0.60.2", "MIT"),
            section("rustc-demangle-0.1.27", "MIT/Apache-2.0"),
        ];
        let part = |name: &str, version: &str| {
            [name.to_owned(), version.to_owned(), "MIT OR Apache-2.0".to_owned()]
        };
        assert_eq!(
            parse_parts(&html.concat()),
            [part("libc", "0.2.178"), part("rustc-demangle", "0.1.27")]
        );
    }
}
