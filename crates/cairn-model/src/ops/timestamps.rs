//! Reads the past of families with timestamps, whose writes have their moments as timestamps, and drops it: `past
//! default at=17`, `versions default from=3 at=17` (all versions in a range of timestamps), `forget default low=12`
//! (raises `full_history_ts_low`, at most to what the snapshots of the script need).

use cairn_options::ReadOptions;
use cairn_types::Code;

use crate::cairn::{Cairn, stamp};
use crate::compare::same_entries;
use crate::failure::Failure;
use crate::line::wrong;
use crate::model::{Model, MomentVersion};
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};
use crate::scan::{Direction, Entries, Scan};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "timestamps",
    words: &["past", "versions", "forget"],
    weight: 8,
    switch: None,
    read: |line| {
        let family = line.word(0)?.to_owned();
        let number = |name: &str| {
            let number = line.number(name)?;
            number.ok_or_else(|| wrong("missing moment", line.0))
        };
        Ok(match line.kind() {
            "past" => Op::new(Past(family, number("at")?)),
            "versions" => Op::new(Versions {
                family,
                from: number("from")?,
                at: number("at")?,
            }),
            _ => Op::new(Forget(family, number("low")?)),
        })
    },
    generate: |generator| {
        if !generator.has_timestamps() {
            return None;
        }
        let family = generator.family();
        let now = generator.model.now();
        let at = generator.rng.below(now + 2);
        Some(match generator.rng.below(5) {
            0 | 1 => Op::new(Past(family, at)),
            2 | 3 => Op::new(Versions {
                family,
                from: generator.rng.below(at + 1),
                at,
            }),
            _ => Op::new(Forget(family, at.saturating_sub(generator.rng.below(10)))),
        })
    },
};

/// Reads the state at a moment.
#[derive(Debug)]
struct Past(String, usize);

impl Operation for Past {
    fn line(&self) -> String {
        format!("past {} at={}", self.0, self.1)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let Past(family, at) = self;
        let known = runner.model().keys(family);
        let is_shown = shows_later_tables(runner.model(), family, *at);
        let Some(cairn) = with_timestamps(runner)? else {
            return Ok(Promise::Nothing);
        };
        if cairn.strips_timestamps() && is_shown {
            return Ok(Promise::Nothing);
        }
        let Some(found) = past(cairn, family, *at, &known)? else {
            return Ok(Promise::Nothing);
        };
        runner.agree(
            &found,
            |model| model.content(family, (*at).min(model.now())),
            |expected, found| {
                let difference = same_entries(expected, found).err();
                difference.map_or_else(String::new, |failure| failure.to_string())
            },
        )?;
        Ok(Promise::Nothing)
    }
}

/// Returns the content of `family` at the timestamp of `moment`, read forward, backward and by `keys`, which must
/// agree; `None` if that history is dropped, which reads must report.
///
/// # Errors
///
/// A disagreement of two reads, or an error of the engine.
pub fn past(
    cairn: &mut Cairn,
    family: &str,
    moment: usize,
    keys: &[Vec<u8>],
) -> Result<Option<Entries>, Failure> {
    let options = cairn.read_options_at(moment as u64);
    let oldest = cairn.oldest_moment(family)?;
    let handle = cairn.family(family)?;
    let content = |direction| cairn.content_with(family, &Scan::all(direction), &options);
    if moment < oldest {
        let codes = [
            content(Direction::Forward).err(),
            handle.get_with(b"k0001", &options).err(),
        ];
        let rejects = |error: &Option<cairn_types::Error>| {
            error.as_ref().map(|error| error.code()) == Some(Code::InvalidArgument)
        };
        return match codes.iter().all(rejects) {
            true => Ok(None),
            false => Err(Failure::wrong(format!(
                "a read at timestamp {moment}, below full_history_ts_low {oldest}, returns {codes:?}"
            ))),
        };
    }
    let found = content(Direction::Forward)?;
    let mut backward = content(Direction::Backward)?;
    backward.reverse();
    same_entries(&found, &backward)
        .map_err(|failure| failure.at(&format!("forward and backward scan at {moment}")))?;
    for key in keys {
        let got = handle.get_with_timestamp(key, &options)?;
        let scanned = found.iter().find(|(found, _)| found == key);
        if got.as_ref().map(|(value, _)| &**value) != scanned.map(|(_, value)| value.as_slice()) {
            return Err(Failure::wrong(format!(
                "key {} at timestamp {moment}: a scan and a get disagree",
                String::from_utf8_lossy(key)
            )));
        }
        let is_newer = |stamp: &[u8]| {
            let written = stamp.try_into().map_or(u64::MAX, u64::from_le_bytes);
            written > moment as u64
        };
        if got.is_some_and(|(_, stamp)| is_newer(&stamp)) {
            return Err(Failure::wrong(format!(
                "a get at timestamp {moment} returns a newer one"
            )));
        }
    }
    Ok(Some(found))
}

