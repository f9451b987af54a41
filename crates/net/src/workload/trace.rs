//! Recorded traces: times of requests, their lengths, and shared prefixes.
//!
//! Supported are the columns of published traces: Mooncake (`timestamp` in ms, `input_length`,
//! `output_length`, `hash_ids` of blocks of 512 tokens), Azure (`TIMESTAMP` as a date,
//! `ContextTokens`, `GeneratedTokens`), and BurstGPT (`Timestamp` in s, `Request tokens`, `Response
//! tokens`).

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};
use dyno_loadgen::rng::Mt19937;
use serde_json::Value;

use super::Workload;
use super::members::RowCount;
use super::read::Row;
use super::rows::{number, take};
use super::synthetic::{Shape, Text};
use crate::openai::Input;

const INPUT: &[&str] =
    &["input_length", "ContextTokens", "Request tokens", "prompt_len", "prompt_tokens"];
const OUTPUT: &[&str] =
    &["output_length", "GeneratedTokens", "Response tokens", "output_len", "completion_tokens"];
/// Tokens of a block that `hash_ids` names.
const BLOCK: u64 = 512;

/// Takes the number of output tokens of a recorded request.
pub(super) fn output_length(row: &mut Row) -> Result<Option<u64>, String> {
    number(row, OUTPUT)
}

/// State of reading a recorded trace.
pub(super) struct TraceReader {
    shape: Shape,
    rng: Mt19937,
    seed: u64,
    /// Send time of each prompt, in ns in the trace's own time, with its row.
    times: Vec<(i128, usize)>,
    rows: usize,
    made_up: usize,
    /// Rows without a token of output, which are skipped.
    without_output: usize,
}

impl TraceReader {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        let rng = Mt19937::new(seed);
        Self { shape, rng, seed, times: Vec::new(), rows: 0, made_up: 0, without_output: 0 }
    }

    /// Takes a prompt of the row's length; `None` if the row has none.
    pub(super) fn input(&mut self, row: &mut Row) -> Result<Option<Input>, String> {
        let Some(length) = number(row, INPUT)? else {
            return Ok(None);
        };
        if length == 0 || length > 1 << 30 {
            return Err(format!("a prompt of {length} tokens"));
        }
        let mut text = Text::new(self.shape);
        let mut left = length;
        let hashes = take(row, &["hash_ids"]).map(|(_, value)| value);
        for hash in hashes.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let hash = hash.as_u64().ok_or("`hash_ids` are not a whole numbers")?;
            let block = left.min(BLOCK);
            // Equal blocks are equal texts.
            text.draw(&mut Mt19937::new(!(self.seed ^ hash)), block);
            left -= block;
        }
        text.draw(&mut self.rng, left);
        self.made_up += 1;
        Ok(Some(text.input()))
    }

    /// Skips a row without a token of output, which servers reject: failed requests are recorded so.
    pub(super) fn skip(&mut self) {
        self.rows += 1;
        self.without_output += 1;
    }

    /// Returns a remark on skipped rows, if there are any.
    pub(super) fn remark(&self) -> Option<String> {
        let rows = RowCount(self.without_output);
        (self.without_output > 0).then(|| format!("Trace: {rows}: skipped: no output tokens."))
    }

    /// Records the send time of the prompts of a row.
    pub(super) fn time(&mut self, row: &mut Row, prompts: usize) -> Result<(), String> {
        self.rows += 1;
        if let Some(at) = time(row)? {
            self.times.extend((0..prompts).map(|_| (at, self.rows)));
        }
        Ok(())
    }

    /// Sets the send times of the workload: since the first prompt, in order.
    pub(super) fn finish(self, workload: &mut Workload) -> Result<(), (usize, String)> {
        if self.made_up > 0 {
            let remark = match self.shape {
                Shape::Words => {
                    "Prompts are random words with the lengths of the trace, about one token per \
                     word."
                }
                Shape::Numbers(_) => "Prompts are random tokens with the lengths of the trace.",
            };
            workload.remarks.push(remark.into());
        }
        if self.times.is_empty() {
            return Ok(());
        }
        if self.times.len() != workload.prompts.len() {
            return Err((0, "some rows have a time, but others do not".into()));
        }
        let mut order: Vec<usize> = (0..self.times.len()).collect();
        order.sort_by_key(|&at| self.times[at].0);
        let (first, _) = self.times[order[0]];
        let arrivals = order.iter().map(|&at| {
            let (time, row) = self.times[at];
            Nanos::try_from(time - first).map_err(|_| (row, "a time of another age".to_owned()))
        });
        workload.arrivals = Some(arrivals.collect::<Result<Vec<Nanos>, _>>()?.into());
        workload.prompts = order.iter().map(|&at| workload.prompts[at].clone()).collect();
        Ok(())
    }
}

/// Takes the time of a row, in ns.
pub(super) fn time(row: &mut Row) -> Result<Option<i128>, String> {
    let columns = [
        ("timestamp", MILLISECOND),
        ("Timestamp", SECOND),
        ("TIMESTAMP", SECOND),
        ("arrival_time", SECOND),
        ("timestamp_ms", MILLISECOND),
    ];
    let found = columns.iter().find_map(|(name, unit)| Some((take(row, &[name])?, *unit)));
    let Some(((name, value), unit)) = found else {
        return Ok(None);
    };
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let at = match (number, value.as_str()) {
        (Some(number), _) if number.is_finite() => Some((number * unit as f64).round() as i128),
        (None, Some(text)) => date(text.trim()),
        _ => None,
    };
    at.map(Some).ok_or_else(|| format!("`{name}` is neither a number nor a date: {value}"))
}

