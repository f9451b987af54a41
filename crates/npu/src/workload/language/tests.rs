//! Prompts and tokens: sizes by hand, and the sequence length.

use proptest::prelude::*;

use super::*;

const SMALL: Decoder = Decoder {
    name: "small",
    layers: 2,
    width: 64,
    heads: 4,
    kv_heads: 2,
    inner: 96,
    gated: true,
    vocabulary: 100,
};

fn named<'n>(network: &'n Network, name: &str) -> &'n NetworkLayer {
    network.layers.iter().find(|layer| layer.name == name).unwrap()
}

#[test]
fn a_prompt_keeps_what_a_token_fetches() {
    let prompt = SMALL.network(DecoderPhase::Prefill(10)).unwrap();
    let token = SMALL.network(DecoderPhase::Decode(10)).unwrap();
    assert_eq!((prompt.layers.len(), token.layers.len()), (2 + 2 * 9, 2 + 2 * 9));
    let written = |network: &Network| network.layers.iter().map(|layer| layer.stream_bytes).sum();
    // Two layers, keys and values, two heads of 16 numbers, 2 bytes each.
    assert_eq!(SMALL.kv_bytes(), 2 * 2 * 2 * 16 * 2);
    assert_eq!((written(&prompt), written(&token)), (10 * SMALL.kv_bytes(), SMALL.kv_bytes()));
    let is_product = |layer: &&NetworkLayer| layer.kind == LayerType::Activations;
    let fetched = |network: &Network| -> u64 {
        network.layers.iter().filter(is_product).map(|layer| layer.fetched(3)).sum()
    };
    assert_eq!((fetched(&prompt), fetched(&token)), (0, 3 * 10 * SMALL.kv_bytes()));
    let weights = |network: &Network| -> u64 {
        let own = network.layers.iter().filter(|layer| layer.kind == LayerType::FullyConnected);
        own.map(|layer| layer.fetched(3)).sum()
    };
    assert_eq!(weights(&prompt), weights(&token));
    let scores = named(&token, "l1_qk");
    assert_eq!((scores.groups, scores.m, scores.cin_g, scores.cout_g), (4, 1, 16, 10));
    assert_eq!((scores.input_bytes, scores.output_bytes), (64 * 2, 4 * 10 * 2));
}

#[test]
fn llama_has_as_many_weights_as_its_name_says() {
    // Without norms; only single rows of the token table are read.
    for (name, weights, kv) in [
        ("gptj-6b", 5_843_582_976, 458_752),
        ("llama2-7b", 6_607_077_376, 524_288),
        ("llama2-70b", 68_713_185_280, 327_680),
        ("llama3-8b", 7_504_658_432, 131_072),
    ] {
        let decoder = Decoder::preset(name).unwrap();
        let prompt = decoder.network(DecoderPhase::Prefill(1)).unwrap();
        let embed = named(&prompt, "embed").weight_bytes;
        assert_eq!((prompt.weight_bytes() - embed) / 2, weights, "{name}");
        assert_eq!(decoder.kv_bytes(), kv, "{name}");
    }
}

#[test]
fn invalid_decoders_are_errors() {
    assert_eq!(
        Decoder::preset("llama-7b").unwrap_err().to_string(),
        "unknown decoder `llama-7b`; the nearest is `llama2-7b`; expected one of gptj-6b, llama2-7b, llama2-70b, \
         llama3-8b"
    );
    let error = |decoder: Decoder, tokens| {
        decoder.network(DecoderPhase::Decode(tokens)).unwrap_err().to_string()
    };
    let sizes = "decoder `small`: expected sizes from 1 to 2^30 and at most 2^16 layers";
    assert_eq!(error(SMALL, 0), sizes);
    assert_eq!(error(Decoder { layers: 1 << 17, ..SMALL }, 5), sizes);
    let heads = "decoder `small`: the width must be a multiple of the heads, and the heads a multiple of the key heads";
    assert_eq!(error(Decoder { heads: 5, ..SMALL }, 5), heads);
    assert_eq!(error(Decoder { kv_heads: 3, ..SMALL }, 5), heads);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tables_of_another_length_are_those_made_for_it(
        short in 1_u64..2000, long in 1_u64..2000, is_prompt in any::<bool>(),
    ) {
        let phase = if is_prompt { DecoderPhase::Prefill } else { DecoderPhase::Decode };
        let network = SMALL.network(phase(long)).unwrap();
        prop_assert_eq!(SMALL.network(phase(short)).unwrap().at_sequence(long), Ok(network.clone()));
        prop_assert_eq!(Network::from_csv("small", &network.to_string()).unwrap().layers, network.layers);
    }
}
