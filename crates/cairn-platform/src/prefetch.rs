//! Cache prefetch hints.

#![expect(
    unsafe_code,
    reason = "a prefetch takes a raw address and has no architectural effect"
)]

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// Prefetches the first cache line of `bytes`.
#[inline]
pub fn first(bytes: &[u8]) {
    line(bytes.as_ptr());
}

/// Prefetches the last `len` bytes of `bytes`.
#[inline]
pub fn last(bytes: &[u8], len: usize) {
    let range = bytes[bytes.len().saturating_sub(len)..].as_ptr_range();
    let mut at = range.start.addr();
    while at < range.end.addr() {
        prefetch_address(at);
        at += LINE;
    }
}

/// Prefetches the cache line at `address`, which need not be valid.
#[inline]
pub fn prefetch_address(address: usize) {
    line(std::ptr::without_provenance(address));
}

#[inline]
fn line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it accepts any address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
