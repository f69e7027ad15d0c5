//! The blocks that an iterator lacks: requests for them, with readahead, and the blocks supplied in answer.

use cairn_format::table::Handle;
use cairn_memory::secondary::DeviceRead;
use cairn_memory::{CacheCharge, CacheRole, MemoryUse};
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{Code, Progress, Result};

use super::super::ahead;
use super::super::block_fetcher::Raw;
use super::super::prefetch::piece_size;
use super::super::table::{MissingBlock, SuppliedBlock, Table};
use super::{IterOptions, Landing, TableIter};

/// The block that an iterator lacks.
pub(super) struct Lack {
    block: MissingBlock,
    request: ReadRequest,
    /// The charge of the read, made before it.
    charge: Option<CacheCharge>,
    part_of: PartOf,
    /// The read of the block from the device of a tier, to which the request belongs. Boxed, so that iterators stay
    /// small.
    on_device: Option<Box<DeviceRead>>,
}

/// The read to which the request for a block belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartOf {
    /// The block alone, or with bytes after it.
    Own,
    /// The first chunk of the readahead
    Readahead,
    /// A chunk of planned reads.
    Plan,
}

impl Lack {
    /// The lack of `block`, which `request` reads.
    fn new(table: &Table, block: MissingBlock, request: ReadRequest) -> Lack {
        Lack {
            block,
            charge: table.charge_read(&request),
            request,
            part_of: PartOf::Own,
            on_device: None,
        }
    }

    /// The lack of `block`, which a tier has on a device.
    #[cold]
    fn on_device(table: &Table, block: MissingBlock, read: DeviceRead) -> Lack {
        let request = read.request().clone();
        Lack {
            on_device: Some(Box::new(read)),
            ..Lack::new(table, block, request)
        }
    }
}

/// The charges of the blocks that an iterator holds and that were not in the cache when it read them.
#[derive(Default)]
pub(super) struct HeldCharges {
    data: Option<CacheCharge>,
    /// The index blocks: the root, and the last partition that was not in the cache.
    index: [Option<CacheCharge>; 2],
}

