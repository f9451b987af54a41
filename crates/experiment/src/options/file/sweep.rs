//! The table `[sweep]` of `dyno.toml`: the axes, and how points are run.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::settings::known_keys;
use dyno_results::sweep::{Axis, Selection};
use dyno_results::units;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Reader, toml_text};

use crate::options::SweepKey;

/// Contents of `[sweep]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepTable {
    /// Axes of `[sweep.over]`, in the order of the file.
    pub over: Vec<Axis>,
    /// Excluded combinations, `[[sweep.exclude]]`.
    pub exclude: Vec<Selection>,
    /// Annotations of points, `[[sweep.points]]`.
    pub points: Vec<Annotation>,
    /// Whether lists are paired instead of combined.
    pub zip: Option<bool>,
    /// Whether the order of points is random.
    pub random: Option<bool>,
    /// Seed of the random order.
    pub order_seed: Option<u64>,
    /// Number of runs of each combination.
    pub repeat: Option<u32>,
    /// Pause between points, ns.
    pub pause: Option<Nanos>,
    /// Time limit of the sweep, ns.
    pub max_time: Option<Nanos>,
    /// Maximum number of points per invocation.
    pub limit: Option<usize>,
    /// Latency bound of the table of results, ns.
    pub p99_below: Option<Nanos>,
    /// Whether higher loads are skipped once the system is saturated.
    pub until_saturated: Option<bool>,
}

/// Annotation of selected points.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotation {
    /// Selection of the points.
    pub selection: Selection,
    /// Name of the points.
    pub name: Option<String>,
    /// Operations of the model per sample.
    pub operations: Option<f64>,
}

/// Keys of `[sweep]`: name, value, default as TOML (empty without one), and description.
pub const SWEEP_KEYS: [(&str, &str, &str, &str); 12] = [
    (
        "over",
        "a table",
        "",
        "axes, the slowest first: a key of `[run]` or `\"settings.NAME\"` in quotes, and an array \
         of values, or a string as in `--over`",
    ),
    (
        "exclude",
        "tables, `[[sweep.exclude]]`",
        "",
        "excluded combinations: those that have one of the values of each key",
    ),
    (
        "points",
        "tables, `[[sweep.points]]`",
        "",
        "name and operations per sample of the points that have one of the values of each key",
    ),
    ("zip", "`true`", "false", "pair the values of the axes instead of every combination"),
    (
        "order",
        "`given` or `random`",
        "\"given\"",
        "order of the points; random spreads drifts over all points",
    ),
    ("order_seed", "N", "0", "seed of the random order"),
    ("repeat", "N", "1", "runs of each combination"),
    ("pause", "TIME", "\"0s\"", "wait between points"),
    ("max_time", "TIME", "", "time limit; may stop within a point"),
    ("limit", "N", "", "maximum number of points"),
    ("p99_below", "TIME", "", "report the point with the highest throughput and a p99 below this"),
    (
        "until_saturated",
        "`true`",
        "false",
        "skip higher loads after two in a row with less than 5 % more throughput and higher \
         latency",
    ),
];

