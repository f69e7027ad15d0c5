//! Scans with an iterator: `scan default back from=k5 lower=k1 upper=k9 limit=7 snap=1`.

use super::{Kind, Operation, Promise};
use crate::compare::same_entries;
use crate::line::{named, named_key};
use crate::run::{Failure, Runner};
use crate::script::Op;

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "scan",
    words: &["scan"],
    weight: 10,
    switch: Some("scan"),
    read: |line| {
        Ok(Op::new(ScanOp {
            family: line.word(0)?.to_owned(),
            scan: Scan {
                direction: match line.has("back") {
                    true => Direction::Backward,
                    false => Direction::Forward,
                },
                from: line.key("from"),
                lower: line.key("lower"),
                upper: line.key("upper"),
                limit: line.number("limit")?.unwrap_or(usize::MAX),
            },
            snapshot: line.number("snap")?,
        }))
    },
    generate: |generator| {
        let family = generator.family();
        let direction = match generator.rng.chance(1, 2) {
            true => Direction::Forward,
            false => Direction::Backward,
        };
        let scan = Scan {
            direction,
            from: generator.bound(),
            lower: generator.bound(),
            upper: generator.bound(),
            limit: *generator.rng.pick(&[1, 5, usize::MAX]),
        };
        Some(Op::new(ScanOp {
            family,
            scan,
            snapshot: generator.readable_snapshot(),
        }))
    },
};

/// Direction of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From `from` (or the first key) to greater keys.
    #[default]
    Forward,
    /// From `from` (or the last key) to smaller keys.
    Backward,
}

/// A scan of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The direction.
    pub direction: Direction,
    /// The start: at or after this key forward, at or before it backward.
    pub from: Option<Vec<u8>>,
    /// The iterator's lower bound.
    pub lower: Option<Vec<u8>>,
    /// The iterator's exclusive upper bound.
    pub upper: Option<Vec<u8>>,
    /// Maximum number of entries.
    pub limit: usize,
}

impl Scan {
    /// A scan of everything in this direction.
    #[must_use]
    pub fn all(direction: Direction) -> Scan {
        Scan {
            direction,
            from: None,
            lower: None,
            upper: None,
            limit: usize::MAX,
        }
    }
}

#[derive(Debug)]
struct ScanOp {
    family: String,
    scan: Scan,
    snapshot: Option<u64>,
}

impl Operation for ScanOp {
    fn line(&self) -> String {
        let scan = &self.scan;
        let back = match scan.direction {
            Direction::Forward => "",
            Direction::Backward => " back",
        };
        let limit = (scan.limit != usize::MAX).then(|| scan.limit.to_string());
        [
            format!("scan {}{back}", self.family),
            named_key("from", &scan.from),
            named_key("lower", &scan.lower),
            named_key("upper", &scan.upper),
            named("limit", limit),
            named("snap", self.snapshot.map(|number| number.to_string())),
        ]
        .concat()
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let (name, moment) = runner.moment(self.snapshot)?;
        let found = runner.engine()?.scan(&self.family, &self.scan, name)?;
        runner.agree(
            &found,
            |model| model.scan(&self.family, &self.scan, moment),
            |expected, found| {
                let difference = same_entries(expected, found).err();
                difference.map_or_else(String::new, |failure| failure.to_string())
            },
        )?;
        Ok(Promise::Nothing)
    }
}
