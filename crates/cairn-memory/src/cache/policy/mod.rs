//! The eviction policy of one shard of the clock cache: an adaptive form of W-TinyLFU without work on hits.
//!
//! # The protocol
//!
//! The shard owns the table of entries, their buffers and their touch counters. The policy has the hash,
//! charge, priority and [`NodeId`] of each entry, and is called only under the shard's lock:
//!
//! - A *hit* does not call the policy. It increments the touch counter of the entry, which may saturate at
//!   any number from 15 to 255 (lower limits cost hit ratio).
//! - An *insertion* calls [`Policy::victim`] and [`Policy::evicted`] until the new entry fits, and then
//!   [`Policy::insert`]. The capacity is not known to the policy, since it may be shared by several shards.
//! - [`Policy::victim`] examines a few entries through a callback, which returns the touches since the last
//!   examination, or reports that a reader holds the entry.
//! - An *erasure* calls [`Policy::remove`].
//!
//! # The order of evictions
//!
//! Priorities are absolute: an entry is evicted only if readers hold all entries of lower priorities, or the
//! first [`MAX_LOOKS`] of each that are examined. The one exception is an entry that was not read while 32
//! times the size of the cache was evicted, such as the index of a deleted table: it is moved to the priority
//! of the current victims. Each priority is a *class* with its own queues and parameters:
//!
//! ```text
//!          if it was read                   if its score is higher
//!          +-----<-----+                 +------------->------------+
//!          v           |                 |                          v
//!  ---> fresh -----> aged -----> compared with the edge    main, by score <--+
//!       `--- window ---'                 |                          |        | if it was read
//!                                        v                          v        |
//!                                     evicted <------------------ edge ------+
//! ```
//!
//! - A new entry enters the *window*, a queue in order of insertion. For an eviction its oldest entry is
//!   compared with the oldest entry of the *edge*. If its score is higher, it is moved to the *main part*;
//!   otherwise, if it was read since it entered, to the young end of the window; otherwise it is evicted. If
//!   the window is well below its share, the oldest entry of the edge is evicted instead; if the window is
//!   well above it, entries move to the main part without a comparison.
//! - The main part has a queue for each power of two of the score. The lowest ones feed the edge, which is a
//!   sixteenth of the class. Reads are detected when an entry is examined: when it enters the edge, and at
//!   the end of the edge.
//! - A *score* is the number of reads, halved once per half-life (`score`). The scores of evicted entries are
//!   kept as ghosts (`ghosts`) and restored if the entries are inserted again.
//! - An entry that merely ties with the edge is not admitted: the read for which it was inserted does not
//!   count. In a cyclic scan larger than the cache all scores tie, so that part of it stays cached.
//!
//! # Adaptive parameters
//!
//! - The *share of the window*, from a hundredth to nearly all. An entry that is missed within a sixteenth of
//!   the class after it was evicted from the window would have been a hit had the window been larger by that
//!   much; an entry of the edge that was read would have been a miss had the main part been smaller by the
//!   edge. Each event moves the border by a multiple of the entry's charge. With the border near its lower end
//!   the order is that of LFU with aging and keeps scans and loops out; near its upper end it is close to LRU
//!   and follows a hot set that moves.
//! - The *half-life*, from 4 to 20 reads for each entry of the class. An entry with no reads since it was
//!   last examined, although eight or more were expected, has probably gone cold and shortens the half-life;
//!   others lengthen it.
//!
//! Time is the number of detected reads, so that the policy is deterministic.
//!
//! # Costs
//!
//! 32 bytes per entry and 8 to 16 bytes for its ghosts. An insertion touches a few nodes and one line of the
//! ghosts. A call of [`Policy::victim`] examines three to five entries on average, and at most [`MAX_LOOKS`]
//! of each priority whose entries readers hold.

mod class;
mod ghosts;
mod queues;
mod score;

use class::{Class, Looks, QUEUES};
use ghosts::Ghosts;
pub use queues::NodeId;
use queues::{Part, Queues};

use super::CachePriority;

/// Number of priorities.
const CLASSES: usize = CachePriority::IN_ORDER.len();
/// The maximum number of entries of each priority that a call of [`Policy::victim`] examines before it proceeds with
/// the next higher one.
pub const MAX_LOOKS: usize = 256;
/// The number of examined entries after which [`Policy::victim`] takes the next one that no reader holds.
const CHOOSY_LOOKS: usize = 48;
/// A window that exceeds its share by this fraction of the class (a divisor), and by some entries, moves
/// entries to the main part without a comparison.
const SLACK: usize = 128;
/// The number of insertions without an eviction after which the cache counts as not full.
const FULL_FOR: u32 = 64;
/// Choices of a victim for each review of an entry of a higher priority.
const REVIEW_PERIOD: u32 = 8;
/// The length of a turn, as a divisor of the size of the cache: turns count evicted bytes.
const TURNS_PER_CACHE: usize = 4;
/// The turns after which an entry that was not read loses its priority.
const STALE_TURNS: u16 = 32 * TURNS_PER_CACHE as u16;

/// The state of an entry, as reported by the callback of [`Policy::victim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A reader holds the entry, so that its eviction would free no memory.
    InUse,
    /// No reader holds the entry. It was read this many times since its insertion or the last such answer.
    Touches(u8),
}

/// The policy of a shard; see the module's documentation.
pub struct Policy {
    queues: Queues,
    classes: [Class; CLASSES],
    ghosts: Ghosts,
    /// The number of further insertions for which the cache counts as full.
    full_for: u32,
    /// Victims chosen, modulo 2^32.
    choices: u32,
    /// The time in turns, modulo 2^16.
    turn: u16,
    /// Bytes evicted in this turn.
    evicted: usize,
}