impl Reader<'_> {
    pub(super) fn sweep(&mut self, value: &Spanned<DeValue<'_>>) -> Option<SweepTable> {
        let table = self.table(value, "sweep")?;
        let mut sweep = SweepTable::default();
        for (name, value) in in_order(table) {
            let at = name.span().start;
            let read = match &**name.get_ref() {
                "over" => {
                    self.over(value, &mut sweep.over);
                    continue;
                }
                "exclude" => {
                    let of = self.annotations(value, "exclude");
                    sweep.exclude = of.into_iter().map(|one| one.selection).collect();
                    continue;
                }
                "points" => {
                    sweep.points = self.annotations(value, "points");
                    continue;
                }
                key => scalar(key, value.get_ref(), &mut sweep),
            };
            if let Err(problem) = read {
                self.problem(at, problem);
            }
        }
        Some(sweep)
    }

    fn over(&mut self, value: &Spanned<DeValue<'_>>, axes: &mut Vec<Axis>) {
        let Some(table) = self.table(value, "sweep.over") else { return };
        for (name, value) in in_order(table) {
            let at = name.span().start;
            let axis = self
                .values(name, value)
                .and_then(|values| crate::options::axis(name.get_ref(), &values));
            match axis {
                Ok(axis) if axes.iter().any(|other| other.key == axis.key) => {
                    self.problem(at, format!("`{}` varies twice", axis.key));
                }
                Ok(axis) => axes.push(axis),
                Err(problem) => self.problem(at, problem),
            }
        }
    }

    /// Returns the values of an axis, from an array or from a text in the grammar of the command
    /// line.
    fn values(
        &self,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<String>, String> {
        if let ("settings" | "run", DeValue::Table(keys)) = (&**name.get_ref(), value.get_ref()) {
            // TOML parses an unquoted key with a dot as a table.
            let key = keys.keys().next().map_or("KEY".into(), |key| key.get_ref().clone());
            return Err(format!("quote the key: \"{}.{key}\"", name.get_ref()));
        }
        let swept = SweepKey::find(name.get_ref())?;
        let texts = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|v| toml_text(v.get_ref())).collect(),
            DeValue::String(text) => Some(crate::options::axis_values(text)),
            single => toml_text(single).map(|text| vec![text]),
        };
        let texts: Option<Vec<String>> = texts;
        let texts = texts.ok_or_else(|| format!("`{}` must have plain values", name.get_ref()))?;
        let base = self.path.parent().unwrap_or_else(|| std::path::Path::new(""));
        Ok(texts.iter().map(|text| swept.based(text, base)).collect())
    }

    /// Reads `[[sweep.exclude]]` or `[[sweep.points]]`: selections of axis values with annotations.
    fn annotations(&mut self, value: &Spanned<DeValue<'_>>, section: &str) -> Vec<Annotation> {
        let mut annotations = Vec::new();
        let Some(tables) = value.get_ref().as_array() else {
            let at = value.span().start;
            self.problem(at, format!("`{section}` must be tables, [[sweep.{section}]]"));
            return annotations;
        };
        let is_said = section == "points";
        for table in tables {
            let Some(keys) = self.table(table, &format!("[sweep.{section}]")) else { continue };
            let mut annotation = Annotation::default();
            for (name, value) in in_order(keys) {
                let read = match &**name.get_ref() {
                    "name" if is_said => {
                        annotation.name = toml_text(value.get_ref());
                        Ok(())
                    }
                    "operations" if is_said => {
                        operations(value.get_ref()).map(|n| annotation.operations = Some(n))
                    }
                    _ => self.values(name, value).and_then(|values| {
                        let axis = crate::options::axis(name.get_ref(), &values)?;
                        annotation.selection.insert(axis.key, axis.values);
                        Ok(())
                    }),
                };
                if let Err(problem) = read {
                    self.problem(name.span().start, problem);
                }
            }
            if annotation.selection.is_empty() {
                let at = table.span().start;
                self.problem(at, format!("[[sweep.{section}]] must select points"));
            }
            annotations.push(annotation);
        }
        annotations
    }
}

type Entry<'t, 's> = (&'t Spanned<std::borrow::Cow<'s, str>>, &'t Spanned<DeValue<'s>>);

