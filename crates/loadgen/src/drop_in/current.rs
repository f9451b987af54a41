//! The run that is on, where every completing thread finds it.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

use crate::drive::real::{Alone, Responder, thread_shard};

/// Places that completing threads are spread over.
const SHARDS: usize = 16;

/// The responder of the run that is on, once per shard: a completing thread
/// locks a place that it shares with few others or none, which costs two atomic
/// operations on a cache line of its own, and no thread keeps a run alive that
/// is over (a responder in thread-local storage would).
pub(super) struct Current {
    shards: [Alone<RwLock<Option<Responder>>>; SHARDS],
}

/// How often a busy place is tried before each further try waits: the last
/// completion of a run, on its way out, is gone by then.
const QUICK_TRIES: u32 = 1_000;
/// How often a busy place is tried in all: for about a second.
const TRIES: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(1);

impl Current {
    pub(super) const fn new() -> Self {
        Self { shards: [const { Alone(RwLock::new(None)) }; SHARDS] }
    }

    /// What `f` makes of the run, or `None` while none is on.
    #[inline]
    pub(super) fn with<T>(&self, f: impl FnOnce(&Responder) -> T) -> Option<T> {
        self.read().as_ref().map(f)
    }

    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Option<Responder>> {
        let shard = &self.shards[thread_shard() % SHARDS].0;
        shard.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, run: &Responder) {
        self.set(Some(run));
    }

    pub(super) fn withdraw(&self) {
        self.set(None);
    }

    fn set(&self, run: Option<&Responder>) {
        for shard in &self.shards {
            set_shard(&shard.0, run);
        }
    }
}

/// Tries again and again rather than waits in the lock: a waiting writer would
/// bar a callback, which runs under the lock, from completing more samples.
/// A place that stays busy keeps the run; its samples count as stale there.
#[expect(clippy::disallowed_methods, reason = "the end of a run waits for completions in progress")]
fn set_shard(shard: &RwLock<Option<Responder>>, run: Option<&Responder>) {
    for attempt in 0..TRIES {
        match shard.try_write() {
            Ok(mut place) => return place.clone_from(&run.cloned()),
            Err(TryLockError::Poisoned(place)) => {
                return place.into_inner().clone_from(&run.cloned());
            }
            Err(TryLockError::WouldBlock) if attempt < QUICK_TRIES => std::thread::yield_now(),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}
