//! Requirements of a Linux program, read from its ELF file.

use anyhow::{Context, Result, ensure};

/// Properties of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// Name of the machine, as in target triples.
    pub machine: &'static str,
    /// Whether the program names no loader, and so no shared library.
    pub is_static: bool,
    /// The newest version of glibc among the needed symbols.
    pub glibc: Option<Glibc>,
}

/// A version of glibc: 2.17 is `(2, 17)`.
pub type Glibc = (u32, u32);

/// Type of program headers that name a loader.
const PT_INTERP: u32 = 3;

/// Reads a little-endian 64-bit ELF file.
pub fn read(bytes: &[u8]) -> Result<Elf> {
    ensure!(
        bytes.starts_with(b"\x7fELF\x02\x01"),
        "it is no little-endian 64-bit program of Linux"
    );
    let machine = match number(bytes, 18, 2)? {
        62 => "x86_64",
        183 => "aarch64",
        other => {
            anyhow::bail!("its machine has the number {other}, which is none that we build for")
        }
    };
    let (start, size) = (number(bytes, 32, 8)?, number(bytes, 54, 2)?);
    let mut is_static = true;
    for entry in 0..number(bytes, 56, 2)? {
        let kind = number(bytes, start + entry * size, 4)?;
        is_static &= kind != u64::from(PT_INTERP);
    }
    Ok(Elf { machine, is_static, glibc: newest_glibc(bytes) })
}

/// Reads a little-endian number of `size` bytes.
fn number(bytes: &[u8], offset: u64, size: usize) -> Result<u64> {
    let start = usize::try_from(offset).context("an offset does not fit")?;
    let end = start.checked_add(size).context("an offset does not fit")?;
    let part = bytes.get(start..end).context("it ends within its headers")?;
    Ok(part.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Returns the newest version in the string table, where zeros separate strings.
fn newest_glibc(bytes: &[u8]) -> Option<Glibc> {
    let names = bytes.split(|&byte| byte == 0);
    let versions = names.filter_map(|name| name.strip_prefix(b"GLIBC_"));
    versions.filter_map(|version| glibc(std::str::from_utf8(version).ok()?)).max()
}

/// Parses `2.17`, or `2.2.5` as 2.2.
fn glibc(version: &str) -> Option<Glibc> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// Returns the oldest glibc in the tags of a wheel, such as `manylinux_2_17`.
pub fn promised(file_name: &str) -> Option<Glibc> {
    let versions = file_name.split("manylinux_").skip(1).filter_map(|rest| {
        let mut parts = rest.split('_').map(|part| part.parse().ok());
        Some((parts.next()??, parts.next()??))
    });
    versions.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file with one program header, followed by strings.
    fn program(machine: u8, entry: u8, names: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = entry;
        bytes.extend(names);
        bytes
    }

    #[test]
    fn machine_loader_and_glibc_are_read_from_a_program() {
        let names = b"\0GLIBC_2.2.5\0GLIBC_2.9\0GLIBC_2.17\0GLIBC_PRIVATE\0";
        let found = read(&program(62, 3, names)).unwrap();
        assert_eq!(found, Elf { machine: "x86_64", is_static: false, glibc: Some((2, 17)) });
        let found = read(&program(183, 1, b"\0")).unwrap();
        assert_eq!(found, Elf { machine: "aarch64", is_static: true, glibc: None });
    }

    #[test]
    fn a_file_that_is_no_program_is_an_error() {
        assert!(read(b"#!/bin/sh").is_err());
        assert!(read(&program(8, 1, b"")).is_err());
        let cut = &program(62, 3, b"")[..70];
        let cut = [&cut[..56], &[200, 0], &cut[58..]].concat();
        assert_eq!(read(&cut).unwrap_err().to_string(), "it ends within its headers");
    }

    #[test]
    fn a_wheel_promises_the_oldest_of_its_tags() {
        let name = "a-1-py3-none-manylinux_2_28_x86_64.manylinux_2_17_x86_64.whl";
        assert_eq!(promised(name), Some((2, 17)));
        assert_eq!(promised("a-1-py3-none-musllinux_1_2_x86_64.whl"), None);
    }
}
