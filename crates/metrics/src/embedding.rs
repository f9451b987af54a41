//! Agreement of text embeddings with those of another network, for example of a quantized model
//! with the model in full precision.
//!
//! There are two figures: the mean cosine of each answer with its reference, and the share of texts
//! whose nearest other text is the same by answers and by references. The second one is what a
//! search depends on. Neighbors are searched among the answered texts only, so that the log of a
//! part of the texts has both figures.
//!
//! Source: no benchmark has this method; `cargo xtask peers metrics` compares it with the
//! definition in NumPy.

use ndarray::{Array2, Axis, Slice};

use super::arrays::npy::{Matrix, Npy};
use super::generation::dot;
use super::payload::{self, Element};
use super::{AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores};
use crate::parallel;

const VECTORS: Need = Need {
    name: "vectors",
    help: "vectors of the texts from the network in full precision, as a .npy file with one row \
           per sample",
    is_required: true,
};

/// Method for embeddings of texts.
pub const EMBEDDING_AGREEMENT: Method = Method {
    name: "embedding-agreement",
    title: "mean cosine with the reference vectors, and share of texts with the same nearest text, \
            in percent",
    answer: "the vector of the text, of any length except 0",
    element: Some(Element::F32),
    needs: &[VECTORS],
    choices: &[],
    open: |inputs| Ok(Box::new(Agreement::read(inputs)?)),
};

/// [`EMBEDDING_AGREEMENT`] with references that are computed. Rows without a direction, which are zero
/// or not finite, are valid, and answers to their samples are not compared.
pub const COMPUTED_AGREEMENT: Method = Method {
    open: |inputs| {
        let element = inputs.element.unwrap_or(Element::F32);
        let references = Npy::open(inputs.file(&VECTORS)?)?.matrix()?;
        Ok(Box::new(Agreement::of_comparable(references, element)))
    },
    ..EMBEDDING_AGREEMENT
};

/// Cosines that differ by less are equal. Vectors arrive as float32, which rounds each element of
/// both by up to half of 2^-23.
const EQUAL: f64 = 1e-6;

/// Rows and columns of a block of cosines.
const BLOCK: usize = 256;

/// Scores vectors against references.
#[derive(Debug)]
pub struct Agreement {
    /// Reference of each sample, of length 1.
    references: Matrix,
    /// Samples whose reference has no direction, in ascending order.
    excluded: Vec<usize>,
    /// Number of answers to these samples.
    left_out: u64,
    element: Element,
    /// Samples with a valid answer.
    samples: Vec<usize>,
    /// Vectors of these samples, of length 1.
    answers: Vec<f64>,
    cosines: f64,
    total: u64,
}

impl Agreement {
    fn read(inputs: &Inputs) -> Result<Self, DataError> {
        let path = inputs.file(&VECTORS)?;
        let references = Npy::open(path)?.matrix()?;
        Self::new(references, inputs.element.unwrap_or(Element::F32)).map_err(|row| {
            let expected = "vectors of numbers, and not all of them 0";
            DataError::malformed(path, None, expected, format!("another one as row {row}, from 0"))
        })
    }

    /// Creates the scorer. `references` has a row per sample.
    ///
    /// # Errors
    /// The index of the first row that has no direction, since it is zero or not finite.
    ///
    /// ```
    /// use dyno_metrics::Scorer;
    /// use dyno_metrics::arrays::npy::Matrix;
    /// use dyno_metrics::embedding::Agreement;
    /// use dyno_metrics::payload::Element;
    ///
    /// let references = Matrix { columns: 2, values: vec![1.0, 0.0, 0.0, 1.0] };
    /// let mut scorer = Agreement::new(references, Element::F32).unwrap();
    /// scorer.take(0, &[2.0_f32, 0.0].map(f32::to_le_bytes).concat()).unwrap();
    /// scorer.take(1, &[0.0_f32, 0.5].map(f32::to_le_bytes).concat()).unwrap();
    /// assert_eq!(scorer.scores().figure("cosine"), Some(100.0));
    /// ```
    pub fn new(mut references: Matrix, element: Element) -> Result<Self, usize> {
        let columns = references.columns.max(1);
        for (at, row) in references.values.chunks_exact_mut(columns).enumerate() {
            normalize(row).ok_or(at)?;
        }
        Ok(Self::with_excluded(references, Vec::new(), element))
    }

    /// Creates the scorer of the samples whose reference has a direction.
    fn of_comparable(mut references: Matrix, element: Element) -> Self {
        let columns = references.columns.max(1);
        let rows = references.values.chunks_exact_mut(columns).enumerate();
        let excluded = rows.filter_map(|(at, row)| normalize(row).is_none().then_some(at));
        let excluded = excluded.collect();
        Self::with_excluded(references, excluded, element)
    }

