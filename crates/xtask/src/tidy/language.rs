//! Plain technical English in names and comments, and imports without large cycles.
//!
//! `cargo xtask house` counts violations in every crate; tidy rejects them. Tests are not checked.

use super::Finding;
use super::modules;
use super::source::{Source, by_crate, words};

/// A rule about the text of a file.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Column of `cargo xtask house`.
    pub name: &'static str,
    /// Returns the offset and the description of each violation.
    find: fn(&Source) -> Vec<(usize, String)>,
}

/// All rules about the text of a file.
pub const RULES: [Rule; 5] = [
    Rule { name: "banned types", find: banned_types },
    Rule { name: "`fn of`", find: functions_called_of },
    Rule { name: "doc openings", find: doc_openings },
    Rule { name: "banned words", find: banned_words },
    Rule { name: "bool matches", find: bool_matches },
];

/// Top-level modules that an import cycle may join.
const CYCLE_MODULES: usize = 5;

/// Names of types that are no nouns: irregular participles, pronouns, prepositions and adverbs.
/// Regular participles are found by their ending.
const BANNED_TYPES: &str = "\
    Begun Broken Brought Built Caught Chosen Done Drawn Driven Fallen Fed Found Frozen Given Gone Got \
    Grown Had Heard Held Hidden Kept Known Laid Learnt Led Lent Lost Made Meant Met Paid Put Ran Read \
    Said Seen Sent Shown Shut Spent Stuck Taken Taught Thought Thrown Told Understood Won Written \
    All Another Any Anything Both Each Either Every Everything Few Her Him His It Its Many Mine More \
    Most Much Neither Nobody None Nothing One Ones Other Others Our Ours Same Several Some Something \
    Such That Their Theirs Them These They This Those Us We What Which Who Whoever Whole Whose \
    About Above After Against Along Among Around As At Before Behind Below Beneath Beside Besides \
    Between Beyond By During For From In Inside Into Near Of Off On Onto Out Outside Over Per Since \
    Through To Toward Towards Under Until Up Upon Via With Within Without \
    Again Already Else How Here Now Only Once So Then There Thus Too Way When Where Why Yet";

/// Nouns and names of number formats that end like a participle.
const NOUNS: [&str; 4] = ["Bed", "Fixed", "Red", "Shed"];

fn banned_types(source: &Source) -> Vec<(usize, String)> {
    let types = source
        .items()
        .filter(|(kind, ..)| ["struct", "enum", "union", "trait", "type"].contains(kind));
    types
        .filter(|(_, name, _)| is_banned_type(name))
        .map(|(_, name, offset)| (offset, format!("type {name} is no noun of the field")))
        .collect()
}

fn is_banned_type(name: &str) -> bool {
    let is_one_word = !name.chars().skip(1).any(char::is_uppercase);
    let is_participle = name.ends_with("ed") && !name.ends_with("eed") && !NOUNS.contains(&name);
    is_one_word && is_participle || BANNED_TYPES.split_whitespace().any(|banned| banned == name)
}

fn functions_called_of(source: &Source) -> Vec<(usize, String)> {
    let functions = source.items().filter(|(kind, name, _)| *kind == "fn" && *name == "of");
    functions
        .map(|(.., offset)| (offset, "fn of: use a verb, or name the result".to_owned()))
        .collect()
}

/// Openings of doc comments that do not state what the item is.
const OPENINGS: [&str; 4] = ["Of ", "Likewise", "The same", "As above"];

fn doc_openings(source: &Source) -> Vec<(usize, String)> {
    let mut violations = Vec::new();
    let mut offset = 0;
    let mut is_first = true;
    for line in source.comments.lines() {
        let trimmed = line.trim_start();
        let doc = trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"));
        let opening = doc
            .filter(|_| is_first)
            .map(str::trim_start)
            .and_then(|doc| OPENINGS.iter().find(|opening| doc.starts_with(*opening)));
        if let Some(opening) = opening {
            let message = format!("a doc comment opens with '{}': state the item", opening.trim());
            violations.push((offset, message));
        }
        is_first = doc.is_none();
        offset += line.len() + 1;
    }
    violations
}

/// Words of comments that are archaic, or personify programs.
const BANNED_WORDS: [&str; 10] = [
    "whoever", "nobody", "somebody", "mend", "mends", "mended", "is none", "says", "tells", "told",
];

fn banned_words(source: &Source) -> Vec<(usize, String)> {
    let comments = source.comments.to_ascii_lowercase();
    // "There is none" is plain English, and a word in backticks is a value.
    let is_plain = |word: &str, offset: usize| {
        let before = &comments[..offset];
        before.ends_with('`') || word == "is none" && before.trim_end().ends_with("there")
    };
    let violations = BANNED_WORDS.iter().flat_map(|word| {
        let offsets = words(&comments, word).filter(move |offset| !is_plain(word, *offset));
        offsets.map(move |offset| (offset, format!("'{word}' in a comment")))
    });
    violations.collect()
}

