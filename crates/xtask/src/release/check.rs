//! Checks of a release: whether a folder holds everything that docs/release.md promises.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use dyno_peers::{cargo, folder, shell};
use serde_json::Value;

use super::elf::{self, Elf};
use super::target::{self, Target};
use super::{MANIFEST, archive, build, licenses, name_of, packages, sbom, sums};

/// Prints the result of every check, and fails if one fails.
pub fn run(root: &Path, folder: &Path) -> Result<ExitCode> {
    let (lines, holds) = findings(root, folder)?;
    lines.iter().for_each(|line| println!("release: {line}"));
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns one line per check, and whether all checks pass.
pub fn findings(root: &Path, folder: &Path) -> Result<(Vec<String>, bool)> {
    let work = cargo::target_folder(root)?.join("release-work/check");
    let mut lines = Vec::new();
    let mut holds = true;
    let mut report = |what: &str, outcome: Result<String>| {
        holds &= outcome.is_ok();
        lines.push(match outcome {
            Ok(found) => format!("{what}: {found}"),
            Err(why) => format!("{what}: FAILED: {why:#}"),
        });
    };
    let sums = sums::check(folder).map(|files| format!("{files} files are as summed"));
    let is_intact = sums.is_ok();
    report(sums::FILE, sums);
    // The other checks run programs of the folder, which must not be those of someone else.
    if !is_intact {
        return Ok((lines, false));
    }
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("there is no {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    for file in &files {
        let name = name_of(file);
        let outcome = match name.as_str() {
            MANIFEST => check_manifest(folder),
            name if name.ends_with(".tar.gz") => check_archive(file, &work.join(name)),
            name if name.ends_with(".whl") => check_wheel(root, file, &work.join(name)),
            name if name.ends_with(".cdx.json") => check_bill(root, file),
            _ => continue,
        };
        report(&name, outcome);
    }
    Ok((lines, holds))
}

fn json(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| format!("no {}", file.display()))?;
    serde_json::from_str(&text).context("it is no JSON")
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn check_manifest(folder: &Path) -> Result<String> {
    let manifest = json(&folder.join(MANIFEST))?;
    let builds = list(&manifest["builds"]);
    ensure!(!builds.is_empty(), "it tells of no build");
    for file in builds.iter().flat_map(|build| list(&build["files"])) {
        let file = file.as_str().unwrap_or_default().to_owned();
        ensure!(folder.join(&file).is_file(), "it tells of {file}, which is not there");
    }
    let modified =
        if manifest["modified"] == true { ", with changes that no commit has" } else { "" };
    let commit = manifest["commit"].as_str().unwrap_or_default();
    Ok(format!("{} builds of commit {commit}{modified}", builds.len()))
}

fn check_archive(file: &Path, work: &Path) -> Result<String> {
    let target = target::from_archive(&name_of(file)).context("it names no target")?;
    let folder = archive::unpack(file, work)?;
    let papers = ["LICENSE", "README.md", licenses::TEXTS, "dyno.cdx.json"];
    for name in papers.iter().chain(&archive::MANUAL) {
        ensure!(folder.join(name).is_file(), "it has no {name}");
    }
    let program = folder.join("dyno");
    let elf = program_of(&program, target)?;
    let manifest = json(&file.with_file_name(MANIFEST))?;
    let stated = stated_build(&manifest, target)?;
    compare_with_manifest(&stated, target, &elf, &sums::sha256(&fs::read(&program)?))?;
    if target.runs_here() {
        runs(&program, target)?;
        installs(&folder, &work.with_extension("installed"))?;
    }
    Ok(describe(&elf, target))
}

/// Checks that the installer of an unpacked archive installs a program that runs, and removes it again.
fn installs(folder: &Path, prefix: &Path) -> Result<()> {
    folder::recreate(prefix)?;
    let install = |more: &[&str]| {
        let mut installer = Command::new(folder.join(archive::INSTALLER));
        shell::output(installer.arg("--prefix").arg(prefix).args(more))
    };
    install(&[])?;
    let program = prefix.join("bin/dyno");
    shell::output(Command::new(&program).arg("--version"))?;
    for file in ["share/man/man1/dyno-run.1", "share/bash-completion/completions/dyno"] {
        ensure!(prefix.join(file).is_file(), "{} installs no {file}", archive::INSTALLER);
    }
    install(&["--uninstall"])?;
    ensure!(!program.exists(), "{} --uninstall leaves the program", archive::INSTALLER);
    Ok(())
}

/// Compares a program with the manifest, and its glibc with that of docs/release.md.
fn compare_with_manifest(stated: &Value, target: Target, elf: &Elf, sha256: &str) -> Result<()> {
    let glibc = elf.glibc.map(|(major, minor)| format!("{major}.{minor}"));
    ensure!(stated["glibc"] == Value::from(glibc), "{MANIFEST} states another glibc");
    ensure!(stated["program_sha256"] == sha256, "its program is not that of {MANIFEST}");
    // A quick release uses the libc of this machine.
    if stated["profile"] == build::Kind::Full.profile() {
        let promised = elf::promised(target.compatibility);
        ensure!(elf.glibc <= promised, "it needs glibc {:?}, not {promised:?}", elf.glibc);
    }
    Ok(())
}

/// Reads the header of a program and compares it with its target.
fn program_of(program: &Path, target: Target) -> Result<Elf> {
    let elf = elf::read(&fs::read(program).context("it has no program")?)?;
    ensure!(elf.machine == target.machine(), "it is for {}", elf.machine);
    if target.is_static {
        ensure!(elf.is_static && elf.glibc.is_none(), "it needs libraries");
    }
    Ok(elf)
}

fn describe(elf: &Elf, target: Target) -> String {
    let needs = match elf.glibc {
        Some((major, minor)) => format!("needs glibc {major}.{minor} at most"),
        None => "needs no library".to_owned(),
    };
    let ran = if target.runs_here() { "runs" } else { "was not run, for lack of such a machine" };
    format!("{}, {needs}, {ran}", elf.machine)
}

/// Runs the program; a static one must report that it cannot load ONNX Runtime.
fn runs(program: &Path, target: Target) -> Result<()> {
    let version = shell::output(Command::new(program).arg("--version"))?;
    ensure!(version.starts_with("dyno "), "it calls itself {version}");
    if !target.is_static {
        return Ok(());
    }
    let systems = shell::output(Command::new(program).args(["info", "systems"]))?;
    ensure!(systems.contains("not available in this build"), "dyno info systems is silent on ONNX");
    let mut onnx = Command::new(program);
    onnx.args(["run", "--dry-run", "--system"]).arg(format!("onnx:{}", program.display()));
    let output = onnx.output().context("cannot run it")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_refused = output.status.code() == Some(3) && stderr.contains("static program");
    ensure!(is_refused, "onnx:FILE ends with {} and {stderr}", output.status);
    Ok(())
}

fn check_wheel(root: &Path, file: &Path, work: &Path) -> Result<String> {
    let target = target::from_wheel(&name_of(file)).context("it names no target")?;
    let python = || Command::new("python3");
    let mut check = python();
    let contents = shell::output(check.arg(root.join(build::WHEELS)).arg("check").arg(file))?;
    let contents: Value = serde_json::from_str(&contents).context("cannot read its contents")?;
    let files = list(&contents["files"]);
    let files: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
    let texts = format!(".dist-info/licenses/{}", licenses::TEXTS);
    for ending in [".dist-info/licenses/LICENSE", texts.as_str(), ".dist-info/sboms/dyno.cdx.json"]
    {
        ensure!(files.iter().any(|name| name.ends_with(ending)), "it has no {ending}");
    }
    let programs = contents["programs"].as_object();
    let name = match programs.map(|programs| programs.keys().collect::<Vec<_>>()).as_deref() {
        Some([only]) => only.as_str(),
        _ => bail!("it holds another number of programs than one"),
    };
    folder::remove(work)?;
    shell::run(python().args(["-m", "zipfile", "--extract"]).arg(file).arg(work))?;
    let elf = program_of(&work.join(name), target)?;
    let promised = elf::promised(&name_of(file));
    ensure!(elf.glibc <= promised, "it needs glibc {:?}, its tag tells {promised:?}", elf.glibc);
    if name.ends_with("/dyno") {
        check_same_program(file, &contents["programs"][name])?;
    }
    let needs = elf.glibc.map_or("no glibc".to_owned(), |(a, b)| format!("glibc {a}.{b}"));
    Ok(format!("{} files as recorded, {}, {needs}", files.len(), elf.machine))
}

/// Checks that the wheel and the archive of a target hold the same program.
fn check_same_program(wheel: &Path, sha256: &Value) -> Result<()> {
    let folder = wheel.parent().context("it is in no folder")?;
    let target = target::from_wheel(&name_of(wheel)).context("it names no target")?;
    let manifest = json(&folder.join(MANIFEST))?;
    let stated = stated_build(&manifest, target)?;
    ensure!(stated["program_sha256"] == *sha256, "its program is not that of {MANIFEST}");
    Ok(())
}

/// Returns the entry of a target in the manifest.
fn stated_build(manifest: &Value, target: Target) -> Result<Value> {
    let found = list(&manifest["builds"]).into_iter().find(|b| b["target"] == target.triple);
    found.with_context(|| format!("{MANIFEST} tells of no build for {}", target.triple))
}

fn check_bill(root: &Path, file: &Path) -> Result<String> {
    let document = json(file)?;
    let target = target::from_archive(&name_of(file)).context("it names no target")?;
    let properties = list(&document["metadata"]["component"]["properties"]);
    let features = properties.iter().find(|property| property["name"] == sbom::FEATURES);
    let features = features.and_then(|property| property["value"].as_str());
    let features = features.context("it does not tell the features")?;
    let dyno = build::Crate { features, ..build::Kind::Full.program() };
    let packages = packages::linked(root, dyno.build_for(target))?;
    sbom::check(&document, &packages)?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("there is no Cargo.lock")?;
    let locked = packages::checksums(&lock)?;
    let foreign = packages.iter().filter(|package| package.is_foreign());
    let unknown = foreign.clone().find(|package| !locked.contains_key(&package.key()));
    ensure!(unknown.is_none(), "Cargo.lock lacks {unknown:?}");
    Ok(format!("{} packages, as in Cargo.lock", foreign.count()))
}
