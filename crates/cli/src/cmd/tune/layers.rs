//! `dyno tune layers`: prints the layers of a model and the bits of their formats for simulators of
//! accelerators.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::system::{read_model, tuned};
use dyno_number::{Dictionary, layers};

use crate::cmd::npu::arguments::dimension;
use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Layers {
    /// The model, an ONNX file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Formats of its objects: opt_conf.txt of dyno tune run [default: none]
    #[arg(long, value_name = "FILE")]
    formats: Option<PathBuf>,
    /// Number of bits of objects without a format
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    bits: u32,
    /// Size of a dynamic dimension of an input; repeatable; the default is 1
    #[arg(long, value_name = "NAME=N", value_parser = dimension)]
    bind: Vec<(String, usize)>,
}

const AFTER_HELP: &str = "\
Prints CSV for one sample, with one line per layer that has products: the products m x (cin_g rs) by
(cin_g rs) x cout_g in each of the groups, the number of products, and the bytes and bits of weights, inputs
and outputs. Outputs have the bits of the inputs of the next layer, also if they are added first.
Example:
  dyno tune layers lenet.onnx --formats tune-lenet/opt_conf.txt > lenet.csv";

impl Layers {
    /// Prints the table.
    ///
    /// # Errors
    /// An unreadable file, or formats of objects that the model lacks.
    pub fn execute(self) -> Result<Exit, Failure> {
        let formats = match &self.formats {
            Some(path) => tuned::read(path)?,
            None => Dictionary::new(),
        };
        let model = read_model(&self.model)?;
        let bind: BTreeMap<String, usize> = self.bind.iter().cloned().collect();
        let table = layers::table(&model, &formats, self.bits, &bind).map_err(|unknown| {
            let path = self.formats.clone().unwrap_or_default();
            let problem = |what: &String| format!("{}: {what}", path.display());
            Failure::usages(unknown.iter().map(problem).collect())
        })?;
        for node in &table.left_out {
            output::say(format_args!("warning: left out: {node}"));
        }
        output::show(table.to_string()).map(|()| Exit::Valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_is_a_name_and_a_number() {
        assert_eq!(dimension("S=64"), Ok(("S".to_owned(), 64)));
        for wrong in ["S", "S=", "S=0", "S=x"] {
            assert!(dimension(wrong).is_err(), "{wrong}");
        }
    }
}
