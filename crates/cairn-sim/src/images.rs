//! Crash models: which disks the next open may find.
//!
//! A model chooses from the changes that nobody synced. Changes of names that a rename ties
//! together happen in order; changes of unrelated names, and blocks of files, happen in any.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::disk::{DiskImage, Inode, Name, Node, Tree};
use crate::rng::Rng;
use crate::trace::{Call, Change, Replay};

/// Who crashes, and what of the unsynced changes survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CrashModel {
    /// The process: everything handed to the kernel is there, and of a store into a mapping that was
    /// under way any part without its first eight bytes.
    Kill,
    /// The machine: only what was synced.
    Synced,
    /// The machine, just after the kernel had written everything back by itself.
    All,
    /// The machine: changes up to a point in the order of their issue, the last write torn.
    Prefix,
    /// The machine: any set of 4 KiB blocks and of names; missing blocks are zeros.
    Blocks,
    /// As [`CrashModel::Blocks`] with sectors of 512 bytes.
    Sectors,
    /// As [`CrashModel::Blocks`], and missing blocks hold bytes of removed files.
    Stale,
    /// As [`CrashModel::Blocks`], and missing blocks hold random bytes.
    Garbage,
    /// The machine: all names, no unsynced bytes; files empty, or of full length and zeros.
    NamesFirst,
    /// The machine: all bytes, no unsynced names.
    DataFirst,
}

/// All models.
pub const MODELS: [CrashModel; 10] = [
    CrashModel::Kill,
    CrashModel::Synced,
    CrashModel::All,
    CrashModel::Prefix,
    CrashModel::Blocks,
    CrashModel::Sectors,
    CrashModel::Stale,
    CrashModel::Garbage,
    CrashModel::NamesFirst,
    CrashModel::DataFirst,
];

impl CrashModel {
    fn name(self) -> &'static str {
        match self {
            CrashModel::Kill => "kill",
            CrashModel::Synced => "synced",
            CrashModel::All => "all",
            CrashModel::Prefix => "prefix",
            CrashModel::Blocks => "blocks",
            CrashModel::Sectors => "sectors",
            CrashModel::Stale => "stale",
            CrashModel::Garbage => "garbage",
            CrashModel::NamesFirst => "names-first",
            CrashModel::DataFirst => "data-first",
        }
    }

    /// True if the kernel survives, so that what it was handed is there.
    #[must_use]
    pub fn kernel_survives(self) -> bool {
        self == CrashModel::Kill
    }
}

impl fmt::Display for CrashModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CrashModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<CrashModel> {
        MODELS
            .into_iter()
            .find(|model| model.name() == text)
            .ok_or_else(|| Error::invalid_argument(format!("no crash model is called {text:?}")))
    }
}

/// So many combinations of pending changes are tried one by one; of more, [`SAMPLES`].
const ALL_COMBINATIONS: usize = 1 << 10;

/// How many combinations are drawn where there are too many.
const SAMPLES: usize = 64;

/// How many points of a long prefix are drawn.
const PREFIX_SAMPLES: usize = 16;

/// What a block that did not reach the disk holds, if the file's length did.
#[derive(Clone, Copy)]
enum Missing {
    Zeros,
    Stale,
    Random,
}

/// Something that survives or does not, or survives up to a point.
enum Item {
    /// The block of a file that begins at this offset.
    Block(Inode, usize),
    /// The length of a file.
    Len(Inode),
    /// Changes of names tied together, as indexes of operations, in order.
    Names(Vec<usize>),
}

impl Item {
    /// In how many ways it can come out.
    fn outcomes(&self) -> usize {
        match self {
            Item::Block(..) | Item::Len(_) => 2,
            Item::Names(changes) => changes.len() + 1,
        }
    }
}

