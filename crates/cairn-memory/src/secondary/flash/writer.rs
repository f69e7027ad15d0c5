//! The write job of the flash cache: it takes pending entries, fills a segment in memory, and writes it.
//!
//! One segment is under construction at a time. Its file is chosen when it is started: a file without a valid
//! segment, a new one, or that of the oldest segment, whose entries stay readable until it is overwritten.

use std::collections::{BTreeSet, VecDeque};

use cairn_compress::Compression;
use cairn_format::cache_segment::{SegmentBuilder, SegmentRecord};
use cairn_platform::Priority;
use cairn_platform::sync::{Arc, Ordering};
use cairn_types::Result;

use super::super::{Bytes, hash_of};
use super::index::{Pending, Place};
use super::{Inner, bytes_of, priority_of, role_of};
use crate::cache::CacheKey;

/// The number of waiting bytes that start the job; less if a segment is smaller than four times that.
const BATCH: usize = 256 << 10;

/// Entries waiting for the job.
#[derive(Default)]
pub(super) struct Intake {
    /// Hashes of keys, and the memory of the entries.
    queue: VecDeque<(u64, usize)>,
    /// The memory of all entries in the queue.
    bytes: usize,
    /// True if the job is queued or running.
    scheduled: bool,
}

/// A segment that was written.
struct Written {
    number: u32,
    /// Hashes of the keys, some of which may have moved or gone since.
    tags: Vec<u64>,
}

/// A segment under construction.
struct Building {
    builder: SegmentBuilder,
    /// Hashes of the keys, in the order of the records.
    tags: Vec<u64>,
    number: u32,
    /// True if the file exists.
    exists: bool,
    /// The segment to be overwritten.
    old: Option<Written>,
}

/// The state of the job.
#[derive(Default)]
pub(super) struct Writer {
    /// Segments, oldest first.
    order: VecDeque<Written>,
    /// Files without a valid segment.
    free: BTreeSet<u32>,
    /// Numbers below `end` without a file.
    gaps: BTreeSet<u32>,
    /// The first unused number.
    end: u32,
    next_generation: u64,
    building: Option<Building>,
    written: u64,
}

impl Intake {
    /// Removes all entries from the queue.
    pub(super) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.bytes = 0;
    }
}

impl Inner {
    /// Queues an entry of `memory` bytes. Returns false if too many bytes wait. The caller adds the entry to the
    /// index, and then calls [`Inner::wake`].
    pub(super) fn enqueue(&self, hash: u64, memory: usize) -> bool {
        let mut intake = self.intake.lock();
        let fits = intake.bytes + memory <= self.settings.write_buffer_size;
        if fits {
            intake.queue.push_back((hash, memory));
            intake.bytes += memory;
        }
        fits
    }

    /// Starts the job if enough entries wait for it.
    pub(super) fn wake(self: &Arc<Inner>) {
        let mut intake = self.intake.lock();
        let starts = !intake.scheduled && intake.bytes >= BATCH.min(self.settings.segment_size / 4);
        intake.scheduled |= starts;
        drop(intake);
        if starts {
            self.spawn();
        }
    }

    /// Starts the job, unless it is queued or running.
    pub(super) fn schedule(self: &Arc<Inner>) {
        if !std::mem::replace(&mut self.intake.lock().scheduled, true) {
            self.spawn();
        }
    }

    fn spawn(self: &Arc<Inner>) {
        // The job does not keep the cache open.
        let inner = Arc::downgrade(self);
        let job = move || {
            if let Some(inner) = inner.upgrade() {
                inner.run();
            }
        };
        self.executor.spawn(Priority::User, Box::new(job));
    }

    /// Runs the job until a segment is written or nothing waits.
    fn run(self: &Arc<Inner>) {
        let mut writer = self.writer.lock();
        // Keeps the directory locked while the job writes, even if the cache is closed after a fault. Released before
        // `writer`, for which `close` waits.
        let Some(lock) = self.lock.lock().clone() else {
            return;
        };
        let before = writer.written;
        while writer.written == before {
            if self.is_stopped() {
                return;
            }
            let step = writer.trim(self).and_then(|()| match self.next() {
                Some(hash) => writer.append(self, hash).map(|()| true),
                None => Ok(false),
            });
            match step {
                Ok(true) => {}
                // The capacity was lowered after `trim`, while this job was scheduled: trim again.
                Ok(false) if writer.segments() > self.max_segments() => {}
                Ok(false) => return,
                Err(error) => return self.disable(error),
            }
        }
        drop(lock);
        drop(writer);
        self.spawn();
    }

    /// The next entry of the queue. If there is none, the job ends.
    fn next(&self) -> Option<u64> {
        let mut intake = self.intake.lock();
        match intake.queue.pop_front() {
            Some((hash, memory)) => {
                intake.bytes -= memory;
                Some(hash)
            }
            None => {
                intake.scheduled = false;
                None
            }
        }
    }

