//! A primary with several threads on real files, with instances in other threads that follow it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use cairn_db::{Db, OpenRequest, WriteBatch};
use cairn_options::{CompactRangeOptions, ReadOptions};
use cairn_platform::World;
use cairn_types::Code;

use crate::options;

const THREADS: usize = 3;
const KEYS: usize = 50;

fn open_in(
    path: &Path,
    text: &str,
    open: impl FnOnce(&OpenRequest<'_>) -> cairn_types::Result<Db>,
) -> Db {
    let (db, family) = options(text);
    open(&OpenRequest {
        path,
        options: &db,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: World::posix(),
    })
    .unwrap()
}

/// Each batch of a thread sets all its keys to one number: a reader sees equal numbers, which never fall.
fn writer(db: &Db, thread: usize, stop: &AtomicBool, written: &AtomicUsize) {
    let mut number = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let mut batch = WriteBatch::default();
        for key in 0..KEYS {
            let key = format!("{thread}/{key:03}");
            let value = format!("{number:08}{}", "x".repeat(key.len() * number % 300));
            batch.put_in(db.default_family(), key.as_bytes(), value.as_bytes());
        }
        db.write(&batch).unwrap();
        written.store(number, Ordering::SeqCst);
        if number.is_multiple_of(200) && thread == 0 {
            db.flush().unwrap();
        }
        if number.is_multiple_of(700) && thread == 1 {
            let all = CompactRangeOptions::default();
            db.compact_range(None, None, &all).unwrap();
        }
    }
}

/// The number that each thread has written, by `db`.
fn numbers(db: &Db) -> [usize; THREADS] {
    let mut found = [0; THREADS];
    let mut counts = [0; THREADS];
    let mut iter = db.iter_with(&ReadOptions::default());
    iter.seek_to_first();
    while iter.valid() {
        let thread = usize::from(iter.key()[0] - b'0');
        let number: usize = String::from_utf8_lossy(&iter.value()[..8]).parse().unwrap();
        assert!(
            counts[thread] == 0 || found[thread] == number,
            "a batch is visible as a whole: {} and {number}",
            found[thread]
        );
        found[thread] = number;
        counts[thread] += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert!(counts.iter().all(|count| [0, KEYS].contains(count)));
    found
}

#[test]
fn instances_follow_a_busy_primary_on_real_files() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("primary");
    let text =
        "write_buffer_size=400000;level0_file_num_compaction_trigger=2;max_manifest_file_size=2000";
    let primary = open_in(&path, text, cairn_db::open);
    let stop = AtomicBool::new(false);
    let written: [AtomicUsize; THREADS] = Default::default();
    thread::scope(|scope| {
        for (thread, written) in written.iter().enumerate() {
            let (primary, stop) = (&primary, &stop);
            scope.spawn(move || writer(primary, thread, stop, written));
        }
        let follow = |name: &str, copies: bool| {
            let own = place.path().join(name);
            let db = open_in(&path, text, |request| match copies {
                true => cairn_follow::open_as_follower(request, &own),
                false => cairn_follow::open_as_secondary(request, &own),
            });
            // Reads run while another thread catches up.
            let over = AtomicBool::new(false);
            let mut last = [0; THREADS];
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut last = [0; THREADS];
                    while !over.load(Ordering::Relaxed) {
                        let now = numbers(&db);
                        assert!(now.iter().zip(&last).all(|(now, last)| now >= last));
                        last = now;
                    }
                });
                for _ in 0..40 {
                    let before = written.each_ref().map(|count| count.load(Ordering::SeqCst));
                    db.try_catch_up_with_primary().unwrap();
                    let now = numbers(&db);
                    assert!(now.iter().zip(&last).all(|(now, last)| now >= last));
                    assert!(now.iter().zip(&before).all(|(now, before)| now >= before));
                    last = now;
                    World::posix()
                        .clock
                        .sleep(std::time::Duration::from_millis(10));
                }
                over.store(true, Ordering::Relaxed);
            });
            // Closing while another thread catches up.
            thread::scope(|scope| {
                scope.spawn(|| {
                    if let Err(error) = db.try_catch_up_with_primary() {
                        assert_eq!(error.code(), Code::ShutdownInProgress);
                    }
                });
                db.close().unwrap();
            });
            last
        };
        let ends = thread::scope(|scope| {
            let a = scope.spawn(|| follow("secondary", false));
            let b = scope.spawn(|| follow("follower", true));
            [a.join(), b.join()]
        });
        stop.store(true, Ordering::Relaxed);
        for end in ends {
            assert!(end.unwrap().iter().all(|number| *number > 0));
        }
    });
    primary.close().unwrap();
}
