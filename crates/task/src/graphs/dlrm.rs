//! DLRM (Naumov et al. 2019) with the layers of the benchmark on the Criteo terabyte data set. Its
//! tables have up to 40 million rows; here the rows of each are capped. Names are those of
//! Facebook's public model.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};
use dyno_sut::tensors::Span;

/// Rows of the 26 tables of the benchmark.
pub const ROWS: [usize; 26] = [
    39_884_406, 39_043, 17_289, 7_420, 20_263, 3, 7_120, 1_543, 63, 38_532_951, 2_953_546, 403_346,
    10, 2_208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108,
    36,
];
/// Numerical features.
const DENSE: usize = 13;
const WIDTH: usize = 128;
const BOTTOM: [usize; 3] = [512, 256, WIDTH];
const TOP: [usize; 5] = [1024, 1024, 512, 256, 1];
/// Maximum number of rows of a table in the model that fits in memory.
const CAP: usize = 40_000;
/// Ranges of the row numbers of each table in the model that fits in memory.
pub const SPANS: [Span; 26] = spans(&ROWS, &[1; 26], CAP);

/// Returns the ranges of random row numbers in tables of at most `cap` rows; a sample picks
/// `picked` rows of each table.
pub const fn spans(rows: &[usize; 26], picked: &[usize; 26], cap: usize) -> [Span; 26] {
    let mut spans = [Span::below(0); 26];
    let mut at = 0;
    while at < spans.len() {
        let rows = if rows[at] < cap { rows[at] } else { cap };
        spans[at] = Span { elements: picked[at], from: 0, to: rows as i64 };
        at += 1;
    }
    spans
}

/// Builds DLRM with tables of at most 40,000 rows; it outputs the probability of a click.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn dlrm_capped(weights: Weights) -> Result<Model, BuildError> {
    dlrm(weights, CAP)
}

/// Builds DLRM with tables of at most `cap` rows; it outputs the probability of a click. The caller
/// must fold larger indices.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn dlrm(weights: Weights, cap: usize) -> Result<Model, BuildError> {
    let mut net = Builder::new("dlrm", weights);
    let batch = Dim::symbol("N");
    let dense = net.input("dense", Element::F32, &[batch.clone(), DENSE.into()]);
    let sparse = net.input("sparse", Element::I64, &[batch, ROWS.len().into()]);
    let dense = layers(&mut net, &dense, "bot_l", DENSE, &BOTTOM, "Relu")?;
    let axis = net.integers(&[1]);
    let mut vectors = vec![net.node("Unsqueeze", &[&dense, &axis], &[])?];
    for (at, &rows) in ROWS.iter().enumerate() {
        let rows = rows.min(cap);
        let bound = Fill::Uniform((1.0 / rows as f32).sqrt());
        let table = net.weight(&format!("emb_l.{at}.weight"), &[rows, WIDTH], bound)?;
        let column = net.integers(&[at as i64]);
        let index = net.node("Gather", &[&sparse, &column], &[("axis", 1.into())])?;
        vectors.push(net.node("Gather", &[&table, &index], &[])?);
    }
    let vectors: Vec<&Name> = vectors.iter().collect();
    let vectors = net.node("Concat", &vectors, &[("axis", 1.into())])?;
    let pairs = interactions(&mut net, &vectors, ROWS.len() + 1)?;
    let x = net.node("Concat", &[&dense, &pairs], &[("axis", 1.into())])?;
    let count = WIDTH + (ROWS.len() + 1) * ROWS.len() / 2;
    let chance = layers(&mut net, &x, "top_l", count, &TOP, "Sigmoid")?;
    net.output("output", &chance)?;
    Ok(net.finish())
}

/// Returns the dot products of all pairs of vectors.
fn interactions(net: &mut Builder, vectors: &Name, count: usize) -> Result<Name, BuildError> {
    let turned = net.node("Transpose", &[vectors], &[("perm", [0, 2, 1].into())])?;
    let products = net.node("MatMul", &[vectors, &turned], &[])?;
    let flat = net.integers(&[0, (count * count) as i64]);
    let products = net.node("Reshape", &[&products, &flat], &[])?;
    let below = (0..count).flat_map(|row| (0..row).map(move |column| row * count + column));
    let below: Vec<i64> = below.map(|at| at as i64).collect();
    let below = net.integers(&below);
    net.node("Gather", &[&products, &below], &[("axis", 1.into())])
}

/// Linear layers with a ReLU after each but the last, which is followed by `last`.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn layers(
    net: &mut Builder,
    x: &Name,
    name: &str,
    inputs: usize,
    sizes: &[usize],
    last: &str,
) -> Result<Name, BuildError> {
    let mut x = x.clone();
    let mut inputs = inputs;
    for (at, &outputs) in sizes.iter().enumerate() {
        // The public model also counts activations as layers.
        let name = format!("{name}.{}", 2 * at);
        let fill = Fill::he(inputs);
        let weights = net.weight(&format!("{name}.weight"), &[outputs, inputs], fill)?;
        let bias = net.weight(&format!("{name}.bias"), &[outputs], Fill::Constant(0.0))?;
        x = net.node("Gemm", &[&x, &weights, &bias], &[("transB", 1.into())])?;
        let then = if at + 1 == sizes.len() { last } else { "Relu" };
        x = net.node(then, &[&x], &[])?;
        inputs = outputs;
    }
    Ok(x)
}
