//! GNMT (Wu et al. 2016) in the form of the benchmark: `wmt16_gnmt_4_layer` of TensorFlow's `nmt`
//! tutorial, with four layers each way and normed Bahdanau attention (`gnmt_v2`). A sentence of 32
//! pieces becomes one of 32. The benchmark searches with ten beams; this graph is greedy and does
//! not stop early.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Tensor, Weights};

/// Pieces of words in each of the two languages.
const VOCABULARY: usize = 36_548;
const UNITS: usize = 1024;
const LAYERS: usize = 4;
/// First layer with a residual connection.
const RESIDUAL_FROM: usize = 2;
/// Pieces of the source sentence and of the translation.
const PIECES: usize = 32;
/// The piece with which sentences begin.
const BEGIN: i64 = 1;

/// Builds the network: the most likely pieces `[N, 32]`, one after the other.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn gnmt(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("gnmt", weights);
    let pieces = net.input("pieces", Element::I64, &[Dim::symbol("N"), PIECES.into()]);
    let pieces = net.node("Transpose", &[&pieces], &[("perm", [1, 0].into())])?;
    let (memory, states) = encoder(&mut net, &pieces)?;
    let decoder = Decoder::new(&mut net, &memory)?;
    // One begin per sentence.
    let first = net.integers(&[0]);
    let token = net.node("Gather", &[&pieces, &first], &[])?;
    let none = net.node("Sub", &[&token, &token], &[])?;
    let begin = net.integers(&[BEGIN]);
    let token = net.node("Add", &[&none, &begin], &[])?;
    let context = net.node("Sub", &[&states[0].0, &states[0].0], &[])?;
    let mut carried = vec![token, context];
    carried.extend(states.into_iter().flat_map(|(output, cell)| [output, cell]));
    let steps = net.tensor(Tensor::from_i64("steps", &[], &[PIECES as i64]))?;
    let body = decoder.step(&net, &carried)?;
    let without_end = Name::NONE;
    let inputs: Vec<&Name> = [&steps, &without_end].into_iter().chain(&carried).collect();
    // The state of the loop, and the tokens as [32, 1, N].
    let outputs: [Name; 2 + 2 * LAYERS + 1] =
        net.nodes("Loop", &inputs, &[("body", body.into())])?;
    let tokens = &outputs[2 + 2 * LAYERS];
    let middle = net.integers(&[1]);
    let tokens = net.node("Squeeze", &[tokens, &middle], &[])?;
    let tokens = net.node("Transpose", &[&tokens], &[("perm", [1, 0].into())])?;
    net.output("translation", &tokens)?;
    Ok(net.finish())
}

/// Weights of an LSTM layer: of the inputs, of the outputs, and biases. TensorFlow has one bias
/// where ONNX has two; the second is zero.
struct Cell {
    weights: [Name; 3],
    direction: &'static str,
}

impl Cell {
    fn new(net: &mut Builder, name: &str, inputs: usize, ways: usize) -> Result<Self, BuildError> {
        let gates = 4 * UNITS;
        let mut part = |part: &str, shape: &[usize]| {
            net.weight(&format!("{name}.{part}"), shape, Fill::Uniform(0.05))
        };
        let of_inputs = part("weight", &[ways, gates, inputs])?;
        let of_outputs = part("recurrence", &[ways, gates, UNITS])?;
        let bias = part("bias", &[ways, gates])?;
        let shape = net.integers(&[ways as i64, gates as i64]);
        let zeros = net.node("ConstantOfShape", &[&shape], &[])?;
        let biases = net.node("Concat", &[&bias, &zeros], &[("axis", 1.into())])?;
        let direction = if ways == 2 { "bidirectional" } else { "forward" };
        Ok(Self { weights: [of_inputs, of_outputs, biases], direction })
    }

    /// Returns the outputs of all steps, and outputs and cells of the last.
    fn add(
        &self,
        net: &mut Builder,
        x: &Name,
        state: Option<(&Name, &Name)>,
    ) -> Result<[Name; 3], BuildError> {
        let [of_inputs, of_outputs, biases] = &self.weights;
        let all_long = Name::NONE;
        let mut inputs = vec![x, of_inputs, of_outputs, biases];
        if let Some((output, cell)) = state {
            inputs.extend([&all_long, output, cell]);
        }
        let choices =
            [("hidden_size", (UNITS as i64).into()), ("direction", self.direction.into())];
        net.nodes("LSTM", &inputs, &choices)
    }
}

/// Output and cell of a layer.
type State = (Name, Name);

/// Returns the memory of the attention `[N, 32, 1024]` and the decoder's initial states; that of
/// the first layer is the state of the backward layer.
fn encoder(net: &mut Builder, pieces: &Name) -> Result<(Name, Vec<State>), BuildError> {
    let table = net.weight("encoder.embedding", &[VOCABULARY, UNITS], Fill::Uniform(0.05))?;
    let x = net.node("Gather", &[&table, pieces], &[])?;
    let cell = Cell::new(net, "encoder.0", UNITS, 2)?;
    let [both, last, cells] = cell.add(net, &x, None)?;
    let one = net.integers(&[1]);
    let two = net.integers(&[2]);
    let backward = |net: &mut Builder, x: &Name| net.node("Slice", &[x, &one, &two], &[]);
    let mut states = vec![(backward(net, &last)?, backward(net, &cells)?)];
    let both = net.node("Transpose", &[&both], &[("perm", [0, 2, 1, 3].into())])?;
    let joined = net.integers(&[0, 0, 2 * UNITS as i64]);
    let mut x = net.node("Reshape", &[&both, &joined], &[])?;
    for layer in 1..LAYERS {
        let inputs = if layer == 1 { 2 * UNITS } else { UNITS };
        let cell = Cell::new(net, &format!("encoder.{layer}"), inputs, 1)?;
        let [all, last, cells] = cell.add(net, &x, None)?;
        let axis = net.integers(&[1]);
        let all = net.node("Squeeze", &[&all, &axis], &[])?;
        x = if layer >= RESIDUAL_FROM { net.node("Add", &[&all, &x], &[])? } else { all };
        states.push((last, cells));
    }
    let memory = net.node("Transpose", &[&x], &[("perm", [1, 0, 2].into())])?;
    Ok((memory, states))
}

