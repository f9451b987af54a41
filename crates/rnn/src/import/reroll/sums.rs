//! Decomposition of values into sums of products with constant matrices, biases and other values.

use std::cell::RefCell;
use std::collections::HashMap;

use dyno_onnx::{Attribute, Constants, Fact, Model, Node, Tensor};

/// Maximum nodes between a gate and its products; exporters write fewer.
const DEPTH: usize = 32;

/// A term of a sum.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Leaf<'a> {
    /// Product of a value with a matrix.
    Product { source: &'a str, by: Factor },
    /// Constant numbers, or one number for all.
    Bias(ConstantRange),
    /// Any other value.
    Other(&'a str),
}

/// Numbers `start..end` on the last axis of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConstantRange {
    /// Index of the constant; constants of equal contents share one index.
    pub constant: usize,
    pub start: usize,
    pub end: usize,
}

/// Part of a constant matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    /// Range of the outputs.
    pub outputs: ConstantRange,
    /// Whether outputs are rows, as in `Gemm` with `transB`.
    pub by_row: bool,
    /// Start and end of the inputs.
    pub inputs: (usize, usize),
}

/// Part of a value's last axis.
#[derive(Clone, Copy)]
enum Cut {
    All,
    /// Start and end as in `Slice`.
    Between(i64, i64),
    /// Index and count of equal parts.
    Part(usize, usize),
}

impl Cut {
    /// Composes this cut with a cut `part` of the source, if both count from the front.
    fn within(self, part: Self) -> Option<Self> {
        match (self, part) {
            (Self::All, part) => Some(part),
            (Self::Between(first, last), Self::Between(start, end))
                if first >= 0 && last >= 0 && start >= 0 && end >= 0 =>
            {
                let last = start.saturating_add(last).min(end);
                Some(Self::Between(start.saturating_add(first), last))
            }
            _ => None,
        }
    }

    /// Returns start and end in an axis of length `whole`; `None` if empty.
    fn range_in(self, whole: usize) -> Option<(usize, usize)> {
        let place = |at: i64| {
            let at = if at < 0 { at.saturating_add(whole as i64) } else { at };
            usize::try_from(at.clamp(0, whole as i64)).ok()
        };
        let (start, end) = match self {
            Self::All => (0, whole),
            Self::Between(start, end) => (place(start)?, place(end)?),
            Self::Part(at, count) => (whole / count * at, whole / count * (at + 1)),
        };
        (start < end).then_some((start, end))
    }
}

/// Index of a graph: the node that computes each value, and deduplicated constants.
pub(super) struct Graph<'a> {
    constants: Constants<'a>,
    makers: HashMap<&'a str, (&'a Node, usize)>,
    /// Known facts about values, including the indices that PyTorch's `chunk` computes from shapes.
    facts: &'a HashMap<String, Fact>,
    cache: RefCell<ConstantCache>,
}

#[derive(Default)]
struct ConstantCache {
    tensors: Vec<(Vec<usize>, Vec<f32>)>,
    by_name: HashMap<String, Option<usize>>,
}

