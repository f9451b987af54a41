//! Size against accuracy: the configurations of a tuning job that no other one beats, with the
//! intervals of their accuracies.

use serde::Serialize;
use serde_json::Value;

use super::compare::interval;

/// The frontier of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frontier {
    /// Set on which the configurations were evaluated.
    pub set: String,
    /// Number of its samples; null if unknown.
    pub samples: Option<u64>,
    /// Least accuracy that keeps the margin, or the largest error.
    pub threshold: f64,
    /// Configurations, the smallest first.
    pub points: Vec<FrontierPoint>,
}

/// A configuration that is smaller than all that are as accurate.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FrontierPoint {
    /// Weights / activations, layer by layer.
    pub formats: String,
    /// Bits of all weights and activations.
    pub bits: f64,
    /// Accuracy on the set.
    pub accuracy: f64,
    /// Interval that contains the accuracy with 95 % confidence (Wilson); null if the accuracy is
    /// not a share of the samples.
    pub interval: Option<[f64; 2]>,
}

/// Returns the frontier of a job from its `tune.json`: of all samples of the search, if they were
/// used.
///
/// # Errors
/// The document is of another kind, or its job evaluated nothing.
pub fn frontier(document: &Value) -> Result<Frontier, String> {
    if document["schema"] != "dyno.tune" {
        let found = document["schema"].as_str().unwrap_or("none");
        return Err(format!("expected the schema dyno.tune, found {found}"));
    }
    let all = document["points"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |set: &str| all.iter().filter(|point| point["set"] == set).collect::<Vec<_>>();
    // FLOAT 32 and one answer are no frontier.
    let full = of("full");
    let (set, chosen) = if full.len() > 2 { ("full", full) } else { ("small", of("small")) };
    if chosen.is_empty() {
        return Err("the job evaluated no configuration".into());
    }
    let is_error = document["direction"] == "lower";
    let samples = document["samples"][set].as_u64();
    let mut points: Vec<FrontierPoint> = chosen
        .into_iter()
        .filter_map(|point| {
            let accuracy = point["accuracy"].as_f64()?;
            let share = samples.filter(|_| !is_error && is_count(accuracy, samples));
            Some(FrontierPoint {
                formats: point["formats"].as_str()?.to_owned(),
                bits: point["bits"].as_f64()?,
                accuracy,
                interval: share.map(|samples| interval(accuracy, samples as usize)),
            })
        })
        .collect();
    let worth = |point: &FrontierPoint| if is_error { -point.accuracy } else { point.accuracy };
    points.sort_by(|a, b| a.bits.total_cmp(&b.bits).then(worth(b).total_cmp(&worth(a))));
    let mut best = f64::NEG_INFINITY;
    points.retain(|point| {
        let is_better = worth(point) > best;
        best = best.max(worth(point));
        is_better
    });
    let threshold = document["baselines"][set]["threshold"].as_f64().unwrap_or(f64::NAN);
    Ok(Frontier { set: set.into(), samples, threshold, points })
}

/// Returns whether an accuracy is a number of right answers divided by that of the samples.
pub(super) fn is_count(accuracy: f64, samples: Option<u64>) -> bool {
    let right = accuracy * samples.unwrap_or(0) as f64;
    (0.0..=1.0).contains(&accuracy) && (right - right.round()).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(direction: &str, points: &[(f64, f64)]) -> Value {
        let points = points.iter().map(|(bits, accuracy)| {
            json!({"set": "full", "formats": format!("{bits}"), "bits": bits, "accuracy": accuracy})
        });
        json!({
            "schema": "dyno.tune", "direction": direction, "samples": {"full": 100},
            "baselines": {"full": {"accuracy": 0.9, "threshold": 0.89}},
            "points": points.collect::<Vec<_>>(),
        })
    }

    fn sizes(found: &Frontier) -> Vec<f64> {
        found.points.iter().map(|point| point.bits).collect()
    }

    #[test]
    fn a_frontier_has_no_configuration_that_another_one_beats() {
        let points =
            [(64.0, 0.9), (32.0, 0.9), (16.0, 0.85), (24.0, 0.84), (16.0, 0.8), (8.0, 0.5)];
        let found = frontier(&document("higher", &points)).unwrap();
        assert_eq!(sizes(&found), [8.0, 16.0, 32.0]);
        // From R: `prop.test(85, 100, correct = FALSE)$conf.int`.
        let [low, high] = found.points[1].interval.unwrap();
        assert!((low - 0.767_2).abs() < 1e-4 && (high - 0.906_9).abs() < 1e-4, "{low} {high}");
        // Fewer errors are better, and an error rate is no share of right answers.
        let points = [(64.0, 0.1), (32.0, 0.1), (16.0, 0.3), (24.0, 0.4)];
        let found = frontier(&document("lower", &points)).unwrap();
        assert_eq!(sizes(&found), [16.0, 32.0]);
        assert!(found.points.iter().all(|point| point.interval.is_none()));
    }

    #[test]
    fn other_documents_are_rejected() {
        let other = frontier(&json!({"schema": "dyno.summary"})).unwrap_err();
        assert!(other.contains("found dyno.summary"), "{other}");
        assert!(frontier(&document("higher", &[])).unwrap_err().contains("no configuration"));
    }
}
