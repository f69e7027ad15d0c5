//! The info log: a human-readable text file of events.
//!
//! ```text
//! 2026/11/21-15:46:02.013456 3 [WARN] [db/write/stall.rs:91] [default] stalling writes: 20 files in level 0
//! ```
//!
//! A line consists of date and time (UTC), the thread number, the level unless it is `INFO`, the
//! source location, and the message. Header lines and events have no source location. The file is
//! `LOG`. It is renamed to `LOG.old.MICROS` when a database is opened and when a size or age limit
//! is reached, and only the newest [`LogOptions::keep_log_file_num`] files are kept. If no limits
//! are configured, a file is limited to [`FILE_BYTES`] and all old files together to [`OLD_BYTES`].
//!
//! The log never contains user keys or values.
//!
//! Logging failures are not fatal, and the caller is not notified: a line that cannot be written is lost, and so are
//! the lines after it until the file system works again.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_platform::fs::FileMode;
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_platform::{Clock, FileSystem, WritableFile};
use cairn_types::Result;

use crate::callback::{Within, within};

/// The size limit of a log file, if none is configured.
pub const FILE_BYTES: u64 = 16 << 20;
/// The total size limit of the old log files, if none is configured.
pub const OLD_BYTES: u64 = 64 << 20;

/// The level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// Debugging information.
    Debug,
    /// An event.
    Info,
    /// A warning.
    Warn,
    /// A failure.
    Error,
    /// A failure that makes the database unusable.
    Fatal,
    /// A line repeated at the start of each file.
    Header,
}

impl Level {
    /// The level tag of a line; empty for events.
    fn mark(self) -> &'static str {
        match self {
            Level::Debug => "[DEBUG] ",
            Level::Info | Level::Header => "",
            Level::Warn => "[WARN] ",
            Level::Error => "[ERROR] ",
            Level::Fatal => "[FATAL] ",
        }
    }
}

/// Options of an info log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The path of the file. Old files are in the same directory.
    pub path: PathBuf,
    /// The minimum level of messages.
    pub level: Level,
    /// The size at which a new file is started; 0 for [`FILE_BYTES`], with a limit on old files.
    pub max_log_file_size: u64,
    /// The age in seconds at which a new file is started; 0 for no limit.
    pub log_file_time_to_roll: u64,
    /// The number of files to keep, including the current one.
    pub keep_log_file_num: u64,
}

impl LogOptions {
    /// True if the user has set a size or an age of files.
    fn rolls(&self) -> bool {
        self.max_log_file_size > 0 || self.log_file_time_to_roll > 0
    }
}

/// The path of the info log of the database in `dir`, where `log_dir` is the `db_log_dir` option (empty for
/// the database's own directory).
#[must_use]
pub fn log_path(dir: &Path, log_dir: &Path) -> PathBuf {
    if log_dir.as_os_str().is_empty() {
        return dir.join("LOG");
    }
    // Several databases may log to one directory, so the name includes the path of the database, as in RocksDB.
    let path = dir.as_os_str().as_encoded_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let named = path.iter().skip_while(|byte| **byte == b'/');
    let name = named.map(|byte| char::from(if plain(byte) { *byte } else { b'_' }));
    log_dir.join(name.chain("_LOG".chars()).collect::<String>())
}

/// A user-defined destination of the info log, instead of the file `LOG`.
pub trait LogSink: Send + Sync {
    /// Receives a message, without time and thread number. Called by any thread, possibly with
    /// locks of the engine held: operations that change the database or wait for it fail with
    /// `Busy`. A panic ends the call.
    fn log(&self, level: Level, message: &str);

    /// The minimum level of messages.
    fn level(&self) -> Level {
        Level::Info
    }
}

/// A message that is written later, by [`Logger::line`], with the source location of its creation.
#[derive(Debug)]
pub struct LogLine {
    level: Level,
    location: &'static Location<'static>,
    message: String,
}

impl LogLine {
    /// Creates a message of `level`.
    #[must_use]
    #[track_caller]
    pub fn new(level: Level, message: impl fmt::Display) -> LogLine {
        LogLine {
            level,
            location: Location::caller(),
            message: message.to_string(),
        }
    }
}

