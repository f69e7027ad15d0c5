//! Temperatures reach the file system, and reads are counted by temperature.

use std::path::Path;
use std::sync::Arc;

use cairn_db::Db;
use cairn_observe::statistics::{Keeping, Statistics, StatsLevel, Ticker};
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions, Options, Temperature};
use cairn_platform::fs::{FileMode, RandomAccessFile, Status, WritableFile};
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, World, wrapper};
use cairn_sim::SimWorld;
use cairn_types::Result;

use crate::basic::{db_options, open_with};
use crate::errors::after_power_cut;

/// The temperatures with which files are created and opened: the call, the suffix of the name, the temperature.
type Seen = (&'static str, String, u8);

/// A file system that places files.
struct Placing {
    fs: Arc<dyn FileSystem>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Placing {
    fn see(&self, call: &'static str, path: &Path, mode: FileMode) {
        let end = path.extension().unwrap_or_default();
        let seen = (call, end.to_string_lossy().into_owned(), mode.temperature);
        self.seen.lock().push(seen);
    }
}

impl wrapper::FileSystemWrapper for Placing {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.see("open", path, mode);
        self.fs.open(path, mode)
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.see("create", path, mode);
        self.fs.create(path, mode)
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_append(path, mode)
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_overwrite(path, mode)
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }
}

/// A database on a file system that places files.
struct Placed {
    db: Db,
    seen: Arc<Mutex<Vec<Seen>>>,
    statistics: Arc<Statistics>,
}

impl Placed {
    fn open(sim: &SimWorld, options: DbOptions, family: &str) -> Placed {
        let seen = Arc::new(Mutex::default());
        let world = World {
            fs: Arc::new(Placing {
                fs: sim.world.fs.clone(),
                seen: seen.clone(),
            }),
            ..sim.world.clone()
        };
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
        let options = DbOptions {
            statistics: Keeping::Shared(statistics.clone()),
            ..options
        };
        let family = FamilyOptions::from_text(family).expect("valid options");
        Placed {
            db: open_with(&world, &options, &family).expect("it opens"),
            seen,
            statistics,
        }
    }

    /// The temperatures of the calls of a kind for files with this suffix, since the last question.
    fn temperatures(&self, call: &str, end: &str) -> Vec<u8> {
        let mut seen = self.seen.lock();
        let found = seen
            .iter()
            .filter(|(of, name, _)| *of == call && name == end)
            .map(|(_, _, temperature)| *temperature)
            .collect();
        seen.retain(|(of, name, _)| *of != call || name != end);
        found
    }

    /// The reads of files at each temperature: count and bytes.
    fn reads(&self) -> [(u64, u64); 5] {
        [
            (Ticker::HotFileReadCount, Ticker::HotFileReadBytes),
            (Ticker::WarmFileReadCount, Ticker::WarmFileReadBytes),
            (Ticker::CoolFileReadCount, Ticker::CoolFileReadBytes),
            (Ticker::ColdFileReadCount, Ticker::ColdFileReadBytes),
            (Ticker::IceFileReadCount, Ticker::IceFileReadBytes),
        ]
        .map(|(count, bytes)| (self.statistics.ticker(count), self.statistics.ticker(bytes)))
    }

    /// True for each temperature of which files were read.
    fn is_read(&self) -> [bool; 5] {
        self.reads().map(|(count, bytes)| {
            assert_eq!(count > 0, bytes > 0);
            count > 0
        })
    }
}

const TIERS: &str = "num_levels=3;default_write_temperature=kWarm;last_level_temperature=kCold";

#[test]
fn files_are_created_and_opened_with_their_temperatures() {
    let sim = SimWorld::new(1);
    let options = DbOptions {
        wal_write_temperature: Temperature::Hot,
        ..db_options()
    };
    let placed = Placed::open(&sim, options, TIERS);
    let db = &placed.db;
    assert_eq!(placed.temperatures("create", "log"), [4]);
    for value in [b"1", b"2"] {
        db.put(b"a", value).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(placed.temperatures("create", "sst"), [8, 8]);
    assert!(db.get(b"a").unwrap().is_some());
    let opened = placed.temperatures("open", "sst");
    assert!(
        !opened.is_empty() && opened.iter().all(|one| *one == 8),
        "{opened:?}"
    );
    assert_eq!(placed.is_read(), [false, true, false, false, false]);

    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(placed.temperatures("create", "sst"), [12]);
    placed.temperatures("open", "sst");
    assert!(db.get(b"a").unwrap().is_some());
    drop(placed);

    // The temperatures are those in the MANIFEST, also after a power failure.
    let sim = after_power_cut(&sim);
    let placed = Placed::open(&sim, db_options(), "num_levels=3;default_temperature=kIce");
    placed.db.put(b"b", b"1").unwrap();
    placed.db.flush().unwrap();
    assert_eq!(placed.temperatures("create", "sst"), [0]);
    assert!(placed.db.get(b"a").unwrap().is_some());
    let opened = placed.temperatures("open", "sst");
    assert!(opened.contains(&12) && !opened.contains(&8), "{opened:?}");
    assert_eq!(placed.temperatures("create", "log")[0], 0);
}

#[test]
fn reads_of_tables_without_a_temperature_count_for_the_default_one() {
    let sim = SimWorld::new(2);
    for (family, expected) in [
        ("num_levels=3", [false; 5]),
        (
            "num_levels=3;default_temperature=kIce",
            [false, false, false, false, true],
        ),
    ] {
        let placed = Placed::open(&sim, db_options(), family);
        placed.db.put(b"a", b"1").unwrap();
        placed.db.flush().unwrap();
        assert!(placed.db.get(b"a").unwrap().is_some());
        assert_eq!(placed.is_read(), expected, "{family}");
        let reads = placed.statistics.ticker(Ticker::NonLastLevelReadCount);
        assert!(reads > 0);
        if expected[4] {
            assert_eq!(placed.reads()[4].0, reads);
        }
        // The file system receives the recorded one.
        assert!(
            placed
                .temperatures("open", "sst")
                .iter()
                .all(|one| *one == 0)
        );
    }
}
