//! Sets of flags in the account of an answer.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An element of [`Flags`].
pub trait Flag: Copy + 'static {
    /// All elements, at most 32.
    const ALL: &'static [Self];
    /// Position in [`ALL`](Self::ALL).
    fn position(self) -> u16;
}

/// A set of flags.
#[derive(Clone, Copy)]
pub struct Flags<F>(u32, PhantomData<F>);

impl<F> Default for Flags<F> {
    fn default() -> Self {
        Self(0, PhantomData)
    }
}

impl<F> PartialEq for Flags<F> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<F> Eq for Flags<F> {}

impl<F> Serialize for Flags<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl<'de, F> Deserialize<'de> for Flags<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(|flags| Self(flags, PhantomData))
    }
}

impl<F: Flag> Flags<F> {
    /// Adds a flag.
    pub fn insert(&mut self, flag: F) {
        self.0 |= 1 << flag.position();
    }

    /// Returns whether a flag is in the set.
    pub fn contains(self, flag: F) -> bool {
        self.0 & (1 << flag.position()) != 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags of both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0, PhantomData)
    }

    /// The flags in the set.
    pub fn iter(self) -> impl Iterator<Item = F> {
        F::ALL.iter().copied().filter(move |flag| self.contains(*flag))
    }
}

impl<F: Flag + fmt::Debug> fmt::Debug for Flags<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
