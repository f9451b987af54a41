//! Memory of the contents of all requests, and the threads that decode them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::refusal::{Refusal, RefusalKind};
use super::state::State;
use super::{Limits, body};
use crate::coding::{Coding, RATIO, RATIO_FREE};
use crate::trouble::Trouble;

/// Bytes of a request that are not counted, so that small requests are accepted when large ones hold
/// all memory. Their sum is bounded by one such request for each connection: HTTP/2 has many streams on
/// one connection.
const FREE: usize = 64 << 10;

/// Uncompressed content up to this size is decoded by the thread that read it, which takes less than
/// a millisecond; other content is decoded by threads of its own.
const INLINE: usize = 64 << 10;

/// Memory for contents.
#[derive(Debug)]
pub(super) struct Budget {
    counted: Arc<Pool>,
    free: Arc<Pool>,
    /// Permits to decode large content.
    decoders: Arc<Semaphore>,
}

/// Bytes that requests hold, and how many they may hold.
#[derive(Debug)]
struct Pool {
    most: usize,
    used: AtomicUsize,
}

impl Pool {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicUsize::new(0) })
    }

    /// Takes bytes if there are as many. Returns whether it did. Threads that take none do not wait for
    /// the cache line of others.
    fn take(&self, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Budget {
    pub fn new(limits: &Limits, decoders: usize) -> Self {
        Self {
            counted: Pool::new(limits.memory),
            free: Pool::new(limits.connections.saturating_mul(FREE)),
            decoders: Arc::new(Semaphore::new(decoders)),
        }
    }

    /// Returns the bytes that requests hold, without those that are not counted.
    pub fn used(&self) -> usize {
        self.counted.used.load(Ordering::Relaxed)
    }

    /// Returns the share of a request, which is empty.
    pub fn share(&self) -> Share {
        Share {
            counted: Arc::clone(&self.counted),
            free: Arc::clone(&self.free),
            bytes: 0,
            free_bytes: 0,
        }
    }
}

/// Memory that a request holds until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    counted: Arc<Pool>,
    free: Arc<Pool>,
    bytes: usize,
    /// Bytes that are not counted, at most [`FREE`].
    free_bytes: usize,
}

impl Share {
    /// Changes the size. A smaller size is always accepted.
    ///
    /// # Errors
    /// The requests would hold more than the budget.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Refusal> {
        let free = bytes.min(FREE);
        if free < self.free_bytes {
            self.free.give_back(self.free_bytes - free);
            self.free_bytes = free;
        } else if self.free.take(free - self.free_bytes) {
            self.free_bytes = free;
        }
        let bytes = bytes - self.free_bytes;
        if bytes < self.bytes {
            self.counted.give_back(self.bytes - bytes);
        } else if !self.counted.take(bytes - self.bytes) {
            return Err(RefusalKind::Full.because(format!(
                "the requests in flight exceed the memory limit of this server, {} bytes",
                self.counted.most
            )));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.counted.give_back(self.bytes);
        self.free.give_back(self.free_bytes);
    }
}

/// Content of a request with the memory that it holds.
pub(super) struct Content {
    pub bytes: Bytes,
    pub share: Share,
}

/// A decoded request.
pub(super) struct DecodedRequest<T> {
    pub request: T,
    pub share: Share,
}

/// How to decode a request.
pub(super) struct Decoder<T> {
    pub coding: Option<Coding>,
    /// Returns about how much memory parsing takes besides the content, in bytes.
    pub growth: Box<dyn FnOnce(&Bytes) -> usize + Send>,
    pub parse: Box<dyn FnOnce(Bytes) -> Result<T, Trouble> + Send>,
    /// Returns the memory of a parsed request, in bytes.
    pub size: fn(&T) -> usize,
}

