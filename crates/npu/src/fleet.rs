//! Several NPUs that serve the same networks, and the balancer that sends each request to one of them.
//!
//! What the balancer sees is what the thesis lets it see: how many requests each scheduler has in its queues, and the
//! passes of the networks, which say how much work that is. A request stays where it was sent. Whoever is even with
//! another is decided by the number of the NPU, so that the same requests always go the same ways.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::nearest::nearest;
use crate::profile::Picos;
use crate::serve::NpuServer;

/// To which NPU a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Balancer {
    /// Each network has its NPUs, and its requests go to them in turn: nothing is shared where there are as many
    /// NPUs as networks.
    Dedicated,
    /// To each in turn, counted for each network.
    RoundRobin,
    /// To the one with the fewest requests that are not answered yet.
    ShortestQueue,
    /// To the one whose busier resource would be done first with all that it has and the request: a network that
    /// waits for the memory goes where the array is what is busy, and one that fills a batch adds little.
    LeastWork,
}

/// All of them, with what commands say of them.
pub const BALANCERS: [(Balancer, &str, &str); 4] = [
    (Balancer::Dedicated, "dedicated", "NPUs of its own for each network, in turn"),
    (Balancer::RoundRobin, "round-robin", "each NPU in turn"),
    (Balancer::ShortestQueue, "shortest-queue", "the NPU with the fewest requests"),
    (Balancer::LeastWork, "least-work", "the NPU whose busier resource would be done first"),
];

/// There is no balancer of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBalancer {
    /// What was asked for.
    pub name: String,
}

impl fmt::Display for UnknownBalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = BALANCERS.iter().map(|(_, name, _)| *name);
        let all: Vec<&str> = names.clone().collect();
        let near = nearest(&self.name, names);
        write!(f, "there is no balancer `{}`{near}; there are {}", self.name, all.join(", "))
    }
}

impl std::error::Error for UnknownBalancer {}

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
    /// Requests that came, of each network.
    arrivals: Vec<usize>,
}

impl Fleet {
    /// IdleTime NPUs, at least one, that serve the same networks.
    #[must_use]
    pub fn new(servers: Vec<NpuServer>, balancer: Balancer) -> Self {
        let networks = servers.first().map_or(0, |server| server.queues().len());
        Self { servers, balancer, arrivals: vec![0; networks] }
    }

    /// The NPUs.
    #[must_use]
    pub fn servers(&self) -> &[NpuServer] {
        &self.servers
    }

    /// The same, to be watched.
    pub fn servers_mut(&mut self) -> &mut [NpuServer] {
        &mut self.servers
    }

    /// A request of `stream` comes, and is sent to the NPU whose number is returned.
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
                // Of these numbers are its NPUs: stream, stream + networks, and so on.
                let own = (npus - stream).div_ceil(networks);
                stream + networks * (arrivals % own)
            }
            Balancer::RoundRobin => arrivals % npus,
            Balancer::ShortestQueue => least(&|server| [server.unanswered(), 0]),
            Balancer::LeastWork => least(&|server| {
                let [compute, fetch] = server.work(now, |other| usize::from(other == stream));
                // Of those whose busier resource is done at once, the one with less for the other.
                [compute.max(fetch), compute.min(fetch)]
            }),
        }
    }

    /// When something next happens, if anything is under way.
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        self.servers.iter().filter_map(NpuServer::next_event).min()
    }

    /// When one of them next has an answer, or may have one sooner than it knows; see [`NpuServer::next_answer`].
    #[must_use]
    pub fn next_answer(&self) -> Option<Picos> {
        self.servers.iter().filter_map(NpuServer::next_answer).min()
    }

    /// Plays what happens until `now`, and appends the tickets of the requests that have been computed by then.
    pub fn advance(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        for server in &mut self.servers {
            server.advance(now, computed);
        }
    }
}
