//! Layers from files of weights, which hold neither graphs nor most options.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use dyno_kernels::Activation;

use super::ModelError;
use crate::import::{self, Array, ImportError, KerasLayer, Safetensors};
use crate::layer::{Cell, Layer};

/// Suffix of the first weights of a PyTorch module.
const PYTORCH: &str = "weight_ih_l0";
/// Suffix of the recurrent weights of a Keras layer.
const KERAS: &str = "recurrent_kernel";

/// Arrays of a layer of a PyTorch module, before the number of the layer.
const PYTORCH_ARRAYS: [&str; 5] = ["weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh"];
/// Arrays of a Keras layer.
const KERAS_ARRAYS: [&str; 3] = ["kernel", KERAS, "bias"];

/// Options that weights do not determine.
const KEYS: [&str; 4] = ["nonlinearity", "activation", "recurrent_activation", "reset_after"];

/// Activations of Keras with one definition. `hard_sigmoid` changed with Keras 3.
const ACTIVATIONS: [(&str, Activation); 7] = [
    ("tanh", Activation::Tanh),
    ("relu", Activation::Relu),
    ("sigmoid", Activation::Sigmoid),
    ("softsign", Activation::Softsign),
    ("softplus", Activation::Softplus),
    ("elu", Activation::Elu { alpha: 1.0 }),
    ("linear", Activation::Identity),
];

/// Reads the layers of a file, or the named ones, and a sentence about what is assumed.
pub(super) fn read(
    path: &Path,
    options: &str,
    named: Option<&str>,
) -> Result<(Vec<Layer>, Option<String>), ModelError> {
    let bytes = dyno_tensors::files::read(path)
        .map_err(|why| ModelError::Unreadable { path: path.to_owned(), why: why.to_string() })?;
    let failed = |error| ModelError::Import { path: path.to_owned(), error };
    let file = Safetensors::new(&bytes).map_err(failed)?;
    let stated = FileOptions { path, file: &file, options, read: RefCell::default() };
    stated.check()?;
    let names = file.names();
    let prefixes = |ending: &str| -> Vec<&str> {
        let own = names.iter().filter_map(|name| name.strip_suffix(ending));
        // The layers of `Bidirectional` are read with their forward half.
        own.filter(|prefix| !prefix.contains("backward")).collect()
    };
    let pytorch = prefixes(PYTORCH);
    let keras = prefixes(KERAS);
    let all: Vec<&str> = [&pytorch[..], &keras].concat();
    let layers = || all.iter().map(|name| (*name).to_owned()).collect();
    let prefix = match (named, &all[..]) {
        (_, []) => return Err(ModelError::Empty(path.to_owned())),
        (None, [only]) => *only,
        (None, _) => {
            return Err(ModelError::Several { path: path.to_owned(), layers: layers() });
        }
        (Some(name), several) => match several.iter().find(|prefix| **prefix == name) {
            Some(prefix) => prefix,
            None => {
                let (path, name) = (path.to_owned(), name.to_owned());
                return Err(ModelError::Unknown { path, name, layers: layers() });
            }
        },
    };
    let is_pytorch = pytorch.contains(&prefix);
    let is_own = if is_pytorch { is_of_pytorch } else { is_of_keras };
    let own: Vec<&str> = names.iter().copied().filter(|name| is_own(name, prefix)).collect();
    if let Some(name) = own.iter().find(|name| file.array(name).is_none()) {
        return Err(failed(ImportError::Shape {
            name: (*name).to_owned(),
            expected: "floating-point numbers of 16, 32 or 64 bits".to_owned(),
            found: "another type".to_owned(),
        }));
    }
    let used = RefCell::new(BTreeSet::new());
    let array = |name: &str| {
        let array = file.array(name)?;
        used.borrow_mut().insert(name.to_owned());
        Some(array)
    };
    let found = if is_pytorch {
        (stated.pytorch(prefix, &array)?, None)
    } else {
        let (layer, assumption) = stated.keras(prefix, &array)?;
        (vec![layer], assumption)
    };
    stated.expect_read()?;
    let used = used.borrow();
    match own.iter().find(|name| !used.contains(**name)) {
        Some(name) => Err(failed(ImportError::Unused((*name).to_owned()))),
        None => Ok(found),
    }
}

