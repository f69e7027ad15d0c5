//! Takes and releases snapshots: `snapshot 1`, `release 1`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "snapshot",
    words: &["snapshot", "release"],
    weight: 4,
    switch: Some("snapshot"),
    read: |line| {
        let number = line.number_at(0)?;
        Ok(match line.kind() {
            "snapshot" => Op::new(Take(number)),
            _ => Op::new(Release(number)),
        })
    },
    generate: |generator| {
        let oldest = generator.snapshots.first().copied();
        Some(match oldest {
            Some(oldest) if generator.snapshots.len() >= 3 || generator.rng.chance(1, 3) => {
                generator.snapshots.remove(&oldest);
                Op::new(Release(oldest))
            }
            _ => Op::new(Take(generator.new_snapshot())),
        })
    },
};

/// Takes a snapshot with this number.
#[derive(Debug)]
struct Take(u64);

impl Operation for Take {
    fn line(&self) -> String {
        format!("snapshot {}", self.0)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let name = runner.engine()?.snapshot()?;
        let moment = runner.model().now();
        runner.snapshots.insert(self.0, (name, moment));
        Ok(Promise::Nothing)
    }
}

/// Releases the snapshot with this number.
#[derive(Debug)]
struct Release(u64);

impl Operation for Release {
    fn line(&self) -> String {
        format!("release {}", self.0)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        if let Some((name, _)) = runner.snapshots.remove(&self.0) {
            runner.engine()?.release(name);
        }
        Ok(Promise::Nothing)
    }
}
