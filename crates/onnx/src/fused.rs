//! Operators that combine others: ONNX Runtime's optimizer writes them, and its quantization with the
//! format `QOperator`. They are replaced by the operators of the standard that they combine.

use crate::graph::{Attribute, Model, Node};

/// Prefix of an operator on codes. The name of the operator on numbers follows it.
const QUANTIZED: &str = "QLinear";
/// Domain of the operators of ONNX Runtime.
const RUNTIME: &str = "com.microsoft";

impl Model {
    /// Returns the version of the operators of a domain. The standard one may have either of two names.
    pub fn version_of(&self, domain: &str) -> i64 {
        let is_it =
            |set: &&(String, i64)| set.0 == domain || (domain.is_empty() && set.0 == "ai.onnx");
        self.operator_sets.iter().find(is_it).map_or(1, |set| set.1)
    }

    /// Replaces operators of ONNX Runtime by the operators of the standard that they combine, also in
    /// graphs inside nodes. Nodes whose form is not supported stay.
    ///
    /// ```
    /// use dyno_onnx::{Builder, Element, Weights};
    ///
    /// let mut net = Builder::new("net", Weights::seeded(1));
    /// let x = net.input("x", Element::F32, &[2.into()]);
    /// let y = net.node("Relu", &[&x], &[])?;
    /// net.output("y", &y)?;
    /// let mut model = net.finish();
    /// (model.nodes[0].op, model.nodes[0].domain) = ("FastGelu".into(), "com.microsoft".into());
    /// model.expand_fused();
    /// assert_eq!((&*model.nodes[0].op, &*model.nodes[0].domain), ("Gelu", ""));
    /// # Ok::<(), dyno_onnx::BuildError>(())
    /// ```
    pub fn expand_fused(&mut self) {
        let version = self.version_of("");
        expand(&mut self.nodes, version, &[RUNTIME]);
    }

    /// Replaces what [`Model::expand_fused`] replaces, and the standard's products of codes.
    pub(crate) fn expand_codes(&mut self) {
        let version = self.version_of("");
        expand(&mut self.nodes, version, &[RUNTIME, ""]);
    }
}

/// Replaces nodes of these domains. `version` is that of the standard operators.
fn expand(nodes: &mut Vec<Node>, version: i64, domains: &[&str]) {
    let mut all = Vec::with_capacity(nodes.len());
    for mut node in std::mem::take(nodes) {
        for (_, attribute) in &mut node.attributes {
            if let Attribute::Body(body) = attribute {
                expand(&mut body.nodes, version, domains);
            }
        }
        let is_listed = domains.contains(&node.domain.as_str());
        match is_listed.then(|| replacement(&node, version)).flatten() {
            Some(replacement) => all.extend(replacement),
            None => all.push(node),
        }
    }
    *nodes = all;
}

/// Returns the nodes that compute the output of a node. Returns `None` if the node is not such an
/// operator, or has a form that is not supported.
fn replacement(node: &Node, version: i64) -> Option<Vec<Node>> {
    if node.outputs.len() != 1 {
        return None;
    }
    let mut to = Replacement { node, version, nodes: Vec::new() };
    match node.op.as_str() {
        "FusedConv" => {
            let inputs = [0, 1, 2].map(|at| to.input(at));
            let sum = to.add("Conv", &inputs, to.attributes(&["activation", "activation_params"]));
            let sum = match to.input(3) {
                "" => sum,
                other => to.add("Add", &[&sum, other], Vec::new()),
            };
            to.activate(&sum)?;
        }
        "FusedGemm" => {
            let inputs = [0, 1, 2].map(|at| to.input(at));
            let own = ["activation", PARAMETERS[0], PARAMETERS[1], PARAMETERS[2]];
            let sum = to.add("Gemm", &inputs, to.attributes(&own));
            to.activate(&sum)?;
        }
        "BiasGelu" | "FastGelu" => to.gelu(),
        "QGemm" => to.quantized_gemm()?,
        "MatMulIntegerToFloat" => {
            let [a, b, a_zero, b_zero] = [0, 1, 4, 5].map(|at| to.input(at));
            to.scaled_product([a, b, a_zero, b_zero], [to.input(2), to.input(3)], to.input(6));
        }
        "DynamicQuantizeMatMul" => to.dynamic_product(),
        "QLinearConcat" => {
            let parts = (2..node.inputs.len()).step_by(3);
            let parts: Vec<String> = parts.map(|at| to.numbers(at, 1)).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let joined = to.add("Concat", &parts, to.attributes(&[]));
            to.codes(&joined, 0)?;
        }
        quantized => to.quantized(quantized.strip_prefix(QUANTIZED)?)?,
    }
    Some(to.finish())
}

