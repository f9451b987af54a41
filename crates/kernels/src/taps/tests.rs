//! Comparison of convolutions with their definition.

use proptest::prelude::*;

use super::*;

/// Integers of magnitude up to 9, so that sums are exact in any order.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 31 + seed * 7) % 19) as f32 - 9.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn sums_are_those_of_the_numbers_of_windows(
        distances in prop::collection::vec(0_usize..90, 1..12), windows in 1_usize..90,
        gaps in prop::collection::vec(0_usize..5, 1..9), gap in 0_usize..5,
        filters in 1_usize..16, has_bias: bool,
    ) {
        let mut starts = vec![gap];
        for gap in &gaps[1..] {
            starts.push(starts[starts.len() - 1] + windows + gap);
        }
        let reach = starts[starts.len() - 1] + windows + 89;
        let (image, weights) = (numbers(reach, 1), numbers(filters * distances.len(), 2));
        let bias = numbers(filters, 3);
        let all: Vec<usize> = starts.iter().flat_map(|start| *start..start + windows).collect();
        let rows = WindowRows::new(distances.clone(), starts, windows);
        for isa in Isa::all() {
            let mut to = vec![f32::NAN; all.len() * filters];
            let bias = has_bias.then_some(&bias[..]);
            convolve(isa, &rows, &image, (&weights, bias), &mut to);
            for (at, found) in to.iter().enumerate() {
                let (filter, start) = (at / all.len(), all[at % all.len()]);
                let weights = &weights[filter * distances.len()..][..distances.len()];
                let products = distances.iter().zip(weights).map(|(by, w)| image[start + by] * w);
                let expected = bias.map_or(0.0, |bias| bias[filter]) + products.sum::<f32>();
                prop_assert_eq!(*found, expected, "{} {}", at, isa);
            }
        }
    }

    #[test]
    fn phases_have_every_number_of_a_step(
        width in 0_usize..70, before in 0_usize..6, step in 1_usize..5, rows in 1_usize..4,
    ) {
        let image = numbers(width * rows, 1);
        let size = (width + before).div_ceil(step);
        // The rows in reverse order.
        let places: Vec<[usize; 2]> = (0..rows).map(|row| [row, (rows - 1 - row) * size]).collect();
        let apart = rows * size;
        for (isa, copied) in Isa::all().into_iter().flat_map(|isa| [(isa, 1), (isa, step)]) {
            let mut to = vec![99.0; apart * step];
            let phases = Phases { width, before, step, copied, apart, rows: &places };
            split(isa, &phases, &image, &mut to);
            for (at, found) in to.iter().enumerate() {
                let (phase, row, place) = (at / apart, rows - 1 - at % apart / size, at % size);
                let number = (place * step + phase).checked_sub(before).filter(|at| *at < width);
                let number = number.filter(|_| phase < copied);
                let expected = number.map_or(99.0, |at| image[row * width + at]);
                prop_assert_eq!(*found, expected, "{} {}", at, isa);
            }
        }
    }
}

/// Invalid arguments panic before anything is read.
#[test]
fn windows_outside_are_refused() {
    let is_refused =
        |check: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err();
    let (image, weights) = (numbers(40, 1), numbers(6, 2));
    let run = |starts: &[usize], windows: usize, filters: usize, biases: usize, sums: usize| {
        is_refused(&|| {
            let rows = WindowRows::new(vec![0, 3], starts.to_vec(), windows);
            let bias = numbers(biases, 3);
            let mut to = vec![0.0; sums];
            convolve(Isa::best(), &rows, &image, (&weights[..filters * 2], Some(&bias)), &mut to);
        })
    };
    assert!(!run(&[0], 37, 1, 1, 37) && !run(&[0, 17], 17, 2, 2, 68) && !run(&[36], 1, 3, 3, 3));
    assert!(run(&[0], 38, 1, 1, 38) && run(&[37], 1, 3, 3, 3) && run(&[usize::MAX], 1, 1, 1, 1));
    assert!(run(&[0, 16], 17, 2, 2, 68) && run(&[17, 0], 17, 2, 2, 68) && run(&[0], 0, 1, 1, 0));
    assert!(run(&[0], 37, 1, 2, 37) && run(&[0], 37, 1, 1, 38) && run(&[], 1, 1, 1, 0));
    assert!(is_refused(&|| drop(WindowRows::new(Vec::new(), vec![0], 1))));
    let rows = WindowRows::new(vec![0, 3], vec![0], 1);
    let odd = || convolve(Isa::best(), &rows, &image, (&weights[..3], None), &mut [0.0]);
    assert!(is_refused(&odd));
}
