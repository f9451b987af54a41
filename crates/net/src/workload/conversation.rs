//! Conversations for live sessions: the messages of the user, and those of tools, turn by turn. The
//! answers between them are those that the server gives in the run, or the recorded ones.

use std::str::FromStr;
use std::sync::Arc;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};
use dyno_loadgen::plan::Chain;
use dyno_loadgen::rng::Mt19937;
use serde_json::{Map, Value, json};

use super::budget::SizeBudget;
use super::chats::{ConversationReader, as_message, is_recording};
use super::members::MemberCounts;
use super::rows::{MESSAGES, MOST, SYSTEM, TEXT, blank, number, take, text};
use super::{
    Lengths, Prompt, ReadError, Row, RowMembers, WORDS_REMARK, Workload, draw_words, trace,
};
use crate::openai::{Input, Message};

/// A conversation. Its turns are consecutive samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Sample of its first turn.
    pub first: usize,
    /// Its turns (>= 1).
    pub turns: Vec<RecordedTurn>,
    /// Requests, and samples, that each turn has at most (>= 1); see [`Workload::with_tasks`].
    pub steps: usize,
}

/// Answers that the requests of later turns contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum History {
    /// Those of the server.
    #[default]
    Live,
    /// The recorded ones, whatever the server answers.
    Recorded,
}

impl FromStr for History {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "live" => Ok(Self::Live),
            "recorded" => Ok(Self::Recorded),
            other => Err(format!("expected live or recorded, found `{other}`")),
        }
    }
}

/// What is sent in one turn, after the answers before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedTurn {
    /// Messages since the last answer, as members of a request.
    pub messages: Vec<Value>,
    /// Later turns with a recorded history: these messages with the recorded answers before them.
    pub recorded: Vec<Value>,
    /// Time from the answer before it to this turn, ns, if recorded.
    pub think: Option<Nanos>,
    /// Recorded results of tools that the turn calls, in order; see [`Workload::with_tasks`].
    pub results: Vec<Value>,
    /// Times from the answers that call tools to the requests with their results, ns, if recorded.
    pub result_thinks: Vec<Option<Nanos>>,
}

/// Times from an answer to the next turn of its session, in us.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThinkTimes(pub Lengths);

impl ThinkTimes {
    /// Draws one think time, ns.
    pub fn draw(&self, rng: &mut Mt19937) -> Nanos {
        self.0.draw(rng).saturating_mul(1_000)
    }
}

/// Settings of synthetic conversations.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticConversations {
    /// Number of conversations (>= 1).
    pub count: usize,
    /// Turns of each.
    pub turns: Lengths,
    /// Tokens of the user's message in each turn.
    pub input: Lengths,
    /// Maximum number of output tokens of each answer.
    pub output: Option<Lengths>,
    /// Tokens of a system message that all conversations share.
    pub prefix: u64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl SyntheticConversations {
    /// Returns the conversations. Equal seeds give equal ones, regardless of their number.
    ///
    /// # Errors
    /// Messages of more than 512 MiB.
    pub fn workload(&self) -> Result<Workload, String> {
        let least = self.input.least().saturating_mul(self.turns.least());
        let mut budget = SizeBudget::for_prompts(self.count as u64, least)?;
        SizeBudget::for_prompts(self.count as u64, self.prefix)?;
        let mut rng = Mt19937::new(self.seed);
        let words = |rng: &mut Mt19937, tokens| {
            let mut text = String::new();
            draw_words(&mut text, rng, tokens);
            text
        };
        let prefix = words(&mut Mt19937::new(!self.seed), self.prefix);
        let mut workload = Workload::default();
        for _ in 0..self.count {
            let turns = (0..self.turns.draw(&mut rng)).map(|number| {
                let tokens = self.input.draw(&mut rng);
                budget.prompt(tokens)?;
                let asked = json!({"role": "user", "content": words(&mut rng, tokens)});
                let is_first = number == 0 && !prefix.is_empty();
                let system = is_first.then(|| json!({"role": "system", "content": prefix}));
                let most = self.output.as_ref().map(|output| output.draw(&mut rng));
                let messages = system.into_iter().chain([asked]).collect();
                let turn = RecordedTurn { messages, ..RecordedTurn::default() };
                Ok(PlannedTurn { turn, most, members: Map::new() })
            });
            let turns: Vec<_> = turns.collect::<Result<_, String>>()?;
            workload.add_conversation(turns);
        }
        workload.remarks.push(WORDS_REMARK.into());
        Ok(workload)
    }
}

