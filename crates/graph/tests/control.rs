//! Graphs inside nodes, and recurrent nodes.

use std::sync::Arc;

use dyno_graph::{Graph, Session, SessionOptions, Value};
use dyno_onnx::{Attribute, Body, Element, Model, Node, Port, Tensor};

fn port(name: &str) -> Port {
    Port { name: name.into(), element: None, shape: None }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<(&str, Attribute)>) -> Node {
    Node {
        name: format!("{op}_0"),
        op: op.into(),
        domain: String::new(),
        inputs: inputs.iter().map(|name| (*name).into()).collect(),
        outputs: outputs.iter().map(|name| (*name).into()).collect(),
        attributes: attributes.into_iter().map(|(name, value)| (name.into(), value)).collect(),
    }
}

fn body(inputs: &[&str], outputs: &[&str], nodes: Vec<Node>, tensors: Vec<Tensor>) -> Attribute {
    let ports = |names: &[&str]| names.iter().map(|name| port(name)).collect();
    let (name, value_info) = ("body".into(), Vec::new());
    Body { name, inputs: ports(inputs), outputs: ports(outputs), value_info, nodes, tensors }.into()
}

fn model(inputs: &[&str], outputs: &[&str], nodes: Vec<Node>, tensors: Vec<Tensor>) -> Model {
    Model {
        name: "net".into(),
        producer: String::new(),
        ir_version: 8,
        operator_sets: vec![(String::new(), 17)],
        inputs: inputs.iter().map(|name| port(name)).collect(),
        outputs: outputs.iter().map(|name| port(name)).collect(),
        value_info: Vec::new(),
        nodes,
        tensors,
    }
}

fn session(inputs: &[&str], outputs: &[&str], nodes: Vec<Node>, tensors: Vec<Tensor>) -> Session {
    let model = model(inputs, outputs, nodes, tensors);
    Session::new(Arc::new(Graph::new(&model).expect("a valid case")), &SessionOptions::default())
}

fn floats(dims: &[usize], all: &[f32]) -> Value {
    Value::new(dims, all.to_vec()).expect("a valid case")
}

#[test]
fn branches_read_values_around_them() {
    let then = body(&[], &["a"], vec![node("Add", &["x", "x"], &["a"], vec![])], vec![]);
    let other = body(&[], &["b"], vec![node("Neg", &["x"], &["b"], vec![])], vec![]);
    let choice = node("If", &["c"], &["y"], vec![("then_branch", then), ("else_branch", other)]);
    let sum = node("Sub", &["y", "x"], &["z"], vec![]);
    let mut session = session(&["c", "x"], &["z"], vec![choice, sum], vec![]);
    let x = floats(&[2], &[3.0, 5.0]);
    for (condition, expected) in [(true, [3.0, 5.0]), (false, [-6.0, -10.0]), (true, [3.0, 5.0])] {
        let found = session.run(&[Value::scalar(condition), x.clone()]).unwrap();
        assert_eq!(found[0].as_slice::<f32>().unwrap(), expected);
    }
}

#[test]
fn loops_carry_values_and_join_slices() {
    // s <- s + x, while s < 10; the sums are joined.
    let nodes = vec![
        node("Add", &["s", "x"], &["next"], vec![]),
        node("Less", &["next", "limit"], &["more"], vec![]),
    ];
    let limit = vec![Tensor::from_f32("limit", &[], &[10.0])];
    let inner = body(&["i", "go", "s"], &["more", "next", "next"], nodes, limit);
    let all = |condition: &str| {
        let inputs = ["trips", condition, "start"];
        let all = node("Loop", &inputs, &["last", "sums"], vec![("body", inner.clone())]);
        session(&["trips", "begins", "start", "x"], &["last", "sums"], vec![all], vec![])
    };
    let run = |mut session: Session, trips: i64, begins: bool| {
        let (trips, begins) = (Value::scalar(trips), Value::scalar(begins));
        let inputs = [trips, begins, Value::scalar(0.0_f32), Value::scalar(4.0_f32)];
        session.run(&inputs).map_err(|error| error.to_string()).map(|found| {
            found.iter().map(|value| value.as_slice::<f32>().unwrap().to_vec()).collect::<Vec<_>>()
        })
    };
    assert_eq!(run(all("begins"), 100, true).unwrap(), [vec![12.0], vec![4.0, 8.0, 12.0]]);
    assert_eq!(run(all("begins"), 2, true).unwrap(), [vec![8.0], vec![4.0, 8.0]]);
    // ONNX: without a condition, that of the body is ignored; ONNX Runtime ends the loop.
    for trips in [2, 3] {
        let sums: Vec<f32> = (1..=trips).map(|n| 4.0 * n as f32).collect();
        let last = sums[sums.len() - 1..].to_vec();
        assert_eq!(run(all(""), trips, false).unwrap(), [last, sums]);
    }
    let error = run(all(""), 4, false).unwrap_err();
    assert!(error.contains("'Loop_0' (Loop)") && error.contains("after 3 iterations"), "{error}");
}

