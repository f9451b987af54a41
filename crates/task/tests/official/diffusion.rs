//! Stable Diffusion XL with generated models, whose images are computed here a second time: from
//! captions to bytes, and to the figures of both judging networks.

use std::fs;
use std::num::NonZero;

use dyno_onnx::{Builder, Dim, Element, Model, Name, Tensor, Weights};
use dyno_task::card::Card;
use dyno_task::system::AnswerKind;

use crate::made::{self, Folder, answered_in};

const FILES: [(&str, &str); 3] =
    [("model", "export"), ("captions", "captions.tsv"), ("latents", "latents.npy")];
const JUDGES: [(&str, &str); 4] = [
    ("inception", "inception.onnx"),
    ("clip", "clip/model.onnx"),
    ("mean", "mean.npy"),
    ("covariance", "covariance.npy"),
];
const STEPS: usize = 3;
const GUIDANCE: f64 = 2.0;
const SCALING: f64 = 2.0;
/// Tokens of a caption; 77 in the card.
const TOKENS: usize = 6;
/// Pixels of an image and of its latents along a side; 1024 and 128 in the card.
const SIDE: usize = 2;
/// Tokens, levels and all other numbers of an export in float32.
const WHOLE: [Element; 3] = [Element::I64, Element::I64, Element::F32];
const LATENTS: [f32; 16] = [
    0.5, -1.0, 0.25, 0.75, -0.5, 1.5, 0.0, -0.25, 1.0, -0.75, 0.125, 0.625, -1.25, 0.375, 0.875,
    -0.125,
];
/// From the four channels of a latent to three colors.
const COLOURS: [[f32; 4]; 3] =
    [[0.5, 0.25, 0.0, 0.0], [0.0, 0.5, -0.25, 0.0], [0.25, 0.0, 0.25, 0.5]];

const VOCABULARY: &str = r#"{"!": 0, "a</w>": 1, "b</w>": 2, "c</w>": 3, "!</w>": 4,
    "<|startoftext|>": 5, "<|endoftext|>": 6}"#;
/// Tokens of each caption and of the negative prompt, by both tokenizers.
const CAPTIONS: [&str; 3] = ["A b", "c!", "b b b b b b"];
const CUT: [[[i64; TOKENS]; 2]; 3] = [
    [[5, 1, 2, 6, 6, 6], [5, 1, 2, 6, 0, 0]],
    [[5, 3, 4, 6, 6, 6], [5, 3, 0, 6, 0, 0]],
    [[5, 2, 2, 2, 2, 6], [5, 2, 2, 2, 2, 6]],
];
const NEGATIVE: [[i64; TOKENS]; 2] = [[5, 3, 6, 6, 6, 6], [5, 3, 6, 0, 0, 0]];

fn card() -> Card {
    let mut card = made::card("stable-diffusion-xl");
    for (input, shape) in
        card.data.inputs.iter_mut().zip([vec![TOKENS], vec![TOKENS], vec![4, SIDE, SIDE]])
    {
        input.shape = shape;
    }
    let system = card.system.as_mut().unwrap();
    let AnswerKind::Diffusion(config) = &mut system.answer else { panic!("it is a diffusion") };
    config.steps = NonZero::new(STEPS).unwrap();
    config.guidance = GUIDANCE as f32;
    config.negative = "c".into();
    config.side = SIDE;
    config.scaling = SCALING as f32;
    card
}

fn net(name: &str) -> Builder {
    Builder::new(name, Weights::seeded(1))
}

/// An input of these numbers, as float32.
fn taken(net: &mut Builder, name: &str, element: Element, shape: &[Dim]) -> Name {
    let found = net.input(name, element, shape);
    net.node("Cast", &[&found], &[("to", Element::F32.into())]).unwrap()
}

/// An output of the same element type as the inputs.
fn put(net: &mut Builder, name: &str, element: Element, of: &Name) {
    let of = net.node("Cast", &[of], &[("to", element.into())]).unwrap();
    net.output(name, &of).unwrap();
}

fn batch(rest: &[usize]) -> Vec<Dim> {
    [Dim::symbol("n")].into_iter().chain(rest.iter().map(|n| Dim::Fixed(*n))).collect()
}

fn two(net: &mut Builder, op: &str, one: &Name, other: &Name) -> Name {
    net.node(op, &[one, other], &[]).unwrap()
}

