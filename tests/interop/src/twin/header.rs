//! The C interface as data: the functions that `c.h` declares, with the types of arguments and results.

/// Cairn's header. Its names and signatures are RocksDB's.
const HEADER: &str = include_str!("../../../../capi/include/rocksdb/c.h");

/// A C type, as far as it matters for calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// No value.
    Void,
    /// An unsigned byte: `unsigned char`, `bool`.
    U8,
    /// `char`.
    I8,
    /// `int`.
    I32,
    /// `uint32_t`.
    U32,
    /// `int64_t`.
    I64,
    /// `uint64_t`, `size_t`.
    U64,
    /// `double`.
    F64,
    /// `char *`, with or without `const`.
    Text,
    /// `size_t *`: where the length of a string is stored.
    Length,
    /// A pointer to a handle of this type.
    Object(String),
    /// Anything else.
    Other(String),
}

impl Type {
    fn parse(text: &str) -> Type {
        let bare = text.replace("const ", "").replace("struct ", "");
        let bare: String = bare.split_whitespace().collect::<Vec<_>>().join(" ");
        match bare.replace(" *", "*").as_str() {
            "void" => Type::Void,
            "unsigned char" | "bool" | "uint8_t" => Type::U8,
            "char" => Type::I8,
            "int" | "int32_t" => Type::I32,
            "uint32_t" | "unsigned int" => Type::U32,
            "int64_t" => Type::I64,
            "uint64_t" | "size_t" => Type::U64,
            "double" => Type::F64,
            "char*" => Type::Text,
            "size_t*" => Type::Length,
            other => match other.strip_suffix('*') {
                Some(handle) if handle.starts_with("rocksdb_") && handle.ends_with("_t") => {
                    Type::Object(handle.to_owned())
                }
                _ => Type::Other(other.to_owned()),
            },
        }
    }
}

/// A function of the header.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The type of its result.
    pub result: Type,
    /// The types of its arguments.
    pub arguments: Vec<Type>,
}

/// All functions of the header. Functions that take callbacks have an argument of type [`Type::Other`].
///
/// # Panics
///
/// If a declaration cannot be parsed, so that no function is missed.
#[must_use]
pub fn functions() -> Vec<Function> {
    let parts = HEADER.split("/*");
    let code: String = parts
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let code: Vec<&str> = code
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with('#'))
        .collect();
    let code = code.join("\n");
    let declared = code.split(';').filter(|text| text.contains('('));
    declared
        .filter(|text| !text.contains("typedef"))
        .map(function)
        .collect()
}

fn function(text: &str) -> Function {
    let text = text.rsplit(['}', '{']).next().unwrap_or(text);
    let (head, rest) = text.split_once('(').expect("a declaration has arguments");
    let at = head.rfind("rocksdb_").unwrap_or_else(|| {
        panic!("a declaration without a name of RocksDB's: {text}");
    });
    let arguments = rest.trim().strip_suffix(')').unwrap_or(rest);
    let argument = |text: &str| {
        // Removes the name of the argument; `void` has none.
        let text = text.trim();
        let bare = text.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
        Type::parse(if bare.is_empty() { text } else { bare })
    };
    let arguments = if arguments.contains('(') {
        vec![Type::Other(arguments.to_owned())]
    } else {
        arguments.split(',').map(argument).collect()
    };
    Function {
        name: head[at..].trim().to_owned(),
        result: Type::parse(&head[..at]),
        arguments: arguments.into_iter().filter(|t| *t != Type::Void).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_parsed_with_their_types() {
        let all = functions();
        let of = |name: &str| {
            let found = all.iter().find(|function| function.name == name);
            let found = found.unwrap_or_else(|| panic!("{name} is declared"));
            (found.result.clone(), found.arguments.clone())
        };
        let options = || Type::Object("rocksdb_options_t".to_owned());
        assert_eq!(of("rocksdb_options_create"), (options(), vec![]));
        let set = of("rocksdb_options_set_max_open_files");
        assert_eq!(set, (Type::Void, vec![options(), Type::I32]));
        let get = of("rocksdb_options_get_wal_dir");
        assert_eq!(get, (Type::Text, vec![options(), Type::Length]));
        assert!(all.len() > 1_500, "{}", all.len());
    }

    #[test]
    fn every_symbol_of_the_interface_is_declared() {
        let all = functions();
        let symbols = include_str!("../../../../capi/symbols.txt");
        for symbol in symbols.lines() {
            let declared = all.iter().any(|function| function.name == symbol);
            assert!(declared, "{symbol} is not declared");
        }
    }
}
