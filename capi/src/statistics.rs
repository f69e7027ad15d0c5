//! Statistics: tickers and histograms, by the numbers of RocksDB 11.9.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use cairn_observe::Statistics;
use cairn_observe::statistics::{Histogram, HistogramData, Keeping, StatsLevel, Ticker};

use crate::error::malloc_text;
use crate::handle::{create, of, of_mut};
use crate::options::rocksdb_options_t;

handles! {
    /// The summary of a histogram.
    rocksdb_statistics_histogram_data_t = HistogramData;
}

c_destructors! {
    /// Frees the data of a histogram.
    rocksdb_statistics_histogram_data_destroy(rocksdb_statistics_histogram_data_t);
}

/// The statistics of databases opened with `options`.
///
/// # Safety
///
/// `options` are valid as `c.h` requires.
unsafe fn kept<'a>(options: *mut rocksdb_options_t) -> Option<&'a Arc<Statistics>> {
    // SAFETY: guaranteed by the caller.
    match unsafe { &of(options.cast_const()).db.statistics } {
        Keeping::Shared(statistics) => Some(statistics),
        Keeping::Own | Keeping::Nothing => None,
    }
}

macro_rules! data_getters {
    ($($name:ident -> $type:ty => $field:ident;)+) => {
        c_functions! {$(
            #[doc = concat!(" `", stringify!($field), "` of a histogram.")]
            fn $name(data: *mut rocksdb_statistics_histogram_data_t) -> $type {
                of(data.cast_const()).$field
            }
        )+}
    };
}

data_getters! {
    rocksdb_statistics_histogram_data_get_average -> f64 => average;
    rocksdb_statistics_histogram_data_get_count -> u64 => count;
    rocksdb_statistics_histogram_data_get_max -> f64 => max;
    rocksdb_statistics_histogram_data_get_median -> f64 => median;
    rocksdb_statistics_histogram_data_get_min -> f64 => min;
    rocksdb_statistics_histogram_data_get_p95 -> f64 => percentile95;
    rocksdb_statistics_histogram_data_get_p99 -> f64 => percentile99;
    rocksdb_statistics_histogram_data_get_std_dev -> f64 => standard_deviation;
    rocksdb_statistics_histogram_data_get_sum -> u64 => sum;
}

c_functions! {
    /// Enables statistics: databases opened with these options and copies of them share new, empty
    /// statistics.
    fn rocksdb_options_enable_statistics(opt: *mut rocksdb_options_t) {
        let statistics = Statistics::new(StatsLevel::ExceptDetailedTimers);
        of_mut(opt).db.statistics = Arc::new(statistics).into();
    }
    /// Sets the statistics level; ignored without statistics. Out-of-range levels are clamped.
    fn rocksdb_options_set_statistics_level(opt: *mut rocksdb_options_t, level: c_int) {
        if let Some(statistics) = kept(opt) {
            statistics.set_level(StatsLevel::from_number(i64::from(level)));
        }
    }
    /// Returns the statistics level; the lowest one without statistics.
    fn rocksdb_options_get_statistics_level(opt: *mut rocksdb_options_t) -> c_int {
        kept(opt).map_or(StatsLevel::DisableAll, |statistics| statistics.level()) as c_int
    }
    /// Returns all tickers and histograms as text, to be freed with `free`; null without statistics.
    fn rocksdb_options_statistics_get_string(opt: *mut rocksdb_options_t) -> *mut c_char {
        kept(opt).map_or(std::ptr::null_mut(), |statistics| malloc_text(statistics.to_string()))
    }
    /// Returns a ticker; 0 without statistics or for an unknown ticker.
    fn rocksdb_options_statistics_get_ticker_count(opt: *mut rocksdb_options_t, ticker_type: u32) -> u64 {
        let ticker = Ticker::from_number(ticker_type);
        kept(opt).zip(ticker).map_or(0, |(statistics, ticker)| statistics.ticker(ticker))
    }
    /// Stores the data of a histogram; zeros without statistics or for an unknown histogram.
    fn rocksdb_options_statistics_get_histogram_data(
        opt: *mut rocksdb_options_t,
        histogram_type: u32,
        data: *mut rocksdb_statistics_histogram_data_t,
    ) {
        let histogram = Histogram::from_number(histogram_type);
        let told = kept(opt).zip(histogram);
        *of_mut(data) = told.map_or_else(HistogramData::default, |(statistics, histogram)| {
            statistics.histogram(histogram).data()
        });
    }
    /// Creates an object that receives the data of a histogram.
    fn rocksdb_statistics_histogram_data_create() -> *mut rocksdb_statistics_histogram_data_t {
        create(HistogramData::default())
    }
}
