//! Connections that are opened as a load needs them.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use dyno_loadgen::sut::InFlight;

use super::{Http2, Lane, LaneState, keep};

/// Requests for which a load without a fixed number of them has connections from the begin.
const OPEN_LOOP: usize = 64;

/// The connections of a lane that are not open yet. Those to different nodes alternate.
#[derive(Default)]
pub(super) struct Growth {
    /// Nodes of connections that may be opened.
    spare: VecDeque<usize>,
    /// Nodes of connections whose tasks are to be started.
    due: Vec<usize>,
    /// Connections that have a task, or are to have one.
    provided: usize,
    nodes: usize,
    /// The load may need any number of requests in flight.
    is_open_loop: bool,
}

impl Growth {
    /// Creates the state of connections to these nodes.
    pub(super) fn new(spare: Vec<usize>, nodes: usize) -> Self {
        Self { spare: spare.into(), nodes, ..Self::default() }
    }
}

impl LaneState {
    /// Has so many connections opened in total, as far as they are permitted. Each node gets as many as
    /// the others.
    pub(super) fn provide(&mut self, connections: usize) {
        let Growth { spare, due, provided, nodes, .. } = &mut self.growth;
        let wanted = connections.checked_next_multiple_of(*nodes).unwrap_or(usize::MAX);
        while *provided < wanted
            && let Some(node) = spare.pop_front()
        {
            *provided += 1;
            self.unsettled += 1;
            due.push(node);
        }
    }

    /// Returns how many streams a connection takes: at most `most`, and no more than any server permits. A
    /// server that permits none for a while has none on further connections either.
    fn streams_each(&self, most: usize) -> usize {
        let permitted = self.links.iter().map(|link| link.permitted());
        permitted.filter(|streams| *streams > 0).fold(most, usize::min)
    }
}

impl Http2 {
    /// Opens the connections that the next run needs. Those of earlier runs stay open.
    pub(in crate::client) fn expect(&self, in_flight: &[InFlight]) {
        let Some(lane) = self.lanes.first() else { return };
        let options = &lane.shared.options;
        if !options.grows {
            return;
        }
        let is_open_loop = in_flight.contains(&InFlight::Unknown);
        let requests = |tenant: &InFlight| match tenant {
            InFlight::AtMost(samples) | InFlight::AtOnce(samples) => {
                usize::try_from(*samples).unwrap_or(usize::MAX)
            }
            InFlight::Unknown => OPEN_LOOP,
        };
        let requests = in_flight.iter().map(requests).fold(0, usize::saturating_add);
        let limit = options.max_in_flight.map_or(usize::MAX, NonZero::get);
        let share = requests.min(limit).div_ceil(self.lanes.len());
        for lane in &self.lanes {
            let mut own = lane.own();
            own.growth.is_open_loop = is_open_loop;
            let streams = own.streams_each(options.streams);
            own.provide(share.div_ceil(streams));
            drop(own);
            lane.work.notify_one();
        }
    }
}

impl Lane {
    /// Starts the tasks of further connections. At a rate, there are streams for twice the requests that are
    /// open or wait, so that few wait for a new connection.
    pub(super) fn grow(self: &Arc<Self>) {
        let options = &self.shared.options;
        let due = {
            let waiting = if options.grows { self.mailbox().waiting.len() } else { 0 };
            let mut own = self.own();
            // Connections to a server that cannot be reached would not help.
            if options.grows && own.open > 0 {
                let requests = self.streams.load(Relaxed) + waiting;
                let limit = options.max_in_flight.map_or(usize::MAX, NonZero::get);
                let ahead = if own.growth.is_open_loop { 2 } else { 1 };
                let requests = requests.saturating_mul(ahead).min(limit);
                own.provide(requests.div_ceil(options.streams));
                // A server may permit fewer streams than the client.
                let is_crowded = waiting > 0 && own.with_room.is_empty() && own.unsettled == 0;
                if is_crowded && !own.growth.spare.is_empty() {
                    let least = own.growth.provided + 1;
                    let streams = own.streams_each(options.streams);
                    own.provide(requests.div_ceil(streams).max(least));
                }
            }
            std::mem::take(&mut own.growth.due)
        };
        for node in due {
            tokio::spawn(keep::keep(self.clone(), node));
        }
    }
}