impl Workload {
    /// Returns the conversations of rows, for sessions with this history.
    ///
    /// A row holds a whole conversation (`messages`, `conversations`, or `turns`), whose recorded
    /// answers are left out of a live history, or one turn of the session that its `session_id`
    /// names. Any other row with a text is a conversation of one turn.
    ///
    /// # Errors
    /// A row that is not a conversation, or one without the answers of a recorded history.
    pub fn of_conversations(rows: &[Row], history: History) -> Result<Self, ReadError> {
        let mut workload = Self::default();
        let mut sessions: Vec<Session> = Vec::new();
        let mut by_name = std::collections::HashMap::new();
        let (mut without_turns, mut timed_turns) = (0_usize, 0_usize);
        let mut reader = ConversationReader::default();
        let mut members = MemberCounts::default();
        for (at, row) in rows.iter().enumerate() {
            let wrong = |why| row_error(at + 1, why);
            let mut row = row.clone();
            let id =
                take(&mut row, &["session_id"]).or_else(|| take(&mut row, &["conversation_id"]));
            // Several rows of one session have a part of it each.
            let reader = id.is_none().then_some(&mut reader);
            let Some(mut turns) = turns_of_row(&mut row, reader).map_err(wrong)? else { continue };
            if turns.is_empty() {
                without_turns += 1;
                continue;
            }
            let begins_at = trace::time(&mut row).map_err(wrong)?;
            let own = members.select(row, RowMembers::default());
            turns.iter_mut().for_each(|turn| turn.members.clone_from(&own));
            if history == History::Live {
                turns.iter_mut().for_each(|turn| turn.turn.recorded = Vec::new());
            }
            match id {
                Some((_, id)) => {
                    let new = sessions.len();
                    let number = *by_name.entry(id.to_string()).or_insert(new);
                    if number == new {
                        sessions.push(Session { turns, begins_at, row: at + 1 });
                    } else {
                        timed_turns += usize::from(begins_at.is_some());
                        sessions[number].turns.extend(turns);
                    }
                }
                None => sessions.push(Session { turns, begins_at, row: at + 1 }),
            }
        }
        if sessions.is_empty() {
            let why = reader.remark();
            let why = why.unwrap_or_else(|| "no conversation has a user message".into());
            return Err(row_error(0, why));
        }
        workload.remarks.extend(reader.remark());
        if without_turns > 0 {
            let plural = if without_turns == 1 { "row has" } else { "rows have" };
            workload.remarks.push(format!(
                "{without_turns} {plural} no user message and {} left out.",
                if without_turns == 1 { "is" } else { "are" }
            ));
        }
        if timed_turns > 0 {
            workload.remarks.push(format!(
                "The recorded times of {timed_turns} later turns are not used: each turn follows \
                 the previous answer after its think time (`delay` in a row, else think=TIME, \
                 else none)."
            ));
        }
        workload.remarks.extend(members.remarks(RowMembers::default()));
        workload.arrivals = arrivals(&mut sessions)?;
        if history == History::Recorded {
            sessions.iter().try_for_each(check_answers)?;
        }
        for session in sessions {
            workload.add_conversation(session.turns);
        }
        Ok(workload)
    }

    /// Appends a conversation of these turns.
    fn add_conversation(&mut self, turns: Vec<PlannedTurn>) {
        let first = self.prompts.len();
        let prompt = |turn: &PlannedTurn| Prompt {
            max_tokens: turn.most,
            members: turn.members.clone(),
            ..Prompt::new(Input::Messages(Vec::new()))
        };
        self.prompts.extend(turns.iter().map(prompt));
        let turns = turns.into_iter().map(|turn| turn.turn).collect();
        self.conversations.push(Conversation { first, turns, steps: 1 });
        self.sessions += 1;
    }

