//! Reads network descriptors.

mod metric;

use std::collections::BTreeSet;

use toml::de::DeTable;

use super::{
    BuiltInModel, CorrectnessSource, ExternalProgram, Layer, LayerKind, LayerwiseScope, Metric,
    Network, without_products,
};
use crate::config::Radix;
use crate::descriptor::{DescriptorError, Item, Reader, count, nearest, number};
use crate::objective::Objective;
use crate::platform::{BUILT_IN, Platform};

const KEYS: &[&str] = &[
    "name",
    "platform",
    "supported_formats",
    "layer_name",
    "sub_layer_name",
    "layerwise_opt",
    "wgt_size",
    "act_size",
    "wgt_max_abs",
    "act_max_abs",
    "act_min",
    "macs",
    "layer_kind",
    "f_obj",
    "err_margin",
    "metric",
    "direction",
    "model",
    "samples",
    "lengths",
    "labels",
    "agreement",
    "validation_samples",
    "validation_labels",
    "system",
    "small_share",
    "seed",
    "cmd_smallset",
    "cmd_fullset",
    "cmd_confirmation",
    "get_result_regex",
    "get_latency_regex",
    "get_sample_regex",
    "config_file",
    "radix",
    "time_limit_s",
    "samples_smallset",
    "samples_fullset",
    "calibration",
    "validation",
];

/// Keys that apply only to a program.
const PROGRAM_KEYS: [&str; 10] = [
    "get_result_regex",
    "get_latency_regex",
    "get_sample_regex",
    "config_file",
    "radix",
    "time_limit_s",
    "samples_smallset",
    "samples_fullset",
    "calibration",
    "validation",
];

/// Default time limit of a program, in seconds.
const TIME_LIMIT_S: f64 = 3_600.0;

/// Default share of the samples in the small set (SPEC A22).
const SMALL_SHARE: f64 = 0.1;

/// Default error margin of the thesis (section III.4).
const ERROR_MARGIN: f64 = 0.07;

impl Network {
    /// Reads a descriptor in TOML: the fields of the thesis' section III.3, and some more. `other`
    /// replaces the platform of the descriptor. Otherwise the platform is the one that it names,
    /// from its own `[supported_formats]` or built in.
    ///
    /// ```
    /// use dyno_number::Network;
    /// let descriptor = r#"
    ///     layer_name = ["conv1", "fc1"]
    ///     wgt_size = [500, 5_000]
    ///     act_size = [784, 500]
    ///     wgt_max_abs = [0.6, 0.3]
    ///     act_max_abs = [1.0, 4.0]
    ///     err_margin = 0.01
    /// "#;
    /// let network = Network::from_descriptor(descriptor, None)?;
    /// assert_eq!(network.platform.name, "paper");
    /// assert_eq!(network.objects()[0], ["conv1.weight"]);
    /// # Ok::<(), dyno_number::DescriptorError>(())
    /// ```
    ///
    /// # Errors
    /// All problems with their lines and keys. Unknown names are reported with the nearest known
    /// one.
    pub fn from_descriptor(text: &str, other: Option<&Platform>) -> Result<Self, DescriptorError> {
        let mut reader = Reader::new(text);
        let document = match DeTable::parse(text) {
            Ok(document) => document,
            Err(error) => {
                reader.no_toml(&error);
                return reader.finish(None);
            }
        };
        let network = network(&mut reader, document.get_ref(), other);
        reader.finish(network)
    }
}

