//! One cell of the table, and the means over all of them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::dropin::figure::rounded;

/// Medians of the rounds of one cell.
pub struct Cell {
    name: String,
    ours: Vec<f64>,
    /// The best peer at its better count of threads, by the median of all rounds.
    peer: Vec<f64>,
    peer_name: String,
    /// What else the script found: the choice, errors, roofline, allocations.
    found: Value,
}

impl Cell {
    /// Of a line of the script.
    ///
    /// # Errors
    /// It has no times of ours and of a peer.
    pub fn of(found: &Value) -> Result<Self> {
        let rounds = |values: &Value| -> Vec<f64> {
            values.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let times = found["times"].as_object().context("times of a cell")?;
        let ours = rounds(&found["times"]["dyno"]);
        let peers = times.iter().filter(|(name, _)| *name != "dyno");
        let peers = peers.map(|(name, values)| (name.clone(), rounds(values)));
        let best = peers.min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)));
        let (peer_name, peer) = best.context("a peer")?;
        Ok(Self {
            name: found["name"].as_str().context("name of a cell")?.to_owned(),
            ours,
            peer,
            peer_name,
            found: found.clone(),
        })
    }

    fn ratio(&self) -> f64 {
        median(&self.peer) / median(&self.ours)
    }

    /// Quartiles of the ratios of each round.
    fn quartiles(&self) -> [f64; 2] {
        let ratios: Vec<f64> = self.peer.iter().zip(&self.ours).map(|(p, o)| p / o).collect();
        [quantile(&ratios, 0.25), quantile(&ratios, 0.75)]
    }

    /// What the issue asks of this cell's ratio. In bfloat16 the weights of 1024 units do not fit
    /// where one row is fast: there, to be no slower than the peer.
    fn goal(&self) -> f64 {
        let is = |part: &str| self.name.contains(part);
        match () {
            () if is("rnn.fp32.") => 1.15,
            () if is("rnn.bf16.") && is("x1024x1x") => 1.0,
            () if is("rnn.bf16.lstm.") => 3.0,
            () if is("rnn.bf16.gru.") => 4.5,
            () => 5.0,
        }
    }

    /// Whether all of the interquartile range is on one side of the goal.
    fn side(&self) -> &'static str {
        let ([low, high], goal) = (self.quartiles(), self.goal());
        match () {
            () if low >= goal => "above",
            () if high < goal => "below",
            () => "across",
        }
    }

    /// Whether our error is no greater than that which the issue names: of OpenVINO in bfloat16, of
    /// the better of ONNX Runtime and PyTorch in eight bits.
    fn is_as_exact(&self) -> Option<bool> {
        let error = |name: &str| self.found["errors"][name].as_f64();
        let bound = match () {
            () if self.name.contains(".bf16.") => error("openvino-bf16"),
            () if self.name.contains(".int8.") => ["onnxruntime-int8", "torch-int8"]
                .into_iter()
                .filter_map(error)
                .min_by(f64::total_cmp),
            () => None,
        };
        Some(error("dyno")? <= bound?)
    }

    /// Its JSON line.
    pub fn line(&self) -> Value {
        let ours = median(&self.ours);
        let [low, high] = self.quartiles().map(number);
        let roofline =
            self.found["roofline_ms"].as_f64().map_or(Value::Null, |of| number(of / ours));
        let tuned = self.found["tuned_s"].as_f64().map_or(Value::Null, number);
        json!({
            "name": self.name, "ours": number(ours), "peer": number(median(&self.peer)),
            "ratio": number(self.ratio()), "unit": "ms", "peer_name": self.peer_name,
            "ratio_q1": low, "ratio_q3": high, "goal": self.goal(), "side": self.side(),
            "roofline": roofline, "choice": self.found["choice"], "tuned_s": tuned,
            "max_abs_error": self.found["errors"], "is_as_exact": self.is_as_exact(),
        })
    }
}

fn number(value: f64) -> Value {
    serde_json::from_str(&rounded(value)).unwrap_or(Value::Null)
}

/// A line of which ours and the peer's are a ratio alone.
fn ratio(name: &str, ratio: f64, cells: usize) -> Value {
    json!({"name": name, "ours": null, "peer": null, "ratio": number(ratio), "unit": "x", "cells": cells})
}

