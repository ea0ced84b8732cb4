//! What is searched on a recording: keys of a policy for a Linux host, knobs of a Xen host.

use lowtail_control::policy::Policy;
use lowtail_predict::{Model, Recording, put_in_force};

use crate::parameter::Parameter;
use crate::point::Point;
use crate::recorded_parameters::Keys;
use crate::xen_keys::XenKeys;

/// What is searched.
#[derive(Debug)]
pub(crate) enum Knobs {
    Policy(Keys),
    Xen(XenKeys),
}

impl Knobs {
    pub(crate) fn parameters(&self) -> &[Parameter] {
        match self {
            Knobs::Policy(keys) => &keys.parameters,
            Knobs::Xen(keys) => &keys.parameters,
        }
    }

    /// The same point without values that make no difference in it.
    pub(crate) fn canonical(&self, point: Point) -> Point {
        match self {
            Knobs::Policy(keys) => keys.canonical(point),
            Knobs::Xen(keys) => keys.canonical(point),
        }
    }

    /// Points to begin with.
    pub(crate) fn starts(&self) -> Vec<Point> {
        match self {
            Knobs::Policy(keys) => keys.starts(),
            Knobs::Xen(keys) => keys.starts(),
        }
    }

    /// The policy file of a point.
    pub(crate) fn text(&self, point: &Point) -> String {
        match self {
            Knobs::Policy(keys) => keys.text(point),
            Knobs::Xen(keys) => keys.text(point),
        }
    }

    /// Puts a point in force that says something. What of it cannot be set, in words; `None`: it is no choice that one could make.
    pub(crate) fn apply(
        &self,
        point: &Point,
        model: &mut Model,
        recording: &Recording,
    ) -> Option<Vec<String>> {
        match self {
            Knobs::Policy(keys) => {
                let policy = Policy::parse("a point", &keys.text(point)).ok()?;
                let mut notes = put_in_force(model, recording, &policy);
                // That weights stay is what the text wants.
                notes.retain(|note| !note.starts_with("no entry fits"));
                Some(notes)
            }
            Knobs::Xen(keys) => keys.apply(point, model, recording).then(Vec::new),
        }
    }
}
