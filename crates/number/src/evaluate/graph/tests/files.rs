//! Files of weights and of samples that do not fit the model.

use super::*;

fn refusal(net: Builder, samples: GraphSamples) -> String {
    GraphEvaluator::new(&net.finish(), samples, Default::default()).unwrap_err().to_string()
}

/// A program would not find the file either.
#[test]
fn weights_that_cannot_be_loaded_are_named() {
    for op in ["Gemm", "MatMul"] {
        let mut net = Builder::new("cut", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
        let values = Values::External { path: "no such file".into(), offset: 0, length: 64 };
        let weight = Constant { values, ..Constant::from_f32("fc.weight", &[4, 4], &[0.0; 16]) };
        let weight = net.tensor(weight).unwrap();
        let y = net.node(op, &[&x, &weight], &[]).unwrap();
        net.output("y", &y).unwrap();
        let refused = refusal(net, fed(&[4], CorrectnessRule::Agreement(Agreement::Equal)));
        let expected = format!("node {op}_0 ({op}) reads fc.weight, which cannot be loaded: ");
        assert!(refused.starts_with(&expected), "{refused}");
        assert!(!refused.contains("cmd_fullset"), "{refused}");
    }
}

/// Fractions would be cut off, so that any numbers would be accepted as tokens.
#[test]
fn fractions_and_unknown_rows_are_refused() {
    let tokens = |last: f32| {
        let mut net = Builder::new("tokens", Weights::seeded(1));
        let x = net.input("ids", Element::I64, &[Dim::symbol("N"), 2.into()]);
        let table = net.weight("table.weight", &[9, 4], Fill::lecun(4)).unwrap();
        let y = net.node("Gather", &[&table, &x], &[]).unwrap();
        net.output("y", &y).unwrap();
        let inputs = vec![GraphInput { dims: vec![2], values: vec![0.0, 1.0, 2.0, last] }];
        let correctness = CorrectnessRule::Agreement(Agreement::Equal);
        GraphEvaluator::new(
            &net.finish(),
            GraphSamples { inputs, lengths: None, correctness },
            Default::default(),
        )
    };
    assert!(tokens(8.0).is_ok());
    let refused = tokens(3.5).unwrap_err().to_string();
    assert_eq!(refused, "expected whole numbers for ids (int64), found 3.5 in sample 1");
    let refused = tokens(9.0).unwrap_err().to_string();
    assert_eq!(refused, "expected row numbers of Gather (Gather_0) from -9 to 8, found 9");
}
