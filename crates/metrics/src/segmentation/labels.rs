//! Mean Dice of any classes: for each class, twice the positions that answer and reference share,
//! divided by the sum of the positions of both. The Dice of a class is the mean over all samples,
//! as in `accuracy_kits.py` of the benchmark 3D-UNet. No benchmark's script has other classes.

use super::super::arrays::npy::Npy;
use super::super::payload::{self, Element};
use super::super::{AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores};

const LABELS: Need = Need {
    name: "labels",
    help: "the class (0 to 255, where 0 does not count) of each element of each sample, written by \
           numpy.save; the first dimension is the samples",
    is_required: true,
};

/// Method of no benchmark.
pub const DICE: Method = Method {
    name: "dice",
    title: "mean Dice of all classes except 0, from 0 to 1",
    answer: "the class of each element, in the order of the labels",
    element: Some(Element::U8),
    needs: &[LABELS],
    choices: &[],
    open: |inputs| {
        let (places, labels) = read_labels(inputs)?;
        let element = inputs.element.unwrap_or(Element::U8);
        Ok(Box::new(Dice::new(places, labels, element)))
    },
};

/// Returns the number of positions in a sample, and the labels of all samples.
fn read_labels(inputs: &Inputs) -> Result<(usize, Vec<u8>), DataError> {
    let path = inputs.file(&LABELS)?;
    let labels = Npy::open(path)?;
    let shape = labels.shape.clone();
    // Without samples, the number of positions may overflow.
    let places = shape.iter().skip(1).try_fold(1_usize, |product, n| product.checked_mul(*n));
    let Some(places) = places.filter(|places| *places > 0 && shape.len() > 1) else {
        let expected = "samples, and places of each";
        return Err(DataError::malformed(path, None, expected, format!("{shape:?}")));
    };
    let labels = labels.bytes()?;
    if labels.iter().all(|label| *label == 0) {
        return Err(DataError::malformed(path, None, "a class from 1 on", "none"));
    }
    Ok((places, labels))
}

/// Scores labels of positions against those of the references.
#[derive(Debug)]
pub struct Dice {
    places: usize,
    labels: Vec<u8>,
    element: Element,
    /// Sums over all answers, by class from 1.
    sums: Vec<f64>,
    entries: u64,
    /// Positions whose class is above that of all labels, or negative.
    strays: u64,
}

impl Dice {
    /// Creates the scorer from the labels of all samples. Each sample has `places` labels. The
    /// greatest label is the last class.
    ///
    /// # Panics
    /// Panics if `places` is 0.
    ///
    /// ```
    /// use dyno_metrics::Scorer;
    /// use dyno_metrics::payload::Element;
    /// use dyno_metrics::segmentation::labels::Dice;
    ///
    /// let mut scorer = Dice::new(4, vec![0, 1, 1, 1], Element::U8);
    /// scorer.take(0, &[0, 0, 1, 0]).unwrap();
    /// assert_eq!(scorer.scores().figure("DICE"), Some(0.5));
    /// ```
    pub fn new(places: usize, labels: Vec<u8>, element: Element) -> Self {
        assert!(places > 0, "a sample has places");
        let greatest = labels.iter().max().copied().unwrap_or(0);
        Self { places, labels, element, sums: vec![0.0; greatest.into()], entries: 0, strays: 0 }
    }

    fn samples(&self) -> usize {
        self.labels.len() / self.places
    }
}

/// Returns the Dice of each class from 1, and the number of positions whose class is above
/// `classes`. The Dice is 1 for a class that both lack.
fn dice(truth: &[u8], found: impl Iterator<Item = usize>, classes: usize) -> (Vec<f64>, u64) {
    let (mut common, mut either) = (vec![0_u64; classes + 1], vec![0_u64; classes + 1]);
    let mut strays = 0;
    for (truth, found) in truth.iter().zip(found) {
        let truth = usize::from(*truth);
        common[truth] += u64::from(truth == found);
        either[truth] += 1;
        match either.get_mut(found) {
            Some(count) => *count += 1,
            None => strays += 1,
        }
    }
    let share = |(common, either): (&u64, &u64)| match *either {
        0 => 1.0,
        either => (2 * common) as f64 / either as f64,
    };
    (common.iter().zip(&either).skip(1).map(share).collect(), strays)
}

impl Scorer for Dice {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        self.entries += 1;
        let references = self.samples() as u64;
        if index >= references {
            return Err(AnswerError::Sample { references });
        }
        let truth = &self.labels[index as usize * self.places..][..self.places];
        let bytes = self.places * self.element.size();
        if answer.len() != bytes {
            let expected = format!("{bytes} ({} of {})", self.places, self.element.name());
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        let classes = self.sums.len();
        let (shares, strays) = if matches!(self.element, Element::U8) {
            dice(truth, answer.iter().map(|class| usize::from(*class)), classes)
        } else {
            let found = payload::wholes(self.element, answer)?;
            dice(truth, found.map(|class| usize::try_from(class).unwrap_or(usize::MAX)), classes)
        };
        self.sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        self.strays += strays;
        Ok(())
    }

