//! Simulated system of all tricks: one server, first come, first served.

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

/// Time to compute a sample; the actual time is within 5 % of it.
const COMPUTE_TIME: Nanos = MILLISECOND;
/// Time to deliver an answer that was not computed.
const SPARED_TIME: Nanos = MILLISECOND / 50;
/// Number of tokens of a text that take as long as one sample.
const TOKENS_PER_SAMPLE: Nanos = 16;
/// Samples that are computed together.
const BATCH: usize = 32;
/// Capacity of the cache: a part of the data set, as in real caches. A cache of the whole data set
/// would be as fast in the submission as in the audit, and only TEST04-A, in which no sample
/// repeats, would reveal it.
const CACHE_CAPACITY: usize = 64;

/// What a system knows about its test. Real systems know it, too: their owner starts the test, and
/// seeds are published.
#[derive(Debug, Clone, Copy)]
pub struct TestContext<'a> {
    /// Plan of the test.
    pub plan: &'a Plan,
    /// Seeds of the rounds.
    pub published_seeds: &'a [Seeds],
    /// Seed of the simulated service times.
    pub seed: u64,
}

/// Simulated system with a trick.
///
/// ```
/// use dyno_loadgen::plan::{Library, Plan};
/// use dyno_loadgen::settings::TestSettings;
/// use dyno_loadgen::sut::{ResponseId, SimulatedQuery, SimulatedSystem};
/// use dyno_sut::cheat::{Cheat, Images, TestContext, Trick};
///
/// let library = Library { total: 540, performance: 540 };
/// let plan = Plan::resolve(&TestSettings::default(), library).expect("the defaults are valid");
/// let context = TestContext { plan: &plan, published_seeds: &[], seed: 1 };
/// let mut cheat = Cheat::new(Trick::Caching, Images::Reference, context);
/// let mut end_of_query = |number| {
///     let first = ResponseId::new(1, 0, number);
///     cheat.issue(0, &SimulatedQuery { tenant: 0, first, indices: &[7] });
///     let end = cheat.next_event().expect("a sample is in service");
///     cheat.advance(end, &mut Vec::new());
///     end
/// };
/// let first = end_of_query(0);
/// // The repeated sample is answered from the cache.
/// assert_eq!(end_of_query(1) - first, 20_000);
/// ```
pub struct Cheat {
    name: String,
    trick: Trick,
    is_watched: bool,
    /// Class of each image as the perceptron computes it.
    computed: Vec<usize>,
    /// Class of each image that the system has memorized.
    memorized: Vec<Option<usize>>,
    foresight: Option<Foresight>,
    cache: Cache,
    /// Samples that occurred before, for [`Trick::Stale`].
    seen_samples: HashSet<SampleIndex>,
    buffer: usize,
    rng: Mt19937,
    free_at: Nanos,
    batches: VecDeque<Batch>,
    /// Answers of the batch that was delivered last.
    delivered: HashMap<ResponseId, CheatAnswer>,
    flushed: bool,
}

/// Samples that complete together.
struct Batch {
    end: Nanos,
    first: ResponseId,
    answers: Vec<CheatAnswer>,
}

/// Answer to one sample.
struct CheatAnswer {
    data: Vec<u8>,
    /// Number of tokens that the system claims; 0 for other forms than text.
    tokens: i64,
    /// Time of the first token.
    first_token_at: Option<Nanos>,
}

impl Cheat {
    /// Returns an idle system.
    pub fn new(trick: Trick, images: Images, context: TestContext<'_>) -> Self {
        let network = Perceptron::trained();
        let computed = (0..TEST_COUNT).map(|index| network.classify(&images.image(index)));
        let by_heart: HashMap<[u8; PIXELS], usize> =
            digits::test_digits().map(|digit| (*digit.pixels, usize::from(digit.label))).collect();
        let knows = |index| by_heart.get(&images.image(index)).copied();
        Self {
            name: format!("cheat-{}", trick.name()),
            trick,
            is_watched: context.plan.mode == TestMode::AccuracyOnly,
            computed: computed.collect(),
            memorized: (0..TEST_COUNT).map(knows).collect(),
            foresight: (trick == Trick::Foreseeing)
                .then(|| Foresight::new(context.plan, context.published_seeds)),
            cache: Cache::default(),
            seen_samples: HashSet::new(),
            buffer: 0,
            rng: Mt19937::new(context.seed),
            free_at: 0,
            batches: VecDeque::new(),
            delivered: HashMap::new(),
            flushed: false,
        }
    }

