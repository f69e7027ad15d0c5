//! Readahead of an iterator: how much more than the block that it lacks is asked for.
//!
//! Reads that follow each other in the file are counted. Once there were more than
//! `num_file_reads_for_auto_readahead` of them, the request covers `initial_auto_readahead_size`
//! bytes, and twice as many each time, up to `max_auto_readahead_size`. A read elsewhere starts
//! anew. A fixed readahead applies from the first read on.
//!
//! Long ranges are read in pieces of [`PIECE`] bytes, and the kernel is asked to have the rest ready: a
//! compaction of twenty tables then holds 5 MB of them in memory of its own, and not 40. Where the file cannot do that
//! (direct reads) all of it is read at once.

use std::ops::Range;

use cairn_format::table::{Handle, TRAILER_LEN};
use cairn_options::TableOptions;
use cairn_platform::{Buffer, RandomAccessFile};

/// The bytes read at once where the kernel has the rest ready: long enough for a call to cost little, and short
/// enough to be in the processor's cache when it is used.
const PIECE: u64 = 256 << 10;

/// The state of an iterator's reads.
#[derive(Default)]
pub(crate) struct Prefetch {
    /// Bytes to read ahead in any case; 0 to find out.
    fixed: u64,
    reads: u64,
    next_offset: u64,
    size: u64,
    /// The part of the file that the kernel was asked for last.
    asked: Range<u64>,
    /// Bytes that were read ahead, and where they begin.
    ahead: Option<(u64, Buffer)>,
}

impl Prefetch {
    pub(crate) fn new(fixed: u64) -> Prefetch {
        Prefetch {
            fixed,
            ..Prefetch::default()
        }
    }

    /// How many bytes behind the block at `handle`, which must be read, are to be read with it.
    pub(crate) fn more(&mut self, handle: Handle, options: &TableOptions) -> u64 {
        let len = handle.size + TRAILER_LEN as u64;
        if handle.offset != self.next_offset {
            self.reads = 0;
            self.size = 0;
        }
        self.reads += 1;
        let wanted = if self.fixed > 0 {
            self.fixed
        } else if self.reads > options.num_file_reads_for_auto_readahead {
            let doubled = match self.size {
                0 => options.initial_auto_readahead_size,
                size => size.saturating_mul(2),
            };
            self.size = doubled.min(options.max_auto_readahead_size);
            self.size
        } else {
            0
        };
        self.next_offset = handle.end();
        wanted.saturating_sub(len)
    }

    /// How many of the `more` bytes behind the block at `handle` are to be read with it. `file` is asked to
    /// have the others ready; when half of them are read, it is asked again.
    pub(crate) fn piece(&mut self, handle: Handle, more: u64, file: &dyn RandomAccessFile) -> u64 {
        let len = handle.size + TRAILER_LEN as u64;
        let piece = PIECE.saturating_sub(len);
        if more <= piece {
            return more;
        }
        let end = handle.end().saturating_add(more);
        let goes_on = (self.asked.start..=self.asked.end).contains(&handle.offset);
        if !goes_on || self.asked.end < end - more / 2 {
            let start = if goes_on {
                self.asked.end
            } else {
                handle.offset
            };
            if !file.prefetch(start, (end - start) as usize) {
                return more;
            }
            self.asked = handle.offset..end;
        }
        piece
    }

    /// Takes what a request brought, whose first bytes are the block at `handle`. Whether there is
    /// more behind them.
    pub(crate) fn keep(&mut self, handle: Handle, bytes: &Buffer) -> bool {
        let len = (handle.size as usize).saturating_add(TRAILER_LEN);
        let has_more = bytes.len() > len;
        if has_more {
            self.ahead = Some((handle.offset, bytes.clone()));
        }
        has_more
    }

    /// Gives up what was read ahead, if it has `len` bytes: their memory serves for the next.
    pub(crate) fn spent(&mut self, len: usize) -> Option<Buffer> {
        let (_, bytes) = self.ahead.take_if(|(_, bytes)| bytes.len() == len)?;
        Some(bytes)
    }

