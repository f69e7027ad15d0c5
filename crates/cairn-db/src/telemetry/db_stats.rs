//! Write counters of the database since it was opened, as `rocksdb.dbstats` prints them.

use cairn_observe::InternalStats;

use super::Telemetry;
use crate::report::stats_text::{GB, MB, Map, human_count, human_micros, stall_text};

impl Telemetry {
    /// The property `rocksdb.db-write-stall-stats`.
    pub(crate) fn db_stall_stats(&self) -> Map {
        let stops = self.counters.write_buffer_manager_stops.get();
        Map::from([(
            "write-buffer-manager-limit-stops".to_owned(),
            stops.to_string(),
        )])
    }

    /// The property `rocksdb.dbstats`. Each call begins the next interval.
    pub(crate) fn db_stats(&self) -> String {
        let (now, before) = {
            // Read under the lock, so that the reports of consecutive calls are monotonic.
            let mut reported = self.reported.lock();
            let now = DbStats::of(&self.counters, self.context.uptime());
            (now, std::mem::replace(&mut *reported, now))
        };
        let mut text = format!(
            "\n** DB Stats **\nUptime(secs): {:.1} total, {:.1} interval\n",
            now.seconds,
            now.seconds - before.seconds
        );
        text += &now.print("Cumulative");
        text += &now.minus(&before).print("Interval");
        text + &stall_text(&self.db_stall_stats())
    }

    /// The map form of `rocksdb.dbstats`.
    pub(crate) fn db_stats_map(&self) -> Map {
        let now = DbStats::of(&self.counters, self.context.uptime());
        let mut map = self.db_stall_stats();
        for (name, value) in [
            ("db.wal_bytes_written", now.wal_bytes),
            ("db.wal_syncs", now.wal_syncs),
            ("db.user_bytes_written", now.bytes),
            ("db.user_keys_written", now.keys),
            ("db.user_writes_by_other", now.writes - now.groups),
            ("db.user_writes_by_self", now.groups),
            ("db.user_writes_with_wal", now.wal_writes),
            ("db.user_write_stall_micros", now.stall_micros),
        ] {
            map.insert(name.to_owned(), value.to_string());
        }
        map.insert("db.uptime".to_owned(), format!("{:.6}", now.seconds));
        map
    }
}

/// Write counters at a point in time.
#[derive(Clone, Copy, Default)]
pub(super) struct DbStats {
    seconds: f64,
    writes: u64,
    keys: u64,
    groups: u64,
    bytes: u64,
    wal_writes: u64,
    wal_bytes: u64,
    wal_syncs: u64,
    stall_micros: u64,
}

impl DbStats {
    fn of(counters: &InternalStats, seconds: f64) -> DbStats {
        DbStats {
            seconds,
            // Groups first: each has at least one write, so the difference is never negative.
            groups: counters.write_groups.get(),
            writes: counters.writes.get().max(counters.write_groups.get()),
            keys: counters.keys_written.get(),
            bytes: counters.bytes_written.get(),
            wal_writes: counters.wal_writes.get(),
            wal_bytes: counters.wal_bytes.get(),
            wal_syncs: counters.wal_syncs.get(),
            stall_micros: counters.stall_micros.get(),
        }
    }

    fn minus(&self, before: &DbStats) -> DbStats {
        debug_assert!(
            before.writes <= self.writes
                && before.groups <= self.groups
                && before.wal_bytes <= self.wal_bytes,
            "counters grow"
        );
        DbStats {
            seconds: self.seconds - before.seconds,
            writes: self.writes - before.writes,
            keys: self.keys - before.keys,
            groups: self.groups - before.groups,
            bytes: self.bytes - before.bytes,
            wal_writes: self.wal_writes - before.wal_writes,
            wal_bytes: self.wal_bytes - before.wal_bytes,
            wal_syncs: self.wal_syncs - before.wal_syncs,
            stall_micros: self.stall_micros - before.stall_micros,
        }
    }

    fn print(&self, word: &str) -> String {
        let seconds = self.seconds.max(0.001);
        let ingest = match word {
            "Interval" => format!("{:.2} MB", self.bytes as f64 / MB),
            _ => format!("{:.2} GB", self.bytes as f64 / GB),
        };
        format!(
            "{word} writes: {} writes, {} keys, {} commit groups, {:.1} writes per commit group, \
             ingest: {ingest}, {:.2} MB/s\n\
             {word} WAL: {} writes, {} syncs, {:.2} writes per sync, written: {:.2} GB, {:.2} MB/s\n\
             {word} stall: {}, {:.1} percent\n",
            human_count(self.writes),
            human_count(self.keys),
            human_count(self.groups),
            self.writes as f64 / (self.groups as f64).max(1.0),
            self.bytes as f64 / MB / seconds,
            human_count(self.wal_writes),
            human_count(self.wal_syncs),
            self.wal_writes as f64 / (self.wal_syncs as f64).max(1.0),
            self.wal_bytes as f64 / GB,
            self.wal_bytes as f64 / MB / seconds,
            human_micros(self.stall_micros),
            self.stall_micros as f64 / 1e4 / seconds,
        )
    }
}
