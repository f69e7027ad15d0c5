//! Statistics of comparisons: medians, spreads, ratios.

/// A median with the range of values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
}

impl Spread {
    /// Returns the spread of `values`; all zero if there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        match (values.first(), values.last()) {
            (Some(low), Some(high)) => Spread {
                median: middle(&values),
                low: *low,
                high: *high,
            },
            _ => Spread::default(),
        }
    }
}

/// Returns the median of sorted values: the mean of the middle two for an even count.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// Returns the median of integers; 0 without any.
#[must_use]
pub fn median(values: impl IntoIterator<Item = u64>) -> u64 {
    Spread::of(values.into_iter().map(|value| value as f64)).median as u64
}

/// Returns the cost of `others` relative to `first`, per round: adjacent runs are compared, so that
/// machine-wide slowdowns affect both.
#[must_use]
pub fn ratio(first: &[f64], others: &[f64]) -> Spread {
    let pairs = first.iter().zip(others);
    Spread::of(
        pairs
            .filter(|(cost, _)| **cost > 0.0)
            .map(|(cost, other)| other / cost),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_the_middle_or_the_mean_of_two() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!((spread.low, spread.median, spread.high), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]).median, 3.0);
        assert_eq!(Spread::of([]), Spread::default());
        assert_eq!(median([5, 1, 9]), 5);
        assert_eq!(median([]), 0);
    }

    #[test]
    fn ratios_are_computed_per_round() {
        // The machine was half as fast in the second round, which does not affect the ratio.
        let spread = ratio(&[1.0, 2.0, 1.0], &[3.0, 6.0, 2.0]);
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 3.0));
        assert_eq!(ratio(&[0.0], &[1.0]), Spread::default());
    }
}