/// Parses `YYYY-MM-DD HH:MM:SS[.FRACTION]` to ns since 1970; ignores a time zone, which is equal in
/// all rows.
fn date(text: &str) -> Option<i128> {
    let (day, time) = text.split_once([' ', 'T'])?;
    let mut parts = day.splitn(3, '-').map(|part| part.parse::<i128>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let time = time.split(['+', 'Z']).next()?;
    let mut parts = time.splitn(3, ':');
    let (hours, minutes) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?);
    let (seconds, fraction) = {
        let seconds = parts.next()?;
        seconds.split_once('.').unwrap_or((seconds, ""))
    };
    let seconds = seconds.parse::<u32>().ok()?;
    if hours > 23 || minutes > 59 || seconds > 60 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = format!("{fraction:0<9}")[..9].parse::<i128>().ok()?;
    // Days from the civil calendar, years that begin in March (H. Hinnant, "chrono-Compatible
    // Low-Level Date Algorithms").
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let seconds = i128::from(hours * 3600 + minutes * 60 + seconds);
    Some((days * 86_400 + seconds) * i128::from(SECOND) + fraction)
}

#[cfg(test)]
mod tests {
    use super::super::{Format, RowOptions};
    use super::*;
    use crate::openai::Api;

    fn workload(format: Format, text: &str) -> Workload {
        let options = RowOptions { shape: Shape::Numbers(1000), seed: 3, ..RowOptions::default() };
        Workload::of_rows(format.rows(text).unwrap(), &options).unwrap()
    }

    fn tokens(workload: &Workload, prompt: usize) -> &[u64] {
        match &workload.prompts[prompt].input {
            Input::Tokens(all) => all,
            _ => &[],
        }
    }

    #[test]
    fn equal_blocks_of_a_trace_are_equal_tokens() {
        let lines = "{\"timestamp\":0,\"input_length\":600,\"output_length\":5,\"hash_ids\":[7,8]}\n\
                     {\"timestamp\":27.5,\"input_length\":520,\"output_length\":9,\"hash_ids\":[7,9]}";
        let workload = workload(Format::JsonLines, lines);
        assert_eq!(workload.arrivals.as_deref(), Some(&[0, 27_500_000][..]));
        let (one, two) = (tokens(&workload, 0), tokens(&workload, 1));
        assert_eq!((one.len(), two.len()), (600, 520));
        assert_eq!(one[..512], two[..512]);
        assert_ne!(one[512..520], two[512..]);
        assert_eq!(workload.prompts[1].max_tokens, Some(9));
        assert_eq!(workload.schedule(10.0).as_deref(), Some(&[0, 2_750_000][..]));
    }

    #[test]
    fn dates_are_times_and_rows_are_put_in_their_order() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                    2023-11-17 00:00:00.25,8,2\n2023-11-16 23:59:59.5000000,4,1\n";
        let workload = workload(Format::Csv, text);
        assert_eq!(workload.arrivals.as_deref(), Some(&[0, 750_000_000][..]));
        assert_eq!(tokens(&workload, 0).len(), 4);
        assert_eq!(date("1970-01-02T00:00:01Z"), Some(86_401 * i128::from(SECOND)));
        assert_eq!(date("2000-03-01 00:00:00"), Some(951_868_800 * i128::from(SECOND)));
        for odd in ["2000-13-01 00:00:00", "2000-01-01", "2000-01-01 25:00:00", "x y:z:w"] {
            assert_eq!(date(odd), None, "{odd}");
        }
    }

    #[test]
    fn seconds_of_a_burst_are_seconds() {
        let text = "Timestamp,Request tokens,Response tokens\n5,3,1\n7.5,3,1\n";
        let workload = workload(Format::Csv, text);
        assert_eq!(workload.arrivals.as_deref(), Some(&[0, 2_500_000_000][..]));
    }

    #[test]
    fn requests_without_output_are_skipped_and_counted() {
        let text = "Timestamp,Request tokens,Response tokens\n1,3,0\n5,3,1\n6,4,0\n7.5,3,2\n";
        let read = workload(Format::Csv, text);
        assert_eq!(read.arrivals.as_deref(), Some(&[0, 2_500_000_000][..]));
        let limits: Vec<_> = read.prompts.iter().map(|prompt| prompt.max_tokens).collect();
        assert_eq!(limits, [Some(1), Some(2)]);
        let remark = "Trace: 2 rows: skipped: no output tokens.";
        assert!(read.remarks.iter().any(|text| text == remark), "{:?}", read.remarks);
        let rows = |text: &str| Format::Csv.rows(text).unwrap();
        let none = "Timestamp,Request tokens,Response tokens\n1,3,0\n";
        let error = Workload::of_rows(rows(none), &RowOptions::default()).unwrap_err();
        assert!(error.to_string().contains("1 row: skipped"), "{error}");
        // A vector is no output token.
        let options = RowOptions { api: Some(Api::Embeddings), ..RowOptions::default() };
        let vectors = Workload::of_rows(rows(none), &options).unwrap();
        assert_eq!(vectors.prompts.len(), 1);
    }

    #[test]
    fn a_time_must_be_one_in_all_rows() {
        let rows = Format::JsonLines
            .rows(b"{\"timestamp\":0,\"input_length\":1}\n{\"input_length\":1}")
            .unwrap();
        let error = Workload::of_rows(rows, &RowOptions::default()).unwrap_err();
        assert!(error.to_string().contains("others do not"));
    }
}
