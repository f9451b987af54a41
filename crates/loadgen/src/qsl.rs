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
    /// Samples that fit in memory at once (>= 1): the size of the performance set. All by default.
    fn performance_sample_count(&self) -> usize {
        self.total_sample_count()
    }
    /// Brings these samples into memory. Indices may repeat (MultiStream pads its sets). Does nothing
    /// by default, for samples that are always in memory.
    fn load(&self, _samples: &[SampleIndex]) {}
    /// Releases samples loaded before. Does nothing by default.
    fn unload(&self, _samples: &[SampleIndex]) {}
}
