//! Measurements of `dyno-studies rnn`, part by part.

use dyno_results::VERSION;
use dyno_rnn::machine::Machine;
use dyno_rnn::served::{ServedModel, Sizes};
use dyno_rnn::study::{Measurement, Study, StudyError, Subject, Technique};
use dyno_rnn::{Cell, Choice};
use serde_json::json;

use super::part::{Column, Part, Row, Scale};

/// Inputs, units, rows and steps of the layers on which techniques are compared.
const LAYERS: [[usize; 4]; 6] = [
    [64, 64, 1, 100],
    [256, 256, 1, 100],
    [64, 1024, 1, 100],
    [1024, 1024, 1, 100],
    [256, 256, 10, 100],
    [1024, 1024, 10, 20],
];
const CELLS: [(&str, Cell); 2] = [("LSTM", Cell::Lstm), ("GRU", Cell::Gru)];
const DIMENSIONS: [usize; 7] = [16, 32, 64, 128, 256, 512, 1024];
const LENGTHS: [usize; 8] = [1, 2, 5, 10, 20, 50, 100, 200];
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Numbers of documents for text similarity, as in the paper's Table 4.
const DOCUMENTS: [usize; 4] = [10, 15, 20, 33];

/// Settings and bench of a study.
pub struct StudyRunner<'a> {
    /// Bench that runs the plans.
    pub bench: Study<'a>,
    /// Maximum number of workers.
    pub threads: usize,
    /// Use few and small layers.
    pub quick: bool,
    /// Precision and activations; the plans choose the rest.
    pub base: Choice,
}