impl Replay<'_> {
    /// The disks that a crash now may leave under `model`. The same seed gives the same disks.
    pub fn images(&self, model: CrashModel, seed: u64) -> impl Iterator<Item = DiskImage> + use<> {
        let mut rng = Rng::new(seed).fork(self.at() as u64);
        let trees = match model {
            CrashModel::Kill => self.killed(&mut rng),
            CrashModel::All => vec![self.with(&self.kept(), usize::MAX)],
            CrashModel::Synced => vec![self.durable.clone()],
            CrashModel::Prefix => self.prefixes(&mut rng),
            CrashModel::Blocks => self.subsets(4096, Missing::Zeros, &mut rng),
            CrashModel::Sectors => self.subsets(512, Missing::Zeros, &mut rng),
            CrashModel::Stale => self.subsets(4096, Missing::Stale, &mut rng),
            CrashModel::Garbage => self.subsets(4096, Missing::Random, &mut rng),
            CrashModel::NamesFirst => self.names_first(),
            CrashModel::DataFirst => vec![self.data_first()],
        };
        trees.into_iter().map(|tree| DiskImage {
            tree: tree.reachable(),
        })
    }

    /// The length of the store into a mapping that is under way; none if the next operation is another.
    #[must_use]
    pub fn store_len(&self) -> Option<usize> {
        let next = self.trace.operations.get(self.at())?;
        match (next.call, &next.change) {
            (Call::Store, Some(Change::Write { data, .. })) => Some(data.len()),
            _ => None,
        }
    }

    /// The disk that a process leaves which ends when that store has `len` bytes, the first eight of them not yet.
    #[must_use]
    pub fn killed_at(&self, len: usize) -> DiskImage {
        let mut tree = self.live.clone();
        let next = self.trace.operations.get(self.at());
        if let Some(Change::Write {
            inode,
            offset,
            data,
        }) = next.and_then(|next| next.change.as_ref())
            && let Some(body) = data[..len.min(data.len())].get(8..)
        {
            tree.write(*inode, offset + 8, body);
        }
        DiskImage {
            tree: tree.reachable(),
        }
    }

    /// All pending changes that may still become durable, in the order of their issue.
    fn kept(&self) -> Vec<usize> {
        let data = self.data.values().flatten();
        let kept = data.filter(|pending| !pending.lost);
        let mut all: Vec<usize> = kept.map(|pending| pending.operation).collect();
        all.extend(&self.names);
        all.sort_unstable();
        all
    }

    /// What is durable and these changes; the last one, if a write, cut to `torn` bytes.
    fn with(&self, changes: &[usize], torn: usize) -> Tree {
        let mut tree = self.durable.clone();
        for (step, index) in changes.iter().enumerate() {
            match self.change(*index) {
                Change::Write {
                    inode,
                    offset,
                    data,
                } if step + 1 == changes.len() => {
                    tree.write(*inode, *offset, &data[..torn.min(data.len())]);
                }
                change => tree.apply(change),
            }
        }
        tree
    }

    /// What the kernel has; and if the process was storing into a mapping, with a part of that store.
    fn killed(&self, rng: &mut Rng) -> Vec<Tree> {
        let mut trees = vec![self.live.clone()];
        let next = self.trace.operations.get(self.at());
        let stored = next.filter(|next| next.call == Call::Store);
        if let Some(Change::Write {
            inode,
            offset,
            data,
        }) = stored.and_then(|next| next.change.as_ref())
        {
            let mut with = |kept: &mut dyn FnMut(usize) -> bool| {
                let mut tree = self.live.clone();
                for at in (8..data.len()).step_by(8).filter(|at| kept(*at)) {
                    let end = data.len().min(at + 8);
                    tree.write(*inode, offset + at, &data[at..end]);
                }
                trees.push(tree);
            };
            // The first word comes last; the others in order, as processors copy, or in any.
            with(&mut |_| true);
            with(&mut |_| rng.chance(4, 8));
            let sector = 512 - offset % 512;
            for cut in [24, sector, rng.below(data.len().max(1))] {
                if (9..data.len()).contains(&cut) {
                    with(&mut |at| at < cut);
                }
            }
        }
        trees
    }

    fn prefixes(&self, rng: &mut Rng) -> Vec<Tree> {
        let kept = self.kept();
        let len_of = |index: usize| match self.change(index) {
            Change::Write { data, .. } => data.len(),
            _ => 0,
        };
        let mut trees = Vec::new();
        if kept.len() <= 10 {
            for end in 0..=kept.len() {
                trees.push(self.with(&kept[..end], usize::MAX));
                let len = end.checked_sub(1).map_or(0, |last| len_of(kept[last]));
                let cuts = BTreeSet::from([1, len / 2, len.saturating_sub(1), rng.below(len)]);
                for cut in cuts.into_iter().filter(|cut| (1..len).contains(cut)) {
                    trees.push(self.with(&kept[..end], cut));
                }
            }
            return trees;
        }
        for _ in 0..PREFIX_SAMPLES {
            let end = 1 + rng.below(kept.len());
            let len = len_of(kept[end - 1]);
            let cut = match rng.chance(1, 4) {
                true => usize::MAX,
                false => rng.below(len),
            };
            trees.push(self.with(&kept[..end], cut));
        }
        trees
    }

    fn names_first(&self) -> Vec<Tree> {
        let short = self.with(&self.names, usize::MAX);
        let mut long = short.clone();
        for (inode, len) in self.pending_lengths() {
            long.set_len(inode, len);
        }
        vec![short, long]
    }

    fn data_first(&self) -> Tree {
        let names: BTreeSet<usize> = self.names.iter().copied().collect();
        let data: Vec<usize> = self
            .kept()
            .into_iter()
            .filter(|index| !names.contains(index))
            .collect();
        self.with(&data, usize::MAX)
    }

    /// The files whose length is not durable, with the length they should have.
    fn pending_lengths(&self) -> Vec<(Inode, usize)> {
        let len = |tree: &Tree, inode| tree.file(inode).map_or(0, |bytes| bytes.len());
        self.data
            .keys()
            .map(|inode| (*inode, len(&self.live, *inode)))
            .filter(|(inode, live)| len(&self.durable, *inode) != *live)
            .collect()
    }

    /// Sets of blocks, lengths and names: all of them, or a sample.
    fn subsets(&self, block: usize, missing: Missing, rng: &mut Rng) -> Vec<Tree> {
        let items = self.items(block);
        let combinations = items
            .iter()
            .try_fold(1usize, |all, item| all.checked_mul(item.outcomes()))
            .filter(|all| *all <= ALL_COMBINATIONS);
        let mut trees = Vec::new();
        let mut outcomes = vec![0; items.len()];
        match combinations {
            Some(all) => {
                for mut number in 0..all {
                    for (outcome, item) in outcomes.iter_mut().zip(&items) {
                        *outcome = number % item.outcomes();
                        number /= item.outcomes();
                    }
                    trees.push(self.choose(&items, &outcomes, block, missing, rng));
                }
            }
            None => {
                for _ in 0..SAMPLES {
                    // Nearly nothing, half, or nearly everything survives.
                    let eighths = *rng.pick(&[1, 4, 7]);
                    for (outcome, item) in outcomes.iter_mut().zip(&items) {
                        *outcome = match item {
                            Item::Names(changes) => rng.below(changes.len() + 1),
                            _ => usize::from(rng.chance(eighths, 8)),
                        };
                    }
                    trees.push(self.choose(&items, &outcomes, block, missing, rng));
                }
            }
        }
        trees
    }

    /// Everything pending, in pieces that come out independently of each other.
    fn items(&self, block: usize) -> Vec<Item> {
        let mut items: Vec<Item> = self.name_groups().into_iter().map(Item::Names).collect();
        let named = self.inodes_with_names();
        let empty = Arc::default();
        for inode in self.data.keys().filter(|inode| named.contains(inode)) {
            let live = self.live.file(*inode).unwrap_or(&empty);
            let durable = self.durable.file(*inode).unwrap_or(&empty);
            for offset in (0..live.len()).step_by(block) {
                let end = (offset + block).min(live.len());
                if durable.get(offset..end) != Some(&live[offset..end]) {
                    items.push(Item::Block(*inode, offset));
                }
            }
            if live.len() != durable.len() {
                items.push(Item::Len(*inode));
            }
        }
        items
    }

    /// The pending changes of names, those tied together by a common name in one group.
    fn name_groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<(BTreeSet<&Name>, Vec<usize>)> = Vec::new();
        for index in &self.names {
            let mut names: BTreeSet<&Name> = self.change(*index).names().into_iter().collect();
            let mut changes = Vec::new();
            let mut apart = Vec::new();
            for (others, mut theirs) in groups {
                if others.is_disjoint(&names) {
                    apart.push((others, theirs));
                } else {
                    names.extend(others);
                    changes.append(&mut theirs);
                }
            }
            changes.push(*index);
            changes.sort_unstable();
            apart.push((names, changes));
            groups = apart;
        }
        groups.into_iter().map(|(_, changes)| changes).collect()
    }

    /// The files that have, had or may come to have a name.
    fn inodes_with_names(&self) -> BTreeSet<Inode> {
        let pending = self
            .names
            .iter()
            .filter_map(|index| match self.change(*index) {
                Change::Create { inode, .. }
                | Change::Link { inode, .. }
                | Change::Unlink { inode, .. }
                | Change::Rename { inode, .. } => Some(*inode),
                _ => None,
            });
        let trees = [&self.live, &self.durable].into_iter();
        let nodes = trees.flat_map(|tree| tree.nodes.values());
        let named = nodes.flat_map(|node| match node {
            Node::Directory(names) => names.values().copied().collect(),
            Node::File(_) => Vec::new(),
        });
        pending.chain(named).collect()
    }

    /// The disk on which each item came out as `outcomes` say.
    fn choose(
        &self,
        items: &[Item],
        outcomes: &[usize],
        block: usize,
        missing: Missing,
        rng: &mut Rng,
    ) -> Tree {
        let mut tree = self.durable.clone();
        // Lengths first: they make the room that missing blocks leave.
        for (item, outcome) in items.iter().zip(outcomes) {
            match item {
                Item::Names(changes) => {
                    for index in &changes[..*outcome] {
                        tree.apply(self.change(*index));
                    }
                }
                Item::Len(inode) if *outcome == 1 => self.lengthen(&mut tree, *inode, missing, rng),
                _ => {}
            }
        }
        for (item, outcome) in items.iter().zip(outcomes) {
            if let (Item::Block(inode, offset), 1) = (item, *outcome)
                && let Some(live) = self.live.file(*inode)
            {
                let end = (offset + block).min(live.len());
                tree.write(*inode, *offset, &live[*offset..end]);
            }
        }
        tree
    }

    /// Gives a file its live length, and the new room what missing blocks hold.
    fn lengthen(&self, tree: &mut Tree, inode: Inode, missing: Missing, rng: &mut Rng) {
        let old = tree.file(inode).map_or(0, |bytes| bytes.len());
        let new = self.live.file(inode).map_or(0, |bytes| bytes.len());
        tree.set_len(inode, new);
        if new <= old {
            return;
        }
        let filling = match missing {
            Missing::Zeros => return,
            Missing::Random => (old..new).map(|_| rng.next_u64() as u8).collect(),
            Missing::Stale if self.stale.is_empty() => return,
            Missing::Stale => {
                let source = rng.pick(&self.stale);
                (old..new)
                    .map(|at| source[at % source.len()])
                    .collect::<Vec<u8>>()
            }
        };
        tree.write(inode, old, &filling);
    }
}
