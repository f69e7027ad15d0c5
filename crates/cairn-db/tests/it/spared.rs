//! Idle threads help compactions while there are no writes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::listener::{EventListener, SubcompactionJobInfo};
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions};
use cairn_platform::sync::{AtomicUsize, Mutex, Ordering};
use cairn_sim::SimWorld;

use crate::basic::{db_options, small};

/// Counts subcompactions. When one begins, it advances the time and writes a number of records.
struct Watch {
    sim: SimWorld,
    writes: u32,
    db: Mutex<Option<Db>>,
    parts: AtomicUsize,
}

impl EventListener for Watch {
    fn on_subcompaction_begin(&self, _: &SubcompactionJobInfo) {
        self.parts.fetch_add(1, Ordering::Relaxed);
        for n in 0..self.writes {
            let db = self.db.lock();
            let db = db.as_ref().expect("set before compactions begin");
            db.put(format!("w{n}").as_bytes(), b"").expect("written");
        }
        self.sim.clock.advance(Duration::from_millis(60));
    }
}

/// Returns the number of subcompactions of a compaction of several tables, with `writes` records written
/// meanwhile.
fn parts(writes: u32) -> usize {
    let sim = SimWorld::new(1);
    let watch = Arc::new(Watch {
        sim: sim.clone(),
        writes,
        db: Mutex::new(None),
        parts: AtomicUsize::new(0),
    });
    let family = FamilyOptions {
        target_file_size_base: 64 << 10,
        disable_auto_compactions: true,
        max_compaction_bytes: 64 << 20,
        compression: cairn_options::Compression::None,
        ..small()
    };
    let mut options = DbOptions {
        max_background_jobs: 4,
        ..db_options()
    };
    options.listeners.push(watch.clone());
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: sim.world.clone(),
    });
    let db = db.expect("opened");
    *watch.db.lock() = Some(db.clone());
    for n in 0..24_000_u32 {
        let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        db.put(&key, &[7; 100]).expect("written");
    }
    db.flush().expect("flushed");
    db.compact_range(None, None, &CompactRangeOptions::default())
        .expect("compacted");
    for n in 0..24_000_u32 {
        let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        assert_eq!(db.get(&key).expect("read").as_deref(), Some(&[7; 100][..]));
    }
    watch.db.lock().take();
    db.close().expect("closed");
    watch.parts.load(Ordering::Relaxed)
}

#[test]
fn a_compaction_is_shared_while_there_are_no_writes() {
    let shared = parts(0);
    assert!(shared > 1, "{shared} part");
    assert_eq!(parts(60), 1, "somebody writes");
}