fn geomean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// All summaries that these cells are enough for.
pub fn summaries(cells: &[Cell]) -> Vec<Value> {
    let of = |part: &str| -> Vec<&Cell> {
        cells.iter().filter(|cell| cell.name.starts_with(part)).collect()
    };
    let mut lines = Vec::new();
    for (name, part) in [
        ("rnn.fp32.geomean", "rnn.fp32."),
        ("rnn.bf16.lstm.geomean", "rnn.bf16.lstm."),
        ("rnn.bf16.gru.geomean", "rnn.bf16.gru."),
        ("rnn.int8.geomean", "rnn.int8."),
    ] {
        let mut cells = of(part);
        // The issue leaves them out: eight bits are for them.
        if part.starts_with("rnn.bf16.") {
            cells.retain(|cell| !cell.name.contains("x1024x1x"));
        }
        if !cells.is_empty() {
            let ratios: Vec<f64> = cells.iter().map(|cell| cell.ratio()).collect();
            lines.push(ratio(name, geomean(&ratios), cells.len()));
        }
    }
    let fp32 = of("rnn.fp32.");
    let least = fp32.iter().min_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    lines.extend(least.map(|cell| {
        let mut line = ratio("rnn.fp32.min", cell.ratio(), fp32.len());
        line["cell"] = cell.name.clone().into();
        line
    }));
    let one_step = cells.iter().find(|cell| cell.name == "rnn.fp32.lstm.256x256x1x1");
    lines.extend(one_step.map(|cell| {
        let [ours, peer] = [&cell.ours, &cell.peer].map(|rounds| 1e3 * median(rounds));
        json!({
            "name": "rnn.t1_us", "ours": number(ours), "peer": number(peer),
            "ratio": number(cell.ratio()), "unit": "us", "peer_name": cell.peer_name,
        })
    }));
    let allocations = cells.iter().filter_map(|cell| cell.found["allocations"].as_f64());
    lines.extend(allocations.max_by(f64::total_cmp).map(|most| {
        let cells = cells.len();
        json!({"name": "rnn.allocations_per_call", "ours": most, "peer": null, "ratio": null, "unit": "allocations", "cells": cells})
    }));
    lines
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value of that rank; NaN of none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, ours: &[f64], peer: &[f64]) -> Cell {
        let found = json!({
            "name": name, "choice": {"chunk": 1}, "roofline_ms": 1.0, "allocations": 0.5,
            "errors": {"dyno": 0.1, "openvino-bf16": 0.2, "torch-int8": 0.05, "onnxruntime-int8": 0.3},
            "times": {"dyno": ours, "a/1": [90.0, 1.0, 90.0], "b/2": peer},
        });
        Cell::of(&found).unwrap()
    }

    #[test]
    fn the_best_peer_is_that_of_the_least_median() {
        let cell = cell("rnn.fp32.lstm.1x1x1x1", &[1.0, 2.0, 3.0], &[4.0, 4.0, 5.0]);
        assert_eq!((cell.peer_name.as_str(), cell.ratio()), ("b/2", 2.0));
        assert_eq!(cell.quartiles(), [2.0, 4.0]);
        let line = cell.line();
        assert_eq!((&line["side"], &line["roofline"]), (&json!("above"), &json!(0.5)));
        assert_eq!(line["is_as_exact"], Value::Null);
    }

    #[test]
    fn a_range_is_above_below_or_across_its_goal() {
        let side = |name: &str, peer: &[f64]| cell(name, &[1.0; 3], peer).side();
        assert_eq!(side("rnn.bf16.lstm.64x64x1x100", &[3.0, 4.0, 5.0]), "above");
        assert_eq!(side("rnn.bf16.gru.64x64x1x100", &[3.0, 4.0, 4.4]), "below");
        assert_eq!(side("rnn.int8.gru.64x64x1x100", &[3.0, 4.0, 7.0]), "across");
        assert_eq!(side("rnn.bf16.gru.64x1024x1x100", &[1.0, 2.0, 2.0]), "above");
        let exact = |name| cell(name, &[1.0], &[1.0]).is_as_exact();
        assert_eq!(
            [exact("rnn.bf16.gru.1x1x1x1"), exact("rnn.int8.gru.1x1x1x1")],
            [Some(true), Some(false)]
        );
    }

    #[test]
    fn summaries_are_those_of_the_issue() {
        let cells = [
            cell("rnn.fp32.lstm.256x256x1x1", &[0.5], &[2.0]),
            cell("rnn.fp32.gru.256x256x1x1", &[1.0], &[1.0]),
            cell("rnn.bf16.lstm.64x64x1x100", &[1.0], &[3.0]),
            cell("rnn.bf16.lstm.64x1024x1x100", &[1.0], &[50.0]),
            cell("rnn.int8.gru.64x1024x1x100", &[1.0], &[5.0]),
        ];
        let found = summaries(&cells);
        let of = |name: &str| found.iter().find(|line| line["name"] == name).unwrap();
        assert_eq!(of("rnn.fp32.geomean")["ratio"], 2.0);
        assert_eq!(of("rnn.fp32.min")["cell"], "rnn.fp32.gru.256x256x1x1");
        assert_eq!(of("rnn.bf16.lstm.geomean")["ratio"], 3.0);
        assert_eq!(of("rnn.int8.geomean")["ratio"], 5.0);
        assert_eq!(of("rnn.t1_us")["ours"], 500.0);
        assert_eq!(of("rnn.allocations_per_call")["ours"], 0.5);
        assert!(found.iter().all(|line| line["name"] != "rnn.bf16.gru.geomean"));
    }
}
