//! A number as a policy writes it: a whole JSON number, or a text in Kubernetes quantity syntax.

use std::borrow::Cow;
use std::fmt;

use engine::quantity::{Quantity, QuantityError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// What the text form must look like; the API server refuses anything else.
pub const NUMBER_PATTERN: &str =
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$";
/// Longest text form.
pub const MAX_NUMBER_LENGTH: usize = 64;

/// An integer as in Intel TAS, or `"2.5"`, `"300m"`, `"64Gi"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// A whole JSON number.
    Whole(i64),
    /// A quantity in quotes.
    Text(String),
}

impl Number {
    /// The exact value.
    pub fn quantity(&self) -> Result<Quantity, QuantityError> {
        match self {
            Self::Whole(whole) => Ok(Quantity::from(*whole)),
            Self::Text(text) => text.parse(),
        }
    }
}

impl From<i64> for Number {
    fn from(whole: i64) -> Self {
        Self::Whole(whole)
    }
}

impl From<&str> for Number {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// As written, without quotes.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl de::Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or a quantity in quotes like \"2.5\", \"300m\" or \"64Gi\"")
    }

    fn visit_i64<E: de::Error>(self, whole: i64) -> Result<Number, E> {
        Ok(Number::Whole(whole))
    }

    fn visit_u64<E: de::Error>(self, whole: u64) -> Result<Number, E> {
        i64::try_from(whole)
            .map(Number::Whole)
            .map_err(|_| E::custom(format!("{whole} does not fit 64 bits; write it in quotes")))
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<Number, E> {
        // `30.0` is a whole number to the API server too, which accepts it where an integer is asked for.
        whole(float)
            .map(Number::Whole)
            .ok_or_else(|| E::custom(format!("{float} is not a whole number; write it in quotes")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        Ok(Number::from(text))
    }
}

/// The integer a float stands for, if it stands for exactly one.
pub(crate) fn whole(float: f64) -> Option<i64> {
    // Past 2^53 a float no longer tells neighbouring integers apart.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "in range and without fraction by the test before it"
    )]
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "maxLength": MAX_NUMBER_LENGTH,
            "pattern": NUMBER_PATTERN,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    fn read(json: &str) -> Result<Number, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn integers_and_quoted_quantities_are_numbers() {
        assert_eq!(read("5000000000"), Ok(Number::Whole(5_000_000_000)));
        assert_eq!(read("30.0"), Ok(Number::Whole(30)));
        assert_eq!(read("\"2.5\""), Ok(Number::from("2.5")));
        assert_eq!(read("\"2.5\"").unwrap().quantity().unwrap().to_string(), "2.5");
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused_with_the_way_out() {
        assert_eq!(
            read("2.5"),
            Err("2.5 is not a whole number; write it in quotes at line 1 column 3".to_owned())
        );
        assert!(read("18446744073709551615").unwrap_err().starts_with("18446744073709551615 does not fit"));
        assert!(read("true").unwrap_err().contains("expected a whole number, or a quantity in quotes"));
    }
}
