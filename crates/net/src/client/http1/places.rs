//! Number of connections of each event loop to each node.

use dyno_loadgen::clock::Nanos;

/// Places for connections, by event loop and node.
pub(super) struct Places {
    nodes: usize,
    /// Shares of the first event loop by node, then those of the next.
    shares: Vec<Share>,
    /// Maximum number of connections.
    most: usize,
    /// Number of connections that are kept even if idle.
    least: usize,
    /// Whether only the samples that wait, and `least`, justify opening a connection.
    is_on_demand: bool,
}

/// Places of one event loop for one node.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Number of connections that the loop should have.
    pub wanted: usize,
    /// Established connections, busy or idle.
    pub open: usize,
    /// The node is unreachable: samples need not wait for its connections.
    pub is_failing: bool,
    /// When the oldest connection attempt began that is in progress, by the client's clock.
    pub oldest_attempt: Option<Nanos>,
}

impl Share {
    /// Returns the number of places without a connection.
    pub(super) fn missing(&self) -> usize {
        self.wanted.saturating_sub(self.open)
    }

    /// Returns the number of connections in progress.
    fn coming(&self) -> usize {
        if self.is_failing { 0 } else { self.missing() }
    }
}

impl Places {
    /// Creates the shares without any places.
    pub(super) fn new(nodes: usize, threads: usize) -> Self {
        let shares = vec![Share::default(); nodes * threads];
        Self { nodes, shares, most: 0, least: 0, is_on_demand: false }
    }

    pub(super) fn share_mut(&mut self, thread: usize, node: usize) -> &mut Share {
        &mut self.shares[thread * self.nodes + node]
    }

