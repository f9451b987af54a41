//! Sequences of requests to stateful models: sessions whose turns have one `sequence_id`.

use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::plan::Chain;
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::rng::Mt19937;
use dyno_net::oip::{Oip, PlayedSequences};
use dyno_net::workload::{Lengths, ThinkTimes};

use super::SpecKeys;
use super::sessions::{self, Sessions};
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

/// Requests of a sequence by default.
const STEPS: Lengths = Lengths::Fixed(100);

/// Maximum number of requests of all sequences: each is encoded before the run.
const MOST_REQUESTS: u64 = 10_000_000;

/// Sequences that `sequences=` asks for.
pub struct Sequences {
    /// How many are played, in turn.
    count: usize,
    steps: Lengths,
    think: Option<ThinkTimes>,
    /// Time between the due times of a sequence's requests, ns.
    interval: Option<Nanos>,
    seed: u64,
}

/// Takes the keys of sequences; `None` if a server is asked for independent requests.
///
/// # Errors
/// Invalid keys, or options that sequences do not support.
pub fn sequences(given: &mut SpecKeys, run: &RunOptions) -> Result<Option<Sequences>, Failure> {
    let count: Option<usize> = given.read_as("sequences")?;
    let steps: Option<Lengths> = given.read_as("steps")?;
    let (think, interval) = sessions::pace(given)?;
    let Some(count) = count else {
        for (key, is_given) in
            [("steps", steps.is_some()), ("think", think.is_some()), ("every", interval.is_some())]
        {
            if is_given {
                return Err(given.wrong(key, "it belongs to sequences; add sequences=N"));
            }
        }
        return Ok(None);
    };
    if count == 0 {
        return Err(given.wrong("sequences", "expected at least 1, found `0`"));
    }
    for key in ["node", "retries"] {
        if given.has(key) {
            let why = "a server keeps the states of a sequence; remove it, or sequences";
            return Err(given.wrong(key, why));
        }
    }
    sessions::reject_others(run, "sequences")?;
    if run.warm_up.is_some_and(|requests| requests > 0) {
        return Err(Failure::usage("sequences: requests of a warm-up belong to no sequence")
            .hint("remove --warm-up"));
    }
    let steps = steps.unwrap_or(STEPS);
    let seed = run.seed_of(RandomStream::Sessions);
    Ok(Some(Sequences { count, steps, think, interval, seed }))
}

impl Sequences {
    /// Returns the sessions of a plan, and the sequences of their requests.
    ///
    /// # Errors
    /// Too many requests.
    pub fn played(&self) -> Result<(Sessions, PlayedSequences), Failure> {
        let mut rng = Mt19937::new(!self.seed);
        let (mut chains, mut first) = (Vec::new(), 0);
        for _ in 0..self.count {
            let turns = self.steps.draw(&mut rng);
            if first + turns > MOST_REQUESTS {
                return Err(Failure::usage(format!(
                    "{} sequences have more than {MOST_REQUESTS} requests",
                    self.count
                ))
                .hint(
                    "lower sequences= or steps=; sequences are played again until the run ends",
                ));
            }
            let mut think = |turn: u64| match &self.think {
                Some(think) if turn > 0 => think.draw(&mut rng),
                _ => 0,
            };
            let thinks = (0..turns).map(&mut think).collect();
            let sample = SampleIndex::try_from(first).unwrap_or(SampleIndex::MAX);
            chains.push(Chain { first: sample, thinks });
            first += turns;
        }
        let chains: Arc<[Chain]> = chains.into();
        // Clients on one machine have different identifiers, all below 2^53, which every reader of
        // JSON represents exactly.
        let id = u64::from(std::process::id() % (1 << 20)) << 32 | 1;
        let played = PlayedSequences::new(id, chains.clone());
        let interval = self.interval;
        Ok((Sessions { chains, is_once: false, interval, steps: 1 }, played))
    }

    /// Returns a protocol that plays the sequences, with their sessions, and adds a remark.
    ///
    /// # Errors
    /// Too many requests.
    pub fn play(
        &self,
        protocol: Oip,
        remarks: &mut Vec<String>,
    ) -> Result<(Oip, Option<Sessions>), Failure> {
        let (sessions, played) = self.played()?;
        remarks.push(format!(
            "{} sequences of {:.1} requests on average; each request follows the answer to the one \
             before it.",
            self.count,
            played.sample_count() as f64 / self.count as f64
        ));
        remarks.extend(self.interval.map(sessions::remark_on_interval));
        Ok((protocol.with_sequences(played), Some(sessions)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(keys: &str) -> Result<Option<Sequences>, Failure> {
        let mut given = SpecKeys::read("oip", &format!("http://a/m,{keys}")).unwrap();
        let found = sequences(&mut given, &RunOptions::default())?;
        given.finish()?;
        Ok(found)
    }

    #[test]
    fn sequences_are_sessions_of_consecutive_samples() {
        let made = asked("sequences=5,steps=2-4,think=5ms").unwrap().unwrap();
        let (sessions, _) = made.played().unwrap();
        let mut next = 0;
        for chain in &*sessions.chains {
            assert_eq!(chain.first, next);
            assert!((2..=4).contains(&chain.thinks.len()) && chain.thinks[0] == 0);
            assert!(chain.thinks[1..].iter().all(|ns| *ns == 5_000_000));
            next += chain.thinks.len() as SampleIndex;
        }
        assert_eq!(sessions.chains.len(), 5);
        let regular = asked("sequences=2,every=20ms").unwrap().unwrap().played().unwrap().0;
        assert_eq!(regular.interval, Some(20_000_000));
        assert!(regular.chains.iter().all(|chain| chain.thinks.iter().all(|ns| *ns == 0)));
        let default = asked("sequences=1").unwrap().unwrap().played().unwrap().0;
        assert_eq!(default.chains[0].thinks.len(), 100);
        assert!(asked("binary=false").is_err_and(|told| told.problems()[0].contains("`binary`")));
    }

    #[test]
    fn wrong_keys_are_refused() {
        for (keys, expected) in [
            ("sequences=0", "expected at least 1"),
            ("steps=3", "add sequences=N"),
            ("think=1s", "add sequences=N"),
            ("every=1s", "add sequences=N"),
            ("sequences=2,every=0s", "a time above 0"),
            ("sequences=2,every=1s,think=1s", "remove every or think"),
            ("sequences=2,retries=1", "keeps the states of a sequence"),
            ("sequences=2,node=http://b", "keeps the states of a sequence"),
        ] {
            let told = asked(keys).err().unwrap().problems()[0].clone();
            assert!(told.contains(expected), "{keys}: {told}");
        }
        let many = asked("sequences=1000000,steps=1000").unwrap().unwrap();
        assert!(many.played().is_err());
    }
}
