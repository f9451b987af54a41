//! Results of checking generated trees.

use std::fs;
use std::path::Path;

use dyno_rules::{OneFileChecker, Round, RuleScenario};
use dyno_submission::check::{CheckReport, Options, Outcome, Program, Skip, catalogue, check};
use dyno_submission::entry::{Guesses, ModelNames, official_name};
use dyno_submission::finding::Severity;
use proptest::prelude::*;

use crate::made::folder::Folder;
use crate::made::submission::resnet;

const RESULT: &str = "closed/acme/results/box/resnet";
const DETAIL: &str = "performance/run_1/mlperf_log_detail.txt";
const SINGLE_STREAM: &str =
    "closed/acme/results/box/resnet/SingleStream/performance/run_1/mlperf_log_detail.txt";

fn judged(folder: &Folder, round: &str, program: Program) -> CheckReport {
    check(folder.path(), Round::named(round).unwrap(), &Options::new(program)).unwrap()
}

fn metrics(checked: &CheckReport) -> Vec<f64> {
    let valid = |outcome: &Outcome| match outcome {
        Outcome::Valid { metric } => Some(*metric),
        Outcome::Invalid => None,
    };
    checked.results.values().filter_map(valid).collect()
}

#[test]
fn who_names_a_folder_in_a_tree_is_told_of_the_tree() {
    let folder = resnet(Round::named("v5.1").unwrap());
    let options = Options::new(Program::Strict);
    let told = |path: &Path| {
        let checked = check(path, Round::named("v5.1").unwrap(), &options).unwrap();
        let of_tree = checked.findings.into_iter().find(|one| one.check == "tree.results");
        of_tree.and_then(|finding| finding.expected)
    };
    let whole = folder.path().canonicalize().unwrap();
    let expected = format!("the whole tree, such as {}", whole.display());
    for inside in ["closed", "closed/acme", RESULT] {
        assert_eq!(told(&folder.path().join(inside)).as_ref(), Some(&expected), "{inside}");
    }
    assert_eq!(told(folder.path()), None);
    // The user names a parent folder.
    let around = Folder::new("around");
    around.write("mine/closed/acme/results/box/resnet50/Offline/made", "");
    assert!(told(around.path()).unwrap().ends_with("mine"));
}

#[test]
fn a_tree_in_which_all_is_right_passes_every_checker() {
    for (round, programs) in [
        ("v5.1", &[Program::Strict, Program::Mono, Program::Modular][..]),
        ("v6.0", &[Program::Strict, Program::Modular][..]),
    ] {
        let folder = resnet(Round::named(round).unwrap());
        for program in programs {
            let checked = judged(&folder, round, *program);
            assert!(checked.is_valid(), "{round} {program:?}: {:#?}", checked.findings);
            // Eight samples after 50 ms and 5 ms each, 200 samples a second, and 50 ms.
            let [multi, offline, single] = metrics(&checked)[..] else { panic!("{checked:#?}") };
            assert_eq!((multi, single), (85.0, 50.0));
            assert!((offline - 200.0).abs() < 0.1, "{offline}");
            assert_eq!(checked.rows.len(), 3);
        }
    }
}

#[test]
fn a_tree_without_results_is_never_fine() {
    let empty = Folder::new("empty");
    let misspelt = Folder::new("misspelt");
    misspelt.write("closd/acme/results/box/resnet/Offline/x", "");
    for program in [Program::Strict, Program::Mono, Program::Modular] {
        for folder in [&empty, &misspelt] {
            let checked = judged(folder, "v5.1", program);
            assert!(!checked.is_valid(), "{program:?}");
            assert!(checked.findings.iter().any(|finding| finding.check == "tree.results"));
        }
    }
    // The official programs accept it; the rules do not.
    assert!(judged(&empty, "v5.1", Program::Mono).looks_fine());
    let strict = judged(&misspelt, "v5.1", Program::Strict);
    let misspelt = strict.findings.iter().find(|finding| finding.check == "tree.divisions");
    assert_eq!(misspelt.unwrap().path, Path::new("closd"));
}

/// Replaces the results of these scenarios with copies of the SingleStream result.
fn infer(folder: &Folder, scenarios: &[&str]) {
    for scenario in scenarios {
        folder.write(&format!("{RESULT}/{scenario}/{DETAIL}"), folder.read(SINGLE_STREAM));
    }
}

#[test]
fn a_result_may_be_inferred_from_a_single_stream() {
    let folder = resnet(Round::named("v5.1").unwrap());
    infer(&folder, &["MultiStream", "Offline"]);
    for program in [Program::Mono, Program::Modular] {
        let checked = judged(&folder, "v5.1", program);
        // Eight times the estimate of the 99th percentile, and queries per second.
        assert_eq!(metrics(&checked), [400.0, 20.0, 50.0], "{:#?}", checked.findings);
    }
}

#[test]
fn an_estimate_of_zero_is_no_source_of_a_result() {
    let folder = resnet(Round::named("v5.1").unwrap());
    infer(&folder, &["MultiStream"]);
    let log = format!("{RESULT}/MultiStream/{DETAIL}");
    folder.set(&log, "early_stopping_latency_ms", "0");
    for program in [Program::Mono, Program::Modular] {
        let checked = judged(&folder, "v5.1", program);
        let at = Path::new(RESULT).join("MultiStream");
        assert_eq!(checked.results[&at], Outcome::Invalid, "{program:?}");
    }
}

