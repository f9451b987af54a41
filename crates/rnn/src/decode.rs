//! Which tokens a sequence is made of, given scores of the next one: the greatest each, or those that a
//! beam keeps.
//!
//! Whoever decodes hands in a step: it takes the last token of each row, moves rows of its states as it is
//! told, see [`Sequence::copy_rows`](crate::Sequence::copy_rows), and leaves logits. Rows of a beam are rows
//! of a batch. No softmax is made: a row's own best tokens are those of its greatest logits, and what makes
//! rows comparable is one number a row, the logarithm of its sum of exponentials.

/// What a step is made of.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Rows whose states are overwritten by those of others first: from, to. No row is both.
    pub moves: &'a [(usize, usize)],
    /// The last token of each row. What rows without a hypothesis are given does not matter.
    pub tokens: &'a [usize],
}

/// Tokens that are numbers below `vocabulary`, one of which ends a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// How many there are: logits of a row.
    pub vocabulary: usize,
    /// What comes before the first.
    pub begin: usize,
    /// What a sequence ends with.
    pub end: usize,
    /// Steps after which a sequence is left as it is.
    pub most: usize,
}

/// How several hypotheses are followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beam {
    /// How many: rows of a step.
    pub width: usize,
    /// How many of them are asked for.
    pub best: usize,
    /// The power of the length that a score is divided by, 0 or more: alpha of Wu et al. 2016 (equation 14),
    /// whose length of n tokens, the end among them, is (5 + n) / 6. At 0 the likeliest sequence is best.
    pub length_penalty: f64,
}

/// A sequence that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, without the end.
    pub tokens: Vec<usize>,
    /// Whether it ended, rather than being left at the most of steps.
    pub ended: bool,
    /// Logarithm of its probability.
    pub log_probability: f64,
    /// That, by its length.
    pub score: f64,
}

