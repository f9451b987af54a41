//! ONNX nodes `LSTM`, `GRU` and `RNN`, and `DynamicQuantizeLSTM` of ONNX Runtime, anywhere in a
//! model including bodies of loops and branches.

use dyno_kernels::Activation;
use dyno_onnx::{Attribute, Constants, Element, Model, Node, Tensor, Values};

use super::{Array, ImportError, options, reordered, transposed};
use crate::layer::{Cell, CellOptions, Directions, Layer, Weights};

/// A recurrent node of a model. Names of values belong to the graph that contains the node.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedLayer {
    /// Name of the node, or of its first output if it has none. Nodes inside bodies have the names
    /// of the outer nodes and bodies as prefix: `If_12/then_branch/LSTM_3`.
    pub name: String,
    /// The layer.
    pub layer: Layer,
    /// Name of the input: steps x batch x inputs.
    pub input: String,
    /// Name of the input with the steps of each row (`sequence_lens`), if any.
    pub lengths: Option<String>,
    /// Steps of each row, if [`Self::lengths`] is constant.
    pub given_lengths: Option<Vec<usize>>,
    /// Initial hidden state and, for an LSTM, initial cell state.
    pub initial: [InitialState; 2],
    /// Names of `Y`, `Y_h` and `Y_c`; empty if unused.
    pub outputs: [String; 3],
    /// Whether the batch comes first (`layout = 1`): input batch x steps x inputs, `Y` batch x
    /// steps x directions x units, states batch x directions x units.
    pub batch_first: bool,
}

/// Initial state of a layer.
#[derive(Clone, Debug, PartialEq)]
pub enum InitialState {
    /// Zeros.
    Zeros,
    /// Constant numbers, directions x batch x units unless [`ImportedLayer::batch_first`].
    Given(Vec<f32>),
    /// Name of a value that the graph computes.
    Fed(String),
}

/// Returns all recurrent nodes of a model in graph order. Weights are followed through nodes that
/// only move them; see [`Constants::get`].
///
/// # Errors
/// The weights of a node are not constant, or a node violates the ONNX specification.
pub fn layers(model: &Model) -> Result<Vec<ImportedLayer>, ImportError> {
    let mut found = Vec::new();
    let mut read = |name: &str, node: &Node, constants: &Constants<'_>| {
        found.push(Reader { node, constants, name: name.to_owned() }.read()?);
        Ok(())
    };
    visit(&model.nodes, &Constants::new(model), "", &mut read)?;
    Ok(found)
}

/// Returns the names of all recurrent nodes of a model in graph order.
pub(crate) fn names(model: &Model) -> Vec<String> {
    let mut names = Vec::new();
    let mut keep = |name: &str, _: &Node, _: &Constants<'_>| {
        names.push(name.to_owned());
        Ok(())
    };
    // `keep` never fails.
    let _ = visit(&model.nodes, &Constants::new(model), "", &mut keep);
    names
}

/// Returns the recurrent nodes with this name.
///
/// # Errors
/// Those of [`layers`], for these nodes only.
pub(crate) fn named(model: &Model, wanted: &str) -> Result<Vec<ImportedLayer>, ImportError> {
    let mut found = Vec::new();
    let mut read = |name: &str, node: &Node, constants: &Constants<'_>| {
        if name == wanted {
            found.push(Reader { node, constants, name: name.to_owned() }.read()?);
        }
        Ok(())
    };
    visit(&model.nodes, &Constants::new(model), "", &mut read)?;
    Ok(found)
}

/// Returns the layer of a recurrent node outside of all bodies.
///
/// # Errors
/// Those of [`layers`].
pub(crate) fn layer(node: &Node, constants: &Constants<'_>) -> Result<ImportedLayer, ImportError> {
    Reader { node, constants, name: node_name(node).to_owned() }.read()
}

/// Whether a node is a recurrent layer.
pub(crate) fn is_recurrent(node: &Node) -> bool {
    match node.domain.as_str() {
        "" => matches!(node.op.as_str(), "LSTM" | "GRU" | "RNN"),
        "com.microsoft" => node.op == "DynamicQuantizeLSTM",
        _ => false,
    }
}

/// Returns the name of a node, or of its first output if it has none.
pub(crate) fn node_name(node: &Node) -> &str {
    let first = || node.outputs.iter().find(|name| !name.is_empty());
    let own = if node.name.is_empty() { first() } else { Some(&node.name) };
    own.map_or("", String::as_str)
}

/// Function that reads a recurrent node with its name and the constants around it.
type Visit<'v> = dyn FnMut(&str, &Node, &Constants<'_>) -> Result<(), ImportError> + 'v;

