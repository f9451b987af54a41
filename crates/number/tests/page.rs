//! Checks the examples and the table of docs/reference/number-formats.md. `UPDATE_EXPECT=1 cargo
//! test -p dyno-number --test page` writes the table.

use std::error::Error;
use std::path::Path;

use dyno_number::{BlockFormat, Dictionary, Format, Number, Rounding};

#[test]
fn the_example_of_a_format() -> Result<(), Box<dyn Error>> {
    let format: Format = "I3(-2)".parse()?;
    let values: Vec<f64> = (0..4).map(|code| format.decode(code)).collect();
    assert_eq!(values, [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(format.quantise(-2.2)?, -2.0);
    assert_eq!(format.quantise(2.5)?, 2.0, "a tie, to the even code");
    assert_eq!(format.quantise(1e9)?, 3.0, "saturates");
    Ok(())
}

#[test]
fn the_example_of_operators() -> Result<(), Box<dyn Error>> {
    let weight = Number::new(0.3, Format::fixed(4, 0)?)?;
    let product = weight * Number::from(3.0);
    assert_eq!((product.to_f32(), product.format()), (0.75, Format::F32));
    let mut kept = weight;
    kept.set(product)?;
    assert_eq!((kept.to_f32(), kept.format()), (0.75, weight.format()));
    Ok(())
}

#[test]
fn the_example_of_scales() -> Result<(), Box<dyn Error>> {
    let mxfp4 = BlockFormat::mx(Format::FP4_E2M1);
    let mut weights = [0.1, -7.0, 0.9, 1.6];
    mxfp4.quantise_slice(&mut weights, Rounding::NearestEven)?;
    assert_eq!(weights, [0.0, -6.0, 1.0, 1.5]);
    assert_eq!(mxfp4.bits_of(64), 272, "4.25 bits each");
    Ok(())
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    std::fs::read_to_string(&path).expect("the page is there")
}

const PAGE: &str = "../../docs/reference/number-formats.md";
const BEGIN: &str = "<!-- named formats -->\n";
const END: &str = "<!-- end of named formats -->\n";

#[test]
fn the_file_of_the_page_is_read() {
    let page = page();
    let block = page.split_once("```text,test=the_file_of_the_page_is_read\n").unwrap().1;
    let (file, _) = block.split_once("```").unwrap();
    let read: Dictionary = file.parse().unwrap();
    let printed = read.to_string();
    let expected = "conv1.weight EXP 8 63\nfc1.weight FIXED 15 -3\nfc1.input FLOAT 16 127 8\n";
    assert_eq!(printed, format!("{expected}fc2.weight fp8-e4m3fn\n"));
}

fn table() -> String {
    let mut rows = vec![
        "| name | tuple | largest | least above 0 | infinity | NaN |".to_owned(),
        "| --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    let number = |x: f64| if (1e-4..1e6).contains(&x) { x.to_string() } else { format!("{x:.6e}") };
    let mark = |is: bool| if is { "yes" } else { "" };
    for (name, format) in Format::named() {
        let (e, f, b) = (format.exponent_bits(), format.fraction_bits(), format.bias());
        let tuple = format!("<{},{e},{f},{b}>", u32::from(format.has_sign()));
        let (most, least) = (number(format.max_value()), number(format.min_positive()));
        let (infinity, nan) = (mark(format.has_infinity()), mark(format.has_nan()));
        rows.push(format!("| `{name}` | `{tuple}` | {most} | {least} | {infinity} | {nan} |"));
    }
    rows.join("\n") + "\n"
}

#[test]
fn the_table_of_the_page_has_every_named_format() {
    let page = page();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = table();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        std::fs::write(path, [before, BEGIN, &expected, END, after].concat()).unwrap();
    } else {
        assert_eq!(found, expected);
    }
}
