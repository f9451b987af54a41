//! Imports between the top-level modules of a crate.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, is_word};

/// The modules that each module names.
pub type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the imports of a crate with these files, without those of tests.
pub fn imports<'a>(sources: &[&'a Source]) -> Graph<'a> {
    let modules: BTreeSet<&str> = sources.iter().filter_map(|source| module_of(source)).collect();
    let mut graph: Graph = modules.iter().map(|module| (*module, BTreeSet::new())).collect();
    for source in sources {
        let Some(from) = module_of(source) else { continue };
        for (offset, path) in source.code.match_indices("crate::") {
            if source.is_test(offset) {
                continue;
            }
            let rest = &source.code[offset + path.len()..];
            for name in first_segments(rest).filter(|name| *name != from) {
                if let Some(to) = modules.get(name) {
                    graph.entry(from).or_default().insert(*to);
                }
            }
        }
    }
    graph
}

/// Returns the top-level module of a file; `None` for the root of the crate.
fn module_of(source: &Source) -> Option<&str> {
    let (_, below) = source.path.split_once("/src/")?;
    let first = below.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main", "bin"].contains(&first)).then_some(first)
}

/// Returns the first segments of the paths after `crate::`: one, or those within braces.
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
    let parts = list[..end.map_or(list.len(), |(offset, _)| offset)].split(move |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && c == ','
    });
    parts.map(|part| part.trim().split(|c: char| !is_word(c)).next().unwrap_or_default())
}

/// Returns the size of the largest set of modules that all reach each other; 0 without a cycle.
pub fn largest_cycle(graph: &Graph) -> usize {
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
    let all: Graph = graph.keys().map(|module| (*module, reached(module))).collect();
    let joined =
        |module: &&str| all[module].iter().filter(|other| all[**other].contains(module)).count();
    all.keys().map(joined).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_consists_of_modules_that_reach_each_other() {
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
}
