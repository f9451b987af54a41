//! Cells of the table, and means over all of them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::figure::{best_peer, json_number as number, median, quantile};

/// One cell: a layer of one shape in one precision. Times are in ms, one per round.
pub struct Cell {
    name: String,
    ours: Vec<f64>,
    /// Times of the best peer with its better number of threads.
    peer: Vec<f64>,
    peer_name: String,
    /// The line of the script, which also has the plan, errors, roofline and allocations.
    line: Value,
}

impl Cell {
    /// Reads a line of the script.
    ///
    /// # Errors
    /// The line has no name, or no times of a peer.
    pub fn parse(line: Value) -> Result<Self> {
        let (ours, peer_name, peer) = best_peer(&line["times"]).context("times of a cell")?;
        let name = line["name"].as_str().context("name of a cell")?.to_owned();
        Ok(Self { name, ours, peer, peer_name, line })
    }

    fn ratio(&self) -> f64 {
        median(&self.peer) / median(&self.ours)
    }

    /// Returns the first and the third quartile of the rounds' ratios.
    fn quartiles(&self) -> [f64; 2] {
        let ratios: Vec<f64> = self.peer.iter().zip(&self.ours).map(|(p, o)| p / o).collect();
        [quantile(&ratios, 0.25), quantile(&ratios, 0.75)]
    }

    /// Returns the goal for this cell's ratio. In bfloat16 the weights of 1024 units do not fit into
    /// the cache in which one row is fast; their goal is the speed of the peer.
    fn goal(&self) -> f64 {
        let is = |part: &str| self.name.contains(part);
        if is("rnn.fp32.") {
            1.15
        } else if is("rnn.bf16.") && is("x1024x1x") {
            1.0
        } else if is("rnn.bf16.lstm.") {
            3.0
        } else if is("rnn.bf16.gru.") {
            4.5
        } else {
            5.0
        }
    }

    /// Returns whether the interquartile range is above or below the goal, or contains it.
    fn side(&self) -> &'static str {
        let ([low, high], goal) = (self.quartiles(), self.goal());
        if low >= goal {
            "above"
        } else if high < goal {
            "below"
        } else {
            "across"
        }
    }

    /// Returns whether our error is at most that of the peers: of OpenVINO in bfloat16, of the better
    /// of ONNX Runtime and PyTorch in eight bits. `None` in other precisions.
    fn is_as_exact(&self) -> Option<bool> {
        let error = |name: &str| self.line["errors"][name].as_f64();
        let bound = if self.name.contains(".bf16.") {
            error("openvino-bf16")
        } else if self.name.contains(".int8.") {
            let errors = ["onnxruntime-int8", "torch-int8"].into_iter().filter_map(error);
            errors.min_by(f64::total_cmp)
        } else {
            None
        };
        Some(error("dyno")? <= bound?)
    }

    /// Returns the JSON line.
    pub fn line(&self) -> Value {
        let ours = median(&self.ours);
        let [low, high] = self.quartiles().map(number);
        let roofline =
            self.line["roofline_ms"].as_f64().map_or(Value::Null, |ms| number(ms / ours));
        let tuned = self.line["tuned_s"].as_f64().map_or(Value::Null, number);
        json!({
            "name": self.name, "ours": number(ours), "peer": number(median(&self.peer)),
            "ratio": number(self.ratio()), "unit": "ms", "peer_name": self.peer_name,
            "ratio_q1": low, "ratio_q3": high, "goal": self.goal(), "side": self.side(),
            "roofline": roofline, "choice": self.line["choice"], "tuned_s": tuned,
            "max_abs_error": self.line["errors"], "is_as_exact": self.is_as_exact(),
        })
    }
}

/// Returns the JSON line of a mean of ratios, which has no times.
fn ratio(name: &str, ratio: f64, cells: usize) -> Value {
    json!({"name": name, "ours": null, "peer": null, "ratio": number(ratio), "unit": "x", "cells": cells})
}

fn geomean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Returns the JSON lines of all summaries for which there are cells.
pub fn summaries(cells: &[Cell]) -> Vec<Value> {
    let select = |part: &str| -> Vec<&Cell> {
        cells.iter().filter(|cell| cell.name.starts_with(part)).collect()
    };
    let mut lines = Vec::new();
    for (name, part) in [
        ("rnn.fp32.geomean", "rnn.fp32."),
        ("rnn.bf16.lstm.geomean", "rnn.bf16.lstm."),
        ("rnn.bf16.gru.geomean", "rnn.bf16.gru."),
        ("rnn.int8.geomean", "rnn.int8."),
    ] {
        let mut cells = select(part);
        // Without 1024 units, whose goal is reached in eight bits.
        if part.starts_with("rnn.bf16.") {
            cells.retain(|cell| !cell.name.contains("x1024x1x"));
        }
        if !cells.is_empty() {
            let ratios: Vec<f64> = cells.iter().map(|cell| cell.ratio()).collect();
            lines.push(ratio(name, geomean(&ratios), cells.len()));
        }
    }
    let fp32 = select("rnn.fp32.");
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
    let allocations = cells.iter().filter_map(|cell| cell.line["allocations"].as_f64());
    lines.extend(allocations.max_by(f64::total_cmp).map(|most| {
        let cells = cells.len();
        json!({"name": "rnn.allocations_per_call", "ours": most, "peer": null, "ratio": null, "unit": "allocations", "cells": cells})
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, ours: &[f64], peer: &[f64]) -> Cell {
        let line = json!({
            "name": name, "choice": {"chunk": 1}, "roofline_ms": 1.0, "allocations": 0.5,
            "errors": {"dyno": 0.1, "openvino-bf16": 0.2, "torch-int8": 0.05, "onnxruntime-int8": 0.3},
            "times": {"dyno": ours, "a/1": [90.0, 1.0, 90.0], "b/2": peer},
        });
        Cell::parse(line).unwrap()
    }

    #[test]
    fn a_line_compares_with_the_best_peer() {
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
    fn summaries_are_means_of_their_cells() {
        let cells = [
            cell("rnn.fp32.lstm.256x256x1x1", &[0.5], &[2.0]),
            cell("rnn.fp32.gru.256x256x1x1", &[1.0], &[1.0]),
            cell("rnn.bf16.lstm.64x64x1x100", &[1.0], &[3.0]),
            cell("rnn.bf16.lstm.64x1024x1x100", &[1.0], &[50.0]),
            cell("rnn.int8.gru.64x1024x1x100", &[1.0], &[5.0]),
        ];
        let lines = summaries(&cells);
        let line = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap();
        assert_eq!(line("rnn.fp32.geomean")["ratio"], 2.0);
        assert_eq!(line("rnn.fp32.min")["cell"], "rnn.fp32.gru.256x256x1x1");
        assert_eq!(line("rnn.bf16.lstm.geomean")["ratio"], 3.0);
        assert_eq!(line("rnn.int8.geomean")["ratio"], 5.0);
        assert_eq!(line("rnn.t1_us")["ours"], 500.0);
        assert_eq!(line("rnn.allocations_per_call")["ours"], 0.5);
        assert!(lines.iter().all(|line| line["name"] != "rnn.bf16.gru.geomean"));
    }
}
