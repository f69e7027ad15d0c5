//! Manual compactions that do not change content: `steer level default 0 3` moves the result to a
//! level, `steer file default 2 1` compacts one table into a level.

use cairn_format::names::FileName;
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, Temperature,
};
use cairn_types::{Code, Result};

use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::line::wrong;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "steer",
    words: &["steer"],
    weight: 2,
    switch: Some("steer"),
    read: |line| {
        let way = WAYS.into_iter().find(|way| Ok(*way) == line.word(0));
        Ok(Op::new(Steer {
            way: way.ok_or_else(|| wrong("missing mode", line.rest()))?,
            family: line.word(1)?.to_owned(),
            table: line.number_at(2)?,
            level: line.number_at(3)?,
        }))
    },
    generate: |generator| {
        Some(Op::new(Steer {
            way: WAYS[generator.rng.below(WAYS.len())],
            family: generator.family(),
            table: generator.rng.below(8),
            level: generator.rng.below(5),
        }))
    },
};

const WAYS: [&str; 6] = ["level", "alone", "parts", "suggest", "file", "promote"];

#[derive(Debug)]
struct Steer {
    way: &'static str,
    family: String,
    table: usize,
    level: usize,
}

impl Steer {
    fn carry_out(&self, cairn: &Cairn) -> Result<()> {
        let family = cairn.family(&self.family)?;
        let forced = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        match self.way {
            "level" => family.compact_range(
                None,
                None,
                &CompactRangeOptions {
                    change_level: true,
                    target_level: i32::try_from(self.level).unwrap_or(0) - 1,
                    ..forced
                },
            ),
            "alone" => family.compact_range(
                None,
                None,
                &CompactRangeOptions {
                    exclusive_manual_compaction: true,
                    allow_write_stall: true,
                    ..forced
                },
            ),
            "parts" => family.compact_range(
                None,
                None,
                &CompactRangeOptions {
                    max_subcompactions: 4,
                    ..forced
                },
            ),
            "suggest" => family.suggest_compact_range(None, None),
            "promote" => family.promote_level_zero(self.level),
            _ => self.compact_file(cairn, &family),
        }
    }

    fn compact_file(&self, cairn: &Cairn, family: &cairn_db::Family) -> Result<()> {
        let names = cairn.world.fs.list(&cairn.dir)?;
        let is_table = |name: &&String| matches!(FileName::parse(name), Some(FileName::Table(_)));
        let mut tables: Vec<&String> = names.iter().filter(is_table).collect();
        tables.sort();
        let Some(name) = tables.get(self.table) else {
            return Ok(());
        };
        let options = CompactionOptions {
            allow_trivial_move: self.table % 2 == 1,
            output_file_size_limit: 4096,
            output_temperature_override: match self.table % 3 {
                0 => Temperature::Cold,
                _ => Temperature::Unknown,
            },
            ..CompactionOptions::default()
        };
        let done = family.compact_files(&options, &[name], self.level, None);
        done.map(drop)
    }
}

impl Operation for Steer {
    fn line(&self) -> String {
        let Steer {
            way,
            family,
            table,
            level,
        } = self;
        format!("steer {way} {family} {table} {level}")
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let Some(cairn) = runner.engine()?.cairn() else {
            return Ok(Promise::Nothing);
        };
        match self.carry_out(cairn) {
            // The request may be invalid: a table of another family, or a level that does not exist or
            // is not empty.
            Err(error)
                if matches!(
                    error.code(),
                    Code::InvalidArgument | Code::NotSupported | Code::Aborted
                ) && cairn.db.background_error().is_none() =>
            {
                Ok(Promise::Nothing)
            }
            result => Ok(result.map(|()| Promise::Nothing)?),
        }
    }
}
