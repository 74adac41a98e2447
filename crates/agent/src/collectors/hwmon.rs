//! Temperatures, power meters, energy and fans from `/sys/class/hwmon`.

use std::path::{Path, PathBuf};

use crate::collectors::Collector;
use crate::collectors::listing::{Listing, Reading, read_each};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host};
use crate::moment::Moment;
use crate::page::{Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/sys/class/hwmon/hwmon*/{temp,power,energy,fan}*";
/// Chips looked at.
const MAX_CHIPS: usize = 128;
/// Sensors looked at over all chips.
pub const MAX_SENSORS: usize = 2048;

const fn node(family: Family, source: &'static str) -> Family {
    family.labels("chip, sensor").source(source).peers("node_exporter hwmon")
}

static TEMPERATURE: Family = node(
    Family::gauge(NameSet::Node, "node_hwmon_temp_celsius", "celsius", "Temperature of a sensor."),
    "/sys/class/hwmon/hwmon*/temp*_input",
);
static TEMPERATURE_MAX: Family = node(
    Family::gauge(
        NameSet::Node,
        "node_hwmon_temp_max_celsius",
        "celsius",
        "Temperature the sensor calls high.",
    ),
    "/sys/class/hwmon/hwmon*/temp*_max",
);
static TEMPERATURE_CRITICAL: Family = node(
    Family::gauge(
        NameSet::Node,
        "node_hwmon_temp_crit_celsius",
        "celsius",
        "Temperature the sensor calls critical.",
    ),
    "/sys/class/hwmon/hwmon*/temp*_crit",
);
static POWER: Family = node(
    Family::gauge(NameSet::Node, "node_hwmon_power_watt", "watts", "Power at this moment."),
    "/sys/class/hwmon/hwmon*/power*_input",
);
static POWER_MEAN: Family = node(
    Family::gauge(
        NameSet::Node,
        "node_hwmon_power_average_watt",
        "watts",
        "Power, mean over the meter's own interval.",
    ),
    "/sys/class/hwmon/hwmon*/power*_average",
);
static ENERGY: Family = node(
    Family::counter(NameSet::Node, "node_hwmon_energy_joule_total", "joules", "Energy used so far."),
    "/sys/class/hwmon/hwmon*/energy*_input",
);
static FAN: Family = node(
    Family::gauge(NameSet::Node, "node_hwmon_fan_rpm", "revolutions per minute", "Speed of a fan."),
    "/sys/class/hwmon/hwmon*/fan*_input",
);
static CHIP_NAMES: Family =
    Family::gauge(NameSet::Node, "node_hwmon_chip_names", "", "What the driver calls the chip; always 1.")
        .labels("chip, chip_name")
        .source("/sys/class/hwmon/hwmon*/name")
        .peers("node_exporter hwmon");
static LABELS: Family =
    Family::gauge(NameSet::Node, "node_hwmon_sensor_label", "", "What the board calls the sensor; always 1.")
        .labels("chip, sensor, label")
        .source("/sys/class/hwmon/hwmon*/*_label")
        .peers("node_exporter hwmon");
static METER: Family = Family::gauge(
    NameSet::Tas,
    "node_power_meter_watts",
    "watts",
    "Power as a meter on the board sees it (an ACPI power meter sees the whole server).",
)
.labels("chip_name, chip, sensor")
.source("/sys/class/hwmon/hwmon*/power*_{average,input}")
.peers("node_hwmon_power_average_watt, node_hwmon_power_watt");
static HEADROOM: Family = Family::gauge(
    NameSet::Tas,
    "node_temperature_headroom_celsius",
    "celsius",
    "Degrees left until the sensor of the chip that is nearest to critical gets there.",
)
.labels("chip_name, chip")
.source("/sys/class/hwmon/hwmon*/temp*_{input,crit}");
static FAMILIES: [&Family; 11] = [
    &TEMPERATURE,
    &TEMPERATURE_MAX,
    &TEMPERATURE_CRITICAL,
    &POWER,
    &POWER_MEAN,
    &ENERGY,
    &FAN,
    &CHIP_NAMES,
    &LABELS,
    &METER,
    &HEADROOM,
];

/// What a sensor file measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Temperature,
    Power,
    PowerMean,
    Energy,
    Fan,
}

/// A file name such as `temp1_input`: what it measures, and the sensor's name `temp1`.
fn quantity(file: &str) -> Option<(Quantity, &str)> {
    let (sensor, property) = file.split_once('_')?;
    let kind = sensor.trim_end_matches(|c: char| c.is_ascii_digit());
    if kind.len() == sensor.len() {
        return None;
    }
    let quantity = match (kind, property) {
        ("temp", "input") => Quantity::Temperature,
        ("power", "input") => Quantity::Power,
        ("power", "average") => Quantity::PowerMean,
        ("energy", "input") => Quantity::Energy,
        ("fan", "input") => Quantity::Fan,
        _ => return None,
    };
    Some((quantity, sensor))
}

