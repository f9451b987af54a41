//! What other programs need of a library: the library itself, static and shared, its headers, and
//! files that tell pkg-config and CMake where they are. No file names the folder
//! it was made in, so that all of it can be moved.
//!
//! The tests of `loadgen-c`, `rnn-c` and `number-c` include this file: they link what is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The user's C++ compiler.
pub struct Compiler {
    /// Program and arguments, such as `ccache`, `g++`.
    words: Vec<String>,
}

impl Compiler {
    /// What `$CXX` says, else `c++`.
    ///
    /// # Errors
    /// Says that there is none.
    pub fn find() -> Result<Compiler> {
        let said = std::env::var("CXX").unwrap_or_default();
        let words: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
        let words = if words.is_empty() { vec!["c++".to_owned()] } else { words };
        let compiler = Compiler { words };
        let runs = compiler.command().arg("--version").output();
        if runs.is_ok_and(|output| output.status.success()) {
            return Ok(compiler);
        }
        bail!(
            "there is no C++ compiler: `{}` does not run; install g++ or clang++, or name one in CXX",
            compiler.words.join(" ")
        )
    }

    /// The compiler, ready for arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }
}

/// A library of ours for C and C++.
#[derive(Debug)]
pub struct Library {
    /// Its package, whose folder below `crates` has the rest of the name.
    pub package: &'static str,
    /// What programs link it by: `-lNAME`, and `pkg-config NAME`.
    pub name: &'static str,
    /// Sources of its C++ part, in the folder `cpp`.
    sources: &'static [&'static str],
    /// Templates in the folder `install`, and where they go without `.in`.
    templates: &'static [(&'static str, &'static str)],
}

/// All that are installed.
pub static LIBRARIES: [Library; 3] = [
    Library {
        package: "dyno-loadgen-c",
        name: "mlperf_loadgen",
        sources: &["shim", "settings", "c_api"],
        templates: &[
            ("mlperf_loadgen.pc.in", "lib/pkgconfig"),
            ("mlperf_loadgenConfig.cmake.in", "lib/cmake/mlperf_loadgen"),
            ("mlperf_loadgenConfigVersion.cmake.in", "lib/cmake/mlperf_loadgen"),
        ],
    },
    Library {
        package: "dyno-rnn-c",
        name: "dyno_rnn",
        sources: &[],
        templates: &[("dyno_rnn.pc.in", "lib/pkgconfig")],
    },
    Library {
        package: "dyno-number-c",
        name: "dyno_number",
        sources: &[],
        templates: &[("dyno_number.pc.in", "lib/pkgconfig")],
    },
];

impl Library {
    /// The library of a package.
    ///
    /// # Panics
    /// If it has none.
    pub fn of(package: &str) -> &'static Self {
        let found = LIBRARIES.iter().find(|library| library.package == package);
        found.expect("a package with a library for C")
    }
}

/// Everything that goes into an installation.
pub struct Package<'a> {
    /// Of the repository.
    pub root: &'a Path,
    pub of: &'a Library,
    /// The static library that cargo has built of it.
    pub library: &'a Path,
    pub compiler: &'a Compiler,
    /// Folder for what is made on the way.
    pub work: &'a Path,
}

/// What the Rust standard library needs of the system.
const SYSTEM_LIBRARIES: [&str; 4] = ["-lgcc_s", "-lpthread", "-ldl", "-lm"];

