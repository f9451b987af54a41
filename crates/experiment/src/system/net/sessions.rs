//! Sessions with live answers, as keys of a specification ask for them.

use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::plan::Chain;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::openai::{Api, Settings};
use dyno_net::workload::{History, Lengths, SyntheticConversations, ThinkTimes, Workload};
use dyno_results::units::parse_duration;

use super::{SpecKeys, prompts};
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

/// Sessions that a run plays.
pub struct Sessions {
    pub chains: Arc<[Chain]>,
    /// Whether each is played once, instead of all of them until the run ends.
    pub is_once: bool,
    /// Time between the due times of a user's requests, ns; `None` if turns are due after the answer
    /// before them.
    pub interval: Option<Nanos>,
    /// Requests that each turn has at most, because its answers call tools (>= 1).
    pub steps: u32,
}

/// Keys of tools of the client, whose results replace the recorded ones.
const CLIENT_TOOLS: [&str; 2] = ["tools", "tools-result"];

/// Default number of turns of a session that is made up.
const TURNS: Lengths = Lengths::Fixed(3);

/// Keys of turns: when their requests are sent, and how many there are.
struct TurnKeys {
    think: Option<ThinkTimes>,
    /// Time between the due times of a user's requests, ns.
    interval: Option<Nanos>,
    /// Requests that a turn has at most, because its answers call tools.
    steps: Option<NonZero<u32>>,
    /// Times from answers that call tools to the requests with the results.
    tools_delay: Option<ThinkTimes>,
}

impl TurnKeys {
    fn take(given: &mut SpecKeys) -> Result<Self, Failure> {
        let steps: Option<NonZero<u32>> = given.read_as("steps")?;
        if steps.is_some_and(|steps| steps.get() == 1) {
            let why = "expected at least 2 requests, found `1`; without steps, each turn has one";
            return Err(given.wrong("steps", why));
        }
        let (think, interval) = pace(given)?;
        Ok(Self { think, interval, steps, tools_delay: times(given, "tools-delay")? })
    }

    /// Returns the first of the keys that is given.
    fn first(&self) -> Option<&'static str> {
        let keys = [
            ("think", self.think.is_some()),
            ("every", self.interval.is_some()),
            ("steps", self.steps.is_some()),
            ("tools-delay", self.tools_delay.is_some()),
        ];
        keys.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key)
    }

    /// Rejects keys that exclude each other, and those without effect.
    fn check(&self, given: &SpecKeys, history: History) -> Result<(), Failure> {
        let has_steps = self.steps.is_some();
        if self.interval.is_some() && has_steps {
            let why = "requests with results of tools have no interval; remove every or steps";
            return Err(given.wrong("every", why));
        }
        if self.tools_delay.is_some() && !has_steps {
            return Err(given.wrong("tools-delay", "it belongs to steps; add steps=N"));
        }
        if has_steps && history == History::Recorded {
            let why = "has no effect: history=recorded sends the recorded answers and results; \
                       remove one of the two";
            return Err(given.wrong("steps", why));
        }
        Ok(())
    }

    /// Returns the conversations with the requests of their turns.
    fn with_steps(&self, given: &SpecKeys, workload: Workload) -> Result<Workload, Failure> {
        let Some(steps) = self.steps else { return Ok(workload) };
        let mut workload = workload.with_tasks(steps).map_err(|why| given.wrong("steps", why))?;
        if CLIENT_TOOLS.into_iter().any(|key| given.has(key)) {
            workload.remove_results();
        } else if !workload.has_results() {
            let why = "expected tools that answer calls, found none; add tools=COMMAND, \
                       tools-result=N, or --data with recorded results (messages with the role tool)";
            return Err(given.wrong("steps", why));
        }
        workload.remarks.push(format!(
            "A turn goes on while the answers call tools, with at most {steps} requests. An answer \
             without calls ends it."
        ));
        Ok(workload)
    }
}

