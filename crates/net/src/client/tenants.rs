//! Several servers as one system under test, one client per tenant.

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::sut::{InFlight, QuerySample, SampleMemory, SystemUnderTest};

use super::{AnswerText, Client, ClientStatistics, LateRead, Library, RetryTimes};
use crate::ledger::Entry;
use crate::trouble::Trouble;

/// Clients, one of which serves each tenant.
pub struct Clients {
    name: String,
    clients: Vec<Client>,
    /// By tenant; tenants beyond the list use the first client.
    of_tenant: Vec<usize>,
}

impl Clients {
    /// Combines clients; `of_tenant` has the index of each tenant's client.
    ///
    /// # Panics
    /// If there is no client, or an index is out of range.
    pub fn new(clients: Vec<Client>, of_tenant: Vec<usize>) -> Self {
        assert!(!clients.is_empty() && of_tenant.iter().all(|&client| client < clients.len()));
        let names: Vec<&str> = clients.iter().map(SystemUnderTest::name).collect();
        Self { name: names.join(", "), clients, of_tenant }
    }

    #[inline]
    fn client_of(&self, tenant: u8) -> &Client {
        let number = self.of_tenant.get(usize::from(tenant)).copied().unwrap_or(0);
        &self.clients[number]
    }

    /// Checks that each client has a connection to a server, and waits for those that it establishes.
    ///
    /// # Errors
    /// The trouble of the first client without one.
    pub fn reach(&self) -> Result<(), Trouble> {
        self.clients.iter().try_for_each(Client::reach)
    }

    /// Returns the combined statistics of all clients.
    pub fn statistics(&self) -> ClientStatistics {
        let mut all = self.clients.iter().map(Client::statistics);
        let first = all.next().unwrap_or_default();
        all.fold(first, |sum, seen| sum.and(&seen))
    }

    /// Returns [`Client::most_in_flight`] of the tenant's client.
    pub fn most_in_flight(&self, tenant: u8) -> Option<usize> {
        self.client_of(tenant).most_in_flight()
    }

    /// Returns [`Client::limit_in_flight`] of the tenant's client.
    pub fn limit_in_flight(&self, tenant: u8) -> Option<usize> {
        self.client_of(tenant).limit_in_flight()
    }

    /// Returns [`Client::streams`] of the tenant's client.
    pub fn streams(&self, tenant: u8) -> Option<usize> {
        self.client_of(tenant).streams()
    }

    /// Returns whether a client gives requests up on purpose.
    pub fn cancels(&self) -> bool {
        self.clients.iter().any(Client::cancels)
    }

    /// Returns [`Client::held`] of the tenant's client.
    pub fn held(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.client_of(tenant).held(tenant, samples)
    }

    /// Returns [`Client::retries`] of the tenant's client.
    pub fn retries(&self, tenant: u8, samples: usize) -> Vec<u64> {
        self.client_of(tenant).retries(tenant, samples)
    }

    /// Returns [`Client::retry_waits`] of the tenant's client.
    pub fn retry_waits(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.client_of(tenant).retry_waits(tenant, samples)
    }

    /// Returns [`Client::retry_times`] of the tenant's client.
    pub fn retry_times(&self, tenant: u8, samples: usize) -> Vec<RetryTimes> {
        self.client_of(tenant).retry_times(tenant, samples)
    }

    /// Returns [`Client::accepted`] of the tenant's client.
    pub fn accepted(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.client_of(tenant).accepted(tenant, samples)
    }

    /// Returns [`Client::late_reads`] of all clients.
    pub fn late_reads(&self, clock: &Clock) -> Vec<LateRead> {
        self.clients.iter().flat_map(|client| client.late_reads(clock)).collect()
    }

    /// Returns [`Client::ledger`] of the tenant's client.
    pub fn ledger(&self, tenant: u8, samples: usize) -> Vec<Option<Entry>> {
        self.client_of(tenant).ledger(tenant, samples)
    }

    /// Returns a text of a server without secrets of the requests.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        let hide = |text: String, client: &Client| client.without_secrets(&text);
        self.clients.iter().fold(text.to_owned(), hide)
    }

    /// Returns [`Client::take_texts`] of the tenant's client.
    #[must_use]
    pub fn take_texts(&self, tenant: u8) -> Vec<AnswerText> {
        self.client_of(tenant).take_texts(tenant)
    }
}

impl SystemUnderTest for Clients {
    fn name(&self) -> &str {
        &self.name
    }

    /// The samples of a query belong to one tenant.
    #[inline]
    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        if let Some(first) = samples.first() {
            self.client_of(first.id.tenant()).issue(samples, responder);
        }
    }

    /// Each client is prepared for its own tenants.
    fn expect(&self, in_flight: &[InFlight]) {
        for (number, client) in self.clients.iter().enumerate() {
            let is_own = |tenant: usize| self.of_tenant.get(tenant).copied().unwrap_or(0) == number;
            let tenants = in_flight.iter().enumerate().filter(|(tenant, _)| is_own(*tenant));
            client.expect(&tenants.map(|(_, in_flight)| *in_flight).collect::<Vec<_>>());
        }
    }

    fn end_run(&self) {
        self.clients.iter().for_each(SystemUnderTest::end_run);
    }

    fn sample_memory(&self, samples: usize) -> SampleMemory {
        self.clients[1..].iter().for_each(|client| client.prepare(samples));
        self.clients[0].sample_memory(samples)
    }
}

/// Libraries of [`Clients`]: a sample is loaded as a request in each of them.
#[derive(Debug)]
pub struct Libraries(pub Vec<Library>);

impl Libraries {
    fn least(&self, of: impl Fn(&Library) -> usize) -> usize {
        self.0.iter().map(of).min().unwrap_or(0)
    }
}

impl SampleLibrary for Libraries {
    fn name(&self) -> &str {
        self.0.first().map_or("", |library| library.name())
    }

    /// Returns the number of samples that all libraries have.
    fn total_sample_count(&self) -> usize {
        self.least(SampleLibrary::total_sample_count)
    }

    fn performance_sample_count(&self) -> usize {
        self.least(SampleLibrary::performance_sample_count)
    }

    fn load(&self, samples: &[SampleIndex]) {
        self.0.iter().for_each(|library| library.load(samples));
    }

    fn unload(&self, samples: &[SampleIndex]) {
        self.0.iter().for_each(|library| library.unload(samples));
    }
}
