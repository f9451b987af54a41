//! The monitor: lets another thread observe and end a run in real time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::clock::Nanos;
use crate::drive::glance::{ChosenQuery, FollowedQueries, Glance};
use crate::sut::{Control, MassFailure, Responder, Slab};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};

/// Handle for other threads to observe the runs of a test and to end the test.
#[derive(Debug, Clone, Default)]
pub struct Monitor {
    shared: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    control: Arc<Control>,
    /// Whether later runs write notes for observers.
    is_looked_at: AtomicBool,
    /// Queries issued by several threads; 0 with a single issuing thread.
    issued_by_lanes: AtomicU64,
    run: Mutex<Option<WatchedRun>>,
}

/// A run in progress.
#[derive(Debug)]
pub(super) struct WatchedRun {
    pub(super) responder: Responder,
    pub(super) epoch: u16,
    /// Query shape per tenant.
    pub(super) shapes: Vec<Shape>,
}

/// Shape of the queries of a tenant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Samples in each query (>= 1).
    pub(super) samples_per_query: u64,
    /// Whether it is the single query of Offline.
    pub(super) is_offline: bool,
}

impl Monitor {
    /// Ends the test as soon as the issuing thread notices: at once while it issues, within 0.1 s
    /// while it waits.
    pub fn abort(&self) {
        self.shared.control.abort();
    }

    /// Sets whether later runs end, as by [`Monitor::abort`], when all of a tenant's first
    /// [`FIRST_ANSWERS`](super::FIRST_ANSWERS) answers failed, or more than half of its last
    /// [`LAST_ANSWERS`](super::LAST_ANSWERS). The default is off.
    pub fn fail_fast(&self, is_on: bool) {
        self.shared.control.fail_fast(is_on);
    }

    /// Returns the failures that ended the test; `None` if it did not end because of failures.
    #[must_use]
    pub fn failing(&self) -> Option<MassFailure> {
        self.shared.control.failing()
    }

    pub(super) fn control(&self) -> Arc<Control> {
        self.shared.control.clone()
    }

    /// Returns whether the test was aborted.
    #[inline]
    pub fn is_aborted(&self) -> bool {
        self.shared.control.is_aborted()
    }

    /// Returns the issued queries, the completed samples and the time in ns of the run in progress;
    /// `None` between runs.
    pub fn progress(&self) -> Option<(u64, u64, Nanos)> {
        let run = self.run();
        run.as_ref().map(|watched| {
            let counts = watched.counts(self.issued_by_lanes());
            (counts.issued_queries, counts.completed_samples, counts.now)
        })
    }

    /// Returns an observer of latencies, for the next run and later ones.
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
        let mut watched = self.run();
        // Under the lock: without this count, a glance would count gaps between lanes as queries.
        self.shared.issued_by_lanes.store(0, Ordering::Relaxed);
        *watched = run;
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
            // Sequence numbers of lanes leave gaps; each of their queries is one sample.
            (glance.issued_queries, glance.issued_samples) = (issued_by_lanes, issued_by_lanes);
        }
        glance.now = self.responder.run.clock.now();
        glance
    }
}

/// Observer of a run in progress: reads its latencies from another thread, a few times a second.
///
/// Counts are exact. Latencies are those of one random query in each stretch of 2^k, about a thousand
/// between two glances; in Offline of a thousand samples; with several issuing threads only of queries
/// of the first. Latencies count from the due time. Outstanding queries are
/// followed until they are answered, at most 4,096 of them, so that slow queries are included.
///
/// An observer costs the issuing thread four stores per sampled query. Completing threads only
/// share the cache lines that it reads.
#[derive(Debug)]
pub struct RunObserver {
    monitor: Monitor,
    /// Epoch of the run at the last glance.
    epoch: u16,
    /// Notes read of that run.
    read: u64,
    /// Queries issued at the last glance.
    issued: u64,
    follows: FollowedQueries,
}

impl RunObserver {
    /// Returns the progress of the current run; `None` between runs.
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
