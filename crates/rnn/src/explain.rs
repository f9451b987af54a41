//! Explanations of plans, for printing: schedule, reuse, partition, time, bytes and roofline.
//!
//! [`explain`] takes the ranking of [`tuner::rank`](crate::tuner::rank) or
//! [`tuner::tune`](crate::tuner::tune); see the example of [`tuner`](crate::tuner).

use std::fmt;

use crate::cost::{LayerShape, Prediction, roofline};
use crate::dag::{Dag, Recurrence};
use crate::layer::Cell;
use crate::machine::Machine;
use crate::partition::{MatrixProduct, Split, least_moved, most};
use crate::plan::Choice;
use crate::schedule::{FusedProduct, schedules};
use crate::tuner::{Goal, RankedChoice};

/// Explanation of one product of the chosen schedule, after fusion.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductExplanation {
    /// Name such as `Wifgo x` or `Ui h`.
    pub name: String,
    /// Size.
    pub product: MatrixProduct,
    /// Operations per number moved on one core (equation 2 of the paper).
    pub reuse: f64,
    /// Operations per number moved with the chosen split (equation 3 of the paper).
    pub reuse_split: f64,
    /// Split that moves the least with as many workers (Theorem 5.2 of the paper), the numbers that
    /// it moves, and the numbers that the chosen split moves.
    pub least: (Split, f64, f64),
}

/// Explanation of one layer's plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Description of the machine.
    pub machine: String,
    /// Sizes of the layer.
    pub shape: LayerShape,
    /// The plan's choice.
    pub choice: Choice,
    /// Number of schedules after pruning.
    pub schedules: usize,
    /// Schedule of the plan.
    pub schedule: String,
    /// Products of the schedule.
    pub products: Vec<ProductExplanation>,
    /// Split of one direction.
    pub split: Split,
    /// Predicted cost.
    pub predicted: Prediction,
    /// Measured nanoseconds, if timed.
    pub measured_ns: Option<f64>,
    /// Lower bound in nanoseconds for as many cores.
    pub roofline_ns: f64,
    /// The next choices of the ranking.
    pub others: Vec<RankedChoice>,
}

/// Number of other choices to show.
const OTHERS: usize = 3;

/// Explains the first choice of a ranking; `None` if the ranking is empty.
pub fn explain(
    goal: &Goal<'_>,
    ranking: &[RankedChoice],
    machine: &Machine,
) -> Option<Explanation> {
    let first = ranking.first()?;
    let choice = first.choice;
    let shape = LayerShape::from_layer(goal.layer, goal.batch, goal.steps);
    let dag = Dag::from_layer(goal.layer, goal.batch);
    let all = schedules(&dag);
    let chosen = all.iter().find(|schedule| schedule.chunked(&dag) == Some(choice.chunk > 1))?;
    let split = Split { i: choice.rows, j: choice.units, k: 1 };
    let chunk = choice.chunk.clamp(1, shape.steps.max(1));
    let private = machine.resident_l2() / 4.0 * choice.precision.per_word() as f64;
    let explanation = |fused: &FusedProduct, steps: usize| {
        let product = MatrixProduct { steps, ..fused.product };
        let most = most(&product, shape.cell.gates(), choice.precision);
        let least = least_moved(&product, split.workers(), most, private).unwrap_or(split);
        ProductExplanation {
            name: name(&dag, fused),
            product,
            reuse: product.reuse(),
            reuse_split: product.reuse_split(split),
            least: (least, product.moved(least, private), product.moved(split, private)),
        }
    };
    let mut products = Vec::new();
    for (index, phase) in chosen.fused(&dag, chunk).iter().enumerate() {
        let once = index == 0 && !chosen.once.is_empty();
        let steps = if once { shape.steps.div_ceil(chunk) } else { shape.steps };
        products.extend(phase.iter().map(|fused| explanation(fused, steps)));
    }
    Some(Explanation {
        machine: machine.to_string(),
        shape,
        choice,
        schedules: all.len(),
        schedule: chosen.describe(&dag),
        products,
        split,
        predicted: first.predicted,
        measured_ns: first.measured_ns,
        roofline_ns: roofline(&shape, choice.precision, machine, choice.workers()),
        others: ranking.iter().skip(1).take(OTHERS).copied().collect(),
    })
}

fn name(dag: &Dag, fused: &FusedProduct) -> String {
    let gates = dag.recurrence.gates();
    let gates: String = fused.gates.iter().map(|gate| gates[*gate]).collect();
    let sources = fused.sources.iter().map(|source| {
        let side = if *source == crate::dag::Source::Input { "W" } else { "U" };
        format!("{side}{gates} {source}")
    });
    sources.collect::<Vec<_>>().join(" + ")
}

impl Explanation {
    /// Returns the share of the roofline that is reached, 1 for all of it: measured if timed, else
    /// predicted.
    pub fn reached(&self) -> f64 {
        self.roofline_ns / self.measured_ns.unwrap_or_else(|| self.predicted.ns())
    }

