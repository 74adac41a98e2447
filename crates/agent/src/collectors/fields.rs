//! Tables of named numbers (`meminfo`, `numastat`). The kernel writes the same names in the same order every time, so
//! they are kept from one read to the next, and with them the families they go to.

use crate::page::LegalName;
use crate::scan;

/// Fields looked at in one table; kernels write about sixty.
const MAX_FIELDS: usize = 256;

/// A line as it stands in a table: name, value, and whether the value is in bytes (rather than a count).
pub type Line<'t> = (&'t [u8], u64, bool);

/// One line that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As the kernel writes it.
    pub name: String,
    /// The family it goes to under node_exporter's names.
    pub family: LegalName,
    /// Bytes, or a count.
    pub value: u64,
    /// Whether the line said kB.
    pub bytes: bool,
}

/// The lines of a table, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    lines: Vec<Field>,
}

/// Reads a line such as `MemTotal:  1024 kB`.
pub fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let colon = line.iter().position(|&b| b == b':')?;
    let name = Some(scan::trimmed(&line[..colon])).filter(|name| !name.is_empty())?;
    let mut fields = scan::fields(&line[colon + 1..]);
    let value = scan::number(fields.next()?)?;
    match fields.next() {
        Some(b"kB") => Some((name, value.checked_mul(1024)?, true)),
        None => Some((name, value, false)),
        Some(_) => None,
    }
}

impl Fields {
    /// Replaces what there is by what was read. `family` names the family of a field from its name, in which
    /// `Active(anon)` is written `Active_anon`.
    pub fn take<'t>(&mut self, read: impl Iterator<Item = Line<'t>>, family: impl Fn(&str, bool) -> String) {
        let mut count = 0;
        for (name, value, bytes) in read.take(MAX_FIELDS) {
            match self.lines.get_mut(count) {
                Some(field) if field.name.as_bytes() == name && field.bytes == bytes => field.value = value,
                known => {
                    let Ok(name) = str::from_utf8(name) else { continue };
                    let clean = name.trim_end_matches(')').replace('(', "_");
                    let family = LegalName::of(&family(&clean, bytes));
                    let field = Field { name: name.to_owned(), family, value, bytes };
                    match known {
                        Some(known) => *known = field,
                        None => self.lines.push(field),
                    }
                }
            }
            count += 1;
        }
        self.lines.truncate(count);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// In the order of the table.
    pub fn lines(&self) -> &[Field] {
        &self.lines
    }

    /// The value of a field; `place` is where to look first, as tables of one kind mostly have the same lines.
    pub fn value_near(&self, place: usize, name: &str) -> Option<u64> {
        let here = self.lines.get(place).filter(|field| field.name == name);
        here.or_else(|| self.lines.iter().find(|field| field.name == name)).map(|field| field.value)
    }

    /// The value of a field.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.value_near(0, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(lines: &[Line<'_>]) -> Fields {
        let mut fields = Fields::default();
        take(&mut fields, lines);
        fields
    }

    fn take(fields: &mut Fields, lines: &[Line<'_>]) {
        fields.take(lines.iter().copied(), |name, bytes| {
            format!("{name}{}", if bytes { "_bytes" } else { "" })
        });
    }

    #[test]
    fn lines_with_and_without_a_unit() {
        assert_eq!(parse_line(b"MemTotal:       16 kB"), Some((&b"MemTotal"[..], 16_384, true)));
        assert_eq!(parse_line(b"HugePages_Total:    3"), Some((&b"HugePages_Total"[..], 3, false)));
        assert_eq!(parse_line(b"MemTotal: 16 MB"), None);
        assert_eq!(parse_line(b"MemTotal 16 kB"), None);
    }

    #[test]
    fn a_field_in_brackets_has_a_legal_family() {
        let fields = table(&[(b"Active(anon)", 7, true)]);
        let families: Vec<&LegalName> = fields.lines().iter().map(|field| &field.family).collect();
        assert_eq!(families, [&LegalName::of("Active_anon_bytes")]);
        assert_eq!(fields.value("Active(anon)"), Some(7));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let lines: Vec<Line<'_>> = scan::lines(&text).filter_map(parse_line).collect();
            take(&mut Fields::default(), &lines);
        }

        #[test]
        fn any_field_reads_back(name in "[A-Za-z_()]{1,20}", kib in 0u64..u64::MAX / 1024) {
            let line = format!("{name}:   {kib} kB");
            prop_assert_eq!(parse_line(line.as_bytes()), Some((name.as_bytes(), kib * 1024, true)));
        }

        #[test]
        fn what_was_there_before_leaves_no_trace(
            before in prop::collection::vec(("[ab]{1,2}", any::<u64>(), any::<bool>()), 0..8),
            after in prop::collection::vec(("[ab]{1,2}", any::<u64>(), any::<bool>()), 0..8),
        ) {
            let [before, after] = [&before, &after].map(|lines| -> Vec<Line<'_>> {
                lines.iter().map(|(name, value, bytes)| (name.as_bytes(), *value, *bytes)).collect()
            });
            let mut fields = table(&before);
            take(&mut fields, &after);
            prop_assert_eq!(fields, table(&after));
        }
    }
}
