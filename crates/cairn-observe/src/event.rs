//! Machine-readable events of the info log: one line of JSON after `EVENT_LOG_v1`.
//!
//! ```
//! use cairn_observe::event::Event;
//!
//! let mut event = Event::new(1_700_000_000_000_000, 3, "flush_finished");
//! event.text("cf_name", "a \"b\"").numbers("lsm_state", &[1, 0]);
//! assert_eq!(
//!     event.finish(),
//!     r#"EVENT_LOG_v1 {"time_micros": 1700000000000000, "job": 3, "event": "flush_finished", "cf_name": "a \"b\"", "lsm_state": [1, 0]}"#,
//! );
//! ```

use std::fmt::{Display, Write as _};

/// The builder of an event.
pub struct Event {
    json: String,
}

impl Event {
    /// Creates the event `name` of `job` at the time `micros`.
    #[must_use]
    pub fn new(micros: u64, job: u64, name: &str) -> Event {
        let mut event = Event {
            json: format!("EVENT_LOG_v1 {{\"time_micros\": {micros}"),
        };
        event.number("job", job).text("event", name);
        event
    }

    fn key(&mut self, key: &str) -> &mut String {
        self.json.push_str(", ");
        quote(&mut self.json, key);
        self.json.push_str(": ");
        &mut self.json
    }

    /// Adds a number.
    pub fn number(&mut self, key: &str, value: impl Display) -> &mut Event {
        // Writing to a string cannot fail.
        let _ = write!(self.key(key), "{value}");
        self
    }

    /// Adds a text, which must not contain user keys or values.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Event {
        quote(self.key(key), value);
        self
    }

    /// Adds an array of numbers.
    pub fn numbers(&mut self, key: &str, values: &[u64]) -> &mut Event {
        let texts: Vec<String> = values.iter().map(u64::to_string).collect();
        let _ = write!(self.key(key), "[{}]", texts.join(", "));
        self
    }

    /// Adds an object of numbers and texts. Texts must already be quoted.
    pub fn group(&mut self, key: &str, values: &[(&str, String)]) -> &mut Event {
        let json = self.key(key);
        json.push('{');
        for (at, (name, value)) in values.iter().enumerate() {
            if at > 0 {
                json.push_str(", ");
            }
            quote(json, name);
            let _ = write!(json, ": {value}");
        }
        json.push('}');
        self
    }

    /// Returns the line.
    #[must_use]
    pub fn finish(&self) -> String {
        format!("{}}}", self.json)
    }
}

/// `text` as a JSON string.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut json = String::new();
    quote(&mut json, text);
    json
}

/// `bytes` in hexadecimal, with capital letters as in RocksDB.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

fn quote(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                json.push('\\');
                json.push(c);
            }
            c if c.is_control() => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}