    fn layer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LayerShape { cell, inputs, units, directions, batch, steps, .. } = self.shape;
        let name = cell_name(cell);
        let [input, state] = self.shape.weights(self.choice.precision).map(|bytes| bytes / 1024.0);
        write!(f, "layer      {name}, {inputs} inputs, {units} units")?;
        if directions > 1 {
            f.write_str(" in both directions")?;
        }
        writeln!(
            f,
            ", batch {batch}, {steps} steps: {:.1} MFLOP; weights {input:.0} + {state:.0} KiB in {:?}",
            self.shape.flops() / 1e6,
            self.choice.precision
        )
    }

    fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let predicted = &self.predicted;
        write!(f, "time       predicted {} (", span(predicted.ns()))?;
        let parts = [
            ("input", predicted.input),
            ("state", predicted.state),
            ("cells", predicted.cells),
            ("barriers", predicted.barriers),
            ("exchange", predicted.exchange),
            ("call", predicted.call),
        ];
        let parts = parts.iter().filter(|(_, ns)| *ns > 0.0);
        let parts: Vec<String> = parts.map(|(name, ns)| format!("{name} {}", span(*ns))).collect();
        write!(f, "{})", parts.join(", "))?;
        match self.measured_ns {
            Some(ns) => writeln!(f, ", measured {}", span(ns)),
            None => writeln!(f, ", not measured"),
        }
    }
}

/// Formats nanoseconds with a readable unit.
fn span(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.3} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.2} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

fn parts(choice: &Choice) -> String {
    let Choice { chunk, sides, rows, units, .. } = choice;
    format!("chunks of {chunk}, {sides} x {rows} x {units} workers (sides, rows, units)")
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine    {}", self.machine)?;
        self.layer(f)?;
        writeln!(f, "schedule   {}, one of {} after pruning", self.schedule, self.schedules)?;
        writeln!(f, "plan       {}", parts(&self.choice))?;
        for (index, product) in self.products.iter().enumerate() {
            let head = if index == 0 { "products   " } else { "           " };
            let MatrixProduct { i, j, k, steps } = product.product;
            writeln!(
                f,
                "{head}{}: {i} x {j} x {k}, {steps} times, reuse {:.2} on one core, {:.2} as {}",
                product.name, product.reuse, product.reuse_split, self.split
            )?;
        }
        for (index, product) in self.products.iter().enumerate() {
            let head = if index == 0 { "partition  " } else { "           " };
            let (least, fewest, moved) = product.least;
            writeln!(
                f,
                "{head}{}: {} moves {:.3} M numbers to private caches, the minimum is {least} with \
                 {:.3}",
                product.name,
                self.split,
                moved / 1e6,
                fewest / 1e6
            )?;
        }
        self.times(f)?;
        let Prediction { bytes, far_bytes, .. } = self.predicted;
        writeln!(
            f,
            "bytes      {:.2} MB per worker, {:.2} MB of them from outside its private cache",
            bytes / 1e6,
            far_bytes / 1e6
        )?;
        let workers = self.choice.workers();
        let reached = 100.0 * self.reached();
        let what = if self.measured_ns.is_some() { "measured" } else { "predicted" };
        let roof = span(self.roofline_ns);
        writeln!(
            f,
            "roofline   {roof} on {workers} cores, {reached:.0} % of it reached as {what}"
        )?;
        for (index, other) in self.others.iter().enumerate() {
            let head = if index == 0 { "also       " } else { "           " };
            let measured = other
                .measured_ns
                .map_or("not measured".to_owned(), |ns| format!("measured {}", span(ns)));
            let predicted = span(other.predicted.ns());
            writeln!(f, "{head}{}: predicted {predicted}, {measured}", parts(&other.choice))?;
        }
        Ok(())
    }
}

/// Name of a cell for display.
fn cell_name(cell: Cell) -> &'static str {
    match Recurrence::from_cell(cell) {
        Recurrence::Lstm => "LSTM",
        Recurrence::Gru(_) => "GRU",
        Recurrence::Rnn => "RNN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Directions, Layer, Weights};
    use crate::tuner::{Constraints, rank};
    use dyno_kernels::Precision;

    #[test]
    fn an_explanation_says_all_that_it_should() {
        let weights = Weights {
            input: vec![0.0; 4 * 256 * 64],
            state: vec![0.0; 4 * 256 * 256],
            input_bias: vec![0.0; 4 * 256],
            state_bias: vec![0.0; 4 * 256],
        };
        let layer = Layer::new(Cell::Lstm, 64, 256, Directions::Forward, vec![weights]).unwrap();
        let base = Choice::one_worker(Precision::F32);
        let forced = Constraints { chunk: Some(16), ..Constraints::default() };
        let goal = Goal { layer: &layer, batch: 1, steps: 100, base, forced, threads: 2 };
        let machine = Machine::sapphire_rapids();
        let mut ranking = rank(&goal, &machine);
        ranking[0].measured_ns = Some(1e6);
        let found = explain(&goal, &ranking, &machine).expect("a ranking with choices");
        // SPEC section 2: 65.5 MFLOP, 1024 KiB of U, 0.4692 ms as the roofline of two cores.
        assert_eq!(found.choice.units, 2);
        assert!((found.reached() - 0.4692).abs() < 0.005, "{}", found.reached());
        let text = found.to_string();
        for part in [
            "LSTM, 64 inputs, 256 units, batch 1, 100 steps: 65.5 MFLOP; weights 256 + 1024 KiB",
            "[Wi x, Wf x, Wg x, Wo x | all steps] [Ui h, Uf h, Ug h, Uo h], one of 16",
            "Wifgo x: 16 x 1024 x 64, 7 times",
            "Uifgo h: 1 x 1024 x 256, 100 times, reuse 1.98 on one core, 1.98 as <1,2,1>",
            "measured 1.000 ms",
            "47 % of it reached",
            "chunks of 16, 1 x 1 x 1 workers",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
