//! `cargo xtask release`: builds and checks everything that users install, with checksums and bills of
//! materials. What this machine cannot build is skipped, reported and recorded in the manifest.

mod archive;
mod build;
mod check;
mod elf;
mod licenses;
mod packages;
mod reproducible;
mod runtime;
mod sbom;
mod sums;
mod target;
pub mod walk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use dyno_peers::venv::Venv;
use dyno_peers::{cargo, folder, report, shell};
use serde_json::{Value, json};

use build::{Crate, Kind, MODULE};
use runtime::Runtime;
use target::Target;

/// Sources and folders of a release.
#[derive(Debug, Clone)]
pub struct Release {
    /// Root of the sources.
    root: PathBuf,
    /// Target folder of cargo.
    target: PathBuf,
    /// Folder for intermediate files.
    work: PathBuf,
    /// Folder for released files until the release is complete.
    out: PathBuf,
    /// Folder of the complete release; a release that fails does not touch it.
    destination: PathBuf,
    version: String,
    commit: String,
    /// Whether the sources differ from the commit.
    is_modified: bool,
    /// Time of the commit in seconds since 1970.
    epoch: String,
    /// Time of the commit as text.
    timestamp: String,
    rustc: String,
    kind: Kind,
}

const MANIFEST: &str = "manifest.json";
const LICENSE_REPORT: &str = "licence-report.txt";

/// The wheel of `dyno`, for measurements of an installation.
pub const WHEEL: report::Wheel = report::Wheel { package: walk::PACKAGE, build: for_this_machine };

/// Options of `cargo xtask release`.
#[derive(Debug, Args)]
pub struct Options {
    /// Check the files of a release in FOLDER instead of building one
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["quick", "targets", "reproducible"])]
    check: Option<PathBuf>,
    /// Build for this machine alone, as tests do
    #[arg(long, conflicts_with_all = ["targets", "reproducible"])]
    quick: bool,
    /// Build for this target; for all when none is named
    #[arg(long = "target", value_name = "TRIPLE", value_parser = target::parse)]
    targets: Vec<Target>,
    /// Build twice and compare
    #[arg(long)]
    reproducible: bool,
}

/// Builds a release, or checks one.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    if let Some(folder) = &options.check {
        return check::run(root, folder);
    }
    let kind = if options.quick { Kind::Quick } else { Kind::Full };
    let targets = if options.targets.is_empty() { kind.targets() } else { options.targets.clone() };
    let release = Release::new(root, kind)?.map_err(anyhow::Error::msg)?;
    let builds = release.make(&targets)?;
    if options.reproducible {
        reproducible::check(&release, &builds[0])?;
    }
    let exit_code = check::run(root, &release.out)?;
    if exit_code != ExitCode::SUCCESS {
        eprintln!("release: what is not as promised stays in {}", release.out.display());
        return Ok(exit_code);
    }
    if builds.iter().any(|build| build.target.runs_here()) {
        release.walk()?;
    }
    release.publish()?;
    Ok(exit_code)
}

/// Builds and checks a release for this machine and returns its folder. A quick one leaves out what
/// takes minutes to compile. The inner error names what this machine lacks.
pub fn for_this_machine(root: &Path, quick: bool) -> Result<Result<PathBuf, String>> {
    let kind = if quick { Kind::Quick } else { Kind::Host };
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
    Ok(Ok(release.destination))
}

/// Files that were built for one target.
struct TargetBuild {
    target: Target,
    elf: elf::Elf,
    bytes: usize,
    sha256: String,
    features: &'static str,
    files: Vec<PathBuf>,
}

/// What could not be built, and why.
type Omission = (String, String);

