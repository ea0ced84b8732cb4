//! Values in place of those of a scenario file.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::DeValue;

use crate::error::SpanError;
use crate::quoted::quoted;
use crate::tree::{self, Node};

/// A key of a scenario file and what it has in place of the file's value. Its text is `KEY=VALUE`: a dotted key of TOML, a
/// place in a list by its number from 0, and a value of TOML; what is no such value is a text, so that `duration=10s` needs no quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The key, such as `vm.web.count`.
    pub key: String,
    /// The value, as it stands behind `=` in a file.
    pub value: String,
    /// The parts of the key.
    path: Vec<String>,
    /// A file that has the value alone.
    file: String,
}

impl Override {
    /// For `key`, with a value as TOML writes it or else a text.
    ///
    /// # Errors
    /// If that is no key of TOML.
    pub fn new(key: &str, value: &str) -> Result<Self, String> {
        let wrong = || {
            let key = lowtail_out::name(key);
            format!(
                "`{key}` is no key: parts with points between them, such as vm.web.count or case.0.name"
            )
        };
        let text = format!("{key} = 0");
        // A line break would be a second key.
        let root = if key.contains('\n') { None } else { tree::parse(&text).ok() };
        let mut path = Vec::new();
        let mut node = root.as_ref().ok_or_else(wrong)?;
        while let Some(table) = tree::table(node) {
            let (part, next) = table.iter().next().ok_or_else(wrong)?;
            path.push(part.get_ref().to_string());
            node = next;
        }
        let value = value.trim();
        let quoted = || toml::Value::String(value.to_owned()).to_string();
        let is_toml = !value.contains('\n') && tree::parse(&format!("v = {value}")).is_ok();
        let value = if is_toml { value.to_owned() } else { quoted() };
        let file = format!("v = {value}");
        Ok(Override { key: key.trim().to_owned(), value, path, file })
    }

    /// Sets it in a whole file. What is wrong with it is said of the place that it takes.
    pub(crate) fn apply<'a>(&'a self, root: &mut Node<'a>) -> Result<(), SpanError> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let span = tree::span_at(root, &path);
        let file = tree::parse(&self.file)?;
        let mut value = tree::at(&file, &["v"]).expect("it is the only key").clone();
        moved(&mut value, &span);
        tree::set(root, &path, value)
    }
}

/// All of them as options of `lowtail lab run`, each behind a blank.
pub fn as_options(overrides: &[Override]) -> String {
    overrides.iter().map(|one| format!(" --set {}", quoted(&one.to_string()))).collect()
}

/// Has all of `node` stand at `span`.
fn moved(node: &mut Node<'_>, span: &Range<usize>) {
    match node.get_mut() {
        DeValue::Array(array) => array.iter_mut().for_each(|node| moved(node, span)),
        DeValue::Table(table) => {
            for (key, mut value) in std::mem::take(table) {
                moved(&mut value, span);
                table.insert(Spanned::new(span.clone(), key.into_inner()), value);
            }
        }
        _ => {}
    }
    let value = std::mem::replace(node.get_mut(), DeValue::Boolean(false));
    *node = Spanned::new(span.clone(), value);
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            format!("`{}`: a key and its value, such as host.pcpus=4", lowtail_out::name(text))
        })?;
        Override::new(key.trim(), value)
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_the_place_of_the_files() {
        let text = "duration = '1s'\n[host]\npcpus = 2\n[[case]]\nname = 'a'\n";
        let mut root = tree::parse(text).unwrap();
        let overrides =
            ["host.pcpus=4", "duration=10s", "case.0.name='b=c'", "vm.web.weights=[1, 2]"]
                .map(|text| text.parse::<Override>().unwrap());
        for one in &overrides {
            one.apply(&mut root).unwrap();
        }
        let at = |path: &[&str]| tree::at(&root, path).unwrap();
        assert_eq!(at(&["host", "pcpus"]).get_ref().as_integer().unwrap().as_str(), "4");
        assert_eq!(at(&["duration"]).get_ref().as_str(), Some("10s"));
        assert_eq!(at(&["case", "0", "name"]).get_ref().as_str(), Some("b=c"));
        assert_eq!(tree::elements(Some(at(&["vm", "web", "weights"]))).len(), 2);
        // Where the file has the key, what is wrong is said there.
        assert_eq!(at(&["host", "pcpus"]).span(), 31..32);
    }

    #[test]
    fn what_is_no_override() {
        for bad in ["host.pcpus", "=4", "a..b=1", "a\nb=1"] {
            assert!(bad.parse::<Override>().is_err(), "{bad}");
        }
        let lines: Override = "a = 1\nb=2".parse().unwrap();
        let within: Override = "n.x=1".parse().unwrap();
        let mut root = tree::parse("n = 5").unwrap();
        // A second line is no second key: all of it is the value, a text.
        lines.apply(&mut root).unwrap();
        assert_eq!(tree::at(&root, &["a"]).unwrap().get_ref().as_str(), Some("1\nb=2"));
        assert!(tree::at(&root, &["b"]).is_none());
        assert!(within.apply(&mut root).is_err(), "a number has no parts");
    }

    #[test]
    fn its_text_says_the_same() {
        let one: Override = "duration=10s".parse().unwrap();
        assert_eq!(one.to_string(), "duration=\"10s\"");
        assert_eq!(one.to_string().parse::<Override>().unwrap(), one);
    }
}
