//! Manual pages and completions.

use super::cairn_with;

#[test]
fn manual_pages_and_completions_have_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    assert!(cairn_with(&["generate", place], "").status.success());
    let help = cairn_with(&["help"], "").stdout;
    let help = String::from_utf8(help).unwrap();
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() > 15, "{commands:?}");
    assert!(!commands.contains(&"generate"));
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    for command in commands {
        let page = read(&format!("man1/cairn-{command}.1"));
        assert!(page.contains("\n.SH NAME\n"), "{command}");
        for file in ["cairn.bash", "_cairn", "cairn.fish"] {
            let completion = read(&format!("completions/{file}"));
            assert!(completion.contains(command), "{file} lacks {command}");
        }
    }
    assert!(read("man1/cairn.1").contains("stones"));
}
