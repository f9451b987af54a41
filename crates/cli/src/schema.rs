//! The published JSON Schemas of docs/schema. A test compares them with the types; the doc comments
//! of the types are the descriptions.

/// A file that has a published schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// summary.json: the results of a run
    Summary,
    /// series.json: the data of its plots
    Series,
    /// Output of dyno probe --json
    Probe,
    /// search.json: a search and its runs
    Search,
    /// Output of dyno selftest --json
    Selftest,
    /// sweep.json: a sweep and its points
    Sweep,
    /// Output of dyno compare --json
    Compare,
    /// Output of dyno info rules --json
    Rules,
    /// File of dyno check --json
    Check,
    /// tune.json: the results of a tuning job
    Tune,
    /// Output of dyno tune plot --json
    TunePlot,
}

impl Document {
    /// All documents with their names and descriptions.
    pub const ALL: [(Self, &str, &str); 11] = [
        (Self::Summary, "summary", "summary.json: a run for programs"),
        (Self::Series, "series", "series.json: data of the plots of a run"),
        (Self::Probe, "probe", "output of dyno probe --json"),
        (Self::Search, "search", "search.json: a search and its runs"),
        (Self::Selftest, "selftest", "output of dyno selftest --json"),
        (Self::Sweep, "sweep", "sweep.json: a sweep and its points"),
        (Self::Compare, "compare", "output of dyno compare --json"),
        (Self::Rules, "rules", "output of dyno info rules --json"),
        (Self::Check, "check", "output of dyno check --json"),
        (Self::Tune, "tune", "tune.json: result and course of a tuner"),
        (Self::TunePlot, "tune-plot", "output of dyno tune plot --json"),
    ];

    /// Returns the schema as text, in the dialect of 2020-12.
    ///
    /// All objects allow unknown keys, because later releases add keys within a version and readers of
    /// this version must accept their files. Keys that this version always writes are required.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Summary => include_str!("../../../docs/schema/summary.schema.json"),
            Self::Series => include_str!("../../../docs/schema/series.schema.json"),
            Self::Probe => include_str!("../../../docs/schema/probe.schema.json"),
            Self::Search => include_str!("../../../docs/schema/search.schema.json"),
            Self::Selftest => include_str!("../../../docs/schema/selftest.schema.json"),
            Self::Sweep => include_str!("../../../docs/schema/sweep.schema.json"),
            Self::Compare => include_str!("../../../docs/schema/compare.schema.json"),
            Self::Rules => include_str!("../../../docs/schema/rules.schema.json"),
            Self::Check => include_str!("../../../docs/schema/check.schema.json"),
            Self::Tune => include_str!("../../../docs/schema/tune.schema.json"),
            Self::TunePlot => include_str!("../../../docs/schema/tune-plot.schema.json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use dyno_experiment::{compare, probe, tune};
    use dyno_results::{search, series, summary, sweep};
    use dyno_submission::json;
    use schemars::generate::SchemaSettings;
    use schemars::transform::transform_subschemas;
    use schemars::{JsonSchema, Schema};
    use serde_json::Value;

    use super::*;
    use crate::cmd::{rules, selftest};

    /// Returns the schema of the types.
    fn schema_of_types(document: Document) -> String {
        let schema = match document {
            Document::Summary => schema_of::<summary::Run>("summary.json", summary::SCHEMA_VERSION),
            Document::Series => schema_of::<series::Run>("series.json", series::SCHEMA_VERSION),
            Document::Probe => schema_of::<probe::Probe>("probe", probe::SCHEMA_VERSION),
            Document::Search => schema_of::<search::State>("search.json", search::SCHEMA_VERSION),
            Document::Selftest => {
                schema_of::<selftest::Document>("selftest", selftest::SCHEMA_VERSION)
            }
            Document::Sweep => schema_of::<sweep::Sweep>("sweep.json", sweep::SCHEMA_VERSION),
            Document::Rules => schema_of::<rules::Rules>("rules", rules::SCHEMA_VERSION),
            Document::Compare => {
                schema_of::<compare::ComparisonDocument>("compare.json", compare::SCHEMA_VERSION)
            }
            Document::Check => schema_of::<json::Document>("check", json::SCHEMA_VERSION),
            Document::TunePlot => schema_of::<tune::Plot>("tune-plot", tune::PLOT_SCHEMA_VERSION),
            Document::Tune => schema_of::<tune::Document>("tune.json", tune::SCHEMA_VERSION),
        };
        serde_json::to_string_pretty(&schema).expect("keys are texts") + "\n"
    }

    /// Returns the schema of a file, or of the output of a command. Its identifier is a URN, not an
    /// address: it names the schema wherever a copy lies.
    fn schema_of<T: JsonSchema>(name: &str, version: u32) -> Schema {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut schema = generator.into_root_schema_for::<T>();
        tidy(&mut schema);
        let (stem, what) = match name.strip_suffix(".json") {
            Some(stem) => (stem, format!("{name} of Dyno")),
            None => (name, format!("dyno {} --json", name.replace('-', " "))),
        };
        let rest = std::mem::take(schema.ensure_object());
        schema.insert("$schema".into(), rest["$schema"].clone());
        schema.insert("$id".into(), format!("urn:dyno:{stem}:{version}").into());
        schema.insert("title".into(), format!("{what}, version {version}").into());
        for (key, value) in rest {
            if !matches!(&key[..], "$schema" | "title") {
                schema.insert(key, value);
            }
        }
        schema
    }

    /// Removes defaults, which concern only Dyno's own reader, and the line breaks of comments in
    /// descriptions.
    fn tidy(schema: &mut Schema) {
        schema.remove("default");
        if let Some(text) = schema.get("description").and_then(Value::as_str) {
            let text = text.replace('\n', " ");
            schema.insert("description".into(), text.into());
        }
        transform_subschemas(&mut tidy, schema);
    }

    /// `UPDATE_EXPECT=1` writes the files.
    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema"));
        for (document, name, _) in Document::ALL {
            let path = folder.join(format!("{name}.schema.json"));
            let schema = schema_of_types(document);
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &schema).unwrap();
            }
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                published == schema,
                "{} is not what the types say; run with UPDATE_EXPECT=1 to write it anew",
                path.display()
            );
        }
    }

    #[test]
    fn every_key_is_described_and_every_object_open() {
        fn check(value: &serde_json::Value, at: &str) {
            assert!(value.get("additionalProperties") != Some(&false.into()), "{at} is closed");
            let members = value.as_object().into_iter().flatten();
            for (key, member) in members {
                if key == "properties" {
                    for (name, property) in member.as_object().unwrap() {
                        let described = property.get("description").is_some();
                        assert!(described, "{at}.{name} has no description: {property}");
                    }
                }
                check(member, &format!("{at}.{key}"));
            }
        }
        for (document, name, _) in Document::ALL {
            check(&serde_json::from_str(document.schema()).unwrap(), name);
        }
    }
}
