//! Reads the columns of a key with a get and an iterator, now or in a snapshot, and its current merge
//! operands: `columns default k0042 snap=1`.

use cairn_db::{Family, GetMergeOperandsOptions};
use cairn_options::ReadOptions;
use cairn_types::Code;

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
        let operands: Vec<Vec<u8>> = operands.iter().map(<[u8]>::to_vec).collect();
        self.limited(&family, &operands, &options)?;
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

    /// Reads the operands, which are `all`, with a function that ends the read, and with too low a limit.
    fn limited(
        &self,
        family: &Family,
        all: &[Vec<u8>],
        options: &ReadOptions,
    ) -> Result<(), Failure> {
        // Between two reads, a background job may merge operands.
        let unchanged = || -> Result<bool, Failure> {
            let again = family.get_merge_operands(&self.key, usize::MAX, options)?;
            Ok(again.iter().eq(all.iter().map(Vec::as_slice)))
        };
        for stop in [1, all.len().div_ceil(2), all.len()] {
            let mut calls = 0;
            let mut goes_on = |_: &[u8]| {
                calls += 1;
                calls != stop
            };
            let mut request = GetMergeOperandsOptions {
                continue_cb: Some(&mut goes_on),
                ..GetMergeOperandsOptions::default()
            };
            let newest = family.get_merge_operands_with(&self.key, &mut request, options)?;
            // The function is not called for the base value.
            let expected = match calls == stop {
                true => &all[all.len().saturating_sub(stop)..],
                false => all,
            };
            if !newest.iter().eq(expected.iter().map(Vec::as_slice)) && unchanged()? {
                return Err(Failure::wrong(format!(
                    "the newest {stop} of the operands {all:?} are {:?}",
                    newest.iter().collect::<Vec<_>>()
                )));
            }
        }
        if all.is_empty() {
            return Ok(());
        }
        let mut request = GetMergeOperandsOptions {
            expected_max_number_of_operands: all.len() - 1,
            ..GetMergeOperandsOptions::default()
        };
        let found = family.get_merge_operands_with(&self.key, &mut request, options);
        let is_incomplete = match found {
            Err(error) if error.code() != Code::Incomplete => return Err(error.into()),
            found => found.is_err(),
        };
        let is_kept = is_incomplete && request.number_of_operands == all.len();
        match is_kept || !unchanged()? {
            true => Ok(()),
            false => Err(Failure::wrong("a limit of operands is not kept")),
        }
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
