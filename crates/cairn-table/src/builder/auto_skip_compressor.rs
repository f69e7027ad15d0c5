//! Skips the compression of data blocks while it does not pay off (`auto_skip`).
//!
//! The compression ratio is estimated as in RocksDB 11.12: each compressed block moves the estimate
//! towards its own ratio, by an eighth of the difference if that is better and by a sixteenth if it
//! is worse. While the estimate is above the ratio at which a block is stored compressed,
//! compression is attempted for only a sample of the blocks. Unlike in RocksDB, each table starts
//! with a new estimate.

use cairn_options::CompressionOptions;

/// The ratio of an incompressible block.
const SCALE: i64 = 1 << 20;
/// Default sampling interval, in blocks.
const DEFAULT_SAMPLE_EVERY: u32 = 64;

/// The ratio estimate of one table.
pub(crate) struct AutoSkipCompressor {
    ratio: i64,
    /// The highest ratio at which a block is stored compressed.
    max_ratio: i64,
    sample_every: u32,
    /// Blocks to skip before the next attempt.
    skips: u32,
}

impl AutoSkipCompressor {
    /// Creates an estimate if `options` enable it.
    pub(crate) fn new(options: &CompressionOptions) -> Option<AutoSkipCompressor> {
        let max_ratio = i64::from(options.max_compressed_bytes_per_kb.max(0)) * (SCALE / 1024);
        let sample_every = u32::try_from(options.auto_skip_min_sample_every).unwrap_or(0);
        options.auto_skip.then_some(AutoSkipCompressor {
            ratio: 0,
            max_ratio,
            sample_every: match sample_every {
                0 => DEFAULT_SAMPLE_EVERY,
                every => every,
            },
            skips: 0,
        })
    }

    /// True if the next block is to be stored uncompressed.
    pub(crate) fn skips_next(&mut self) -> bool {
        if self.ratio <= self.max_ratio {
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

    /// Records that a block of `raw` bytes was stored in `stored` bytes.
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
        let mut skip = AutoSkipCompressor::new(&options).unwrap();
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
    fn incompressible_blocks_are_tried_less_often_down_to_one_in_five() {
        assert!(tried(&[300; 500]).iter().all(|&tried| tried));
        let tries = tried(&[1000; 500]);
        let first = tries.iter().position(|&tried| !tried).unwrap();
        assert!((16..80).contains(&first), "{first}");
        for (i, five) in tries[first..].chunks_exact(5).enumerate() {
            assert_eq!(five.iter().filter(|&&tried| tried).count(), 1, "{i}");
        }
        // Once blocks shrink again, compression is attempted for all.
        let tries = tried(&[[1000; 200], [200; 200]].concat());
        assert!(tries[300..].iter().all(|&tried| tried));
        assert!(AutoSkipCompressor::new(&CompressionOptions::default()).is_none());
    }
}
