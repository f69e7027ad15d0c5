//! Text forms of values: numbers, lists and enumerations as RocksDB writes and reads them.
//!
//! Sizes may have the suffixes `K`, `M`, `G` and `T` in either case. Lists are joined by `:`.
//! Floats are written with six decimals, like C's `%f`.

use std::borrow::Cow;

use cairn_format::options_text::{escape, statements, unescape};

/// The reason for rejecting a value: a clause that continues "`name=value`: ".
pub type Refusal = String;

/// A value with a text form.
pub trait Text: Sized {
    /// Parses a value.
    ///
    /// # Errors
    ///
    /// The expected form.
    fn parse(text: &str) -> Result<Self, Refusal>;

    /// Returns the text form that [`Text::parse`] accepts.
    fn print(&self) -> String;

    /// Returns the text form for a line of an OPTIONS file, where separators have no meaning.
    fn print_line(&self) -> String {
        self.print()
    }

    /// Sets the value from `text`. Members of a struct that it does not name are kept.
    ///
    /// # Errors
    ///
    /// Those of [`Text::parse`].
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        *self = Self::parse(text)?;
        Ok(())
    }

    /// Returns the text without unknown struct members, whose names are appended to `unknown`.
    fn known_parts<'t>(text: &'t str, _unknown: &mut Vec<String>) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }
}

/// Returns `text` without the braces around it, which RocksDB accepts around every value.
#[must_use]
pub fn unbraced(text: &str) -> &str {
    in_braces(text).map_or(text, str::trim)
}

/// Returns the text of a number: `text` without braces and without the white space around it, which RocksDB ignores.
fn numeral(text: &str) -> &str {
    unbraced(text).trim_ascii()
}

/// Returns what the braces around `text` enclose; `None` unless the first brace ends with the last one.
fn in_braces(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut depth = 0_usize;
    let is_one = inner.bytes().all(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return false,
            b'}' => depth -= 1,
            _ => {}
        }
        true
    });
    is_one.then_some(inner)
}

impl Text for bool {
    fn parse(text: &str) -> Result<bool, Refusal> {
        match unbraced(text) {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        }
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl Text for String {
    fn parse(text: &str) -> Result<String, Refusal> {
        Ok(unescape(in_braces(text).unwrap_or(text)))
    }

    /// A text that contains a separator is enclosed in braces.
    fn print(&self) -> String {
        let escaped = escape(self);
        match escaped.contains([';', '=', '{', '}']) {
            true => format!("{{{escaped}}}"),
            false => escaped,
        }
    }

    /// Without braces, as in RocksDB's files, because releases before 11.12 take braces for a part of the text. Texts that
    /// begin or end with a space, or are in braces themselves, are enclosed, because no release reads them otherwise.
    fn print_line(&self) -> String {
        let escaped = escape(self);
        match in_braces(&escaped).is_some() || escaped.trim() != escaped {
            true => format!("{{{escaped}}}"),
            false => escaped,
        }
    }
}

impl Text for f64 {
    fn parse(text: &str) -> Result<f64, Refusal> {
        match numeral(text).parse::<f64>() {
            Ok(number) if !number.is_nan() => Ok(number),
            _ => Err("expected a decimal number".to_owned()),
        }
    }

    fn print(&self) -> String {
        format!("{self:.6}")
    }
}

/// Splits `text` into digits and the factor of its suffix.
fn split_suffix(text: &str) -> (&str, i128) {
    let factor = |shift: u32| 1i128 << shift;
    match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], factor(10)),
        Some(b'm' | b'M') => (&text[..text.len() - 1], factor(20)),
        Some(b'g' | b'G') => (&text[..text.len() - 1], factor(30)),
        Some(b't' | b'T') => (&text[..text.len() - 1], factor(40)),
        _ => (text, 1),
    }
}

/// Parses an integer with an optional size suffix.
fn whole(text: &str) -> Option<i128> {
    let (digits, factor) = split_suffix(text);
    digits.parse::<i128>().ok()?.checked_mul(factor)
}

/// Returns the number that a negative one is as an unsigned number of 64 bits: `-1`, often written for the maximum, is that
/// in RocksDB.
fn wrapped(number: i128) -> i128 {
    match (i128::from(i64::MIN)..0).contains(&number) {
        true => number + (1 << 64),
        false => number,
    }
}

