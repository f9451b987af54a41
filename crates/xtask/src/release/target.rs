//! Platforms of a release.

use std::path::Path;

use anyhow::Result;
use dyno_peers::shell;

/// A platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub triple: &'static str,
    /// Compatibility tag of its wheels: the oldest libc with which they run.
    pub compatibility: &'static str,
    /// Whether the program is static; it then cannot load ONNX Runtime.
    pub is_static: bool,
}

/// All platforms; most users have the first.
pub const ALL: &[Target] = &[
    Target {
        triple: "x86_64-unknown-linux-gnu",
        compatibility: "manylinux_2_17",
        is_static: false,
    },
    Target { triple: "x86_64-unknown-linux-musl", compatibility: "musllinux_1_2", is_static: true },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        compatibility: "manylinux_2_17",
        is_static: false,
    },
];

impl Target {
    /// Returns what this machine lacks to build for the platform.
    pub fn missing(self, root: &Path) -> Result<Option<String>> {
        let mut rustc = shell::tool("RUSTC", "rustc", root);
        let library =
            shell::output(rustc.args(["--print", "target-libdir", "--target", self.triple]))?;
        if Path::new(&library).is_dir() {
            return Ok(None);
        }
        let triple = self.triple;
        Ok(Some(format!("Rust's standard library for {triple}; try rustup target add {triple}")))
    }

    /// Returns whether programs of the platform run on this machine.
    pub fn runs_here(self) -> bool {
        let has_libc = self.is_static || cfg!(target_env = "gnu");
        cfg!(target_os = "linux") && has_libc && self.machine() == std::env::consts::ARCH
    }

    /// Returns the name of the machine in ELF files.
    pub fn machine(self) -> &'static str {
        self.triple.split('-').next().unwrap_or(self.triple)
    }
}

/// Parses a target triple.
///
/// # Errors
/// There is no release for the platform.
pub fn parse(triple: &str) -> Result<Target, String> {
    let found = ALL.iter().copied().find(|target| target.triple == triple);
    found.ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|target| target.triple).collect();
        format!("there is no release for {triple}; there are {}", known.join(", "))
    })
}

/// Returns the platform whose triple is in the name of a file.
pub fn from_archive(name: &str) -> Option<Target> {
    ALL.iter().copied().find(|target| name.contains(target.triple))
}

/// Returns the platform of a wheel's tag.
pub fn from_wheel(name: &str) -> Option<Target> {
    let libc = |target: &Target| if target.is_static { "musllinux" } else { "manylinux" };
    ALL.iter().copied().find(|target| {
        name.contains(libc(target)) && name.ends_with(&format!("_{}.whl", target.machine()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_targets() {
        let triple = |target: Option<Target>| target.map(|target| target.triple);
        assert_eq!(
            triple(from_archive("dyno-0.1.0-x86_64-unknown-linux-musl.tar.gz")),
            Some("x86_64-unknown-linux-musl")
        );
        assert_eq!(
            triple(from_wheel("a-1-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl")),
            Some("aarch64-unknown-linux-gnu")
        );
        assert_eq!(
            triple(from_wheel("a-1-py3-none-musllinux_1_2_x86_64.whl")),
            Some("x86_64-unknown-linux-musl")
        );
        assert_eq!(from_wheel("a-1-py3-none-any.whl"), None);
    }
}
