//! Tables: their contents, their changes, and the problems reported for invalid ones.

use proptest::prelude::*;

use super::*;

#[test]
fn networks_are_those_of_the_thesis() {
    // Multiply-accumulates, bytes of weights, the largest activation.
    let golden = [
        ("IC", 5_713_216_096, 47_598_272, 2_765_952),
        ("MN", 300_774_272, 6_939_520, 2_408_448),
        ("RN", 4_089_184_256, 51_005_824, 1_605_632),
        ("RX", 4_230_479_872, 49_919_360, 1_605_632),
        ("BB", 5_512_003_584, 171_150_336, 393_216),
        ("BL", 19_529_859_072, 606_212_096, 524_288),
        ("NCF", 106_624, 214_016, 768),
        ("XL", 22_952_282_112, 656_543_744, 524_288),
        ("NCFW", 2_097_152, 4_194_304, 4096),
    ];
    for (code, macs, bytes, activation) in golden {
        let network = Network::preset(code).unwrap();
        assert_eq!((network.macs(), network.weight_bytes()), (macs, bytes), "{code}");
        let sizes = network.layers.iter().map(|layer| layer.input_bytes.max(layer.output_bytes));
        assert_eq!(sizes.max(), Some(activation), "{code}");
    }
    // The thesis counts 53 layers of ResNet-50, without the last.
    let is_conv = |layer: &&NetworkLayer| layer.kind == LayerType::Convolution;
    assert_eq!(Network::preset("RN").unwrap().layers.iter().filter(is_conv).count(), 53);
}

#[test]
fn a_network_has_a_code() {
    assert_eq!(
        Network::preset("bb").unwrap_err().to_string(),
        "unknown network `bb`; the nearest is `BB`; expected one of IC, MN, RN, RX, BB, BL, XL, NCF, NCFW"
    );
}

fn named<'n>(network: &'n Network, name: &str) -> &'n NetworkLayer {
    network.layers.iter().find(|layer| layer.name == name).unwrap()
}

#[test]
fn attentions_grow_with_the_square_of_a_sequence() {
    let short = Network::preset("BB").unwrap();
    let long = short.at_sequence(384).unwrap();
    let macs = |name| (named(&short, name).macs(), named(&long, name).macs());
    for (name, times) in [("l0_q", 6), ("l0_qk", 36), ("l0_av", 36), ("pooler", 1), ("qa", 6)] {
        let (short, long) = macs(name);
        assert_eq!(long, times * short, "{name}");
    }
    let bytes = |layer: &NetworkLayer| (layer.weight_bytes, layer.input_bytes, layer.output_bytes);
    // A table has as many rows as tokens; indices into it have 64 bits.
    assert_eq!(bytes(named(&long, "embed")), (6 * 98304, 6 * 512, 6 * 98304));
    assert_eq!(bytes(named(&long, "l0_q")), (1_179_648, 6 * 98304, 6 * 98304));
    // Twelve heads of 384 x 64 and of 64 x 384; scores of 384 x 384.
    assert_eq!(bytes(named(&long, "l0_qk")), (0, 12 * 2 * 384 * 64 * 2, 12 * 384 * 384 * 2));
    assert_eq!(
        bytes(named(&long, "l0_av")),
        (0, 12 * (384 * 384 + 384 * 64) * 2, 12 * 384 * 64 * 2)
    );
    assert_eq!(long.at_sequence(64), Ok(short));
}

#[test]
fn only_networks_with_sequences_have_a_length() {
    let error = |code: &str, seq_len| {
        Network::preset(code).unwrap().at_sequence(seq_len).unwrap_err().to_string()
    };
    assert_eq!(
        error("RN", 16),
        "network `RN` has no sequence length, because its table has no columns seq_len and seq_sizes"
    );
    assert_eq!(error("BB", 0), "sequence of 0 tokens: expected a length of at least 1");
    assert_eq!(error("BB", u64::MAX / 2), "layer `embed` has sizes that exceed 64 bits");
}

