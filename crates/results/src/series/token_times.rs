//! Times of the output tokens of an answer.

use dyno_loadgen::clock::Nanos;

/// Output tokens of an answer over time. Records have no time of each token: tokens are spread evenly
/// from the first to the last one. Without a first token, all come with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenTimes {
    first: Nanos,
    last: Nanos,
    count: u64,
}

impl TokenTimes {
    /// Returns the times of `count` tokens of which the first came at `first` (0 if unknown) and the last
    /// at `last`, ns.
    pub fn new(first: Nanos, last: Nanos, count: u64) -> Self {
        let first = if first == 0 || count < 2 { last } else { first.min(last) };
        Self { first, last, count }
    }

    /// Returns the number of tokens before `at`.
    fn before(&self, at: Nanos) -> u64 {
        if at > self.last {
            return self.count;
        }
        if at <= self.first {
            return 0;
        }
        let gaps = u128::from(self.count.saturating_sub(1));
        let passed = u128::from(at - self.first) * gaps;
        let tokens = passed.div_ceil(u128::from(self.last - self.first));
        u64::try_from(tokens).unwrap_or(self.count).min(self.count)
    }

    /// Returns the number of tokens in each slot of `width` ns that has any, with the number of the slot.
    pub fn by_slot(self, width: Nanos) -> impl Iterator<Item = (u64, u64)> {
        let slots = self.first / width..=self.last / width;
        let tokens = move |slot: u64| {
            let end = slot.saturating_add(1).saturating_mul(width);
            (slot, self.before(end) - self.before(slot * width))
        };
        slots.map(tokens).filter(|(_, tokens)| *tokens > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_spread_evenly_from_the_first_to_the_last() {
        let slots = |first, last, count| -> Vec<(u64, u64)> {
            TokenTimes::new(first, last, count).by_slot(100).collect()
        };
        // One token each 50 ns, at 50, 100, ... 300.
        assert_eq!(slots(50, 300, 6), [(0, 1), (1, 2), (2, 2), (3, 1)]);
        // Two tokens, 300 ns apart.
        assert_eq!(slots(10, 310, 2), [(0, 1), (3, 1)]);
        // No first token, one token, or all of them at once.
        assert_eq!(slots(0, 310, 7), [(3, 7)]);
        assert_eq!(slots(10, 310, 1), [(3, 1)]);
        assert_eq!(slots(310, 310, 7), [(3, 7)]);
        assert!(slots(10, 310, 0).is_empty());
    }
}
