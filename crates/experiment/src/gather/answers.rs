//! Converts the accounts of a server's answers to classes and tokens of the summary.

use std::collections::{BTreeMap, HashMap};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Failure, Record};
use dyno_net::ledger::{Class, Contradiction, Entry, Finish, Flags, HiddenTokens, Oddity};
use dyno_net::protocol::TokenCounter;
use dyno_results::summary::answers::{Answers, Lengths, Tokens};
use dyno_results::summary::metrics::Distribution;

use super::client::counter;

/// The accounts of the answers of one tenant's run.
pub struct Accounts<'a> {
    record: &'a Record,
    entries: &'a [Option<Entry>],
    failed: HashMap<u64, Failure>,
    /// The tokens without text of single answers make more tokens than bytes in all answers together.
    exceeds_bytes: bool,
}

impl<'a> Accounts<'a> {
    /// Returns the accounts of a run; `None` if answers are not text.
    pub fn new(record: &'a Record, entries: &'a [Option<Entry>]) -> Option<Self> {
        let is_text = entries.iter().any(Option::is_some);
        is_text.then(|| {
            let failed = record.failed.iter().copied().collect();
            let mut accounts = Self { record, entries, failed, exceeds_bytes: false };
            accounts.exceeds_bytes = accounts.has_more_tokens_than_bytes();
            accounts
        })
    }

    /// Returns whether the server counts more output tokens than all answers have bytes, apart from tokens
    /// that need none.
    fn has_more_tokens_than_bytes(&self) -> bool {
        let counted = self.answered().map(|(_, entry)| entry);
        let counted = counted.filter(|entry| entry.counted_by == TokenCounter::Server);
        let (mut tokens, mut most) = (0_u64, 0_u64);
        for entry in counted {
            tokens += u64::from(entry.claimed.unwrap_or(0));
            most += u64::from(entry.bytes) + u64::from(entry.unseen);
        }
        tokens > most
    }

    /// Returns the contradictions of an answer, among them that of all answers together.
    fn contradictions(&self, entry: &Entry) -> Flags<Contradiction> {
        let mut all = entry.contradictions;
        if self.exceeds_bytes && has_invisible_tokens(entry) {
            all.insert(Contradiction::MoreTokensThanBytes);
        }
        all
    }

    /// Returns the accounts of answered samples with their numbers.
    pub fn answered(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let all = self.entries.iter().enumerate().zip(&self.record.completed_at);
        all.filter(|((sample, _), at)| **at != 0 && !self.failed.contains_key(&(*sample as u64)))
            .filter_map(|((sample, entry), _)| Some((sample, entry.as_ref()?)))
    }

    /// Returns the classes of the answers.
    pub fn answers(&self, target: f64) -> Answers {
        let mut found = Answers::default();
        for (sample, failure) in &self.failed {
            let at = usize::try_from(*sample).unwrap_or(usize::MAX);
            let class = self.entries.get(at).copied().flatten().map(|entry| entry.class);
            *match (failure, class) {
                (Failure::Empty, _) => &mut found.empty,
                (Failure::Cut, _) => &mut found.cut,
                (Failure::Aborted, _) => &mut found.aborted,
                (Failure::Filtered, _) => &mut found.filtered,
                (Failure::Short, _) => &mut found.short,
                (_, Some(Class::InBand)) => &mut found.error,
                _ => &mut found.failed_on_the_wire,
            } += 1;
        }
        let each = self.record.samples_per_query.max(1);
        let mut ends = Vec::new();
        for (sample, entry) in self.answered() {
            *match entry.class {
                Class::Whole => &mut found.whole,
                Class::Empty => &mut found.empty,
                Class::Cut => &mut found.cut,
                Class::Aborted => &mut found.aborted,
                Class::Filtered => &mut found.filtered,
                Class::Short => &mut found.short,
                Class::InBand => &mut found.error,
            } += 1;
            let name = entry.class.name().to_owned();
            if entry.class != Class::Whole && !found.accepted.contains(&name) {
                found.accepted.push(name);
            }
            if entry.parts > 0 && entry.ended_at > 0 {
                ends.push(entry.ended_at.saturating_sub(self.record.scheduled(sample / each)));
            }
        }
        for entry in self.entries.iter().flatten() {
            *found.finish_reasons.entry(finish_reason(entry.finish).into()).or_default() += 1;
            for oddity in entry.oddities.iter() {
                *found.oddities.entry(oddity.name().into()).or_default() += 1;
            }
        }
        found.end_of_stream_ns = Distribution::from_times(ends, target);
        found
    }

