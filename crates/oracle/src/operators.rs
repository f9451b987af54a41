//! Operators by name: inputs and attributes that each of them accepts, and how it is computed.

mod activation;
mod arithmetic;
mod attention;
mod boxes;
mod cell;
mod classical;
mod compare;
mod control;
mod convolution;
mod create;
mod einsum;
mod fourier;
mod fused;
mod gather;
mod grid;
mod layout;
mod normalize;
mod pad;
mod pool;
mod product;
mod quantize;
mod recurrent;
mod reduce;
mod regions;
mod resize;
mod scatter;
mod slice;
mod sort;
mod window;

use crate::call::Call;
use crate::fault::Fault;
use crate::tensor::Tensor;

/// An operator that the oracle computes.
pub(crate) struct Operator {
    pub name: &'static str,
    /// Opset that introduces the operator.
    pub since: i64,
    /// Most inputs.
    pub inputs: usize,
    /// All attributes of all opsets; any other is an error.
    pub attributes: &'static [&'static str],
    pub compute: Compute,
}

/// Computes the outputs of a node, in the order of the standard.
pub(crate) type Compute = fn(&Call<'_>) -> Result<Vec<Tensor>, Fault>;

/// Number of inputs of an operator that takes any number.
const ANY: usize = usize::MAX;

const fn operator(
    name: &'static str,
    since: i64,
    inputs: usize,
    attributes: &'static [&'static str],
    compute: Compute,
) -> Operator {
    Operator { name, since, inputs, attributes, compute }
}

const GROUPS: [&[Operator]; 25] = [
    activation::OPERATORS,
    arithmetic::OPERATORS,
    attention::OPERATORS,
    boxes::OPERATORS,
    classical::OPERATORS,
    compare::OPERATORS,
    control::OPERATORS,
    convolution::OPERATORS,
    create::OPERATORS,
    einsum::OPERATORS,
    fourier::OPERATORS,
    fused::OPERATORS,
    gather::OPERATORS,
    grid::OPERATORS,
    layout::OPERATORS,
    normalize::OPERATORS,
    pad::OPERATORS,
    pool::OPERATORS,
    product::OPERATORS,
    quantize::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    regions::OPERATORS,
    resize::OPERATORS,
    scatter::OPERATORS,
];

/// Finds an operator; other domains than the standard's stand before its name with a dot.
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    let groups = GROUPS.iter().chain(&[slice::OPERATORS, sort::OPERATORS]);
    groups.flat_map(|group| group.iter()).find(|operator| operator.name == name)
}