/// A text encoder: a hundredth of each token, with its negative as the second number if there are
/// two; the pooled vector is the sum of the hundredths.
fn encoder(hidden: &str, tokens: Element, floats: Element, numbers: usize) -> Model {
    let mut net = net("encoder");
    let tokens = taken(&mut net, "input_ids", tokens, &batch(&[TOKENS]));
    let part = net.number(0.01);
    let parts = two(&mut net, "Mul", &tokens, &part);
    let axis = net.integers(&[2]);
    let one = two(&mut net, "Unsqueeze", &parts, &axis);
    let vectors = if numbers == 1 {
        one.clone()
    } else {
        let other = net.node("Neg", &[&one], &[]).unwrap();
        net.node("Concat", &[&one, &other], &[("axis", 2.into())]).unwrap()
    };
    let last = net.node("Identity", &[&one], &[]).unwrap();
    put(&mut net, "last_hidden_state", floats, &last);
    put(&mut net, hidden, floats, &vectors);
    let axis = net.integers(&[1]);
    let whole = two(&mut net, "ReduceSum", &parts, &axis);
    put(&mut net, "text_embeds", floats, &whole);
    net.finish()
}

/// A denoiser: half of the image, plus one number for all pixels from the step, the text, the
/// pooled text and the sizes.
fn unet(step: &[Dim], level: Element, floats: Element) -> Model {
    let mut net = net("unet");
    // In another order than the pipeline's.
    let sizes = taken(&mut net, "time_ids", floats, &batch(&[6]));
    let image = taken(&mut net, "sample", floats, &batch(&[4, SIDE, SIDE]));
    let level = taken(&mut net, "timestep", level, step);
    let text = taken(&mut net, "encoder_hidden_states", floats, &batch(&[TOKENS, 3]));
    let whole = taken(&mut net, "text_embeds", floats, &batch(&[1]));
    // A number and its negative cancel in the second encoder; it affects the result by its pooled
    // vector.
    let text = reduced(&mut net, "ReduceSum", &text, &[1, 2], 0);
    let sizes = reduced(&mut net, "ReduceSum", &sizes, &[1], 1);
    let part = net.number(0.01);
    let sizes = two(&mut net, "Mul", &sizes, &part);
    let axis = net.integers(&[1]);
    let text = two(&mut net, "Unsqueeze", &text, &axis);
    let all = two(&mut net, "Add", &text, &whole);
    let all = two(&mut net, "Add", &all, &sizes);
    let axes = net.integers(&[2, 3]);
    let all = two(&mut net, "Unsqueeze", &all, &axes);
    let part = net.number(0.001);
    let level = two(&mut net, "Mul", &level, &part);
    let half = net.number(0.5);
    let noise = two(&mut net, "Mul", &image, &half);
    let noise = two(&mut net, "Add", &noise, &all);
    let noise = two(&mut net, "Add", &noise, &level);
    put(&mut net, "out_sample", floats, &noise);
    net.finish()
}

fn reduced(net: &mut Builder, op: &str, x: &Name, axes: &[i64], keep: i64) -> Name {
    let axes = net.integers(axes);
    net.node(op, &[x, &axes], &[("keepdims", keep.into())]).unwrap()
}

fn decoder() -> Model {
    decoder_of(Element::F32)
}

fn decoder_of(floats: Element) -> Model {
    let mut net = net("decoder");
    let latents = taken(&mut net, "latent_sample", floats, &batch(&[4, SIDE, SIDE]));
    let weights = Tensor::from_f32("colours", &[3, 4, 1, 1], &COLOURS.concat());
    let weights = net.tensor(weights).unwrap();
    let image = two(&mut net, "Conv", &latents, &weights);
    put(&mut net, "sample", floats, &image);
    net.finish()
}

/// A network with one feature: the mean of all values.
fn inception() -> Model {
    let mut net = net("inception");
    let images = net.input("x", Element::F32, &batch(&[3, SIDE, SIDE]));
    let mean = net
        .node(
            "ReduceMean",
            &[&images],
            &[("axes", vec![1_i64, 2, 3].into()), ("keepdims", 1.into())],
        )
        .unwrap();
    net.output("features", &mean).unwrap();
    net.finish()
}

