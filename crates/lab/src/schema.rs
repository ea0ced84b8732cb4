//! The JSON Schema of scenario files, for editors and other tools.

use crate::file::ScenarioFile;

/// The schema as JSON text; `schema/scenario.json` holds the same.
pub fn schema() -> String {
    let schema = schemars::schema_for!(ScenarioFile);
    let text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text + "\n"
}
