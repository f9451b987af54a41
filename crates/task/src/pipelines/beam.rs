//! Which tokens a text is made of, given scores of the next one: the greatest each, or beams.
//!
//! Source: what `generate` of the library `transformers` 4.31 does with `num_beams`,
//! `early_stopping`, `length_penalty`, `min_new_tokens` and `max_new_tokens`. Scores are in
//! float32, means in float64, as there; of equal scores the first counts.

use crate::system::{BeamSettings, CountedTokens, LengthLimits, StopRule};

/// What an end has as score before the least of tokens.
const NEVER: f32 = f32::NEG_INFINITY;

/// What beams but the first have before the first token: they are all the same.
const SAME: f32 = -1e9;

/// A text that is made, beams of it if there are any.
#[derive(Debug)]
pub(super) struct TextSearch {
    length: LengthLimits,
    beams: Option<BeamSettings>,
    prompt: usize,
    /// After this sequence comes an end.
    stop: Vec<i64>,
    /// The last tokens of the prompt, as many as the sequence has.
    before: Vec<i64>,
    active: Vec<ActiveText>,
    finished: Vec<FinishedText>,
    is_done: bool,
}

/// A text that may go on.
#[derive(Debug, Clone, Default)]
struct ActiveText {
    tokens: Vec<i64>,
    score: f32,
}

/// A text that is over, without its end.
#[derive(Debug)]
struct FinishedText {
    tokens: Vec<i64>,
    score: f64,
}

/// A token that may be the next.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    beam: usize,
    token: i64,
    score: f32,
}

impl TextSearch {
    /// Nothing is made yet. After the tokens `stop`, which may begin in the prompt, comes an
    /// end; empty where there are none.
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

    /// Whether there is nothing more to ask.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The last token of each beam.
    pub fn last(&self) -> impl Iterator<Item = i64> {
        self.active.iter().filter_map(|active| active.tokens.last().copied())
    }

    /// Tokens made so far.
    pub fn made(&self) -> usize {
        self.active[0].tokens.len()
    }

    /// Takes the scores of the next token, those of each beam, and says which beam each one
    /// goes on from. Before the first token the scores of one stand for all.
    ///
    /// # Errors
    /// The scores are none of which one is the greatest.
    pub fn step(&mut self, scores: &[&[f32]]) -> Result<Vec<usize>, String> {
        let of = |beam: usize| scores[beam.min(scores.len() - 1)];
        match &self.beams {
            None => self.step_greedy(of(0)).map(|()| vec![0]),
            Some(_) => self.step_beams(&of),
        }
    }

    fn is_end(&self, token: i64) -> bool {
        self.length.ends.contains(&token)
    }

    /// The end that must come now, whatever the scores are.
    fn forced(&self, active: &ActiveText) -> Option<i64> {
        let length = self.stop.len();
        let behind = self.prompt + active.tokens.len() > length && length > 0;
        let all = self.before.iter().chain(&active.tokens).rev();
        (behind && all.take(length).eq(self.stop.iter().rev())).then(|| self.length.ends[0])
    }

    fn step_greedy(&mut self, scores: &[f32]) -> Result<(), String> {
        let is_early = self.made() < self.length.least;
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
        self.is_done = self.is_end(token) || self.made() == self.length.most;
        Ok(())
    }

    fn step_beams<'a>(
        &mut self,
        scores: &dyn Fn(usize) -> &'a [f32],
    ) -> Result<Vec<usize>, String> {
        let count = self.active.len();
        // Of the best of these so many are no ends.
        let asked = count * (1 + self.length.ends.len()).max(2);
        let mut best: Vec<Candidate> = Vec::with_capacity(asked + 1);
        for (beam, active) in self.active.iter().enumerate() {
            self.candidates(beam, active, scores(beam), asked, &mut best)?;
        }
        let highest = best.first().map_or(NEVER, |best| best.score);
        let (mut next, mut parents) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let made = self.made();
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
        } else if self.made() == self.length.most {
            for active in std::mem::take(&mut self.active) {
                self.end(active.tokens.clone(), active.score);
                self.active.push(active);
            }
            self.is_done = true;
        }
        Ok(parents)
    }

    /// Puts what this beam may go on with among the best.
    fn candidates(
        &self,
        beam: usize,
        active: &ActiveText,
        scores: &[f32],
        asked: usize,
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
            if best.len() == asked && best.last().is_some_and(|last| score <= last.score) {
                continue;
            }
            let at = best.partition_point(|better| better.score >= score);
            best.insert(at, Candidate { beam, token, score });
            best.truncate(asked);
        }
        Ok(())
    }

    /// Keeps a text that is over, if it is one of the best.
    fn end(&mut self, tokens: Vec<i64>, score: f32) {
        let Some(beams) = &self.beams else { return };
        let length = match beams.counted {
            CountedTokens::All => self.prompt + tokens.len(),
            // Its end counts where it is one.
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

    /// Whether no beam needs to be followed any further; `highest` is the score of the best
    /// one, after so many tokens and another.
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

    /// The text that is made, with its end if it has one.
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

    /// Tokens of the made model.
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

    /// What `generate` was asked for: prompt, beams, least and most of tokens, when it stops,
    /// penalty, end, and by how much each token makes an end more likely.
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
    fn found(case: Case, counted: CountedTokens) -> (Vec<i64>, Option<f64>) {
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
                    let tokens = prompt.len() + search.made();
                    row[end as usize] += tilt * (tokens - 1) as f32;
                    row
                })
                .collect();
            search.step(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        }
        let score = search.finished.iter().map(|finished| finished.score).reduce(f64::max);
        (search.text(), score)
    }

    /// Cases in which another text is made, or one of another score.
    fn others(counted: CountedTokens, expected: [(&[i64], Option<f64>); 9]) -> Vec<String> {
        // PyTorch sums exponentials in another order.
        const ROUNDING: f64 = 1e-5;
        let other = |(case, (tokens, score)): (Case, (&[i64], Option<f64>))| {
            let (made, of) = found(case, counted);
            let gap = (of.unwrap_or(0.0) - score.unwrap_or(0.0)).abs();
            let is_same = made == tokens && of.is_some() == score.is_some() && gap < ROUNDING;
            (!is_same).then(|| format!("{case:?}: {made:?}, {of:?}"))
        };
        CASES.into_iter().zip(expected).filter_map(other).collect()
    }

    #[test]
    fn beams_are_those_of_transformers_4_31() {
        // generate(..) of transformers 4.31.0 with torch 1.13, whose model was this table.
        let others = others(
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
        assert!(others.is_empty(), "{others:?}");
    }

    #[test]
    fn beams_are_those_of_transformers_4_40_where_prompts_do_not_count() {
        // The same of transformers 4.40.2.
        let others = others(
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
        assert!(others.is_empty(), "{others:?}");
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
        // Without it: no end before the least, whatever is the greatest.
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