    /// Returns the sessions for a plan. Turns without a recorded think time get one of `think`, and
    /// further requests of a turn without one get one of `tools_delay`.
    pub fn chains(
        &self,
        think: Option<ThinkTimes>,
        tools_delay: Option<ThinkTimes>,
        seed: u64,
    ) -> Arc<[Chain]> {
        let mut rng = Mt19937::new(!seed);
        let mut draw = |recorded: Option<Nanos>, times: Option<ThinkTimes>| {
            recorded.or_else(|| times.map(|times| times.draw(&mut rng))).unwrap_or(0)
        };
        let chain = |conversation: &Conversation| {
            let mut thinks = Vec::new();
            for (number, turn) in conversation.turns.iter().enumerate() {
                thinks.push(if number == 0 { 0 } else { draw(turn.think, think) });
                for step in 0..conversation.steps - 1 {
                    let recorded = turn.result_thinks.get(step).copied().flatten();
                    thinks.push(draw(recorded, tools_delay));
                }
            }
            let first = u32::try_from(conversation.first).unwrap_or(u32::MAX);
            Chain { first, thinks: thinks.into() }
        };
        self.conversations.iter().map(chain).collect()
    }
}

/// A turn with the settings of its request.
struct PlannedTurn {
    turn: RecordedTurn,
    /// Maximum number of output tokens.
    most: Option<u64>,
    members: Map<String, Value>,
}

/// Returns the error of a row.
fn row_error(row: usize, why: String) -> ReadError {
    ReadError { row, why }
}

/// A session as its rows say it.
struct Session {
    turns: Vec<PlannedTurn>,
    /// When it began, in ns in the recording's own time.
    begins_at: Option<i128>,
    row: usize,
}

/// Checks that a recorded answer precedes each later turn of a session.
fn check_answers(session: &Session) -> Result<(), ReadError> {
    let mut later = (2..).zip(session.turns.iter().skip(1));
    match later.find(|(_, planned)| planned.turn.recorded.is_empty()) {
        None => Ok(()),
        Some((number, _)) => {
            let why = format!(
                "turn {number} has no recorded answer before it, which history=recorded needs; give \
                 whole conversations ({})",
                MESSAGES.join(", ")
            );
            Err(row_error(session.row, why))
        }
    }
}

/// Puts sessions in the order of their recorded times. Returns the times since the first one;
/// `None` if there are none.
fn arrivals(sessions: &mut [Session]) -> Result<Option<Arc<[Nanos]>>, ReadError> {
    let timed = sessions.iter().filter(|session| session.begins_at.is_some()).count();
    if timed == 0 {
        return Ok(None);
    }
    if timed < sessions.len() {
        return Err(row_error(0, "some sessions have a time, but others do not".into()));
    }
    sessions.sort_by_key(|session| session.begins_at);
    let first = sessions.first().and_then(|session| session.begins_at).unwrap_or(0);
    let time = |session: &Session| {
        Nanos::try_from(session.begins_at.unwrap_or(first) - first)
            .map_err(|_| row_error(session.row, "a time of another age".into()))
    };
    sessions.iter().map(time).collect::<Result<Vec<_>, _>>().map(|times| Some(times.into()))
}