/// Decompresses and parses the content of a request. The threads of sockets only decode small content.
///
/// # Errors
/// Content that is invalid or too large, or memory that other requests hold.
pub(super) async fn decode<T: Send + 'static>(
    state: &State,
    content: Content,
    decoder: Decoder<T>,
) -> Result<DecodedRequest<T>, Refusal> {
    let most = state.settings.limits.body;
    let is_small = decoder.coding.is_none() && content.bytes.len() <= INLINE;
    let work = move || {
        let Content { mut bytes, mut share } = content;
        if let Some(coding) = decoder.coding {
            let grown = bytes.len().saturating_mul(RATIO).max(RATIO_FREE).min(most);
            share.resize(bytes.len().saturating_add(grown))?;
            bytes = body::decompressed(coding, &bytes, most)?;
        }
        share.resize(bytes.len().saturating_add((decoder.growth)(&bytes)))?;
        let request = (decoder.parse)(bytes)?;
        share.resize((decoder.size)(&request))?;
        Ok(DecodedRequest { request, share })
    };
    if is_small { work() } else { off_sockets(state, work).await }
}

/// Encodes an answer of about `size` bytes, a large one not by the threads of sockets.
///
/// # Errors
/// The encoder panicked.
pub(super) async fn encode<T: Send + 'static>(
    state: &State,
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    if size <= INLINE { Ok(work()) } else { off_sockets(state, || Ok(work())).await }
}

async fn off_sockets<T: Send + 'static>(
    state: &State,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let decoders = Arc::clone(&state.budget.decoders);
    let permit = decoders.acquire_owned().await.expect("the permits are never closed");
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    // The panic's message is on standard error; the server continues.
    done.await.unwrap_or_else(|_| Err(RefusalKind::Failed.because("the codec panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Settings;
    use crate::trouble::Kind;

    #[test]
    fn the_sum_of_all_contents_is_bounded_and_small_ones_always_fit() {
        let limits = Limits { memory: 1_000, connections: 2, ..Limits::default() };
        let budget = Budget::new(&limits, 1);
        let (mut a, mut b) = (budget.share(), budget.share());
        a.resize(FREE + 900).unwrap();
        assert_eq!(b.resize(FREE + 101).unwrap_err().why, RefusalKind::Full);
        assert_eq!(budget.used(), 900);
        b.resize(FREE).unwrap();
        a.resize(FREE + 10).unwrap();
        b.resize(FREE + 990).unwrap();
        assert_eq!(budget.used(), 1_000);
        // A third request on two connections is counted from its first byte.
        let mut c = budget.share();
        assert_eq!(c.resize(1).unwrap_err().why, RefusalKind::Full);
        a.resize(FREE).unwrap();
        c.resize(10).unwrap();
        assert_eq!(c.resize(11).unwrap_err().why, RefusalKind::Full);
        drop((a, b));
        c.resize(FREE).unwrap();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn large_and_compressed_content_is_decoded_off_the_threads_of_sockets() {
        let limits = Limits::default();
        let settings = Settings { node: String::new(), limits, compresses: false, token: None };
        let state = State::new(settings, Vec::new());
        // One thread: it would wait for itself.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let packed = Coding::Gzip.compressed(b"{}");
        for (coding, bytes) in [(Some(Coding::Gzip), packed), (None, vec![b' '; INLINE + 1].into())]
        {
            let (tell, told) = std::sync::mpsc::channel();
            let patience = std::time::Duration::from_secs(60);
            let decoder = Decoder {
                coding,
                growth: Box::new(|_| 0),
                parse: Box::new(move |_| {
                    told.recv_timeout(patience)
                        .map_err(|_| Trouble::new(Kind::Malformed, "the sockets waited"))
                }),
                size: |()| 0,
            };
            let content = Content { bytes, share: state.budget.share() };
            let decoded = runtime.block_on(async {
                let sender = tokio::spawn(async move { tell.send(()) });
                let decoded = decode(&state, content, decoder).await;
                sender.await.unwrap().unwrap();
                decoded
            });
            assert!(decoded.is_ok());
        }
        assert_eq!(state.budget.used(), 0);
    }
}
