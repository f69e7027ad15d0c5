//! Option texts: one statement for each option.
//!
//! RocksDB's parser keeps the last of several statements of one name, so that a second
//! `block_based_table_factory={..}` would undo the first. Engines get texts in which they are one.

/// `text` with each name once: nested statements (`name={..}`) joined, of others the last kept.
#[must_use]
pub fn merged(text: &str) -> String {
    let mut statements: Vec<(&str, String)> = Vec::new();
    for statement in split(text) {
        let (name, value) = statement.split_once('=').unwrap_or((statement, ""));
        let (name, value) = (name.trim(), value.trim());
        let known = statements.iter_mut().find(|(known, _)| *known == name);
        match (known, inside(value)) {
            (Some((_, old)), Some(new)) => {
                let joined = match inside(old) {
                    Some(old) => merged(&format!("{old};{new}")),
                    None => new.to_owned(),
                };
                *old = format!("{{{joined}}}");
            }
            (Some((_, old)), None) => *old = value.to_owned(),
            (None, _) => statements.push((name, value.to_owned())),
        }
    }
    let text = |(name, value): &(&str, String)| format!("{name}={value};");
    statements.iter().map(text).collect()
}

/// What stands between the braces of `{..}`.
#[must_use]
pub fn inside(value: &str) -> Option<&str> {
    value.strip_prefix('{')?.strip_suffix('}')
}

/// The statements of `text`, separated by semicolons outside of braces.
#[must_use]
pub fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut all) = (0usize, 0, Vec::new());
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => {
                all.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[begin..]);
    all.retain(|statement| !statement.trim().is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_one_name_become_one() {
        assert_eq!(
            merged("a=1;t={x=1;f={p=1;q=2}};a=2;;t={x=3;y=4;f={q=5}}"),
            "a=2;t={x=3;f={p=1;q=5;};y=4;};"
        );
        assert_eq!(merged(""), "");
        assert_eq!(merged("t={};t={a=1}"), "t={a=1;};");
    }
}