/// Takes the turns of a row; none if no message of the row asks for an answer. Returns `None` if
/// `reader` skips its recording.
fn turns_of_row(
    row: &mut Row,
    reader: Option<&mut ConversationReader>,
) -> Result<Option<Vec<PlannedTurn>>, String> {
    let most = match number(row, MOST)? {
        // Servers reject a limit of 0, and a turn cannot be left out of its session.
        None => trace::output_length(row)?.map(|tokens| tokens.max(1)),
        most => most,
    };
    let system = text(row, SYSTEM)?.map(|text| json!({"role": "system", "content": text}));
    let planned = |turn| PlannedTurn { turn, most, members: Map::new() };
    let blank = blank(row, TEXT);
    let mut turns: Vec<PlannedTurn> = if let Some((_, value)) = take(row, &["turns"]) {
        let all = value.as_array().ok_or("`turns` is not a list")?;
        all.iter().map(|turn| listed_turn(turn, most)).collect::<Result<_, _>>()?
    } else if let Some((name, value)) = take(row, MESSAGES) {
        let all = value.as_array().ok_or_else(|| format!("`{name}` is not a list of messages"))?;
        let all = match reader.filter(|_| is_recording(&name, all)) {
            None => all.clone(),
            Some(reader) => match reader.recorded(&name, all)? {
                Some(messages) => messages.iter().map(Message::to_json).collect(),
                None => return Ok(None),
            },
        };
        let messages = all.iter().map(|message| as_message(&name, message));
        let turns = by_answers(messages.collect::<Result<_, _>>()?);
        turns.into_iter().map(planned).collect()
    } else if let Some(text) = text(row, TEXT)? {
        vec![planned(user(&text))]
    } else {
        let there: Vec<&str> = row.keys().map(String::as_str).collect();
        return Err(blank.unwrap_or_else(|| {
            format!(
                "expected messages ({}) or a text ({}), found {}",
                MESSAGES.join(", "),
                TEXT.join(", "),
                there.join(", ")
            )
        }));
    };
    if let (Some(system), Some(first)) = (system, turns.first_mut()) {
        first.turn.messages.insert(0, system);
    }
    let (own, each) = think(row)?;
    for (number, planned) in turns.iter_mut().enumerate() {
        let listed = each.get(number).map(milliseconds).transpose()?;
        planned.turn.think = planned.turn.think.or(listed).or(own);
    }
    Ok(Some(turns))
}

fn user(text: &str) -> RecordedTurn {
    let messages = vec![json!({"role": "user", "content": text})];
    RecordedTurn { messages, ..RecordedTurn::default() }
}

/// Returns a turn of a list `turns`: a text, or an object with a text.
fn listed_turn(turn: &Value, most: Option<u64>) -> Result<PlannedTurn, String> {
    match turn {
        Value::String(said) => Ok(PlannedTurn { turn: user(said), most, members: Map::new() }),
        Value::Object(row) => {
            let mut row = row.clone();
            let said = text(&mut row, &[TEXT, &["content"]].concat())?;
            let said = said.ok_or("an element of `turns` has no text")?;
            let turn = RecordedTurn { think: think(&mut row)?.0, ..user(&said) };
            let most = number(&mut row, MOST)?.or(most);
            Ok(PlannedTurn { turn, most, members: Map::new() })
        }
        _ => Err("an element of `turns` is neither a text nor an object".into()),
    }
}

/// Takes the think time before the turn of a row, or those of its turns: `delay` or `think_ms`, in
/// ms.
fn think(row: &mut Row) -> Result<(Option<Nanos>, Vec<Value>), String> {
    match take(row, &["delay", "delay_ms", "think_ms"]) {
        Some((_, Value::Array(each))) => Ok((None, each)),
        Some((_, value)) => Ok((Some(milliseconds(&value)?), Vec::new())),
        None => Ok((None, Vec::new())),
    }
}

fn milliseconds(value: &Value) -> Result<Nanos, String> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let most = (u64::MAX / SECOND) as f64 * 1e3;
    let number = number.filter(|ms| (0.0..most).contains(ms));
    let number = number.ok_or_else(|| format!("expected a think time in ms, found {value}"))?;
    Ok((number * MILLISECOND as f64).round() as Nanos)
}

