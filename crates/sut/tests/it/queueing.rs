//! Simulated systems against queueing theory and against their own contract.

use std::num::NonZero;

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_sut::batch::SimulatedBatcher;
use dyno_sut::model::{Cost, Faults, Model, ModelError, ServiceModel, ServiceTime, Tokens};
use dyno_sut::replay::Replay;

use crate::batching::policy;

/// Mean service time of every model here.
const SERVICE: Nanos = 1_000_000;
const COST: Cost = Cost { base: SERVICE, per_sample: 0 };

/// Issues one-sample queries at `arrivals`, plays the system to its end, and
/// returns each completion with its time.
fn play(system: &mut dyn SimulatedSystem, arrivals: &[Nanos]) -> Vec<(Nanos, SimulatedCompletion)> {
    let (mut done, mut fresh) = (Vec::new(), Vec::new());
    let mut arrivals = arrivals.iter().copied().enumerate().peekable();
    loop {
        let event = system.next_event();
        match arrivals.peek() {
            Some(&(number, at)) if event.is_none_or(|event| at < event) => {
                let first = ResponseId::new(1, 0, number as u64);
                system.issue(at, &SimulatedQuery { tenant: 0, first, indices: &[0] });
                arrivals.next();
                if arrivals.peek().is_none() {
                    system.flush(at);
                }
            }
            _ => {
                let Some(at) = event else { return done };
                system.advance(at, &mut fresh);
                done.extend(fresh.drain(..).map(|completion| (at, completion)));
            }
        }
    }
}

/// Poisson arrivals that keep `servers` servers busy for this share of the time.
fn poisson(queries: usize, load: f64, servers: f64) -> Vec<Nanos> {
    let rate = load * servers / SERVICE as f64;
    let mut rng = Mt19937::new(4242);
    let mut at = 0.0;
    let mut next = || {
        at += rng.exponential(rate);
        at as Nanos
    };
    (0..queries).map(|_| next()).collect()
}

/// Mean time in queue and service, in mean service times.
fn mean_sojourn(system: &mut dyn SimulatedSystem, load: f64, servers: f64) -> f64 {
    let arrivals = poisson(1_000_000, load, servers);
    let done = play(system, &arrivals);
    assert_eq!(done.len(), arrivals.len());
    let took = |(at, c): &(Nanos, SimulatedCompletion)| at - arrivals[c.id.sequence() as usize];
    done.iter().map(took).sum::<u64>() as f64 / done.len() as f64 / SERVICE as f64
}

fn model(service: ServiceTime, servers: usize) -> ServiceModel {
    let servers = NonZero::new(servers).unwrap();
    ServiceModel::new(Model { servers, seed: 99, ..Model::single(service) }).unwrap()
}

fn check(what: &str, got: f64, theory: f64, tolerance: f64) {
    assert!((got / theory - 1.0).abs() < tolerance, "{what}: {got:.4}, theory {theory:.4}");
}

#[test]
fn waits_agree_with_queueing_theory() {
    // Pollaczek and Khinchine: 1 + rho (1 + cv^2) / (2 (1 - rho)).
    let pollaczek = |load: f64, cv2: f64| 1.0 + load * (1.0 + cv2) / (2.0 * (1.0 - load));
    let load = 0.6;
    let deterministic = ServiceTime::Deterministic(COST);
    let got = mean_sojourn(&mut model(deterministic, 1), load, 1.0);
    check("M/D/1", got, pollaczek(load, 0.0), 0.01);

    let got = mean_sojourn(&mut model(ServiceTime::Exponential(COST), 1), load, 1.0);
    check("M/M/1", got, pollaczek(load, 1.0), 0.01);

    let sigma: f64 = 0.5;
    let lognormal = ServiceTime::LogNormal { mean: COST, sigma };
    let got = mean_sojourn(&mut model(lognormal, 1), load, 1.0);
    check("M/lognormal/1", got, pollaczek(load, (sigma * sigma).exp() - 1.0), 0.01);

    let drawn = ServiceTime::Drawn(vec![SERVICE / 2, SERVICE * 3 / 2]);
    let got = mean_sojourn(&mut model(drawn, 1), load, 1.0);
    check("M/G/1, two times", got, pollaczek(load, 0.25), 0.01);
}

#[test]
fn several_servers_share_one_queue() {
    // Erlang's C for 3 servers at load 0.7: a = 2.1.
    let (servers, load) = (3.0, 0.7);
    let a: f64 = servers * load;
    let last = a.powi(3) / 6.0 / (1.0 - load);
    let waits = last / (1.0 + a + a * a / 2.0 + last);
    let theory = 1.0 + waits / (servers * (1.0 - load));
    let got = mean_sojourn(&mut model(ServiceTime::Exponential(COST), 3), load, servers);
    check("M/M/3", got, theory, 0.01);
}

