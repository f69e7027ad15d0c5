//! Reads the columns of a key with a get and an iterator, now or in a snapshot, and its current merge
//! operands: `columns default k0042 snap=1`.

use cairn_options::ReadOptions;

use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::line::{named, shown};
use crate::merge_kind::MergeKind;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};
use crate::scan::Entries;

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "columns",
    words: &["columns"],
    weight: 4,
    switch: Some("putentity"),
    read: |line| {
        Ok(Op::new(Columns {
            family: line.word(0)?.to_owned(),
            key: line.word(1)?.as_bytes().to_vec(),
            snapshot: line.number("snap")?,
        }))
    },
    generate: |generator| {
        Some(Op::new(Columns {
            family: generator.family(),
            key: generator.key(),
            snapshot: generator.readable_snapshot(),
        }))
    },
};

#[derive(Debug)]
struct Columns {
    family: String,
    key: Vec<u8>,
    snapshot: Option<u64>,
}

impl Operation for Columns {
    fn line(&self) -> String {
        let snapshot = named("snap", self.snapshot.map(|number| number.to_string()));
        format!("columns {} {}{snapshot}", self.family, shown(&self.key))
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let (name, moment) = runner.moment(self.snapshot)?;
        let Some(cairn) = runner.engine()?.cairn() else {
            return Ok(Promise::Nothing);
        };
        let options = cairn.read_options(name)?;
        let found = self.get(cairn, &options)?;
        if found != self.seek(cairn, &options)? {
            return Err(Failure::wrong(
                "a get and an iterator return different columns",
            ));
        }
        let family = cairn.family(&self.family)?;
        let operands = family.get_merge_operands(&self.key, usize::MAX, &options)?;
        let operands: Vec<Vec<u8>> = operands.iter().map(|value| value.to_vec()).collect();
        let value = family.get_with(&self.key, &options)?;
        let value = value.map(|value| value.to_vec());
        runner.agree(
            &found,
            |model| model.columns(&self.family, &self.key, moment),
            |expected, found| format!("expected {expected:?}, found {found:?}"),
        )?;
        let merge = runner.options().merge;
        match amounts_to(&operands, merge).contains(&value) {
            true => Ok(Promise::Nothing),
            false => Err(Failure::wrong(format!(
                "the operands {operands:?} do not merge to {value:?}"
            ))),
        }
    }
}

impl Columns {
    fn get(&self, cairn: &Cairn, options: &ReadOptions) -> Result<Option<Entries>, Failure> {
        let found = cairn.family(&self.family)?.get_entity(&self.key, options)?;
        Ok(found.map(|columns| owned(&columns)))
    }

    fn seek(&self, cairn: &Cairn, options: &ReadOptions) -> Result<Option<Entries>, Failure> {
        let mut iter = cairn.family(&self.family)?.iter_with(options);
        iter.seek(&self.key);
        iter.status()?;
        if !iter.valid() || iter.key() != self.key {
            return Ok(None);
        }
        Ok(iter.columns().map(|columns| owned(&columns)))
    }
}

fn owned(columns: &cairn_db::Columns) -> Entries {
    let pairs = columns.iter();
    pairs
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

/// Returns the possible results of the operands, of which the first is a base value or an operand.
fn amounts_to(operands: &[Vec<u8>], merge: MergeKind) -> Vec<Option<Vec<u8>>> {
    let Some((first, others)) = operands.split_first() else {
        return vec![None];
    };
    let fold = |first: Vec<u8>| {
        let all = others.iter();
        Some(all.fold(first, |value, operand| merge.apply(Some(&value), operand)))
    };
    vec![fold(first.clone()), fold(merge.apply(None, first))]
}
