//! `cargo xtask house`: counts of the tree, by which its architecture and its language are judged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::edges;
use super::source::{Source, is_word, words};
use super::tree::Tree;

/// Names of types that are no nouns of the field.
const BANNED_TYPES: &[&str] = &[
    "Asked", "At", "Called", "Checked", "Found", "From", "Given", "Had", "Heard", "Held", "Kept",
    "Known", "Loaded", "Made", "Mended", "Met", "Named", "Of", "Played", "Read", "Said", "Seen",
    "Sent", "Shown", "Split", "Taken", "Told", "Tried", "Used", "Wanted", "Way", "Whole", "With",
];

/// Counts of one crate, without its tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Lines with code.
    code: usize,
    /// Lines of comments and docs.
    comments: usize,
    functions: usize,
    /// Functions of more than 50 lines.
    long: usize,
    /// Types with a banned name.
    banned: usize,
    /// Functions called `of`.
    of: usize,
    /// Doc comments that open with "Of".
    opens_with_of: usize,
    /// `match` on a bool.
    bool_matches: usize,
    /// Code blocks of doc comments that are compiled.
    examples: usize,
    /// Top-level modules, and how many of them the largest import cycle joins.
    modules: usize,
    cycle: usize,
    /// Public items that nothing else names.
    unused: usize,
}

/// Prints the counts of each crate, and those of all.
///
/// # Errors
/// If the tree cannot be read.
pub fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let sources: Vec<Source> = tree.rust_sources().collect();
    let named = occurrences(&sources);
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in &sources {
        if let Some(rest) = source.path.strip_prefix("crates/")
            && let Some((name, rest)) = rest.split_once('/')
            && rest.starts_with("src/")
        {
            crates.entry(name).or_default().push(source);
        }
    }
    println!("| {} |", HEADER.join(" | "));
    println!("|{}", " --- |".repeat(HEADER.len()));
    let mut all = Counts::default();
    for (name, sources) in &crates {
        let counts = counts(sources, &named);
        println!("| {name} | {} |", row(&counts).map(|n| n.to_string()).join(" | "));
        all.add(&counts);
    }
    println!("| all | {} |", row(&all).map(|n| n.to_string()).join(" | "));
    let manifests = edges::manifests(&tree)?;
    println!("\nedges between crates: {}", edges::count(&manifests));
    Ok(ExitCode::SUCCESS)
}

const HEADER: [&str; 13] = [
    "crate",
    "code lines",
    "comment lines",
    "functions",
    "over 50 lines",
    "banned types",
    "`fn of`",
    "docs with Of",
    "bool matches",
    "examples",
    "modules",
    "largest cycle",
    "unused public",
];

fn row(of: &Counts) -> [usize; 12] {
    [
        of.code,
        of.comments,
        of.functions,
        of.long,
        of.banned,
        of.of,
        of.opens_with_of,
        of.bool_matches,
        of.examples,
        of.modules,
        of.cycle,
        of.unused,
    ]
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.code += other.code;
        self.comments += other.comments;
        self.functions += other.functions;
        self.long += other.long;
        self.banned += other.banned;
        self.of += other.of;
        self.opens_with_of += other.opens_with_of;
        self.bool_matches += other.bool_matches;
        self.examples += other.examples;
        self.modules += other.modules;
        self.cycle = self.cycle.max(other.cycle);
        self.unused += other.unused;
    }
}

fn counts(sources: &[&Source], named: &BTreeMap<&str, usize>) -> Counts {
    let mut counts = Counts::default();
    for source in sources {
        count_lines(source, &mut counts);
        let shipped = |at: &usize| !source.is_test(*at);
        for function in source.functions().filter(|function| shipped(&function.span.start)) {
            counts.functions += 1;
            counts.of += usize::from(function.name == "of");
            let lines = source.line(function.span.end) - source.line(function.span.start) + 1;
            counts.long += usize::from(lines > 50);
        }
        for (kind, name, at) in items(source).filter(|(_, _, at)| shipped(at)) {
            let is_type = ["struct", "enum", "trait", "type"].contains(&kind);
            counts.banned += usize::from(is_type && BANNED_TYPES.contains(&name));
            let is_public = source.code[..at].trim_end().ends_with("pub");
            counts.unused += usize::from(is_public && named.get(name) == Some(&1));
        }
    }
    let graph = imports(sources);
    counts.modules = graph.len();
    counts.cycle = largest_cycle(&graph);
    counts
}

