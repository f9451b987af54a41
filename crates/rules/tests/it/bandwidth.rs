//! Table in the appendix on bandwidth of the rules (`reference/rules/bandwidth.md`), computed by
//! hand for 1,000 samples/s.

use dyno_rules::{Bandwidth, BandwidthNeed, ElementBytes, Round};

fn at_1000(name: &str, bytes: ElementBytes) -> Option<Bandwidth> {
    // Any round that has the benchmark.
    let mut rounds = Round::names().into_iter().rev().map(|name| Round::named(name).unwrap());
    let (round, benchmark) =
        rounds.find_map(|round| Some((round, round.benchmark(name)?))).unwrap();
    round.bandwidth(benchmark, 1000.0, bytes)
}

#[test]
fn the_table_of_the_rules() {
    let (at_least, positive) = (BandwidthNeed::AtLeast, BandwidthNeed::Positive);
    #[rustfmt::skip]
    let table = [
        // One byte per element.
        ("resnet50", 1.0, at_least(150_528_000.0), positive),
        ("retinanet", 1.0, at_least(1_920_000_000.0), positive),
        ("3d-unet-99", 1.0, at_least(32_944_795_000.0), at_least(32_944_795_000.0)),
        // Four bytes per element.
        ("bert-99", 4.0, at_least(4_608_000.0), positive),
        ("gptj-99", 4.0, at_least(8_192_000.0), positive),
        ("llama2-70b-99.9", 4.0, at_least(4_096_000.0), at_least(4_096_000.0)),
        ("llama3.1-405b", 4.0, at_least(80_000_000.0), at_least(80_000_000.0)),
        ("mixtral-8x7b", 4.0, at_least(8_192_000.0), at_least(8_192_000.0)),
        ("stable-diffusion-xl", 1.0, at_least(77_000.0), at_least(3_145_728_000.0)),
        ("rgat", 4.0, positive, positive),
    ];
    for (name, bytes, ingress, egress) in table {
        let got = at_1000(name, ElementBytes::all(bytes));
        assert_eq!(got, Some(Bandwidth { ingress, egress }), "{name}");
    }
    // 270 * (13 * 2 + 26 * 4) = 35,100 bytes per sample.
    let bytes = ElementBytes { numerical: 2.0, categorical: 4.0 };
    let dlrm = at_1000("dlrm-v2-99", bytes).unwrap();
    assert_eq!(dlrm, Bandwidth { ingress: at_least(35_100_000.0), egress: positive });
}

#[test]
fn what_the_rules_do_not_list_needs_nothing_known() {
    assert_eq!(at_1000("deepseek-r1", ElementBytes::all(4.0)), None);
    let round = Round::named("v2.0").unwrap();
    let resnet = round.benchmark("resnet").unwrap();
    assert_eq!(round.bandwidth(resnet, 1.0, ElementBytes::all(1.0)), None, "a rule of v2.1");
}

#[test]
fn a_path_is_enough_from_the_needed_bandwidth_on() {
    assert!(BandwidthNeed::AtLeast(8.0).is_met_by(8.0));
    assert!(!BandwidthNeed::AtLeast(8.0).is_met_by(7.9));
    assert!(BandwidthNeed::Positive.is_met_by(0.1));
    assert!(!BandwidthNeed::Positive.is_met_by(0.0));
}
