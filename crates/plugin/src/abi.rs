//! The types of `include/dyno_engine.h`. A test compares their layout with that of a C compiler.

use std::ffi::{c_char, c_int, c_void};

use dyno_sut::tensors::Element;

/// Version of the interface.
pub const VERSION: u32 = 1;

/// Kinds of answers.
pub const DONE: u32 = 0;
pub const FAILED: u32 = 1;
pub const FIRST_TOKEN: u32 = 2;

/// Flag of an engine that reports tokens.
pub const STREAMING: u32 = 1;

/// Types of elements; the number of a type is its position plus 1.
const ELEMENTS: [Element; 9] = [
    Element::F32,
    Element::F64,
    Element::F16,
    Element::BF16,
    Element::I64,
    Element::I32,
    Element::I8,
    Element::U8,
    Element::Bool,
];

/// Returns the type of a number of the header.
pub fn element(number: u32) -> Option<Element> {
    ELEMENTS.get((number as usize).checked_sub(1)?).copied()
}

/// Returns the number of a type; 0 if the header has none.
pub fn number(element: Element) -> u32 {
    let at = ELEMENTS.iter().position(|other| *other == element);
    at.map_or(0, |at| at as u32 + 1)
}

/// `dyno_input`.
#[repr(C)]
pub struct Input {
    pub name: *const c_char,
    pub element: u32,
    pub rank: u32,
    pub shape: *const u64,
}

/// `dyno_description`.
#[repr(C)]
pub struct Description {
    pub name: *const c_char,
    pub version: *const c_char,
    pub inputs: *const Input,
    pub input_count: usize,
    pub flags: u32,
}

/// `dyno_tensor`.
#[repr(C)]
pub struct Tensor {
    pub data: *const c_void,
    pub size: usize,
    pub element: u32,
    pub rank: u32,
    pub shape: *const u64,
}

/// `dyno_sample`.
#[repr(C)]
pub struct Sample {
    pub id: u64,
    pub index: u64,
    pub inputs: *const Tensor,
}

/// `dyno_answer`.
#[repr(C)]
pub struct Answer {
    pub id: u64,
    pub kind: u32,
    pub reserved: u32,
    pub tokens: i64,
    pub data: *const c_void,
    pub size: usize,
}

/// `dyno_complete`.
pub type Complete = unsafe extern "C" fn(*mut c_void, *const Answer, usize);

/// `dyno_engine`.
#[repr(C)]
pub struct Engine {
    _private: [u8; 0],
}

/// The functions of a plug-in.
pub struct Functions {
    pub open: unsafe extern "C" fn(*const c_char, *mut *mut Engine, *mut c_char, usize) -> c_int,
    pub describe: unsafe extern "C" fn(*mut Engine, *mut Description) -> c_int,
    pub issue:
        unsafe extern "C" fn(*mut Engine, *const Sample, usize, Complete, *mut c_void) -> c_int,
    pub flush: unsafe extern "C" fn(*mut Engine),
    pub close: unsafe extern "C" fn(*mut Engine),
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::process::Command;

    use super::*;

    /// Sizes and offsets of all types, in the order of the C program of the test.
    fn layout() -> Vec<usize> {
        vec![
            size_of::<Input>(),
            offset_of!(Input, element),
            offset_of!(Input, rank),
            offset_of!(Input, shape),
            size_of::<Description>(),
            offset_of!(Description, version),
            offset_of!(Description, inputs),
            offset_of!(Description, input_count),
            offset_of!(Description, flags),
            size_of::<Tensor>(),
            offset_of!(Tensor, size),
            offset_of!(Tensor, element),
            offset_of!(Tensor, rank),
            offset_of!(Tensor, shape),
            size_of::<Sample>(),
            offset_of!(Sample, index),
            offset_of!(Sample, inputs),
            size_of::<Answer>(),
            offset_of!(Answer, kind),
            offset_of!(Answer, tokens),
            offset_of!(Answer, data),
            offset_of!(Answer, size),
        ]
    }

    const PROGRAM: &str = r#"
#include <stdio.h>
#include "dyno_engine.h"
#define SIZE(type) printf("%zu ", sizeof(type))
#define AT(type, field) printf("%zu ", offsetof(type, field))
int main(void) {
  SIZE(dyno_input); AT(dyno_input, element); AT(dyno_input, rank); AT(dyno_input, shape);
  SIZE(dyno_description); AT(dyno_description, version); AT(dyno_description, inputs);
  AT(dyno_description, input_count); AT(dyno_description, flags);
  SIZE(dyno_tensor); AT(dyno_tensor, size); AT(dyno_tensor, element); AT(dyno_tensor, rank);
  AT(dyno_tensor, shape);
  SIZE(dyno_sample); AT(dyno_sample, index); AT(dyno_sample, inputs);
  SIZE(dyno_answer); AT(dyno_answer, kind); AT(dyno_answer, tokens); AT(dyno_answer, data);
  AT(dyno_answer, size);
  printf("%d %d %d %d %d", DYNO_ENGINE_ABI, DYNO_FLOAT32, DYNO_BOOL, DYNO_FIRST_TOKEN,
         DYNO_STREAMING);
  return 0;
}
"#;

    #[test]
    fn the_layout_is_that_of_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
        std::fs::write(&source, PROGRAM).unwrap();
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-Wall", "-Werror", include, "-o"]).arg(&program).arg(&source);
        let Ok(compiled) = compiler.status() else {
            eprintln!("SKIPPED: there is no C compiler");
            return;
        };
        assert!(compiled.success());
        let printed = Command::new(program).output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let numbers: Vec<usize> =
            printed.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let constants = [VERSION, 1, 9, FIRST_TOKEN, STREAMING].map(|number| number as usize);
        assert_eq!(numbers, [&layout()[..], &constants].concat());
        assert_eq!((element(1), element(9)), (Some(Element::F32), Some(Element::Bool)));
        assert_eq!((element(0), element(10), number(Element::I16)), (None, None, 0));
    }
}
