//! Which node each session in progress uses: all turns of a session go to one server, whose caches
//! hold the turns before.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dyno_loadgen::qsl::SampleIndex;

use super::library::Requests;
use super::{ClientCore, Job};
use crate::ledger::{Entry, Oddity};
use crate::protocol::Reply;

/// Sessions in progress, by node.
pub(super) struct SessionNodes {
    sessions: Mutex<Vec<usize>>,
}

impl SessionNodes {
    /// Returns the nodes for these requests; `None` if no session must be assigned to one.
    pub(super) fn for_requests(requests: &Requests, nodes: usize) -> Option<Self> {
        let is_assigned = requests.has_sessions() && nodes > 1;
        is_assigned.then(|| Self { sessions: Mutex::new(vec![0; nodes]) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the sessions of the last run.
    pub(super) fn expect_run(&self) {
        self.lock().fill(0);
    }

    /// Returns the node of a sample: that of its session, or for a first turn the one with the fewest
    /// sessions.
    pub(super) fn node_of(&self, requests: &Requests, sample: SampleIndex) -> Option<u16> {
        if let Some(node) = requests.node_of(sample) {
            return u16::try_from(node).ok();
        }
        let mut sessions = self.lock();
        let (node, fewest) = sessions.iter_mut().enumerate().min_by_key(|(_, n)| **n)?;
        *fewest += 1;
        u16::try_from(node).ok()
    }

    /// Notes the end of a session at a node.
    pub(super) fn ended(&self, node: Option<u16>) {
        if let Some(node) = node {
            let sessions = &mut self.lock()[usize::from(node)];
            *sessions = sessions.saturating_sub(1);
        }
    }
}

impl ClientCore {
    /// Provides the next turn of the session that an answer from a node belongs to, and notes in its
    /// account what does not match the recording. Called before the answer is reported, so that the
    /// issuing thread always finds the request of the next turn.
    pub(super) fn continue_session(
        &self,
        job: Job,
        reply: &Reply,
        node: usize,
        entry: &mut Option<Entry>,
    ) {
        match self.requests.continue_session(job.index, reply, node) {
            Some(true) => entry.iter_mut().for_each(|e| e.oddities.insert(Oddity::OtherTools)),
            Some(false) => {}
            None => self.session_nodes.iter().for_each(|nodes| nodes.ended(job.node)),
        }
    }
}
