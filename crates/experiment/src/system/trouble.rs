//! What a system says of the samples that it failed.

use dyno_net::client::ClientStatistics;

use super::System;
use super::kind::Drive;

impl System {
    /// Why the first sample that failed did so, where it is known.
    pub fn trouble(&self) -> Option<String> {
        match &self.drive {
            Drive::Engine(engine) => engine.trouble().map(str::to_owned),
            Drive::Remote(remote) => remote.trouble(),
            Drive::Null | Drive::Virtual(_) => None,
        }
    }

    /// What the system said of the most frequent kind of failure since its client was `before`.
    pub fn words_of_failure(&self, before: Option<&ClientStatistics>) -> Option<String> {
        let (Some(remote), Some(before)) = (self.remote(), before) else { return self.trouble() };
        let troubles = remote.seen().since(before).troubles;
        let most = troubles.into_values().max_by_key(|(samples, _)| *samples);
        most.map(|(_, words)| words)
    }
}
