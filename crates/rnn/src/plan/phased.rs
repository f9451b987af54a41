//! Plans with explicit phases: the baselines of the paper's schedules.

use std::ops::Range;

use dyno_kernels::{Cadence, Loop, Phase, Program, ProgramError, SlotIndex, Stage, Work};

use super::{Choice, PackedWeights, Part, Plan, hidden_buffers, outer_buffers, own_buffers, share};
use crate::layer::Layer;

/// How the products of a step are divided into phases. All workers synchronize after each phase.
///
/// A gate's product is represented by one with as many outputs. Since a panel holds all gates of
/// sixteen units side by side, that product has all gates of a part of the units. Sizes, bytes and
/// operations are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phasing {
    /// Each gate's product alone on all workers, one after the other, as with a parallel BLAS
    /// library.
    InSequence,
    /// The products of all gates with the input side by side, each on its share of the workers;
    /// then those with the state.
    InParallel,
    /// One product of all gates with the input on all workers, then one with the state.
    Fused,
}

impl Phasing {
    /// Returns the panels of each product of each worker, by phase.
    fn phases(self, panels: usize, gates: usize, workers: usize) -> Vec<Vec<Vec<Range<usize>>>> {
        let part = |panels: &Range<usize>, index, count| {
            let within = share(panels.len(), index, count);
            panels.start + within.start..panels.start + within.end
        };
        let products: Vec<Range<usize>> =
            (0..gates).map(|gate| share(panels, gate, gates)).collect();
        let on_all =
            |panels: &Range<usize>| (0..workers).map(|w| vec![part(panels, w, workers)]).collect();
        match self {
            Self::InSequence => products.iter().map(on_all).collect(),
            Self::Fused => vec![on_all(&(0..panels))],
            Self::InParallel if workers <= gates => {
                let assign = |worker| products[share(gates, worker, workers)].to_vec();
                vec![(0..workers).map(assign).collect()]
            }
            Self::InParallel => {
                let assign = |worker: usize| {
                    let teams = (0..gates).map(|gate| share(workers, gate, gates));
                    let mut mine = teams.zip(&products).filter(|(team, _)| team.contains(&worker));
                    let (team, panels) = mine.next().expect("each worker is in one team");
                    vec![part(panels, worker - team.start, team.len())]
                };
                vec![(0..workers).map(assign).collect()]
            }
        }
    }
}

/// Builds the program of a layer without options in these phases, on as many workers as divide the
/// units. Precision and activations of the choice apply; its other fields are ignored. Directions
/// follow one another.
///
/// # Errors
/// The choice leads to an invalid program.
///
/// # Panics
/// The layer has options.
pub fn build_phased(
    layer: &Layer,
    packed: &[PackedWeights],
    batch: usize,
    choice: &Choice,
    phasing: Phasing,
) -> Result<Plan, ProgramError> {
    assert!(layer.is_plain(), "cells with options have schedules of their own");
    let workers = choice.units.max(1);
    let choice = &Choice { chunk: 1, sides: 1, rows: 1, units: workers, ..*choice };
    let mut buffers = outer_buffers(layer, batch);
    let mut states = Vec::new();
    let mut phases = Vec::new();
    for (direction, packed) in packed.iter().enumerate().take(layer.directions().count()) {
        let hidden = hidden_buffers(packed, layer, batch, choice, &mut buffers);
        let own = own_buffers(packed, layer, batch, choice, &mut buffers);
        let time =
            if layer.directions().is_back(direction) { SlotIndex::Back } else { SlotIndex::Step };
        let part_of = |panels: Range<usize>| {
            let rows = 0..batch;
            Part { layer, packed, time, direction, rows, panels, choice, hidden, own }
        };
        states.push(vec![part_of(0..packed.input.panels()).state_part()]);
        let all = phasing.phases(packed.input.panels(), layer.cell().gates(), workers);
        for is_state in [false, true] {
            for phase in &all {
                let product = |panels: &Range<usize>| {
                    let part = part_of(panels.clone());
                    if is_state { part.state() } else { part.input() }
                };
                let work = |panels: &Vec<Range<usize>>| -> Work {
                    panels.iter().filter(|panels| !panels.is_empty()).map(product).collect()
                };
                phases.push(Phase { work: phase.iter().map(work).collect(), has_barrier: true });
            }
        }
    }
    let stages = vec![Stage { cadence: Cadence::Step, phases }];
    let looped = Loop { length: 0, chunk: 1, stages };
    Ok(Plan { program: Program::new(workers, buffers, vec![looped])?, states })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_panel_is_multiplied_once() {
        for phasing in [Phasing::InSequence, Phasing::InParallel, Phasing::Fused] {
            for (panels, gates, workers) in [(4, 4, 2), (16, 4, 3), (16, 3, 7), (2, 4, 2)] {
                let phases = phasing.phases(panels, gates, workers);
                let mut all: Vec<usize> =
                    phases.iter().flatten().flatten().flat_map(Clone::clone).collect();
                all.sort_unstable();
                assert_eq!(all, (0..panels).collect::<Vec<_>>(), "{phasing:?} {workers}");
                assert!(phases.iter().all(|phase| phase.len() == workers));
            }
        }
        assert_eq!(Phasing::InSequence.phases(8, 4, 2).len(), 4);
    }
}
