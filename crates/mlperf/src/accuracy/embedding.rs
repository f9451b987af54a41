//! How far vectors of texts are those of another network, such as those of a quantised
//! model are those of the model in full precision.
//!
//! Two figures: the mean cosine of each answer with its reference, and the share of texts
//! whose nearest other text is the same by the answers as by the references. The second is
//! what a search sees. It is of the texts that were answered: neighbours are looked for
//! among these alone, so that the log of a part of them has a figure, too.
//!
//! Source: none of the benchmarks has it; `cargo xtask peers metrics` compares it with the
//! definition in NumPy.

use ndarray::{Array2, ArrayView1, Axis, Slice};

use super::arrays::npy::{Matrix, Npy};
use super::payload::{self, Element};
use super::{AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores};
use crate::parallel;

const VECTORS: Need = Need {
    name: "vectors",
    what: "what the network in full precision makes of each text as an npy file, a row a sample",
    is_required: true,
};

/// Embeddings of texts.
pub const EMBEDDING_AGREEMENT: Method = Method {
    name: "embedding-agreement",
    title: "mean cosine with vectors of reference, and texts whose nearest other text is the same, \
            in percent",
    answer: "the vector of the text, of any length but 0",
    element: Some(Element::Float32),
    needs: &[VECTORS],
    choices: &[],
    open: |inputs| Ok(Box::new(Agreement::read(inputs)?)),
};

/// Cosines that are this near are equal: vectors come as float32, of which each of two has
/// an error of half of 2^-23 in each part.
const EQUAL: f64 = 1e-6;

/// Rows whose cosines with all others are in memory at once, on each processor.
const ROWS: usize = 256;

/// Scores vectors.
#[derive(Debug)]
pub struct Agreement {
    /// All of length 1.
    references: Matrix,
    element: Element,
    /// Of each answer that is a vector, its sample and its vector of length 1.
    answers: Vec<(usize, Vec<f64>)>,
    cosines: f64,
    total: u64,
}

impl Agreement {
    fn read(inputs: &Inputs) -> Result<Self, DataError> {
        let path = inputs.file(&VECTORS)?;
        let references = Npy::open(path)?.matrix()?;
        Self::new(references, inputs.element.unwrap_or(Element::Float32)).map_err(|row| {
            let expected = "vectors of numbers, and not all of them 0";
            DataError::malformed(path, None, expected, format!("another one as row {row}, from 0"))
        })
    }

    /// References are a row a sample.
    ///
    /// # Errors
    /// The row that has no direction.
    pub fn new(mut references: Matrix, element: Element) -> Result<Self, usize> {
        let columns = references.columns.max(1);
        for (at, row) in references.values.chunks_exact_mut(columns).enumerate() {
            shorten(row).ok_or(at)?;
        }
        Ok(Self { references, element, answers: Vec::new(), cosines: 0.0, total: 0 })
    }

