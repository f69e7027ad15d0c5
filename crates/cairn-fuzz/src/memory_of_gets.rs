//! Memory of awaited gets that wait for storage, in bytes per get, as counted by the allocator.
//!
//! A server has thousands of them. The buffers of the blocks, which the allocator does not count, come on top.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use cairn_db::{Db, OpenRequest, Value, open};
use cairn_options::{DbOptions, FamilyOptions, Options, ReadOptions};
use cairn_platform::{RemoteSettings, World};
use cairn_types::Result;

use crate::memory_limit::live;

/// The number of gets that wait.
const GETS: u32 = 1_000;

/// The number of entries, of 100 bytes each.
const ENTRIES: u32 = 20_000;

/// Bound on the memory of a waiting get, with its boxed future, in bytes.
const WAITING: usize = 1_500;

/// The latency of reads: longer than the test takes to start all gets.
const LATENCY: Duration = Duration::from_millis(200);

fn opened(path: &Path, world: World) -> Db {
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let text = "compression=kNoCompression;block_based_table_factory={no_block_cache=true}";
    let family = FamilyOptions::from_text(text).expect("it is valid");
    open(&OpenRequest {
        path,
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world,
    })
    .expect("it opens")
}

type Get<'a> = Pin<Box<dyn Future<Output = Result<Option<Value>>> + Send + 'a>>;

#[test]
fn the_memory_of_a_waiting_get_is_bounded() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    let db = opened(&path, World::posix());
    for n in 0..ENTRIES {
        db.put(&n.to_be_bytes(), &[n as u8; 100])
            .expect("it writes");
    }
    db.flush().expect("it flushes");
    db.close().expect("it closes");
    let slow = RemoteSettings {
        latency: LATENCY,
        queue_depth: GETS as usize,
        ..RemoteSettings::default()
    };
    let db = opened(&path, World::posix().remote(slow));
    let get = |n: u32| db.get((n * (ENTRIES / GETS)).to_be_bytes().as_slice());
    // Opens the table and builds the key words of its index.
    for n in 0..3 {
        assert!(get(n).expect("it reads").is_some());
    }
    let keys: Vec<_> = (0..GETS)
        .map(|n| (n * (ENTRIES / GETS)).to_be_bytes())
        .collect();
    let options = ReadOptions::default();
    let mut gets: Vec<Get<'_>> = Vec::with_capacity(keys.len());
    let mut context = Context::from_waker(Waker::noop());
    let before = live();
    for key in &keys {
        let mut get: Get<'_> = Box::pin(db.default_family().get_async(key, &options));
        assert!(get.as_mut().poll(&mut context).is_pending());
        gets.push(get);
    }
    let each = usize::try_from(live() - before).expect("gets allocate") / keys.len();
    assert!(each <= WAITING, "{each} bytes for a waiting get");
    drop(gets);
    db.close().expect("it closes");
}