/// Describes conversations.
fn remark_on_history(workload: &Workload, history: History) -> String {
    let conversations = workload.conversations.len();
    let turns: usize = workload.conversations.iter().map(|one| one.turns.len()).sum();
    let turns = turns as f64 / conversations as f64;
    let answers = match history {
        History::Live => "the server's own",
        History::Recorded => "the recorded",
    };
    format!(
        "{conversations} conversations of {turns:.1} turns on average; each turn contains {answers} \
         answers to the earlier turns."
    )
}

/// Returns the conversations and their sessions if `sessions=` asks for them.
///
/// # Errors
/// Invalid keys, or data that hold no conversations.
pub fn sessions(
    given: &mut SpecKeys,
    run: &RunOptions,
    api: Option<Api>,
) -> Result<Option<(Workload, Sessions)>, Failure> {
    let keys = TurnKeys::take(given)?;
    let history: Option<History> = given.read_as("history")?;
    let Some(is_once) = mode(given, &keys)? else {
        return match history {
            Some(_) => Err(given.wrong("history", "it belongs to sessions; add sessions=live")),
            None => Ok(None),
        };
    };
    let history = history.unwrap_or_default();
    keys.check(given, history)?;
    let turns: Option<Lengths> = given.read_as("turns")?;
    if api.is_some_and(|api| api != Api::Chat) {
        return Err(given.wrong("sessions", "conversations always use chat; remove api and chat"));
    }
    for key in ["exact-input", "unique-prefix"] {
        if given.has(key) {
            return Err(given.wrong(key, "messages of sessions cannot be changed; remove it"));
        }
    }
    if keys.think.is_some() && matches!(turns, Some(Lengths::Fixed(1))) {
        let why =
            "has no effect: conversations of one turn have no pause; remove it, or raise turns";
        return Err(given.wrong("think", why));
    }
    reject_others(run, "sessions=live")?;
    check_history(given, run, history)?;
    let seed = run.seed_of(RandomStream::Sessions);
    let workload = conversations(given, run, history, turns)?;
    let mut workload = keys.with_steps(given, workload)?;
    let chains = workload.chains(keys.think, keys.tools_delay, seed);
    let remark = remark_on_history(&workload, history);
    workload.remarks.push(remark);
    workload.remarks.extend(keys.interval.map(remark_on_interval));
    let (interval, steps) = (keys.interval, keys.steps.map_or(1, NonZero::get));
    Ok(Some((workload, Sessions { chains, is_once, interval, steps })))
}

/// Returns the conversations of the data, or generated ones with `turns`.
fn conversations(
    given: &mut SpecKeys,
    run: &RunOptions,
    history: History,
    turns: Option<Lengths>,
) -> Result<Workload, Failure> {
    let Some(rows) = prompts::rows_of(run)? else {
        return SyntheticConversations {
            count: run.samples_or_of_round(prompts::MADE_UP),
            turns: turns.unwrap_or(TURNS),
            input: given.read_as("input")?.unwrap_or(prompts::INPUT),
            output: given.read_as("output")?,
            prefix: given.read_as("prefix")?.unwrap_or(0),
            seed: run.seed_of(RandomStream::Sessions),
        }
        .workload()
        .map_err(|why| Failure::usage(why).hint("see --samples, turns= and input="));
    };
    if turns.is_some() {
        return Err(given.wrong("turns", "--data has the turns; remove it"));
    }
    let output: Option<Lengths> = given.read_as("output")?;
    let path = run.data.first().map(|(_, path)| path.display().to_string());
    let mut workload = Workload::of_conversations(&rows, history)
        .map_err(|error| Failure::set_up(format!("{}: {error}", path.unwrap_or_default())))?;
    match output {
        None => {}
        Some(Lengths::Fixed(most)) => {
            workload.prompts.iter_mut().for_each(|turn| turn.max_tokens = Some(most));
        }
        Some(_) => {
            let why = "use one number for conversations from a file";
            return Err(given.wrong("output", why));
        }
    }
    Ok(workload)
}

