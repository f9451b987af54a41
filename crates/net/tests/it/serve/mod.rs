//! The server of `dyno serve`, over real sockets.

mod attacks;
mod drain;
mod grpc;
mod limits;
mod oip;
mod openai;
mod sequences;
mod tls;
mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use dyno_net::serve::{
    Answers, Limits, Listener, Model, Queue, SequenceLimits, Server, Settings, Station, Token,
};
use dyno_sut::batch::Policy;
use dyno_sut::digits::DigitsPerceptron;
use dyno_sut::engine::{EngineInfo, Port};
use dyno_sut::infer::{InferenceModel, RowModel, Value};
use dyno_sut::tensors::{Element, ModelInput};

/// Where a test's server listens.
fn listener() -> Listener {
    Listener { socket: TcpListener::bind("127.0.0.1:0").unwrap(), tls: None }
}

/// A server of these models.
fn server_of(limits: Limits, models: Vec<Model>) -> (Server, SocketAddr) {
    guarded_server(limits, models, None)
}

/// A server of these models that expects a token.
fn guarded_server(
    limits: Limits,
    models: Vec<Model>,
    token: Option<Token>,
) -> (Server, SocketAddr) {
    let settings = Settings { node: "Network SUT test-1".into(), limits, compresses: true, token };
    let server = Server::start(settings, models, vec![listener()]).unwrap();
    let address = server.addresses()[0];
    (server, address)
}

fn tensors(name: &str, model: Arc<dyn InferenceModel>, workers: usize, queue: usize) -> Model {
    let policy = Policy { max_size: 4.try_into().unwrap(), max_wait: 0 };
    let stations = (0..workers).map(|_| Station::default());
    let queue = Queue::start(model, policy, stations, queue, SequenceLimits::default()).unwrap();
    Model { name: name.into(), answers: Answers::Tensors(queue) }
}

/// A server of the built-in perceptron.
fn digits(limits: Limits) -> (Server, SocketAddr) {
    let model = Arc::new(DigitsPerceptron::new().by_value(32));
    server_of(limits, vec![tensors("digits", model, 1, 64)])
}

/// Holds the calls of a model until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
    calls: Mutex<usize>,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn calls(&self) -> usize {
        *self.calls.lock().unwrap()
    }

    /// A model `x` `[1]` -> `y` `[1]`, the same number, once the gate is open.
    fn model(self: &Arc<Self>) -> Arc<dyn InferenceModel> {
        let gate = Arc::clone(self);
        let shape = vec![Some(1)];
        let input = ModelInput { name: "x".into(), element: Element::F32, shape: shape.clone() };
        let output = Port { name: "y".into(), element: "float32".into(), shape };
        let about = EngineInfo {
            inputs: vec![Port::from(&input)],
            outputs: vec![output],
            ..EngineInfo::default()
        };
        let call = move |values: &[Value]| {
            *gate.calls.lock().unwrap() += 1;
            let closed = gate.is_open.lock().unwrap();
            let patience = Duration::from_secs(30);
            let (_open, waited) =
                gate.changed.wait_timeout_while(closed, patience, |open| !*open).unwrap();
            assert!(!waited.timed_out(), "the gate was not opened in time");
            Ok(vec![values[0].clone()])
        };
        Arc::new(RowModel::new("gated", vec![input], about, Box::new(call)))
    }
}

/// A request to a gated model.
const X: &str = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[0.5]}]}"#;

/// Waits until something is so; tests say what, and never for how long.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    panic!("waited too long until {what}");
}