/// The info log of a database, shared by all its threads.
pub struct Logger(Output);

enum Output {
    Discard,
    File(Sink),
    User(Arc<dyn LogSink>),
}

struct Sink {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    options: LogOptions,
    open: Mutex<Open>,
}

/// The number of parts of the header that are repeated. Families that a program creates and drops again and again would
/// otherwise let it grow without bound.
const MAX_HEADER: usize = 64;

/// The current file, behind the logger's lock.
struct Open {
    /// `None` if no file could be created. The next line tries again.
    file: Option<Arc<dyn WritableFile>>,
    /// Set when the database is closed.
    ended: bool,
    /// True if the last append failed, perhaps in the middle of a line.
    is_torn: bool,
    since_micros: u64,
    /// The lines repeated at the start of each file.
    header: Vec<HeaderLines>,
}

/// Consecutive lines of the header.
struct HeaderLines {
    prefix: String,
    /// Shared by families with the same options.
    lines: Arc<[String]>,
}

impl HeaderLines {
    fn text(&self) -> String {
        let lines = self.lines.iter();
        lines
            .flat_map(|line| [self.prefix.as_str(), line.as_str(), "\n"])
            .collect()
    }
}

impl Open {
    /// Appends `text`, which ends a line. A full disk must not stop the database because of its info log.
    fn append(&mut self, text: &str) {
        let Some(file) = &self.file else {
            return;
        };
        let appended = match self.is_torn {
            true => file.append(format!("\n{text}").as_bytes()),
            false => file.append(text.as_bytes()),
        };
        self.is_torn = appended.is_err();
    }

    /// Adds lines to the header, unless it has [`MAX_HEADER`] parts. The first one is a title, and those after it may be the
    /// same as before.
    fn keep(&mut self, prefix: &str, lines: &[String]) {
        let Some((title, rest)) = lines.split_first() else {
            return;
        };
        if self.header.len() >= MAX_HEADER {
            return;
        }
        for lines in [std::slice::from_ref(title), rest] {
            if lines.is_empty() {
                continue;
            }
            let last = self.header.iter().rev().take(2);
            let mut same = last.filter(|kept| *kept.lines == *lines);
            let lines = same
                .next()
                .map_or_else(|| lines.into(), |kept| kept.lines.clone());
            self.header.push(HeaderLines {
                prefix: prefix.to_owned(),
                lines,
            });
        }
    }
}

impl Logger {
    /// A logger that writes nothing.
    #[must_use]
    pub fn silent() -> Logger {
        Logger(Output::Discard)
    }

    /// Creates a logger that passes all messages to `sink`.
    #[must_use]
    pub fn to(sink: Arc<dyn LogSink>) -> Logger {
        Logger(Output::User(sink))
    }

