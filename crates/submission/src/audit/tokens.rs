//! TEST06 and TEST09: check that reported tokens are in the answers, and that answers have the
//! required length.

use std::path::Path;

use dyno_loadgen::log::read::AccuracyEntry;
use dyno_loadgen::settings::Scenario;
use dyno_tensors::Element;

use super::data::{read_entries, value};
use super::plan::AuditPlan;
use super::reason::Reason;
use super::text::{self, truth, verdict};
use super::{Figure, Part, Verdict, VerdictFile};

/// Answers with one kind of fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Faults {
    count: u64,
    first: u64,
}

impl Faults {
    fn add(&mut self, sample: u64) {
        if self.count == 0 {
            self.first = sample;
        }
        self.count += 1;
    }

    fn reason(self, make: impl Fn(u64, u64) -> Reason) -> Option<Reason> {
        (self.count > 0).then(|| make(self.count, self.first))
    }
}

/// Faults found by one version of TEST06.
#[derive(Debug, Default)]
struct Findings {
    first_token: Faults,
    end_of_text: Faults,
    token_count: Faults,
    malformed: Faults,
}

impl Findings {
    fn reasons(&self) -> Vec<Reason> {
        let all = [
            self.first_token.reason(|count, first| Reason::FirstToken { count, first }),
            self.end_of_text.reason(|count, first| Reason::EndOfText { count, first }),
            self.token_count.reason(|count, first| Reason::TokenCount { count, first }),
            self.malformed.reason(|count, first| Reason::Malformed { count, first }),
        ];
        all.into_iter().flatten().collect()
    }
}

/// TEST06: checks first tokens, the end of the text, and the token count.
pub(super) fn consistency(
    audited: &Path,
    element: Element,
    end_of_text: i64,
    plan: &AuditPlan,
    wrong: Vec<Reason>,
    notes: &mut Vec<String>,
) -> Part {
    let name = "tokens";
    // Offline has no first tokens.
    let has_first = plan.scenario != Scenario::Offline;
    let format = AnswerFormat { element, end_of_text: end_of_text as f64, has_first };
    let (mut corrected, mut official) = (Findings::default(), Findings::default());
    let (mut entries, mut counted) = (0_u64, 0_u64);
    let read = read_entries(audited, |entry| {
        entries += 1;
        counted += u64::from(entry.token_count.is_some());
        record_faults(&entry, format, &mut corrected, &mut official);
    });
    if let Err(reason) = read {
        return Part::failed(name, text::ACCURACY, &reason);
    }
    if entries > 0 && counted == 0 {
        notes.push("No answer has a token count; run with use_token_latencies.".into());
    }
    let mut reasons = corrected.reasons();
    reasons.extend(too_few(entries, plan.logged()));
    reasons.extend(wrong);
    let passes =
        |faults: fn(&Findings) -> Faults| faults(&corrected).count + faults(&official).count == 0;
    let first = if has_first { truth(passes(|found| found.first_token)) } else { "Skipped" };
    let is_passed = reasons.is_empty() && official.reasons().is_empty();
    let text = format!(
        "First token check pass: {first}\nEOS check pass: {}\nSample length check pass: {}\n\
         TEST06 verification {}\n",
        truth(passes(|found| found.end_of_text)),
        truth(entries > 0 && passes(|found| found.token_count) && passes(|found| found.malformed)),
        if is_passed { "complete" } else { "failed" }
    );
    Part {
        name,
        corrected: Verdict::from_reasons(reasons),
        official: Verdict::from_reasons(official.reasons()),
        figures: vec![Figure { name: "logged answers", value: entries as f64, unit: "" }],
        file: Some(VerdictFile { path: text::ACCURACY, text }),
    }
}

/// Format of the answers that TEST06 reads.
#[derive(Clone, Copy)]
struct AnswerFormat {
    element: Element,
    /// Token that ends a text.
    end_of_text: f64,
    /// Whether first tokens are reported.
    has_first: bool,
}

/// Records the faults of one answer.
fn record_faults(
    entry: &AccuracyEntry,
    format: AnswerFormat,
    corrected: &mut Findings,
    official: &mut Findings,
) {
    let sample = entry.qsl_idx;
    let Some(tokens) = elements(&entry.data, format.element) else {
        corrected.malformed.add(sample);
        official.malformed.add(sample);
        return;
    };
    if format.has_first {
        let (whole, script) = first_tokens(entry, format.element);
        if !whole {
            corrected.first_token.add(sample);
        }
        if !script {
            official.first_token.add(sample);
        }
    }
    if !ends_once(&tokens, format.end_of_text) {
        corrected.end_of_text.add(sample);
    }
    if trailing(&tokens, format.end_of_text) >= 2 {
        official.end_of_text.add(sample);
    }
    if i64::try_from(tokens.len()).ok() != entry.token_count {
        corrected.token_count.add(sample);
        official.token_count.add(sample);
    }
}

