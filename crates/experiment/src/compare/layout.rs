//! The folder of interleaved runs: `a-1`, `b-1`, `a-2`, `b-2` and so on. A run in slices is a
//! folder with runs `1`, `2` and so on.

use std::path::{Path, PathBuf};

use dyno_loadgen::compare::slices;
use dyno_results::summary::{self, State};
use dyno_results::sweep::InputFile;
use dyno_results::write::{create_folder, pretty, replace};
use dyno_tensors::files;
use serde::{Deserialize, Serialize};

use super::copies::refuse_repeated;
use super::peer::{Peer, PeerAccount};
use super::{ComparedRun, Sides};

use crate::failure::Failure;
use crate::inputs;
use crate::lock::FolderLock;

/// Name of the file that describes the folder.
const FILE: &str = "interleave.json";

/// Name of its schema.
const SCHEMA: &str = "dyno.interleave";

/// Names of the folders of both sides.
pub const NAMES: [&str; 2] = ["a", "b"];

/// Minimum number of runs per side for a comparison.
pub const PAIRS_FEWEST: usize = 2;

/// Layout of the interleaved runs of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Name of the schema.
    pub schema: String,
    /// Configurations of baseline and candidate.
    pub configs: [String; 2],
    /// Slices of a run (1 or even).
    pub slices: usize,
    /// Seed of the order of slices.
    pub seed: u64,
    /// Whether pairs were added until the result was conclusive.
    pub until_decided: bool,
    /// Name of the load generator of the candidate; `None` if it is Dyno.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Pairs that were planned, or begun until the result was conclusive; `None` in folders of earlier
    /// versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Files of both sides when the first run began. None are known in folders of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InputFile>,
}

/// Lock of the folder of a comparison.
#[derive(Debug)]
pub struct LockedFolder {
    _lock: FolderLock,
    /// The folder, if it did not exist before.
    made: Option<PathBuf>,
}

/// Removes a new folder that is still empty, because the comparison could not begin.
impl Drop for LockedFolder {
    fn drop(&mut self) {
        // A folder with runs is not empty, and stays.
        let _ = self.made.as_deref().map(std::fs::remove_dir);
    }
}

/// Position of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the pair, from 0.
    pub pair: usize,
    /// Side: 0 is the baseline, 1 the candidate.
    pub side: usize,
    /// Number of the slice, from 0.
    pub slice: usize,
}

impl Layout {
    /// Returns a layout that is not written yet.
    pub fn new(configs: [String; 2], slices: usize, seed: u64, until_decided: bool) -> Self {
        Self {
            schema: SCHEMA.into(),
            configs,
            slices,
            seed,
            until_decided,
            peer: None,
            pairs: None,
            files: Vec::new(),
        }
    }

