//! Decoding of token sequences from the scores of each next token, greedily or with a beam.
//!
//! The caller supplies a step function. It moves rows of its states
//! ([`Sequence::copy_rows`](crate::Sequence::copy_rows)), consumes the last token of each row and
//! writes logits. The rows of a beam are rows of a batch. No softmax is computed: the best tokens
//! of a row have the greatest logits, and one number per row, the logarithm of its sum of
//! exponentials, makes rows comparable.
//!
//! ```
//! use dyno_rnn::decode::{Step, Tokens, greedy};
//!
//! // Token 0 begins, token 2 ends; this model answers 1 after 0, and 2 after 1.
//! let tokens = Tokens { vocabulary: 3, begin: 0, end: 2, most: 10 };
//! let step = |step: Step<'_>, logits: &mut [f32]| {
//!     logits.fill(0.0);
//!     logits[step.tokens[0] + 1] = 1.0;
//!     Ok::<(), ()>(())
//! };
//! assert_eq!(greedy(tokens, 1, step), Ok(vec![vec![1]]));
//! ```

/// Input of one step.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Rows to copy before the step, as (source, destination): the destination's states are
    /// overwritten. No row is both.
    pub moves: &'a [(usize, usize)],
    /// Last token of each row; arbitrary for rows without a hypothesis.
    pub tokens: &'a [usize],
}

/// Tokens of a model: numbers below `vocabulary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Number of tokens, and of logits per row.
    pub vocabulary: usize,
    /// Token before the first.
    pub begin: usize,
    /// Token that ends a sequence.
    pub end: usize,
    /// Maximum number of steps.
    pub most: usize,
}

/// Settings of a beam search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beam {
    /// Number of hypotheses to follow, and of rows in a step.
    pub width: usize,
    /// Number of hypotheses to return.
    pub best: usize,
    /// Exponent of the length by which a score is divided, >= 0: alpha in equation 14 of Wu et al.
    /// 2016, where a sequence of n tokens including the end has length (5 + n) / 6. With 0 the most
    /// probable sequence is best.
    pub length_penalty: f64,
}

/// A decoded sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Tokens without the end.
    pub tokens: Vec<usize>,
    /// Whether the sequence ended before the maximum number of steps.
    pub ended: bool,
    /// Logarithm of the probability.
    pub log_probability: f64,
    /// Logarithm of the probability divided by the length penalty.
    pub score: f64,
}

/// Decodes `rows` rows: takes the most probable next token until the end; the first of equal ones.
///
/// # Errors
/// Errors of `step`.
pub fn greedy<E>(
    token_set: Tokens,
    rows: usize,
    mut step: impl FnMut(Step<'_>, &mut [f32]) -> Result<(), E>,
) -> Result<Vec<Vec<usize>>, E> {
    let mut found = vec![Vec::new(); rows];
    let mut has_ended = vec![false; rows];
    let mut tokens = vec![token_set.begin; rows];
    let mut logits = vec![0.0; rows * token_set.vocabulary];
    for _ in 0..token_set.most {
        if has_ended.iter().all(|ended| *ended) {
            break;
        }
        step(Step { moves: &[], tokens: &tokens }, &mut logits)?;
        for (row, logits) in logits.chunks(token_set.vocabulary).enumerate() {
            let Some((token, _)) = greatest(logits, 1).first().copied() else {
                has_ended[row] = true;
                continue;
            };
            has_ended[row] |= token == token_set.end;
            if !has_ended[row] {
                found[row].push(token);
                tokens[row] = token;
            }
        }
    }
    Ok(found)
}

/// Returns the best sequences of a beam search from one state that all rows start with, the best
/// first.
///
/// Each step extends the hypotheses by the `width` best continuations of all rows. A row may also
/// end if the end is among its `width + 1` best tokens. Hypotheses that can no longer be among the
/// best are dropped, so stopping early does not change the result.
///
/// # Errors
/// Errors of `step`.
pub fn beam<E>(
    token_set: Tokens,
    beam: Beam,
    step: impl FnMut(Step<'_>, &mut [f32]) -> Result<(), E>,
) -> Result<Vec<Hypothesis>, E> {
    Search::new(token_set, beam).run(step)
}

/// Returns the positions and values of the `count` greatest numbers, the greatest first and equal
/// ones in their order. NaN and minus infinity, the logit of a forbidden token, are left out.
pub fn greatest(numbers: &[f32], count: usize) -> Vec<(usize, f32)> {
    let mut best: Vec<(usize, f32)> = Vec::with_capacity(count + 1);
    let mut least = f32::NEG_INFINITY;
    for (at, number) in numbers.iter().copied().enumerate() {
        // One comparison rejects most numbers, and NaN.
        if number > least {
            let place = best.partition_point(|(_, other)| *other >= number);
            best.insert(place, (at, number));
            best.truncate(count);
            if best.len() == count {
                least = best.last().map_or(f32::INFINITY, |(_, last)| *last);
            }
        }
    }
    best
}

/// Logarithm of the sum of exponentials.
fn log_sum(logits: &[f32]) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from((x - most).exp())).sum();
    f64::from(most) + sum.ln()
}

/// A token and the link to its predecessor.
struct Link {
    token: usize,
    /// Index of the preceding link.
    before: Option<usize>,
}