impl Package<'_> {
    /// Installs below `prefix` and returns what was written.
    ///
    /// # Errors
    /// A folder cannot be written, or a tool is missing or fails.
    pub fn install(&self, prefix: &Path) -> Result<Vec<PathBuf>> {
        let lib = prefix.join("lib");
        for folder in [self.work, &lib] {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mut written = self.headers(prefix)?;
        let objects = self.objects()?;
        written.push(self.static_library(&objects, &lib)?);
        written.extend(self.shared_library(&objects, &lib)?);
        for (template, folder) in self.of.templates {
            written.push(self.fill(template, &prefix.join(folder))?);
        }
        Ok(written)
    }

    fn crate_folder(&self) -> PathBuf {
        self.root.join("crates").join(self.of.package.trim_start_matches("dyno-"))
    }

    fn headers(&self, prefix: &Path) -> Result<Vec<PathBuf>> {
        let from = self.crate_folder().join("include");
        let mut written = Vec::new();
        for header in files_below(&from)? {
            let below = header.strip_prefix(&from).expect("the header lies in its folder");
            let to = prefix.join("include").join(below);
            copy(&header, &to)?;
            written.push(to);
        }
        Ok(written)
    }

    /// Compiles the C++ part, if there is one; static and shared library contain it.
    fn objects(&self) -> Result<Vec<PathBuf>> {
        let folder = self.crate_folder();
        let include = folder.join("include");
        let mut running = Vec::new();
        for source in self.of.sources {
            let object = self.work.join(source).with_extension("o");
            let mut command = self.compiler.command();
            command.args(["-std=c++14", "-O2", "-fPIC", "-Wall", "-Wextra"]);
            command.arg("-I").arg(&include).arg("-I").arg(include.join("mlperf"));
            command.arg("-c").arg(folder.join("cpp").join(source).with_extension("cc"));
            command.arg("-o").arg(&object);
            running.push((object, start(&mut command)?));
        }
        running.into_iter().map(|(object, run)| run.finish().map(|()| object)).collect()
    }

    fn static_library(&self, objects: &[PathBuf], lib: &Path) -> Result<PathBuf> {
        let library = lib.join(format!("lib{}.a", self.of.name));
        copy(self.library, &library)?;
        // Where the linker has a plugin of another version of LLVM, `ar` leaves
        // what it cannot read out of the index; nobody needs these sections.
        let bitcode = ["--remove-section=.llvmbc", "--remove-section=.llvmcmd"];
        start(tool("OBJCOPY", "objcopy").args(bitcode).arg(&library))?.finish()?;
        // With its index made anew.
        start(tool("AR", "ar").arg("rs").arg(&library).args(objects))?.finish()?;
        Ok(library)
    }

    /// The library, and the name that the linker's flag finds.
    fn shared_library(&self, objects: &[PathBuf], lib: &Path) -> Result<[PathBuf; 2]> {
        let soname = self.soname()?;
        let library = lib.join(&soname);
        let exports = self.crate_folder().join("install/exports.map");
        let mut command = self.compiler.command();
        command.arg("-shared").arg("-o").arg(&library).args(objects);
        // All of it, because the C++ part calls only half of the C interface.
        command.arg("-Wl,--whole-archive").arg(self.library).arg("-Wl,--no-whole-archive");
        command.arg(format!("-Wl,-soname,{soname}"));
        command.arg(format!("-Wl,--version-script={}", exports.display()));
        // Calls of the C interface from within must not go through a table.
        command.args(["-Wl,-Bsymbolic-functions", "-Wl,--gc-sections", "-Wl,--strip-debug"]);
        command.args(["-Wl,-z,defs", "-Wl,--as-needed"]).args(SYSTEM_LIBRARIES);
        start(&mut command)?.finish()?;
        let link = lib.join(format!("lib{}.so", self.of.name));
        link_to(&soname, &link)?;
        Ok([library, link])
    }

    /// Name under which programs that were linked find the shared library. Until
    /// 1.0 each minor version has its own.
    fn soname(&self) -> Result<String> {
        let version = self.version()?;
        let mut parts = version.split('.');
        let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
        let series = if major == "0" { format!("0.{minor}") } else { major.to_owned() };
        Ok(format!("lib{}.so.{series}", self.of.name))
    }

    fn version(&self) -> Result<String> {
        let path = self.root.join("Cargo.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
        let version = line.and_then(|rest| rest.split('"').next());
        version.map(str::to_owned).context("the workspace has no version")
    }

    fn fill(&self, template: &str, folder: &Path) -> Result<PathBuf> {
        let path = self.crate_folder().join("install").join(template);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .replace("@VERSION@", &self.version()?)
            .replace("@SONAME@", &self.soname()?)
            .replace("@SYSTEM_LIBRARIES@", &SYSTEM_LIBRARIES.join(" "));
        let to = folder.join(template.trim_end_matches(".in"));
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
        Ok(to)
    }
}

/// The files in a folder and in those below it.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

#[cfg(unix)]
fn link_to(target: &str, link: &Path) -> Result<()> {
    if link.symlink_metadata().is_ok() {
        fs::remove_file(link).with_context(|| format!("cannot replace {}", link.display()))?;
    }
    std::os::unix::fs::symlink(target, link)
        .with_context(|| format!("cannot create {}", link.display()))
}

#[cfg(not(unix))]
fn link_to(target: &str, link: &Path) -> Result<()> {
    copy(&link.with_file_name(target), link)
}

/// A tool of the compiler's that a variable may name.
fn tool(variable: &str, default: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| default.into()))
}

/// A tool that runs.
struct Run {
    name: String,
    child: std::process::Child,
}

/// Starts a tool; what it says is shown only if it fails.
fn start(command: &mut Command) -> Result<Run> {
    use std::process::Stdio;
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{name}`; install a C++ compiler and binutils"))?;
    Ok(Run { name, child })
}

impl Run {
    fn finish(self) -> Result<()> {
        let output = self.child.wait_with_output().context("cannot wait for a tool")?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{}` failed, {}:\n{said}", self.name, output.status)
    }
}
