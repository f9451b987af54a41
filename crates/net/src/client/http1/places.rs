//! Number of connections of each event loop to each node.

/// Places for connections, by event loop and node.
pub(super) struct Places {
    nodes: usize,
    /// Shares of the first event loop by node, then those of the next.
    shares: Vec<Share>,
    /// Maximum number of connections.
    most: usize,
    /// Number of connections that are kept even if idle.
    least: usize,
    /// Number of idle connections to have at any time.
    spare: usize,
}

/// Maximum number of idle connections to have ready in a run that opens connections on demand. A
/// request that finds none waits for round trips of the network, which a client of a pool that has
/// warmed up does not.
const SPARE: usize = 4;

/// Places of one event loop for one node.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Number of connections that the loop should have.
    pub wanted: usize,
    /// Established connections, busy or idle.
    pub open: usize,
    /// The node is unreachable: samples need not wait for its connections.
    pub is_failing: bool,
}

impl Share {
    /// Returns the number of connections in progress.
    fn coming(&self) -> usize {
        if self.is_failing { 0 } else { self.wanted.saturating_sub(self.open) }
    }
}

impl Places {
    /// Creates the shares without any places.
    pub(super) fn new(nodes: usize, threads: usize) -> Self {
        Self { nodes, shares: vec![Share::default(); nodes * threads], most: 0, least: 0, spare: 0 }
    }

    pub(super) fn share_mut(&mut self, thread: usize, node: usize) -> &mut Share {
        &mut self.shares[thread * self.nodes + node]
    }

    /// Provides this many connections, distributed over nodes and event loops in turn, and up to
    /// `most` when samples find none free.
    pub(super) fn provide(&mut self, connections: usize, most: usize) {
        let threads = self.shares.len() / self.nodes;
        (self.most, self.least) = (most.max(connections), connections);
        self.spare = 0;
        self.shares.iter_mut().for_each(|share| share.wanted = 0);
        for number in 0..connections {
            self.share_mut(number / self.nodes % threads, number % self.nodes).wanted += 1;
        }
    }

    /// Adds places for `waiting` samples that found no free connection if fewer connections are in
    /// progress. Returns whether there are more places now.
    pub(super) fn grow(&mut self, waiting: usize) -> bool {
        let total: usize = self.shares.iter().map(|share| share.wanted).sum();
        let coming: usize = self.shares.iter().map(Share::coming).sum();
        let more = waiting.saturating_sub(coming).min(self.most.saturating_sub(total));
        for _ in 0..more {
            // The share with the fewest places, reachable nodes first.
            let least = self.shares.iter_mut().min_by_key(|share| (share.is_failing, share.wanted));
            least.expect("there is a node").wanted += 1;
        }
        more > 0
    }

    /// Keeps spare connections until connections are provided again.
    pub(super) fn keep_spares(&mut self) {
        self.spare = SPARE;
    }

    /// Adds places if fewer connections than the spare ones are idle or in progress. Returns whether it
    /// did. Requests that never overlap get no spare connection: a server that serves one connection
    /// after the other might wait on it.
    #[inline]
    pub(super) fn top_up(&mut self, idle: usize) -> bool {
        if idle >= self.spare {
            return false;
        }
        let busy = self.open().saturating_sub(idle);
        let spare = self.spare.min(busy.saturating_sub(1));
        idle < spare && self.grow(spare - idle)
    }

    /// Returns whether one of this many idle connections is surplus.
    pub(super) fn has_surplus(&self, idle: usize) -> bool {
        idle > self.spare
    }