fn network(reader: &mut Reader, table: &DeTable<'_>, other: Option<&Platform>) -> Option<Network> {
    reader.unknown_keys(table, KEYS);
    let name = Reader::item(table, "name").and_then(|item| reader.text(item)).unwrap_or_default();
    let platform = platform(reader, table, other);
    let layers = layers(reader, table);
    let layerwise = match Reader::item(table, "layerwise_opt") {
        Some(item) => layerwise(reader, item),
        None => Some(LayerwiseScope::WeightOnly),
    };
    let objective = match Reader::item(table, "f_obj") {
        Some(item) => objective(reader, item),
        None => Some(Objective::Bits),
    };
    let error_margin = match Reader::item(table, "err_margin") {
        Some(item) => margin(reader, item),
        None => Some(ERROR_MARGIN),
    };
    let external = external(reader, table);
    let built_in = built_in(reader, table);
    let metric = metric::metric(reader, table, &name);
    let objective = objective?;
    let layers = layers?;
    if objective.needs_macs()
        && let Some(zero) = without_products(&layers)
    {
        let problem =
            format!("`f_obj` needs the products of each layer, but {} has none", zero.name);
        reader.problem(Reader::item(table, "macs").map_or(0, |item| item.at), "macs", problem);
    }
    let platform = platform?;
    let layerwise = layerwise?;
    Some(Network {
        name,
        platform,
        layers,
        layerwise,
        objective,
        metric: metric?,
        error_margin: error_margin?,
        external: external?,
        built_in: built_in?,
    })
}

fn platform(
    reader: &mut Reader,
    table: &DeTable<'_>,
    other: Option<&Platform>,
) -> Option<Platform> {
    let given = Reader::item(table, "platform");
    let name = given.map_or(Some("paper".to_owned()), |item| reader.text(item))?;
    let at = given.map_or(0, |item| item.at);
    let found = match (other, Reader::item(table, "supported_formats")) {
        (Some(other), _) => Some(other.clone()),
        (None, Some(item)) => Platform::from_item(reader, item, &name),
        (None, None) => {
            let found = Platform::named(&name);
            if found.is_none() {
                let near = nearest(&name, BUILT_IN.iter().map(|(name, _)| *name));
                let problem =
                    format!("there is no platform `{name}` and no [supported_formats]{near}");
                reader.problem(at, "platform", problem);
            }
            found
        }
    }?;
    for (formats, of) in [(&found.weight, "weights"), (&found.activation, "activations")] {
        if !formats.iter().any(|format| format.bits() < 32) {
            let problem = format!("{of} have no format below 32 bits: there is nothing to tune");
            reader.problem(at, "platform", problem);
        }
    }
    Some(found)
}

fn layers(reader: &mut Reader, table: &DeTable<'_>) -> Option<Vec<Layer>> {
    let Some(names_item) = Reader::item(table, "layer_name") else {
        reader.problem(0, "layer_name", "expected the names of the layers to tune");
        return None;
    };
    let names = reader.texts(names_item)?;
    let mut seen = BTreeSet::new();
    if names.is_empty() {
        reader.expected(names_item, "at least one name");
    }
    for name in &names {
        let is_word = !name.is_empty() && !name.chars().any(char::is_whitespace);
        if !is_word || name.starts_with('#') || name.starts_with("//") {
            reader.problem(names_item.at, "layer_name", format!("expected words, found {name:?}"));
        } else if !seen.insert(name) {
            let problem = format!("expected each name once, found {name} again");
            reader.problem(names_item.at, "layer_name", problem);
        }
    }
    let counts = |reader: &mut Reader, key| {
        layer_values(reader, table, key, &names, "a whole number of at least 0", |item| {
            count(item.value)
        })
    };
    let weight_size = required(counts(reader, "wgt_size"), reader, "wgt_size");
    let activation_size = required(counts(reader, "act_size"), reader, "act_size");
    let macs = counts(reader, "macs").unwrap_or_else(|| Some(vec![0; names.len()]));
    let maxima = |reader: &mut Reader, key| {
        let is_magnitude = |number: &f64| number.is_finite() && *number >= 0.0;
        layer_values(reader, table, key, &names, "a number of at least 0", |item| {
            number(item.value).filter(is_magnitude)
        })
    };
    let weight_max = required(maxima(reader, "wgt_max_abs"), reader, "wgt_max_abs");
    let activation_max = required(maxima(reader, "act_max_abs"), reader, "act_max_abs");
    let least = layer_values(reader, table, "act_min", &names, "a number", |item| {
        number(item.value).filter(|number| number.is_finite()).map(Some)
    });
    let least = least.unwrap_or_else(|| Some(vec![None; names.len()]))?;
    let kinds =
        layer_values(reader, table, "layer_kind", &names, "\"conv\" or \"fc\"", |item| match item
            .value
            .as_str()?
        {
            "conv" => Some(LayerKind::Convolution),
            "fc" => Some(LayerKind::FullyConnected),
            _ => None,
        });
    let kinds = kinds.unwrap_or_else(|| Some(vec![LayerKind::Convolution; names.len()]))?;
    let parts = parts(reader, table, &names)?;
    let (weight_size, activation_size, macs) = (weight_size?, activation_size?, macs?);
    let (weight_max, activation_max) = (weight_max?, activation_max?);
    let layer = |(at, name): (usize, &String)| Layer {
        name: name.clone(),
        parts: parts[at].clone(),
        weight_size: weight_size[at],
        activation_size: activation_size[at],
        weight_max: weight_max[at],
        activation_max: activation_max[at],
        activation_min: least[at],
        macs: macs[at],
        kind: kinds[at],
    };
    Some(names.iter().enumerate().map(layer).collect())
}

