//! Secondary instances and followers of a primary in the simulator, and of one on real files.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod copied;
mod hostile;
mod live;
mod panics;
mod steps;
mod watched;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, Iter, OpenRequest, WriteBatch};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, World};
use cairn_sim::{Rng, SimExecutor, SimWorld};
use cairn_types::Result;

const PRIMARY: &str = "/primary";
const SECONDARY: &str = "/secondary";
/// The families of the tests.
const FAMILIES: [&str; 2] = ["default", "other"];
/// The key in every family with the number of the last batch.
const COUNT: &[u8] = b"!count";

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;
/// The content of both families.
type Content = [Entries; 2];

/// Options from text.
fn options(text: &str) -> (DbOptions, FamilyOptions) {
    let mut db = DbOptions::default();
    let mut family = FamilyOptions::default();
    cairn_options::apply_mixed(&mut db, &mut family, text).unwrap();
    db.create_if_missing = true;
    db.create_missing_column_families = true;
    (db, family)
}

/// Calls `open` with a request for both families.
fn request<T>(
    world: &World,
    path: &Path,
    text: &str,
    open: impl FnOnce(&OpenRequest<'_>) -> Result<T>,
) -> Result<T> {
    let (db, family) = options(text);
    let families = FAMILIES.map(|name| FamilyDescriptor::new(name, family.clone()));
    open(&OpenRequest {
        path,
        options: &db,
        families: &families,
        others: None,
        read_only: false,
        world: world.clone(),
    })
}

fn open_primary(world: &World, text: &str) -> Result<Db> {
    request(world, PRIMARY.as_ref(), text, |request| {
        let others = FamilyOptions::default();
        cairn_db::open(&OpenRequest {
            others: Some(&others),
            world: request.world.clone(),
            ..*request
        })
    })
}

fn open_secondary(world: &World, text: &str) -> Result<Db> {
    request(world, PRIMARY.as_ref(), text, |request| {
        cairn_follow::open_as_secondary(request, SECONDARY.as_ref())
    })
}

fn open_follower(world: &World, text: &str) -> Result<Db> {
    request(world, PRIMARY.as_ref(), text, |request| {
        cairn_follow::open_as_follower(request, SECONDARY.as_ref())
    })
}

/// Another process on the disk of `sim`.
fn process(sim: &SimWorld, seed: u64) -> World {
    World {
        executor: Arc::new(SimExecutor::with_clock(seed, sim.clock.clone())),
        ..sim.world.clone()
    }
}

/// The files of a primary that is closed, by name.
struct Saved(Vec<(String, Vec<u8>)>);

impl Saved {
    fn of_primary(fs: &dyn FileSystem) -> Saved {
        let read = |name: String| {
            let path = Path::new(PRIMARY).join(&name);
            let file = fs.open(&path, FileMode::default()).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_up_to_end(0, &mut bytes).unwrap();
            (name, bytes)
        };
        Saved(Saved::names(fs).into_iter().map(read).collect())
    }

    /// The names of the primary's files, except those that a backup leaves out.
    fn names(fs: &dyn FileSystem) -> Vec<String> {
        let mut names = fs.list(PRIMARY.as_ref()).unwrap();
        names.retain(|name| name != "LOCK" && !name.starts_with("LOG"));
        names
    }

    /// Replaces the files of the primary, which is closed.
    fn restore(&self, fs: &dyn FileSystem) {
        for name in Saved::names(fs) {
            fs.remove(&Path::new(PRIMARY).join(name)).unwrap();
        }
        for (name, bytes) in &self.0 {
            let path = Path::new(PRIMARY).join(name);
            let file = fs.create(&path, FileMode::default()).unwrap();
            file.append(bytes).unwrap();
            file.close().unwrap();
        }
    }
}

/// Writes a value to some keys of a primary, each in a table of its own, and closes it.
fn write_and_close(primary: Db, value: &[u8]) {
    for key in [b"a", b"b"] {
        primary.put(key, value).unwrap();
        primary.flush().unwrap();
    }
    primary.close().unwrap();
}

/// Returns the content of both families.
fn content(db: &Db) -> Result<Content> {
    let families = FAMILIES.map(|name| db.family(name).unwrap());
    let [a, b] = &families;
    let mut found = Content::default();
    let iterators = db.iterators(&[a, b], &cairn_options::ReadOptions::default())?;
    for (mut iter, entries) in iterators.into_iter().zip(&mut found) {
        iter.seek_to_first();
        *entries = rest(&mut iter)?;
    }
    Ok(found)
}

/// Returns the entries from the position of `iter` on.
fn rest(iter: &mut Iter) -> Result<Entries> {
    let mut entries = Entries::new();
    while iter.valid() {
        entries.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next();
    }
    iter.status()?;
    Ok(entries)
}

/// Returns the number of the last batch in `content`.
fn count_of(content: &Content) -> usize {
    let count = |entries: &Entries| {
        let value = entries.get(COUNT);
        value.map_or(0, |value| String::from_utf8_lossy(value).parse().unwrap())
    };
    let [a, b] = [0, 1].map(|at| count(&content[at]));
    assert_eq!(a, b, "both families have the same batches");
    a
}

/// The batches of a primary, and the content after each.
#[derive(Default)]
struct History {
    states: Vec<Content>,
    /// The number of the batch that the primary is writing, or of the last one.
    begun: usize,
}

/// Writes batches to a primary.
struct Writer {
    history: Arc<Mutex<History>>,
    rng: Rng,
}

impl Writer {
    fn new(seed: u64) -> Writer {
        let history = History {
            states: vec![Content::default()],
            begun: 0,
        };
        Writer {
            history: Arc::new(Mutex::new(history)),
            rng: Rng::new(seed),
        }
    }

    /// Writes the next batch, of `most` entries or fewer.
    fn write(&mut self, db: &Db, most: usize) -> Result<()> {
        let families = FAMILIES.map(|name| db.family(name).unwrap());
        let mut batch = WriteBatch::default();
        let (number, mut next) = {
            let mut history = self.history.lock();
            history.begun = history.states.len();
            (history.begun, history.states.last().unwrap().clone())
        };
        for _ in 0..=self.rng.below(most) {
            let at = self.rng.below(2);
            let key = format!("key{:03}", self.rng.below(60)).into_bytes();
            match self.rng.below(8) {
                0 => {
                    batch.delete_in(&families[at], &key);
                    next[at].remove(&key);
                }
                1 => {
                    let end = format!("key{:03}", self.rng.below(60)).into_bytes();
                    if key < end {
                        batch.delete_range_in(&families[at], &key, &end);
                        next[at].retain(|it, _| *it < key || *it >= end);
                    }
                }
                _ => {
                    let len = self.rng.below(3) * self.rng.below(200);
                    let value = format!("{number}{}", "x".repeat(len));
                    batch.put_in(&families[at], &key, value.as_bytes());
                    next[at].insert(key, value.into_bytes());
                }
            }
        }
        for (family, entries) in families.iter().zip(&mut next) {
            let count = number.to_string().into_bytes();
            batch.put_in(family, COUNT, &count);
            entries.insert(COUNT.to_vec(), count);
        }
        self.history.lock().states.push(next);
        // After an error it may be recovered or not.
        db.write(&batch)
    }
}

/// Checks that a content is that after some batch, and no later than the one that is being written. Returns its
/// number.
fn check_prefix(found: &Content, history: &History) -> usize {
    let count = count_of(found);
    assert!(count <= history.begun, "batch {count} was not written yet");
    assert!(
        *found == history.states[count],
        "the content is not that of batch {count}"
    );
    count
}
