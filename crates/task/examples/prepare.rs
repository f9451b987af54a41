//! Writes the samples that lists of preparation steps produce: `prepare JOBS.json`, a list of
//! `{"picture", "step", "layout", "out"}`. `cargo xtask peers images` compares them.

use std::error::Error;
use std::path::PathBuf;

use dyno_sut::tensors::Elements;
use dyno_task::image::decode;
use dyno_task::image::steps::{Layout, Step, prepare};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    picture: PathBuf,
    step: Vec<Step>,
    layout: Layout,
    out: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let list = std::env::args().nth(1).ok_or("expected a list of jobs; give a file")?;
    let jobs: Vec<Job> = serde_json::from_str(&std::fs::read_to_string(list)?)?;
    for job in jobs {
        let sample = prepare(decode::open(&job.picture)?, &job.step, job.layout)?;
        let bytes = match sample.elements {
            Elements::U8(values) => values.into_owned(),
            Elements::F32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => return Err("expected bytes or floats, found other values".into()),
        };
        std::fs::write(job.out, bytes)?;
    }
    Ok(())
}