/// Reports a missing key. Flattens the result of [`layer_values`].
fn required<T>(found: Option<Option<T>>, reader: &mut Reader, key: &str) -> Option<T> {
    if found.is_none() {
        reader.problem(0, key, "expected a value for each layer, found nothing");
    }
    found.flatten()
}

/// Reads one value per layer: an array in the order of the layers, or a table by their names.
/// Returns `None` if the key is missing, and `Some(None)` if its value is invalid.
fn layer_values<T>(
    reader: &mut Reader,
    table: &DeTable<'_>,
    key: &str,
    names: &[String],
    what: &str,
    read: impl Fn(Item<'_>) -> Option<T>,
) -> Option<Option<Vec<T>>> {
    let item = Reader::item(table, key)?;
    let items: Vec<Item<'_>> = match item.value.as_table() {
        Some(by_name) => {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            reader.unknown_keys(by_name, &known);
            let missing = names.iter().find(|name| Reader::item(by_name, name).is_none());
            if let Some(missing) = missing {
                reader.problem(item.at, key, format_args!("the layer {missing} is missing"));
                return Some(None);
            }
            names.iter().filter_map(|name| Reader::item(by_name, name)).collect()
        }
        None => reader.array(item, "an array, or a table of the layers").unwrap_or_default(),
    };
    if items.len() != names.len() {
        let (found, wanted) = (items.len(), names.len());
        if item.value.as_array().is_some() {
            let problem = format!("expected {wanted} values, one a layer, found {found}");
            reader.problem(item.at, key, problem);
        }
        return Some(None);
    }
    let mut values = Vec::new();
    for item in items {
        match read(item) {
            Some(value) => values.push(value),
            None => reader.expected(item, what),
        }
    }
    Some((values.len() == names.len()).then_some(values))
}

