//! Tables of small models.

use dyno_onnx::{
    Attribute, BuildError, Builder, Dim, Element, Fill, Name, Tensor, Values, Weights,
};

use super::*;

/// A convolution, a depthwise one, one in two groups, a pool, and a fully connected layer.
fn convnet() -> Result<Model, BuildError> {
    let mut net = Builder::new("small", Weights::seeded(1));
    let shape = [Dim::symbol("N"), 3.into(), 9.into(), 8.into()];
    let x = net.input("image", Element::F32, &shape);
    let pads: [(&str, Attribute); 1] = [("pads", [1, 1, 1, 1].into())];
    let weight = net.weight("conv1.weight", &[4, 3, 3, 3], Fill::he(27))?;
    let bias = net.weight("conv1.bias", &[4], Fill::Uniform(0.1))?;
    let x = net.node("Conv", &[&x, &weight, &bias], &pads)?;
    let x = net.node("Relu", &[&x], &[])?;
    let weight = net.weight("dw.weight", &[4, 1, 3, 3], Fill::he(9))?;
    let strided: [(&str, Attribute); 3] =
        [("pads", [1, 1, 1, 1].into()), ("strides", [2, 2].into()), ("group", 4_i64.into())];
    let x = net.node("Conv", &[&x, &weight], &strided)?;
    let weight = net.weight("pair.weight", &[6, 2, 1, 1], Fill::he(2))?;
    let x = net.node("Conv", &[&x, &weight], &[("group", 2_i64.into())])?;
    let x = net.node("GlobalAveragePool", &[&x], &[])?;
    let x = net.node("Flatten", &[&x], &[])?;
    let weight = net.weight("fc.weight", &[5, 6], Fill::lecun(6))?;
    let x = net.node("Gemm", &[&x, &weight], &[("transB", 1_i64.into())])?;
    net.output("scores", &x)?;
    Ok(net.finish())
}

#[test]
fn a_table_has_the_bits_of_each_layer() {
    let formats = "conv1.weight FIXED 3\nconv1.input FIXED 8\ndw.input EXP 4\nfc.weight FIXED 5\n\
                   fc.input FIXED 7\n";
    let found = table(&convnet().unwrap(), &formats.parse().unwrap(), 16, &BTreeMap::new());
    // 9 x 8 = 72 positions, then 5 x 4 = 20. Bytes: 108 weights of 3 bits take 40.5; 288 outputs
    // with the 4 bits that `dw` reads take 144; its 80 outputs have the default of 16 bits.
    let expected = "\
idx,name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,out_act_bytes,weights_scale_with_batch,weight_bits,in_act_bits,out_act_bits
0,conv1,conv,1,72,3,9,4,7776,41,216,144,0,3,8,4
1,dw,dwconv,4,20,1,9,1,720,72,144,160,0,16,4,16
2,pair,gconv,2,20,2,1,3,240,24,160,105,0,16,16,7
3,fc,fc,1,1,6,1,5,30,19,6,10,0,5,7,16
";
    assert_eq!(found.unwrap().to_string(), expected);
}

#[test]
fn transformers_have_tables_and_products_of_activations() {
    let model = || -> Result<Model, BuildError> {
        let mut net = Builder::new("attention", Weights::seeded(1));
        let ids = net.input("ids", Element::I64, &[Dim::symbol("N"), Dim::symbol("S")]);
        let table = net.weight("words.weight", &[50, 8], Fill::lecun(8))?;
        let x = net.node("Gather", &[&table, &ids], &[])?;
        let weight = net.weight("q.weight", &[8, 8], Fill::lecun(8))?;
        let q = net.node("MatMul", &[&x, &weight], &[])?;
        let turned = net.node("Transpose", &[&x], &[("perm", [0, 2, 1].into())])?;
        let scores = net.node("MatMul", &[&q, &turned], &[])?;
        net.output("scores", &scores)?;
        Ok(net.finish())
    };
    let bind = BTreeMap::from([("S".to_owned(), 6)]);
    let formats = "q.input FIXED 8\n".parse().unwrap();
    let found = table(&model().unwrap(), &formats, 16, &bind).unwrap();
    let lines: Vec<String> = found.layers.iter().map(|layer| layer.line(0)).collect();
    assert_eq!(
        lines,
        [
            "0,words,gather,1,6,0,1,0,0,96,48,48,1,16,64,8",
            "0,q,fc,1,6,8,1,8,384,128,48,96,0,16,8,16",
            // 6 x 8 numbers of q, and 8 x 6 of the words.
            "0,MatMul_3,matmul_act,1,6,8,1,6,288,0,192,72,0,16,16,16",
        ]
    );
    assert!(found.left_out.is_empty());
}

