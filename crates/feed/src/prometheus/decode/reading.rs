//! The passage through the JSON of an answer, piece by piece, in whatever order its fields come.

use std::borrow::Cow;
use std::fmt;

use engine::quantity::{Quantity, QuantityError};
use engine::time::Timestamp;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{DecodeError, DecodeLimits, Point, QUOTED_CHARS, Refused, Series, Shape, Summary, shortened};

/// Warnings that are kept word by word; the rest is only counted.
const KEPT_WARNINGS: usize = 4;
/// Times further from the epoch than this (in seconds) are no times.
const FARTHEST_SECONDS: f64 = 1e11;

/// What one pass keeps: buffers that are used again for each series, and the first limit that was passed.
pub(super) struct Reader<'b, F> {
    limits: DecodeLimits,
    each: F,
    labels: Vec<(Cow<'b, str>, Cow<'b, str>)>,
    points: Vec<Point>,
    total: usize,
    pub(super) fault: Option<DecodeError>,
    pub(super) summary: Summary,
}

impl<'b, F: FnMut(Series<'_, 'b>)> Reader<'b, F> {
    pub(super) fn new(limits: DecodeLimits, each: F) -> Self {
        let (labels, points) = (Vec::new(), Vec::new());
        Self { limits, each, labels, points, total: 0, fault: None, summary: Summary::default() }
    }

    fn fail<E: serde::de::Error>(&mut self, fault: DecodeError) -> E {
        self.fault.get_or_insert(fault);
        E::custom("a limit is passed")
    }

    fn finish_series(&mut self, refused: Refused) {
        self.summary.series += 1;
        self.summary.refused += refused;
        (self.each)(Series { labels: &self.labels, points: &self.points, refused });
    }
}

/// The outer object.
#[derive(Default)]
pub(super) struct Answer {
    status: Option<String>,
    kind: Option<String>,
    message: Option<String>,
    data: Option<Data>,
}

struct Data {
    stated: Option<String>,
    result: Option<Contents>,
}

/// What the result was seen to hold, whatever it calls itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Nothing,
    Series(Shape),
    Bare,
}

impl Answer {
    pub(super) fn verdict(self, wanted: Shape) -> Result<(), DecodeError> {
        let malformed = |reason: String| Err(DecodeError::Malformed { reason });
        match self.status.as_deref() {
            Some("success") => {}
            Some("error") => {
                return Err(DecodeError::Refused {
                    kind: shortened(self.kind.as_deref().unwrap_or("unknown"), 40),
                    message: shortened(self.message.as_deref().unwrap_or("no reason given"), QUOTED_CHARS),
                });
            }
            Some(other) => return malformed(format!("its status is {:?}", shortened(other, 40))),
            None => return malformed("it has no status".to_owned()),
        }
        let Some(Data { stated: Some(stated), result: Some(result) }) = self.data else {
            return malformed("it has no data with resultType and result".to_owned());
        };
        let found = match stated.as_str() {
            "vector" => Shape::Vector,
            "matrix" => Shape::Matrix,
            "scalar" => Shape::Scalar,
            "string" => Shape::Text,
            other => return malformed(format!("its resultType is {:?}", shortened(other, 40))),
        };
        if found != wanted {
            return Err(DecodeError::WrongShape { wanted, found });
        }
        match result {
            Contents::Nothing => Ok(()),
            Contents::Series(held) if held == found => Ok(()),
            Contents::Series(_) | Contents::Bare => {
                malformed(format!("its result is no {found} although it says so"))
            }
        }
    }
}

pub(super) struct AnswerSeed<'r, 'b, F>(pub(super) &'r mut Reader<'b, F>);

impl<'b, F: FnMut(Series<'_, 'b>)> DeserializeSeed<'b> for AnswerSeed<'_, 'b, F> {
    type Value = Answer;

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Answer, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'b, F: FnMut(Series<'_, 'b>)> Visitor<'b> for AnswerSeed<'_, 'b, F> {
    type Value = Answer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of the Prometheus API")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Answer, A::Error> {
        let mut answer = Answer::default();
        while let Some(key) = map.next_key_seed(TextSeed)? {
            match &*key {
                "status" => answer.status = Some(map.next_value_seed(TextSeed)?.into_owned()),
                "errorType" => answer.kind = Some(map.next_value_seed(TextSeed)?.into_owned()),
                "error" => answer.message = Some(map.next_value_seed(TextSeed)?.into_owned()),
                "data" => {
                    if answer.data.is_some() {
                        return Err(A::Error::duplicate_field("data"));
                    }
                    answer.data = map.next_value_seed(DataSeed(&mut *self.0))?;
                }
                "warnings" => {
                    let (count, kept) = map.next_value_seed(RemarksSeed)?;
                    (self.0.summary.warning_count, self.0.summary.warnings) = (count, kept);
                }
                "infos" => self.0.summary.infos = map.next_value_seed(RemarksSeed)?.1,
                _ => skip(&mut map)?,
            }
        }
        Ok(answer)
    }
}

