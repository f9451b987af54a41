//! Text generator that streams its tokens at given times and needs no model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dyno_loadgen::rng::Mt19937;
use dyno_sut::batch::QueueFull;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Times of the tokens of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// Time from the request to the first token.
    pub first: Duration,
    /// Times from each token to the next, used cyclically; empty means no time.
    pub gaps: Vec<Duration>,
    /// Number of tokens, unless the request asks for fewer.
    pub tokens: u64,
}

impl Pace {
    /// Returns when token `k`, counted from 0, is due after the request.
    pub fn due(&self, token: u64) -> Duration {
        let (rounds, rest) = match self.gaps.len() as u64 {
            0 => return self.first,
            all => (token / all, token % all),
        };
        let whole = self.gaps.iter().sum::<Duration>();
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        let rest: Duration = self.gaps.iter().take(rest as usize).sum();
        self.first.saturating_add(whole.saturating_mul(rounds)).saturating_add(rest)
    }
}

/// Content of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Words derived from the prompt: equal prompts have equal answers.
    Words,
    /// Words of the prompt, repeated.
    Echo,
}

/// A text generator.
#[derive(Debug)]
pub struct Tokens {
    text: Text,
    paces: Vec<Pace>,
    next: AtomicUsize,
    slots: Arc<Semaphore>,
    /// Number of requests that wait for a slot.
    waiting: AtomicUsize,
    most_waiting: usize,
}

const WORDS: [&str; 32] = [
    "load", "query", "sample", "batch", "queue", "token", "latency", "tail", "median", "server",
    "client", "stream", "offline", "trace", "seed", "clock", "thread", "core", "cache", "memory",
    "weight", "layer", "gate", "kernel", "tensor", "shape", "verdict", "valid", "limit", "peak",
    "search", "report",
];

impl Tokens {
    /// Creates a generator that uses these paces in turn; `slots` answers stream at once, and
    /// `most_waiting` more requests may wait.
    ///
    /// # Panics
    /// If there is no pace, or no slot.
    pub fn new(text: Text, paces: Vec<Pace>, slots: usize, most_waiting: usize) -> Self {
        assert!(!paces.is_empty() && slots > 0, "an answer needs a pace and a slot");
        Self {
            text,
            paces,
            next: AtomicUsize::new(0),
            slots: Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            most_waiting,
        }
    }

    /// Returns the pace of the next answer.
    pub(super) fn pace(&self) -> &Pace {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        &self.paces[number % self.paces.len()]
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// Too many requests wait already.
    pub(super) async fn slot(&self) -> Result<OwnedSemaphorePermit, QueueFull> {
        struct WaitGuard<'a>(&'a AtomicUsize);
        impl Drop for WaitGuard<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = WaitGuard(&self.waiting);
        if before >= self.most_waiting {
            return Err(QueueFull { most: self.most_waiting });
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        Ok(slot.expect("slots are never closed"))
    }

    /// Returns the endless tokens of the answer to a prompt.
    pub(super) fn words(&self, prompt: &str) -> impl Iterator<Item = String> + Send + use<> {
        let echoed: Vec<String> = prompt.split_whitespace().map(str::to_owned).collect();
        let echoes = self.text == Text::Echo && !echoed.is_empty();
        let mut rng = Mt19937::new(hash(prompt));
        let mut at = 0;
        std::iter::from_fn(move || {
            let word = if echoes {
                &echoed[at % echoed.len()]
            } else {
                WORDS[(rng.canonical() * WORDS.len() as f64) as usize % WORDS.len()]
            };
            let word = if at == 0 { word.to_owned() } else { format!(" {word}") };
            at += 1;
            Some(word)
        })
    }
}

/// Returns the FNV-1a hash, which is equal on every machine.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_due_by_their_gaps() {
        let ms = Duration::from_millis;
        let pace = Pace { first: ms(50), gaps: vec![ms(1), ms(2), ms(3)], tokens: 9 };
        let due: Vec<Duration> = (0..5).map(|token| pace.due(token)).collect();
        assert_eq!(due, [50, 51, 53, 56, 57].map(ms));
        assert_eq!(Pace { gaps: Vec::new(), ..pace }.due(1_000), ms(50));
    }

    #[test]
    fn the_prompt_decides_the_words() {
        let pace = Pace { first: Duration::ZERO, gaps: Vec::new(), tokens: 1 };
        let text = |text: Text, prompt: &str| {
            let tokens = Tokens::new(text, vec![pace.clone()], 1, 0);
            tokens.words(prompt).take(4).collect::<String>()
        };
        assert_eq!(text(Text::Words, "a"), text(Text::Words, "a"));
        assert_ne!(text(Text::Words, "a"), text(Text::Words, "b"));
        assert_eq!(text(Text::Words, "").split(' ').count(), 4);
        assert_eq!(text(Text::Echo, "to be  or"), "to be or to");
    }
}
