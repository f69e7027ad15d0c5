//! Resident memory of a series of memtables. It is measured for the whole process, so this test
//! runs in a process of its own.

use std::collections::VecDeque;

use cairn_memtable::{Memtable, MemtableOptions};
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

const MIB: usize = 1 << 20;
/// The default size of a memtable.
const LEN: usize = 64 * MIB;
/// The memory that `cairn-memory` may retain for the next memtable.
const WAITING: usize = 32 * MIB;
/// An allowance for other allocations and for the last page of each memtable.
const BESIDE: usize = 12 * MIB;

/// Anonymous resident memory of this process, in bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "process statistics are not a database file"
)]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux provides it");
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:")?.strip_suffix("kB"));
    let kilobytes = kilobytes.expect("Linux reports it").trim();
    kilobytes.parse::<usize>().expect("a number") << 10
}

/// A load of several hundred megabytes. Each memtable is dropped when the next one is half full, and
/// allocations made alongside them are freed earlier than some and later than others.
///
/// If memtables used the allocator's huge pages, the memory of three memtables would stay resident,
/// in holes that have the size of a huge page but not its alignment.
#[test]
fn resident_memory_of_successive_memtables_is_bounded() {
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
        // A job's buffer. Once it is freed, glibc serves buffers of this size from its heap.
        drop(vec![1u8; 6 * MIB]);
    }
    // The second half of a memtable uses the retained memory first.
    let live = LEN + LEN / 2;
    let may = live + WAITING / 2 + BESIDE;
    assert!(most >= live, "{} MiB", most / MIB);
    assert!(most <= may, "{} MiB, of {}", most / MIB, may / MIB);
    drop((before, beside));
    // Nothing is retained while there is no memtable; the rest is held by the allocator.
    let left = resident().saturating_sub(begun);
    assert!(left <= 2 * BESIDE, "{} MiB", left / MIB);
}
