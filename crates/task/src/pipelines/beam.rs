//! Greedy search and beam search: the choice of a text's tokens by the scores of the next one.
//!
//! Source: `generate` of the library `transformers` 4.31 with `num_beams`, `early_stopping`,
//! `length_penalty`, `min_new_tokens` and `max_new_tokens`. As there, scores are float32 and means
//! float64; of equal scores the first counts.

use crate::system::{BeamSettings, CountedTokens, LengthLimits, StopRule};

/// Score of an end before the minimum number of tokens.
const NEVER: f32 = f32::NEG_INFINITY;

/// Score of all beams but the first before the first token, because the beams are equal then.
const SAME: f32 = -1e9;

/// The search for one text.
#[derive(Debug)]
pub(super) struct TextSearch {
    length: LengthLimits,
    beams: Option<BeamSettings>,
    prompt: usize,
    /// Sequence of tokens that must be followed by an end; empty if there is none.
    stop: Vec<i64>,
    /// The last tokens of the prompt, as many as `stop` has.
    before: Vec<i64>,
    active: Vec<ActiveText>,
    finished: Vec<FinishedText>,
    is_done: bool,
}

/// A text that may be continued.
#[derive(Debug, Clone, Default)]
struct ActiveText {
    tokens: Vec<i64>,
    score: f32,
}

/// A finished text without its end token.
#[derive(Debug)]
struct FinishedText {
    tokens: Vec<i64>,
    score: f64,
}

/// A possible next token of a beam.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    beam: usize,
    token: i64,
    score: f32,
}

impl TextSearch {
    /// Starts a search. After the tokens `stop`, which may begin in the prompt, an end is forced;
    /// `stop` may be empty.
    pub fn new(
        length: &LengthLimits,
        beams: Option<&BeamSettings>,
        prompt: &[i64],
        stop: &[i64],
    ) -> Self {
        let count = beams.map_or(1, |beams| beams.count);
        let mut active = vec![ActiveText { tokens: Vec::new(), score: SAME }; count];
        active[0].score = 0.0;
        Self {
            length: length.clone(),
            beams: beams.cloned(),
            prompt: prompt.len(),
            stop: stop.to_vec(),
            before: prompt[prompt.len().saturating_sub(stop.len())..].to_vec(),
            active,
            finished: Vec::new(),
            is_done: length.most == 0,
        }
    }

    /// Whether the search has ended.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the last token of each beam.
    pub fn last(&self) -> impl Iterator<Item = i64> {
        self.active.iter().filter_map(|active| active.tokens.last().copied())
    }

    /// Returns the number of tokens generated so far.
    pub fn token_count(&self) -> usize {
        self.active[0].tokens.len()
    }

    /// Takes the scores of the next token of each beam, and returns for each new beam the beam that
    /// it continues. Before the first token, the scores of one beam stand for all.
    ///
    /// # Errors
    /// No score is a number.
    pub fn step(&mut self, scores: &[&[f32]]) -> Result<Vec<usize>, String> {
        let row = |beam: usize| scores[beam.min(scores.len() - 1)];
        match &self.beams {
            None => self.step_greedy(row(0)).map(|()| vec![0]),
            Some(_) => self.step_beams(&row),
        }
    }

    fn is_end(&self, token: i64) -> bool {
        self.length.ends.contains(&token)
    }

    /// Returns the end token that must follow now, whatever the scores are.
    fn forced(&self, active: &ActiveText) -> Option<i64> {
        let length = self.stop.len();
        let behind = self.prompt + active.tokens.len() > length && length > 0;
        let all = self.before.iter().chain(&active.tokens).rev();
        (behind && all.take(length).eq(self.stop.iter().rev())).then(|| self.length.ends[0])
    }

    fn step_greedy(&mut self, scores: &[f32]) -> Result<(), String> {
        let is_early = self.token_count() < self.length.least;
        let mut best: Option<(i64, f32)> = None;
        for (token, score) in (0..).zip(scores) {
            if best.is_none_or(|(_, most)| *score > most)
                && !score.is_nan()
                && !(is_early && self.is_end(token))
            {
                best = Some((token, *score));
            }
        }
        let forced = self.forced(&self.active[0]);
        let token = forced.or(best.map(|(token, _)| token)).ok_or_else(no_numbers)?;
        self.active[0].tokens.push(token);
        self.is_done = self.is_end(token) || self.token_count() == self.length.most;
        Ok(())
    }

