//! Results that reach the higher of two targets also count for the lower one.

use std::fs;

use dyno_rules::{Round, RuleScenario};
use dyno_submission::check::{Options, Program, check};
use dyno_submission::package::{Infer, PackageRequest, capture, package};

use super::trees::{open, single_stream};
use crate::made::folder::Folder;
use crate::made::submission::description;

#[test]
fn no_lower_target_asks_for_more_than_the_high_one() {
    let mut pairs = Vec::new();
    for name in Round::names() {
        let round = Round::named(name).unwrap();
        for high in &round.benchmarks {
            let low = high.lower_target().and_then(|low| round.benchmark(low));
            let Some(low) = low else { continue };
            assert!(low.factor < high.factor);
            assert_eq!(low.higher_target(), Some(high.name.as_str()));
            assert_eq!(low.family(), high.family());
            let rest = |b: &dyno_rules::Benchmark| {
                (
                    (b.audits.clone(), b.latency.clone(), b.token_latency.clone()),
                    (b.min_queries.clone(), b.performance_samples, b.dataset_samples),
                    (b.offline_samples, b.equal_issue, b.accuracy_outputs.clone()),
                )
            };
            assert_eq!(rest(low), rest(high), "{name} {}", low.name);
            pairs.push((low.name.as_str(), high.name.as_str()));
        }
    }
    assert!(pairs.len() > 20, "{pairs:?}");
    for pair in [("bert-99", "bert-99.9"), ("yolo-95", "yolo-99")] {
        assert!(pairs.contains(&pair), "{pairs:?}");
    }
    let resnet = Round::named("v6.0").unwrap().benchmark("resnet").unwrap();
    assert_eq!((resnet.lower_target(), resnet.family()), (None, "resnet"));
}

#[test]
fn results_are_copied_to_the_lower_target_when_asked_for() {
    for (round, programs) in [
        ("v5.1", &[Program::Strict, Program::Mono, Program::Modular][..]),
        ("v6.0", &[Program::Strict, Program::Modular]),
    ] {
        let round = Round::named(round).unwrap();
        let scratch = Folder::new(&format!("lower-{}", round.version));
        let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
        single_stream(round, 43, &run);
        let asked = PackageRequest {
            benchmark: "3d-unet-99.9".into(),
            stands_for: None,
            captured: capture(&run),
            description: description(&[]),
            ..open(round, &run)
        };
        // Inference is offered instead of done silently.
        let plain = package(&asked, &scratch.path().join("plain")).unwrap();
        assert_eq!(plain.lower, []);
        assert!(plain.notes[0].contains("`3d-unet-99`; --infer"), "{:?}", plain.notes);

        let asked = PackageRequest { infer: Infer::Missing, ..asked };
        let packaged = package(&asked, &out).unwrap();
        let low = |scenario| ("3d-unet-99".to_owned(), scenario);
        assert_eq!(packaged.lower, [low(RuleScenario::SingleStream), low(RuleScenario::Offline)]);
        assert_eq!((packaged.missing_fields, packaged.notes), (vec![], vec![]));
        for program in programs {
            let checked = check(&out, round, &Options::new(*program)).unwrap();
            let found: Vec<&str> = checked.findings.iter().map(|finding| finding.check).collect();
            // The runs of this test are simulated.
            let found: Vec<&str> =
                found.into_iter().filter(|check| *check != "log.simulated").collect();
            let told = if *program == Program::Strict { 2 } else { 0 };
            let expected = vec!["performance.lower_target"; told];
            assert_eq!((checked.valid(), found), (4, expected), "{program:?}");
        }
    }
}

#[test]
fn what_the_tree_has_of_the_lower_target_stays() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("lower-kept");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    single_stream(round, 43, &run);
    let low =
        PackageRequest { benchmark: "3d-unet-99".into(), stands_for: None, ..open(round, &run) };
    package(&low, &out).unwrap();
    let own = out.join("open/Us/results/box/3d-unet-99/SingleStream/accuracy/accuracy.txt");
    fs::write(&own, "its own").unwrap();
    let high = PackageRequest { benchmark: "3d-unet-99.9".into(), infer: Infer::Missing, ..low };
    let packaged = package(&high, &out).unwrap();
    assert_eq!(packaged.lower, [("3d-unet-99".to_owned(), RuleScenario::Offline)]);
    assert_eq!(fs::read_to_string(own).unwrap(), "its own");
    let readme = out.join("open/Us/measurements/box/3d-unet-99/Offline/README.md");
    let readme = fs::read_to_string(readme).unwrap();
    assert!(readme.contains("from the result of `3d-unet-99.9`"), "{readme}");
}