/// Returns whether an array belongs to the PyTorch module with this prefix.
fn is_of_pytorch(name: &str, prefix: &str) -> bool {
    let Some(own) = name.strip_prefix(prefix) else { return false };
    let parts = own.strip_suffix("_reverse").unwrap_or(own).rsplit_once("_l");
    parts.is_some_and(|(kind, layer)| {
        PYTORCH_ARRAYS.contains(&kind) && layer.parse::<usize>().is_ok()
    })
}

/// Returns whether an array belongs to the Keras layer with this prefix, or to its backward half.
fn is_of_keras(name: &str, prefix: &str) -> bool {
    [prefix, &backward(prefix)]
        .iter()
        .any(|prefix| name.strip_prefix(*prefix).is_some_and(|own| KERAS_ARRAYS.contains(&own)))
}

/// Returns the prefix of the backward half of a `Bidirectional` layer of Keras.
fn backward(prefix: &str) -> String {
    prefix.replace("forward", "backward")
}

/// Options of a file, which its path or its metadata states.
struct FileOptions<'a> {
    path: &'a Path,
    file: &'a Safetensors<'a>,
    options: &'a str,
    /// Keys that the layer has.
    read: RefCell<Vec<&'static str>>,
}

impl FileOptions<'_> {
    fn unknown(&self, option: &str, expected: String) -> ModelError {
        ModelError::Option { path: self.path.to_owned(), option: option.to_owned(), expected }
    }

    /// Checks the keys after the path.
    fn check(&self) -> Result<(), ModelError> {
        let mut found = BTreeSet::new();
        for option in self.options.split('&').filter(|option| !option.is_empty()) {
            let key = option.split_once('=').map(|(key, _)| key);
            let Some(key) = key.filter(|key| KEYS.contains(key)) else {
                return Err(self.unknown(option, format!("expected {}", KEYS.join(", "))));
            };
            if !found.insert(key) {
                return Err(self.unknown(option, format!("expected `{key}` once")));
            }
        }
        Ok(())
    }

    /// Checks that the layer has all options after the path. Metadata may have others.
    fn expect_read(&self) -> Result<(), ModelError> {
        let read = self.read.borrow();
        let is_read =
            |option: &&str| option.split_once('=').is_none_or(|(key, _)| read.contains(&key));
        match self.options.split('&').find(|option| !is_read(option)) {
            Some(option) => Err(self.unknown(option, "the layer has no such option".to_owned())),
            None => Ok(()),
        }
    }

    fn value(&self, key: &str) -> Option<&str> {
        let pairs = self.options.split('&').filter_map(|option| option.split_once('='));
        let given = pairs.into_iter().find_map(|(own, value)| (own == key).then_some(value));
        given.or_else(|| self.file.metadata(key))
    }

    /// Returns one of some values, if it is stated.
    fn one_of<T: Copy>(
        &self,
        key: &'static str,
        values: &[(&str, T)],
    ) -> Result<Option<T>, ModelError> {
        self.read.borrow_mut().push(key);
        let Some(text) = self.value(key) else { return Ok(None) };
        match values.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
                let expected = format!("expected {}", names.join(", "));
                Err(self.unknown(&format!("{key}={text}"), expected))
            }
        }
    }

    /// Returns the activation of an RNN of PyTorch.
    fn nonlinearity(&self) -> Result<Activation, ModelError> {
        let unstated = ModelError::Unstated {
            path: self.path.to_owned(),
            what: "the nonlinearity of this RNN".to_owned(),
            key: "nonlinearity",
            values: "tanh or relu",
        };
        self.one_of("nonlinearity", &ACTIVATIONS[..2])?.ok_or(unstated)
    }

    /// Returns whether a GRU of Keras resets after the product.
    fn reset_after(
        &self,
        prefix: &str,
        array: &dyn Fn(&str) -> Option<Array>,
    ) -> Result<bool, ModelError> {
        let stated = self.one_of("reset_after", &[("true", true), ("false", false)])?;
        match (array(&format!("{prefix}bias")), stated) {
            (_, Some(stated)) => Ok(stated),
            // Only a GRU that resets after the product has two rows of biases.
            (Some(bias), None) => Ok(bias.shape.len() == 2),
            (None, None) => Err(ModelError::Unstated {
                path: self.path.to_owned(),
                what: "`reset_after` of this GRU without biases".to_owned(),
                key: "reset_after",
                values: "true (the default of Keras) or false",
            }),
        }
    }

    /// Reads the layers of a PyTorch module.
    fn pytorch(
        &self,
        prefix: &str,
        array: &dyn Fn(&str) -> Option<Array>,
    ) -> Result<Vec<Layer>, ModelError> {
        let failed = |error| ModelError::Import { path: self.path.to_owned(), error };
        let cell = match pytorch_gates(prefix, array).map_err(failed)? {
            4 => Cell::Lstm,
            3 => Cell::Gru,
            _ => Cell::Rnn(self.nonlinearity()?),
        };
        import::pytorch(cell, prefix, array).map_err(failed)
    }

    /// Reads a layer of Keras, whose activations have their default values unless stated.
    fn keras(
        &self,
        prefix: &str,
        array: &dyn Fn(&str) -> Option<Array>,
    ) -> Result<(Layer, Option<String>), ModelError> {
        let failed = |error| ModelError::Import { path: self.path.to_owned(), error };
        let name = format!("{prefix}{KERAS}");
        let state = array(&name).ok_or_else(|| failed(ImportError::Missing(name.clone())))?;
        let gates = match state.shape[..] {
            [units, columns] if units > 0 && columns % units == 0 => columns / units,
            _ => 0,
        };
        let own = self.one_of("activation", &ACTIVATIONS)?;
        let of_gates =
            if gates > 1 { self.one_of("recurrent_activation", &ACTIVATIONS)? } else { None };
        let activation = own.unwrap_or(Activation::Tanh);
        let cell = match gates {
            4 => Cell::Lstm,
            3 => Cell::Gru,
            1 => Cell::Rnn(activation),
            _ => return Err(failed(wrong_gates(&name, &state))),
        };
        let reset_after = cell != Cell::Gru || self.reset_after(prefix, array)?;
        let other = backward(prefix);
        let prefixes = [prefix, &other];
        let is_both = other != prefix && array(&format!("{other}{KERAS}")).is_some();
        let is_stated = own.is_some() || of_gates.is_some();
        let gate_activation = of_gates.unwrap_or(Activation::Sigmoid);
        let layer = KerasLayer {
            cell,
            activations: is_stated.then_some((gate_activation, activation)),
            reset_after,
            prefixes: &prefixes[..if is_both { 2 } else { 1 }],
        };
        let layer = import::keras(&layer, array).map_err(failed)?;
        let mut assumed = Vec::new();
        if own.is_none() {
            assumed.push("activation=tanh");
        }
        if of_gates.is_none() && gates > 1 {
            assumed.push("recurrent_activation=sigmoid");
        }
        let assumption = (!assumed.is_empty()).then(|| {
            let (path, assumed) = (self.path.display(), assumed.join(" and "));
            format!("{path} does not state the activations of its layer; Dyno assumes {assumed}.")
        });
        Ok((layer, assumption))
    }
}

/// Returns the number of gates of a PyTorch module.
fn pytorch_gates(
    prefix: &str,
    array: &dyn Fn(&str) -> Option<Array>,
) -> Result<usize, ImportError> {
    if array(&format!("{prefix}weight_hr_l0")).is_some() {
        return Ok(4);
    }
    let name = format!("{prefix}weight_hh_l0");
    let state = array(&name).ok_or_else(|| ImportError::Missing(name.clone()))?;
    match state.shape[..] {
        [rows, units] if units > 0 && [units, 3 * units, 4 * units].contains(&rows) => {
            Ok(rows / units)
        }
        _ => Err(wrong_gates(&name, &state)),
    }
}

fn wrong_gates(name: &str, found: &Array) -> ImportError {
    ImportError::Shape {
        name: name.to_owned(),
        expected: "one, three or four times as many rows as units".to_owned(),
        found: format!("{:?}", found.shape),
    }
}
