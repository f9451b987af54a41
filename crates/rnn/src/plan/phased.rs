//! Steps whose products are laid into phases by hand: what the paper compares its schedules with.

use std::ops::Range;

use dyno_kernels::{At, Every, Loop, Phase, Program, ProgramError, Stage, Work};

use super::{Choice, Packed, Part, Plan, hidden_buffers, outer_buffers, own_buffers, share};
use crate::layer::Layer;

/// How the products of a step are laid into phases. All workers meet after each phase.
///
/// A gate's product is one of as many outputs: since gates of sixteen units lie side by side in a panel, it
/// has all gates of that part of the units. Sizes, bytes and operations are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phasing {
    /// Each gate's product by itself, on all workers, one after the other, as with a library of parallel
    /// products.
    InSequence,
    /// Products of all gates with the input side by side, each on its share of the workers; then those
    /// with the state.
    InParallel,
    /// One product of all gates with the input on all workers, then one with the state.
    Fused,
}

impl Phasing {
    /// The panels of each product of each worker, phase by phase.
    fn phases(self, panels: usize, gates: usize, workers: usize) -> Vec<Vec<Vec<Range<usize>>>> {
        let part = |of: &Range<usize>, index, count| {
            let within = share(of.len(), index, count);
            of.start + within.start..of.start + within.end
        };
        let products: Vec<Range<usize>> =
            (0..gates).map(|gate| share(panels, gate, gates)).collect();
        let on_all = |of: &Range<usize>| (0..workers).map(|w| vec![part(of, w, workers)]).collect();
        match self {
            Self::InSequence => products.iter().map(on_all).collect(),
            Self::Fused => vec![on_all(&(0..panels))],
            Self::InParallel if workers <= gates => {
                let of = |worker| products[share(gates, worker, workers)].to_vec();
                vec![(0..workers).map(of).collect()]
            }
            Self::InParallel => {
                let of = |worker: usize| {
                    let teams = (0..gates).map(|gate| share(workers, gate, gates));
                    let mut mine = teams.zip(&products).filter(|(team, _)| team.contains(&worker));
                    let (team, of) = mine.next().expect("each worker is in one team");
                    vec![part(of, worker - team.start, team.len())]
                };
                vec![(0..workers).map(of).collect()]
            }
        }
    }
}

/// Builds the program of a plain layer whose steps are laid out so, on the workers that share the units by
/// the choice; of the rest of it precision and activations count. Directions follow one another.
///
/// # Errors
/// The choice asks for what a program must not do.
///
/// # Panics
/// If the layer has options.
pub fn build_phased(
    layer: &Layer,
    packed: &[Packed],
    batch: usize,
    choice: &Choice,
    phasing: Phasing,
) -> Result<Plan, ProgramError> {
    assert!(layer.is_plain(), "cells with options have schedules of their own");
    let workers = choice.units.max(1);
    let choice = &Choice { chunk: 1, sides: 1, rows: 1, units: workers, ..*choice };
    let mut buffers = outer_buffers(layer, batch);
    let (mut states, mut phases) = (Vec::new(), Vec::new());
    for (direction, packed) in packed.iter().enumerate().take(layer.directions().count()) {
        let hidden = hidden_buffers(packed, layer, batch, choice, &mut buffers);
        let own = own_buffers(packed, layer, batch, choice, &mut buffers);
        let time = if layer.directions().is_back(direction) { At::Back } else { At::Step };
        let of = |panels: Range<usize>| {
            let rows = 0..batch;
            Part { layer, packed, time, direction, rows, panels, choice, hidden, own }
        };
        states.push(vec![of(0..packed.input.panels()).of_states()]);
        let all = phasing.phases(packed.input.panels(), layer.cell().gates(), workers);
        for is_state in [false, true] {
            for phase in &all {
                let product = |panels: &Range<usize>| {
                    let part = of(panels.clone());
                    if is_state { part.state() } else { part.input() }
                };
                let work = |panels: &Vec<Range<usize>>| -> Work {
                    panels.iter().filter(|panels| !panels.is_empty()).map(product).collect()
                };
                phases.push(Phase { work: phase.iter().map(work).collect(), meets: true });
            }
        }
    }
    let stages = vec![Stage { every: Every::Step, phases }];
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
