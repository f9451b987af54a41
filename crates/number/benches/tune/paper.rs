//! Figures of the thesis' Tables III.4 and III.5 (chapter III, libnumber at a margin of 7 %), for
//! comparison.

/// A network of the tables.
pub struct Row {
    /// Name in the tables.
    pub network: &'static str,
    pub data: &'static str,
    /// Number of tuned layers.
    pub layers: u32,
    /// Configurations that libnumber evaluated (Table III.5).
    pub iterations: u32,
    /// Activations / weights of each layer (Table III.4).
    pub formats: &'static str,
    pub ristretto: &'static str,
    /// Why it is not run here; empty if it is.
    pub why_not: &'static str,
}

const NO_CIFAR: &str = "no package has the images of CIFAR-10";
const NO_IMAGENET: &str = "no package has labelled images of ImageNet";

/// Networks in the order of the tables.
pub const TABLE: &[Row] = &[
    row("MLP-M", "MNIST", 3, 190, "I3 / E3-E2-E3", "I2 / I4-I4-I4", ""),
    row("MLP-C", "CIFAR-10", 4, 359, "I4 / I2-E3-I3-I4", "I2 / I8-I8-I8-I8", NO_CIFAR),
    row("LeNet", "MNIST", 2, 74, "I2 / E2-E2", "I2 / I2-I2", ""),
    row("Cuda-convnet", "CIFAR-10", 3, 208, "I3 / I4-E3-I4", "I2 / I8-I8-I8", NO_CIFAR),
    row("AlexNet", "ImageNet", 5, 419, "I5 / I5-I6-E4-E3-E4", "I4 / I8 x 5", NO_IMAGENET),
    row("NiN", "ImageNet", 12, 2_759, "I6 / I4 to I6, E4", "I8 / I8 x 12", NO_IMAGENET),
    row("VGG-16", "ImageNet", 13, 3_516, "I8 / I3 to I7, E4", "I8 / I8 x 13", NO_IMAGENET),
    row("GoogleNet", "ImageNet", 11, 1_783, "I6 / I4 to I6", "I8 / I8 x 11", NO_IMAGENET),
    row("ResNet-50", "ImageNet", 17, 5_471, "I7 / I3 to I7", "I8 / I8 x 17", NO_IMAGENET),
    row("DarkNet-ref", "ImageNet", 8, 1_130, "I7 / I5 to I8, E4", "I8 / I8 x 8", NO_IMAGENET),
    row(
        "Tiny YOLO",
        "VOC2007",
        9,
        1_644,
        "I8 / I3 to I7, E3",
        "I8 / I8 x 9",
        "no package has VOC2007",
    ),
];

const fn row(
    network: &'static str,
    data: &'static str,
    layers: u32,
    iterations: u32,
    formats: &'static str,
    ristretto: &'static str,
    why_not: &'static str,
) -> Row {
    Row { network, data, layers, iterations, formats, ristretto, why_not }
}