/// Without an iteration, the declared type decides: no slices of two numbers.
#[test]
fn joined_slices_of_no_iteration_have_the_declared_type() {
    let sized = |name: &str, dims: Vec<dyno_onnx::Dim>| Port {
        name: name.into(),
        element: Some(Element::I64),
        shape: Some(dims),
    };
    let run = |slice: Port| {
        let nodes = vec![
            node("Identity", &["go"], &["more"], vec![]),
            node("Identity", &["x"], &["slice"], vec![]),
        ];
        let inner = Body {
            name: "body".into(),
            inputs: vec![port("i"), port("go")],
            outputs: vec![port("more"), slice],
            value_info: Vec::new(),
            nodes,
            tensors: Vec::new(),
        };
        let all = node("Loop", &["trips", ""], &["ys"], vec![("body", inner.into())]);
        let mut session = session(&["trips", "x"], &["ys"], vec![all], vec![]);
        let x = Value::new(vec![2], vec![7_i64, 8]).expect("a valid case");
        session.run(&[Value::scalar(0_i64), x]).map(|mut found| found.remove(0))
    };
    let none = |dims: &[usize]| Value::new(dims, Vec::<i64>::new()).expect("a valid case");
    assert_eq!(run(sized("slice", vec![2.into()])), Ok(none(&[0, 2])));
    // As in ONNX Runtime, a dimension without a size is 0.
    let open = dyno_onnx::Dim::Symbol("n".into());
    assert_eq!(run(sized("slice", vec![open, 3.into()])), Ok(none(&[0, 0, 3])));
    let error = run(port("slice")).expect_err("an invalid case").to_string();
    assert!(error.contains("'Loop_0' (Loop)") && error.contains("declares no type"), "{error}");
}

/// The body declares nothing, but the model declares two numbers, which the body joins to three.
#[test]
fn joined_slices_of_no_iteration_have_the_inferred_type() {
    let one = vec![Tensor::from_f32("one", &[1], &[1.0])];
    let nodes = vec![
        node("Identity", &["go"], &["more"], vec![]),
        node("Concat", &["x", "one"], &["slice"], vec![("axis", Attribute::Int(0))]),
    ];
    let inner = body(&["i", "go"], &["more", "slice"], nodes, one);
    let all = node("Loop", &["trips", ""], &["ys"], vec![("body", inner)]);
    let typed = |name: &str, element: Element, shape: Vec<dyno_onnx::Dim>| Port {
        element: Some(element),
        shape: Some(shape),
        ..port(name)
    };
    let model = Model {
        name: "net".into(),
        producer: String::new(),
        ir_version: 8,
        operator_sets: vec![(String::new(), 17)],
        inputs: vec![
            typed("trips", Element::I64, vec![]),
            typed("x", Element::F32, vec![2.into()]),
        ],
        outputs: vec![port("ys")],
        value_info: Vec::new(),
        nodes: vec![all],
        tensors: Vec::new(),
    };
    let graph = Arc::new(Graph::new(&model).expect("a valid case"));
    let mut session = Session::new(graph, &SessionOptions::default());
    for (trips, expected) in [(0, floats(&[0, 3], &[])), (1, floats(&[1, 3], &[5.0, 6.0, 1.0]))] {
        let found = session.run(&[Value::scalar::<i64>(trips), floats(&[2], &[5.0, 6.0])]);
        assert_eq!(found, Ok(vec![expected]));
    }
}

#[test]
fn a_loop_without_an_end_is_an_error() {
    let inner =
        body(&["i", "go"], &["again"], vec![node("Identity", &["go"], &["again"], vec![])], vec![]);
    let all = node("Loop", &["trips", "c"], &[], vec![("body", inner)]);
    let mut session = session(&["trips", "c"], &["c"], vec![all], vec![]);
    let mut run = |trips: i64| session.run(&[Value::scalar(trips), Value::scalar(true)]);
    let error = run(i64::MAX).unwrap_err().to_string();
    assert!(error.contains("'Loop_0' (Loop)") && error.contains("65536 iterations"), "{error}");
    // More iterations are fine if the model states how many.
    assert!(run(70_000).is_ok());
}