impl<'a> Graph<'a> {
    pub fn new(model: &'a Model, facts: &'a HashMap<String, Fact>) -> Self {
        let made = |node: &'a Node| {
            node.outputs.iter().enumerate().map(move |(at, output)| (output.as_str(), (node, at)))
        };
        let makers = model.nodes.iter().flat_map(made).collect();
        Self { constants: Constants::new(model), makers, facts, cache: RefCell::default() }
    }

    /// Returns the node that computes a value if it has operator `op`.
    pub fn made_by(&self, value: &str, op: &str) -> Option<&'a Node> {
        let (node, _) = self.makers.get(value)?;
        (node.op == op && node.domain.is_empty()).then_some(*node)
    }

    /// Returns the index of a constant of `f32` numbers.
    pub fn constant(&self, name: &str) -> Option<usize> {
        if let Some(known) = self.cache.borrow().by_name.get(name) {
            return *known;
        }
        let tensor = self.constants.get(name);
        let numbers = tensor.as_ref().and_then(Tensor::floats);
        let mut cache = self.cache.borrow_mut();
        let found = tensor.zip(numbers).map(|(tensor, numbers)| {
            let same = |(shape, known): &(Vec<usize>, Vec<f32>)| {
                *shape == tensor.shape && *known == numbers
            };
            cache.tensors.iter().position(same).unwrap_or_else(|| {
                cache.tensors.push((tensor.shape.clone(), numbers.clone()));
                cache.tensors.len() - 1
            })
        });
        cache.by_name.insert(name.to_owned(), found);
        found
    }

    pub fn shape(&self, constant: usize) -> Vec<usize> {
        self.cache.borrow().tensors[constant].0.clone()
    }

    /// Whether a value consists of ones only.
    pub fn is_one(&self, name: &str) -> bool {
        let Some(at) = self.constant(name) else { return false };
        self.cache.borrow().tensors[at].1.iter().all(|number| *number == 1.0)
    }

    /// Adds a range of a bias, or its single number, to `to`.
    pub fn add_bias(&self, range: ConstantRange, to: &mut [f32]) {
        let cache = self.cache.borrow();
        let numbers = &cache.tensors[range.constant].1[range.start..range.end];
        to.iter_mut().zip(numbers.iter().cycle()).for_each(|(to, number)| *to += number);
    }

    /// Returns part of a matrix as outputs x inputs.
    pub fn matrix(&self, factor: Factor) -> Vec<f32> {
        let cache = self.cache.borrow();
        let (shape, numbers) = &cache.tensors[factor.outputs.constant];
        let (first, last) = factor.inputs;
        let columns = shape.last().copied().unwrap_or(1);
        let at = |output: usize, input: usize| {
            if factor.by_row {
                numbers[output * columns + input]
            } else {
                numbers[input * columns + output]
            }
        };
        let outputs = factor.outputs.start..factor.outputs.end;
        outputs.flat_map(|output| (first..last).map(move |input| at(output, input))).collect()
    }

    /// Returns the sum under an activation: `value` is `op` of the sum, or a part of it.
    pub fn under(&self, value: &'a str, op: &str) -> Option<Vec<Leaf<'a>>> {
        let (value, cut) = self.uncut(value).unwrap_or((value, Cut::All));
        let node = self.made_by(value, op)?;
        let mut leaves = Vec::new();
        self.gather(node.inputs.first()?, cut, &mut leaves, DEPTH)?;
        Some(leaves)
    }

    /// Decomposes a value into a sum.
    pub fn sum(&self, value: &'a str) -> Option<Vec<Leaf<'a>>> {
        let mut leaves = Vec::new();
        self.gather(value, Cut::All, &mut leaves, DEPTH)?;
        Some(leaves)
    }

    fn gather(&self, value: &'a str, cut: Cut, to: &mut Vec<Leaf<'a>>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if let Some(constant) = self.constant(value) {
            let shape = self.shape(constant);
            let last = shape.last().copied().unwrap_or(1);
            // Numbers that differ from row to row are not a bias.
            if shape.iter().product::<usize>() != last {
                return None;
            }
            // A single number is added to all outputs.
            let (start, end) = if last == 1 { (0, 1) } else { cut.range_in(last)? };
            to.push(Leaf::Bias(ConstantRange { constant, start, end }));
            return Some(());
        }
        let (node, _) = self.makers.get(value)?;
        let input = |at: usize| node.inputs.get(at).filter(|name| !name.is_empty());
        match (node.domain.as_str(), node.op.as_str()) {
            ("", "Add") => {
                self.gather(input(0)?, cut, to, depth)?;
                self.gather(input(1)?, cut, to, depth)
            }
            ("", "Identity") => self.gather(input(0)?, cut, to, depth),
            ("", "Gemm") => {
                let is_one = |name: &str| match node.attribute(name) {
                    Some(Attribute::Float(factor)) => *factor == 1.0,
                    _ => true,
                };
                if !is_one("alpha") || !is_one("beta") || node.int("transA", 0) != 0 {
                    return None;
                }
                to.push(self.product(input(0)?, input(1)?, node.int("transB", 0) != 0, cut)?);
                input(2).map_or(Some(()), |bias| self.gather(bias, cut, to, depth))
            }
            ("", "MatMul") => {
                to.push(self.product(input(0)?, input(1)?, false, cut)?);
                Some(())
            }
            _ => match (self.uncut(value), cut) {
                (Some((whole, part)), cut) => self.gather(whole, cut.within(part)?, to, depth),
                (None, Cut::All) => {
                    to.push(Leaf::Other(value));
                    Some(())
                }
                _ => None,
            },
        }
    }

    fn product(&self, source: &'a str, by: &str, by_row: bool, cut: Cut) -> Option<Leaf<'a>> {
        let constant = self.constant(by)?;
        let [rows, columns] = self.shape(constant)[..] else { return None };
        let (outputs, inputs) = if by_row { (rows, columns) } else { (columns, rows) };
        let (start, end) = cut.range_in(outputs)?;
        let by =
            Factor { outputs: ConstantRange { constant, start, end }, by_row, inputs: (0, inputs) };
        Some(Leaf::Product { source, by })
    }

    /// Returns the source of which this value is a part on the last of two axes.
    fn uncut(&self, value: &str) -> Option<(&'a str, Cut)> {
        let (node, output) = self.makers.get(value)?;
        let fed = |at: usize| -> Option<Vec<i64>> {
            let name = node.inputs.get(at)?;
            let constant = self.constants.get(name).and_then(|tensor| tensor.integers());
            constant.or_else(|| self.facts.get(name)?.integers.clone())
        };
        let whole = |attribute: &str, at: usize| {
            node.ints(attribute).map(<[i64]>::to_vec).or_else(|| fed(at))
        };
        let is_last = |axis: i64| matches!(axis, 1 | -1);
        let source = node.inputs.first()?.as_str();
        match node.op.as_str() {
            "Split" if is_last(node.int("axis", 0)) => {
                let count = node.outputs.len();
                let Some(sizes) = whole("split", 1) else {
                    return Some((source, Cut::Part(*output, count)));
                };
                let start: i64 = sizes.get(..*output)?.iter().sum();
                Some((source, Cut::Between(start, start.checked_add(*sizes.get(*output)?)?)))
            }
            "Slice" => {
                let starts = whole("starts", 1)?;
                let ends = whole("ends", 2)?;
                let ([start], [end]) = (&starts[..], &ends[..]) else { return None };
                let steps = whole("steps", 4).is_none_or(|steps| steps == [1]);
                let axes = whole("axes", 3)?;
                (steps && axes.len() == 1 && is_last(axes[0]))
                    .then_some((source, Cut::Between(*start, *end)))
            }
            _ => None,
        }
    }
}
