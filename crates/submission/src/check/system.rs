//! Checks the description of a system.

use std::path::Path;

use serde_json::Value;

use super::catalogue::*;
use super::issues::{Issues, Location};
use super::{Options, Program, Skip};
use crate::entry::{DivisionFolder, Submitter};
use crate::facts::json::JsonFile;
use crate::python;
use dyno_rules::{Round, Suite, Version};

/// Valid availability of a system.
const STATUS: [&str; 3] = ["available", "preview", "rdi"];
/// Additional values before v1.0.
const EARLY_STATUS: [&str; 2] = ["research, development, or internal", "on-premise"];

/// Returns the availability of a system in the words of the table of results.
pub fn availability(status: &str) -> String {
    let lower = status.to_lowercase();
    if lower == EARLY_STATUS[0] { "rdi".to_owned() } else { lower }
}

/// Returns the suite of a system by its description; `Both` in v0.5, which has no suites.
pub fn suite(description: &JsonFile, round: &Round) -> Option<Suite> {
    if round.version < Version::new(0, 7) {
        return Some(Suite::Both);
    }
    match description.get("system_type")?.as_str()? {
        "datacenter" => Some(Suite::Datacenter),
        "edge" => Some(Suite::Edge),
        "datacenter,edge" | "edge,datacenter" => Some(Suite::Both),
        _ => None,
    }
}

/// A description to judge.
pub struct SystemDescription<'a> {
    /// Content of the description.
    pub json: &'a JsonFile,
    /// Path of the file.
    pub path: &'a Path,
    /// Submitter.
    pub submitter: &'a Submitter<'a>,
    /// The round.
    pub round: &'static Round,
    /// Options of the check.
    pub options: &'a Options,
}

impl SystemDescription<'_> {
    /// Judges the description.
    pub fn judge(&self, issues: &mut Issues) {
        // The single-file checker goes on after neither of the first two problems.
        let stops = |issues: &Issues| issues.program().one_file().is_some() && !issues.passes();
        self.status(issues);
        if stops(issues) {
            return;
        }
        let kind = self.json.get("system_type");
        if suite(self.json, self.round).is_none() {
            let found = kind.map_or("missing".to_owned(), python::text);
            let expected = "datacenter, edge or datacenter,edge";
            let at = self.at("system_type");
            issues.add_expected(&SYSTEM_TYPE, at, format!("the type is {found}"), expected);
        }
        if stops(issues) {
            return;
        }
        let network = self.network(issues);
        self.fields(network, issues);
        self.owner(issues);
    }

    fn at(&self, field: &str) -> Location<'_> {
        Location::path(self.path).line(self.json.line_of(field))
    }

    /// Returns a text field. If it is not a text, the single-file checker crashes when it
    /// converts it to lower case, and the others fail the check.
    fn text(&self, field: &str, check: &'static Check, issues: &mut Issues) -> Option<&str> {
        let text = self.json.get(field).and_then(Value::as_str);
        if text.is_none() {
            if issues.program().one_file().is_some() {
                issues.crash(self.at(field), &format!("`{field}` is not a string"));
            }
            issues.add(check, self.at(field), format!("`{field}` is not a string"));
        }
        text
    }

    fn status(&self, issues: &mut Issues) {
        let Some(status) = self.text("status", &SYSTEM_STATUS, issues) else { return };
        let lower = status.to_lowercase();
        let early = self.round.version < Version::new(1, 0);
        let early = early && EARLY_STATUS.contains(&lower.as_str());
        if !early && !STATUS.contains(&lower.as_str()) {
            let expected = STATUS.join(", ");
            let at = self.at("status");
            issues.add_expected(&SYSTEM_STATUS, at, format!("the status is {status}"), expected);
        }
    }

    /// Returns whether the system is behind a network, and checks that the division allows it.
    fn network(&self, issues: &mut Issues) -> bool {
        let is_network = match self.json.get("is_network") {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => text.to_lowercase() == "true",
            Some(_) => {
                self.text("is_network", &SYSTEM_NETWORK, issues);
                return false;
            }
        };
        let wanted = match self.submitter.division {
            DivisionFolder::Closed => Some(false),
            DivisionFolder::Network => Some(true),
            DivisionFolder::Open => None,
        };
        if wanted.is_some_and(|wanted| wanted != is_network) {
            let division = self.submitter.division.name();
            let message = format!("is_network is {is_network} in the {division} division");
            issues.add(&SYSTEM_NETWORK, self.at("is_network"), message);
        }
        is_network
    }

    fn fields(&self, network: bool, issues: &mut Issues) {
        let fields = &self.round.system_fields;
        // The modular checker treats any text as true, including "false".
        let network = match issues.program() {
            Program::Modular => self.json.get("is_network").is_some_and(python::is_true),
            Program::Mono | Program::Tag(_) | Program::Strict => network,
        };
        let network_fields = fields.network.iter().filter(|_| network);
        for field in fields.required.iter().chain(network_fields) {
            match self.json.get(field) {
                None => {
                    let message = format!("the field `{field}` is missing");
                    issues.add(&SYSTEM_FIELD, Location::path(self.path), message);
                }
                Some(value)
                    if !python::is_true(value)
                        && fields.meaningful.contains(field)
                        && !self.options.skips(Skip::EmptyFields) =>
                {
                    let message = format!("the field `{field}` is empty");
                    issues.add(&SYSTEM_FIELD_EMPTY, self.at(field), message);
                }
                Some(_) => {}
            }
        }
        for field in self.json.object().into_iter().flat_map(|object| object.keys()) {
            let known = [&fields.required, &fields.power, &fields.network];
            if !known.iter().any(|fields| fields.contains(field)) {
                let message = format!("the field `{field}` is unknown");
                issues.add(&SYSTEM_FIELD_UNKNOWN, self.at(field), message);
            }
        }
    }

    fn owner(&self, issues: &mut Issues) {
        let name = &self.submitter.name;
        if let Some(submitter) = self.text("submitter", &SYSTEM_SUBMITTER, issues)
            && submitter.to_lowercase() != name.to_lowercase()
        {
            let message = format!("the submitter is {submitter}");
            issues.add_expected(&SYSTEM_SUBMITTER, self.at("submitter"), message, name.clone());
        }
        let wanted = self.submitter.division.name();
        let found = self.json.get("division").and_then(Value::as_str).unwrap_or_default();
        if found.to_lowercase() != wanted {
            let message = format!("the division is {found}");
            issues.add_expected(&SYSTEM_DIVISION, self.at("division"), message, wanted);
        } else if found != wanted {
            let message = format!("the division is written {found}");
            issues.add_expected(&SYSTEM_DIVISION_CASE, self.at("division"), message, wanted);
        }
    }
}
