//! Options of ingestion and import.

use cairn_types::{Error, Result};

use crate::rows::options;

options! {
    /// Options of ingesting external files.
    IngestExternalFileOptions, "IngestExternalFileOptions" {
        /// True if the files are linked into the database and then unlinked from their old paths.
        move_files: bool = false;
        /// True if the files are linked into the database and keep their old paths.
        link_files: bool = false;
        /// True if a file that cannot be linked is copied.
        failed_move_fall_back_to_copy: bool = true;
        /// True if ingested data is invisible to existing snapshots.
        snapshot_consistency: bool = true;
        /// True if a file may be assigned a global sequence number, which a file with overlap needs.
        allow_global_seqno: bool = true;
        /// True if overlapping memtables are flushed; otherwise they are an error.
        allow_blocking_flush: bool = true;
        /// True if the files go behind all existing data: existing keys keep their values. Requires
        /// `allow_ingest_behind` or `cf_allow_ingest_behind`.
        ingest_behind: bool = false;
        /// True if the global sequence number is also written to the file, as releases before 5.16
        /// require.
        write_global_seqno: bool = false;
        /// True if the checksum of every block is verified first.
        verify_checksums_before_ingest: bool = false;
        /// Readahead of that verification, in bytes; 0 for the default.
        verify_checksums_readahead_size: u64 = 0;
        /// True if whole-file checksums given by the caller are verified.
        verify_file_checksum: bool = true;
        /// True to fail with `TryAgain` if a file cannot go to the last level.
        fail_if_not_bottommost_level: bool = false;
        /// True if files written by a database are accepted, with their sequence numbers. Tables with values in blob files are
        /// rejected, and with `snapshot_consistency` all such files while there are snapshots.
        allow_db_generated_files: bool = false;
        /// True if blocks read by ingestion are cached. Cairn bypasses the cache.
        fill_cache: bool = true, hint;
        /// True if index and filter of tables in the last level are prefetched.
        prefetch_lmax_index_and_filter_blocks: bool = true, hint;
        /// Number of threads that open the tables.
        file_opening_threads: i32 = 1, hint;
    }
}

options! {
    /// Options of importing an exported column family.
    ImportColumnFamilyOptions, "ImportColumnFamilyOptions" {
        /// True if the files are moved instead of copied.
        move_files: bool = false;
    }
}

impl IngestExternalFileOptions {
    /// Rejects contradictory options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with the reason.
    pub fn validate(&self) -> Result<()> {
        if self.move_files && self.link_files {
            return Err(Error::invalid_argument(
                "move_files and link_files are mutually exclusive",
            ));
        }
        if self.allow_db_generated_files && self.write_global_seqno {
            return Err(Error::invalid_argument(
                "write_global_seqno goes not with allow_db_generated_files: the files keep their \
                 sequence numbers",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Options;

    #[test]
    fn contradictory_options_are_rejected() {
        let of = |text: &str| {
            IngestExternalFileOptions::from_text(text)
                .unwrap()
                .validate()
        };
        assert!(of("").is_ok());
        assert!(of("move_files=true;allow_global_seqno=false").is_ok());
        assert!(of("move_files=true;link_files=true").is_err());
        assert!(of("allow_db_generated_files=true;write_global_seqno=true").is_err());
    }
}
