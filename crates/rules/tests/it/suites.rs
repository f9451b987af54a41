//! Divisions, availability, and interconnects of the network division.

use dyno_rules::{Availability, Division, Interconnect, Round, Suite};

#[test]
fn the_network_division_came_with_v21() {
    let before = Round::named("v2.0").unwrap();
    assert_eq!(
        before.divisions.keys().copied().collect::<Vec<_>>(),
        [Division::Closed, Division::Open]
    );
    assert_eq!(before.network, None);
    let since = Round::named("v2.1").unwrap();
    assert_eq!(since.divisions.len(), 3);
    let network = since.network.as_ref().unwrap();
    assert_eq!(
        (network.suite, network.name_of_system.as_str()),
        (Suite::Datacenter, "Network SUT")
    );
    assert!(since.divisions[&Division::Network].items.len() > 3);
}

#[test]
fn each_availability_asks_for_something() {
    let round = Round::named("v5.1").unwrap();
    for availability in Availability::ALL {
        assert!(!round.availabilities[&availability].items.is_empty(), "{availability}");
    }
    assert_eq!(Availability::named("RDI"), Some(Availability::Rdi));
    assert_eq!(Division::named("Closed"), Some(Division::Closed));
    assert_eq!(Division::named("close"), None);
}

#[test]
fn interconnects_are_fabrics_buses_or_unlisted() {
    let network = Round::named("v5.1").unwrap().network.as_ref().unwrap();
    for (text, expected) in [
        ("Ethernet", Interconnect::Permitted),
        ("2x 100G ethernet", Interconnect::Permitted),
        ("TCP/IPv4 over Ethernet", Interconnect::Permitted),
        ("100GbE", Interconnect::Permitted),
        ("IEEE802.11", Interconnect::Permitted),
        ("Infiniband HDR", Interconnect::Permitted),
        ("3GPP", Interconnect::Permitted),
        ("RoCE", Interconnect::Permitted),
        ("RoCEv2", Interconnect::Permitted),
        ("PCI Express 5.0", Interconnect::Forbidden),
        ("PCI-E", Interconnect::Forbidden),
        ("Ethernet over PCI Express", Interconnect::Forbidden),
        ("NVLink4", Interconnect::Forbidden),
        ("PCIe Gen5 x16", Interconnect::Forbidden),
        ("Ethernet over PCIe", Interconnect::Forbidden),
        ("CXL", Interconnect::Forbidden),
        ("Slingshot", Interconnect::Unlisted),
        ("supine", Interconnect::Unlisted),
        ("", Interconnect::Unlisted),
    ] {
        assert_eq!(network.kind_of(text), expected, "{text}");
    }
}

#[test]
fn datacenter_conditions_add_up_over_the_rounds() {
    let asks = |name: &str| Round::named(name).unwrap().datacenter.len();
    assert_eq!((asks("v0.7"), asks("v1.0"), asks("v2.1"), asks("v6.1")), (0, 1, 4, 5));
}