    fn references(&self) -> Option<u64> {
        Some(self.samples() as u64)
    }

    fn scores(&mut self) -> Scores {
        let means: Vec<f64> =
            self.sums.iter().map(|sum| sum / self.entries.max(1) as f64).collect();
        let value = means.iter().sum::<f64>() / means.len() as f64;
        let each = means.iter().zip(1..).map(|(mean, class)| format!(", {class} = {mean:.4}"));
        let note = format!("places of a class that no label has count as wrong: {}", self.strays);
        Scores {
            figures: vec![Figure { metric: "DICE", value }],
            text: format!("Accuracy: mean = {value:.5}{}\n", each.collect::<String>()),
            notes: if self.strays > 0 { vec![note] } else { Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::super::arrays::npy::tests::{file, written};
    use super::*;

    fn scorer(name: &str, labels: &[u8], shape: &str) -> Result<Box<dyn Scorer>, DataError> {
        let labels = written(name, &file("|u1", shape, labels));
        let files = BTreeMap::from([("labels".to_owned(), labels.to_path_buf())]);
        (DICE.open)(&Inputs { files, ..Inputs::default() })
    }

    #[test]
    fn each_class_counts_the_same_and_what_neither_has_is_found() {
        let labels = [[0, 1, 1, 1, 0, 2], [0, 0, 0, 1, 1, 0]];
        let mut scorer = scorer("dice.npy", labels.as_flattened(), "(2, 2, 3)").unwrap();
        // Class 1: two of three and one wrong one, 4/6; class 2: missed.
        assert_eq!(scorer.take(0, &[1, 1, 1, 0, 0, 0]), Ok(()));
        // Class 1: complete; class 2: absent in both.
        assert_eq!(scorer.take(1, &labels[1]), Ok(()));
        let scores = scorer.scores();
        assert_eq!(scores.text, "Accuracy: mean = 0.66667, 1 = 0.8333, 2 = 0.5000\n");
        assert!((scores.figure("DICE").unwrap() - 2.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn what_is_no_list_of_classes_has_a_score_of_zero() {
        let mut scorer = scorer("dice-none.npy", &[0, 1, 0, 1], "(2, 2)").unwrap();
        assert_eq!(scorer.take(0, &[0, 1]), Ok(()));
        let error = scorer.take(1, &[0; 3]).unwrap_err();
        assert_eq!(error.to_string(), "expected 2 (2 of uint8) bytes, found 3");
        assert_eq!(scorer.take(2, &[0, 1]), Err(AnswerError::Sample { references: 2 }));
        let scores = scorer.scores();
        assert_eq!((scores.figure("DICE"), scores.notes.len()), (Some(1.0 / 3.0), 0));
    }

    #[test]
    fn a_class_of_no_label_is_wrong() {
        // f1_score of scikit-learn with labels=[1]: class 1 is found; then one of two places, 2/3.
        let mut scorer = scorer("dice-stray.npy", &[0, 1, 1, 1], "(2, 2)").unwrap();
        assert_eq!(scorer.take(0, &[2, 1]), Ok(()));
        assert_eq!(scorer.take(1, &[7, 1]), Ok(()));
        let scores = scorer.scores();
        assert_eq!(scores.text, "Accuracy: mean = 0.83333, 1 = 0.8333\n");
        assert_eq!(scores.notes, ["places of a class that no label has count as wrong: 2"]);
        // A class that does not fit in a byte is not the class 255, which is missed. Of 255
        // classes, 1 is found, and 253 are in neither.
        for stray in [300_i16, -1] {
            let mut scorer = Dice::new(2, vec![1, 255], Element::I16);
            let answer = [1, stray].map(i16::to_le_bytes).concat();
            assert_eq!(scorer.take(0, &answer), Ok(()));
            assert_eq!(scorer.scores().figure("DICE"), Some(254.0 / 255.0), "{stray}");
        }
    }

    #[test]
    fn labels_are_of_samples_and_places() {
        let vast = scorer("dice-vast.npy", &[], "(0, 1099511627776, 1099511627776)");
        assert!(vast.is_err_and(|error| error.to_string().contains("and places of each")));
        let error = |name, shape| scorer(name, &[0, 1], shape).map(drop).unwrap_err().to_string();
        assert!(error("dice-flat.npy", "(2,)").ends_with("places of each, found [2]"));
        let nothing = scorer("dice-zero.npy", &[0, 0], "(1, 2)").map(drop).unwrap_err();
        assert!(nothing.to_string().ends_with("expected a class from 1 on, found none"));
        let floats = written("dice-float.npy", &file("<f8", "(1, 1)", &300_f64.to_le_bytes()));
        let files = BTreeMap::from([("labels".to_owned(), floats.to_path_buf())]);
        let error = (DICE.open)(&Inputs { files, ..Inputs::default() }).map(drop).unwrap_err();
        assert!(error.to_string().ends_with("classes from 0 to 255, found 300"), "{error}");
    }
}