/// Attributes of an activation's parameters in `FusedGemm`.
const PARAMETERS: [&str; 3] = ["activation_alpha", "activation_beta", "activation_gamma"];

/// Nodes in place of another one.
struct Replacement<'a> {
    node: &'a Node,
    version: i64,
    nodes: Vec<Node>,
}

impl<'a> Replacement<'a> {
    /// Returns the name of an input, or the empty string if it is absent.
    fn input(&self, at: usize) -> &'a str {
        self.node.inputs.get(at).map_or("", String::as_str)
    }

    /// Returns the attributes of the node, without those of these names.
    fn attributes(&self, but: &[&str]) -> Vec<(String, Attribute)> {
        let own = self.node.attributes.iter();
        own.filter(|(name, _)| !but.contains(&name.as_str())).cloned().collect()
    }

    /// Adds a node and returns the name of its output.
    fn add(&mut self, op: &str, inputs: &[&str], attributes: Vec<(String, Attribute)>) -> String {
        self.add_with_outputs(op, inputs, attributes, &[""]).remove(0)
    }

    /// Adds a node and returns the names of its outputs. Each of them ends with one of `ends`.
    fn add_with_outputs(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<(String, Attribute)>,
        ends: &[&str],
    ) -> Vec<String> {
        let (own, at) = (&self.node.outputs[0], self.nodes.len());
        let given = inputs.iter().rposition(|input| !input.is_empty()).map_or(0, |last| last + 1);
        let outputs: Vec<String> = ends.iter().map(|end| format!("{own}#{at}{end}")).collect();
        self.nodes.push(Node {
            name: if self.node.name.is_empty() { own.clone() } else { self.node.name.clone() },
            op: op.to_owned(),
            domain: String::new(),
            inputs: inputs[..given].iter().map(|input| (*input).to_owned()).collect(),
            outputs: outputs.clone(),
            attributes,
        });
        outputs
    }

    /// Returns the nodes. The last one computes the output of the node that they replace.
    fn finish(mut self) -> Vec<Node> {
        if let Some(output) = self.nodes.last_mut().and_then(|node| node.outputs.first_mut()) {
            output.clone_from(&self.node.outputs[0]);
        }
        self.nodes
    }

    /// Adds the activation that the node names.
    fn activate(&mut self, value: &str) -> Option<()> {
        let parameter = |at: usize| {
            let listed = match self.node.attribute("activation_params") {
                Some(Attribute::Floats(all)) => all.get(at).copied(),
                _ => None,
            };
            listed.or(match self.node.attribute(PARAMETERS[at]) {
                Some(Attribute::Float(x)) => Some(*x),
                _ => None,
            })
        };
        let (first, second) = (parameter(0), parameter(1));
        let given = |name: &str, x: Option<f32>| x.map(|x| (name.to_owned(), Attribute::Float(x)));
        match self.node.text("activation") {
            "" => {}
            op @ ("Relu" | "Sigmoid" | "Softplus" | "Softsign" | "Tanh") => {
                self.add(op, &[value], Vec::new());
            }
            op @ ("Elu" | "HardSigmoid" | "LeakyRelu" | "ThresholdedRelu") => {
                let parameters = given("alpha", first).into_iter().chain(given("beta", second));
                self.add(op, &[value], parameters.collect());
            }
            "Clip" if self.version < 11 => {
                let limits = given("min", first).into_iter().chain(given("max", second));
                self.add("Clip", &[value], limits.collect());
            }
            "Clip" => {
                let mut limit = |x: f32| {
                    let number = ("value_float".to_owned(), Attribute::Float(x));
                    self.add("Constant", &[], vec![number])
                };
                let (least, most) = (limit(first?), limit(second?));
                self.add("Clip", &[value, &least, &most], Vec::new());
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds `Gelu` of the sum with a bias, which `FastGelu` may lack.
    fn gelu(&mut self) {
        let sum = match self.input(1) {
            "" => self.input(0).to_owned(),
            bias => self.add("Add", &[self.input(0), bias], Vec::new()),
        };
        let form = if self.node.op == "FastGelu" { "tanh" } else { "none" };
        self.add("Gelu", &[&sum], vec![("approximate".to_owned(), form.into())]);
    }

    /// Adds the numbers of the codes in an input. Their scale and zero point, of which there may be one
    /// for each step along an axis, are the next two inputs.
    fn numbers(&mut self, at: usize, axis: i64) -> String {
        let inputs = [at, at + 1, at + 2].map(|at| self.input(at));
        self.add("DequantizeLinear", &inputs, vec![("axis".to_owned(), axis.into())])
    }

    /// Adds the numbers of a bias in steps of the product of the scales of both operands. Returns the
    /// empty string if it is absent.
    fn bias(&mut self, at: usize) -> String {
        let [x_scale, w_scale, bias] = [1, 4, at].map(|at| self.input(at));
        if bias.is_empty() {
            return String::new();
        }
        let scale = self.add("Mul", &[x_scale, w_scale], Vec::new());
        let axis = ("axis".to_owned(), Attribute::Int(-1));
        self.add("DequantizeLinear", &[bias, &scale], vec![axis])
    }

    /// Adds the codes of a value. Their scale is the input `at`, and their zero point the next one.
    /// Without a zero point, their type is not known.
    fn codes(&mut self, value: &str, at: usize) -> Option<()> {
        let (scale, zero) = (self.input(at), self.input(at + 1));
        if zero.is_empty() {
            return None;
        }
        self.add("QuantizeLinear", &[value, scale, zero], Vec::new());
        Some(())
    }

    /// Adds an operator on the numbers of codes, and the codes of its result.
    fn quantized(&mut self, op: &str) -> Option<()> {
        match op {
            "Conv" => {
                let (x, w, bias) = (self.numbers(0, 1), self.numbers(3, 0), self.bias(8));
                let sums = self.add(op, &[&x, &w, &bias], self.attributes(&[]));
                self.codes(&sums, 6)
            }
            "MatMul" => {
                let (a, b) = (self.numbers(0, -2), self.numbers(3, -1));
                let product = self.add(op, &[&a, &b], Vec::new());
                self.codes(&product, 6)
            }
            "Add" | "Mul" => {
                let (a, b) = (self.numbers(0, 1), self.numbers(3, 1));
                let found = self.add(op, &[&a, &b], Vec::new());
                self.codes(&found, 6)
            }
            "Sigmoid" | "LeakyRelu" => {
                let x = self.numbers(0, 1);
                let found = self.add(op, &[&x], self.attributes(&[]));
                self.codes(&found, 3)
            }
            "AveragePool" | "GlobalAveragePool" if self.node.int("channels_last", 0) == 0 => {
                let x = self.numbers(0, 1);
                let found = self.add(op, &[&x], self.attributes(&["channels_last"]));
                self.codes(&found, 3)
            }
            // Before version 13, `Softmax` is over all axes from `axis` on.
            "Softmax" if (self.node.int("opset", 13) < 13) == (self.version < 13) => {
                let x = self.numbers(0, 1);
                let axis = ("axis".to_owned(), Attribute::Int(self.node.int("axis", -1)));
                let found = self.add(op, &[&x], vec![axis]);
                self.codes(&found, 3)
            }
            _ => None,
        }
    }

    /// Adds the product of two quantized matrices and a bias in steps of the product of their scales.
    fn quantized_gemm(&mut self) -> Option<()> {
        let columns = i64::from(self.node.int("transB", 0) == 0);
        let (a, b, bias) = (self.numbers(0, 1), self.numbers(3, columns), self.bias(6));
        let mut attributes = self.attributes(&[]);
        let alpha = self.node.attribute("alpha").cloned().unwrap_or(Attribute::Float(1.0));
        attributes.push(("beta".to_owned(), alpha));
        let product = self.add("Gemm", &[&a, &b, &bias], attributes);
        if self.input(7).is_empty() { Some(()) } else { self.codes(&product, 7) }
    }

    /// Adds the product of two matrices of codes, times their scales, and a bias that may be absent.
    fn scaled_product(&mut self, operands: [&str; 4], scales: [&str; 2], bias: &str) {
        let sums = self.add("MatMulInteger", &operands, Vec::new());
        let sums = self.add("Cast", &[&sums], vec![("to".to_owned(), 1_i64.into())]);
        let scale = self.add("Mul", &scales, Vec::new());
        let product = self.add("Mul", &[&sums, &scale], Vec::new());
        if !bias.is_empty() {
            self.add("Add", &[&product, bias], Vec::new());
        }
    }

    /// Adds the product of a matrix that is quantized in the run and one of codes.
    fn dynamic_product(&mut self) {
        let [x, b, b_scale, b_zero, bias] = [0, 1, 2, 3, 4].map(|at| self.input(at));
        let ends = ["/codes", "/scale", "/zero"];
        let found = self.add_with_outputs("DynamicQuantizeLinear", &[x], Vec::new(), &ends);
        let [codes, scale, zero] = [0, 1, 2].map(|at| found[at].as_str());
        self.scaled_product([codes, b, zero, b_zero], [scale, b_scale], bias);
    }
}
