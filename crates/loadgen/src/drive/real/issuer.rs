//! Issues queries to the system under test and records when.

use super::StartedRun;
use super::lag::ClientLag;
use crate::clock::Nanos;
use crate::session::{Issue, Session};
use crate::sut::{QuerySample, ResponseId, SampleMemory, Slab, SystemUnderTest};

/// Columns that one issuing thread records per query.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) issued_at: Vec<Nanos>,
    pub(super) client_lag: Vec<u32>,
    /// Samples issued.
    pub(super) samples: usize,
}

/// Issues queries to the system.
pub(super) struct Issuer {
    pub(super) tenants: Vec<Columns>,
    /// Memory of the system; the samples of a query are at its start.
    memory: SampleMemory,
    /// Used instead if more queries coalesce than `memory` has room for.
    coalesced: Vec<QuerySample>,
    /// The query that `memory` already holds: tenant, number of its first sample, number of
    /// samples. Offline issues millions of samples, whose list must be built before the timed part;
    /// Server queries are built while the thread waits for their due time.
    built: Option<(usize, u64, usize)>,
    /// Splits the lateness of queries into the client's part and the system's.
    pub(super) lag: ClientLag,
    /// Whether it writes notes for observers; only one thread may.
    pub(super) is_noted: bool,
}

impl Issuer {
    /// Returns an issuer with memory for all generated queries.
    pub(super) fn new(session: &Session, epoch: u16, system: &dyn SystemUnderTest) -> Self {
        let columns = |tenant| {
            let queries = session.generated_queries(tenant);
            let paced = session.has_schedule(tenant);
            Columns {
                issued_at: touched(queries, 1),
                client_lag: if paced { touched(queries, 1) } else { Vec::new() },
                samples: 0,
            }
        };
        let largest = (0..session.tenant_count()).map(|t| session.samples_per_query(t)).max();
        let mut issuer = Self {
            tenants: (0..session.tenant_count()).map(columns).collect(),
            memory: system.sample_memory(largest.unwrap_or(1)),
            coalesced: Vec::new(),
            built: None,
            lag: ClientLag::default(),
            is_noted: true,
        };
        if let Some(first) = session.upcoming() {
            issuer.build(&first, epoch);
        }
        issuer
    }

    /// Lists the samples of a query, unless `memory` already holds it.
    #[inline]
    fn build(&mut self, issue: &Issue<'_>, epoch: u16) {
        let samples_per_query = issue.indices.len() / issue.queries;
        let first = issue.first_query * samples_per_query as u64;
        let wanted = Some((issue.tenant, first, issue.indices.len()));
        if self.built == wanted {
            return;
        }
        self.built = wanted;
        let listed = if issue.indices.len() <= self.memory.len() {
            &mut self.memory[..]
        } else {
            self.coalesced.resize(issue.indices.len(), QuerySample { id: ResponseId(0), index: 0 });
            &mut self.coalesced[..]
        };
        let mut first = first;
        let listed = listed.chunks_exact_mut(samples_per_query);
        for (indices, samples) in issue.indices.chunks_exact(samples_per_query).zip(listed) {
            let ids = ResponseId::new(epoch, issue.tenant as u8, first).0..;
            for ((sample, &index), id) in samples.iter_mut().zip(indices).zip(ids) {
                *sample = QuerySample { id: ResponseId(id), index: u64::from(index) };
            }
            first += issue.stride * samples_per_query as u64;
        }
    }

    /// Prepares a query before it is due. Returns its tenant's slab and the number of samples
    /// issued up to and including the query.
    #[inline]
    pub(super) fn prepare<'r>(
        &mut self,
        run: &'r StartedRun,
        issue: &Issue<'_>,
    ) -> (&'r Slab, u64) {
        self.build(issue, run.epoch);
        let samples_per_query = issue.indices.len() / issue.queries;
        let last_query = issue.first_query + (issue.queries as u64 - 1) * issue.stride;
        let end = (last_query + 1) * samples_per_query as u64;
        let slab = &run.responder.run.slabs[issue.tenant];
        slab.provide(end as usize);
        (slab, end)
    }

    #[inline]
    pub(super) fn hand_over(&mut self, run: &StartedRun, issue: &Issue<'_>, now: Nanos) {
        let (slab, end) = self.prepare(run, issue);
        if issue.stride == 1 {
            slab.admit(end);
        } else {
            slab.admit_at_least(end);
        }
        if let Some(ramp) = slab.ramp() {
            for (at, query) in (0..issue.queries as u64).enumerate() {
                let due = issue.scheduled.get(at).copied().unwrap_or(now);
                ramp.note(issue.first_query + query * issue.stride, due);
            }
        }
        let samples = issue.indices.len();
        let listed = if samples <= self.memory.len() { &self.memory } else { &self.coalesced[..] };
        run.system.issue(&listed[..samples], &run.responder);

        // Recorded after the call, so that it does not delay the query.
        if issue.stride != 1 {
            run.monitor.count_of_lane(issue.queries as u64);
        }
        let number = self.tenants[issue.tenant].issued_at.len() as u64;
        if run.responder.run.notes.wants(number) || issue.queries > 1 {
            self.note(run, issue, now);
        }
        let columns = &mut self.tenants[issue.tenant];
        columns.issued_at.resize(columns.issued_at.len() + issue.queries, now);
        for &due in issue.scheduled {
            let lag = self.lag.of_query(due.max(issue.ready_at), now);
            columns.client_lag.push(u32::try_from(lag).unwrap_or(u32::MAX));
        }
        if let Some(&last) = issue.scheduled.last() {
            self.lag.issued(last.max(issue.ready_at), now);
        }
        columns.samples += issue.indices.len();
    }

    /// Writes the notes of a call at `now` for observers.
    #[cold]
    #[inline(never)]
    fn note(&self, run: &StartedRun, issue: &Issue<'_>, now: Nanos) {
        if !self.is_noted {
            return;
        }
        let samples_per_query = (issue.indices.len() / issue.queries) as u64;
        let number = self.tenants[issue.tenant].issued_at.len() as u64;
        run.responder.run.notes.write(number, issue.queries as u64, |i| {
            let sequence = (issue.first_query + i * issue.stride) * samples_per_query;
            let first = ResponseId::new(run.epoch, issue.tenant as u8, sequence);
            match issue.scheduled.get(i as usize) {
                Some(&due) => (first, due, Some(self.lag.of_query(due.max(issue.ready_at), now))),
                None => (first, now, None),
            }
        });
    }
}

/// Returns an empty vector whose memory has been written to, so that page faults occur before the
/// timed part.
///
/// `value` must not be zero, because the allocator provides zeroed memory without touching it.
fn touched<T: Clone>(capacity: usize, value: T) -> Vec<T> {
    let mut column = vec![value; capacity];
    column.clear();
    column
}
