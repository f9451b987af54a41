//! `dyno task layers`: prints the cost of a model layer by layer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use clap::{ArgAction, Args};
use dyno_experiment::Failure;
use dyno_experiment::system::read_model;
use dyno_loadgen::settings::similar;
use dyno_onnx::{Cost, Dim, Layer, Model, Weights, count_with};
use dyno_results::units;
use dyno_task::graphs::{COUNTED, GRAPHS};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Layers {
    /// ONNX file, or the name of a graph that Dyno generates: a shape task, or one that is only
    /// counted
    #[arg(value_name = "FILE.onnx|GRAPH")]
    model: String,
    /// Size of a dynamic dimension, such as seq=128 [default: 1]
    #[arg(long, value_name = "NAME=N", action = ArgAction::Append, value_delimiter = ',')]
    bind: Vec<String>,
    /// Show only the layers with the most operations
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
A multiply-accumulate counts as two operations; bytes are those of the file. Dynamic dimensions, such as
the batch, are 1 unless --bind sets them.
Examples:
  dyno task layers model.onnx --bind batch=8,seq=128
  dyno task layers resnet50-shape --top 10
  dyno task layers llama2-70b-token --json";

impl Layers {
    /// Prints the table.
    ///
    /// # Errors
    /// A file that is not an ONNX model, or an unknown graph.
    pub fn execute(self) -> Result<Exit, Failure> {
        let model = self.read()?;
        let open = open_dimensions(&model);
        let bindings = self.bindings(&open)?;
        let mut cost = count_with(&model, &bindings);
        let total = Total::from_cost(&cost);
        // Layers that an engine computes once when it loads the model are not part of a run.
        cost.layers.retain(|layer| layer.runs > 0);
        if let Some(top) = self.top {
            cost.layers.sort_by_key(|layer| std::cmp::Reverse(per_run(layer)));
            cost.layers.truncate(top);
        }
        let size = |name: &String| (name.clone(), bindings.get(name).copied().unwrap_or(1));
        let sizes: BTreeMap<String, usize> = open.iter().map(size).collect();
        let text = if self.json {
            let mut document = document(&cost, &total);
            document["dimensions"] = json!(sizes);
            serde_json::to_string_pretty(&document).expect("keys are texts") + "\n"
        } else {
            table(&cost, &total) + &dimensions(&sizes, &bindings)
        };
        output::print_or_show(text, self.json).map(|()| Exit::Valid)
    }

    fn bindings(&self, open: &BTreeSet<String>) -> Result<BTreeMap<String, usize>, Failure> {
        let mut bindings = BTreeMap::new();
        for text in &self.bind {
            let pair = text.split_once('=').and_then(|(name, n)| Some((name, n.parse().ok()?)));
            let Some((name, size)) = pair.filter(|(_, size)| *size > 0) else {
                return Err(Failure::usage(format!("--bind: expected NAME=N, found `{text}`"))
                    .hint("use, for example, --bind batch=8,seq=128"));
            };
            if !open.contains(name) {
                let all: Vec<&str> = open.iter().map(String::as_str).collect();
                let hint = if all.is_empty() {
                    "all its dimensions are fixed".to_owned()
                } else {
                    format!("its dynamic dimensions: {}", all.join(", "))
                };
                let problem = format!("--bind: the model has no dynamic dimension `{name}`");
                return Err(Failure::usage(problem).hint(hint));
            }
            bindings.insert(name.to_owned(), size);
        }
        Ok(bindings)
    }

    fn read(&self) -> Result<Model, Failure> {
        let name = self.model.strip_suffix("-shape").unwrap_or(&self.model);
        let runs = GRAPHS.iter().map(|graph| (graph.name, graph.build));
        let mut graphs = runs.chain(COUNTED.iter().map(|graph| (graph.name, graph.build)));
        if let Some((_, build)) = graphs.find(|(known, _)| *known == name) {
            return build(Weights::seeded(1)).map_err(Failure::set_up);
        }
        let path = Path::new(&self.model);
        if path.is_file() || path.extension().is_some_and(|end| end == "onnx") {
            return read_model(path);
        }
        let names = GRAPHS.iter().map(|graph| graph.name);
        let near = similar(name, names.chain(COUNTED.iter().map(|graph| graph.name)));
        Err(Failure::usage(format!("file or graph `{}` not found", self.model))
            .hint_name(near, "dyno task list shows the shape tasks, whose names are the graphs"))
    }
}

/// Returns the names of the dimensions of inputs that have no size.
fn open_dimensions(model: &Model) -> BTreeSet<String> {
    let dims = model.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
    dims.filter_map(|dim| match dim {
        Dim::Symbol(name) => Some(name.clone()),
        Dim::Fixed(_) => None,
    })
    .collect()
}

/// Returns a line with the sizes of open dimensions.
fn dimensions(sizes: &BTreeMap<String, usize>, given: &BTreeMap<String, usize>) -> String {
    if sizes.is_empty() {
        return String::new();
    }
    let one = |(name, size): (&String, &usize)| match (name.as_str(), given.contains_key(name)) {
        ("", _) => format!("a dimension without a name = {size} (assumed)"),
        (name, true) => format!("{name} = {size}"),
        (name, false) => format!("{name} = {size} (assumed; --bind {name}=SIZE)"),
    };
    format!("dimensions: {}\n", sizes.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Sums over all layers.
struct Total {
    parameters: u64,
    operations: u64,
    weight_bytes: u64,
    moved_bytes: u64,
}

impl Total {
    fn from_cost(cost: &Cost) -> Self {
        let sum = |figure: fn(&Layer) -> u64| {
            let each = cost.layers.iter().map(|layer| figure(layer).saturating_mul(layer.runs));
            each.fold(0, u64::saturating_add)
        };
        Self {
            parameters: cost.parameters,
            operations: cost.operations(),
            weight_bytes: sum(|layer| layer.weight_bytes),
            moved_bytes: sum(|layer| layer.input_bytes.saturating_add(layer.output_bytes)),
        }
    }
}

/// Returns the operations of a layer in one run of the model.
fn per_run(layer: &Layer) -> u64 {
    layer.operations().saturating_mul(layer.runs)
}

fn document(cost: &Cost, total: &Total) -> Value {
    let shapes = |all: &[Vec<Dim>]| -> Vec<Vec<String>> {
        all.iter().map(|shape| shape.iter().map(ToString::to_string).collect()).collect()
    };
    let layer = |layer: &Layer| {
        json!({
            "name": layer.name,
            "op": layer.op,
            "times": layer.runs,
            "inputs": shapes(&layer.inputs),
            "outputs": shapes(&layer.outputs),
            "operations": layer.operations(),
            "weight_bytes": layer.weight_bytes,
            "input_bytes": layer.input_bytes,
            "output_bytes": layer.output_bytes,
            "operations_per_byte": layer.operations_per_byte(),
        })
    };
    let uncounted = cost
        .uncounted
        .iter()
        .map(|node| json!({"name": node.name, "op": node.op, "why": node.reason.to_string()}));
    json!({
        "parameters": total.parameters,
        "operations": total.operations,
        "weight_bytes": total.weight_bytes,
        "activation_bytes": total.moved_bytes,
        "layers": cost.layers.iter().map(layer).collect::<Vec<_>>(),
        "uncounted": uncounted.collect::<Vec<_>>(),
    })
}

/// Columns of a layer's name.
const NAME: usize = 32;

fn table(cost: &Cost, total: &Total) -> String {
    let mut text = format!(
        "{:NAME$} {:18} {:>6} {:>10} {:>9} {:>9} {:>9} {:>8}\n",
        "layer", "operator", "times", "operations", "weights", "in", "out", "op/byte"
    );
    for layer in &cost.layers {
        let _ = writeln!(
            text,
            "{:NAME$} {:18} {:>6} {:>10} {:>9} {:>9} {:>9} {:>8.2}",
            end(&layer.name),
            layer.op,
            layer.runs,
            scaled(per_run(layer)),
            units::bytes(layer.weight_bytes),
            units::bytes(layer.input_bytes),
            units::bytes(layer.output_bytes),
            layer.operations_per_byte(),
        );
    }
    let moved = total.weight_bytes.saturating_add(total.moved_bytes);
    let intensity = if moved == 0 { 0.0 } else { total.operations as f64 / moved as f64 };
    let _ = writeln!(
        text,
        "\n{} parameters, {} operations for one input; moves {} of weights and {} of activations: \
         {intensity:.2} operations per byte",
        scaled(total.parameters),
        scaled(total.operations),
        units::bytes(total.weight_bytes),
        units::bytes(total.moved_bytes),
    );
    for node in &cost.uncounted {
        let _ = writeln!(text, "not counted: {} ({}): {}", node.name, node.op, node.reason);
    }
    text
}

/// Returns the end of a name, which differs between layers.
fn end(name: &str) -> String {
    let letters = name.chars().count();
    match letters.checked_sub(NAME) {
        None | Some(0) => name.to_owned(),
        Some(over) => format!("…{}", name.chars().skip(over + 1).collect::<String>()),
    }
}

fn scaled(count: u64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let value = count as f64;
    match PREFIXES.into_iter().find(|(from, _)| value >= *from) {
        Some((from, prefix)) => format!("{:.2} {prefix}", value / from),
        None => count.to_string(),
    }
}
