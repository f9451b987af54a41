//! A parser of Prometheus' text format 0.0.4 that is stricter than Prometheus: every collector
//! accepts what it accepts.

use std::collections::{BTreeMap, BTreeSet};

/// The samples below one HELP line.
pub struct Family {
    /// `gauge` or `histogram`.
    pub kind: String,
    /// In order.
    pub samples: Vec<Sample>,
}

/// One line.
pub struct Sample {
    /// With the suffix of a histogram's part.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Parses all families, and panics on anything unusual.
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line ends with a line feed");
    let mut families = BTreeMap::<String, Family>::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, said) = help.split_once(' ').expect("HELP says something");
            assert!(is_name(name) && !said.is_empty(), "{line}");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.unwrap_or_else(|| panic!("{name}: TYPE follows HELP")).to_string();
            assert!(matches!(&kind[..], "gauge" | "histogram"), "{kind}");
            let family = Family { kind, samples: Vec::new() };
            assert!(families.insert(name.into(), family).is_none(), "{name} is whole");
            current = name.into();
            continue;
        }
        let sample = sample(line);
        let family = families.get_mut(&current).expect("samples follow a HELP line");
        let parts = match &family.kind[..] {
            "histogram" => vec!["_bucket", "_sum", "_count"],
            _ => vec![""],
        };
        let is_part = parts.iter().any(|part| sample.name == format!("{current}{part}"));
        assert!(is_part, "{line} is no part of {current}");
        assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "twice: {line}");
        family.samples.push(sample);
    }
    for (name, family) in &families {
        assert!(!family.samples.is_empty(), "{name} has samples");
        if family.kind == "histogram" {
            check_histogram(name, family);
        }
    }
    families
}

fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

fn sample(line: &str) -> Sample {
    let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("labels in {line:?}"));
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    loop {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("label in {line:?}"));
        assert!(is_name(label) && !label.starts_with("__"), "{line}");
        let (value, after) = label_value(after);
        assert!(labels.insert(label.into(), value).is_none(), "{label} twice in {line}");
        rest = match after.strip_prefix(',') {
            Some(more) => more,
            None => {
                rest = after;
                break;
            }
        };
    }
    let value = rest.strip_prefix("} ").unwrap_or_else(|| panic!("one blank in {line:?}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("a number in {line:?}"));
    assert!(value.is_finite(), "{line}");
    Sample { name: name.into(), labels, value }
}

/// The value up to its closing quote, and what follows.
fn label_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next().map(|(_, c)| c) {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                other => panic!("no escape: {other:?} in {text:?}"),
            }),
            c => value.push(c),
        }
    }
    panic!("no end of {text:?}");
}

/// Buckets ascend, counts do, and the last one is the count of all.
fn check_histogram(name: &str, family: &Family) {
    let mut groups = BTreeMap::<BTreeMap<String, String>, Vec<&Sample>>::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        labels.remove("le");
        groups.entry(labels).or_default().push(sample);
    }
    for (labels, samples) in groups {
        let [buckets @ .., sum, count] = &samples[..] else { panic!("{name}{labels:?}") };
        assert_eq!(sum.name, format!("{name}_sum"));
        assert_eq!(count.name, format!("{name}_count"));
        let bounds: Vec<f64> = buckets.iter().map(|b| b.labels["le"].parse().unwrap()).collect();
        assert!(bounds.is_sorted_by(|a, b| a < b), "{name}: {bounds:?}");
        assert_eq!(bounds.last(), Some(&f64::INFINITY), "{name}");
        assert!(buckets.is_sorted_by(|a, b| a.value <= b.value), "{name} is cumulative");
        assert_eq!(buckets.last().unwrap().value, count.value, "{name}");
        assert!(sum.value >= 0.0, "{name}");
    }
}
