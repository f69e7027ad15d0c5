//! Iterators that end while another one stays open: only the last reader of a view triggers a check for
//! obsolete files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::FamilyDescriptor;
use cairn_options::{CompactRangeOptions, FamilyOptions};
use cairn_platform::Job;
use cairn_platform::sync::{AtomicUsize, Ordering};
use cairn_platform::{Executor, Priority, World};

use crate::basic::{open_at, small};

/// Counts scheduled background tasks.
struct Counting {
    inner: Arc<dyn Executor>,
    spawned: AtomicUsize,
}

impl Executor for Counting {
    fn spawn(&self, priority: Priority, job: Job) {
        self.spawned.fetch_add(1, Ordering::Relaxed);
        self.inner.spawn(priority, job);
    }

    fn spawn_after(&self, delay: Duration, priority: Priority, job: Job) {
        self.inner.spawn_after(delay, priority, job);
    }

    fn spawn_at_leisure(&self, delay: Duration, priority: Priority, job: Job) {
        self.inner.spawn_at_leisure(delay, priority, job);
    }

    fn help(&self) -> bool {
        self.inner.help()
    }

    fn help_later(&self) -> bool {
        self.inner.help_later()
    }

    fn reserve(&self, priority: Priority, threads: usize) {
        self.inner.reserve(priority, threads);
    }

    fn threads(&self, priority: Priority) -> usize {
        self.inner.threads(priority)
    }
}

fn tables(world: &World) -> Vec<String> {
    let mut names = world.fs.list(Path::new("/db")).expect("listed");
    names.retain(|name| name.ends_with(".sst"));
    names.sort();
    names
}

#[test]
fn an_iterator_that_keeps_no_files_triggers_no_deletions() {
    let world = World::in_memory();
    let executor = Arc::new(Counting {
        inner: world.executor.clone(),
        spawned: AtomicUsize::new(0),
    });
    let world = World {
        executor: executor.clone(),
        ..world
    };
    let by_hand = FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    };
    let db = open_at(&world, &[FamilyDescriptor::new("default", by_hand)]).unwrap();
    for round in 0..8_u8 {
        (0..50_u8).for_each(|n| db.put(&[n], &[round; 100]).unwrap());
        db.flush().unwrap();
    }
    let mut held = db.iter();
    held.seek_to_first();
    let old = tables(&world);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    db.wait_until_quiet().unwrap();
    assert!(old.iter().all(|name| tables(&world).contains(name)));
    // A view that ended before may have been recorded.
    drop(db.iter());
    db.wait_until_quiet().unwrap();

    let before = executor.spawned.load(Ordering::Relaxed);
    for _ in 0..100 {
        let mut iter = db.iter();
        iter.seek_to_first();
        drop(iter);
    }
    let spawned = executor.spawned.load(Ordering::Relaxed) - before;
    assert_eq!(spawned, 0, "jobs for iterators of the present view");

    // The iterator that keeps the files triggers their deletion.
    assert_eq!(held.value(), [7; 100]);
    drop(held);
    // Waits for the deletion.
    db.close().unwrap();
    assert!(!old.iter().any(|name| tables(&world).contains(name)));
}
