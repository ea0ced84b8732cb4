//! Users whose word on their VMs counts.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use lowtail_config_text::KeyError;
use lowtail_config_text::scalar::{self, Scalar, ScalarError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use lowtail_discover::{Users, uid_of};
use lowtail_kernel::Name;

/// Longest name of a user: `LOGIN_NAME_MAX` of `limits.h`, without the end of the string.
const NAME_MAX: usize = 255;

/// One entry of the list: a user by name, by number, or a range of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UserFile {
    Named(String),
    Numbers(RangeInclusive<u32>),
}

/// The users of a policy. Names are looked up on the host when it is asked for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trusted {
    names: Vec<String>,
    numbers: Vec<RangeInclusive<u32>>,
}

impl Trusted {
    pub(super) fn new(files: &[UserFile]) -> Result<Self, KeyError> {
        let mut trusted = Trusted::default();
        for (i, file) in files.iter().enumerate() {
            match file {
                UserFile::Named(name) => trusted.names.push(name.clone()),
                UserFile::Numbers(range) if range.is_empty() => {
                    let (first, last) = range.clone().into_inner();
                    let message = format!("users {first}-{last}: the smaller number comes first");
                    return Err(KeyError::new(&i.to_string(), message).under(&["users"]));
                }
                UserFile::Numbers(range) => trusted.numbers.push(range.clone()),
            }
        }
        Ok(trusted)
    }

    /// The users by their numbers on this host, and the names that nobody has here.
    pub fn on_this_host(&self) -> (Users, Vec<Name>) {
        let mut numbers = self.numbers.clone();
        let mut missing = Vec::new();
        for name in &self.names {
            match uid_of(name) {
                Some(uid) => numbers.push(uid..=uid),
                None => missing.push(Name::new(name)),
            }
        }
        (Users::new(numbers), missing)
    }
}

impl Scalar for UserFile {
    const EXPECTED: &'static str = "a user: a name, a number, or numbers such as \"30000-30999\"";

    fn from_integer(n: i64) -> Result<Self, ScalarError> {
        let uid = u32::try_from(n).map_err(|_| ScalarError::Value)?;
        Ok(UserFile::Numbers(uid..=uid))
    }

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        let number = |text: &str| -> Option<u32> {
            text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
        };
        if let Some((first, last)) = text.split_once('-')
            && let (Some(first), Some(last)) = (number(first), number(last))
        {
            return Ok(UserFile::Numbers(first..=last));
        }
        // `useradd(8)`: no name consists of digits only, none has a colon or a slash.
        let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ':' | '/');
        let is_name = (1..=NAME_MAX).contains(&text.len())
            && !text.contains(odd)
            && !text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        is_name.then(|| UserFile::Named(text.to_string())).ok_or(ScalarError::Value)
    }
}

impl<'de> Deserialize<'de> for UserFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for UserFile {
    fn schema_name() -> Cow<'static, str> {
        "User".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A user: a name, a number, or a range of numbers such as `30000-30999`.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": u32::MAX },
                { "type": "string", "minLength": 1, "maxLength": NAME_MAX },
            ],
        })
    }
}
