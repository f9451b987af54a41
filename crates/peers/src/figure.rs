//! Figures of a benchmark: ours and a peer's, measured in turn, as one JSON line.

use serde_json::Value;

/// Which of two values is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The lower one, as for times.
    Lower,
    /// The higher one, as for rates.
    Higher,
}

/// Name and unit of a figure.
#[derive(Debug, Clone, Copy)]
pub struct Figure<'a> {
    /// Name by which arguments select the figure.
    pub name: &'a str,
    /// Unit, with remarks.
    pub unit: &'static str,
    /// Direction of the ratio.
    pub better: Better,
}

/// Measured values of all rounds; neither side is empty.
#[derive(Debug, Default)]
pub struct Rounds {
    /// Values of Dyno.
    pub ours: Vec<f64>,
    /// Values of the peer.
    pub peer: Vec<f64>,
}

impl Figure<'_> {
    /// Returns the JSON line: medians, their ratio (above 1 if ours is better), and the extremes.
    pub fn line(&self, rounds: &Rounds) -> String {
        let (ours, peer) = (Spread::from_values(&rounds.ours), Spread::from_values(&rounds.peer));
        let (better, worse) = match self.better {
            Better::Lower => (peer.median, ours.median),
            Better::Higher => (ours.median, peer.median),
        };
        // Two counts of 0 are equal, and a count against 0 has no ratio.
        let ratio = if better == worse { 1.0 } else { better / worse };
        format!(
            "{{\"name\": \"{}\", \"ours\": {}, \"peer\": {}, \"ratio\": {}, \"unit\": \"{}\", \
             \"ours_min\": {}, \"ours_max\": {}, \"peer_min\": {}, \"peer_max\": {}}}",
            self.name,
            rounded(ours.median),
            rounded(peer.median),
            rounded(ratio),
            self.unit,
            rounded(ours.least),
            rounded(ours.most),
            rounded(peer.least),
            rounded(peer.most),
        )
    }
}

struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn from_values(values: &[f64]) -> Spread {
        let [least, median, most] = [0.0, 0.5, 1.0].map(|rank| quantile(values, rank));
        Spread { least, median, most }
    }
}

/// Returns the value at a rank between 0 (the least) and 1 (the greatest); NaN without values.
pub fn quantile(values: &[f64], rank: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len().saturating_sub(1) as f64 * rank).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Returns the median; the greater of the middle two of an even number of values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns a [`rounded`] number of JSON.
pub fn json_number(value: f64) -> Value {
    serde_json::from_str(&rounded(value)).unwrap_or(Value::Null)
}

/// Returns the times of a JSON object of lists: ours, named `dyno`, and those of the peer with the
/// lowest median. `None` without ours or without any peer.
pub fn best_peer(times: &Value) -> Option<(Vec<f64>, String, Vec<f64>)> {
    let rounds = |values: &Value| -> Vec<f64> {
        values.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let peers = times.as_object()?.iter().filter(|(name, _)| *name != "dyno");
    let peers = peers.map(|(name, values)| (name, rounds(values)));
    let (name, peer) = peers.min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)))?;
    Some((rounds(&times["dyno"]), name.clone(), peer))
}

/// Returns four significant digits without an exponent; `null` if the value is not finite.
pub fn rounded(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let after_point = 3 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(-after_point);
    let decimals = usize::try_from(after_point).unwrap_or(0);
    let value = if decimals == 0 { (value / scale).round() * scale } else { value };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_best_peer_has_the_least_median() {
        let times = json!({"dyno": [1.0, 2.0, 3.0], "a": [9.0, 1.0, 9.0], "b": [4.0, 4.0, 5.0]});
        let (ours, name, peer) = best_peer(&times).unwrap();
        assert_eq!((median(&ours), name.as_str(), median(&peer)), (2.0, "b", 4.0));
        assert!(best_peer(&json!({"dyno": [1.0]})).is_none());
        assert!(median(&[]).is_nan());
        assert_eq!((median(&[1.0, 2.0]), quantile(&[4.0, 2.0, 3.0, 1.0], 0.25)), (2.0, 2.0));
    }

    fn line(better: Better, ours: &[f64], peer: &[f64]) -> String {
        let rounds = Rounds { ours: ours.to_vec(), peer: peer.to_vec() };
        Figure { name: "a.b", unit: "ns", better }.line(&rounds)
    }

    #[test]
    fn a_line_holds_medians_extremes_and_a_ratio_in_our_favor() {
        assert_eq!(
            line(Better::Lower, &[30.0, 10.0, 20.0], &[60.0, 41.0, 40.0]),
            "{\"name\": \"a.b\", \"ours\": 20.00, \"peer\": 41.00, \"ratio\": 2.050, \
             \"unit\": \"ns\", \"ours_min\": 10.00, \"ours_max\": 30.00, \
             \"peer_min\": 40.00, \"peer_max\": 60.00}"
        );
        let higher = line(Better::Higher, &[1.0], &[1_234_567.0]);
        assert!(higher.contains("\"peer\": 1235000, \"ratio\": 0.0000008100"), "{higher}");
    }

    #[test]
    fn a_ratio_of_two_zeros_is_one_and_a_ratio_to_zero_is_null() {
        assert!(line(Better::Lower, &[0.0], &[0.0]).contains("\"ratio\": 1.000"));
        assert!(line(Better::Lower, &[0.0], &[2.0]).contains("\"ratio\": null"));
        assert!(line(Better::Lower, &[2.0], &[0.0]).contains("\"ratio\": 0,"));
    }
}
