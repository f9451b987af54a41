//! The network that a system is measured over.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::submission::check::catalogue::{
    NETWORK_DIAGRAM, NETWORK_FABRIC, NETWORK_FABRIC_UNKNOWN, NETWORK_NODES,
};
use crate::submission::check::issues::{At, Issues};
use crate::submission::entry::Submitter;
use crate::submission::facts::json::JsonFile;
use crate::submission::layout::SYSTEMS;
use crate::submission::tree::Node;

/// Networks that a system may be measured over.
const FABRICS: [&str; 9] = [
    "ethernet",
    "infiniband",
    "roce",
    "omni-path",
    "omnipath",
    "slingshot",
    "fibre channel",
    "wi-fi",
    "tcp",
];
/// What connects the parts of one machine is no network.
const BUSES: [&str; 10] = [
    "pcie",
    "pci-e",
    "pci express",
    "cxl",
    "nvlink",
    "nvswitch",
    "upi",
    "infinity fabric",
    "gen-z",
    "thunderbolt",
];

/// What a description says of the network, if the system is measured over one.
pub(super) fn check(json: &JsonFile, path: &Path, issues: &mut Issues) {
    let is_network = match json.get("is_network") {
        Some(Value::Bool(is_network)) => *is_network,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    };
    if !is_network {
        return;
    }
    for field in ["network_type", "network_media"] {
        let Some(text) = json.get(field).and_then(Value::as_str) else { continue };
        let lower = text.to_ascii_lowercase();
        let at = At::path(path).line(json.line_of(field));
        if let Some(bus) = BUSES.iter().find(|bus| has_word(&lower, bus)) {
            let message = format!("`{field}` is `{text}`: {bus} connects the parts of one machine");
            issues.add_expected(
                &NETWORK_FABRIC,
                at,
                message,
                "a network, such as Ethernet or InfiniBand",
            );
        } else if field == "network_type" && !FABRICS.iter().any(|fabric| lower.contains(fabric)) {
            let message = format!("`{field}` is `{text}`, which is no network that is known");
            issues.add_expected(
                &NETWORK_FABRIC_UNKNOWN,
                at,
                message,
                "Ethernet or InfiniBand, say",
            );
        }
    }
    check_node_names(json, path, issues);
}

/// Nodes that have names must have different ones.
fn check_node_names(json: &JsonFile, path: &Path, issues: &mut Issues) {
    for field in ["node_names", "nodes"] {
        let Some(list) = json.get(field).and_then(Value::as_array) else { continue };
        let mut seen = BTreeSet::new();
        for node in list {
            let name =
                node.get("name").or_else(|| node.get("node_name")).unwrap_or(node).to_string();
            if !seen.insert(name.clone()) {
                let at = At::path(path).line(json.line_of(field));
                issues.add(&NETWORK_NODES, at, format!("two nodes are named {name}"));
            }
        }
    }
}

/// The network division asks for a diagram of the system.
pub(super) fn check_diagram(submitter: &Submitter<'_>, issues: &mut Issues) {
    const PICTURES: [&str; 6] = [".png", ".svg", ".pdf", ".jpg", ".jpeg", ".drawio"];
    let folders = [SYSTEMS, "documentation"].map(|name| submitter.folder.folder(name));
    let below = folders.into_iter().flatten().flat_map(Node::descendants);
    let mut files = below.filter(|node| node.is_file());
    let is_diagram = |node: Node<'_>| {
        let name = node.text().to_ascii_lowercase();
        PICTURES.iter().any(|ending| name.ends_with(ending)) || name.contains("diagram")
    };
    if !files.any(is_diagram) {
        let path = submitter.folder.path();
        let message = "there is no diagram of a system that is measured over a network";
        issues.add_expected(
            &NETWORK_DIAGRAM,
            At::path(&path),
            message,
            "a picture in systems/ or documentation/",
        );
    }
}

/// Whether a text has a word, and not within another.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphabetic());
    text.match_indices(word).any(|(at, _)| {
        edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_found_within_others() {
        assert!(has_word("pcie gen5", "pcie"));
        assert!(has_word("over cxl2", "cxl"));
        assert!(!has_word("cupid", "upi"));
        assert!(!has_word("recce", "ecc"));
    }
}
