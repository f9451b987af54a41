//! Parsing of the files of a result.

use dyno_rules::Round;
use dyno_rules::accuracy::{self, Patterns};
use dyno_submission::facts::detail::{self, DetailLog};
use dyno_submission::facts::{json, text};
use dyno_submission::tree::Tree;
use proptest::prelude::*;
use sha1::{Digest, Sha1};

use crate::made::folder::Folder;

fn line(key: &str, value: &str, is_error: bool) -> String {
    format!(
        ":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"time_ms\": 1.0, \"namespace\": \
         \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": {{\"is_error\": \
         {is_error}, \"is_warning\": false, \"file\": \"x.cc\", \"line_no\": 1, \"pid\": 1, \
         \"tid\": 1}}}}\n"
    )
}

fn scan(log: &str) -> DetailLog {
    detail::scan(&mut log.as_bytes()).unwrap()
}

#[test]
fn the_first_value_of_a_key_counts_and_another_is_known() {
    let seed = line("effective_qsl_rng_seed", "18446744073709551615", false);
    let other = line("effective_qsl_rng_seed", "\"7\"", false);
    let log = scan(&format!("{seed}{}{other}", line("not_asked_for", "[1,2]", false)));
    assert_eq!(log.whole("effective_qsl_rng_seed"), Some(u64::MAX));
    let entry = log.entry("effective_qsl_rng_seed").unwrap();
    assert_eq!((entry.line, entry.times), (1, 2));
    let (key, first, found) = log.contradicted().next().unwrap();
    assert_eq!((key, first), ("effective_qsl_rng_seed", entry));
    assert_eq!(*found, (3, serde_json::json!("7")));
    assert_eq!(log.value("result_validity"), None);
    assert!(log.begins_with_marker && log.is_utf8 && log.malformed.is_empty());
}

#[test]
fn errors_are_sorted_by_what_they_say() {
    let log = scan(
        &[
            line("error_runtime", "\"Loadgen built with uncommitted changes!\"", true),
            line("error_runtime", "\"Multiple conf files are used\"", true),
            line("error_runtime", "\"Ran out of generated queries\"", true),
        ]
        .concat(),
    );
    let errors = &log.errors;
    assert_eq!((errors.count, errors.not_uncommitted), (3, 2));
    assert_eq!((errors.several_confs, errors.others), (1, 1));
    assert_eq!(errors.first[2], (3, "Ran out of generated queries".to_owned()));
}

#[test]
fn lines_that_are_no_json_are_named() {
    let log = scan(&format!("hello\n:::MLLOG {{\"key\": \"broken\", \n{}", line("a", "]", false)));
    assert_eq!(log.malformed, [2, 3]);
    assert!(!log.begins_with_marker);
    // The last of duplicate fields counts, as in Python.
    let log = scan(":::MLLOG {\"key\": \"a\", \"key\": \"sut_name\", \"value\": \"x\"}\n");
    assert_eq!(log.text("sut_name"), Some("x"));
}

#[test]
fn a_line_without_a_value_is_no_line_of_a_load_generator() {
    let log = scan(":::MLLOG {\"key\": \"sut_name\", \"metadata\": {\"is_error\": false}}\n");
    assert_eq!((log.malformed, log.malformed_to_python), (vec![1], None));
    // Duplicate fields, and a key that is not a text.
    let twice = ":::MLLOG {\"key\": \"a\", \"key\": \"sut_name\", \"metadata\": {}}\n";
    let number = ":::MLLOG {\"key\": 5, \"metadata\": {\"is_error\": false}}\n";
    let log = scan(&format!("{twice}{number}"));
    assert_eq!((log.malformed, log.malformed_to_python), (vec![1, 2], None));
    assert!(scan(&line("sut_name", "null", false)).malformed.is_empty());
}

/// Python's text files end a line at a carriage return, and `rstrip` removes more than JSON's blanks.
#[test]
fn lines_end_as_in_python() {
    let (name, flag) = (line("sut_name", "\"x\"", false), line("result_validity", "1", true));
    let log = scan(&format!("progress\r{}\r{flag}", name.trim_end()));
    assert_eq!((log.text("sut_name"), log.errors.count), (Some("x"), 1));
    assert!(!log.begins_with_marker && log.malformed.is_empty());
    let log = scan(&format!("{} \u{a0}\x0c\x1f\r\n", name.trim_end()));
    assert!(log.text("sut_name") == Some("x") && log.malformed.is_empty());
    let cut = name.replace("\"value\"", "\r\"value\"");
    assert_eq!(scan(&cut).malformed_to_python, Some(1), "one line of JSON is two lines");

    let round = Round::named("v5.1").unwrap();
    let patterns = Patterns::new(round);
    let resnet = patterns.for_benchmark(round.benchmark("resnet"));
    let text = "50%\raccuracy=76.1%, good=1\r\nhash=ab\rmore\n";
    let said = accuracy::scan(&mut text.as_bytes(), resnet).unwrap();
    assert_eq!((said.metrics.len(), &said.metrics[0].value[..]), (1, "76.1"));
    assert_eq!((said.hashes[0].line, &said.hashes[0].text[..]), (3, "ab"));
}

/// `message["key"]` and `message["metadata"]["is_error"]` of the official parser.
#[test]
fn lines_have_keys_and_flags_as_in_python() {
    let log = scan(":::MLLOG [\"sut_name\", \"x\", null]\n");
    assert_eq!((log.text("sut_name"), log.malformed_to_python), (None, Some(1)));
    let log = scan(":::MLLOG {\"key\": \"sut_name\", \"value\": \"x\", \"metadata\": [true]}\n");
    assert_eq!((log.text("sut_name"), log.errors.count, log.unmarked), (Some("x"), 0, Some(1)));
    let flagged = |key: &str, metadata: &str| {
        scan(&format!(":::MLLOG {{\"key\": {key}, \"value\": 1, \"metadata\": {metadata}}}\n"))
    };
    let log = flagged("5", "{\"is_error\": true}");
    assert_eq!((log.errors.count, log.unmarked, log.malformed_to_python), (1, None, None));
    let log = flagged("[5]", "{\"is_error\": true}");
    assert_eq!(log.malformed_to_python, Some(1), "a list is no key");
    let log = flagged("\"a\"", "{\"is_error\": true, \"is_error\": false}");
    assert_eq!((log.errors.count, log.unmarked), (0, None), "the last flag counts");
    let log = flagged("\"a\"", "{\"is_error\": \"no\"}");
    assert_eq!(log.errors.count, 1, "a text that is not empty is true");
}

#[test]
fn lists_of_numbers_must_be_json_as_well() {
    for (list, is_json) in [
        ("[1,20,3]", true),
        ("[0,10]", true),
        ("[]", true),
        ("[1, 2]", true),
        ("[1.5,-2]", true),
        ("[[1],{}]", true),
        ("[01]", false),
        ("[1,]", false),
        ("[,1]", false),
        ("[1,2", false),
        ("[1]2", false),
    ] {
        let log = scan(&line("loaded_qsl_set", list, true));
        assert_eq!(log.malformed.is_empty(), is_json, "{list}");
        assert_eq!(log.errors.count, usize::from(is_json), "{list}");
    }
}

#[test]
fn an_accuracy_text_says_its_metrics_and_its_hash() {
    let round = Round::named("v5.1").unwrap();
    let patterns = Patterns::new(round);
    let text =
        "Results\n{'rouge1': '38.9139', 'rouge2': 16.194, 'gen_len': 3052751}\r\nhash=ab12\n";
    let llama = patterns.for_benchmark(round.benchmark("llama3.1-8b-edge"));
    let said = accuracy::scan(&mut text.as_bytes(), llama).unwrap();
    let found: Vec<_> =
        said.metrics.iter().map(|f| (f.line, &f.metric[..], &f.value[..])).collect();
    assert_eq!(
        found,
        [(2, "ROUGE1", "38.9139"), (2, "ROUGE2", "16.194"), (2, "GEN_LEN", "3052751")]
    );
    assert_eq!((said.hashes[0].line, &said.hashes[0].text[..]), (3, "ab12"));
    assert!(said.hashes[0].is_word());
}

#[test]
fn the_patterns_of_every_round_compile() {
    for name in Round::names() {
        let round = Round::named(name).unwrap();
        let patterns = Patterns::new(round);
        for benchmark in &round.benchmarks {
            let found = patterns.for_benchmark(Some(benchmark)).len();
            assert!(found > 0 || benchmark.accuracy.is_empty(), "{name} {}", benchmark.name);
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_readers_panic(bytes: Vec<u8>, cut in 0usize..400, value in "[\\[\\]{}\":,\\\\a0 .eE-]*") {
        let whole = line("result_validity", &value, true).into_bytes();
        let part = whole.get(..cut.min(whole.len())).unwrap_or(&[]);
        let patterns = Patterns::new(Round::named("v5.1").unwrap());
        for bytes in [&bytes[..], &whole, part, &[b":::MLLOG", &bytes[..]].concat()] {
            let log = detail::scan(&mut &bytes[..]).unwrap();
            prop_assert!(log.malformed.iter().all(|line| *line <= log.lines));
            for benchmark in ["resnet", "llama2-70b-99", "stable-diffusion-xl"] {
                let patterns = patterns.for_benchmark(Round::named("v5.1").unwrap().benchmark(benchmark));
                accuracy::scan(&mut &bytes[..], patterns).unwrap();
            }
        }
    }
}

#[test]
fn the_result_of_every_benchmark_of_every_round_is_kept() {
    for name in Round::names() {
        let round = Round::named(name).unwrap();
        let of_benchmarks = round.benchmarks.iter().flat_map(|one| one.result_keys.values());
        for key in round.result_keys.values().chain(of_benchmarks) {
            let log = DetailLog::from_pairs([(key.clone(), 1.into())]);
            assert_eq!(log.number(key), Some(1.0), "{name}");
        }
    }
}

#[test]
fn a_file_that_is_too_long_does_not_read_instead_of_being_cut() {
    let folder = Folder::new("long");
    folder.write("long.json", "{}".to_owned() + &" ".repeat(16 << 20) + "more");
    folder.write("just.json", "{}".to_owned() + &" ".repeat((16 << 20) - 2));
    let tree = Tree::walk(folder.path()).unwrap();
    let file = |name: &str| tree.top().file(name).unwrap();
    let problem = json::read(file("long.json")).unwrap_err();
    assert!(problem.why.contains("16777222 bytes") && problem.to_python().is_err());
    assert!(text::read(Some(file("long.json"))).is_err());
    assert!(json::read(file("just.json")).is_ok() && text::read(Some(file("just.json"))).is_ok());
}

#[test]
fn a_log_is_hashed_while_it_is_read() {
    let folder = Folder::new("hashed");
    let tree = |bytes: &[u8]| {
        folder.write("log", bytes);
        Tree::walk(folder.path()).unwrap()
    };
    let long = line("loaded_qsl_set", &format!("[{}1]", "1,".repeat(1 << 18)), false);
    let whole = line("sut_name", "\"made\"", false).repeat(3000) + &long + "no end of the line";
    for bytes in [whole.as_bytes(), b"", b"\xff\n:::MLLOG {}"] {
        let tree = tree(bytes);
        let (log, sha1) = detail::read_hashed(tree.top().file("log")).unwrap();
        assert_eq!(Ok(log), detail::read(tree.top().file("log")));
        let expected: String = Sha1::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(sha1, expected);
    }
}
