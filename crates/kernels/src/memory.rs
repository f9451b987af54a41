//! Zeroed memory in whole pages, in huge pages if the system has them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment of memory. Processors prefetch lines within a page; in a page shared by two workers
/// this would fetch lines that the other worker writes.
const PAGE: usize = 4096;
/// Size of a huge page on x86-64 and most ARM systems.
const HUGE: usize = 2 << 20;

/// Words of 32 bits: `f32`, pairs of bfloat16 or fours of bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    first: NonNull<u32>,
    words: usize,
}

// SAFETY: `Memory` owns its words, as `Box<[u32]>` does.
unsafe impl Send for Memory {}
// SAFETY: `&Memory` gives read access only.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates `words` zeros.
    pub(crate) fn zeroed(words: usize) -> Self {
        let layout = layout(words);
        // SAFETY: the layout has at least one page.
        let bytes = unsafe { alloc_zeroed(layout) };
        let Some(first) = NonNull::new(bytes.cast()) else { handle_alloc_error(layout) };
        let memory = Self { first, words };
        memory.ask_for_huge_pages(layout);
        memory
    }

    #[cfg(target_os = "linux")]
    fn ask_for_huge_pages(&self, layout: Layout) {
        use rustix::mm::{Advice, madvise};
        if layout.align() == HUGE {
            // A system without huge pages returns an error, which is harmless.
            // SAFETY: the advice does not change contents, and the range is our allocation.
            let _ = unsafe {
                madvise(self.first.as_ptr().cast(), layout.size(), Advice::LinuxHugepage)
            };
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn ask_for_huge_pages(&self, _layout: Layout) {}

    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: `first` points to `words` words of our allocation, which was zeroed.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `words`; `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.words) }
    }

    pub(crate) fn numbers_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `words_mut`; every bit pattern is a valid `f32`.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().cast(), self.words) }
    }

    pub(crate) fn numbers(&self) -> &[f32] {
        // SAFETY: as in `words`; every bit pattern is a valid `f32`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr().cast(), self.words) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `zeroed` allocated the memory with this layout.
        unsafe { dealloc(self.first.as_ptr().cast(), layout(self.words)) }
    }
}

/// Sizes from half a huge page on are rounded up to whole huge pages.
fn layout(words: usize) -> Layout {
    let bytes = words.max(1).checked_mul(4).expect("memory of a machine is counted by usize");
    let align = if bytes >= HUGE / 2 { HUGE } else { PAGE };
    let whole =
        bytes.checked_next_multiple_of(align).expect("a machine has less than all of usize");
    Layout::from_size_align(whole, align).expect("a machine has less than half of usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_zeros_at_the_start_of_a_page() {
        for words in [0, 1, 1000, HUGE / 4 + 1] {
            let mut memory = Memory::zeroed(words);
            assert_eq!(memory.words().len(), words);
            assert_eq!(memory.words().as_ptr().align_offset(PAGE), 0);
            assert!(memory.words().iter().all(|word| *word == 0));
            memory.numbers_mut().fill(1.0);
            assert!(memory.numbers().iter().all(|number| *number == 1.0));
        }
    }
}
