//! Hints to the processor about memory that will be read.

#![expect(
    unsafe_code,
    reason = "the instruction takes an address; it reads nothing that a program could see"
)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the first line of `bytes`, so that it may be there when it is read. Costs an instruction.
#[inline]
pub fn first(bytes: &[u8]) {
    line(bytes.as_ptr());
}

/// Asks for the last `len` bytes of `bytes`.
#[inline]
pub fn last(bytes: &[u8], len: usize) {
    let from = bytes.len().saturating_sub(len);
    for at in (from..bytes.len()).step_by(LINE) {
        line(bytes[at..].as_ptr());
    }
}

/// Asks for the line at `address`, whatever is there. Costs an instruction.
#[inline]
pub fn prefetch_address(address: usize) {
    line(std::ptr::without_provenance(address));
}

#[inline]
fn line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it takes any address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
