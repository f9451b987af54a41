//! Detects results that were submitted for two targets of one benchmark. Results that reach 99.9
//! % of the reference quality may also be submitted for 99 %, and those that reach 99 % for 95 %.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use crate::check::catalogue::RUN_LOWER;
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::entry::Entry;
use crate::layout::DETAIL;
use crate::tree::Node;
use dyno_rules::Benchmark;

/// Bytes of each log in memory while two are compared.
const PART: usize = 1 << 16;

/// Notes that a result of the lower target is a copy of the one of the high target.
pub(super) fn check_copy(place: &Place<'_, '_>, issues: &mut Issues) {
    let high = place.model.benchmark.and_then(Benchmark::higher_target);
    let Some(high) = high.filter(|_| place.scenario.is_some()) else { return };
    let model = place.system.models.iter().find(|model| model.official == high);
    let same = |entry: &&Entry<'_>| entry.scenario == place.scenario;
    let source = model.and_then(|model| model.results.iter().find(same));
    if source.is_some_and(|source| is_same_run(source, place.entry)) {
        let path = place.entry.folder.path();
        let message = format!("is a copy of the result of {high}, which counts for both");
        issues.add(&RUN_LOWER, Location::path(&path), message);
    }
}

fn is_same_run(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    let logs = [one, other].map(|entry| entry.run()?.file(DETAIL));
    let [Some(one), Some(other)] = logs else { return false };
    // Logs may be larger than memory. Neither is read beyond its size at the time of the walk.
    let open = |log: Node<'_>| {
        let file = File::open(log.absolute())?.take(log.size());
        io::Result::Ok(BufReader::with_capacity(PART, file))
    };
    let is_same = || is_same(&mut open(one)?, &mut open(other)?);
    one.size() == other.size() && is_same().unwrap_or(false)
}

/// Whether two readers return the same bytes.
fn is_same(one: &mut impl BufRead, other: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let (here, there) = (one.fill_buf()?, other.fill_buf()?);
        let count = here.len().min(there.len());
        if count == 0 || here[..count] != there[..count] {
            return Ok(here.is_empty() && there.is_empty());
        }
        one.consume(count);
        other.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_compared_in_parts_whatever_their_lengths() {
        let same = |one: &[u8], other: &[u8], parts: [usize; 2]| {
            let [mut one, mut other] = [(one, parts[0]), (other, parts[1])]
                .map(|(bytes, part)| BufReader::with_capacity(part, bytes));
            is_same(&mut one, &mut other).unwrap()
        };
        for parts in [[1, 1], [2, 3], [3, 100], [100, 100]] {
            assert!(same(b"", b"", parts) && same(b"a longer log", b"a longer log", parts));
            assert!(!same(b"a longer log", b"a longer loG", parts), "{parts:?}");
            assert!(!same(b"a longer log", b"a longer lo", parts), "{parts:?}");
            assert!(!same(b"", b"a", parts), "{parts:?}");
        }
    }
}