/// A network with the channel means of an image, and for a text the sum of its tokens, the number
/// that count, and the sum again.
fn clip() -> Model {
    let mut net = net("clip");
    let tokens = net.input("input_ids", Element::I64, &batch(&[TOKENS]));
    let images = net.input("pixel_values", Element::F32, &batch(&[3, SIDE, SIDE]));
    let counted = net.input("attention_mask", Element::I64, &batch(&[TOKENS]));
    let mean = net
        .node("ReduceMean", &[&images], &[("axes", vec![2_i64, 3].into()), ("keepdims", 0.into())])
        .unwrap();
    let [tokens, counted] = [tokens, counted].map(|of| {
        let of = net.node("Cast", &[&of], &[("to", Element::F32.into())]).unwrap();
        reduced(&mut net, "ReduceSum", &of, &[1], 1)
    });
    let text = net.node("Concat", &[&tokens, &counted, &tokens], &[("axis", 1.into())]).unwrap();
    net.output("text_embeds", &text).unwrap();
    net.output("image_embeds", &mean).unwrap();
    net.finish()
}

/// Bytes of a float32 array as `numpy.save` writes it.
fn npy(shape: &str, values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (header.len() as u16).to_le_bytes();
    let body: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), &body].concat()
}

/// Writes all files of a user; the models take tokens, levels and all other numbers in these
/// element types.
fn folder(step: &[Dim], [tokens, level, floats]: [Element; 3]) -> Folder {
    let folder = Folder::new();
    let models = [
        ("text_encoder", encoder("hidden_states.11", tokens, floats, 1)),
        ("text_encoder_2", encoder("hidden_states.31", tokens, floats, 2)),
        ("unet", unet(step, level, floats)),
        ("vae_decoder", decoder_of(floats)),
    ];
    for (name, model) in models {
        fs::create_dir_all(folder.path(&format!("export/{name}"))).unwrap();
        model.write(&folder.path(&format!("export/{name}/model.onnx"))).unwrap();
    }
    for (name, padding) in [("tokenizer", "<|endoftext|>"), ("tokenizer_2", "!")] {
        fs::create_dir_all(folder.path(&format!("export/{name}"))).unwrap();
        folder.write(&format!("export/{name}/vocab.json"), VOCABULARY);
        folder.write(&format!("export/{name}/merges.txt"), "#version: 0.2\n");
        let special = format!(r#"{{"pad_token": "{padding}"}}"#);
        folder.write(&format!("export/{name}/special_tokens_map.json"), special);
    }
    let rows: String = CAPTIONS.iter().map(|caption| format!("7\t{caption}\t640\n")).collect();
    folder.write("captions.tsv", format!("id\tcaption\theight\n{rows}"));
    folder.write("latents.npy", npy("(1, 4, 2, 2)", &LATENTS));
    inception().write(&folder.path("inception.onnx")).unwrap();
    fs::create_dir_all(folder.path("clip")).unwrap();
    clip().write(&folder.path("clip/model.onnx")).unwrap();
    folder.write("mean.npy", npy("(1,)", &[0.25]));
    folder.write("covariance.npy", npy("(1, 1)", &[0.01]));
    folder
}

/// Returns the image of a caption by the formulas.
fn image([first, second]: &[[i64; TOKENS]; 2]) -> Vec<u8> {
    let sum = |tokens: &[i64; TOKENS]| tokens.iter().sum::<i64>() as f64 / 100.0;
    let sizes = 4.0 * SIDE as f64 / 100.0;
    let wish = |first, second| sum(first) + sum(second) + sizes;
    let (wanted, unwanted) = (wish(first, second), wish(&NEGATIVE[0], &NEGATIVE[1]));
    let [from, to] = [0.00085_f64, 0.012].map(f64::sqrt);
    let mut kept = 1.0;
    let sigmas: Vec<f64> = (0..1000)
        .map(|level| {
            kept *= 1.0 - (from + (to - from) * f64::from(level) / 999.0).powi(2);
            ((1.0 - kept) / kept).sqrt()
        })
        .collect();
    let levels = [667, 334, 1];
    let mut latents = LATENTS.map(f64::from);
    latents.iter_mut().for_each(|value| *value *= sigmas[levels[0]].hypot(1.0));
    for (at, level) in levels.into_iter().enumerate() {
        let (sigma, next) = (sigmas[level], levels.get(at + 1).map_or(0.0, |next| sigmas[*next]));
        for value in &mut latents {
            let noise = |wish: f64| *value / sigma.hypot(1.0) / 2.0 + wish + level as f64 / 1000.0;
            let noise = noise(unwanted) + GUIDANCE * (noise(wanted) - noise(unwanted));
            *value += (next - sigma) * noise;
        }
    }
    let mut bytes = Vec::new();
    for pixel in 0..SIDE * SIDE {
        for colour in COLOURS {
            let channels = (0..4).map(|channel| latents[channel * SIDE * SIDE + pixel] / SCALING);
            let value: f64 = channels.zip(colour).map(|(one, part)| one * f64::from(part)).sum();
            bytes.push(((value / 2.0 + 0.5).clamp(0.0, 1.0) * 255.0).round() as u8);
        }
    }
    bytes
}

/// Returns Fréchet distance and CLIP score of images, by their definitions.
fn judged(images: &[Vec<u8>]) -> [f64; 2] {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let features: Vec<f64> = images
        .iter()
        .map(|image| mean(&image.iter().map(|byte| f64::from(*byte) / 255.0).collect::<Vec<_>>()))
        .collect();
    let middle = mean(&features);
    let variance = features.iter().map(|one| (one - middle).powi(2)).sum::<f64>()
        / (features.len() - 1) as f64;
    let distance = (middle - 0.25).powi(2) + (variance.sqrt() - 0.1).powi(2);
    // Mean and deviation of each channel in open_clip.
    let normal = [[0.48145466, 0.26862954], [0.4578275, 0.26130258], [0.40821073, 0.27577711]];
    let cosines = images.iter().zip(CUT).zip([4, 4, 6]).map(|((image, [caption, _]), counted)| {
        let of_image = [0, 1, 2].map(|at| {
            let channel: Vec<f64> =
                image.iter().skip(at).step_by(3).map(|byte| f64::from(*byte) / 255.0).collect();
            (mean(&channel) - normal[at][0]) / normal[at][1]
        });
        let sum = caption.iter().sum::<i64>() as f64;
        let of_text = [sum, f64::from(counted), sum];
        let dot = |a: [f64; 3], b: [f64; 3]| (0..3).map(|at| a[at] * b[at]).sum::<f64>();
        dot(of_image, of_text) / (dot(of_image, of_image) * dot(of_text, of_text)).sqrt()
    });
    [distance, 100.0 * mean(&cosines.collect::<Vec<_>>())]
}

#[test]
fn images_and_their_figures_are_those_of_the_formulas() {
    let all = [&FILES[..], &JUDGES[..]].concat();
    let one = [Dim::Fixed(1)];
    for (step, elements) in
        [(&[][..], WHOLE), (&one[..], [Element::I32, Element::F32, Element::F32])]
    {
        let folder = folder(step, elements);
        let mut figures = Vec::new();
        for (metric, batch) in [("FID_SCORE", 4), ("CLIP_SCORE", 1)] {
            let mut ready = folder.open(&card(), &all).unwrap();
            assert_eq!(ready.remarks.len(), 1, "{:?}", ready.remarks);
            ready.judge.as_mut().unwrap().metric = metric.into();
            let Some(told) = answered_in(ready, batch) else { return };
            assert_eq!((told.failed.len(), told.answers.len()), (0, 3), "{:?}", told.trouble);
            for (index, caption) in CUT.iter().enumerate() {
                let expected = image(caption);
                assert_eq!(told.answers[&(index as u64)], expected, "{index} by {batch}");
                let is_inside = |byte: &&u8| (1..=254).contains(*byte);
                assert!(expected.iter().filter(is_inside).count() > 4, "{expected:?}");
            }
            figures.push(told.figure);
        }
        let expected = judged(&CUT.map(|caption| image(&caption)));
        for (found, expected) in figures.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5 * expected.abs(), "{found}, not {expected}");
        }
    }
}

