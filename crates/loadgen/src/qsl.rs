//! The query sample library: the data set as the load generator sees it.

/// Position of a sample in the data set.
///
/// 32 bits address four times the samples of the largest library of any round, and need half
/// the memory of 64 bits in a trace.
pub type SampleIndex = u32;

/// The data set. Samples are loaded before a run and unloaded after it, outside
/// the timed part.
pub trait SampleLibrary: Sync {
    /// Name for the logs.
    fn name(&self) -> &str;
    /// Samples in the data set (>= 1).
    fn total_sample_count(&self) -> usize;
    /// Samples that fit in memory at once (>= 1): the size of the performance set.
    fn performance_sample_count(&self) -> usize;
    /// Brings these samples into memory. Indices may repeat (MultiStream pads its sets).
    fn load(&self, samples: &[SampleIndex]);
    /// Releases samples loaded before.
    fn unload(&self, samples: &[SampleIndex]);
}