#[test]
fn a_flag_leaves_its_check_out() {
    let folder = resnet(Round::named("v5.1").unwrap());
    fs::remove_file(folder.path().join("closed/acme/documentation/calibration.md")).unwrap();
    folder.write("closed/acme/documentation/other.md", "x");
    folder.write("closed/acme/systems/other.json", "{}");
    folder.write("notes.txt", "x");
    folder.write("closed/acme/measurements/box/resnet/Offline/user.conf", "");
    let round = Round::named("v5.1").unwrap();
    let mut options = Options::new(Program::Mono);
    options.skip =
        vec![Skip::Calibration, Skip::SystemsWithoutResults, Skip::RootFiles, Skip::EmptyFiles];
    assert!(check(folder.path(), round, &options).unwrap().is_valid());
    for left_out in 0..options.skip.len() {
        let mut options = options.clone();
        options.skip.remove(left_out);
        assert!(!check(folder.path(), round, &options).unwrap().is_valid(), "{options:?}");
    }
}

#[test]
fn checks_have_ids_of_their_own_and_say_how_to_mend() {
    let mut ids: Vec<&str> = catalogue::ALL.iter().map(|check| check.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), catalogue::ALL.len());
    for check in catalogue::ALL {
        assert!(!check.title.is_empty() && !check.mend.is_empty(), "{}", check.id);
        assert!(check.severity(Program::Strict).is_some(), "{}", check.id);
    }
}

#[test]
fn models_are_known_by_other_names() {
    let round = Round::named("v5.1").unwrap();
    let mut own = ModelNames::default();
    own.names.insert("ours".to_owned(), "whisper".to_owned());
    let official = |name: &str, guesses| official_name(round, name, &own, guesses);
    for (name, model) in [
        ("resnet", "resnet"),
        ("resnet50", "resnet"),
        ("ours", "whisper"),
        ("mobilenet-v1-0.5-128", "resnet"),
        ("bert-99.9-int8", "bert-99.9"),
        ("nothing", "nothing"),
    ] {
        assert_eq!(official(name, Guesses::OneFile(OneFileChecker::LAST)), model);
        assert_eq!(official(name, Guesses::Modular), model);
    }
    assert_eq!(official("llama3_1-405b-fp8", Guesses::Modular), "llama3.1-405b");
    assert_eq!(
        official("llama3_1-405b-fp8", Guesses::OneFile(OneFileChecker::LAST)),
        "llama3_1-405b-fp8"
    );
    assert_eq!(RuleScenario::named("singlestream"), Some(RuleScenario::SingleStream));
}

/// A defect of a file in the tree.
#[derive(Debug, Clone)]
enum Damage {
    Bytes(Vec<u8>),
    Cut(usize),
    Flip(usize, u8),
    Gone,
    Folder,
    Link(String),
    Twice,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80).prop_map(Damage::Bytes),
        (0usize..4000).prop_map(Damage::Cut),
        ((0usize..4000), any::<u8>()).prop_map(|(at, byte)| Damage::Flip(at, byte)),
        Just(Damage::Gone),
        Just(Damage::Folder),
        prop::sample::select(vec!["..", ".", "nowhere", "../..", "/dev/zero", "/dev/null"])
            .prop_map(|to| Damage::Link(to.to_owned())),
        Just(Damage::Twice),
    ]
}

fn hurt(file: &Path, damage: &Damage) {
    // A link to a device, created by an earlier defect, is endless.
    if !fs::symlink_metadata(file).is_ok_and(|file| file.is_file()) {
        return;
    }
    let mut bytes = fs::read(file).unwrap();
    match damage {
        Damage::Bytes(other) => bytes.clone_from(other),
        Damage::Cut(at) => bytes.truncate(*at),
        Damage::Flip(at, byte) => {
            let length = bytes.len().max(1);
            if let Some(old) = bytes.get_mut(at % length) {
                *old = *byte;
            }
        }
        Damage::Twice => bytes.extend_from_within(..),
        Damage::Gone | Damage::Folder | Damage::Link(_) => {
            fs::remove_file(file).unwrap();
            match damage {
                Damage::Folder => fs::create_dir(file).unwrap(),
                Damage::Link(to) => std::os::unix::fs::symlink(to, file).unwrap(),
                _ => {}
            }
            return;
        }
    }
    fs::write(file, bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn no_damage_makes_the_check_panic(
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..6),
    ) {
        for (round, programs) in [
            ("v5.1", &[Program::Strict, Program::Mono, Program::Modular][..]),
            ("v6.0", &[Program::Strict, Program::Modular][..]),
        ] {
            let folder = resnet(Round::named(round).unwrap());
            let mut files = Vec::new();
            crate::made::folder::each_file(folder.path(), &mut |file| files.push(file.to_owned()));
            files.sort();
            for (index, damage) in &damages {
                hurt(&files[index.index(files.len())], damage);
            }
            for program in programs {
                let checked = judged(&folder, round, *program);
                let errors = checked.findings.iter().any(|f| f.severity == Severity::Error);
                let valid = checked.valid() == checked.results.len();
                // Invalid results have findings.
                prop_assert!(valid || errors, "{checked:#?}");
            }
        }
    }
}
