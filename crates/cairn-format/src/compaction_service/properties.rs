//! The text form of table properties, with RocksDB's names of their members.

use cairn_types::Decoded;

use super::text::{Value, put_hex};
use crate::table::properties::Properties;

impl Value for Properties {
    /// Skips the text: the table itself has the properties.
    fn parse(&mut self, _text: &str, _at: usize) -> Decoded<()> {
        Ok(())
    }

    fn print(&self, out: &mut String) {
        out.push('{');
        let numbers = [
            ("orig_file_number", self.original_file_number),
            ("data_size", self.data_size),
            ("uncompressed_data_size", self.uncompressed_data_size),
            ("index_size", self.index_size),
            ("index_partitions", self.index_partitions),
            ("top_level_index_size", self.top_level_index_size),
            ("index_key_is_user_key", self.index_key_is_user_key),
            (
                "index_value_is_delta_encoded",
                self.index_value_is_delta_encoded,
            ),
            ("filter_size", self.filter_size),
            ("raw_key_size", self.raw_key_size),
            ("raw_value_size", self.raw_value_size),
            ("num_data_blocks", self.num_data_blocks),
            ("num_entries", self.num_entries),
            ("num_filter_entries", self.num_filter_entries),
            ("num_deletions", self.num_deletions),
            ("num_merge_operands", self.num_merge_operands),
            ("num_range_deletions", self.num_range_deletions),
            ("format_version", self.format_version),
            ("fixed_key_len", self.fixed_key_len),
            ("column_family_id", self.column_family_id),
            ("creation_time", self.creation_time),
            ("oldest_key_time", self.oldest_key_time),
            ("newest_key_time", self.newest_key_time),
            ("file_creation_time", self.file_creation_time),
            ("tail_start_offset", self.tail_start_offset),
            ("key_largest_seqno", self.key_largest_seqno),
            ("key_smallest_seqno", self.key_smallest_seqno),
            (
                "data_block_restart_interval",
                self.data_block_restart_interval,
            ),
            (
                "index_block_restart_interval",
                self.index_block_restart_interval,
            ),
            ("lsm_info_at_creation", self.lsm_info_at_creation),
            (
                "user_defined_timestamps_persisted",
                u64::from(!self.timestamps_stripped),
            ),
        ];
        for (name, number) in numbers {
            out.extend([name, "=", &number.to_string(), ";"]);
        }
        let texts = [
            ("db_id", &self.db_id),
            ("db_session_id", &self.db_session_id),
            ("db_host_id", &self.db_host_id),
            ("column_family_name", &self.column_family_name),
            ("filter_policy_name", &self.filter_policy),
            ("comparator_name", &self.comparator),
            ("merge_operator_name", &self.merge_operator),
            ("prefix_extractor_name", &self.prefix_extractor),
            ("property_collectors_names", &self.property_collectors),
            ("compression_name", &self.compression),
            ("compression_options", &self.compression_options),
        ];
        for (name, text) in texts {
            out.extend([name, "="]);
            put_hex(text.as_bytes(), out);
            out.push(';');
        }
        out.push_str("seqno_to_time_mapping=");
        put_hex(&self.seqno_time_map, out);
        out.push_str(";user_collected_properties={");
        for (name, value) in &self.others {
            put_hex(name, out);
            out.push('=');
            put_hex(value, out);
            out.push(';');
        }
        out.push_str("};}");
    }
}
