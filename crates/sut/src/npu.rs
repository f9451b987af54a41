//! Simulated NPUs in virtual time, which serve several networks, one per tenant.

mod observation;
pub mod service;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_npu::deploy::Deployment;
use dyno_npu::fleet::{Balancer, Fleet};
use dyno_npu::pass::Pass;
use dyno_npu::profile::Picos;
use dyno_npu::serve::{BatchingPolicy, NpuServer};
use dyno_npu::spatial::{PartitionPolicy, PartitionedServer, Partitions};

pub use self::observation::{
    Bar, BusyTime, NetworkLoad, NpuObservation, ObservationSlot, VersionLoad,
};

const PICOS_PER_NANO: Picos = 1_000;

/// Arrangement of NPUs.
#[derive(Clone, Debug)]
pub enum NpuSetup {
    /// Several NPUs, each of which serves all networks.
    Fleet {
        /// Number of NPUs; at least 1.
        count: usize,
        /// Balancer that chooses the NPU of a request.
        balancer: Balancer,
    },
    /// One NPU whose array is partitioned.
    Split(Box<Partitions>, PartitionPolicy),
}

impl NpuSetup {
    /// One NPU, without load balancing.
    pub const ONE: Self = Self::Fleet { count: 1, balancer: Balancer::LeastWork };

    fn machines(&self, deployment: &Deployment, batching: BatchingPolicy) -> Machines {
        match self {
            Self::Fleet { count, balancer } => {
                Machines::Fleet(deployment.fleet(*count, *balancer, batching))
            }
            Self::Split(parts, split) => {
                Machines::Split(PartitionedServer::new(deployment, parts, *split, batching))
            }
        }
    }
}

/// State of the NPUs.
#[derive(Debug)]
enum Machines {
    Fleet(Fleet),
    Split(PartitionedServer),
}

impl Machines {
    fn servers(&self) -> &[NpuServer] {
        match self {
            Self::Fleet(fleet) => fleet.servers(),
            Self::Split(spatial) => spatial.servers(),
        }
    }

    /// Returns the time of the next event, rounded up to nanoseconds.
    fn next_event(&self) -> Option<Nanos> {
        let next = match self {
            Self::Fleet(fleet) => fleet.next_event(),
            Self::Split(spatial) => spatial.next_event(),
        };
        next.map(|at| at.div_ceil(PICOS_PER_NANO))
    }

    /// Returns the time of the next answer. Decisions of a fleet before that time are invisible to
    /// the load generator.
    fn next_answer(&self) -> Option<Nanos> {
        match self {
            Self::Fleet(fleet) => fleet.next_answer().map(|at| at.div_ceil(PICOS_PER_NANO)),
            Self::Split(_) => self.next_event(),
        }
    }

    /// Plays all events until `now`, each at its time.
    fn advance(&mut self, now: Nanos, computed: &mut Vec<(Picos, u64)>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            let at = at.saturating_mul(PICOS_PER_NANO);
            match self {
                Self::Fleet(fleet) => fleet.advance(at, computed),
                Self::Split(spatial) => spatial.advance(at, computed),
            }
        }
    }
}

