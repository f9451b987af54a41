//! Zachary's karate club: pairs of members who met outside of the club, and the side that each
//! member took when it split.
//!
//! Source: W. W. Zachary: An Information Flow Model for Conflict and Fission in Small
//! Groups, Journal of Anthropological Research 33(4), 1977, figures 1 and 3; members are
//! numbered from 0.

use std::collections::BTreeMap;

use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
use dyno_tensors::npy;

use super::SampleSet;
use crate::files::{CacheKey, Files, OpenError};

/// Members of the club.
pub const MEMBERS: usize = 34;
/// The instructor, around whom one side gathered.
pub const INSTRUCTOR: usize = 0;
/// The president, around whom the other side gathered.
pub const PRESIDENT: usize = 33;

/// For each member, the members with greater numbers whom they met.
const MET: [&[u8]; MEMBERS] = [
    &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31],
    &[2, 3, 7, 13, 17, 19, 21, 30],
    &[3, 7, 8, 9, 13, 27, 28, 32],
    &[7, 12, 13],
    &[6, 10],
    &[6, 10, 16],
    &[16],
    &[],
    &[30, 32, 33],
    &[33],
    &[],
    &[],
    &[],
    &[33],
    &[32, 33],
    &[32, 33],
    &[],
    &[],
    &[32, 33],
    &[33],
    &[32, 33],
    &[],
    &[32, 33],
    &[25, 27, 29, 32, 33],
    &[25, 27, 31],
    &[31],
    &[29, 33],
    &[33],
    &[31, 33],
    &[32, 33],
    &[32, 33],
    &[32, 33],
    &[33],
    &[],
];

/// Members of the president's side.
const WITH_PRESIDENT: [usize; 17] =
    [9, 14, 15, 18, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33];

/// Returns the pairs of members who met, the smaller number first.
pub fn pairs() -> impl Iterator<Item = (usize, usize)> {
    let pairs_of =
        |(one, met): (usize, &'static &[u8])| met.iter().map(move |&it| (one, it.into()));
    MET.iter().enumerate().flat_map(pairs_of)
}

/// Returns the side of each member: 0 is the instructor's, 1 the president's.
///
/// ```
/// use dyno_task::data::karate::{INSTRUCTOR, PRESIDENT, pairs, sides};
///
/// assert_eq!(pairs().count(), 78);
/// assert_eq!((sides()[INSTRUCTOR], sides()[PRESIDENT]), (0, 1));
/// ```
pub fn sides() -> [i64; MEMBERS] {
    std::array::from_fn(|member| i64::from(WITH_PRESIDENT.contains(&member)))
}

/// Opens one sample per member, with the sides as the method `node-accuracy` takes them.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let members: Vec<i64> = (0..MEMBERS as i64).collect();
    let list = |name: &str, values: &[i64]| {
        let written = |file: &mut _| npy::write(file, &[values.len()], values);
        files.derive(name, 1, CacheKey::Card, |file| written(file).map_err(OpenError::content))
    };
    let references = BTreeMap::from([
        ("labels".to_owned(), list("labels.npy", &sides())?),
        ("nodes".to_owned(), list("nodes.npy", &members)?),
    ]);
    let name = files.card().data.inputs[0].name.clone();
    let tensor = Tensor { name, sample_shape: Vec::new(), elements: Elements::I64(members.into()) };
    let samples = TensorLibrary::new("karate", vec![tensor], None).map_err(OpenError::content)?;
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_club_is_the_published_one() {
        // Counts and degrees in the paper and in every copy of the data set.
        assert_eq!(pairs().count(), 78);
        let met = |member| pairs().filter(|(a, b)| *a == member || *b == member).count();
        assert_eq!([INSTRUCTOR, PRESIDENT, 32, 2, 11].map(met), [16, 17, 12, 10, 1]);
        assert!((0..MEMBERS).all(|member| met(member) > 0), "somebody met nobody");
        assert_eq!(sides().iter().sum::<i64>(), 17);
        assert_eq!([INSTRUCTOR, PRESIDENT].map(|member| sides()[member]), [0, 1]);
    }
}
