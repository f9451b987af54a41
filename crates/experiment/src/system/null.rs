//! The system `null`, which answers at once.

use super::kind::{Drive, OpenedSystem, Resources, SystemKind};
use super::{Numbers, SAMPLES_DEFAULT};

pub(super) const KIND: SystemKind = SystemKind {
    name: "null",
    operand: "",
    help: "answers at once; what is measured is the instrument",
    accepts: &[],
    resources: Resources::nothing,
    check: None,
    open: |request| {
        let library = Numbers::new(request.run.samples_or_of_round(SAMPLES_DEFAULT));
        Ok(OpenedSystem { caution: Some(CAUTION), ..OpenedSystem::new(Drive::Null, library) })
    },
};

const CAUTION: &str = "The null system answers at once: these are figures of the instrument.";
