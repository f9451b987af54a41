//! Checks the network through which a system is measured.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::check::catalogue::{
    NETWORK_DIAGRAM, NETWORK_FABRIC, NETWORK_FABRIC_UNKNOWN, NETWORK_NODES, SYSTEM_TYPE,
};
use crate::check::issues::{Issues, Location};
use crate::check::system::suite;
use crate::entry::Submitter;
use crate::facts::json::JsonFile;
use crate::layout::SYSTEMS;
use crate::tree::Node;
use dyno_rules::{Interconnect, Round, Suite};

/// Checks the description of the network, if the system is measured over one.
pub(super) fn check(json: &JsonFile, path: &Path, round: &Round, issues: &mut Issues) {
    let is_network = match json.get("is_network") {
        Some(Value::Bool(is_network)) => *is_network,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    };
    if !is_network {
        return;
    }
    check_node_names(json, path, issues);
    let Some(rules) = &round.network else { return };
    for field in ["network_type", "network_media"] {
        let Some(text) = json.get(field).and_then(Value::as_str) else { continue };
        let at = Location::path(path).line(json.line_of(field));
        let expected = rules.permitted.join(", ");
        match rules.kind_of(text) {
            Interconnect::Forbidden => {
                let message =
                    format!("`{field}` is `{text}`, which connects the parts of one machine");
                issues.add_expected(&NETWORK_FABRIC, at, message, expected);
            }
            // Media are cables, which the rules do not list.
            Interconnect::Unlisted if field == "network_type" => {
                let message =
                    format!("`{field}` is `{text}`, which needs clearance of the working group");
                issues.add_expected(&NETWORK_FABRIC_UNKNOWN, at, message, expected);
            }
            Interconnect::Permitted | Interconnect::Unlisted => {}
        }
    }
}

/// Checks the suite: the network division has only one.
pub(super) fn check_suite(json: &JsonFile, path: &Path, round: &Round, issues: &mut Issues) {
    let Some(rules) = &round.network else { return };
    let found = suite(json, round);
    if found.is_some_and(|found| found != rules.suite) {
        let at = Location::path(path).line(json.line_of("system_type"));
        let message = format!(
            "the network division has no systems of type {}",
            found.map_or("", Suite::name)
        );
        issues.add_expected(&SYSTEM_TYPE, at, message, rules.suite.name());
    }
}

/// Checks that names of nodes are unique.
fn check_node_names(json: &JsonFile, path: &Path, issues: &mut Issues) {
    for field in ["node_names", "nodes"] {
        let Some(list) = json.get(field).and_then(Value::as_array) else { continue };
        let mut names = BTreeSet::new();
        for node in list {
            let name =
                node.get("name").or_else(|| node.get("node_name")).unwrap_or(node).to_string();
            if !names.insert(name.clone()) {
                let at = Location::path(path).line(json.line_of(field));
                issues.add(&NETWORK_NODES, at, format!("two nodes are named {name}"));
            }
        }
    }
}

/// Checks that a submitter in the network division provides a diagram.
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
        let message = "the diagram of the system, which is measured over a network, is missing";
        issues.add_expected(
            &NETWORK_DIAGRAM,
            Location::path(&path),
            message,
            "an image in systems/ or documentation/",
        );
    }
}

/// Whether a text contains a word that is not part of another word.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphabetic());
    text.match_indices(word).any(|(start, _)| {
        edge(text[..start].chars().next_back()) && edge(text[start + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Program;
    use crate::check::strict::tests::json;

    #[test]
    fn a_system_is_reached_over_a_network_and_not_over_a_bus() {
        let found = |kind: &str, names: &str| {
            let text = format!(
                "{{\"is_network\": \"true\", \"network_type\": \"{kind}\", \"node_names\": [{names}], \
                 \"system_type\": \"edge\"}}"
            );
            let (json, round) = (json(&text), Round::named("v5.1").unwrap());
            let mut issues = Issues::new(Program::Strict);
            check(&json, Path::new("a"), round, &mut issues);
            check_suite(&json, Path::new("a"), round, &mut issues);
            let ids: Vec<&str> = issues.into_findings().into_iter().map(|f| f.check).collect();
            ids
        };
        assert_eq!(found("100 GbE", ""), ["system.type"]);
        assert_eq!(found("NVLink", "")[0], "network.fabric");
        assert_eq!(found("Ethernet over PCIe", "")[0], "network.fabric");
        assert_eq!(found("carrier pigeon", "")[0], "network.fabric_unknown");
        assert_eq!(found("InfiniBand", "\"a\", \"b\", \"a\"")[0], "network.node_names");
    }

    #[test]
    fn words_are_not_found_within_others() {
        assert!(has_word("ddr5 with ecc", "ecc"));
        assert!(has_word("ecc2", "ecc"));
        assert!(!has_word("recce", "ecc"));
    }
}
