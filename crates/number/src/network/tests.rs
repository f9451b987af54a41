//! Valid and invalid descriptors.

use super::*;

/// The thesis' example, Caffe's LeNet without its fully connected layers. The largest magnitudes of
/// weights and activations are those of table III.2.
pub const LENET: &str = r#"
name = "LeNet"
platform = "paper"
layer_name = ["conv1", "conv2"]
layerwise_opt = "WGT-ONLY"
wgt_size = [500, 25_000]
act_size = [784, 2_880]
wgt_max_abs = [0.5795, 0.16474]
act_max_abs = [0.996, 5.05664]
f_obj = "bits"
err_margin = 0.01
cmd_smallset = "./lenet {config} 1000"
cmd_fullset = "./lenet {config} 10000"
get_result_regex = 'accuracy = ([0-9.]+)'
"#;

pub fn lenet() -> Network {
    Network::from_descriptor(LENET, None).expect("the example reads")
}

#[test]
fn the_example_reads() {
    let network = lenet();
    assert_eq!(network.layers[1].weight_size, 25_000);
    assert_eq!(network.layerwise, LayerwiseScope::WeightOnly);
    assert_eq!(network.external.as_ref().unwrap().full_command, "./lenet {config} 10000");
    let groups: Vec<(String, Vec<usize>)> =
        network.groups().into_iter().map(|group| (group.name, group.slots)).collect();
    let expected =
        [("conv1.weight", vec![0]), ("conv2.weight", vec![1]), ("activations", vec![2, 3])];
    assert!(groups.iter().zip(&expected).all(|(a, b)| a.0 == b.0 && a.1 == b.1), "{groups:?}");
    assert_eq!(groups.len(), expected.len());
}

