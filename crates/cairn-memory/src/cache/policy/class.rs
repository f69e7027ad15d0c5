//! The entries of one priority: window, edge and main part, and the adaptive parameters.

use super::queues::{NodeId, PARTS, Part, Place, Queues};
use super::score::{self, BANDS, READ, Score, TICKS_PER_HALF_LIFE};
use super::{Seen, ghosts};

/// Queues of a class: fresh, aged, edge, and the bands of the main part.
pub(super) const QUEUES: usize = Part::Main as usize + BANDS;

/// The initial share of the window, and its bounds.
const FIRST_SHARE: f64 = 0.02;
const SHARES: [f64; 2] = [0.01, 0.99];
/// The edge is this fraction of the class, as a divisor.
const EDGE: usize = 16;
/// The unit of stamps for evictions from the window, as a divisor of the class.
const STAMPS_PER_CLASS: usize = 128;
/// Multiples of an entry's charge by which an event moves the border of the window.
const STEP: f64 = 8.0;
/// The window is well below its share if it lacks this share of the class, or half of its own.
const LACK: f64 = 1.0 / 64.0;

/// The initial half-life and its bounds, in reads for each entry of the class.
const FIRST_HALF_LIFE: f64 = 10.0;
const HALF_LIVES: [f64; 2] = [4.0, 20.0];
/// Reads added to a half-life, for classes with few entries.
const LEAST_READS: f64 = 64.0;
/// The number of expected reads from which an examination shows whether an entry is still being read.
const EXPECTED: f64 = 8.0;
/// Ticks between such examinations, so that bursts of other reads in between have no weight.
const LEAST_TICKS: u16 = 4;
/// Factors by which an entry that is still being read, or no longer is, changes the half-life.
const ALIVE: f64 = 1.002;
const DEAD: f64 = 1.0 / 1.06;

/// The maximum number of entries that an insertion moves from the window to the main part.
const MAX_SPILLS: usize = 4;
/// Entries examined to refill the edge, and to age the window, in each step of a choice.
const REFILL_LOOKS: usize = 16;
const AGE_LOOKS: usize = 4;

/// A callback that examines entries, and the number of calls left.
pub(super) struct Looks<'a> {
    pub(super) look: &'a mut dyn FnMut(NodeId) -> Seen,
    pub(super) left: usize,
    /// True if an entry was found that no reader holds.
    pub(super) found_free: bool,
}

impl Looks<'_> {
    fn at(&mut self, id: NodeId) -> Seen {
        self.left = self.left.saturating_sub(1);
        let seen = (self.look)(id);
        self.found_free |= seen != Seen::InUse;
        seen
    }
}

/// The entries of one priority.
pub(super) struct Class {
    /// The number of the class.
    at: u8,
    len: usize,
    /// Bytes by part.
    bytes: [usize; PARTS],
    /// The share of the window.
    share: f64,
    /// Reads for each entry in which scores halve.
    half_life: f64,
    tick: u16,
    /// Reads since the last tick.
    reads: u64,
    /// Bytes evicted from the window, in units, modulo [`ghosts::STAMPS`].
    stamp: u32,
    /// The turn that is noted with reads.
    turn: u16,
    /// Bytes evicted from the window that are less than a unit.
    unstamped: usize,
}

