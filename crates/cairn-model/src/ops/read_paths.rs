//! Reads keys through all other read paths, now or in a snapshot: a batch of gets, a refreshed
//! iterator, one of several iterators created together, a tailing iterator, and `key_may_exist`: `agree
//! default k0042 k0007 snap=1`.

use cairn_db::MayExist;
use cairn_options::ReadOptions;
use cairn_types::Result as CairnResult;

use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::line::{named, shown};
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "agree",
    words: &["agree"],
    weight: 6,
    switch: Some("get"),
    read: |line| {
        let words = line.rest().split_whitespace().skip(1);
        let keys = words.filter(|word| !word.contains('='));
        Ok(Op::new(Agree {
            family: line.word(0)?.to_owned(),
            keys: keys.map(|key| key.as_bytes().to_vec()).collect(),
            snapshot: line.number("snap")?,
        }))
    },
    generate: |generator| {
        let family = generator.family();
        let count = *generator.rng.pick(&[1, 3, 12]);
        Some(Op::new(Agree {
            family,
            keys: (0..count).map(|_| generator.key()).collect(),
            snapshot: generator.readable_snapshot(),
        }))
    },
};

#[derive(Debug)]
struct Agree {
    family: String,
    keys: Vec<Vec<u8>>,
    snapshot: Option<u64>,
}

type Values = Vec<Option<Vec<u8>>>;

impl Operation for Agree {
    fn line(&self) -> String {
        let keys: String = self
            .keys
            .iter()
            .map(|key| format!(" {}", shown(key)))
            .collect();
        let snapshot = named("snap", self.snapshot.map(|number| number.to_string()));
        format!("agree {}{keys}{snapshot}", self.family)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let (name, moment) = runner.moment(self.snapshot)?;
        let Some(cairn) = runner.engine()?.cairn() else {
            return Ok(Promise::Nothing);
        };
        let options = cairn.read_options(name)?;
        let found = self.read(cairn, &options)?;
        for (way, values) in &found {
            runner.agree(
                values,
                |model| {
                    let value = |key: &Vec<u8>| model.get(&self.family, key, moment);
                    self.keys.iter().map(value).collect()
                },
                |expected, found| {
                    let differs = expected.iter().zip(found).position(|(a, b)| a != b);
                    let key = differs.and_then(|at| self.keys.get(at));
                    format!(
                        "{way} returns a different value of {:?}",
                        key.map(|key| shown(key))
                    )
                },
            )?;
        }
        Ok(Promise::Nothing)
    }
}

impl Agree {
    /// Returns the values of the keys for each read path.
    fn read(
        &self,
        cairn: &mut Cairn,
        options: &ReadOptions,
    ) -> Result<Vec<(&'static str, Values)>, Failure> {
        let family = cairn.family(&self.family)?;
        let batch = family.multi_get(&self.keys, options);
        let batch: CairnResult<Values> = batch
            .into_iter()
            .map(|value| Ok(value?.map(|value| value.to_vec())))
            .collect();
        let batch = batch?;
        for (key, value) in self.keys.iter().zip(&batch) {
            let wrong = match family.key_may_exist(key, options) {
                MayExist::No => value.is_some(),
                MayExist::Perhaps => false,
                MayExist::Yes(found) => value.as_deref() != Some(&found[..]),
            };
            if wrong {
                return Err(Failure::wrong("key_may_exist contradicts multi_get"));
            }
        }
        let mut ways = vec![("a batch", batch)];
        let mut together = cairn.db.iterators(&[&family, &family], options)?;
        for iter in &mut together {
            ways.push(("one of several iterators", self.seek(iter)?));
        }
        let mut tailing = family.iter_with(&ReadOptions {
            tailing: options.snapshot.is_none(),
            auto_refresh_iterator_with_snapshot: true,
            ..options.clone()
        });
        ways.push(("a tailing iterator", self.seek(&mut tailing)?));
        if options.snapshot.is_none() {
            tailing.refresh()?;
            ways.push(("a refreshed iterator", self.seek(&mut tailing)?));
        }
        Ok(ways)
    }

    fn seek(&self, iter: &mut cairn_db::Iter) -> Result<Values, Failure> {
        let mut values = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            iter.seek(key);
            let found = iter.valid() && iter.key() == key;
            values.push(found.then(|| iter.value().to_vec()));
            iter.status()?;
        }
        Ok(values)
    }
}