impl StudyRunner<'_> {
    /// Measures all parts of the study, in display order. `remark` is the note of the L2 misses.
    ///
    /// # Errors
    /// Fails if a plan is rejected or does not run.
    pub fn parts(&mut self, remark: &str) -> Result<Vec<Part>, StudyError> {
        let mut parts = self.techniques(remark)?;
        parts.push(self.degrees()?);
        parts.push(self.paper());
        let one = |units| [units, units, 1, 100];
        parts.push(self.curve("dimension", "inputs and units", &DIMENSIONS, one)?);
        parts.push(self.curve("length", "steps", &LENGTHS, |steps| [256, 256, 1, steps])?);
        parts.push(self.curve("batch", "rows", &BATCHES, |rows| [256, 256, rows, 100])?);
        parts.push(self.bidaf()?);
        parts.push(self.text_similarity()?);
        Ok(parts)
    }

    fn subject(&self, cell: Cell, [inputs, units, batch, steps]: [usize; 4]) -> Subject {
        let sizes = if self.quick {
            [inputs.min(32), units.min(64), batch.min(4), steps.min(5)]
        } else {
            [inputs, units, batch, steps]
        };
        Subject::new(cell, sizes, self.base)
    }

    fn sizes(&self, model: ServedModel) -> Sizes {
        if self.quick {
            Sizes { vocabulary: 100, embedding: 8, units: 16, ..model.paper() }
        } else {
            model.paper()
        }
    }

    /// Measures the layers of BiDAF on one worker and on all workers.
    fn bidaf(&mut self) -> Result<Part, StudyError> {
        self.report_progress("BiDAF");
        let columns = ["one worker", "all workers"].map(|name| Column { name, unit: "ms" });
        let note = "One context of 100 words and a query of 15, as in the paper's Table 3; sums of the layers' nodes.";
        let mut part = Part::new("bidaf", "BiDAF, layer by layer", note, columns.to_vec()).summed();
        let sizes = self.sizes(ServedModel::Bidaf);
        let precision = self.base.precision;
        let mut times = |workers| self.bench.served(ServedModel::Bidaf, &sizes, precision, workers);
        let one = times(1)?;
        let all = times(self.threads)?;
        let whole = [("in all".to_owned(), one.all)];
        let one = one.nodes.into_iter().chain(whole);
        let all = all.nodes.into_iter().map(|(_, took)| took).chain([all.all]);
        for ((label, one), all) in one.zip(all) {
            let values = [one, all].map(|took| Some(1e3 * took.as_secs_f64())).to_vec();
            part.rows.push(Row { label, x: None, values });
        }
        Ok(part)
    }

    /// Measures the layers of text similarity against the number of documents.
    fn text_similarity(&mut self) -> Result<Part, StudyError> {
        let model = ServedModel::TextSimilarity;
        let columns = ["words", "encoder", "similarity", "in all"];
        let columns = columns.map(|name| Column { name, unit: "ms" }).to_vec();
        let note = "A query and its documents, 20 words each, in one batch on all workers, as in the paper's Table 4.";
        let mut part =
            Part::new("text_similarity", "Text similarity, layer by layer", note, columns)
                .over("documents", Scale::Linear);
        for documents in DOCUMENTS {
            self.report_progress(&format!("text similarity with {documents} documents"));
            let sizes = Sizes { documents, ..self.sizes(model) };
            let precision = self.base.precision;
            let times = self.bench.served(model, &sizes, precision, self.threads)?;
            let layers = times.nodes.into_iter().map(|(_, took)| took).chain([times.all]);
            let values = layers.map(|took| Some(1e3 * took.as_secs_f64())).collect();
            let (label, x) = (documents.to_string(), Some(documents as f64));
            part.rows.push(Row { label, x, values });
        }
        Ok(part)
    }

    fn report_progress(&self, what: &str) {
        if !self.quick {
            eprintln!("measuring {what}");
        }
    }

    /// Measures the time and speed of each technique, and L2 misses if they can be counted.
    fn techniques(&mut self, remark: &str) -> Result<Vec<Part>, StudyError> {
        let names = Technique::ALL.map(Technique::name);
        let columns = |unit| names.map(|name| Column { name, unit }).to_vec();
        let note = "Each technique has what the one before it has. Cells follow their products at once in all of them.";
        let mut times = Part::new("techniques", "Techniques", note, columns("ms"));
        let mut speeds = Part::new("speeds", "Speed of each technique", "", columns("GFLOP/s"));
        let mut missed = Part::new("l2_misses", "L2 misses of a call", remark, columns(""));
        for (name, cell) in CELLS {
            let layers = if self.quick { &LAYERS[1..2] } else { &LAYERS[..] };
            for sizes in layers {
                let label = format!("{name} {}", sizes.map(|size| size.to_string()).join("x"));
                self.report_progress(&label);
                let mut subject = self.subject(cell, *sizes);
                let mut found = Vec::new();
                for technique in Technique::ALL {
                    found.push(self.bench.technique(&mut subject, technique)?);
                }
                let row = |metric: &dyn Fn(&Measurement) -> Option<f64>| Row {
                    label: label.clone(),
                    x: None,
                    values: found.iter().map(metric).collect(),
                };
                times.rows.push(row(&|measured| Some(measured.ns / 1e6)));
                speeds.rows.push(row(&|measured| Some(measured.gflops)));
                missed.rows.push(row(&|measured| measured.counted));
            }
        }
        if missed.rows.iter().all(|row| row.values.iter().all(Option::is_none)) {
            // The remark states the reason.
            missed.rows.clear();
        }
        Ok(vec![times, speeds, missed])
    }

    /// Measures speed against workers: more workers move more data for the same operations.
    fn degrees(&mut self) -> Result<Part, StudyError> {
        self.report_progress("degrees of parallelism");
        let layers =
            [[64, 64, 1, 100], [256, 256, 1, 100], [1024, 1024, 1, 100], [256, 256, 10, 100]];
        let columns = [
            ("64 units", "GFLOP/s"),
            ("256 units", "GFLOP/s"),
            ("1024 units", "GFLOP/s"),
            ("256 units, 10 rows", "GFLOP/s"),
        ];
        let columns = columns.map(|(name, unit)| Column { name, unit }).to_vec();
        let note = "The best plan of exactly so many workers, for LSTM layers of 100 steps.";
        let mut part =
            Part::new("degrees", "Parallelism", note, columns).over("workers", Scale::Linear);
        let mut subjects = layers.map(|sizes| self.subject(Cell::Lstm, sizes));
        for workers in 1..=self.threads {
            let mut values = Vec::new();
            for subject in &mut subjects {
                let found = self.bench.degree(subject, workers)?;
                values.push(found.map(|found| found.gflops));
            }
            part.rows.push(Row { label: workers.to_string(), x: Some(workers as f64), values });
        }
        Ok(part)
    }

    /// Predicts speed against workers for the paper's machine with the cost model.
    fn paper(&self) -> Part {
        let machine = Machine::paper();
        let names = ["64 units", "256 units", "1024 units", "256 units, 10 rows"];
        let layers =
            [[64, 64, 1, 100], [256, 256, 1, 100], [1024, 1024, 1, 100], [256, 256, 10, 100]];
        let columns = names.map(|name| Column { name, unit: "GFLOP/s" }).to_vec();
        let note =
            "As the model of costs predicts it for the 24 cores of the paper; nothing is measured.";
        let mut part =
            Part::new("degrees_of_paper", "Parallelism on the paper's machine", note, columns)
                .over("workers", Scale::Linear);
        let subjects = layers.map(|sizes| Subject::new(Cell::Lstm, sizes, self.base));
        for workers in 1..=machine.cores {
            let gflops =
                |subject: &Subject| Some(subject.flops() / subject.predicted(workers, &machine)?);
            let values = subjects.iter().map(gflops).collect();
            part.rows.push(Row { label: workers.to_string(), x: Some(workers as f64), values });
        }
        part
    }

    /// Measures speed against one size, with all techniques and with none.
    fn curve(
        &mut self,
        name: &'static str,
        axis: &'static str,
        values: &[usize],
        sizes: impl Fn(usize) -> [usize; 4],
    ) -> Result<Part, StudyError> {
        self.report_progress(&format!("speed against {name}"));
        let columns = ["LSTM", "LSTM, GEMMs in sequence", "GRU", "GRU, GEMMs in sequence"];
        let columns = columns.map(|name| Column { name, unit: "GFLOP/s" }).to_vec();
        let note = match name {
            "dimension" => "As many inputs as units, one row, 100 steps.",
            "length" => "256 inputs and units, one row.",
            _ => "256 inputs and units, 100 steps.",
        };
        let title = format!("Speed against {name}");
        let mut part = Part::new(name, &title, note, columns).over(axis, Scale::Log);
        let values = if self.quick { &values[..2] } else { values };
        for value in values {
            let mut found = Vec::new();
            for (_, cell) in CELLS {
                let mut subject = self.subject(cell, sizes(*value));
                for technique in [Technique::Streamlined, Technique::GemmsInSequence] {
                    let measured = self.bench.technique(&mut subject, technique)?;
                    found.push(Some(measured.gflops));
                }
            }
            let row = Row { label: value.to_string(), x: Some(*value as f64), values: found };
            part.rows.push(row);
        }
        Ok(part)
    }
}

