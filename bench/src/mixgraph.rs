//! The social-graph workload of db_bench (`mixgraph`): distributions of keys, value sizes and scan
//! lengths.
//!
//! The models are those of "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at
//! Facebook" (Cao et al., FAST 2020), with db_bench's flags: keys follow a power law, or a power law
//! within key ranges whose weight is the sum of two exponentials; value sizes and scan lengths follow a
//! generalized Pareto distribution. As in db_bench, one random number determines the type, key and length of
//! an operation.

use cairn::{Error, Result};
use clap::Args;

use crate::key_value_gen::{Rng, mix};

/// Minimum size of a put value.
pub const SHORTEST_VALUE: usize = 10;
/// Weight below which a key range is cold.
const COLD: f64 = 1e-16;

/// Parameters of the workload, with db_bench's defaults.
#[derive(Clone, Debug, Args)]
pub struct GraphFlags {
    /// mixgraph: fraction of gets.
    #[arg(long = "mix_get_ratio", value_name = "SHARE", default_value_t = 1.0)]
    pub mix_get_ratio: f64,
    /// mixgraph: fraction of puts.
    #[arg(long = "mix_put_ratio", value_name = "SHARE", default_value_t = 0.0)]
    pub mix_put_ratio: f64,
    /// mixgraph: fraction of seeks with a scan.
    #[arg(long = "mix_seek_ratio", value_name = "SHARE", default_value_t = 0.0)]
    pub mix_seek_ratio: f64,
    /// mixgraph: exclusive maximum of scan lengths.
    #[arg(
        long = "mix_max_scan_len",
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub mix_max_scan_len: u64,
    /// mixgraph: maximum value size in bytes; at least 10.
    #[arg(
        long = "mix_max_value_size",
        value_name = "BYTES",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u64).range(SHORTEST_VALUE as u64..=1 << 20)
    )]
    pub mix_max_value_size: u64,
    /// mixgraph: number of key ranges, each with its own weight.
    #[arg(
        long = "keyrange_num",
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub keyrange_num: u64,
    /// mixgraph: the weight of range x is a * exp(b * x) + c * exp(d * x); all 0 for no ranges.
    #[arg(
        long = "keyrange_dist_a",
        value_name = "A",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub keyrange_dist_a: f64,
    /// mixgraph: see --keyrange_dist_a.
    #[arg(
        long = "keyrange_dist_b",
        value_name = "B",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub keyrange_dist_b: f64,
    /// mixgraph: see --keyrange_dist_a.
    #[arg(
        long = "keyrange_dist_c",
        value_name = "C",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub keyrange_dist_c: f64,
    /// mixgraph: see --keyrange_dist_a.
    #[arg(
        long = "keyrange_dist_d",
        value_name = "D",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub keyrange_dist_d: f64,
    /// mixgraph: the weight of key x is a * x^b; uniform if either is 0.
    #[arg(
        long = "key_dist_a",
        value_name = "A",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub key_dist_a: f64,
    /// mixgraph: see --key_dist_a.
    #[arg(
        long = "key_dist_b",
        value_name = "B",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub key_dist_b: f64,
    /// mixgraph: minimum value size, the theta of a Pareto distribution.
    #[arg(
        long = "value_theta",
        value_name = "THETA",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub value_theta: f64,
    /// mixgraph: shape of the value size distribution.
    #[arg(
        long = "value_k",
        value_name = "K",
        default_value_t = 0.2615,
        allow_negative_numbers = true
    )]
    pub value_k: f64,
    /// mixgraph: scale of the value size distribution.
    #[arg(long = "value_sigma", value_name = "SIGMA", default_value_t = 25.45)]
    pub value_sigma: f64,
    /// mixgraph: minimum scan length, the theta of a Pareto distribution.
    #[arg(
        long = "iter_theta",
        value_name = "THETA",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub iter_theta: f64,
    /// mixgraph: shape of the scan length distribution.
    #[arg(
        long = "iter_k",
        value_name = "K",
        default_value_t = 2.517,
        allow_negative_numbers = true
    )]
    pub iter_k: f64,
    /// mixgraph: scale of the scan length distribution.
    #[arg(long = "iter_sigma", value_name = "SIGMA", default_value_t = 14.236)]
    pub iter_sigma: f64,
}

/// The type of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Gets a key.
    Get,
    /// Puts a value of this size.
    Put(usize),
    /// Seeks and reads this number of entries.
    Walk(u64),
}