    fn with_excluded(references: Matrix, excluded: Vec<usize>, element: Element) -> Self {
        Self {
            references,
            excluded,
            left_out: 0,
            element,
            samples: Vec::new(),
            answers: Vec::new(),
            cosines: 0.0,
            total: 0,
        }
    }

    /// Returns the number of texts whose nearest other text is also a nearest one by the
    /// references. There must be at least two valid answers.
    fn count_agreeing(&self) -> u64 {
        let references: Vec<&[f64]> =
            self.samples.iter().map(|sample| self.references.row(*sample)).collect();
        let answers: Vec<&[f64]> = self.answers.chunks_exact(self.references.columns).collect();
        let pairs = nearest(&references).into_iter().zip(nearest(&answers)).enumerate();
        let agrees = |(at, (expected, found)): &(usize, (Neighbor, Neighbor))| {
            dot(references[*at], references[found.at]) >= expected.cosine - EQUAL
        };
        pairs.filter(agrees).count() as u64
    }
}

/// The nearest vector to another one; the first of several at equal distance.
#[derive(Debug, Clone, Copy)]
struct Neighbor {
    at: usize,
    cosine: f64,
}

/// A vector that may be the nearest to another one.
struct Candidate {
    to: usize,
    at: usize,
    /// Computed in 32 bits.
    cosine: f32,
}

/// Returns the nearest other vector to each. There must be at least two vectors of length 1.
///
/// Cosines are first computed in 32 bits, as products of matrices, in half of the time of 64 bits.
/// Those within the rounding error of the greatest are computed again in 64 bits.
fn nearest(vectors: &[&[f64]]) -> Vec<Neighbor> {
    let columns = vectors[0].len();
    let short = vectors.iter().flat_map(|row| row.iter().map(|value| *value as f32)).collect();
    let short = Array2::from_shape_vec((vectors.len(), columns), short);
    let short = short.expect("vectors are of one length");
    // The error of a sum of n products is at most n times half of EPSILON for vectors of length 1,
    // in any order. The rounding of the vectors doubles it.
    let error = (columns + 4) as f32 * f32::EPSILON;
    let blocks = 0..vectors.len().div_ceil(BLOCK);
    let pairs: Vec<(usize, usize)> =
        blocks.clone().flat_map(|one| (one..blocks.end).map(move |other| (one, other))).collect();
    let found = parallel::map(&pairs, |pair| candidates(&short, *pair, 2.0 * error));
    let mut greatest = vec![f32::NEG_INFINITY; vectors.len()];
    for Candidate { to, cosine, .. } in found.iter().flatten() {
        greatest[*to] = greatest[*to].max(*cosine);
    }
    let mut near = vec![Vec::new(); vectors.len()];
    for Candidate { to, at, cosine } in found.into_iter().flatten() {
        if cosine >= greatest[to] - 2.0 * error {
            near[to].push(at);
        }
    }
    let rows: Vec<(&&[f64], Vec<usize>)> = vectors.iter().zip(near).collect();
    parallel::map(&rows, |(row, near)| {
        let neighbor = |at: &usize| Neighbor { at: *at, cosine: dot(row, vectors[*at]) };
        let first = Neighbor { at: usize::MAX, cosine: f64::NEG_INFINITY };
        near.iter().map(neighbor).fold(first, |best, one| {
            let is_nearer = (one.cosine, best.at) > (best.cosine, one.at);
            if is_nearer { one } else { best }
        })
    })
}

/// Returns the cosines of a block that are within `margin` of the greatest in their row or column.
/// Cosines are symmetric, so that a block stands for two.
fn candidates(vectors: &Array2<f32>, (one, other): (usize, usize), margin: f32) -> Vec<Candidate> {
    let rows = |block: usize| {
        let end = ((block + 1) * BLOCK).min(vectors.nrows());
        vectors.slice_axis(Axis(0), Slice::from(block * BLOCK..end))
    };
    // A product of vectors of one number comes column by column.
    let mut cosines = rows(one).dot(&rows(other).t()).as_standard_layout().into_owned();
    if one == other {
        // A text is not its own neighbor.
        cosines.diag_mut().fill(f32::NEG_INFINITY);
    }
    let (count, columns) = cosines.dim();
    let values = cosines.as_slice().expect("products are row by row");
    let mut of_columns = vec![f32::NEG_INFINITY; columns];
    let mut found = Vec::new();
    for (row, values) in values.chunks_exact(columns).enumerate() {
        let to = one * BLOCK + row;
        let near = at_least(values, greatest(values) - margin);
        found.extend(near.map(|(column, cosine)| Candidate {
            to,
            at: other * BLOCK + column,
            cosine,
        }));
        raise(&mut of_columns, values);
    }
    if one == other {
        return found;
    }
    let mut turned = vec![0.0; count];
    for (column, greatest) in of_columns.into_iter().enumerate() {
        let to = other * BLOCK + column;
        let values = values.iter().skip(column).step_by(columns);
        turned.iter_mut().zip(values).for_each(|(to, value)| *to = *value);
        let near = at_least(&turned, greatest - margin);
        found.extend(near.map(|(row, cosine)| Candidate { to, at: one * BLOCK + row, cosine }));
    }
    found
}

