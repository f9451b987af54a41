//! Simulated systems whose peak is known.

use std::collections::{BinaryHeap, VecDeque};

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::search::{Limit, Quantity};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

/// A system, what is asked of it, and the load up to which it keeps that in the
/// steady state.
pub struct Case {
    pub name: &'static str,
    pub limits: Vec<Limit>,
    /// 0 if no load keeps the limits.
    pub peak: f64,
    pub build: fn(u64) -> Box<dyn SimulatedSystem>,
}

/// A latency percentile.
fn latency(percentile: f64, bound_ms: f64) -> Limit {
    let bound = (bound_ms * 1e6) as Nanos;
    Limit { quantity: Quantity::Latency, allowed: 1.0 - percentile, bound }
}

pub fn cases() -> Vec<Case> {
    vec![mm1(), mm1_long(), md1(), mmc(), batching(), two_limits(), errors(), admission()]
}

/// Systems that use up a part of the allowed share at any load, by failures or by the tail of the service.
pub fn floors() -> Vec<Case> {
    /// M/M/c of 125 queries/s and server, of which a share fails at the end of its service.
    macro_rules! queue {
        ($name:literal, $servers:literal, $failed:literal, $bound_ms:literal) => {
            Case {
                name: $name,
                limits: vec![latency(0.99, $bound_ms)],
                peak: floor_peak($servers, $failed, $bound_ms / 1e3),
                build: |seed| {
                    let service = Service::Exponential(125.0);
                    let queue = Queue::new($servers, service, None, seed);
                    Box::new(Queue { failed: $failed, ..queue })
                },
            }
        };
    }
    vec![
        queue!("M/M/1, 70 ms, 0 % fail", 1, 0.0, 70.0),
        queue!("M/M/1, 70 ms, 0.4 % fail", 1, 0.004, 70.0),
        queue!("M/M/1, 70 ms, 0.7 % fail", 1, 0.007, 70.0),
        queue!("M/M/1, 70 ms, 1 % fail", 1, 0.01, 70.0),
        queue!("M/M/1, 70 ms, 1.2 % fail", 1, 0.012, 70.0),
        queue!("M/M/4, 50 ms, 0 % fail", 4, 0.0, 50.0),
        queue!("M/M/4, 50 ms, 0.4 % fail", 4, 0.004, 50.0),
        queue!("M/M/4, 50 ms, 0.6 % fail", 4, 0.006, 50.0),
        queue!("M/M/4, 50 ms, 0.7 % fail", 4, 0.007, 50.0),
        queue!("M/M/4, 50 ms, 1 % fail", 4, 0.01, 50.0),
        queue!("M/M/4, 50 ms, 1.2 % fail", 4, 0.012, 50.0),
        // The tail of the service alone is exp(-125 t).
        queue!("M/M/4, tail 0.3 of the allowed", 4, 0.0, 46.473),
        queue!("M/M/4, tail 0.67 of the allowed", 4, 0.0, 40.045),
        queue!("M/M/4, tail 0.9 of the allowed", 4, 0.0, 37.684),
    ]
}

/// The load at which 1 % fail or are over the bound, s; 0 if that share is not below 1 % at any load.
fn floor_peak(servers: usize, failed: f64, bound: f64) -> f64 {
    let share = |rate: f64| failed + (1.0 - failed) * mmc_share(servers, 125.0, bound, rate);
    if share(1e-3) >= 0.01 {
        return 0.0;
    }
    root(1e-3, 125.0 * servers as f64 * 0.9999, &|rate| share(rate) / 0.01)
}

/// The share of the queries of an M/M/c that take longer than `t`: the time in the queue is exponential
/// if there is any (Erlang C), and is followed by that in service.
fn mmc_share(servers: usize, mu: f64, t: f64, rate: f64) -> f64 {
    let offered = rate / mu;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..servers {
        term *= offered / k as f64;
        sum += term;
    }
    let last = term * offered / servers as f64 / (1.0 - offered / servers as f64);
    let waits = last / (sum + last);
    // The formula has no value where both times have the same mean.
    let theta = servers as f64 * mu - rate;
    let theta = if (theta - mu).abs() < 1e-9 { theta + 1e-6 } else { theta };
    let both = (theta * (-mu * t).exp() - mu * (-theta * t).exp()) / (theta - mu);
    (1.0 - waits) * (-mu * t).exp() + waits * both
}

/// `P(T > t) = exp(-(mu - lambda) t)`.
fn mm1() -> Case {
    Case {
        name: "M/M/1, p99 <= 50 ms",
        limits: vec![latency(0.99, 50.0)],
        peak: 1_000.0 - 100.0_f64.ln() / 0.05,
        build: |seed| Box::new(Queue::new(1, Service::Exponential(1_000.0), None, seed)),
    }
}

/// Nearer to saturation, with a memory of seconds.
fn mm1_long() -> Case {
    Case {
        name: "M/M/1, p90 <= 100 ms",
        limits: vec![latency(0.9, 100.0)],
        peak: 1_000.0 - 10.0_f64.ln() / 0.1,
        build: |seed| Box::new(Queue::new(1, Service::Exponential(1_000.0), None, seed)),
    }
}