/// The workload over a number of keys.
#[derive(Clone, Debug)]
pub struct Graph {
    flags: GraphFlags,
    num: u64,
    /// Thresholds of a random number: below the first are gets, below the second puts.
    gets: u64,
    puts: u64,
    kinds: u64,
    ranges: Option<Ranges>,
}

impl Graph {
    /// Creates the workload over `num` keys.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if all operations or all key ranges have zero weight.
    pub fn new(flags: &GraphFlags, num: u64) -> Result<Graph> {
        let ratios = [
            flags.mix_get_ratio,
            flags.mix_put_ratio,
            flags.mix_seek_ratio,
        ];
        let sum: f64 = ratios.iter().sum();
        if !(sum > 0.0 && sum.is_finite() && ratios.iter().all(|ratio| *ratio >= 0.0)) {
            return Err(Error::invalid_argument(
                "--mix_get_ratio, --mix_put_ratio and --mix_seek_ratio: none below 0, and one above",
            ));
        }
        let [gets, puts, walks] = ratios.map(|ratio| (1000.0 * ratio / sum).ceil() as u64);
        let num = num.max(1);
        Ok(Graph {
            flags: flags.clone(),
            num,
            gets,
            puts: gets + puts,
            kinds: gets + puts + walks,
            ranges: Ranges::new(flags, num)?,
        })
    }

    /// Returns the next operation with the number of its key.
    pub fn draw(&self, rng: &mut Rng) -> (u64, Kind) {
        let flags = &self.flags;
        let drawn = rng.below(self.num);
        let share = drawn as f64 / self.num as f64;
        let number = if flags.key_dist_a == 0.0 || flags.key_dist_b == 0.0 {
            drawn
        } else if let Some(ranges) = &self.ranges {
            ranges.key(rng.draw(), flags)
        } else {
            mix(power(share, flags)) % self.num
        };
        let kind = match drawn % self.kinds {
            kind if kind < self.gets => Kind::Get,
            kind if kind < self.puts => {
                let size = pareto(share, flags.value_theta, flags.value_k, flags.value_sigma);
                let most = flags.mix_max_value_size;
                let size = if size > most { size % most } else { size };
                Kind::Put((size as usize).max(SHORTEST_VALUE))
            }
            _ => {
                let steps = pareto(share, flags.iter_theta, flags.iter_k, flags.iter_sigma);
                Kind::Walk(steps % flags.mix_max_scan_len)
            }
        };
        (number, kind)
    }
}

/// Key ranges of equal size in scattered order, with their weights.
#[derive(Clone, Debug)]
struct Ranges {
    /// Keys per range.
    size: u64,
    /// Cumulative weights of the ranges in key order.
    ends: Vec<f64>,
}

impl Ranges {
    /// Returns the ranges configured by the flags, if any.
    fn new(flags: &GraphFlags, num: u64) -> Result<Option<Ranges>> {
        let (a, b) = (flags.keyrange_dist_a, flags.keyrange_dist_b);
        let (c, d) = (flags.keyrange_dist_c, flags.keyrange_dist_d);
        if [a, b, c, d].iter().all(|one| *one == 0.0) {
            return Ok(None);
        }
        let count = flags.keyrange_num.min(num);
        let heat = |x: u64| a * (b * x as f64).exp() + c * (d * x as f64).exp();
        let mut heats: Vec<f64> = (1..=count)
            .map(|x| if heat(x) < COLD { 0.0 } else { heat(x) })
            .collect();
        // Hot and cold ranges are scattered in a deterministic order.
        heats = {
            let mut placed: Vec<(u64, f64)> = (0..count).map(mix).zip(heats).collect();
            placed.sort_by_key(|(place, _)| *place);
            placed.into_iter().map(|(_, heat)| heat).collect()
        };
        let mut sum = 0.0;
        let ends: Vec<f64> = heats
            .iter()
            .map(|heat| {
                sum += heat;
                sum
            })
            .collect();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(Error::invalid_argument(
                "--keyrange_dist_a to --keyrange_dist_d: no key range has a weight above zero",
            ));
        }
        Ok(Some(Ranges {
            size: num / count,
            ends,
        }))
    }

    /// Returns a key of a range chosen by weight.
    fn key(&self, drawn: u64, flags: &GraphFlags) -> u64 {
        let mut rng = Rng::new(drawn);
        let most = self.ends.last().copied().unwrap_or_default();
        let place = rng.share() * most;
        let range = self.ends.partition_point(|end| *end <= place);
        let range = range.min(self.ends.len() - 1) as u64;
        let share = rng.below(self.size) as f64 / self.size as f64;
        // Hot keys have different positions in different ranges.
        let key = mix(power(share, flags) ^ mix(range)) % self.size;
        range * self.size + key
    }
}

