//! Tables 1 to 5 of the paper (arXiv 1911.02549), and the tables of the rules of v0.5, v0.7 and
//! v6.1.

use dyno_rules::{ArrivalPattern, Benchmark, Round, RuleScenario, Suite, TokenBounds, confidence};

use RuleScenario::{Interactive, MultiStream, Offline, Server, SingleStream};

fn benchmark(round: &str, name: &str) -> &'static Benchmark {
    Round::named(round).unwrap().benchmark(name).unwrap()
}

const MS: u64 = 1_000_000;

#[test]
fn table_1_of_the_paper_tasks_models_data_and_quality() {
    #[rustfmt::skip]
    let table = [
        ("resnet50", "image classification", "ResNet-50 v1.5", "ImageNet 2012 (224x224)", 0.99, 76.46),
        ("mobilenet", "image classification (light)", "MobileNet-v1 224", "ImageNet 2012 (224x224)", 0.98, 71.68),
        ("ssd-resnet34", "object detection (large)", "SSD-ResNet-34", "COCO 2017 (1200x1200)", 0.99, 20.0),
        ("ssd-mobilenet", "object detection (small)", "SSD-MobileNet-v1", "COCO 2017 (300x300)", 0.99, 22.0),
        ("gnmt", "machine translation", "GNMT", "WMT16 EN-DE (newstest2014)", 0.99, 23.9),
    ];
    assert_eq!(Round::named("v0.5").unwrap().benchmarks.len(), table.len());
    for (name, task, model, data, factor, reference) in table {
        let got = benchmark("v0.5", name);
        let target = got.accuracy[0].reference.unwrap().value;
        let row = (got.task.as_str(), got.model.as_str(), got.dataset.name.as_str());
        assert_eq!(row, (task, model, data));
        assert_eq!((got.factor, target), (factor, reference), "{name}");
    }
}

#[test]
fn table_2_of_the_paper_scenarios() {
    let round = Round::named("v0.5").unwrap();
    let row = |scenario| {
        let rules = &round.scenarios[&scenario];
        (rules.arrivals, rules.percentile, rules.samples_per_query)
    };
    assert_eq!(row(SingleStream), (ArrivalPattern::AfterTheLast, Some(0.9), Some(1)));
    assert_eq!(row(MultiStream), (ArrivalPattern::FixedInterval, Some(0.99), None));
    assert_eq!(row(Server), (ArrivalPattern::Poisson, Some(0.99), Some(1)));
    assert_eq!(row(Offline), (ArrivalPattern::AtOnce, None, None));
    assert_eq!(round.scenarios.len(), 4);
    assert_eq!(round.scenarios[&Server].runs, 5, "the least of five runs");
}

#[test]
fn table_3_of_the_paper_latency_bounds() {
    for (name, interval_ms, server_ms) in [
        ("resnet", 50, 15),
        ("mobilenet", 50, 10),
        ("ssd-large", 66, 100),
        ("ssd-small", 50, 10),
        ("gnmt", 100, 250),
    ] {
        let latency = &benchmark("v0.5", name).latency;
        assert_eq!((latency[&MultiStream], latency[&Server]), (interval_ms * MS, server_ms * MS));
    }
}

/// Recomputes the queries by the formula in the appendix of the rules.
#[test]
fn table_4_of_the_paper_queries_for_confidence() {
    let rows: Vec<_> =
        confidence().iter().map(|r| (r.percentile, r.margin, r.queries, r.rounded)).collect();
    let table = [
        (0.90, 0.005, 23_886, 3 << 13),
        (0.95, 0.0025, 50_425, 7 << 13),
        (0.97, 0.0015, 85_811, 11 << 13),
        (0.99, 0.0005, 262_742, 33 << 13),
    ];
    assert_eq!(rows, table);
    // The normal quantile of (1 - 0.99) / 2.
    const Z: f64 = 2.575_829_303_548_901;
    for (percentile, margin, queries, rounded) in table {
        assert!(((1.0 - percentile) / 20.0 - margin).abs() < 1e-12);
        let needed = Z * Z * percentile * (1.0 - percentile) / (margin * margin);
        // Printed rounded to the nearest query.
        assert_eq!(needed.round() as u64, queries, "{percentile}");
        assert!(rounded >= queries && rounded % (1 << 13) == 0);
    }
}