/// NPUs as a simulated system. A query of a tenant requests one pass of the tenant's network for
/// each sample. Tenants beyond the number of networks share networks in turn.
///
/// An answer completes at the end of the nanosecond in which it is computed. The first query after
/// a flush begins a new run on idle NPUs.
///
/// ```
/// use dyno_loadgen::sut::{ResponseId, SimulatedQuery, SimulatedSystem};
/// use dyno_npu::deploy::{Deployment, DeploymentPlan, Tenant};
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::lowering::LoweringOptions;
/// use dyno_npu::profile::Picos;
/// use dyno_npu::schedule::NamedScheduler;
/// use dyno_npu::serve::BatchingPolicy;
/// use dyno_npu::workload::Network;
/// use dyno_sut::npu::{NpuSetup, NpuSystem};
///
/// let plan = DeploymentPlan {
///     npu: Npu::preset("memory-centric")?,
///     mapping: "kcpx+1:128".parse()?,
///     options: LoweringOptions::default(),
///     tenants: vec![Tenant { network: Network::preset("RN")?, limit: Picos::MAX }],
///     scheduler: NamedScheduler::find("balanced")?.into(),
/// };
/// let batching = BatchingPolicy { window: 0, active: 1, wake: Picos::MAX };
/// let mut npu = NpuSystem::new(Deployment::new(&plan)?, NpuSetup::ONE, batching);
/// let query = SimulatedQuery { tenant: 0, first: ResponseId::new(1, 0, 0), indices: &[0] };
/// npu.issue(0, &query);
/// let mut completions = Vec::new();
/// while let Some(now) = npu.next_event() {
///     npu.advance(now, &mut completions);
/// }
/// assert_eq!(completions.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NpuSystem {
    name: String,
    deployment: Deployment,
    batching: BatchingPolicy,
    npus: NpuSetup,
    machines: Machines,
    flushed: bool,
    computed: Vec<(Picos, u64)>,
    /// Requests of the present run, by network.
    requests: Vec<u64>,
    first: Rc<RefCell<FirstBars>>,
    slot: ObservationSlot,
}

/// The first blocks of the first NPU in a run.
#[derive(Debug, Default)]
struct FirstBars {
    start: Option<Picos>,
    bars: Vec<Bar>,
}

impl FirstBars {
    /// Maximum number of blocks, which fill a timeline.
    const MAX_BARS: usize = 400;
    /// Maximum start time of a block, ps from the start of the run: 5 ms.
    const MAX_TIME: Picos = 5_000_000_000;

    fn add(&mut self, mut bar: Bar) {
        if self.bars.len() == Self::MAX_BARS {
            return;
        }
        let start = self.start.unwrap_or(0);
        let placed = &mut bar.placed;
        let times = [&mut placed.fetch_start, &mut placed.fetch_end];
        let more = [&mut placed.compute_start, &mut placed.compute_end];
        times.into_iter().chain(more).for_each(|time| *time = time.saturating_sub(start));
        if placed.fetch_start < Self::MAX_TIME {
            self.bars.push(bar);
        }
    }
}

impl NpuSystem {
    /// Returns idle NPUs.
    #[must_use]
    pub fn new(deployment: Deployment, npus: NpuSetup, batching: BatchingPolicy) -> Self {
        let names = deployment.names.join("+");
        let name = match npus {
            NpuSetup::Fleet { count: 1, .. } => format!("npu {names}"),
            NpuSetup::Fleet { count, .. } => format!("{count} npus {names}"),
            NpuSetup::Split(..) => format!("split npu {names}"),
        };
        let machines = npus.machines(&deployment, batching);
        let requests = vec![0; deployment.names.len()];
        let (flushed, computed, first, slot) = Default::default();
        let mut npu = Self {
            name,
            deployment,
            batching,
            npus,
            machines,
            flushed,
            computed,
            requests,
            first,
            slot,
        };
        npu.observe_first();
        npu
    }

    /// Sets where the observation of the last run is stored when the system is dropped.
    #[must_use]
    pub fn with_observation(self, slot: ObservationSlot) -> Self {
        let mut npu = self;
        npu.slot = slot;
        npu
    }

    /// Begins a new run on idle NPUs.
    fn restart(&mut self) {
        self.machines = self.npus.machines(&self.deployment, self.batching);
        self.requests.fill(0);
        self.first = Rc::default();
        self.observe_first();
    }

    fn observe_first(&mut self) {
        let parts = self.deployment.names.len();
        let (servers, is_split) = match &mut self.machines {
            Machines::Fleet(fleet) => (&mut fleet.servers_mut()[..1], false),
            Machines::Split(spatial) => (spatial.servers_mut(), true),
        };
        for (at, server) in servers.iter_mut().enumerate() {
            let first = Rc::clone(&self.first);
            let part = (is_split && at < parts).then_some(at);
            server.observe(Box::new(move |stream, block, placed| {
                let stream = part.unwrap_or(stream);
                first.borrow_mut().add(Bar { stream, block, part, placed: *placed });
            }));
        }
    }