/// Reads the names of sub-layers. A layer without sub-layers has its own name as the only part.
fn parts(reader: &mut Reader, table: &DeTable<'_>, names: &[String]) -> Option<Vec<Vec<String>>> {
    let Some(item) = Reader::item(table, "sub_layer_name") else {
        return Some(names.iter().map(|name| vec![name.clone()]).collect());
    };
    let lists = reader.array(item, "an array of arrays of names")?;
    if lists.len() != names.len() {
        let problem =
            format!("expected {} arrays, one a layer, found {}", names.len(), lists.len());
        reader.problem(item.at, "sub_layer_name", problem);
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut parts = Vec::new();
    for (list, name) in lists.into_iter().zip(names) {
        let found = reader.texts(list)?;
        let found = if found.is_empty() { vec![name.clone()] } else { found };
        for part in &found {
            if !seen.insert(part.clone()) {
                let problem = format!("expected each name in one layer, found {part} again");
                reader.problem(list.at, "sub_layer_name", problem);
            }
        }
        parts.push(found);
    }
    Some(parts)
}

fn layerwise(reader: &mut Reader, item: Item<'_>) -> Option<LayerwiseScope> {
    match item.value.as_str() {
        Some("BOTH") => Some(LayerwiseScope::Both),
        Some("WGT-ONLY") => Some(LayerwiseScope::WeightOnly),
        Some("ACT-ONLY") => Some(LayerwiseScope::ActivationOnly),
        Some("NONE") => Some(LayerwiseScope::None),
        _ => {
            reader.expected(item, "\"BOTH\", \"WGT-ONLY\", \"ACT-ONLY\" or \"NONE\"");
            None
        }
    }
}

fn radix(reader: &mut Reader, item: Item<'_>) -> Option<Radix> {
    match item.value.as_str() {
        Some("fraction") => Some(Radix::Fraction),
        Some("ieee") => Some(Radix::Ieee),
        _ => {
            reader.expected(item, "\"fraction\" or \"ieee\"");
            None
        }
    }
}

fn objective(reader: &mut Reader, item: Item<'_>) -> Option<Objective> {
    let text = reader.text(item)?;
    match text.parse() {
        Ok(objective) => Some(objective),
        Err(problem) => {
            reader.problem(item.at, item.key, problem);
            None
        }
    }
}

fn margin(reader: &mut Reader, item: Item<'_>) -> Option<f64> {
    let margin = reader.number(item)?;
    if margin >= 1.0 {
        reader.expected(item, "a share below 1, such as 0.01");
        return None;
    }
    Some(margin)
}

/// Reads the model of the built-in evaluator; `Some(None)` if there is none.
fn built_in(reader: &mut Reader, table: &DeTable<'_>) -> Option<Option<BuiltInModel>> {
    let Some(item) = Reader::item(table, "model") else { return Some(None) };
    let model = reader.text(item)?;
    if Reader::item(table, "cmd_fullset").is_some() {
        reader.problem(item.at, "model", "there is `cmd_fullset` as well: expected one of both");
    }
    for item in PROGRAM_KEYS.iter().filter_map(|key| Reader::item(table, key)) {
        let problem = "is read where `cmd_fullset` is a program; there is `model`, which needs none: remove it";
        reader.problem(item.at, item.key, problem);
    }
    let samples = match Reader::item(table, "samples") {
        Some(item) if item.value.is_array() => {
            let files = reader.texts(item);
            if files.as_ref().is_some_and(Vec::is_empty) {
                reader.expected(item, "at least one array of NumPy");
            }
            files
        }
        Some(item) => reader.text(item).map(|file| vec![file]),
        None => {
            let problem = "expected an array of NumPy for `model`, found nothing";
            reader.problem(item.at, "samples", problem);
            None
        }
    };
    let lengths = match Reader::item(table, "lengths") {
        Some(item) => reader.text(item).map(Some),
        None => Some(None),
    };
    let correctness = correctness_source(reader, table, item);
    let small_share = match Reader::item(table, "small_share") {
        Some(item) => margin(reader, item).filter(|share| *share > 0.0)?,
        None => SMALL_SHARE,
    };
    let seed = Reader::item(table, "seed").map_or(Some(1), |item| reader.count(item))?;
    let validation = validation(reader, table)?;
    let system = system(reader, table)?;
    let samples = samples?;
    let lengths = lengths?;
    let correctness = correctness?;
    Some(Some(BuiltInModel {
        model,
        samples,
        lengths,
        correctness,
        small_share,
        seed,
        validation,
        system,
    }))
}

/// Reads what a model's answers are compared with.
fn correctness_source(
    reader: &mut Reader,
    table: &DeTable<'_>,
    model: Item<'_>,
) -> Option<CorrectnessSource> {
    match (Reader::item(table, "labels"), Reader::item(table, "agreement")) {
        (Some(item), None) => reader.text(item).map(CorrectnessSource::Labels),
        (None, Some(item)) => match reader.text(item)?.parse() {
            Ok(agreement) => Some(CorrectnessSource::Agreement(agreement)),
            Err(problem) => {
                reader.problem(item.at, item.key, problem);
                None
            }
        },
        (Some(_), Some(item)) => {
            reader.problem(item.at, item.key, "there is `labels` as well: expected one of both");
            None
        }
        (None, None) => {
            let problem = "expected an array of NumPy for `model`, or `agreement` with what the \
                           model answers in FLOAT 32; found nothing";
            reader.problem(model.at, "labels", problem);
            None
        }
    }
}

/// Reads the files of the validation set; `Some(None)` if there are none.
fn validation(reader: &mut Reader, table: &DeTable<'_>) -> Option<Option<[String; 2]>> {
    let keys = ["validation_samples", "validation_labels"];
    match keys.map(|key| Reader::item(table, key)) {
        [None, None] => Some(None),
        [Some(samples), Some(labels)] => Some(Some([reader.text(samples)?, reader.text(labels)?])),
        [found, other] => {
            let missing = if found.is_some() { keys[1] } else { keys[0] };
            let problem = format!("`{missing}` is missing: a validation set has both");
            let item = found.or(other)?;
            reader.problem(item.at, item.key, problem);
            None
        }
    }
}

/// Reads the system that runs instead of the built-in engine; `Some(None)` if there is none.
fn system(reader: &mut Reader, table: &DeTable<'_>) -> Option<Option<String>> {
    let Some(item) = Reader::item(table, "system") else { return Some(None) };
    let system = reader.text(item)?;
    if !system.contains("{config}") {
        reader.expected(item, "{config} where the system expects the file with the formats");
        return None;
    }
    Some(Some(system))
}

/// Reads the program that measures accuracies; `Some(None)` if there is none.
fn external(reader: &mut Reader, table: &DeTable<'_>) -> Option<Option<ExternalProgram>> {
    let mut text =
        |key| Reader::item(table, key).map_or(Some(None), |item| reader.text(item).map(Some));
    let (small, full, confirmation) =
        (text("cmd_smallset")?, text("cmd_fullset")?, text("cmd_confirmation")?);
    let result = text("get_result_regex")?;
    let latency = text("get_latency_regex")?;
    let sample = text("get_sample_regex")?;
    let config_file = text("config_file")?;
    let calibration = text("calibration")?;
    let validation = text("validation")?;
    let mut count =
        |key| Reader::item(table, key).map_or(Some(None), |item| reader.count(item).map(Some));
    let samples = [count("samples_smallset")?, count("samples_fullset")?];
    let radix = match Reader::item(table, "radix") {
        Some(item) => self::radix(reader, item)?,
        None => Radix::default(),
    };
    let time_limit_s = match Reader::item(table, "time_limit_s") {
        Some(item) => reader.number(item)?,
        None => TIME_LIMIT_S,
    };
    let Some(full) = full else {
        if small.is_some() || confirmation.is_some() {
            reader.problem(0, "cmd_fullset", "expected the command for all samples, found nothing");
        }
        return Some(None);
    };
    let scored =
        Reader::item(table, "metric").and_then(|item| Metric::scored(item.value.as_str()?));
    let result = result.or_else(|| scored.map(|(figure, _)| metric::figure_regex(figure)));
    let Some(result) = result else {
        let problem =
            "expected how the accuracy is found in what the command prints, found nothing";
        reader.problem(0, "get_result_regex", problem);
        return None;
    };
    if let (Some(item), None) = (Reader::item(table, "get_sample_regex"), &confirmation) {
        let problem = "reads what `cmd_confirmation` prints, the command for samples that the search \
                       does not see; it is missing";
        reader.problem(item.at, item.key, problem);
    }
    for (key, command) in [
        ("cmd_smallset", small.as_ref()),
        ("cmd_fullset", Some(&full)),
        ("cmd_confirmation", confirmation.as_ref()),
    ] {
        let is_named =
            config_file.is_some() || command.is_none_or(|text| text.contains("{config}"));
        if !is_named && let Some(item) = Reader::item(table, key) {
            let problem = "the program does not get its configuration: put {config} where it \
                           expects the name of the file, or set `config_file`";
            reader.problem(item.at, key, problem);
        }
    }
    Some(Some(ExternalProgram {
        small_command: small,
        full_command: full,
        confirmation_command: confirmation,
        result,
        latency,
        sample,
        radix,
        config_file,
        time_limit_s,
        samples,
        calibration,
        validation,
    }))
}
