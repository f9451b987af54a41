//! A simulated NPU that serves several networks, one a tenant, in virtual time.

use std::fmt;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_npu::deploy::Deployment;
use dyno_npu::profile::Picos;
use dyno_npu::serve::{Batching, Server};

const PICOS_PER_NANO: Picos = 1_000;

/// An NPU behind the instrument: the query of a tenant asks for a pass of the network of the same number, for each of its
/// samples. Tenants beyond the networks share them in turn.
///
/// An answer is complete at the end of the nanosecond in which it is computed. The first query after a flush begins a new
/// run on an idle NPU.
pub struct Npu {
    name: String,
    deployment: Deployment,
    batching: Batching,
    server: Server,
    flushed: bool,
    computed: Vec<(Picos, u64)>,
}

impl fmt::Debug for Npu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Npu")
            .field("name", &self.name)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Npu {
    /// An idle NPU.
    #[must_use]
    pub fn new(deployment: Deployment, batching: Batching) -> Self {
        let name = format!("npu {}", deployment.names.join("+"));
        let server = deployment.server(batching);
        Self { name, deployment, batching, server, flushed: false, computed: Vec::new() }
    }
}

impl SimulatedSystem for Npu {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if std::mem::take(&mut self.flushed) {
            self.server = self.deployment.server(self.batching);
        }
        let stream = query.tenant % self.deployment.names.len();
        let now = now.saturating_mul(PICOS_PER_NANO);
        for sample in 0..query.indices.len() as u64 {
            self.server.arrive(now, stream, query.first.0 + sample);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.server.next_event().map(|at| at.div_ceil(PICOS_PER_NANO))
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.server.advance(now.saturating_mul(PICOS_PER_NANO), &mut self.computed);
        completions.extend(self.computed.drain(..).map(|(_, ticket)| SimulatedCompletion {
            id: ResponseId(ticket),
            first_token_at: None,
            outcome: Outcome::Ok { tokens: 0 },
        }));
    }

    fn flush(&mut self, _now: Nanos) {
        self.flushed = true;
    }
}

#[cfg(test)]
mod tests {
    use dyno_npu::deploy::{Plan, Tenant};
    use dyno_npu::hardware::Npu as Hardware;
    use dyno_npu::profile::Options;
    use dyno_npu::schedule::Named;
    use dyno_npu::workload::Network;

    use super::*;

    fn npu(batching: Batching) -> Npu {
        let tenant =
            |code| Tenant { network: Network::preset(code).expect("it is one"), limit: Picos::MAX };
        let plan = Plan {
            npu: Hardware::preset("chapter-v").expect("it is one"),
            mapping: "kcp+1".parse().expect("it is one"),
            options: Options::default(),
            tenants: vec![tenant("RN"), tenant("MN")],
            scheduler: Named::find("balanced").expect("it is one"),
        };
        Npu::new(Deployment::new(&plan).expect("both fit"), batching)
    }

    fn query(tenant: usize, first: u64, indices: &[u32]) -> SimulatedQuery<'_> {
        SimulatedQuery { tenant, first: ResponseId(first), indices }
    }

    fn play(system: &mut Npu) -> Vec<(Nanos, u64)> {
        let mut all = Vec::new();
        let mut completions = Vec::new();
        while let Some(now) = system.next_event() {
            system.advance(now, &mut completions);
            all.extend(completions.drain(..).map(|completion| (now, completion.id.0)));
        }
        all
    }

    #[test]
    fn each_tenant_has_its_network_and_each_sample_an_answer() {
        let mut system = npu(Batching { window: 0, active: 8, wake: Picos::MAX });
        system.issue(10, &query(0, 100, &[0]));
        system.issue(10, &query(1, 200, &[0, 1]));
        let ends = play(&mut system);
        let alone =
            |stream: usize| system.deployment.served[stream].passes[0].compute / PICOS_PER_NANO;
        assert_eq!(ends.len(), 3);
        let of = |id: u64| ends.iter().find(|(_, other)| *other == id).expect("it is answered").0;
        assert!(of(100) >= 10 + alone(0));
        assert!(of(201) > of(200) && of(200) >= 10 + alone(1));
        let both = alone(0) + 2 * alone(1);
        let last = ends.iter().map(|(at, _)| *at).max().expect("there are some");
        assert!(last >= 10 + both, "{last} is before {both} of computing");
    }

    #[test]
    fn a_run_after_a_flush_is_the_same_again() {
        let mut system = npu(Batching { window: 1_000_000, active: 2, wake: Picos::MAX });
        let mut once = || {
            system.issue(0, &query(0, 100, &[0, 1, 2]));
            system.issue(5, &query(1, 200, &[0]));
            let ends = play(&mut system);
            system.flush(0);
            ends
        };
        let first = once();
        assert_eq!(first, once());
    }
}