fn md1() -> Case {
    let limit = latency(0.99, 20.0);
    Case {
        name: "M/D/1, p99 <= 20 ms",
        limits: vec![limit],
        peak: by_long_run(700.0, 999.0, &|rate| md1_share(rate, 0.001, 0.02) / limit.allowed),
        build: |seed| Box::new(Queue::new(1, Service::Fixed(1_000_000), None, seed)),
    }
}

const SERVERS: usize = 8;

fn mmc() -> Case {
    let (mu, t) = (125.0, 0.05);
    let limit = latency(0.98, t * 1e3);
    Case {
        name: "M/M/8, p98 <= 50 ms",
        limits: vec![limit],
        peak: root(100.0, 999.0, &|rate| mmc_share(SERVERS, mu, t, rate) / limit.allowed),
        build: |seed| Box::new(Queue::new(SERVERS, Service::Exponential(125.0), None, seed)),
    }
}

/// A server that takes up to 16 queries at once, in 2 ms and 0.5 ms a query.
fn batching() -> Case {
    let limit = latency(0.99, 30.0);
    Case {
        name: "batching, p99 <= 30 ms",
        limits: vec![limit],
        peak: by_long_run(800.0, 1_599.0, &|rate| batch_share(rate, 0.03) / limit.allowed),
        build: |_| Box::new(Batches::new()),
    }
}

/// The median binds at a rate of 1000 - ln 2 / 7 ms = 901, the p99 at 908.
fn two_limits() -> Case {
    Case {
        name: "M/M/1, p99 <= 50 ms and p50 <= 7 ms",
        limits: vec![latency(0.99, 50.0), latency(0.5, 7.0)],
        peak: 1_000.0 - 2.0_f64.ln() / 0.007,
        build: |seed| Box::new(Queue::new(1, Service::Exponential(1_000.0), None, seed)),
    }
}

const ROOM: usize = 40;

/// A queue with room for 40: `(1 - rho) rho^K / (1 - rho^(K + 1))` are refused.
fn errors() -> Case {
    let allowed = 0.001;
    let refused = |rate: f64| {
        let rho = rate / 1_000.0;
        (1.0 - rho) * rho.powi(ROOM as i32) / (1.0 - rho.powi(ROOM as i32 + 1))
    };
    Case {
        name: "M/M/1/40, errors <= 0.1 %",
        limits: vec![Limit { quantity: Quantity::Errors, allowed, bound: 0 }],
        peak: root(500.0, 999.0, &|rate| refused(rate) / allowed),
        build: |seed| Box::new(Queue::new(1, Service::Exponential(1_000.0), Some(ROOM), seed)),
    }
}

/// Refuses what comes faster than 700/s (with a burst of 200), and is fast
/// otherwise: a step rather than a slope. The tokens left are a queue's room,
/// with fixed service.
fn admission() -> Case {
    let allowed = 0.001;
    Case {
        name: "admission at 700/s, errors <= 0.1 %",
        limits: vec![Limit { quantity: Quantity::Errors, allowed, bound: 0 }, latency(0.99, 50.0)],
        peak: by_long_run(600.0, 720.0, &|rate| bucket_share(rate, 700.0, 200.0) / allowed),
        build: |_| {
            Box::new(Bucket {
                rate: 700.0,
                burst: 200.0,
                filled: 200.0,
                at: 0,
                queue: VecDeque::new(),
            })
        },
    }
}

/// Where a growing function is 1.
fn root(low: f64, high: f64, f: &dyn Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    while high - low > 1e-4 * low {
        let middle = f64::midpoint(low, high);
        *(if f(middle) < 1.0 { &mut low } else { &mut high }) = middle;
    }
    f64::midpoint(low, high)
}

/// The same with a share that comes from one long simulation, without the
/// instrument, and with the same random numbers at each rate.
fn by_long_run(low: f64, high: f64, f: &dyn Fn(f64) -> f64) -> f64 {
    root(low, high, f)
}

/// Queries of a long simulation.
const LONG: u32 = 20_000_000;

fn md1_share(rate: f64, service: f64, bound: f64) -> f64 {
    let mut random = Mt19937::new(1);
    let (mut wait, mut over) = (0.0_f64, 0_u64);
    for _ in 0..LONG {
        over += u64::from(wait + service > bound);
        wait = (wait + service - random.exponential(rate)).max(0.0);
    }
    over as f64 / f64::from(LONG)
}

const BATCH: usize = 16;

fn batch_time(size: usize) -> f64 {
    0.002 + 0.0005 * size as f64
}

