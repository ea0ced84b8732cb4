//! Rows: the figures of one distribution in one case.

use std::fmt;

use lowtail_engine::{Duration, Hist};
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::case::{Case, RowSpec};
use crate::metric::{self, TimeUnit};

/// Which of a VM's distributions a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// What its workload measures: request latency, lateness of a sleeper.
    #[default]
    Latency,
    /// From waking to executing, over all its vCPUs.
    WakeToRun,
    /// From losing the pCPU while runnable to executing again, over all its vCPUs.
    PreemptedToRun,
}

impl Of {
    /// For names of rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Of::Latency => "latency",
            Of::WakeToRun => "wake_to_run",
            Of::PreemptedToRun => "preempted_to_run",
        }
    }
}

/// A row that a case asks for: the name of a VM or of traffic, or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFile {
    /// Whose.
    pub whose: Whose,
    /// Of which distribution.
    pub of: Of,
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
    of: Of,
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
        Ok(RowFile { whose: Whose::Vms(vec![String::deserialize(vm)?]), of: Of::Latency })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let RowTable { vm, traffic, size, of } =
            RowTable::deserialize(MapAccessDeserializer::new(map))?;
        let whose = match (vm, traffic) {
            (None, Some(traffic)) if of == Of::Latency => Whose::Traffic(traffic, size),
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

/// The figures of one distribution in one case, and of the case around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The row's name: that of the case, with the VM's if the case has several rows.
    pub name: String,
    /// Values counted.
    pub n: u64,
    /// Unit of the times.
    pub unit: TimeUnit,
    /// Figures by name: those of [`metric::LATENCY`] (absent if `n` is 0), then others.
    pub figures: Vec<(String, f64)>,
    /// The distribution function for drawing: (time, share of values that are longer).
    pub tail: Vec<(f64, f64)>,
    /// What the case's variables were.
    pub variables: Vec<(String, String)>,
    /// Whether all was measured that should be, within the limit of simulated time.
    pub complete: bool,
}

impl Row {
    /// The row that `spec` asks for, without any figures.
    pub(crate) fn empty(spec: &RowSpec, case: &Case, unit: TimeUnit) -> Self {
        let (name, variables) = (spec.name.clone(), case.variables.clone());
        let (figures, tail) = (Vec::new(), Vec::new());
        Row { name, n: 0, unit, figures, tail, variables, complete: false }
    }

    /// The figure called `metric`.
    pub fn get(&self, metric: &str) -> Option<f64> {
        if metric == "n" {
            return Some(self.n as f64);
        }
        self.figures.iter().find(|(name, _)| name == metric).map(|(_, figure)| *figure)
    }

    /// The variable called `name`.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// For `--json`.
    pub fn json(&self) -> Value {
        let mut map = Map::new();
        map.insert("case".into(), self.name.clone().into());
        map.insert("n".into(), self.n.into());
        for name in metric::LATENCY {
            map.insert(name.into(), number(self.get(name)));
        }
        map.insert("unit".into(), self.unit.name().into());
        for (name, figure) in &self.figures {
            if !metric::is_latency(name) {
                map.insert(name.clone(), number(Some(*figure)));
            }
        }
        map.insert("complete".into(), self.complete.into());
        Value::Object(map)
    }
}

/// A JSON number, whole if the value is; null if there is none.
pub(crate) fn number(value: Option<f64>) -> Value {
    match value {
        Some(x) if x.fract() == 0.0 && x.abs() < 9e15 => Value::from(x as i64),
        Some(x) => Value::from(x),
        None => Value::Null,
    }
}

/// The figures of [`metric::LATENCY`].
pub(crate) fn latency_figures(hist: &Hist, unit: TimeUnit) -> Vec<(String, f64)> {
    if hist.n() == 0 {
        return Vec::new();
    }
    let spans: [(&str, Duration); 9] = [
        ("avg", hist.mean()),
        ("min", hist.min()),
        ("p25", hist.quantile(0.25)),
        ("p50", hist.quantile(0.5)),
        ("p75", hist.quantile(0.75)),
        ("p90", hist.quantile(0.9)),
        ("p99", hist.quantile(0.99)),
        ("p99_9", hist.quantile(0.999)),
        ("max", hist.max()),
    ];
    spans.iter().map(|(name, span)| (name.to_string(), unit.of(*span))).collect()
}

/// The tail of `hist`, thinned to what an eye can tell apart on logarithmic axes.
pub(crate) fn tail(hist: &Hist, unit: TimeUnit) -> Vec<(f64, f64)> {
    let n = hist.n() as f64;
    let mut points: Vec<(f64, f64)> = vec![(unit.of(hist.min()), 1.0)];
    let mut skipped = None;
    for (span, share) in hist.steps() {
        // The longest value has none above it; half a value keeps it on a log scale.
        let point = (unit.of(span), (1.0 - share).max(0.5 / n));
        let &(x, y) = points.last().expect("never empty");
        if point.0 > x * 1.004 || point.1 < y * 0.98 {
            points.extend(skipped.take().filter(|_| point.0 > x * 1.02));
            points.push(point);
        } else {
            skipped = Some(point);
        }
    }
    points.extend(skipped);
    points
}