/// Splits messages at the recorded answers. Messages behind the last answer are a turn, too; an
/// answer before the first message of a user is context.
fn by_answers(messages: Vec<Map<String, Value>>) -> Vec<RecordedTurn> {
    let (mut turns, mut turn) = (Vec::new(), RecordedTurn::default());
    let mut asks = false;
    for message in messages {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let is_answer = role == "assistant" && (asks || !turns.is_empty());
        let is_question = matches!(role, "user" | "tool" | "function");
        if is_answer && asks {
            turns.push(std::mem::take(&mut turn));
            asks = false;
        }
        let message = Value::Object(message);
        if !turns.is_empty() {
            turn.recorded.push(message.clone());
        }
        if !is_answer {
            asks |= is_question;
            turn.messages.push(message);
        }
    }
    if asks {
        turns.push(turn);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    fn read(lines: &str) -> Result<Workload, ReadError> {
        read_with(lines, History::Live)
    }

    fn read_with(lines: &str, history: History) -> Result<Workload, ReadError> {
        let rows = Format::JsonLines.rows(lines.as_bytes())?.collect::<Result<Vec<_>, _>>()?;
        Workload::of_conversations(&rows, history)
    }

    /// Returns the roles and contents of each turn of a conversation.
    fn said(workload: &Workload, conversation: usize) -> Vec<String> {
        let message = |message: &Value| {
            let part = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
            format!("{}:{}", part("role"), part("content"))
        };
        let turn =
            |turn: &RecordedTurn| turn.messages.iter().map(message).collect::<Vec<_>>().join(" ");
        workload.conversations[conversation].turns.iter().map(turn).collect()
    }

    #[test]
    fn recorded_answers_separate_turns_and_are_left_out() {
        let workload = read(
            r#"{"messages": [{"role":"system","content":"s"},{"role":"user","content":"1"},
                {"role":"assistant","content":"x"},{"role":"user","content":"2"}]}
            {"messages": [{"role":"assistant","content":"hi"},{"role":"user","content":"3"},
                {"role":"assistant","content":"y"},{"role":"assistant","content":"z"}]}
            {"turns": ["4", {"text": "5", "delay": 1500}], "system": "t"}
            {"messages": [{"role":"assistant","content":"alone"}]}
            {"prompt": "6", "max_tokens": 9}"#
                .replace("\n                ", "")
                .as_str(),
        )
        .unwrap();
        assert_eq!(said(&workload, 0), ["system:s user:1", "user:2"]);
        assert_eq!(said(&workload, 1), ["assistant:hi user:3"]);
        assert_eq!(said(&workload, 2), ["system:t user:4", "user:5"]);
        assert_eq!(said(&workload, 3), ["user:6"]);
        assert_eq!((workload.sessions, workload.prompts.len()), (4, 6));
        assert_eq!(workload.prompts[5].max_tokens, Some(9));
        assert_eq!(workload.remarks, ["1 row has no user message and is left out."]);
        let chains = workload.chains(None, None, 1);
        assert_eq!((chains[2].first, &*chains[2].thinks), (3, &[0, 1_500 * MILLISECOND][..]));
    }

    #[test]
    fn recordings_of_sharegpt_are_skipped_as_those_of_single_prompts_are() {
        let workload = read(
            r#"{"conversations": [{"from":"human","value":"1"},{"from":"gpt","value":"x"},
                {"from":"human","value":"2"},{"from":"gpt","value":"y"}]}
            {"conversations": [{"from":"human","value":"alone"}]}
            {"conversations": [{"from":"gpt","value":"hi"},{"from":"human","value":"3"}]}
            {"conversations": []}
            {"conversations": [{"from":"human","value":"4"},{"from":"bard","value":"z"},
                {"from":"human","value":" "},{"from":"gpt","value":"?"}]}
            {"session_id": 7, "conversations": [{"from":"human","value":"5"}]}"#
                .replace("\n                ", "")
                .as_str(),
        )
        .unwrap();
        let all: Vec<Vec<String>> = (0..3).map(|at| said(&workload, at)).collect();
        assert_eq!(workload.conversations.len(), 3);
        assert_eq!(all, [vec!["user:1", "user:2"], vec!["user:4"], vec!["user:5"]]);
        assert_eq!(
            workload.remarks,
            ["Conversations: 2 rows: skipped: fewer than two turns; 1 row: skipped: they begin \
              with an answer; 1 row: truncated before a message without text."]
        );
        let short = read(r#"{"conversations": [{"from":"human","value":"alone"}]}"#).unwrap_err();
        assert!(short.to_string().contains("1 row: skipped"), "{short}");
    }

    #[test]
    fn results_of_tools_belong_to_the_turn_after_their_call() {
        let line = r#"{"messages": [{"role":"user","content":"1"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"a"}]},
            {"role":"tool","tool_call_id":"a","content":"r"},
            {"role":"assistant","content":"x"}]}"#;
        let workload = read(&line.replace('\n', "")).unwrap();
        assert_eq!(said(&workload, 0), ["user:1", "tool:r"]);
    }

    #[test]
    fn a_recorded_history_has_every_message_in_order() {
        let line = r#"{"messages": [{"role":"system","content":"s"},{"role":"user","content":"1"},
            {"role":"assistant","content":"a"},{"role":"assistant","content":"b"},
            {"role":"system","content":"t"},{"role":"user","content":"2"},
            {"role":"assistant","content":"c"}]}"#;
        let line = line.replace('\n', "");
        let workload = read_with(&line, History::Recorded).unwrap();
        assert_eq!(said(&workload, 0), ["system:s user:1", "system:t user:2"]);
        let turns = &workload.conversations[0].turns;
        let contents = |turn: &RecordedTurn| -> Vec<String> {
            turn.recorded.iter().map(|message| message["content"].to_string()).collect()
        };
        assert_eq!(contents(&turns[1]), [r#""a""#, r#""b""#, r#""t""#, r#""2""#]);
        assert!(read(&line).unwrap().conversations[0].turns[1].recorded.is_empty());
        let without = read_with(r#"{"turns": ["1", "2"]}"#, History::Recorded).unwrap_err();
        assert!(
            without.to_string().contains("turn 2 has no recorded answer before it"),
            "{without}"
        );
        read_with(r#"{"turns": ["1"]}"#, History::Recorded).unwrap();
    }

    #[test]
    fn rows_of_one_session_are_its_turns_and_its_first_time_is_its_beginning() {
        let workload = read(
            r#"{"session_id": "b", "prompt": "1", "timestamp": 2000}
            {"session_id": "a", "prompt": "2", "timestamp": 500}
            {"session_id": "b", "prompt": "3", "timestamp": 9000, "delay": 250}"#,
        )
        .unwrap();
        assert_eq!(said(&workload, 0), ["user:2"]);
        assert_eq!(said(&workload, 1), ["user:1", "user:3"]);
        assert_eq!(workload.arrivals.as_deref(), Some(&[0, 1_500 * MILLISECOND][..]));
        let chains = workload.chains(Some(ThinkTimes(Lengths::Fixed(7))), None, 1);
        assert_eq!(chains[1].thinks[1], 250 * MILLISECOND);
        let remarks = workload.remarks.join(" ");
        assert!(remarks.contains("recorded times of 1 later turns are not used"), "{remarks}");
    }

    #[test]
    fn what_is_no_conversation_is_reported_with_its_row() {
        let of = |lines: &str| read(lines).unwrap_err().to_string();
        assert!(
            of(r#"{"prompt": "a"}
            {"x": 1}"#)
            .starts_with("row 2: expected messages")
        );
        assert!(of(r#"{"turns": [7]}"#).contains("neither a text nor an object"));
        assert!(of(r#"{"turns": ["a"], "think_ms": -1}"#).contains("think time in ms"));
        assert!(of(r#"{"messages": [{"role":"user"}]}"#).contains("no `content`"));
        assert!(of(r#"{"messages": [{"role":"assistant","content":"x"}]}"#).contains("no conver"));
    }

    #[test]
    fn synthetic_conversations_have_their_turns_and_lengths() {
        let made = SyntheticConversations {
            count: 5,
            turns: Lengths::Uniform(2, 4),
            input: Lengths::Fixed(6),
            output: Some(Lengths::Fixed(3)),
            prefix: 8,
            seed: 2,
        };
        let workload = made.workload().unwrap();
        assert_eq!(workload.conversations.len(), 5);
        for conversation in 0..5 {
            let turns = said(&workload, conversation);
            assert!((2..=4).contains(&turns.len()));
            assert!(turns[0].starts_with("system:") && turns[1].starts_with("user:"));
            assert!(turns[1..].iter().all(|turn| turn.split(' ').count() == 6));
        }
        assert!(workload.prompts.iter().all(|prompt| prompt.max_tokens == Some(3)));
        let few = SyntheticConversations { count: 2, ..made }.workload().unwrap();
        assert_eq!(few.conversations[..], workload.conversations[..2]);
        let think = ThinkTimes(Lengths::Uniform(5, 9));
        let chains = workload.chains(Some(think), None, 3);
        let all = chains.iter().flat_map(|chain| chain.thinks[1..].iter());
        assert!(all.clone().count() > 4 && all.clone().all(|ns| (5_000..=9_000).contains(ns)));
    }
}