    /// Starts a new file, renaming an existing one. `names` is a recent listing of the directory, if
    /// available.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        options: LogOptions,
        names: Option<&[String]>,
    ) -> Result<Logger> {
        let sink = Sink {
            fs,
            clock,
            options,
            open: Mutex::new(Open {
                file: None,
                ended: false,
                is_torn: false,
                since_micros: 0,
                header: Vec::new(),
            }),
        };
        sink.begin(&mut sink.open.lock(), names)?;
        Ok(Logger(Output::File(sink)))
    }

    /// Closes the file. Later messages are discarded.
    pub fn end(&self) {
        if let Output::File(sink) = &self.0 {
            let mut open = sink.open.lock();
            open.ended = true;
            if let Some(file) = open.file.take() {
                // All lines have already been passed to the kernel.
                let _ = file.close();
            }
        }
    }

    /// True if messages of `level` are written. Check it before building an expensive message.
    ///
    /// The header has the level of events, as in RocksDB; but a file of which the user has set the size or the
    /// age has a header at each level.
    #[inline]
    #[must_use]
    pub fn wants(&self, level: Level) -> bool {
        let header = level == Level::Header;
        let least = if header { Level::Info } else { level };
        match &self.0 {
            Output::Discard => false,
            Output::File(sink) => least >= sink.options.level || header && sink.options.rolls(),
            Output::User(sink) => self
                .call(|| sink.level())
                .is_some_and(|wanted| least >= wanted),
        }
    }

    /// Writes a message if its level is enabled.
    #[track_caller]
    pub fn log(&self, level: Level, message: impl fmt::Display) {
        if self.wants(level) {
            let place = place(Location::caller());
            self.write(level, &format_args!("{place} {message}"));
        }
    }

    /// Writes a message that was created before, if its level is enabled.
    pub fn line(&self, line: &LogLine) {
        if self.wants(line.level) {
            let place = place(line.location);
            self.write(line.level, &format_args!("{place} {}", line.message));
        }
    }

    /// Writes a message of level `Info`.
    #[track_caller]
    pub fn info(&self, message: impl fmt::Display) {
        self.log(Level::Info, message);
    }

    /// Writes a message of level `Warn`.
    #[track_caller]
    pub fn warn(&self, message: impl fmt::Display) {
        self.log(Level::Warn, message);
    }

    /// Writes a message of level `Error`.
    #[track_caller]
    pub fn error(&self, message: impl fmt::Display) {
        self.log(Level::Error, message);
    }

    /// Writes header lines, which are repeated in every file, if they are enabled.
    pub fn header_lines(&self, lines: &[String]) {
        if !self.wants(Level::Header) {
            return;
        }
        match &self.0 {
            Output::Discard => {}
            Output::File(sink) => sink.write_header(sink.clock.wall_micros(), lines),
            Output::User(sink) => lines.iter().for_each(|line| {
                self.call(|| sink.log(Level::Header, line));
            }),
        }
    }

    /// Writes a machine-readable line or a multi-line table, without the source location.
    pub fn plain(&self, level: Level, message: impl fmt::Display) {
        if self.wants(level) {
            self.write(level, &message);
        }
    }

    fn write(&self, level: Level, message: &dyn fmt::Display) {
        match &self.0 {
            Output::Discard => {}
            Output::File(sink) => sink.write(level, message),
            Output::User(sink) => {
                let message = message.to_string();
                self.call(|| sink.log(level, &message));
            }
        }
    }

    /// Calls user code. A panic ends the call and is not reported.
    fn call<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(|| within(self, Within::LogLine, call))).ok()
    }
}

/// The source location in a line: the crate, without the common prefix, and the file.
fn place(location: &Location<'_>) -> String {
    let file = location.file().replace('\\', "/");
    let (before, inner) = file.rsplit_once("/src/").unwrap_or(("", &file));
    let of = before.rsplit('/').next().unwrap_or("");
    let of = of.strip_prefix("cairn-").unwrap_or(of);
    format!("[{of}/{inner}:{}]", location.line())
}

impl Sink {
    fn write(&self, level: Level, message: &dyn fmt::Display) {
        let now = self.clock.wall_micros();
        match level {
            Level::Header => self.write_header(now, &[message.to_string()]),
            level => self.append(now, &line(now, level, message), true, |_| {}),
        }
    }

    fn write_header(&self, now: u64, lines: &[String]) {
        let (prefix, mut text) = (prefix(now, Level::Header), String::new());
        for line in lines {
            text.extend([prefix.as_str(), line.as_str(), "\n"]);
        }
        // The next file would start with these lines as well.
        self.append(now, &text, false, |open| open.keep(&prefix, lines));
    }

    /// Appends `text` to the current file, after a change of `open`. If `may_roll`, it may start a new file.
    fn append(&self, now: u64, text: &str, may_roll: bool, change: impl FnOnce(&mut Open)) {
        let mut open = self.open.lock();
        if open.ended {
            return;
        }
        if open.file.is_none() || may_roll && self.needs_file(&open, now) {
            // The old file is closed and kept. Lines are lost until a new one can be created.
            let _ = self.begin(&mut open, None);
        }
        change(&mut open);
        open.append(text);
    }

    /// True if the next line belongs in a new file.
    fn needs_file(&self, open: &Open, now: u64) -> bool {
        let Some(file) = &open.file else {
            return true;
        };
        let size = match self.options.max_log_file_size {
            0 => FILE_BYTES,
            size => size,
        };
        let age = self.options.log_file_time_to_roll.saturating_mul(1_000_000);
        // If the clock was wrong when the file was started, its time may be far in the future.
        file.len() >= size || (age > 0 && now.abs_diff(open.since_micros) >= age)
    }

