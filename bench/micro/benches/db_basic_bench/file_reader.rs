//! `RandomAccessFileReaderRead`: reads of a third of a page from each of ten files in turn, with and without statistics.

use std::env;
use std::hint::black_box;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use cairn::World;
use cairn::observe::{Statistics, StatsLevel};
use cairn_bench::key_value_gen::Rng;
use cairn_observe::files::{ReadOf, counted_reads};
use cairn_observe::statistics::Meter;
use cairn_platform::RandomAccessFile;
use cairn_platform::fs::FileMode;

use crate::keys::random_text;
use crate::support::{Case, Sampling, name, run as run_case, timed};

const FILES: usize = 10;
const PAGE: usize = 4096;

struct FileReads {
    dir: PathBuf,
    files: Vec<Arc<dyn RandomAccessFile>>,
    next: usize,
}

impl FileReads {
    fn new(enable_statistics: bool) -> FileReads {
        let parent = env::var_os("TEST_TMPDIR").map_or_else(env::temp_dir, PathBuf::from);
        let dir = parent.join(format!("random-access-file-reader-read{}", process::id()));
        std::fs::create_dir_all(&dir).expect("the directory can be created");
        let world = World::posix();
        let statistics = || Arc::new(Statistics::new(StatsLevel::ExceptDetailedTimers));
        let meter = Meter::new(enable_statistics.then(statistics), world.clock.clone());
        let (mut random, mut content) = (Rng::new(301), [0; PAGE]);
        let file = |number| {
            let path = dir.join(format!("{number}"));
            random_text(&mut random, &mut content);
            std::fs::write(&path, content).expect("the file can be written");
            let opened = world.fs.open(&path, FileMode::default());
            let last_level = number % 3 == 1;
            counted_reads(
                opened.expect("the file can be opened"),
                &meter,
                ReadOf::Table {
                    last_level,
                    temperature: 0,
                },
            )
        };
        let files = (0..FILES).map(file).collect();
        FileReads {
            dir,
            files,
            next: 0,
        }
    }
}

impl Case for FileReads {
    fn run(&mut self, operations: u64) -> Duration {
        let mut scratch = [0; PAGE / 3];
        timed(operations, || {
            self.next = (self.next + 1) % FILES;
            let read = self.files[self.next].read_at(0, &mut scratch);
            assert_eq!(black_box(read).expect("the file is read"), PAGE / 3);
        })
    }
}

impl Drop for FileReads {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("{} could not be removed: {error}", self.dir.display());
        }
    }
}

pub fn run() {
    for enable_statistics in [0, 1] {
        let parameters = [("enable_statistics", enable_statistics)];
        let case = name("RandomAccessFileReaderRead", &parameters);
        run_case(&case, Sampling::Timed, || {
            FileReads::new(enable_statistics == 1)
        });
    }
}
