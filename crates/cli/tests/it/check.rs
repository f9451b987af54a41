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
        assert!(out.contains("INVALID: there is no result"), "{out}");
        assert!(out.contains("how to mend"), "{out}");
    }
    let out = folder.dyno("check tree --round v5.1").exits(1).stdout;
    assert!(out.contains("[tree.divisions]"), "{out}");
    assert_eq!(folder.dyno("check tree --round v5.1 --quiet").exits(1).stdout, "");
}

#[test]
fn what_cannot_be_checked_is_a_usage_error() {
    let folder = Folder::new();
    folder.write("tree/closed/x", "");
    for (arguments, problem) in [
        ("check missing --round v5.1", "cannot list the folder missing"),
        ("check tree --round v9.9", "there is no round `v9.9`"),
        ("check tree --round v6.0 --compat mono", "has no round v6.0"),
        ("check tree --round v4.1 --compat modular", "not for v4.1"),
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
    for (compat, last) in [("mono", "weight_data_types"), ("modular", "PrivateID")] {
        let check = format!("check tree --round v5.1 --compat {compat} --csv table.csv");
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
