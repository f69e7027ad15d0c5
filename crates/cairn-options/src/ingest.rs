//! Options of the calls that bring files in: ingestion of tables, import of a column family.

use cairn_types::{Error, Result};

use crate::rows::options;

options! {
    /// How external tables are ingested.
    IngestExternalFileOptions, "IngestExternalFileOptions" {
        /// True if the files are linked into the database and their names given up afterwards.
        move_files: bool = false;
        /// True if the files are linked into the database and keep their names as well.
        link_files: bool = false;
        /// True if a file that cannot be linked is copied instead.
        failed_move_fall_back_to_copy: bool = true;
        /// True if snapshots that exist already keep from seeing what is ingested.
        snapshot_consistency: bool = true;
        /// True if all entries of a file may be given one sequence number of the database, which
        /// a file that overlaps others needs.
        allow_global_seqno: bool = true;
        /// True if memtables that overlap the files are flushed first; else they are an error.
        allow_blocking_flush: bool = true;
        /// True if the files go below all that is there: keys that exist keep their values. Needs
        /// `allow_ingest_behind` or `cf_allow_ingest_behind`.
        ingest_behind: bool = false;
        /// True if the sequence number is written into the files too, as releases before 5.16
        /// need it.
        write_global_seqno: bool = false;
        /// True if the checksum of every block is verified first.
        verify_checksums_before_ingest: bool = false;
        /// Bytes read at once for that; 0 for a default.
        verify_checksums_readahead_size: u64 = 0;
        /// True if checksums of whole files that the caller gives are verified.
        verify_file_checksum: bool = true;
        /// True if a file that cannot go to the last level is refused with `TryAgain`.
        fail_if_not_bottommost_level: bool = false;
        /// True if files that a database wrote are taken, with the sequence numbers they have.
        allow_db_generated_files: bool = false;
        /// True if blocks that the ingestion reads enter the cache. Cairn's reads past it.
        fill_cache: bool = true, hint;
        /// True if index and filter of tables in the last level are read at once.
        prefetch_lmax_index_and_filter_blocks: bool = true, hint;
        /// Threads that open the tables.
        file_opening_threads: i32 = 1, hint;
    }
}

options! {
    /// How the files of an exported column family are brought in.
    ImportColumnFamilyOptions, "ImportColumnFamilyOptions" {
        /// True if the files are linked and their names given up, rather than copied.
        move_files: bool = false;
    }
}

impl IngestExternalFileOptions {
    /// Refuses combinations that make no sense.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` says which.
    pub fn validate(&self) -> Result<()> {
        if self.move_files && self.link_files {
            return Err(Error::invalid_argument(
                "move_files and link_files exclude each other",
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
    fn contradictions_are_refused() {
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
