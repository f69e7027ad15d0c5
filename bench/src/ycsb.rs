//! The core workloads of the Yahoo! Cloud Serving Benchmark: their operation mixes and skewed keys.
//!
//! | | operations | keys |
//! |---|---|---|
//! | A | half reads, half updates | zipfian |
//! | B | 95 % reads, 5 % updates | zipfian |
//! | C | reads | zipfian |
//! | D | 95 % reads, 5 % inserts | the latest most often |
//! | E | 95 % scans of 1 to 100 entries, 5 % inserts | zipfian |
//! | F | half reads, half reads with an update of the same key | zipfian |

use crate::key_value_gen::{Rng, mix};

/// A workload, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// The type of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Read,
    Update,
    Insert,
    Scan,
    ReadThenUpdate,
}

impl Mix {
    /// Returns the workload of benchmark `ycsba` to `ycsbf`.
    #[must_use]
    pub fn named(name: &str) -> Option<Mix> {
        Some(match name.strip_prefix("ycsb")? {
            "a" => Mix::A,
            "b" => Mix::B,
            "c" => Mix::C,
            "d" => Mix::D,
            "e" => Mix::E,
            "f" => Mix::F,
            _ => return None,
        })
    }

    /// Returns the next operation.
    pub fn step(self, rng: &mut Rng) -> Step {
        let (percent, most, other) = match self {
            Mix::A => (50, Step::Read, Step::Update),
            Mix::B => (95, Step::Read, Step::Update),
            Mix::C => (100, Step::Read, Step::Read),
            Mix::D => (95, Step::Read, Step::Insert),
            Mix::E => (95, Step::Scan, Step::Insert),
            Mix::F => (50, Step::Read, Step::ReadThenUpdate),
        };
        match rng.below(100) < percent {
            true => most,
            false => other,
        }
    }
}

/// YCSB's exponent; larger values are more skewed.
const THETA: f64 = 0.99;
/// Number of terms of the zeta sum computed exactly; the rest is approximated by an integral.
const EXACT_TERMS: u64 = 100_000;

/// Zipf-distributed numbers below a bound, by Gray's method as in YCSB.
#[derive(Clone, Debug)]
pub struct Zipfian {
    bound: u64,
    zeta: f64,
    /// The sum of the first two terms.
    zeta_of_two: f64,
    eta: f64,
    exponent: f64,
}

impl Zipfian {
    /// Creates the distribution below `bound`, at least 1, with YCSB's exponent.
    #[must_use]
    pub fn new(bound: u64) -> Zipfian {
        Zipfian::with(bound, THETA)
    }

    /// Creates the distribution below `bound`, at least 1, with an exponent between 0 and 1.
    #[must_use]
    pub fn with(bound: u64, theta: f64) -> Zipfian {
        let bound = bound.max(1);
        let zeta = zeta(bound, theta);
        let zeta_of_two = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / bound as f64).powf(1.0 - theta)) / (1.0 - zeta_of_two / zeta);
        Zipfian {
            bound,
            zeta,
            zeta_of_two,
            eta,
            exponent: 1.0 / (1.0 - theta),
        }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Returns a rank; 0 is the most frequent.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let share = rng.share();
        let scaled = share * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.zeta_of_two {
            return 1.min(self.bound - 1);
        }
        let power = (self.eta * share - self.eta + 1.0).powf(self.exponent);
        ((self.bound as f64 * power) as u64).min(self.bound - 1)
    }

    /// Returns a key; frequent keys are scattered.
    pub fn scattered(&self, rng: &mut Rng) -> u64 {
        mix(self.rank(rng)) % self.bound
    }
}

/// Returns the sum of `1 / i^theta` for `i` from 1 to `bound`.
fn zeta(bound: u64, theta: f64) -> f64 {
    let exact = bound.min(EXACT_TERMS);
    let sum: f64 = (1..=exact).map(|i| (i as f64).powf(-theta)).sum();
    let integral = |to: f64| to.powf(1.0 - theta) / (1.0 - theta);
    sum + integral(bound as f64 + 0.5) - integral(exact as f64 + 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_have_their_percentages() {
        assert_eq!(Mix::named("ycsbb"), Some(Mix::B));
        assert_eq!((Mix::named("ycsbg"), Mix::named("fillseq")), (None, None));
        let mut rng = Rng::new(1);
        let steps: Vec<Step> = (0..10_000).map(|_| Mix::B.step(&mut rng)).collect();
        let updates = steps.iter().filter(|step| **step == Step::Update).count();
        assert!((350..650).contains(&updates), "{updates}");
        assert!((0..100).all(|_| Mix::C.step(&mut rng) == Step::Read));
    }

    #[test]
    fn most_zipfian_draws_are_of_few_keys() {
        let (zipfian, mut rng) = (Zipfian::new(1_000_000), Rng::new(7));
        let ranks: Vec<u64> = (0..20_000).map(|_| zipfian.rank(&mut rng)).collect();
        assert!(ranks.iter().all(|rank| *rank < 1_000_000));
        // With this exponent, a hundredth of the keys gets about two thirds of the draws.
        let hot = ranks.iter().filter(|rank| **rank < 10_000).count();
        assert!((12_000..15_000).contains(&hot), "{hot}");
        let first = ranks.iter().filter(|rank| **rank == 0).count() as f64;
        let expected = 20_000.0 / zeta(1_000_000, THETA);
        assert!(
            (first - expected).abs() < expected / 4.0,
            "{first} {expected}"
        );
    }

    #[test]
    fn a_long_sum_is_approximated_by_its_integral() {
        let exact: f64 = (1..=300_000u64).map(|i| (i as f64).powf(-THETA)).sum();
        assert!((zeta(300_000, THETA) - exact).abs() < 1e-6);
        let tiny = Zipfian::new(1);
        assert_eq!(tiny.scattered(&mut Rng::new(1)), 0);
    }

    #[test]
    fn a_smaller_exponent_is_less_skewed() {
        let (zipfian, mut rng) = (Zipfian::with(1_000_000, 0.625), Rng::new(7));
        let hot = (0..20_000)
            .filter(|_| zipfian.rank(&mut rng) < 10_000)
            .count();
        // A hundredth of the keys gets about 0.01^(1 - 0.625) of the draws.
        assert!((3_200..3_900).contains(&hot), "{hot}");
    }
}
