//! What operators cost, against arithmetic by hand.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_onnx::{
    Attribute, BuildError, Builder, Dim, Element, Fact, Model, Name, Node, Port, Tensor, Weights,
    count, count_with, infer,
};

type Inputs<'a> = &'a [(&'a str, Element, &'a [usize])];

/// A model of one node.
fn one(node: Node, inputs: Inputs<'_>, tensors: Vec<Tensor>) -> Model {
    let mut model = Builder::new("one", Weights::seeded(1)).finish();
    let port = |&(name, element, shape): &(&str, Element, &[usize])| Port {
        name: name.into(),
        element: Some(element),
        shape: Some(shape.iter().map(|&n| Dim::Fixed(n)).collect()),
    };
    model.inputs = inputs.iter().map(port).collect();
    (model.nodes, model.tensors) = (vec![node], tensors);
    model
}

fn node(op: &str, domain: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> Node {
    Node {
        name: op.into(),
        op: op.into(),
        domain: domain.into(),
        inputs: inputs.iter().map(|&name| name.into()).collect(),
        outputs: vec!["y".into(), "z".into()],
        attributes: attributes
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()))
            .collect(),
    }
}

fn fact(model: &Model, name: &str) -> Fact {
    infer(model, &BTreeMap::new()).facts[name].clone()
}

fn shape(model: &Model) -> String {
    let fact = fact(model, "y");
    let dims: Vec<String> = fact.shape.iter().map(Dim::to_string).collect();
    format!("{:?} {}", fact.element, dims.join(" "))
}

const F: Element = Element::F32;
const B: Element = Element::U8;

#[test]
fn an_einsum_multiplies_all_letters_of_two_operands() {
    let einsum = |equation: &str, inputs: Inputs<'_>| {
        let names: Vec<&str> = inputs.iter().map(|(name, ..)| *name).collect();
        one(node("Einsum", "", &names, &[("equation", equation.into())]), inputs, Vec::new())
    };
    let product = einsum("bhqd, bhkd -> bhqk", &[("a", F, &[2, 3, 5, 7]), ("b", F, &[2, 3, 4, 7])]);
    assert_eq!(shape(&product), "F32 2 3 5 4");
    assert_eq!(count(&product).macs(), 2 * 3 * 5 * 4 * 7);
    let turned = einsum("ij->ji", &[("a", F, &[2, 3])]);
    assert_eq!((shape(&turned), count(&turned).macs()), ("F32 3 2".into(), 0));
    let implied = einsum("ij,jk", &[("a", F, &[2, 3]), ("b", F, &[3, 4])]);
    assert_eq!((shape(&implied), count(&implied).macs()), ("F32 2 4".into(), 24));
    let three = einsum("i,ij,j->", &[("a", F, &[2]), ("b", F, &[2, 3]), ("c", F, &[3])]);
    let left = &count(&three).uncounted[0];
    assert_eq!(left.op, "Einsum");
    assert!(left.reason.to_string().starts_with("more than two operands"), "{}", left.reason);
    let wrong = einsum("ij,jk->ik", &[("a", F, &[2, 3]), ("b", F, &[4, 5])]);
    assert_eq!(count(&wrong).uncounted[0].reason.to_string(), "'j' of 'ij,jk->ik' is 3 and 4");
}

/// ONNX: without axes a reduction is over all of them, or over none if `noop_with_empty_axes` is set.
#[test]
fn a_reduction_of_no_axes_keeps_the_shape() {
    for op in ["ReduceSum", "ReduceLogSum", "ReduceSumSquare", "ReduceL2"] {
        let inputs: Inputs<'_> = &[("x", F, &[2, 3])];
        let of = |attributes: &[(&str, Attribute)]| {
            shape(&one(node(op, "", &["x"], attributes), inputs, Vec::new()))
        };
        assert_eq!(of(&[("noop_with_empty_axes", 1.into())]), "F32 2 3", "{op}");
        assert_eq!(of(&[]), "F32 1 1", "{op}");
        assert_eq!(of(&[("axes", Attribute::Ints(Vec::new()))]), "F32 1 1", "{op}");
    }
}

