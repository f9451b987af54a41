//! The system `digits`: handwritten digits and a perceptron, both built in.

use std::sync::Arc;

use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};

use super::kind::{Drive, Opened, Resources, SystemKind};

pub(super) const KIND: SystemKind = SystemKind {
    name: "digits",
    operand: "",
    help: "UCI handwritten digits and a small perceptron, both built in; real data, real labels",
    accepts: &["workers", "threads", "cores", "warm-up", "batch", "batch-wait"],
    resources: Resources::nothing,
    check: None,
    open: |_| {
        let engine = Drive::Engine(Arc::new(DigitsPerceptron::new()));
        let opened = Opened::new(engine, Arc::new(DigitsLibrary));
        Ok(Opened { labels: Some(digits::labels()), target: Some(TARGET), ..opened })
    },
};

/// The share of the reference's accuracy that the rules ask for.
pub(super) const SHARE_OF_REFERENCE: f64 = 0.99;

/// Accuracy that is asked for: the perceptron's on its test images, when it was trained, was
/// 519 of 540.
pub(super) const TARGET: f64 = SHARE_OF_REFERENCE * 519.0 / 540.0;
