//! Rows as scenario files ask for them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, Visitor};

/// Which of a VM's distributions a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Of")]
pub enum DelayKind {
    /// What its workload measures: request latency, lateness of a sleeper.
    #[default]
    Latency,
    /// From waking to executing, over all its vCPUs.
    WakeupLatency,
    /// From losing the pCPU while runnable to executing again, over all its vCPUs.
    PreemptionLatency,
    /// From waking to executing, over its threads besides vCPUs.
    BackendWakeupLatency,
    /// From the tap to the guest's buffers: how long what it receives waits for vhost, and is copied.
    TapWait,
}

impl DelayKind {
    /// For names of rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DelayKind::Latency => "latency",
            DelayKind::WakeupLatency => "wakeup_latency",
            DelayKind::PreemptionLatency => "preemption_latency",
            DelayKind::BackendWakeupLatency => "backend_wakeup_latency",
            DelayKind::TapWait => "tap_wait",
        }
    }
}

/// A row that a case asks for: the name of a VM or of traffic, or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFile {
    /// Whose.
    pub whose: Whose,
    /// Of which distribution.
    pub of: DelayKind,
}

/// Whose figures a row has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// Those of VMs: several kinds together make one distribution. A single name can be that of
    /// traffic, too.
    Vms(Vec<String>),
    /// Those of traffic; of all its messages, or of those of one size (an index into its `bins`,
    /// or one more).
    Traffic(String, Option<usize>),
}

#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RowTable {
    /// Whose: a name, or a list of names for one distribution of all of them.
    vm: Option<Names>,
    /// Or of which traffic.
    traffic: Option<String>,
    /// Of this traffic only messages of one size: 0 for those up to the first of its `bins`, and
    /// so on.
    size: Option<usize>,
    /// Of which distribution.
    #[serde(default)]
    of: DelayKind,
}

#[derive(serde::Deserialize, JsonSchema)]
#[serde(untagged, expecting = "the name of a VM, or a list of names")]
enum Names {
    One(String),
    Several(Vec<String>),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes a form, is never built")]
enum RowSchema {
    Vm(String),
    Table(RowTable),
}

impl JsonSchema for RowFile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Row".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        RowSchema::json_schema(generator)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = RowFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a VM or of traffic, or { vm = \"NAME\", of = \"latency\" }")
    }

    fn visit_str<E: de::Error>(self, vm: &str) -> Result<Self::Value, E> {
        let vm: StrDeserializer<'_, E> = vm.into_deserializer();
        Ok(RowFile { whose: Whose::Vms(vec![String::deserialize(vm)?]), of: DelayKind::Latency })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let RowTable { vm, traffic, size, of } =
            RowTable::deserialize(MapAccessDeserializer::new(map))?;
        let whose = match (vm, traffic) {
            (None, Some(traffic)) if of == DelayKind::Latency => Whose::Traffic(traffic, size),
            (Some(_), None) if size.is_some() => {
                return Err(de::Error::custom("`size` is for traffic"));
            }
            (Some(Names::One(vm)), None) => Whose::Vms(vec![vm]),
            (Some(Names::Several(vms)), None) if !vms.is_empty() => Whose::Vms(vms),
            (Some(_), None) => return Err(de::Error::custom("an empty list of VMs")),
            _ => return Err(de::Error::custom("give one of `vm` and `traffic`; `of` is for VMs")),
        };
        Ok(RowFile { whose, of })
    }
}

impl<'de> Deserialize<'de> for RowFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RowVisitor)
    }
}
