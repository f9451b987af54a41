//! Creates a submission tree with the size of a full round. The load generator writes its logs
//! in virtual time.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_rules::Round;
use dyno_submission::package::{PackageRequest, package};

use crate::made::played::STEADY;
use crate::made::power;
use crate::made::submission::{EDGE, Model, Power, RESNET, RETINANET, asked, description, run};

/// Round and size of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Round whose rules the tree follows.
    pub round: &'static str,
    /// Number of results; a multiple of [`RESULTS_OF_A_SYSTEM`].
    pub results: usize,
    /// Number of files, including those of results; the others are code, as in real trees.
    pub files: usize,
    /// One of this many systems has a power measurement.
    pub systems_for_one_with_power: usize,
}

/// Round v5.1 had 53,911 files and 1,449 folders of a scenario, 48 of them with power.
pub const FULL: Size =
    Size { round: "v5.1", results: 1_440, files: 54_000, systems_for_one_with_power: 30 };
/// One fortieth of a full round.
pub const QUICK: Size = Size { results: 36, files: 1_350, ..FULL };
/// Round v3.0, the largest: 217,000 files and 7,277 results, 2,444 of them with power.
pub const LARGEST: Size =
    Size { round: "v3.0", results: 7_278, files: 217_000, systems_for_one_with_power: 3 };
/// One fortieth of the largest round.
pub const LARGEST_QUICK: Size = Size { results: 180, files: 5_425, ..LARGEST };

/// Two benchmarks in three scenarios.
const RESULTS_OF_A_SYSTEM: usize = 6;
const SYSTEMS_OF_A_SUBMITTER: usize = 12;

/// Version of the generated tree; an older tree is regenerated.
const GENERATION: &str = "4";

const MODELS: [Model; 2] = [RESNET, RETINANET];

/// Creates a tree of this size in the folder, unless it exists; returns its path.
pub fn tree(folder: &Path, size: Size) -> PathBuf {
    let round = Round::named(size.round).unwrap();
    let out = folder.join(format!("tree-{}-{}", size.results, size.files));
    let stamp = folder.join(format!("tree-{}-{}.made", size.results, size.files));
    let made = format!("{GENERATION} {}", size.round);
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
        let (power, fields) = match system % size.systems_for_one_with_power {
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
