//! Checks the requirements for datacenter systems: memory with ECC, and sufficient network
//! bandwidth for the result.

use std::path::Path;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

use crate::check::catalogue::{
    SYSTEM_BANDWIDTH, SYSTEM_BANDWIDTH_UNKNOWN, SYSTEM_ECC, SYSTEM_ECC_UNSAID,
};
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::check::system::suite;
use crate::facts::Facts;
use crate::facts::json::JsonFile;
use dyno_rules::{BandwidthNeed, ElementBytes, RuleScenario, Suite, Version};

use super::network::has_word;

const GIGA: f64 = 1e9;
/// Texts which state that memory has no ECC or that it is disabled.
static NO_ECC: LazyLock<Regex> = LazyLock::new(|| {
    let text = r"\bnon[-_ ]?ecc|\b(no|without) ecc|\becc( support)?[ :=(-]*((is|was) )?(off|disabled|not|no|none|false)\b";
    RegexBuilder::new(text).unicode(false).build().expect("a test uses it")
});
/// Memory that requires ECC, even if a description also names SRAM.
const MEMORY: [&str; 2] = ["ddr", "hbm"];
/// Descriptions without information about memory.
const NOTHING: [&str; 6] = ["", "n/a", "na", "none", "-", "0"];

/// Checks that memory of host and accelerator has ECC, except SRAM.
pub(super) fn check_memory(json: &JsonFile, path: &Path, issues: &mut Issues) {
    let notes = text(json, "hw_notes").to_ascii_lowercase();
    for field in ["host_memory_configuration", "accelerator_memory_configuration"] {
        let configuration = text(json, field);
        let lower = configuration.to_ascii_lowercase();
        let is_sram = lower.contains("sram") && !MEMORY.iter().any(|kind| lower.contains(kind));
        if NOTHING.contains(&lower.as_str()) || is_sram {
            continue;
        }
        let at = Location::path(path).line(json.line_of(field));
        if NO_ECC.is_match(lower.as_bytes()) {
            let message = format!("`{field}` is `{configuration}`");
            issues.add_expected(&SYSTEM_ECC, at, message, "memory with ECC, enabled");
        } else if !has_word(&lower, "ecc") && !has_word(&notes, "ecc") {
            let message =
                format!("`{field}` does not state that the memory has ECC: `{configuration}`");
            issues.add_expected(&SYSTEM_ECC_UNSAID, at, message, "memory with ECC, enabled");
        }
    }
}

/// Checks that the described network can sustain this result in both directions: samples/s times
/// the size of a sample in its data type.
pub(super) fn check_bandwidth(
    place: &Place<'_, '_>,
    facts: &Facts<'_>,
    result: f64,
    issues: &mut Issues,
) {
    let is_datacenter =
        matches!(suite(place.description, place.round), Some(Suite::Datacenter | Suite::Both));
    let has_rate = matches!(
        place.scenario,
        Some(RuleScenario::Offline | RuleScenario::Server | RuleScenario::Interactive)
    );
    let has_rule = place.round.version >= Version::new(2, 1);
    if !has_rule || !is_datacenter || !has_rate || !place.submitter.division.is_closed_or_network()
    {
        return;
    }
    let samples = facts.performance.as_ref().ok().and_then(|log| {
        let rate = |key: &str| log.number(key);
        rate("result_samples_per_second")
            .or_else(|| rate("result_completed_samples_per_sec"))
            .or_else(|| rate("result_scheduled_samples_per_sec"))
    });
    let Some(file) = place.system.description else { return };
    let bandwidth = bytes_per_second(place.description);
    let unknown = unknown_fabric(place.description);
    if let Some(fabric) = &unknown {
        let path = file.path();
        let at = Location::path(&path).line(place.description.line_of("host_networking"));
        let message = format!("the rate of `{fabric}` is unknown");
        issues.add(&SYSTEM_BANDWIDTH_UNKNOWN, at, message);
    }
    let Some(bandwidth) = bandwidth.filter(|_| unknown.is_none()) else { return };
    let Some(elements) = place.model.benchmark.and_then(|benchmark| benchmark.elements) else {
        return;
    };
    let Some(bytes) = element_bytes(facts) else { return };
    let needed = elements.bandwidth(samples.unwrap_or(result), ElementBytes::all(bytes));
    let path = file.path();
    let at = Location::path(&path).line(place.description.line_of("host_networking"));
    for (name, needed) in [("receive", needed.ingress), ("send", needed.egress)] {
        if let BandwidthNeed::AtLeast(least) = needed
            && !needed.is_met_by(bandwidth)
        {
            let result = place.entry.folder.path();
            let message = format!(
                "the network moves {:.3} GB/s, less than {} must {name} in elements of {bytes} B",
                bandwidth / GIGA,
                result.display()
            );
            issues.add_expected(
                &SYSTEM_BANDWIDTH,
                at,
                message,
                format!("at least {:.3} GB/s", least / GIGA),
            );
        }
    }
}

