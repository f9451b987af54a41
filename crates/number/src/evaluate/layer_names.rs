//! Both names of a layer. The engine of chains names a layer after its node if the name of its
//! weights has no known ending; the engine of graphs names it after its weights. Each of them
//! accepts both.

use std::borrow::Cow;
use std::collections::BTreeSet;

use dyno_onnx::{Model, Tensor, in_floats};

use super::{graph, read};
use crate::assignment::Assignment;
use crate::config::Dictionary;

/// Returns a chain in which layers with formats of their own have weights of their own. Layers that
/// share weights are several objects in the engine of chains, but one in that of graphs. `None` if
/// there are no such layers.
pub(super) fn with_own_weights(model: &Model, formats: &Dictionary) -> Option<Model> {
    let (stages, _) = read::stages(model).ok()?;
    let mut made = model.clone();
    let mut seen = BTreeSet::new();
    let (mut next, mut is_changed) = (0, false);
    for product in stages.iter().filter_map(|stage| stage.product.as_ref()) {
        let is_its = |node: &dyno_onnx::Node| node.inputs.get(1) == Some(&product.tensor);
        let at = next + made.nodes[next..].iter().position(is_its)?;
        next = at + 1;
        let is_named = |(object, _): (&str, _)| {
            object.rsplit_once('.').is_some_and(|(layer, _)| layer == product.name)
        };
        if seen.insert(&product.tensor) || !formats.iter().any(is_named) {
            continue;
        }
        let name = format!("{}.weight", product.name);
        let tensor = made.tensors.iter().find(|tensor| tensor.name == product.tensor)?;
        let tensor = Tensor { name: name.clone(), ..tensor.clone() };
        made.tensors.push(tensor);
        made.nodes[at].inputs[1] = name;
        is_changed = true;
    }
    is_changed.then_some(made)
}

/// Layers of a model that have two names.
///
/// ```
/// use dyno_number::evaluate::LayerNames;
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("small", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let weight = net.weight("onnx::MatMul_12", &[4, 3], Fill::he(4))?;
/// let y = net.node("MatMul", &[&x, &weight], &[])?;
/// net.output("y", &y)?;
/// let names = LayerNames::new(&net.finish());
/// let known = ["onnx::MatMul_12.weight".to_owned(), "onnx::MatMul_12.input".to_owned()];
/// let by_node = names.layers().next().expect("a layer with two names").0;
/// assert_eq!(names.objects(&format!("{by_node}.weight"), &known), known[..1]);
/// assert!(names.objects("fc1.weight", &known).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerNames {
    /// In the engine of chains, and in that of graphs.
    pairs: Vec<(String, String)>,
}

impl LayerNames {
    /// Returns the layers of a chain whose names differ; empty for other models.
    pub fn new(model: &Model) -> Self {
        let model = &*in_floats(model);
        let (Ok((stages, _)), Ok((_, of_nodes))) = (read::stages(model), graph::names(model))
        else {
            return Self::default();
        };
        let products = stages.iter().filter_map(|stage| stage.product.as_ref());
        let pair = |product: &super::stage::Product| {
            let is_its = |node: &dyno_onnx::Node| node.inputs.get(1) == Some(&product.tensor);
            let by_weights = of_nodes.get(&model.nodes.iter().position(is_its)?)?;
            (*by_weights != product.name).then(|| (product.name.clone(), by_weights.clone()))
        };
        Self { pairs: products.filter_map(pair).collect() }
    }

    /// Returns whether no layer has two names.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Iterates over both names of each layer: after its node, and after its weights.
    pub fn layers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(node, weights)| (node.as_str(), weights.as_str()))
    }

    /// Returns the objects among `known` that a name means: itself, or those with the other name of
    /// its layer. Layers that share weights are several objects of a chain.
    pub fn objects(&self, object: &str, known: &[String]) -> Vec<String> {
        if known.iter().any(|other| other == object) {
            return vec![object.to_owned()];
        }
        let Some((layer, role)) = object.rsplit_once('.') else { return Vec::new() };
        let other = |(node, weights): (&str, &str)| {
            let name = if layer == node { weights } else { node };
            let object = (layer == node || layer == weights).then(|| format!("{name}.{role}"))?;
            known.contains(&object).then_some(object)
        };
        let mut found: Vec<String> = self.layers().filter_map(other).collect();
        found.dedup();
        found
    }

    /// Returns an assignment by the names of `known`. Names that mean none of them stay.
    pub fn assignment(&self, assignment: &Assignment, known: &[String]) -> Assignment {
        let (objects, formats) = assignment
            .iter()
            .map(|(object, format)| (self.objects_or_itself(object, known), format))
            .unzip();
        Assignment::new(objects, formats)
    }

    /// Returns the objects among `known` that a name means, or the name if it means none.
    pub(super) fn objects_or_itself(&self, object: &str, known: &[String]) -> Vec<String> {
        let found = self.objects(object, known);
        if found.is_empty() { vec![object.to_owned()] } else { found }
    }

    /// Returns formats by the names of `known`. Names that mean none of them stay, and those of
    /// layers that share weights in different formats.
    pub fn resolve<'f>(
        model: &Model,
        formats: &'f Dictionary,
        known: &[String],
    ) -> Cow<'f, Dictionary> {
        if formats.iter().all(|(object, _)| known.iter().any(|other| other == object)) {
            return Cow::Borrowed(formats);
        }
        let names = Self::new(model);
        let mut found = Dictionary::new();
        for (object, format) in formats.iter() {
            let mut objects = names.objects_or_itself(object, known);
            let differs = |name: &String| found.find(name).is_some_and(|other| other != format);
            if objects.iter().any(differs) {
                objects = vec![object.to_owned()];
            }
            for name in &objects {
                // A node may have a name that a file cannot hold.
                if found.set(name, format).is_err() {
                    return Cow::Borrowed(formats);
                }
            }
        }
        Cow::Owned(found)
    }
}