/// Returns the key at quantile `share` of the power law; the sign of the exponent determines whether
/// small numbers are hot or cold.
fn power(share: f64, flags: &GraphFlags) -> u64 {
    (share / flags.key_dist_a)
        .powf(1.0 / flags.key_dist_b)
        .ceil() as u64
}

/// Returns the value of the generalized Pareto distribution at the upper quantile `share`.
fn pareto(share: f64, theta: f64, k: f64, sigma: f64) -> u64 {
    let value = match k == 0.0 {
        true => theta - sigma * share.ln(),
        false => theta + sigma * (share.powf(-k) - 1.0) / k,
    };
    value.ceil() as u64
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        graph: GraphFlags,
    }

    fn graph(flags: &str, num: u64) -> Result<Graph> {
        let words = std::iter::once("x").chain(flags.split_whitespace());
        Graph::new(&Cli::try_parse_from(words).unwrap().graph, num)
    }

    /// The paper's parameters of one of its stores.
    const MODEL: &str = "--key_dist_a=0.002312 --key_dist_b=0.3467 --keyrange_num=30 \
        --keyrange_dist_a=14.18 --keyrange_dist_b=-2.917 --keyrange_dist_c=0.0164 \
        --keyrange_dist_d=-0.08082 --mix_get_ratio=0.83 --mix_put_ratio=0.14 --mix_seek_ratio=0.03";

    #[test]
    fn kinds_and_lengths_have_their_distributions() {
        let (graph, mut rng) = (graph(MODEL, 1_000_000).unwrap(), Rng::new(1));
        let (mut gets, mut sizes, mut walks) = (0, Vec::new(), Vec::new());
        for _ in 0..100_000 {
            match graph.draw(&mut rng).1 {
                Kind::Get => gets += 1,
                Kind::Put(size) => sizes.push(size),
                Kind::Walk(steps) => walks.push(steps),
            }
        }
        assert!((82_000..84_000).contains(&gets), "{gets}");
        assert!((13_500..14_500).contains(&sizes.len()), "{}", sizes.len());
        // The mean is sigma / (1 - k), some 35 bytes; small sizes are rounded up.
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((33..40).contains(&mean), "{mean}");
        assert!(sizes.iter().all(|size| (10..=1024).contains(size)));
        assert!(walks.iter().all(|steps| *steps < 10_000));
        walks.sort_unstable();
        // The median is sigma * (2^k - 1) / k.
        let median = walks[walks.len() / 2];
        assert!((20..40).contains(&median), "{median}");
    }

    #[test]
    fn a_few_ranges_and_keys_are_hot() {
        let (graph, mut rng) = (graph(MODEL, 300_000).unwrap(), Rng::new(1));
        let mut ranges = [0u32; 30];
        for _ in 0..30_000 {
            let (number, _) = graph.draw(&mut rng);
            ranges[(number / 10_000) as usize] += 1;
        }
        ranges.sort_unstable();
        // The first range has 14.18 * exp(-2.917) + 0.0164 * exp(-0.08082) = 0.78 of 1.0.
        assert!((22_000..25_000).contains(&ranges[29]), "{ranges:?}");
        assert!(ranges[28] < 2_000, "{ranges:?}");
    }

    #[test]
    fn without_a_model_keys_are_uniform() {
        let (graph, mut rng) = (graph("", 10).unwrap(), Rng::new(1));
        let mut count = [0u32; 10];
        for _ in 0..10_000 {
            let (number, kind) = graph.draw(&mut rng);
            assert_eq!(kind, Kind::Get);
            count[number as usize] += 1;
        }
        assert!(
            count.iter().all(|count| (850..1150).contains(count)),
            "{count:?}"
        );
    }

    #[test]
    fn zero_weights_are_rejected() {
        assert!(graph("--mix_get_ratio=0", 10).is_err());
        assert!(graph("--mix_put_ratio=-1", 10).is_err());
        assert!(graph("--keyrange_dist_a=-1", 10).is_err());
    }
}
