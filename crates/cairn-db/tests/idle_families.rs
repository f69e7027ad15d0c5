//! The memory of column families that are not written to, as the allocator counts it.
#![expect(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_db::{FamilyDescriptor, OpenRequest, open};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;

static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// P08: a family costs little before it is written to.
#[test]
fn a_thousand_idle_families_take_less_than_16_mib() {
    const FAMILIES: usize = 1000;
    let dir = tempfile::tempdir().expect("there is a directory");
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let db = open(&OpenRequest {
        path: dir.path(),
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: false,
        world: World::posix(),
    })
    .expect("it opens");
    let new: Vec<FamilyDescriptor> = (0..FAMILIES)
        .map(|n| FamilyDescriptor::new(&format!("family{n}"), FamilyOptions::default()))
        .collect();
    let before = LIVE.load(Ordering::Relaxed);
    let families = db.create_families(&new).expect("they are created");
    let bytes = LIVE.load(Ordering::Relaxed) - before;
    assert!(bytes < 12 << 20, "{} bytes each", bytes / FAMILIES);
    for family in &families {
        family.put(b"key", b"value").expect("it is written");
    }
    let bytes = LIVE.load(Ordering::Relaxed) - before;
    assert!(bytes < 16 << 20, "{} bytes each", bytes / FAMILIES);
    drop((db, families));
}
