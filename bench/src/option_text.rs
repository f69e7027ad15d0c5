//! Merging of option strings.
//!
//! RocksDB's parser keeps the last of several assignments to a name, so that a second
//! `block_based_table_factory={..}` would override the first. Engines are therefore given merged strings.

/// Returns `text` with each name once: struct options (`name={..}`) are merged; of other options the last one
/// is kept.
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

/// Returns the content of `{..}`.
#[must_use]
pub fn inside(value: &str) -> Option<&str> {
    value.strip_prefix('{')?.strip_suffix('}')
}

/// Splits `text` at semicolons outside of braces.
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

/// Returns `text` without the block cache in its `block_based_table_factory`, and the capacity of that cache.
///
/// # Errors
///
/// The value is not a size.
pub fn without_block_cache(text: &str) -> Result<(String, Option<usize>), String> {
    let (mut rest, mut capacity) = (String::new(), None);
    for statement in split(text) {
        let table = statement
            .trim()
            .strip_prefix("block_based_table_factory=")
            .and_then(inside);
        let Some(table) = table else {
            rest += &format!("{statement};");
            continue;
        };
        let mut kept = String::new();
        for statement in split(table) {
            match statement.trim().strip_prefix("block_cache=") {
                Some(value) => capacity = Some(size(value).ok_or_else(|| value.to_owned())?),
                None => kept += &format!("{statement};"),
            }
        }
        rest += &format!("block_based_table_factory={{{kept}}};");
    }
    Ok((rest, capacity))
}

/// Parses a size with an optional suffix `K`, `M`, `G` or `T`.
#[must_use]
pub fn size(value: &str) -> Option<usize> {
    let value = value.trim();
    let (digits, shift) = match value.as_bytes().last()? {
        b'K' | b'k' => (&value[..value.len() - 1], 10),
        b'M' | b'm' => (&value[..value.len() - 1], 20),
        b'G' | b'g' => (&value[..value.len() - 1], 30),
        b'T' | b't' => (&value[..value.len() - 1], 40),
        _ => (value, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_cache_is_extracted() {
        let text = "a=1;block_based_table_factory={block_size=4K;block_cache=3M;f={x=1}};b=2";
        let (rest, capacity) = without_block_cache(text).unwrap();
        assert_eq!(
            rest,
            "a=1;block_based_table_factory={block_size=4K;f={x=1};};b=2;"
        );
        assert_eq!(capacity, Some(3 << 20));
        assert_eq!(without_block_cache("a=1").unwrap(), ("a=1;".into(), None));
        let bad = "block_based_table_factory={block_cache={capacity=1}}";
        assert!(without_block_cache(bad).is_err());
    }

    #[test]
    fn assignments_to_one_name_are_merged() {
        assert_eq!(
            merged("a=1;t={x=1;f={p=1;q=2}};a=2;;t={x=3;y=4;f={q=5}}"),
            "a=2;t={x=3;f={p=1;q=5;};y=4;};"
        );
        assert_eq!(merged(""), "");
        assert_eq!(merged("t={};t={a=1}"), "t={a=1;};");
    }
}
