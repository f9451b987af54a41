//! Servers that permit no stream for a while (`SETTINGS_MAX_CONCURRENT_STREAMS`).

use std::sync::atomic::Ordering::Relaxed;

use dyno_loadgen::clock::{Nanos, SECOND};

use super::super::FailedAttempt;
use super::super::answering::Carrier as _;
use super::{Lane, LaneState};
use crate::trouble::{Kind, Trouble};

impl Lane {
    /// Lists connections whose server permits more streams than before, which wakes no task. Fails the
    /// samples that have waited for any permission as long as a request may take.
    pub(super) fn check_permissions(&self, now: Nanos) {
        let Some((node, since)) = self.list_permitted(now) else { return };
        let Some(responder) = self.mailbox().responder.clone() else { return };
        // A run that is over fails no sample, and leaves none to the next run.
        if responder.is_over() {
            return self.drop_waiting();
        }
        let Some(limit) = self.shared.options.time_limit else { return };
        let mut due = Vec::new();
        {
            let mut mailbox = self.mailbox();
            while let Some((job, waits_since)) = mailbox.waiting.front().copied()
                && now.saturating_sub(waits_since.max(since)) >= limit
            {
                mailbox.waiting.pop_front();
                due.push(job);
            }
            if mailbox.waiting.is_empty() {
                mailbox.responder = None;
            }
        }
        let endpoint = &self.shared.nodes[node].endpoint;
        let seconds = limit as f64 / SECOND as f64;
        let words = format!(
            "{endpoint} permitted no stream within {seconds} s \
             (SETTINGS_MAX_CONCURRENT_STREAMS is 0)"
        );
        let trouble = Trouble::new(Kind::TimedOut, words);
        for job in due {
            self.failed(job, &responder, &FailedAttempt::unheard(&trouble), now);
        }
    }

    /// Lists the connections that may have room again. Returns the node of one, and since when none
    /// permits a stream, if samples wait for that.
    fn list_permitted(&self, now: Nanos) -> Option<(usize, Nanos)> {
        let is_waiting = !self.mailbox().waiting.is_empty();
        let mut own = self.own();
        let LaneState { links, with_room, blocked_since, .. } = &mut *own;
        let first = links.first().filter(|_| is_waiting);
        let Some(first) = first else {
            *blocked_since = None;
            return None;
        };
        for link in &*links {
            if !link.is_listed.load(Relaxed) && link.has_room(&self.shared) {
                link.is_listed.store(true, Relaxed);
                with_room.push_back(link.clone());
            }
        }
        if links.iter().all(|link| link.permitted() == 0) {
            Some((first.node, *blocked_since.get_or_insert(now)))
        } else {
            *blocked_since = None;
            None
        }
    }
}
