//! A JSON Schema of a TOML file as a page: a section for each table and each kind of value.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use serde_json::{Map, Value};

/// What is in a file, and where.
pub(crate) struct Keys<'a> {
    schema: &'a Value,
    /// Names of definitions in the order in which a reader comes to them, each with the places where it is used.
    places: Vec<(&'a str, BTreeSet<String>)>,
    /// What the section of a definition is called.
    titles: BTreeMap<&'a str, String>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(schema: &'a Value) -> Self {
        let mut keys = Keys { schema, places: Vec::new(), titles: BTreeMap::new() };
        keys.walk();
        let mut taken = BTreeSet::new();
        for (name, places) in &keys.places {
            let short =
                name.strip_suffix("File").or_else(|| name.strip_suffix("Schema")).unwrap_or(name);
            let place = places.iter().min_by_key(|place| place.len()).expect("a place");
            // A table is called by its place, and a value by what it is.
            let mut title = if keys.is_table(name) { place.clone() } else { short.to_string() };
            if !taken.insert(title.to_lowercase()) {
                title = format!("{title} ({short})");
                taken.insert(title.to_lowercase());
            }
            keys.titles.insert(name, title);
        }
        keys
    }

    fn definition(&self, name: &str) -> &'a Value {
        &self.schema["$defs"][name]
    }

    /// Whether a definition has keys of its own, perhaps others for each kind.
    fn is_table(&self, name: &str) -> bool {
        let definition = self.definition(name);
        let one_of = definition["oneOf"].as_array().into_iter().flatten();
        definition["properties"].is_object()
            || one_of.clone().any(|one| one["properties"].is_object())
    }

    /// Finds all definitions, from the top down, and their places. A definition within itself is not looked at again.
    fn walk(&mut self) {
        let mut next = VecDeque::from([(self.schema, String::new(), 0)]);
        while let Some((at, place, depth)) = next.pop_front() {
            let mut found = Vec::new();
            references(at, &place, &mut found);
            for (name, place) in found {
                let known = self.places.iter_mut().find(|(known, _)| *known == name);
                let is_new = match known {
                    Some((_, places)) => places.insert(place.clone()) && places.len() <= 12,
                    None => {
                        self.places.push((name, BTreeSet::from([place.clone()])));
                        true
                    }
                };
                if is_new && depth < 6 {
                    next.push_back((self.definition(name), place, depth + 1));
                }
            }
        }
    }

    pub(crate) fn page(&self, title: &str, about: &str) -> String {
        let mut page = format!(
            "# {title}\n\n<!-- `make reference` writes this page from the JSON Schema. -->\n\n{about}\n\n\
             In names of sections, `NAME` is a name of your choice, and `[]` stands for each entry of a list: `vm.NAME.pin` is the key \
             `pin` of a table `[vm.web]`, `case[].name` that of a table `[[case]]`.\n\n## Top level\n\n"
        );
        self.table(&mut page, self.schema);
        let tables = self.places.iter().filter(|(name, _)| self.is_table(name));
        let values = self.places.iter().filter(|(name, _)| !self.is_table(name));
        for (name, places) in tables.chain(values) {
            self.section(&mut page, name, places);
        }
        page
    }

    fn section(&self, page: &mut String, name: &str, places: &BTreeSet<String>) {
        let definition = self.definition(name);
        let _ = write!(page, "\n## {}\n\n", self.titles[name]);
        if let Some(text) = definition["description"].as_str() {
            let _ = write!(page, "{}\n\n", sentence(text));
        }
        let mut places: Vec<&String> = places.iter().collect();
        places.sort_by_key(|place| (place.matches('.').count(), place.len(), *place));
        let more = if places.len() > 6 { " and more" } else { "" };
        let places: Vec<_> = places.iter().take(6).map(|place| format!("`{place}`")).collect();
        let _ = writeln!(page, "Used by: {}{more}.", places.join(", "));
        if definition["properties"].is_object() {
            page.push('\n');
            self.table(page, definition);
            return;
        }
        let alternatives: Vec<&Value> = ["oneOf", "anyOf"]
            .iter()
            .filter_map(|key| definition[*key].as_array())
            .flatten()
            .collect();
        if alternatives.is_empty() {
            let _ = writeln!(page, "\n- {}", self.kind(definition));
        }
        let mut within_list = false;
        for one in alternatives {
            if one["properties"].is_object() {
                within_list = false;
                self.variant(page, one);
            } else {
                if !within_list {
                    page.push('\n');
                }
                within_list = true;
                let about = one["description"].as_str().map(|text| format!(": {}", sentence(text)));
                let _ = writeln!(page, "- {}{}", self.kind(one), about.unwrap_or_default());
            }
        }
    }

    /// A table that has a `kind`, or one key that says what it is.
    fn variant(&self, page: &mut String, one: &Value) {
        let tag = one["properties"]["kind"]["const"].as_str();
        let keys: Vec<&String> =
            one["properties"].as_object().into_iter().flat_map(Map::keys).collect();
        let head = match tag {
            Some(tag) => format!("`kind = \"{tag}\"`"),
            None => format!("with `{}`", keys.first().map_or("", |key| key.as_str())),
        };
        let about = one["description"].as_str().map(|text| format!(": {}", sentence(text)));
        let about = about.unwrap_or_else(|| ".".to_string());
        let _ = write!(page, "\n**{head}**{about}\n");
        if keys.iter().any(|key| *key != "kind" || tag.is_none()) {
            page.push('\n');
            self.table(page, one);
        }
    }

    fn table(&self, page: &mut String, of: &Value) {
        page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
        let required: Vec<&str> =
            of["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (key, value) in of["properties"].as_object().into_iter().flatten() {
            if key == "kind" && value["const"].is_string() {
                continue;
            }
            let default = match &value["default"] {
                _ if required.contains(&key.as_str()) => "required".to_string(),
                Value::Null => String::new(),
                Value::Object(map) if map.is_empty() => String::new(),
                default => format!("`{default}`"),
            };
            let about = value["description"].as_str().map(sentence).unwrap_or_default();
            let cells = [format!("`{key}`"), self.kind(value), default, about];
            let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
    }

    /// What a value may be, in words.
    fn kind(&self, value: &Value) -> String {
        if let Some(name) = name(value) {
            let title = &self.titles[name];
            return format!("[{title}](#{})", slug(title));
        }
        if let Some(one) = value.get("const") {
            return format!("`{one}`");
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(alternatives) = value[key].as_array() {
                let kinds = alternatives.iter().filter(|one| one["type"] != "null");
                return kinds.map(|one| self.kind(one)).collect::<Vec<_>>().join(" or ");
            }
        }
        let types = match &value["type"] {
            Value::String(one) => vec![one.as_str()],
            Value::Array(all) => {
                all.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect()
            }
            _ => vec!["any value"],
        };
        let kinds = types.iter().map(|kind| match *kind {
            "array" => match value.get("items").filter(|items| items.is_object()) {
                Some(items) => format!("list of {}", self.kind(items)),
                None => "list".to_string(),
            },
            "object" => self.object(value),
            "integer" | "number" => format!("{kind}{}", range(value)),
            "string" => format!("text{}", shape(value)),
            kind => kind.to_string(),
        });
        kinds.collect::<Vec<_>>().join(" or ")
    }

    /// A table, in words: of others by name, or with keys of its own.
    fn object(&self, value: &Value) -> String {
        if let Some(more) = value.get("additionalProperties").filter(|more| more.is_object()) {
            return format!("tables by name: {}", self.kind(more));
        }
        let key = |(key, value): (&String, &Value)| {
            let about = value["description"]
                .as_str()
                .map(|text| format!(": {}", text.trim_end_matches('.')));
            format!("`{key}` ({}{})", self.kind(value), about.unwrap_or_default())
        };
        let keys: Vec<String> =
            value["properties"].as_object().into_iter().flatten().map(key).collect();
        if keys.is_empty() {
            "table".to_string()
        } else {
            format!("table with {}", keys.join(", "))
        }
    }
}

