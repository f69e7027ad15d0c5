//! Running a script on both sides, shrinking it, and its token.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::api::Api;
use super::differences::Difference;
use super::generate::script;
use super::ops::{Move, Op};
use super::sets::{self, Set};
use super::side::Side;

/// The two libraries, and where databases may lie.
pub struct Twins {
    /// RocksDB's library.
    pub rocksdb: Rc<Api>,
    /// Cairn's.
    pub cairn: Rc<Api>,
    /// An empty folder.
    pub folder: PathBuf,
    /// What may differ.
    pub accepted: Vec<Difference>,
    /// How often each of those did.
    pub met: Vec<u64>,
    /// True if every operation is printed.
    pub loud: bool,
}

/// What a script is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The set of options.
    pub set: String,
    /// The seed.
    pub seed: u64,
    /// How many operations are made.
    pub ops: usize,
    /// Those that stay, if not all.
    pub keep: Option<Vec<usize>>,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "twin:v1:set={}:seed={:#x}:ops={}",
            self.set, self.seed, self.ops
        )?;
        if let Some(keep) = &self.keep {
            let keep: Vec<String> = keep.iter().map(usize::to_string).collect();
            write!(f, ":keep={}", keep.join(","))?;
        }
        Ok(())
    }
}

impl Token {
    /// Reads a token.
    #[must_use]
    pub fn parse(text: &str) -> Option<Token> {
        let mut token = Token {
            set: String::new(),
            seed: 0,
            ops: 0,
            keep: None,
        };
        for part in text.strip_prefix("twin:v1:")?.split(':') {
            match part.split_once('=')? {
                ("set", set) => token.set = set.to_owned(),
                ("seed", seed) => {
                    token.seed = u64::from_str_radix(seed.strip_prefix("0x")?, 16).ok()?
                }
                ("ops", ops) => token.ops = ops.parse().ok()?,
                ("keep", keep) => {
                    let keep = keep.split(',').map(str::parse).collect::<Result<_, _>>();
                    token.keep = Some(keep.ok()?);
                }
                _ => return None,
            }
        }
        Some(token)
    }

    fn script(&self) -> Option<(&'static Set, Vec<(usize, Op)>)> {
        let set = sets::find(&self.set)?;
        let all = script(set, self.seed, self.ops).into_iter().enumerate();
        let kept = |at: &usize| self.keep.as_ref().is_none_or(|keep| keep.contains(at));
        Some((set, all.filter(|(at, _)| kept(at)).collect()))
    }
}

/// Where the two parted.
#[derive(Clone, Debug)]
pub struct Parting {
    /// The number of the operation.
    pub at: usize,
    /// The operation.
    pub op: String,
    /// RocksDB's answer.
    pub rocksdb: String,
    /// Cairn's answer.
    pub cairn: String,
    /// The words of errors on both sides.
    pub said: String,
}

impl Twins {
    /// Runs the script of `token`; where the two part, if they do.
    ///
    /// # Errors
    ///
    /// The token names no set, or a database cannot be made.
    pub fn run(&mut self, token: &Token) -> Result<Option<Parting>, String> {
        let (set, ops) = token.script().ok_or("there is no such set")?;
        let result = self.run_ops(set, &ops);
        // Only scratch: whatever is left of it is in the way.
        for entry in std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
        result
    }

    fn run_ops(
        &mut self,
        set: &'static Set,
        ops: &[(usize, Op)],
    ) -> Result<Option<Parting>, String> {
        let folder = |name: &str| Path::join(&self.folder, name);
        let mut left = Side::create("rocksdb", Rc::clone(&self.rocksdb), set, &folder("rocksdb"))?;
        let mut right = Side::create("cairn", Rc::clone(&self.cairn), set, &folder("cairn"))?;
        for (at, op) in ops {
            if let Some(parting) = self.both(&mut left, &mut right, *at, op) {
                return Ok(Some(parting));
            }
        }
        let (rocksdb, cairn) = (left.last_look(), right.last_look());
        Ok((rocksdb != cairn).then(|| Parting {
            at: ops.len(),
            op: "at the end".to_owned(),
            rocksdb,
            cairn,
            said: String::new(),
        }))
    }

    /// One operation on both sides.
    fn both(&mut self, left: &mut Side, right: &mut Side, at: usize, op: &Op) -> Option<Parting> {
        if self.loud {
            // Before the answers, which may never come.
            println!("{at} {op:?}");
        }
        let (rocksdb, cairn) = (left.carry_out(op), right.carry_out(op));
        let said = [
            std::mem::take(&mut left.said),
            std::mem::take(&mut right.said),
        ];
        if self.loud {
            println!("    {rocksdb}\n    {cairn} {said:?}");
        }
        if rocksdb == cairn {
            return None;
        }
        let text = format!("{op:?}");
        let set = left.set.name;
        let row = self
            .accepted
            .iter()
            .position(|row| row.covers(set, &text, &rocksdb, &cairn));
        if let Some(row) = row {
            self.met[row] += 1;
            return None;
        }
        Some(Parting {
            at,
            op: text,
            rocksdb,
            cairn,
            said: format!("{said:?}"),
        })
    }

