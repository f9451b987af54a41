//! Shape inference of the operators of classical machine learning (domain `ai.onnx.ml`) on a table with
//! one row per sample.

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, ShapeError, input, misfit};
use crate::graph::Node;

/// Domain of the operators.
pub const DOMAIN: &str = "ai.onnx.ml";

/// Infers the outputs of an operator.
///
/// # Errors
/// [`ShapeError::Operator`] also for classifiers whose labels are strings, which have no element type.
pub fn infer(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    if node.op == "ArrayFeatureExtractor" {
        return columns(data, input(inputs, 1)?);
    }
    let [rows, _] = &data.shape[..] else {
        return misfit("the input is not a table");
    };
    let targets = |attribute: &str| {
        let count = usize::try_from(node.int(attribute, 1)).ok();
        let columns = count.map_or_else(|| Dim::symbol("?"), Dim::Fixed);
        Ok(vec![Fact::new(Element::F32, vec![rows.clone(), columns])])
    };
    let has_numbers =
        || node.ints("classlabels_ints").or(node.ints("classlabels_int64s")).is_some();
    match node.op.as_str() {
        "Scaler" | "Normalizer" => Ok(vec![Fact::new(Element::F32, data.shape.clone())]),
        "Binarizer" | "Imputer" => Ok(vec![data.with_shape(data.shape.clone())]),
        "LinearRegressor" => targets("targets"),
        "SVMRegressor" | "TreeEnsembleRegressor" => targets("n_targets"),
        "LinearClassifier" | "SVMClassifier" | "TreeEnsembleClassifier" if has_numbers() => {
            let scores = vec![rows.clone(), Dim::symbol("?")];
            Ok(vec![Fact::new(Element::I64, vec![rows.clone()]), Fact::new(Element::F32, scores)])
        }
        op => Err(ShapeError::Operator(format!("{DOMAIN}.{op}"))),
    }
}

/// Returns the columns with these indices. A vector is a table with one row.
fn columns(data: &Fact, indices: &Fact) -> Facts {
    let Some((_, rows)) = data.shape.split_last() else {
        return misfit("the input is a scalar");
    };
    let count = indices.elements().and_then(|count| usize::try_from(count).ok());
    let mut shape = if rows.is_empty() { vec![Dim::Fixed(1)] } else { rows.to_vec() };
    shape.push(count.map_or_else(|| Dim::symbol("?"), Dim::Fixed));
    Ok(vec![data.with_shape(shape)])
}
