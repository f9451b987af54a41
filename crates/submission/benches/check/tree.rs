//! Creates a submission tree with the size of a full round. The load generator writes its logs
//! in virtual time.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_rules::Round;
use dyno_submission::package::{PackageRequest, package};

use crate::made::played::STEADY;
use crate::made::power;
use crate::made::submission::{EDGE, Model, Power, RESNET, RETINANET, asked, description, run};

/// Size of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of results; a multiple of [`RESULTS_OF_A_SYSTEM`].
    pub results: usize,
    /// Number of files, including those of results; the others are code, as in real trees.
    pub files: usize,
}

/// Round v5.1 had 53,911 files and 1,449 folders of a scenario.
pub const FULL: Size = Size { results: 1_440, files: 54_000 };
/// One fortieth of a full round.
pub const QUICK: Size = Size { results: 36, files: 1_350 };

/// Two benchmarks in three scenarios.
const RESULTS_OF_A_SYSTEM: usize = 6;
const SYSTEMS_OF_A_SUBMITTER: usize = 12;
/// One of this many systems has a power measurement: v5.1 had 48 results with power.
const SYSTEMS_FOR_ONE_WITH_POWER: usize = 30;

/// Version of the generated tree; an older tree is regenerated.
const GENERATION: &str = "3";

const MODELS: [Model; 2] = [RESNET, RETINANET];

/// Creates a tree of this size in the folder, unless it exists; returns its path.
pub fn tree(folder: &Path, round: &Round, size: Size) -> PathBuf {
    let out = folder.join(format!("tree-{}-{}", size.results, size.files));
    let stamp = folder.join(format!("tree-{}-{}.made", size.results, size.files));
    let made = format!("{GENERATION} {}", round.version);
    if fs::read_to_string(&stamp).is_ok_and(|text| text == made) {
        return out;
    }
    eprintln!("makes a tree of {} results and {} files", size.results, size.files);
    for path in [&out, &folder.join("runs")] {
        if path.exists() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let runs =
        |power: Power, model: &Model| folder.join(format!("runs/{power:?}")).join(model.name);
    for model in &MODELS {
        for power in [Power::Unmeasured, Power::Measured] {
            run(round, model, &EDGE, STEADY, power, &runs(power, model));
        }
    }
    for system in 0..size.results / RESULTS_OF_A_SYSTEM {
        let (power, fields) = match system % SYSTEMS_FOR_ONE_WITH_POWER {
            0 => (Power::Measured, &power::FIELDS[..]),
            _ => (Power::Unmeasured, &[][..]),
        };
        for model in &MODELS {
            let asked = PackageRequest {
                submitter: format!("submitter-{:02}", system / SYSTEMS_OF_A_SUBMITTER),
                system: format!("system-{system:03}"),
                description: description(fields),
                ..asked(round, model, runs(power, model))
            };
            package(&asked, &out).unwrap();
        }
    }
    add_code(&out, size);
    assert_eq!(count(&out), size.files, "files in {}", out.display());
    fs::write(stamp, made).unwrap();
    out
}

/// Fills the tree up to its number of files.
fn add_code(out: &Path, size: Size) {
    let submitters: Vec<PathBuf> =
        fs::read_dir(out.join("closed")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let missing = size.files.saturating_sub(count(out));
    let line = "    answers = batch.run(samples)  # what a harness does\n";
    for at in 0..missing {
        let folder = submitters[at % submitters.len()].join("code/resnet");
        let folder = folder.join(format!("part_{}", at / submitters.len() / 50));
        fs::create_dir_all(&folder).unwrap();
        let text = line.repeat(20 + at % 180);
        fs::write(folder.join(format!("module_{at}.py")), text).unwrap();
    }
}

fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = |entry: fs::DirEntry| {
        if entry.file_type().unwrap().is_dir() { count(&entry.path()) } else { 1 }
    };
    entries.map(files).sum()
}