#[test]
fn exports_in_float16_are_fed_float16_and_make_nearly_the_same_images() {
    // Tolerance after two steps in float16, which has eleven bits.
    const ROUNDING: u8 = 2;
    let folder = folder(&[], [Element::I64, Element::F16, Element::F16]);
    let all = [&FILES[..], &JUDGES[..]].concat();
    let Some(told) = answered_in(folder.open(&card(), &all).unwrap(), 2) else { return };
    assert_eq!((told.failed.len(), told.answers.len()), (0, 3), "{:?}", told.trouble);
    for (index, caption) in (0..).zip(&CUT) {
        let (found, expected) = (&told.answers[&index], image(caption));
        let is_near = |(one, other): (&u8, &u8)| one.abs_diff(*other) <= ROUNDING;
        assert!(found.iter().zip(&expected).all(is_near), "{index}: {found:?}, not {expected:?}");
    }
}

#[test]
fn a_network_of_two_rows_makes_one_image_a_call() {
    let folder = folder(&[], WHOLE);
    let whole = unet(&[], Element::I64, Element::F32);
    let all = [&FILES[..], &JUDGES[..]].concat();
    let write = |rows: usize| {
        let mut unet = whole.clone();
        let images = unet.inputs.iter_mut().filter(|port| port.name != "timestep");
        images.for_each(|port| port.shape.as_mut().unwrap()[0] = rows.into());
        unet.write(&folder.path("export/unet/model.onnx")).unwrap();
    };
    write(2);
    let Some(told) = answered_in(folder.open(&card(), &all).unwrap(), 4) else { return };
    assert_eq!((told.failed.len(), told.answers.len()), (0, 3), "{:?}", told.trouble);
    assert!((0..).zip(&CUT).all(|(index, caption)| told.answers[&index] == image(caption)));
    write(4);
    let refusal = made::unfit(folder.open(&card(), &FILES).unwrap()).unwrap();
    assert!(refusal.contains("expected any number of rows, or 2: export it with"), "{refusal}");
}

