//! What a program of Linux needs, read from the program itself.

use anyhow::{Context, Result, ensure};

/// What an ELF file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// As in target triples.
    pub machine: &'static str,
    /// Whether no loader is asked for, so that no library can be.
    pub is_static: bool,
    /// The newest version of glibc among the symbols that it needs.
    pub glibc: Option<Glibc>,
}

/// A version of glibc: 2.17 is `(2, 17)`.
pub type Glibc = (u32, u32);

/// Entries of the program header that name a loader.
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

fn number(bytes: &[u8], at: u64, size: usize) -> Result<u64> {
    let at = usize::try_from(at).context("an offset does not fit")?;
    let end = at.checked_add(size).context("an offset does not fit")?;
    let part = bytes.get(at..end).context("it ends within its headers")?;
    Ok(part.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Versions stand in the table of names, each between two zeros.
fn newest_glibc(bytes: &[u8]) -> Option<Glibc> {
    let names = bytes.split(|&byte| byte == 0);
    let versions = names.filter_map(|name| name.strip_prefix(b"GLIBC_"));
    versions.filter_map(|version| glibc(std::str::from_utf8(version).ok()?)).max()
}

/// `2.17`, or `2.2.5`, whose last part is none of a release.
fn glibc(version: &str) -> Option<Glibc> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// The oldest glibc that a wheel's tags promise to run with: `manylinux_2_17`.
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

    /// A header with one entry, and names after it.
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
    fn a_program_tells_its_machine_its_loader_and_its_glibc() {
        let names = b"\0GLIBC_2.2.5\0GLIBC_2.9\0GLIBC_2.17\0GLIBC_PRIVATE\0";
        let found = read(&program(62, 3, names)).unwrap();
        assert_eq!(found, Elf { machine: "x86_64", is_static: false, glibc: Some((2, 17)) });
        let found = read(&program(183, 1, b"\0")).unwrap();
        assert_eq!(found, Elf { machine: "aarch64", is_static: true, glibc: None });
    }

    #[test]
    fn what_is_no_program_is_refused() {
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