    /// Returns the token counts, with rates over `window` ns.
    pub fn tokens(&self, window: Nanos) -> Tokens {
        let mut found = Tokens::default();
        let (mut input, mut output) = (Sum::default(), Sum::default());
        let (mut cached, mut reasoning) = (Sum::default(), Sum::default());
        let (mut requested, mut delivered) = (0_u64, 0_u64);
        let mut lengths = Lengths::default();
        for (_, entry) in self.answered() {
            input.add(entry.input);
            output.add(entry.output);
            cached.add(entry.cached);
            reasoning.add(entry.reasoning);
            *found.output_counted_by.entry(counter(entry.counted_by).into()).or_default() += 1;
            let by =
                if entry.input.is_some() { TokenCounter::Server } else { TokenCounter::Nobody };
            *found.input_counted_by.entry(counter(by).into()).or_default() += 1;
            if let (Some(most), Some(output)) = (entry.demand.most, entry.output) {
                let most = u64::from(most) * u64::from(entry.demand.choices.max(1));
                requested += most;
                delivered += u64::from(output);
                lengths.answers += 1;
                lengths.shorter += u64::from(u64::from(output) < most);
            }
            for contradiction in self.contradictions(entry).iter() {
                let all = found.contradictions.entry(contradiction.name().into()).or_default();
                if all.answers == 0 {
                    all.first = contradiction.example(entry);
                }
                all.answers += 1;
            }
        }
        (found.input, found.output) = (input.of_all(), output.of_all());
        (found.cached, found.reasoning) = (cached.of_some(), reasoning.of_some());
        found.total = found.input.zip(found.output).map(|(a, b)| a.saturating_add(b));
        let per_second = |count: Option<u64>| {
            count.filter(|_| window > 0).map(|count| count as f64 * 1e9 / window as f64)
        };
        found.input_per_s = per_second(found.input);
        found.output_per_s = per_second(found.output);
        found.total_per_s = per_second(found.total);
        found.lengths = (lengths.answers > 0).then(|| Lengths {
            requested: requested as f64 / lengths.answers as f64,
            delivered: delivered as f64 / lengths.answers as f64,
            ..lengths
        });
        found
    }

    /// Returns the number of answers with contradictory counts of output tokens, and the first
    /// contradiction.
    pub fn doubtful_output(&self) -> Option<(u64, String)> {
        self.doubtful(|entry| self.is_output_doubtful(entry))
    }

    /// Returns the number of answers with contradictory counts of input tokens, and the first
    /// contradiction.
    pub fn doubtful_input(&self) -> Option<(u64, String)> {
        self.doubtful(|entry| entry.is_input_doubtful() && !self.is_output_doubtful(entry))
    }

    fn is_output_doubtful(&self, entry: &Entry) -> bool {
        entry.is_output_doubtful() || self.exceeds_bytes && has_invisible_tokens(entry)
    }

    /// Returns the number of answers with counted tokens that have no text, if they are not contradictory.
    pub fn with_invisible_tokens(&self) -> u64 {
        let is_sound =
            |entry: &Entry| has_invisible_tokens(entry) && !self.is_output_doubtful(entry);
        self.answered().filter(|(_, entry)| is_sound(entry)).count() as u64
    }

    /// Returns the number of answers whose contradiction a tokenizer resolved.
    pub fn settled(&self) -> u64 {
        let is_settled = |entry: &Entry| {
            entry.counted_by == TokenCounter::Tokenizer && !entry.contradictions.is_empty()
        };
        self.answered().filter(|(_, entry)| is_settled(entry)).count() as u64
    }

    fn doubtful(&self, is_doubtful: impl Fn(&Entry) -> bool) -> Option<(u64, String)> {
        let mut doubtful = self.answered().filter(|(_, entry)| is_doubtful(entry));
        let (_, first) = doubtful.next()?;
        let words = self.contradictions(first).iter().next().map(|flag| flag.example(first));
        Some((1 + doubtful.count() as u64, words.unwrap_or_default()))
    }

