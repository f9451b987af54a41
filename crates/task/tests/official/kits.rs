//! 3D-UNet on KiTS19.

use std::num::NonZero;

use dyno_loadgen::record::Failure;
use dyno_onnx::{Builder, Dim, Element, Model, Weights};
use dyno_task::card::Card;
use dyno_task::system::AnswerKind;

use crate::made::{self, Folder, answered};

const FILES: [(&str, &str); 3] =
    [("model", "model.onnx"), ("images", "images"), ("volumes", "nifti")];
/// Voxels of a window along an axis; 128 in the card.
const SIDE: usize = 8;
/// A volume that is larger than a window along two axes.
const AXES: [usize; 3] = [8, 12, 16];

fn card() -> Card {
    let mut card = made::card("3d-unet");
    let side = NonZero::new(SIDE).unwrap();
    let step = NonZero::new(SIDE / 2).unwrap();
    let system = card.system.as_mut().unwrap();
    system.answer = AnswerKind::Windows { side, step, spread: 1.0 };
    card
}

/// A model with background below 1, kidney up to 2, and tumor above.
fn model() -> Model {
    let mut net = Builder::new("thresholds", Weights::seeded(1));
    let side = || Dim::Fixed(SIDE);
    let x = net.input("input", Element::F32, &[Dim::symbol("n"), 1.into(), side(), side(), side()]);
    let weights = net.numbers(&[0.0, 1.0, 2.0]);
    let shape = net.integers(&[3, 1, 1, 1, 1]);
    let weights = net.node("Reshape", &[&weights, &shape], &[]).unwrap();
    let bias = net.numbers(&[0.0, -1.0, -3.0]);
    let scores = net.node("Conv", &[&x, &weights, &bias], &[]).unwrap();
    net.output("output", &scores).unwrap();
    net.finish()
}

/// Returns the intensity of a voxel by its place: 0.5, 1.5 or 2.5.
fn intensities() -> Vec<f32> {
    (0..AXES.iter().product::<usize>()).map(|at| 0.5 + ((at * 7 / 5) % 3) as f32).collect()
}

/// `pickle.dumps([array], protocol=2)` of Python 2, in which bytes are texts.
fn case(shape: [usize; 4], element: &str, body: &[u8]) -> Vec<u8> {
    let dims = shape.map(|n| [b'K', n as u8]).concat();
    let length = (body.len() as u32).to_le_bytes();
    [
        b"\x80\x02]cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R(K\x01(",
        &dims[..],
        b"tcnumpy\ndtype\nU\x02",
        element.as_bytes(),
        b"K\0K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T",
        &length,
        body,
        b"tba.",
    ]
    .concat()
}

fn volume() -> Vec<u8> {
    let body: Vec<u8> = intensities().into_iter().flat_map(f32::to_le_bytes).collect();
    case([1, AXES[0], AXES[1], AXES[2]], "f4", &body)
}

/// `pickle.dumps({"file_list": [..]}, protocol=2)`.
fn list(cases: &[&str]) -> Vec<u8> {
    let name =
        |case: &&str| [b"X", &(case.len() as u32).to_le_bytes()[..], case.as_bytes()].concat();
    let names: Vec<u8> = cases.iter().flat_map(name).collect();
    [b"\x80\x02}(X\x09\0\0\0file_list](", &names[..], b"eu."].concat()
}

/// NIfTI-1 of bytes, whose first axis is the fastest.
fn truth(labels: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 352];
    file[..4].copy_from_slice(&348_i32.to_le_bytes());
    for (at, n) in [3, AXES[0], AXES[1], AXES[2], 1, 1, 1, 1].into_iter().enumerate() {
        file[40 + 2 * at..][..2].copy_from_slice(&(n as i16).to_le_bytes());
    }
    file[70] = 2;
    file[72] = 8;
    file[108..112].copy_from_slice(&352_f32.to_le_bytes());
    file[344..].copy_from_slice(b"n+1\0\0\0\0\0");
    let [width, height, depth] = AXES;
    for z in 0..depth {
        for y in 0..height {
            file.extend((0..width).map(|x| labels[(x * height + y) * depth + z]));
        }
    }
    file
}

