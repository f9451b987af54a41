//! Networks as the tuner sees them: layers, their sizes, and how the accuracy of a configuration is
//! measured.

mod read;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::metric::{Direction, Metric, SCORED_METHODS};

use crate::assignment::Assignment;
use crate::config::Radix;
use crate::evaluate::graph::Agreement;
use crate::format::{Format, Kind};
use crate::objective::Objective;
use crate::platform::{Platform, Role};

/// A network as described by its descriptor; see [`Network::from_descriptor`].
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Name in the descriptor; empty if it has none.
    pub name: String,
    /// Formats of the platform.
    pub platform: Platform,
    /// Layers whose formats are tuned. All others stay FLOAT(32).
    pub layers: Vec<Layer>,
    /// What layers share.
    pub layerwise: LayerwiseScope,
    /// Function that the tuner minimizes.
    pub objective: Objective,
    /// Metric by which configurations are judged.
    pub metric: Metric,
    /// Share of the FLOAT(32) accuracy that may be lost (SPEC A21), in [0, 1).
    pub error_margin: f64,
    /// Program that measures accuracies, if there is one.
    pub external: Option<ExternalProgram>,
    /// Model that [`crate::evaluate`] runs in this process, if there is one.
    pub built_in: Option<BuiltInModel>,
}

/// A model and its samples, as files relative to the descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltInModel {
    /// ONNX file of the model.
    pub model: String,
    /// NumPy files with the samples along the first axis, one for each input of the model in its
    /// order.
    pub samples: Vec<String>,
    /// NumPy file with the length of each sample: how much of its first axis is valid. `None` if
    /// samples are complete.
    pub lengths: Option<String>,
    /// What counts as a correct answer.
    pub correctness: CorrectnessSource,
    /// Share of the samples in the small set.
    pub small_share: f64,
    /// Seed that selects the small set.
    pub seed: u64,
    /// Files with the samples and labels of the validation set, on which an answer is confirmed.
    pub validation: Option<[String; 2]>,
    /// System that runs instead of the built-in engine. `{config}` stands for the file of the
    /// formats, `{model}` for the model.
    pub system: Option<String>,
}

/// Source of the correct answers.
#[derive(Clone, Debug, PartialEq)]
pub enum CorrectnessSource {
    /// NumPy file with an integer for each sample: the index of the largest score.
    Labels(String),
    /// The model's own answers in FLOAT(32).
    Agreement(Agreement),
}

impl BuiltInModel {
    /// Returns all files that are read, the model first.
    pub fn files(&self) -> Vec<&str> {
        let labels = match &self.correctness {
            CorrectnessSource::Labels(file) => Some(file),
            CorrectnessSource::Agreement(_) => None,
        };
        let samples = self.samples.iter().chain(&self.lengths).chain(labels);
        std::iter::once(&self.model).chain(samples).map(String::as_str).collect()
    }
}

/// A layer that is tuned. Sub-layers of a descriptor share the layer's formats; sizes are totals
/// over all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Name of the layer.
    pub name: String,
    /// Names of the sub-layers; the name of the layer if it has none.
    pub parts: Vec<String>,
    /// Number of weights.
    pub weight_size: u64,
    /// Number of activations.
    pub activation_size: u64,
    /// Largest magnitude of the weights.
    pub weight_max: f64,
    /// Largest magnitude of the activations.
    pub activation_max: f64,
    /// Least activation, if known. If it is not negative, the activations need no sign.
    pub activation_min: Option<f64>,
    /// Number of products per sample; 0 if unknown.
    pub macs: u64,
    /// Kind of layer, for Ristretto's search.
    pub kind: LayerKind,
}

/// Kinds of layers to which Ristretto gives separate widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// A convolution or a similar layer.
    Convolution,
    /// A fully connected layer.
    FullyConnected,
}

/// Objects for which each layer has a type and width of its own. Biases are always separate (SPEC
/// A13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerwiseScope {
    /// Weights and activations.
    Both,
    /// Weights; all activations share one type and width.
    WeightOnly,
    /// Activations; all weights share one type and width.
    ActivationOnly,
    /// Neither: all weights share one type and width, and all activations another.
    None,
}

/// A program that prints the accuracy of a configuration, as in the thesis.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalProgram {
    /// Shell command that measures the small set.
    pub small_command: Option<String>,
    /// Shell command that measures the full set.
    pub full_command: String,
    /// Shell command that measures the confirmation set, in closed mode.
    pub confirmation_command: Option<String>,
    /// Regular expression for the output. The first group of its last match is the accuracy.
    pub result: String,
    /// Regular expression for the output. The first group of its last match is the latency in ns.
    pub latency: Option<String>,
    /// Regular expression for the output of the confirmation command. The first group of each match
    /// is the score of a sample, in the order of the samples.
    pub sample: Option<String>,
    /// Reading of the bias of FIXED in the configuration files of the program.
    pub radix: Radix,
    /// Path at which the program reads its configuration. `None` if the commands contain
    /// `{config}`.
    pub config_file: Option<String>,
    /// Time limit of one run, in seconds.
    pub time_limit_s: f64,
    /// Number of samples in the small and the full set, if known.
    pub samples: [Option<u64>; 2],
    /// File with the names of the samples of the calibration set, one per line.
    pub calibration: Option<String>,
    /// File with the names of the samples of the validation set, one per line.
    pub validation: Option<String>,
}

