//! What another thread sees of a run in real time, and how it ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Nanos;
use crate::drive::glance::{ChosenQuery, FollowedQueries, Glance};
use crate::sut::{Control, MassFailure, Responder, Slab};

/// What another thread may see of a run, and how it may end it.
#[derive(Debug, Clone, Default)]
pub struct Monitor {
    shared: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    control: Arc<Control>,
    /// Whether the runs from now on are to note queries.
    is_looked_at: AtomicBool,
    /// Queries that several threads have issued; 0 where one does.
    issued_by_lanes: AtomicU64,
    run: Mutex<Option<WatchedRun>>,
}

/// A run that is on.
#[derive(Debug)]
pub(super) struct WatchedRun {
    pub(super) responder: Responder,
    pub(super) epoch: u16,
    /// Of each tenant.
    pub(super) shapes: Vec<Shape>,
}

/// What the queries of a tenant look like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// At least 1.
    pub(super) samples_per_query: u64,
    /// Whether it is a single query that is due at once.
    pub(super) is_offline: bool,
}

impl Monitor {
    /// Ends the test as soon as the issuing thread notices: at once while it
    /// issues, within a tenth of a second while it waits.
    pub fn abort(&self) {
        self.shared.control.abort();
    }

    /// Whether runs from now on end, as by [`Monitor::abort`], when all of a tenant's first
    /// [`FIRST_ANSWERS`](super::FIRST_ANSWERS) answers failed, or more than half of its last
    /// [`LAST_ANSWERS`](super::LAST_ANSWERS). They do not at first.
    pub fn fail_fast(&self, is_on: bool) {
        self.shared.control.fail_fast(is_on);
    }

    /// The failures that ended the test; `None` if others or nothing did.
    #[must_use]
    pub fn failing(&self) -> Option<MassFailure> {
        self.shared.control.failing()
    }

    pub(super) fn control(&self) -> Arc<Control> {
        self.shared.control.clone()
    }

    /// Whether [`Monitor::abort`] was called.
    #[inline]
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.shared.control.is_aborted()
    }

    /// Queries issued and samples complete in the run that is on, and its time
    /// in ns; `None` between runs.
    #[must_use]
    pub fn progress(&self) -> Option<(u64, u64, Nanos)> {
        let run = self.run();
        run.as_ref().map(|watched| {
            let counts = watched.counts(self.issued_by_lanes());
            (counts.issued_queries, counts.completed_samples, counts.now)
        })
    }

    /// Somebody who looks at latencies, too, from the next run on.
    #[must_use]
    pub fn observer(&self) -> RunObserver {
        self.shared.is_looked_at.store(true, Ordering::Relaxed);
        RunObserver {
            monitor: self.clone(),
            epoch: 0,
            read: 0,
            issued: 0,
            follows: FollowedQueries::default(),
        }
    }

    pub(super) fn is_looked_at(&self) -> bool {
        self.shared.is_looked_at.load(Ordering::Relaxed)
    }

    pub(super) fn issued_by_lanes(&self) -> u64 {
        self.shared.issued_by_lanes.load(Ordering::Relaxed)
    }

    pub(super) fn count_of_lane(&self, queries: u64) {
        self.shared.issued_by_lanes.fetch_add(queries, Ordering::Relaxed);
    }

    pub(super) fn watch(&self, run: Option<WatchedRun>) {
        self.shared.issued_by_lanes.store(0, Ordering::Relaxed);
        *self.run() = run;
    }

    fn run(&self) -> MutexGuard<'_, Option<WatchedRun>> {
        self.shared.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedRun {
    fn slabs(&self) -> &[Slab] {
        &self.responder.run.slabs
    }

    fn counts(&self, issued_by_lanes: u64) -> Glance {
        let mut glance = Glance { epoch: self.epoch, ..Glance::default() };
        // Completions first: then no more samples are complete than issued.
        glance.completed_samples = self.slabs().iter().map(Slab::completed).sum();
        for (slab, shape) in self.slabs().iter().zip(&self.shapes) {
            let samples = slab.issued();
            glance.issued_samples += samples;
            glance.issued_queries += samples / shape.samples_per_query;
        }
        if issued_by_lanes > 0 {
            // The lanes' numbers leave gaps; each of their queries is one sample.
            (glance.issued_queries, glance.issued_samples) = (issued_by_lanes, issued_by_lanes);
        }
        glance.now = self.responder.run.clock.now();
        glance
    }
}

/// Looks at the latencies of a run that is on, from a thread of its own, a few
/// times a second.
///
/// Counts are exact. Latencies are those of an evenly spread share of the
/// queries (each 2^k-th, about a thousand between two glances; of Offline a
/// thousand samples; of several issuing threads the first one's), counted from
/// the due time. Queries that are outstanding are followed until they are
/// answered, so that slow ones are not left out; 4,096 at the most.
///
/// It costs the issuing thread four stores for each query that is looked at, and
/// the completing threads nothing but the cache lines that are read.
#[derive(Debug)]
pub struct RunObserver {
    monitor: Monitor,
    /// The run that was last looked at.
    epoch: u16,
    /// Notes that were read of it.
    read: u64,
    /// Queries that it had issued.
    issued: u64,
    follows: FollowedQueries,
}

impl RunObserver {
    /// Looks at the run that is on; `None` between runs.
    pub fn glance(&mut self) -> Option<Glance> {
        let run = self.monitor.run();
        let watched = run.as_ref()?;
        if watched.epoch != self.epoch {
            (self.epoch, self.read, self.issued) = (watched.epoch, 0, 0);
            self.follows.clear();
        }
        let mut glance = watched.counts(self.monitor.issued_by_lanes());
        let (state, shapes) = (&watched.responder.run, &watched.shapes);
        if self.issued == 0 && glance.issued_queries > 0 {
            for (tenant, shape) in shapes.iter().enumerate().filter(|(_, s)| s.is_offline) {
                self.follows.follow_samples(tenant, shape.samples_per_query);
            }
        }
        self.read = state.notes.read(self.read, |note| {
            let tenant = usize::from(note.first.tenant());
            let shape = shapes[tenant];
            if !shape.is_offline {
                self.follows.follow(ChosenQuery {
                    tenant,
                    first: note.first.sequence(),
                    samples: shape.samples_per_query,
                    due: note.due,
                    client_lag: note.client_lag,
                    stands_for: note.stands_for,
                });
            }
        });
        state.notes.aim(glance.issued_queries.saturating_sub(self.issued));
        self.issued = glance.issued_queries;
        self.follows.settle(
            &mut glance,
            |tenant, sample| state.slabs[tenant].completion_of(sample),
            |tenant, sample| state.slabs[tenant].first_token_of(sample),
        );
        glance.failed_samples = state.slabs.iter().map(Slab::failed_count).sum();
        Some(glance)
    }
}