struct DataSeed<'r, 'b, F>(&'r mut Reader<'b, F>);

impl<'b, F: FnMut(Series<'_, 'b>)> DeserializeSeed<'b> for DataSeed<'_, 'b, F> {
    type Value = Option<Data>;

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'b, F: FnMut(Series<'_, 'b>)> Visitor<'b> for DataSeed<'_, 'b, F> {
    type Value = Option<Data>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("data with resultType and result")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut data = Data { stated: None, result: None };
        while let Some(key) = map.next_key_seed(TextSeed)? {
            match &*key {
                "resultType" => data.stated = Some(map.next_value_seed(TextSeed)?.into_owned()),
                "result" => {
                    if data.result.is_some() {
                        return Err(A::Error::duplicate_field("result"));
                    }
                    data.result = Some(map.next_value_seed(ResultSeed(&mut *self.0))?);
                }
                _ => skip(&mut map)?,
            }
        }
        Ok(Some(data))
    }
}

struct ResultSeed<'r, 'b, F>(&'r mut Reader<'b, F>);

impl<'b, F: FnMut(Series<'_, 'b>)> DeserializeSeed<'b> for ResultSeed<'_, 'b, F> {
    type Value = Contents;

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Contents, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'b, F: FnMut(Series<'_, 'b>)> Visitor<'b> for ResultSeed<'_, 'b, F> {
    type Value = Contents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    // Backends differ on how they write a result without series.
    fn visit_unit<E: serde::de::Error>(self) -> Result<Contents, E> {
        Ok(Contents::Nothing)
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut seq: A) -> Result<Contents, A::Error> {
        let mut contents = Contents::Nothing;
        while let Some(held) = seq.next_element_seed(ElementSeed(&mut *self.0))? {
            match contents {
                Contents::Nothing => contents = held,
                same if same == held => {}
                _ => return Err(A::Error::custom("the result mixes several forms")),
            }
        }
        Ok(contents)
    }
}

/// An element of the result: a series, or half of a bare number.
struct ElementSeed<'r, 'b, F>(&'r mut Reader<'b, F>);

impl<'b, F: FnMut(Series<'_, 'b>)> DeserializeSeed<'b> for ElementSeed<'_, 'b, F> {
    type Value = Contents;

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Contents, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'b, F: FnMut(Series<'_, 'b>)> Visitor<'b> for ElementSeed<'_, 'b, F> {
    type Value = Contents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series")
    }

