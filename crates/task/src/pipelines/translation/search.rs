//! Beam search of GNMT with the choices of TensorFlow's `BeamSearchDecoder`, which differ from
//! those of other libraries.
//!
//! Sources: `model.py` of the `nmt` tutorial (a sentence has at most twice as many pieces as its
//! source), its `wmt16_gnmt_4_layer.json` (`beam_width` 10, `length_penalty_weight` 1.0) and
//! default of `coverage_penalty_weight` (0); `beam_search_decoder.py` of TensorFlow 1
//! (`_beam_search_step`, `_get_scores`, `_length_penalty`, `_mask_probs`). Ended beams stay among
//! the ten and compete with the others; the search stops when all ten have ended. The end counts in
//! the length of a beam from the following step on.

/// Numbers of the pieces that begin and end sentences.
pub(super) const BEGIN: u32 = 1;
pub(super) const END: u32 = 2;
/// Offset of the length penalty: ((offset + length) / (offset + 1)) ^ exponent.
const OFFSET: f32 = 5.0;
/// Maximum number of pieces for each piece of the source.
const LENGTH_FACTOR: usize = 2;

/// Settings of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SearchRules {
    /// Number of beams.
    pub width: usize,
    /// Exponent of the length penalty.
    pub length_penalty: f32,
}

/// Meaning of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScoreKind {
    /// Unnormalized logarithms of probabilities.
    Logits,
    /// Logarithms of the probabilities.
    Logarithms,
}

/// State of the search for a sentence.
#[derive(Debug)]
pub(super) struct BeamSearch {
    rules: SearchRules,
    /// Beams, the best first.
    beams: Vec<Beam>,
    /// Pieces of all beams so far, as a tree.
    pieces: Vec<Piece>,
    /// Remaining number of steps.
    left: usize,
}

#[derive(Debug, Clone, Copy)]
struct Beam {
    /// Logarithm of the probability of its pieces.
    total: f32,
    length: usize,
    is_ended: bool,
    /// Index of the last piece; `None` initially.
    last: Option<usize>,
    /// Row of the last step that the beam continues.
    row: usize,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    number: u32,
    before: Option<usize>,
}

/// A possible continuation of a beam.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    score: f32,
    beam: usize,
    row: usize,
    number: u32,
    total: f32,
}

impl BeamSearch {
    /// Starts a search for a source of `source` pieces.
    pub(super) fn new(source: usize, rules: SearchRules) -> Self {
        let first = Beam { total: 0.0, length: 0, is_ended: false, last: None, row: 0 };
        let left = source.saturating_mul(LENGTH_FACTOR);
        Self { rules, beams: vec![first], pieces: Vec::new(), left }
    }

    /// Returns the beams that continue: the row of the last step that each continues, and its last
    /// piece.
    pub(super) fn live(&self) -> impl Iterator<Item = (usize, u32)> {
        let beams = if self.left == 0 { &[][..] } else { &self.beams };
        let going = beams.iter().filter(|beam| !beam.is_ended);
        going.map(|beam| (beam.row, beam.last.map_or(BEGIN, |last| self.pieces[last].number)))
    }

    /// Continues by the scores of all pieces, one row for each live beam. `None` if no score is a
    /// number.
    pub(super) fn step(&mut self, scores: &[f32], kind: ScoreKind) -> Option<()> {
        let pieces = scores.len() / self.live().count();
        let mut best = CandidateList { width: self.rules.width, all: Vec::new() };
        let mut rows = scores.chunks_exact(pieces).enumerate();
        for (at, beam) in self.beams.iter().enumerate() {
            if beam.is_ended {
                let score = beam.total / self.penalty(beam.length);
                best.offer(Candidate { score, beam: at, row: 0, number: END, total: beam.total });
                continue;
            }
            let (row, scores) = rows.next()?;
            let (greatest, sum) = match kind {
                ScoreKind::Logits => logarithm_of_sum(scores),
                ScoreKind::Logarithms => (0.0, 0.0),
            };
            let longer = self.penalty(beam.length + 1);
            let ended = self.penalty(beam.length);
            for (number, score) in (0..).zip(scores) {
                let total = beam.total + (score - greatest - sum);
                let penalty = if number == END { ended } else { longer };
                best.offer(Candidate { score: total / penalty, beam: at, row, number, total });
            }
        }
        if best.all.is_empty() {
            return None;
        }
        self.beams = best.all.iter().map(|candidate| self.extend(candidate)).collect();
        self.left -= 1;
        if self.beams.iter().all(|beam| beam.is_ended) {
            self.left = 0;
        }
        Some(())
    }

    fn penalty(&self, length: usize) -> f32 {
        let power = self.rules.length_penalty;
        (OFFSET + length as f32).powf(power) / (OFFSET + 1.0).powf(power)
    }

    fn extend(&mut self, candidate: &Candidate) -> Beam {
        let beam = self.beams[candidate.beam];
        if beam.is_ended {
            return beam;
        }
        self.pieces.push(Piece { number: candidate.number, before: beam.last });
        Beam {
            total: candidate.total,
            length: beam.length + 1,
            is_ended: candidate.number == END,
            last: Some(self.pieces.len() - 1),
            row: candidate.row,
        }
    }

