//! Where in an object something is: `spec.strategies.dontschedule.rules[1].target`.

use std::fmt;

/// A way from the root of an object to one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Step>);

/// One step of the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Into a map.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl FieldPath {
    /// The object itself.
    pub const ROOT: Self = Self(Vec::new());

    /// The way into a map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    /// The way into a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// One step further.
    #[must_use]
    pub fn then(&self, step: Step) -> Self {
        let mut steps = Vec::with_capacity(self.0.len() + 1);
        steps.extend_from_slice(&self.0);
        steps.push(step);
        Self(steps)
    }

    /// All steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The path itself and everything around it, from the inside out.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        (0..=self.0.len()).rev().map(|length| Self(self.0[..length].to_vec()))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if !is_plain(key) => write!(f, "[{key:?}]")?,
                Step::Key(key) if place == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::FieldPath;

    #[test]
    fn paths_read_as_people_write_them() {
        let rules = FieldPath::ROOT.key("spec").key("strategies").key("dontschedule").key("rules");
        assert_eq!(rules.index(1).key("target").to_string(), "spec.strategies.dontschedule.rules[1].target");
        let annotation =
            FieldPath::ROOT.key("metadata").key("annotations").key("telemetry-aware.github.io/mode");
        assert_eq!(annotation.to_string(), r#"metadata.annotations["telemetry-aware.github.io/mode"]"#);
        assert_eq!(FieldPath::ROOT.to_string(), "");
    }
}