/// Formats all parts as text tables.
pub fn tables(about: &[String; 2], parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| format!("\n{part}"));
    format!("{}\n{}\n", about[0], about[1]) + &parts.collect::<String>()
}

/// Formats all parts as a JSON document.
pub fn document(about: &[String; 2], parts: &[Part]) -> String {
    let parts: Vec<_> = parts.iter().map(Part::json).collect();
    let all = json!({
        "schema_version": 1, "dyno": VERSION, "machine": about[0], "run": about[1], "parts": parts,
    });
    serde_json::to_string_pretty(&all).expect("keys are texts") + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dyno_rnn::{Isa, Precision};

    use super::*;

    /// Runs the quick study, which is fast enough for a test.
    #[test]
    fn all_parts_are_there_and_have_figures() {
        let (machine, isa) = (Machine::sapphire_rapids(), Isa::best());
        let time = Duration::from_micros(100);
        let bench = Study::new(machine, isa, 2, time, Box::new(|| None));
        let base = Choice::one_worker(Precision::F32);
        let parts = StudyRunner { bench, threads: 2, quick: true, base }.parts("none").unwrap();
        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
        let expected = [
            "techniques",
            "speeds",
            "l2_misses",
            "degrees",
            "degrees_of_paper",
            "dimension",
            "length",
            "batch",
            "bidaf",
            "text_similarity",
        ];
        assert_eq!(names, expected);
        for part in &parts {
            assert!(part.rows.iter().all(|row| row.values.len() == part.columns.len()));
            let has_figures = part.rows.iter().flat_map(|row| &row.values).any(Option::is_some);
            assert_eq!(has_figures, part.name != "l2_misses", "{}", part.name);
        }
        let about = ["machine".to_owned(), "run".to_owned()];
        let document: serde_json::Value = serde_json::from_str(&document(&about, &parts)).unwrap();
        assert_eq!(document["parts"][3]["rows"][1]["label"], "2");
        let page = crate::rnn::page::html(&about, &parts);
        assert!(page.contains("<h2>Techniques</h2>") && page.contains("<figure class=\"chart\">"));
        assert!(tables(&about, &parts).contains("GEMMs in sequence"));
    }
}
