//! Aligned buffers for direct I/O.
//!
//! A few buffers are pooled, because a new one costs a page fault for each page written.

use crate::sync::Mutex;

/// The alignment of direct I/O. No device in use has larger sectors.
pub(super) const ALIGNMENT: usize = 4096;

/// The size of an aligned buffer; longer transfers are split.
pub(super) const CAPACITY: usize = 256 * 1024;

/// The number of pooled buffers.
const KEPT: usize = 16;

static POOL: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// [`CAPACITY`] bytes at an aligned address, returned to the pool when dropped.
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// Takes a buffer, whose content is arbitrary.
    pub(super) fn take() -> AlignedBuffer {
        let memory = POOL.lock().pop();
        let memory = memory.unwrap_or_else(|| vec![0; CAPACITY + ALIGNMENT]);
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "a byte pointer can be aligned");
        AlignedBuffer { memory, start }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + CAPACITY]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + CAPACITY]
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let mut pool = POOL.lock();
        if pool.len() < KEPT {
            pool.push(std::mem::take(&mut self.memory));
        }
    }
}

/// `offset` rounded down to a multiple of [`ALIGNMENT`].
pub(super) fn round_down(offset: u64) -> u64 {
    offset & !(ALIGNMENT as u64 - 1)
}

/// True if address, length and offset are aligned for direct I/O.
pub(super) fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    bytes.as_ptr().align_offset(ALIGNMENT) == 0
        && bytes.len().is_multiple_of(ALIGNMENT)
        && offset.is_multiple_of(ALIGNMENT as u64)
}
