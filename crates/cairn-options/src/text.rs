//! The text form of one value: how RocksDB writes a number, a list, a choice, and reads it back.
//!
//! Sizes take the suffixes `K`, `M`, `G` and `T` in either case. Lists are joined by `:`. Floats
//! are written with six digits, as C's `%f` does.

use std::borrow::Cow;

use cairn_format::options_text::{escape, statements, unescape};

/// Why a value was refused: a clause that continues "`name=value`: ".
pub type Refusal = String;

/// A value with a text form.
pub trait Text: Sized {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// Says what was expected.
    fn parse(text: &str) -> Result<Self, Refusal>;

    /// Writes the value, so that [`Text::parse`] gives it back.
    fn print(&self) -> String;

    /// Changes the value to what `text` says. Values with parts keep the parts it does not name.
    ///
    /// # Errors
    ///
    /// Those of [`Text::parse`].
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        *self = Self::parse(text)?;
        Ok(())
    }

    /// The text without the parts that this release does not have; their names are added to
    /// `unknown`. Only groups of options have parts.
    fn known_parts<'t>(text: &'t str, _unknown: &mut Vec<String>) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }
}

impl Text for bool {
    fn parse(text: &str) -> Result<bool, Refusal> {
        match text {
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
        let inner = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        Ok(unescape(inner.unwrap_or(text)))
    }

    /// A text that would end its statement stands in braces.
    fn print(&self) -> String {
        let escaped = escape(self);
        match escaped.contains([';', '=', '{', '}']) {
            true => format!("{{{escaped}}}"),
            false => escaped,
        }
    }
}

impl Text for f64 {
    fn parse(text: &str) -> Result<f64, Refusal> {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err("expected a decimal number".to_owned()),
        }
    }

    fn print(&self) -> String {
        format!("{self:.6}")
    }
}

/// The digits of `text` and the factor that its suffix stands for.
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

/// A whole number with an optional size suffix.
fn whole(text: &str) -> Option<i128> {
    let (digits, factor) = split_suffix(text);
    digits.parse::<i128>().ok()?.checked_mul(factor)
}

macro_rules! numbers {
    ($($number:ident),*) => {$(
        impl Text for $number {
            fn parse(text: &str) -> Result<$number, Refusal> {
                whole(text)
                    .and_then(|number| $number::try_from(number).ok())
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

numbers!(i32, u32, u64, i64, usize);

impl<T: Text> Text for Vec<T> {
    fn parse(text: &str) -> Result<Vec<T>, Refusal> {
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

/// What RocksDB writes for an object that is not there.
pub const NULL: &str = "nullptr";

/// Objects by name, or none.
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

/// A value that may be absent, and the words that say so; the first is the one written.
pub trait Named {
    /// The words for "none".
    const NONE: &'static [&'static str] = &[NULL, ""];
}

/// Names and values of an object's properties.
pub type Properties<'a> = Vec<(&'a str, &'a str)>;

/// The parts of an object's text, `NAME` or `{id=NAME;property=value;...}`: its name and its
/// properties, in their order.
///
/// # Errors
///
/// The braces hold something else.
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
    fn sizes_take_suffixes_and_overflow_is_refused() {
        assert_eq!(u64::parse("64K"), Ok(65_536));
        assert_eq!(usize::parse("1g"), Ok(1 << 30));
        assert_eq!(i32::parse("-1"), Ok(-1));
        assert!(i32::parse("4G").is_err());
        assert!(u64::parse("-1").is_err());
        assert!(u64::parse("16777216T").is_err());
        assert!(u64::parse("K").is_err());
        assert!(u64::parse("").is_err());
        assert!(u64::parse("12Ω").is_err());
    }

    #[test]
    fn floats_have_six_digits() {
        assert_eq!(0.75f64.print(), "0.750000");
        assert!(f64::parse("nan").is_err());
    }
}
