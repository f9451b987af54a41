//! Packed models as files.

use dyno_onnx::{Tensor as Constant, Values};

use super::packed::{bits, dictionary, scores};
use super::*;
use crate::config::Dictionary;
use crate::evaluate::{PackedError, PackedFile, PackedFileError, PackedNetwork, PackedSource};

fn source() -> PackedSource {
    PackedSource::new(std::path::Path::new("nets/small.onnx"), b"a model")
}

fn file(model: &Model, formats: &Dictionary) -> Vec<u8> {
    PackedFile::new(model, formats, source()).unwrap().to_bytes().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_read_back_has_the_same_scores(
        channels in 1_usize..5, seed: u64, choices in prop::collection::vec(0_u32..224, 8),
    ) {
        let model = network(channels, seed).unwrap();
        let formats = dictionary(&evaluator(&model, channels), &choices, format);
        let bytes = file(&model, &formats);
        let read = PackedFile::from_bytes(&bytes).unwrap();
        prop_assert_eq!(read.source(), &source());
        prop_assert_eq!(read.formats(), &formats);
        let (packed, again) = (PackedNetwork::new(&model, &formats).unwrap(), read.network().unwrap());
        let values = images(30 * channels * 72);
        prop_assert_eq!(bits(&scores(&again, &values, 7)), bits(&scores(&packed, &values, 7)));
        prop_assert_eq!(again.layers(), packed.layers());
        prop_assert_eq!(read.to_bytes().unwrap(), bytes, "and is written as it was");
    }
}

#[test]
fn codes_take_their_bits_on_the_disk() {
    let model = network(4, 1).unwrap();
    let plain = model.to_bytes().unwrap().len();
    let text =
        "conv1.weight FIXED 3 0\nconv2.weight FIXED 5 0\nfc1.weight EXP 4 7\nfc1.input EXP 4 7\n";
    let bytes = file(&model, &text.parse().unwrap());
    let saved = 4 * (432 + 1440 + 2160) - (162 + 900 + 1080);
    let head = plain - saved..plain - saved + 1000;
    assert!(head.contains(&bytes.len()), "{} bytes, expected {head:?}", bytes.len());
    let read = PackedFile::from_bytes(&bytes).unwrap();
    let found: Vec<_> = read
        .weights()
        .iter()
        .map(|of| (of.object.as_str(), of.shape.clone(), of.codes.len()))
        .collect();
    let expected = [
        ("conv1.weight", vec![12, 4, 3, 3], 162),
        ("conv2.weight", vec![20, 12, 2, 3], 900),
        ("fc1.weight", vec![120, 18], 1080),
    ];
    assert_eq!(found, expected, "fc2 stays in FLOAT 32");
}

#[test]
fn a_damaged_file_is_refused() {
    let bytes = file(&network(2, 1).unwrap(), &"conv1.weight FIXED 3 0\n".parse().unwrap());
    let read = |bytes: &[u8]| PackedFile::from_bytes(bytes).unwrap_err();
    for count in 0..bytes.len() {
        let expected = match count {
            0..8 => PackedFileError::Other,
            8..56 => PackedFileError::Length { expected: 56, found: count as u64 },
            _ => PackedFileError::Length { expected: bytes.len() as u64, found: count as u64 },
        };
        assert_eq!(read(&bytes[..count]), expected);
    }
    for at in (0..bytes.len()).step_by(13).chain(0..300) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = read(&damaged);
        let is_expected = match at {
            0..8 => error == PackedFileError::Other,
            8..12 => matches!(error, PackedFileError::Version(_)),
            16..24 => matches!(error, PackedFileError::Length { .. }),
            _ => error == PackedFileError::Altered,
        };
        assert!(is_expected, "byte {at}: {error}");
    }
    let long = [&bytes[..], b"more"].concat();
    let told = read(&long).to_string();
    assert!(told.contains("a packed model of") && told.contains("at its beginning"), "{told}");
}

#[test]
fn a_file_of_another_version_is_told_as_that() {
    let mut bytes = file(&network(1, 1).unwrap(), &Dictionary::new());
    bytes[8] = 7;
    let told = PackedFile::from_bytes(&bytes).unwrap_err().to_string();
    assert!(
        told.starts_with("is a packed model of version 7, and this Dyno reads version 1"),
        "{told}"
    );
    let told = PackedFile::from_bytes(b"\x08\x08\x12\x04").unwrap_err().to_string();
    assert!(told.starts_with("expected a packed model as `dyno tune pack` writes it"), "{told}");
}

