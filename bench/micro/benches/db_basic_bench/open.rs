//! Opening and closing a database that grows by two tables between the samples.

use std::time::Duration;

use cairn::Options;
use cairn_bench::key_value_gen::Rng;

use crate::database::Database;
use crate::keys::random_text;
use crate::support::{Case, Sampling, run as run_case};

/// The number of samples, and of opens of the database.
const OPENS: usize = 200;

/// The operation that is measured.
#[derive(Clone, Copy, PartialEq)]
enum Measured {
    Open,
    Close,
}

struct Reopened {
    database: Database,
    random: Rng,
    measured: Measured,
}

impl Reopened {
    fn new(name: &str, measured: Measured) -> Reopened {
        let mut database = Database::create(name, Options::default().create_if_missing(true));
        database.close();
        Reopened {
            database,
            random: Rng::new(123),
            measured,
        }
    }

    /// Flushes two tables of a hundred entries.
    fn grow(&mut self) {
        let (mut key, mut value) = ([0; 10], [0; 100]);
        for _ in 0..2 {
            for _ in 0..100 {
                random_text(&mut self.random, &mut key);
                random_text(&mut self.random, &mut value);
                let written = self.database.db().put(&key, &value);
                written.expect("the entry can be written");
            }
            let flushed = self.database.db().flush();
            flushed.expect("the database can be flushed");
        }
    }
}

impl Case for Reopened {
    fn run(&mut self, operations: u64) -> Duration {
        let mut time = Duration::ZERO;
        for _ in 0..operations {
            let opened = self.database.open();
            self.grow();
            let closed = self.database.close();
            time += match self.measured {
                Measured::Open => opened,
                Measured::Close => closed,
            };
        }
        time
    }
}

/// Runs the cases `DBOpen` and `DBClose`.
pub fn run() {
    for (name, measured) in [("DBOpen", Measured::Open), ("DBClose", Measured::Close)] {
        let case = format!("{name}/iterations:{OPENS}");
        run_case(&case, Sampling::Single(OPENS), || {
            Reopened::new(name, measured)
        });
    }
}