#[test]
fn table_5_of_the_paper_queries_and_samples() {
    for name in ["resnet", "mobilenet", "ssd-large", "ssd-small", "gnmt"] {
        let got = benchmark("v0.5", name);
        let many = if name == "gnmt" { 90_112 } else { 270_336 };
        let queries = [SingleStream, MultiStream, Server, Offline].map(|s| got.min_queries[&s]);
        assert_eq!(queries, [1024, many, many, 1], "{name}");
        assert_eq!(got.offline_samples, Some(24_576));
    }
}

/// Source: inference_policies, 2019-09-20, sections 3 and 4.1. `gnmt` has the 97th percentile of
/// "otherwise".
#[test]
fn the_rules_of_v05() {
    let round = Round::named("v0.5").unwrap();
    for (name, loaded) in [
        ("resnet", 1024),
        ("mobilenet", 1024),
        ("ssd-large", 64),
        ("ssd-small", 256),
        ("gnmt", 3003),
    ] {
        let got = round.benchmark(name).unwrap();
        assert_eq!(got.performance_samples, Some(loaded), "{name}");
        let tail = if name == "gnmt" { 0.97 } else { 0.99 };
        assert_eq!(round.percentile(got, Server), Some(tail));
        assert_eq!(round.percentile(got, MultiStream), Some(tail));
        assert_eq!(round.percentile(got, SingleStream), Some(0.9));
        assert_eq!(got.scenarios(), [SingleStream, MultiStream, Server, Offline]);
        assert!(got.suites.is_empty());
    }
    for (scenario, rules) in &round.scenarios {
        assert_eq!(rules.min_duration_ms, 60_000, "{scenario:?}");
        assert!(!rules.stops_early);
    }
    assert_eq!(round.benchmark("gnmt").unwrap().inference.beams, Some(10));
}

#[test]
fn the_rules_of_v07() {
    let round = Round::named("v0.7").unwrap();
    // Model, QSL size, shares of the reference, Server ms, interval ms.
    #[rustfmt::skip]
    let table = [
        ("resnet50", 1024, 0.99, 76.46, Some(15), Some(50)),
        ("ssd-resnet34", 64, 0.99, 20.0, Some(100), Some(66)),
        ("ssd-mobilenet", 256, 0.99, 22.0, None, Some(50)),
        ("3d-unet-99", 16, 0.99, 0.853, None, None),
        ("3d-unet-99.9", 16, 0.999, 0.853, None, None),
        ("rnnt", 2513, 0.99, 92.548, Some(1000), None),
        ("bert-99", 10_833, 0.99, 90.874, Some(130), None),
        ("bert-99.9", 10_833, 0.999, 90.874, Some(130), None),
        ("dlrm-99", 204_800, 0.99, 80.25, Some(30), None),
        ("dlrm-99.9", 204_800, 0.999, 80.25, Some(30), None),
    ];
    assert_eq!(round.benchmarks.len(), table.len());
    for (name, loaded, factor, reference, server, interval) in table {
        let got = round.benchmark(name).unwrap();
        assert_eq!(got.performance_samples, Some(loaded), "{name}");
        assert_eq!((got.factor, got.accuracy[0].reference.unwrap().value), (factor, reference));
        assert_eq!(got.latency.get(&Server).copied(), server.map(|ms: u64| ms * MS), "{name}");
        assert_eq!(
            got.latency.get(&MultiStream).copied(),
            interval.map(|ms: u64| ms * MS),
            "{name}"
        );
    }
    let server = &round.scenarios[&Server];
    assert_eq!((server.runs, server.min_duration_ms), (5, 60_000));
    let confirmed =
        [Server, MultiStream].map(|s| round.scenarios[&s].confirmation.clone().unwrap());
    assert_eq!(confirmed.clone().map(|c| c.runs), [5, 5]);
    assert_eq!(confirmed.map(|c| c.lower_by), ["a small delta", "one stream"]);
    assert_eq!(round.scenarios[&MultiStream].arrivals, ArrivalPattern::FixedInterval);
    let (edge, datacenter) = (Suite::Edge, Suite::Datacenter);
    let bert = round.benchmark("bert-99.9").unwrap();
    assert_eq!(
        (bert.suites.contains_key(&datacenter), bert.suites.contains_key(&edge)),
        (true, false)
    );
}