/// Numbers that are compared at a time.
const LANES: usize = 16;

/// Replaces each number by the value at its position, if that is greater.
fn raise(greatest: &mut [f32], values: &[f32]) {
    for (greatest, value) in greatest.iter_mut().zip(values) {
        *greatest = if *value > *greatest { *value } else { *greatest };
    }
}

fn greatest(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    chunks.iter().for_each(|chunk| raise(&mut lanes, chunk));
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, value| most.max(*value))
}

/// Returns the positions and values of the few numbers that are at least `least`.
fn at_least(values: &[f32], least: f32) -> impl Iterator<Item = (usize, f32)> {
    let has_some =
        move |chunk: &&[f32]| chunk.iter().fold(false, |any, value| any | (*value >= least));
    let chunks = values.chunks(LANES).enumerate().filter(move |(_, chunk)| has_some(chunk));
    let numbered = chunks.flat_map(|(at, chunk)| (at * LANES..).zip(chunk.iter().copied()));
    numbered.filter(move |(_, value)| *value >= least)
}

/// Scales a vector to length 1; `None` if it has no direction.
fn normalize(vector: &mut [f64]) -> Option<()> {
    let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
    (length > 0.0 && length.is_finite()).then_some(())
}

impl Scorer for Agreement {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let references = self.references.rows() as u64;
        if index >= references {
            return Err(AnswerError::Sample { references });
        }
        if self.excluded.binary_search(&(index as usize)).is_ok() {
            self.left_out += 1;
            return Ok(());
        }
        self.total += 1;
        let bytes = self.references.columns * self.element.size();
        if answer.len() != bytes {
            let expected = format!("{bytes} ({} numbers)", self.references.columns);
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        let start = self.answers.len();
        self.answers.extend(payload::reals(self.element, answer)?);
        let vector = &mut self.answers[start..];
        if normalize(vector).is_none() {
            self.answers.truncate(start);
            return Err(AnswerError::Content {
                expected: "numbers, and not all of them 0".to_owned(),
                found: "others".to_owned(),
            });
        }
        self.cosines += dot(vector, self.references.row(index as usize));
        self.samples.push(index as usize);
        Ok(())
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.rows() as u64)
    }

    fn excluded(&self) -> u64 {
        self.left_out
    }

    fn scores(&mut self) -> Scores {
        let (total, percent) = (self.total, 100.0 / self.total.max(1) as f64);
        let cosine = percent * self.cosines;
        // A single text has no neighbor.
        let is_single = self.samples.len() < 2;
        let nearest = if is_single { f64::NAN } else { percent * self.count_agreeing() as f64 };
        Scores {
            figures: vec![
                Figure { metric: "cosine", value: cosine },
                Figure { metric: "nearest", value: nearest },
            ],
            text: format!("cosine={cosine:.3}%, nearest={nearest:.3}%, total={total}\n"),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrays::npy::tests::{file, written};
    use super::*;

    fn agreement(values: &[f64]) -> Agreement {
        let references = Matrix { columns: 2, values: values.to_vec() };
        Agreement::new(references, Element::F32).unwrap()
    }

    fn vector(values: [f32; 2]) -> Vec<u8> {
        values.map(f32::to_le_bytes).concat()
    }

    fn figures(scorer: &mut Agreement) -> [f64; 2] {
        let scores = scorer.scores();
        ["cosine", "nearest"].map(|name| (scores.figure(name).unwrap() * 1e9).round() / 1e9)
    }

    #[test]
    fn vectors_have_an_angle_to_their_references_and_neighbours() {
        // Vectors at about 0, 10, 80 and 90 degrees. Lengths do not matter.
        let mut scorer = agreement(&[5.0, 0.0, 6.0, 1.0, 1.0, 6.0, 0.0, 0.1]);
        // The second vector turns to the third and fourth: its nearest is now the third, whose
        // nearest is still the fourth. The nearest of the first is still the second.
        for (index, answer) in [[0.5, 0.0], [3.0, 4.0], [1.0, 6.0], [0.0, 3.0]].iter().enumerate() {
            assert_eq!(scorer.take(index as u64, &vector(*answer)), Ok(()));
        }
        let turned = (6.0 * 3.0 + 4.0) / (37_f64.sqrt() * 5.0);
        let cosine = (100.0 * (3.0 + turned) / 4.0 * 1e9).round() / 1e9;
        assert_eq!(figures(&mut scorer), [cosine, 75.0]);
        assert!(scorer.scores().text.ends_with("%, nearest=75.000%, total=4\n"));
    }

    #[test]
    fn an_answer_that_is_none_is_wrong_and_no_neighbour() {
        let mut scorer = agreement(&[1.0, 0.0, 1.0, 0.1, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(scorer.take(4, &vector([1.0, 0.0])), Err(AnswerError::Sample { references: 4 }));
        assert_eq!(scorer.take(0, &vector([1.0, 0.0])), Ok(()));
        let zeros = scorer.take(1, &vector([0.0, 0.0])).unwrap_err().to_string();
        assert_eq!(zeros, "expected numbers, and not all of them 0, found others");
        let short = scorer.take(2, &[0; 4]).unwrap_err().to_string();
        assert_eq!(short, "expected 8 (2 numbers) bytes, found 4");
        assert_eq!(scorer.take(3, &vector([1.0, 1.0])), Ok(()));
        assert!(matches!(
            scorer.take(2, &vector([f32::NAN, 1.0])),
            Err(AnswerError::Content { .. })
        ));
        // Each of the remaining two vectors is the neighbor of the other.
        assert_eq!(figures(&mut scorer), [40.0, 40.0]);
    }

    #[test]
    fn samples_whose_computed_reference_has_no_direction_are_not_compared() {
        let values = vec![1.0, 0.0, f64::INFINITY, 1.0, 0.0, 0.0, f64::NAN, 1.0, 0.0, 1.0];
        let references = Matrix { columns: 2, values };
        let mut scorer = Agreement::of_comparable(references, Element::F32);
        assert_eq!(scorer.excluded, [1, 2, 3]);
        for index in 0..5 {
            let answer = if index == 4 { [0.0, 1.0] } else { [1.0, f32::from(index == 1)] };
            let _ = scorer.take(index, &vector(answer));
        }
        assert_eq!(figures(&mut scorer), [100.0, 100.0]);
        assert_eq!(Scorer::excluded(&scorer), 3);
        let references = Matrix { columns: 2, values: vec![f64::INFINITY, 1.0] };
        assert_eq!(Agreement::new(references, Element::F32).map(drop), Err(0));
    }

    #[test]
    fn of_equally_near_texts_any_will_do_and_a_single_one_has_none() {
        // The second and third reference are equal, and their answers differ slightly.
        let mut scorer = agreement(&[1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        for (index, answer) in [[1.0, 0.0], [1.0, 1.0], [1.0, 0.999_999_9]].iter().enumerate() {
            assert_eq!(scorer.take(index as u64, &vector(*answer)), Ok(()));
        }
        assert_eq!(figures(&mut scorer), [100.0, 100.0]);
        // Vectors of one number point one way or the other.
        let references = Matrix { columns: 1, values: vec![0.3, -0.2, 0.1] };
        let mut narrow = Agreement::new(references, Element::F32).unwrap();
        for (index, answer) in [0.2_f32, -0.2, 0.4].iter().enumerate() {
            assert_eq!(narrow.take(index as u64, &answer.to_le_bytes()), Ok(()));
        }
        assert_eq!(figures(&mut narrow), [100.0, 100.0]);
        let mut single = agreement(&[1.0, 0.0]);
        assert_eq!(single.take(0, &vector([1.0, 0.0])), Ok(()));
        assert!(single.scores().figure("nearest").unwrap().is_nan());
        // A malformed answer is no neighbor.
        let mut single = agreement(&[1.0, 0.0, 0.0, 1.0]);
        assert_eq!(single.take(0, &vector([1.0, 0.0])), Ok(()));
        assert!(single.take(1, &vector([0.0, 0.0])).is_err());
        assert!(single.scores().figure("nearest").unwrap().is_nan());
    }

    #[test]
    fn references_are_read_and_those_without_a_direction_named() {
        let opened = |name: &str, values: [f32; 4]| {
            let body = values.map(f32::to_le_bytes).concat();
            let path = written(name, &file("<f4", "(2, 2)", &body));
            let files = [("vectors".to_owned(), path.to_path_buf())].into();
            (EMBEDDING_AGREEMENT.open)(&Inputs { files, ..Inputs::default() })
        };
        let scorer = opened("vectors", [1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(scorer.references(), Some(2));
        let error = opened("zeros", [1.0, 2.0, 0.0, 0.0]).err().unwrap().to_string();
        assert!(error.ends_with("found another one as row 1, from 0"), "{error}");
    }
}