    /// Returns the pieces of the best beam without its end.
    pub(super) fn best(&self) -> Vec<u32> {
        let mut last = self.beams.first().and_then(|beam| beam.last);
        let mut pieces = Vec::new();
        while let Some(Piece { number, before }) = last.map(|last| self.pieces[last]) {
            if number != END {
                pieces.push(number);
            }
            last = before;
        }
        pieces.reverse();
        pieces
    }
}

/// Returns the greatest score and the logarithm of the sum of exponentials relative to it.
fn logarithm_of_sum(scores: &[f32]) -> (f32, f32) {
    let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (greatest, scores.iter().map(|score| (score - greatest).exp()).sum::<f32>().ln())
}

/// The candidates with the greatest scores in falling order; of equal ones the first.
struct CandidateList {
    width: usize,
    all: Vec<Candidate>,
}

impl CandidateList {
    fn offer(&mut self, candidate: Candidate) {
        let is_full = self.all.len() == self.width;
        let least = self.all.last().map_or(f32::NEG_INFINITY, |least| least.score);
        if candidate.score.is_nan() || (is_full && candidate.score <= least) {
            return;
        }
        let at = self.all.partition_point(|other| other.score >= candidate.score);
        self.all.insert(at, candidate);
        self.all.truncate(self.width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tolerance for float32 arithmetic in another order.
    const ROUNDING: f32 = 1e-4;

    /// Scores of the next piece by the last one.
    fn table(seed: u64, pieces: usize, divisor: f32, end_bonus: f32) -> Vec<Vec<f32>> {
        let mut state = seed;
        let mut score = |number: usize| {
            state = (state * 1_103_515_245 + 12_345) % (1 << 31);
            let score = ((state >> 16) % 1000) as f32 / divisor;
            if number == END as usize { score + end_bonus } else { score }
        };
        (0..pieces).map(|_| (0..pieces).map(&mut score).collect()).collect()
    }

    #[test]
    fn searches_end_as_those_of_tensorflow() {
        // Expected values are from a NumPy program that does with dense arrays what
        // `_beam_search_step` of TensorFlow 1.15 does. Inputs: seed, pieces, beams, pieces of the
        // source, length penalty, divisor, and the bonus of the end; outputs: the best pieces,
        // their score, the steps.
        type Case = ((u64, usize, usize, usize, f32, f32, f32), &'static [u32], f32, usize);
        let cases: [Case; 7] = [
            ((1, 12, 10, 6, 1.0, 300.0, 1.0), &[9], -2.25131, 12),
            ((3, 20, 10, 10, 1.0, 200.0, 2.0), &[], -2.64233, 20),
            ((5, 12, 3, 9, 0.0, 300.0, 1.5), &[5], -1.77982, 3),
            ((6, 12, 4, 9, 0.6, 200.0, 1.0), &[10; 18], -8.74771, 18),
            ((8, 12, 1, 5, 1.0, 200.0, 2.0), &[], -0.38729, 1),
            ((10, 16, 10, 20, 1.0, 250.0, 3.0), &[], -1.94198, 6),
            ((11, 16, 10, 20, 1.0, 120.0, 0.0), &[14, 3, 4, 6], -3.17892, 40),
        ];
        for (case, best, score, steps) in cases {
            let (seed, pieces, width, source, length_penalty, divisor, end_bonus) = case;
            let table = table(seed, pieces, divisor, end_bonus);
            let mut search = BeamSearch::new(source, SearchRules { width, length_penalty });
            let mut found = 0;
            while search.live().next().is_some() {
                let rows = search.live().flat_map(|(_, last)| &table[last as usize]).copied();
                let rows: Vec<f32> = rows.collect();
                // Logarithms must give the same result.
                let kind = if found % 2 == 0 { ScoreKind::Logits } else { ScoreKind::Logarithms };
                let rows = match kind {
                    ScoreKind::Logits => rows,
                    ScoreKind::Logarithms => rows.chunks(pieces).flat_map(logarithms).collect(),
                };
                search.step(&rows, kind).unwrap();
                found += 1;
            }
            assert_eq!((search.best(), found), (best.to_vec(), steps), "{case:?}");
            // The end of a beam counts from the following step on; its last score did not include
            // it.
            let beam = search.beams[0];
            let ended_now = beam.is_ended && search.pieces.len() > beam.last.unwrap_or(0);
            let lengths = [beam.length, beam.length - usize::from(ended_now)];
            let near =
                |length: &usize| (beam.total / search.penalty(*length) - score).abs() < ROUNDING;
            assert!(lengths.iter().any(near), "{case:?}: {}", beam.total);
        }
    }

    fn logarithms(scores: &[f32]) -> Vec<f32> {
        let sum: f64 = scores.iter().map(|score| f64::from(*score).exp()).sum();
        scores.iter().map(|score| (f64::from(*score) - sum.ln()) as f32).collect()
    }

    #[test]
    fn nan_scores_are_not_candidates() {
        let rules = SearchRules { width: 2, length_penalty: 1.0 };
        let mut search = BeamSearch::new(3, rules);
        let nothing = f32::NAN;
        assert_eq!(search.step(&[nothing; 4], ScoreKind::Logarithms), None);
        search.step(&[nothing, -4.0, nothing, -1.0], ScoreKind::Logarithms).unwrap();
        assert_eq!(search.live().collect::<Vec<_>>(), [(0, 3), (0, 1)]);
        assert_eq!(BeamSearch::new(0, rules).live().count(), 0, "nothing is made of nothing");
    }
}
