//! The header of the info log: versions, the files in the directory, and all options. Names and order of the
//! lines are RocksDB's, because programs and people search for them.

mod options;

use cairn_format::names::FileName;
use cairn_observe::logger::Level;
use cairn_options::{Compression, FamilyOptions};
use cairn_wal::WalFile;

use crate::shared::Shared;

/// The number of families whose options are written.
const FAMILIES_WITH_OPTIONS: usize = 10;

impl Shared {
    /// Writes the header, given the `names` of the files. Every info log file starts with these lines.
    fn log_header(&self, names: &[String]) {
        if !self.context.info.wants(Level::Header) {
            return;
        }
        let mut head = vec![
            format!(
                "RocksDB version: {} (Cairn {})",
                cairn_options::file::ROCKSDB_VERSION,
                env!("CARGO_PKG_VERSION")
            ),
            "DB SUMMARY".to_owned(),
            format!("Host name (Env):  {}", self.context.host_id),
            format!("DB Session ID:  {}", self.context.session_id),
        ];
        let (mut files, mut tables, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            match FileName::parse(name) {
                Some(FileName::Table(_)) => tables.push(format!("{name} ")),
                Some(FileName::Wal(_)) => logs.push(format!("{name} ; ")),
                Some(FileName::Current) => files.push(format!("CURRENT file:  {name}")),
                Some(FileName::Identity) => files.push(format!("IDENTITY file:  {name}")),
                Some(FileName::Manifest(_)) => files.push(format!("MANIFEST file:  {name}")),
                _ => {}
            }
        }
        files.sort();
        tables.sort();
        logs.sort();
        head.extend(files);
        head.push(format!(
            "SST files in {} dir, Total Num: {}, files: {}",
            self.context.dir.display(),
            tables.len(),
            tables.into_iter().take(9).collect::<String>()
        ));
        head.push(format!(
            "Write Ahead Log file in {}: {}",
            self.context.wal_dir.display(),
            logs.concat()
        ));
        let options = self.options();
        let rate = options
            .sst_file_manager
            .as_ref()
            .map_or(0, |manager| manager.delete_rate_bytes_per_second());
        let objects = [
            ("env", format!("{:p}", &raw const self.context.world)),
            (
                "fs",
                // The cast drops the table of methods, which `{:p}` would print too.
                format!("{:p}", (&raw const *self.context.world.fs).cast::<()>()),
            ),
            ("info_log", format!("{:p}", &raw const self.context.info)),
            ("sst_file_manager.rate_bytes_per_sec", rate.to_string()),
        ];
        head.extend(options::db_lines(&options, &objects));
        head.extend(support());
        head.push(self.io_line());
        self.context.info.header_lines(&head);
        for (at, family) in self.catalog.families().iter().enumerate() {
            self.log_options_of_family(at, family.name(), &family.options());
        }
        let id = format!("DB ID: {}", self.context.db_id);
        self.context.info.header_lines(&[id]);
    }

    /// The execution of reads, and the reason if it is not the preferred one.
    fn io_line(&self) -> String {
        let io = &self.context.io;
        match io.refusal() {
            Some(reason) => format!(
                "Reads of batches: {} (io_uring is refused: {reason})",
                io.driver()
            ),
            None => format!("Reads of batches: {}", io.driver()),
        }
    }

    /// Writes the options of the family that is opened or created after `before` others. Those of a thousand families would
    /// be 14 MB of lines: as in RocksDB, options are written of [`FAMILIES_WITH_OPTIONS`] families only.
    pub(crate) fn log_options_of_family(&self, before: usize, name: &str, options: &FamilyOptions) {
        let info = &self.context.info;
        if !info.wants(Level::Header) {
            return;
        }
        let title = options::family_title(name);
        match before < FAMILIES_WITH_OPTIONS {
            true => info.header_lines(&options::family_lines(title, options)),
            false => info.plain(
                Level::Info,
                format_args!("{title}\n\t(skipping printing options)"),
            ),
        }
    }

    /// Writes the last line of the header. Programs take the lines after it for the events of the open database.
    pub(crate) fn log_opened(&self) {
        let line = format!("DB pointer {:p}", &raw const *self);
        self.context.info.header_lines(&[line]);
    }

    /// Writes statistics to the log.
    pub(crate) fn dump_stats(&self) {
        if !self.context.info.wants(Level::Info) {
            return;
        }
        let mut text = String::from("------- DUMPING STATS -------\n");
        text += &self.telemetry.db_stats();
        for family in self.catalog.families().iter() {
            text += &self.family_stats(family, &family.view(), true);
            text += &self.cache_stats(family).unwrap_or_default();
        }
        self.context.info.warn(text.trim_end());
        if let Some(statistics) = self.telemetry.statistics() {
            self.context
                .info
                .info(format_args!("STATISTICS:\n {statistics}"));
        }
    }

    /// Writes the header and the `logs` that are about to be replayed. Returns the job number of the
    /// recovery.
    pub(crate) fn log_recovery_start(&self, names: &[String], logs: &[WalFile]) -> u64 {
        let job = self.telemetry.new_job();
        let (found, dir) = (names.len(), self.context.dir.display());
        self.context
            .info
            .log(Level::Debug, format_args!("{found} files in {dir}"));
        self.log_header(names);
        let logs: Vec<u64> = logs.iter().map(|log| log.number.0).collect();
        if !logs.is_empty() && self.context.info.wants(Level::Info) {
            let mut event = self.telemetry.event(job, "recovery_started");
            event.numbers("wal_files", &logs);
            self.telemetry.log_event(&event);
        }
        job
    }
}

/// The features of the library on this machine.
fn support() -> impl Iterator<Item = String> {
    let codecs = Compression::all().skip(1).map(|codec| {
        let supported = u8::from(codec.is_supported());
        format!("\t{} supported: {supported}", codec.option_name())
    });
    let others = [
        fast_crc32(),
        "DMutex implementation: std::sync::Mutex",
        // The library uses the allocator of the host program.
        "Jemalloc supported: 0",
    ];
    std::iter::once("Compression algorithms supported:".to_owned())
        .chain(codecs)
        .chain(others.map(str::to_owned))
}

/// The line for instructions that compute CRC-32C. The library detects them at run time.
fn fast_crc32() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    return match std::arch::is_x86_feature_detected!("sse4.2") {
        true => "Fast CRC32 supported: Supported on x86",
        false => "Fast CRC32 supported: Not supported on x86",
    };
    #[cfg(target_arch = "aarch64")]
    return match std::arch::is_aarch64_feature_detected!("crc") {
        true => "Fast CRC32 supported: Supported on Arm64",
        false => "Fast CRC32 supported: Not supported on Arm64",
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return "Fast CRC32 supported: Not supported on this processor";
}