/// Reads the versions with timestamps in a range.
#[derive(Debug)]
struct Versions {
    family: String,
    from: usize,
    at: usize,
}

impl Operation for Versions {
    fn line(&self) -> String {
        let Versions { family, from, at } = self;
        format!("versions {family} from={from} at={at}")
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let Versions { family, from, at } = self;
        let is_shown = shows_later_tables(runner.model(), family, 0);
        let Some(cairn) = with_timestamps(runner)? else {
            return Ok(Promise::Nothing);
        };
        if cairn.strips_timestamps() && is_shown {
            return Ok(Promise::Nothing);
        }
        let oldest = cairn.oldest_moment(family)?;
        if *at < oldest {
            return Ok(Promise::Nothing);
        }
        // Of the versions below `full_history_ts_low`, only the newest is kept.
        let from = (*from).max(oldest);
        let found = self.read(cairn, from)?;
        runner.agree(
            &found,
            |model: &Model| model.versions(family, from, *at),
            |expected, found| {
                let only = |all: &[MomentVersion], others: &[MomentVersion]| -> Vec<String> {
                    let missing = all.iter().filter(|one| !others.contains(one));
                    missing
                        .map(|(key, moment, value)| {
                            let value = value.as_deref().map(String::from_utf8_lossy);
                            format!("{} at {moment}: {value:?}", String::from_utf8_lossy(key))
                        })
                        .collect()
                };
                format!(
                    "wrong versions: missing {:?}, found {:?}",
                    only(expected, found),
                    only(found, expected)
                )
            },
        )?;
        Ok(Promise::Nothing)
    }
}

impl Versions {
    /// Reads the versions since `from` in both directions, and with steps back and forth.
    fn read(&self, cairn: &Cairn, from: usize) -> Result<Vec<MomentVersion>, Failure> {
        let options = ReadOptions {
            iter_start_ts: Some(stamp(from as u64).to_vec()),
            ..cairn.read_options_at(self.at as u64)
        };
        let mut iter = cairn.family(&self.family)?.iter_with(&options);
        let version = |iter: &cairn_db::Iter| -> MomentVersion {
            let moment = iter.timestamp().try_into().map_or(0, u64::from_le_bytes);
            let value = (!iter.is_deletion()).then(|| iter.value().to_vec());
            (iter.key().to_vec(), moment as usize, value)
        };
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        iter.seek_to_first();
        while iter.valid() {
            let at = version(&iter);
            if forward.len() % 3 == 1 {
                iter.prev();
                if !iter.valid() || Some(&version(&iter)) != forward.last() {
                    iter.status()?;
                    return Err(Failure::wrong("a step back does not return to a version"));
                }
                iter.next();
                if !iter.valid() || version(&iter) != at {
                    iter.status()?;
                    return Err(Failure::wrong("a step forth does not return to a version"));
                }
            }
            forward.push(at);
            iter.next();
        }
        iter.status()?;
        iter.seek_to_last();
        while iter.valid() {
            backward.push(version(&iter));
            iter.prev();
        }
        iter.status()?;
        backward.reverse();
        match forward == backward {
            true => Ok(forward),
            false => Err(Failure::wrong(format!(
                "versions differ by direction: {} forward, {} backward",
                forward.len(),
                backward.len()
            ))),
        }
    }
}

/// Drops the history before a moment.
#[derive(Debug)]
struct Forget(String, usize);

impl Operation for Forget {
    fn line(&self) -> String {
        format!("forget {} low={}", self.0, self.1)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let Forget(family, low) = self;
        // Writes have newer timestamps.
        let low = runner.model().now().min(*low);
        let held = runner.snapshots.values().map(|(_, moment)| *moment).min();
        let low = held.map_or(low, |held| held.min(low));
        let Some(cairn) = with_timestamps(runner)? else {
            return Ok(Promise::Nothing);
        };
        let oldest = cairn.oldest_moment(family)?;
        let handle = cairn.family(family)?;
        let raised = handle.increase_full_history_ts_low(&stamp(low as u64));
        if low < oldest {
            return match raised {
                Ok(()) => Err(Failure::wrong("full_history_ts_low was lowered")),
                Err(error) if error.code() == Code::InvalidArgument => Ok(Promise::Nothing),
                Err(error) => Err(error.into()),
            };
        }
        raised?;
        Ok(Promise::Nothing)
    }
}

/// True if external tables were written to `family` after `moment`: without timestamps in tables, their entries have the
/// oldest one, and a read at `moment` shows them.
fn shows_later_tables(model: &Model, family: &str, moment: usize) -> bool {
    model.has_family(family) && model.was_ingested(model.number(family), moment, model.now())
}

/// The database, if its families have timestamps.
fn with_timestamps<'r>(runner: &'r mut Runner<'_>) -> Result<Option<&'r mut Cairn>, Failure> {
    let cairn = runner.engine()?.cairn();
    Ok(cairn.filter(|cairn| cairn.has_timestamps()))
}
