//! What a release is built for.

use std::path::Path;

use anyhow::Result;

use super::shell;

/// A platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub triple: &'static str,
    /// What its wheels promise: the oldest libc that they run with.
    pub compatibility: &'static str,
    /// A static program can load no library, and so no ONNX Runtime.
    pub is_static: bool,
}

/// All of them; the first is the one that most people use.
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
    /// What this machine lacks for it, if it lacks anything.
    pub fn missing(self, root: &Path) -> Result<Option<String>> {
        let mut rustc = shell::tool("RUSTC", "rustc", root);
        let library =
            shell::said(rustc.args(["--print", "target-libdir", "--target", self.triple]))?;
        if Path::new(&library).is_dir() {
            return Ok(None);
        }
        let triple = self.triple;
        Ok(Some(format!("Rust's standard library for {triple}; try rustup target add {triple}")))
    }

    /// Whether its programs run on this machine.
    pub fn runs_here(self) -> bool {
        let has_libc = self.is_static || cfg!(target_env = "gnu");
        cfg!(target_os = "linux") && has_libc && self.machine() == std::env::consts::ARCH
    }

    /// As ELF files tell it.
    pub fn machine(self) -> &'static str {
        self.triple.split('-').next().unwrap_or(self.triple)
    }
}

/// The one whose triple is in a file's name.
pub fn of_archive(name: &str) -> Option<Target> {
    ALL.iter().copied().find(|target| name.contains(target.triple))
}

/// The one that a wheel's tag is for.
pub fn of_wheel(name: &str) -> Option<Target> {
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
            triple(of_archive("dyno-0.1.0-x86_64-unknown-linux-musl.tar.gz")),
            Some("x86_64-unknown-linux-musl")
        );
        assert_eq!(
            triple(of_wheel("a-1-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl")),
            Some("aarch64-unknown-linux-gnu")
        );
        assert_eq!(
            triple(of_wheel("a-1-py3-none-musllinux_1_2_x86_64.whl")),
            Some("x86_64-unknown-linux-musl")
        );
        assert_eq!(of_wheel("a-1-py3-none-any.whl"), None);
    }
}