impl Policy {
    /// Creates the policy of an empty shard.
    #[must_use]
    pub fn new() -> Policy {
        Policy {
            queues: Queues::new(CLASSES * QUEUES),
            classes: std::array::from_fn(Class::new),
            ghosts: Ghosts::default(),
            full_for: 0,
            choices: 0,
            turn: 0,
            evicted: 0,
        }
    }

    /// The sum of the charges.
    #[must_use]
    pub fn usage(&self) -> usize {
        self.classes.iter().map(Class::usage).sum()
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// True if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that the policy uses.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.queues.memory_usage() + self.ghosts.capacity() * size_of::<u32>()
    }

    /// Adds an entry that was just read, and returns its node. The node is valid until it is passed to
    /// [`Policy::remove`] or [`Policy::evicted`]. Charges are limited to 4 GiB.
    pub fn insert(&mut self, hash: u64, charge: usize, priority: CachePriority) -> NodeId {
        let charge = limited(charge);
        let contested = self.is_contested(priority);
        self.full_for = self.full_for.saturating_sub(1);
        let class = &mut self.classes[priority as usize];
        class.set_turn(self.turn);
        class.note_reads(1, &mut self.queues);
        let ghost = self.ghosts.take(hash, class.now());
        if let Some(stamp) = ghost.and_then(|ghost| ghost.stamp) {
            class.note_ghost(stamp, charge);
        }
        let score = score::with_reads(ghost.map_or(0, |ghost| ghost.score), 1);
        let id = self.queues.create(hash, charge, score);
        class.insert(id, &mut self.queues);
        let slack = match contested {
            true => class.usage() / SLACK + 2 * charge as usize,
            false => 0,
        };
        class.spill(slack, &mut self.queues);
        id
    }

    /// Chooses the entry to evict next, which the caller then passes to [`Policy::evicted`] or
    /// [`Policy::remove`]. Returns `None` if there is no entry, if readers hold every entry examined, or if a choice takes
    /// too many looks: at most `most` and [`MAX_LOOKS`] entries of each priority are examined.
    pub fn victim(&mut self, most: usize, mut look: impl FnMut(NodeId) -> Seen) -> Option<NodeId> {
        for at in 0..CLASSES {
            let mut looks = Looks {
                look: &mut look,
                left: most.min(MAX_LOOKS),
                found_free: false,
            };
            let class = &mut self.classes[at];
            if let Some(id) = class.choose(&mut self.queues, &mut looks, CHOOSY_LOOKS) {
                self.review(at, &mut looks);
                return Some(id);
            }
            if looks.found_free {
                // That entry is evicted before any of a higher priority.
                return None;
            }
        }
        None
    }

    /// Occasionally examines an entry of a priority above the class `victims`, and moves it there if it is
    /// stale.
    fn review(&mut self, victims: usize, looks: &mut Looks<'_>) {
        self.choices = self.choices.wrapping_add(1);
        if !self.choices.is_multiple_of(REVIEW_PERIOD) {
            return;
        }
        let Some(at) = (victims + 1..CLASSES).find(|at| self.classes[*at].len() > 0) else {
            return;
        };
        let class = &mut self.classes[at];
        class.set_turn(self.turn);
        if let Some(id) = class.review(&mut self.queues, looks)
            && self.turn.wrapping_sub(self.queues.node(id).turn) >= STALE_TURNS
        {
            class.remove(id, &mut self.queues);
            self.classes[victims].take_over(id, &mut self.queues);
        }
    }

    /// Removes an evicted entry, and remembers it as a ghost.
    pub fn evicted(&mut self, id: NodeId) {
        let entries = self.queues.len();
        let (hash, charge) = (self.queues.node(id).hash, self.queues.node(id).charge);
        self.full_for = FULL_FOR;
        self.evicted += charge as usize;
        if self.evicted >= self.usage() / TURNS_PER_CACHE {
            self.evicted = 0;
            self.turn = self.turn.wrapping_add(1);
        }
        let class = &mut self.classes[usize::from(self.queues.place(id).class)];
        let score = class.score_now(id, &self.queues);
        let stamp = match class.remove(id, &mut self.queues) {
            Part::Fresh | Part::Aged => Some(class.stamp_eviction(charge)),
            Part::Edge | Part::Main => None,
        };
        self.queues.delete(id);
        self.ghosts.insert(hash, score, stamp, class.now(), entries);
    }

    /// Removes an erased entry.
    pub fn remove(&mut self, id: NodeId) {
        let class = usize::from(self.queues.place(id).class);
        self.classes[class].remove(id, &mut self.queues);
        self.queues.delete(id);
    }

    /// The charge of an entry.
    #[must_use]
    pub fn charge(&self, id: NodeId) -> usize {
        self.queues.node(id).charge as usize
    }

    /// Changes the charge of an entry.
    pub fn replace_charge(&mut self, id: NodeId, charge: usize) {
        let class = usize::from(self.queues.place(id).class);
        self.classes[class].replace_charge(id, limited(charge), &mut self.queues);
    }

    /// True if entries of `priority` are currently evicted: the cache is full, and has no entry of a lower
    /// priority.
    fn is_contested(&self, priority: CachePriority) -> bool {
        let lower = &self.classes[..priority as usize];
        self.full_for > 0 && lower.iter().all(|class| class.len() == 0)
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::new()
    }
}

/// A charge as stored.
fn limited(charge: usize) -> u32 {
    u32::try_from(charge).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
