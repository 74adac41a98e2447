//! A list of names as it came. kube-scheduler sends thousands per pod and none with an escape in it, so the
//! usual list borrows every name from the body and is read without a second look.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use crate::decode::Text;

/// The names asked about, in order.
#[derive(Debug)]
pub enum Names<'a> {
    /// Each is a piece of the body, as it stands there between its quotes.
    Plain(Vec<&'a str>),
    /// At least one was written with an escape.
    Escaped(Vec<Text<'a>>),
}

impl Names<'_> {
    /// The names, whichever way they came.
    pub fn texts(&self) -> Cow<'_, [&str]> {
        match self {
            Self::Plain(names) => Cow::Borrowed(names),
            Self::Escaped(names) => names.iter().map(Text::as_str).collect(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Names<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;
        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = Names<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut plain = Vec::with_capacity(FIRST_ROOM);
                while let Some(name) = list.next_element::<Text<'de>>()? {
                    match name.0 {
                        Cow::Borrowed(name) => plain.push(name),
                        Cow::Owned(_) => return escaped(plain, name, list),
                    }
                }
                Ok(Names::Plain(plain))
            }
        }
        deserializer.deserialize_seq(NamesVisitor)
    }
}

/// How many names there is room for before the list has to grow; a page of memory.
const FIRST_ROOM: usize = 256;

/// Goes on with a list that turned out not to be plain.
fn escaped<'de, A: SeqAccess<'de>>(
    before: Vec<&'de str>,
    name: Text<'de>,
    mut list: A,
) -> Result<Names<'de>, A::Error> {
    let mut names: Vec<Text<'de>> = before.into_iter().map(|name| Text(Cow::Borrowed(name))).collect();
    names.push(name);
    while let Some(name) = list.next_element()? {
        names.push(name);
    }
    Ok(Names::Escaped(names))
}