struct Sensor {
    quantity: Quantity,
    chip: usize,
    name: String,
    label: Option<Vec<u8>>,
    value: Reading<i64>,
    max: Option<i64>,
    critical: Option<i64>,
}

struct Chip {
    id: String,
    /// What the driver calls it, cleaned as node_exporter does; empty if it says nothing.
    name: String,
}

#[derive(Default)]
struct Board {
    chips: Vec<Chip>,
    sensors: Vec<Sensor>,
}

/// The collector.
pub struct Hwmon {
    host: Host,
    board: Listing<Board>,
}

fn list(host: &Host, buffer: &mut Buffer) -> Result<Board, Trouble> {
    let found = host::numbered(&host.path("sys/class/hwmon"), "hwmon")?.into_iter().take(MAX_CHIPS);
    let places: Vec<Place> = found
        .map(|(number, directory)| {
            let name = host::read_once(&directory.join("name"), buffer).map(String::from_utf8_lossy);
            let name = clean(&name.unwrap_or_default());
            Place { number, device: device_name(&directory, &name), name, directory }
        })
        .collect();
    let mut board = Board::default();
    for place in &places {
        board.chips.push(Chip { id: place.chip_id(&places), name: place.name.clone() });
        // Old drivers keep their files in the device's directory.
        for directory in [&place.directory, &place.directory.join("device")] {
            board.list_sensors(host, directory, buffer);
        }
    }
    Ok(board)
}

/// Where a chip was found.
struct Place {
    number: u32,
    directory: PathBuf,
    /// The device it sits on, which it may share.
    device: String,
    name: String,
}

impl Place {
    /// The name node_exporter gives the chip: its device, and where several sit on that, what tells them apart. The
    /// driver's name does so from boot to boot, the number only if the drivers are loaded in the same order.
    fn chip_id(&self, all: &[Self]) -> String {
        let neighbours = || all.iter().filter(|other| other.device == self.device);
        if neighbours().count() == 1 {
            self.device.clone()
        } else if !self.name.is_empty() && neighbours().filter(|other| other.name == self.name).count() == 1 {
            format!("{}_{}", self.device, self.name)
        } else {
            format!("{}_hwmon{}", self.device, self.number)
        }
    }
}

impl Board {
    /// Adds the sensors in a directory of the last chip.
    fn list_sensors(&mut self, host: &Host, directory: &Path, buffer: &mut Buffer) {
        let chip = self.chips.len() - 1;
        for file in host::names_in(directory).unwrap_or_default() {
            let Some((quantity, name)) = quantity(&file) else { continue };
            let known = self.sensors.iter().rev().take_while(|s| s.chip == chip);
            let twice = known.into_iter().any(|s| s.quantity == quantity && s.name == name);
            if twice || self.sensors.len() == MAX_SENSORS {
                continue;
            }
            let mut limit = |property: &str| {
                let path: PathBuf = directory.join(format!("{name}_{property}"));
                scan::lone_signed(host::read_once(&path, buffer).ok()?)
            };
            let (max, critical) = match quantity {
                Quantity::Temperature => (limit("max"), limit("crit")),
                _ => (None, None),
            };
            let label = host::read_once(&directory.join(format!("{name}_label")), buffer);
            let label = label.ok().map(|text| scan::trimmed(text).to_vec());
            let value = Reading::new(host.attribute(directory.join(&file)), scan::lone_signed);
            let name = name.to_owned();
            self.sensors.push(Sensor { quantity, chip, name, label, value, max, critical });
        }
    }

    fn samples(&self, page: &mut Page, family: &'static Family, of: impl Fn(&Sensor) -> Option<Value>) {
        if !page.family(family) {
            return;
        }
        for sensor in &self.sensors {
            if let Some(value) = of(sensor) {
                let chip = &self.chips[sensor.chip];
                page.sample(&[("chip", chip.id.as_bytes()), ("sensor", sensor.name.as_bytes())], value);
            }
        }
    }
}

impl Hwmon {
    /// Chips of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), board: Listing::default() }
    }
}

/// A chip's bus and device, else what the driver says.
fn device_name(directory: &Path, name: &str) -> String {
    let device = directory.join("device").canonicalize().ok();
    let part = |path: Option<&Path>| {
        path.and_then(Path::file_name)
            .map(|name| clean(&name.to_string_lossy()))
            .filter(|name| !name.is_empty())
    };
    let own = part(device.as_deref());
    let bus = part(device.as_deref().and_then(Path::parent));
    match (bus, own) {
        (Some(bus), Some(own)) => format!("{bus}_{own}"),
        (None, Some(own)) => own,
        _ if name.is_empty() => part(Some(directory)).unwrap_or_default(),
        _ => name.to_owned(),
    }
}