    /// Renames the current file and starts the next. `names` is the previous listing of the directory, if
    /// available.
    fn begin(&self, open: &mut Open, names: Option<&[String]>) -> Result<()> {
        if let Some(old) = open.file.take() {
            // All lines have already been passed to the kernel.
            let _ = old.close();
        }
        let now = self.clock.wall_micros();
        let aside = match self.fs.exists(&self.options.path)? {
            true => Some(self.rename_current(now)?),
            false => None,
        };
        self.remove_oldest(names, aside);
        open.file = Some(self.fs.create(&self.options.path, FileMode::default())?);
        open.is_torn = false;
        open.since_micros = now;
        let header: String = open.header.iter().map(HeaderLines::text).collect();
        open.append(&header);
        Ok(())
    }

    /// Renames the current file and returns the number in its name, which is unique even within a
    /// microsecond.
    fn rename_current(&self, now: u64) -> Result<u64> {
        let mut stamp = now;
        let name = |stamp| suffixed(&self.options.path, &format!(".old.{stamp}"));
        while self.fs.exists(&name(stamp))? {
            stamp += 1;
        }
        self.fs.rename(&self.options.path, &name(stamp))?;
        Ok(stamp)
    }

    /// Deletes the oldest files beyond the limit: among `names` and the one just renamed, or among
    /// those in the directory. Files that cannot be deleted remain.
    fn remove_oldest(&self, names: Option<&[String]>, aside: Option<u64>) {
        let path = &self.options.path;
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        let prefix = format!("{}.old.", name.to_string_lossy());
        let stamped = |name: &String| {
            let stamp: u64 = name.strip_prefix(&prefix)?.parse().ok()?;
            Some((stamp, name.clone()))
        };
        let aside = aside.map(|stamp| (stamp, format!("{prefix}{stamp}")));
        let mut old: Vec<(u64, String)> = match names {
            Some(names) => names.iter().filter_map(stamped).chain(aside).collect(),
            None => {
                let names = self.fs.list(dir).unwrap_or_default();
                names.iter().filter_map(stamped).collect()
            }
        };
        old.sort_unstable();
        let old: Vec<String> = old.into_iter().map(|(_, name)| name).collect();
        let keep = usize::try_from(self.options.keep_log_file_num).unwrap_or(usize::MAX);
        let mut surplus = (old.len() + 1).saturating_sub(keep.max(1));
        if self.options.max_log_file_size == 0 {
            let found = self.fs.status_each(dir, &old);
            let mut bytes = 0;
            for (at, status) in found.into_iter().enumerate().rev() {
                bytes += status.map_or(0, |status| status.len);
                if bytes > OLD_BYTES {
                    surplus = surplus.max(at + 1);
                    break;
                }
            }
        }
        for name in &old[..surplus] {
            let _ = self.fs.remove(&dir.join(name));
        }
    }
}

/// `path` with `suffix` appended.
fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Formats a line.
fn line(micros: u64, level: Level, message: &dyn fmt::Display) -> String {
    format!("{}{message}\n", prefix(micros, level))
}

/// The prefix of a line.
fn prefix(micros: u64, level: Level) -> String {
    let (year, month, day) = civil_date(micros / 1_000_000 / 86_400);
    let seconds = micros / 1_000_000 % 86_400;
    format!(
        "{year:04}/{month:02}/{day:02}-{:02}:{:02}:{:02}.{:06} {} {}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000,
        thread_number(),
        level.mark(),
    )
}

/// Converts days since 1970 to year, month and day of the Gregorian calendar. Years start in March here, so
/// that the leap day is the last of the year.
///
/// The algorithm is Howard Hinnant's `civil_from_days` ("chrono-Compatible Low-Level Date Algorithms").
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// A small number for the calling thread, assigned when it logs its first message.
#[must_use]
pub fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.with(|mine| *mine)
}

#[cfg(test)]
mod tests {
    use cairn_platform::fs::Status;
    use cairn_platform::sync::AtomicBool;
    use cairn_platform::{RandomAccessFile, World, wrapper};

    use super::*;