    /// Texts whose nearest other text is one by the references, too.
    fn agreed(&self) -> u64 {
        let (samples, columns) = (self.answers.len(), self.references.columns);
        let mut by_reference = Array2::zeros((samples, columns));
        let mut by_answer = Array2::zeros((samples, columns));
        for (at, (sample, answer)) in self.answers.iter().enumerate() {
            let rows =
                [(&mut by_reference, self.references.row(*sample)), (&mut by_answer, answer)];
            for (to, from) in rows {
                to.row_mut(at).iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
        let starts: Vec<usize> = (0..samples).step_by(ROWS).collect();
        parallel::map(&starts, |start| agreed_from(*start, &by_reference, &by_answer)).iter().sum()
    }
}

/// Of the rows from `start` on, as many as are looked at at once.
fn agreed_from(start: usize, references: &Array2<f64>, answers: &Array2<f64>) -> u64 {
    let behind = (start + ROWS).min(references.nrows());
    let cosines = |all: &Array2<f64>| {
        let mut cosines = all.slice_axis(Axis(0), Slice::from(start..behind)).dot(&all.t());
        // No text is its own neighbour.
        for (row, mut of_row) in cosines.axis_iter_mut(Axis(0)).enumerate() {
            of_row[start + row] = f64::NEG_INFINITY;
        }
        cosines
    };
    let (references, answers) = (cosines(references), cosines(answers));
    let rows = references.axis_iter(Axis(0)).zip(answers.axis_iter(Axis(0)));
    let agrees = |(reference, answer): &(ArrayView1<f64>, ArrayView1<f64>)| {
        let greatest = |of: &ArrayView1<f64>| {
            let first = (f64::NEG_INFINITY, 0);
            let greater = |best: (f64, usize), (at, value): (usize, &f64)| {
                if *value > best.0 { (*value, at) } else { best }
            };
            of.iter().enumerate().fold(first, greater)
        };
        reference[greatest(answer).1] >= greatest(reference).0 - EQUAL
    };
    rows.filter(agrees).count() as u64
}

/// Makes the length of a vector 1, if it has a direction.
fn shorten(vector: &mut [f64]) -> Option<()> {
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
        self.total += 1;
        let bytes = self.references.columns * self.element.size();
        if answer.len() != bytes {
            let expected = format!("{bytes} ({} numbers)", self.references.columns);
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        let mut vector: Vec<f64> = payload::reals(self.element, answer)?.collect();
        shorten(&mut vector).ok_or_else(|| AnswerError::Content {
            expected: "numbers, and not all of them 0".to_owned(),
            found: "others".to_owned(),
        })?;
        let reference = self.references.row(index as usize);
        self.cosines += vector.iter().zip(reference).map(|(one, other)| one * other).sum::<f64>();
        self.answers.push((index as usize, vector));
        Ok(())
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.rows() as u64)
    }

    fn scores(&mut self) -> Scores {
        let (total, percent) = (self.total, 100.0 / self.total.max(1) as f64);
        let cosine = percent * self.cosines;
        // A single text has no neighbour.
        let nearest = if total < 2 { f64::NAN } else { percent * self.agreed() as f64 };
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
        Agreement::new(references, Element::Float32).unwrap()
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
        // At 0, 10, 80 and 90 degrees or so; lengths do not matter.
        let mut scorer = agreement(&[5.0, 0.0, 6.0, 1.0, 1.0, 6.0, 0.0, 0.1]);
        // The second one turns to the third and fourth: its nearest is the third now, of
        // which the fourth stays the nearest; the first has still the second.
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
        // Of the two that are left, each is the other's neighbour.
        assert_eq!(figures(&mut scorer), [40.0, 40.0]);
    }

    #[test]
    fn of_equally_near_texts_any_will_do_and_a_single_one_has_none() {
        // The second and third are the same text, and answers tell them apart by a hair.
        let mut scorer = agreement(&[1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        for (index, answer) in [[1.0, 0.0], [1.0, 1.0], [1.0, 0.999_999_9]].iter().enumerate() {
            assert_eq!(scorer.take(index as u64, &vector(*answer)), Ok(()));
        }
        assert_eq!(figures(&mut scorer), [100.0, 100.0]);
        let mut single = agreement(&[1.0, 0.0]);
        assert_eq!(single.take(0, &vector([1.0, 0.0])), Ok(()));
        assert!(single.scores().figure("nearest").unwrap().is_nan());
    }

    #[test]
    fn references_are_read_and_those_without_a_direction_named() {
        let opened = |name: &str, values: [f32; 4]| {
            let body = values.map(f32::to_le_bytes).concat();
            let path = written(name, &file("<f4", "(2, 2)", &body));
            let files = [("vectors".to_owned(), path)].into();
            (EMBEDDING_AGREEMENT.open)(&Inputs { files, ..Inputs::default() })
        };
        let scorer = opened("vectors", [1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(scorer.references(), Some(2));
        let error = opened("zeros", [1.0, 2.0, 0.0, 0.0]).err().unwrap().to_string();
        assert!(error.ends_with("found another one as row 1, from 0"), "{error}");
    }
}
