//! Interfaces whose queues are cared for.

use std::borrow::Cow;

use lowtail_config_text::scalar::{self, Scalar, ScalarError};
use lowtail_config_text::{KeyError, RateText};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::class::{ByClass, ByClassFile};
use lowtail_discover::is_interface;

/// `TC_PRIO_INTERACTIVE`, `TC_PRIO_BESTEFFORT` and `TC_PRIO_BULK` of `linux/pkt_sched.h`: with what the kernel's `prio` and
/// `pfifo_fast` make of them, small packets go first and bulk goes last.
const PRIORITIES: ByClass<u32> = [6, 6, 0, 0, 2];
/// Highest priority that means something to everybody: `TC_PRIO_MAX`.
const PRIORITY_MAX: u32 = 15;
/// 64 code points: RFC 2474.
const DSCP_MAX: u64 = 63;

/// An interface whose queue is cared for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    /// Its name.
    pub name: String,
    /// Rate to which its traffic is shaped, if it is.
    pub rate_bits_per_s: Option<u64>,
    /// How large segments are cut up before they are queued.
    pub split: Split,
    /// Code point for each class; `None` leaves what the VM has set.
    pub dscp: ByClass<Option<u8>>,
    /// `skb->priority` for each class, where the disciplines stay that are there: ours know classes by numbers of their
    /// own.
    pub priority: ByClass<u32>,
}

impl Uplink {
    /// Whether priorities are those of a file that gives none.
    pub(crate) fn has_usual_priorities(&self) -> bool {
        self.priority == PRIORITIES
    }
}

/// How large segments are cut up before they are queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// By what suits the rate: the discipline where a segment takes long, else the interface's limit.
    #[default]
    Auto,
    /// By the queueing discipline CAKE.
    Cake,
    /// By the interface's `gso_max_size`, for which a rate is needed.
    Gso,
    /// Not at all.
    None,
}

/// An interface whose queue is cared for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UplinkFile {
    /// Its name, of at most 15 bytes.
    #[schemars(length(min = 1, max = 15))]
    name: String,
    /// Rate to which its traffic is shaped; absent, it is not.
    rate: Option<RateText>,
    /// How large segments are cut up before they are queued.
    #[serde(default)]
    split: Split,
    /// Code point for each class; absent, what the VM has set.
    #[serde(default)]
    dscp: ByClassFile<Dscp>,
    /// `skb->priority` for each class, 0 to 15, where the disciplines that are there cannot be replaced.
    #[serde(default)]
    priority: ByClassFile<Priority>,
}

/// All of them.
pub(super) fn all(files: &[UplinkFile]) -> Result<Vec<Uplink>, KeyError> {
    let mut uplinks: Vec<Uplink> = Vec::new();
    for (i, file) in files.iter().enumerate() {
        let uplink = file.build().and_then(|uplink| {
            match uplinks.iter().any(|other| other.name == uplink.name) {
                true => {
                    Err(KeyError::new("name", format!("uplink `{}` is there twice", uplink.name)))
                }
                false => Ok(uplink),
            }
        });
        uplinks.push(uplink.map_err(|bad| bad.under(&["uplink", &i.to_string()]))?);
    }
    Ok(uplinks)
}

impl UplinkFile {
    fn build(&self) -> Result<Uplink, KeyError> {
        if !is_interface(&self.name) {
            let name = lowtail_kernel::Name::new(&self.name);
            return Err(KeyError::new("name", format!("`{name}` is not the name of an interface")));
        }
        let dscp = self.dscp.by_class().map(|class| class.map(|Dscp(dscp)| dscp));
        let given = self.priority.by_class();
        let priority = std::array::from_fn(|i| given[i].map_or(PRIORITIES[i], |Priority(n)| n));
        let rate_bits_per_s = self.rate.map(|RateText(rate)| rate);
        Ok(Uplink { name: self.name.clone(), rate_bits_per_s, split: self.split, dscp, priority })
    }
}

/// A priority.
#[derive(Debug, Clone, Copy)]
struct Priority(u32);

/// A code point, by its name or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dscp(u8);

impl Dscp {
    /// RFC 2474 (CS), 2597 (AF), 3246 (EF), 5865 (VA), 8622 (LE).
    fn named(name: &str) -> Option<Dscp> {
        let digit = |c: char, most: u32| c.to_digit(10).filter(|n| *n <= most).map(|n| n as u8);
        match name {
            "EF" => return Some(Dscp(46)),
            "VA" => return Some(Dscp(44)),
            "LE" => return Some(Dscp(1)),
            _ => {}
        }
        let numbers: Vec<char> = name.get(2..)?.chars().collect();
        match (name.get(..2)?, numbers.as_slice()) {
            ("CS", [class]) => Some(Dscp(digit(*class, 7)? << 3)),
            ("AF", [class, drop]) => {
                let (class, drop) = (digit(*class, 4)?, digit(*drop, 3)?);
                (class > 0 && drop > 0).then_some(Dscp(class << 3 | drop << 1))
            }
            _ => None,
        }
    }
}

impl Scalar for Dscp {
    const EXPECTED: &'static str = "a code point: 0 to 63, CS0 to CS7, AF11 to AF43, EF, VA or LE";

    fn from_integer(n: i64) -> Result<Self, ScalarError> {
        let dscp = u64::try_from(n).ok().filter(|n| *n <= DSCP_MAX);
        dscp.map(|n| Dscp(n as u8)).ok_or(ScalarError::Value)
    }

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        Dscp::named(text).ok_or(ScalarError::Value)
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for Dscp {
    fn schema_name() -> Cow<'static, str> {
        "Dscp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A code point by number or name.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": DSCP_MAX },
                { "type": "string", "pattern": "^(CS[0-7]|AF[1-4][1-3]|EF|VA|LE)$" },
            ],
        })
    }
}

impl Scalar for Priority {
    const EXPECTED: &'static str = "a priority of 0 to 15";

    fn from_integer(n: i64) -> Result<Self, ScalarError> {
        let priority = u32::try_from(n).ok().filter(|n| *n <= PRIORITY_MAX);
        priority.map(Priority).ok_or(ScalarError::Value)
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for Priority {
    fn schema_name() -> Cow<'static, str> {
        "Priority".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "maximum": PRIORITY_MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The registry of IANA, "Differentiated Services Field Codepoints".
    #[test]
    fn code_points_have_names() {
        for (name, wanted) in [
            ("CS0", Some(0)),
            ("LE", Some(1)),
            ("CS1", Some(8)),
            ("AF11", Some(10)),
            ("AF23", Some(22)),
            ("AF43", Some(38)),
            ("CS5", Some(40)),
            ("VA", Some(44)),
            ("EF", Some(46)),
            ("CS7", Some(56)),
            ("CS8", None),
            ("AF10", None),
            ("AF51", None),
            ("AF4", None),
            ("ef", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(Dscp::named(name).map(|Dscp(n)| n), wanted, "{name}");
        }
    }
}