    /// Reads the layout of a folder; `None` for folders of earlier versions, which have no layout
    /// file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Self>, Failure> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let damaged = |error: String| Failure::usage(format!("{}: {error}", path.display()));
        let text = files::read_to_string(&path).map_err(|error| damaged(error.to_string()))?;
        let layout: Self =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if layout.schema == SCHEMA && is_slice_count(layout.slices) {
            Ok(Some(layout))
        } else {
            Err(damaged(format!(
                "expected {SCHEMA} with 1 or an even number of slices up to {SLICES_MOST}"
            )))
        }
    }

    /// Reads the layout of a resumed folder. Folders of earlier versions have whole runs.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_or_whole(
        directory: &Path,
        configs: &[String; 2],
        seed: u64,
    ) -> Result<Option<Self>, Failure> {
        let is_whole = side_folder(directory, 0, 0).join(summary::FILE).is_file();
        let whole = || is_whole.then(|| Self::new(configs.clone(), 1, seed, false));
        Ok(Self::read(directory)?.or_else(whole))
    }

    /// Creates the folder, and locks it for this process.
    ///
    /// # Errors
    /// Another comparison has the lock, or the folder cannot be created.
    pub fn claim(directory: &Path) -> Result<LockedFolder, Failure> {
        let made = if directory.exists() { None } else { Some(directory.to_owned()) };
        create_folder(directory)
            .map_err(|error| Failure::set_up(format!("{}: {error}", directory.display())))?;
        Ok(LockedFolder { _lock: FolderLock::take(directory, "comparison")?, made })
    }

    /// Writes the layout.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        replace(&directory.join(FILE), pretty(self))
            .map_err(|error| Failure::set_up(format!("{}: {error}", directory.display())))
    }

    /// Rejects to resume runs whose files have changed.
    ///
    /// # Errors
    /// All such files.
    pub fn refuse_changes(&self) -> Result<(), Failure> {
        let changes = inputs::changes(&self.files, Path::new(""));
        if changes.is_empty() {
            return Ok(());
        }
        let problem =
            |change: String| format!("the runs differ from those that were started: {change}");
        Err(Failure::usages(changes.into_iter().map(problem).collect())
            .hint("choose another folder with --out, or undo the change"))
    }

    /// Returns the runs of a pair in the order in which they are played.
    pub fn places(&self, pair: usize) -> Vec<Place> {
        let mut played = [0; 2];
        let place = |side: usize| {
            let slice = played[side];
            played[side] += 1;
            Place { pair, side, slice }
        };
        slices::order(pair, self.slices, self.seed).into_iter().map(place).collect()
    }

    /// Returns the folder of a run.
    pub fn folder(&self, directory: &Path, place: Place) -> PathBuf {
        let side = side_folder(directory, place.pair, place.side);
        if self.slices == 1 { side } else { side.join((place.slice + 1).to_string()) }
    }

    /// Reads the runs of one side of a pair: one, or its slices.
    fn read_side(
        &self,
        directory: &Path,
        pair: usize,
        side: usize,
    ) -> Result<Vec<ComparedRun>, Failure> {
        let read = |slice: usize| {
            let mut run = ComparedRun::read(&self.folder(directory, Place { pair, side, slice }))?;
            let position = slices::position(pair, side, slice, self.slices, self.seed);
            for run in run.tests.iter_mut().flat_map(|test| &mut test.observations) {
                run.position = Some(position);
            }
            Ok(run)
        };
        (0..self.slices).map(read).collect()
    }

    /// Reads both sides of a pair.
    ///
    /// # Errors
    /// If a run is missing or damaged, or slices are copies.
    pub fn read_pair(&self, directory: &Path, pair: usize) -> Result<[ComparedRun; 2], Failure> {
        let sides = [self.read_side(directory, pair, 0)?, self.read_side(directory, pair, 1)?];
        if self.slices > 1 {
            refuse_repeated(&sides, true)?;
        }
        let whole = |side: usize, mut runs: Vec<ComparedRun>| match self.slices {
            1 => runs.remove(0),
            _ => {
                let label = side_folder(directory, pair, side).display().to_string();
                ComparedRun::from_slices(runs, label)
            }
        };
        let [first, second] = sides;
        let (baseline, mut candidate) = (whole(0, first), whole(1, second));
        if self.peer.is_some() {
            candidate.adopt_conditions(&baseline);
        }
        Ok([baseline, candidate])
    }

    /// Returns the account of the other load generator, if the candidate's runs are its own.
    ///
    /// # Errors
    /// An unknown load generator, or damaged records.
    fn account(&self, directory: &Path, pairs: &[usize]) -> Result<Option<PeerAccount>, Failure> {
        let Some(name) = &self.peer else { return Ok(None) };
        let peer = Peer::named(name).ok_or_else(|| {
            let path = directory.join(FILE);
            Failure::usage(format!("{}: unknown load generator `{name}`", path.display()))
        })?;
        let of_pair = |&pair: &usize| [0, 1].map(|side| side_folder(directory, pair, side));
        let folders: Vec<[PathBuf; 2]> = pairs.iter().map(of_pair).collect();
        let sides = [0, 1].map(|side| folders.iter().map(|pair| pair[side].as_path()).collect());
        PeerAccount::read(peer, sides).map(Some)
    }

    /// Returns whether a run of Dyno is complete, or a folder of another load generator is there. A damaged
    /// run is reported when it is read.
    fn is_complete(&self, directory: &Path, place: Place) -> bool {
        let folder = self.folder(directory, place);
        if self.peer.is_some() && place.side == 1 {
            return folder.is_dir();
        }
        match summary::Run::read(&folder) {
            Ok(run) => run.state == State::Complete,
            Err(_) => folder.join(summary::FILE).is_file(),
        }
    }

    /// Returns the folders of the runs of a pair that are missing or incomplete.
    fn missing(&self, directory: &Path, pair: usize) -> Vec<String> {
        let mut places = self.places(pair);
        places.retain(|&place| !self.is_complete(directory, place));
        let mut names: Vec<String> = places
            .into_iter()
            .map(|place| self.folder(directory, place).display().to_string())
            .collect();
        names.sort();
        names
    }
}

/// Returns whether runs can be divided into this many slices.
pub fn is_slice_count(slices: usize) -> bool {
    slices == 1 || ((2..=SLICES_MOST).contains(&slices) && slices.is_multiple_of(2))
}

