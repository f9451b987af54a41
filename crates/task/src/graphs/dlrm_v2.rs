//! DLRM-DCNv2: DLRM with cross layers (Wang et al. 2021), as in the second benchmark on the Criteo
//! terabyte data set. For each of 26 features, 1 to 100 rows of its table are summed. The tables
//! have up to 40 million rows; here the rows of each are capped. Names follow TorchRec's
//! `DLRM_DCN`, whose cross layers are nested one level deeper (`inter_arch.crossnet`).

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};
use dyno_sut::tensors::Span;

/// Rows of the 26 tables of the benchmark.
pub const ROWS: [usize; 26] = [
    40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282,
    10, 2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108,
    36,
];
/// Rows of each table that a sample sums.
pub const PICKED: [usize; 26] =
    [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1];
/// Row numbers of a sample in total.
const NAMED: usize = 214;
/// Numerical features.
const DENSE: usize = 13;
const WIDTH: usize = 128;
const BOTTOM: [usize; 3] = [512, 256, WIDTH];
const TOP: [usize; 5] = [1024, 1024, 512, 256, 1];
const CROSSES: usize = 3;
/// Rank of the two matrices of a cross layer.
const RANK: usize = 512;
/// Maximum number of rows of a table in the model that fits in memory.
const CAP: usize = 40_000;
/// Ranges of the row numbers of each table in the model that fits in memory.
pub const SPANS: [Span; 26] = super::dlrm::spans(&ROWS, &PICKED, CAP);

/// Builds DLRM-DCNv2 with tables of at most 40,000 rows; it outputs the probability of a click.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn dlrm_v2_capped(weights: Weights) -> Result<Model, BuildError> {
    dlrm_v2(weights, CAP)
}

/// Builds DLRM-DCNv2 with tables of at most `cap` rows; it outputs the probability of a click. The
/// caller must fold larger indices.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn dlrm_v2(weights: Weights, cap: usize) -> Result<Model, BuildError> {
    let mut net = Builder::new("dlrm-v2", weights);
    let batch = Dim::symbol("N");
    let dense = net.input("dense_features", Element::F32, &[batch.clone(), DENSE.into()]);
    let rows = net.input("sparse_features", Element::I64, &[batch, NAMED.into()]);
    let dense = super::dlrm::layers(&mut net, &dense, "dense_arch", DENSE, &BOTTOM, "Relu")?;
    let mut vectors = vec![dense];
    let mut from = 0;
    let axis = net.integers(&[1]);
    for (at, (&all, picked)) in ROWS.iter().zip(PICKED).enumerate() {
        let all = all.min(cap);
        let bound = Fill::Uniform((1.0 / all as f32).sqrt());
        let name = format!("sparse_arch.t_cat_{at}.weight");
        let table = net.weight(&name, &[all, WIDTH], bound)?;
        let ends = [from, from + picked].map(|end| net.integers(&[end as i64]));
        let named = net.node("Slice", &[&rows, &ends[0], &ends[1], &axis], &[])?;
        let vector = net.node("Gather", &[&table, &named], &[])?;
        vectors.push(net.node("ReduceSum", &[&vector, &axis], &[("keepdims", 0.into())])?);
        from += picked;
    }
    let vectors: Vec<&Name> = vectors.iter().collect();
    let first = net.node("Concat", &vectors, &[("axis", 1.into())])?;
    let mut x = first.clone();
    for at in 0..CROSSES {
        x = cross(&mut net, &first, &x, at)?;
    }
    let inputs = (ROWS.len() + 1) * WIDTH;
    let chance = super::dlrm::layers(&mut net, &x, "over_arch", inputs, &TOP, "Sigmoid")?;
    net.output("output", &chance)?;
    Ok(net.finish())
}

/// Cross layer: x + first * (W V x + b).
fn cross(net: &mut Builder, first: &Name, x: &Name, at: usize) -> Result<Name, BuildError> {
    let inputs = (ROWS.len() + 1) * WIDTH;
    let mut part = |part: &str, shape: &[usize], fill: Fill| {
        net.weight(&format!("inter_arch.{part}.{at}"), shape, fill)
    };
    let down = part("V_kernels", &[RANK, inputs], Fill::lecun(inputs))?;
    let up = part("W_kernels", &[inputs, RANK], Fill::lecun(RANK))?;
    let bias = part("bias", &[inputs], Fill::Constant(0.0))?;
    let turned = [("transB", 1.into())];
    let y = net.node("Gemm", &[x, &down], &turned)?;
    let y = net.node("Gemm", &[&y, &up, &bias], &turned)?;
    let y = net.node("Mul", &[first, &y], &[])?;
    net.node("Add", &[x, &y], &[])
}
