//! The reference model of these tests, and changes to it.

use dyno_equivalence::{BeamCounts, Equivalence, Finding, Verdict, compare};
use dyno_loadgen::rng::Mt19937;
use dyno_onnx::{Attribute, Element, Model, Node, Port, Tensor, Values};

/// A model with two convolutions, a pooling layer and a classifier.
pub struct TestModel {
    pub model: Model,
}

pub fn node(op: &str, inputs: &[&str], output: &str) -> Node {
    Node {
        name: String::new(),
        op: op.into(),
        domain: String::new(),
        inputs: inputs.iter().map(|&name| name.into()).collect(),
        outputs: vec![output.into()],
        attributes: Vec::new(),
    }
}

pub fn random(shape: &[usize], seed: u64) -> Vec<f32> {
    let mut rng = Mt19937::new(seed);
    (0..shape.iter().product()).map(|_| rng.canonical() as f32 - 0.5).collect()
}

impl TestModel {
    pub fn reference() -> Self {
        let mut made = Self { model: Self::empty() };
        made.weight("conv1", &[8, 3, 3, 3], 1);
        made.weight("bias1", &[8], 2);
        made.weight("conv2", &[8, 8, 3, 3], 3);
        made.weight("fc", &[8, 40], 4);
        made.model.nodes = vec![
            node("Conv", &["image", "conv1", "bias1"], "a"),
            node("Relu", &["a"], "b"),
            node("Conv", &["b", "conv2"], "c"),
            node("GlobalAveragePool", &["c"], "d"),
            node("Flatten", &["d"], "e"),
            node("MatMul", &["e", "fc"], "scores"),
        ];
        made
    }

    pub fn empty() -> Model {
        let port = |name: &str, shape: &[usize]| Port {
            name: name.into(),
            element: Some(Element::F32),
            shape: Some(shape.iter().map(|&n| n.into()).collect()),
        };
        Model {
            name: "made".into(),
            producer: String::new(),
            ir_version: 8,
            operator_sets: vec![(String::new(), 17)],
            inputs: vec![port("image", &[1, 3, 8, 8])],
            outputs: vec![port("scores", &[1, 40])],
            value_info: Vec::new(),
            nodes: Vec::new(),
            tensors: Vec::new(),
        }
    }

    pub fn weight(&mut self, name: &str, shape: &[usize], seed: u64) {
        self.model.tensors.push(Tensor::from_f32(name, shape, &random(shape, seed)));
    }

    pub fn values(&self, name: &str) -> Vec<f32> {
        self.tensor(name).floats().unwrap()
    }

    pub fn tensor(&self, name: &str) -> &Tensor {
        self.model.tensors.iter().find(|tensor| tensor.name == name).unwrap()
    }

    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut Vec<f32>)) {
        let mut values = self.values(name);
        change(&mut values);
        let tensor = self.model.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
        *tensor = Tensor::from_f32(name, &tensor.shape.clone(), &values);
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let tensor = self.model.tensors.iter_mut().find(|tensor| tensor.name == from).unwrap();
        tensor.name = to.into();
        for input in self.model.nodes.iter_mut().flat_map(|node| &mut node.inputs) {
            if input == from {
                *input = to.into();
            }
        }
    }

    /// Replaces a weight by 8-bit codes and a `DequantizeLinear`.
    pub fn quantize(&mut self, name: &str, per: ScaleGroup, code: impl Fn(f32) -> f32) {
        let tensor = self.tensor(name).clone();
        let values = self.values(name);
        let slice = match per {
            ScaleGroup::Tensor => values.len(),
            ScaleGroup::Channel => values.len() / tensor.shape[0],
        };
        let greatest = |slice: &[f32]| slice.iter().fold(0_f32, |most, x| most.max(x.abs()));
        let scales: Vec<f32> = values.chunks(slice).map(|slice| greatest(slice) / 127.0).collect();
        let codes = values
            .iter()
            .enumerate()
            .map(|(at, value)| code(value / scales[at / slice]).clamp(-127.0, 127.0) as i8 as u8);
        let shape: &[usize] = if scales.len() == 1 { &[] } else { &[scales.len()] };
        let codes = Values::Bytes(codes.collect());
        let (held, scale) = (format!("{name}_quantized"), format!("{name}_scale"));
        self.model.tensors.retain(|tensor| tensor.name != name);
        let (element, shape_of_all) = (Element::I8, tensor.shape);
        self.model.tensors.extend([
            Tensor { name: held.clone(), element, shape: shape_of_all, values: codes },
            Tensor::from_f32(&scale, shape, &scales),
        ]);
        let mut dequantise = node("DequantizeLinear", &[&held, &scale], name);
        dequantise.attributes.push(("axis".into(), Attribute::Int(0)));
        self.model.nodes.insert(0, dequantise);
    }

    pub fn halve(&mut self, name: &str) {
        let values = self.values(name).into_iter();
        let bytes = values.flat_map(|value| half::f16::from_f32(value).to_le_bytes()).collect();
        let tensor = self.model.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
        (tensor.element, tensor.values) = (Element::F16, Values::Bytes(bytes));
    }

    pub fn compared(&self) -> Equivalence {
        compare(&self.model, &Self::reference().model, BeamCounts::default()).unwrap()
    }
}

#[derive(Clone, Copy)]
pub enum ScaleGroup {
    Tensor,
    Channel,
}

#[track_caller]
pub fn finding<'a>(equivalence: &'a Equivalence, name: &str) -> &'a Finding {
    &equivalence.tensors.iter().find(|tensor| tensor.name == name).unwrap().finding
}

#[track_caller]
pub fn check(made: &TestModel, verdict: Verdict, findings: &[(&str, Finding)]) -> Equivalence {
    let equivalence = made.compared();
    for (name, expected) in findings {
        assert_eq!(finding(&equivalence, name), expected, "{name}");
    }
    assert_eq!(equivalence.verdict, verdict, "{:?}", equivalence.reasons);
    assert!(equivalence.reasons.iter().all(|reason| reason.leaves <= verdict));
    equivalence
}

impl TestModel {
    /// Replaces a weight by integers and a scale that the graph multiplies with; `codes` are
    /// little-endian.
    pub fn encode(&mut self, name: &str, element: Element, codes: Vec<u8>, scale: &Tensor) {
        let shape = self.tensor(name).shape.clone();
        self.model.tensors.retain(|tensor| tensor.name != name);
        let held = format!("{name}_quantized");
        let values = Values::Bytes(codes);
        self.model
            .tensors
            .extend([Tensor { name: held.clone(), element, shape, values }, scale.clone()]);
        let mut dequantise = node("DequantizeLinear", &[&held, &scale.name], name);
        dequantise.attributes.push(("axis".into(), Attribute::Int(0)));
        self.model.nodes.insert(0, dequantise);
    }

    /// The attributes of the node that outputs a value.
    pub fn set(&mut self, output: &str, name: &str, value: impl Into<Attribute>) {
        let found = self.model.nodes.iter_mut().find(|node| node.outputs[0] == output).unwrap();
        found.attributes.retain(|(known, _)| known != name);
        found.attributes.push((name.into(), value.into()));
    }
}
