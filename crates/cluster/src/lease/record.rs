//! A Lease as it is stored: read leniently, written whole.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DURATION, LONGEST};

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Which version of the object; empty for one that is not stored yet.
    pub version: String,
    /// Who holds it; nobody if empty.
    pub holder: String,
    /// How long it lasts without a renewal.
    pub lasts: Duration,
    /// When it was taken, by the holder's clock. For people only.
    pub acquired: Option<Timestamp>,
    /// When it was renewed, by the holder's clock. For people only: nobody compares it with another clock.
    pub renewed: Option<Timestamp>,
    /// How often it has changed hands.
    pub transitions: i64,
}

impl Record {
    /// From an object, whatever it holds: what makes no sense reads as nothing.
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
        let lasts = number("/spec/leaseDurationSeconds").and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            version: text("/metadata/resourceVersion").to_owned(),
            holder: text("/spec/holderIdentity").to_owned(),
            lasts: lasts.map_or(DURATION, Duration::from_secs).min(LONGEST),
            acquired: text("/spec/acquireTime").parse().ok(),
            renewed: text("/spec/renewTime").parse().ok(),
            transitions: number("/spec/leaseTransitions").unwrap_or_default(),
        }
    }

    /// The object, to be created or to replace the version it names.
    pub fn object(&self, namespace: &str, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": self.lasts.as_secs().max(1),
                "leaseTransitions": self.transitions,
            },
        });
        if !self.version.is_empty() {
            object["metadata"]["resourceVersion"] = json!(self.version);
        }
        for (field, moment) in [("acquireTime", self.acquired), ("renewTime", self.renewed)] {
            if let Some(moment) = moment {
                object["spec"][field] = json!(format!("{moment:.6}"));
            }
        }
        object
    }
}

/// A moment on the wall as objects write it.
pub(super) fn stamp(wall: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(wall).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let moment: Timestamp = "2026-11-15T10:00:00.5Z".parse().unwrap();
        let record = Record {
            version: "7".to_owned(),
            holder: "tas-0".to_owned(),
            lasts: DURATION,
            acquired: Some(moment),
            renewed: Some(moment),
            transitions: 3,
        };
        let object = record.object("tas-system", "tas");
        assert_eq!(object["spec"]["renewTime"], "2026-11-15T10:00:00.500000Z");
        assert_eq!(Record::of(&object), record);
    }

    #[test]
    fn a_lease_that_makes_no_sense_reads_as_one_that_nobody_holds() {
        let nobody = Record { lasts: DURATION, ..Record::default() };
        for odd in [
            json!(null),
            json!([]),
            json!({"spec": 1}),
            json!({"spec": {"holderIdentity": 5, "leaseDurationSeconds": -3, "renewTime": "soon"}}),
        ] {
            assert_eq!(Record::of(&odd), nobody, "{odd}");
        }
        let eternal = json!({"spec": {"leaseDurationSeconds": i64::MAX}});
        assert_eq!(Record::of(&eternal).lasts, LONGEST);
    }
}
