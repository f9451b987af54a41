//! Computes the models of folders in the layout of ONNX's test data.
//!
//! Each folder holds `model.onnx`, and one tensor in each file `test_data_set_0/input_N.pb`. The outputs
//! are written beside the inputs as `oracle_N.pb`, or the reason why not as `oracle_error.txt`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use dyno_oracle::{Model, OracleError, Tensor};

fn main() -> ExitCode {
    for folder in env::args().skip(1) {
        let data = Path::new(&folder).join("test_data_set_0");
        let written = match evaluate(Path::new(&folder), &data) {
            Ok(outputs) => outputs.iter().enumerate().try_for_each(|(number, (name, tensor))| {
                fs::write(data.join(format!("oracle_{number}.pb")), tensor.to_bytes(name))
            }),
            Err(error) => fs::write(data.join("oracle_error.txt"), error.to_string()),
        };
        if let Err(error) = written {
            eprintln!("cannot write into {}: {error}", data.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn evaluate(folder: &Path, data: &Path) -> Result<Vec<(String, Tensor)>, OracleError> {
    let model = Model::read(&folder.join("model.onnx"))?.with_limit(500_000_000);
    let mut inputs = Vec::new();
    while let Ok(bytes) = fs::read(data.join(format!("input_{}.pb", inputs.len()))) {
        inputs.push(Tensor::from_bytes(&bytes)?);
    }
    let named: Vec<(&str, Tensor)> =
        inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    model.run(&named)
}