fn clean(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == ':' { c.to_ascii_lowercase() } else { '_' };
    name.trim().chars().map(legal).collect::<String>().trim_matches('_').to_owned()
}

/// A value in steps of 10^-decimals, if the sensor measures `quantity`.
fn measured(sensor: &Sensor, quantity: Quantity, decimals: u8) -> Option<Value> {
    (sensor.quantity == quantity).then_some(Value::Signed(sensor.value.now?, decimals))
}

impl Collector for Hwmon {
    fn source(&self) -> &'static str {
        "hwmon"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.board.refresh(now, || list(&self.host, buffer))?;
        let sensors = &mut self.board.found_mut().sensors;
        read_each(sensors, || self.host.path(SOURCE), |sensor| sensor.value.take(buffer))
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        let board = self.board.found();
        board.samples(page, &TEMPERATURE, |s| measured(s, Quantity::Temperature, 3));
        board.samples(page, &TEMPERATURE_MAX, |s| Some(Value::Signed(s.max?, 3)));
        board.samples(page, &TEMPERATURE_CRITICAL, |s| Some(Value::Signed(s.critical?, 3)));
        board.samples(page, &POWER, |s| measured(s, Quantity::Power, 6));
        board.samples(page, &POWER_MEAN, |s| measured(s, Quantity::PowerMean, 6));
        board.samples(page, &ENERGY, |s| match measured(s, Quantity::Energy, 6)? {
            Value::Signed(steps, decimals) => Some(Value::Fixed(u64::try_from(steps).ok()?, decimals)),
            value => Some(value),
        });
        board.samples(page, &FAN, |s| measured(s, Quantity::Fan, 0));
        page.family(&CHIP_NAMES);
        for chip in board.chips.iter().filter(|chip| !chip.name.is_empty()) {
            page.sample(
                &[("chip", chip.id.as_bytes()), ("chip_name", chip.name.as_bytes())],
                Value::Count(1),
            );
        }
        page.family(&LABELS);
        for sensor in &board.sensors {
            if let Some(label) = &sensor.label {
                let chip = board.chips[sensor.chip].id.as_bytes();
                page.sample(
                    &[("chip", chip), ("sensor", sensor.name.as_bytes()), ("label", label)],
                    Value::Count(1),
                );
            }
        }
        page.family(&METER);
        // Sensors are listed with the mean before the momentary value; the page takes the first of a name.
        for quantity in [Quantity::PowerMean, Quantity::Power] {
            for sensor in &board.sensors {
                if let Some(value) = measured(sensor, quantity, 6) {
                    let chip = &board.chips[sensor.chip];
                    let labels: [(&str, &[u8]); 3] = [
                        ("chip_name", chip.name.as_bytes()),
                        ("chip", chip.id.as_bytes()),
                        ("sensor", sensor.name.as_bytes()),
                    ];
                    page.sample(&labels, value);
                }
            }
        }
        page.family(&HEADROOM);
        for (number, chip) in board.chips.iter().enumerate() {
            let of_chip = board.sensors.iter().filter(|sensor| sensor.chip == number);
            // 0 is what boards write where there is no critical point.
            let left = of_chip.filter_map(|s| s.critical.filter(|&c| c > 0)?.checked_sub(s.value.now?)).min();
            if let Some(left) = left {
                page.sample(
                    &[("chip_name", chip.name.as_bytes()), ("chip", chip.id.as_bytes())],
                    Value::Signed(left, 3),
                );
            }
        }
    }

    fn found(&self) -> String {
        let sensors = &self.board.found().sensors;
        let count =
            |quantity| sensors.iter().filter(|s| s.quantity == quantity && s.value.now.is_some()).count();
        let meters = count(Quantity::Power) + count(Quantity::PowerMean);
        format!("{} temperatures, {meters} power readings", count(Quantity::Temperature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_tell_what_they_measure() {
        assert_eq!(quantity("temp1_input"), Some((Quantity::Temperature, "temp1")));
        assert_eq!(quantity("power12_average"), Some((Quantity::PowerMean, "power12")));
        for other in ["temp1_label", "temp_input", "name", "uevent", "power1_average_interval", "in0_input"] {
            assert_eq!(quantity(other), None, "{other}");
        }
    }

    #[test]
    fn chip_names_are_cleaned_as_node_exporter_does() {
        assert_eq!(clean(" coretemp.0 \n"), "coretemp_0");
        assert_eq!(clean("0000:03:00.0"), "0000:03:00_0");
        assert_eq!(clean("__"), "");
    }
}