/// Returns the entries of a table in the order of the file, because the order of axes matters.
fn in_order<'t, 's>(table: &'t DeTable<'s>) -> Vec<Entry<'t, 's>> {
    let mut entries: Vec<Entry<'t, 's>> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn scalar(key: &str, value: &DeValue<'_>, sweep: &mut SweepTable) -> Result<(), String> {
    let text = toml_text(value).ok_or_else(|| format!("`{key}` must be a plain value"))?;
    let expected = |what: &str| format!("`{key}`: expected {what}, found `{text}`");
    let duration = || units::parse_duration(&text).map_err(|e| format!("`{key}`: {e}"));
    match key {
        "zip" => sweep.zip = Some(text.parse().map_err(|_| expected("true or false"))?),
        "order" => {
            sweep.random = Some(match text.as_str() {
                "random" => true,
                "given" => false,
                _ => return Err(expected("given or random")),
            });
        }
        "order_seed" => {
            sweep.order_seed = Some(text.parse().map_err(|_| expected("a whole number"))?);
        }
        "repeat" => {
            let repeat = text.parse().ok().filter(|&n| n >= 1);
            sweep.repeat = Some(repeat.ok_or_else(|| expected("a number of at least 1"))?);
        }
        "limit" => {
            let limit = text.parse().ok().filter(|&n| n >= 1);
            sweep.limit = Some(limit.ok_or_else(|| expected("a number of at least 1"))?);
        }
        "pause" => sweep.pause = Some(duration()?),
        "max_time" => sweep.max_time = Some(duration()?),
        "p99_below" => {
            let bound = units::parse_bound(&text).map_err(|e| format!("`{key}`: {e}"))?;
            sweep.p99_below = Some(bound);
        }
        "until_saturated" => {
            sweep.until_saturated = Some(text.parse().map_err(|_| expected("true or false"))?);
        }
        _ => {
            let known = known_keys(key, SWEEP_KEYS.iter().map(|(key, ..)| *key));
            return Err(format!("unknown key `{key}` in [sweep]; {known}"));
        }
    }
    Ok(())
}

fn operations(value: &DeValue<'_>) -> Result<f64, String> {
    let number: Option<f64> = toml_text(value).and_then(|text| text.parse().ok());
    number
        .filter(|n| n.is_finite() && *n > 0.0)
        .ok_or_else(|| "`operations`: expected a number above 0, such as 1.2e9".into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::ConfigFile;
    use super::*;

    fn read(text: &str) -> Result<SweepTable, Vec<String>> {
        let text = format!("version = 1\n{text}");
        ConfigFile::parse(&text, Path::new("s.toml")).map(|file| file.sweep.unwrap())
    }

    #[test]
    fn a_sweep_reads_with_its_axes_in_the_order_of_the_file() {
        let sweep = read(
            "[sweep]\nrepeat = 3\norder = \"random\"\npause = \"2s\"\n\
             [sweep.over]\nworkers = \"0..2:1\"\nbatch = [1, \"2..8:x2\"]\n\
             system = [\"model:fixed=1ms,servers=2\"]\n\
             [[sweep.exclude]]\nbatch = [4, 8]\nworkers = 0\n\
             [[sweep.points]]\nbatch = 1\nname = \"single\"\noperations = 1_000\n",
        )
        .unwrap();
        let axes: Vec<_> = sweep.over.iter().map(|a| (a.key.as_str(), a.values.len())).collect();
        assert_eq!(axes, [("workers", 3), ("batch", 4), ("system", 1)]);
        assert_eq!((sweep.repeat, sweep.random), (Some(3), Some(true)));
        assert_eq!(sweep.pause, Some(2_000_000_000));
        assert_eq!(sweep.exclude[0]["batch"], ["4", "8"]);
        assert_eq!(sweep.points[0].operations, Some(1000.0));
        assert_eq!(sweep.points[0].name.as_deref(), Some("single"));
    }

    #[test]
    fn every_problem_is_told_with_its_line() {
        let problems = read(
            "[sweep]\nrepaet = 3\norder = \"any\"\npause = 2\nrepeat = 0\n\
             [sweep.over]\nbatsch = [1]\nqps = [[1]]\nrun.x = 1\n\
             [[sweep.points]]\noperations = -1\nbatch = \"soon\"\n[[sweep.exclude]]\n",
        )
        .unwrap_err();
        for expected in [
            "s.toml:3: unknown key `repaet` in [sweep]; the nearest key is `repeat`",
            "s.toml:4: `order`: expected given or random, found `any`",
            "s.toml:5: `pause`: expected a duration",
            "s.toml:6: `repeat`: expected a number of at least 1, found `0`",
            "s.toml:8: unknown key `batsch`; the nearest key is `batch`",
            "s.toml:9: `qps` must have plain values",
            "s.toml:10: quote the key: \"run.x\"",
            "s.toml:12: `operations`: expected a number above 0",
            "s.toml:13: `batch`: expected a number, found `soon`",
            "s.toml:11: [[sweep.points]] must select points",
            "s.toml:14: [[sweep.exclude]] must select points",
        ] {
            assert!(problems.iter().any(|p| p.starts_with(expected)), "{expected}: {problems:#?}");
        }
        for odd in ["sweep = 1", "[sweep]\nover = 1", "[sweep]\nexclude = {batch = 1}"] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
