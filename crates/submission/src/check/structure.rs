//! Checks a submitter's folder: names, sizes, links, and unused parts.

use std::path::PathBuf;

use super::catalogue::*;
use super::issues::{Issues, Location};
use dyno_rules::Behavior;

use super::{Options, Program, Skip};
use crate::entry::{DivisionFolder, Submitter};
use crate::layout::SYSTEMS;
use crate::tree::{EntryKind, Node, Tree};

/// Maximum file size in bytes.
const LARGEST_FILE: u64 = 50 << 20;

/// Checks every file and folder. If a check fails, no result of the submitter counts.
pub fn check_names(tree: &Tree, submitter: Node<'_>, issues: &mut Issues) {
    let program = issues.program();
    // Linked folders and their files are not checked, unless the submitter's folder itself is linked.
    let is_linked = submitter.link().is_some() || submitter.is_behind_link();
    let is_behind = move |node: &Node<'_>| {
        if is_linked { node.is_behind_link_in(submitter) } else { node.is_behind_link() }
    };
    let below = || submitter.descendants().filter(move |node| !is_behind(node));
    let walked = || std::iter::once(submitter).chain(below());
    let is_linked_folder = |node: &Node<'_>| node.is_folder() && node.link().is_some();
    let own = || std::iter::once(submitter).chain(below().filter(|node| !is_linked_folder(node)));
    let name_fits = |fits: fn(&str) -> bool| own().filter(|node| fits(&node.text())).collect();
    // A folder that cannot be listed may not be empty; it is reported separately.
    let is_listed = |node: &Node<'_>| {
        program != Program::Strict || tree.unlisted().iter().all(|u| u.path != node.path())
    };
    let is_empty =
        |node: &Node<'_>| node.is_folder() && node.children().next().is_none() && is_listed(node);
    let checks: [(&'static Check, Vec<Node<'_>>, &str); 6] = [
        (
            &BROKEN_LINKS,
            walked().filter(|node| is_broken(tree, *node, program)).collect(),
            "the target of the link does not exist",
        ),
        (
            &LARGE_FILES,
            own().filter(|node| node.size() > LARGEST_FILE).collect(),
            "the file is larger than 50 MiB",
        ),
        (&HIDDEN_NAMES, name_fits(|name| name.starts_with('.')), "the name begins with a dot"),
        (&BLANK_NAMES, name_fits(|name| name.contains(' ')), "the name has a blank"),
        (
            &PYCACHE,
            own().filter(|node| node.is_folder() && node.text().ends_with("__pycache__")).collect(),
            "the folder is a Python cache",
        ),
        (&EMPTY_FOLDERS, own().filter(is_empty).collect(), "the folder is empty"),
    ];
    crash_at_unsized(walked(), tree, issues);
    for (check, failing, message) in checks {
        for node in &failing {
            let path = node.path();
            issues.add(check, Location::path(&path), message);
        }
        // The official checker ends with the first check that fails.
        if program.one_file().is_some() && !failing.is_empty() && !issues.passes() {
            return;
        }
    }
}

/// Reports a broken link that the official checker takes for a whole one, because its target exists
/// below the root. The program ends when it asks for the size.
fn crash_at_unsized<'t>(nodes: impl Iterator<Item = Node<'t>>, tree: &Tree, issues: &mut Issues) {
    let program = issues.program();
    let asks = program.one_file().is_some_and(|tag| tag.instead(LARGE_FILES.id).is_none());
    if !asks {
        return;
    }
    let mut broken = nodes.filter(|node| node.kind() == EntryKind::BrokenLink);
    let Some(first) = broken.next() else { return };
    // A link that the program also takes for broken ends the check before.
    if std::iter::once(first).chain(broken).all(|node| !is_broken(tree, node, program)) {
        issues.crash(Location::path(&first.path()), "the link leads nowhere from its own folder");
    }
}

/// Whether a link is broken. The official checker resolves it from the root of the tree, not
/// from its own folder.
fn is_broken(tree: &Tree, node: Node<'_>, program: Program) -> bool {
    if program.does(Behavior::AnyLink) && node.link().is_some() && !node.is_folder() {
        return true;
    }
    let target = node.link().filter(|_| program != Program::Strict && !node.is_folder());
    match target {
        Some(target) => !tree.root().join(target).exists(),
        None => node.kind() == EntryKind::BrokenLink,
    }
}

/// Checks that `model_mapping.json` can be read. The official checkers crash otherwise.
pub fn check_mapping(submitter: &Submitter<'_>, issues: &mut Issues) {
    let Some(problem) = &submitter.names.problem else { return };
    let path = submitter.folder.path().join("model_mapping.json");
    let at = Location::path(&path).line(problem.line);
    issues.add(&MODEL_NAMES, at, problem.to_string());
    issues.crash(at, "model_mapping.json cannot be parsed");
}

/// Reports missing folders that the single-file checkers list, from v5.1 on.
pub fn crash_without_folders(submitter: &Submitter<'_>, options: &Options, issues: &mut Issues) {
    let checker = options.program.one_file();
    let lists = checker.is_some_and(|checker| checker.instead(NOT_REPORTED.id).is_none());
    for name in [submitter.layout.measurements(), SYSTEMS] {
        let is_missing = submitter.folder.folder(name).is_none();
        if lists && is_missing && !options.skips(Skip::SystemsWithoutResults) {
            let path = submitter.folder.path().join(name);
            issues.crash(Location::path(&path), "the folder does not exist");
        }
    }
}

/// Checks that every described system has results, and that the calibration page exists.
pub fn check_use(submitter: &Submitter<'_>, options: &Options, issues: &mut Issues) {
    if !options.skips(Skip::SystemsWithoutResults) {
        let has_results = |name: &str| submitter.systems.iter().any(|system| system.name == name);
        let measured = submitter.folder.folder(submitter.layout.measurements());
        let measured = measured.into_iter().flat_map(Node::folders);
        let descriptions = submitter.folder.folder(SYSTEMS).into_iter().flat_map(Node::files);
        let unused = measured.filter(|folder| !has_results(&folder.text()));
        let unused_descriptions = descriptions.filter(|file| {
            file.text().strip_suffix(".json").is_some_and(|name| !has_results(name))
        });
        for node in unused.chain(unused_descriptions) {
            let path = node.path();
            issues.add(&NOT_REPORTED, Location::path(&path), "this system has no results");
        }
    }
    let pages = ["calibration.md", "documentation/calibration.md"];
    let has_page = pages.iter().any(|page| submitter.folder.file(page).is_some());
    if submitter.division != DivisionFolder::Open && !has_page && !options.skips(Skip::Calibration)
    {
        let path: PathBuf = submitter.folder.path();
        issues.add(&CALIBRATION, Location::path(&path), "calibration.md is missing");
    }
}
