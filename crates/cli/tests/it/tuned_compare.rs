//! `dyno tune compare` beside quantizers in Python, which small modules imitate.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::program::{Folder, ProgramResult};
use crate::tuned;

const COMPARE: &str =
    "tune compare digits.onnx --inputs test.npy --labels test-labels.npy --json --python";

const NUMPY: &str = "
class Samples(list):
    dtype = 'float32'

    def astype(self, dtype):
        made = Samples(self)
        made.dtype = dtype
        return made

    def __getitem__(self, at):
        if at is None:
            return Samples([self])
        return Samples(list(self)[at]).astype(self.dtype) if isinstance(at, slice) else list(self)[at]


def load(path):
    return Samples([Samples([0.0])])
";

const RUNTIME: &str = "
class Input:
    name = 'x'
    type = 'tensor(int64)'


class SessionOptions:
    pass


class InferenceSession:
    def __init__(self, path, options=None, providers=None):
        pass

    def get_inputs(self):
        return [Input]

    def run(self, outputs, feed):
        if feed['x'].dtype != 'int64':
            raise TypeError('expected int64')
";

const QUANTIZATION: &str = "
import shutil


class CalibrationDataReader:
    pass


class QuantFormat:
    QDQ = 0


class QuantType:
    QInt8 = 0
    QUInt8 = 1


def quantize_static(model, path, samples, **options):
    shutil.copy(model, path)


def quantize_dynamic(model, path):
    shutil.copy(model, path)
";

const NEURAL_COMPRESSOR: &str = "
import shutil


class PostTrainingQuantConfig:
    pass


class Quantized:
    def __init__(self, model):
        self.model = model

    def save(self, path):
        shutil.copy(self.model, path)


class quantization:
    @staticmethod
    def fit(model, config, calib_dataloader):
        return Quantized(model)
";

fn compared(folder: &Folder, python: &str) -> Vec<Value> {
    let mut command = folder.command(&format!("{COMPARE} {python}"));
    let ran: ProgramResult =
        command.env("PYTHONPATH", folder.0.join("modules")).output().unwrap().into();
    ran.exits(0).json()["rows"].as_array().unwrap().clone()
}

/// The samples have the type that the model reads, and each quantizer that is installed has a row.
#[test]
fn each_quantizer_has_a_row() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: python3 is missing");
        return;
    }
    let folder = tuned::folder();
    folder.write("modules/numpy.py", NUMPY);
    folder.write("modules/onnx.py", "");
    folder.write("modules/onnxruntime/__init__.py", RUNTIME);
    folder.write("modules/onnxruntime/quantization.py", QUANTIZATION);
    folder.write("modules/neural_compressor.py", NEURAL_COMPRESSOR);
    let rows = compared(&folder, "python3");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    let expected =
        ["FLOAT 32", "ORT static", "ORT channels", "ORT dynamic", "Intel Neural Compressor"];
    assert_eq!(names, expected);
    for row in &rows {
        assert_eq!(row["problem"], Value::Null, "{row}");
        assert!(row["runtime_latency_ns"].is_number(), "{row}");
        assert_eq!(row["accuracy"], rows[0]["accuracy"], "{row}");
    }
    // A package that cannot be imported has a row with the reason.
    folder.write("modules/neural_compressor.py", "raise ImportError('broken')\n");
    let rows = compared(&folder, "python3");
    let problem = rows[4]["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("broken; ") && problem.contains("neural-compressor==2.6"),
        "{problem}"
    );
}

/// Rows before a crash do not hide it.
#[test]
fn a_crash_of_python_is_reported() {
    let folder = tuned::folder();
    let script = "#!/bin/sh\necho '{\"name\": \"ORT static\", \"error\": \"none\"}'\nexit 3\n";
    folder.write("python", script);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.0.join("python"), mode).unwrap();
    let rows = compared(&folder, "./python");
    let crash = rows.iter().find(|row| row["name"] == "ONNX Runtime").expect("a row");
    assert_eq!(crash["problem"], "./python failed: exit status: 3");
}
