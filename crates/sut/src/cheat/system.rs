//! The simulated system behind every trick: one server, first come first served.

use std::collections::{HashMap, HashSet, VecDeque};

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use dyno_loadgen::plan::{Plan, Seeds};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::settings::TestMode;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use super::foresight::Foresight;
use super::{Form, Images, Trick, form};
use crate::digits::{self, PIXELS, Perceptron, TEST_COUNT};
use crate::top1;

/// Work on one sample, within 5 % both ways.
const COMPUTED: Nanos = MILLISECOND;
/// Handing over an answer that is there.
const SPARED: Nanos = MILLISECOND / 50;
/// Tokens of a text that are as much work as a sample.
const TOKENS: Nanos = 16;
/// Samples that are computed together.
const BATCH: usize = 32;
/// Answers that a cache holds: a part of the data set, as real caches do. One that
/// held it all would be as fast in the submission as in the audit, and only
/// TEST04-A, in which no sample comes twice, would tell.
const CACHED: usize = 64;

/// What a system is told of the test that it is in, which real ones are told, too:
/// whoever measures them starts their test, and seeds are published.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The test.
    pub plan: &'a Plan,
    /// Seeds of the rounds.
    pub published: &'a [Seeds],
    /// Of its times.
    pub seed: u64,
}

/// A system with a trick, or with none.
pub struct Cheat {
    name: String,
    trick: Trick,
    is_watched: bool,
    /// What the perceptron says of each image.
    computed: Vec<usize>,
    /// What each image shows, where the system knows it by heart.
    known: Vec<Option<usize>>,
    foresight: Option<Foresight>,
    cache: Cache,
    /// Samples that came before, and the answer in the output buffer.
    seen: HashSet<SampleIndex>,
    buffer: usize,
    rng: Mt19937,
    free_at: Nanos,
    batches: VecDeque<Batch>,
    /// Answers of the batch that was handed over last.
    handed_over: HashMap<ResponseId, Given>,
    flushed: bool,
}

/// Samples that are complete together.
struct Batch {
    end: Nanos,
    first: ResponseId,
    answers: Vec<Given>,
}

/// An answer.
struct Given {
    data: Vec<u8>,
    /// How many it is told to have; 0 where it is a class.
    tokens: i64,
    /// When the first one was there.
    first_token_at: Option<Nanos>,
}

impl Cheat {
    /// An idle system.
    #[must_use]
    pub fn new(trick: Trick, images: Images, told: Told<'_>) -> Self {
        let network = Perceptron::trained();
        let computed = (0..TEST_COUNT).map(|index| network.classify(&images.image(index)));
        let by_heart: HashMap<[u8; PIXELS], usize> =
            digits::test().map(|digit| (*digit.pixels, usize::from(digit.label))).collect();
        let knows = |index| by_heart.get(&images.image(index)).copied();
        Self {
            name: format!("cheat-{}", trick.name()),
            trick,
            is_watched: told.plan.mode == TestMode::AccuracyOnly,
            computed: computed.collect(),
            known: (0..TEST_COUNT).map(knows).collect(),
            foresight: (trick == Trick::Foreseeing)
                .then(|| Foresight::new(told.plan, told.published)),
            cache: Cache::default(),
            seen: HashSet::new(),
            buffer: 0,
            rng: Mt19937::new(told.seed),
            free_at: 0,
            batches: VecDeque::new(),
            handed_over: HashMap::new(),
            flushed: false,
        }
    }

    /// The answer to a sample, and whether it was computed.
    fn respond(&mut self, index: SampleIndex, batch: &HashSet<SampleIndex>) -> (usize, bool) {
        let at = index as usize;
        let honest = self.computed.get(at).copied().unwrap_or(0);
        match self.trick {
            Trick::Caching => (honest, !self.cache.holds(index)),
            Trick::Coalescing => (honest, !batch.contains(&index)),
            Trick::Skipping if !self.is_watched => (0, false),
            Trick::Guessing => (honest, self.is_watched),
            Trick::Memorising => match self.known.get(at).copied().flatten() {
                Some(class) => (class, false),
                None => (honest, true),
            },
            Trick::Stale if self.seen.insert(index) => {
                self.buffer = honest;
                (honest, true)
            }
            Trick::Stale => (self.buffer, false),
            _ => (honest, true),
        }
    }

