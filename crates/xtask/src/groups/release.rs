//! A quick release, and whether it is as promised.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use dyno_peers::bench::Bench;
use dyno_peers::groups::{Comparison, Outcome};
use dyno_peers::venv::Venv;
use dyno_peers::{folder, shell};

use crate::release;

const MADE: &str = "one command makes a release that is as promised";
const BILL: &str = "the bill of materials is one by the schema of CycloneDX";

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
        [MADE, BILL].map(|name| (name, outcome(why.to_owned()))).into()
    };
    let folder = match release::for_this_machine(bench.root, true) {
        Ok(Ok(folder)) => folder,
        Ok(Err(missing)) => return Ok(all(Outcome::Skipped, &missing)),
        Err(why) => return Ok(all(Outcome::Failed, &format!("{why:#}"))),
    };
    Ok(vec![(MADE, Outcome::Passed), (BILL, bill(bench, &folder)?)])
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