/// Tables and biases have no inputs and no products, as `dyno tune profile` prints them.
#[test]
fn layers_without_inputs_need_no_products() {
    let read = |sizes: &str, macs: &str| {
        let text = LENET.replace("\"bits\"", "\"bops\"").replace("[784, 2_880]", sizes);
        let network = Network::from_descriptor(&format!("{text}macs = {macs}\n"), None);
        network.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(read("[0, 2_880]", "[0, 1_600_000]"), Ok(()));
    for (sizes, macs) in [("[784, 2_880]", "[0, 1_600_000]"), ("[0, 0]", "[0, 0]")] {
        let problem = read(sizes, macs).unwrap_err();
        assert!(problem.contains("but conv1 has none"), "{problem}");
    }
}

/// The descriptor of LeNet with another name and regular expression, and further lines.
fn judged_by(name: &str, regex: &str, more: &str) -> Result<Metric, String> {
    let text = LENET.replace("\"LeNet\"", &format!("{name:?}"));
    let text = text.replace("get_result_regex = 'accuracy = ([0-9.]+)'", regex);
    let network = Network::from_descriptor(&format!("{text}\n{more}"), None);
    network.map(|network| network.metric).map_err(|error| error.to_string())
}

/// An error rate is made small only if the descriptor names it as one, and what may be either
/// is rejected with what to write.
#[test]
fn a_metric_has_a_direction_or_is_rejected() {
    let direction = |name, regex: &str, more| judged_by(name, regex, more).map(|m| m.direction);
    let regex = |text: &str| format!("get_result_regex = '{text}'");
    let [accuracy, wer, other] = ["accuracy = (.*)", "WER: (.*)", "result (.*)"].map(regex);
    assert_eq!(direction("LeNet", &accuracy, ""), Ok(Direction::Higher));
    assert_eq!(direction("RNN-T", &wer, ""), Ok(Direction::Lower));
    assert_eq!(direction("LeNet", &other, "metric = \"perplexity\""), Ok(Direction::Lower));
    assert_eq!(direction("wer", &accuracy, "direction = \"lower\""), Ok(Direction::Lower));
    assert_eq!(direction("wer", &accuracy, "direction = \"higher\""), Ok(Direction::Higher));
    // The regular expression is of an accuracy, and the name of an error rate.
    let why = direction("wer", &accuracy, "").unwrap_err();
    assert!(why.contains("`direction = \"lower\"` for an error rate"), "{why}");
    let why = direction("LeNet", &accuracy, "metric = \"wer\"").unwrap_err();
    assert!(why.contains("\"wer\" and `get_result_regex` have words of an accuracy"), "{why}");
    let named = "metric = \"wer\"\ndirection = \"lower\"";
    assert_eq!(direction("LeNet", &accuracy, named), Ok(Direction::Lower));
    let why = direction("LeNet", &other, "").unwrap_err();
    assert!(why.contains("no metric whose direction is known"), "{why}");
    let why = direction("LeNet", &other, "metric = \"quality\"").unwrap_err();
    assert!(why.contains("\"quality\" does not state"), "{why}");
    assert!(direction("LeNet", &other, "direction = \"up\"").is_err());
}

/// Methods of `dyno task score` need no regular expression: it prints their figures by name.
#[test]
fn methods_of_task_score_are_metrics() {
    for (method, figures) in SCORED_METHODS {
        let metric = judged_by("net", "", &format!("metric = \"{method}\"")).unwrap();
        assert_eq!((metric.direction, metric.is_stated), (figures[0].1, true), "{method}");
        for (figure, direction) in *figures {
            let more = format!("metric = \"{method}.{figure}\"");
            assert_eq!(judged_by("net", "", &more).unwrap().direction, *direction, "{more}");
        }
    }
    assert!(judged_by("net", "", "metric = \"wer\"").is_err(), "nothing says where it is printed");
}

/// Objects without values are not tuned, and not in the answer.
#[test]
fn objects_without_values_are_in_no_group() {
    let mut network = lenet();
    network.layers[1].activation_size = 0;
    for layerwise in [LayerwiseScope::Both, LayerwiseScope::WeightOnly, LayerwiseScope::None] {
        network.layerwise = layerwise;
        let groups = network.groups();
        assert!(groups.iter().all(|group| !group.slots.contains(&3)), "{groups:?}");
        assert!(groups.iter().any(|group| group.slots.contains(&2)));
    }
    assert_eq!(network.base().iter().count(), 3);
    network.layers[0].activation_size = 0;
    assert_eq!(network.groups().len(), 1, "no activations are left");
}

/// `layerwise_opt` determines which slots share type and width.
#[test]
fn groups_follow_layerwise() {
    let groups = |layerwise| {
        let mut network = lenet();
        network.layerwise = layerwise;
        network.groups().iter().map(|group| group.slots.len()).collect::<Vec<_>>()
    };
    assert_eq!(groups(LayerwiseScope::Both), [1, 1, 1, 1]);
    assert_eq!(groups(LayerwiseScope::WeightOnly), [1, 1, 2]);
    assert_eq!(groups(LayerwiseScope::ActivationOnly), [2, 1, 1]);
    assert_eq!(groups(LayerwiseScope::None), [2, 2]);
}

/// SPEC A1: the magnitudes of table III.2 give the biases with which the trace starts. With 2^(1-B)
/// they would not.
#[test]
fn a1_biases_come_from_the_largest_magnitude() {
    let network = lenet();
    let i3 = Format::fixed(3, 0).unwrap();
    let formats = network.slots().into_iter().map(|slot| network.profiled(slot, i3)).collect();
    assert_eq!(network.base().with_formats(formats).to_string(), "I3(0)-I3(2) / I3(0)-I3(-3)");
    let e3 = Format::exp(3).unwrap();
    let slot = Slot { layer: 1, role: Role::Activation };
    // 5.06 is below 8, so the largest E, 3, stands for 2^(3 - 0).
    assert_eq!(network.profiled(slot, e3).to_string(), "E3(0)");
    assert_eq!(network.profiled(slot, Format::F16), Format::F16);
}

#[test]
fn sub_layers_share_the_formats_of_their_layer() {
    let text = LENET.replace(
        "layer_name = [\"conv1\", \"conv2\"]",
        "layer_name = [\"block\", \"last\"]\nsub_layer_name = [[\"b1\", \"b2\"], []]",
    );
    let network = Network::from_descriptor(&text, None).unwrap();
    let objects = network.objects();
    assert_eq!(objects[0], ["b1.weight", "b2.weight"]);
    assert_eq!(objects[3], ["last.input"]);
}

#[track_caller]
fn check(from: &str, to: &str, expected: &str) {
    assert!(LENET.contains(from), "{from}");
    let error = Network::from_descriptor(&LENET.replace(from, to), None).expect_err("it is wrong");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn problems_name_line_key_and_nearest_name() {
    check(
        "err_margin",
        "err_margn",
        "line 11: `err_margn`: there is no such key; the nearest is `err_margin`",
    );
    check("[500, 25_000]", "[500]", "line 6: `wgt_size`: expected 2 values, one a layer, found 1");
    check(
        "[500, 25_000]",
        "{ conv1 = 500, convv2 = 25000 }",
        "line 6: `convv2`: there is no such key; the nearest is `conv2`\nline 6: `wgt_size`: the layer conv2 is missing",
    );
    check("784,", "-784,", "line 7: `act_size`: expected a whole number of at least 0, found -784");
    check(
        "0.996,",
        "\"x\",",
        "line 9: `act_max_abs`: expected a number of at least 0, found \"x\"",
    );
    check(
        "WGT-ONLY",
        "WGT",
        "line 5: `layerwise_opt`: expected \"BOTH\", \"WGT-ONLY\", \"ACT-ONLY\" or \"NONE\", found \"WGT\"",
    );
    check(
        "= 0.01",
        "= 1",
        "line 11: `err_margin`: expected a share below 1, such as 0.01, found 1",
    );
    check(
        "\"conv2\"]",
        "\"conv1\"]",
        "line 4: `layer_name`: expected each name once, found conv1 again",
    );
    check(
        "\"paper\"",
        "\"papr\"",
        "line 3: `platform`: there is no platform `papr` and no [supported_formats]; the nearest is `paper`",
    );
    check(
        "\"./lenet {config} 1000\"",
        "\"./lenet\"",
        "line 12: `cmd_smallset`: the program does not get its configuration: put {config} where it expects the name of the file, or set `config_file`",
    );
    check(
        "\"bits\"",
        "\"bops\"",
        "line 1: `macs`: `f_obj` needs the products of each layer, but conv1 has none",
    );
    check(
        "get_result_regex = 'accuracy = ([0-9.]+)'",
        "",
        "line 1: `get_result_regex`: expected how the accuracy is found in what the command prints, found nothing",
    );
    check(
        "wgt_max_abs = [0.5795, 0.16474]",
        "",
        "line 1: `wgt_max_abs`: expected a value for each layer, found nothing",
    );
}

/// Without `act_min` the sign of activations is unknown.
#[test]
fn least_activations_and_the_radix_are_read() {
    let network = lenet();
    assert!(network.slots().iter().all(|slot| network.has_negative(*slot)));
    assert_eq!(network.external.unwrap().radix, Radix::Fraction);
    let text = LENET.replace("f_obj", "act_min = [0, -0.5]\nradix = \"ieee\"\nf_obj");
    let network = Network::from_descriptor(&text, None).unwrap();
    let negative: Vec<bool> =
        network.slots().iter().map(|slot| network.has_negative(*slot)).collect();
    assert_eq!(negative, [true, true, false, true], "weights may have either");
    assert_eq!(network.external.unwrap().radix, Radix::Ieee);
    check(
        "err_margin",
        "radix = 2\nerr_margin",
        "line 11: `radix`: expected \"fraction\" or \"ieee\", found 2",
    );
    check(
        "err_margin",
        "act_min = [0]\nerr_margin",
        "line 11: `act_min`: expected 2 values, one a layer, found 1",
    );
}

/// Reads the example with these lines in place of a program.
fn with_model(lines: &str) -> Result<Network, crate::DescriptorError> {
    let layers = LENET.split("cmd_smallset").next().expect("there is a program");
    Network::from_descriptor(&format!("{layers}model = \"net.onnx\"\n{lines}\n"), None)
}

#[test]
fn a_model_is_held_against_labels_or_against_itself() {
    let network = with_model("samples = \"x.npy\"\nlabels = \"y.npy\"").unwrap();
    assert_eq!(network.built_in.unwrap().files(), ["net.onnx", "x.npy", "y.npy"]);
    let text = "samples = [\"a.npy\", \"b.npy\"]\nlengths = \"n.npy\"\nagreement = \"cosine 0.99\"";
    let built_in = with_model(text).unwrap().built_in.unwrap();
    assert_eq!(built_in.files(), ["net.onnx", "a.npy", "b.npy", "n.npy"]);
    assert_eq!(built_in.correctness, CorrectnessSource::Agreement(Agreement::Cosine(0.99)));
    let wrong = |lines: &str| with_model(lines).unwrap_err().to_string();
    assert_eq!(
        wrong("samples = \"x.npy\"\nlabels = \"y.npy\"\nradix = \"ieee\"\ntime_limit_s = 3"),
        "line 15: `radix`: is read where `cmd_fullset` is a program; there is `model`, which needs none: remove it\n\
         line 16: `time_limit_s`: is read where `cmd_fullset` is a program; there is `model`, which needs none: \
         remove it"
    );
    assert_eq!(
        wrong("samples = []\nagreement = \"mostly\""),
        "line 13: `samples`: expected at least one array of NumPy, found an array of 0\n\
         line 14: `agreement`: expected top, cosine 0.99, within 0.1, equal or equal until 3, found \"mostly\""
    );
    assert_eq!(
        wrong("samples = \"x.npy\"\nlabels = \"y.npy\"\nagreement = \"top\""),
        "line 15: `agreement`: there is `labels` as well: expected one of both"
    );
    assert_eq!(
        wrong("samples = \"x.npy\""),
        "line 12: `labels`: expected an array of NumPy for `model`, or `agreement` with what the \
         model answers in FLOAT 32; found nothing"
    );
}