    pub(super) fn close(&self) {
        // Held until everything is written. If there is none, another thread closes the cache, or has closed it.
        let Some(_lock) = self.lock.lock().take() else {
            return;
        };
        if !self.stopped.swap(true, Ordering::AcqRel) {
            // Waits for the job.
            let mut writer = self.writer.lock();
            if let Err(error) = writer.finish(self) {
                self.disable(error);
            }
            self.files.close();
        }
    }
}

impl Writer {
    /// Adds a segment found at a restart, which is younger than those added before.
    pub(super) fn add_found(&mut self, number: u32, generation: u64, tags: Vec<u64>) {
        self.use_number(number);
        self.next_generation = generation + 1;
        self.order.push_back(Written { number, tags });
    }

    /// Adds a file without a valid segment.
    pub(super) fn add_free(&mut self, number: u32) {
        self.use_number(number);
        self.free.insert(number);
    }

    /// Registers the number of a file. The gaps are bounded by the capacity, not by the numbers found.
    fn use_number(&mut self, number: u32) {
        const MAX_GAPS: u32 = 1 << 16;
        if number >= self.end {
            let from = self.end.max(number.saturating_sub(MAX_GAPS));
            self.gaps.extend(from..number);
            self.end = number.saturating_add(1);
        }
        self.gaps.remove(&number);
    }

    /// The number of files.
    pub(super) fn segments(&self) -> usize {
        let building = self.building.as_ref();
        self.order.len() + self.free.len() + usize::from(building.is_some_and(|it| it.exists))
    }

