//! `cargo xtask release`: what users install, and what they check it with, made
//! by one command. What this machine cannot make is skipped, said and noted in
//! the manifest.

mod archive;
mod build;
mod check;
mod elf;
mod licences;
mod packages;
mod reproducible;
mod runtime;
mod sbom;
pub mod shell;
mod sums;
mod target;
pub mod walk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::peers::target_folder;
use crate::peers::venv::Venv;
use build::{Crate, Kind, MODULE};
use runtime::Runtime;
use target::Target;

/// What a release is made from, and where.
#[derive(Debug, Clone)]
pub struct Release {
    /// Of the sources.
    root: PathBuf,
    /// Where cargo builds.
    target: PathBuf,
    /// For what is not released.
    work: PathBuf,
    /// For what is, until it is whole.
    out: PathBuf,
    /// Then: a release that fails leaves the one of before.
    done: PathBuf,
    version: String,
    commit: String,
    /// Whether the sources are those of the commit.
    is_modified: bool,
    /// Of the commit, in seconds since 1970 and as text.
    epoch: String,
    timestamp: String,
    rustc: String,
    kind: Kind,
}

const MANIFEST: &str = "manifest.json";
const LICENCE_REPORT: &str = "licence-report.txt";

/// Makes a release, or checks one.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let mut targets = Vec::new();
    let (mut reproducible, mut kind) = (false, Kind::Full);
    let mut words = args.iter().copied();
    while let Some(word) = words.next() {
        match (word, words.clone().next()) {
            ("--check", Some(folder)) if args.len() == 2 => {
                return check::run(root, folder.as_ref());
            }
            ("--reproducible", _) => reproducible = true,
            ("--quick", _) => kind = Kind::Quick,
            ("--target", Some(triple)) => {
                words.next();
                let Some(known) = target::ALL.iter().find(|target| target.triple == triple) else {
                    let known: Vec<_> = target::ALL.iter().map(|target| target.triple).collect();
                    eprintln!("there is no release for {triple}; there are {}", known.join(", "));
                    return Ok(ExitCode::from(2));
                };
                targets.push(*known);
            }
            (other, _) => {
                eprintln!("release does not know '{other}': see cargo xtask help");
                return Ok(ExitCode::from(2));
            }
        }
    }
    if kind == Kind::Quick && (reproducible || !targets.is_empty()) {
        eprintln!(
            "release --quick is for this machine and for tests: neither --target nor --reproducible goes with it"
        );
        return Ok(ExitCode::from(2));
    }
    if targets.is_empty() {
        targets = kind.targets();
    }
    let release = Release::new(root, kind)?.map_err(anyhow::Error::msg)?;
    let made = release.make(&targets)?;
    if reproducible {
        reproducible::check(&release, &made[0])?;
    }
    let checked = check::run(root, &release.out)?;
    if checked != ExitCode::SUCCESS {
        eprintln!("release: what is not as promised stays in {}", release.out.display());
        return Ok(checked);
    }
    if made.iter().any(|made| made.target.runs_here()) {
        release.walk()?;
    }
    release.publish()?;
    Ok(checked)
}

/// A small release, for tests: of this machine alone and with what is quick to
/// compile. Its folder; `Err` inside says what is missing.
pub fn quick(root: &Path) -> Result<Result<PathBuf, String>> {
    for_this_machine(root, Kind::Quick)
}

/// What users of this machine install. Its folder; `Err` inside says what is
/// missing.
pub fn host(root: &Path) -> Result<Result<PathBuf, String>> {
    for_this_machine(root, Kind::Host)
}

fn for_this_machine(root: &Path, kind: Kind) -> Result<Result<PathBuf, String>> {
    let release = match Release::new(root, kind)? {
        Ok(release) => release,
        Err(missing) => return Ok(Err(missing)),
    };
    if let Err(missing) = build::tools(&release) {
        return Ok(Err(missing));
    }
    let targets = kind.targets();
    if targets.is_empty() {
        return Ok(Err("there is no release for this machine".to_owned()));
    }
    release.make(&targets)?;
    let (lines, holds) = check::findings(root, &release.out)?;
    ensure!(holds, "the release is not as promised:\n{}", lines.join("\n"));
    release.publish()?;
    Ok(Ok(release.done))
}

/// What was made for one target.
struct Made {
    target: Target,
    elf: elf::Elf,
    bytes: usize,
    sha256: String,
    features: &'static str,
    files: Vec<PathBuf>,
}

/// What could not be made, and why.
type Skipped = (String, String);