macro_rules! numbers {
    ($($number:ident => $of:expr),*) => {$(
        impl Text for $number {
            fn parse(text: &str) -> Result<$number, Refusal> {
                whole(numeral(text))
                    .and_then(|number| $number::try_from($of(number)).ok())
                    .ok_or_else(|| {
                        format!("expected a whole number from {} to {}", $number::MIN, $number::MAX)
                    })
            }

            fn print(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers!(i32 => i128::from, u32 => i128::from, i64 => i128::from, u64 => wrapped, usize => wrapped);

impl<T: Text> Text for Vec<T> {
    fn parse(text: &str) -> Result<Vec<T>, Refusal> {
        let text = unbraced(text);
        if text.is_empty() {
            return Ok(Vec::new());
        }
        text.split(':').map(T::parse).collect()
    }

    fn print(&self) -> String {
        let parts: Vec<String> = self.iter().map(T::print).collect();
        parts.join(":")
    }
}

/// RocksDB's text for a missing object.
pub const NULL: &str = "nullptr";

/// Optional objects by name.
impl<T: Text + Named> Text for Option<T> {
    fn parse(text: &str) -> Result<Option<T>, Refusal> {
        if T::NONE.contains(&text) {
            return Ok(None);
        }
        T::parse(text).map(Some)
    }

    fn print(&self) -> String {
        match self {
            Some(value) => value.print(),
            None => T::NONE[0].to_owned(),
        }
    }
}

/// An optional value, with the texts for its absence; the first is written.
pub trait Named {
    /// The texts for `None`.
    const NONE: &'static [&'static str] = &[NULL, ""];
}

/// Names and values of an object's properties.
pub type Properties<'a> = Vec<(&'a str, &'a str)>;

/// Splits an object's text, `NAME` or `{id=NAME;property=value;...}`, into its name and its properties
/// in order.
///
/// # Errors
///
/// Malformed braces.
pub fn object(text: &str) -> Result<(&str, Properties<'_>), Refusal> {
    let Some(inner) = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
    else {
        return Ok((text, Vec::new()));
    };
    let mut properties = statements(inner).map_err(|error| error.to_string())?;
    let id = properties.iter().position(|(name, _)| *name == "id");
    let id = id.ok_or("expected id=NAME between the braces")?;
    Ok((properties.remove(id).1, properties))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_accept_suffixes_and_overflow_is_rejected() {
        assert_eq!(u64::parse("64K"), Ok(65_536));
        assert_eq!(usize::parse("1g"), Ok(1 << 30));
        assert_eq!(i32::parse("-1"), Ok(-1));
        assert!(i32::parse("4G").is_err());
        // As in RocksDB.
        assert_eq!(u64::parse("-1"), Ok(u64::MAX));
        assert_eq!(usize::parse("-1k"), Ok(usize::MAX - 1023));
        assert!(u64::parse("-9223372036854775809").is_err());
        assert!(u32::parse("-1").is_err());
        assert!(u64::parse("16777216T").is_err());
        assert!(u64::parse("K").is_err());
        assert!(u64::parse("").is_err());
        assert!(u64::parse("12Ω").is_err());
    }

    /// Regression: white space around a number was an error, except in lists of options.
    #[test]
    fn numbers_may_have_white_space_around_them() {
        assert_eq!(u64::parse(" 5"), Ok(5));
        assert_eq!(i32::parse("-5\t\n"), Ok(-5));
        assert_eq!(usize::parse(" 64K "), Ok(65_536));
        assert_eq!(f64::parse(" 0.5 "), Ok(0.5));
        assert_eq!(Vec::<i32>::parse("1 : 2"), Ok(vec![1, 2]));
        assert!(u64::parse(" ").is_err() && u64::parse("5 6").is_err());
        assert!(u64::parse("5 K").is_err() && f64::parse("").is_err());
        // As in RocksDB.
        assert!(bool::parse(" true").is_err());
    }

    #[test]
    fn floats_have_six_digits() {
        assert_eq!(0.75f64.print(), "0.750000");
        assert!(f64::parse("nan").is_err());
        assert_eq!(f64::parse(&f64::INFINITY.print()), Ok(f64::INFINITY));
    }

    #[test]
    fn values_may_be_in_braces() {
        assert_eq!(u64::parse("{64K}"), Ok(65_536));
        assert_eq!(bool::parse("{ true }"), Ok(true));
        assert_eq!(Vec::<i32>::parse("{1:2}"), Ok(vec![1, 2]));
        assert_eq!(unbraced("{a}:{b}"), "{a}:{b}");
        assert_eq!(unbraced("{a={b}}"), "a={b}");
        assert!(u64::parse("{}").is_err() && u64::parse("{{1}}").is_err());
    }
}
