//! What a guest has said, section by section.

use std::collections::BTreeMap;

use serde_json::Value;

/// By name: exit code, and the text.
#[derive(Debug)]
pub(crate) struct Said(BTreeMap<String, (i32, String)>);

impl Said {
    /// Of `== NAME CODE`, each with the lines that follow.
    pub(crate) fn parse(text: &str) -> Self {
        let mut sections: BTreeMap<String, (i32, String)> = BTreeMap::new();
        let mut last = String::new();
        for line in text.lines() {
            let head = line.strip_prefix("== ").and_then(|head| head.split_once(' '));
            match head.and_then(|(name, code)| Some((name, code.parse().ok()?))) {
                Some((name, code)) => {
                    last = name.to_string();
                    sections.insert(last.clone(), (code, String::new()));
                }
                None => {
                    if let Some((_, text)) = sections.get_mut(&last) {
                        text.push_str(line);
                        text.push('\n');
                    }
                }
            }
        }
        assert!(sections.contains_key("end"), "the guest did not come to its end: {text}");
        Said(sections)
    }

    /// The text of a section, whose command ended with `code`.
    fn text(&self, name: &str, code: i32) -> &str {
        let (had, text) = self.0.get(name).unwrap_or_else(|| panic!("no section {name}"));
        let told = self.0.get(&format!("{name}.err")).map_or("", |(_, text)| text);
        assert_eq!(*had, code, "{name}: {text}{told}");
        assert!(!told.contains("panicked"), "{name}: {told}");
        text
    }

    /// The lines of a section that are not empty.
    pub(crate) fn lines(&self, name: &str, code: i32) -> Vec<String> {
        let lines = self.text(name, code).lines().filter(|line| !line.is_empty());
        lines.map(str::to_string).collect()
    }

    pub(crate) fn json(&self, name: &str, code: i32) -> Value {
        let text = self.text(name, code);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    }

    /// The exit code of a section that is JSON, and that.
    pub(crate) fn code(&self, name: &str) -> (i32, Value) {
        let code = self.0.get(name).unwrap_or_else(|| panic!("no section {name}")).0;
        (code, self.json(name, code))
    }
}
