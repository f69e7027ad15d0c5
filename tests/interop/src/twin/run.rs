//! Runs a script on both sides and shrinks it; the token that identifies it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::api::Api;
use super::differences::Difference;
use super::generate::script;
use super::ops::{Move, Op};
use super::sets::{self, Set};
use super::side::Side;

/// The two libraries, and the directory for databases.
pub struct Twins {
    /// RocksDB's library.
    pub rocksdb: Rc<Api>,
    /// Cairn's.
    pub cairn: Rc<Api>,
    /// An empty directory.
    pub folder: PathBuf,
    /// The accepted differences.
    pub accepted: Vec<Difference>,
    /// How often each of them occurred.
    pub met: Vec<u64>,
    /// True to print every operation.
    pub loud: bool,
}

/// The identity of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The option set.
    pub set: String,
    /// The seed.
    pub seed: u64,
    /// The number of generated operations.
    pub ops: usize,
    /// The operations that are kept, if not all.
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
    /// Parses a token.
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

/// The first difference between the two sides.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The index of the operation.
    pub at: usize,
    /// The operation.
    pub op: String,
    /// RocksDB's result.
    pub rocksdb: String,
    /// Cairn's result.
    pub cairn: String,
    /// The error texts of both sides.
    pub said: String,
}

impl Twins {
    /// Runs the script of `token`. Returns the first difference, if there is one.
    ///
    /// # Errors
    ///
    /// The token's set is unknown, or a database cannot be created.
    pub fn run(&mut self, token: &Token) -> Result<Option<Mismatch>, String> {
        let (set, ops) = token.script().ok_or("there is no such set")?;
        let result = self.run_ops(set, &ops);
        // Removes what an earlier run left.
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
    ) -> Result<Option<Mismatch>, String> {
        let folder = |name: &str| Path::join(&self.folder, name);
        let mut left = Side::create("rocksdb", Rc::clone(&self.rocksdb), set, &folder("rocksdb"))?;
        let mut right = Side::create("cairn", Rc::clone(&self.cairn), set, &folder("cairn"))?;
        for (at, op) in ops {
            if let Some(mismatch) = self.both(&mut left, &mut right, *at, op) {
                return Ok(Some(mismatch));
            }
        }
        let (rocksdb, cairn) = (left.final_content(), right.final_content());
        Ok((rocksdb != cairn).then(|| Mismatch {
            at: ops.len(),
            op: "at the end".to_owned(),
            rocksdb,
            cairn,
            said: String::new(),
        }))
    }

    /// Runs one operation on both sides.
    fn both(&mut self, left: &mut Side, right: &mut Side, at: usize, op: &Op) -> Option<Mismatch> {
        if self.loud {
            // Before the results, which a crash would prevent.
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
        Some(Mismatch {
            at,
            op: text,
            rocksdb,
            cairn,
            said: format!("{said:?}"),
        })
    }

    /// The shortest script with the same kind of difference, found within `runs` runs.
    ///
    /// # Errors
    ///
    /// A database cannot be created.
    pub fn shrink(
        &mut self,
        token: &Token,
        first: &Mismatch,
        runs: usize,
    ) -> Result<Token, String> {
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
                let mismatch = self.run(&with(less.clone()))?;
                // A difference in another operation does not count.
                if mismatch.is_some_and(|mismatch| kind(&mismatch.op) == kind(&first.op)) {
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
    /// Runs an operation and returns its result as text.
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
            Op::Begin(slot, snapshot) => self.begin(*slot, u8::from(*snapshot)),
            Op::Transact(slot, deed) => self.transact(*slot, deed),
            Op::Locked(change) => self.locked_write(change),
            Op::LockedBatch(slot) => self.locked_batch(*slot),
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
            Op::Checkpoint(_) if self.has_prepared() => "prepared".to_owned(),
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

/// True if the operation is possible on a read-only database.
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
    fn a_token_round_trips() {
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
    fn a_shrunk_script_keeps_its_operations() {
        let whole = Token::parse("twin:v1:set=still:seed=0x5:ops=300").expect("a token");
        let part = Token::parse("twin:v1:set=still:seed=0x5:ops=300:keep=3,77").expect("a token");
        let (_, whole) = whole.script().expect("a set");
        let (_, part) = part.script().expect("a set");
        assert_eq!(whole.len(), 300);
        assert_eq!(part, [whole[3].clone(), whole[77].clone()]);
    }
}