fn batch_share(rate: f64, bound: f64) -> f64 {
    let mut random = Mt19937::new(2);
    let mut next = random.exponential(rate);
    let mut waiting = VecDeque::new();
    let (mut now, mut over, mut done) = (0.0_f64, 0_u64, 0_u32);
    while done < LONG {
        if waiting.is_empty() {
            now = now.max(next);
        }
        while next <= now {
            waiting.push_back(next);
            next += random.exponential(rate);
        }
        let size = waiting.len().min(BATCH);
        now += batch_time(size);
        over += waiting.drain(..size).filter(|&at| now - at > bound).count() as u64;
        done += size as u32;
    }
    over as f64 / f64::from(done)
}

fn bucket_share(rate: f64, refill: f64, burst: f64) -> f64 {
    let mut random = Mt19937::new(3);
    let (mut filled, mut refused) = (burst, 0_u64);
    for _ in 0..LONG {
        filled = (filled + random.exponential(rate) * refill).min(burst);
        if filled >= 1.0 { filled -= 1.0 } else { refused += 1 }
    }
    refused as f64 / f64::from(LONG)
}

enum Service {
    Exponential(f64),
    Fixed(Nanos),
}

/// Servers behind one queue, with a limited room or without.
struct Queue {
    service: Service,
    random: Mt19937,
    /// When each server becomes free, as a min-heap.
    free: BinaryHeap<std::cmp::Reverse<Nanos>>,
    ends: BinaryHeap<std::cmp::Reverse<(Nanos, u64, bool)>>,
    room: Option<usize>,
    inside: usize,
    /// Share of the queries that fail at the end of their service.
    failed: f64,
}

impl Queue {
    fn new(servers: usize, service: Service, room: Option<usize>, seed: u64) -> Self {
        Self {
            service,
            random: Mt19937::new(seed),
            free: std::iter::repeat_n(std::cmp::Reverse(0), servers).collect(),
            ends: BinaryHeap::new(),
            room,
            inside: 0,
            failed: 0.0,
        }
    }
}

impl SimulatedSystem for Queue {
    fn name(&self) -> &str {
        "queue"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if self.room.is_some_and(|room| self.inside >= room) {
            self.ends.push(std::cmp::Reverse((now, query.first.0, false)));
            return;
        }
        let service = match self.service {
            Service::Exponential(rate) => (self.random.exponential(rate) * 1e9) as Nanos,
            Service::Fixed(time) => time,
        };
        let free = self.free.pop().expect("one entry a server").0;
        let end = free.max(now) + service;
        self.free.push(std::cmp::Reverse(end));
        self.inside += 1;
        let served = self.failed == 0.0 || self.random.canonical() >= self.failed;
        self.ends.push(std::cmp::Reverse((end, query.first.0, served)));
    }
    fn next_event(&self) -> Option<Nanos> {
        self.ends.peek().map(|end| end.0.0)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while self.next_event().is_some_and(|at| at <= now) {
            let (_, id, served) = self.ends.pop().expect("peeked").0;
            // Those that found no room were never inside.
            self.inside -= usize::from(served || self.room.is_none());
            completions.push(completion(id, served));
        }
    }
}

fn completion(id: u64, served: bool) -> SimulatedCompletion {
    let outcome = match served {
        true => Outcome::Ok { tokens: 0 },
        false => Outcome::Failed(Failure::Rejected),
    };
    SimulatedCompletion { id: ResponseId(id), first_token_at: None, outcome }
}

/// The server that takes batches.
struct Batches {
    waiting: VecDeque<u64>,
    running: Vec<u64>,
    end: Nanos,
}

impl Batches {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), running: Vec::new(), end: 0 }
    }

    fn begin(&mut self, now: Nanos) {
        let size = self.waiting.len().min(BATCH);
        self.running.extend(self.waiting.drain(..size));
        self.end = now + (batch_time(size) * 1e9) as Nanos;
    }
}

impl SimulatedSystem for Batches {
    fn name(&self) -> &str {
        "batches"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.waiting.push_back(query.first.0);
        if self.running.is_empty() {
            self.begin(now);
        }
    }
    fn next_event(&self) -> Option<Nanos> {
        (!self.running.is_empty()).then_some(self.end)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        completions.extend(self.running.drain(..).map(|id| completion(id, true)));
        if !self.waiting.is_empty() {
            self.begin(now);
        }
    }
}

/// A token bucket in front of a system that takes 1 ms, however many come.
struct Bucket {
    rate: f64,
    burst: f64,
    filled: f64,
    at: Nanos,
    queue: VecDeque<(Nanos, u64, bool)>,
}

impl SimulatedSystem for Bucket {
    fn name(&self) -> &str {
        "bucket"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        let passed = (now - self.at) as f64 / SECOND as f64;
        self.filled = (self.filled + passed * self.rate).min(self.burst);
        self.at = now;
        let served = self.filled >= 1.0;
        self.filled -= f64::from(u8::from(served));
        self.queue.push_back((now + 1_000_000, query.first.0, served));
    }
    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|entry| entry.0)
    }
    fn advance(&mut self, _now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        let (_, id, served) = self.queue.pop_front().expect("there is an event");
        completions.push(completion(id, served));
    }
}
