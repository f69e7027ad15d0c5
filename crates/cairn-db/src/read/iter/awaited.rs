//! Iterators whose moves are futures.
//!
//! An [`AsyncIter`] has two cursors over the same view. One reads memory only and moves on the thread that polls.
//! When it lacks something, the other continues on a helper thread, where it may block: it moves to the next entry
//! and fetches entries beyond it, more with each call, with the readahead of an ordinary iterator. The entries are
//! then returned without waiting. A seek starts in memory again.
//!
//! The position changes when the future of a move is complete; a move whose future was dropped leaves it as it was.
//! Entries that the helper thread fetched for such a move are returned if the next move is the same, and dropped
//! otherwise.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use cairn_options::enums::IoCharge;
use cairn_options::{ReadOptions, ReadTier};
use cairn_platform::io::{Offload, ReadDriver, offload};
use cairn_read::Value;
use cairn_types::{Code, Error, Result, SequenceNumber};

use super::Iter;
use crate::db::futures::AwaitedView;
use crate::db::handle::Family;

/// The size in bytes of keys and values of the first fetch after a seek, and the maximum of later ones.
const FETCHED: std::ops::Range<usize> = 4 << 10..256 << 10;

/// A move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Motion {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the first key at or after this one.
    Seek(Vec<u8>),
    /// To the last key at or before this one.
    SeekForPrev(Vec<u8>),
    /// To the next key.
    Next,
    /// To the previous key.
    Prev,
}

impl Motion {
    /// True if the move is toward smaller keys, or starts a backward iteration.
    fn is_back(&self) -> bool {
        matches!(self, Motion::Last | Motion::SeekForPrev(_) | Motion::Prev)
    }

    fn is_seek(&self) -> bool {
        !matches!(self, Motion::Next | Motion::Prev)
    }
}

/// A bidirectional cursor whose moves are futures. It keeps the files that it reads and the database open.
pub struct AsyncIter {
    source: Source,
    /// Reads memory only; `None` until it can be created without reading.
    near: Option<Iter>,
    /// Reads files; `None` while a helper thread moves it, and before the first use.
    far: Option<Iter>,
    /// True if the far cursor is at the last of the fetched entries, or after it.
    far_follows: bool,
    fetching: Option<(Motion, Offload<(Iter, Fetched)>)>,
    fetched: Fetched,
    position: Position,
    /// The current key, if the position is near.
    key: Vec<u8>,
    /// The size in bytes of the next fetch.
    wanted: usize,
}

/// The arguments by which cursors are created.
#[derive(Clone)]
struct Source {
    /// Before `family`, whose drop may close the database.
    view: AwaitedView,
    family: Family,
    seq: SequenceNumber,
    options: Arc<ReadOptions>,
}

/// The position of an [`AsyncIter`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Nowhere,
    /// That of the cursor in memory.
    Near,
    /// This one of the fetched entries.
    Fetched(usize),
}

/// Entries in the order of a direction.
#[derive(Default)]
struct Fetched {
    entries: Vec<(Box<[u8]>, Value)>,
    back: bool,
    /// The status of the iteration after the entries: `Ok` at the end of the keys, or the error. `None` if there may
    /// be more entries.
    end: Option<Result<()>>,
}

impl Source {
    fn cursor(&self, tier: Option<ReadTier>) -> Iter {
        let options = ReadOptions {
            read_tier: tier.unwrap_or(self.options.read_tier),
            // A wait for the rate limiter would block the thread that polls.
            rate_limiter_priority: IoCharge::Uncharged,
            ..ReadOptions::clone(&self.options)
        };
        let view = self.view.shared_view().clone();
        let mut cursor = Iter::new(&self.family, view, self.seq, &options);
        cursor.traced = false;
        cursor
    }

    /// A cursor that reads from memory only.
    fn near_cursor(&self) -> Iter {
        self.cursor(match self.options.read_tier {
            ReadTier::All => Some(ReadTier::BlockCache),
            // The other tiers exclude storage, or are rejected.
            _ => None,
        })
    }

    /// True if a helper thread is used.
    fn may_wait(&self) -> bool {
        let context = &self.family.db.shared.context;
        context.world.clock.is_real() && context.io.driver() != ReadDriver::Blocking
    }
}

impl Iter {
    fn go(&mut self, motion: &Motion) {
        match motion {
            Motion::First => self.seek_to_first(),
            Motion::Last => self.seek_to_last(),
            Motion::Seek(target) => self.seek(target),
            Motion::SeekForPrev(target) => self.seek_for_prev(target),
            Motion::Next => self.next(),
            Motion::Prev => self.prev(),
        }
    }

