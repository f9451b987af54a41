//! Limit of the size of prompts that are made up or repeated.

/// Maximum bytes of these prompts, as of a file of prompts.
const MOST_BYTES: u64 = 512 << 20;

/// Bytes of a prompt or a turn beside its content.
const BESIDE_CONTENT: u64 = 128;

/// Bytes of a token: a word with its space.
const TOKEN: u64 = 5;

/// Bytes that prompts may still have.
#[derive(Debug)]
pub(super) struct SizeBudget(u64);

impl SizeBudget {
    /// Returns the budget of prompts of which there are `count`, each with at least `least` tokens.
    ///
    /// # Errors
    /// They are larger than the limit.
    pub(super) fn for_prompts(count: u64, least: u64) -> Result<Self, String> {
        Self::check(count, least.saturating_mul(TOKEN).saturating_add(BESIDE_CONTENT))?;
        Ok(Self(MOST_BYTES))
    }

    /// Checks that this many prompts can have at least `least` bytes each.
    ///
    /// # Errors
    /// They are larger than the limit.
    pub(super) fn check(count: u64, least: u64) -> Result<(), String> {
        match count.saturating_mul(least) {
            ..=MOST_BYTES => Ok(()),
            _ => Err(too_large()),
        }
    }

    /// Takes the bytes of a prompt with this many tokens. Called before it is made.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub(super) fn prompt(&mut self, tokens: u64) -> Result<(), String> {
        self.bytes(tokens.saturating_mul(TOKEN).saturating_add(BESIDE_CONTENT))
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub(super) fn bytes(&mut self, bytes: u64) -> Result<(), String> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }
}

fn too_large() -> String {
    format!(
        "the prompts are larger than {} MiB; lower their number or their size",
        MOST_BYTES >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_limited_before_prompts_are_made() {
        SizeBudget::for_prompts(100_000, 1_000).unwrap();
        for (count, least) in [(1_000_000, 1_000), (u64::MAX, 1), (1, u64::MAX)] {
            let error = SizeBudget::for_prompts(count, least).unwrap_err();
            assert!(error.contains("larger than 512 MiB"), "{error}");
        }
        let mut budget = SizeBudget::for_prompts(1, 1).unwrap();
        budget.prompt(1_000_000).unwrap();
        assert!(budget.prompt(u64::MAX).is_err());
        assert!((0..200).any(|_| budget.prompt(1_000_000).is_err()));
    }
}