/// Source: datacenter and edge tables of the rules of v6.1.
#[test]
fn the_rules_of_v61() {
    let round = Round::named("v6.1").unwrap();
    let ns = |(ttft, tpot): (u64, u64)| TokenBounds { ttft: ttft * MS, tpot: tpot * MS };
    // Time to first token and per output token, ms, in Server and Interactive.
    for (name, server, interactive) in [
        ("llama2-70b-99.9", (2000, 200), (450, 40)),
        ("llama3.1-8b", (2000, 100), (500, 30)),
        ("deepseek-r1", (2000, 80), (1500, 15)),
        ("gpt-oss-120b", (3000, 80), (2000, 15)),
    ] {
        let got = &round.benchmark(name).unwrap().token_latency;
        assert_eq!((got[&Server], got[&Interactive]), (ns(server), ns(interactive)), "{name}");
    }
    let vl = round.benchmark("qwen3-vl-235b-a22b").unwrap();
    assert_eq!((vl.latency[&Server], vl.latency[&Interactive]), (12_000 * MS, 1500 * MS));
    for rules in round.scenarios.values() {
        assert_eq!((rules.min_duration_ms, rules.runs), (600_000, 1));
        assert_eq!(rules.confirmation, None);
    }
    let multi = &round.scenarios[&MultiStream];
    assert_eq!((multi.arrivals, multi.samples_per_query), (ArrivalPattern::AfterTheLast, Some(8)));
    let suites = |suite: Suite| {
        let with = round.benchmarks.iter().filter(|b| b.suites.contains_key(&suite));
        with.map(|b| b.name.as_str()).collect::<Vec<_>>()
    };
    #[rustfmt::skip]
    assert_eq!(suites(Suite::Edge), ["resnet", "bert-99", "bert-99.9", "3d-unet-99", "3d-unet-99.9",
        "llama3.1-8b-edge", "stable-diffusion-xl", "whisper", "qwen3.6-27b", "yolo-95", "yolo-99"]);
    assert_eq!(round.benchmark("gpt-oss-120b").unwrap().inference.max_output_tokens, Some(10_240));
    assert_eq!(round.benchmark("deepseek-r1").unwrap().inference.max_output_tokens, Some(20_000));
}

#[test]
fn durations_runs_and_early_stopping_change_with_the_rounds() {
    for name in Round::names() {
        let round = Round::named(name).unwrap();
        let rules = &round.scenarios[&Server];
        let is_before_1 = round.version.major == 0;
        assert_eq!(rules.min_duration_ms, if is_before_1 { 60_000 } else { 600_000 }, "{name}");
        assert_eq!(rules.runs, if is_before_1 { 5 } else { 1 }, "{name}");
        assert_eq!(rules.stops_early, round.version.major >= 2, "{name}");
        assert_eq!(round.scenarios.contains_key(&Interactive), round.version.major >= 5, "{name}");
    }
}

/// If the reference and its share are both known, the bound equals their product to the last
/// bit, as the checkers compute it. The exceptions are the checkers'.
#[test]
fn every_bound_is_its_share_of_the_reference() {
    let mut odd = Vec::new();
    for name in Round::names() {
        let round = Round::named(name).unwrap();
        for benchmark in &round.benchmarks {
            for target in &benchmark.accuracy {
                let from = target.reference.unwrap_or_else(|| panic!("{name} {target:?}"));
                for (bound, share) in
                    [(target.at_least, from.lowest), (target.at_most, from.highest)]
                {
                    if bound != share.map(|share| from.value * share) {
                        odd.push((name, benchmark.name.as_str(), target.metric.as_str()));
                    }
                }
            }
        }
    }
    // The checkers store these bounds as decimal digits.
    odd.retain(|(_, name, _)| *name != "stable-diffusion-xl");
    // A reference was lowered, and its upper bound was not.
    let mixtral = |round| (round, "mixtral-8x7b", "TOKENS_PER_SAMPLE");
    assert_eq!(odd, [mixtral("v5.0"), mixtral("v5.1"), mixtral("v6.0")]);
}

#[test]
fn the_window_of_text_to_image_is_a_share_of_the_reference() {
    // The checkers store eight decimals.
    const DIGITS: f64 = 1e-8;
    for target in &benchmark("v5.1", "stable-diffusion-xl").accuracy {
        let from = target.reference.unwrap();
        assert!((target.at_least.unwrap() - from.value * from.lowest.unwrap()).abs() < DIGITS);
        assert!((target.at_most.unwrap() - from.value * from.highest.unwrap()).abs() < DIGITS);
    }
}
