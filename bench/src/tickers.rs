//! Tickers of an engine, from the text of its statistics.

use std::collections::BTreeMap;

use crate::engine::Engine;

/// The property with the statistics as text: a line `name COUNT : value` for each ticker.
const PROPERTY: &str = "rocksdb.options-statistics";

/// Tickers by RocksDB's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tickers(BTreeMap<String, u64>);

impl Tickers {
    /// Returns the tickers of all databases of `engine`; none if it keeps no statistics.
    #[must_use]
    pub fn of<E: Engine>(engine: &E) -> Tickers {
        let mut sum = Tickers::default();
        for text in engine.properties(PROPERTY) {
            for (name, count) in Tickers::parse(&text).0 {
                *sum.0.entry(name).or_default() += count;
            }
        }
        sum
    }

    fn parse(text: &str) -> Tickers {
        let ticker = |line: &str| {
            let (name, count) = line.split_once(" COUNT : ")?;
            Some((name.trim().to_owned(), count.trim().parse().ok()?))
        };
        Tickers(text.lines().filter_map(ticker).collect())
    }

    /// Returns the increase since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Tickers) -> Tickers {
        let more = |(name, count): (&String, &u64)| {
            (name.clone(), count.saturating_sub(earlier.get(name)))
        };
        Tickers(self.0.iter().map(more).collect())
    }

    /// Returns the ticker `name`; 0 if it is not kept.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// True if the engine keeps no statistics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of reads of tables and blob files, and their bytes.
    #[must_use]
    pub fn storage_reads(&self) -> (u64, u64) {
        let both = |what: &str| {
            self.get(&format!("rocksdb.last.level.read.{what}"))
                + self.get(&format!("rocksdb.non.last.level.read.{what}"))
        };
        (both("count"), both("bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickers_are_parsed_and_subtracted() {
        let before = Tickers::parse("rocksdb.last.level.read.count COUNT : 3\n");
        let after = Tickers::parse(
            "rocksdb.last.level.read.count COUNT : 5\nrocksdb.non.last.level.read.count COUNT : 7\n\
             rocksdb.last.level.read.bytes COUNT : 900\n\
             rocksdb.db.get.micros P50 : 2.0 P95 : 3.0 P99 : 3.0 P100 : 3.0 COUNT : 9 SUM : 27\n",
        );
        assert_eq!(after.since(&before).storage_reads(), (9, 900));
        assert_eq!(after.get("rocksdb.db.get.micros"), 0);
        assert!(Tickers::default().is_empty() && !after.is_empty());
    }
}