    fn visit_f64<E>(self, _: f64) -> Result<Contents, E> {
        Ok(Contents::Bare)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Contents, E> {
        Ok(Contents::Bare)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Contents, E> {
        Ok(Contents::Bare)
    }

    fn visit_str<E>(self, _: &str) -> Result<Contents, E> {
        Ok(Contents::Bare)
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Contents, A::Error> {
        let reader = self.0;
        if reader.summary.series == reader.limits.series {
            let limit = reader.limits.series;
            return Err(reader.fail(DecodeError::TooManySeries { limit }));
        }
        reader.labels.clear();
        reader.points.clear();
        let mut refused = Refused::default();
        let mut shape = None;
        while let Some(key) = map.next_key_seed(TextSeed)? {
            match &*key {
                "metric" => map.next_value_seed(LabelsSeed(&mut *reader))?,
                "value" => {
                    shape.get_or_insert(Shape::Vector);
                    let read = map.next_value_seed(PointSeed)?;
                    reader.take(read, &mut refused)?;
                }
                "values" => {
                    shape.get_or_insert(Shape::Matrix);
                    map.next_value_seed(PointsSeed(&mut *reader, &mut refused))?;
                }
                "histogram" => {
                    shape.get_or_insert(Shape::Vector);
                    refused.histograms += 1;
                    skip(&mut map)?;
                }
                "histograms" => {
                    shape.get_or_insert(Shape::Matrix);
                    refused.histograms += 1;
                    skip(&mut map)?;
                }
                _ => skip(&mut map)?,
            }
        }
        let shape = shape.ok_or_else(|| A::Error::custom("a series without value or values"))?;
        reader.finish_series(refused);
        Ok(Contents::Series(shape))
    }
}

impl<'b, F: FnMut(Series<'_, 'b>)> Reader<'b, F> {
    fn take<E: serde::de::Error>(&mut self, read: Read, refused: &mut Refused) -> Result<(), E> {
        if self.total == self.limits.points {
            let limit = self.limits.points;
            return Err(self.fail(DecodeError::TooManyPoints { limit }));
        }
        self.total += 1;
        match read {
            Read::Point(point) => self.points.push(point),
            Read::NotFinite => refused.not_finite += 1,
            Read::OutOfRange => refused.out_of_range += 1,
            Read::Unreadable => refused.unreadable += 1,
        }
        Ok(())
    }
}

struct LabelsSeed<'r, 'b, F>(&'r mut Reader<'b, F>);

impl<'b, F: FnMut(Series<'_, 'b>)> DeserializeSeed<'b> for LabelsSeed<'_, 'b, F> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'b, F: FnMut(Series<'_, 'b>)> Visitor<'b> for LabelsSeed<'_, 'b, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(TextSeed)? {
            if self.0.labels.len() == self.0.limits.labels {
                let limit = self.0.limits.labels;
                return Err(self.0.fail(DecodeError::TooManyLabels { limit }));
            }
            let value = map.next_value_seed(TextSeed)?;
            self.0.labels.push((key, value));
        }
        Ok(())
    }
}

struct PointsSeed<'r, 'b, F>(&'r mut Reader<'b, F>, &'r mut Refused);

impl<'b, F: FnMut(Series<'_, 'b>)> DeserializeSeed<'b> for PointsSeed<'_, 'b, F> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'b, F: FnMut(Series<'_, 'b>)> Visitor<'b> for PointsSeed<'_, 'b, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of values")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(read) = seq.next_element_seed(PointSeed)? {
            self.0.take(read, self.1)?;
        }
        Ok(())
    }
}

fn skip<'b, A: MapAccess<'b>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// A value as it was written.
#[derive(Clone, Copy)]
enum Read {
    Point(Point),
    NotFinite,
    OutOfRange,
    Unreadable,
}

/// `[1435781451.781, "1.5"]`.
struct PointSeed;

impl<'b> DeserializeSeed<'b> for PointSeed {
    type Value = Read;

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Read, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'b> Visitor<'b> for PointSeed {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time and a value")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut seq: A) -> Result<Read, A::Error> {
        let seconds: f64 = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let value = seq.next_element_seed(ValueSeed)?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        let Some(at) = moment(seconds) else { return Ok(Read::Unreadable) };
        Ok(match value {
            Ok(value) => Read::Point(Point { at, value }),
            Err(QuantityError::NotFinite { .. }) => Read::NotFinite,
            Err(QuantityError::OutOfRange { .. }) => Read::OutOfRange,
            Err(QuantityError::Empty | QuantityError::NotANumber { .. }) => Read::Unreadable,
        })
    }
}

/// Prometheus writes times as seconds with up to three decimals, which a double holds exactly enough.
fn moment(seconds: f64) -> Option<Timestamp> {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be far inside the range")]
    (seconds.abs() < FARTHEST_SECONDS).then(|| Timestamp::from_millis((seconds * 1000.0).round() as i64))
}

struct ValueSeed;

impl<'b> DeserializeSeed<'b> for ValueSeed {
    type Value = Result<Quantity, QuantityError>;

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for ValueSeed {
    type Value = Result<Quantity, QuantityError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number in quotes")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        // Suffixes such as the k of 5k are Kubernetes' and not Prometheus'.
        let foreign =
            text.ends_with(|c: char| c.is_ascii_alphabetic()) && text.contains(|c: char| c.is_ascii_digit());
        Ok(if foreign { Err(QuantityError::Empty) } else { text.parse() })
    }
}

/// A text, borrowed unless it has escapes.
struct TextSeed;

impl<'b> DeserializeSeed<'b> for TextSeed {
    type Value = Cow<'b, str>;

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'b> Visitor<'b> for TextSeed {
    type Value = Cow<'b, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// How many remarks there are, and the first of them.
struct RemarksSeed;

impl<'b> DeserializeSeed<'b> for RemarksSeed {
    type Value = (usize, Vec<String>);

    fn deserialize<D: serde::Deserializer<'b>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'b> Visitor<'b> for RemarksSeed {
    type Value = (usize, Vec<String>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok((0, Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (mut count, mut kept) = (0, Vec::new());
        while let Some(text) = seq.next_element_seed(TextSeed)? {
            count += 1;
            if kept.len() < KEPT_WARNINGS {
                kept.push(shortened(&text, QUOTED_CHARS));
            }
        }
        Ok((count, kept))
    }
}