/// Returns the contents of the block that was read as `raw`, with key words if `searched`.
pub(super) fn take(
    table: &Table,
    options: &IterOptions,
    lack: MissingBlock,
    (raw, reading): (Raw<'_>, Option<CacheCharge>),
    searched: bool,
) -> Result<SuppliedBlock> {
    let IterOptions {
        verify_checksums,
        fill_cache,
        ..
    } = *options;
    let mut taken = table.take(lack, &raw, verify_checksums, fill_cache, reading)?;
    // The words fit into the memory of the block only if nothing else holds it.
    drop(raw);
    if searched && fill_cache {
        taken.block = table.with_words(lack, taken.block);
    }
    Ok(taken)
}

impl TableIter {
    /// Returns the request for the missing block.
    ///
    /// # Panics
    ///
    /// Unless the last step returned [`Progress::Lacks`].
    #[must_use]
    pub fn request(&self) -> ReadRequest {
        self.lack
            .as_ref()
            .expect("the iterator lacks a block")
            .request
            .clone()
    }

    /// True if the missing block is in a tier below the cache: its request reads the device of the tier, not the table.
    #[must_use]
    pub fn lacks_only_device(&self) -> bool {
        let lack = self.lack.as_ref();
        lack.is_some_and(|lack| lack.on_device.is_some())
    }

    /// Records the lookup of the missing block, which is not read because storage must not be accessed.
    #[cold]
    pub fn trace_refused(&self) {
        if let Some(lack) = &self.lack {
            self.table.trace_refused(lack.block, &self.supplied);
        }
    }

    /// Supplies the missing block, possibly followed by more bytes, and continues.
    pub fn supply(&mut self, bytes: Result<Buffer>) -> Progress {
        let lack = self.lack.take().expect("the iterator lacks a block");
        if lack.part_of != PartOf::Own {
            return self.supply_chunk(lack, bytes);
        }
        let Lack {
            block: lack,
            mut charge,
            on_device,
            ..
        } = lack;
        if let Some(read) = on_device {
            return self.supply_from_device(lack, (*read, bytes));
        }
        let taken = bytes.and_then(|bytes| {
            let len = bytes
                .len()
                .min(lack.handle.size as usize + cairn_format::table::TRAILER_LEN);
            if lack.role == CacheRole::Data && self.prefetch.keep(lack.handle, &bytes, &mut charge)
            {
                self.table.count_ahead(bytes.len());
            }
            let raw = match bytes.len() == len {
                true => Raw::Whole(bytes),
                false => Raw::Part(&bytes[..len]),
            };
            let searched = self.searches_often() && self.landing.is_some_and(Landing::is_search);
            let taken = take(&self.table, &self.options, lack, (raw, charge), searched)?;
            self.table.trace_miss(lack, &taken.block, &self.supplied);
            Ok(taken)
        });
        match taken {
            Ok(block) => {
                if let Some(ahead) = &mut self.prefetch.background {
                    ahead.learn(lack, &block.block);
                }
                self.supplied.push(block);
                self.advance()
            }
            Err(error) => self.fail(error),
        }
    }

    /// Supplies the missing block from the device of a tier. If that fails, the block is read from the table.
    #[cold]
    fn supply_from_device(
        &mut self,
        lack: MissingBlock,
        read: (DeviceRead, Result<Buffer>),
    ) -> Progress {
        match self.table.take_from_device(lack, read, &self.supplied) {
            Ok(Some(block)) => {
                if let Some(ahead) = &mut self.prefetch.background {
                    ahead.learn(lack, &block.block);
                }
                self.supplied.push(block);
                self.advance()
            }
            Ok(None) => self.advance(),
            Err(error) => self.fail(error),
        }
    }

    /// Supplies the chunk that has the missing block.
    #[cold]
    fn supply_chunk(&mut self, lack: Lack, bytes: Result<Buffer>) -> Progress {
        let planned = self.prefetch.planned.as_ref();
        let supplied = match (lack.part_of, &mut self.prefetch.background) {
            (PartOf::Plan, _) => {
                planned.is_some_and(|planned| planned.supply(lack.block.handle, &bytes))
            }
            (_, Some(ahead)) => ahead.supply(&self.table, &bytes),
            (_, None) => false,
        };
        match bytes {
            Err(error) if error.code() == Code::TimedOut => self.fail(error),
            _ if supplied => self.advance(),
            // The read failed: perhaps only in another block.
            _ => {
                let request = self.table.request(lack.block, 0);
                self.lack = Some(Lack::new(&self.table, lack.block, request));
                Progress::Lacks
            }
        }
    }

    /// Reads the blocks that the step with the result `progress` is missing, on the calling thread,
    /// until the step is complete: `let step = iter.next(); iter.complete(step, io);`.
    pub fn complete(&mut self, mut progress: Progress, io: &Io) {
        while progress == Progress::Lacks {
            let request = self.request();
            let spent = self.prefetch.take_spent(request.len);
            progress = self.supply(io.read_into(&request, spent));
        }
    }

    /// Requests the missing block, and as much after it as is to be read ahead
    pub(super) fn request_block(&mut self, lack: MissingBlock) -> Progress {
        if self.prefetch.planned.is_some()
            && let Some(progress) = self.request_by_plan(lack)
        {
            return progress;
        }
        if self.prefetch.background.is_some() {
            return self.request_in_background(lack);
        }
        if let Some(read) = self.supplied.take_on_device(lack.handle.offset) {
            self.lack = Some(Lack::on_device(&self.table, lack, read));
            return Progress::Lacks;
        }
        let more = match lack.role == CacheRole::Data && !self.is_back() {
            true => self.readahead_after(lack.handle),
            false => 0,
        };
        let request = self.table.request(lack, more);
        self.lack = Some(Lack::new(&self.table, lack, request));
        Progress::Lacks
    }

    /// Requests the missing block, if it is part of planned reads.
    #[cold]
    fn request_by_plan(&mut self, block: MissingBlock) -> Option<Progress> {
        let planned = self.prefetch.planned.as_ref()?;
        if block.role != CacheRole::Data {
            let known = planned.known_index(block)?;
            self.supplied.push(known);
            return Some(self.advance());
        }
        let request = planned.request(block.handle)?;
        self.lack = Some(Lack {
            block,
            request,
            charge: None,
            part_of: PartOf::Plan,
            on_device: None,
        });
        Some(Progress::Lacks)
    }

    /// The number of bytes to read after the data block at `handle`, which must be read.
    fn readahead_after(&mut self, handle: Handle) -> u64 {
        let more = self.prefetch.more(handle, &self.table.params.options);
        let room = self.table.data_end().saturating_sub(handle.end());
        let mut more = more.min(room);
        if let Some(upper) = self.prefetch.upper()
            && more > 0
        {
            more = ahead::trimmed(&self.table, &self.walk, more, upper);
        }
        let piece = piece_size(&self.table.params.charge);
        self.prefetch.piece(handle, more, piece, &*self.table.file)
    }

    /// Requests the missing block, as part of the readahead if it is one.
    #[cold]
    fn request_in_background(&mut self, block: MissingBlock) -> Progress {
        let back = self.is_back();
        let (table, walk) = (&self.table, &self.walk);
        let on_device = self.supplied.take_on_device(block.handle.offset);
        let mut lack = None;
        if let Some(ahead) = &mut self.prefetch.background {
            if block.role == CacheRole::Data {
                let in_table = on_device.is_none().then_some(block.handle);
                let chunk =
                    in_table.and_then(|handle| ahead.request_for(table, walk, handle, back));
                lack = chunk.map(|request| Lack {
                    block,
                    request,
                    charge: None,
                    part_of: PartOf::Readahead,
                    on_device: None,
                });
            } else if let Some(known) = ahead.known_index(block) {
                self.supplied.push(known);
                return self.advance();
            } else if let Some(awaited) = ahead.take_awaited(block) {
                lack = Some(Lack {
                    block,
                    request: awaited.request,
                    charge: awaited.charge,
                    part_of: PartOf::Own,
                    on_device: awaited.on_device,
                });
            }
        }
        let alone = || match on_device {
            Some(read) => Lack::on_device(table, block, read),
            None => Lack::new(table, block, table.request(block, 0)),
        };
        self.lack = Some(lack.unwrap_or_else(alone));
        Progress::Lacks
    }

    /// Holds the charge of the current data block in place of that of the last one.
    #[inline]
    pub(super) fn hold_data(&mut self, charge: Option<CacheCharge>) {
        match charge {
            Some(mut charge) => {
                charge.reuse(MemoryUse::Iterator);
                self.held.get_or_insert_default().data = Some(charge);
            }
            None => {
                if let Some(held) = &mut self.held {
                    held.data = None;
                }
            }
        }
    }

    /// Releases the blocks read for a movement. The index walk holds index blocks; their charges stay.
    #[inline]
    pub(super) fn release_supplied(&mut self) {
        if !self.supplied.is_empty() {
            let root = self.table.index.root.handle.offset;
            for (offset, mut charge) in self.supplied.take_index_charges() {
                charge.reuse(MemoryUse::Iterator);
                let held = self.held.get_or_insert_default();
                held.index[usize::from(offset != root)] = Some(charge);
            }
            self.supplied.clear();
        }
        self.supplied.forget_on_device();
    }
}
