//! Names that were checked once, when they came in, and are cheap to pass on.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Longest name of a node, namespace or policy (a DNS subdomain).
pub const MAX_NAME: usize = 253;
/// Longest metric name we take; Prometheus itself sets no limit.
pub const MAX_METRIC_NAME: usize = 512;

/// Why a text is not such a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("the {what} is empty")]
    Empty {
        /// Which kind of name.
        what: &'static str,
    },
    /// Longer than its kind allows.
    #[error("the {what} has {length} characters; {limit} are allowed")]
    TooLong {
        /// Which kind of name.
        what: &'static str,
        /// How long it is.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A character its kind does not allow.
    #[error("the {what} {text:?} has the character {found:?}; allowed are {allowed}")]
    BadCharacter {
        /// Which kind of name.
        what: &'static str,
        /// The offending text.
        text: String,
        /// The first character that is not allowed.
        found: char,
        /// What is allowed, in words.
        allowed: &'static str,
    },
}

fn checked(
    what: &'static str,
    text: &str,
    limit: usize,
    allowed: &'static str,
    fits: fn(char) -> bool,
) -> Result<Arc<str>, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { what });
    }
    if text.len() > limit {
        return Err(NameError::TooLong { what, length: text.len(), limit });
    }
    match text.chars().find(|c| !fits(*c)) {
        Some(found) => Err(NameError::BadCharacter { what, text: text.to_owned(), found, allowed }),
        None => Ok(Arc::from(text)),
    }
}

fn subdomain(what: &'static str, text: &str) -> Result<Arc<str>, NameError> {
    checked(what, text, MAX_NAME, "a-z, 0-9, '-' and '.'", |c| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.'
    })
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $new:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text.
            pub fn new(text: &str) -> Result<Self, NameError> {
                $new(text).map(Self)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name_type!(
    /// The name of a Node object.
    NodeName,
    |text| subdomain("node name", text)
);
name_type!(
    /// The name of a metric, as policies and Prometheus write it.
    MetricName,
    |text| checked("metric name", text, MAX_METRIC_NAME, "letters, digits, '_', '-' and ':'", |c| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':')
    })
);

/// Which policy: its namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyRef {
    namespace: Arc<str>,
    name: Arc<str>,
}

/// A policy as a pod names it: borrowed, unchecked, good for looking up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyKey<'a> {
    /// The pod's own namespace.
    pub namespace: &'a str,
    /// The value of the pod's policy label.
    pub name: &'a str,
}

impl PolicyRef {
    /// Checks both parts.
    pub fn new(namespace: &str, name: &str) -> Result<Self, NameError> {
        Ok(Self { namespace: subdomain("namespace", namespace)?, name: subdomain("policy name", name)? })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The borrowed form.
    pub fn key(&self) -> PolicyKey<'_> {
        PolicyKey { namespace: &self.namespace, name: &self.name }
    }
}

impl fmt::Display for PolicyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricName, NodeName, PolicyRef};

    #[test]
    fn names_are_checked_where_they_come_in() {
        assert!(NodeName::new("node7.ocp4rony.dfw.ocp.run").is_ok());
        assert!(MetricName::new("collectd_package_0_power_power").is_ok());
        assert!(MetricName::new("instance:node_power:avg5m").is_ok());
        let text = |error: super::NameError| error.to_string();
        assert_eq!(NodeName::new("").map_err(text), Err("the node name is empty".to_owned()));
        assert_eq!(
            MetricName::new("node power").map_err(text),
            Err("the metric name \"node power\" has the character ' '; allowed are letters, digits, '_', '-' and ':'".to_owned())
        );
        assert_eq!(
            PolicyRef::new("default", &"p".repeat(254)).map_err(text),
            Err("the policy name has 254 characters; 253 are allowed".to_owned())
        );
    }

    #[test]
    fn a_policy_reads_as_namespace_and_name() {
        assert_eq!(PolicyRef::new("default", "power").unwrap().to_string(), "default/power");
    }
}