    /// Makes `motion` from the entry with the key `from`, or from the current position, and returns the entry there
    /// and the following ones, about `wanted` bytes.
    fn fetch(&mut self, motion: &Motion, from: Option<&[u8]>, wanted: usize) -> Fetched {
        match from {
            Some(from) if motion.is_back() => self.seek_for_prev(from),
            Some(from) => self.seek(from),
            None => {}
        }
        // The entry is there unless it was hidden by an error, which is then the status.
        if from.is_none_or(|from| self.valid() && self.key() == from) {
            self.go(motion);
        }
        let back = motion.is_back();
        let mut entries = Vec::new();
        let mut bytes = 0;
        while self.valid() {
            let value = self.value_pinned();
            bytes += self.key().len() + value.len();
            entries.push((self.key().into(), value));
            if bytes >= wanted {
                return Fetched {
                    entries,
                    back,
                    end: None,
                };
            }
            match back {
                true => self.prev(),
                false => self.next(),
            }
        }
        Fetched {
            entries,
            back,
            end: Some(self.status()),
        }
    }
}

impl Family {
    /// Creates an unpositioned iterator whose moves are futures. It shows the current state, or that of the
    /// snapshot of `options`. Of `options`, `allow_unprepared_value` has no effect.
    ///
    /// # Errors
    ///
    /// `NotSupported` with `tailing`, `auto_refresh_iterator_with_snapshot` or `iter_start_ts`; `ShutdownInProgress`.
    pub fn iter_async(&self, options: &ReadOptions) -> Result<AsyncIter> {
        let shared = &self.db.shared;
        shared.context.check_reader()?;
        if options.tailing
            || options.auto_refresh_iterator_with_snapshot
            || options.iter_start_ts.is_some()
        {
            return Err(Error::not_supported(
                "an awaited iterator with tailing, auto_refresh_iterator_with_snapshot or iter_start_ts",
            ));
        }
        let (view, seq) = shared.newest(&self.state);
        super::check_held(&view)?;
        let options = Arc::new(ReadOptions {
            allow_unprepared_value: false,
            ..options.clone()
        });
        Ok(AsyncIter {
            source: Source {
                family: self.clone(),
                view: AwaitedView::new(view, shared),
                seq,
                options,
            },
            near: None,
            far: None,
            far_follows: false,
            fetching: None,
            fetched: Fetched::default(),
            position: Position::Nowhere,
            key: Vec::new(),
            wanted: FETCHED.start,
        })
    }
}

impl AsyncIter {
    /// Makes a move. Returns true if there is an entry there.
    ///
    /// # Errors
    ///
    /// Those of a file, of a merge or of the options; `Incomplete` if `read_tier` or
    /// `max_skippable_internal_keys` ended the move. The iterator is then not positioned.
    pub async fn go(&mut self, motion: Motion) -> Result<bool> {
        poll_fn(|context| self.poll_go(&motion, context)).await
    }

    /// [`AsyncIter::go`] for a future or stream with a state of its own, which makes the same move until it is
    /// complete.
    pub fn poll_go(&mut self, motion: &Motion, context: &mut Context<'_>) -> Poll<Result<bool>> {
        if let Some((started, fetching)) = &mut self.fetching {
            let Poll::Ready((far, fetched)) = std::pin::Pin::new(fetching).poll(context) else {
                return Poll::Pending;
            };
            let same = *started == *motion;
            self.fetching = None;
            self.far = Some(far);
            if same {
                return Poll::Ready(self.enter(fetched));
            }
            self.far_follows = false;
        }
        self.start(motion, context)
    }

    /// Starts a move. No fetch is in progress.
    fn start(&mut self, motion: &Motion, context: &mut Context<'_>) -> Poll<Result<bool>> {
        if motion.is_seek() {
            self.trace_seek(motion);
            self.wanted = FETCHED.start;
            if let Some(moved) = self.seek_near(motion) {
                return Poll::Ready(moved);
            }
            return self.fetch(motion, None, context);
        }
        let back = motion.is_back();
        match self.position {
            Position::Nowhere => Poll::Ready(Ok(false)),
            Position::Near => match self.step_near(motion) {
                Some(moved) => Poll::Ready(moved),
                None => self.fetch(motion, Some(self.key.clone()), context),
            },
            Position::Fetched(at) if back == self.fetched.back => {
                if at + 1 < self.fetched.entries.len() {
                    self.position = Position::Fetched(at + 1);
                    return Poll::Ready(Ok(true));
                }
                if let Some(end) = &self.fetched.end {
                    self.position = Position::Nowhere;
                    return Poll::Ready(end.clone().map(|()| false));
                }
                let from = match self.far_follows {
                    true => None,
                    false => Some(self.fetched.entries[at].0.to_vec()),
                };
                self.fetch(motion, from, context)
            }
            Position::Fetched(at) if at > 0 => {
                self.position = Position::Fetched(at - 1);
                Poll::Ready(Ok(true))
            }
            Position::Fetched(at) => {
                let from = self.fetched.entries[at].0.to_vec();
                self.fetch(motion, Some(from), context)
            }
        }
    }

