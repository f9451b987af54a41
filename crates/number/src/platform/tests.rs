//! Lists of formats in the notations of papers, rules and users.

use super::*;

fn names(formats: &[Format]) -> Vec<String> {
    formats.iter().map(ToString::to_string).collect()
}

#[test]
fn the_platform_of_the_thesis_has_42_formats() {
    let platform = Platform::named("paper").unwrap();
    assert_eq!(platform.weight.len(), 42);
    assert_eq!(platform.weight, platform.activation);
    assert_eq!(names(&platform.weight[..3]), ["F32", "I32(0)", "I31(0)"]);
    assert_eq!(Platform::named("papr"), None);
}

#[test]
fn lists_of_rounds_read() {
    let platform = Platform::named("mlperf-v0.7").unwrap();
    let expected = ["F32", "F16", "bf16", "I16(0)", "uint16", "fp11", "I8(0)", "uint8", "I4(0)"];
    assert_eq!(names(&platform.weight), expected);
    assert_eq!(Platform::named("mlperf-v0.5").unwrap().weight, platform.weight);
}

/// Unsigned FIXED of 1 to 31 bits has the magnitudes of signed FIXED of 2 to 32 bits.
#[test]
fn formats_without_a_sign_have_lists_of_their_own() {
    let platform = Platform::named("paper-unsigned").unwrap();
    let (with, without): (Vec<Format>, _) = platform.activation.iter().partition(|f| f.has_sign());
    assert_eq!(with, Platform::named("paper").unwrap().activation);
    assert_eq!((without.len(), &*names(&without[29..]).join(" ")), (31, "U2(0) U1(0)"));
    let list = "[supported_formats]\nA = [\"UFIXED 4..5\", \"UFIXED 2\", \"UINT8\"]";
    let read = Platform::from_descriptor(list, "A").unwrap();
    assert_eq!(names(&read.weight), ["uint8", "U5(0)", "U4(0)", "U2(0)"]);
    let wrong = Platform::from_descriptor(&list.replace("UFIXED 2", "UFIXED 33"), "A").unwrap_err();
    assert!(wrong.to_string().ends_with("found 33"), "{wrong}");
}

#[test]
fn a_suffix_is_stronger_than_the_plain_key() {
    let toml =
        "[supported_formats]\nFPGA = [\"FIXED 2..4\"]\n\"FPGA.activation\" = [\"I8\", 'EXP(3)']\n";
    let read = Platform::from_descriptor(toml, "FPGA").unwrap();
    assert_eq!(names(read.formats(Role::Weight)), ["I4(0)", "I3(0)", "I2(0)"]);
    assert_eq!(names(read.formats(Role::Activation)), ["I8(0)", "E3(1)"]);
    let python = "import os\n# formats\nsupported_formats = {\n  'FPGA': (\"FIXED 2..4\",), # all\n  \
                  \"FPGA.activation\": ['I8', 'EXP 3',],\n}\nother = 1\n";
    assert_eq!(Platform::from_descriptor(python, "FPGA").unwrap(), read);
}

#[test]
fn problems_name_line_and_key() {
    let problems = |text: &str, name: &str| {
        Platform::from_descriptor(text, name).expect_err("no platform").to_string()
    };
    assert_eq!(
        problems("[supported_formats]\nFPGA = [\n  \"FIXED 8\",\n  \"FIXED 33\"]\n", "FPGA"),
        "line 4: `FPGA`: expected 1 to 32 bits of FIXED, found 33"
    );
    assert_eq!(
        problems("\n[supported_formats]\nFPGA = []\n", "FPG"),
        "line 2: `supported_formats`: there are no formats of the platform `FPG`; the nearest is `FPGA`"
    );
    assert_eq!(
        problems("supported_formats = {\n  'FPGA': ['I8'\n}\n", "FPGA"),
        "line 3: `supported_formats`: expected ']', found '}'"
    );
    assert!(problems("a = [1", "FPGA").starts_with("line 1: not valid TOML"));
    assert!(
        problems("[supported_formats]\nA = [\"FIXED 9..2\"]", "A").contains("the fewer bits first")
    );
    assert!(problems("[supported_formats]\nA = [\"FIXED 1..x\"]", "A").contains("1..32"));
    assert!(problems("[supported_formats]\nA = [\"FIXED 1..99999999\"]", "A").contains("found 33"));
    assert!(problems("b = 1", "A").contains("expected a table"));
}
