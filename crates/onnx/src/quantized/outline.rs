//! Shapes of quantized weights, for readers that need none of their numbers.

use dyno_tensors::Element;

use super::spread::Spread;
use super::{Rewriter, limits};
use crate::shape::Dim;

impl Rewriter<'_> {
    /// Returns the shape of constant codes whose scales and zero points fit it. `scale` is `None` for
    /// codes that no scale multiplies, and `zero` is empty without zero points.
    pub(super) fn outline_of_codes(
        &self,
        [codes, zero]: [&str; 2],
        scale: Option<&str>,
        axis: i64,
        block: usize,
    ) -> Option<Vec<usize>> {
        let shape = self.codes_outline(codes)?;
        let scales = match scale {
            Some(scale) => self.scale_count(scale)?,
            None => 1,
        };
        let zeros = if zero.is_empty() { 1 } else { count(&self.codes_outline(zero)?) };
        for parameters in [scales, zeros.max(1)] {
            Spread::new(&shape, axis, block, parameters)?;
        }
        Some(shape)
    }

    /// Returns the shape of a constant of a floating-point type other than float32.
    pub(super) fn narrow_outline(&self, name: &str) -> Option<Vec<usize>> {
        let is_narrow = |element: Element| {
            let others = [Element::F32, Element::F8E8M0, Element::F4E2M1];
            element.is_real() && !others.contains(&element)
        };
        self.outline(name, is_narrow)
    }

    /// Returns the shape of constant codes, or of constants that are quantized.
    fn codes_outline(&self, name: &str) -> Option<Vec<usize>> {
        let is_code = |element: Element| {
            let is_short = element.bits() == 8 && element.is_real() && element != Element::F8E8M0;
            limits(element).is_some() || element == Element::I32 || is_short
        };
        self.outline(name, is_code).or_else(|| {
            let node = self.makers.get(name).filter(|node| node.op == "QuantizeLinear")?;
            self.outline(node.inputs.first()?, |element| element == Element::F32)
        })
    }

    /// Returns the number of constant scales, or of those that a node makes of one constant and others.
    fn scale_count(&self, name: &str) -> Option<usize> {
        let floats = |name: &str| {
            self.outline(name, |element| element == Element::F32).map(|shape| count(&shape))
        };
        floats(name).or_else(|| {
            let node = self.makers.get(name).filter(|node| node.op == "Mul")?;
            let (one, others) = (floats(node.inputs.first()?)?, floats(node.inputs.get(1)?)?);
            (one == 1).then_some(others)
        })
    }

    /// Returns the shape of a constant of a wanted type. Its elements are not loaded.
    fn outline(&self, name: &str, is_wanted: impl Fn(Element) -> bool) -> Option<Vec<usize>> {
        let fact = self.facts.as_ref()?.get(name).filter(|fact| is_wanted(fact.element))?;
        let shape = fact.shape.iter().map(Dim::fixed).collect::<Option<Vec<usize>>>()?;
        // Sizes in a file may be any. Products of some of them are computed later.
        shape.iter().try_fold(1_usize, |product, n| product.checked_mul((*n).max(1)))?;
        self.constants.contains(name).then_some(shape)
    }
}