#[test]
fn bits_scale_bytes() {
    let wide = Network::preset("BB").unwrap();
    let narrow = wide.in_bits(Some(4), Some(8)).unwrap();
    for (wide, narrow) in wide.layers.iter().zip(&narrow.layers) {
        assert_eq!(narrow.weight_bytes * 4, wide.weight_bytes);
        assert_eq!(narrow.output_bytes * 2, wide.output_bytes);
        let places = wide.kind == LayerType::Gather;
        assert_eq!(narrow.input_bytes * if places { 1 } else { 2 }, wide.input_bytes);
        assert_eq!(narrow.macs(), wide.macs());
    }
    assert_eq!(narrow.in_bits(Some(16), Some(16)), Ok(wide.clone()));
    assert_eq!(wide.in_bits(None, Some(8)).unwrap().in_bits(Some(4), None), Ok(narrow));
    let error = wide.in_bits(Some(0), None).unwrap_err().to_string();
    assert_eq!(error, "expected 1 to 64 bits, found 0");

    let some = wide.in_layer_bits([("l0_q", [2, 8])]).unwrap();
    assert_eq!(named(&some, "l0_q").weight_bytes, 1_179_648 / 8);
    assert_eq!(named(&some, "l0_k"), named(&wide, "l0_k"));
    let error = wide.in_layer_bits([("l0_qq", [2, 8])]).unwrap_err().to_string();
    assert_eq!(error, "unknown layer `l0_qq`; the nearest is `l0_q`");
}

const HEAD: &str = "name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,out_act_bytes,\
                    weights_scale_with_batch";

#[test]
fn tables_of_the_tuner_read() {
    let text = "\
idx,name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,out_act_bytes,weights_scale_with_batch,weight_bits,in_act_bits,out_act_bits
0,conv1,conv,1,72,3,9,4,7776,41,216,144,0,3,8,4
1,words,gather,1,6,0,1,0,0,96,48,48,1,16,64,8
";
    let network = Network::from_csv("tuned.csv", text).unwrap();
    let [conv, words] = &network.layers[..] else { panic!("two layers: {network}") };
    assert_eq!((conv.weight_bytes, conv.bits), (41, [3, 8, 4]));
    assert_eq!((words.weights_scale_with_batch, words.bits), (true, [16, 64, 8]));
    assert_eq!((network.name.as_str(), network.seq_len), ("tuned.csv", None));
}

#[test]
fn problems_of_a_table_are_reported() {
    let error = |text: &str| Network::from_csv("x.csv", text).unwrap_err().to_string();
    assert_eq!(error(""), "x.csv:1: is empty; expected a line with the names of the columns");
    assert_eq!(error(&format!("{HEAD}\n")), "x.csv:1: has no layers");
    let negative = format!("{HEAD}\na,conv,1,6,2,1,3,36,-5,12,18,0\n");
    let expected = "x.csv:2: `weight_bytes`: expected a whole number of at least 0, found `-5`";
    assert_eq!(error(&negative), expected, "the table has a layer");
    let head = HEAD.replace(",rs,", ",rss,");
    assert_eq!(
        error(&head),
        "x.csv:1: `rss`: unknown column; the nearest is `rs`\nx.csv:1: `rs`: is missing"
    );
    assert_eq!(error(&format!("{HEAD},m\n")), "x.csv:1: `m`: appears twice");
    let line = |line: &str| error(&format!("{HEAD}\nfirst,fc,1,1,2,1,2,4,8,4,4,0\n\n{line}\n"));
    for (cells, expected) in [
        ("a,fc,1,-4,2,1,2,4,8,4,4,0", "`m`: expected a whole number of at least 1, found `-4`"),
        ("a,fc,1,0,2,1,2,0,8,4,4,0", "`m`: expected a whole number of at least 1, found `0`"),
        (
            "a,fc,1,1,2.5,1,2,4,8,4,4,0",
            "`cin_g`: expected a whole number of at least 1, found `2.5`",
        ),
        (
            "a,fc,1,1,2,1,2,4,1e30,4,4,0",
            "`weight_bytes`: expected a whole number of at least 0, found `1e30`",
        ),
        (
            "a,fc,1,1,2,1,2,4,99999999999999999999,4,4,0",
            "`weight_bytes`: 99999999999999999999 exceeds 64 bits",
        ),
        ("a,fcc,1,1,2,1,2,4,8,4,4,0", "`type`: unknown type `fcc`; the nearest is `fc`"),
        (",fc,1,1,2,1,2,4,8,4,4,0", "`name`: is missing"),
        ("a,fc,1,1,2,1,2,4,8,4", "`out_act_bytes`: is missing"),
        (
            "a,fc,1,1,2,1,2,5,8,4,4,0",
            "`macs`: expected groups x m x cin_g x rs x cout_g, which is 4, found 5",
        ),
        (
            "a,fc,4294967296,4294967296,2,1,2,5,8,4,4,0",
            "`macs`: groups x m x cin_g x rs x cout_g exceeds 64 bits",
        ),
    ] {
        let error = line(cells);
        assert!(error.split('\n').any(|one| one == format!("x.csv:4: {expected}")), "{error}");
    }
    let error = line("a,fc,1,1,2,1,2,4,8,4,4,2");
    assert!(error.contains("expected 1 if each sample"), "{error}");
    let error = line("a,dwconv,4,10,2,9,1,720,8,4,4,0");
    assert!(error.contains("`cin_g`: expected 1 for `dwconv`"), "{error}");
}

