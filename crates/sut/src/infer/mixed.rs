//! The check that samples of one call do not influence each other.

/// Largest difference of answers to equal samples of one call, relative to the largest magnitude.
const TWICE_TOLERANCE: f64 = 1e-3;
/// Largest difference of an answer alone and in a call with another sample, in a model whose first
/// dimension is a batch. Models that quantize whole calls depend on the other samples a little.
const TOGETHER_TOLERANCE: f64 = 0.05;
/// Largest difference by rounding, in sums of another order.
const ROUNDING: f64 = 1e-4;

/// Answers that are compared.
pub struct Trial {
    /// Answers to two equal samples of one call.
    pub twice: [Vec<f64>; 2],
    /// Answers to different samples of one call, or of several calls with several samples.
    pub together: Vec<Vec<f64>>,
    /// Answers to these samples in calls of their own, in this order.
    pub alone: Vec<Vec<f64>>,
}

impl Trial {
    /// Returns how an answer depends on another sample of its call, if it does. In a model whose first
    /// dimension counts steps instead of samples, the samples of a call are one sequence.
    pub fn mixed(&self) -> Option<String> {
        let [first, second] = &self.twice;
        let twice = difference(first, second);
        if twice > TWICE_TOLERANCE {
            return Some(format!(
                "two equal samples of a call get answers that differ by {twice:.1e}"
            ));
        }
        let apart = self.apart();
        (apart > TOGETHER_TOLERANCE)
            .then(|| format!("alone and with another sample the answers differ by {apart:.1e}"))
    }

    /// Returns by how much an answer depends on the other samples of its call, relative to the largest
    /// magnitude, if that is more than rounding.
    pub fn influence(&self) -> Option<f64> {
        Some(self.apart()).filter(|apart| *apart > ROUNDING)
    }

    fn apart(&self) -> f64 {
        if self.together.len() != self.alone.len() {
            return f64::INFINITY;
        }
        let pairs = self.together.iter().zip(&self.alone);
        pairs.map(|(together, alone)| difference(together, alone)).fold(0.0, f64::max)
    }
}

/// Returns the largest difference relative to the largest magnitude; infinity if the lengths differ.
fn difference(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    // An answer that another sample turns into NaN or infinity depends on it.
    if a.iter().zip(b).any(|(a, b)| a.is_finite() != b.is_finite()) {
        return f64::INFINITY;
    }
    let finite = a.iter().chain(b).filter(|x| x.is_finite());
    let scale = finite.fold(0.0, |most: f64, x| most.max(x.abs()));
    let pairs = a.iter().zip(b).filter(|(a, b)| a.is_finite() && b.is_finite());
    let most = pairs.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
    if most == 0.0 { 0.0 } else { most / scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(twice: [f64; 2], both: [f64; 2]) -> Option<String> {
        let answers = |all: [f64; 2]| all.map(|x| vec![x, 1.0]);
        let (together, alone) = (answers(both).into(), answers([0.5, 0.25]).into());
        Trial { twice: answers(twice), together, alone }.mixed()
    }

    #[test]
    fn rounding_is_accepted_and_influence_is_not() {
        assert_eq!(mixed([0.5, 0.5 + 1e-6], [0.5, 0.25]), None);
        assert_eq!(mixed([0.5, 0.5], [0.51, 0.26]), None, "a scale for the whole call");
        let scaled = Trial {
            twice: [vec![1.0], vec![1.0]],
            together: vec![vec![1.0], vec![0.99]],
            alone: vec![vec![1.0], vec![1.0]],
        };
        assert!(scaled.influence().is_some_and(|apart| apart > 0.009));
        assert!(mixed([0.5, 0.6], [0.5, 0.25]).unwrap().contains("two equal samples"));
        assert!(mixed([0.5, 0.5], [0.5, 0.5]).unwrap().contains("with another sample"));
    }

    #[test]
    fn infinity_and_nan_by_another_sample_are_influence() {
        assert!(mixed([0.5, 0.5], [0.5, f64::NAN]).is_some());
        assert!(mixed([0.5, 0.5], [f64::INFINITY, 0.25]).is_some());
        assert!(mixed([f64::NAN, f64::NAN], [0.5, 0.25]).is_none());
    }

    #[test]
    fn answers_of_other_lengths_are_different() {
        let trial = Trial {
            twice: [vec![1.0], vec![1.0, 2.0]],
            together: vec![vec![], vec![]],
            alone: vec![vec![], vec![]],
        };
        assert!(trial.mixed().is_some());
    }
}
