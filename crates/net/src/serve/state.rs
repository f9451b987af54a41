//! State that all connections of a server share.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dyno_loadgen::clock::Clock;
use tokio::sync::Notify;

use super::budget::Budget;
use super::counts::{Counts, head, label, single};
use super::refusal::{Refusal, RefusalKind};
use super::{Answers, Model, Settings};
use crate::oip::ServerMetadata;

pub(super) struct State {
    pub settings: Settings,
    pub models: Vec<Model>,
    pub counts: Counts,
    pub budget: Budget,
    pub clock: Clock,
    is_draining: AtomicBool,
    begun: Notify,
    /// Accepted model requests whose answers have not been sent.
    flights: AtomicUsize,
    landed: Notify,
}

/// An accepted request; the server does not end until it is dropped.
pub(super) struct Flight(Arc<State>);

impl State {
    pub fn new(settings: Settings, models: Vec<Model>) -> Self {
        Self {
            budget: Budget::new(&settings.limits, super::io_threads()),
            settings,
            models,
            counts: Counts::new(),
            clock: Clock::start(),
            is_draining: AtomicBool::new(false),
            begun: Notify::new(),
            flights: AtomicUsize::new(0),
            landed: Notify::new(),
        }
    }

    /// Returns whether new requests are accepted.
    pub fn is_ready(&self) -> bool {
        !self.is_draining.load(Ordering::SeqCst)
    }

    pub fn begin_drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        self.begun.notify_waiters();
    }

    /// Completes when the server begins to shut down.
    pub async fn drains(&self) {
        // Registers before the check, so that no notification is lost.
        let begun = self.begun.notified();
        if self.is_ready() {
            begun.await;
        }
    }

    pub fn in_flight(&self) -> usize {
        self.flights.load(Ordering::SeqCst)
    }

    /// Completes when no request is in flight.
    pub async fn landed(&self) {
        loop {
            let landed = self.landed.notified();
            if self.in_flight() == 0 {
                return;
            }
            landed.await;
        }
    }

    /// Accepts a request to a model.
    ///
    /// # Errors
    /// The server is shutting down.
    pub fn take_off(self: &Arc<Self>) -> Result<Flight, Refusal> {
        // Counts before the check, so that a concurrent shutdown sees the request.
        self.flights.fetch_add(1, Ordering::SeqCst);
        let flight = Flight(Arc::clone(self));
        if self.is_ready() {
            Ok(flight)
        } else {
            Err(RefusalKind::Draining
                .because("the server is shutting down and accepts no new requests"))
        }
    }

    /// Returns the model of this name, and checks the version if one is named.
    ///
    /// # Errors
    /// A refusal that lists the known models.
    pub fn model(&self, name: &str, version: &str) -> Result<&Model, Refusal> {
        let Some(model) = self.models.iter().find(|model| model.name == name) else {
            let names: Vec<&str> = self.models.iter().map(|model| &model.name[..]).collect();
            let names = names.join(", ");
            return Err(RefusalKind::NotFound
                .because(format!("unknown model '{name}'; the server has {names}")));
        };
        match version {
            "" | VERSION => Ok(model),
            other => Err(RefusalKind::NotFound.because(format!(
                "model '{name}' has no version '{other}'; it has version {VERSION}"
            ))),
        }
    }

    /// Returns the metadata of the server; its name is that of the node.
    pub fn metadata(&self) -> ServerMetadata {
        ServerMetadata {
            name: self.settings.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            extensions: ["binary_tensor_data", "sequence", "sequence(string_id)"]
                .map(str::to_owned)
                .into(),
        }
    }

    /// Returns the page of metrics.
    pub fn page(&self) -> String {
        let mut page = String::new();
        self.counts.write(&mut page);
        let (flights, ready) = (self.in_flight() as f64, f64::from(u8::from(self.is_ready())));
        let help = "Accepted requests to models without an answer";
        single(&mut page, "dyno_requests_in_flight", "gauge", help, flights);
        single(&mut page, "dyno_ready", "gauge", "Whether new requests are accepted", ready);
        let (help, used) = ("Memory of the contents of requests", self.budget.used() as f64);
        single(&mut page, "dyno_content_bytes", "gauge", help, used);
        let queues = self.models.iter().filter_map(|model| match &model.answers {
            Answers::Tensors(queue) => Some((label(&model.name), queue)),
            Answers::Text(_) => None,
        });
        let queues: Vec<_> = queues.collect();
        let waiting: usize = queues.iter().map(|(_, queue)| queue.depth()).sum();
        let help = "Requests to models in computation or in transfer";
        let running = self.in_flight().saturating_sub(waiting) as f64;
        single(&mut page, "dyno_requests_running", "gauge", help, running);
        if queues.is_empty() {
            return page;
        }
        head(&mut page, "dyno_queue_depth", "gauge", "Requests waiting for the model");
        for (name, queue) in &queues {
            let _ = writeln!(page, "dyno_queue_depth{{model=\"{name}\"}} {}", queue.depth());
        }
        head(&mut page, "dyno_queue_limit", "gauge", "Limit of requests waiting for the model");
        for (name, queue) in &queues {
            let _ = writeln!(page, "dyno_queue_limit{{model=\"{name}\"}} {}", queue.most());
        }
        head(&mut page, "dyno_sequences", "gauge", "Sequences in progress");
        for (name, queue) in &queues {
            let _ = writeln!(page, "dyno_sequences{{model=\"{name}\"}} {}", queue.sequences().0);
        }
        head(&mut page, "dyno_sequence_limit", "gauge", "Limit of sequences in progress");
        for (name, queue) in &queues {
            let _ =
                writeln!(page, "dyno_sequence_limit{{model=\"{name}\"}} {}", queue.sequences().1);
        }
        head(&mut page, "dyno_batch_size", "histogram", "Requests per batch");
        for (name, queue) in &queues {
            let labels = format!("model=\"{name}\"");
            queue.sizes().write("dyno_batch_size", &labels, &mut page);
        }
        page
    }
}

/// The only version of each model.
pub(super) const VERSION: &str = "1";

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.flights.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.landed.notify_waiters();
        }
    }
}
