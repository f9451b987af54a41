//! One evaluation of a node: its inputs, attributes and opset, and the work that is left.

use std::cell::Cell;
use std::sync::Arc;

use crate::element::Element;
use crate::evaluate::{Scope, Setting, evaluate};
use crate::fault::{Fault, OracleError, fault};
use crate::model::{Attribute, Graph, Node};
use crate::tensor::{Tensor, element_count};

/// Work that may be done, in multiplications.
#[derive(Debug)]
pub(crate) struct Budget {
    pub limit: u64,
    pub left: Cell<u64>,
}

/// Largest difference of numbers that are almost equal, relative to the greater one. Rounding in single
/// precision, even of deep models, stays below.
const CLOSE: f64 = 1e-4;
/// Largest such difference for types of 16 bits: the distance of the neighbors of 1 in bfloat16.
const CLOSE_SHORT: f64 = 1.0 / 128.0;

/// What an operator sees of its node.
pub(crate) struct Call<'a> {
    pub node: &'a Node,
    pub opset: i64,
    pub inputs: Vec<Option<Arc<Tensor>>>,
    pub scope: &'a Scope<'a>,
    pub setting: &'a Setting<'a>,
}

impl Call<'_> {
    /// Takes work from the budget.
    pub fn spend(&self, work: usize) -> Result<(), Fault> {
        let budget = self.setting.budget;
        let left = budget.left.get().checked_sub(work as u64);
        let Some(left) = left else {
            return Err(OracleError::TooLarge { limit: budget.limit }.into());
        };
        budget.left.set(left);
        Ok(())
    }

    /// Takes the work of a product of sizes from the budget.
    pub fn spend_product(&self, sizes: &[usize]) -> Result<(), Fault> {
        let work = sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
        self.spend(work.unwrap_or(usize::MAX))
    }

    /// Checks that a result of this shape can be made, and takes the work from the budget.
    pub fn spend_shape(&self, shape: &[usize]) -> Result<usize, Fault> {
        let count = element_count(shape)?;
        self.spend(count)?;
        Ok(count)
    }

    /// Notes a choice between two numbers. That between equal ones depends on their indices alone.
    pub fn note_choice(&self, a: f64, b: f64) {
        let difference = (a - b).abs();
        let is_close = difference.is_finite() && difference <= CLOSE * a.abs().max(b.abs());
        if is_close && difference > 0.0 {
            self.setting.has_close_choice.set(true);
        }
    }

    /// Notes a choice between two numbers that are computed from `terms`. Terms that are numbers of their type,
    /// such as inputs, are not rounded: engines choose as the evaluator does.
    pub fn note_jump(&self, element: Element, terms: &[f64], [a, b]: [f64; 2]) {
        if terms.iter().all(|term| element.round(*term) == *term) {
            return;
        }
        self.note_choice(a, b);
        // Some engines do not round to 16 bits, so that numbers that are equal there differ.
        if element.bits() == 16 && (a - b).abs() <= CLOSE_SHORT * a.abs().max(b.abs()) {
            self.setting.has_close_choice.set(true);
        }
    }

    /// Returns an input that must be there.
    pub fn input(&self, number: usize) -> Result<&Tensor, Fault> {
        match self.optional(number) {
            Some(tensor) => Ok(tensor),
            None => fault(format!("input {number} is missing")),
        }
    }

    /// Returns an input that may be left out.
    pub fn optional(&self, number: usize) -> Option<&Tensor> {
        self.inputs.get(number)?.as_deref()
    }

    /// Returns the inputs of an operator with any number of them.
    pub fn all_inputs(&self) -> Result<Vec<&Tensor>, Fault> {
        (0..self.inputs.len()).map(|number| self.input(number)).collect()
    }

    /// Returns whether the graph names this output.
    pub fn wants(&self, output: usize) -> bool {
        self.node.outputs.get(output).is_some_and(|name| !name.is_empty())
    }

    pub fn has(&self, name: &str) -> bool {
        self.node.attributes.contains_key(name)
    }

    pub fn optional_integer(&self, name: &str) -> Result<Option<i64>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Integer(value)) => Ok(Some(*value)),
            Some(_) => fault(format!("attribute {name:?}: expected an integer")),
        }
    }

    pub fn integer(&self, name: &str, default: i64) -> Result<i64, Fault> {
        Ok(self.optional_integer(name)?.unwrap_or(default))
    }

    /// Returns an attribute that is 0 or 1.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Fault> {
        match self.integer(name, default.into())? {
            0 => Ok(false),
            1 => Ok(true),
            value => fault(format!("attribute {name:?}: expected 0 or 1, found {value}")),
        }
    }

    pub fn optional_float(&self, name: &str) -> Result<Option<f64>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Float(value)) => Ok(Some(*value)),
            Some(_) => fault(format!("attribute {name:?}: expected a number")),
        }
    }

    /// Returns a number; defaults are those of the standard, rounded to binary32 like every attribute.
    pub fn float(&self, name: &str, default: f32) -> Result<f64, Fault> {
        Ok(self.optional_float(name)?.unwrap_or(default.into()))
    }

    pub fn text(&self, name: &str, default: &str) -> Result<String, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(default.to_owned()),
            Some(Attribute::Text(value)) => Ok(value.clone()),
            Some(_) => fault(format!("attribute {name:?}: expected a text")),
        }
    }

    pub fn integers(&self, name: &str) -> Result<Option<Vec<i64>>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Integers(values)) => Ok(Some(values.clone())),
            Some(_) => fault(format!("attribute {name:?}: expected integers")),
        }
    }

    pub fn floats(&self, name: &str) -> Result<Option<Vec<f64>>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) => Ok(Some(values.clone())),
            Some(_) => fault(format!("attribute {name:?}: expected numbers")),
        }
    }

    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Texts(values)) => Ok(Some(values.clone())),
            Some(_) => fault(format!("attribute {name:?}: expected texts")),
        }
    }

    pub fn tensor(&self, name: &str) -> Result<Option<&Tensor>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Tensor(tensor)) => Ok(Some(tensor)),
            Some(_) => fault(format!("attribute {name:?}: expected a tensor")),
        }
    }

    pub fn graph(&self, name: &str) -> Result<&Graph, Fault> {
        match self.node.attributes.get(name) {
            Some(Attribute::Graph(graph)) => Ok(graph),
            _ => fault(format!("attribute {name:?}: expected a graph")),
        }
    }

    /// Computes a graph inside of the node, which sees the values around the node.
    pub fn evaluate(
        &self,
        graph: &Graph,
        inputs: Vec<Arc<Tensor>>,
    ) -> Result<Vec<Arc<Tensor>>, Fault> {
        if graph.inputs.len() != inputs.len() {
            let (wanted, found) = (graph.inputs.len(), inputs.len());
            return fault(format!("the graph inside takes {wanted} inputs, found {found}"));
        }
        let names = graph.inputs.iter().map(|port| port.name.as_str());
        let inputs = names.zip(inputs).collect();
        Ok(evaluate(graph, inputs, Some(self.scope), self.setting)?)
    }

    /// Returns integers that an attribute held before `opset`, and an input holds since.
    pub fn integers_of_opset(
        &self,
        name: &str,
        opset: i64,
        input: usize,
    ) -> Result<Option<Vec<i64>>, Fault> {
        if self.opset < opset {
            return self.integers(name);
        }
        if self.has(name) {
            return fault(format!("attribute {name:?} is an input since opset {opset}"));
        }
        self.optional(input).map(|tensor| Ok(tensor.as_integers()?.to_vec())).transpose()
    }

    /// Returns the attribute `axis`, of which negative values count from the end of `rank`.
    pub fn axis(&self, default: i64, rank: usize) -> Result<usize, Fault> {
        axis_of(self.integer("axis", default)?, rank)
    }
}

