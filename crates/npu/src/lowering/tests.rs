//! Profiles: golden totals, splits, and properties of all lowerings.

use proptest::prelude::*;

use super::*;
use crate::hardware::Npu;
use crate::mapping::Mapping;
use crate::profile::Picos;
use crate::workload::language::{Decoder, DecoderPhase};
use crate::workload::{Network, NetworkLayer, PRESETS};

fn mapping(name: &str) -> Mapping {
    name.parse().unwrap()
}

fn lowering(code: &str, npu: &str, name: &str, options: &LoweringOptions) -> Lowering {
    let network = Network::preset(code).unwrap();
    lower(&network, &Npu::preset(npu).unwrap(), mapping(name), options).unwrap()
}

#[test]
fn a_profile_has_a_block_a_unit() {
    let lowering = lowering("BB", "memory-centric", "kcp+1", &LoweringOptions::default());
    let profile = &lowering.profile;
    assert_eq!((profile.blocks.len(), profile.labels.len(), lowering.spilled), (75, 75, 0));
    assert!(lowering.splits.is_empty());
    // 64 x 2 x 12 x 12 cycles at 700 MHz; 768 x 768 numbers of 16 bits at 225 GB/s.
    let cycles = 64 * 2 * 12 * 3_u64;
    let q = Block { compute: (cycles * 10_000).div_ceil(7), fetch: 5_242_880, bytes: 1_179_648 };
    assert_eq!((profile.labels[1].as_str(), profile.blocks[1]), ("l0_q", q));
    // Two products of twelve heads are folded into the output of the attention.
    let o = profile.blocks[4];
    let cycles = cycles + 2 * 12 * 64 * 2;
    assert_eq!((profile.labels[4].as_str(), o.compute), ("l0_o", (cycles * 10_000).div_ceil(7)));
    // MAESTRO's total, 1.003 ms.
    assert!(profile.compute().abs_diff(702_024 * 10_000 / 7) <= 75);
    assert!(profile.fetch().abs_diff(171_150_336 * 40 / 9) <= 75);
}

#[test]
fn folding_decides_the_number_of_units() {
    // Units with products of attention apart, and folded into the next layer.
    let golden = [
        ("IC", 95, 95),
        ("MN", 53, 53),
        ("RN", 54, 54),
        ("RX", 54, 54),
        ("BB", 99, 75),
        ("BL", 195, 147),
        ("NCF", 5, 5),
        ("XL", 243, 171),
        ("NCFW", 4, 4),
    ];
    for (code, apart, folded) in golden {
        let network = Network::preset(code).unwrap();
        assert_eq!(network.units(Folding::Apart), apart, "{code}");
        assert_eq!(network.units(Folding::IntoNext), folded, "{code}");
    }
}

#[test]
fn prompts_are_bound_by_compute_and_tokens_by_memory() {
    let npu = Npu::preset("memory-centric").unwrap();
    let decoder = Decoder::preset("llama2-7b").unwrap();
    let lower_phase = |phase| {
        let network = decoder.network(phase).unwrap();
        let options = LoweringOptions { batch: 4, ..LoweringOptions::default() };
        lower(&network, &npu, Mapping::Peak, &options).unwrap()
    };
    let (prompt, token) =
        (lower_phase(DecoderPhase::Prefill(512)), lower_phase(DecoderPhase::Decode(512)));
    assert!(prompt.profile.compute() > 10 * prompt.profile.fetch());
    assert!(token.profile.fetch() > 10 * token.profile.compute());
    // The scores of 32000 tokens have 262 MB of weights.
    assert_eq!(prompt.splits.last().map(|split| split.parts), Some(11));
}