fn visit(
    nodes: &[Node],
    constants: &Constants<'_>,
    path: &str,
    read: &mut Visit<'_>,
) -> Result<(), ImportError> {
    for node in nodes {
        let is_layer = is_recurrent(node);
        if !is_layer && node.bodies().next().is_none() {
            continue;
        }
        let name = format!("{path}{}", node_name(node));
        if is_layer {
            read(&name, node, constants)?;
            continue;
        }
        for (attribute, body) in node.bodies() {
            visit(&body.nodes, &constants.enter(body), &format!("{name}/{attribute}/"), read)?;
        }
    }
    Ok(())
}

struct Reader<'a> {
    node: &'a Node,
    constants: &'a Constants<'a>,
    name: String,
}

impl Reader<'_> {
    fn input(&self, at: usize) -> &str {
        self.node.inputs.get(at).map_or("", String::as_str)
    }

    fn tensor(&self, at: usize) -> Result<Option<Tensor>, ImportError> {
        let value = self.input(at);
        if value.is_empty() {
            return Ok(None);
        }
        self.constants.get(value).map(Some).ok_or_else(|| {
            let (node, value) = (self.name.clone(), value.into());
            match self.constants.failure() {
                Some(why) => ImportError::Unreadable { node, value, why },
                None => ImportError::NotConstant { node, value },
            }
        })
    }

    /// Numbers of an input that must be present and constant.
    fn needed(&self, at: usize) -> Result<Array, ImportError> {
        let missing = || ImportError::Missing(format!("input {at} of {}", self.name));
        self.array(&self.tensor(at)?.ok_or_else(missing)?, self.input(at))
    }

    fn array(&self, tensor: &Tensor, name: &str) -> Result<Array, ImportError> {
        let numbers =
            tensor.floats().ok_or_else(|| self.wrong(name, "float32", tensor.element.name()))?;
        Ok(Array { shape: tensor.shape.clone(), numbers })
    }

    fn wrong(&self, value: &str, expected: &str, found: &str) -> ImportError {
        let name = format!("{value} of {}", self.name);
        ImportError::Shape { name, expected: expected.into(), found: found.into() }
    }

    fn unknown(&self, what: String) -> ImportError {
        ImportError::Option { node: self.name.clone(), what }
    }

    fn invalid(&self, what: String) -> ImportError {
        ImportError::Invalid { node: self.name.clone(), what }
    }

    /// Checks the types of all attributes. One of another type has no effect, nor has an unknown one.
    fn check_attributes(&self) -> Result<(), ImportError> {
        for (name, value) in &self.node.attributes {
            let fits = match name.as_str() {
                "activations" => matches!(value, Attribute::Texts(_)),
                "activation_alpha" | "activation_beta" => matches!(value, Attribute::Floats(_)),
                "clip" => matches!(value, Attribute::Float(_)),
                "direction" => matches!(value, Attribute::Text(_)),
                "hidden_size" | "input_forget" | "layout" | "linear_before_reset" => {
                    matches!(value, Attribute::Int(_))
                }
                _ => return Err(self.unknown(format!("attribute {name}"))),
            };
            if !fits {
                return Err(self.invalid(format!("attribute {name} has a wrong type")));
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<ImportedLayer, ImportError> {
        self.check_attributes()?;
        let layer = self.layer()?;
        let batch_first = match self.node.int("layout", 0) {
            0 => false,
            1 => true,
            other => return Err(self.unknown(format!("layout {other}"))),
        };
        let output = |at: usize| self.node.outputs.get(at).cloned().unwrap_or_default();
        Ok(ImportedLayer {
            name: self.name.clone(),
            input: self.input(0).into(),
            lengths: Some(self.input(4)).filter(|name| !name.is_empty()).map(Into::into),
            given_lengths: self.lengths()?,
            initial: [
                self.initial(5, batch_first, &layer)?,
                if layer.cell() == Cell::Lstm {
                    self.initial(6, batch_first, &layer)?
                } else {
                    InitialState::Zeros
                },
            ],
            outputs: [0, 1, 2].map(output),
            batch_first,
            layer,
        })
    }

    /// Reads weights and options.
    fn layer(&self) -> Result<Layer, ImportError> {
        let mut named = options::activations(self.node, &self.name)?;
        let cell = match self.node.op.as_str() {
            "GRU" => Cell::Gru,
            "RNN" => Cell::Rnn(named.first().copied().unwrap_or(Activation::Tanh)),
            _ => Cell::Lstm,
        };
        let directions = match self.node.text("direction") {
            "" | "forward" => Directions::Forward,
            "reverse" => Directions::Backward,
            "bidirectional" => Directions::Both,
            other => return Err(self.unknown(format!("direction {other}"))),
        };
        let is_quantised = self.node.op == "DynamicQuantizeLSTM";
        let [w, r] = if is_quantised {
            [self.dequantized(1, 8)?, self.dequantized(2, 10)?]
        } else {
            [self.needed(1)?, self.needed(2)?]
        };
        let count = directions.count();
        if self.node.op == "RNN" && named == [Activation::Tanh; 2] {
            // The default of the standard, for any number of directions; ONNX Runtime writes it.
            named.truncate(count);
        }
        let shape = |array: &Array, at: usize| -> Result<[usize; 3], ImportError> {
            let found = format!("{:?}", array.shape);
            <[usize; 3]>::try_from(array.shape.clone())
                .map_err(|_| self.wrong(self.input(at), "three dimensions", &found))
        };
        let ([_, _, inputs], [_, _, units]) = (shape(&w, 1)?, shape(&r, 2)?);
        let rows = cell.gates().saturating_mul(units);
        w.expect(self.input(1), &[count, rows, inputs])?;
        r.expect(self.input(2), &[count, rows, units])?;
        if let Some(Attribute::Int(size)) = self.node.attribute("hidden_size")
            && usize::try_from(*size) != Ok(units)
        {
            let what = format!("hidden_size is {size}, but the weights have {units} units");
            return Err(self.invalid(what));
        }
        let bias = if self.input(3).is_empty() {
            vec![0.0; count * 2 * rows]
        } else {
            let bias = self.needed(3)?;
            bias.expect(self.input(3), &[count, 2 * rows])?;
            bias.numbers
        };
        // ONNX orders gates i, o, f, c in an LSTM and z, r, h in a GRU.
        let order: &[usize] = match cell {
            Cell::Lstm => &[0, 2, 3, 1],
            Cell::Gru => &[0, 1, 2],
            Cell::Rnn(_) => &[0],
        };
        let part = |numbers: &[f32], at: usize, size: usize| {
            reordered(&numbers[at * size..][..size], order)
        };
        let weights = (0..count).map(|direction| Weights {
            input: part(&w.numbers, direction, rows * inputs),
            state: part(&r.numbers, direction, rows * units),
            input_bias: part(&bias, 2 * direction, rows),
            state_bias: part(&bias, 2 * direction + 1, rows),
        });
        let weights = weights.collect();
        let options = self.options(cell, directions, units, &named)?;
        Ok(Layer::with_options(cell, inputs, units, directions, weights, options)?)
    }

    /// Returns constant lengths.
    fn lengths(&self) -> Result<Option<Vec<usize>>, ImportError> {
        let name = self.input(4);
        let Some(tensor) = self.constants.get(name) else { return Ok(None) };
        let Values::Bytes(bytes) = &tensor.values else { return Ok(None) };
        if tensor.element != Element::I32 || tensor.shape.len() != 1 {
            let found = format!("{} {:?}", tensor.element.name(), tensor.shape);
            return Err(self.wrong(name, "int32 of one dimension", &found));
        }
        let length = |bytes: &[u8; 4]| {
            let length = i32::from_le_bytes(*bytes);
            let negative =
                |_| self.invalid(format!("sequence_lens has the negative length {length}"));
            usize::try_from(length).map_err(negative)
        };
        bytes.as_chunks().0.iter().map(length).collect::<Result<_, _>>().map(Some)
    }

    fn initial(
        &self,
        at: usize,
        batch_first: bool,
        layer: &Layer,
    ) -> Result<InitialState, ImportError> {
        let name = self.input(at);
        if name.is_empty() || self.constants.is_zero(name) {
            return Ok(InitialState::Zeros);
        }
        let Some(tensor) = self.constants.get(name) else {
            return match self.constants.failure() {
                Some(why) => {
                    let (node, value) = (self.name.clone(), name.into());
                    Err(ImportError::Unreadable { node, value, why })
                }
                None => Ok(InitialState::Fed(name.into())),
            };
        };
        let state = self.array(&tensor, name)?;
        let rows = state.shape.get(usize::from(!batch_first)).copied().unwrap_or(0);
        let (directions, units) = (layer.directions().count(), layer.units());
        let shape = if batch_first { [rows, directions, units] } else { [directions, rows, units] };
        state.expect(&format!("{name} of {}", self.name), &shape)?;
        Ok(InitialState::Given(state.numbers))
    }

    fn options(
        &self,
        cell: Cell,
        directions: Directions,
        units: usize,
        named: &[Activation],
    ) -> Result<CellOptions, ImportError> {
        let node = self.node;
        let count = directions.count();
        let each = match cell {
            Cell::Lstm => 3,
            Cell::Gru => 2,
            Cell::Rnn(_) => 1,
        };
        if !named.is_empty() && named.len() != each * count {
            let what = format!("a list of {} activations instead of {}", named.len(), each * count);
            return Err(self.unknown(what));
        }
        // Activations that the cell lacks are never used.
        let three = |named: &[Activation]| -> [Activation; 3] {
            std::array::from_fn(|at| named.get(at).copied().unwrap_or(Activation::Tanh))
        };
        let own = match cell {
            Cell::Lstm | Cell::Gru => [Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Cell::Rnn(activation) => [activation, Activation::Tanh, Activation::Tanh],
        };
        let mut activations: Vec<[Activation; 3]> = named.chunks(each).map(three).collect();
        if activations.iter().all(|direction| *direction == own) {
            // The default activations of the cell are no option.
            activations.clear();
        }
        let clip = match node.attribute("clip") {
            Some(Attribute::Float(clip)) if *clip > 0.0 => Some(*clip),
            Some(Attribute::Float(clip)) => {
                return Err(
                    self.invalid(format!("expected a positive number for clip, found {clip}"))
                );
            }
            _ => None,
        };
        let peepholes = if cell == Cell::Lstm && !self.input(7).is_empty() {
            let peepholes = self.needed(7)?;
            peepholes.expect(self.input(7), &[count, 3 * units])?;
            // ONNX orders peepholes i, o, f.
            peepholes
                .numbers
                .chunks(3 * units.max(1))
                .map(|direction| reordered(direction, &[0, 2, 1]))
                .collect()
        } else {
            Vec::new()
        };
        Ok(CellOptions {
            activations,
            clip,
            coupled: cell == Cell::Lstm && node.int("input_forget", 0) != 0,
            reset_first: cell == Cell::Gru && node.int("linear_before_reset", 0) == 0,
            peepholes,
            projections: Vec::new(),
        })
    }

    /// Dequantizes weights of `DynamicQuantizeLSTM` from directions x k x rows of bytes to
    /// directions x rows x k numbers: `(byte - zero point) * scale`, with one scale and zero point
    /// per direction or per row.
    fn dequantized(&self, at: usize, scale_at: usize) -> Result<Array, ImportError> {
        let missing = || ImportError::Missing(format!("input {at} of {}", self.name));
        let tensor = self.tensor(at)?.ok_or_else(missing)?;
        let whole = self.bytes(&tensor, at)?;
        let [directions, k, rows] = tensor.shape[..] else {
            return Err(self.wrong(
                self.input(at),
                "three dimensions",
                &format!("{:?}", tensor.shape),
            ));
        };
        if whole.is_empty() {
            return Err(self.wrong(self.input(at), "weights", "none"));
        }
        let scale = self.needed(scale_at)?;
        let zero = match self.tensor(scale_at + 1)? {
            Some(zero) => self.bytes(&zero, scale_at + 1)?,
            None => vec![0.0; scale.numbers.len()],
        };
        let per_row = scale.numbers.len() == directions * rows;
        if (!per_row && scale.numbers.len() != directions) || zero.len() != scale.numbers.len() {
            let expected =
                format!("{directions} or {} scales and as many zero points", directions * rows);
            let found = format!("{} and {}", scale.numbers.len(), zero.len());
            return Err(self.wrong(self.input(scale_at), &expected, &found));
        }
        let mut numbers = Vec::with_capacity(whole.len());
        for direction in 0..directions {
            let matrix = transposed(&whole[direction * k * rows..][..k * rows], k, rows);
            numbers.extend(matrix.iter().enumerate().map(|(place, whole)| {
                let which = if per_row { direction * rows + place / k } else { direction };
                (whole - zero[which]) * scale.numbers[which]
            }));
        }
        Ok(Array { shape: vec![directions, rows, k], numbers })
    }

    /// Converts 8-bit integers to `f32`.
    fn bytes(&self, tensor: &Tensor, at: usize) -> Result<Vec<f32>, ImportError> {
        let wrong = || self.wrong(self.input(at), "int8 or uint8", tensor.element.name());
        let Values::Bytes(bytes) = &tensor.values else { return Err(wrong()) };
        match tensor.element {
            Element::I8 => Ok(bytes.iter().map(|byte| f32::from(byte.cast_signed())).collect()),
            Element::U8 => Ok(bytes.iter().map(|byte| f32::from(*byte)).collect()),
            _ => Err(wrong()),
        }
    }
}
