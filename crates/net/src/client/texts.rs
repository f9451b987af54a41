//! Texts of the answers of a run, kept on request.

use std::sync::{Mutex, PoisonError};

use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::sut::ResponseId;

use super::{Client, ClientCore, Job};
use crate::secrets;
use crate::trouble::Trouble;

/// A request of a run and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerText {
    /// Number of the request in its run, from 0.
    pub sequence: u64,
    /// Sample that was sent.
    pub sample: SampleIndex,
    /// The text, or why there is none.
    pub answer: Result<String, String>,
}

/// Answers since the last call of [`Texts::take`].
#[derive(Debug, Default)]
pub(super) struct Texts(Mutex<Vec<(ResponseId, AnswerText)>>);

impl Texts {
    fn keep(&self, job: Job, answer: Result<String, String>) {
        let (sequence, sample) = (job.id.sequence(), job.index);
        let text = AnswerText { sequence, sample, answer };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((job.id, text));
    }

    /// Returns those of a tenant in one run, in the order of their requests, and forgets those of
    /// earlier runs.
    fn take(&self, run: u64, tenant: u8) -> Vec<AnswerText> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(id, _)| id.run() >> 8 == run);
        let is_wanted = |id: &ResponseId| id.tenant() == tenant;
        let mut texts: Vec<AnswerText> =
            kept.extract_if(.., |(id, _)| is_wanted(id)).map(|(_, text)| text).collect();
        texts.sort_by_key(|text| text.sequence);
        texts
    }
}

impl ClientCore {
    /// Keeps an answer, or the reason why there is none, if texts are kept. Secrets are hidden: a
    /// server may repeat them.
    pub(super) fn keep_text(&self, job: Job, answer: Result<&[u8], &str>) {
        let Some(texts) = &self.texts else { return };
        let text = answer.map(|bytes| self.hidden(&String::from_utf8_lossy(bytes)));
        texts.keep(job, text.map_err(|why| self.hidden(why)));
    }

    /// Counts a connection that could not be made. A proxy may repeat its login in the reason.
    pub(super) fn counts_no_connection(&self, trouble: &Trouble) {
        self.counters.no_connection(&Trouble::new(trouble.kind, self.hidden(&trouble.words)));
    }

    /// Returns a text of a server without secrets of the requests.
    pub(super) fn hidden(&self, text: &str) -> String {
        secrets::hide(text, &self.options.fields, &self.options.secrets)
    }
}

impl Client {
    /// Returns a text of a server without secrets of the requests.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        self.shared.hidden(text)
    }

    /// Returns the texts of a tenant's requests in the last run, once, if
    /// [`Options::keeps_texts`](super::Options::keeps_texts) is set.
    #[must_use]
    pub fn take_texts(&self, tenant: u8) -> Vec<AnswerText> {
        let run = self.shared.ledger.last_run();
        self.shared.texts.as_ref().map_or_else(Vec::new, |texts| texts.take(run, tenant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_own_texts_alone_in_the_order_of_requests() {
        let texts = Texts::default();
        let keep = |run, tenant, sequence, answer: Result<&str, &str>| {
            let id = ResponseId::new(run, tenant, sequence);
            let job = Job { id, index: 7, tries: 0, resent: 0, node: None };
            texts.keep(job, answer.map(Into::into).map_err(Into::into));
        };
        keep(1, 0, 0, Ok("old"));
        keep(2, 0, 1, Err("late"));
        keep(2, 1, 0, Ok("other"));
        keep(2, 0, 0, Ok("new"));
        let run = ResponseId::new(2, 0, 0).run() >> 8;
        let text = |sequence, answer| AnswerText { sequence, sample: 7, answer };
        let expected = vec![text(0, Ok("new".into())), text(1, Err("late".into()))];
        assert_eq!(texts.take(run, 0), expected);
        assert_eq!(texts.take(run, 0), []);
        assert_eq!(texts.take(run, 1), [text(0, Ok("other".into()))]);
    }
}
