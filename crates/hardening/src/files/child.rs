//! The process that stores the results of a run.

use std::fs;
use std::path::Path;

use dyno_loadgen::log::reports;
use dyno_results::records::{Keep, Records};
use dyno_results::run_directory::RunDirectory;

use super::{Fault, LAST, TEST, draw, summary_of};

/// Stores the results of a run below `out` as `dyno run` does, and returns what it reports: `stored`
/// with the path, `refused` or `not stored` with the reason.
pub fn store(seed: u64, index: u64, fault: &str, out: &Path) -> String {
    let (_, played) = draw(seed, index);
    let mut directory = match RunDirectory::create(Some(out), "case", &[1 << 16], false) {
        Ok(directory) => directory,
        Err(error) => return format!("refused {error}"),
    };
    interfere(fault, out);
    let records = Records::from_record(&played.run.record, Keep::All);
    let (log, summary) = (&played.log, summary_of(&played));
    if !directory.write_test(TEST, log, &reports(log), records.as_ref()) {
        directory.hold(TEST.into(), log.clone(), records);
    }
    let finished = directory.finish(&[(LAST, summary)]);
    match finished.not_stored {
        Some(error) => format!("not stored {error}"),
        None => format!("stored {}", finished.path.display()),
    }
}

/// Does what another process could do to the directory during the run.
fn interfere(fault: &str, out: &Path) {
    let parent = out.parent().unwrap_or(Path::new("."));
    let partial = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    for partial in partial.filter(|path| path.extension().is_some_and(|end| end == "partial")) {
        if fault == Fault::NameTaken.name() {
            let _ = fs::write(partial.join(TEST), "taken");
        } else if fault == Fault::Removed.name() {
            let _ = fs::remove_dir_all(partial);
        }
    }
}
