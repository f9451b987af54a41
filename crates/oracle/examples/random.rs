//! Writes random models, in the layout of ONNX's test data: `random OUT FIRST COUNT`.
//!
//! The folder of each seed holds `model.onnx` and `test_data_set_0/input_N.pb`.

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use dyno_oracle::random::{self, Case};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [out, first, count] = &arguments[..] else { return usage() };
    let (Ok(first), Ok(count)) = (first.parse::<u64>(), count.parse::<u64>()) else {
        return usage();
    };
    for seed in first..first.saturating_add(count) {
        if let Err(error) = write(Path::new(out), &random::case(seed)) {
            eprintln!("cannot write into {out}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: random OUT FIRST COUNT");
    ExitCode::from(2)
}

fn write(out: &Path, case: &Case) -> io::Result<()> {
    let folder = out.join(format!("seed_{}", case.seed));
    let data = folder.join("test_data_set_0");
    fs::create_dir_all(&data)?;
    fs::write(folder.join("model.onnx"), &case.bytes)?;
    for (number, (name, tensor)) in case.inputs.iter().enumerate() {
        fs::write(data.join(format!("input_{number}.pb")), tensor.to_bytes(name))?;
    }
    Ok(())
}