/// Values that all steps of the decoder use.
struct Decoder {
    table: Name,
    cells: Vec<Cell>,
    memory: Name,
    /// The memory, projected to keys of the attention.
    keys: Name,
    query: Name,
    bias: Name,
    /// The scaled direction of the normed attention.
    measure: Name,
    projection: Name,
}

impl Decoder {
    fn new(net: &mut Builder, memory: &Name) -> Result<Self, BuildError> {
        let square = [UNITS, UNITS];
        let table = net.weight("decoder.embedding", &[VOCABULARY, UNITS], Fill::Uniform(0.05))?;
        let mut cells = Vec::new();
        for layer in 0..LAYERS {
            // Each layer also receives the attention context.
            cells.push(Cell::new(net, &format!("decoder.{layer}"), 2 * UNITS, 1)?);
        }
        let of_memory = net.weight("attention.memory", &square, Fill::lecun(UNITS))?;
        let keys = net.node("MatMul", &[memory, &of_memory], &[])?;
        let query = net.weight("attention.query", &square, Fill::lecun(UNITS))?;
        let bias = net.weight("attention.bias", &[UNITS], Fill::Constant(0.0))?;
        let along = net.weight("attention.v", &[UNITS], Fill::Uniform(1.0))?;
        let length = net.node("ReduceL2", &[&along], &[])?;
        let gain = net.weight("attention.g", &[], Fill::Constant(1.0))?;
        let along = net.node("Div", &[&along, &length], &[])?;
        let measure = net.node("Mul", &[&along, &gain], &[])?;
        let projection = net.weight("projection", &[UNITS, VOCABULARY], Fill::lecun(UNITS))?;
        let memory = memory.clone();
        Ok(Self { table, cells, memory, keys, query, bias, measure, projection })
    }

    /// One step of the loop. Inputs: tokens `[1, N]`, context `[1, N, 1024]` and states; outputs:
    /// their next values, and the tokens again.
    fn step(&self, net: &Builder, carried: &[Name]) -> Result<dyno_onnx::Body, BuildError> {
        let mut body = net.body("step");
        body.input("turn", Element::I64, &[]);
        let goes_on = body.input("goes_on", Element::Bool, &[]);
        let mut handed = Vec::new();
        for (at, value) in carried.iter().enumerate() {
            let element = if at == 0 { Element::I64 } else { Element::F32 };
            handed.push(body.input(&format!("carried_{at}"), element, net.shape(value)));
        }
        let token = &handed[0];
        let context = &handed[1];
        let states = &handed[2..];
        let last_axis = [("axis", (-1).into())];
        let mut x = body.node("Gather", &[&self.table, token], &[])?;
        let mut context = context.clone();
        let mut new = Vec::new();
        for (layer, (cell, state)) in self.cells.iter().zip(states.chunks_exact(2)).enumerate() {
            let both = body.node("Concat", &[&x, &context], &last_axis)?;
            let state = Some((&state[0], &state[1]));
            let [_, output, cells] = cell.add(&mut body, &both, state)?;
            if layer == 0 {
                context = self.attention(&mut body, &output)?;
            }
            let is_residual = layer >= RESIDUAL_FROM;
            x = if is_residual { body.node("Add", &[&output, &x], &[])? } else { output.clone() };
            new.extend([output, cells]);
        }
        let scores = body.node("MatMul", &[&x, &self.projection], &[])?;
        let best = [("axis", (-1).into()), ("keepdims", 0.into())];
        let token = body.node("ArgMax", &[&scores], &best)?;
        body.output("still", &goes_on)?;
        for (at, value) in [token.clone(), context].iter().chain(&new).enumerate() {
            body.output(&format!("left_{at}"), value)?;
        }
        body.output("said", &token)?;
        Ok(body.finish_body())
    }

    /// Returns the context: the sum of the memory, weighted by the attention of a query `[1, N,
    /// 1024]`.
    fn attention(&self, net: &mut Builder, query: &Name) -> Result<Name, BuildError> {
        let swapped = [("perm", [1, 0, 2].into())];
        let query = net.node("Transpose", &[query], &swapped)?;
        let query = net.node("MatMul", &[&query, &self.query], &[])?;
        let sum = net.node("Add", &[&self.keys, &query], &[])?;
        let sum = net.node("Add", &[&sum, &self.bias], &[])?;
        let bent = net.node("Tanh", &[&sum], &[])?;
        let scores = net.node("MatMul", &[&bent, &self.measure], &[])?;
        let shares = net.node("Softmax", &[&scores], &[("axis", (-1).into())])?;
        let axis = net.integers(&[1]);
        let shares = net.node("Unsqueeze", &[&shares, &axis], &[])?;
        let context = net.node("MatMul", &[&shares, &self.memory], &[])?;
        net.node("Transpose", &[&context], &swapped)
    }
}
