//! What evaluations leave for the next ones.

use std::sync::{Arc, OnceLock};

use crate::format::Format;
use crate::tune::Subset;

/// What a stage is fed, as all formats before it make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub subset: Subset,
    pub stage: usize,
    /// Of all products before the stage.
    pub formats: Vec<[Format; 2]>,
}

/// The values of each block of images, once somebody has them.
pub(super) type Blocks<V = Vec<f32>> = Arc<[OnceLock<V>]>;

/// Values between stages, those used last, up to a number of bytes.
#[derive(Debug)]
pub(super) struct Prefixes<V = Vec<f32>> {
    limit: usize,
    taken: usize,
    // the one used last at the end
    held: Vec<(Key, Blocks<V>, usize)>,
}

impl<V> Prefixes<V> {
    pub fn new(limit: usize) -> Self {
        Self { limit, taken: 0, held: Vec::new() }
    }

    /// Nothing is held.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.held.clear();
    }

    /// Room for the values of so many blocks, of so many bytes together; those that are there already stay.
    /// None if they are larger than all that may be held. What goes for it is handed to `gone`.
    pub fn room(
        &mut self,
        key: Key,
        blocks: usize,
        bytes: usize,
        mut gone: impl FnMut(V),
    ) -> Option<Blocks<V>> {
        if let Some(at) = self.held.iter().position(|(held, ..)| *held == key) {
            let found = self.held.remove(at);
            let values = Arc::clone(&found.1);
            self.held.push(found);
            return Some(values);
        }
        if bytes > self.limit {
            return None;
        }
        while self.taken + bytes > self.limit {
            let (_, mut blocks, bytes) = self.held.remove(0);
            self.taken -= bytes;
            // None where a trial still has them.
            let blocks = Arc::get_mut(&mut blocks).unwrap_or_default();
            blocks.iter_mut().filter_map(OnceLock::take).for_each(&mut gone);
        }
        self.taken += bytes;
        let values: Blocks<V> = (0..blocks).map(|_| OnceLock::new()).collect();
        self.held.push((key, Arc::clone(&values), bytes));
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