/// For each of `rows`, the likeliest token after token until its end; of equal ones the first.
///
/// # Errors
/// What a step fails with.
pub fn greedy<E>(
    of: Tokens,
    rows: usize,
    mut step: impl FnMut(Step<'_>, &mut [f32]) -> Result<(), E>,
) -> Result<Vec<Vec<usize>>, E> {
    let mut found = vec![Vec::new(); rows];
    let mut has_ended = vec![false; rows];
    let mut tokens = vec![of.begin; rows];
    let mut logits = vec![0.0; rows * of.vocabulary];
    for _ in 0..of.most {
        if has_ended.iter().all(|ended| *ended) {
            break;
        }
        step(Step { moves: &[], tokens: &tokens }, &mut logits)?;
        for (row, logits) in logits.chunks(of.vocabulary).enumerate() {
            let Some((token, _)) = greatest(logits, 1).first().copied() else {
                has_ended[row] = true;
                continue;
            };
            has_ended[row] |= token == of.end;
            if !has_ended[row] {
                found[row].push(token);
                tokens[row] = token;
            }
        }
    }
    Ok(found)
}

/// The best sequences that a beam finds from one state, which all rows begin with; best first.
///
/// After each step the `width` best continuations of all rows go on, and each row may end if that is one of
/// its `width + 1` best tokens. No row is followed that cannot become one of the best any more, so stopping
/// early changes nothing.
///
/// # Errors
/// What a step fails with.
pub fn beam<E>(
    of: Tokens,
    beam: Beam,
    step: impl FnMut(Step<'_>, &mut [f32]) -> Result<(), E>,
) -> Result<Vec<Hypothesis>, E> {
    Search::new(of, beam).run(step)
}

/// The `count` greatest numbers and where they are, greatest first, of equal ones the first first; without
/// what is no number and without minus infinity, which no token is taken with.
#[must_use]
pub fn greatest(numbers: &[f32], count: usize) -> Vec<(usize, f32)> {
    let mut best: Vec<(usize, f32)> = Vec::with_capacity(count + 1);
    let mut least = f32::NEG_INFINITY;
    for (at, number) in numbers.iter().copied().enumerate() {
        // One comparison for nearly all of them; false for what is no number.
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

/// A token behind others.
struct Link {
    token: usize,
    /// The link before it.
    before: Option<usize>,
}

/// A hypothesis that goes on.
#[derive(Clone, Copy)]
struct Open {
    row: usize,
    last: Option<usize>,
    length: usize,
    log_probability: f64,
}

/// A token that an open hypothesis may go on with.
struct Candidate {
    from: usize,
    token: usize,
    log_probability: f64,
}

struct Search {
    of: Tokens,
    beam: Beam,
    /// All that were ever chosen; hypotheses share their beginnings.
    links: Vec<Link>,
    open: Vec<Open>,
    found: Vec<Hypothesis>,
}

impl Search {
    fn new(of: Tokens, beam: Beam) -> Self {
        // All rows are the same in the beginning, so that one stands for all.
        let first = Open { row: 0, last: None, length: 0, log_probability: 0.0 };
        let open = if beam.width > 0 { vec![first] } else { Vec::new() };
        Self { of, beam, links: Vec::new(), open, found: Vec::new() }
    }

    fn run<E>(
        mut self,
        mut step: impl FnMut(Step<'_>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Vec<Hypothesis>, E> {
        let mut tokens = vec![self.of.begin; self.beam.width];
        let mut logits = vec![0.0; self.beam.width * self.of.vocabulary];
        let mut moves = Vec::new();
        for _ in 0..self.of.most {
            self.drop_hopeless();
            if self.open.is_empty() {
                break;
            }
            step(Step { moves: &moves, tokens: &tokens }, &mut logits)?;
            let candidates = self.candidates(&logits);
            moves = self.advance(&candidates);
            for open in &self.open {
                tokens[open.row] = open.last.map_or(self.of.begin, |last| self.links[last].token);
            }
        }
        for open in std::mem::take(&mut self.open) {
            self.keep(open.last, open.length, open.log_probability, false);
        }
        Ok(self.found)
    }

    /// What divides the logarithm of the probability of so many tokens.
    fn penalty(&self, length: usize) -> f64 {
        ((5.0 + length as f64) / 6.0).powf(self.beam.length_penalty)
    }

    /// Leaves hypotheses that cannot become one of the best: their probability can only shrink, and is
    /// divided by no more than at the most of steps.
    fn drop_hopeless(&mut self) {
        if self.found.len() < self.beam.best {
            return;
        }
        let worst = self.found.last().map_or(f64::INFINITY, |worst| worst.score);
        let least = self.penalty(self.of.most);
        self.open.retain(|open| open.log_probability / least > worst);
    }

    /// Continuations of all rows, best first.
    fn candidates(&self, logits: &[f32]) -> Vec<Candidate> {
        let mut all = Vec::new();
        for (from, open) in self.open.iter().enumerate() {
            let logits = &logits[open.row * self.of.vocabulary..][..self.of.vocabulary];
            let sum = log_sum(logits);
            // One more than go on, because one may be the end.
            for (token, logit) in greatest(logits, self.beam.width + 1) {
                let log_probability = open.log_probability + f64::from(logit) - sum;
                all.push(Candidate { from, token, log_probability });
            }
        }
        // A stable sort: of equal ones that of the better hypothesis comes first.
        all.sort_by(|a, b| b.log_probability.total_cmp(&a.log_probability));
        all
    }

    /// Takes what goes on and what ends; says which rows move for it.
    fn advance(&mut self, candidates: &[Candidate]) -> Vec<(usize, usize)> {
        let mut chosen = Vec::new();
        for candidate in candidates {
            let from = self.open[candidate.from];
            if candidate.token == self.of.end {
                self.keep(from.last, from.length + 1, candidate.log_probability, true);
            } else if chosen.len() < self.beam.width {
                chosen.push((from, candidate));
            }
        }
        // The first child of a row stays there; the others take rows that nobody goes on from.
        let mut is_taken = vec![false; self.beam.width];
        chosen.iter().for_each(|(from, _)| is_taken[from.row] = true);
        let mut free = (0..self.beam.width).filter(|row| !is_taken[*row]);
        let mut has_child = vec![false; self.beam.width];
        let (mut open, mut moves) = (Vec::with_capacity(chosen.len()), Vec::new());
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
            open.push(Open {
                row,
                last: Some(self.links.len() - 1),
                length: from.length + 1,
                log_probability: candidate.log_probability,
            });
        }
        self.open = open;
        moves
    }

    /// Puts a hypothesis among the best, if it is one of them.
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