#[test]
fn a_batch_shares_weights_and_not_rows_of_tables() {
    let lowered = |batch| {
        lowering(
            "BB",
            "compute-centric",
            "kcp+1",
            &LoweringOptions { batch, ..LoweringOptions::default() },
        )
    };
    let (one, many) = (lowered(1).profile, lowered(16).profile);
    assert_eq!(many.blocks[0].bytes, 16 * one.blocks[0].bytes);
    for (one, many) in one.blocks[1..].iter().zip(&many.blocks[1..]) {
        assert_eq!((one.bytes, one.fetch), (many.bytes, many.fetch));
        assert!(many.compute.abs_diff(16 * one.compute) <= 16);
    }
}

#[test]
fn a_layer_beyond_the_buffer_is_split_and_reported() {
    let npu = Npu::preset("memory-centric").unwrap();
    let small = npu.with_parameters(|parts| parts.weight_buffer = 4_000_000).unwrap();
    let network = Network::preset("BB").unwrap();
    let whole = lower(&network, &npu, mapping("kcp+1"), &LoweringOptions::default()).unwrap();
    let lowering = lower(&network, &small, mapping("kcp+1"), &LoweringOptions::default()).unwrap();
    // Two layers in each of twelve blocks have 4718592 bytes: three parts of at most 2 MB.
    assert_eq!(lowering.splits.len(), 24);
    assert_eq!(lowering.profile.blocks.len(), 75 + 24 * 2);
    assert_eq!(
        lowering.splits[0].to_string(),
        "`l0_ff1` has 4718592 bytes, more than the weight buffer, and is split into 3 parts"
    );
    assert_eq!(lowering.profile.labels[6], "l0_ff1 (2 of 3)");
    assert!(lowering.profile.blocks.iter().all(|block| block.bytes <= 2_000_000));
    let sums = |profile: &NetworkProfile| (profile.compute(), profile.fetch());
    assert_eq!(sums(&lowering.profile), sums(&whole.profile));
}

#[test]
fn blocks_may_be_groups_or_parts_of_layers() {
    let lowered = |granularity| {
        lowering(
            "RN",
            "memory-centric",
            "kcp+1",
            &LoweringOptions { granularity, ..LoweringOptions::default() },
        )
    };
    let layers = lowered(Granularity::Layer).profile;
    let fused = lowered(Granularity::Fused { bytes: 1_000_000 }).profile;
    let tiles = lowered(Granularity::Tile { bytes: 1_000_000, time: Picos::MAX }).profile;
    assert!(fused.blocks.len() < layers.blocks.len() && layers.blocks.len() < tiles.blocks.len());
    // A larger layer stays alone.
    assert!(fused.labels.contains(&"conv5_1_down".to_owned()), "{:?}", fused.labels);
    assert_eq!(fused.labels[0], "conv1..conv3_1_1x1b");
    assert!(tiles.blocks.iter().all(|block| block.bytes <= 1_000_000));
    let bytes =
        |profile: &NetworkProfile| profile.blocks.iter().map(|block| block.bytes).sum::<u64>();
    assert_eq!(bytes(&fused), bytes(&layers));
    assert_eq!(bytes(&tiles), bytes(&layers));
    // Each block's time is rounded up once.
    assert!(layers.compute().abs_diff(fused.compute()) <= 54);
    assert_eq!(layers.compute(), tiles.compute());
}