/// Rejects a recorded history without a recording, and programs for calls that it answers.
fn check_history(given: &SpecKeys, run: &RunOptions, history: History) -> Result<(), Failure> {
    if history == History::Live {
        return Ok(());
    }
    if run.data.is_empty() {
        return Err(given.wrong("history", "has no effect without --data FILE; remove it"));
    }
    match CLIENT_TOOLS.into_iter().find(|key| given.has(key)) {
        None => Ok(()),
        Some(key) => {
            let why =
                "has no effect: history=recorded sends the recorded results; remove one of the two";
            Err(given.wrong(key, why))
        }
    }
}

/// Describes the load of users at an interval.
pub(super) fn remark_on_interval(interval: Nanos) -> String {
    format!(
        "Each user sends a request every {}, also if the answer to the one before came later; \
         latency counts from these times.",
        dyno_results::units::duration(interval.cast_signed())
    )
}

/// Takes the mode: whether each session is played once; `None` without sessions, which have the keys of
/// turns.
fn mode(given: &mut SpecKeys, keys: &TurnKeys) -> Result<Option<bool>, Failure> {
    match (given.text("sessions").as_deref(), keys.first()) {
        (Some("live"), _) => Ok(Some(false)),
        (Some("once"), _) => Ok(Some(true)),
        (Some(other), _) => {
            Err(given.wrong("sessions", format!("expected live or once, found `{other}`")))
        }
        (None, Some(key)) => Err(given.wrong(key, "it belongs to sessions; add sessions=live")),
        (None, None) => Ok(None),
    }
}

/// Takes the times at which requests of a session follow each other: think times, or the time between
/// the due times of a user's requests.
///
/// # Errors
/// Invalid times, or both.
pub(super) fn pace(given: &mut SpecKeys) -> Result<(Option<ThinkTimes>, Option<Nanos>), Failure> {
    let (think, interval) = (times(given, "think")?, interval(given)?);
    if interval.is_some() && think.is_some() {
        let why = "turns are due at an interval, or after a think time; remove every or think";
        return Err(given.wrong("every", why));
    }
    Ok((think, interval))
}

/// Takes the time between the due times of a user's requests.
fn interval(given: &mut SpecKeys) -> Result<Option<Nanos>, Failure> {
    let Some(text) = given.text("every") else { return Ok(None) };
    match parse_duration(&text) {
        Ok(0) => Err(given.wrong("every", format!("expected a time above 0, found `{text}`"))),
        read => read.map(Some).map_err(|why| given.wrong("every", why)),
    }
}

/// Rejects options that sessions do not support. `key` is the key that asks for them.
pub(super) fn reject_others(run: &RunOptions, key: &str) -> Result<(), Failure> {
    if !run.tenant_systems.is_empty() {
        return Err(Failure::usage(format!("{key}: a run with tenants cannot have sessions"))
            .hint("measure the tenants one by one"));
    }
    Ok(())
}

/// Checks that the client can play sessions at these servers.
///
/// # Errors
/// The limit and a remedy.
pub fn check(
    sessions: Option<&Sessions>,
    nodes: &[Endpoint],
    settings: &Settings,
) -> Result<(), Failure> {
    if sessions.is_some() && nodes.len() > 1 && settings.version == HttpVersion::Http2 {
        return Err(Failure::usage(
            "sessions=live: over HTTP/2 sessions do not stay on one of several servers",
        )
        .hint("remove http2=true, or the further nodes"));
    }
    Ok(())
}

