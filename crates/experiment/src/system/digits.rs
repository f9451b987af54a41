//! The system `digits`: handwritten digits and a perceptron, both built in.

use std::sync::Arc;

use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};

use super::kind::{Drive, OpenedSystem, Resources, SystemKind};

pub(super) const KIND: SystemKind = SystemKind {
    name: "digits",
    operand: "",
    help: "UCI handwritten digits and a small perceptron, both built in, with real data and \
         labels",
    accepts: &["workers", "threads", "cores", "warm-up", "batch", "batch-wait"],
    resources: Resources::nothing,
    check: None,
    open: |_| {
        let engine = Drive::Engine(Arc::new(DigitsPerceptron::new()));
        let opened = OpenedSystem::new(engine, Arc::new(DigitsLibrary));
        Ok(OpenedSystem { labels: Some(digits::labels()), target: Some(TARGET), ..opened })
    },
};

/// Share of the reference's accuracy that the rules require.
pub(super) const SHARE_OF_REFERENCE: f64 = 0.99;

/// Accuracy target. The perceptron classified 519 of 540 test images correctly when it was trained.
pub(super) const TARGET: f64 = SHARE_OF_REFERENCE * 519.0 / 540.0;
