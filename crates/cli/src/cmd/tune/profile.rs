//! `dyno tune profile`: prints the descriptor of a model with measured sizes and largest magnitudes.

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::tune::{Engine, fed};
use dyno_number::evaluate::graph::{Agreement, CorrectnessRule};
use dyno_number::network::{Layer, LayerKind};

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Profile {
    /// The model, an ONNX file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Inputs of the model, as .npy files with samples along the first axis: one file per input,
    /// separated by commas
    #[arg(long, value_name = "NPY", value_delimiter = ',', required = true)]
    samples: Vec<PathBuf>,
    /// Used length of each sample along its first axis, as a .npy file; for padded samples
    #[arg(long, value_name = "NPY")]
    lengths: Option<PathBuf>,
    /// Layers to tune, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    layers: Vec<String>,
}

const AFTER_HELP: &str = "\
Prints the part of a descriptor that describes the layers: names, numbers of weights and activations,
their largest magnitudes, the smallest activations, products and kinds. Add the keys that state how to
measure the accuracy.
Example:
  dyno tune profile lenet.onnx --samples images.npy --layers conv1,conv2 > lenet.toml";

impl Profile {
    /// Measures the model and prints the descriptor.
    ///
    /// # Errors
    /// An unreadable file, or a model that the engine does not support.
    pub fn execute(self) -> Result<Exit, Failure> {
        let (layers, unused) = self.profile()?;
        if !unused.is_empty() {
            let names = unused.join(", ");
            output::say(format_args!(
                "warning: left out: {names}, because the first output does not depend on it"
            ));
        }
        let known: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        if let Some(unknown) = self.layers.iter().find(|name| !known.contains(&name.as_str())) {
            let problem = format!("the model has no layer {unknown}");
            return Err(Failure::usage(problem).hint(format!("it has {}", known.join(", "))));
        }
        let is_asked = |layer: &&Layer| self.layers.is_empty() || self.layers.contains(&layer.name);
        let wanted: Vec<&Layer> = layers.iter().filter(is_asked).collect();
        let is_infinite =
            |layer: &&&Layer| layer.weight_max.is_infinite() || layer.activation_max.is_infinite();
        if let Some(layer) = wanted.iter().find(is_infinite) {
            let problem =
                format!("the weights or the inputs of layer {} reach infinity", layer.name);
            return Err(Failure::usage(problem)
                .hint("check the weights of the model and the range of the samples"));
        }
        let name = self.model.file_stem().unwrap_or_default().to_string_lossy();
        output::print(descriptor(&name, &wanted)).map(|()| Exit::Valid)
    }

    /// Returns the layers, and the names of those on which the first output does not depend.
    fn profile(&self) -> Result<(Vec<Layer>, Vec<String>), Failure> {
        Failure::check_files(
            std::iter::once(&self.model).chain(&self.samples).chain(&self.lengths),
        )?;
        // The answers do not matter, because no accuracy is computed.
        let agreement = CorrectnessRule::Agreement(Agreement::Equal);
        let mut fed =
            fed(&self.samples, self.lengths.as_deref(), agreement).map_err(Failure::usage)?;
        let count = fed.count();
        if fed.inputs.len() == 1 && fed.lengths.is_none() {
            fed.correctness = CorrectnessRule::Labels(vec![0; count]);
        }
        let sets = [Vec::new(), (0..count).collect(), Vec::new()];
        let mut engine = Engine::new(&self.model, fed, sets).map_err(Failure::usage)?;
        let layers = engine.profile().map_err(Failure::usage)?;
        Ok((layers, engine.unused_layers()))
    }
}

fn descriptor(name: &str, layers: &[&Layer]) -> String {
    let list = |value: &dyn Fn(&Layer) -> String| {
        layers.iter().map(|layer| value(layer)).collect::<Vec<_>>().join(", ")
    };
    let kind = |layer: &Layer| match layer.kind {
        LayerKind::Convolution => "\"conv\"".to_owned(),
        LayerKind::FullyConnected => "\"fc\"".to_owned(),
    };
    format!(
        "name = {name:?}\nlayer_name = [{}]\nlayer_kind = [{}]\nwgt_size = [{}]\nact_size = [{}]\n\
         wgt_max_abs = [{}]\nact_max_abs = [{}]\nact_min = [{}]\nmacs = [{}]\n",
        list(&|layer| format!("{:?}", layer.name)),
        list(&kind),
        list(&|layer| layer.weight_size.to_string()),
        list(&|layer| layer.activation_size.to_string()),
        list(&|layer| format!("{:?}", layer.weight_max)),
        list(&|layer| format!("{:?}", layer.activation_max)),
        list(&|layer| format!("{:?}", layer.activation_min.unwrap_or(-layer.activation_max))),
        list(&|layer| layer.macs.to_string()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_number::Network;

    #[test]
    fn a_profile_is_a_descriptor() {
        let layer = Layer {
            name: "conv1".into(),
            parts: vec!["conv1".into()],
            weight_size: 500,
            activation_size: 784,
            weight_max: 0.4,
            activation_max: 255.0 / 256.0,
            activation_min: Some(-0.5),
            macs: 288_000,
            kind: LayerKind::FullyConnected,
        };
        let text = descriptor("lenet", &[&layer]);
        let network = Network::from_descriptor(&text, None).unwrap();
        assert_eq!((network.name.as_str(), &network.layers), ("lenet", &vec![layer]));
    }
}