#[test]
fn one_server_and_a_heap_of_one_server_agree() {
    // Two servers of which one is busy for ever are one server.
    let arrivals = poisson(10_000, 0.8, 1.0);
    let ends = |system: &mut ServiceModel, arrivals: &[Nanos], skip: usize| -> Vec<Nanos> {
        play(system, arrivals).iter().skip(skip).map(|(at, _)| *at).collect()
    };
    let one = ends(&mut model(ServiceTime::Listed(vec![SERVICE]), 1), &arrivals, 0);
    let mut times = vec![SERVICE; arrivals.len() + 1];
    times[0] = 1_000_000 * SECOND;
    let blocked: Vec<Nanos> = [0].into_iter().chain(arrivals).collect();
    let mut two = ends(&mut model(ServiceTime::Listed(times), 2), &blocked, 0);
    assert_eq!(two.pop(), Some(1_000_000 * SECOND));
    assert_eq!(one, two);
}

#[test]
fn a_query_costs_its_base_and_its_samples() {
    let cost = Cost { base: 100, per_sample: 7 };
    let mut system = model(ServiceTime::Deterministic(cost), 1);
    let first = ResponseId::new(1, 0, 5);
    system.issue(1_000, &SimulatedQuery { tenant: 0, first, indices: &[9, 8, 7] });
    assert_eq!(system.next_event(), Some(1_121));
    let mut done = Vec::new();
    system.advance(1_121, &mut done);
    let ids: Vec<u64> = done.iter().map(|c| c.id.sequence()).collect();
    assert_eq!((ids, system.next_event()), (vec![5, 6, 7], None));
}

#[test]
fn tokens_follow_the_first_one() {
    let tokens = Tokens { fewest: 11, most: 11, per_token: 30 };
    let mut system = ServiceModel::new(Model {
        tokens: Some(tokens),
        ..Model::single(ServiceTime::Deterministic(Cost { base: 1_000, per_sample: 0 }))
    })
    .unwrap();
    let done = play(&mut system, &[0, 0]);
    let seen: Vec<_> = done.iter().map(|(at, c)| (*at, c.first_token_at, c.outcome)).collect();
    let ok = Outcome::Ok { tokens: 11 };
    // The second query starts when the first one has all of its tokens.
    assert_eq!(seen, [(1_300, Some(1_000), ok), (2_600, Some(2_300), ok)]);
}

#[test]
fn faults_have_their_share_and_leave_the_times_alone() {
    let arrivals = poisson(100_000, 0.5, 1.0);
    let service = ServiceTime::Exponential(COST);
    let faults = Faults { failed: 0.1, unanswered: 0.05 };
    let sound = play(&mut model(service.clone(), 1), &arrivals);
    let faulty = Model { faults, seed: 99, ..Model::single(service) };
    let mut faulty = ServiceModel::new(faulty).unwrap();
    let faulty = play(&mut faulty, &arrivals);
    let failed = faulty.iter().filter(|(_, c)| c.outcome == Outcome::Failed(Failure::Internal));
    check("failed", failed.count() as f64, 10_000.0, 0.03);
    check("unanswered", (sound.len() - faulty.len()) as f64, 5_000.0, 0.04);
    let times: std::collections::HashMap<_, _> = sound.iter().map(|(at, c)| (c.id, *at)).collect();
    assert!(faulty.iter().all(|(at, c)| times[&c.id] == *at));
}

#[test]
fn replay_gives_each_sample_its_latency_again() {
    let done = play(&mut Replay::from_latencies(&[500, 20, 30]), &[0, 100, 200, 1_000]);
    let seen: Vec<_> = done.iter().map(|(at, c)| (*at, c.id.sequence())).collect();
    assert_eq!(seen, [(120, 1), (230, 2), (500, 0), (1_500, 3)]);
}

#[test]
fn a_flush_ends_the_run_and_time_starts_again() {
    let policy = policy(4, 50);
    let workers = NonZero::new(2).unwrap();
    let listed = || model(ServiceTime::Listed(vec![900, 500, 700]), 2);
    let systems: [Box<dyn SimulatedSystem>; 4] = [
        Box::new(model(ServiceTime::Listed(vec![900, 500]), 1)),
        Box::new(listed()),
        Box::new(Replay::from_latencies(&[700, 20])),
        Box::new(SimulatedBatcher::new(listed(), policy, workers)),
    ];
    for mut system in systems {
        let first = play(&mut *system, &[10, 20, 30, 600]);
        assert_eq!(first.len(), 4, "{}", system.name());
        // An aborted run leaves a query in the queue.
        let query = SimulatedQuery { tenant: 0, first: ResponseId(99), indices: &[0] };
        system.issue(5, &query);
        system.flush(6);
        assert_eq!(play(&mut *system, &[10, 20, 30, 600]), first, "{}", system.name());
    }
}

#[test]
fn models_that_contradict_themselves_are_refused() {
    let refused = |model: Model| ServiceModel::new(model).unwrap_err();
    let sound = || Model::single(ServiceTime::Deterministic(COST));
    let empty = Model::single(ServiceTime::Drawn(Vec::new()));
    assert_eq!(refused(empty), ModelError::NoTimes);
    let faults = Faults { failed: 0.6, unanswered: 0.6 };
    assert_eq!(refused(Model { faults, ..sound() }), ModelError::Faults(faults));
    let tokens = Tokens { fewest: 0, most: 3, per_token: 1 };
    let error = refused(Model { tokens: Some(tokens), ..sound() });
    assert_eq!(error.to_string(), "tokens are 0 to 3; the range must start at 1 or more");
}
