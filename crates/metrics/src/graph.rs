//! Node accuracy: the share of nodes of a graph whose class is the label.
//!
//! Source: `accuracy_igbh.py` of the benchmark R-GAT on IGBH, which writes the share as JSON.

use super::arrays::npy::Npy;
use super::classification::Top1;
use super::payload::Element;
use super::{DataError, Figure, Inputs, Method, Need, Scores};

const LABELS: Need = Need {
    name: "labels",
    help: "paper/node_label_2K.npy of IGBH: one label per node, written by numpy.save, or float32 \
           without a header as in the sizes large and full",
    is_required: true,
};

const NODES: Need = Need {
    name: "nodes",
    help: "val_idx.npy, the node of each sample; create it with numpy.save('val_idx.npy', \
           torch.load('val_idx.pt'))",
    is_required: true,
};

/// Method of `rgat`.
pub(crate) const NODE_ACCURACY: Method = Method {
    name: "node-accuracy",
    title: "share of nodes whose class is the label, from 0 to 1",
    answer: "the class: one element",
    element: Some(Element::I32),
    needs: &[LABELS, NODES],
    choices: &[],
    open: |inputs| {
        let element = inputs.element.unwrap_or(Element::I32);
        Ok(Box::new(Top1::new(read_labels(inputs)?, element, json_scores)))
    },
};

/// Reads the label of each sample.
fn read_labels(inputs: &Inputs) -> Result<Vec<i64>, DataError> {
    let nodes = Npy::open(inputs.file(&NODES)?)?.wholes()?;
    Npy::open_or_raw(inputs.file(&LABELS)?, Element::F32)?.wholes_at(&nodes)
}

/// Formats scores as `accuracy_igbh.py` does.
fn json_scores(good: u64, total: u64) -> Scores {
    let value = good as f64 / total.max(1) as f64;
    Scores {
        figures: vec![Figure { metric: "acc", value }],
        text: format!(
            "{{\"accuracy\": {value:?}, \"model\": \"rgat\", \
             \"number_correct_samples\": {good}, \"performance_sample_count\": {total}}}\n"
        ),
        ..Scores::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::arrays::npy::tests::{file, written};
    use super::super::{AnswerError, assert_checker_reads};
    use super::*;

    #[test]
    fn labels_are_those_of_the_nodes_of_the_samples() {
        let numbers = |numbers: [i64; 3]| numbers.map(i64::to_le_bytes).concat();
        let nodes = written("nodes.npy", &file("<i8", "(3,)", &numbers([4, 0, 2])));
        let labels = [0.0_f32, 1.0, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
        let labels = written("labels.npy", &labels);
        let files = [("nodes", &nodes), ("labels", &labels)];
        let files = files.map(|(name, path)| (name.to_owned(), path.to_path_buf()));
        let files = BTreeMap::from(files);
        let mut scorer =
            (NODE_ACCURACY.open)(&Inputs { files, ..Inputs::default() }).expect("files are right");
        assert_eq!(scorer.take(1, &0_i32.to_le_bytes()), Ok(()));
        assert_eq!(scorer.take(0, &4_i32.to_le_bytes()), Ok(()));
        assert!(matches!(scorer.take(2, &[2; 8]), Err(AnswerError::Length { .. })));
        assert_eq!(scorer.take(3, &[0; 4]), Err(AnswerError::Sample { references: 3 }));
        let scores = scorer.scores();
        assert_eq!(
            scores.text,
            "{\"accuracy\": 0.5, \"model\": \"rgat\", \"number_correct_samples\": 2, \
             \"performance_sample_count\": 4}\n"
        );
        assert_checker_reads("v5.1", "rgat", &scores);
    }
}
