//! The filter policy of a table, in its text form.

use crate::text::{Named, Refusal, Text, object};

/// What kind of filter a table gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterPolicy {
    /// A Bloom filter with this many bits a key.
    Bloom {
        /// Bits a key.
        bits_per_key: f64,
    },
    /// A Ribbon filter as good as a Bloom filter of this many bits a key.
    Ribbon {
        /// Bits a key of the Bloom filter it replaces.
        bits_per_key: f64,
        /// Levels above this one get a Bloom filter.
        bloom_before_level: i32,
    },
}

impl Named for FilterPolicy {}

impl Text for FilterPolicy {
    fn parse(text: &str) -> Result<FilterPolicy, Refusal> {
        let (name, _) = object(text)?;
        let mut parts = name.split(':');
        let kind = parts.next();
        let bits = parts.next().map(f64::parse).transpose()?;
        match (kind, bits) {
            (Some("bloomfilter"), Some(bits_per_key)) => Ok(FilterPolicy::Bloom { bits_per_key }),
            (Some("ribbonfilter"), Some(bits_per_key)) => Ok(FilterPolicy::Ribbon {
                bits_per_key,
                bloom_before_level: parts.next().map_or(Ok(0), i32::parse)?,
            }),
            _ => Err("expected bloomfilter:BITS or ribbonfilter:BITS:LEVEL".to_owned()),
        }
    }

    fn print(&self) -> String {
        match self {
            FilterPolicy::Bloom { bits_per_key } => format!("bloomfilter:{bits_per_key}:false"),
            FilterPolicy::Ribbon {
                bits_per_key,
                bloom_before_level,
            } => format!("ribbonfilter:{bits_per_key}:{bloom_before_level}"),
        }
    }
}