    fn options(text_bytes: u64, keep: u64) -> LogOptions {
        LogOptions {
            path: PathBuf::from("/db/LOG"),
            level: Level::Info,
            max_log_file_size: text_bytes,
            log_file_time_to_roll: 0,
            keep_log_file_num: keep,
        }
    }

    fn open(world: &World, options: LogOptions) -> Logger {
        Logger::open(world.fs.clone(), world.clock.clone(), options, None).unwrap()
    }

    fn content(world: &World, path: &str) -> String {
        let file = world.fs.open(Path::new(path), FileMode::default()).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn dates_are_gregorian() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(20_778), (2026, 11, 21));
        let text = line(20_778 * 86_400_000_000 + 3_723_000_004, Level::Warn, &"x");
        assert!(text.starts_with("2026/11/21-01:02:03.000004 "), "{text}");
        assert!(text.ends_with(" [WARN] x\n"), "{text}");
    }

    #[test]
    fn several_databases_may_log_to_one_directory() {
        assert_eq!(
            log_path(Path::new("/a/b c"), Path::new("")),
            Path::new("/a/b c/LOG")
        );
        assert_eq!(
            log_path(Path::new("/a/b c"), Path::new("/l")),
            Path::new("/l/a_b_c_LOG")
        );
        assert_eq!(
            log_path(Path::new("/a/é"), Path::new("/l")),
            Path::new("/l/a____LOG"),
            "a character for each byte"
        );
    }

    #[test]
    fn lines_but_not_events_have_source_locations() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let log = open(&world, options(0, 10));
        log.warn("careful");
        log.plain(Level::Info, "EVENT_LOG_v1 {}");
        let text = content(&world, "/db/LOG");
        assert!(text.contains(" [WARN] [observe/logger.rs:"), "{text}");
        assert!(
            text.lines().nth(1).unwrap().ends_with(" EVENT_LOG_v1 {}"),
            "{text}"
        );
    }

    #[test]
    fn logs_are_bounded_by_default() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let log = open(&world, options(0, 1000));
        let line = "x".repeat(1 << 20);
        for _ in 0..150 {
            log.info(&line);
        }
        let names = world.fs.list(Path::new("/db")).unwrap();
        assert!((3..=5).contains(&names.len()), "{names:?}");
    }

    /// A wall clock that is set.
    struct Set(cairn_platform::sync::AtomicU64);

    impl Clock for Set {
        fn wall_micros(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        fn monotonic_nanos(&self) -> u64 {
            0
        }
        fn sleep(&self, _: std::time::Duration) {}
    }

    /// Regression: a log that began while the clock was wrong was continued until the time that it had shown.
    #[test]
    fn logs_end_at_their_age_after_the_clock_was_set_back() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let clock = Arc::new(Set(0.into()));
        let options = LogOptions {
            log_file_time_to_roll: 100,
            ..options(0, 10)
        };
        let log = Logger::open(world.fs.clone(), clock.clone(), options, None).unwrap();
        let files_at = |seconds: u64| {
            clock.0.store(seconds * 1_000_000, Ordering::Relaxed);
            log.info("a line");
            world.fs.list(Path::new("/db")).unwrap().len()
        };
        assert_eq!([10, 99, 100, 199].map(files_at), [1, 1, 2, 2]);
        assert_eq!(files_at(9_000), 3, "the clock is wrong");
        assert_eq!([300, 399, 400].map(files_at), [4, 4, 5]);
    }

    #[test]
    fn a_log_sink_receives_the_lines() {
        struct Kept(Mutex<Vec<(Level, String)>>);
        impl LogSink for Kept {
            fn log(&self, level: Level, message: &str) {
                self.0.lock().push((level, message.to_owned()));
            }
        }
        let kept = Arc::new(Kept(Mutex::new(Vec::new())));
        let log = Logger::to(kept.clone());
        log.error("lost");
        log.log(Level::Debug, "not wanted");
        let lines = kept.0.lock();
        assert!(lines.len() == 1 && lines[0].0 == Level::Error && lines[0].1.ends_with("] lost"));
    }

    /// A disk on which files can be neither created nor written while `full`, and not deleted.
    struct Disk {
        fs: Arc<dyn FileSystem>,
        full: Arc<AtomicBool>,
    }

    struct DiskFile {
        file: Arc<dyn WritableFile>,
        full: Arc<AtomicBool>,
    }

    fn check(full: &AtomicBool) -> Result<()> {
        match full.load(Ordering::Relaxed) {
            true => Err(cairn_types::Error::io_text("no space")),
            false => Ok(()),
        }
    }

    impl wrapper::FileSystemWrapper for Disk {
        fn target(&self) -> &dyn FileSystem {
            &*self.fs
        }

        fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
            check(&self.full)?;
            let file = self.fs.create(path, mode)?;
            let full = self.full.clone();
            Ok(Arc::new(DiskFile { file, full }))
        }

        fn remove(&self, _path: &Path) -> Result<()> {
            Err(cairn_types::Error::io_text("not permitted"))
        }

        fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
            self.fs.open(path, mode)
        }

        fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
            self.fs.open_append(path, mode)
        }

        fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
            self.fs.open_overwrite(path, mode)
        }

        fn status(&self, path: &Path) -> Result<Status> {
            self.fs.status(path)
        }

        fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
            self.fs.status_each(dir, names)
        }
    }

    impl wrapper::WritableFileWrapper for DiskFile {
        fn target(&self) -> &dyn WritableFile {
            &*self.file
        }

        /// Writes a half of the data if the disk is full.
        fn append_veiled(&self, data: &[u8], veils: &[cairn_types::Veil]) -> Result<()> {
            let full = check(&self.full);
            let len = if full.is_err() {
                data.len() / 2
            } else {
                data.len()
            };
            self.file.append_veiled(&data[..len], veils)?;
            full
        }

        fn successor(&self, _: &Path, _: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
            Ok(None)
        }
    }

    /// Returns a log on a [`Disk`], and the switch that makes the disk full.
    fn on_disk(world: &World, options: LogOptions) -> (Logger, Arc<AtomicBool>) {
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let full = Arc::new(AtomicBool::new(false));
        let (fs, clock) = (world.fs.clone(), world.clock.clone());
        let disk = Disk {
            fs,
            full: full.clone(),
        };
        let log = Logger::open(Arc::new(disk), clock, options, None).unwrap();
        (log, full)
    }

    /// Regression: the first failure ended the log for good.
    #[test]
    fn a_log_continues_once_a_full_disk_has_space() {
        let world = World::in_memory();
        let (log, full) = on_disk(&world, options(0, 10));
        log.plain(Level::Info, "before");
        full.store(true, Ordering::Relaxed);
        (0..3).for_each(|_| log.plain(Level::Info, "lost"));
        full.store(false, Ordering::Relaxed);
        (0..2).for_each(|_| log.plain(Level::Info, "after"));
        let text = content(&world, "/db/LOG");
        let whole = text.lines().filter(|line| line.ends_with(" after"));
        assert_eq!(whole.count(), 2, "{text}");
        assert!(
            text.contains(" before\n") && !text.contains("lost\n"),
            "{text}"
        );
    }

    /// Regression: a file that could not be created when the previous one was full ended the log for good.
    #[test]
    fn a_file_that_cannot_be_created_is_tried_again() {
        let world = World::in_memory();
        let (log, full) = on_disk(&world, options(20, 10));
        log.header_lines(&["the header".to_owned()]);
        full.store(true, Ordering::Relaxed);
        (0..3).for_each(|_| log.plain(Level::Info, "lost"));
        assert!(!world.fs.exists(Path::new("/db/LOG")).unwrap());
        full.store(false, Ordering::Relaxed);
        log.plain(Level::Info, "after");
        let text = content(&world, "/db/LOG");
        assert!(
            text.contains("the header\n") && text.contains(" after\n"),
            "{text}"
        );
        log.end();
        log.plain(Level::Info, "too late");
        assert_eq!(content(&world, "/db/LOG"), text);
    }

    /// Regression: an old file that could not be deleted, or whose name has a sign or zeros before its number, made
    /// the opening of the database fail.
    #[test]
    fn old_files_that_cannot_be_deleted_remain() {
        let world = World::in_memory();
        on_disk(&world, options(0, 1));
        let (log, _) = on_disk(&world, options(0, 1));
        log.plain(Level::Info, "logged");
        assert!(content(&world, "/db/LOG").contains("logged"));
        let unusual = "/db/LOG.old.+05";
        world
            .fs
            .create(Path::new(unusual), FileMode::default())
            .unwrap();
        open(&world, options(0, 1)).info("logged");
        assert_eq!(world.fs.list(Path::new("/db")).unwrap(), ["LOG"]);
    }

    #[test]
    fn full_files_are_rolled_and_the_oldest_deleted() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let log = open(&world, options(100, 3));
        log.header_lines(&["the header".to_owned()]);
        for _ in 0..40 {
            log.info("some event of the engine");
            log.log(Level::Debug, "not wanted");
        }
        let mut names = world.fs.list(Path::new("/db")).unwrap();
        names.sort();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names[0], "LOG");
        let text = content(&world, "/db/LOG");
        assert!(text.contains("the header") && !text.contains("not wanted"));
        assert!(text.len() < 300, "{text}");
    }

    #[test]
    fn the_header_is_left_out_above_the_level_of_events() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let has_header = |level, max_log_file_size| {
            let log = open(
                &world,
                LogOptions {
                    level,
                    ..options(max_log_file_size, 3)
                },
            );
            log.header_lines(&["the header".to_owned()]);
            let has = content(&world, "/db/LOG").contains("the header");
            assert_eq!(has, log.wants(Level::Header));
            has
        };
        assert!(has_header(Level::Debug, 0) && has_header(Level::Info, 0));
        assert!(!has_header(Level::Warn, 0) && !has_header(Level::Header, 0));
        assert!(has_header(Level::Error, 1000));
    }

    /// Header lines stay in one file even if they exceed its maximum size.
    #[test]
    fn header_lines_start_no_file() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let log = open(
            &world,
            LogOptions {
                level: Level::Warn,
                ..options(10, 5)
            },
        );
        for family in ["one", "two", "three"] {
            log.header_lines(&[family.to_owned(), "options".to_owned()]);
        }
        assert_eq!(world.fs.list(Path::new("/db")).unwrap(), ["LOG"]);
        log.warn("careful");
        assert_eq!(world.fs.list(Path::new("/db")).unwrap().len(), 2);
        let text = content(&world, "/db/LOG");
        assert!(text.contains("three") && text.contains("careful"), "{text}");
    }

    #[test]
    fn equal_header_lines_are_kept_once_and_repeated_each_time() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let log = open(&world, options(1000, 3));
        for family in ["one", "two", "three"] {
            log.header_lines(&[family.to_owned(), "options".to_owned(), "more".to_owned()]);
        }
        let Output::File(sink) = &log.0 else {
            panic!("it is a file")
        };
        let open = sink.open.lock();
        assert_eq!(open.header.len(), 6);
        assert!(Arc::ptr_eq(&open.header[1].lines, &open.header[5].lines));
        drop(open);
        (0..20).for_each(|_| log.info("some event of the engine"));
        let text = content(&world, "/db/LOG");
        let lines: Vec<_> = text
            .lines()
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        let of = |family| [family, "options", "more"];
        assert_eq!(lines[..9], [of("one"), of("two"), of("three")].concat());
    }

    #[test]
    fn the_repeated_header_is_bounded() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        let log = open(&world, options(1 << 20, 3));
        (0..10_000).for_each(|n| log.header_lines(&[format!("family{n}"), format!("of {n}")]));
        let Output::File(sink) = &log.0 else {
            panic!("it is a file")
        };
        assert_eq!(sink.open.lock().header.len(), MAX_HEADER);
        assert!(content(&world, "/db/LOG").contains("family9999"));
    }

    #[test]
    fn opening_keeps_the_previous_log() {
        let world = World::in_memory();
        world.fs.create_dir_all(Path::new("/db")).unwrap();
        open(&world, options(0, 10)).info("first");
        open(&world, options(0, 10)).info("second");
        let names = world.fs.list(Path::new("/db")).unwrap();
        let old = names
            .iter()
            .find(|name| name.starts_with("LOG.old."))
            .unwrap();
        assert!(content(&world, &format!("/db/{old}")).contains("first"));
        assert!(content(&world, "/db/LOG").contains("second"));
        Logger::silent().info("nowhere");
    }
}