#[test]
fn without_networks_it_runs_and_names_the_later_judge() {
    let folder = folder(&[], WHOLE);
    let ready = folder.open(&card(), &FILES).unwrap();
    assert!(ready.judge.is_none());
    assert_eq!(
        ready.remarks[1],
        "answers are not judged without --with mean=FILE --with covariance=FILE --with \
         inception=FILE --with clip=FILE; dyno task score stable-diffusion-xl with all files judges \
         the accuracy log of a run later"
    );
    let ready = folder.open(&card(), &[&FILES[..], &JUDGES[..3]].concat()).unwrap();
    assert!(ready.judge.is_none() && ready.remarks[1].contains("without --with covariance=FILE;"));
}

#[test]
fn models_that_do_not_fit_are_rejected_before_anything_is_timed() {
    let folder = folder(&[], WHOLE);
    let scheduler = "export/scheduler/scheduler_config.json";
    fs::create_dir_all(folder.path("export/scheduler")).unwrap();
    folder.write(scheduler, r#"{"timestep_spacing": "linspace"}"#);
    let refusal = folder.refusal(&card(), &FILES);
    assert_eq!(
        refusal,
        format!(
            "{scheduler}: expected timestep_spacing \"leading\" as in the reference, found \"linspace\""
        )
    );
    fs::remove_file(folder.path(scheduler)).unwrap();
    let all = [&FILES[..], &JUDGES[..]].concat();
    inception().write(&folder.path("clip/model.onnx")).unwrap();
    let refusal = folder.refusal(&card(), &all);
    assert!(refusal.starts_with("clip/model.onnx: expected the input pixel_values"), "{refusal}");
    clip().write(&folder.path("inception.onnx")).unwrap();
    let refusal = folder.refusal(&card(), &all);
    assert!(refusal.starts_with("inception.onnx: expected"), "{refusal}");
    decoder().write(&folder.path("export/unet/model.onnx")).unwrap();
    let ready = folder.open(&card(), &FILES).unwrap();
    if let Some(error) = made::unfit(ready) {
        assert!(error.contains("unet/model.onnx") && error.contains("'latent_sample'"), "{error}");
    }
    fs::remove_file(folder.path("export/unet/model.onnx")).unwrap();
    let refusal = folder.refusal(&card(), &FILES);
    assert!(refusal.starts_with("export/unet/model.onnx: "), "{refusal}");
    fs::remove_file(folder.path("export/tokenizer_2/vocab.json")).unwrap();
    let refusal = folder.refusal(&card(), &FILES);
    assert!(refusal.starts_with("export/tokenizer_2/vocab.json: expected vocab.json"), "{refusal}");
}
