//! Parameters of the rule for vCPUs, with the names that scenario files have for them.

use lowtail_config_text::{KeyError, Params, small_first_keys};
use schemars::JsonSchema;
use serde::Deserialize;

small_first_keys! {
    cpu: "CPU";
    /// Parameters of the rule small-first; `policy/vcpu.h` says what each means and why its default is what it is.
    #[derive(Debug, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub(super) struct SmallFirstFile {}
}

impl SmallFirstFile {
    /// The parameters; those that are absent have their defaults.
    pub(super) fn build(&self) -> Result<Params, KeyError> {
        for (key, count, range) in self.counts() {
            if let Some(count) = count.filter(|count| !range.contains(count)) {
                let (least, most) = range.into_inner();
                return Err(KeyError::new(key, format!("{key} {count}: {least} to {most}")));
            }
        }
        let params = self.params();
        // The check says first which one is wrong, by its name in files.
        params.check().map_err(|message| {
            let key = message.split(' ').next().unwrap_or_default();
            KeyError::new(key, message.clone())
        })?;
        Ok(params)
    }
}
