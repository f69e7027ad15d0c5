//! Scans with an iterator: `scan default back from=k5 lower=k1 upper=k9 limit=7 snap=1`.

use crate::compare::same_entries;
use crate::failure::Failure;
use crate::line::{named, named_key};
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};
use crate::scan::{Direction, Scan};

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