/// Returns the number of elements.
fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::quantized::outline_in_floats;
    use crate::{
        Attribute, BuildError, Builder, Dim, Element, Model, Tensor, Values, Weights, in_floats,
    };

    /// Returns a model with each form of quantized weights.
    fn quantized() -> Result<Model, BuildError> {
        let mut net = Builder::new("quantized", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
        let of = |name: &str, element: Element, shape: &[usize], bytes: &[u8]| Tensor {
            element,
            values: Values::Bytes(bytes.to_vec()),
            ..Tensor::from_f32(name, shape, &[])
        };
        let codes: Vec<u8> = (0..16).collect();
        let one = net.tensor(Tensor::from_f32("one", &[], &[0.5]))?;
        let four = net.tensor(Tensor::from_f32("four", &[4], &[0.5, 1.0, 2.0, 4.0]))?;
        let zeros = net.tensor(of("zeros", Element::I8, &[4], &[0, 1, 2, 3]))?;
        let axis: [(&str, Attribute); 1] = [("axis", 0_i64.into())];
        let float: [(&str, Attribute); 1] = [("to", 1_i64.into())];

        let weight = net.tensor(of("channels.weight_quantized", Element::I8, &[4, 4], &codes))?;
        let weight = net.node("DequantizeLinear", &[&weight, &four, &zeros], &axis)?;
        let y = net.node("MatMul", &[&x, &weight], &[])?;
        let weight = net.tensor(of("short.weight_quantized", Element::I4, &[4, 4], &codes[..8]))?;
        let weight = net.node("DequantizeLinear", &[&weight, &one], &[])?;
        let y = net.node("MatMul", &[&y, &weight], &[])?;
        // Three scales do not fit.
        let three = net.tensor(Tensor::from_f32("three", &[3], &[1.0; 3]))?;
        let weight = net.tensor(of("wrong.weight_quantized", Element::I8, &[4, 4], &codes))?;
        let weight = net.node("DequantizeLinear", &[&weight, &three], &axis)?;
        let y = net.node("MatMul", &[&y, &weight], &[])?;
        let weight = net.tensor(Tensor::from_f32("late.weight", &[4, 4], &[1.0; 16]))?;
        let weight = net.node("QuantizeLinear", &[&weight, &four, &zeros], &axis)?;
        let weight = net.node("DequantizeLinear", &[&weight, &four, &zeros], &axis)?;
        let y = net.node("MatMul", &[&y, &weight], &[])?;
        let half = [codes.clone(), codes.clone()].concat();
        let weight = net.tensor(of("half.weight.float16", Element::F16, &[4, 4], &half))?;
        let weight = net.node("Cast", &[&weight], &float)?;
        let y = net.node("MatMul", &[&y, &weight], &[])?;
        let [rounded, scale, zero] = net.nodes("DynamicQuantizeLinear", &[&y], &[])?;
        let weight = net.tensor(of("dynamic.weight_quantized", Element::I8, &[4, 4], &codes))?;
        let product = net.node("MatMulInteger", &[&rounded, &weight, &zero], &[])?;
        let product = net.node("Cast", &[&product], &float)?;
        let y = net.node("Mul", &[&product, &scale], &[])?;
        net.output("y", &y)?;
        Ok(net.finish())
    }

    /// Layers are found by the indices of nodes, so that both forms have the same ones.
    #[test]
    fn an_outline_has_the_nodes_and_shapes_of_the_model_in_floats() {
        let model = quantized().unwrap();
        let (outline, floats) = (outline_in_floats(&model), in_floats(&model));
        assert_eq!(outline.nodes, floats.nodes);
        let shapes = |model: &Model| -> Vec<(String, Element, Vec<usize>)> {
            let tensors = model.tensors.iter();
            tensors.map(|one| (one.name.clone(), one.element, one.shape.clone())).collect()
        };
        assert_eq!(shapes(&outline), shapes(&floats));
        let is_new = |one: &&Tensor| model.tensors.iter().all(|other| other.name != one.name);
        let made: Vec<&Tensor> = outline.tensors.iter().filter(is_new).collect();
        // Five weights, and the scale of the codes of `MatMulInteger`.
        assert_eq!(made.len(), 6);
        assert!(made.iter().all(|one| matches!(one.values, Values::Filled(..))));
    }

    /// The layers of a large model need none of its weights.
    #[test]
    fn an_outline_reads_no_file() {
        let mut model = quantized().unwrap();
        let expected = outline_in_floats(&model).into_owned();
        for tensor in model.tensors.iter_mut().filter(|tensor| tensor.shape.len() == 2) {
            let length = tensor.bytes();
            let path = PathBuf::from("there is no such file");
            tensor.values = Values::External { path, offset: 0, length };
        }
        assert_eq!(outline_in_floats(&model).nodes, expected.nodes);
        let is_made =
            |model: &Model| model.tensors.iter().any(|tensor| tensor.name == "channels.weight");
        assert!(is_made(&outline_in_floats(&model)) && !is_made(&in_floats(&model)));
    }
}
