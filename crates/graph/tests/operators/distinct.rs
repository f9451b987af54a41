//! Distinct elements, and the places of the greatest ones, in sessions and in the evaluator. Expected
//! numbers are worked out by hand from the standard.

use dyno_graph::Value;

use super::fused::{Attributes, check_model, check_refused, standard};
use super::standard::{integer, integers};
use super::{floats, ints};

/// Checks each output of a node.
#[track_caller]
fn check_all(op: &str, version: i64, input: &Value, attributes: Attributes<'_>, all: &[Value]) {
    for (at, expected) in all.iter().enumerate() {
        let inputs = std::slice::from_ref(input);
        let mut net = standard(op, version, inputs, attributes);
        net.nodes[0].outputs = vec![String::new(); at];
        net.nodes[0].outputs.push("y".into());
        check_model(&net, inputs, expected);
    }
}

/// Elements, their first indices, the index of each element among them, and how often each occurs.
#[test]
fn distinct_elements_are_in_order_or_as_they_occur() {
    let x = floats(&[2, 3], &[4.0, -1.0, 4.0, 9.0, -1.0, 4.0]);
    let sorted = [
        floats(&[3], &[-1.0, 4.0, 9.0]),
        ints(&[1, 0, 3]),
        ints(&[1, 0, 1, 2, 0, 1]),
        ints(&[2, 3, 1]),
    ];
    check_all("Unique", 11, &x, &[], &sorted);
    let first = [
        floats(&[3], &[4.0, -1.0, 9.0]),
        ints(&[0, 1, 3]),
        ints(&[0, 1, 0, 2, 1, 0]),
        ints(&[3, 2, 1]),
    ];
    check_all("Unique", 11, &x, &[integer("sorted", 0)], &first);
    let none = [floats(&[0], &[]), ints(&[]), ints(&[]), ints(&[])];
    check_all("Unique", 11, &floats(&[0], &[]), &[], &none);
    let whole = [ints(&[-5, 2]), ints(&[1, 0]), ints(&[1, 0, 1]), ints(&[1, 2])];
    check_all("Unique", 11, &ints(&[2, -5, 2]), &[], &whole);
}

/// The columns are (5, 2), (1, 9), (5, 2) and (0, 9).
#[test]
fn distinct_slices_are_compared_from_their_first_element_on() {
    let x = floats(&[2, 4], &[5.0, 1.0, 5.0, 0.0, 2.0, 9.0, 2.0, 9.0]);
    let sorted = [
        floats(&[2, 3], &[0.0, 1.0, 5.0, 9.0, 9.0, 2.0]),
        ints(&[3, 1, 0]),
        ints(&[2, 1, 2, 0]),
        ints(&[1, 1, 2]),
    ];
    for axis in [1, -1] {
        check_all("Unique", 11, &x, &[integer("axis", axis)], &sorted);
    }
    let first = [
        floats(&[2, 3], &[5.0, 1.0, 0.0, 2.0, 9.0, 9.0]),
        ints(&[0, 1, 3]),
        ints(&[0, 1, 0, 2]),
        ints(&[2, 1, 1]),
    ];
    check_all("Unique", 11, &x, &[integer("axis", 1), integer("sorted", 0)], &first);
}

/// The slices are (1, 9, 0, 0) and (1, 5, 7, 0). By columns, the first one would be less.
#[test]
fn slices_along_the_last_axis_are_compared_by_rows() {
    let x = floats(&[2, 2, 2], &[1.0, 1.0, 9.0, 5.0, 0.0, 7.0, 0.0, 0.0]);
    let sorted = [
        floats(&[2, 2, 2], &[1.0, 1.0, 5.0, 9.0, 7.0, 0.0, 0.0, 0.0]),
        ints(&[1, 0]),
        ints(&[1, 0]),
        ints(&[1, 1]),
    ];
    check_all("Unique", 11, &x, &[integer("axis", 2)], &sorted);
}

#[test]
fn numbers_without_an_order_have_no_places() {
    let given = [floats(&[2], &[f32::NAN, 1.0])];
    check_refused(&standard("Unique", 11, &given, &[]), &given, "NaN has no order");
}

/// Two images of 2 x 3 pixels. Of equal pixels, the first one is taken.
#[test]
fn indices_of_the_greatest_elements_count_from_the_first_image_on() {
    let pixels = [1.0, 5.0, 5.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0, 9.0, 9.0];
    let x = floats(&[2, 1, 2, 3], &pixels);
    let kernel = integers("kernel_shape", &[2, 2]);
    let found = floats(&[2, 1, 1, 2], &[5.0, 5.0, 9.0, 9.0]);
    let indices = |all: [i64; 4]| Value::new(vec![2, 1, 1, 2], all.to_vec()).expect("a valid case");
    check_all(
        "MaxPool",
        12,
        &x,
        std::slice::from_ref(&kernel),
        &[found.clone(), indices([1, 1, 6, 10])],
    );
    // The first axis runs fastest.
    let turned = [kernel, integer("storage_order", 1)];
    check_all("MaxPool", 12, &x, &turned, &[found, indices([2, 2, 6, 9])]);
}

#[test]
fn indices_do_not_count_the_padding() {
    let x = floats(&[1, 1, 2], &[-3.0, -1.0]);
    let attributes = [integers("kernel_shape", &[2]), integers("pads", &[1, 1])];
    let indices = Value::new(vec![1, 1, 3], vec![0_i64, 1, 1]).expect("a valid case");
    check_all("MaxPool", 12, &x, &attributes, &[floats(&[1, 1, 3], &[-3.0, -1.0, -1.0]), indices]);
}
