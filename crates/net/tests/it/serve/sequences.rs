//! Sequences of requests over HTTP: states between requests, their limits, and shared calls.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::plan::{Chain, Library, Plan};
use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Arrivals, Scenario, Settings as RunSettings, TestSettings};
use dyno_net::client::{Client, Options};
use dyno_net::oip::{Form, Model as ServedModel, ModelMetadata, Oip, PlayedSequences};
use dyno_net::serve::{
    Answers, Limits, Listener, Model, Queue, SequenceLimits, Server, Settings, Station,
};
use dyno_sut::batch::{LengthClasses, Policy};
use dyno_sut::engine::{EngineInfo, Port};
use dyno_sut::infer::{InferenceModel, Refusal, SequenceState, Value};
use dyno_sut::rnn::{Batching, RecurrentModel, Stack};
use dyno_sut::tensors::{Element, Elements, ModelInput, Spans, TensorLibrary};
use serde_json::{Value as Json, json};

fn serve(model: Arc<dyn InferenceModel>, limits: SequenceLimits) -> (Server, SocketAddr) {
    let policy = Policy { max_size: NonZero::new(8).unwrap(), max_wait: 0 };
    let queue = Queue::start(model, policy, [Station::default()], 64, limits).unwrap();
    let settings = Settings {
        node: "Network SUT test-1".into(),
        limits: Limits::default(),
        compresses: false,
        token: None,
    };
    let models = vec![Model { name: "m".into(), answers: Answers::Tensors(queue) }];
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start(settings, models, vec![Listener { socket, tls: None }]).unwrap();
    let address = server.addresses()[0];
    (server, address)
}

/// A layer with its outputs `Y`, `Y_h` and `Y_c`.
fn lstm() -> RecurrentModel {
    let model = dyno_rnn::model::Model::open("lstm:3x5").unwrap();
    let engine = dyno_rnn::engine::Engine::new(model, &Default::default()).unwrap();
    let length_classes = LengthClasses::default();
    let batching = Batching { largest: NonZero::new(8).unwrap(), length_classes };
    let model = RecurrentModel::new("lstm", vec![Box::new(Stack::new(engine))], batching).unwrap();
    model.with_outputs(&["Y", "Y_h", "Y_c"].map(str::to_owned)).unwrap()
}

/// Sends a request; returns the status and the answer.
fn send(address: SocketAddr, path: &str, body: Option<&Json>) -> (u16, Json) {
    let body = body.map(Json::to_string);
    let head = match &body {
        None => format!("GET {path} HTTP/1.1\r\n"),
        Some(body) => format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len()),
    };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!("{head}host: test\r\nconnection: close\r\n\r\n");
    stream.write_all((request + &body.unwrap_or_default()).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer[9..12].parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| body.into()))
}

fn number(stream: usize, at: usize) -> f32 {
    ((stream * 91 + at * 37) % 17) as f32 / 8.0 - 1.0
}

/// Returns a request with these steps of a stream of three numbers per step.
#[expect(clippy::needless_pass_by_value, reason = "requests are written where they are sent")]
fn steps(stream: usize, steps: std::ops::Range<usize>, parameters: Json) -> Json {
    let data: Vec<f32> = (steps.start * 3..steps.end * 3).map(|at| number(stream, at)).collect();
    json!({
        "inputs": [{"name": "sequence", "datatype": "FP32", "shape": [1, steps.len(), 3], "data": data}],
        "parameters": parameters,
    })
}

const INFER: &str = "/v2/models/m/infer";