/// A hypothesis that has not ended.
#[derive(Clone, Copy)]
struct OpenHypothesis {
    row: usize,
    last: Option<usize>,
    length: usize,
    log_probability: f64,
}

/// A possible continuation of an open hypothesis.
struct Candidate {
    /// Index of the open hypothesis.
    from: usize,
    token: usize,
    log_probability: f64,
}

struct Search {
    token_set: Tokens,
    beam: Beam,
    /// All tokens chosen so far; hypotheses share their beginnings.
    links: Vec<Link>,
    open: Vec<OpenHypothesis>,
    found: Vec<Hypothesis>,
}

impl Search {
    fn new(token_set: Tokens, beam: Beam) -> Self {
        // All rows start equal, so that one represents all.
        let first = OpenHypothesis { row: 0, last: None, length: 0, log_probability: 0.0 };
        let open = if beam.width > 0 { vec![first] } else { Vec::new() };
        Self { token_set, beam, links: Vec::new(), open, found: Vec::new() }
    }

    fn run<E>(
        mut self,
        mut step: impl FnMut(Step<'_>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Vec<Hypothesis>, E> {
        let mut tokens = vec![self.token_set.begin; self.beam.width];
        let mut logits = vec![0.0; self.beam.width * self.token_set.vocabulary];
        let mut moves = Vec::new();
        for _ in 0..self.token_set.most {
            self.drop_hopeless();
            if self.open.is_empty() {
                break;
            }
            step(Step { moves: &moves, tokens: &tokens }, &mut logits)?;
            let candidates = self.candidates(&logits);
            moves = self.advance(&candidates);
            for open in &self.open {
                tokens[open.row] =
                    open.last.map_or(self.token_set.begin, |last| self.links[last].token);
            }
        }
        for open in std::mem::take(&mut self.open) {
            self.keep(open.last, open.length, open.log_probability, false);
        }
        Ok(self.found)
    }

    /// Divisor of the logarithm of the probability of a sequence of `length` tokens.
    fn penalty(&self, length: usize) -> f64 {
        ((5.0 + length as f64) / 6.0).powf(self.beam.length_penalty)
    }

    /// Drops hypotheses that can no longer be among the best: a probability only shrinks, and its
    /// divisor is at most that of the maximum length.
    fn drop_hopeless(&mut self) {
        if self.found.len() < self.beam.best {
            return;
        }
        let worst = self.found.last().map_or(f64::INFINITY, |worst| worst.score);
        let least = self.penalty(self.token_set.most);
        self.open.retain(|open| open.log_probability / least > worst);
    }

    /// Continuations of all rows, the best first.
    fn candidates(&self, logits: &[f32]) -> Vec<Candidate> {
        let mut all = Vec::new();
        for (from, open) in self.open.iter().enumerate() {
            let logits =
                &logits[open.row * self.token_set.vocabulary..][..self.token_set.vocabulary];
            let sum = log_sum(logits);
            // One more than `width`, because one may be the end.
            for (token, logit) in greatest(logits, self.beam.width + 1) {
                let log_probability = open.log_probability + f64::from(logit) - sum;
                all.push(Candidate { from, token, log_probability });
            }
        }
        // The sort is stable: of equal candidates, that of the better hypothesis stays first.
        all.sort_by(|a, b| b.log_probability.total_cmp(&a.log_probability));
        all
    }

    /// Advances the open hypotheses by a step, stores those that end, and returns the rows to copy.
    fn advance(&mut self, candidates: &[Candidate]) -> Vec<(usize, usize)> {
        let mut chosen = Vec::new();
        for candidate in candidates {
            let from = self.open[candidate.from];
            if candidate.token == self.token_set.end {
                self.keep(from.last, from.length + 1, candidate.log_probability, true);
            } else if chosen.len() < self.beam.width {
                chosen.push((from, candidate));
            }
        }
        // The first continuation of a row stays in it; the others use rows without continuation.
        let mut is_taken = vec![false; self.beam.width];
        chosen.iter().for_each(|(from, _)| is_taken[from.row] = true);
        let mut free = (0..self.beam.width).filter(|row| !is_taken[*row]);
        let mut has_child = vec![false; self.beam.width];
        let mut open = Vec::with_capacity(chosen.len());
        let mut moves = Vec::new();
        for (from, candidate) in chosen {
            let row = if has_child[from.row] {
                let row = free.next().expect("there are as many rows as are chosen");
                moves.push((from.row, row));
                row
            } else {
                has_child[from.row] = true;
                from.row
            };
            self.links.push(Link { token: candidate.token, before: from.last });
            open.push(OpenHypothesis {
                row,
                last: Some(self.links.len() - 1),
                length: from.length + 1,
                log_probability: candidate.log_probability,
            });
        }
        self.open = open;
        moves
    }

    /// Inserts a hypothesis among the best if it is good enough.
    fn keep(&mut self, last: Option<usize>, length: usize, log_probability: f64, ended: bool) {
        let score = log_probability / self.penalty(length);
        let place = self.found.partition_point(|other| other.score >= score);
        if place >= self.beam.best {
            return;
        }
        let links = std::iter::successors(last, |link| self.links[*link].before);
        let mut tokens: Vec<usize> = links.map(|link| self.links[link].token).collect();
        tokens.reverse();
        self.found.insert(place, Hypothesis { tokens, ended, log_probability, score });
        self.found.truncate(self.beam.best);
    }
}
