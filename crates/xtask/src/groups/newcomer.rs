//! The steps of the README, from an installation to a report, in a clean environment.

use anyhow::Result;
use dyno_peers::bench::Bench;
use dyno_peers::groups::{Comparison, Outcome};

use crate::release;
use crate::release::walk::{self, Walk};

const BUILT_IN: &str = "from the wheel to a first report";
const OWN_MODEL: &str = "from the wheel to a report on an ONNX file";
const SERVER: &str = "from the wheel to a report on a server of language models";
const GATE: &str = "a missed limit fails a CI job and is named";
const CLONE: &str = "from a clone to a first report";

/// Follows the README. Each step prints its time. Not in the quick form, because Dyno is built twice.
pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    if bench.quick {
        let why = Outcome::Skipped("it takes long; use cargo xtask peers newcomer".into());
        return Ok([BUILT_IN, OWN_MODEL, SERVER, GATE, CLONE]
            .map(|name| (name, why.clone()))
            .into());
    }
    let mut outcomes = of_wheel(bench)?;
    let clone = walk::from_clone(bench.root, &bench.folder.join("clone"));
    outcomes.push((CLONE, Outcome::from_result(clone)));
    Ok(outcomes)
}

/// Installs the wheel of this machine and follows the steps with it.
fn of_wheel(bench: &Bench) -> Result<Vec<Comparison>> {
    let all =
        |outcome: Outcome| [BUILT_IN, OWN_MODEL, SERVER, GATE].map(|name| (name, outcome.clone()));
    let folder = match release::for_this_machine(bench.root, true) {
        Ok(Ok(folder)) => folder,
        Ok(Err(missing)) => return Ok(all(Outcome::Skipped(missing)).into()),
        Err(why) => return Ok(all(Outcome::Failed(format!("{why:#}"))).into()),
    };
    let walk = match Walk::install(bench.root, &bench.folder.join("walk"), &folder)? {
        Ok(walk) => walk,
        Err(missing) => return Ok(all(Outcome::Skipped(missing)).into()),
    };
    let built_in = Outcome::from_result(walk.built_in());
    let own_model =
        walk.own_model().and_then(|run| Outcome::unless_missing(run, |()| Ok(Outcome::Passed)));
    let own_model = own_model.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
    Ok(vec![
        (BUILT_IN, built_in),
        (OWN_MODEL, own_model),
        (SERVER, Outcome::from_result(walk.server())),
        (GATE, Outcome::from_result(walk.gate())),
    ])
}