    /// The bytes of the block at `handle`, trailer included, if they were read ahead.
    pub(crate) fn take(&mut self, handle: Handle) -> Option<&[u8]> {
        let (at, bytes) = self.ahead.as_ref()?;
        let start = usize::try_from(handle.offset.checked_sub(*at)?).ok()?;
        let len = (handle.size as usize).checked_add(TRAILER_LEN)?;
        let found = bytes.get(start..start.checked_add(len)?)?;
        self.next_offset = handle.end();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cairn_platform::sync::Mutex;
    use cairn_types::Result;

    use super::*;

    #[test]
    fn readahead_starts_with_the_third_read_in_sequence_and_doubles() {
        let options = TableOptions::default();
        let mut prefetch = Prefetch::new(0);
        let block = |at: u64| Handle {
            offset: at * 1000,
            size: 995,
        };
        let more: Vec<u64> = (0..9)
            .map(|at| prefetch.more(block(at), &options))
            .collect();
        let sizes = [8u64, 16, 32, 64, 128, 256, 256].map(|kib| kib * 1024 - 1000);
        assert_eq!(more[..2], [0, 0]);
        assert_eq!(more[2..], sizes);
        assert_eq!(prefetch.more(block(100), &options), 0);
    }

    /// A file of which only the prefetches count.
    struct Asked {
        takes: bool,
        asked: Mutex<Vec<(u64, usize)>>,
    }

    impl RandomAccessFile for Asked {
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
            Ok(0)
        }
        cairn_platform::derived_reads!();
        fn advise(&self, _: cairn_platform::fs::Access) {}
        fn drop_cached(&self) {}
        fn len(&self) -> Result<u64> {
            Ok(0)
        }
        fn path(&self) -> &Path {
            Path::new("asked")
        }
        fn prefetch(&self, offset: u64, len: usize) -> bool {
            self.asked.lock().push((offset, len));
            self.takes
        }
    }

    #[test]
    fn long_readahead_is_asked_for_by_halves_and_read_in_pieces() {
        const AHEAD: u64 = 2 << 20;
        const END: u64 = 10 * AHEAD + 10_000;
        let block = |offset| Handle { offset, size: 4000 };
        let read = |file: &Asked, prefetch: &mut Prefetch, at: u64| {
            let wanted = prefetch.more(block(at), &TableOptions::default());
            let more = wanted.min(END.saturating_sub(block(at).end()));
            4005 + prefetch.piece(block(at), more, file)
        };
        let mut file = Asked {
            takes: true,
            asked: Mutex::default(),
        };
        let mut prefetch = Prefetch::new(AHEAD);
        let (mut at, mut reads) = (0, 0);
        while at < END {
            let len = read(&file, &mut prefetch, at);
            assert!(len <= PIECE);
            let asked = file.asked.lock();
            let ready = asked.last().map_or(0, |&(start, len)| start + len as u64);
            assert!(
                ready >= (at + AHEAD / 2).min(END - PIECE),
                "{at} of {ready}"
            );
            (at, reads) = (at + len, reads + 1);
        }
        assert_eq!((at, reads), (END, END.div_ceil(PIECE)));
        // One behind the other, a half of the readahead or so at a time.
        let asked = std::mem::take(&mut *file.asked.lock());
        assert_eq!(asked[0], (0, AHEAD as usize));
        assert!(
            asked
                .windows(2)
                .all(|two| two[0].0 + two[0].1 as u64 == two[1].0)
        );
        assert!(asked.len() <= 21, "{asked:?}");
        // Elsewhere it begins anew.
        assert_eq!(read(&file, &mut prefetch, 3 * AHEAD), PIECE);
        assert_eq!(*file.asked.lock(), [(3 * AHEAD, AHEAD as usize)]);
        // A file that cannot is read at once.
        file.takes = false;
        assert_eq!(read(&file, &mut Prefetch::new(AHEAD), 0), AHEAD);
        // What is short is not asked for.
        let mut short = Prefetch::new(PIECE);
        assert_eq!(read(&file, &mut short, 0), PIECE);
        assert_eq!(file.asked.lock().len(), 2);
    }

    #[test]
    fn what_was_read_ahead_is_sliced() {
        let mut prefetch = Prefetch::new(100);
        let first = Handle {
            offset: 50,
            size: 5,
        };
        prefetch.keep(first, &Buffer::from((0..40u8).collect::<Vec<_>>()));
        let second = Handle {
            offset: 60,
            size: 5,
        };
        assert_eq!(
            prefetch.take(second),
            Some(&[10, 11, 12, 13, 14, 15, 16, 17, 18, 19][..])
        );
        let beyond = Handle {
            offset: 80,
            size: 6,
        };
        assert_eq!(prefetch.take(beyond), None);
    }

    #[test]
    fn memory_is_given_up_only_to_a_reading_of_the_same_length() {
        let mut prefetch = Prefetch::new(100);
        let first = Handle { offset: 0, size: 5 };
        prefetch.keep(first, &Buffer::from(vec![0; 100]));
        assert!(prefetch.spent(99).is_none());
        assert!(prefetch.take(first).is_some());
        assert_eq!(prefetch.spent(100).map(|bytes| bytes.len()), Some(100));
        assert!(prefetch.take(first).is_none());
    }
}