    /// Returns the accepted classes with the number of their answers.
    pub fn accepted_by_class(&self) -> BTreeMap<&'static str, u64> {
        let mut found = BTreeMap::new();
        for (_, entry) in self.answered().filter(|(_, entry)| entry.class != Class::Whole) {
            *found.entry(entry.class.name()).or_default() += 1;
        }
        found
    }

    /// Returns the number of answers of one choice with a known number of tokens that were not
    /// streamed, and with an unknown number.
    pub fn with_hidden_tokens(&self) -> (u64, u64) {
        let of = |is: fn(HiddenTokens) -> bool| {
            let is_one = |entry: &Entry| entry.choices <= 1 && is(entry.hidden);
            self.answered().filter(|(_, entry)| is_one(entry)).count() as u64
        };
        let is_known = |hidden| matches!(hidden, HiddenTokens::Some(_));
        (of(is_known), of(|hidden| hidden == HiddenTokens::Unknown))
    }

    /// Returns the number of streams with several choices although one was requested.
    pub fn with_further_choices(&self) -> u64 {
        let is_mixed = |entry: &Entry| {
            entry.choices > 1 && entry.demand.choices <= 1 && entry.hidden == HiddenTokens::Unknown
        };
        self.answered().filter(|(_, entry)| is_mixed(entry)).count() as u64
    }

    /// Returns the number of answers that were not streamed although a stream was requested.
    pub fn without_stream(&self) -> u64 {
        let ignores = |entry: &Entry| entry.oddities.contains(Oddity::NoStream);
        self.answered().filter(|(_, entry)| ignores(entry)).count() as u64
    }

    /// Returns the output tokens of each sample in the form of a record; 0 if unknown.
    pub fn output_column(&self) -> Vec<i64> {
        let of = |entry: &Option<Entry>| entry.and_then(|entry| entry.output).map_or(0, i64::from);
        let mut column: Vec<i64> = self.entries.iter().map(of).collect();
        column.resize(self.record.completed_at.len(), 0);
        column
    }
}

/// Returns whether the count of the server includes tokens without text.
fn has_invisible_tokens(entry: &Entry) -> bool {
    entry.counted_by == TokenCounter::Server && entry.oddities.contains(Oddity::InvisibleTokens)
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Unstated => "not stated",
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Tools => "tool_calls",
        Finish::Filter => "content_filter",
        Finish::Abort => "abort",
    }
}

/// A sum of counts, some of which may be unknown.
#[derive(Default)]
struct Sum {
    sum: u64,
    known: u64,
    unknown: u64,
}

impl Sum {
    fn add(&mut self, count: Option<u32>) {
        match count {
            Some(count) => {
                self.sum = self.sum.saturating_add(count.into());
                self.known += 1;
            }
            None => self.unknown += 1,
        }
    }

    /// Returns the sum if all counts are known.
    fn of_all(&self) -> Option<u64> {
        (self.known > 0 && self.unknown == 0).then_some(self.sum)
    }

