//! Trains the LeNet of `crates/number-c/examples/lenet` and writes the files of its programs:
//! weights, images and labels. Prints the layers for a descriptor, with measured sizes and largest
//! magnitudes.
//!
//! usage: train_lenet FOLDER [--mnist [IMAGES]]
//!
//! Without `--mnist` it trains a small LeNet on the embedded digits. With `--mnist` it trains
//! Caffe's LeNet on MNIST, which `crates/peers/scripts/tune.py` stores in FOLDER, and keeps the
//! images and labels there. IMAGES limits the number of training images.

// The trainer of benches/tune.
#[path = "../benches/tune/train.rs"]
#[expect(dead_code, reason = "the bench has another network as well")]
mod train;

use std::error::Error;
use std::path::Path;

use dyno_number::evaluate::{ChainEvaluator, Samples};
use dyno_number::network::Layer as Profiled;
use train::{LENET, Layer, Network, SIDE};

/// Per image 8 x 8 bytes of ink, 0 to 16, then its label. `crates/sut/data/README.md` documents the
/// origin.
static DIGITS: &[u8] = include_bytes!("../../sut/data/digits.bin");
const PIXELS: usize = 8;
/// Number of training images; they come first.
const TRAIN: usize = 1_257;
const EPOCHS: usize = 40;

/// Caffe's LeNet with fewer outputs.
const SMALL: &[Layer] = &[
    Layer::Convolution { side: 28, channels: 1, kernel: 5, outputs: 4 },
    Layer::MaxPool { side: 24, channels: 4 },
    Layer::Convolution { side: 12, channels: 4, kernel: 5, outputs: 8 },
    Layer::MaxPool { side: 8, channels: 8 },
    Layer::FullyConnected { inputs: 128, outputs: 32 },
    Layer::Relu { numbers: 32 },
    Layer::FullyConnected { inputs: 32, outputs: 10 },
];

/// Images as bytes of 256 times their ink, with their labels.
#[derive(Default)]
struct Images {
    bytes: Vec<u8>,
    labels: Vec<u8>,
}

impl Images {
    fn read(folder: &Path, part: &str) -> std::io::Result<Self> {
        let bytes = std::fs::read(folder.join(format!("mnist-{part}-images")))?;
        let labels = std::fs::read(folder.join(format!("mnist-{part}-labels")))?;
        Ok(Self { bytes, labels })
    }

    /// Returns training and test images, with each pixel as 3 x 3 and a border of 2.
    fn embedded() -> [Self; 2] {
        let mut parts = [Self::default(), Self::default()];
        for (at, record) in DIGITS.chunks_exact(PIXELS * PIXELS + 1).enumerate() {
            let part = &mut parts[usize::from(at >= TRAIN)];
            let begin = part.bytes.len();
            part.bytes.resize(begin + SIDE * SIDE, 0);
            for pixel in 0..9 * PIXELS * PIXELS {
                let (y, x) = (pixel / (3 * PIXELS), pixel % (3 * PIXELS));
                let ink = record[y / 3 * PIXELS + x / 3];
                part.bytes[begin + (y + 2) * SIDE + x + 2] = 15 * ink;
            }
            part.labels.push(record[PIXELS * PIXELS]);
        }
        parts
    }

    fn values(&self) -> Vec<f32> {
        self.bytes.iter().map(|byte| f32::from(*byte) / 256.0).collect()
    }
}

fn profile(network: &Network, test: &Images) -> Result<Vec<Profiled>, Box<dyn Error>> {
    let labels: Vec<usize> = test.labels.iter().map(|label| usize::from(*label)).collect();
    let sets = [Vec::new(), (0..labels.len()).collect(), Vec::new()];
    let samples = Samples { values: test.values(), labels };
    Ok(ChainEvaluator::new(&network.model("lenet")?, samples, sets)?.profile()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder =
        Path::new(arguments.first().ok_or("usage: train_lenet FOLDER [--mnist [IMAGES]]")?);
    let is_mnist = arguments.get(1).is_some_and(|word| word == "--mnist");
    let (name, network, test) = if is_mnist {
        let (mut train, test) = (Images::read(folder, "train")?, Images::read(folder, "test")?);
        if let Some(count) = arguments.get(2) {
            let count = count.parse::<usize>()?.min(train.labels.len());
            train.labels.truncate(count);
            train.bytes.truncate(count * SIDE * SIDE);
        }
        ("lenet.f32", Network::trained(LENET, &train.values(), &train.labels), test)
    } else {
        let [train, test] = Images::embedded();
        let (values, labels) = (train.values().repeat(EPOCHS), train.labels.repeat(EPOCHS));
        std::fs::write(folder.join("images"), &test.bytes)?;
        std::fs::write(folder.join("labels"), &test.labels)?;
        ("digits.f32", Network::trained(SMALL, &values, &labels), test)
    };
    let weights: Vec<u8> = network.numbers().iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(folder.join(name), weights)?;
    let mut layers = profile(&network, &test)?;
    // As in the paper, Caffe's fully connected layers are not tuned.
    layers.truncate(if is_mnist { 2 } else { 4 });
    let line = |key: &str, of: &dyn Fn(&Profiled) -> String| {
        let values: Vec<String> = layers.iter().map(of).collect();
        println!("{key} = [{}]", values.join(", "));
    };
    line("layer_name", &|layer| format!("{:?}", layer.name));
    line("wgt_size", &|layer| layer.weight_size.to_string());
    line("act_size", &|layer| layer.activation_size.to_string());
    line("wgt_max_abs", &|layer| format!("{:?}", layer.weight_max));
    line("act_max_abs", &|layer| format!("{:?}", layer.activation_max));
    line("macs", &|layer| layer.macs.to_string());
    Ok(())
}