/// Changes the content of a file and recomputes its checksum.
fn changed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    use sha2::Digest;
    assert_eq!(from.len(), to.len(), "lengths stay");
    let mut bytes = bytes[..bytes.len() - 32].to_vec();
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect(from);
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    let sum = sha2::Sha256::digest(&bytes);
    bytes.extend(sum);
    bytes
}

#[test]
fn a_file_that_contradicts_itself_is_refused() {
    let bytes = file(&network(1, 1).unwrap(), &"conv1.weight FIXED 3 0\n".parse().unwrap());
    let check = |from: &str, to: &str, expected: &str| {
        let told = PackedFile::from_bytes(&changed(&bytes, from, to)).unwrap_err().to_string();
        assert!(told.contains(expected), "expected {expected:?} in {told:?}");
    };
    check("FIXED 3 0", "FIXED 4 0", "has 3 bits, and conv1.weight is I4");
    check("FIXED 3 0", "FIXUP 3 0", "its formats: line 1");
    check("\"shape\":[12,1", "\"shape\":[99,1", "bytes are not [99, 1, 3, 3] codes of 3 bits");
    check("\"bits\":3", "\"bits\":x", "its head:");
    check("\"object\":\"conv1.", "\"object\":\"conv9.", "its formats have no conv9.weight");
    let graph = PackedFile::from_bytes(&bytes).unwrap().to_bytes().unwrap();
    assert_eq!(graph, bytes);
}

/// Weights that a node transposes, and a tensor that two layers share in two formats.
#[test]
fn weights_may_come_through_nodes_and_may_be_shared() {
    let mut net = Builder::new("shared", Weights::seeded(4));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 8.into()]);
    let turned = net.weight("turned.weight", &[8, 8], Fill::lecun(8)).unwrap();
    let both = net.weight("both.weight", &[8, 8], Fill::lecun(8)).unwrap();
    let back = net.node("Transpose", &[&turned], &[("perm", [1, 0].into())]).unwrap();
    let x = net.node("MatMul", &[&x, &back], &[]).unwrap();
    let x = net.node("MatMul", &[&x, &both], &[]).unwrap();
    let x = net.node("Relu", &[&x], &[]).unwrap();
    let x = net.node("MatMul", &[&x, &both], &[]).unwrap();
    net.output("y", &x).unwrap();
    let model = net.finish();
    let plain = PackedNetwork::new(&model, &Dictionary::new()).unwrap();
    let names: Vec<&str> = plain.layers().iter().map(|layer| layer.name.as_str()).collect();
    let mut formats = Dictionary::new();
    for (name, count) in names.iter().zip([4, 5, 6]) {
        formats.set(&format!("{name}.weight"), Format::fixed(count, 0).unwrap()).unwrap();
    }
    let read = PackedFile::from_bytes(&file(&model, &formats)).unwrap();
    assert_eq!(read.weights().len(), 1, "what is shared in two formats stays as it is");
    let values = images(8 * 20);
    let packed = PackedNetwork::new(&model, &formats).unwrap();
    let found = bits(&scores(&read.network().unwrap(), &values, 20));
    assert_eq!(found, bits(&scores(&packed, &values, 20)));
    // With one format it is packed once.
    formats.set(&format!("{}.weight", names[2]), Format::fixed(5, 0).unwrap()).unwrap();
    let read = PackedFile::from_bytes(&file(&model, &formats)).unwrap();
    let tensors: Vec<usize> = read.weights().iter().map(|of| of.codes.len()).collect();
    assert_eq!(tensors, [32, 40]);
    let packed = PackedNetwork::new(&model, &formats).unwrap();
    let found = bits(&scores(&read.network().unwrap(), &values, 20));
    assert_eq!(found, bits(&scores(&packed, &values, 20)));
}

#[test]
fn a_file_needs_no_others() {
    let mut model = network(1, 1).unwrap();
    let outside = Values::External { path: "outside.bin".into(), offset: 0, length: 4 };
    let tensor = Constant { values: outside, ..Constant::from_f32("unused", &[1], &[0.0]) };
    model.tensors.push(tensor);
    let formats: Dictionary = "fc1.weight FIXED 4 0\n".parse().unwrap();
    let read = PackedFile::from_bytes(&file(&model, &formats)).unwrap();
    assert!(read.network().is_ok(), "what nobody uses is not taken along");
    let unknown: Dictionary = "fc9.weight FIXED 4 0\n".parse().unwrap();
    let refused = PackedFile::new(&model, &unknown, source()).unwrap_err();
    assert!(matches!(refused, PackedError::Unknown(_)), "{refused}");
}