    /// Answers a sample from `from` on; returns when that is done, too.
    fn give(
        &mut self,
        index: SampleIndex,
        class: usize,
        took: Nanos,
        from: Nanos,
    ) -> (Given, Nanos) {
        let (of, end) = ((index, class), from + took);
        let given = |data: Vec<u8>| Given { data, tokens: 0, first_token_at: None };
        match self.trick.form() {
            Form::Class => (given(top1::encode(class).to_vec()), end),
            Form::Ranking => {
                let values = form::ranking(self.trick, self.is_watched, of);
                (given(values.iter().flat_map(|value| value.to_le_bytes()).collect()), end)
            }
            Form::Text => {
                let (text, tokens) = form::text(self.trick, self.is_watched, of);
                let each = took / TOKENS;
                let data = text.iter().flat_map(|token| token.to_le_bytes()).collect();
                let first_token_at = Some(from + each);
                (Given { data, tokens, first_token_at }, from + each * text.len() as Nanos)
            }
        }
    }

    fn time(&mut self) -> Nanos {
        let factor = 0.95 + 0.1 * self.rng.canonical();
        (COMPUTED as f64 * factor).round() as Nanos
    }
}

impl SimulatedSystem for Cheat {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if std::mem::take(&mut self.flushed) {
            self.free_at = 0;
            self.batches.clear();
        }
        let is_foreseen = match &mut self.foresight {
            Some(foresight) => foresight.foresees(query.indices),
            None => false,
        };
        let mut first = query.first;
        for samples in query.indices.chunks(BATCH) {
            let mut end = self.free_at.max(now);
            let mut batch = HashSet::new();
            let mut answers = Vec::with_capacity(samples.len());
            for &index in samples {
                let (answer, is_computed) = self.respond(index, &batch);
                batch.insert(index);
                let took = if is_computed && !is_foreseen { self.time() } else { SPARED };
                let (given, done) = self.give(index, answer, took, end);
                answers.push(given);
                end = done;
            }
            self.free_at = end;
            self.batches.push_back(Batch { end, first, answers });
            first = ResponseId(first.0 + samples.len() as u64);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.batches.front().map(|batch| batch.end)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.handed_over.clear();
        while self.next_event().is_some_and(|end| end <= now) {
            let batch = self.batches.pop_front().expect("the next event is its end");
            for (id, given) in (batch.first.0..).map(ResponseId).zip(batch.answers) {
                let outcome = Outcome::Ok { tokens: given.tokens };
                let first_token_at = given.first_token_at;
                completions.push(SimulatedCompletion { id, first_token_at, outcome });
                self.handed_over.insert(id, given);
            }
        }
    }

    fn flush(&mut self, _now: Nanos) {
        self.flushed = true;
    }

    fn answer(&self, id: ResponseId, data: &mut Vec<u8>) {
        if let Some(given) = self.handed_over.get(&id) {
            data.extend_from_slice(&given.data);
        }
    }

    fn first_tokens(&self, id: ResponseId, data: &mut Vec<u8>) {
        let given = self.handed_over.get(&id).filter(|given| given.tokens > 0);
        data.extend(given.iter().flat_map(|given| &given.data[..size_of::<i32>()]));
    }
}

impl std::fmt::Debug for Cheat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cheat").field("trick", &self.trick).finish_non_exhaustive()
    }
}

/// The samples whose answers are kept, oldest first.
#[derive(Debug, Default)]
struct Cache {
    order: VecDeque<SampleIndex>,
    held: HashSet<SampleIndex>,
}

impl Cache {
    /// Whether it holds a sample; from now on it does.
    fn holds(&mut self, index: SampleIndex) -> bool {
        if !self.held.insert(index) {
            return true;
        }
        self.order.push_back(index);
        if self.order.len() > CACHED
            && let Some(oldest) = self.order.pop_front()
        {
            self.held.remove(&oldest);
        }
        false
    }
}
