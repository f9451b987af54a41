//! Cache of values that trials share.

use std::sync::{Arc, OnceLock};

use crate::format::Format;
use crate::tune::Subset;

/// Identifies the input of a stage: the formats of all products before it determine its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub subset: Subset,
    pub stage: usize,
    /// Formats of all products before the stage.
    pub formats: Vec<[Format; 2]>,
}

/// Values of each block of images, once they are computed.
pub(super) type Blocks<V = Vec<f32>> = Arc<[OnceLock<V>]>;

/// Values between stages, up to a number of bytes. The least recently used ones are dropped.
#[derive(Debug)]
pub(super) struct Prefixes<V = Vec<f32>> {
    limit: usize,
    used_bytes: usize,
    // The last entry was used most recently.
    entries: Vec<(Key, Blocks<V>, usize)>,
}

impl<V> Prefixes<V> {
    pub fn new(limit: usize) -> Self {
        Self { limit, used_bytes: 0, entries: Vec::new() }
    }

    /// Drops all values.
    pub fn clear(&mut self) {
        self.used_bytes = 0;
        self.entries.clear();
    }

    /// Returns the entry of a key: an existing one, or a new one for `blocks` blocks that take
    /// `bytes` bytes together. `None` if this exceeds the limit of the cache. Values that are
    /// dropped for it are passed to `evict`.
    pub fn room(
        &mut self,
        key: Key,
        blocks: usize,
        bytes: usize,
        mut evict: impl FnMut(V),
    ) -> Option<Blocks<V>> {
        if let Some(at) = self.entries.iter().position(|(known, ..)| *known == key) {
            let found = self.entries.remove(at);
            let values = Arc::clone(&found.1);
            self.entries.push(found);
            return Some(values);
        }
        if bytes > self.limit {
            return None;
        }
        while self.used_bytes + bytes > self.limit {
            let (_, mut blocks, bytes) = self.entries.remove(0);
            self.used_bytes -= bytes;
            // A trial that still uses the blocks keeps their values.
            let blocks = Arc::get_mut(&mut blocks).unwrap_or_default();
            blocks.iter_mut().filter_map(OnceLock::take).for_each(&mut evict);
        }
        self.used_bytes += bytes;
        let values: Blocks<V> = (0..blocks).map(|_| OnceLock::new()).collect();
        self.entries.push((key, Arc::clone(&values), bytes));
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let mut prefixes = Prefixes::new(100);
        let mut gone = Vec::new();
        let mut room = |stage, bytes| {
            let key = Key { subset: Subset::Small, stage, formats: Vec::new() };
            prefixes.room(key, 1, bytes, |values| gone.push(values))
        };
        let fill = |values: &Blocks, x| values[0].set(vec![x]).expect("it is empty");
        let holds = |values: Option<Blocks>| values.is_some_and(|values| values[0].get().is_some());
        fill(&room(1, 40).unwrap(), 1.0);
        fill(&room(2, 40).unwrap(), 2.0);
        assert!(holds(room(1, 40)), "used again");
        assert!(!holds(room(3, 40)), "new");
        assert!(holds(room(1, 40)));
        assert!(!holds(room(2, 40)), "went for 3");
        assert!(room(4, 101).is_none());
        assert_eq!(gone, [vec![2.0]], "what was filled, and went");
    }
}
