//! A quick release, installed and used as a new user would.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use dyno_peers::bench::Bench;
use dyno_peers::groups::{Comparison, Outcome};
use dyno_peers::venv::Venv;
use dyno_peers::{folder, shell};

use crate::release;
use crate::release::walk::{self, Walk};

const MADE: &str = "one command makes a release that is as promised";
const BUILT_IN: &str = "from the wheel to a first report";
const BILL: &str = "the bill of materials is one by the schema of CycloneDX";
const CLONE: &str = "from a clone to a first report";
const OWN_MODEL: &str = "from the wheel to a report on an ONNX file";

/// A validator that contains the schema of CycloneDX.
const VALIDATOR: &str = "cyclonedx-python-lib[json-validation]==11.12.0";

/// Python that fails unless a file is valid by the schema.
const VALIDATE: &str = "\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
with open(sys.argv[1]) as bill:
    sys.exit(JsonStrictValidator(SchemaVersion.V1_5).validate_str(bill.read()))
";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let all = |outcome: fn(String) -> Outcome, why: &str| {
        [MADE, BILL, BUILT_IN, OWN_MODEL].map(|name| (name, outcome(why.to_owned()))).into()
    };
    let folder = match release::for_this_machine(bench.root, true) {
        Ok(Ok(folder)) => folder,
        Ok(Err(missing)) => return Ok(all(Outcome::Skipped, &missing)),
        Err(why) => return Ok(all(Outcome::Failed, &format!("{why:#}"))),
    };
    let mut outcomes = vec![(MADE, Outcome::Passed), (BILL, bill(bench, &folder)?)];
    if !bench.quick {
        outcomes.push((
            CLONE,
            Outcome::from_result(walk::from_clone(bench.root, &bench.folder.join("clone"))),
        ));
    }
    match Walk::install(bench.root, &bench.folder.join("walk"), &folder)? {
        Ok(walk) => {
            outcomes.push((BUILT_IN, Outcome::from_result(walk.built_in())));
            let own_model = walk
                .own_model()
                .and_then(|run| Outcome::unless_missing(run, |()| Ok(Outcome::Passed)));
            let failed = |error| Outcome::Failed(format!("{error:#}"));
            outcomes.push((OWN_MODEL, own_model.unwrap_or_else(failed)));
        }
        Err(missing) => {
            outcomes.push((BUILT_IN, Outcome::Skipped(missing.clone())));
            outcomes.push((OWN_MODEL, Outcome::Skipped(missing)));
        }
    }
    Ok(outcomes)
}

/// Validates each bill of materials with another program.
fn bill(bench: &Bench, release: &Path) -> Result<Outcome> {
    let folder = bench.folder.join("cyclonedx");
    folder::create(&folder)?;
    let venv = match Venv::with_packages(&folder, VALIDATOR) {
        Ok(venv) => venv,
        Err(missing) => return Ok(Outcome::Skipped(missing)),
    };
    let mut bills = 0;
    for file in fs::read_dir(release).context("there is no release")? {
        let file = file.context("cannot read the folder")?.path();
        if !file.to_string_lossy().ends_with(".cdx.json") {
            continue;
        }
        if let Err(why) = shell::output(venv.python().args(["-c", VALIDATE]).arg(&file)) {
            return Ok(Outcome::Failed(format!("{why:#}")));
        }
        bills += 1;
    }
    Ok(if bills == 0 { Outcome::Failed("there is none".to_owned()) } else { Outcome::Passed })
}
