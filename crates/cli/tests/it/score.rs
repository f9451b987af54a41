//! Scores of accuracy logs, from the command line.

use crate::program::Folder;

/// A sample, and its answer in hexadecimal digits.
type Answer<'a> = (u64, &'a str);

/// Answers to samples, as LoadGen writes them.
fn log(answers: &[Answer<'_>]) -> String {
    let entry = |(at, (index, data)): (usize, &Answer<'_>)| {
        format!("{{ \"seq_id\" : {at}, \"qsl_idx\" : {index}, \"data\" : \"{data}\" }}")
    };
    let entries: Vec<String> = answers.iter().enumerate().map(entry).collect();
    format!("[\n{}\n]\n", entries.join(",\n"))
}

const THREE: &str = "0300000000000000";

fn folder(answers: &[Answer<'_>]) -> Folder {
    let folder = Folder::new();
    folder.write("log.json", &log(answers));
    folder.write("labels.txt", "a.jpeg 3\nb.jpeg 4\n");
    folder
}

const SCORE: &str = "task score top1 --log log.json --element int64 --with labels=labels.txt";

#[test]
fn figures_go_to_stdout_and_to_files() {
    let folder = folder(&[(0, THREE), (1, THREE)]);
    let ran = folder.dyno(&format!("{SCORE} --text accuracy.txt --json figures.json")).exits(0);
    assert_eq!(ran.stdout, "accuracy=50.000%, good=1, total=2\n");
    assert_eq!(folder.read("accuracy.txt"), ran.stdout);
    assert!(folder.read("figures.json").contains("\"acc\": 50.0"));
    assert!(ran.stderr.contains("2 answers to 2 of 2 samples"), "{}", ran.stderr);
}

#[test]
fn answers_that_are_none_are_told_and_are_no_success() {
    let ran = folder(&[(0, THREE), (1, "03"), (7, THREE)]).dyno(SCORE).exits(1);
    assert_eq!(ran.stdout, "accuracy=33.333%, good=1, total=3\n");
    for told in [
        "3 answers to 2 of 2 samples",
        "line 3: sample 1: expected 8 (int64) bytes, found 1",
        "line 4: sample 7: the references have 2 samples, and not this one",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
}

/// The official script of this metric skips a sample that it has seen.
#[test]
fn the_first_of_two_answers_counts_with_a_warning() {
    let ran = folder(&[(0, THREE), (1, THREE), (0, THREE)]).dyno(SCORE).exits(0);
    assert!(!ran.stderr.contains("differ"), "{}", ran.stderr);
    let ran = folder(&[(0, THREE), (1, THREE), (0, "0400000000000000")]).dyno(SCORE).exits(0);
    assert_eq!(ran.stdout, "accuracy=50.000%, good=1, total=2\n");
    let warning = "warning: 1 answer differs from the first answer to the same sample";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    let twice = folder(&[(0, THREE)]);
    let entry = twice.read("log.json").replace(" }", ", \"qsl_idx\" : 0 }");
    twice.write("log.json", &entry);
    let ran = twice.dyno(SCORE).exits(3);
    assert!(ran.stderr.contains("field `qsl_idx` occurs twice"), "{}", ran.stderr);
}

/// NaN and infinity are no class. As an integer, NaN would be 0.
#[test]
fn answers_with_nan_count_as_wrong_and_are_listed() {
    let folder = Folder::new();
    folder.write("labels.txt", "a.jpeg 0\nb.jpeg 0\nc.jpeg 0\n");
    folder.write("log.json", &log(&[(0, "0000c07f"), (1, "0000807f"), (2, "00000000")]));
    let score = "task score top1 --log log.json --element float32 --with labels=labels.txt";
    let ran = folder.dyno(score).exits(1);
    assert_eq!(ran.stdout, "accuracy=33.333%, good=1, total=3\n");
    for told in ["sample 0: expected numbers, found NaN", "sample 1: expected numbers, found inf"] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
}

/// Half of a log is not a score of the data set, whatever the metric.
#[test]
fn a_log_that_lacks_answers_fails_unless_a_partial_score_is_accepted() {
    let folder = folder(&[(0, THREE)]);
    let ran = folder.dyno(SCORE).exits(1);
    assert_eq!(ran.stdout, "accuracy=100.000%, good=1, total=1\n");
    assert!(ran.stderr.contains("error: 1 sample has no answer"), "{}", ran.stderr);
    assert!(ran.stderr.contains("use --partial"), "{}", ran.stderr);
    let ran = folder.dyno(&format!("{SCORE} --partial")).exits(0);
    assert_eq!(ran.stdout, "accuracy=100.000%, good=1, total=1\n");
    assert!(ran.stderr.contains("partial score: it covers 1 of 2 samples"), "{}", ran.stderr);
    // Repeated answers do not fill the gap.
    folder.write("log.json", &log(&[(0, THREE), (0, THREE)]));
    folder.dyno(SCORE).exits(1);
    folder.write("references.txt", "the cat sat\na dog ran\n");
    let the_cat_sat = "7468652063617420736174";
    folder.write("log.json", &log(&[(0, the_cat_sat)]));
    let bleu = "task score bleu --log log.json --with reference=references.txt";
    folder.dyno(bleu).exits(1);
    folder.dyno(&format!("{bleu} --partial")).exits(0);
    // A malformed answer is no success, accepted or not.
    folder.write("log.json", &log(&[(0, THREE), (9, THREE)]));
    folder.dyno(&format!("{SCORE} --partial")).exits(1);
}

#[test]
fn a_task_judges_a_log_as_its_run_does() {
    // The instructor's side is 0, the president's is 1.
    let folder = folder(&[(0, "0000000000000000"), (33, "0000000000000000")]);
    let ran =
        folder.dyno("task score karate --log log.json --json figures.json --partial").exits(0);
    assert!(folder.read("figures.json").contains("\"method\": \"node-accuracy\""));
    assert!(ran.stderr.contains("2 answers to 2 of 34 samples"), "{}", ran.stderr);
    for (command, told) in [
        ("task score karate --log log.json --element int32", "defines how it is scored"),
        ("task score karate --log log.json --with x=y", "takes no files; remove --with x=FILE"),
        ("task score digits --log log.json", "has no method to judge answers"),
        ("task score stable-diffusion-xl --log log.json", "needs the file `model`"),
    ] {
        let refused = folder.dyno(command);
        assert!(refused.stderr.contains(told), "{command}: {}", refused.stderr);
    }
}

#[test]
fn where_nothing_is_scored_there_is_no_figure() {
    let cases: [(&[Answer<'_>], &str, &str); 5] = [
        (&[], SCORE, "the log has no answers"),
        (&[(0, THREE)], "task score top1 --log log.json --with labels=labels.txt", "--element"),
        (&[(0, "0000003f")], "task score roc-auc --log log.json", "a multiple of 8"),
        (
            &[(0, "0000003f0000803f")],
            "task score roc-auc --log log.json",
            "the metric is undefined",
        ),
        // Time, query, and one candidate with the prediction 0.5, the label 1 and the weight 1.
        (
            &[(0, "00000000000000000000003f0000803f0000803f0000803f")],
            "task score normalized-entropy --log log.json",
            "the metric is undefined",
        ),
    ];
    for (answers, command, told) in cases {
        let folder = folder(answers);
        let ran = folder.dyno(&format!("{command} --text accuracy.txt")).exits(3);
        assert_eq!(ran.stdout, "", "{command}");
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
        assert!(!folder.0.join("accuracy.txt").exists(), "{command}");
    }
}

#[test]
fn what_is_asked_for_wrongly_is_a_usage_error() {
    let folder = folder(&[(0, THREE)]);
    for (command, told) in [
        ("task score top2 --log log.json", "did you mean top1?"),
        ("task score foo --log log.json", "hint: dyno task methods lists all methods"),
        ("task score top1 --log log.json", "top1 needs --with labels=FILE"),
        ("task score top1 --with label=labels.txt", "top1 has no file 'label'"),
        (
            "task score top1 --with labels=labels.txt --log .",
            "hint: use --log RUN/SCENARIO/accuracy/",
        ),
        ("task score top1 --with labels=labels.txt --element int9", "expected one of int8"),
        ("task score roc-auc --log log.json --with trace=labels.txt", "--with day_23=FILE"),
        ("task score coco-map --with annotations=x --choose classes=x", "expected one of ids"),
    ] {
        let ran = folder.dyno(command).exits(2);
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    let ran = folder.dyno("task score top1 --log none.json --with labels=labels.txt").exits(3);
    assert!(ran.stderr.contains("none.json: No such file"), "{}", ran.stderr);
}