/// Returns a reason if fewer answers were logged than required.
fn too_few(found: u64, expected: u64) -> Option<Reason> {
    match found {
        0 => Some(Reason::NothingLogged),
        _ => (found < expected).then_some(Reason::TooFew { found, expected }),
    }
}

/// Returns the elements of an answer, or `None` if its length is not a whole number of elements.
fn elements(data: &[u8], element: Element) -> Option<Vec<f64>> {
    data.chunks(element.size()).map(|bytes| value(element, bytes)).collect()
}

/// Whether an answer starts with the reported first tokens, and whether the script accepts it.
/// The script accepts an empty report.
fn first_tokens(entry: &AccuracyEntry, element: Element) -> (bool, bool) {
    let Some(first) = &entry.token_data else { return (false, false) };
    if !first.len().is_multiple_of(element.size()) {
        return (false, false);
    }
    let both = first.len().min(entry.data.len());
    (!first.is_empty() && entry.data.starts_with(first), first[..both] == entry.data[..both])
}

/// Returns how many end-of-text tokens an answer ends with, ignoring the first element, as the
/// script counts them.
fn trailing(tokens: &[f64], end: f64) -> usize {
    tokens.iter().skip(1).rev().take_while(|token| **token == end).count()
}

/// Whether a text ends at most once, with its last token. The script allows `[end, end]` for
/// models that start with the end token.
fn ends_once(tokens: &[f64], end: f64) -> bool {
    let ends = tokens.iter().filter(|token| **token == end).count();
    ends == 0 || (ends == 1 && tokens.last() == Some(&end)) || (ends == 2 && tokens.len() == 2)
}

/// TEST09: checks the mean number of tokens; each token is an `int32`.
pub(super) fn length(
    audited: &Path,
    plan: &AuditPlan,
    samples: Option<u64>,
    wrong: Vec<Reason>,
) -> Part {
    const TOKEN_BYTES: usize = 4;
    let (mut entries, mut sum, mut fewest, mut most) = (0_u64, 0_u64, u64::MAX, 0_u64);
    let mut squares = 0.0;
    let mut malformed = Faults::default();
    let mut distinct = std::collections::HashSet::new();
    let read = read_entries(audited, |entry| {
        let tokens = (entry.data.len() / TOKEN_BYTES) as u64;
        if !entry.data.len().is_multiple_of(TOKEN_BYTES) {
            malformed.add(entry.qsl_idx);
        }
        distinct.insert(entry.qsl_idx);
        entries += 1;
        sum += tokens;
        squares += (tokens * tokens) as f64;
        fewest = fewest.min(tokens);
        most = most.max(tokens);
    });
    if let Err(reason) = read {
        return Part::failed("length", text::OUTPUT_LENGTH, &reason);
    }
    let mean = if entries == 0 { 0.0 } else { sum as f64 / entries as f64 };
    let mut official = Vec::new();
    match plan.mean_tokens {
        _ if entries == 0 => official.push(Reason::NothingLogged),
        None => official.push(Reason::NoBound { what: "number of tokens" }),
        Some(bounds) if mean < bounds[0] || mean > bounds[1] => {
            official.push(Reason::MeanTokens { found: mean, bounds });
        }
        Some(_) => {}
    }
    let mut corrected = official.clone();
    corrected.extend(malformed.reason(|count, first| Reason::Malformed { count, first }));
    corrected.extend(match samples {
        Some(samples) => too_few(distinct.len() as u64, samples),
        None => too_few(entries, plan.logged()),
    });
    corrected.extend(wrong);
    let deviation = (squares / (entries.max(1) as f64) - mean * mean).max(0.0).sqrt();
    let bounds = plan.mean_tokens.unwrap_or([0.0, 0.0]);
    let text = format!(
        "TEST09: Verify Output Token Length in Performance Mode\nTotal samples: {entries}\n\
         Mean output tokens: {mean:.2}\nMin output tokens: {}\nMax output tokens: {most}\n\
         Std deviation: {deviation:.2}\nMin threshold: {}\nMax threshold: {}\n\
         Min check pass: {}\nMax check pass: {}\n{}\n",
        if entries == 0 { 0 } else { fewest },
        bounds[0],
        bounds[1],
        truth(mean >= bounds[0]),
        truth(mean <= bounds[1]),
        verdict(corrected.is_empty())
    );
    Part {
        name: "length",
        corrected: Verdict::from_reasons(corrected),
        official: Verdict::from_reasons(official),
        figures: vec![
            Figure { name: "logged answers", value: entries as f64, unit: "" },
            Figure { name: "mean length", value: mean, unit: "tokens" },
        ],
        file: Some(VerdictFile { path: text::OUTPUT_LENGTH, text }),
    }
}
