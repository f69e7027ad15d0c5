//! When compression of data blocks is not tried, because it did not pay before (`auto_skip`).
//!
//! The ratio of compressed to raw sizes is estimated as RocksDB 11.12 estimates it: each block that was tried moves the
//! estimate by an eighth of the way to its own ratio if that is better, by a sixteenth if it is worse. While the
//! estimate is worse than what a block must reach to be kept compressed, only one block in some is tried. Unlike RocksDB's,
//! the estimate of a table does not begin with that of the table before.

use cairn_options::CompressionOptions;

/// The ratio of a block that does not shrink.
const SCALE: i64 = 1 << 20;
/// Blocks from one that is tried to the next, where the options leave it open.
const DEFAULT_SAMPLE_EVERY: u32 = 64;

/// The estimate for the blocks of one table.
pub(crate) struct AutoSkip {
    ratio: i64,
    /// The worst ratio that pays.
    bar: i64,
    sample_every: u32,
    /// Blocks to be skipped before the next one is tried.
    skips: u32,
}

impl AutoSkip {
    /// The estimate before the first block, if `options` want one.
    pub(crate) fn new(options: &CompressionOptions) -> Option<AutoSkip> {
        let bar = i64::from(options.max_compressed_bytes_per_kb.max(0)) * (SCALE / 1024);
        let sample_every = u32::try_from(options.auto_skip_min_sample_every).unwrap_or(0);
        options.auto_skip.then_some(AutoSkip {
            ratio: 0,
            bar,
            sample_every: match sample_every {
                0 => DEFAULT_SAMPLE_EVERY,
                every => every,
            },
            skips: 0,
        })
    }

    /// True if the next block is to be stored as it is.
    pub(crate) fn skips_next(&mut self) -> bool {
        if self.ratio <= self.bar {
            return false;
        }
        match self.skips.checked_sub(1) {
            Some(skips) => {
                self.skips = skips;
                true
            }
            None => {
                self.skips = self.sample_every;
                false
            }
        }
    }

    /// Notes that a block of `raw` bytes became one of `stored`.
    pub(crate) fn note(&mut self, raw: usize, stored: usize) {
        let seen = (stored as i64).saturating_mul(SCALE) / (raw as i64).max(1);
        let away = seen.min(SCALE) - self.ratio;
        self.ratio += match away {
            ..0 => (away / 8).min(-1),
            0 => 0,
            1.. => (away / 16).max(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(blocks: &[usize]) -> Vec<bool> {
        let options = CompressionOptions {
            auto_skip: true,
            auto_skip_min_sample_every: 4,
            ..CompressionOptions::default()
        };
        let mut skip = AutoSkip::new(&options).unwrap();
        let mut tries = Vec::new();
        for &stored in blocks {
            let tried = !skip.skips_next();
            if tried {
                skip.note(1000, stored);
            }
            tries.push(tried);
        }
        tries
    }

    #[test]
    fn blocks_that_do_not_shrink_are_tried_ever_more_rarely_and_then_one_in_five() {
        assert!(tried(&[300; 500]).iter().all(|&tried| tried));
        let tries = tried(&[1000; 500]);
        let first = tries.iter().position(|&tried| !tried).unwrap();
        assert!((16..80).contains(&first), "{first}");
        for (i, five) in tries[first..].chunks_exact(5).enumerate() {
            assert_eq!(five.iter().filter(|&&tried| tried).count(), 1, "{i}");
        }
        // When they shrink again all are tried again.
        let tries = tried(&[[1000; 200], [200; 200]].concat());
        assert!(tries[300..].iter().all(|&tried| tried));
        assert!(AutoSkip::new(&CompressionOptions::default()).is_none());
    }
}
