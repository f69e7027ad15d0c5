//! The syntax of OPTIONS files and option strings.

use cairn_format::options_text;

/// Parses the input as a file, as an option string and as an escaped text.
pub fn run(data: &[u8]) {
    let text = &*options_text::from_bytes(data);
    assert_eq!(&*options_text::to_bytes(text), data);
    assert_eq!(options_text::unescape(&options_text::escape(text)), text);
    if let Ok(sections) = options_text::parse_file(text) {
        let printed = options_text::print_file(&sections);
        let again = options_text::parse_file(&printed).expect("what we print we read");
        assert_eq!(again, sections, "{printed}");
    }
    statements(text, 0);
}

/// Parses nested assignments.
fn statements(text: &str, depth: usize) {
    let Ok(found) = options_text::statements(text) else {
        return;
    };
    for (_, value) in found {
        // Limit the depth.
        if depth < 100 && value.len() < text.len() {
            statements(value, depth + 1);
        }
    }
}
