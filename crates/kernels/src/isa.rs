//! Instruction sets of this processor, as values that only detection can create.
//!
//! ```
//! use dyno_kernels::Isa;
//!
//! let best = Isa::best();
//! assert_eq!(Isa::named(best.name()), Ok(best));
//! assert_eq!(Isa::all().pop(), Some(Isa::scalar()));
//! ```

use std::fmt;
use std::sync::OnceLock;

use thiserror::Error;

use crate::arch;
use crate::lanes::Kernel;

/// An instruction set that this processor has. [`Isa::all`] is the only source of values besides
/// portable code, so that having a value proves that its instructions may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Token);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Scalar(arch::Scalar),
    #[cfg(target_arch = "x86_64")]
    Avx2(arch::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(arch::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(arch::Avx512Vnni),
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(arch::Avx512Bf16),
    #[cfg(target_arch = "x86_64")]
    Amx(arch::Amx),
}

impl Isa {
    /// All instruction sets of this processor, the fastest first. The last is portable code.
    pub fn all() -> Vec<Isa> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            found.extend(arch::Amx::detect().map(Token::Amx));
            found.extend(arch::Avx512Bf16::detect().map(Token::Avx512Bf16));
            found.extend(arch::Avx512Vnni::detect().map(Token::Avx512Vnni));
            found.extend(arch::Avx512::detect().map(Token::Avx512));
            found.extend(arch::Avx2::detect().map(Token::Avx2));
        }
        found.push(Token::Scalar(arch::Scalar));
        found.into_iter().map(Isa).collect()
    }

    /// The fastest instruction set.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::all()[0])
    }

    /// Returns the instruction set with this name.
    ///
    /// # Errors
    /// The name is unknown, or this processor lacks the instruction set.
    pub fn named(name: &str) -> Result<Isa, IsaError> {
        let all = Self::all();
        all.iter().copied().find(|isa| isa.name() == name).ok_or_else(|| IsaError {
            expected: all.iter().map(|isa| isa.name()).collect(),
            found: name.to_owned(),
        })
    }

    /// Portable code.
    pub fn scalar() -> Isa {
        Isa(Token::Scalar(arch::Scalar))
    }

    /// Name in options: `scalar`, `avx2`, `avx512`, `avx512-vnni`, `avx512-bf16` or `amx`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Token::Scalar(_) => "scalar",
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Token::Avx512Vnni(_) => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Token::Avx512Bf16(_) => "avx512-bf16",
            #[cfg(target_arch = "x86_64")]
            Token::Amx(_) => "amx",
        }
    }

    /// Runs a kernel compiled for this instruction set.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        use crate::lanes::Lanes;
        match self.0 {
            Token::Scalar(token) => token.call(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(token) => token.call(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(token) => token.call(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Avx512Vnni(token) => token.call(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Avx512Bf16(token) => token.call(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Amx(token) => token.vectors().call(kernel),
        }
    }

    /// Returns the token for matrix tiles, if the instruction set has them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn tiles(self) -> Option<arch::Amx> {
        match self.0 {
            Token::Amx(token) => Some(token),
            _ => None,
        }
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error of requesting an unavailable instruction set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected an instruction set of this processor ({}), found {found}", expected.join(", "))]
pub struct IsaError {
    /// Available names.
    pub expected: Vec<&'static str>,
    /// Requested name.
    pub found: String,
}

#[cfg(test)]
mod tests {
    use super::Isa;

    #[test]
    fn an_instruction_set_is_found_by_its_name() {
        for isa in Isa::all() {
            assert_eq!(Isa::named(isa.name()), Ok(isa));
        }
        let error = Isa::named("sse9").expect_err("no processor has it");
        assert!(error.to_string().ends_with("scalar), found sse9"), "{error}");
    }

    #[test]
    fn portable_code_is_always_there_and_last() {
        let all = Isa::all();
        assert_eq!(all.last(), Some(&Isa::scalar()));
        assert_eq!(all[0], Isa::best());
        let mut names: Vec<&str> = all.iter().map(|isa| isa.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}