    fn step_beams<'a>(
        &mut self,
        scores: &dyn Fn(usize) -> &'a [f32],
    ) -> Result<Vec<usize>, String> {
        let count = self.active.len();
        // Among this many best candidates, enough are not ends.
        let limit = count * (1 + self.length.ends.len()).max(2);
        let mut best: Vec<Candidate> = Vec::with_capacity(limit + 1);
        for (beam, active) in self.active.iter().enumerate() {
            self.candidates(beam, active, scores(beam), limit, &mut best)?;
        }
        let highest = best.first().map_or(NEVER, |best| best.score);
        let mut next = Vec::with_capacity(count);
        let mut parents = Vec::with_capacity(count);
        let made = self.token_count();
        for (rank, Candidate { beam, token, score }) in best.into_iter().enumerate() {
            if next.len() == count {
                break;
            }
            if !self.is_end(token) {
                let mut tokens = self.active[beam].tokens.clone();
                tokens.push(token);
                next.push(ActiveText { tokens, score });
                parents.push(beam);
            } else if rank < count {
                self.end(self.active[beam].tokens.clone(), score);
            }
        }
        if next.len() < count {
            return Err(no_numbers());
        }
        self.active = next;
        if self.has_enough(f64::from(highest), made) {
            self.is_done = true;
        } else if self.token_count() == self.length.most {
            for active in std::mem::take(&mut self.active) {
                self.end(active.tokens.clone(), active.score);
                self.active.push(active);
            }
            self.is_done = true;
        }
        Ok(parents)
    }

    /// Inserts the candidates of a beam into `best`.
    fn candidates(
        &self,
        beam: usize,
        active: &ActiveText,
        scores: &[f32],
        limit: usize,
        best: &mut Vec<Candidate>,
    ) -> Result<(), String> {
        let greatest = scores.iter().copied().filter(|score| !score.is_nan()).fold(NEVER, f32::max);
        let sum: f64 = scores.iter().map(|score| f64::from(libm::expf(score - greatest))).sum();
        if !greatest.is_finite() || !sum.is_finite() {
            return Err(no_numbers());
        }
        let whole = libm::log(sum) as f32;
        let is_early = active.tokens.len() < self.length.least;
        let forced = self.forced(active);
        for (token, score) in (0..).zip(scores) {
            let likely = match forced {
                Some(end) if token == end => 0.0,
                Some(_) => NEVER,
                None if is_early && self.is_end(token) => NEVER,
                None => score - greatest - whole,
            };
            let score = likely + active.score;
            if best.len() == limit && best.last().is_some_and(|last| score <= last.score) {
                continue;
            }
            let at = best.partition_point(|better| better.score >= score);
            best.insert(at, Candidate { beam, token, score });
            best.truncate(limit);
        }
        Ok(())
    }

    /// Records a finished text if it is among the best.
    fn end(&mut self, tokens: Vec<i64>, score: f32) {
        let Some(beams) = &self.beams else { return };
        let length = match beams.counted {
            CountedTokens::All => self.prompt + tokens.len(),
            // The end token counts if the text has one.
            CountedTokens::New => tokens.len() + usize::from(tokens.len() < self.length.most),
        };
        let score = f64::from(score) / (length as f64).powf(beams.length_penalty);
        if self.finished.len() == beams.count {
            let worst = self.finished.iter().map(|finished| finished.score).enumerate();
            let worst = worst.reduce(|worst, next| if next.1 < worst.1 { next } else { worst });
            match worst {
                Some((at, worst)) if score > worst => drop(self.finished.remove(at)),
                _ => return,
            }
        }
        self.finished.push(FinishedText { tokens, score });
    }

    /// Whether the search can stop. `highest` is the score of the best beam, after `made` tokens
    /// and one more.
    fn has_enough(&self, highest: f64, made: usize) -> bool {
        let Some(beams) = &self.beams else { return false };
        if self.finished.len() < beams.count {
            return false;
        }
        let new = match beams.stop {
            StopRule::Early => return true,
            StopRule::Never if beams.length_penalty > 0.0 => self.length.most,
            StopRule::Never | StopRule::Likely => made + 1,
        };
        let length = match beams.counted {
            CountedTokens::All => self.prompt + new,
            CountedTokens::New => new,
        };
        let attainable = highest / (length as f64).powf(beams.length_penalty);
        self.finished.iter().all(|finished| finished.score >= attainable)
    }

    /// Returns the generated text, with its end if it has one.
    pub fn text(self) -> Vec<i64> {
        let best = self
            .finished
            .into_iter()
            .reduce(|best, next| if next.score >= best.score { next } else { best });
        let Some(FinishedText { mut tokens, .. }) = best else {
            return self.active.into_iter().next().map(|active| active.tokens).unwrap_or_default();
        };
        if tokens.len() < self.length.most {
            tokens.push(self.length.ends[0]);
        }
        tokens
    }
}

