//! What is tuned: the layers of a network, how large they are, and how the accuracy of a configuration is
//! found out.

mod read;
#[cfg(test)]
pub(crate) mod tests;

use crate::assignment::Assignment;
use crate::config::Radix;
use crate::descriptor::nearest;
use crate::evaluate::graph::Agreement;
use crate::format::{Format, Kind};
use crate::objective::Objective;
use crate::platform::{Platform, Role};

/// A network, as its descriptor has it; [`Network::from_descriptor`] reads one.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Of the descriptor; empty if it gives none.
    pub name: String,
    /// Formats that there are.
    pub platform: Platform,
    /// The layers whose formats are tuned. All else stays FLOAT(32).
    pub layers: Vec<Layer>,
    /// What is shared between layers.
    pub layerwise: Layerwise,
    /// What is made small.
    pub objective: Objective,
    /// What accuracy may be lost: at most this share of that in FLOAT(32) (SPEC A21). In [0, 1).
    pub error_margin: f64,
    /// The program that is run for an accuracy, if it is an external one.
    pub external: Option<External>,
    /// The model that is evaluated in this process, if it is one of [`crate::evaluate`].
    pub built_in: Option<BuiltIn>,
}

/// A model and its samples, as files beside the descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltIn {
    /// An ONNX file.
    pub model: String,
    /// Arrays of NumPy, the samples first: one for each input of the model, in its order.
    pub samples: Vec<String>,
    /// Likewise, how much of each sample is meant, along its first axis.
    pub lengths: Option<String>,
    /// What counts as right.
    pub right: Wanted,
    /// What part of the samples the small set has.
    pub small_share: f64,
    /// Of the draw of the small set.
    pub seed: u64,
    /// Samples and labels of the validation set, if there is one: what an answer is confirmed on.
    pub validation: Option<[String; 2]>,
    /// A system that is played for an accuracy, instead of the engine inside: with `{config}` where the file of
    /// the formats goes, and `{model}` where the model goes.
    pub system: Option<String>,
}

/// What answers are compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// An array of NumPy: a whole number for each sample, the place of the largest score.
    Labels(String),
    /// What the model answers in FLOAT(32).
    Agreement(Agreement),
}

impl BuiltIn {
    /// All files that are read, the model first.
    #[must_use]
    pub fn files(&self) -> Vec<&str> {
        let labels = match &self.right {
            Wanted::Labels(file) => Some(file),
            Wanted::Agreement(_) => None,
        };
        let samples = self.samples.iter().chain(&self.lengths).chain(labels);
        std::iter::once(&self.model).chain(samples).map(String::as_str).collect()
    }
}

/// A layer that is tuned. Where a descriptor gives sub-layers, they share the layer's formats, and sizes
/// are those of all of them together.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Of the layer.
    pub name: String,
    /// Names of its parts; that of the layer where it has none.
    pub parts: Vec<String>,
    /// Values of its weights.
    pub weight_size: u64,
    /// Values of its activations.
    pub activation_size: u64,
    /// The largest magnitude of its weights.
    pub weight_max: f64,
    /// The largest magnitude of its activations.
    pub activation_max: f64,
    /// The least of its activations, where somebody said: those of at least zero need no sign.
    pub activation_min: Option<f64>,
    /// Products for a sample; 0 where nobody said.
    pub macs: u64,
    /// What it is, for Ristretto's search.
    pub kind: LayerKind,
}

/// Kinds that Ristretto gives a width each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// A convolution, and what is like one.
    Convolution,
    /// Every input with every output.
    FullyConnected,
}

/// Whose type and width are a layer's own. Biases always are (SPEC A13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layerwise {
    /// Of weights and of activations.
    Both,
    /// Of weights; all activations share theirs.
    WeightOnly,
    /// Of activations; all weights share theirs.
    ActivationOnly,
    /// None: all weights share one, and all activations.
    None,
}

/// A program that tells the accuracy of a configuration, as the thesis has it.
#[derive(Clone, Debug, PartialEq)]
pub struct External {
    /// For a shell: measures a part of the samples.
    pub small_command: Option<String>,
    /// Measures all of them.
    pub full_command: String,
    /// Measures those of the confirmation, in closed mode.
    pub confirmation_command: Option<String>,
    /// A regular expression; its first group is the accuracy, where its last match is.
    pub result: String,
    /// Likewise of a latency in ns.
    pub latency: Option<String>,
    /// How the program counts biases of FIXED, in the files that it is given.
    pub radix: Radix,
    /// Where the program expects its configuration; elsewhere `{config}` stands in the commands.
    pub config_file: Option<String>,
    /// Seconds of one run at most.
    pub time_limit_s: f64,
    /// How many samples the small and the full set have, if somebody said.
    pub samples: [Option<u64>; 2],
    /// A file that names a sample of the calibration set a line.
    pub calibration: Option<String>,
    /// Likewise of the validation set.
    pub validation: Option<String>,
}

