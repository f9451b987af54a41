//! A release, as a new user meets it.

use anyhow::Result;

use super::{Bench, Named, Outcome};
use crate::release::{self, walk::Walk};

const MADE: &str = "one command makes a release that is as promised";
const BUILT_IN: &str = "from the wheel to a first report";
const OWN_MODEL: &str = "from the wheel to a report on an ONNX file";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let all = |outcome: fn(String) -> Outcome, why: &str| {
        [MADE, BUILT_IN, OWN_MODEL].map(|name| (name, outcome(why.to_owned()))).into()
    };
    let folder = match release::quick(bench.root) {
        Ok(Ok(folder)) => folder,
        Ok(Err(missing)) => return Ok(all(Outcome::Skipped, &missing)),
        Err(why) => return Ok(all(Outcome::Failed, &format!("{why:#}"))),
    };
    let mut outcomes = vec![(MADE, Outcome::Passed)];
    let outcome = |result: Result<()>| match result {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(format!("{why:#}")),
    };
    match Walk::start(bench.root, &bench.folder, &folder)? {
        Ok(walk) => {
            outcomes.push((BUILT_IN, outcome(walk.built_in())));
            let own_model = match walk.own_model() {
                Ok(Err(missing)) => Outcome::Skipped(missing),
                Ok(Ok(())) => Outcome::Passed,
                Err(why) => Outcome::Failed(format!("{why:#}")),
            };
            outcomes.push((OWN_MODEL, own_model));
        }
        Err(missing) => {
            outcomes.push((BUILT_IN, Outcome::Skipped(missing.clone())));
            outcomes.push((OWN_MODEL, Outcome::Skipped(missing)));
        }
    }
    Ok(outcomes)
}