/// Returns the numbers of an output of an answer.
fn output(answer: &(u16, Json), name: &str) -> Vec<f64> {
    let outputs = answer.1["outputs"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    let own = outputs.iter().find(|output| output["name"] == name).unwrap();
    own["data"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn gauge(address: SocketAddr, name: &str) -> String {
    let (_, page) = send(address, "/metrics", None);
    let page = page.as_str().unwrap().to_owned();
    page.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
}

#[test]
fn the_requests_of_a_sequence_are_one_request_in_pieces() {
    let (_server, address) = serve(Arc::new(lstm()), SequenceLimits::default());
    let (_, about) = send(address, "/v2/models/m", None);
    let ports = about["outputs"].as_array().unwrap().iter();
    let ports: Vec<_> = ports.map(|port| (port["name"].clone(), port["shape"].clone())).collect();
    let expected =
        [("Y", json!([-1, -1, 5])), ("Y_h", json!([-1, 1, 5])), ("Y_c", json!([-1, 1, 5]))];
    assert_eq!(ports, expected.map(|(name, shape)| (json!(name), shape)));
    let (_, about) = send(address, "/v2", None);
    assert!(about["extensions"].as_array().unwrap().contains(&json!("sequence")));

    let whole = [0, 1].map(|stream| send(address, INFER, Some(&steps(stream, 0..9, json!({})))));
    let ids = [json!(7), json!("seven")];
    let mut found = [Vec::new(), Vec::new()];
    for piece in [0..1, 1..4, 4..5, 5..9] {
        for stream in [0, 1] {
            let parameters = json!({
                "sequence_id": ids[stream],
                "sequence_start": piece.start == 0,
                "sequence_end": piece.end == 9,
            });
            let answer = send(address, INFER, Some(&steps(stream, piece.clone(), parameters)));
            found[stream].extend(output(&answer, "Y"));
            if piece.end == 9 {
                for name in ["Y_h", "Y_c"] {
                    let pairs = output(&answer, name).into_iter().zip(output(&whole[stream], name));
                    pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{name}: {a} {b}"));
                }
            } else {
                let is_open = if stream == 0 && piece.start == 0 { "1" } else { "2" };
                assert_eq!(gauge(address, "dyno_sequences{model=\"m\"}"), is_open);
            }
        }
    }
    for stream in [0, 1] {
        let right = output(&whole[stream], "Y");
        assert_eq!((found[stream].len(), right.len()), (45, 45));
        let pairs = found[stream].iter().zip(&right);
        pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{a} {b}"));
    }
    assert_eq!(gauge(address, "dyno_sequences{model=\"m\"}"), "0");
}

#[test]
fn a_start_restarts_a_sequence_and_a_failed_request_changes_nothing() {
    let (_server, address) = serve(Arc::new(lstm()), SequenceLimits::default());
    let ask = |range, parameters| send(address, INFER, Some(&steps(0, range, parameters)));
    let first = ask(0..2, json!({"sequence_id": 7, "sequence_start": true}));
    let second = ask(2..4, json!({"sequence_id": 7}));
    assert_eq!(ask(0..2, json!({"sequence_id": 7, "sequence_start": true})), first);
    let mut two = steps(0, 2..4, json!({"sequence_id": 7}));
    two["inputs"][0]["shape"] = json!([2, 1, 3]);
    let (status, said) = send(address, INFER, Some(&two));
    assert_eq!(status, 400);
    assert!(said["error"].as_str().unwrap().contains("2 rows; expected 1"), "{said}");
    assert_eq!(ask(2..4, json!({"sequence_id": 7})), second);
    // Without a sequence, a request starts from nothing and leaves nothing behind.
    let alone = ask(0..2, json!({}));
    let pairs = output(&alone, "Y").into_iter().zip(output(&first, "Y"));
    pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{a} {b}"));
    assert_eq!(ask(0..2, json!({"sequence_id": 0})), alone);
    assert_eq!(gauge(address, "dyno_sequences{model=\"m\"}"), "1");
}

#[test]
fn errors_name_the_sequence() {
    let limits = SequenceLimits { most: 1, ..SequenceLimits::default() };
    let (_server, address) = serve(Arc::new(lstm()), limits);
    let refused = |parameters: Json, status: u16, expected: &str| {
        let (found, said) = send(address, INFER, Some(&steps(0, 0..1, parameters)));
        let said = said["error"].as_str().unwrap().to_owned();
        assert!(found == status && said.contains(expected), "{found}: {said}");
    };
    refused(json!({"sequence_id": 7}), 400, "sequence 7 is not in progress");
    refused(
        json!({"sequence_id": "x", "sequence_end": true}),
        400,
        "sequence 'x' is not in progress",
    );
    refused(json!({"sequence_start": true}), 400, "'sequence_start' without a sequence");
    let start = |id: u64| json!({"sequence_id": id, "sequence_start": true});
    assert_eq!(send(address, INFER, Some(&steps(0, 0..1, start(1)))).0, 200);
    refused(start(2), 429, "sequence 2 cannot start: 1 sequences are in progress");
    let end = json!({"sequence_id": 1, "sequence_end": true});
    assert_eq!(send(address, INFER, Some(&steps(0, 1..2, end))).0, 200);
    refused(json!({"sequence_id": 1}), 400, "sequence 1 is not in progress");
    assert_eq!(send(address, INFER, Some(&steps(0, 0..1, start(2)))).0, 200);
}

#[test]
fn idle_sequences_expire() {
    let limits = SequenceLimits { most: 1, idle: Duration::ZERO };
    let (_server, address) = serve(Arc::new(lstm()), limits);
    for id in [1, 2] {
        let start = json!({"sequence_id": id, "sequence_start": true});
        assert_eq!(send(address, INFER, Some(&steps(0, 0..1, start))).0, 200);
    }
    let (status, said) = send(address, INFER, Some(&steps(0, 1..2, json!({"sequence_id": 2}))));
    let said = said["error"].as_str().unwrap();
    assert!(status == 400 && said.contains("had no request for 0ns"), "{said}");
}

/// Adds the numbers of a sequence. The first call waits until the gate is open.
#[derive(Default)]
struct Adder {
    inputs: Vec<ModelInput>,
    is_open: Mutex<bool>,
    opened: Condvar,
    /// Requests of each call.
    calls: Mutex<Vec<usize>>,
}

impl Adder {
    fn new() -> Arc<Self> {
        let input = ModelInput { name: "x".into(), element: Element::F32, shape: vec![Some(1)] };
        Arc::new(Self { inputs: vec![input], ..Self::default() })
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl InferenceModel for Adder {
    fn name(&self) -> &str {
        "adder"
    }

    fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    fn info(&self) -> EngineInfo {
        let port = Port { name: "sum".into(), ..Port::from(&self.inputs[0]) };
        EngineInfo { outputs: vec![port], ..EngineInfo::default() }
    }

    fn infer(&self, requests: &[&[Value]]) -> Vec<Result<Vec<Value>, Refusal>> {
        requests.iter().map(|request| Ok(request.to_vec())).collect()
    }

    fn check_sequences(&self) -> Result<(), String> {
        Ok(())
    }

    fn infer_sequences(
        &self,
        requests: &[&[Value]],
        states: &mut [Option<SequenceState>],
    ) -> Vec<Result<Vec<Value>, Refusal>> {
        self.calls.lock().unwrap().push(requests.len());
        let closed = self.is_open.lock().unwrap();
        let patience = Duration::from_secs(30);
        let (_open, waited) =
            self.opened.wait_timeout_while(closed, patience, |open| !*open).unwrap();
        assert!(!waited.timed_out(), "the gate was not opened in time");
        let answer = |(request, state): (&&[Value], &mut Option<SequenceState>)| {
            let number = |values: &[Value]| values[0].elements.to_f32()[0];
            let sum = number(request) + state.as_deref().map_or(0.0, number);
            let elements = Elements::F32(vec![sum].into());
            *state = Some(vec![Value { shape: vec![1], elements }]);
            Ok(state.clone().unwrap())
        };
        requests.iter().zip(states).map(answer).collect()
    }
}

#[test]
fn sequences_that_wait_share_calls_and_each_is_computed_in_order() {
    let adder = Adder::new();
    let (_server, address) = serve(adder.clone(), SequenceLimits::default());
    let ask = |id: u64, x: u32| {
        let body = json!({
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [x]}],
            "parameters": {"sequence_id": id, "sequence_start": x == 1},
        });
        std::thread::spawn(move || output(&send(address, INFER, Some(&body)), "sum")[0])
    };
    let waiting = |count: usize| {
        for _ in 0..20_000 {
            if gauge(address, "dyno_queue_depth{model=\"m\"}") == count.to_string() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("there are never {count} waiting requests");
    };
    let first = ask(1, 1);
    while adder.calls.lock().unwrap().is_empty() {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    // In the order of their arrival; each is known to have arrived before the next one is sent.
    let mut others = Vec::new();
    for (at, (id, x)) in [(1, 10), (2, 1), (1, 100), (2, 20), (3, 1)].into_iter().enumerate() {
        others.push(ask(id, x));
        waiting(at + 1);
    }
    adder.open();
    assert_eq!(first.join().unwrap(), 1.0);
    let sums: Vec<f64> = others.into_iter().map(|other| other.join().unwrap()).collect();
    assert_eq!(sums, [11.0, 1.0, 111.0, 21.0, 1.0]);
    // The first request alone, then 2 and 3 with the next one of 1, then the last ones of 1 and 2;
    // how those that follow meet depends on the threads.
    let calls = adder.calls.lock().unwrap();
    assert_eq!((calls[0], calls[1], calls.iter().sum::<usize>()), (1, 3, 6), "{calls:?}");
}

#[test]
fn models_without_states_refuse_sequences() {
    let model = Arc::new(dyno_sut::digits::DigitsPerceptron::new().by_value(4));
    let (_server, address) = serve(model, SequenceLimits::default());
    let ink = vec![0.0; 64];
    let body = json!({
        "inputs": [{"name": "ink", "datatype": "FP32", "shape": [1, 64], "data": ink}],
        "parameters": {"sequence_id": 7, "sequence_start": true},
    });
    let (status, said) = send(address, INFER, Some(&body));
    let said = said["error"].as_str().unwrap();
    assert!(status == 400 && said.contains("sequence 7:"), "{said}");
    assert!(said.contains("keeps no states between requests; remove 'sequence_id'"), "{said}");
}

/// Sequences of 3, 4, .. requests.
fn chains(count: u32) -> Arc<[Chain]> {
    let mut next = 0;
    let chain = |at: u32| {
        let first = next;
        next += 3 + at;
        Chain { first, thinks: vec![0; 3 + at as usize].into() }
    };
    (0..count).map(chain).collect()
}

#[test]
fn a_client_plays_sequences_over_each_protocol() {
    // As many as the client has in progress: one that ends must be freed for the next one to start.
    let limits = SequenceLimits { most: 3, ..SequenceLimits::default() };
    let (_server, address) = serve(Arc::new(lstm()), limits);
    let (_, about) = send(address, "/v2/models/m", None);
    let about = ModelMetadata::from_json(about.to_string().as_bytes()).unwrap();
    for form in [Form::Json, Form::Binary, Form::Raw, Form::Typed] {
        let inputs = dyno_net::oip::random_inputs(&about).unwrap();
        let samples = TensorLibrary::synthetic(&inputs, 7, 1, &Spans::new(), 0).unwrap();
        let model = ServedModel::new(&about, "", Arc::new(samples), None).unwrap();
        let chains = chains(5);
        let played = PlayedSequences::new(1, chains.clone());
        let protocol = Oip::new(Arc::new(model), form).with_sequences(played);
        let endpoint = format!("http://{address}").parse().unwrap();
        let (client, library) =
            Client::start(Arc::new(protocol), &[endpoint], Options::default()).unwrap();
        let settings = TestSettings {
            scenario: Scenario::Server,
            server_arrivals: Arrivals::Concurrency(3),
            performance_issue_unique: true,
            min_query_count: 1,
            min_duration_ms: 0,
            ..TestSettings::default()
        };
        let total = library.total_sample_count() as u64;
        assert_eq!(total, 3 + 4 + 5 + 6 + 7);
        let plan = Plan::resolve(&settings, Library { total, performance: total }).unwrap();
        let plan = plan.with_sessions(chains).unwrap();
        let settings = RunSettings::from(settings);
        let tenant = Tenant { settings, plan, library: &library, messages: Vec::new() };
        let mut driver = RealTime::new(Arc::new(client));
        let log = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
        let record = &log.runs().next().unwrap().record;
        let turns = &record.sessions.as_ref().unwrap().turns;
        assert_eq!((record.failed.len(), turns.len()), (0, 25), "{form:?}: {:?}", record.failed);
        assert_eq!(gauge(address, "dyno_sequences{model=\"m\"}"), "0");
    }
}
