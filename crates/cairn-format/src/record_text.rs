//! The text form of records that RocksDB serializes as options: numbers, hexadecimal bytes, lists, and records of named
//! members.

use cairn_types::{Decoded, Malformed};

/// A value with a text form.
pub(crate) trait Value {
    /// Sets the value from `text`, which is at offset `at` of the message.
    fn parse(&mut self, text: &str, at: usize) -> Decoded<()>;

    /// Appends the text form.
    fn print(&self, out: &mut String);
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty = $text:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl $name {
            fn print_members(&self, out: &mut String) {
                $(
                    out.push_str(concat!($text, "="));
                    $crate::record_text::Value::print(&self.$field, out);
                    out.push(';');
                )*
            }
        }

        impl $crate::record_text::Value for $name {
            fn parse(&mut self, text: &str, at: usize) -> Decoded<()> {
                for member in $crate::record_text::Members::new(text, at) {
                    let (name, value, at) = member?;
                    match name {
                        $($text => $crate::record_text::Value::parse(&mut self.$field, value, at)?,)*
                        _ => {}
                    }
                }
                Ok(())
            }

            fn print(&self, out: &mut String) {
                out.push('{');
                self.print_members(out);
                out.push('}');
            }
        }
    };
}
pub(crate) use record;

/// The members of a record: `name=value;name={value};`.
pub(crate) struct Members<'a> {
    rest: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    pub(crate) fn new(text: &'a str, at: usize) -> Members<'a> {
        let (rest, at) = unbraced(text, at);
        Members { rest, at }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
        self.at += bytes;
    }

    fn member(&mut self) -> Decoded<(&'a str, &'a str, usize)> {
        let Some(equals) = self.rest.find('=') else {
            return Err(Malformed::at(self.at, "member without a value"));
        };
        let name = self.rest[..equals].trim();
        self.advance(equals + 1);
        let (value, at) = (self.rest, self.at);
        let len = element(value, ';').ok_or_else(|| Malformed::at(at, "unbalanced braces"))?;
        self.advance(len);
        let (value, at) = unbraced(&value[..len], at);
        Ok((name, value, at))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Decoded<(&'a str, &'a str, usize)>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.find(|c: char| c != ';' && !c.is_whitespace());
        let Some(start) = start else {
            self.rest = "";
            return None;
        };
        self.advance(start);
        let member = self.member();
        if member.is_err() {
            self.rest = "";
        }
        Some(member)
    }
}

/// Returns `text` without the braces that enclose it as a whole.
fn unbraced(text: &str, at: usize) -> (&str, usize) {
    let inner = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    inner.map_or((text, at), |inner| (inner, at + 1))
}

/// Returns the length of the first element of `text`, which ends before `separator`. `None` if its braces
/// are unbalanced.
fn element(text: &str, separator: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            byte if depth == 0 && char::from(byte) == separator => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(text.len())
}

macro_rules! numbers {
    ($($number:ident),*) => {$(
        impl Value for $number {
            fn parse(&mut self, text: &str, at: usize) -> Decoded<()> {
                *self = text
                    .trim()
                    .parse()
                    .map_err(|_| Malformed::mismatch(at, "number", stringify!($number), text))?;
                Ok(())
            }

            fn print(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }
        }
    )*};
}

numbers!(u8, i32, u64);

impl Value for bool {
    fn parse(&mut self, text: &str, at: usize) -> Decoded<()> {
        *self = match text.trim() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(Malformed::mismatch(at, "boolean", "true or false", text)),
        };
        Ok(())
    }

    fn print(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl Value for String {
    fn parse(&mut self, text: &str, _at: usize) -> Decoded<()> {
        text.trim().clone_into(self);
        Ok(())
    }

    fn print(&self, out: &mut String) {
        out.push_str(self);
    }
}

/// Bytes, in hexadecimal.
impl Value for Vec<u8> {
    fn parse(&mut self, text: &str, at: usize) -> Decoded<()> {
        let text = text.trim().as_bytes();
        let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
        let pairs = text.chunks(2).map(|pair| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        *self = bytes.ok_or_else(|| Malformed::at(at, "bytes are not in hexadecimal"))?;
        Ok(())
    }

    fn print(&self, out: &mut String) {
        put_hex(self, out);
    }
}

pub(crate) fn put_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
}

impl Value for [u64; 2] {
    fn parse(&mut self, text: &str, at: usize) -> Decoded<()> {
        let mut numbers: Vec<u64> = Vec::new();
        numbers.parse(text, at)?;
        *self = numbers
            .try_into()
            .map_err(|_| Malformed::at(at, "a unique id has two numbers"))?;
        Ok(())
    }

    fn print(&self, out: &mut String) {
        self.to_vec().print(out);
    }
}

/// An element of a list.
pub(crate) trait Element: Value + Default {}

impl Element for u64 {}
impl Element for Vec<u8> {}

impl<T: Element> Value for Vec<T> {
    fn parse(&mut self, text: &str, at: usize) -> Decoded<()> {
        self.clear();
        let (mut text, mut at) = (text, at);
        while !text.is_empty() {
            let len = element(text, ':').ok_or_else(|| Malformed::at(at, "unbalanced braces"))?;
            let (value, value_at) = unbraced(&text[..len], at);
            let mut item = T::default();
            item.parse(value, value_at)?;
            self.push(item);
            let next = (len + 1).min(text.len());
            (text, at) = (&text[next..], at + next);
        }
        Ok(())
    }

    fn print(&self, out: &mut String) {
        let mut list = String::new();
        for (count, item) in self.iter().enumerate() {
            let mut text = String::new();
            item.print(&mut text);
            if count > 0 {
                list.push(':');
            }
            match text.contains(':') {
                true => list.extend(["{", &text, "}"]),
                false => list.push_str(&text),
            }
        }
        match list.contains(['=', '{']) {
            true => out.extend(["{", &list, "}"]),
            false => out.push_str(&list),
        }
    }
}
