//! The text form of table properties, with RocksDB's names of their members.

use cairn_types::{Decoded, Malformed};

use crate::record_text::{Members, Value, put_hex};
use crate::table::properties::Properties;
use crate::table::shared_text::SharedText;

macro_rules! members {
    (
        numbers { $($number:ident = $nname:literal;)* }
        newer { $($newer:ident = $wname:literal;)* }
        texts { $($text:ident = $tname:literal;)* }
    ) => {
        /// The numbers that every supported release of RocksDB reads.
        fn numbers(from: &Properties) -> Vec<(&'static str, u64)> {
            vec![$(($nname, from.$number)),*]
        }

        /// The numbers of newer releases.
        fn newer_numbers(from: &Properties) -> Vec<(&'static str, u64)> {
            vec![$(($wname, from.$newer)),*]
        }

        fn texts(from: &Properties) -> Vec<(&'static str, &str)> {
            vec![$(($tname, &*from.$text)),*]
        }

        fn number_mut<'a>(of: &'a mut Properties, name: &str) -> Option<&'a mut u64> {
            match name {
                $($nname => Some(&mut of.$number),)*
                $($wname => Some(&mut of.$newer),)*
                _ => None,
            }
        }

        fn text_mut<'a>(of: &'a mut Properties, name: &str) -> Option<&'a mut SharedText> {
            match name {
                $($tname => Some(&mut of.$text),)*
                _ => None,
            }
        }
    };
}

members! {
    numbers {
        original_file_number = "orig_file_number";
        data_size = "data_size";
        uncompressed_data_size = "uncompressed_data_size";
        index_size = "index_size";
        index_partitions = "index_partitions";
        top_level_index_size = "top_level_index_size";
        index_key_is_user_key = "index_key_is_user_key";
        index_value_is_delta_encoded = "index_value_is_delta_encoded";
        filter_size = "filter_size";
        raw_key_size = "raw_key_size";
        raw_value_size = "raw_value_size";
        num_data_blocks = "num_data_blocks";
        num_entries = "num_entries";
        num_filter_entries = "num_filter_entries";
        num_deletions = "num_deletions";
        num_merge_operands = "num_merge_operands";
        num_range_deletions = "num_range_deletions";
        format_version = "format_version";
        fixed_key_len = "fixed_key_len";
        column_family_id = "column_family_id";
        creation_time = "creation_time";
        oldest_key_time = "oldest_key_time";
        newest_key_time = "newest_key_time";
        file_creation_time = "file_creation_time";
        tail_start_offset = "tail_start_offset";
        key_largest_seqno = "key_largest_seqno";
        key_smallest_seqno = "key_smallest_seqno";
        data_block_restart_interval = "data_block_restart_interval";
        index_block_restart_interval = "index_block_restart_interval";
        lsm_info_at_creation = "lsm_info_at_creation";
    }
    newer {
        separate_key_value_in_data_block = "separate_key_value_in_data_block";
        num_uniform_blocks = "num_uniform_blocks";
        num_compression_rejected = "num_data_blocks_compression_rejected";
        num_compression_bypassed = "num_data_blocks_compression_bypassed";
        udi_is_primary_index = "udi_is_primary_index";
        slow_compression_estimate = "slow_compression_estimated_data_size";
        fast_compression_estimate = "fast_compression_estimated_data_size";
    }
    texts {
        db_id = "db_id";
        db_session_id = "db_session_id";
        db_host_id = "db_host_id";
        column_family_name = "column_family_name";
        filter_policy = "filter_policy_name";
        comparator = "comparator_name";
        merge_operator = "merge_operator_name";
        prefix_extractor = "prefix_extractor_name";
        property_collectors = "property_collectors_names";
        compression = "compression_name";
        compression_options = "compression_options";
    }
}

/// The number of [`Properties::timestamps_stripped`], inverted.
const PERSISTED: &str = "user_defined_timestamps_persisted";
const SEQNO_TIMES: &str = "seqno_to_time_mapping";
const COLLECTED: &str = "user_collected_properties";

impl Value for Properties {
    /// Skips the text: the table itself has the properties.
    fn parse(&mut self, _text: &str, _at: usize) -> Decoded<()> {
        Ok(())
    }

    fn print(&self, out: &mut String) {
        out.push('{');
        print_members(self, &numbers(self), &self.others, out);
        out.push('}');
    }
}

/// Returns the complete text form of `properties`.
pub(crate) fn print(properties: &Properties) -> String {
    let mut out = String::new();
    let numbers = [numbers(properties), newer_numbers(properties)].concat();
    print_members(properties, &numbers, &properties.collected(), &mut out);
    out
}

fn print_members<'a>(
    properties: &Properties,
    numbers: &[(&str, u64)],
    collected: impl IntoIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
    out: &mut String,
) {
    for (name, number) in numbers {
        out.extend([name, "=", &number.to_string(), ";"]);
    }
    let persisted = if properties.timestamps_stripped {
        "0"
    } else {
        "1"
    };
    out.extend([PERSISTED, "=", persisted, ";"]);
    for (name, text) in texts(properties) {
        out.extend([name, "="]);
        put_hex(text.as_bytes(), out);
        out.push(';');
    }
    out.extend([SEQNO_TIMES, "="]);
    put_hex(&properties.seqno_time_map, out);
    out.extend([";", COLLECTED, "={"]);
    for (name, value) in collected {
        put_hex(name, out);
        out.push('=');
        put_hex(value, out);
        out.push(';');
    }
    out.push_str("};");
}

/// Sets the members of `properties` that are in `text`, which [`print`] returned. Unknown ones are skipped.
///
/// # Errors
///
/// The offset of a malformed member.
pub(crate) fn parse(properties: &mut Properties, text: &str) -> Decoded<()> {
    let mut limits = (None, None);
    for member in Members::new(text, 0) {
        let (name, value, at) = member?;
        if let Some(number) = number_mut(properties, name) {
            number.parse(value, at)?;
            continue;
        }
        match name {
            PERSISTED => {
                let mut persisted = 1_u64;
                persisted.parse(value, at)?;
                properties.timestamps_stripped = persisted == 0;
            }
            SEQNO_TIMES => properties.seqno_time_map.parse(value, at)?,
            COLLECTED => {
                for row in Members::new(value, at) {
                    let (name, value, at) = row?;
                    let (name, value) = (bytes(name, at)?, bytes(value, at)?);
                    properties
                        .take_row(&name, &value, &mut limits)
                        .map_err(|error| Malformed { at, ..error })?;
                }
            }
            _ => {
                if let Some(text) = text_mut(properties, name) {
                    *text = SharedText::from(&*String::from_utf8_lossy(&bytes(value, at)?));
                }
            }
        }
    }
    properties.set_timestamps(limits);
    Ok(())
}

fn bytes(text: &str, at: usize) -> Decoded<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.parse(text, at)?;
    Ok(bytes)
}