/// Both layers whose outputs are added have the bits of the layer that reads the sum.
#[test]
fn layers_that_feed_a_sum_have_the_bits_of_its_reader() {
    let mut net = Builder::new("residual", Weights::seeded(1));
    let mut x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
    let product = |net: &mut Builder, x: &Name, name: &str| {
        let weight = net.weight(name, &[4, 4], Fill::lecun(4)).unwrap();
        net.node("MatMul", &[x, &weight], &[]).unwrap()
    };
    for names in [["a1.weight", "a2.weight"], ["b1.weight", "b2.weight"]] {
        let left = product(&mut net, &x, names[0]);
        let right = product(&mut net, &left, names[1]);
        let sum = net.node("Add", &[&left, &right], &[]).unwrap();
        let gate = net.node("Sigmoid", &[&sum], &[]).unwrap();
        x = net.node("Mul", &[&gate, &sum], &[]).unwrap();
    }
    net.output("scores", &x).unwrap();
    let formats = "a2.input FIXED 3\nb1.input FIXED 8\nb2.input FIXED 5\n".parse().unwrap();
    let found = table(&net.finish(), &formats, 16, &BTreeMap::new()).unwrap();
    let bits: Vec<_> = found.layers.iter().map(|layer| layer.bits).collect();
    // The first layer that reads `a1` and `b1` is the second of its block; the last sum is the answer.
    assert_eq!(bits, [[16, 16, 3], [16, 3, 8], [16, 8, 5], [16, 5, 16]]);
}

/// A quantized model has further nodes, and its weights are codes of the original ones.
#[test]
fn quantized_models_have_the_layers_of_the_original() {
    let model = || -> Result<Model, BuildError> {
        let mut net = Builder::new("quantized", Weights::seeded(1));
        let mut x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
        let scale = net.tensor(Tensor::from_f32("scale", &[], &[0.5]))?;
        for layer in ["fc1", "fc2"] {
            let name = format!("{layer}.weight_quantized");
            let values = Values::Bytes((0..16).collect());
            let codes =
                Tensor { element: Element::I8, values, ..Tensor::from_f32(&name, &[4, 4], &[]) };
            let codes = net.tensor(codes)?;
            let weight = net.node("DequantizeLinear", &[&codes, &scale], &[])?;
            let input = net.node("QuantizeLinear", &[&x, &scale], &[])?;
            let input = net.node("DequantizeLinear", &[&input, &scale], &[])?;
            x = net.node("MatMul", &[&input, &weight], &[])?;
        }
        net.output("scores", &x)?;
        Ok(net.finish())
    };
    let formats = "fc1.weight FIXED 3\nfc2.weight FIXED 5\n".parse().unwrap();
    let found = table(&model().unwrap(), &formats, 16, &BTreeMap::new()).unwrap();
    let lines: Vec<String> = found.layers.iter().map(|layer| layer.line(0)).collect();
    let expected =
        ["0,fc1,fc,1,1,4,1,4,16,6,8,8,0,3,16,16", "0,fc2,fc,1,1,4,1,4,16,10,8,8,0,5,16,16"];
    assert_eq!(lines, expected);
    assert!(found.left_out.is_empty());
}

#[test]
fn objects_that_are_not_there_are_told() {
    let formats = "conv2.weight FIXED 3\nfc.imput FIXED 3\n".parse().unwrap();
    let refused = table(&convnet().unwrap(), &formats, 16, &BTreeMap::new()).unwrap_err();
    let expected = [
        "there is no object `conv2.weight`; the nearest is `conv1.weight`",
        "there is no object `fc.imput`; the nearest is `fc.input`",
    ];
    assert_eq!(refused, expected);
}

/// Names of weights do not depend on the nodes that reorder them, and several nodes share them.
#[test]
fn graphs_have_the_names_of_their_weights() {
    let model = || -> Result<Model, BuildError> {
        let mut net = Builder::new("cells", Weights::seeded(1));
        let ids = net.input("ids", Element::I64, &[Dim::symbol("N"), Dim::symbol("S")]);
        let table = net.weight("words", &[50, 8], Fill::lecun(8))?;
        let x = net.node("Gather", &[&table, &ids], &[])?;
        let weight = net.weight("both.weight", &[8, 8], Fill::lecun(8))?;
        let turned = net.node("Transpose", &[&weight], &[("perm", [1, 0].into())])?;
        let x = net.node("MatMul", &[&x, &turned], &[])?;
        let x = net.node("MatMul", &[&x, &turned], &[])?;
        let (w, r) = (
            net.weight("rnn.W", &[1, 4, 8], Fill::lecun(8))?,
            net.weight("rnn.R", &[1, 4, 4], Fill::lecun(4))?,
        );
        let x = net.node("RNN", &[&x, &w, &r], &[("hidden_size", 4_i64.into())])?;
        net.output("states", &x)?;
        Ok(net.finish())
    };
    let formats =
        "words.weight FIXED 3\nboth.weight FIXED 5\nboth.input FIXED 7\nrnn.R.weight EXP 4\n";
    let found = table(&model().unwrap(), &formats.parse().unwrap(), 16, &BTreeMap::new()).unwrap();
    let bits: Vec<_> = found.layers.iter().map(|layer| layer.bits).collect();
    assert_eq!(bits, [[3, 64, 7], [5, 7, 7], [5, 7, 16]]);
    assert_eq!(found.left_out, ["RNN RNN_4 is not supported in layer tables"]);
    let formats = "boht.weight FIXED 3\n";
    let unknown = table(&model().unwrap(), &formats.parse().unwrap(), 16, &BTreeMap::new());
    let expected = "there is no object `boht.weight`; the nearest is `both.weight`";
    assert_eq!(unknown.unwrap_err(), [expected]);
}