#[test]
fn scans_go_over_an_axis() {
    let nodes = vec![
        node("Add", &["s", "x"], &["next"], vec![]),
        node("Identity", &["next"], &["out"], vec![]),
    ];
    let inner = body(&["s", "x"], &["next", "out"], nodes, vec![]);
    let attributes = vec![
        ("body", inner),
        ("num_scan_inputs", Attribute::Int(1)),
        ("scan_input_axes", Attribute::Ints(vec![1])),
        ("scan_input_directions", Attribute::Ints(vec![1])),
    ];
    let scan = node("Scan", &["s0", "xs"], &["s", "ys"], attributes);
    let mut session = session(&["s0", "xs"], &["s", "ys"], vec![scan], vec![]);
    let xs = floats(&[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    let found = session.run(&[floats(&[2], &[0.0, 0.0]), xs]).unwrap();
    assert_eq!(found[0].as_slice::<f32>().unwrap(), [6.0, 60.0]);
    assert_eq!(
        (found[1].dims(), found[1].as_slice::<f32>().unwrap()),
        (&[3, 2][..], &[3.0, 30.0, 5.0, 50.0, 6.0, 60.0][..])
    );
}

/// Axes and directions of a `Scan` are checked when the model is loaded.
#[test]
fn scans_over_axes_that_values_lack_are_errors_of_the_model() {
    let load = |attribute: &str, number: i64| {
        let sized = |name: &str, rank: usize| Port {
            name: name.into(),
            element: Some(Element::F32),
            shape: Some(vec![2.into(); rank]),
        };
        let inner = Body {
            name: "body".into(),
            inputs: vec![sized("x", 1)],
            outputs: vec![sized("out", 1)],
            value_info: Vec::new(),
            nodes: vec![node("Neg", &["x"], &["out"], vec![])],
            tensors: Vec::new(),
        };
        let attributes = vec![
            ("body", inner.into()),
            ("num_scan_inputs", Attribute::Int(1)),
            (attribute, Attribute::Ints(vec![number])),
        ];
        let model = Model {
            name: "net".into(),
            producer: String::new(),
            ir_version: 8,
            operator_sets: vec![(String::new(), 17)],
            inputs: vec![sized("xs", 2)],
            outputs: vec![port("ys")],
            value_info: Vec::new(),
            nodes: vec![node("Scan", &["xs"], &["ys"], attributes)],
            tensors: Vec::new(),
        };
        Graph::new(&model).map_err(|error| error.to_string())
    };
    for (attribute, valid, invalid) in [
        ("scan_input_axes", [0, -2], [2, -3]),
        ("scan_output_axes", [1, -2], [2, -3]),
        ("scan_input_directions", [0, 1], [2, -1]),
        ("scan_output_directions", [0, 1], [2, -1]),
    ] {
        for number in valid {
            load(attribute, number).expect("a valid case");
        }
        for number in invalid {
            let error = load(attribute, number).expect_err("an invalid case");
            assert!(error.contains("node 'Scan_0' (Scan") && error.contains("scan_"), "{error}");
        }
    }
}

/// An RNN of one unit with ReLU and weights of 1 sums its inputs.
#[test]
fn recurrent_nodes_have_states_lengths_and_both_directions() {
    let one = |name: &str| Tensor::from_f32(name, &[2, 1, 1], &[1.0, 1.0]);
    let attributes = vec![
        ("hidden_size", Attribute::Int(1)),
        ("direction", Attribute::Text("bidirectional".into())),
        ("activations", Attribute::Texts(vec!["Relu".into(), "Relu".into()])),
    ];
    let sums = node("RNN", &["x", "w", "r", "", "lengths", "h"], &["y", "last"], attributes);
    let mut session =
        session(&["x", "lengths", "h"], &["y", "last"], vec![sums], vec![one("w"), one("r")]);
    // Two rows of three steps; the second row has two.
    let x = floats(&[3, 2, 1], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    let lengths = Value::new(vec![2], vec![3_i32, 2]).unwrap();
    let h = floats(&[2, 2, 1], &[100.0, 0.0, 0.0, 1000.0]);
    for _ in 0..2 {
        let found = session.run(&[x.clone(), lengths.clone(), h.clone()]).unwrap();
        // Steps x directions x rows.
        let expected = [101.0, 10.0, 6.0, 1030.0, 103.0, 30.0, 5.0, 1020.0, 106.0, 0.0, 3.0, 0.0];
        assert_eq!(found[0].dims(), [3, 2, 2, 1]);
        assert_eq!(found[0].as_slice::<f32>().unwrap(), expected);
        assert_eq!(found[1].as_slice::<f32>().unwrap(), [106.0, 30.0, 6.0, 1030.0]);
    }
    let long = Value::new(vec![2], vec![4_i32, -1]).unwrap();
    let error = session.run(&[x, long, h]).unwrap_err().to_string();
    assert!(error.contains("'RNN_0' (RNN)") && error.contains("lengths"), "{error}");
}

/// ONNX Runtime writes the default of the standard, which has two activations, for one direction.
#[test]
fn an_rnn_of_one_direction_may_state_the_default_of_two() {
    let weight = |name: &str, weight: f32| Tensor::from_f32(name, &[1, 1, 1], &[weight]);
    let session = |names: [&str; 2]| {
        let names = names.map(String::from).to_vec();
        let attributes = vec![("activations", Attribute::Texts(names))];
        let rnn = node("RNN", &["x", "w", "r"], &["y"], attributes);
        let model = model(&["x"], &["y"], vec![rnn], vec![weight("w", 1.0), weight("r", 2.0)]);
        Graph::new(&model).map(|graph| Session::new(Arc::new(graph), &SessionOptions::default()))
    };
    let found = session(["Tanh", "Tanh"]).unwrap().run(&[floats(&[2, 1, 1], &[0.5, -0.25])]);
    let first = 0.5_f64.tanh();
    let expected = [first, (2.0 * first - 0.25).tanh()];
    for (found, expected) in found.unwrap()[0].as_slice::<f32>().unwrap().iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} instead of {expected}");
    }
    let error = session(["Relu", "Relu"]).err().expect("a list for two directions").to_string();
    assert!(error.contains("a list of 2 activations instead of 1"), "{error}");
}