#[test]
fn activations_without_room_are_written_and_read_again() {
    let traffic = Traffic::WithActivations;
    let lowered = |code, npu, batch| {
        lowering(
            code,
            npu,
            "kcp+1",
            &LoweringOptions { batch, traffic, ..LoweringOptions::default() },
        )
    };
    // The buffers of Table IV.1 hold the activations they were designed for.
    for code in ["MN", "RN", "RX", "BB", "NCF"] {
        assert_eq!(lowered(code, "memory-centric", 1).spilled, 0, "{code}");
        assert_eq!(lowered(code, "compute-centric", 16).spilled, 0, "{code}");
    }
    // One convolution of Inception has 1382976 bytes of inputs and 2765952 of outputs, more than 4014080.
    let inception = lowered("IC", "memory-centric", 1);
    assert_eq!(inception.spilled, 1_382_976 + 2_765_952 - 4_014_080);
    let plain = lowering("IC", "memory-centric", "kcp+1", &LoweringOptions::default());
    assert_eq!(plain.spilled, 0);
    let more = inception.profile.fetch() - plain.profile.fetch();
    assert!(more.abs_diff(2 * inception.spilled * 1000 / 225) <= 1, "{more} ps");
    // The next layer reads it.
    assert_eq!(inception.profile.labels[3], "c3b");
    assert_eq!(inception.profile.blocks[3].fetch - plain.profile.blocks[3].fetch, more);
    assert_eq!(inception.profile.blocks[3].bytes, plain.profile.blocks[3].bytes);
}

#[test]
fn networks_that_cannot_be_lowered_are_errors() {
    let npu = Npu::preset("memory-centric").unwrap();
    let network = Network::preset("RN").unwrap();
    let error = |npu: &Npu, options: LoweringOptions| {
        lower(&network, npu, mapping("kcp"), &options).unwrap_err().to_string()
    };
    let plain = LoweringOptions::default();
    assert_eq!(
        error(&npu, LoweringOptions { batch: 0, ..plain }),
        "batch of 0 samples: expected 1 to 4294967296"
    );
    assert!(error(&npu, LoweringOptions { batch: u64::MAX, ..plain }).starts_with("batch of 1844"));
    let granularity = Granularity::Tile { bytes: 0, time: 1 };
    assert_eq!(
        error(&npu, LoweringOptions { granularity, ..plain }),
        "block of 0 bytes or 0 time: expected at least 1"
    );
    let tiny = npu.with_parameters(|parts| parts.weight_buffer = 1).unwrap();
    assert!(error(&tiny, plain).contains("would be split into"), "{}", error(&tiny, plain));
    let slow = npu.with_parameters(|parts| parts.hertz = 1).unwrap();
    let batch = 1 << 32;
    assert!(
        error(&slow, LoweringOptions { batch, ..plain }).contains("takes longer than 213 days")
    );
    let few = npu.with_parameters(|parts| parts.pes = 63).unwrap();
    assert!(error(&few, plain).contains("needs 64 PEs, but the NPU has 63"));
}

#[test]
fn measured_times_are_kept() {
    let text = "name,compute_us,fetch_us,bytes\na,10,2,4000000\nb,1,90,60000000\n";
    assert!(NetworkProfile::is_table(text) && !NetworkProfile::is_table("name,type,m\n"));
    let network = Network::from_profile(NetworkProfile::from_csv("engine.csv", text).unwrap());
    let npu = Npu::preset("memory-centric").unwrap();
    let make = |options: LoweringOptions| lower(&network, &npu, mapping("peak"), &options);
    // The second block does not fit into the buffer of 48 MB.
    let Lowering { profile, splits, .. } = make(LoweringOptions::default()).unwrap();
    assert_eq!((profile.compute(), profile.fetch()), (11_000_000, 92_000_000));
    assert_eq!(profile.labels, ["a", "b (1 of 3)", "b (2 of 3)", "b (3 of 3)"]);
    assert_eq!((splits.len(), splits[0].layer.as_str()), (1, "b"));
    let tile = Granularity::Tile { bytes: u64::MAX, time: 5_000_000 };
    let tiles =
        make(LoweringOptions { granularity: tile, ..LoweringOptions::default() }).unwrap().profile;
    assert_eq!((tiles.blocks.len(), tiles.compute()), (4, 11_000_000));
    // These blocks were not measured.
    let fused = LoweringOptions {
        granularity: Granularity::Fused { bytes: 1 },
        ..LoweringOptions::default()
    };
    for options in [fused, LoweringOptions { batch: 4, ..LoweringOptions::default() }] {
        let error = make(options).unwrap_err().to_string();
        assert!(error.contains("`engine.csv` contains measured times"), "{error}");
    }
}