impl Class {
    pub(super) fn new(at: usize) -> Class {
        Class {
            // There are three.
            at: at as u8,
            len: 0,
            bytes: [0; PARTS],
            share: FIRST_SHARE,
            half_life: FIRST_HALF_LIFE,
            tick: 0,
            reads: 0,
            stamp: 0,
            unstamped: 0,
            turn: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The sum of the charges.
    pub(super) fn usage(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// The time.
    pub(super) fn now(&self) -> u16 {
        self.tick
    }

    /// Sets the turn that is noted with reads.
    pub(super) fn set_turn(&mut self, turn: u16) {
        self.turn = turn;
    }

    /// Adds a node that is in no queue, for an entry that was just read.
    pub(super) fn insert(&mut self, id: NodeId, queues: &mut Queues) {
        let node = queues.node_mut(id);
        node.tick = self.tick;
        node.turn = self.turn;
        self.push(id, Part::Fresh, queues);
    }

    /// Adds a node that another class removed.
    pub(super) fn take_over(&mut self, id: NodeId, queues: &mut Queues) {
        queues.node_mut(id).tick = self.tick;
        self.push(id, Part::Edge, queues);
    }

    /// Removes a node from its queue, and returns its part.
    pub(super) fn remove(&mut self, id: NodeId, queues: &mut Queues) -> Part {
        let part = queues.unlink(id).part;
        self.bytes[part as usize] -= queues.node(id).charge as usize;
        self.len -= 1;
        part
    }

    pub(super) fn replace_charge(&mut self, id: NodeId, charge: u32, queues: &mut Queues) {
        let part = queues.place(id).part;
        let before = std::mem::replace(&mut queues.node_mut(id).charge, charge);
        let bytes = &mut self.bytes[part as usize];
        *bytes = *bytes - before as usize + charge as usize;
    }

    /// Advances the time by a number of reads. At the end of a half-life each band of the main part is
    /// appended to the one below.
    pub(super) fn note_reads(&mut self, reads: u8, queues: &mut Queues) {
        self.reads += u64::from(reads);
        // Counts of entries and reads are exactly representable.
        let half_life = self.half_life * self.len as f64 + LEAST_READS;
        if self.reads as f64 * f64::from(TICKS_PER_HALF_LIFE) <= half_life {
            return;
        }
        self.reads = 0;
        self.tick = self.tick.wrapping_add(1);
        if self.tick.is_multiple_of(TICKS_PER_HALF_LIFE) {
            for band in 1..BANDS {
                let from = self.queue(Part::Main as usize + band);
                queues.append(from, from - 1);
            }
        }
    }

    /// Widens the window if a missed entry was evicted from it within the last sixteenth of the class.
    pub(super) fn note_ghost(&mut self, stamp: u32, charge: u32) {
        let distance = (self.stamp + ghosts::STAMPS - stamp) % ghosts::STAMPS;
        if (distance as usize) < STAMPS_PER_CLASS / EDGE {
            self.move_border(STEP * f64::from(charge));
        }
    }

    /// Counts an eviction from the window and returns its stamp.
    pub(super) fn stamp_eviction(&mut self, charge: u32) -> u32 {
        let unit = (self.usage() / STAMPS_PER_CLASS).max(1);
        self.unstamped += charge as usize;
        let units = self.unstamped / unit;
        self.unstamped %= unit;
        let stamps = ghosts::STAMPS as usize;
        // The remainder is less than the number of stamps.
        self.stamp = ((self.stamp as usize + units % stamps) % stamps) as u32;
        self.stamp
    }

    /// Moves the oldest entries of the window to the main part, at most [`MAX_SPILLS`], while the window
    /// exceeds its share and `slack` bytes.
    pub(super) fn spill(&mut self, slack: usize, queues: &mut Queues) {
        for _ in 0..MAX_SPILLS {
            match self.window_end(queues) {
                Some(id) if self.window_exceeds(slack) => self.shift(id, Part::Main, queues),
                _ => return,
            }
        }
    }

    /// Chooses the entry to evict next. After `most` entries were examined in the order of the policy, any
    /// entry is accepted. Returns `None` if no entry to evict is found with the calls left.
    pub(super) fn choose(
        &mut self,
        queues: &mut Queues,
        looks: &mut Looks<'_>,
        most: usize,
    ) -> Option<NodeId> {
        let reserve = looks.left.saturating_sub(most);
        while looks.left > reserve && self.len > 0 {
            self.refill_edge(queues, looks);
            self.age_window(queues, looks);
            if let Some(victim) = self.step(queues, looks) {
                return Some(victim);
            }
        }
        self.first_unused(queues, looks)
    }

    /// Moves the border between window and main part, or finds a victim.
    fn step(&mut self, queues: &mut Queues, looks: &mut Looks<'_>) -> Option<NodeId> {
        let edge = self.oldest(Part::Edge as usize, queues);
        match (self.window_end(queues), edge) {
            (Some(candidate), Some(edge)) if !self.window_lacks() => {
                self.compare(candidate, edge, queues, looks)
            }
            (Some(candidate), None) => {
                let read = self.look(candidate, queues, looks)?;
                if read {
                    self.shift(candidate, Part::Fresh, queues);
                }
                (!read).then_some(candidate)
            }
            (_, Some(edge)) => self.edge_is_unread(edge, queues, looks).then_some(edge),
            (None, None) => None,
        }
    }

    /// Compares the oldest entry of the window with the oldest one of the edge. Returns the former if it is
    /// to be evicted.
    fn compare(
        &mut self,
        candidate: NodeId,
        edge: NodeId,
        queues: &mut Queues,
        looks: &mut Looks<'_>,
    ) -> Option<NodeId> {
        let read = self.look(candidate, queues, looks)?;
        let unread = self.edge_is_unread(edge, queues, looks);
        let rival = self.score_now(edge, queues);
        if exceeds(queues.node(candidate).score, rival) && (read || unread) {
            self.shift(candidate, Part::Main, queues);
        } else if read {
            self.shift(candidate, Part::Fresh, queues);
        } else if unread {
            // The next candidate is compared with another entry, so that a high score at the end does not
            // protect the entire edge.
            self.shift(edge, Part::Edge, queues);
            return Some(candidate);
        }
        None
    }

    /// Examines the oldest entry of the edge. Returns false if it was read, and is now in the main part, or
    /// is in use.
    fn edge_is_unread(&mut self, edge: NodeId, queues: &mut Queues, looks: &mut Looks<'_>) -> bool {
        match self.look(edge, queues, looks) {
            Some(false) => true,
            Some(true) => {
                self.move_border(-STEP * f64::from(queues.node(edge).charge));
                self.shift(edge, Part::Main, queues);
                false
            }
            None => false,
        }
    }

    /// Examines an entry and updates its score. Returns true if it was read since it was last examined. An
    /// entry in use is moved to the young end of its part, and the result is `None`.
    fn look(&mut self, id: NodeId, queues: &mut Queues, looks: &mut Looks<'_>) -> Option<bool> {
        let reads = match looks.at(id) {
            Seen::Touches(reads) => reads,
            Seen::InUse => {
                let part = match queues.place(id).part {
                    Part::Aged => Part::Fresh,
                    part => part,
                };
                self.shift(id, part, queues);
                return None;
            }
        };
        let score = score::with_reads(self.score_now(id, queues), reads);
        let node = queues.node_mut(id);
        node.score = score;
        node.tick = self.tick;
        if reads > 0 {
            node.turn = self.turn;
        }
        self.note_reads(reads, queues);
        Some(reads > 0)
    }

    /// Fills the edge with the entries of the lowest bands of the main part that were not read.
    fn refill_edge(&mut self, queues: &mut Queues, looks: &mut Looks<'_>) {
        for _ in 0..REFILL_LOOKS {
            if self.bytes[Part::Edge as usize] * EDGE >= self.usage() || looks.left == 0 {
                return;
            }
            let mut bands = Part::Main as usize..QUEUES;
            let Some(id) = bands.find_map(|queue| self.oldest(queue, queues)) else {
                return;
            };
            let before = *queues.node(id);
            if let Some(read) = self.look(id, queues, looks) {
                self.note_life(before.score, before.tick, read);
                let part = if read { Part::Main } else { Part::Edge };
                self.shift(id, part, queues);
            }
        }
    }

    /// Examines the entry of the main part with the lowest score, and returns it if it was not read.
    pub(super) fn review(&mut self, queues: &mut Queues, looks: &mut Looks<'_>) -> Option<NodeId> {
        let mut bands = Part::Edge as usize..QUEUES;
        let id = bands.find_map(|queue| self.oldest(queue, queues))?;
        let read = self.look(id, queues, looks)?;
        self.shift(id, Part::Main, queues);
        (!read).then_some(id)
    }

    /// Adapts the half-life to an entry that had a score at a tick and was or was not read since then.
    fn note_life(&mut self, score: Score, tick: u16, read: bool) {
        let ticks = self.tick.wrapping_sub(tick);
        // An entry that is read at a constant rate has a score of 1 / ln 2 times the reads in a half-life.
        let per_half_life = f64::from(score) / f64::from(READ) * std::f64::consts::LN_2;
        let expected = per_half_life * f64::from(ticks) / f64::from(TICKS_PER_HALF_LIFE);
        if ticks >= LEAST_TICKS && expected >= EXPECTED {
            let factor = if read { ALIVE } else { DEAD };
            self.half_life = (self.half_life * factor).clamp(HALF_LIVES[0], HALF_LIVES[1]);
        }
    }

    /// Moves entries from the young half of the window to the old one, unless they were read.
    fn age_window(&mut self, queues: &mut Queues, looks: &mut Looks<'_>) {
        for _ in 0..AGE_LOOKS {
            let [fresh, aged, ..] = self.bytes;
            if fresh <= aged || looks.left == 0 {
                return;
            }
            let Some(id) = self.oldest(Part::Fresh as usize, queues) else {
                return;
            };
            if let Some(read) = self.look(id, queues, looks) {
                let part = if read { Part::Fresh } else { Part::Aged };
                self.shift(id, part, queues);
            }
        }
    }

    /// The first entry that no reader holds, whether it was read or not.
    fn first_unused(&self, queues: &Queues, looks: &mut Looks<'_>) -> Option<NodeId> {
        let order = [Part::Aged as usize, Part::Fresh as usize].into_iter();
        for queue in order.chain(Part::Edge as usize..QUEUES) {
            for id in queues.iter(self.queue(queue)) {
                if looks.left == 0 {
                    return None;
                }
                if looks.at(id) != Seen::InUse {
                    return Some(id);
                }
            }
        }
        None
    }

    /// Moves a node to the young end of a part of the class.
    fn shift(&mut self, id: NodeId, part: Part, queues: &mut Queues) {
        self.remove(id, queues);
        self.push(id, part, queues);
    }

    /// Adds a node that is in no queue at the young end of a part.
    fn push(&mut self, id: NodeId, part: Part, queues: &mut Queues) {
        let node = queues.node(id);
        let queue = match part {
            Part::Main => Part::Main as usize + score::band(node.score),
            other => other as usize,
        };
        self.bytes[part as usize] += node.charge as usize;
        self.len += 1;
        let class = self.at;
        queues.push(self.queue(queue), id, Place { class, part });
    }

    /// The score of an entry at present.
    pub(super) fn score_now(&self, id: NodeId, queues: &Queues) -> Score {
        let node = queues.node(id);
        score::decayed(node.score, self.tick.wrapping_sub(node.tick))
    }

    fn oldest(&self, queue: usize, queues: &Queues) -> Option<NodeId> {
        queues.oldest(self.queue(queue))
    }

    fn window_end(&self, queues: &Queues) -> Option<NodeId> {
        self.oldest(Part::Aged as usize, queues)
            .or_else(|| self.oldest(Part::Fresh as usize, queues))
    }

    /// True if the window exceeds its share and `slack` bytes.
    fn window_exceeds(&self, slack: usize) -> bool {
        let [fresh, aged, ..] = self.bytes;
        // Sizes in memory: the loss of precision is irrelevant.
        (fresh + aged) as f64 > self.share * self.usage() as f64 + slack as f64
    }

    /// True if the window is well below its share.
    fn window_lacks(&self) -> bool {
        let [fresh, aged, ..] = self.bytes;
        let least = (self.share / 2.0).max(self.share - LACK);
        ((fresh + aged) as f64) < least * self.usage() as f64
    }

    /// Moves the border between window and main part by a number of bytes.
    fn move_border(&mut self, bytes: f64) {
        let share = self.share + bytes / self.usage().max(1) as f64;
        self.share = share.clamp(SHARES[0], SHARES[1]);
    }

    /// The number of a queue of the class among those of the policy.
    fn queue(&self, queue: usize) -> usize {
        usize::from(self.at) * QUEUES + queue
    }
}

/// True if the score of a candidate exceeds that of an entry of the edge by more than the read for which the
/// candidate was inserted. That read counts in full only against an entry whose score has almost decayed to
/// zero.
fn exceeds(candidate: Score, edge: Score) -> bool {
    let margin = READ.min(2 * edge) + edge / 16;
    candidate > edge + margin
}

/// The parts, oldest entries first.
#[cfg(test)]
pub(super) const PARTS_IN_ORDER: [Part; PARTS] = [Part::Aged, Part::Fresh, Part::Edge, Part::Main];

#[cfg(test)]
impl Class {
    /// The bytes of a part.
    pub(super) fn bytes_of(&self, part: Part) -> usize {
        self.bytes[part as usize]
    }

    /// The nodes in the queues of a part.
    pub(super) fn ids_of(&self, part: Part, queues: &Queues) -> Vec<NodeId> {
        let last = match part {
            Part::Main => QUEUES,
            other => other as usize + 1,
        };
        (part as usize..last)
            .flat_map(|queue| queues.iter(self.queue(queue)))
            .collect()
    }
}
