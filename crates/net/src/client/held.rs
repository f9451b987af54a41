//! Memory of the answers that are being read. Each answer has a limit of its own, but a server can send
//! many at once.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::trouble::{Kind, Trouble};

/// Bytes of an answer that are not counted. Most answers have fewer.
const FREE: usize = 1 << 20;

/// Memory if the system does not state it, in bytes.
const UNKNOWN: usize = 16 << 30;

/// Bytes of all answers that this process reads.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Bytes that an answer holds, until this is dropped.
#[derive(Debug, Default)]
pub(super) struct HeldBytes(usize);

impl HeldBytes {
    /// Changes the number of bytes.
    ///
    /// # Errors
    /// All answers hold more than half of the memory.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Trouble> {
        self.resize_within(bytes, half_of_memory)
    }

    fn resize_within(&mut self, bytes: usize, most: impl Fn() -> usize) -> Result<(), Trouble> {
        let bytes = bytes.saturating_sub(FREE);
        if bytes <= self.0 {
            self.shrink(bytes);
            return Ok(());
        }
        let more = bytes - self.0;
        let all = ALL.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        self.0 = bytes;
        let most = most();
        if all <= most {
            return Ok(());
        }
        let words = format!(
            "the answers in progress hold more than {most} bytes, half of the memory of this process"
        );
        Err(Trouble::new(Kind::Memory, words))
    }

    /// Returns whether the answer has more bytes than those that are not counted.
    pub fn is_counted(&self) -> bool {
        self.0 > 0
    }

    fn shrink(&mut self, bytes: usize) {
        if bytes < self.0 {
            ALL.fetch_sub(self.0 - bytes, Ordering::Relaxed);
            self.0 = bytes;
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// Returns half of the memory of the machine or container in bytes: the maximum of all answers.
pub(crate) fn half_of_memory() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
        // A container without a limit states `max`.
        let container = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
        let container = container.and_then(|text| text.trim().parse().ok());
        let process = fs::read_to_string("/proc/self/limits").ok();
        let process = process.and_then(|text| address_space(&text));
        machine.into_iter().chain(container).chain(process).min().unwrap_or(UNKNOWN) / 2
    })
}

/// Returns the memory that `/proc/meminfo` states, in bytes.
fn total(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the limit of `ulimit -v` that `/proc/self/limits` states, in bytes.
fn address_space(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_together_have_a_limit_and_small_ones_are_not_counted() {
        let mut small = HeldBytes::default();
        small.resize_within(FREE, || 0).unwrap();
        let mut large = HeldBytes::default();
        let refused = large.resize_within(FREE + 1, || 0).unwrap_err();
        assert!(refused.words.contains("hold more than 0 bytes"), "{}", refused.words);
        assert_eq!(refused.kind, Kind::Memory, "the server did nothing wrong");
        assert_eq!((small.0, large.0), (0, 1));
        assert!(large.is_counted() && !small.is_counted());
        large.resize_within(10, || 0).unwrap();
        assert_eq!(large.0, 0);
        // Other tests may hold some bytes as well.
        large.resize_within(FREE + 1_000, || usize::MAX).unwrap();
        assert!(ALL.load(Ordering::Relaxed) >= 1_000);
    }

    #[test]
    fn the_memory_of_a_machine_is_read() {
        assert_eq!(total("MemTotal:       24605496 kB\nMemFree: 1 kB\n"), Some(24_605_496 << 10));
        assert_eq!((total("MemFree: 1 kB\n"), total("MemTotal: some\n")), (None, None));
        let limits = |soft: &str| {
            format!("Max cpu time 1 2 s\nMax address space   {soft}  unlimited  bytes")
        };
        assert_eq!(address_space(&limits("4294967296")), Some(1 << 32));
        assert_eq!(address_space(&limits("unlimited")), None);
        assert!(half_of_memory() > 0);
    }
}