/// Returns the bytes per input element from the description of the measurement: the smallest of
/// several types.
fn element_bytes(facts: &Facts<'_>) -> Option<f64> {
    let json = facts.measurement.as_ref()?.json.as_ref().ok()?;
    let description = text(json, "input_data_types").to_ascii_lowercase();
    let types = [("4", 0.5), ("8", 1.0), ("16", 2.0), ("32", 4.0), ("64", 8.0)];
    let words = description.split(|c: char| !c.is_ascii_alphanumeric());
    let sizes = words.filter_map(|word| {
        let digits = word.find(|c: char| c.is_ascii_digit())?;
        let (kind, bits) = word.split_at(digits);
        let known = ["fp", "f", "float", "bf", "bfloat", "int", "uint", "i", "u", "mxfp", "nvfp"];
        known.contains(&kind).then_some(())?;
        types.iter().find(|(name, _)| *name == bits).map(|(_, bytes)| *bytes)
    });
    sizes.reduce(f64::min)
}

fn text(json: &JsonFile, field: &str) -> String {
    match json.get(field) {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Fields that describe the cards of a network, with their rates in either.
const CARDS: &str = "host_network_card_count";
const NETWORKING: &str = "host_networking";

/// Returns a part of the network description that names a fabric without a known rate.
fn unknown_fabric(json: &JsonFile) -> Option<String> {
    const FABRICS: [&str; 4] = ["infiniband", "roce", "slingshot", "omni-path"];
    let is_unknown = |part: &&str| {
        let lower = part.to_ascii_lowercase();
        FABRICS.iter().any(|fabric| lower.contains(fabric)) && fastest(&lower).is_none()
    };
    let unknown = |field: &str| parts(&text(json, field)).find(is_unknown).map(str::to_owned);
    unknown(NETWORKING).or_else(|| unknown(CARDS))
}

/// Returns the parts of a description, each of one kind of card.
fn parts(description: &str) -> impl Iterator<Item = &str> {
    description.split([',', ';', '+']).map(str::trim)
}

/// Returns the bandwidth of the described network in bytes/s, if stated: the fastest rate in either
/// field times the number of cards and nodes. It is at least the true one, because only a network
/// that is too slow for certain breaks a rule.
fn bytes_per_second(json: &JsonFile) -> Option<f64> {
    let networking = fastest(&text(json, NETWORKING).to_ascii_lowercase())?;
    let cards = text(json, CARDS).to_ascii_lowercase();
    // Counts and rates may be one word, such as 2x10GbE.
    let beside = [fastest(&cards), fastest(&cards.replace('x', " x "))];
    let rate = beside.into_iter().flatten().fold(networking, f64::max);
    let count = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<f64>().ok().filter(|count| *count >= 1.0).unwrap_or(1.0)
    };
    let cards: f64 = parts(&cards).map(count).sum();
    Some(rate * cards * count(&text(json, "number_of_nodes")) / 8.0)
}

/// Returns the fastest rate in a lower-case text, in bits/s.
fn fastest(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).collect();
    let rates = words.iter().enumerate().filter_map(|(index, word)| {
        if let Some((_, bits)) = INFINIBAND.iter().find(|(name, _)| name == word) {
            return Some(*bits);
        }
        let digits = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
        let number: f64 = word[..digits].parse().ok()?;
        let unit = if digits < word.len() { &word[digits..] } else { words.get(index + 1)? };
        bits_per_second(unit).map(|bits| number * bits)
    });
    rates.fold(None, |most: Option<f64>, rate| Some(most.map_or(rate, |m| m.max(rate))))
}

/// InfiniBand generations with four lanes, in bits/s.
const INFINIBAND: [(&str, f64); 5] =
    [("fdr", 56e9), ("edr", 100e9), ("hdr", 200e9), ("ndr", 400e9), ("xdr", 800e9)];

