//! Attention, selection of boxes, Fourier transforms, and images that are resized, sampled or averaged.
//! Expected numbers are worked out by hand or are those of the standard, and the independent evaluator
//! must agree.

use dyno_graph::Value;
use dyno_onnx::Attribute;

use super::fused::{check, check_refused, check_standard, fused, standard};
use super::standard::{integer, text};
use super::{floats, ints};

/// A query of 1 weighs keys of 0 and ln 3 by a quarter and three quarters.
#[test]
fn scores_are_products_of_queries_and_keys() {
    let (q, k) = (floats(&[1, 1, 1, 1], &[1.0]), floats(&[1, 1, 2, 1], &[0.0, 3.0_f32.ln()]));
    let v = floats(&[1, 1, 2, 1], &[4.0, 8.0]);
    let all = [q, k, v];
    check_standard("Attention", 23, &all, &[], &floats(&[1, 1, 1, 1], &[7.0]));
    // A mask hides the second key or both, a causal one the keys after the query.
    for (seen, expected) in [([true, false], 4.0), ([false, false], 0.0)] {
        let mask = Value::new([1, 2], seen.to_vec()).expect("a valid case");
        let masked = [&all[..], &[mask]].concat();
        check_standard("Attention", 23, &masked, &[], &floats(&[1, 1, 1, 1], &[expected]));
    }
    let causal = [integer("is_causal", 1)];
    check_standard("Attention", 23, &all, &causal, &floats(&[1, 1, 1, 1], &[4.0]));
}

/// Two heads of one number each. The mask has the number of keys of each row.
#[test]
fn heads_are_parts_of_a_token() {
    let third = 3.0_f32.ln();
    let inputs = [
        Some(floats(&[1, 1, 2], &[1.0, 0.0])),
        Some(floats(&[1, 2, 2], &[0.0, 1.0, third, 1.0])),
        Some(floats(&[1, 2, 2], &[4.0, 1.0, 8.0, 3.0])),
    ];
    let heads = [integer("num_heads", 2)];
    check("MultiHeadAttention", &inputs, &heads, &floats(&[1, 1, 2], &[7.0, 2.0]));
    let mask = Value::new([1], vec![1_i32]).expect("a valid case");
    let masked = [&inputs[..], &[None, Some(mask)]].concat();
    check("MultiHeadAttention", &masked, &heads, &floats(&[1, 1, 2], &[4.0, 1.0]));
}

/// Weights repeat the input as query, key and value.
#[test]
fn one_product_makes_queries_keys_and_values() {
    let third = 3.0_f32.ln().sqrt();
    let inputs = [
        Some(floats(&[1, 2, 1], &[0.0, third])),
        Some(floats(&[1, 3], &[1.0, 1.0, 1.0])),
        Some(floats(&[3], &[0.0; 3])),
    ];
    let heads = [integer("num_heads", 1)];
    check("Attention", &inputs, &heads, &floats(&[1, 2, 1], &[third / 2.0, third * 0.75]));
}

/// The cache has one token. Two heads of queries share one of keys and values.
#[test]
fn groups_of_heads_read_a_cache() {
    let number = |n: i32| Some(Value::scalar(n));
    let inputs = [
        Some(floats(&[1, 1, 2], &[1.0, 0.0])),
        Some(floats(&[1, 1, 1], &[3.0_f32.ln()])),
        Some(floats(&[1, 1, 1], &[8.0])),
        Some(floats(&[1, 1, 1, 1], &[0.0])),
        Some(floats(&[1, 1, 1, 1], &[4.0])),
        Some(Value::new([1], vec![1_i32]).expect("a valid case")),
        number(2),
    ];
    let heads = [integer("num_heads", 2), integer("kv_num_heads", 1)];
    check("GroupQueryAttention", &inputs, &heads, &floats(&[1, 1, 2], &[7.0, 6.0]));
    let window = [&heads[..], &[integer("local_window_size", 1)]].concat();
    check("GroupQueryAttention", &inputs, &window, &floats(&[1, 1, 2], &[8.0, 8.0]));
}

