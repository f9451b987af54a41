//! RetinaNet (Lin et al. 2017) over ResNeXt-50 32x4d for images of 800x800 and the 264 classes of
//! OpenImages that the benchmark uses. Boxes and scores of 120087 anchors are output before
//! suppression. Names are torchvision's.

use dyno_onnx::{BuildError, Builder, Fill, Model, Name, Weights};

use super::pieces::{Activation, Conv, activate, conv_with_bias, images};
use super::resnet::{Block, STAGES, stem};

const CLASSES: usize = 264;
/// Anchors at each place of a map.
const ANCHORS: usize = 9;
/// Channels of all maps.
const WIDTH: usize = 256;
const GROUPS: usize = 32;
/// Layers of a head before its last.
const DEPTH: usize = 4;

/// Builds the network: scores `[N, 120087, 264]` and boxes `[N, 120087, 4]`.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn retinanet(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("retinanet", weights);
    let x = images(&mut net, "images", [3, 800, 800]);
    let stages = backbone(&mut net, &x)?;
    let maps = pyramid(&mut net, &stages)?;
    let heads = [
        ("cls_logits", "classification_head", "cls_logits", CLASSES),
        ("bbox_regression", "regression_head", "bbox_reg", 4),
    ];
    for (output, head, last, size) in heads {
        let all = look(&mut net, &maps, &format!("head.{head}"), last, size)?;
        net.output(output, &all)?;
    }
    Ok(net.finish())
}

/// Returns the outputs of the last three stages.
fn backbone(net: &mut Builder, x: &Name) -> Result<Vec<Name>, BuildError> {
    let mut x = stem(net, x, ["backbone.body.conv1", "backbone.body.bn1"])?;
    let mut stages = Vec::new();
    for (stage, (blocks, width)) in STAGES.into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = format!("backbone.body.layer{}.{block}", stage + 1);
            let inner = 2 * width;
            let outer = 4 * width;
            x = Block { name: &name, inner, outer, stride, groups: GROUPS }.add(net, &x)?;
        }
        stages.push(x.clone());
    }
    Ok(stages.split_off(1))
}

/// Feature pyramid of five maps: each stage with all above it added, and two further maps.
fn pyramid(net: &mut Builder, stages: &[Name]) -> Result<Vec<Name>, BuildError> {
    let mut maps = Vec::new();
    let mut above: Option<Name> = None;
    for (at, stage) in stages.iter().enumerate().rev() {
        let name = format!("backbone.fpn.inner_blocks.{at}");
        let mut x = conv_with_bias(net, stage, Conv::new(&name, WIDTH, 1, 1))?;
        if let Some(above) = &above {
            let twice = upsample(net, above)?;
            x = net.node("Add", &[&x, &twice], &[])?;
        }
        let name = format!("backbone.fpn.layer_blocks.{at}");
        maps.insert(0, conv_with_bias(net, &x, Conv::new(&name, WIDTH, 3, 1))?);
        above = Some(x);
    }
    let mut x = maps.last().expect("there are three stages").clone();
    for name in ["p6", "p7"] {
        if name == "p7" {
            x = activate(net, &x, Activation::Relu)?;
        }
        x = conv_with_bias(
            net,
            &x,
            Conv::new(&format!("backbone.fpn.extra_blocks.{name}"), WIDTH, 3, 2),
        )?;
        maps.push(x.clone());
    }
    Ok(maps)
}

/// Doubles both sides by repetition.
fn upsample(net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
    let factors = net.numbers(&[1.0, 1.0, 2.0, 2.0]);
    let choices = [
        ("mode", "nearest".into()),
        ("coordinate_transformation_mode", "asymmetric".into()),
        ("nearest_mode", "floor".into()),
    ];
    net.node("Resize", &[x, &Name::NONE, &factors], &choices)
}

/// One head over all maps, with shared weights.
fn look(
    net: &mut Builder,
    maps: &[Name],
    head: &str,
    last: &str,
    size: usize,
) -> Result<Name, BuildError> {
    let names = (0..DEPTH).map(|at| format!("{head}.conv.{}", 2 * at));
    let names: Vec<String> = names.chain([format!("{head}.{last}")]).collect();
    let mut layers = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let channels = if at < DEPTH { WIDTH } else { ANCHORS * size };
        let conv = Conv::new(name, channels, 3, 1);
        let weights = conv.weights(net, WIDTH)?;
        let bias = net.weight(&format!("{name}.bias"), &[channels], Fill::Constant(0.0))?;
        layers.push((conv, weights, bias));
    }
    let mut all = Vec::new();
    for map in maps {
        let mut x = map.clone();
        for (at, (conv, weights, bias)) in layers.iter().enumerate() {
            x = conv.apply(net, &x, &[weights, bias])?;
            if at < DEPTH {
                x = activate(net, &x, Activation::Relu)?;
            }
        }
        let x = net.node("Transpose", &[&x], &[("perm", [0, 2, 3, 1].into())])?;
        let shape = net.integers(&[0, -1, size as i64]);
        all.push(net.node("Reshape", &[&x, &shape], &[])?);
    }
    let all: Vec<&Name> = all.iter().collect();
    net.node("Concat", &all, &[("axis", 1.into())])
}