fn no_numbers() -> String {
    "expected scores of which some are numbers, found none".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of tokens of the test model.
    const WORDS: i64 = 12;

    /// Scores of the next token by the last one, in 1/64.
    fn table() -> Vec<Vec<f32>> {
        let mut x: i64 = 12345;
        let mut score = || {
            x = (x * 1_103_515_245 + 12345) % (1 << 31);
            ((x >> 16) % 512) as f32 / 64.0 - 4.0
        };
        (0..WORDS).map(|_| (0..WORDS).map(|_| score()).collect()).collect()
    }

    /// Arguments of `generate`: prompt, beams, minimum and maximum of tokens, stop rule, penalty,
    /// end, and by how much each token makes an end more likely.
    type Case = (&'static [i64], usize, usize, usize, StopRule, f64, i64, f32);

    const CASES: [Case; 9] = [
        (&[3, 5], 4, 3, 10, StopRule::Early, 1.0, 0, 0.05),
        (&[3, 5], 4, 0, 10, StopRule::Early, 1.0, 0, 0.25),
        (&[1], 2, 0, 12, StopRule::Likely, 1.0, 2, 0.25),
        (&[1], 2, 0, 12, StopRule::Never, 2.0, 2, 0.25),
        (&[7, 7, 4], 3, 2, 8, StopRule::Likely, 0.0, 1, 0.5),
        (&[7, 7, 4], 4, 6, 6, StopRule::Early, 1.0, 1, 0.5),
        (&[9], 3, 0, 9, StopRule::Likely, -1.0, 4, 0.4),
        (&[2, 8], 1, 0, 9, StopRule::Early, 1.0, 6, 0.3),
        (&[2, 8], 5, 1, 1, StopRule::Early, 1.0, 6, 0.3),
    ];

    /// Tokens, and the score of several beams.
    fn search(case: Case, counted: CountedTokens) -> (Vec<i64>, Option<f64>) {
        let (prompt, count, least, most, stop, length_penalty, end, tilt) = case;
        let table = table();
        let length = LengthLimits { least, most, ends: vec![end] };
        let beams = BeamSettings { count, stop, length_penalty, counted };
        let mut search = TextSearch::new(&length, (count > 1).then_some(&beams), prompt, &[]);
        while !search.is_done() {
            let mut last: Vec<i64> = search.last().collect();
            last.resize(count, *prompt.last().unwrap());
            let rows: Vec<Vec<f32>> = last
                .iter()
                .map(|token| {
                    let mut row = table[*token as usize].clone();
                    let tokens = prompt.len() + search.token_count();
                    row[end as usize] += tilt * (tokens - 1) as f32;
                    row
                })
                .collect();
            search.step(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        }
        let score = search.finished.iter().map(|finished| finished.score).reduce(f64::max);
        (search.text(), score)
    }

    /// Returns cases with another text or another score.
    fn mismatches(counted: CountedTokens, expected: [(&[i64], Option<f64>); 9]) -> Vec<String> {
        // PyTorch sums exponentials in another order.
        const ROUNDING: f64 = 1e-5;
        let other = |(case, (tokens, score)): (Case, (&[i64], Option<f64>))| {
            let (text, found_score) = search(case, counted);
            let gap = (found_score.unwrap_or(0.0) - score.unwrap_or(0.0)).abs();
            let is_same =
                text == tokens && found_score.is_some() == score.is_some() && gap < ROUNDING;
            (!is_same).then(|| format!("{case:?}: {text:?}, {found_score:?}"))
        };
        CASES.into_iter().zip(expected).filter_map(other).collect()
    }

    #[test]
    fn beams_are_those_of_transformers_4_31() {
        // generate(..) of transformers 4.31.0 with torch 1.13, whose model was this table.
        let mismatches = mismatches(
            CountedTokens::All,
            [
                (&[11, 7, 3, 7, 3, 7, 3, 7, 3, 7], Some(-0.696_179)),
                (&[11, 7, 3, 7, 3, 10, 1, 8, 4, 0], Some(-0.791_953)),
                (&[8, 4, 6, 2], Some(-0.886_317)),
                (&[8, 4, 6, 8, 4, 6, 8, 4, 6, 8, 4, 6], Some(-0.082_512)),
                (&[6, 8, 4, 1], Some(-3.529_942)),
                (&[6, 8, 6, 8, 6, 8], Some(-0.853_634)),
                (&[1, 8, 4], Some(-8.452_145)),
                (&[6], None),
                (&[4], Some(-0.481_296)),
            ],
        );
        assert!(mismatches.is_empty(), "{mismatches:?}");
    }

    #[test]
    fn beams_are_those_of_transformers_4_40_where_prompts_do_not_count() {
        // generate(..) of transformers 4.40.2 with the same table.
        let mismatches = mismatches(
            CountedTokens::New,
            [
                (&[11, 7, 3, 7, 3, 7, 3, 7, 3, 7], Some(-0.835_415)),
                (&[11, 7, 3, 7, 3, 10, 1, 8, 4, 0], Some(-0.871_148)),
                (&[8, 4, 6, 2], Some(-0.886_317)),
                (&[8, 4, 6, 8, 4, 6, 8, 4, 6, 8, 6, 2], Some(-0.092_899)),
                (&[6, 8, 4, 1], Some(-3.529_942)),
                (&[6, 8, 6, 8, 6, 8], Some(-1.280_451)),
                (&[1, 8, 4], Some(-8.452_145)),
                (&[6], None),
                (&[4], Some(-1.443_887)),
            ],
        );
        assert!(mismatches.is_empty(), "{mismatches:?}");
    }

    #[test]
    fn a_sequence_is_followed_by_an_end_even_before_the_least() {
        let length = LengthLimits { least: 3, most: 9, ends: vec![2, 5] };
        // The prompt ends with the first half of the sequence.
        let mut search = TextSearch::new(&length, None, &[1, 1, 3, 4], &[3, 4, 3, 4]);
        let towards = |token: usize| (0..6).map(|at| f32::from(at == token)).collect::<Vec<_>>();
        for token in [3, 4, 1] {
            assert!(!search.is_done());
            search.step(&[&towards(token)]).unwrap();
        }
        assert!(search.is_done());
        assert_eq!(search.text(), [3, 4, 2]);
        // Without the sequence there is no end before the minimum, whatever score is the greatest.
        let mut search = TextSearch::new(&length, None, &[1], &[]);
        for _ in 0..4 {
            search.step(&[&towards(5)]).unwrap();
        }
        assert!(search.is_done());
        assert_eq!(search.text(), [0, 0, 0, 5]);
    }

    #[test]
    fn scores_that_are_no_numbers_are_an_error() {
        let length = LengthLimits { least: 0, most: 9, ends: vec![0] };
        let beams = BeamSettings {
            count: 2,
            stop: StopRule::Early,
            length_penalty: 1.0,
            counted: CountedTokens::All,
        };
        for beams in [None, Some(&beams)] {
            let mut search = TextSearch::new(&length, beams, &[1], &[]);
            let error = search.step(&[&[f32::NAN; 5]]).unwrap_err();
            assert!(error.starts_with("expected scores"), "{error}");
        }
    }
}