    fn observation(&self) -> NpuObservation {
        let servers = self.machines.servers();
        let first = self.first.borrow();
        let ended = servers.iter().map(|server| server.machine().compute_free()).max();
        let busy = |server: &NpuServer| {
            let machine = server.machine();
            BusyTime { compute: machine.compute_busy(), memory: machine.memory_busy() }
        };
        let npus = match &self.npus {
            NpuSetup::Fleet { .. } => servers.iter().map(busy).collect(),
            // The servers are the parts and, after them, the whole array.
            NpuSetup::Split(parts, _) => {
                let share = |at: usize| parts.shares.get(at).copied().unwrap_or(1.0);
                let part = |(at, server): (usize, &NpuServer)| {
                    (server.machine().compute_busy() as f64 * share(at)) as Picos
                };
                let memory = servers.iter().map(|server| server.machine().memory_busy()).sum();
                vec![BusyTime { compute: servers.iter().enumerate().map(part).sum(), memory }]
            }
        };
        NpuObservation {
            duration: ended.unwrap_or(0).saturating_sub(first.start.unwrap_or(0)),
            npus,
            networks: (0..self.requests.len()).map(|stream| self.load(stream)).collect(),
            bars: first.bars.clone(),
        }
    }

    fn load(&self, stream: usize) -> NetworkLoad {
        let requests = self.requests[stream];
        let (mut versions, mut left) = (Vec::<VersionLoad>::new(), requests);
        let mut least = [0, 0];
        let mut add = |passes: &[Arc<Pass>], requests: u64| {
            let mut compute = least_time(passes, |pass| pass.compute);
            if let NpuSetup::Split(parts, _) = &self.npus {
                // Time on a part counts by the share of PEs that the part has.
                let part_time =
                    least_time(&parts.deployments[stream].served[0].passes, |pass| pass.compute);
                compute = compute.min((part_time as f64 * parts.shares[stream]) as Picos);
            }
            let fetch = least_time(passes, |pass| pass.fetch);
            let times = |time: Picos| time.saturating_mul(requests);
            least = [least[0] + times(compute), least[1] + times(fetch)];
        };
        if let Machines::Fleet(fleet) = &self.machines {
            for history in fleet.servers().iter().filter_map(|server| server.versions(stream)) {
                for (at, (version, answers)) in history.answers().enumerate() {
                    if versions.len() <= at {
                        versions.push(VersionLoad {
                            name: version.name.clone(),
                            accuracy: version.accuracy,
                            requests: 0,
                        });
                    }
                    versions[at].requests += answers;
                    left = left.saturating_sub(answers);
                    add(&version.passes, answers);
                }
            }
        }
        add(&self.deployment.served[stream].passes, left);
        NetworkLoad { requests, compute: least[0], fetch: least[1], versions }
    }
}

/// Returns the minimum time per request over all batch sizes.
fn least_time(passes: &[Arc<Pass>], work: fn(&Pass) -> Picos) -> Picos {
    (1_u64..).zip(passes).map(|(batch, pass)| work(pass) / batch).min().unwrap_or(0)
}

impl Drop for NpuSystem {
    fn drop(&mut self) {
        self.slot.put(self.observation());
    }
}