/// Returns the number of an axis, of which negative values count from the end.
pub(crate) fn axis_of(value: i64, rank: usize) -> Result<usize, Fault> {
    let counted = if value < 0 { value.checked_add_unsigned(rank as u64) } else { Some(value) };
    match counted.and_then(|axis| usize::try_from(axis).ok()) {
        Some(axis) if axis < rank => Ok(axis),
        _ => fault(format!("axis {value} lies outside of rank {rank}")),
    }
}

/// Returns the distinct axes in increasing order.
pub(crate) fn axes_of(values: &[i64], rank: usize) -> Result<Vec<usize>, Fault> {
    let axes: Result<Vec<usize>, _> = values.iter().map(|value| axis_of(*value, rank)).collect();
    let mut axes = axes?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return fault(format!("axes {values:?} name one twice"));
    }
    Ok(axes)
}

/// Returns a size that must not be negative.
pub(crate) fn size_of(value: i64) -> Result<usize, Fault> {
    match usize::try_from(value) {
        Ok(size) => Ok(size),
        Err(_) => fault(format!("expected a size, found {value}")),
    }
}

/// Returns sizes that must not be negative.
pub(crate) fn sizes_of(values: &[i64]) -> Result<Vec<usize>, Fault> {
    values.iter().map(|value| size_of(*value)).collect()
}

/// Returns a size as the standard's `int64`.
pub(crate) fn integer_of(size: usize) -> i64 {
    size as i64
}
