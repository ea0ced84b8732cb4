//! Threads of a host: what they are for its scheduler, and those of a VM besides its vCPUs.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use lowtail_engine::Duration;
use lowtail_host::cgroup::{Policy, check_nice, check_slice};
use lowtail_host::guest::vhost::VhostConfig;
use lowtail_libvirt::range::PRIORITY;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use crate::error::KeyError;
use crate::value::DurationText;
use crate::workload::WorkloadFile;

/// One value for all, or a list of one for each.
#[derive(Debug, Clone)]
pub enum OneOrEach<T> {
    /// All have the same.
    Same(T),
    /// In order.
    List(Vec<T>),
}

impl<T> OneOrEach<T> {
    /// As a list.
    pub(crate) fn list(&self) -> &[T] {
        match self {
            OneOrEach::Same(one) => std::slice::from_ref(one),
            OneOrEach::List(list) => list,
        }
    }

    /// The one for number `i`.
    pub(crate) fn of(&self, i: usize) -> Option<&T> {
        match self {
            OneOrEach::Same(one) => Some(one),
            OneOrEach::List(list) => list.get(i),
        }
    }

    /// Refuses a list, called `key`, of more than `most` values.
    pub(crate) fn at_most(&self, key: &str, most: usize) -> Result<(), KeyError> {
        match self {
            OneOrEach::List(list) if list.len() > most => {
                Err(KeyError::new(key, format!("{} values for {most} vCPUs", list.len())))
            }
            _ => Ok(()),
        }
    }
}

struct OneOrEachVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrEachVisitor<T> {
    type Value = OneOrEach<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value for all, or a list of values")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(OneOrEach::Same)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(OneOrEach::Same)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(OneOrEach::Same)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(one) = seq.next_element()? {
            list.push(one);
        }
        Ok(OneOrEach::List(list))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrEach<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrEachVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrEach<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}OrList", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// A scheduling policy in libvirt's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyFile {
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    Rr,
}

/// Who is scheduled how: `<vcpusched>`, `<iothreadsched>` and `<emulatorsched>` (libvirt 1.2.13
/// and 5.3.0).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedFile {
    /// Numbers of vCPUs, from 0; all if absent.
    pub vcpus: Option<Vec<u16>>,
    /// Numbers of I/O threads, from 1; all if absent.
    pub iothreads: Option<Vec<u16>>,
    /// The policy.
    pub scheduler: PolicyFile,
    /// Of `fifo` and `rr`, which need one.
    #[schemars(range(min = 1, max = 99))]
    pub priority: Option<i64>,
}

impl SchedFile {
    /// The policy for the host.
    pub(crate) fn policy(&self) -> Result<Policy, KeyError> {
        let bad = |message: String| Err(KeyError::new("priority", message));
        let (low, high) = PRIORITY.into_inner();
        let real = match (self.scheduler, self.priority) {
            (PolicyFile::Batch, None) => return Ok(Policy::Batch),
            (PolicyFile::Idle, None) => return Ok(Policy::Idle),
            (PolicyFile::Batch | PolicyFile::Idle, Some(_)) => {
                return bad("only fifo and rr have a priority".into());
            }
            (_, None) => return bad(format!("`priority` is missing: {low} to {high}")),
            (_, Some(priority)) if !PRIORITY.contains(&priority) => {
                return bad(format!("priority {priority}: {low} to {high}"));
            }
            (_, Some(priority)) => priority as u8,
        };
        Ok(if self.scheduler == PolicyFile::Fifo { Policy::Fifo(real) } else { Policy::Rr(real) })
    }
}

/// QEMU's main loop and the like, or an I/O thread.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadFile {
    /// What it does.
    pub workload: WorkloadFile,
    /// A slice of its own: 0.1ms to 100ms.
    pub slice: Option<DurationText>,
    /// Its nice value.
    #[serde(default)]
    #[schemars(range(min = -20, max = 19))]
    pub nice: i64,
}

/// Several threads of a kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadsFile {
    /// How many.
    #[serde(default = "one")]
    #[schemars(range(max = 64))]
    pub count: u16,
    /// What each does.
    pub workload: WorkloadFile,
    /// A slice of its own: 0.1ms to 100ms.
    pub slice: Option<DurationText>,
    /// Its nice value.
    #[serde(default)]
    #[schemars(range(min = -20, max = 19))]
    pub nice: i64,
}

/// The kernel's workers for virtual interfaces.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VhostFile {
    /// How many.
    #[serde(default = "one")]
    #[schemars(range(max = 64))]
    pub count: u16,
    /// What each does; absent, it serves the VM's interface.
    #[serde(default = "vhost")]
    pub workload: WorkloadFile,
    /// Whether they are in the group of the emulator, whose thread opens the device; else in the
    /// root.
    #[serde(default = "yes")]
    pub attached: bool,
    /// A slice of its own: 0.1ms to 100ms.
    pub slice: Option<DurationText>,
    /// Its nice value.
    #[serde(default)]
    #[schemars(range(min = -20, max = 19))]
    pub nice: i64,
}

fn one() -> u16 {
    1
}

fn vhost() -> WorkloadFile {
    WorkloadFile::Vhost(VhostConfig::default())
}

fn yes() -> bool {
    true
}

/// A nice value for the host.
pub(crate) fn nice(value: i64) -> Result<i8, KeyError> {
    check_nice(value).map_err(|message| KeyError::new("nice", message))?;
    Ok(value as i8)
}

/// A slice for the host.
pub(crate) fn slice(value: DurationText) -> Result<Duration, KeyError> {
    check_slice(value.0).map_err(|message| KeyError::new("slice", message))?;
    Ok(value.0)
}
