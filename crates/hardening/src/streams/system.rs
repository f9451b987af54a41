//! A simulated text server with a client that reads its streams, for several tenants at once. It writes
//! down what it was asked and what it answered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_net::openai::{Api, Input, OpenAi, Settings};
use dyno_net::protocol::{Protocol, Reader};
use dyno_net::workload::{Prompt, Workload};

use super::answer::{Form, LEAST_TOKENS, Script, demands_tokens, read};
use super::case::{Case, TenantCase};
use super::oracle::{Ending, Request};
use crate::rng::Stream;

/// An answer on its way. Times are ns since the start of the run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PendingAnswer {
    at: Nanos,
    order: u64,
    id: ResponseId,
    first: Option<Nanos>,
    /// Output tokens.
    tokens: Result<i64, Failure>,
}

/// State of one tenant.
struct TenantState<'a> {
    case: &'a TenantCase,
    draw: Stream,
    reader: Box<dyn Reader>,
    requests: Vec<Request>,
    gaps: Vec<Nanos>,
}

/// The simulated server.
pub struct StreamingSystem<'a> {
    tenants: Vec<TenantState<'a>>,
    /// When each slot is free; empty without a limit.
    free_at: Vec<Nanos>,
    pending: BinaryHeap<Reverse<PendingAnswer>>,
    order: u64,
    injected: [u64; Form::ALL.len()],
}

/// Requests of a tenant, and the spans between parts with output of its answers, as the client saw
/// them.
pub struct Observation {
    /// In the order of their issue.
    pub requests: Vec<Request>,
    /// Spans of the answered requests.
    pub gaps: Vec<Nanos>,
}

impl<'a> StreamingSystem<'a> {
    /// Returns the system of a case.
    pub fn new(case: &'a Case) -> Self {
        let tenant = |(number, tenant): (u64, &'a TenantCase)| TenantState {
            case: tenant,
            draw: Stream::new(case.seed, case.index, 430 + number),
            reader: protocol(tenant.samples).reader(),
            requests: Vec::new(),
            gaps: Vec::new(),
        };
        Self {
            tenants: (0..).zip(&case.tenants).map(tenant).collect(),
            free_at: vec![0; case.slots],
            pending: BinaryHeap::new(),
            order: 0,
            injected: [0; Form::ALL.len()],
        }
    }

    /// Returns what each tenant observed, and the answers by their form.
    pub fn into_observations(self) -> (Vec<Observation>, [u64; Form::ALL.len()]) {
        let observation =
            |tenant: TenantState<'_>| Observation { requests: tenant.requests, gaps: tenant.gaps };
        (self.tenants.into_iter().map(observation).collect(), self.injected)
    }

    fn take_sample(&mut self, now: Nanos, tenant: usize, id: ResponseId, sample: u32) {
        let state = &mut self.tenants[tenant];
        let mut form = Form::Stream;
        for &(kind, rate) in &state.case.forms {
            if state.draw.chance(rate) {
                form = kind;
            }
        }
        self.injected[form as usize] += 1;
        let script = Script::draw(form, sample, &state.case.pace, &mut state.draw);
        let begin = match self.free_at.iter_mut().min() {
            Some(free) => {
                let begin = (*free).max(now);
                *free = begin + script.ended();
                begin
            }
            None => now,
        };
        let later = |ending: Ending| match ending {
            Ending::Answered { at_ns } => Ending::Answered { at_ns: at_ns + begin },
            Ending::Failed { reason, at_ns } => Ending::Failed { reason, at_ns: at_ns + begin },
            Ending::Cancelled { at_ns } => Ending::Cancelled { at_ns: at_ns + begin },
            Ending::Lost => Ending::Lost,
        };
        state.requests.push(Request {
            issued_ns: now,
            sample,
            outputs: script.outputs.iter().map(|at| at + begin).collect(),
            tokens: script.tokens,
            ending: later(script.ending),
        });
        if form == Form::Lose {
            return;
        }
        let answer = read(&script, sample, &mut *state.reader);
        let tokens = match answer.outcome {
            Outcome::Ok { tokens } => {
                // The client counts those of answers alone.
                state.gaps.extend(&answer.gaps);
                Ok(tokens)
            }
            Outcome::Failed(why) => Err(why),
        };
        self.order += 1;
        self.pending.push(Reverse(PendingAnswer {
            at: begin + answer.at,
            order: self.order,
            id,
            first: answer.first.map(|at| begin + at),
            tokens,
        }));
    }
}

impl SimulatedSystem for StreamingSystem<'_> {
    fn name(&self) -> &str {
        "streaming"
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        for (sample, index) in (0..).zip(query.indices) {
            let id = ResponseId(query.first.0 + sample);
            self.take_sample(now, query.tenant, id, *index);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.pending.peek().map(|Reverse(answer)| answer.at)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while self.pending.peek().is_some_and(|next| next.0.at <= now) {
            let Some(Reverse(answer)) = self.pending.pop() else { return };
            let outcome = match answer.tokens {
                Ok(tokens) => Outcome::Ok { tokens },
                Err(why) => Outcome::Failed(why),
            };
            let first_token_at = answer.first;
            completions.push(SimulatedCompletion { id: answer.id, first_token_at, outcome });
        }
    }
}

/// Returns the protocol of chats with so many samples, some of which demand tokens.
fn protocol(samples: u64) -> OpenAi {
    let prompt = |sample: u64| {
        let mut prompt = Prompt::new(Input::Text("hello".into()));
        if demands_tokens(sample as u32) {
            prompt.members.insert("min_tokens".into(), LEAST_TOKENS.into());
        }
        prompt
    };
    let prompts = (0..samples).map(prompt).collect();
    let settings = Settings {
        api: Some(Api::Chat),
        is_streaming: true,
        asks_usage: true,
        ..Settings::default()
    };
    OpenAi::new(Arc::new(Workload { prompts, ..Workload::default() }), settings)
}
