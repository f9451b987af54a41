//! Decoded and prepared pictures beside the libraries of the reference's data sets.

use anyhow::{Context, Result};

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{cargo, folder};

const PACKAGES: &str = "numpy==2.4.6 pillow==13.0.0 opencv-python-headless==5.0.0.93";
const SAMPLES: &str = "decoding and preparing beside Pillow, OpenCV and NumPy";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let venv = Venv::with_modules(&bench.folder, PACKAGES, "numpy, PIL, cv2");
    Ok(vec![(SAMPLES, Outcome::unless_missing(venv, |venv| compare(bench, &venv))?)])
}

fn compare(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let prepare = cargo::debug_folder(bench.root)?.join("examples/prepare");
    let samples = bench.folder.join("samples");
    folder::recreate(&samples)?;
    let mut script = venv.script(&bench.root.join("crates/peers/scripts/images.py"));
    let status = script.arg(prepare).arg(samples).status().context("cannot start python")?;
    Ok(Outcome::from_status(status, || {
        "samples are further from the libraries' than stated".into()
    }))
}
