//! Temperatures: the expected frequency of accesses, recorded with each table in the MANIFEST.

use crate::enums::{CompactionStyle, Temperature};
use crate::family::FamilyOptions;
use crate::rows::options;
use crate::text::{Refusal, Text};

/// The numbers of temperatures in RocksDB's files.
const NUMBERS: [(Temperature, u8); 6] = [
    (Temperature::Unknown, 0),
    (Temperature::Hot, 0x04),
    (Temperature::Warm, 0x08),
    (Temperature::Cool, 0x0a),
    (Temperature::Cold, 0x0c),
    (Temperature::Ice, 0x10),
];

impl Temperature {
    /// Returns RocksDB's number, which files record.
    #[must_use]
    pub fn number(self) -> u8 {
        let found = NUMBERS.iter().find(|(temperature, _)| *temperature == self);
        found.map_or(0, |(_, number)| *number)
    }

    /// Returns the temperature with RocksDB's `number`; unknown for a number of a later release.
    #[must_use]
    pub fn from_number(number: u8) -> Temperature {
        let found = NUMBERS.iter().find(|(_, known)| *known == number);
        found.map_or(Temperature::Unknown, |(temperature, _)| *temperature)
    }

    /// Returns the option text, such as `kCold`.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Temperature::ALL.iter().find(|(one, _)| *one == self);
        found.map_or("kUnknown", |(_, name)| *name)
    }

    /// Returns the temperature with the option text `name`; unknown for another text.
    #[must_use]
    pub fn from_name(name: &str) -> Temperature {
        let found = Temperature::ALL.iter().find(|(_, known)| *known == name);
        found.map_or(Temperature::Unknown, |(temperature, _)| *temperature)
    }
}

options! {
    /// The temperature of files whose data has reached an age.
    FileTemperatureAge, "FileTemperatureAge" {
        /// The temperature.
        temperature: Temperature = Temperature::Unknown, dynamic;
        /// The age, in seconds.
        age: u64 = 0, dynamic;
    }
}

/// Temperatures by age. The text form is `{{temperature=kWarm;age=60}:{temperature=kCold;age=3600}}`.
#[derive(Clone, Debug, Default)]
pub struct FileTemperatureAges(pub Vec<FileTemperatureAge>);

impl Text for FileTemperatureAges {
    fn parse(text: &str) -> Result<FileTemperatureAges, Refusal> {
        let list = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let list = list.filter(|list| list.is_empty() || list.starts_with('{'));
        let list = list.unwrap_or(text);
        if !list.is_empty() && list.split(':').any(str::is_empty) {
            return Err("expected a temperature and an age between colons".to_owned());
        }
        Vec::parse(list).map(FileTemperatureAges)
    }

    fn print(&self) -> String {
        match self.0.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", self.0.print()),
        }
    }
}

impl FamilyOptions {
    /// Returns the temperature of a new table in `level`.
    #[must_use]
    pub fn temperature_at(&self, level: usize) -> Temperature {
        let is_last = i32::try_from(level).is_ok_and(|level| level == self.num_levels - 1);
        let is_fifo = self.compaction_style == CompactionStyle::Fifo;
        match self.last_level_temperature {
            Temperature::Unknown => self.default_write_temperature,
            _ if !is_last || is_fifo => self.default_write_temperature,
            last => last,
        }
    }

    /// Returns the period for which write times are known, in seconds; 0 if they are not.
    #[must_use]
    pub fn preserved_seconds(&self) -> u64 {
        self.preserve_internal_time_seconds
            .max(self.preclude_last_level_data_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_temperature_has_a_number_and_a_name() {
        assert_eq!(NUMBERS.len(), Temperature::ALL.len());
        for (temperature, name) in Temperature::ALL {
            assert_eq!(Temperature::from_number(temperature.number()), *temperature);
            assert_eq!(temperature.name(), *name);
            assert_eq!(Temperature::from_name(name), *temperature);
        }
        assert_eq!(Temperature::from_number(0x55), Temperature::Unknown);
    }

    #[test]
    fn thresholds_are_read_in_the_forms_of_options_files_and_strings() {
        let parse = |text: &str| FileTemperatureAges::parse(text).unwrap();
        let shown = |ages: &FileTemperatureAges| {
            let ages = ages.0.iter();
            ages.map(|one| format!("{}@{} ", one.temperature.name(), one.age))
                .collect::<String>()
        };
        for (text, expected) in [
            ("", ""),
            ("{}", ""),
            ("{age=10;temperature=kWarm}", "kWarm@10 "),
            ("{{temperature=kWarm;age=10;}}", "kWarm@10 "),
            (
                "{{age=10;temperature=kWarm}:{age=1K;temperature=kCold}}",
                "kWarm@10 kCold@1024 ",
            ),
            (
                "{age=10;temperature=kWarm}:{age=20;temperature=kIce}",
                "kWarm@10 kIce@20 ",
            ),
        ] {
            let ages = parse(text);
            assert_eq!(shown(&ages), expected, "{text}");
            assert_eq!(shown(&parse(&ages.print())), expected, "{text}");
        }
        for text in ["kWarm", "{age=x}", "{{age=1}", "{heat=1}", "{age=1}:"] {
            assert!(FileTemperatureAges::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_last_level_has_its_own_temperature() {
        let mut options = FamilyOptions {
            num_levels: 4,
            last_level_temperature: Temperature::Cold,
            default_write_temperature: Temperature::Hot,
            ..FamilyOptions::default()
        };
        assert_eq!(options.temperature_at(2), Temperature::Hot);
        assert_eq!(options.temperature_at(3), Temperature::Cold);
        options.compaction_style = CompactionStyle::Fifo;
        assert_eq!(options.temperature_at(3), Temperature::Hot);
        options.compaction_style = CompactionStyle::Level;
        options.last_level_temperature = Temperature::Unknown;
        assert_eq!(options.temperature_at(3), Temperature::Hot);
    }
}
