//! Points of a sweep that would be the same run, because what differs between them has no effect.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::combinations::Combination;
use crate::effect::{Facts, is_useless};
use crate::failure::Failure;
use crate::options::SweepKey;

/// Points that were checked so far, without the values that have no effect there.
#[derive(Default)]
pub struct SameRuns {
    /// First point of each reduced combination.
    first: HashMap<Combination, String>,
    problems: Vec<String>,
}

impl SameRuns {
    /// Adds a point.
    pub fn add(&mut self, facts: &Facts<'_>, combination: &Combination, name: &str) {
        let (useless, reduced): (Combination, Combination) = combination
            .clone()
            .into_iter()
            .partition(|(key, _)| SweepKey::find(key).is_ok_and(|swept| is_useless(facts, &swept)));
        // A point whose values all have an effect differs from each other one.
        if useless.is_empty() {
            return;
        }
        let keys: Vec<String> = useless.keys().map(|key| format!("`{key}`")).collect();
        let have = if keys.len() == 1 { "has" } else { "have" };
        match self.first.entry(reduced) {
            Entry::Vacant(free) => _ = free.insert(name.to_owned()),
            Entry::Occupied(taken) => self.problems.push(format!(
                "points {} and {name} are the same run: {} {have} no effect in them",
                taken.get(),
                keys.join(" and ")
            )),
        }
    }

    /// Rejects points that are the same run.
    ///
    /// # Errors
    /// The first such points.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(first) = self.problems.first() else { return Ok(()) };
        let others = match self.problems.len() {
            1 => String::new(),
            2 => "\n  and 1 other".into(),
            count => format!("\n  and {} others", count - 1),
        };
        Err(Failure::usage(format!("{first}{others}")).hint(
            "sweep the values in a command of their own, or leave out the further points with \
             [[sweep.exclude]] in a file",
        ))
    }
}