impl SimulatedSystem for NpuSystem {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if std::mem::take(&mut self.flushed) {
            self.restart();
        }
        // Events before the arrival of the query are decided without knowledge of it.
        self.machines.advance(now, &mut self.computed);
        let stream = query.tenant % self.deployment.names.len();
        let now = now.saturating_mul(PICOS_PER_NANO);
        self.first.borrow_mut().start.get_or_insert(now);
        self.requests[stream] += query.indices.len() as u64;
        for sample in 0..query.indices.len() as u64 {
            let ticket = query.first.0 + sample;
            match &mut self.machines {
                Machines::Fleet(fleet) => {
                    fleet.arrive(now, stream, ticket);
                }
                Machines::Split(spatial) => spatial.arrive(now, stream, ticket),
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.machines.next_answer()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.machines.advance(now, &mut self.computed);
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
    use dyno_npu::deploy::{DeploymentPlan, Tenant};
    use dyno_npu::hardware::Npu as Hardware;
    use dyno_npu::lowering::LoweringOptions;
    use dyno_npu::schedule::NamedScheduler;
    use dyno_npu::workload::Network;

    use super::*;

    fn npu(npus: NpuSetup, batching: BatchingPolicy) -> NpuSystem {
        let tenant =
            |code| Tenant { network: Network::preset(code).expect("it is one"), limit: Picos::MAX };
        let plan = DeploymentPlan {
            npu: Hardware::preset("chapter-v").expect("it is one"),
            mapping: "kcp+1".parse().expect("it is one"),
            options: LoweringOptions::default(),
            tenants: vec![tenant("RN"), tenant("MN")],
            scheduler: NamedScheduler::find("balanced").expect("it is one").into(),
        };
        NpuSystem::new(Deployment::new(&plan).expect("both fit"), npus, batching)
    }

    fn query(tenant: usize, first: u64, indices: &[u32]) -> SimulatedQuery<'_> {
        SimulatedQuery { tenant, first: ResponseId(first), indices }
    }

    fn play(system: &mut NpuSystem) -> Vec<(Nanos, u64)> {
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
        let mut system =
            npu(NpuSetup::ONE, BatchingPolicy { window: 0, active: 8, wake: Picos::MAX });
        system.issue(10, &query(0, 100, &[0]));
        system.issue(10, &query(1, 200, &[0, 1]));
        let ends = play(&mut system);
        let alone =
            |stream: usize| system.deployment.served[stream].passes[0].compute / PICOS_PER_NANO;
        assert_eq!(ends.len(), 3);
        let end = |id: u64| ends.iter().find(|(_, other)| *other == id).expect("it is answered").0;
        assert!(end(100) >= 10 + alone(0));
        assert!(end(201) > end(200) && end(200) >= 10 + alone(1));
        let both = alone(0) + 2 * alone(1);
        let last = ends.iter().map(|(at, _)| *at).max().expect("there are some");
        assert!(last >= 10 + both, "{last} is before {both} of computing");
    }

    #[test]
    fn what_was_done_is_left_behind() {
        let slot = ObservationSlot::default();
        let batching = BatchingPolicy { window: 0, active: 8, wake: Picos::MAX };
        let mut system = npu(NpuSetup::ONE, batching).with_observation(slot.clone());
        // An earlier run leaves nothing.
        system.issue(0, &query(0, 1, &[0]));
        play(&mut system);
        system.flush(1);
        system.issue(1_000_000_000, &query(1, 200, &[0, 1]));
        let ends = play(&mut system);
        let fetch = system.deployment.served[1].passes[0].fetch;
        drop(system);
        let observed = slot.take().expect("it was left");
        assert_eq!(observed.duration.div_ceil(1_000), ends[1].0 - 1_000_000_000);
        assert_eq!(
            observed.networks.iter().map(|network| network.requests).collect::<Vec<_>>(),
            [0, 2]
        );
        assert_eq!(observed.npus.iter().map(|npu| npu.memory).collect::<Vec<_>>(), [2 * fetch]);
        assert_eq!((observed.bars[0].stream, observed.bars[0].placed.fetch_start), (1, 0));
        assert_eq!(slot.take(), None);
    }

    #[test]
    fn two_npus_answer_sooner_than_one() {
        let batching = BatchingPolicy { window: 0, active: 8, wake: Picos::MAX };
        let last = |npus: NpuSetup| {
            let mut system = npu(npus, batching);
            system.issue(0, &query(0, 100, &[0, 1, 2, 3]));
            play(&mut system).iter().map(|(at, _)| *at).max().expect("there are some")
        };
        let two = last(NpuSetup::Fleet { count: 2, balancer: Balancer::LeastWork });
        assert!(2 * two < last(NpuSetup::ONE) + two / 2, "{two}");
    }

    #[test]
    fn a_run_after_a_flush_is_the_same_again() {
        let mut system =
            npu(NpuSetup::ONE, BatchingPolicy { window: 1_000_000, active: 2, wake: Picos::MAX });
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