impl ExternalProgram {
    /// Returns whether the confirmation command is a command of the search. It may still read other
    /// samples, by the name of the set in the environment.
    pub(crate) fn confirms_by_search(&self) -> bool {
        let searches = [Some(&self.full_command), self.small_command.as_ref()];
        self.confirmation_command.as_ref().is_some_and(|command| {
            // Closed mode fills in other samples.
            !command.contains("{samples}") && searches.contains(&Some(command))
        })
    }
}

/// An object, or several that share everything: the weights or the activations of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the layer.
    pub layer: usize,
    /// Weights or activations.
    pub role: Role,
}

/// Slots that share type and width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name for display.
    pub name: String,
    /// Weights or activations.
    pub role: Role,
    /// Indices in an assignment.
    pub slots: Vec<usize>,
}

impl Network {
    /// Returns the slots of an assignment: the weights of all layers, then their activations.
    pub fn slots(&self) -> Vec<Slot> {
        let slots = |role| (0..self.layers.len()).map(move |layer| Slot { layer, role });
        slots(Role::Weight).chain(slots(Role::Activation)).collect()
    }

    /// Returns the groups of slots that share type and width. Slots without values are in none.
    pub fn groups(&self) -> Vec<Group> {
        let layers = self.layers.len();
        let own = |role, first: usize| {
            let group = move |layer: usize| {
                let slot = Slot { layer, role };
                let group = Group { name: self.object(slot), role, slots: vec![first + layer] };
                (self.size(slot) > 0).then_some(group)
            };
            (0..layers).filter_map(group).collect::<Vec<_>>()
        };
        let shared = |role, name: &str, first: usize| {
            let has_values = |layer: &usize| self.size(Slot { layer: *layer, role }) > 0;
            let slots: Vec<usize> =
                (0..layers).filter(has_values).map(|layer| first + layer).collect();
            let group = Group { name: name.into(), role, slots };
            if group.slots.is_empty() { Vec::new() } else { vec![group] }
        };
        let (weights, activations) = match self.layerwise {
            LayerwiseScope::Both => (true, true),
            LayerwiseScope::WeightOnly => (true, false),
            LayerwiseScope::ActivationOnly => (false, true),
            LayerwiseScope::None => (false, false),
        };
        let mut groups =
            if weights { own(Role::Weight, 0) } else { shared(Role::Weight, "weights", 0) };
        groups.extend(if activations {
            own(Role::Activation, layers)
        } else {
            shared(Role::Activation, "activations", layers)
        });
        groups
    }

    /// Returns the name of a slot for display: that of the layer, not of its parts.
    pub fn object(&self, slot: Slot) -> String {
        named(&self.layers[slot.layer].name, slot.role)
    }

    /// Returns the names of all objects, slot by slot. A slot without values has no object.
    pub fn objects(&self) -> Vec<Vec<String>> {
        let names = |slot: &Slot| {
            let parts = &self.layers[slot.layer].parts;
            let parts = parts.iter().filter(|_| self.size(*slot) > 0);
            parts.map(|part| named(part, slot.role)).collect()
        };
        self.slots().iter().map(names).collect()
    }

    /// Returns the number of values of a slot.
    pub fn size(&self, slot: Slot) -> u64 {
        let layer = &self.layers[slot.layer];
        match slot.role {
            Role::Weight => layer.weight_size,
            Role::Activation => layer.activation_size,
        }
    }

    /// Returns whether a slot may hold negative values. Weights always may.
    pub(crate) fn has_negative(&self, slot: Slot) -> bool {
        let least = self.layers[slot.layer].activation_min;
        slot.role == Role::Weight || least.is_none_or(|least| least < 0.0)
    }

    /// Returns the format with the bias that fits the largest magnitude of a slot. The range of
    /// FIXED, and the largest number of EXP, become the least power of two that is not below it
    /// (SPEC A1, 2.6). FLOAT keeps its bias.
    pub fn profiled(&self, slot: Slot, format: Format) -> Format {
        let layer = &self.layers[slot.layer];
        let max = match slot.role {
            Role::Weight => layer.weight_max,
            Role::Activation => layer.activation_max,
        };
        // All values are zero, so any bias fits.
        if max <= 0.0 {
            return format;
        }
        let reach = (max.log2().ceil() as i32).clamp(-Format::MAX_BIAS / 2, Format::MAX_BIAS / 2);
        let bias = match format.kind() {
            Kind::Float => return format,
            Kind::Fixed | Kind::Binary => -reach,
            Kind::Exp => (1 << format.exponent_bits()) - 1 - reach,
        };
        format.with_bias(bias).expect("half of the biases that there are, and an exponent's width")
    }

    /// Returns the assignment of FLOAT(32) to all objects.
    pub fn base(&self) -> Assignment {
        let objects = self.objects();
        let formats = vec![Format::F32; objects.len()];
        Assignment::new(objects, formats)
    }

    /// Returns a layer whose number of products is missing, if there is one. Tables and biases have
    /// neither inputs nor products.
    pub fn without_products(&self) -> Option<&Layer> {
        without_products(&self.layers)
    }
}

/// Returns a layer whose number of products is missing, if there is one.
fn without_products(layers: &[Layer]) -> Option<&Layer> {
    let has_none = layers.iter().all(|layer| layer.macs == 0);
    let is_missing = |layer: &&Layer| layer.macs == 0 && (has_none || layer.activation_size > 0);
    layers.iter().find(is_missing)
}

fn named(part: &str, role: Role) -> String {
    match role {
        Role::Weight => format!("{part}.weight"),
        Role::Activation => format!("{part}.input"),
    }
}