    /// The shortest script that still parts, found within so many runs.
    ///
    /// # Errors
    ///
    /// A database cannot be made.
    pub fn shrink(&mut self, token: &Token, first: &Parting, runs: usize) -> Result<Token, String> {
        let mut keep: Vec<usize> = match &token.keep {
            Some(keep) => keep.clone(),
            None => (0..token.ops).collect(),
        };
        keep.retain(|at| *at <= first.at);
        let with = |keep: Vec<usize>| Token {
            keep: Some(keep),
            ..token.clone()
        };
        let (mut size, mut left) = (keep.len().div_ceil(2), runs);
        while size > 0 && left > 0 {
            let mut start = 0;
            while start < keep.len() && left > 0 {
                let end = (start + size).min(keep.len());
                let mut less = keep.clone();
                less.drain(start..end);
                left -= 1;
                let parting = self.run(&with(less.clone()))?;
                // Another difference than the first one does not count.
                if parting.is_some_and(|parting| kind(&parting.op) == kind(&first.op)) {
                    keep = less;
                } else {
                    start = end;
                }
            }
            size /= 2;
        }
        Ok(with(keep))
    }
}

/// The name of an operation.
fn kind(op: &str) -> &str {
    op.split('(').next().unwrap_or(op)
}

impl Side {
    /// Carries out an operation, and says what came of it.
    pub fn carry_out(&mut self, op: &Op) -> String {
        if self.db.is_null() {
            return "closed".to_owned();
        }
        if self.read_only && !reads(op) {
            return "read only".to_owned();
        }
        match op {
            Op::Write(change, without_log) => self.write(change, *without_log),
            Op::Get(cf, key, how, options) => self.get(*cf, *key, *how, *options),
            Op::MultiGet(keys, options) => self.multi_get(keys, *options),
            Op::Batched(cf, keys, sorted, options) => self.batched(*cf, keys, *sorted, *options),
            Op::IterNew(slot, cf, options) => self.new_walk(*slot, *cf, *options),
            Op::Iter(slot, step) => self.step(*slot, step),
            Op::IterDrop(slot) => {
                self.end_walk(*slot);
                String::new()
            }
            Op::Snapshot(slot) => self.snapshot(*slot),
            Op::Release(slot) => {
                self.release(*slot);
                String::new()
            }
            Op::Batch(slot, act) => self.batch(*slot, act),
            Op::IndexNew(slot, overwrite) => {
                self.index_new(*slot, *overwrite);
                String::new()
            }
            Op::Index(slot, act) => self.index(*slot, act),
            Op::IndexGet(slot, cf, key) => self.index_get(*slot, *cf, *key),
            Op::IndexGetDb(slot, cf, key, pinned, options) => {
                self.index_get_db(*slot, *cf, *key, *pinned, *options)
            }
            Op::IndexIter(slot, index, cf, options, both) => {
                self.index_walk(*slot, *index, *cf, *options, *both)
            }
            _ => self.carry_out_seldom(op),
        }
    }

    fn carry_out_seldom(&mut self, op: &Op) -> String {
        let answer = self.carry_out_on_files(op);
        let looks = matches!(
            op,
            Op::Property(..) | Op::Sizes(..) | Op::Updates(_) | Op::Scan(..) | Op::Families
        );
        if !looks {
            self.note_flush();
        }
        answer
    }

    fn carry_out_on_files(&mut self, op: &Op) -> String {
        match op {
            Op::Flush(cf) => self.flush(*cf),
            Op::FlushAll => self.flush_all(),
            Op::Compact(cf, range, bottom, target) => {
                self.compact(*cf, *range, *bottom, *target);
                String::new()
            }
            Op::Settle => self.settle(),
            Op::SetOptions(cf, row) => self.set_options(*cf, *row),
            Op::CreateFamily(cf) => self.create_family(*cf),
            Op::DropFamily(cf) => self.drop_family(*cf),
            Op::Reopen => self.reopen(false),
            Op::ReadOnly => self.reopen(true),
            Op::Checkpoint(log) => self.checkpoint(*log),
            Op::Ingest(cf, changes, bits) => self.ingest(*cf, changes, *bits),
            Op::Property(cf, row) => self.property(*cf, *row),
            Op::Sizes(cf, a, b) => self.sizes(*cf, *a, *b),
            Op::Updates(back) => self.updates(*back),
            Op::Scan(cf, options) => self.scan(*cf, *options),
            Op::Families => self.families(),
            _ => String::new(),
        }
    }
}

/// True if an operation is made on a database that is open for reading.
fn reads(op: &Op) -> bool {
    match op {
        Op::Iter(_, step) => *step != Move::Refresh,
        Op::Compact(..)
        | Op::Settle
        | Op::SetOptions(..)
        | Op::CreateFamily(_)
        | Op::DropFamily(_)
        | Op::Checkpoint(_)
        | Op::Updates(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for text in [
            "twin:v1:set=still:seed=0x1f:ops=40",
            "twin:v1:set=old:seed=0x0:ops=7:keep=1,2,6",
        ] {
            assert_eq!(Token::parse(text).expect(text).to_string(), text);
        }
        for text in [
            "",
            "twin:v1:set",
            "twin:v2:set=a",
            "twin:v1:seed=12",
            "twin:v1:keep=1,x",
        ] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_stays_of_a_script_is_what_was_there() {
        let whole = Token::parse("twin:v1:set=still:seed=0x5:ops=300").expect("a token");
        let part = Token::parse("twin:v1:set=still:seed=0x5:ops=300:keep=3,77").expect("a token");
        let (_, whole) = whole.script().expect("a set");
        let (_, part) = part.script().expect("a set");
        assert_eq!(whole.len(), 300);
        assert_eq!(part, [whole[3].clone(), whole[77].clone()]);
    }
}