impl Release {
    /// Describes a release of the sources below `root`. The inner error is a failure of git.
    fn new(root: &Path, kind: Kind) -> Result<Result<Self, String>> {
        let git = |args: &[&str]| {
            shell::output(Command::new("git").args(args).current_dir(root).env("TZ", "UTC"))
        };
        let commit = |format: &str| {
            git(&["show", "--no-patch", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", format, "HEAD"])
        };
        let describe = || -> Result<_> {
            let status = git(&["status", "--porcelain"])?;
            let [hash, epoch, timestamp] =
                ["--format=%H", "--format=%ct", "--format=%cd"].map(commit);
            Ok((!status.is_empty(), hash?, epoch?, timestamp?))
        };
        let (is_modified, hash, epoch, timestamp) = match describe() {
            Ok(description) => description,
            Err(why) => return Ok(Err(format!("a release is of a commit: {why:#}"))),
        };
        let manifest = fs::read_to_string(root.join("Cargo.toml")).context("no Cargo.toml")?;
        let manifest: toml::Table = manifest.parse().context("cannot read Cargo.toml")?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.context("the workspace has no version")?.to_owned();
        let rustc = shell::output(shell::tool("RUSTC", "rustc", root).arg("--version"))?;
        let target = cargo::target_folder(root)?;
        let work = target.join("release-work").join(kind.name());
        Ok(Ok(Self {
            root: root.to_path_buf(),
            out: work.join("out"),
            work,
            destination: target.join("release-artifacts").join(kind.folder(&version)),
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

    /// Builds all files of the release, for at least one target.
    fn make(&self, targets: &[Target]) -> Result<Vec<TargetBuild>> {
        let tools = build::tools(self).map_err(|missing| {
            anyhow::anyhow!("{missing}\na release is built by {}, from PyPI", self.kind.tools())
        })?;
        let mut skipped = Vec::new();
        let builds = self.build(&tools, targets, &mut skipped)?;
        if self.kind == Kind::Full {
            self.report_licenses(&mut skipped)?;
        } else {
            skip(&mut skipped, LICENSE_REPORT, self.kind.why_less());
        }
        self.write(MANIFEST, &(pretty(&self.manifest(&builds, &skipped)) + "\n"))?;
        sums::write(&self.out)?;
        Ok(builds)
    }

    /// Moves the complete release to its destination.
    fn publish(&self) -> Result<()> {
        folder::create(self.destination.parent().context("the release has no folder")?)?;
        folder::remove(&self.destination)?;
        fs::rename(&self.out, &self.destination)
            .with_context(|| format!("cannot move it to {}", self.destination.display()))?;
        eprintln!("release: it is in {}", self.destination.display());
        Ok(())
    }

    /// Builds programs, wheels and archives.
    fn build(
        &self,
        tools: &Venv,
        targets: &[Target],
        skipped: &mut Vec<Omission>,
    ) -> Result<Vec<TargetBuild>> {
        // Otherwise old files could be taken for new ones.
        folder::remove(&self.work.join("manual"))?;
        folder::recreate(&self.out)?;
        let mut builds = Vec::new();
        for &target in targets {
            match target.missing(&self.root)? {
                None => builds.push(self.build_target(tools, target, skipped)?),
                Some(missing) => skip(skipped, target.triple, &missing),
            }
        }
        ensure!(!builds.is_empty(), "this machine can build none of what was asked for");
        Ok(builds)
    }

    fn build_target(
        &self,
        tools: &Venv,
        target: Target,
        skipped: &mut Vec<Omission>,
    ) -> Result<TargetBuild> {
        let dyno = self.kind.program();
        eprintln!("release: building {} for {}", dyno.name, target.triple);
        let wheel = build::wheel(self, tools, target, dyno)?;
        let program = build::program(self, target);
        let bytes = fs::read(&program).context("cargo left no program")?;
        if self.kind != Kind::Quick {
            build::check_paths(self, &bytes)?;
        }
        let elf = elf::read(&bytes).context("the program")?;
        let runtime = runtime::find(&self.root, &self.rustc, tools, target)?;
        for lacks in &runtime.lacks {
            skip(skipped, &format!("{lacks}, {}", target.triple), "this installation has none");
        }
        let papers = self.papers(&runtime, target, dyno)?;
        let sealed = self.seal(tools, &wheel, &papers)?;
        let manual = self.manual(target)?;
        let contents = archive::Contents {
            program: &program,
            files: &[
                (licenses::TEXTS, papers.texts.as_path()),
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
        Ok(TargetBuild { target, elf, bytes: bytes.len(), sha256, features: dyno.features, files })
    }

    /// Writes the bill of materials and the license texts of a build's packages.
    fn papers(&self, runtime: &Runtime, target: Target, package: Crate) -> Result<Papers> {
        let folder = self.work.join("papers").join(target.triple).join(package.name);
        folder::create(&folder)?;
        let packages = packages::linked(&self.root, package.build_for(target))?;
        let subject = sbom::Subject {
            name: package.name,
            triple: target.triple,
            features: package.features,
            timestamp: &self.timestamp,
            runtime,
        };
        let title = format!("{} {} for {}", package.name, self.version, target.triple);
        let texts = licenses::texts(&title, &packages, &runtime.texts)?;
        let papers = Papers { sbom: folder.join("sbom.json"), texts: folder.join(licenses::TEXTS) };
        let sbom = pretty(&sbom::document(subject, &packages)?) + "\n";
        fs::write(&papers.sbom, sbom).context("cannot write the bill of materials")?;
        fs::write(&papers.texts, texts).context("cannot write the licences")?;
        Ok(papers)
    }

    fn seal(&self, tools: &Venv, wheel: &Path, papers: &Papers) -> Result<PathBuf> {
        let files = [
            ("licenses/LICENSE".to_owned(), self.root.join("LICENSE")),
            (format!("licenses/{}", licenses::TEXTS), papers.texts.clone()),
            ("sboms/dyno.cdx.json".to_owned(), papers.sbom.clone()),
        ];
        build::seal(self, tools, wheel, &self.out, &files)
    }

    /// Returns the folder of manual pages and completions, which are equal for all targets.
    fn manual(&self, target: Target) -> Result<PathBuf> {
        let folder = self.work.join("manual");
        if !folder.is_dir() {
            let runs = target.runs_here();
            let program = if runs { build::program(self, target) } else { build::native(self)? };
            archive::manual(&program, &folder)?;
        }
        Ok(folder)
    }

    fn report_licenses(&self, skipped: &mut Vec<Omission>) -> Result<()> {
        match licenses::deny(&self.root, &self.work.join("tools"))? {
            Ok(report) => {
                self.write(LICENSE_REPORT, &(report + "\n"))?;
                eprintln!(
                    "release: cargo deny finds licences, packages and sources as deny.toml asks"
                );
            }
            Err(why) => skip(skipped, LICENSE_REPORT, &why),
        }
        Ok(())
    }

    /// Installs and runs the release as a new user would.
    fn walk(&self) -> Result<()> {
        let walk = match walk::Walk::install(&self.root, &self.work.join("walk"), &self.out)? {
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

    fn manifest(&self, builds: &[TargetBuild], skipped: &[Omission]) -> Value {
        let builds = builds.iter().map(|build| {
            json!({
                "target": build.target.triple,
                "profile": self.kind.profile(),
                "features": build.features,
                "static": build.elf.is_static,
                "glibc": build.elf.glibc.map(|(major, minor)| format!("{major}.{minor}")),
                "program_bytes": build.bytes,
                "program_sha256": build.sha256,
                "files": build.files.iter().map(|file| name_of(file)).collect::<Vec<_>>(),
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

/// Documents that accompany a program.
struct Papers {
    sbom: PathBuf,
    texts: PathBuf,
}

fn skip(skipped: &mut Vec<Omission>, what: &str, why: &str) {
    eprintln!("release: skipped {what}: {why}");
    skipped.push((what.to_owned(), why.to_owned()));
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("its keys are text")
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
