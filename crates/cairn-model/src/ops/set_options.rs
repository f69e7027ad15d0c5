//! Changes options of the open database and checks that they are in effect and in the newest OPTIONS
//! file, and that properties are consistent: `setoptions f0 ttl=3600;write_buffer_size=65536`,
//! `setoptions - max_background_jobs=3` for the database.

use std::path::Path;

use cairn_options::Options;

use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::options::pairs;
use crate::runner::{DIR, Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "setoptions",
    words: &["setoptions"],
    weight: 1,
    switch: Some("setoptions"),
    read: |line| {
        Ok(Op::new(SetOptions {
            family: Some(line.word(0)?.to_owned()).filter(|name| name != "-"),
            changes: line.word(1)?.to_owned(),
        }))
    },
    generate: |generator| {
        let db = generator.rng.chance(1, 3);
        let family = (!db).then(|| generator.family());
        let choices = if db { DB } else { FAMILY };
        let mut changes: Vec<String> = Vec::new();
        for _ in 0..=generator.rng.below(2) {
            let (name, values) = *generator.rng.pick(choices);
            let value = *generator.rng.pick(values);
            changes.push(format!("{name}={value}"));
        }
        let changes = changes.join(";");
        Some(Op::new(SetOptions { family, changes }))
    },
};

type Choices = &'static [(&'static str, &'static [&'static str])];

/// Family options that do not change reads.
const FAMILY: Choices = &[
    ("write_buffer_size", &["65536", "131072", "262144"]),
    (
        "level0_file_num_compaction_trigger",
        // If the number of files triggers no compaction, it must not stop writes either.
        &["1", "2", "5", "-1;level0_stop_writes_trigger=1000000"],
    ),
    ("disable_auto_compactions", &["true", "false"]),
    (
        "compression",
        &["kNoCompression", "kSnappyCompression", "kZSTD"],
    ),
    ("compression_opts.level", &["1", "5"]),
    ("max_bytes_for_level_base", &["4096", "65536"]),
    ("target_file_size_base", &["2048", "16384"]),
    ("max_compaction_bytes", &["8192", "1048576"]),
    ("max_sequential_skip_in_iterations", &["0", "1", "8"]),
    (
        "block_based_table_factory",
        &["{block_size=512}", "{block_size=8192}"],
    ),
    ("table_factory.block_restart_interval", &["1", "3", "16"]),
    ("ttl", &["0", "3600"]),
    ("preserve_internal_time_seconds", &["0", "1", "100"]),
];

const DB: Choices = &[
    ("max_background_jobs", &["1", "2", "4"]),
    ("max_subcompactions", &["1", "3"]),
    ("max_open_files", &["-1", "20", "25"]),
    ("bytes_per_sync", &["1", "4096"]),
    ("wal_bytes_per_sync", &["0", "512"]),
    ("delayed_write_rate", &["1048576", "16777216"]),
    ("compaction_readahead_size", &["0", "4096"]),
    ("max_total_wal_size", &["0", "16384"]),
    ("stats_dump_period_sec", &["0", "1"]),
];

#[derive(Debug)]
struct SetOptions {
    /// The family; `None` for database options.
    family: Option<String>,
    changes: String,
}

impl Operation for SetOptions {
    fn line(&self) -> String {
        let family = self.family.as_deref().unwrap_or("-");
        format!("setoptions {family} {}", self.changes)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let Some(cairn) = runner.engine()?.cairn() else {
            return Ok(Promise::Nothing);
        };
        let world = cairn.world.clone();
        let changes: Vec<(&str, &str)> = pairs(&self.changes)
            .into_iter()
            .filter_map(|pair| pair.split_once('='))
            .collect();
        match &self.family {
            Some(family) => cairn.family(family)?.set_options(&changes)?,
            None => cairn.db.set_db_options(&changes)?,
        }
        let file = cairn_db::load_latest_options(Path::new(DIR), false, &world)?;
        for (name, _) in changes
            .iter()
            .filter(|(name, _)| !name.contains(['.', '{']))
        {
            let (now, written) = match &self.family {
                Some(family) => {
                    let written = file.family(family);
                    let written =
                        written.ok_or_else(|| Failure::wrong("the OPTIONS file lacks a family"))?;
                    let options = cairn.family(family)?.options();
                    // The block cache of a table has no text form.
                    if *name == "block_based_table_factory" {
                        continue;
                    }
                    (options.get(name)?, written.get(name)?)
                }
                None => (cairn.db.options().get(name)?, file.db.get(name)?),
            };
            if now != written {
                return Err(Failure::wrong(format!(
                    "{name} is {now}, but {written} in the newest OPTIONS file"
                )));
            }
        }
        check_properties(cairn)?;
        Ok(Promise::Nothing)
    }
}

/// Checks properties for contradictions.
fn check_properties(cairn: &Cairn) -> Result<(), Failure> {
    for family in cairn.db.families() {
        let number = |name: &str| {
            let name = format!("rocksdb.{name}");
            family
                .property_number(&name)
                .ok_or_else(|| Failure::wrong(format!("no {name}")))
        };
        // Jobs may run between two reads of properties, so only invariants that always hold are
        // checked.
        for (less, more) in [
            ("live-sst-files-size", "total-sst-files-size"),
            ("cur-size-active-mem-table", "cur-size-all-mem-tables"),
            (
                "num-deletes-active-mem-table",
                "num-entries-active-mem-table",
            ),
        ] {
            let (low, high) = (number(less)?, number(more)?);
            if low > high && number(less)? > number(more)? {
                return Err(Failure::wrong(format!(
                    "{less} is {low}, but {more} is {high}"
                )));
            }
        }
        let stats = family.property("rocksdb.stats").unwrap_or_default();
        if !stats.contains("\n Sum ") || number("num-live-versions")? == 0 {
            return Err(Failure::wrong(format!("inconsistent statistics: {stats}")));
        }
    }
    Ok(())
}
