//! Files whose writes are rate-limited.
//!
//! Only writes of data are limited; other calls are forwarded. An append larger than a burst is split, to
//! smooth the load on the device.

use std::path::Path;
use std::sync::Arc;

use cairn_types::{Result, Veil};

use crate::clock::Clock;
use crate::fs::{FileMode, WritableFile};
use crate::rate_limiter::{IoKind, IoPriority, Passed, RateLimiter};
use crate::wrapper;

/// A rate limiter and the parameters of its requests.
#[derive(Clone)]
pub struct Limits {
    /// The limiter.
    pub limiter: Arc<RateLimiter>,
    /// The clock for waiting.
    pub clock: Arc<dyn Clock>,
    /// The priority of the requests.
    pub priority: IoPriority,
    /// The observer of the requests.
    pub watch: Option<Arc<dyn LimitWatch>>,
}

/// An observer of the requests to a rate limiter.
pub trait LimitWatch: Send + Sync {
    /// Called after a request was admitted.
    fn passed(&self, kind: IoKind, passed: Passed);
}

impl Limits {
    /// Waits until the limiter admits some of `bytes`; see [`RateLimiter::request_token`].
    fn request_token(&self, bytes: u64, kind: IoKind) -> u64 {
        if bytes == 0 || !self.limiter.limits(kind) {
            return bytes;
        }
        let passed = self.limiter.pass(&*self.clock, bytes, self.priority);
        if let Some(watch) = &self.watch {
            watch.passed(kind, passed);
        }
        passed.bytes
    }

    /// Waits until the limiter admits a read of `bytes`.
    pub(crate) fn wait_to_read(&self, bytes: usize) {
        let mut left = bytes as u64;
        while left > 0 {
            left -= self.request_token(left, IoKind::Read);
        }
    }
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} as {:?}", self.limiter, self.priority)
    }
}

/// A file whose writes are rate-limited.
pub struct LimitedFile {
    file: Arc<dyn WritableFile>,
    limits: Limits,
}

impl LimitedFile {
    /// Wraps `file` such that its writes are limited by `limits`.
    #[must_use]
    pub fn new(file: Arc<dyn WritableFile>, limits: Limits) -> LimitedFile {
        LimitedFile { file, limits }
    }
}

impl wrapper::WritableFileWrapper for LimitedFile {
    fn target(&self) -> &dyn WritableFile {
        &*self.file
    }

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let token = self.limits.request_token(rest.len() as u64, IoKind::Write);
            let passes = usize::try_from(token).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(passes);
            // The offsets of veils refer to the whole append, which therefore cannot be split.
            if veils.is_empty() {
                self.file.append(piece)?;
            }
            rest = after;
        }
        match veils.is_empty() {
            true => Ok(()),
            false => self.file.append_veiled(data, veils),
        }
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        let limits = self.limits.clone();
        let made = self.file.successor(path, mode)?;
        Ok(made.map(|file| Arc::new(LimitedFile { file, limits }) as _))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::ReadRequest;
    use crate::rate_limiter::RateLimited;
    use crate::{FileSystem, Io, MemFileSystem};

    #[test]
    fn writes_are_forwarded_in_order_and_counted_once() {
        let fs = MemFileSystem::default();
        let limiter = Arc::new(RateLimiter::new(
            1_000_000,
            1000,
            10,
            RateLimited::AllIo,
            false,
        ));
        let watch = Arc::new(Seen::default());
        let limits = Limits {
            limiter: limiter.clone(),
            clock: Arc::new(crate::posix::SystemClock),
            priority: IoPriority::High,
            watch: Some(watch.clone()),
        };
        let path = Path::new("/f");
        let file = fs.create(path, FileMode::default()).unwrap();
        let file = LimitedFile::new(file, limits.clone());
        let bytes: Vec<u8> = (0..10_500_u32).map(|n| n as u8).collect();
        file.append(&bytes).unwrap();
        file.append(&[]).unwrap();
        file.sync(false).unwrap();
        file.close().unwrap();
        assert_eq!((file.len(), file.path()), (10_500, path));
        let written = limiter.total_bytes_through(Some(IoPriority::High));
        assert_eq!((written, limiter.total_requests(None)), (10_500, 11));

        let request = ReadRequest::new(fs.open(path, FileMode::default()).unwrap(), 0, 10_500);
        let io = Io::blocking().limited(limits);
        assert_eq!(io.read_now(&request).unwrap()[..], bytes[..]);
        assert!(io.read_batch(&[request.clone(), request])[1].is_ok());
        assert_eq!(limiter.total_bytes_through(None), 4 * 10_500);
        let seen = watch.0.lock();
        let bytes = |of: IoKind| -> u64 {
            let of_kind = seen.iter().filter(|(kind, _)| *kind == of);
            of_kind.map(|(_, passed)| passed.bytes).sum()
        };
        assert_eq!(
            (bytes(IoKind::Write), bytes(IoKind::Read)),
            (10_500, 31_500)
        );
        let waits = seen
            .iter()
            .filter(|(_, passed)| passed.waited_nanos.is_some());
        assert!(
            waits.count() > 0,
            "ten thousand bytes do not fit into one refill"
        );
        assert!(seen.iter().map(|(_, passed)| passed.drains).sum::<u64>() > 0);
    }

    /// The requests observed.
    #[derive(Default)]
    struct Seen(crate::sync::Mutex<Vec<(IoKind, Passed)>>);

    impl LimitWatch for Seen {
        fn passed(&self, kind: IoKind, passed: Passed) {
            self.0.lock().push((kind, passed));
        }
    }
}