fn count_lines(source: &Source, counts: &mut Counts) {
    let mut at = 0;
    let mut is_open = false;
    for (text, code) in source.text.lines().zip(source.code.lines()) {
        let (begin, trimmed) = (at, text.trim_start());
        at += text.len() + 1;
        if source.is_test(begin) {
            continue;
        }
        let code = code.trim();
        counts.code += usize::from(!code.is_empty());
        counts.comments += usize::from(trimmed.starts_with("//"));
        counts.opens_with_of += usize::from(trimmed.starts_with("/// Of "));
        counts.bool_matches += usize::from(code.starts_with("true =>"));
        let doc = trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"));
        if let Some(info) = doc.map(str::trim).and_then(|doc| doc.strip_prefix("```")) {
            let is_compiled = !is_open && ["", "no_run", "should_panic", "rust"].contains(&info);
            counts.examples += usize::from(is_compiled);
            is_open = !is_open;
        }
    }
}

/// Items of a file: the keyword, the name, and where the keyword is.
fn items(source: &Source) -> impl Iterator<Item = (&'static str, &str, usize)> {
    ["struct", "enum", "trait", "type", "fn", "const", "static"].into_iter().flat_map(move |kind| {
        words(&source.code, kind).filter_map(move |at| {
            let rest = source.code[at + kind.len()..].trim_start();
            let name = &rest[..rest.find(|c: char| !is_word(c))?];
            (!name.is_empty()).then_some((kind, name, at))
        })
    })
}

/// How often each word occurs in the code of all files.
fn occurrences(sources: &[Source]) -> BTreeMap<&str, usize> {
    let mut found = BTreeMap::new();
    for source in sources {
        for word in source.code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()) {
            *found.entry(word).or_default() += 1;
        }
    }
    found
}

/// Which top-level modules of a crate name which others of it, outside of tests.
fn imports<'a>(sources: &[&'a Source]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let modules: BTreeSet<&str> = sources.iter().filter_map(|source| module_of(source)).collect();
    let mut graph: BTreeMap<&str, BTreeSet<&str>> =
        modules.iter().map(|module| (*module, BTreeSet::new())).collect();
    for source in sources {
        let Some(from) = module_of(source) else { continue };
        for (at, path) in source.code.match_indices("crate::") {
            if source.is_test(at) {
                continue;
            }
            let rest = &source.code[at + path.len()..];
            for name in first_segments(rest).filter(|name| *name != from) {
                if let Some(to) = modules.get(name) {
                    graph.entry(from).or_default().insert(*to);
                }
            }
        }
    }
    graph
}

/// The top-level module that a file belongs to; `None` for the root of the crate.
fn module_of(source: &Source) -> Option<&str> {
    let (_, below) = source.path.split_once("/src/")?;
    let first = below.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main", "bin"].contains(&first)).then_some(first)
}

/// The first segments of the paths that follow `crate::`: one, or those within braces.
fn first_segments(rest: &str) -> impl Iterator<Item = &str> {
    let list = match rest.strip_prefix('{') {
        Some(list) => list,
        None => &rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())],
    };
    let mut depth = 0;
    let end = list.char_indices().find(|(_, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    let mut depth = 0;
    let parts = list[..end.map_or(list.len(), |(at, _)| at)].split(move |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && c == ','
    });
    parts.map(|part| part.trim().split(|c: char| !is_word(c)).next().unwrap_or_default())
}

/// Modules in the largest set of which each reaches each other; 0 without a cycle.
fn largest_cycle(graph: &BTreeMap<&str, BTreeSet<&str>>) -> usize {
    let reached = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for to in graph.get(module).into_iter().flatten() {
                if seen.insert(*to) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (*module, reached(module))).collect();
    let joined =
        |module: &&str| all[module].iter().filter(|other| all[**other].contains(module)).count();
    all.keys().map(joined).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_of_modules_that_reach_each_other() {
        let files = [
            Source::new("crates/x/src/a.rs", "use crate::{b::{C, D}, e};\n"),
            Source::new("crates/x/src/b/mod.rs", "fn f() { crate::a::g() }\n"),
            Source::new("crates/x/src/e.rs", "use crate::e::own;\n"),
            Source::new("crates/x/src/lib.rs", "use crate::a;\n"),
        ];
        let graph = imports(&files.iter().collect::<Vec<_>>());
        assert_eq!(graph["a"], ["b", "e"].into());
        assert_eq!((graph.len(), largest_cycle(&graph)), (3, 2));
    }

    #[test]
    fn counts_leave_tests_out() {
        let text = "//! A file.\n\n/// Of it.\n///\n/// ```\n/// f();\n/// ```\npub fn of() -> u8 {\n    1\n}\n\
            pub struct Told;\n#[cfg(test)]\nmod tests {\n    fn of() {}\n}\n";
        let source = Source::new("crates/x/src/lib.rs", text);
        let named = [("of", 2), ("Told", 1)].into();
        let counts = counts(&[&source], &named);
        let expected = Counts {
            code: 6,
            comments: 6,
            functions: 1,
            banned: 1,
            of: 1,
            opens_with_of: 1,
            examples: 1,
            unused: 1,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
    }
}
