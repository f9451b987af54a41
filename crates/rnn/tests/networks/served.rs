//! The served models with small sizes, which have the same programs as with the paper's sizes.

use dyno_rnn::network::{Feed, NetworkEngine, oracle};
use dyno_rnn::served::{ServedModel, Sizes};
use dyno_rnn::{Isa, Precision, Team};

use super::{check, setup};

const SMALL: Sizes =
    Sizes { vocabulary: 30, embedding: 18, units: 20, query: 5, steps: 9, documents: 3 };

/// Some rows end before others.
fn ragged<'a>(model: ServedModel, words: &'a [Vec<u32>]) -> Vec<Feed<'a>> {
    let lengths: [&[usize]; 2] = match model {
        ServedModel::TextSimilarity => [&[3, 9, 1, 6], &[]],
        ServedModel::Reader => [&[4], &[9, 2, 7]],
        ServedModel::Bidaf => [&[9, 5, 8], &[5, 1, 3]],
    };
    words.iter().zip(lengths).map(|(ids, lengths)| Feed::Ids { ids, lengths }).collect()
}

#[test]
fn served_models_agree_with_the_oracle() {
    for model in ServedModel::ALL {
        let (network, outputs) = model.network(&SMALL).expect("no size is 0");
        assert!(outputs.iter().all(|output| network.shape(*output).width == 1));
        let words = model.words(&SMALL, 1);
        let (full, ragged) = (model.feeds(&words), ragged(model, &words));
        for workers in [1, 2] {
            // Errors of bfloat16 and of 8 bits through five layers.
            for (precision, within) in
                [(Precision::F32, 1e-5), (Precision::Bf16, 3e-2), (Precision::Int8, 0.15)]
            {
                let setup = setup(precision, Isa::best());
                check(&network, [&ragged, &full], &setup, workers, within);
                check(&network, [&full, &ragged], &setup, workers, within);
            }
        }
    }
}

/// Behavior for a user: documents equal to the query are found, and weights sum to one.
#[test]
fn answers_are_what_they_say() {
    let mut team = Team::with_workers(2);
    for model in ServedModel::ALL {
        let (network, outputs) = model.network(&SMALL).expect("no size is 0");
        let setup = setup(Precision::F32, Isa::best());
        let mut engine = NetworkEngine::new(&network, &setup, &mut team).expect("plans that hold");
        let mut words = model.words(&SMALL, 2);
        if model == ServedModel::TextSimilarity {
            // The second document is the query.
            for step in words[0].chunks_mut(1 + SMALL.documents) {
                step[2] = step[0];
            }
        }
        engine.run(&mut team, &model.feeds(&words)).expect("words of the vocabulary");
        for output in outputs {
            let found = engine.tensor(output);
            match model {
                ServedModel::TextSimilarity => {
                    assert!((found[1] - 1.0).abs() < 1e-6 && found[0] < 0.999, "{found:?}");
                }
                ServedModel::Reader => {
                    assert!((found.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{found:?}");
                }
                ServedModel::Bidaf => {
                    let sum: f32 = found.iter().step_by(SMALL.documents).sum();
                    assert!((sum - 1.0).abs() < 1e-5, "{found:?}");
                }
            }
        }
    }
}

#[test]
fn the_same_call_gives_the_same_bits() {
    let mut team = Team::with_workers(2);
    let (network, outputs) = ServedModel::Bidaf.network(&SMALL).expect("no size is 0");
    let words = ServedModel::Bidaf.words(&SMALL, 1);
    let setup = setup(Precision::Bf16, Isa::best());
    let mut engine = NetworkEngine::new(&network, &setup, &mut team).expect("plans that hold");
    let mut answer = || -> Vec<u32> {
        engine.run(&mut team, &ServedModel::Bidaf.feeds(&words)).expect("words of the vocabulary");
        outputs
            .iter()
            .flat_map(|tensor| engine.tensor(*tensor).iter().map(|x| x.to_bits()))
            .collect()
    };
    let first = answer();
    assert!((0..20).all(|_| answer() == first));
    assert_eq!(first.len(), 2 * SMALL.steps * SMALL.documents);
}

/// Random words are equal to those of `crates/peers/scripts/rnn_models.py`.
#[test]
fn weights_are_drawn_as_documented() {
    let words = ServedModel::Bidaf.words(&ServedModel::Bidaf.paper(), 1);
    // Computed by Python.
    assert_eq!(words[0][..3], [48446, 2263, 2595]);
    let (network, _) = ServedModel::Bidaf.network(&SMALL).expect("no size is 0");
    let feeds = ServedModel::Bidaf.words(&SMALL, 1);
    let made = oracle::run(&network, &ServedModel::Bidaf.feeds(&feeds));
    let vectors = network.named("context embedding").expect("a node of the model");
    let first = feeds[0][0] as usize * SMALL.embedding;
    assert_eq!(first, 108, "where the first word's vector begins");
    assert_eq!(made.tensor(vectors)[0], -0.8295406103134155);
}