    /// Adds places at one node for `waiting` samples that may go nowhere else, up to its share of the
    /// maximum. Returns whether there are more places now.
    pub(super) fn grow_at(&mut self, node: usize, waiting: usize) -> bool {
        let nodes = self.nodes;
        let own = || (0..).take_while(|thread| thread * nodes < self.shares.len());
        let coming: usize = own().map(|t| self.shares[t * nodes + node].coming()).sum();
        let total: usize = own().map(|t| self.shares[t * nodes + node].wanted).sum();
        let more =
            waiting.saturating_sub(coming).min(self.most.div_ceil(nodes).saturating_sub(total));
        for _ in 0..more {
            let shares = self.shares.iter_mut().skip(node).step_by(nodes);
            let least = shares.min_by_key(|share| (share.is_failing, share.wanted));
            least.expect("there is a thread").wanted += 1;
        }
        more > 0
    }

    /// Removes the place of an idle connection unless it must be kept.
    pub(super) fn give_up(&mut self, thread: usize, node: usize) -> bool {
        let total: usize = self.shares.iter().map(|share| share.wanted).sum();
        let least = self.least;
        let share = self.share_mut(thread, node);
        let may = total > least && share.wanted > 0;
        share.wanted -= usize::from(may);
        may
    }

    /// Returns whether all places have established connections or cannot have them.
    pub(super) fn is_settled(&self) -> bool {
        self.shares.iter().all(|share| share.coming() == 0)
    }

    /// Returns the number of established connections, busy or idle.
    pub(super) fn open(&self) -> usize {
        self.shares.iter().map(|share| share.open).sum()
    }

    /// Returns the number of established connections to a node.
    pub(super) fn open_at(&self, node: usize) -> usize {
        self.shares.iter().skip(node).step_by(self.nodes).map(|share| share.open).sum()
    }

    /// Returns whether the number of connections is at its maximum.
    pub(super) fn is_full(&self) -> bool {
        self.open() >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(places: &Places) -> Vec<usize> {
        places.shares.iter().map(|share| share.wanted).collect()
    }

    #[test]
    fn places_are_shared_out_in_turn_and_grow_on_demand_alone() {
        // Two loops, two nodes.
        let mut places = Places::new(2, 2);
        places.provide(5, 8);
        assert_eq!(wanted(&places), [2, 1, 1, 1]);
        assert!(!places.is_settled());
        // Five are coming: so many may wait.
        assert!(!places.grow(5));
        for share in &mut places.shares {
            share.open = share.wanted;
        }
        assert!(places.is_settled() && places.open() == 5);
        assert!(places.grow(2));
        assert_eq!(wanted(&places), [2, 2, 2, 1]);
        assert!(places.grow(100) && !places.grow(100));
        assert_eq!(wanted(&places).iter().sum::<usize>(), 8);
        assert!((0..3).all(|_| places.give_up(0, 0) || places.give_up(1, 1)));
        assert!(!places.give_up(0, 1));
        assert_eq!(wanted(&places).iter().sum::<usize>(), 5);
    }

    #[test]
    fn a_rate_has_spare_connections() {
        let mut places = Places::new(1, 1);
        places.provide(1, 100);
        places.keep_spares();
        places.share_mut(0, 0).open = 1;
        assert!(!places.top_up(0), "requests do not overlap");
        assert!(places.grow(2));
        places.share_mut(0, 0).open = 3;
        assert!(places.top_up(0) && !places.top_up(0), "two more are on their way");
        assert_eq!(wanted(&places), [5]);
        places.share_mut(0, 0).open = 9;
        places.share_mut(0, 0).wanted = 9;
        assert!(!places.top_up(SPARE) && places.top_up(SPARE - 1));
        assert!(places.has_surplus(SPARE + 1) && !places.has_surplus(SPARE));
        // A fixed number of connections has none.
        places.provide(2, 2);
        assert!(!places.top_up(0) && places.has_surplus(1));
    }

    #[test]
    fn a_node_that_cannot_be_reached_is_not_waited_for() {
        let mut places = Places::new(2, 1);
        places.provide(2, 4);
        *places.share_mut(0, 0) = Share { wanted: 1, open: 0, is_failing: true };
        places.share_mut(0, 1).open = 1;
        assert!(places.is_settled());
        assert!(places.grow(1));
        assert_eq!(wanted(&places), [1, 2]);
    }
}