/// The definition that a value refers to.
fn name(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Definitions that `value` refers to by itself, not by others, each with its place.
fn references<'a>(value: &'a Value, place: &str, found: &mut Vec<(&'a str, String)>) {
    if let Some(name) = name(value) {
        found.push((name, place.to_string()));
    }
    let join =
        |key: &str| if place.is_empty() { key.to_string() } else { format!("{place}.{key}") };
    for (key, value) in value["properties"].as_object().into_iter().flatten() {
        references(value, &join(key), found);
    }
    for key in ["oneOf", "anyOf"] {
        for one in value[key].as_array().into_iter().flatten() {
            references(one, place, found);
        }
    }
    if value["items"].is_object() {
        references(&value["items"], &format!("{place}[]"), found);
    }
    if value["additionalProperties"].is_object() {
        references(&value["additionalProperties"], &join("NAME"), found);
    }
}

fn range(value: &Value) -> String {
    // The largest number of 32 or 64 bits is no limit that a reader has to know.
    let maximum =
        value.get("maximum").filter(|one| one.as_u64().is_none_or(|one| one < u64::from(u32::MAX)));
    match (value.get("minimum"), maximum) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) if least.as_f64() != Some(0.0) => format!(", from {least} on"),
        (None, Some(most)) => format!(", up to {most}"),
        _ => String::new(),
    }
}

fn shape(value: &Value) -> String {
    value["pattern"].as_str().map(|pattern| format!(", `{pattern}`")).unwrap_or_default()
}

/// A description in one line, with a full stop.
fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.ends_with(['.', '!', '?']) { text } else { format!("{text}.") }
}

/// As forges and mdBook make it of a heading.
fn slug(title: &str) -> String {
    let kept = title.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}
