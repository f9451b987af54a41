//! Invalid networks and calls, and their errors.

use dyno_rnn::network::{
    CallError, DenseLayer, Feed, HighwayLayer, Network, NetworkEngine, Node, Scope, Score, TensorId,
};
use dyno_rnn::{Activation, Isa, Precision, Team};

use super::{Numbers, setup};

/// Ids of five steps and two rows, vectors of three numbers for each, and a vector per row.
fn draft() -> (Network, [TensorId; 3]) {
    let mut network = Network::default();
    let mut add = |name, node| network.add(name, node).expect("nodes that fit");
    let ids = add("ids", Node::Ids { steps: 5, batch: 2 });
    let table = vec![0.5; 4 * 3].into();
    let vectors = add("vectors", Node::Embedding { ids, table, width: 3 });
    let most = add("most", Node::MaxPool { input: vectors });
    (network, [ids, vectors, most])
}

/// Returns the error of adding a node.
fn refused(node: Node) -> String {
    draft().0.add("new", node).expect_err("a node that does not fit").to_string()
}

#[test]
fn nodes_that_do_not_fit_are_named_with_what_they_need() {
    let [ids, vectors, most] = draft().1;
    let dense = |inputs, bias: usize| DenseLayer {
        inputs,
        weights: vec![0.0; inputs * bias],
        bias: vec![0.0; bias],
        activation: Activation::Relu,
    };
    let node = Node::Dense { input: vectors, dense: dense(4, 2).into() };
    assert_eq!(refused(node), "node new: expected 3 inputs, found 4");
    let highway = HighwayLayer { gate: dense(3, 3), candidate: dense(3, 3) };
    let node = Node::Highway { input: vectors, highway: highway.into() };
    assert_eq!(refused(node), "node new: expected 1 logistic functions at the gate, found 0");
    let node = Node::Last { input: vectors };
    assert_eq!(refused(node), "node new: expected 1 recurrent layers, found 0");
    let node = Node::Softmax { input: vectors, over: Scope::Row };
    assert_eq!(refused(node), "node new: expected 1 numbers of a step, found 3");
    let node = Node::Match { query: vectors, keys: vectors, score: Score::Dot };
    assert_eq!(refused(node), "node new: expected 1 steps of a query, found 5");
    let score = Score::Additive(vec![1.0]);
    let node = Node::Match { query: most, keys: vectors, score };
    assert_eq!(refused(node), "node new: expected 3 numbers of v, found 1");
    let node = Node::Join { parts: vec![vectors, ids] };
    assert_eq!(refused(node), "node new: expected 1 numbers or more of a part, found 0");
    let node = Node::Rows { input: most, rows: 1..3 };
    assert_eq!(refused(node), "node new: expected 2 rows, found 3");
    let weights = Numbers(1).take(8, 1.0).into();
    let node = Node::Trilinear { context: vectors, query: vectors, weights };
    assert_eq!(refused(node), "node new: expected 9 weights, found 8");
}

#[test]
fn tensors_of_other_steps_stand_beside_one_another_only_as_single_vectors() {
    let (mut network, [_, vectors, most]) = draft();
    let other = network.add("other", Node::Numbers { steps: 5, batch: 2, width: 3 });
    let other = other.expect("an input");
    let mut join = |parts| network.add("join", Node::Join { parts }).map(|tensor| tensor != most);
    assert_eq!(join(vec![vectors, most]), Ok(true));
    let error = join(vec![vectors, other]).expect_err("steps of two inputs");
    assert_eq!(error.what, "sources of steps");
}

#[test]
fn feeds_that_do_not_fit_are_refused_and_leave_an_engine_that_runs() {
    let (network, [_, _, most]) = draft();
    let mut team = Team::with_workers(1);
    let setup = setup(Precision::F32, Isa::best());
    let mut engine = NetworkEngine::new(&network, &setup, &mut team).expect("nothing to plan");
    let mut run = |feeds: &[Feed<'_>]| engine.run(&mut team, feeds);
    assert_eq!(run(&[]), Err(CallError::Feeds { expected: 1, found: 0 }));
    let ids = |ids, lengths| [Feed::Ids { ids, lengths }];
    let said = |result: Result<(), CallError>| result.expect_err("no such feed").to_string();
    assert_eq!(said(run(&ids(&[0; 3], &[]))), "input 0: expected whole steps of all rows");
    assert_eq!(said(run(&ids(&[0; 4], &[1]))), "input 0: expected a length for each row");
    assert!(said(run(&ids(&[0; 12], &[]))).contains("no more steps than the network has"));
    assert!(said(run(&ids(&[0; 4], &[1, 3]))).contains("no length above the steps"));
    let numbers = [Feed::Numbers { numbers: &[0.0; 4], lengths: &[] }];
    assert_eq!(said(run(&numbers)), "input 0: expected ids, not vectors");
    assert_eq!(said(run(&ids(&[0, 4], &[]))), "expected numbers of 4 words, found 4");
    // Ids after the end of a row are arbitrary.
    assert_eq!(run(&ids(&[0, 1, 2, 9], &[2, 1])), Ok(()));
    assert_eq!(engine.tensor(most), [0.5; 6]);
}