/// The second token turns by a quarter: (x, y) becomes (-y, x).
#[test]
fn positions_rotate_pairs() {
    let x = floats(&[1, 1, 2, 4], &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    let cosines = floats(&[2, 2], &[1.0, 1.0, 0.0, 0.0]);
    let sines = floats(&[2, 2], &[0.0, 0.0, 1.0, 1.0]);
    let positions = Value::new([1, 2], vec![0_i64, 1]).expect("a valid case");
    let inputs = [x, cosines, sines, positions];
    let halves = floats(&[1, 1, 2, 4], &[1.0, 2.0, 3.0, 4.0, -3.0, -4.0, 1.0, 2.0]);
    check_standard("RotaryEmbedding", 23, &inputs, &[], &halves);
    let neighbors = floats(&[1, 1, 2, 4], &[1.0, 2.0, 3.0, 4.0, -2.0, 1.0, -4.0, 3.0]);
    check_standard("RotaryEmbedding", 23, &inputs, &[integer("interleaved", 1)], &neighbors);
    // The operator of ONNX Runtime has the positions before the tables.
    let [x, cosines, sines, positions] = inputs.map(Some);
    check("RotaryEmbedding", &[x, positions, cosines, sines], &[], &halves);
}

/// The second box covers half of the first one, the third is apart. A share of 1/3 is the limit.
#[test]
fn boxes_that_overlap_are_not_selected() {
    let boxes = floats(&[1, 3, 4], &[0.0, 0.0, 2.0, 2.0, 2.0, 3.0, 0.0, 1.0, 5.0, 5.0, 6.0, 6.0]);
    let scores = floats(&[1, 1, 3], &[0.9, 0.8, 0.7]);
    let given = |most: i64, limit: f32, least: f32| {
        let limits = [limit, least].map(|limit| floats(&[1], &[limit]));
        let [limit, least] = limits;
        [boxes.clone(), scores.clone(), ints(&[most]), limit, least]
    };
    let rows =
        |rows: &[[i64; 3]]| Value::new([rows.len(), 3], rows.concat()).expect("a valid case");
    let (all, apart) = (rows(&[[0, 0, 0], [0, 0, 1], [0, 0, 2]]), rows(&[[0, 0, 0], [0, 0, 2]]));
    for (given, expected) in [
        (given(5, 0.5, 0.0), &all),
        (given(5, 0.3, 0.0), &apart),
        (given(2, 0.3, 0.0), &apart),
        (given(5, 0.3, 0.7), &rows(&[[0, 0, 0]])),
    ] {
        check_standard("NonMaxSuppression", 11, &given, &[], expected);
    }
}

#[test]
fn spectra_are_sums_of_turned_numbers() {
    // A step at the second of four numbers turns by a quarter from one bin to the next.
    let x = floats(&[1, 4, 1], &[0.0, 1.0, 0.0, 0.0]);
    let spectrum = floats(&[1, 4, 2], &[1.0, 0.0, 0.0, -1.0, -1.0, 0.0, 0.0, 1.0]);
    check_standard("DFT", 17, std::slice::from_ref(&x), &[integer("axis", 1)], &spectrum);
    check_standard("DFT", 20, &[x], &[], &spectrum);
    let back = floats(&[1, 4, 2], &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    check_standard("DFT", 20, &[spectrum], &[integer("inverse", 1)], &back);
    // Two frames of two numbers, of which the window halves the second one.
    let signal = floats(&[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let step = Value::scalar(2_i64);
    let window = floats(&[2], &[1.0, 0.5]);
    let expected = floats(&[1, 2, 2, 2], &[2.0, 0.0, 0.0, 0.0, 5.0, 0.0, 1.0, 0.0]);
    check_standard("STFT", 17, &[signal, step, window], &[], &expected);
}

/// The image grows by 1 for each column and by 4 for each row, so that an average is that of the places.
#[test]
fn regions_are_averages_of_their_points() {
    let image = floats(&[1, 1, 4, 4], &std::array::from_fn::<f32, 16, _>(|at| at as f32));
    let regions = |side: f32| floats(&[2, 4], &[0.0, 0.0, side, side, -9.0, -9.0, -5.0, -5.0]);
    let cells = |rows: i64, columns: i64| {
        vec![integer("output_height", rows), integer("output_width", columns)]
    };
    let from_edge = text("coordinate_transformation_mode", "half_pixel");
    let scale = ("spatial_scale", Attribute::Float(0.5));
    let cases = [
        (10, 2.0, cells(1, 1), vec![5.0, 0.0]),
        (16, 2.0, cells(1, 1), vec![2.5, 0.0]),
        (16, 2.0, [cells(2, 1), vec![from_edge]].concat(), vec![0.5, 4.5, 0.0, 0.0]),
        (10, 4.0, vec![scale, integer("sampling_ratio", 1)], vec![5.0, 0.0]),
        (10, 0.25, cells(1, 1), vec![2.5, 0.0]),
    ];
    for (version, side, attributes, expected) in cases {
        let rows = if expected.len() == 4 { 2 } else { 1 };
        let inputs = [image.clone(), regions(side), ints(&[0, 0])];
        let expected = floats(&[2, 1, rows, 1], &expected);
        check_standard("RoiAlign", version, &inputs, &attributes, &expected);
    }
}

/// The last region has a million points along each axis.
#[test]
fn regions_without_an_image_or_an_end_are_errors() {
    let image = floats(&[1, 1, 2, 2], &[0.0; 4]);
    for (side, index, reason) in [
        (1.0, 1, "an image below 1, found 1"),
        (1.0, -1, "an image below 1, found -1"),
        (f32::INFINITY, 0, "finite regions"),
        (f32::NAN, 0, "finite regions"),
        (1e30, 0, "points along an axis"),
        (1e6, 0, "1000000 x 1000000 points"),
    ] {
        let all = [image.clone(), floats(&[1, 4], &[0.0, 0.0, side, side]), ints(&[index])];
        check_refused(&standard("RoiAlign", 16, &all, &[]), &all, reason);
    }
}

/// The rows of the standard's examples `cubic`, `cubic_A_n0p5_exclude_outside`, `linear_antialias` and
/// `cubic_antialias` of `Resize`. Those are sums of a row and four times another one.
#[test]
fn resizes_weigh_the_elements_near_a_place() {
    let x = floats(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let resize = |scale: f32, attributes: &[(&str, Attribute)], expected: &[f32]| {
        let inputs = [x.clone(), floats(&[0], &[]), floats(&[1], &[scale])];
        let expected = floats(&[expected.len()], expected);
        check_standard("Resize", 18, &inputs, attributes, &expected);
    };
    let (cubic, wide) = (text("mode", "cubic"), integer("antialias", 1));
    let above = [0.894_531_2, 1.191_406_2, 1.667_968_8, 2.296_875];
    let mirrored = |half: [f32; 4]| {
        [half, [5.0 - half[3], 5.0 - half[2], 5.0 - half[1], 5.0 - half[0]]].concat()
    };
    resize(2.0, std::slice::from_ref(&cubic), &mirrored(above));
    let inside = [0.911_764_7, 1.167_883_2, 1.709_923_7, 2.25];
    let half = ("cubic_coeff_a", Attribute::Float(-0.5));
    resize(2.0, &[cubic.clone(), half, integer("exclude_outside", 1)], &mirrored(inside));
    resize(0.6, &[text("mode", "linear"), wide.clone()], &[1.375, 3.0]);
    resize(0.6, &[cubic.clone(), wide.clone()], &[1.303_614_4, 3.071_428_5]);
    // An enlargement has no wider filter.
    resize(2.0, &[cubic, wide], &mirrored(above));
}

/// Halfway between two pixels, the inner ones have 19/32 each and the outer ones -3/32.
#[test]
fn cubic_samples_read_pixels_outside_of_an_image() {
    let image = floats(&[1, 1, 1, 3], &[1.0, 2.0, 4.0]);
    let grid = floats(&[1, 1, 2, 2], &[-0.5, 0.0, 1.0, 0.0]);
    for (padding, expected) in [("zeros", 1.406_25), ("border", 1.312_5), ("reflection", 1.218_75)]
    {
        for (version, mode) in [(16, "bicubic"), (20, "cubic")] {
            let attributes =
                [integer("align_corners", 1), text("padding_mode", padding), text("mode", mode)];
            let expected = floats(&[1, 1, 1, 2], &[expected, 4.0]);
            check_standard(
                "GridSample",
                version,
                &[image.clone(), grid.clone()],
                &attributes,
                &expected,
            );
        }
    }
}

/// Halfway between two pixels, at the last one, and a pixel beyond it.
#[test]
fn pixels_outside_of_an_image_follow_the_padding() {
    let image = floats(&[1, 1, 1, 3], &[1.0, 2.0, 4.0]);
    let grid = floats(&[1, 1, 3, 2], &[-0.5, 0.0, 1.0, 0.0, 2.0, 0.0]);
    let corners = integer("align_corners", 1);
    for (padding, expected) in
        [("zeros", [1.5, 4.0, 0.0]), ("border", [1.5, 4.0, 4.0]), ("reflection", [1.5, 4.0, 2.0])]
    {
        let attributes = [corners.clone(), text("padding_mode", padding)];
        let expected = floats(&[1, 1, 1, 3], &expected);
        check_standard("GridSample", 20, &[image.clone(), grid.clone()], &attributes, &expected);
    }
    let nearest = [text("mode", "nearest")];
    let expected = floats(&[1, 1, 1, 3], &[1.0, 4.0, 0.0]);
    check_standard("GridSample", 16, &[image, grid], &nearest, &expected);
}

#[test]
fn windows_are_sums_of_cosines() {
    let size = [Value::scalar(4_i64)];
    let symmetric = [integer("periodic", 0)];
    for (op, periodic, all) in [
        ("HannWindow", [0.0, 0.5, 1.0, 0.5], [0.0, 0.75, 0.75, 0.0]),
        (
            "HammingWindow",
            [4.0 / 46.0, 25.0 / 46.0, 1.0, 25.0 / 46.0],
            [4.0, 35.5, 35.5, 4.0].map(|x| x / 46.0),
        ),
        ("BlackmanWindow", [0.0, 0.34, 1.0, 0.34], [0.0, 0.63, 0.63, 0.0]),
    ] {
        check_standard(op, 17, &size, &[], &floats(&[4], &periodic));
        check_standard(op, 17, &size, &symmetric, &floats(&[4], &all));
    }
}

/// The standard and ONNX Runtime limit scores by a softcap above 0 alone.
#[test]
fn a_softcap_below_zero_limits_nothing() {
    let inputs = [
        floats(&[1, 1, 1, 1], &[1.0]),
        floats(&[1, 1, 2, 1], &[0.0, 3.0_f32.ln()]),
        floats(&[1, 1, 2, 1], &[4.0, 8.0]),
    ];
    let softcap = [("softcap", Attribute::Float(-1.0))];
    check_standard("Attention", 23, &inputs, &softcap, &floats(&[1, 1, 1, 1], &[7.0]));
}

/// The standard pads masks of fewer keys in some versions, and repeats them in others.
#[test]
fn attention_rejects_what_has_several_meanings() {
    let (q, k) = (floats(&[1, 1, 1, 1], &[1.0]), floats(&[1, 1, 2, 1], &[0.0, 1.0]));
    let all = [q, k.clone(), k, floats(&[1, 1], &[0.0])];
    check_refused(&standard("Attention", 24, &all, &[]), &all, "cannot broadcast a mask");
    let scale = [("scale", Attribute::Float(0.0))];
    check_refused(&standard("Attention", 23, &all[..3], &scale), &all[..3], "a scale above 0");
    // With more keys than queries, ONNX Runtime hides later keys of all queries but the last one.
    let all = [floats(&[1, 1, 2], &[1.0; 2]), floats(&[1, 2, 2], &[1.0; 4])];
    let all = [all[0].clone(), all[1].clone(), all[1].clone()];
    let inputs = all.clone().map(Some);
    let causal = [integer("num_heads", 2), integer("unidirectional", 1)];
    check_refused(&fused("MultiHeadAttention", &inputs, &causal), &all, "unidirectional=1");
    // The sum of all heads is 2^64.
    let heads = [integer("num_heads", i64::MAX - 1), integer("kv_num_heads", (1 << 62) + 1)];
    let number = |n: i32| Value::new([1], vec![n]).expect("a valid case");
    let all = [all[0].clone(), number(0), number(1)];
    let [x, last, total] = all.clone().map(Some);
    let inputs = [x, None, None, None, None, last, total];
    check_refused(&fused("GroupQueryAttention", &inputs, &heads), &all, "num_heads");
}

#[test]
fn tables_without_positions_have_a_row_for_each_token() {
    let table = floats(&[3, 1], &[1.0, 0.0, -1.0]);
    let all = [floats(&[1, 1, 2, 2], &[1.0; 4]), table.clone(), table];
    check_refused(&standard("RotaryEmbedding", 23, &all, &[]), &all, "a row for each of 1 x 2");
}

#[test]
fn transforms_and_selections_that_are_not_defined_fail() {
    let boxes = floats(&[1, 2, 4], &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
    let all = [boxes, floats(&[1, 1, 2], &[f32::NAN, 0.5]), ints(&[2])];
    check_refused(&standard("NonMaxSuppression", 11, &all, &[]), &all, "NaN");
    let all = [floats(&[1, 2, 2], &[1.0; 4])];
    check_refused(&standard("DFT", 20, &all, &[integer("onesided", 1)]), &all, "one side");
    let all = [floats(&[1, 2, 1], &[1.0; 2]), Value::scalar(1_i64 << 50)];
    check_refused(&standard("DFT", 20, &all, &[]), &all, "exceeds");
    let all = [Value::scalar(1_i64)];
    let symmetric = [integer("periodic", 0)];
    check_refused(&standard("HannWindow", 17, &all, &symmetric), &all, "symmetric");
}

/// A longer transform has zeros after the last number, and a shorter one leaves numbers out.
#[test]
fn transforms_have_the_stated_length() {
    let x = floats(&[1, 2, 1], &[1.0, 2.0]);
    let long = floats(&[1, 4, 2], &[3.0, 0.0, 1.0, -2.0, -1.0, 0.0, 1.0, 2.0]);
    check_standard("DFT", 20, &[x.clone(), Value::scalar(4_i64)], &[], &long);
    let short = floats(&[1, 1, 2], &[1.0, 0.0]);
    check_standard("DFT", 20, &[x, Value::scalar(1_i64)], &[], &short);
}

/// The numbers 1, 2, 3 and -1 have the spectrum 5, -2 - 3i, 3, -2 + 3i. A mean has no imaginary part.
#[test]
fn one_side_of_a_spectrum_is_that_of_a_real_signal() {
    let attributes = [integer("inverse", 1), integer("onesided", 1)];
    let even = floats(&[1, 3, 2], &[5.0, 9.0, -2.0, -3.0, 3.0, 0.0]);
    let expected = floats(&[1, 4, 1], &[1.0, 2.0, 3.0, -1.0]);
    check_standard("DFT", 20, std::slice::from_ref(&even), &attributes, &expected);
    check_standard("DFT", 17, std::slice::from_ref(&even), &attributes, &expected);
    // Of three numbers, 6 / 3 plus the cosine of one turn.
    let odd = [floats(&[1, 2, 2], &[6.0, 0.0, 1.5, 0.0]), Value::scalar(3_i64)];
    check_standard("DFT", 20, &odd, &attributes, &floats(&[1, 3, 1], &[3.0, 1.5, 1.5]));
    let all = [even, Value::scalar(8_i64)];
    check_refused(&standard("DFT", 20, &all, &attributes), &all, "no side of a spectrum of 8");
    let all = [floats(&[1, 3, 1], &[5.0, -2.0, 3.0])];
    check_refused(&standard("DFT", 20, &all, &attributes), &all, "no side of a spectrum of 4");
}
