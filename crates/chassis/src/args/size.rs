//! Sizes in bytes, as Kubernetes writes them: `65536`, `64Ki`, `64Mi`, `1Gi`.

use std::fmt;

/// A number of bytes, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

/// A text that is not a size.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not a size; write a number of bytes above 0, like 65536, 64Ki or 64Mi")]
pub struct SizeError {
    /// The text.
    pub text: String,
}

const UNITS: [(&str, usize); 4] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10), ("", 1)];

impl std::str::FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        UNITS
            .iter()
            .find_map(|(name, bytes)| Some((text.strip_suffix(name)?, bytes)))
            .filter(|(digits, _)| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|(digits, bytes)| digits.parse::<usize>().ok()?.checked_mul(*bytes))
            .filter(|&bytes| bytes > 0)
            .map(Self)
            .ok_or_else(|| SizeError { text: text.to_owned() })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().find(|(_, bytes)| self.0.is_multiple_of(*bytes));
        let (name, bytes) = exact.copied().unwrap_or(("", 1));
        write!(f, "{}{name}", self.0 / bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        assert_eq!("64Mi".parse(), Ok(Size(64 * 1024 * 1024)));
        assert_eq!("1000".parse(), Ok(Size(1000)));
        for bad in [
            "",
            "0",
            "0Mi",
            "-1",
            "+1",
            "64M",
            "64MiB",
            "Mi",
            "1.5Gi",
            "99999999999999999999",
            "18446744073709551615Ki",
        ] {
            assert_eq!(bad.parse::<Size>(), Err(SizeError { text: bad.to_owned() }));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_the_same(size in 1usize..) {
            prop_assert_eq!(Size(size).to_string().parse(), Ok(Size(size)));
        }
    }
}