#[test]
fn quantized_products_count_as_those_of_floats() {
    let point = Tensor { element: Element::I8, ..Tensor::from_f32("yz", &[], &[]) };
    let names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"];
    let conv = one(
        node("QLinearConv", "", &names, &[]),
        &[("x", B, &[1, 3, 8, 8]), ("w", Element::I8, &[4, 3, 3, 3])],
        vec![point.clone()],
    );
    assert_eq!((shape(&conv), count(&conv).macs()), ("I8 1 4 6 6".into(), 36 * 4 * 27));
    let matmul = one(
        node("QLinearMatMul", "", &names, &[]),
        &[("x", B, &[5, 6]), ("w", B, &[6, 7])],
        vec![point],
    );
    assert_eq!((shape(&matmul), count(&matmul).macs()), ("I8 5 7".into(), 5 * 6 * 7));
    let inputs: Inputs<'_> = &[("x", B, &[5, 6]), ("w", B, &[6, 7])];
    let gemm = one(node("QGemm", "com.microsoft", &names[..6], &[]), inputs, Vec::new());
    assert_eq!((shape(&gemm), count(&gemm).macs()), ("F32 5 7".into(), 5 * 6 * 7));
    let inputs: Inputs<'_> = &[("a", B, &[5, 6]), ("b", B, &[6, 7])];
    let matmul = one(node("MatMulInteger", "", &["a", "b"], &[]), inputs, Vec::new());
    assert_eq!((shape(&matmul), count(&matmul).macs()), ("I32 5 7".into(), 5 * 6 * 7));
    let inputs: Inputs<'_> = &[("a", B, &[1, 3, 8, 8]), ("b", B, &[4, 3, 3, 3])];
    let conv = one(node("ConvInteger", "", &["a", "b"], &[]), inputs, Vec::new());
    assert_eq!((shape(&conv), count(&conv).macs()), ("I32 1 4 6 6".into(), 36 * 4 * 27));
    let inputs: Inputs<'_> = &[("x", B, &[5, 6]), ("s", F, &[])];
    let back = one(node("DequantizeLinear", "", &["x", "s"], &[]), inputs, Vec::new());
    assert_eq!((shape(&back), count(&back).macs()), ("F32 5 6".into(), 0));
}

#[test]
fn attentions_of_onnx_runtime_project_ask_and_sum() {
    let attention = one(
        node("Attention", "com.microsoft", &["x", "w", "b"], &[("num_heads", 2.into())]),
        &[("x", F, &[1, 10, 8]), ("w", F, &[8, 24]), ("b", F, &[24])],
        Vec::new(),
    );
    assert_eq!(shape(&attention), "F32 1 10 8");
    assert_eq!(count(&attention).macs(), 10 * 8 * 24 + 2 * 10 * 10 * 8);
    let inputs: Inputs<'_> = &[("q", F, &[1, 10, 8]), ("k", F, &[1, 5, 8]), ("v", F, &[1, 5, 8])];
    let many = node("MultiHeadAttention", "com.microsoft", &["q", "k", "v"], &[]);
    let attention = one(many, inputs, Vec::new());
    assert_eq!(count(&attention).macs(), 2 * 10 * 5 * 8);
    let group = node("GroupQueryAttention", "com.microsoft", &["q", "k", "v"], &[]);
    let left = count(&one(group, inputs, Vec::new())).uncounted;
    assert_eq!(left[0].op, "com.microsoft.GroupQueryAttention");
}

#[test]
fn what_depends_on_data_is_a_symbol_and_what_it_feeds_is_not_counted() {
    let top = one(
        node("TopK", "", &["x", "k"], &[]),
        &[("x", F, &[2, 9])],
        vec![Tensor::from_i64("k", &[1], &[3])],
    );
    assert_eq!(shape(&top), "F32 2 3");
    assert_eq!(fact(&top, "z").element, Element::I64);
    let mut found = one(
        node("NonMaxSuppression", "", &["boxes", "scores"], &[]),
        &[("boxes", F, &[1, 9, 4]), ("scores", F, &[1, 2, 9])],
        vec![Tensor::from_f32("w", &[3, 5], &[0.0; 15])],
    );
    assert_eq!(shape(&found), "I64 ? 3");
    let mut product = node("MatMul", "", &["y", "w"], &[]);
    product.outputs = vec!["p".into()];
    found.nodes.push(product);
    let cost = count(&found);
    assert_eq!(cost.macs(), 0);
    assert_eq!(cost.uncounted.iter().map(|one| one.op.as_str()).collect::<Vec<_>>(), ["MatMul"]);
}

/// Adds x to what is carried as often as `limit` says, multiplied by w each time.
fn looping(limit: i64) -> Result<Model, BuildError> {
    let mut net = Builder::new("looping", Weights::seeded(1));
    let x = net.input("x", F, &[Dim::symbol("N"), 4.into()]);
    let w = net.weight("w", &[4, 4], dyno_onnx::Fill::lecun(4))?;
    let limit = net.tensor(Tensor::from_i64("limit", &[], &[limit]))?;
    let mut body = net.body("body");
    body.input("turn", Element::I64, &[]);
    let goes_on = body.input("goes_on", Element::Bool, &[]);
    let sum = body.input("sum", F, &[Dim::symbol("N"), 4.into()]);
    let y = body.node("MatMul", &[&sum, &w], &[])?;
    let y = body.node("Add", &[&y, &x], &[])?;
    body.output("still", &goes_on)?;
    body.output("carried", &y)?;
    body.output("seen", &y)?;
    let body = body.finish_body();
    let inputs = [&limit, &Name::NONE, &x];
    let [sum, all] = net.nodes("Loop", &inputs, &[("body", body.into())])?;
    net.output("last", &sum)?;
    net.output("all", &all)?;
    Ok(net.finish())
}