#[test]
fn sequences_and_bits_of_a_table_are_checked() {
    let error = |cells: &str| {
        let text = format!(
            "{HEAD},weight_bits,seq_len,seq_sizes\n\
                            one,fc,1,8,2,1,2,32,8,4,4,0,16,8,m\n{cells}\n"
        );
        Network::from_csv("x.csv", &text).unwrap_err().to_string()
    };
    let line = "two,fc,1,8,2,1,2,32,8,4,4,0";
    assert_eq!(
        error(&format!("{line},65,8,m")),
        "x.csv:3: `weight_bits`: expected 1 to 64 bits, found 65"
    );
    assert_eq!(
        error(&format!("{line},8,4,m")),
        "x.csv:3: `seq_len`: is 4, but 8 in the previous lines"
    );
    assert_eq!(
        error(&format!("{line},8,8,cin")),
        "x.csv:3: `seq_sizes`: unknown size `cin`; the nearest is `cin_g`"
    );
    let odd = format!("{HEAD},seq_len,seq_sizes\none,fc,1,9,2,1,2,36,8,4,4,0,8,m\n");
    let odd = Network::from_csv("x.csv", &odd).unwrap().at_sequence(16).unwrap_err().to_string();
    assert_eq!(odd, "layer `one` has sizes that are not multiples of its seq_len 8");
}

proptest! {
    #[test]
    fn any_text_is_read_or_rejected(text in "[a-z0-9,\"\n .-]{0,300}", cells in "[0-9,a-z\"\n-]{0,80}") {
        for text in [text, format!("{HEAD}\n{cells}")] {
            if let Err(error) = Network::from_csv("x.csv", &text) {
                prop_assert!(!error.problems.is_empty());
                prop_assert!(error.to_string().starts_with("x.csv:"));
            }
        }
    }

}

proptest! {
    // Tables are long.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn printed_tables_can_be_read(code in prop::sample::select(PRESETS.to_vec()), bits in 1_u32..=64) {
        let network = Network::preset(code.code).unwrap().in_bits(Some(bits), Some(8)).unwrap();
        prop_assert_eq!(Network::from_csv(code.code, &network.to_string()), Ok(network));
    }

    #[test]
    fn products_of_a_sequence_are_a_square_and_a_line(a in 1_u64..200, b in 1_u64..200) {
        // f(s) = p s s + q s + r, so that third differences vanish.
        let network = Network::preset("XL").unwrap();
        let macs = |seq_len| network.at_sequence(seq_len).unwrap().macs() as i128;
        let slope = |low, high| (macs(high) - macs(low)) / i128::from(high - low);
        prop_assume!(a != b);
        let (low, high) = (a.min(b), a.max(b));
        let curve = slope(high, high + 1) - slope(low, low + 1);
        // Two products of 64 numbers and one of 128, for each of 24 layers, 16 heads and pair of tokens.
        let pairs = 24 * 16 * (64 + 128 + 64);
        prop_assert_eq!(curve, 2 * pairs * i128::from(high - low));
    }
}
