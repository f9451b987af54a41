//! Tasks with fetched files, for all tests that need them; they are skipped without the files.

use std::collections::BTreeMap;

use dyno_task::cache::{Cache, FileState};
use dyno_task::card;
use dyno_task::files::{Files, OpenError};
use dyno_task::open::{self, PreparedTask};

/// Whether the files were not fetched; altered files are a failure.
fn is_absent(error: &OpenError) -> bool {
    match error {
        OpenError::Fetch { held, .. } => *held == FileState::Missing,
        OpenError::Several(errors) => errors.iter().all(is_absent),
        _ => false,
    }
}

/// Returns a task with the files in `DYNO_CACHE`; `None`, with a message, if they are missing.
pub fn ready(task: &str) -> Option<PreparedTask> {
    let Some(root) = std::env::var_os("DYNO_CACHE").filter(|root| !root.is_empty()) else {
        println!("skipped: DYNO_CACHE names no folder with files of {task}");
        return None;
    };
    let card = card::named(task).expect("the task is ours");
    let cache = Cache::at(root);
    let files = Files::new(card, &cache, BTreeMap::new()).expect("no files are given");
    match open::open(&files) {
        Ok(ready) => Some(ready),
        Err(missing) if is_absent(&missing) => {
            println!("skipped: {missing}");
            None
        }
        Err(error) => panic!("{task}: {error}"),
    }
}
