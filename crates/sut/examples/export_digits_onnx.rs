//! Writes the trained perceptron as an ONNX model:
//!
//! ```text
//! cargo run -p dyno-sut --example export_digits_onnx -- digits.onnx
//! ```

use std::process::ExitCode;

use dyno_sut::digits::Perceptron;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: export_digits_onnx FILE");
        return ExitCode::from(2);
    };
    if let Err(error) = std::fs::write(&path, Perceptron::trained().to_onnx()) {
        eprintln!("cannot write {}: {error}", path.display());
        return ExitCode::from(3);
    }
    ExitCode::SUCCESS
}
