//! Closed loops of Server, which LoadGen does not have: a fixed number of queries is in flight. Sources:
//! FIDELITY = docs/fidelity.md ("end of a fixed concurrency"), SPEC 3.3 (size of the trace).

use super::early_stopping::Tri;
use super::{Findings, Observation, Settings};

/// Returns whether the run met its minimum duration. `last_issue`: when its last query was issued.
pub(super) fn is_long_enough(s: &Settings, o: &Observation, last_issue: u64) -> Tri {
    if last_issue >= s.min_duration_ns {
        return Some(true);
    }
    let queries = o.queries.len() as u64;
    // FIDELITY: it issues until the duration is over. What ended this run before?
    let is_capped = (s.max_query_count != 0 && queries >= s.max_query_count)
        || (s.max_duration_ns != 0 && last_issue > s.max_duration_ns);
    if queries < s.min_query_count || is_capped {
        return Some(false);
    }
    if trace_size(s).is_none_or(|size| queries < size) {
        return Some(true);
    }
    // The trace was over, unless the client first saw that the duration was.
    o.continued_ns.map(|continued| continued >= s.min_duration_ns)
}

/// Reports a query that was issued when the duration was over.
pub(super) fn check_issuing(s: &Settings, o: &Observation, out: &mut Findings) {
    let needed = s.min_query_count.max(1) as usize;
    let mut further = o.queries.iter().enumerate().skip(needed);
    let late = further.find(|(_, query)| query.scheduled_ns >= s.min_duration_ns);
    if let Some((number, query)) = late {
        out.add(
            "issuing",
            format!("no query after {} ns", s.min_duration_ns),
            format!("query {number} at {} ns", query.scheduled_ns),
            "FIDELITY: no query is issued after the duration",
        );
    }
}

/// Returns the number of queries in the trace; `None` if it goes on as long as the run needs it.
fn trace_size(s: &Settings) -> Option<u64> {
    if s.issue_unique {
        return Some(s.performance_sample_count);
    }
    if s.continues_trace {
        return None;
    }
    let (set, period) = (s.performance_sample_count, (1e9 * (1.0 / s.target_qps)) as u64);
    // Due times are 0, period, 2 x period, ...; the last one is not before the duration.
    let until = if period == 0 { u64::MAX } else { s.min_duration_ns.div_ceil(period) + 1 };
    let until = if s.min_duration_ns == 0 { 0 } else { until };
    if s.equal_issue {
        // SPEC 3.3: a whole number of sets, of which the last begins before the duration is over.
        return Some(s.min_query_count.max(until).next_multiple_of(set));
    }
    Some(s.min_query_count.max(until))
}
