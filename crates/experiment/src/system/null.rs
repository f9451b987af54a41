//! The system `null`, which answers at once.

use super::kind::{Drive, OpenedSystem, Resources, SystemKind};
use super::{Numbers, SAMPLES_DEFAULT};

pub(super) const KIND: SystemKind = SystemKind {
    name: "null",
    operand: "",
    help: "answers immediately, to measure the load generator itself",
    accepts: &[],
    resources: Resources::nothing,
    check: None,
    open: |request| {
        let library = Numbers::new(request.run.samples_or_of_round(SAMPLES_DEFAULT));
        Ok(OpenedSystem { caution: Some(CAUTION), ..OpenedSystem::new(Drive::Null, library) })
    },
};

const CAUTION: &str = "The null system answers immediately: the figures describe the load \
     generator.";