/// Maximum number of slices of a run; with more, each slice would be too short.
pub const SLICES_MOST: usize = 64;

fn side_folder(directory: &Path, pair: usize, side: usize) -> PathBuf {
    directory.join(format!("{}-{}", NAMES[side], pair + 1))
}

/// Returns the number of the last pair that was begun.
fn begun(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| -> Option<usize> {
        let name = entry.file_name();
        let (side, number) = name.to_str()?.split_once('-')?;
        NAMES.contains(&side).then(|| number.parse().ok())?
    };
    entries.filter_map(number).filter(|&number| number <= PAIRS_MOST).max().unwrap_or(0)
}

/// Largest number of a pair; larger ones are names that someone else gave.
const PAIRS_MOST: usize = 100_000;

/// Reads the complete pairs of a folder, and its layout: those of the first `most`, otherwise all.
///
/// # Errors
/// If there are fewer than two complete pairs, a run cannot be read, or runs are copies.
pub fn read(directory: &Path, most: Option<usize>) -> Result<(Sides, Layout), Failure> {
    if !directory.exists() {
        return Err(Failure::set_up(format!("{} does not exist", directory.display()))
            .hint("pass two runs, by default below runs/, or the folder of --interleave"));
    }
    let written = Layout::read(directory)?;
    let configs = written.as_ref().map(|layout| layout.configs.clone());
    let layout =
        written.unwrap_or_else(|| Layout::new([String::new(), String::new()], 1, 0, false));
    let planned = layout.pairs.unwrap_or(0).min(PAIRS_MOST);
    let last = most.unwrap_or_else(|| planned.max(begun(directory)));
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for pair in 0..last.max(planned) {
        let of_pair = layout.missing(directory, pair);
        if pair < last && of_pair.is_empty() {
            pairs.push(pair);
        }
        missing.extend(of_pair);
    }
    if pairs.len() < PAIRS_FEWEST {
        let folder = directory.display();
        let problem = if directory.join(summary::FILE).is_file() {
            format!("{folder} is one run; expected two runs, or a folder of --interleave")
        } else {
            format!(
                "{folder} contains {} complete pairs of runs (a-1 and b-1, a-2 and b-2, ..); expected \
                 at least {PAIRS_FEWEST}",
                pairs.len()
            )
        };
        return Err(Failure::usage(problem).hint(
            "pass two runs (dyno compare A B), or two configurations (--interleave 5 A.toml \
             B.toml)",
        ));
    }
    let peer = layout.account(directory, &pairs)?;
    let mut sides = Sides { runs: [Vec::new(), Vec::new()], configs, peer, missing };
    for pair in pairs {
        sides.add(layout.read_pair(directory, pair)?);
    }
    refuse_repeated(&sides.runs, most.is_some())?;
    Ok((sides, layout))
}

impl Sides {
    /// Adds a pair.
    pub fn add(&mut self, pair: [ComparedRun; 2]) {
        for (side, run) in self.runs.iter_mut().zip(pair) {
            side.push(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_pair_have_folders_of_their_own() {
        let folders = |slices: usize| -> Vec<String> {
            let layout = Layout::new([String::new(), String::new()], slices, 1, false);
            let of = |place: Place| layout.folder(Path::new("d"), place).display().to_string();
            layout.places(1).into_iter().map(of).collect()
        };
        assert_eq!(folders(1), ["d/b-2", "d/a-2"]);
        let mut sliced = folders(2);
        sliced.sort();
        assert_eq!(sliced, ["d/a-2/1", "d/a-2/2", "d/b-2/1", "d/b-2/2"]);
    }

    #[test]
    fn a_file_with_very_many_slices_is_rejected() {
        let folder = std::env::temp_dir().join(format!("dyno-layout-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (slices, is_read) in [(64, true), (66, false), (1 << 32, false)] {
            let layout = Layout::new([String::new(), String::new()], slices, 1, false);
            layout.write(&folder).unwrap();
            assert_eq!(Layout::read(&folder).is_ok(), is_read, "{slices}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn layouts_of_earlier_versions_have_no_plan() {
        let layout = Layout::new(["a.toml".into(), "b.toml".into()], 1, 1, false);
        let text = serde_json::to_string(&layout).unwrap();
        assert!(!text.contains("pairs") && !text.contains("files"), "{text}");
        assert_eq!(serde_json::from_str::<Layout>(&text).unwrap(), layout);
        let planned = Layout { pairs: Some(5), ..layout };
        let text = serde_json::to_string(&planned).unwrap();
        assert_eq!(serde_json::from_str::<Layout>(&text).unwrap(), planned);
    }
}
