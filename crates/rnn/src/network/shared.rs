//! Division of nodes without programs among the workers.

use std::sync::{Mutex, PoisonError};

use dyno_kernels::Team;

/// Maximum workers that share a node.
const MOST: usize = 16;
/// Numbers that one worker can read and write while another one wakes up.
const LEAST: usize = 1 << 13;

/// Divides `to` among the workers in multiples of `unit` numbers, and calls `work` with the number
/// of preceding units and each part. If fewer than [`LEAST`] numbers are `touched`, `work` runs
/// once with all of it. The division affects only the time, not the result.
pub(super) fn shared(
    team: &mut Team,
    to: &mut [f32],
    unit: usize,
    touched: usize,
    work: &(dyn Fn(usize, &mut [f32]) + Sync),
) {
    let units = to.len() / unit.max(1);
    let workers = team.workers().min(MOST).min(units);
    if workers < 2 || touched < LEAST {
        return work(0, to);
    }
    let share = units.div_ceil(workers);
    let mut rest = to.chunks_mut(share * unit);
    // Each lock is taken once, by its worker.
    let parts: [_; MOST] = std::array::from_fn(|_| Mutex::new(rest.next()));
    team.run(&|worker| {
        let part =
            parts.get(worker).map(|part| part.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(part) = part.and_then(|mut part| part.take()) {
            work(worker * share, part);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_worked_on_once() {
        for workers in [1, 2, 3] {
            let mut team = Team::with_workers(workers);
            for (units, unit, touched) in [(0, 3, LEAST), (1, 5, LEAST), (7, 4, LEAST), (20, 1, 1)]
            {
                let mut to = vec![0.0; units * unit];
                shared(&mut team, &mut to, unit, touched, &|first, part| {
                    for (at, part) in part.chunks_mut(unit).enumerate() {
                        part.iter_mut().for_each(|number| *number += (first + at + 1) as f32);
                    }
                });
                let expected = (0..units * unit).map(|at| (at / unit + 1) as f32);
                assert!(to.into_iter().eq(expected), "{units} of {unit} on {workers}");
            }
        }
    }
}
