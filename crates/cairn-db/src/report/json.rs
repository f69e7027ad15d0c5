//! JSON objects and arrays, for properties that are JSON.

use cairn_observe::event::quoted;

/// Returns a JSON object with members whose values are JSON.
pub(crate) fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}:{value}", quoted(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// Returns a JSON array of values that are JSON.
pub(crate) fn array(values: &[String]) -> String {
    format!("[{}]", values.join(","))
}