    /// Deletes files beyond the capacity: those without a segment first, then the oldest.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn trim(&mut self, inner: &Inner) -> Result<()> {
        let most = inner.max_segments();
        while self.segments() > most {
            let number = if let Some(number) = self.free.pop_first() {
                number
            } else if let Some(oldest) = self.order.pop_front() {
                oldest.evict(inner);
                oldest.number
            } else if let Some(building) = self.building.take() {
                building.discard(inner);
                building.number
            } else {
                break;
            };
            inner.files.remove(number)?;
            self.gaps.insert(number);
        }
        // Relaxed: for the usage only.
        inner.segments.store(self.segments(), Ordering::Relaxed);
        Ok(())
    }

    /// Adds an entry to the segment under construction, which is written first if it is full.
    fn append(&mut self, inner: &Inner, hash: u64) -> Result<()> {
        let pending = inner.shard(hash).lock().pending(hash).cloned();
        let Some(mut pending) = pending else {
            // It was erased.
            return Ok(());
        };
        inner.compress(hash, &mut pending);
        let len = pending.bytes.stored().len();
        let full =
            |building: &Building| building.builder.len_with(len) > inner.settings.segment_size;
        if self.building.as_ref().is_some_and(full) {
            self.write(inner)?;
        }
        if self.building.is_none() {
            self.begin(inner);
        }
        let Some(building) = self.building.as_mut().filter(|building| !full(building)) else {
            inner.release(inner.shard(hash).lock().drop_pending(hash));
            return Ok(());
        };
        building.add(hash, &pending);
        Ok(())
    }

    /// Starts a segment, unless the capacity permits none. Entries of the oldest segment that were hit become
    /// its first ones, up to half of it.
    fn begin(&mut self, inner: &Inner) {
        let (number, exists, old) = if let Some(number) = self.free.pop_first() {
            (number, true, None)
        } else if self.order.len() < inner.max_segments() {
            let number = self.gaps.pop_first().unwrap_or(self.end);
            self.end = self.end.max(number.saturating_add(1));
            (number, false, None)
        } else if let Some(oldest) = self.order.pop_front() {
            (oldest.number, true, Some(oldest))
        } else {
            return;
        };
        let mut building = Building {
            builder: SegmentBuilder::new(self.next_generation),
            tags: Vec::new(),
            number,
            exists,
            old: None,
        };
        self.next_generation += 1;
        if let Some(old) = &old {
            building.reinsert(inner, old);
        }
        building.old = old;
        self.building = Some(building);
    }

    /// Writes the segment under construction.
    fn write(&mut self, inner: &Inner) -> Result<()> {
        let Some(building) = self.building.take() else {
            return Ok(());
        };
        let number = building.number;
        if let Some(old) = &building.old {
            old.evict(inner);
        }
        inner.files.hide(number);
        let generation = building.builder.generation();
        let finished = building.builder.finish(inner.settings.identity);
        let written = finished.head.len() + finished.records.len();
        let result = inner
            .files
            .write(number, building.exists, generation, &finished);
        if let Err(error) = result {
            for tag in building.tags {
                inner.release(inner.shard(tag).lock().drop_pending(tag));
            }
            return Err(error);
        }
        for (tag, row) in building.tags.iter().zip(&finished.rows) {
            let place = Place {
                segment: number,
                offset: row.offset,
                len: row.len,
                role: role_of(row.role),
                hit: false,
            };
            let held = inner.shard(*tag).lock().publish(*tag, place);
            inner.release(held.unwrap_or(0));
        }
        self.order.push_back(Written {
            number,
            tags: building.tags,
        });
        self.written += 1;
        // Relaxed, here and below: counters.
        inner.segments.store(self.segments(), Ordering::Relaxed);
        inner
            .counters
            .segments_written
            .fetch_add(1, Ordering::Relaxed);
        inner
            .counters
            .bytes_written
            .fetch_add(written as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Writes all pending entries. A nearly empty segment does not replace a full one.
    fn finish(&mut self, inner: &Inner) -> Result<()> {
        while let Some(hash) = inner.next() {
            self.append(inner, hash)?;
        }
        let worth = |building: &Building| {
            let len = building.builder.encoded_len();
            let costs = building.old.is_some() && len < inner.settings.segment_size / 4;
            !building.builder.is_empty() && !costs
        };
        match self.building.as_ref().is_some_and(worth) {
            true => self.write(inner),
            false => Ok(()),
        }
    }
}

impl Written {
    /// Drops the entries of this segment, except those that are in memory.
    fn evict(&self, inner: &Inner) {
        for tag in &self.tags {
            inner.shard(*tag).lock().unplace(*tag, self.number);
        }
    }
}

impl Building {
    fn add(&mut self, hash: u64, pending: &Pending) {
        let (codec, raw_len) = match &pending.bytes {
            Bytes::Plain(buffer) => (Compression::None, buffer.len() as u32),
            Bytes::Compressed { codec, len, .. } => (*codec, *len),
        };
        let added = self.builder.add(&SegmentRecord {
            key: [pending.key.high, pending.key.low],
            raw_len,
            role: pending.role as u8,
            priority: pending.priority as u8,
            codec: codec as u8,
            payload: pending.bytes.stored(),
        });
        debug_assert!(added, "a segment is less than 4 GiB");
        self.tags.push(hash);
    }

    /// Copies the entries of `old` that were hit.
    fn reinsert(&mut self, inner: &Inner, old: &Written) {
        let mut bytes = Vec::new();
        for tag in &old.tags {
            let place = inner.shard(*tag).lock().place(*tag);
            let Some(place) = place.filter(|place| place.segment == old.number && place.hit) else {
                continue;
            };
            let Some(record) = inner.read(place, &mut bytes) else {
                continue;
            };
            let key = CacheKey {
                high: record.key[0],
                low: record.key[1],
            };
            let fits =
                self.builder.len_with(record.payload.len()) <= inner.settings.segment_size / 2;
            let codec = Compression::from_u8(record.codec);
            let (Some(codec), true) = (codec, fits && hash_of(&key) == *tag) else {
                continue;
            };
            let pending = Pending {
                key,
                bytes: bytes_of(codec, &record),
                role: role_of(record.role),
                priority: priority_of(record.priority),
                hit: false,
            };
            let memory = pending.bytes.memory_usage();
            if inner.shard(*tag).lock().hold(*tag, place, pending.clone()) {
                inner.pending_bytes.fetch_add(memory, Ordering::Relaxed);
                inner.counters.reinsertions.fetch_add(1, Ordering::Relaxed);
                self.add(*tag, &pending);
            }
        }
    }

    /// Drops the entries of this segment and of the one that it was about to overwrite.
    fn discard(&self, inner: &Inner) {
        if let Some(old) = &self.old {
            old.evict(inner);
        }
        for tag in &self.tags {
            inner.release(inner.shard(*tag).lock().drop_pending(*tag));
        }
    }
}

impl Inner {
    /// Records that pending entries no longer hold `bytes` of memory.
    fn release(&self, bytes: usize) {
        // Relaxed: a counter.
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Compresses a pending entry, including its copy in memory, where it stays until its segment is written.
    fn compress(&self, hash: u64, pending: &mut Pending) {
        let Bytes::Plain(plain) = &pending.bytes else {
            return;
        };
        if self.settings.plain_roles[pending.role as usize] {
            return;
        }
        let Some(bytes) = self.settings.codec.compress(plain) else {
            return;
        };
        pending.bytes = bytes;
        let memory = pending.bytes.memory_usage();
        if let Some(held) = self.shard(hash).lock().replace(hash, pending) {
            self.pending_bytes.fetch_add(memory, Ordering::Relaxed);
            self.release(held);
        }
    }
}