    /// Returns the answer to a sample, and whether it was computed.
    fn respond(&mut self, index: SampleIndex, batch: &HashSet<SampleIndex>) -> (usize, bool) {
        let at = index as usize;
        let honest = self.computed.get(at).copied().unwrap_or(0);
        match self.trick {
            Trick::Caching => (honest, !self.cache.holds(index)),
            Trick::Coalescing => (honest, !batch.contains(&index)),
            Trick::Skipping if !self.is_watched => (0, false),
            Trick::Guessing => (honest, self.is_watched),
            Trick::Memorising => match self.memorized.get(at).copied().flatten() {
                Some(class) => (class, false),
                None => (honest, true),
            },
            Trick::Stale if self.seen_samples.insert(index) => {
                self.buffer = honest;
                (honest, true)
            }
            Trick::Stale => (self.buffer, false),
            _ => (honest, true),
        }
    }

    /// Returns the answer to a sample whose processing begins at `from`, and the time at which it
    /// ends.
    fn answer_from(
        &mut self,
        index: SampleIndex,
        class: usize,
        took: Nanos,
        from: Nanos,
    ) -> (CheatAnswer, Nanos) {
        let end = from + took;
        let answer = |data: Vec<u8>| CheatAnswer { data, tokens: 0, first_token_at: None };
        match self.trick.form() {
            Form::Class => (answer(top1::encode(class).to_vec()), end),
            Form::Ranking => {
                let values = form::ranking(self.trick, self.is_watched, index, class);
                (answer(values.iter().flat_map(|value| value.to_le_bytes()).collect()), end)
            }
            Form::Text => {
                let (text, tokens) = form::text(self.trick, self.is_watched, index, class);
                let each = took / TOKENS_PER_SAMPLE;
                let data = text.iter().flat_map(|token| token.to_le_bytes()).collect();
                let first_token_at = Some(from + each);
                (CheatAnswer { data, tokens, first_token_at }, from + each * text.len() as Nanos)
            }
        }
    }

    fn time(&mut self) -> Nanos {
        let factor = 0.95 + 0.1 * self.rng.canonical();
        (COMPUTE_TIME as f64 * factor).round() as Nanos
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
                let (class, is_computed) = self.respond(index, &batch);
                batch.insert(index);
                let took = if is_computed && !is_foreseen { self.time() } else { SPARED_TIME };
                let (answer, done) = self.answer_from(index, class, took, end);
                answers.push(answer);
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
        self.delivered.clear();
        while self.next_event().is_some_and(|end| end <= now) {
            let batch = self.batches.pop_front().expect("the next event is its end");
            for (id, answer) in (batch.first.0..).map(ResponseId).zip(batch.answers) {
                let outcome = Outcome::Ok { tokens: answer.tokens };
                let first_token_at = answer.first_token_at;
                completions.push(SimulatedCompletion { id, first_token_at, outcome });
                self.delivered.insert(id, answer);
            }
        }
    }

    fn flush(&mut self, _now: Nanos) {
        self.flushed = true;
    }

    fn answer(&self, id: ResponseId, data: &mut Vec<u8>) {
        if let Some(answer) = self.delivered.get(&id) {
            data.extend_from_slice(&answer.data);
        }
    }

    fn first_tokens(&self, id: ResponseId, data: &mut Vec<u8>) {
        let answer = self.delivered.get(&id).filter(|answer| answer.tokens > 0);
        data.extend(answer.iter().flat_map(|answer| &answer.data[..size_of::<i32>()]));
    }
}

/// Samples whose answers are cached, oldest first.
#[derive(Debug, Default)]
struct Cache {
    order: VecDeque<SampleIndex>,
    samples: HashSet<SampleIndex>,
}

impl Cache {
    /// Returns whether a sample is cached, and adds it to the cache.
    fn holds(&mut self, index: SampleIndex) -> bool {
        if !self.samples.insert(index) {
            return true;
        }
        self.order.push_back(index);
        if self.order.len() > CACHE_CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.samples.remove(&oldest);
        }
        false
    }
}