    /// Returns the sum of the known counts; `None` if no count is known.
    fn of_some(&self) -> Option<u64> {
        (self.known > 0).then_some(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use dyno_net::ledger::Demand;

    use super::*;

    fn entry(input: Option<u32>, output: Option<u32>) -> Option<Entry> {
        let demand = Demand { most: Some(10), least: None, choices: 1 };
        Some(Entry { input, output, demand, counted_by: TokenCounter::Server, ..Entry::default() })
    }

    fn record(failed: &[(u64, Failure)]) -> Record {
        Record {
            samples_per_query: 1,
            issued_at: vec![0; 4],
            completed_at: vec![100, 100, 100, 0],
            failed: failed.to_vec(),
            ..Record::default()
        }
    }

    #[test]
    fn sums_are_of_answered_samples_and_null_where_a_count_is_missing() {
        let record = record(&[(2, Failure::Empty)]);
        let entries =
            [entry(Some(5), Some(3)), entry(Some(6), Some(10)), entry(None, Some(9)), None];
        let accounts = Accounts::new(&record, &entries).unwrap();
        let found = accounts.tokens(1_000_000_000);
        assert_eq!((found.input, found.output, found.total), (Some(11), Some(13), Some(24)));
        assert_eq!((found.input_per_s, found.total_per_s), (Some(11.0), Some(24.0)));
        assert_eq!((found.cached, found.reasoning), (None, None));
        let lengths = found.lengths.unwrap();
        assert_eq!((lengths.answers, lengths.requested, lengths.shorter), (2, 10.0, 1));
        assert_eq!(lengths.delivered, 6.5);
        let partly = [entry(Some(5), None), entry(None, Some(10)), None, None];
        let found = Accounts::new(&record, &partly).unwrap().tokens(0);
        assert_eq!((found.input, found.output, found.total_per_s), (None, None, None));
        assert_eq!(found.output_counted_by["server"], 2);
    }

    #[test]
    fn tokens_without_text_must_not_exceed_the_bytes_of_all_answers() {
        let record = record(&[]);
        let entry = |tokens: u32, bytes: u32| {
            let mut oddities = Flags::default();
            if tokens > bytes {
                oddities.insert(Oddity::InvisibleTokens);
            }
            let (claimed, unseen) = (Some(tokens), 1);
            let counted_by = TokenCounter::Server;
            Some(Entry {
                claimed,
                output: claimed,
                bytes,
                unseen,
                oddities,
                counted_by,
                ..Entry::default()
            })
        };
        // 6 tokens for 2 bytes, and 9 for 40: 15 of at most 44.
        let entries = [entry(6, 2), entry(9, 40), None, None];
        let accounts = Accounts::new(&record, &entries).unwrap();
        assert_eq!((accounts.doubtful_output(), accounts.with_invisible_tokens()), (None, 1));
        assert!(accounts.tokens(1).contradictions.is_empty());
        // 15 tokens of at most 14, of which one answer has no more than its bytes.
        let entries = [entry(6, 2), entry(6, 2), entry(3, 7), None];
        let accounts = Accounts::new(&record, &entries).unwrap();
        let words = "usage counts 6 output tokens for 2 bytes of output".to_owned();
        assert_eq!(accounts.doubtful_output(), Some((2, words.clone())));
        assert_eq!((accounts.doubtful_input(), accounts.with_invisible_tokens()), (None, 0));
        let found = &accounts.tokens(1).contradictions["more_tokens_than_bytes"];
        assert_eq!((found.answers, &found.first), (2, &words));
    }

    #[test]
    fn answers_with_tokens_that_were_not_streamed_are_counted() {
        let record = record(&[(2, Failure::Empty)]);
        let of = |hidden| Some(Entry { hidden, ..Entry::default() });
        let entries = [HiddenTokens::Some(7), HiddenTokens::Unknown, HiddenTokens::Unknown];
        let entries = [entries.map(of).to_vec(), vec![of(HiddenTokens::None)]].concat();
        let accounts = Accounts::new(&record, &entries).unwrap();
        assert_eq!(accounts.with_hidden_tokens(), (1, 1));
    }

    #[test]
    fn streams_with_more_choices_than_requested_are_counted() {
        let record = record(&[]);
        let unknown = HiddenTokens::Unknown;
        let of = |choices, demanded, hidden| {
            let demand = Demand { choices: demanded, ..Demand::default() };
            Some(Entry { choices, demand, hidden, ..Entry::default() })
        };
        // Two unasked, two of two, and one.
        let entries = [of(2, 1, unknown), of(2, 2, unknown), of(1, 1, unknown), None];
        let accounts = Accounts::new(&record, &entries).unwrap();
        assert_eq!(accounts.with_further_choices(), 1);
        assert_eq!(accounts.with_hidden_tokens(), (0, 1));
    }

    #[test]
    fn classes_are_counted_whether_or_not_they_are_accepted() {
        let record = record(&[(2, Failure::Empty), (1, Failure::Rejected), (3, Failure::TimedOut)]);
        let of = |class| Some(Entry { class, ..Entry::default() });
        let entries = [of(Class::Cut), of(Class::InBand), of(Class::Empty), None];
        let found = Accounts::new(&record, &entries).unwrap().answers(0.9);
        assert_eq!((found.cut, found.error, found.empty), (1, 1, 1));
        assert_eq!((found.whole, found.failed_on_the_wire), (0, 1));
        assert_eq!(found.accepted, ["cut"]);
        assert_eq!(found.finish_reasons, BTreeMap::from([("not stated".into(), 3)]));
        assert!(Accounts::new(&record, &[None, None]).is_none());
    }
}