/// Takes the times of a key, such as think times.
fn times(given: &mut SpecKeys, key: &'static str) -> Result<Option<ThinkTimes>, Failure> {
    let Some(text) = given.text(key) else { return Ok(None) };
    let micros = |text: &str| parse_duration(text).map(|ns| ns.div_ceil(1_000));
    let read = || -> Result<Lengths, String> {
        let pair = |text: &str| text.split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned()));
        if let Some((mean, deviation)) = text.strip_prefix("normal:").and_then(pair) {
            return Ok(Lengths::Normal(micros(&mean)? as f64, micros(&deviation)? as f64));
        }
        if let Some((median, sigma)) = text.strip_prefix("lognormal:").and_then(pair) {
            let sigma: f64 =
                sigma.parse().map_err(|_| format!("expected a number, found `{sigma}`"))?;
            if !(sigma.is_finite() && sigma >= 0.0) {
                return Err(format!("expected a number of at least 0, found `{sigma}`"));
            }
            return Ok(Lengths::LogNormal(micros(&median)? as f64, sigma));
        }
        match text.split_once('-') {
            None => micros(&text).map(Lengths::Fixed),
            Some((least, most)) => match (micros(least)?, micros(most)?) {
                (least, most) if least <= most => Ok(Lengths::Uniform(least, most)),
                _ => Err(format!("expected the shorter time first, found `{text}`")),
            },
        }
    };
    read().map(|times| Some(ThinkTimes(times))).map_err(|why| given.wrong(key, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(keys: &str) -> Result<Option<Sessions>, Failure> {
        let mut given = SpecKeys::read("openai", &format!("http://a,{keys}")).unwrap();
        let found = sessions(&mut given, &RunOptions::default(), None)?;
        given.finish()?;
        Ok(found.map(|(_, sessions)| sessions))
    }

    #[test]
    fn sessions_are_made_up_with_turns_and_think_times() {
        let made = asked("sessions=once,turns=2-4,think=5ms-10ms,input=9").unwrap().unwrap();
        assert!(made.is_once && made.chains.len() == 256);
        for chain in &*made.chains {
            assert!((2..=4).contains(&chain.thinks.len()));
            assert!(chain.thinks[1..].iter().all(|ns| (5_000_000..=10_000_000).contains(ns)));
        }
        for think in ["0s", "2s", "normal:2s:500ms", "lognormal:2s:0.5"] {
            assert!(asked(&format!("sessions=live,think={think}")).unwrap().is_some(), "{think}");
        }
        assert!(asked("model=m").is_err_and(|told| told.problems()[0].contains("`model`")));
    }

    #[test]
    fn turns_with_steps_have_as_many_requests() {
        let keys = "sessions=live,turns=2,steps=3,think=5ms,tools-delay=7ms";
        let mut given = SpecKeys::read("openai", &format!("http://a,{keys},tools=sh")).unwrap();
        let (workload, made) = sessions(&mut given, &RunOptions::default(), None).unwrap().unwrap();
        assert_eq!((made.steps, made.chains.len(), workload.prompts.len()), (3, 256, 6 * 256));
        let thinks: Vec<Nanos> = made.chains[9].thinks.iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(thinks, [0, 7, 7, 5, 7, 7]);
        assert_eq!(made.chains[9].first, 54);
        let remarks = workload.remarks.join(" ");
        assert!(remarks.contains("256 conversations of 2.0 turns on average"), "{remarks}");
        assert!(remarks.contains("with at most 3 requests"), "{remarks}");
    }

    #[test]
    fn wrong_keys_are_refused() {
        for (keys, expected) in [
            ("sessions=dead", "expected live or once, found `dead`"),
            ("sessions=live,exact-input=usage", "cannot be changed"),
            ("think=1s", "add sessions=live"),
            ("history=recorded", "add sessions=live"),
            ("sessions=live,history=recorded", "without --data FILE"),
            ("sessions=live,history=old", "expected live or recorded, found `old`"),
            ("every=1s", "add sessions=live"),
            ("sessions=live,every=0s", "a time above 0"),
            ("sessions=live,every=1s,think=1s", "remove every or think"),
            ("sessions=live,think=3s-1s", "the shorter time first"),
            ("sessions=live,think=soon", "think"),
            ("sessions=live,turns=1,think=1s", "think: has no effect"),
            ("steps=3", "add sessions=live"),
            ("sessions=live,tools-delay=1s", "add steps=N"),
            ("sessions=live,steps=1,tools=sh", "at least 2 requests"),
            ("sessions=live,steps=0,tools=sh", "steps"),
            ("sessions=live,steps=3", "add tools=COMMAND, tools-result=N, or --data"),
            ("sessions=live,steps=3,every=1s,tools=sh", "remove every or steps"),
            ("sessions=live,steps=3,history=recorded,tools=sh", "steps: has no effect"),
        ] {
            let told = asked(keys).err().unwrap().problems()[0].clone();
            assert!(told.contains(expected), "{told}");
        }
    }
}
