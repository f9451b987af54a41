//! The check of a submission, from the command line.

use crate::program::Folder;

#[test]
fn a_tree_without_results_is_invalid_and_says_why() {
    let folder = Folder::new();
    folder.write("tree/closd/acme/results/box/resnet50/Offline/x", "");
    for compat in ["", " --compat mono", " --compat modular"] {
        let run = folder.dyno(&format!("check tree --round v5.1{compat}"));
        let out = run.exits(1).stdout;
        assert!(out.contains("error[tree.results]") || out.contains("warning[tree.results]"));
        assert!(out.contains("INVALID: no results"), "{out}");
        assert!(out.contains("How to fix"), "{out}");
    }
    let out = folder.dyno("check tree --round v5.1").exits(1).stdout;
    assert!(out.contains("[tree.divisions]"), "{out}");
    assert_eq!(folder.dyno("check tree --round v5.1 --quiet").exits(1).stdout, "");
}

#[test]
fn what_cannot_be_checked_is_a_usage_error() {
    let folder = Folder::new();
    folder.write("tree/closed/x", "");
    folder.write("run/summary.json", "{}");
    let missing = folder.dyno("check missing --round v5.1").exits(3).stderr;
    assert!(missing.contains("cannot list the folder missing"), "{missing}");
    for (arguments, problem) in [
        ("check tree --round v9.9", "there is no round `v9.9`"),
        ("check run --round v5.1", "dyno package TREE run builds a tree"),
        ("check tree --round v6.0 --compat mono", "has no round v6.0"),
        ("check tree --round v4.1 --compat modular", "not for v4.1"),
        ("check tree --round v4.1 --compat v3.0", "the checker of v3.0 judges v3.0, not v4.1"),
        ("check tree --round v0.5 --compat v0.5", "the first that is known is v0.7"),
        ("check tree --round v4.1 --compat v9.9", "use mono, modular or a round"),
        ("check --explain performance.seed", "--explain performance.seeds"),
        ("check tree", "--round"),
        ("check tree --compat mono", "this checker judges several rounds"),
        ("check tree --compat modular", "name the round of the submission"),
        ("check tree --round v5.1 --scenarios-to-skip NOPE", "there is no scenario `NOPE`"),
    ] {
        let said = folder.dyno(arguments).exits(2).stderr;
        assert!(said.contains(problem), "{said}");
    }
    let table = "check tree --round v5.1 --compat mono --csv missing/table.csv";
    assert!(folder.dyno(table).exits(3).stderr.contains("cannot write missing/table.csv"));
}

#[test]
fn the_table_has_the_columns_of_the_checker() {
    let folder = Folder::new();
    folder.write("tree/closed/x", "");
    for (round, compat, last) in [
        ("v5.1", "mono", "weight_data_types"),
        ("v5.1", "modular", "PrivateID"),
        ("v4.1", "v4.1", "Units"),
        ("v6.0", "v6.0", "PrivateID"),
    ] {
        let check = format!("check tree --round {round} --compat {compat} --csv table.csv");
        folder.dyno(&check).exits(1);
        let table = folder.read("table.csv");
        assert!(table.starts_with("Organization,Availability,Division,"), "{table}");
        assert!(table.lines().next().unwrap().ends_with(last), "{table}");
    }
}

#[test]
fn names_of_files_do_not_reach_the_terminal_as_they_are() {
    let folder = Folder::new();
    folder.write("tree/closed/acme/results/box\x1b[2J/resnet50/Offline/x", "");
    let out = folder.dyno("check tree --round v5.1 --compat mono --all").exits(1).stdout;
    assert!(!out.contains('\x1b') && out.contains("box\u{fffd}[2J"), "{out}");
}

#[test]
fn one_finding_that_does_not_fit_is_counted_as_one() {
    let folder = Folder::new();
    for name in ["a 1", "a 2", "a 3", "a 4"] {
        folder.write(&format!("tree/closed/acme/results/box/resnet50/Offline/{name}"), "");
    }
    let out = folder.dyno("check tree --round v5.1 --compat mono").exits(1).stdout;
    assert!(out.contains("  and 1 more finding\n1 finding is not shown; --all shows"), "{out}");
}

#[test]
fn a_check_is_explained_by_its_source() {
    let folder = Folder::new();
    let seeds = folder.dyno("check --explain performance.seeds").exits(0).stdout;
    assert!(seeds.contains("inference_rules.adoc") && seeds.contains("severity: rules error"));
    let own = folder.dyno("check --explain performance.summary").exits(0).stdout;
    assert!(own.contains("source: Dyno;") && own.contains("severity: rules warning"), "{own}");
}

#[test]
fn a_large_tree_begins_with_what_rejects_all_of_it() {
    let folder = Folder::new();
    for system in 0..20 {
        let run = format!("tree/closed/acme/results/s{system}/resnet50/Offline/performance/run_1");
        folder.write(&format!("{run}/mlperf_log_detail.txt"), "x");
    }
    folder.write("tree/run.sh", "x");
    let out = folder.dyno("check tree --round v5.1").exits(1).stdout;
    let first = out.lines().nth(3).unwrap_or_default();
    assert_eq!(first, "20 results rejected by 1 error: tree.root_files", "{out}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("or pass --skip-extra-files-in-root-check"), "{out}");
    let out = folder.dyno("check tree --round v5.1 --skip-extra-files-in-root-check").exits(1);
    assert!(!out.stdout.contains("tree.root_files"), "{}", out.stdout);
}

#[test]
fn what_the_rules_refuse_beyond_the_official_checker_is_listed_with_its_source() {
    let folder = Folder::new();
    folder.write("tree/closed/acme/results/box/resnet50/Offline/x", "");
    let out = folder.dyno("check tree --round v5.1 --why-not-official").exits(1).stdout;
    assert!(out.starts_with("0 results are rejected that the official checker accepts"), "{out}");
}