fn bool_matches(source: &Source) -> Vec<(usize, String)> {
    let is_arm = |offset: &usize| {
        source.code[offset + 4..].trim_start().starts_with("=>")
            && source.code[..*offset].trim_end().ends_with(['{', '}', ','])
    };
    let arms = words(&source.code, "true").filter(is_arm);
    arms.map(|offset| (offset, "match on a bool: use if".to_owned())).collect()
}

/// Returns the violations of a rule outside of tests.
pub fn violations(source: &Source, rule: &Rule) -> Vec<(usize, String)> {
    let mut violations = (rule.find)(source);
    violations.retain(|(offset, _)| !source.is_test(*offset));
    violations
}

/// Checks the files of all crates.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, sources) in by_crate(sources) {
        for (source, rule) in sources.iter().flat_map(|source| RULES.map(|rule| (source, rule))) {
            let violations = violations(source, &rule).into_iter();
            findings.extend(violations.map(|(offset, message)| source.finding(offset, message)));
        }
        let modules = modules::largest_cycle(&modules::imports(&sources));
        if modules > CYCLE_MODULES {
            let message =
                format!("imports join {modules} modules in a cycle, more than {CYCLE_MODULES}");
            findings.push(Finding::of_file(&format!("crates/{name}/src"), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/x/src/a.rs", text)
    }

    fn count(find: fn(&Source) -> Vec<(usize, String)>, text: &str) -> usize {
        violations(&source(text), &Rule { name: "", find }).len()
    }

    #[test]
    fn a_type_that_is_no_noun_is_found() {
        for bad in ["Told", "Kept", "Of", "Whose", "Loaded", "Shared"] {
            assert_eq!(count(banned_types, &format!("pub struct {bad};")), 1, "{bad}");
        }
        for good in ["Speed", "Seed", "Fixed", "Thread", "LoadedModel", "WithOffset"] {
            assert_eq!(count(banned_types, &format!("enum {good} {{ Told }}")), 0, "{good}");
        }
        assert_eq!(
            count(banned_types, "fn told() {}\n#[cfg(test)]\nmod tests { struct Told; }"),
            0
        );
    }

    #[test]
    fn a_function_called_of_is_found() {
        assert_eq!(count(functions_called_of, "impl A { pub fn of() {} }"), 1);
        assert_eq!(count(functions_called_of, "fn scenario_of() {} fn offset() {}"), 0);
    }

    #[test]
    fn an_opening_that_does_not_state_the_item_is_found() {
        for bad in ["/// Of it.", "    /// The same.", "//! Likewise,", "/// As above."] {
            assert_eq!(count(doc_openings, bad), 1, "{bad}");
        }
        for good in ["/// Offset.", "// Of it.", "/// A sum\n/// Of it.", "let a = \"/// Of \";"] {
            assert_eq!(count(doc_openings, good), 0, "{good}");
        }
    }

    #[test]
    fn a_banned_word_in_a_comment_is_found() {
        for bad in ["// Nobody reads it", "/// Mends it; there is none: mends", "/* it tells */"] {
            assert!(count(banned_words, bad) > 0, "{bad}");
        }
        for good in [
            "// empty if there is none",
            "// amended",
            "let nobody = \"somebody\";",
            "// this is nonempty",
            "// the value `mend`",
        ] {
            assert_eq!(count(banned_words, good), 0, "{good}");
        }
    }

    #[test]
    fn a_match_on_a_bool_is_found() {
        assert_eq!(count(bool_matches, "match x { true => 1, false => 2 }"), 1);
        assert_eq!(count(bool_matches, "match x {\n    false => { 1 }\n    true => 2,\n}"), 1);
        assert_eq!(count(bool_matches, "match (x, y) { (_, true) => 1, Some(true) => 2 }"), 0);
    }

    #[test]
    fn a_finding_names_its_line() {
        let findings = check(&[source("struct Told;")]);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].to_string(),
            "crates/x/src/a.rs:1: type Told is no noun of the field"
        );
    }

    #[test]
    fn a_cycle_of_too_many_modules_is_found() {
        let ring = |modules: usize| -> Vec<Source> {
            let module = |i: usize| {
                let text = format!("use crate::m{};", (i + 1) % modules);
                Source::new(&format!("crates/x/src/m{i}.rs"), &text)
            };
            (0..modules).map(module).collect()
        };
        assert!(check(&ring(CYCLE_MODULES)).is_empty());
        let findings = check(&ring(CYCLE_MODULES + 1));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("join 6 modules"), "{}", findings[0]);
    }
}