    /// Records a seek, if there is a trace.
    fn trace_seek(&self, motion: &Motion) {
        let Source {
            family, options, ..
        } = &self.source;
        let shared = &family.db.shared;
        if !shared.trace.is_on() {
            return;
        }
        let id = family.id();
        match motion {
            Motion::Seek(target) => shared.trace_seek(id, target, options, false),
            Motion::SeekForPrev(target) => shared.trace_seek(id, target, options, true),
            Motion::First => shared.trace_seek_to_end(id, options, false),
            Motion::Last => shared.trace_seek_to_end(id, options, true),
            Motion::Next | Motion::Prev => {}
        }
    }

    /// Seeks in memory. `None` if something is missing there.
    fn seek_near(&mut self, motion: &Motion) -> Option<Result<bool>> {
        if self.position == Position::Near
            && let Some(near) = &self.near
            && near.valid()
        {
            self.key.clear();
            self.key.extend_from_slice(near.key());
        }
        let near = self.near.get_or_insert_with(|| self.source.near_cursor());
        near.go(motion);
        let moved = moved(near);
        if moved.is_none() {
            // It may lack a table that is open the next time.
            self.near = None;
        }
        self.arrive(moved)
    }

    /// Steps in memory. `None` if something is missing there; the position is then unchanged.
    fn step_near(&mut self, motion: &Motion) -> Option<Result<bool>> {
        let near = self.near.as_mut()?;
        if near.valid() {
            self.key.clear();
            self.key.extend_from_slice(near.key());
            near.go(motion);
        }
        let moved = moved(near);
        self.arrive(moved)
    }

    fn arrive(&mut self, moved: Option<Result<bool>>) -> Option<Result<bool>> {
        if let Some(moved) = &moved {
            self.position = match moved {
                Ok(true) => Position::Near,
                _ => Position::Nowhere,
            };
        }
        moved
    }

    /// Makes a move that may read, from the entry with the key `from`, or from the position of the far cursor.
    fn fetch(
        &mut self,
        motion: &Motion,
        from: Option<Vec<u8>>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool>> {
        let (far, source) = (self.far.take(), self.source.clone());
        // Until it is back with the entries.
        self.far_follows = false;
        let wanted = self.wanted;
        self.wanted = (wanted * 2).min(FETCHED.end);
        let may_wait = source.may_wait();
        let made = motion.clone();
        let fetch = move || {
            let mut far = far.unwrap_or_else(|| source.cursor(None));
            let fetched = far.fetch(&made, from.as_deref(), wanted);
            (far, fetched)
        };
        if !may_wait {
            let (far, fetched) = fetch();
            self.far = Some(far);
            return Poll::Ready(self.enter(fetched));
        }
        self.fetching = Some((motion.clone(), offload(fetch)));
        self.poll_go(motion, context)
    }

    /// Moves to the first of the entries.
    fn enter(&mut self, fetched: Fetched) -> Result<bool> {
        self.fetched = fetched;
        self.far_follows = true;
        if !self.fetched.entries.is_empty() {
            self.position = Position::Fetched(0);
            return Ok(true);
        }
        self.position = Position::Nowhere;
        self.fetched.end.take().unwrap_or(Ok(())).map(|()| false)
    }

    /// The current key and value; `None` if the iterator is not positioned on an entry, or after a move whose
    /// future was dropped.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self.position {
            _ if self.fetching.is_some() => None,
            Position::Nowhere => None,
            Position::Near => match &self.near {
                Some(near) => near.entry(),
                None => None,
            },
            Position::Fetched(at) => {
                let (key, value) = self.fetched.entries.get(at)?;
                Some((key, value))
            }
        }
    }
}

/// The result of a move in memory. `None` if something is missing there.
fn moved(near: &Iter) -> Option<Result<bool>> {
    if near.valid() {
        return Some(Ok(true));
    }
    match near.status() {
        Ok(()) => Some(Ok(false)),
        Err(error) if error.code() == Code::Incomplete => None,
        Err(error) => Some(Err(error)),
    }
}

impl std::fmt::Debug for AsyncIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncIter").finish_non_exhaustive()
    }
}
