//! The files of an installed library: the static and the shared library, headers, and descriptions
//! for pkg-config and CMake. No file contains an absolute path, so that the prefix can be moved.
//!
//! The tests of `loadgen-c`, `rnn-c` and `number-c` include this file: they link an installation.

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
    /// Returns the compiler that `$CXX` names, else `c++`.
    ///
    /// # Errors
    /// The compiler does not run.
    pub fn find() -> Result<Compiler> {
        let variable = std::env::var("CXX").unwrap_or_default();
        let words: Vec<String> = variable.split_whitespace().map(str::to_owned).collect();
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

    /// Returns a command of the compiler, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }
}

/// A library of ours for C and C++.
#[derive(Debug)]
pub struct Library {
    /// Name of its package: `dyno-` and the name of its folder below `crates`.
    pub package: &'static str,
    /// Name for linking: `-lNAME`, and `pkg-config NAME`.
    pub name: &'static str,
    /// Sources of its C++ part, in the folder `cpp`, without `.cc`.
    sources: &'static [&'static str],
    /// Templates in the folder `install`, and the folders of the files that they become.
    templates: &'static [(&'static str, &'static str)],
}

/// All libraries that are installed.
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
    /// Returns the library of a package.
    ///
    /// # Panics
    /// The package has no library for C.
    pub fn of_package(package: &str) -> &'static Self {
        let found = LIBRARIES.iter().find(|library| library.package == package);
        found.expect("a package with a library for C")
    }
}

/// Everything that goes into an installation.
pub struct Package<'a> {
    /// Root of the repository.
    pub root: &'a Path,
    pub library: &'a Library,
    /// The static library that cargo built.
    pub archive: &'a Path,
    pub compiler: &'a Compiler,
    /// Folder for intermediate files.
    pub work: &'a Path,
}

/// System libraries that the Rust standard library needs.
const SYSTEM_LIBRARIES: [&str; 4] = ["-lgcc_s", "-lpthread", "-ldl", "-lm"];

impl Package<'_> {
    /// Installs below `prefix` and returns the written files.
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
        for (template, folder) in self.library.templates {
            written.push(self.fill(template, &prefix.join(folder))?);
        }
        Ok(written)
    }

    fn crate_folder(&self) -> PathBuf {
        self.root.join("crates").join(self.library.package.trim_start_matches("dyno-"))
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

    /// Compiles the C++ part, if the library has one; both libraries contain its objects.
    fn objects(&self) -> Result<Vec<PathBuf>> {
        let folder = self.crate_folder();
        let include = folder.join("include");
        let mut running = Vec::new();
        for source in self.library.sources {
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
        let library = lib.join(format!("lib{}.a", self.library.name));
        copy(self.archive, &library)?;
        // If the linker has a plugin of another LLVM version, `ar` leaves objects with bitcode out
        // of the index. These sections are not needed.
        let bitcode = ["--remove-section=.llvmbc", "--remove-section=.llvmcmd"];
        start(tool("OBJCOPY", "objcopy").args(bitcode).arg(&library))?.finish()?;
        start(tool("AR", "ar").arg("rs").arg(&library).args(objects))?.finish()?;
        Ok(library)
    }

    /// Links the shared library and returns its path and that of the link for `-lNAME`.
    fn shared_library(&self, objects: &[PathBuf], lib: &Path) -> Result<[PathBuf; 2]> {
        let soname = self.soname()?;
        let library = lib.join(&soname);
        let exports = self.crate_folder().join("install/exports.map");
        let mut command = self.compiler.command();
        command.arg("-shared").arg("-o").arg(&library).args(objects);
        // The whole archive, because the C++ part calls only half of the C interface.
        command.arg("-Wl,--whole-archive").arg(self.archive).arg("-Wl,--no-whole-archive");
        command.arg(format!("-Wl,-soname,{soname}"));
        command.arg(format!("-Wl,--version-script={}", exports.display()));
        // Internal calls of the C interface must not go through the procedure linkage table.
        command.args(["-Wl,-Bsymbolic-functions", "-Wl,--gc-sections", "-Wl,--strip-debug"]);
        command.args(["-Wl,-z,defs", "-Wl,--as-needed"]).args(SYSTEM_LIBRARIES);
        start(&mut command)?.finish()?;
        let link = lib.join(format!("lib{}.so", self.library.name));
        link_to(&soname, &link)?;
        Ok([library, link])
    }

    /// Returns the name by which linked programs find the shared library. Until 1.0 each minor
    /// version has a name of its own.
    fn soname(&self) -> Result<String> {
        let version = self.version()?;
        let mut parts = version.split('.');
        let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
        let series = if major == "0" { format!("0.{minor}") } else { major.to_owned() };
        Ok(format!("lib{}.so.{series}", self.library.name))
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

/// Installs the header of plug-ins, which link nothing of ours, and returns its path.
///
/// # Errors
/// A folder cannot be written.
#[allow(dead_code, reason = "the tests that include this file install one library")]
pub fn install_engine_header(root: &Path, prefix: &Path) -> Result<PathBuf> {
    let to = prefix.join("include/dyno_engine.h");
    copy(&root.join("crates/plugin/include/dyno_engine.h"), &to)?;
    Ok(to)
}

/// Returns the files in a folder and its subfolders, sorted.
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

/// Returns a command of the tool that a variable names, else of `default`.
fn tool(variable: &str, default: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| default.into()))
}

/// A running tool.
struct Process {
    name: String,
    child: std::process::Child,
}

/// Starts a tool; its output is shown only if it fails.
fn start(command: &mut Command) -> Result<Process> {
    use std::process::Stdio;
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{name}`; install a C++ compiler and binutils"))?;
    Ok(Process { name, child })
}

impl Process {
    fn finish(self) -> Result<()> {
        let output = self.child.wait_with_output().context("cannot wait for a tool")?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed, {}:\n{stderr}", self.name, output.status)
    }
}