/// Returns the bits/s of a unit. Descriptions also write GB for Gbit.
fn bits_per_second(unit: &str) -> Option<f64> {
    match unit {
        "tb" | "tbps" | "tbit" => Some(1e12),
        "g" | "gb" | "gbe" | "gbps" | "gbit" | "gbits" | "gige" | "gbase" | "gbaset" => Some(1e9),
        "m" | "mb" | "mbps" | "mbit" | "mbits" => Some(1e6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Program;
    use crate::check::strict::tests::json;

    #[test]
    fn memory_without_ecc_is_an_error_and_silence_a_warning() {
        let found = |host: &str, accelerator: &str| {
            let text = format!(
                "{{\"host_memory_configuration\": \"{host}\", \
                 \"accelerator_memory_configuration\": \"{accelerator}\"}}"
            );
            let mut issues = Issues::new(Program::Strict);
            check_memory(&json(&text), Path::new("a"), &mut issues);
            let ids: Vec<&str> = issues.into_findings().into_iter().map(|f| f.check).collect();
            ids
        };
        assert_eq!(found("8x 16GB DDR5 ECC", "HBM3 with ECC"), [""; 0]);
        assert_eq!(found("8x 16GB DDR5", "N/A"), ["system.ecc_unsaid"]);
        assert_eq!(found("DDR5 ECC", "GDDR6, non-ECC"), ["system.ecc"]);
        assert_eq!(found("DDR5 ECC", "on-chip SRAM"), [""; 0]);
        for denied in [
            "DDR5, ECC: disabled",
            "DDR5 ECC=off",
            "DDR5, ECC not enabled",
            "DDR5 (ECC: No)",
            "DDR5 non-ECC, 32MB SRAM cache",
        ] {
            assert_eq!(found(denied, "N/A"), ["system.ecc"], "{denied}");
        }
        assert_eq!(found("DDR5 ECC, 32MB SRAM cache", "N/A"), [""; 0]);
        assert_eq!(found("DDR5 ECC enabled", "N/A"), [""; 0]);
    }

    #[test]
    fn the_rate_of_a_network_is_that_of_all_its_cards() {
        let rate = |networking: &str, cards: &str, nodes: &str| {
            let text = format!(
                "{{\"host_networking\": \"{networking}\", \"host_network_card_count\": \"{cards}\", \
                 \"number_of_nodes\": {nodes}}}"
            );
            bytes_per_second(&json(&text))
        };
        assert_eq!(rate("Ethernet 100GbE", "2", "1"), Some(25e9));
        assert_eq!(
            rate("Management: 1x Ethernet 10GB/Sec; InfiniBand 400 Gbps", "8x 400G", "2"),
            Some(800e9)
        );
        assert_eq!(rate("1x 1GbE, 2x 100GBASE-SR4", "1", "1"), Some(12.5e9));
        assert_eq!(rate("1x 1GbE, InfiniBand NDR", "1", "1"), Some(50e9));
        let fabric = |networking: &str| {
            unknown_fabric(&json(&format!("{{\"host_networking\": \"{networking}\"}}")))
        };
        assert_eq!(fabric("1x 1GbE, Slingshot 11"), Some("Slingshot 11".to_owned()));
        assert_eq!(fabric("1x 1GbE, Infiniband NDR"), None);
        // Some descriptions state rates beside the count, and several kinds of cards.
        let slots = "7-slots of 2-port 200G Infiniband or 2-port 100G Ethernet";
        assert_eq!(rate("1Gbe", slots, "1"), Some(175e9));
        assert_eq!(rate("1GbE", "8+1", "1"), Some(1.125e9));
        assert_eq!(rate("1GbE", "5x1Gbe, 1x200Gb", "1"), Some(150e9));
        assert_eq!(rate("1GbE", "", "1"), Some(0.125e9));
        assert_eq!(rate("1GbE", "N/A", "1"), Some(0.125e9));
        let cards = json("{\"host_network_card_count\": \"1x 1GbE, 8x Infiniband by Acme\"}");
        assert_eq!(unknown_fabric(&cards), Some("8x Infiniband by Acme".to_owned()));
        assert_eq!(rate("Gig Ethernet", "1", "1"), None);
        assert_eq!(rate("PCIe Gen5 x16", "1", "1"), None);
    }

    #[test]
    fn units_of_networks_are_bits() {
        assert_eq!(bits_per_second("gbe"), Some(1e9));
        assert_eq!(bits_per_second("gb"), Some(1e9));
        assert_eq!(bits_per_second("ghz"), None);
        assert_eq!(bits_per_second(""), None);
    }
}
