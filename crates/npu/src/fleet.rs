//! Several NPUs that serve the same networks, and the load balancer in front of them.
//!
//! The balancer sees what the thesis allows: the number of queued requests per scheduler, and the passes of the
//! networks, from which it computes the work. A request stays on the NPU to which it was sent. Ties go to the NPU with
//! the lowest number, so a run is deterministic.

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::nearest::alternatives;
use crate::profile::Picos;
use crate::serve::NpuServer;

/// Rule by which requests are assigned to NPUs.
///
/// ```
/// use dyno_npu::fleet::Balancer;
///
/// assert_eq!("least-work".parse(), Ok(Balancer::LeastWork));
/// let error = "least-wrok".parse::<Balancer>().unwrap_err();
/// assert!(error.to_string().contains("the nearest is `least-work`"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Balancer {
    /// Each network has its own NPUs and uses them in turn. With as many NPUs as networks, no NPU is shared.
    Dedicated,
    /// Each NPU in turn, counted per network.
    RoundRobin,
    /// The NPU with the fewest unanswered requests.
    ShortestQueue,
    /// The NPU whose busier resource would finish first with all its work and the new request. A memory-bound network
    /// goes to an NPU whose array is busy. A request that fills a batch adds little work.
    LeastWork,
}

/// All balancers, with their names and descriptions in commands.
pub(crate) const BALANCERS: [(Balancer, &str, &str); 4] = [
    (Balancer::Dedicated, "dedicated", "separate NPUs for each network, in turn"),
    (Balancer::RoundRobin, "round-robin", "each NPU in turn"),
    (Balancer::ShortestQueue, "shortest-queue", "the NPU with the fewest requests"),
    (Balancer::LeastWork, "least-work", "the NPU whose busier resource would finish first"),
];

/// Error: no balancer has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown balancer `{name}`{}",
    alternatives(name, BALANCERS.iter().map(|(_, name, _)| *name))
)]
pub struct UnknownBalancer {
    /// The requested name.
    pub name: String,
}

impl std::str::FromStr for Balancer {
    type Err = UnknownBalancer;

    fn from_str(name: &str) -> Result<Self, UnknownBalancer> {
        let found = BALANCERS.iter().find(|(_, known, _)| *known == name);
        found
            .map(|(balancer, ..)| *balancer)
            .ok_or_else(|| UnknownBalancer { name: name.to_owned() })
    }
}

/// NPUs behind one balancer.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<NpuServer>,
    balancer: Balancer,
    /// Requests received so far, per network.
    arrivals: Vec<usize>,
}

impl Fleet {
    /// Creates a fleet of idle NPUs that serve the same networks. `servers` has at least one NPU.
    pub fn new(servers: Vec<NpuServer>, balancer: Balancer) -> Self {
        let networks = servers.first().map_or(0, |server| server.queues().len());
        Self { servers, balancer, arrivals: vec![0; networks] }
    }

    /// Returns the NPUs.
    pub fn servers(&self) -> &[NpuServer] {
        &self.servers
    }

    /// Returns the NPUs mutably, so that observers can be attached.
    pub fn servers_mut(&mut self) -> &mut [NpuServer] {
        &mut self.servers
    }

    /// Sends a request of `stream` to an NPU and returns the number of that NPU.
    pub fn arrive(&mut self, now: Picos, stream: usize, ticket: u64) -> usize {
        let npu = self.choose(now, stream);
        self.arrivals[stream] += 1;
        self.servers[npu].arrive(now, stream, ticket);
        npu
    }

    fn choose(&self, now: Picos, stream: usize) -> usize {
        let npus = self.servers.len();
        let networks = self.arrivals.len();
        let arrivals = self.arrivals[stream];
        let least = |cost: &dyn Fn(&NpuServer) -> [u64; 2]| {
            (0..npus).min_by_key(|&at| cost(&self.servers[at])).unwrap_or(0)
        };
        match self.balancer {
            _ if npus == 1 => 0,
            Balancer::Dedicated if networks >= npus => stream % npus,
            Balancer::Dedicated => {
                // The network's NPUs are stream, stream + networks, stream + 2 networks, and so on.
                let own = (npus - stream).div_ceil(networks);
                stream + networks * (arrivals % own)
            }
            Balancer::RoundRobin => arrivals % npus,
            Balancer::ShortestQueue => least(&|server| [server.unanswered(), 0]),
            Balancer::LeastWork => least(&|server| {
                let [compute, fetch] = server.work(now, |other| usize::from(other == stream));
                // Ties go to the NPU whose less busy resource finishes first.
                [compute.max(fetch), compute.min(fetch)]
            }),
        }
    }

    /// Returns the time of the next event; `None` if no work is in progress.
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        self.servers.iter().filter_map(NpuServer::next_event).min()
    }

    /// Returns a time at or before the next answer of any NPU; see [`NpuServer::next_answer`].
    #[must_use]
    pub fn next_answer(&self) -> Option<Picos> {
        self.servers.iter().filter_map(NpuServer::next_answer).min()
    }

    /// Simulates up to `now` and appends the requests that were computed by then: completion time and ticket.
    pub fn advance(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        for server in &mut self.servers {
            server.advance(now, computed);
        }
    }
}