/// An object, or several that share everything: the weights or the activations of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which layer.
    pub layer: usize,
    /// What of it.
    pub role: Role,
}

/// Slots that share type and width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// For people.
    pub name: String,
    /// What they are.
    pub role: Role,
    /// Places in an assignment.
    pub slots: Vec<usize>,
}

impl Network {
    /// Places of an assignment: the weights of all layers, then their activations.
    #[must_use]
    pub fn slots(&self) -> Vec<Slot> {
        let of = |role| (0..self.layers.len()).map(move |layer| Slot { layer, role });
        of(Role::Weight).chain(of(Role::Activation)).collect()
    }

    /// Which slots share type and width.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let layers = self.layers.len();
        let own = |role, first: usize| {
            let of = move |layer: usize| {
                let slot = Slot { layer, role };
                Group { name: self.object(slot), role, slots: vec![first + layer] }
            };
            (0..layers).map(of).collect::<Vec<_>>()
        };
        let shared = |role, name: &str, first: usize| {
            vec![Group { name: name.into(), role, slots: (first..first + layers).collect() }]
        };
        let (weights, activations) = match self.layerwise {
            Layerwise::Both => (true, true),
            Layerwise::WeightOnly => (true, false),
            Layerwise::ActivationOnly => (false, true),
            Layerwise::None => (false, false),
        };
        let mut groups = match weights {
            true => own(Role::Weight, 0),
            false => shared(Role::Weight, "weights", 0),
        };
        groups.extend(match activations {
            true => own(Role::Activation, layers),
            false => shared(Role::Activation, "activations", layers),
        });
        groups
    }

    /// The name of what a slot is for people: of the layer, not of its parts.
    #[must_use]
    pub fn object(&self, slot: Slot) -> String {
        named(&self.layers[slot.layer].name, slot.role)
    }

    /// All names that configurations give formats to, slot by slot.
    #[must_use]
    pub fn objects(&self) -> Vec<Vec<String>> {
        let of = |slot: &Slot| {
            let parts = &self.layers[slot.layer].parts;
            parts.iter().map(|part| named(part, slot.role)).collect()
        };
        self.slots().iter().map(of).collect()
    }

    /// Values that a slot holds.
    #[must_use]
    pub fn size(&self, slot: Slot) -> u64 {
        let layer = &self.layers[slot.layer];
        match slot.role {
            Role::Weight => layer.weight_size,
            Role::Activation => layer.activation_size,
        }
    }

    /// Whether a slot may hold values below zero: weights may.
    #[must_use]
    pub fn has_negative(&self, slot: Slot) -> bool {
        let least = self.layers[slot.layer].activation_min;
        slot.role == Role::Weight || least.is_none_or(|least| least < 0.0)
    }

    /// The format with the bias that fits the largest magnitude of a slot: the range of FIXED, and the
    /// largest number of EXP, is the power of two that is not below it (SPEC A1, 2.6). FLOAT keeps its own.
    #[must_use]
    pub fn profiled(&self, slot: Slot, format: Format) -> Format {
        let layer = &self.layers[slot.layer];
        let max = match slot.role {
            Role::Weight => layer.weight_max,
            Role::Activation => layer.activation_max,
        };
        // Zeros alone: any bias will do.
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

    /// Everything in FLOAT(32).
    #[must_use]
    pub fn base(&self) -> Assignment {
        let objects = self.objects();
        let formats = vec![Format::F32; objects.len()];
        Assignment::new(objects, formats)
    }

    /// Names of this network that are none of a program's, each with the nearest that is.
    #[must_use]
    pub fn unknown_objects(&self, known: &[&str]) -> Vec<String> {
        let objects = self.objects().into_iter().flatten();
        let unknown = objects.filter(|object| !known.contains(&object.as_str()));
        unknown
            .map(|object| {
                let near = nearest(&object, known.iter().copied());
                format!("there is no object `{object}`{near}")
            })
            .collect()
    }
}

fn named(part: &str, role: Role) -> String {
    match role {
        Role::Weight => format!("{part}.weight"),
        Role::Activation => format!("{part}.input"),
    }
}
