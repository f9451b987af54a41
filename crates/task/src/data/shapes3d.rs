//! Noisy volumes of one large and several small ellipsoids, with the class of each voxel: a task
//! for a small 3D-UNet. The ground truth is exact because the volumes are generated here.
//!
//! A volume is a function of its part and its number; `training/shapes3d.py` uses the same volumes.

use std::collections::BTreeMap;

use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::rng::Mt19937;
use dyno_sut::tensors::{Elements, SampleTensor, Source};
use dyno_tensors::npy;

use super::part::Part;
use super::{SampleSet, library};
use crate::files::{CacheKey, Files, OpenError};

/// Revision of the volumes: increases when they change.
const REVISION: u32 = 1;
/// Voxels along each axis.
pub const SIDE: usize = 32;
/// Voxels of a volume.
pub const VOXELS: usize = SIDE * SIDE * SIDE;
/// Range of the half axes of the large ellipsoid, in voxels.
const LARGE: [f32; 2] = [7.0, 12.0];
/// Range of the half axes of small ellipsoids, in voxels.
const SMALL: [f32; 2] = [2.5, 5.0];
/// Maximum number of small ellipsoids; the minimum is one.
const MOST: u32 = 3;
/// Range of the brightness of the large ellipsoid.
const FIRST: [f32; 2] = [0.3, 0.5];
/// Range of the brightness that small ellipsoids add.
const MORE: [f32; 2] = [0.2, 0.35];
/// Standard deviation of the noise.
const NOISE: f32 = 0.2;
/// Maximum difference of brightness between opposite corners.
const SLOPE: f32 = 0.3;

/// A volume and the class of each voxel; the last axis varies fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// Brightness, about 0 to 1.
    pub brightness: Vec<f32>,
    /// Classes: 0 is background, 1 the large ellipsoid, 2 a small one.
    pub classes: Vec<u8>,
}

struct Ellipsoid {
    center: [f32; 3],
    half: [f32; 3],
}

impl Ellipsoid {
    fn draw(random: &mut Mt19937, half: [f32; 2]) -> Self {
        let half = [(); 3].map(|()| within(random, half));
        let center = half.map(|half| within(random, [half, SIDE as f32 - 1.0 - half]));
        Self { center, half }
    }

    fn contains(&self, at: [f32; 3]) -> bool {
        let share = |axis: usize| (at[axis] - self.center[axis]) / self.half[axis];
        let [x, y, z] = [share(0), share(1), share(2)];
        x * x + y * y + z * z <= 1.0
    }
}

fn within(random: &mut Mt19937, [from, to]: [f32; 2]) -> f32 {
    from + (to - from) * random.canonical() as f32
}

/// Returns the sum of four uniform numbers: close to a normal distribution, and the same on every
/// machine.
fn noise(random: &mut Mt19937) -> f32 {
    let sum: u32 = (0..4).map(|_| random.next_u32() >> 16).sum();
    (sum as f32 / 65_536.0 - 2.0) * 1.732_050_8
}

impl Scan {
    /// Draws volume `number` of a part.
    ///
    /// ```
    /// use dyno_task::data::part::Part;
    /// use dyno_task::data::shapes3d::{Scan, VOXELS};
    ///
    /// let scan = Scan::draw(Part::Test, 0);
    /// assert_eq!(scan.classes.len(), VOXELS);
    /// ```
    pub fn draw(part: Part, number: u64) -> Self {
        let mut random = part.random(number);
        let large = Ellipsoid::draw(&mut random, LARGE);
        let small: Vec<Ellipsoid> =
            (0..=random.bounded(MOST)).map(|_| Ellipsoid::draw(&mut random, SMALL)).collect();
        let first = within(&mut random, FIRST);
        let more = within(&mut random, MORE);
        let slope = [(); 3].map(|()| within(&mut random, [-SLOPE, SLOPE]) / (3 * SIDE) as f32);
        let mut scan =
            Self { brightness: Vec::with_capacity(VOXELS), classes: Vec::with_capacity(VOXELS) };
        for place in 0..VOXELS {
            let at = [place / (SIDE * SIDE), place / SIDE % SIDE, place % SIDE].map(|at| at as f32);
            let in_large = large.contains(at);
            let in_small = small.iter().any(|small| small.contains(at));
            // Small ellipsoids add to the brightness around them.
            let mut value = slope[0] * at[0] + slope[1] * at[1] + slope[2] * at[2];
            value += if in_large { first } else { 0.0 };
            value += if in_small { more } else { 0.0 };
            scan.brightness.push(value + NOISE * noise(&mut random));
            scan.classes.push(match (in_small, in_large) {
                (true, _) => 2,
                (false, true) => 1,
                (false, false) => 0,
            });
        }
        scan
    }
}

/// Volumes as samples: `[1, 32, 32, 32]`.
#[derive(Debug)]
pub struct Scans {
    count: usize,
    inputs: [String; 1],
}

impl Scans {
    /// Returns the first `count` volumes of the test part, for this input.
    pub fn new(count: usize, input: &str) -> Self {
        Self { count, inputs: [input.to_owned()] }
    }
}

impl Source for Scans {
    fn name(&self) -> &'static str {
        "shapes-3d"
    }

    fn count(&self) -> usize {
        self.count
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let elements = Elements::F32(Scan::draw(Part::Test, u64::from(index)).brightness.into());
        Ok(vec![SampleTensor { shape: vec![1, SIDE, SIDE, SIDE], elements }])
    }
}

/// Opens the volumes of the card and derives their classes for the method `dice`.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let card = files.card();
    let count = card.data.accuracy_samples as usize;
    let labels = files.derive("labels.npy", REVISION, CacheKey::Card, |file| {
        let scans = (0..count as u64).map(|number| Scan::draw(Part::Test, number));
        let classes: Vec<u8> = scans.flat_map(|scan| scan.classes).collect();
        npy::write(file, &[count, SIDE, SIDE, SIDE], &classes).map_err(OpenError::content)
    })?;
    let samples = library(card, Scans::new(count, &card.data.inputs[0].name))?;
    let references = BTreeMap::from([("labels".to_owned(), labels)]);
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_the_same_each_time_and_have_every_class() {
        for number in 0..10 {
            let scan = Scan::draw(Part::Test, number);
            assert_eq!(scan, Scan::draw(Part::Test, number));
            assert_ne!(scan, Scan::draw(Part::Training, number));
            let count_and_mean = |class: u8| {
                let is_its = |at: &&(&u8, &f32)| *at.0 == class;
                let all: Vec<_> = scan.classes.iter().zip(&scan.brightness).collect();
                let values: Vec<f32> =
                    all.iter().filter(is_its).map(|(_, value)| **value).collect();
                (values.len(), values.iter().sum::<f32>() / values.len() as f32)
            };
            let [nothing, large, small] = [0, 1, 2].map(count_and_mean);
            // Four thirds of pi of the half axes' product bound the numbers of voxels.
            assert!((1_000..=7_400).contains(&large.0) && (50..=1_600).contains(&small.0));
            assert!(nothing.1 + 0.1 < large.1, "{nothing:?} {large:?} {small:?}");
        }
    }

    #[test]
    fn a_volume_is_the_one_that_the_net_was_trained_for() {
        // A change of volumes requires new training of the network and a new revision.
        let scan = Scan::draw(Part::Training, 0);
        let count = |class: u8| scan.classes.iter().filter(|found| **found == class).count();
        let first = scan.brightness[..2].to_vec();
        assert_eq!((count(1), count(2), first), (4_383, 194, vec![-0.101_053_916, 0.437_994_03]));
    }
}