#[test]
fn a_loop_of_a_known_length_counts_as_often_as_it_runs() {
    let model = looping(6).unwrap();
    let read = Model::from_bytes(&model.to_bytes().unwrap(), Path::new("")).unwrap();
    assert_eq!((&read.nodes, &read.outputs), (&model.nodes, &model.outputs));
    let dims = |at: usize| read.outputs[at].shape.clone().unwrap();
    assert_eq!(dims(0), [Dim::symbol("N"), 4.into()]);
    assert_eq!(dims(1), [6.into(), Dim::symbol("N"), 4.into()]);
    let cost = count(&read);
    assert_eq!((cost.parameters, cost.macs()), (16, 6 * 16));
    assert_eq!(cost.uncounted, []);
    let layer = cost.layers.iter().find(|layer| layer.op == "MatMul").unwrap();
    assert_eq!((layer.runs, layer.macs, layer.weight_bytes), (6, 16, 64));
    assert!(layer.name.starts_with("Loop_0/"), "{}", layer.name);
    let eight = BTreeMap::from([("N".to_owned(), 8)]);
    assert_eq!(count_with(&read, &eight).macs(), 8 * 6 * 16);
}

#[test]
fn a_loop_whose_end_depends_on_data_is_listed_with_its_weights_known() {
    let mut model = looping(6).unwrap();
    model.tensors.retain(|tensor| tensor.name != "limit");
    model.inputs.push(Port {
        name: "limit".into(),
        element: Some(Element::I64),
        shape: Some(Vec::new()),
    });
    let cost = count(&model);
    assert_eq!((cost.parameters, cost.macs()), (16, 0));
    let left: Vec<_> =
        cost.uncounted.iter().map(|one| (&*one.name, one.reason.to_string())).collect();
    assert_eq!(left, [("Loop_0", "how often it runs depends on data".into())]);
}

#[test]
fn of_a_branch_nothing_is_guessed() {
    let mut net = Builder::new("branch", Weights::seeded(1));
    let which = net.input("which", Element::Bool, &[]);
    let x = net.input("x", F, &[4.into(), 4.into()]);
    let side = |net: &Builder, name: &str, op: &str| {
        let mut body = net.body(name);
        let y = body.node(op, &[&x, &x], &[]).unwrap();
        body.output(&format!("{name}_y"), &y).unwrap();
        Attribute::from(body.finish_body())
    };
    let sides =
        [("then_branch", side(&net, "yes", "MatMul")), ("else_branch", side(&net, "no", "Add"))];
    let y = net.node("If", &[&which], &sides).unwrap();
    net.output("y", &y).unwrap();
    let cost = count(&net.finish());
    assert_eq!(cost.macs(), 0);
    let left: Vec<_> =
        cost.uncounted.iter().map(|one| (&*one.op, one.reason.to_string())).collect();
    assert_eq!(left, [("If", "which of its graphs runs depends on data".into())]);
}

#[test]
fn a_table_is_read_by_the_rows_that_are_picked() {
    let gather = one(
        node("Gather", "", &["table", "rows"], &[]),
        &[("rows", Element::I64, &[3])],
        vec![Tensor::from_f32("table", &[100, 8], &[0.0; 800])],
    );
    let cost = count(&gather);
    let layer = &cost.layers[0];
    assert_eq!((layer.weight_bytes, layer.input_bytes, layer.output_bytes), (96, 24, 96));
    assert_eq!((layer.bytes(), layer.operations_per_byte()), (216, 0.0));
}

#[test]
fn weights_that_a_node_turns_or_widens_stay_weights_of_the_size_in_the_file() {
    let bytes = Tensor { element: Element::I8, ..Tensor::from_i64("w", &[7, 6], &[]) };
    let scale = Tensor::from_f32("scale", &[], &[0.5]);
    let mut model =
        one(node("DequantizeLinear", "", &["w", "scale"], &[]), &[], vec![bytes, scale]);
    let renamed = |op: &str, inputs: &[&str], output: &str| {
        let mut node = node(op, "", inputs, &[]);
        node.outputs = vec![output.into()];
        node
    };
    model.nodes.push(renamed("Transpose", &["y"], "turned"));
    model.nodes.push(renamed("MatMul", &["x", "turned"], "out"));
    model.inputs.push(Port {
        name: "x".into(),
        element: Some(F),
        shape: Some(vec![5.into(), 6.into()]),
    });
    let cost = count(&model);
    let rows: Vec<_> = cost.layers.iter().map(|one| (&*one.op, one.runs)).collect();
    assert_eq!(rows, [("DequantizeLinear", 0), ("Transpose", 0), ("MatMul", 1)]);
    let product = &cost.layers[2];
    let bytes = (product.weight_bytes, product.input_bytes, product.output_bytes);
    assert_eq!(bytes, (7 * 6 + 4, 4 * 5 * 6, 4 * 5 * 7));
    assert_eq!(cost.macs(), 5 * 6 * 7);
}
