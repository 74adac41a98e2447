//! A YAML document as it was written, so that all its problems can be told at once and not only the first.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};

/// A piece of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Map(Vec<(String, Piece)>),
    List(Vec<Piece>),
    Text(String),
    /// A number, as YAML reads it; `012` is one too.
    Number(String),
    Bool,
    Nothing,
}

impl Piece {
    /// What it is, to stand after "found".
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Map(_) => "a map",
            Self::List(_) => "a list",
            Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Bool => "a boolean (put it in quotes if it is a text)",
            Self::Nothing => "nothing",
        }
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: serde::Deserializer<'de>>(yaml: D) -> Result<Self, D::Error> {
        yaml.deserialize_any(PieceVisitor)
    }
}

struct PieceVisitor;

impl<'de> Visitor<'de> for PieceVisitor {
    type Value = Piece;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Piece, E> {
        Ok(Piece::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Piece, E> {
        Ok(Piece::Number(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Piece, E> {
        Ok(Piece::Number(number.to_string()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Piece, E> {
        Ok(Piece::Number(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Piece, E> {
        Ok(Piece::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Piece, E> {
        Ok(Piece::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Piece, E> {
        Ok(Piece::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Piece, E> {
        Ok(Piece::Nothing)
    }

    fn visit_none<E>(self) -> Result<Piece, E> {
        Ok(Piece::Nothing)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, yaml: D) -> Result<Piece, D::Error> {
        Piece::deserialize(yaml)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Piece, A::Error> {
        let mut pieces = Vec::new();
        while let Some(piece) = seq.next_element()? {
            pieces.push(piece);
        }
        Ok(Piece::List(pieces))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Piece, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Piece::Map(entries))
    }
}
