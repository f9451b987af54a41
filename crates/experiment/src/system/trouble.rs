//! Messages of a system about failed samples.

use dyno_net::client::ClientStatistics;

use super::System;
use super::kind::Drive;
use crate::advice::explained;

impl System {
    /// Returns the message for the first failed sample, if known.
    pub fn trouble(&self) -> Option<String> {
        match &self.drive {
            Drive::Engine(engine) => engine.failure_reason().map(str::to_owned),
            Drive::Plugin(plugin) => plugin.failure_reason().map(str::to_owned),
            Drive::Remote(remote) => remote.trouble(),
            Drive::Null | Drive::Virtual(_) => None,
        }
    }

    /// Returns the message for the first failed sample of a system in this process, if known.
    pub fn own_trouble(&self) -> Option<String> {
        if self.remote().is_some() { None } else { self.trouble() }
    }

    /// Returns what a plug-in did against the interface, which makes every figure worthless.
    pub fn breach(&self) -> Option<&str> {
        match &self.drive {
            Drive::Plugin(plugin) => plugin.breach(),
            Drive::Null | Drive::Engine(_) | Drive::Remote(_) | Drive::Virtual(_) => None,
        }
    }

    /// Returns advice on the most frequent kind of failure of a server.
    pub fn advice_on_failures(&self) -> Option<&'static str> {
        let troubles = self.remote()?.seen().troubles;
        let (kind, (_, words)) = troubles.into_iter().max_by_key(|(_, (samples, _))| *samples)?;
        Some(explained(kind, &words).1)
    }

    /// Returns the message for the most frequent kind of failure since `before`.
    pub fn words_of_failure(&self, before: Option<&ClientStatistics>) -> Option<String> {
        let (Some(remote), Some(before)) = (self.remote(), before) else { return self.trouble() };
        let troubles = remote.seen().since(before).troubles;
        let most = troubles.into_values().max_by_key(|(samples, _)| *samples);
        most.map(|(_, words)| words)
    }
}
