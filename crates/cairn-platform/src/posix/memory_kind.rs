//! Kinds of memory: ordinary memory, and memory that core dumps leave out.

#![expect(
    unsafe_code,
    reason = "mappings are raw pointers, and madvise takes an address"
)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use cairn_types::{Error, Result};
use rustix::io::Errno;

use super::region::{Region, memory, page_size};

/// A kind of memory that buffers are allocated in. The default is ordinary memory.
///
/// Memory of different kinds never shares a page. All memory of a kind is shared by the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKind {
    is_undumped: bool,
}

impl MemoryKind {
    /// All kinds; [`MemoryKind::index`] is the position here.
    pub(crate) const ALL: [MemoryKind; 2] = [
        MemoryKind { is_undumped: false },
        MemoryKind { is_undumped: true },
    ];

    /// Memory that the kernel leaves out of core dumps of the process (`MADV_DONTDUMP`).
    ///
    /// # Errors
    ///
    /// `NotSupported` if the kernel refuses this for a new mapping. If it refuses a later one, the process aborts like
    /// after a failed allocation.
    pub fn undumped() -> Result<MemoryKind> {
        let page = Region::reserve(page_size()).ok_or_else(|| refused(Errno::NOMEM))?;
        // SAFETY: the range is the region.
        unsafe { memory::exclude_from_core_dumps(page.start(), page.len()) }.map_err(refused)?;
        Ok(MemoryKind { is_undumped: true })
    }

    /// True if core dumps leave the memory out.
    #[must_use]
    pub fn is_undumped(self) -> bool {
        self.is_undumped
    }

    /// The position in [`MemoryKind::ALL`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.is_undumped)
    }

    /// Makes a new mapping one of this kind. Aborts like a failed allocation if the kernel refuses.
    ///
    /// # Safety
    ///
    /// The range is a whole mapping.
    pub(super) unsafe fn apply(self, start: NonNull<u8>, len: usize) {
        if !self.is_undumped {
            return;
        }
        // SAFETY: promised by the caller.
        if unsafe { memory::exclude_from_core_dumps(start, len) }.is_err() {
            let layout = Layout::from_size_align(len, page_size());
            handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()));
        }
    }
}

fn refused(errno: Errno) -> Error {
    Error::not_supported(format!(
        "the kernel does not exclude memory from core dumps (MADV_DONTDUMP): {}",
        std::io::Error::from(errno)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_at_their_index() {
        let undumped = MemoryKind::undumped().expect("the kernel supports it");
        assert!(undumped.is_undumped() && !MemoryKind::default().is_undumped());
        for kind in [undumped, MemoryKind::default()] {
            assert_eq!(MemoryKind::ALL[kind.index()], kind);
        }
    }

    #[test]
    fn a_refusal_names_its_reason() {
        let error = refused(Errno::INVAL).to_string();
        assert!(
            error.starts_with("Not implemented: ") && error.contains("Invalid argument"),
            "{error}"
        );
    }
}
