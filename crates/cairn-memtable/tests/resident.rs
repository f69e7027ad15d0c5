//! What memtables that follow each other hold of the machine's memory. The figure is the process's, so
//! that this is one test in a process of its own.

use std::collections::VecDeque;

use cairn_memtable::{Memtable, MemtableOptions};
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

const MIB: usize = 1 << 20;
/// A memtable of the default size.
const LEN: usize = 64 * MIB;
/// What may wait for the next memtable, by `cairn-memory`.
const WAITING: usize = 32 * MIB;
/// What the allocator keeps of what the test takes beside memtables, and their last pages.
const BESIDE: usize = 12 * MIB;

/// Bytes of this process that are in memory and no file's.
#[expect(
    clippy::disallowed_methods,
    reason = "what the kernel says of this process is no file of a database"
)]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:")?.strip_suffix("kB"));
    let kilobytes = kilobytes.expect("Linux counts it").trim();
    kilobytes.parse::<usize>().expect("a number") << 10
}

/// A load of several hundred megabytes. A memtable is given up when the one after it is half full, and what
/// is allocated beside them lives longer than some and shorter than others.
///
/// Large pages of the allocator would stay in memory, three memtables' worth of them, in holes of their
/// length that cannot take a page of its alignment.
#[test]
fn memtables_hold_what_lives_and_what_may_wait_and_no_more() {
    let begun = resident();
    let mut beside = VecDeque::new();
    let mut most = 0;
    let mut before = None;
    let mut written = 0u64;
    for _ in 0..10 {
        let memtable = Memtable::new(KeyOrder::Bytewise, MemtableOptions::default());
        while memtable.memory_usage() < LEN {
            written += 1;
            let key = written.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let seq = SequenceNumber(written);
            memtable.add(seq, ValueKind::Value, &key, &[7; 1000]);
            if written.is_multiple_of(4) {
                beside.push_back(vec![1u8; 3000 + written as usize % 7 * 500]);
                if beside.len() > 500 {
                    beside.pop_front();
                }
            }
            if written.is_multiple_of(1024) {
                most = most.max(resident() - begun);
            }
            if memtable.memory_usage() > LEN / 2 {
                drop(before.take());
            }
        }
        before = Some(memtable);
        // A buffer of a job. By its end glibc learns to take such lengths out of its heap.
        drop(vec![1u8; 6 * MIB]);
    }
    // The second half of a memtable takes what waits before anything else.
    let live = LEN + LEN / 2;
    let may = live + WAITING / 2 + BESIDE;
    assert!(most >= live, "{} MiB", most / MIB);
    assert!(most <= may, "{} MiB, of {}", most / MIB, may / MIB);
    drop((before, beside));
    // Nothing waits while there is no memtable; what stays is the allocator's.
    let left = resident().saturating_sub(begun);
    assert!(left <= 2 * BESIDE, "{} MiB", left / MIB);
}
