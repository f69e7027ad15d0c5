//! Crash models: the disk contents that a crash may leave.
//!
//! A model selects among the unsynced changes. Changes of names that are related by a rename are applied in
//! order; unrelated names and file blocks are independent.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::disk::{DiskImage, Inode, Name, Node, Tree};
use crate::rng::Rng;
use crate::trace::{Call, Change, Replay};

/// A crash model: what crashes, and which unsynced changes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CrashModel {
    /// Process crash: everything passed to the kernel survives, and so does an arbitrary part,
    /// without its first eight bytes, of a store into a mapping that is in progress.
    Kill,
    /// Machine crash: only synced changes survive.
    Synced,
    /// Machine crash right after the kernel has written everything back.
    All,
    /// Machine crash: a prefix of all changes in program order survives, with the last write torn.
    Prefix,
    /// Machine crash: arbitrary sets of 4 KiB blocks and of names survive. Missing blocks are zeros.
    Blocks,
    /// [`CrashModel::Blocks`] with 512-byte sectors.
    Sectors,
    /// [`CrashModel::Blocks`], but missing blocks have the content of removed files.
    Stale,
    /// [`CrashModel::Blocks`], but missing blocks have random bytes.
    Garbage,
    /// Machine crash: all names survive, but no unsynced data. Files are empty, or have their full
    /// length in zeros.
    NamesFirst,
    /// Machine crash: all data survives, but no unsynced names.
    DataFirst,
}

/// All crash models.
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

    /// True if the kernel survives, and with it all data passed to it.
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
            .ok_or_else(|| Error::invalid_argument(format!("unknown crash model {text:?}")))
    }
}

/// The maximum number of combinations of pending changes that is enumerated. Larger sets are sampled
/// ([`SAMPLES`]).
const ALL_COMBINATIONS: usize = 1 << 10;

/// The number of samples of a larger set.
const SAMPLES: usize = 64;

/// The number of samples of a long prefix.
const PREFIX_SAMPLES: usize = 16;

/// The content of a block that did not reach the disk although the length of the file did.
#[derive(Clone, Copy)]
enum Missing {
    Zeros,
    Stale,
    Random,
}

/// A pending change that survives completely, in part, or not at all.
enum Item {
    /// The block at this offset of a file.
    Block(Inode, usize),
    /// The length of a file.
    Len(Inode),
    /// Related changes of names, as indexes of operations, in order.
    Names(Vec<usize>),
}

impl Item {
    /// The number of possible outcomes.
    fn outcomes(&self) -> usize {
        match self {
            Item::Block(..) | Item::Len(_) => 2,
            Item::Names(changes) => changes.len() + 1,
        }
    }
}

impl Replay<'_> {
    /// The disk images that a crash now may leave under `model`, determined by the seed.
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

    /// The length of the mapped store in progress; `None` if the next operation is not a store.
    #[must_use]
    pub fn store_len(&self) -> Option<usize> {
        let next = self.trace.operations.get(self.at())?;
        match (next.call, &next.change) {
            (Call::Store, Some(Change::Write { data, .. })) => Some(data.len()),
            _ => None,
        }
    }

    /// The disk image after a process crash when the store in progress has `len` bytes, but not yet its first
    /// eight.
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

    /// All pending changes that may become durable, in program order.
    fn kept(&self) -> Vec<usize> {
        let data = self.data.values().flatten();
        let kept = data.filter(|pending| !pending.lost);
        let mut all: Vec<usize> = kept.map(|pending| pending.operation).collect();
        all.extend(&self.names);
        all.sort_unstable();
        all
    }

    /// The durable state plus these changes. The last one, if a write, is truncated to `torn` bytes.
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

    /// The kernel's state, combined with partial results of a mapped store in progress.
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
            // The first word is stored last, the others in ascending order, as CPUs copy, or in any
            // order.
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

    /// Files whose length is not durable, with their current length.
    fn pending_lengths(&self) -> Vec<(Inode, usize)> {
        let len = |tree: &Tree, inode| tree.file(inode).map_or(0, |bytes| bytes.len());
        self.data
            .keys()
            .map(|inode| (*inode, len(&self.live, *inode)))
            .filter(|(inode, live)| len(&self.durable, *inode) != *live)
            .collect()
    }

    /// Subsets of blocks, lengths and names: all of them, or a sample.
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
                    // Almost nothing, half, or almost everything survives.
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

    /// The pending changes, split into independent items.
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

    /// The pending changes of names, grouped by common names.
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

    /// Files that have, had, or may get a name.
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

    /// The disk with the given outcome of each item.
    fn choose(
        &self,
        items: &[Item],
        outcomes: &[usize],
        block: usize,
        missing: Missing,
        rng: &mut Rng,
    ) -> Tree {
        let mut tree = self.durable.clone();
        // Lengths first: they create the range of missing blocks.
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

    /// Sets a file to its current length, and fills the new range according to `missing`.
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
