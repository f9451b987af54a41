//! Axes: flags of a point, and the values that each takes in turn.

use dyno_experiment::options::{axis_range, axis_values};
use dyno_loadgen::settings::similar;
use dyno_npu::schedule::SchedulerSpec;

use super::point::{Point, keys};

/// An axis of a grid.
#[derive(Clone, Debug)]
pub struct Axis {
    /// A long flag of a point without its dashes, or `networks`.
    pub key: String,
    /// At least one value, all different, as written.
    pub values: Vec<String>,
}

impl Axis {
    /// Parses `KEY=VALUE,...` for a point whose other settings are given.
    ///
    /// # Errors
    /// A sentence that describes the problem.
    pub fn read(text: &str, point: &Point) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or_else(|| {
            format!("expected KEY=VALUE,VALUE, such as seq=8,16,32, found `{text}`")
        })?;
        let key = key.trim().replace('_', "-");
        let known = keys();
        if !known.contains(&key) {
            let near = similar(&key, known.iter().map(String::as_str))
                .map(|near| format!("; the nearest is `{near}`"))
                .unwrap_or_default();
            return Err(format!("unknown axis `{key}`{near}"));
        }
        let mut axis = Self { key, values: Vec::new() };
        let is_scheduler = ["scheduler", "baseline"].contains(&axis.key.as_str());
        let all = if is_scheduler && !values.contains(';') {
            SchedulerSpec::split(values)
        } else {
            axis_values(values)
        };
        for value in all {
            if value.is_empty() {
                return Err(format!("`{}` has an empty value", axis.key));
            }
            let range =
                axis_range(&value).map_err(|expected| format!("`{}`: {expected}", axis.key))?;
            for value in range {
                point.with(&[(&axis.key, &value)])?;
                if axis.values.contains(&value) {
                    return Err(format!("`{}` has the value `{value}` twice", axis.key));
                }
                axis.values.push(value);
            }
        }
        Ok(axis)
    }
}
