//! Pictures as samples beside the libraries of the references' data sets.

use anyhow::{Context, Result};

use super::venv::Venv;
use super::{Bench, Named, Outcome, built};

const PACKAGES: &str = "numpy==2.4.6 pillow==13.0.0 opencv-python-headless==5.0.0.93";
const SAMPLES: &str = "decoding and preparing beside Pillow, OpenCV and NumPy";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let venv = Venv::with(&bench.folder, PACKAGES).and_then(|venv| {
        venv.ask("import numpy, PIL, cv2")?;
        Ok(venv)
    });
    let outcome = match venv {
        Ok(venv) => compare(bench, &venv)?,
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(SAMPLES, outcome)])
}

fn compare(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let prepare = built(bench.root)?.join("examples/prepare");
    let samples = bench.folder.join("samples");
    if samples.exists() {
        std::fs::remove_dir_all(&samples)
            .with_context(|| format!("cannot empty {}", samples.display()))?;
    }
    std::fs::create_dir(&samples)
        .with_context(|| format!("cannot create {}", samples.display()))?;
    let mut script = venv.python();
    script.arg("-B").arg(bench.root.join("crates/xtask/peers/images.py")).arg(prepare).arg(samples);
    Ok(match script.status().context("cannot start python")?.success() {
        true => Outcome::Passed,
        false => Outcome::Failed("samples are further from the libraries' than stated".into()),
    })
}
