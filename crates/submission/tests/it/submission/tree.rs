//! Walk over a tree: order, kinds, links.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use dyno_rules::{OneFileChecker, Round, RuleScenario};
use dyno_submission::entry::{DivisionFolder, Guesses, submitters};
use dyno_submission::tree::{EntryKind, Node, Tree};

use crate::made::folder::Folder;

#[test]
fn entries_come_by_name_with_what_they_are() {
    let folder = Folder::new("kinds");
    folder.write("b/two.txt", "12");
    folder.write("b/One.txt", "1");
    folder.write("a", "");
    symlink("b/two.txt", folder.path().join("to-file")).unwrap();
    symlink("b", folder.path().join("to-folder")).unwrap();
    symlink("nowhere", folder.path().join("to-nothing")).unwrap();
    let tree = Tree::walk(folder.path()).unwrap();
    let paths: Vec<PathBuf> = tree.top().descendants().map(Node::path).collect();
    let expected = [
        "a",
        "b",
        "b/One.txt",
        "b/two.txt",
        "to-file",
        "to-folder",
        "to-folder/One.txt",
        "to-folder/two.txt",
        "to-nothing",
    ];
    assert_eq!(paths, expected.map(PathBuf::from));
    let kind = |path: &str| tree.node(path).unwrap().kind();
    assert_eq!(kind("b"), EntryKind::Folder);
    assert_eq!(kind("b/two.txt"), EntryKind::File { size: 2 });
    assert_eq!(kind("to-file"), EntryKind::File { size: 2 });
    assert_eq!(kind("to-folder"), EntryKind::Folder);
    assert_eq!(kind("to-nothing"), EntryKind::BrokenLink);
    assert_eq!(tree.node("to-nothing").unwrap().link(), Some(Path::new("nowhere")));
    assert!(tree.node("to-folder/One.txt").unwrap().is_behind_link());
    assert!(!tree.node("b/One.txt").unwrap().is_behind_link());
    assert_eq!(tree.node("b/three.txt"), None);
    assert_eq!(tree.node("../b"), None);
}

#[test]
fn a_circle_of_links_ends() {
    let folder = Folder::new("circle");
    folder.write("a/x", "");
    folder.write("b/y", "");
    symlink("../b", folder.path().join("a/to-b")).unwrap();
    symlink("../a", folder.path().join("b/to-a")).unwrap();
    symlink("..", folder.path().join("a/up")).unwrap();
    symlink("self", folder.path().join("self")).unwrap();
    let tree = Tree::walk(folder.path()).unwrap();
    assert_eq!(tree.node("a/to-b/to-a").unwrap().children().count(), 0);
    assert_eq!(tree.node("a/up").unwrap().children().count(), 0);
    assert_eq!(tree.node("self").unwrap().kind(), EntryKind::BrokenLink);
    assert!(tree.unlisted().is_empty());
}

#[test]
fn what_is_no_folder_is_no_tree() {
    let folder = Folder::new("none");
    let error = Tree::walk(&folder.path().join("missing")).unwrap_err();
    assert!(error.to_string().starts_with("cannot list the folder "), "{error}");
}

#[test]
fn results_are_found_in_both_layouts_and_in_any_case() {
    let folder = Folder::new("layouts");
    let result = "results/box/resnet50/singlestream";
    folder.write(&format!("closed/acme/{result}/performance/run_1/x"), "");
    folder.write("closed/acme/measurements/box/resnet50/singlestream/user.conf", "");
    folder.write("closed/acme/systems/box.json", "{}");
    folder.write("semi/acme/results/box/resnet50/Offline/x", "");
    let tree = Tree::walk(folder.path()).unwrap();
    let found =
        submitters(&tree, Round::named("v5.1").unwrap(), Guesses::OneFile(OneFileChecker::LAST));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].division, found[0].name.as_str()), (DivisionFolder::Closed, "acme"));
    let system = &found[0].systems[0];
    assert!(system.description.is_some());
    let model = &system.models[0];
    assert_eq!((model.name.as_str(), model.official.as_str()), ("resnet50", "resnet"));
    let entry = &model.results[0];
    assert_eq!(entry.scenario, Some(RuleScenario::SingleStream));
    assert_eq!(entry.measurements.unwrap().children().count(), 1);
    assert!(entry.run().is_some() && entry.compliance.is_none() && entry.power().is_none());
    let later = submitters(&tree, Round::named("v6.0").unwrap(), Guesses::Modular);
    let entry = &later[0].systems[0].models[0].results[0];
    assert_eq!(entry.measurements.unwrap().path(), Path::new("closed/acme").join(result));
}