impl Release {
    /// Of the sources below `root`; `Err` inside says why git does not know them.
    fn new(root: &Path, kind: Kind) -> Result<Result<Self, String>> {
        let git = |args: &[&str]| {
            shell::said(Command::new("git").args(args).current_dir(root).env("TZ", "UTC"))
        };
        let commit = |format: &str| {
            git(&["show", "--no-patch", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", format, "HEAD"])
        };
        let of_commit = || -> Result<_> {
            let is_modified = !git(&["status", "--porcelain"])?.is_empty();
            Ok((
                is_modified,
                commit("--format=%H")?,
                commit("--format=%ct")?,
                commit("--format=%cd")?,
            ))
        };
        let (is_modified, hash, epoch, timestamp) = match of_commit() {
            Ok(of_commit) => of_commit,
            Err(why) => return Ok(Err(format!("a release is of a commit: {why:#}"))),
        };
        let manifest = fs::read_to_string(root.join("Cargo.toml")).context("no Cargo.toml")?;
        let manifest: toml::Table = manifest.parse().context("cannot read Cargo.toml")?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.context("the workspace has no version")?.to_owned();
        let rustc = shell::said(shell::tool("RUSTC", "rustc", root).arg("--version"))?;
        let target = target_folder(root)?;
        let work = target.join("release-work").join(kind.name());
        Ok(Ok(Self {
            root: root.to_path_buf(),
            out: work.join("out"),
            work,
            done: target.join("release-artifacts").join(kind.folder(&version)),
            commit: hash,
            is_modified,
            epoch,
            timestamp,
            target,
            version,
            rustc,
            kind,
        }))
    }

    /// Makes everything; at least for one target.
    fn make(&self, targets: &[Target]) -> Result<Vec<Made>> {
        let tools = build::tools(self).map_err(|missing| {
            anyhow::anyhow!("{missing}\na release is built by {}, from PyPI", self.kind.tools())
        })?;
        let mut skipped = Vec::new();
        let made = self.build(&tools, targets, &mut skipped)?;
        if self.kind == Kind::Full {
            self.report_licences(&mut skipped)?;
        } else {
            skip(&mut skipped, LICENCE_REPORT, self.kind.why_less());
        }
        self.write(MANIFEST, &(pretty(&self.manifest(&made, &skipped)) + "\n"))?;
        sums::write(&self.out)?;
        Ok(made)
    }

    /// Puts what was made where users look for it.
    fn publish(&self) -> Result<()> {
        let folder = self.done.parent().context("the release has no folder")?;
        fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
        if self.done.exists() {
            fs::remove_dir_all(&self.done).context("cannot remove the release of before")?;
        }
        fs::rename(&self.out, &self.done)
            .with_context(|| format!("cannot move it to {}", self.done.display()))?;
        eprintln!("release: it is in {}", self.done.display());
        Ok(())
    }

    /// Makes what is built.
    fn build(
        &self,
        tools: &Venv,
        targets: &[Target],
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<Made>> {
        // A file of before would pass for one of this.
        for folder in [&self.out, &self.work.join("manual")] {
            if folder.exists() {
                fs::remove_dir_all(folder).context("cannot remove what was made before")?;
            }
        }
        fs::create_dir_all(&self.out).with_context(|| format!("no {}", self.out.display()))?;
        let mut made = Vec::new();
        for &target in targets {
            match target.missing(&self.root)? {
                None => made.push(self.make_for(tools, target, skipped)?),
                Some(missing) => skip(skipped, target.triple, &missing),
            }
        }
        ensure!(!made.is_empty(), "this machine can build none of what was asked for");
        Ok(made)
    }

    fn make_for(&self, tools: &Venv, target: Target, skipped: &mut Vec<Skipped>) -> Result<Made> {
        let of = self.kind.program();
        eprintln!("release: building {} for {}", of.name, target.triple);
        let wheel = build::wheel(self, tools, target, of)?;
        let program = build::program(self, target);
        let bytes = fs::read(&program).context("cargo left no program")?;
        if self.kind != Kind::Quick {
            build::names_no_folder(self, &bytes)?;
        }
        let elf = elf::read(&bytes).context("the program")?;
        let runtime = runtime::of(&self.root, &self.rustc, tools, target)?;
        for lacks in &runtime.lacks {
            skip(skipped, &format!("{lacks}, {}", target.triple), "this installation has none");
        }
        let papers = self.papers(&runtime, target, of)?;
        let sealed = self.seal(tools, &wheel, &papers)?;
        let manual = self.manual(target)?;
        let contents = archive::Contents {
            program: &program,
            files: &[
                (licences::TEXTS, papers.texts.as_path()),
                ("dyno.cdx.json", papers.sbom.as_path()),
            ],
            manual: &manual,
        };
        let mut files = vec![sealed, archive::pack(self, target, &contents)?];
        let sbom = self.out.join(archive::stem(&self.version, target) + ".cdx.json");
        fs::copy(&papers.sbom, &sbom).context("cannot copy the bill of materials")?;
        files.push(sbom);
        let no_module = match (self.kind, target.is_static) {
            (Kind::Full, true) => Some("an extension module cannot be static"),
            (Kind::Full, false) => None,
            (kind, _) => Some(kind.why_less()),
        };
        if let Some(why) = no_module {
            skip(skipped, &format!("{} for {}", MODULE.name, target.triple), why);
        } else {
            eprintln!("release: building {} for {}", MODULE.name, target.triple);
            let wheel = build::wheel(self, tools, target, MODULE)?;
            files.push(self.seal(tools, &wheel, &self.papers(&runtime, target, MODULE)?)?);
        }
        for file in &files {
            let size = fs::metadata(file).context("a file is gone")?.len();
            eprintln!("release: {size:>10} bytes  {}", name_of(file));
        }
        let sha256 = sums::sha256(&bytes);
        Ok(Made { target, elf, bytes: bytes.len(), sha256, features: of.features, files })
    }

    /// Writes what must be known of a build's packages.
    fn papers(&self, runtime: &Runtime, target: Target, of: Crate) -> Result<Papers> {
        let folder = self.work.join("papers").join(target.triple).join(of.name);
        fs::create_dir_all(&folder).context("cannot make the folder of the papers")?;
        let packages = packages::linked(&self.root, of.on(target))?;
        let subject = sbom::Subject {
            name: of.name,
            triple: target.triple,
            features: of.features,
            timestamp: &self.timestamp,
            runtime,
        };
        let title = format!("{} {} for {}", of.name, self.version, target.triple);
        let texts = licences::texts(&title, &packages, &runtime.texts)?;
        let papers = Papers { sbom: folder.join("sbom.json"), texts: folder.join(licences::TEXTS) };
        let sbom = pretty(&sbom::document(subject, &packages)?) + "\n";
        fs::write(&papers.sbom, sbom).context("cannot write the bill of materials")?;
        fs::write(&papers.texts, texts).context("cannot write the licences")?;
        Ok(papers)
    }

    fn seal(&self, tools: &Venv, wheel: &Path, papers: &Papers) -> Result<PathBuf> {
        let files = [
            ("licenses/LICENSE".to_owned(), self.root.join("LICENSE")),
            (format!("licenses/{}", licences::TEXTS), papers.texts.clone()),
            ("sboms/dyno.cdx.json".to_owned(), papers.sbom.clone()),
        ];
        build::seal(self, tools, wheel, &self.out, &files)
    }

    /// Manual pages and completions, which are the same for all targets.
    fn manual(&self, target: Target) -> Result<PathBuf> {
        let folder = self.work.join("manual");
        if !folder.is_dir() {
            let runs = target.runs_here();
            let program = if runs { build::program(self, target) } else { build::native(self)? };
            archive::manual(&program, &folder)?;
        }
        Ok(folder)
    }

    fn report_licences(&self, skipped: &mut Vec<Skipped>) -> Result<()> {
        match licences::deny(&self.root, &self.work.join("tools"))? {
            Ok(report) => {
                self.write(LICENCE_REPORT, &(report + "\n"))?;
                eprintln!(
                    "release: cargo deny finds licences, packages and sources as deny.toml asks"
                );
            }
            Err(why) => skip(skipped, LICENCE_REPORT, &why),
        }
        Ok(())
    }

    /// Goes the way of a new user.
    fn walk(&self) -> Result<()> {
        let walk = match walk::Walk::start(&self.root, &self.work.join("walk"), &self.out)? {
            Ok(walk) => walk,
            Err(missing) => {
                eprintln!("release: skipped the walk from the wheel to a report: {missing}");
                return Ok(());
            }
        };
        walk.built_in()?;
        eprintln!("release: from the wheel to a first report");
        if self.kind != Kind::Quick {
            walk.built_in_engine()?;
            eprintln!("release: from the wheel to a report on an ONNX file in tract");
        }
        match walk.own_model()? {
            Ok(()) => {
                eprintln!("release: from the wheel to a report on an ONNX file in ONNX Runtime");
            }
            Err(missing) => eprintln!("release: skipped ONNX Runtime: {missing}"),
        }
        Ok(())
    }

    fn manifest(&self, made: &[Made], skipped: &[Skipped]) -> Value {
        let builds = made.iter().map(|made| {
            json!({
                "target": made.target.triple,
                "profile": self.kind.profile(),
                "features": made.features,
                "static": made.elf.is_static,
                "glibc": made.elf.glibc.map(|(major, minor)| format!("{major}.{minor}")),
                "program_bytes": made.bytes,
                "program_sha256": made.sha256,
                "files": made.files.iter().map(|file| name_of(file)).collect::<Vec<_>>(),
            })
        });
        let skipped = skipped.iter().map(|(what, why)| json!({ "what": what, "why": why }));
        json!({
            "name": "dyno",
            "version": self.version,
            "commit": self.commit,
            "modified": self.is_modified,
            "timestamp": self.timestamp,
            "rustc": self.rustc,
            "tools": self.kind.tools(),
            "builds": builds.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.out.join(name), text).with_context(|| format!("cannot write {name}"))
    }
}

/// What travels with a binary.
struct Papers {
    sbom: PathBuf,
    texts: PathBuf,
}

fn skip(skipped: &mut Vec<Skipped>, what: &str, why: &str) {
    eprintln!("release: skipped {what}: {why}");
    skipped.push((what.to_owned(), why.to_owned()));
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("its keys are text")
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
