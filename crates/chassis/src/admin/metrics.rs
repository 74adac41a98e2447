//! The counters of our servers as metric families.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::counters::{Counter, Counters};

/// The servers of a process, each under its own value of the label `server`. Register it as a collector.
#[derive(Debug, Default)]
pub struct ServerMetrics {
    servers: Vec<(&'static str, Arc<Counters>)>,
    #[cfg(feature = "tls")]
    certificates: Vec<(&'static str, Arc<crate::tls::Live>)>,
}

impl ServerMetrics {
    /// Adds a server.
    #[must_use]
    pub fn with(mut self, server: &'static str, counters: Arc<Counters>) -> Self {
        self.servers.push((server, counters));
        self
    }

    /// Adds the certificate of a server.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_certificate(mut self, server: &'static str, live: Arc<crate::tls::Live>) -> Self {
        self.certificates.push((server, live));
        self
    }
}

/// Name, help, and where the number is.
type CounterFamily = (&'static str, &'static str, fn(&Counters) -> &Counter);

const COUNTERS: [CounterFamily; 10] = [
    ("server_connections_accepted", "Connections taken on.", |c| &c.accepted),
    (
        "server_connections_refused",
        "Connections closed at once because all others were being answered.",
        |c| &c.refused,
    ),
    ("server_connections_displaced", "Connections that did nothing and gave way to new ones.", |c| {
        &c.displaced
    }),
    ("server_connections_cut", "Connections cut because the drain deadline passed.", |c| &c.cut),
    ("server_accept_errors", "Failed attempts to accept a connection.", |c| &c.accept_errors),
    ("server_requests", "Requests handed to the service.", |c| &c.requests),
    ("server_panics", "Requests or connections that ended in a defect of ours.", |c| &c.panics),
    ("server_header_deadlines_missed", "Connections closed because headers came too slowly.", |c| {
        &c.header_deadlines
    }),
    ("server_idle_deadlines_missed", "Connections closed after idling.", |c| &c.idle_deadlines),
    (
        "server_stall_deadlines_missed",
        "Connections closed because the caller did not read its answer.",
        |c| &c.stall_deadlines,
    ),
];

impl Collector for ServerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (name, help, counter) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (server, counters) in &self.servers {
                let value = ConstCounter::new(counter(counters).value());
                value.encode(family.encode_family(&[("server", *server)])?)?;
            }
        }
        let open = ("server_connections_open", "Connections open now.");
        let mut family = encoder.encode_descriptor(open.0, open.1, None, MetricType::Gauge)?;
        for (server, counters) in &self.servers {
            let value = ConstGauge::new(i64::try_from(counters.open()).unwrap_or(i64::MAX));
            value.encode(family.encode_family(&[("server", *server)])?)?;
        }
        #[cfg(feature = "tls")]
        self.encode_tls(&mut encoder)?;
        Ok(())
    }
}

#[cfg(feature = "tls")]
impl ServerMetrics {
    fn encode_tls(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if self.certificates.is_empty() {
            return Ok(());
        }
        let failures = ("server_handshake_failures", "Failed TLS handshakes by reason.");
        let mut family = encoder.encode_descriptor(failures.0, failures.1, None, MetricType::Counter)?;
        for (server, counters) in &self.servers {
            if !self.certificates.iter().any(|(name, _)| name == server) {
                continue;
            }
            for kind in crate::counters::HandshakeFailure::ALL {
                let value = ConstCounter::new(counters.handshake_failures(kind).value());
                value.encode(family.encode_family(&[("server", *server), ("reason", kind.label())])?)?;
            }
        }
        let reloads = ("certificate_reloads", "New certificate files, by whether they could be used.");
        let mut family = encoder.encode_descriptor(reloads.0, reloads.1, None, MetricType::Counter)?;
        for (server, live) in &self.certificates {
            for (outcome, counter) in [("used", &live.reloads), ("bad", &live.reload_failures)] {
                let value = ConstCounter::new(counter.value());
                value.encode(family.encode_family(&[("server", *server), ("outcome", outcome)])?)?;
            }
        }
        let expiry = (
            "certificate_expiry_timestamp_seconds",
            "When the certificate in use ends, in seconds since 1970.",
        );
        let mut family = encoder.encode_descriptor(expiry.0, expiry.1, None, MetricType::Gauge)?;
        for (server, live) in &self.certificates {
            ConstGauge::new(live.expires_at()).encode(family.encode_family(&[("server", *server)])?)?;
        }
        Ok(())
    }
}