    /// Provides this many connections, distributed over nodes and event loops in turn, and up to
    /// `most` when samples find none free.
    pub(super) fn provide(&mut self, connections: usize, most: usize) {
        let threads = self.shares.len() / self.nodes;
        (self.most, self.least) = (most.max(connections), connections);
        self.is_on_demand = false;
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

    /// Opens connections on demand alone until connections are provided again. A server may use a thread
    /// for each connection, so one that carries nothing could keep others from being served.
    pub(super) fn open_on_demand(&mut self) {
        self.is_on_demand = true;
    }

    /// Gives up a place of an event loop that has no connection, if connections are opened on demand and
    /// fewer samples wait than connections are in progress: a sample for which the place was added took
    /// another connection. `waiting` has the numbers of samples that wait and that may go to the node.
    pub(super) fn give_up_missing(
        &mut self,
        (thread, node): (usize, usize),
        (waiting, waiting_for_node): (usize, usize),
    ) -> bool {
        let share = *self.share_mut(thread, node);
        if !self.is_on_demand || share.missing() == 0 {
            return false;
        }
        // Other nodes and loops get places instead of those that fail.
        let is_surplus = if share.is_failing {
            share.missing() > waiting_for_node
        } else {
            let coming: usize = self.shares.iter().map(Share::coming).sum();
            let own = self.shares.iter().skip(node).step_by(self.nodes);
            coming > waiting || own.map(Share::coming).sum::<usize>() > waiting_for_node
        };
        is_surplus && self.give_up(thread, node)
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

    /// Removes the place of an idle connection unless it must be kept. Each node keeps its part of
    /// those.
    pub(super) fn give_up(&mut self, thread: usize, node: usize) -> bool {
        let total: usize = self.shares.iter().map(|share| share.wanted).sum();
        let may_go = total > self.least && self.wanted_at(node) > self.least / self.nodes;
        let share = self.share_mut(thread, node);
        let may = may_go && share.wanted > 0;
        share.wanted -= usize::from(may);
        may
    }

    /// Returns whether all places have established connections or cannot have them.
    pub(super) fn is_settled(&self) -> bool {
        self.shares.iter().all(|share| share.coming() == 0)
    }

    /// Returns when the oldest connection attempt of any event loop to a node began that is in progress.
    pub(super) fn oldest_attempt(&self, node: usize) -> Option<Nanos> {
        let own = self.shares.iter().skip(node).step_by(self.nodes);
        own.filter_map(|share| share.oldest_attempt).min()
    }

    /// Returns the number of established connections, busy or idle.
    pub(super) fn open(&self) -> usize {
        self.shares.iter().map(|share| share.open).sum()
    }

    /// Returns the number of established connections to a node.
    pub(super) fn open_at(&self, node: usize) -> usize {
        self.shares.iter().skip(node).step_by(self.nodes).map(|share| share.open).sum()
    }

    /// Returns the number of places for connections to a node.
    pub(super) fn wanted_at(&self, node: usize) -> usize {
        self.shares.iter().skip(node).step_by(self.nodes).map(|share| share.wanted).sum()
    }

    /// Returns whether no connection can be added to those that are established or in progress.
    pub(super) fn is_full(&self) -> bool {
        self.shares.iter().map(|share| share.wanted).sum::<usize>() >= self.most
    }

    /// Returns whether a connection is opened on demand for a sample that has just taken another one, while
    /// this many still wait.
    pub(super) fn is_connecting(&self, waiting: usize) -> bool {
        self.is_on_demand && self.shares.iter().map(Share::missing).sum::<usize>() > waiting
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
    fn a_place_without_a_connection_is_kept_for_a_waiting_sample_alone() {
        let mut places = Places::new(1, 1);
        places.provide(1, 100);
        places.open_on_demand();
        places.share_mut(0, 0).open = 1;
        assert!(places.grow(3));
        assert_eq!(wanted(&places), [4]);
        // Three wait; then one of them takes the connection that has become idle.
        assert!(!places.give_up_missing((0, 0), (3, 3)) && !places.is_connecting(3));
        assert!(places.is_connecting(2) && !places.is_full());
        assert!(places.give_up_missing((0, 0), (2, 2)) && !places.give_up_missing((0, 0), (2, 2)));
        places.share_mut(0, 0).is_failing = true;
        assert!(places.give_up_missing((0, 0), (1, 1)), "also at a node that fails");
        assert!(places.give_up_missing((0, 0), (0, 0)) && !places.give_up_missing((0, 0), (0, 0)));
        assert_eq!(wanted(&places), [1]);
        // A connection that the server closed is made anew only if it must be kept.
        places.share_mut(0, 0).open = 0;
        assert!(!places.give_up_missing((0, 0), (0, 0)));
        // A fixed number of connections does not depend on samples that wait.
        places.provide(2, 2);
        assert!(!places.give_up_missing((0, 0), (0, 0)) && !places.is_connecting(0));
        assert_eq!(wanted(&places), [2]);
    }

    #[test]
    fn each_node_keeps_its_part_of_the_connections() {
        let mut places = Places::new(2, 1);
        places.provide(2, 100);
        places.open_on_demand();
        places.share_mut(0, 0).open = 1;
        places.share_mut(0, 1).open = 1;
        assert!(places.grow(1));
        places.share_mut(0, 0).open = 2;
        // The server of the other node closes the connection.
        places.share_mut(0, 1).open = 0;
        assert!(!places.give_up_missing((0, 1), (0, 0)));
        assert_eq!(wanted(&places), [2, 1]);
        // Samples that wait for one node justify no connection to the other.
        assert!(places.grow_at(1, 2));
        assert_eq!(wanted(&places), [2, 2]);
        assert!(!places.give_up_missing((0, 1), (2, 2)));
        assert!(places.give_up_missing((0, 1), (2, 1)));
    }

    #[test]
    fn a_node_that_cannot_be_reached_is_not_waited_for() {
        let mut places = Places::new(2, 1);
        places.provide(2, 4);
        *places.share_mut(0, 0) = Share { wanted: 1, is_failing: true, ..Share::default() };
        places.share_mut(0, 1).open = 1;
        assert!(places.is_settled());
        assert!(places.grow(1));
        assert_eq!(wanted(&places), [1, 2]);
    }

    #[test]
    fn the_oldest_attempt_is_that_of_any_event_loop() {
        // Two loops, two nodes.
        let mut places = Places::new(2, 2);
        assert_eq!(places.oldest_attempt(0), None);
        places.share_mut(1, 0).oldest_attempt = Some(5);
        places.share_mut(0, 0).oldest_attempt = Some(9);
        places.share_mut(0, 1).oldest_attempt = Some(1);
        assert_eq!((places.oldest_attempt(0), places.oldest_attempt(1)), (Some(5), Some(1)));
    }
}