fn made_folder() -> Folder {
    let folder = Folder::new();
    folder.model(&model());
    folder.write("images/preprocessed_files.pkl", list(&["case_00003", "case_00000"]));
    let labels: Vec<u8> = intensities().iter().map(|found| *found as u8).collect();
    // In the second case the truth has no kidney where the first has one.
    let other: Vec<u8> = labels.iter().map(|label| label & 2).collect();
    for (case, labels) in [("case_00003", &labels), ("case_00000", &other)] {
        folder.write(&format!("images/{case}.pkl"), volume());
        std::fs::create_dir_all(folder.path(&format!("nifti/{case}"))).unwrap();
        folder.write(&format!("nifti/{case}/segmentation.nii"), truth(labels));
    }
    folder
}

#[test]
fn volumes_are_labelled_in_windows_and_judged_case_by_case() {
    let folder = made_folder();
    let ready = folder.open(&card(), &FILES).unwrap();
    assert!(
        ready.remarks[0].starts_with("2 of the 43 samples of KiTS 2019"),
        "{:?}",
        ready.remarks
    );
    let Some(told) = answered(ready) else { return };
    let expected: Vec<u8> = intensities().iter().map(|found| *found as u8).collect();
    assert_eq!((told.failed.len(), &told.answers[&0]), (0, &expected));
    // The second case's kidney has a Dice coefficient of 0, the other three have 1.
    assert!((told.figure - 0.75).abs() < 1e-6, "{}", told.figure);
}

#[test]
fn a_case_that_is_not_the_references_is_rejected_before_it_is_read() {
    let folder = made_folder();
    let card = dyno_task::card::named("3d-unet").unwrap();
    let found = folder.refusal(card, &FILES);
    let expected =
        "images/case_00000.pkl: expected the MD5 470ec60377be417a9c271ffd81c1d610, found ";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn a_case_that_the_reference_does_not_know_is_refused() {
    let folder = made_folder();
    let mut card = card();
    card.data.files[0].md5_of.insert("case_00999.pkl".into(), "0".repeat(32));
    let found = folder.refusal(&card, &FILES);
    let expected = "images/preprocessed_files.pkl: expected cases of KiTS 2019";
    assert!(found.starts_with(expected) && found.contains(", found case_0000"), "{found}");
}

#[test]
fn errors_in_cases_are_reported_with_the_file() {
    let folder = made_folder();
    let card = card();
    folder.write("images/case_00000.pkl", case([1, 8, 12, 16], "f8", &[0; 8 * 1536]));
    if let Some(told) = answered(folder.open(&card, &FILES).unwrap()) {
        assert_eq!(told.failed, [(1, Failure::Rejected)]);
        let why = told.trouble.unwrap();
        let expected = "case_00000.pkl: expected a volume of float32 with one channel, and what \
                        belongs to it, found float64 [1, 8, 12, 16]";
        assert!(why.starts_with("sample 1 of kits19: ") && why.ends_with(expected), "{why}");
    }
    let refusal = || folder.refusal(&card, &FILES);
    // Too long for the beginning that is read, and short enough to be read as a whole.
    for (shape, elements) in [([1, 8, 16, 12], 1536), ([1, 2, 2, 2], 8)] {
        folder.write("images/case_00000.pkl", case(shape, "f4", &vec![0; 4 * elements]));
        let found = refusal();
        let expected = "images/case_00000.pkl: expected a volume of [1, 8, 12, 16] voxels, as ";
        assert!(found.starts_with(expected), "{found}");
        let expected = format!("nifti/case_00000/segmentation.nii has them, found {shape:?}");
        assert!(found.ends_with(&expected), "{found}");
    }
    let whole = volume();
    folder.write("images/case_00000.pkl", &whole);
    folder.write("images/case_00003.pkl", &whole[..whole.len() - 9]);
    assert!(refusal().contains("images/case_00003.pkl: expected a volume"), "{}", refusal());
    std::fs::remove_file(folder.path("images/case_00000.pkl")).unwrap();
    let found = refusal();
    assert_eq!(found, "images/case_00000.pkl: expected the file of a case of the list, found none");
    folder.write("images/preprocessed_files.pkl", b"\x80\x02}.");
    assert!(refusal().starts_with("images/preprocessed_files.pkl: expected a dictionary with"));
    let folder = made_folder();
    std::fs::remove_dir_all(folder.path("nifti/case_00000")).unwrap();
    let found = folder.refusal(&card, &FILES);
    assert!(found.contains("a case with") && found.contains("nifti/case_00000"), "{found}");
}