#[test]
fn profiles_are_tables_too() {
    let profile = lowering("BB", "memory-centric", "kcp+1", &LoweringOptions::default()).profile;
    assert_eq!(NetworkProfile::from_csv("BB", &profile.to_string()), Ok(profile));
    let error = |cells: &str| {
        let text = format!("name,bytes,compute_us,fetch_us\nconv1,100,1.5,2\n{cells}\n");
        NetworkProfile::from_csv("measured.csv", &text).map_err(|error| error.to_string())
    };
    let measured = error("fc,7,0.000001,0").unwrap();
    assert_eq!(measured.blocks[0], Block { compute: 1_500_000, fetch: 2_000_000, bytes: 100 });
    assert_eq!(measured.blocks[1], Block { compute: 1, fetch: 0, bytes: 7 });
    for wrong in ["-1", "nan", "inf", "1e300", "many"] {
        let expected = format!(
            "measured.csv:3: `compute_us`: expected a time of 0 to 1e9 us, found `{wrong}`"
        );
        assert_eq!(error(&format!("fc,7,{wrong},0")), Err(expected));
    }
}

fn anything() -> impl Strategy<Value = (Network, Npu, Mapping, LoweringOptions)> {
    let code = prop::sample::select(PRESETS.to_vec());
    let name = prop::sample::select(vec!["peak", "sys", "kcp", "kcp+1", "kcpx", "kcpx+1:128"]);
    let granularity = prop_oneof![
        Just(Granularity::Layer),
        (1_u64..20_000_000).prop_map(|bytes| Granularity::Fused { bytes }),
        (500_000_u64..20_000_000).prop_map(|bytes| Granularity::Tile { bytes, time: Picos::MAX }),
    ];
    let folding = prop::sample::select(vec![Folding::Apart, Folding::IntoNext]);
    let traffic = prop::sample::select(vec![Traffic::Weights, Traffic::WithActivations]);
    let options = (1_u64..40, folding, granularity, traffic).prop_map(
        |(batch, folding, granularity, traffic)| LoweringOptions {
            batch,
            folding,
            granularity,
            traffic,
        },
    );
    let buffers = (500_000_u64..60_000_000, prop::option::of(1_u64..60_000_000));
    (code, name, options, buffers).prop_map(|(code, name, options, (weights, activations))| {
        let npu = Npu::preset("memory-centric").unwrap().with_parameters(|parts| {
            parts.weight_buffer = weights;
            parts.activation_buffer = activations;
        });
        (Network::preset(code.code).unwrap(), npu.unwrap(), mapping(name), options)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_fit_and_together_are_the_network((network, npu, mapping, options) in anything()) {
        let lowering = lower(&network, &npu, mapping, &options).unwrap();
        let blocks = &lowering.profile.blocks;
        prop_assert_eq!(blocks.len(), lowering.profile.labels.len());
        prop_assert!(blocks.iter().all(|block| block.bytes <= npu.parameters().weight_buffer));
        let bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
        let expected: u64 = network.layers.iter().map(|layer| layer.fetched(options.batch)).sum();
        prop_assert_eq!(bytes, expected);
        let cycles_of = |layer: &NetworkLayer| mapping.cycles(layer, options.batch, npu.parameters().pes);
        let cycles: u128 = network.layers.iter().map(cycles_of).sum();
        let units = network.layers.len() as u64;
        // Each unit is rounded up once.
        prop_assert!(lowering.profile.compute() - npu.cycles(cycles).unwrap() <= units);
        let traffic = u128::from(bytes) + 2 * u128::from(lowering.spilled);
        prop_assert!(lowering.profile.fetch() - npu.bytes(traffic).unwrap() <= units);
        prop_assert!(options.traffic == Traffic::WithActivations || lowering.spilled == 0);
    }
}
